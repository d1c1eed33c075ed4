"""Hookaido with its SQLite queue, as a pipeline of bench/peers: ingress verifies the same
HMAC of the body, under the name of its provider `gitea`, and push delivery signs."""
import rig as rigs
from pipelines.pipeline import FromSource, Pipeline

SOURCE = FromSource("https://github.com/nuetzliches/hookaido",
                    "4eebdca3b154c33b412a4034f4375e26caee8f13",
                    {"hookaido": "./cmd/hookaido"})

# max_depth: the default, 10,000, refuses events while a backlog waits. egress: by default,
# only https to public addresses. Logs: no other pipeline logs each request.
CONFIG = """
ingress {{
  listen 127.0.0.1:{port}
}}
admin_api {{
  listen 127.0.0.1:{admin_port}
}}
queue_limits {{
  max_depth 1000000
}}
observability {{
  access_log off
}}
defaults {{
  egress {{
    https_only off
    dns_rebind_protection off
  }}
}}
/in/plane {{
  auth hmac {{
    provider gitea
    secret env:PLANE_SECRET
  }}
  queue {{
    backend sqlite
  }}
  deliver_concurrency {in_flight}
  deliver "{endpoint}" {{
    sign hmac env:SIGNING_SECRET
  }}
}}
"""


class Hookaido(Pipeline):
    name = "Hookaido"
    install = SOURCE.build
    load_options = {"signature_header": "X-Gitea-Signature"}

    @staticmethod
    def versions():
        return f"Hookaido {SOURCE.version()}"

    def __init__(self, in_flight):
        super().__init__(in_flight)
        self.port, self.admin_port = self.rig.ports.take(), self.rig.ports.take()
        self.folder = self.rig.folder / "hookaido"
        self.folder.mkdir()
        self.url = f"http://127.0.0.1:{self.port}/in/plane"

    def start(self):
        config = self.rig.folder / "Hookaidofile"
        config.write_text(CONFIG.format(
            port=self.port, admin_port=self.admin_port, in_flight=self.in_flight,
            endpoint=self.rig.receiver.url("/crm")))
        server = self.part(
            "hookaido", SOURCE.program("hookaido"), "run", "--config", config,
            "--db", self.folder / "hookaido.db", "--log-level", "warn",
            SIGNING_SECRET=rigs.SIGNING_SECRET)
        rigs.wait_for(lambda: self.responds(server, self.admin_port, "/healthz"),
                      what="Hookaido to be up")
        self.processes = [server]
