"""Which retry policy a delivery has, and what a policy says about one attempt. P2."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main

QUICK = {"backoff": "fixed", "first_wait": "20ms", "jitter": "none",
         "max_attempts": 3}


class Policies(RigTest):
    def start(self, policy, responses, **endpoint):
        rig = self.rig()
        rig.config["retry_policies"] = [{"name": "quick", **QUICK, **policy}]
        rig.config["endpoints"] = [
            rig.endpoint("crm", retry_policy="quick", **endpoint)]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": responses})
        return rig.start()

    def test_a_policys_timeout_replaces_the_endpoints(self):
        """In both directions: shorter than the endpoint's, and longer."""
        rig = self.start({"timeout": "300ms"},
                         [{"action": "blackhole"}, {"status": 200}],
                         timeout="60s", connect_timeout="60s")
        event = rig.accept()
        trace = rig.wait_status(event)
        first, second = trace["deliveries"][0]["attempts"]
        self.assertIsNone(first["http_status"])
        self.assertRegex(first["error"], "(?i)time")
        self.assertEqual(second["http_status"], 200)
        rig.config["retry_policies"][0]["timeout"] = "30s"
        rig.config["endpoints"][0]["timeout"] = "200ms"
        rig.write_config()
        self.assertEqual(rig.cli_text("reload").returncode, 0)
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 900}]})
        event = rig.accept()
        trace = rig.wait_status(event)
        self.assertEqual([a["http_status"] for a in
                          trace["deliveries"][0]["attempts"]], [200])

    def test_a_redirect_is_retried_and_never_followed(self):
        elsewhere = {"status": 302, "headers": {"Location": "/elsewhere"}}
        rig = self.start({"retry_on": ["network", "3xx"]},
                         [{**elsewhere, "times": 2}, {"status": 200}])
        event = rig.accept()
        trace = rig.wait_status(event)
        self.assertEqual([a["http_status"] for a in
                          trace["deliveries"][0]["attempts"]], [302, 302, 200])
        self.assertEqual({r.path for r in rig.receiver.wait(event, 3)}, {"/crm"})


main()
