"""Grapnel with one ingress, sequencer and deliverer, as a pipeline of bench/peers."""
from pipelines.pipeline import Pipeline


class Grapnel(Pipeline):
    name = "Grapnel"

    def __init__(self, in_flight):
        super().__init__(in_flight)
        self.rig.config.pop("retry_policies")  # the built-in policy
        self.rig.config["endpoints"] = [
            self.rig.endpoint("crm", max_in_flight=in_flight)]
        self.rig.write_config()
        self.folder = self.rig.state_dir
        self.url = self.rig.ingress_url("/in/plane")

    def start(self):
        self.rig.start()
        self.processes = list(self.rig.daemons.values())
