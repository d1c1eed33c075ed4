"""`grapnel retry-plan` and `grapnel endpoints test` show the effect of a configuration in
advance."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from misbehaver import Authority, Misbehaver
from rig import RigTest, is_signed, main, program


def responds(c):
    while True:
        c.request()
        c.respond(200, "X-Told: yes\r\n", b"thanks")


class EndpointTest(RigTest):
    def test_endpoints_test_sends_a_signed_event_and_prints_the_response(self):
        """P8: a deliverer sends it like any attempt; it is in no history."""
        rig = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("crm", headers={"Authorization": "Bearer hidden"}),
            rig.endpoint("off", enabled=False),
            rig.endpoint("shut", allow_private=False),
            rig.endpoint("ill"), rig.endpoint("moved")]
        rig.write_config()
        rig.start()
        rig.receiver.rules(
            {"path": "/ill", "responses": [{"status": 503, "body": "not today"}]},
            {"path": "/moved", "responses": [
                {"status": 301, "headers": {"Location": "/x"}}]},
            {"path": "/crm", "responses": [
                {"status": 200, "body": "thanks", "headers": {"X-A": "b"}}]})
        told, code = rig.cli("endpoints", "test", "crm")
        self.assertEqual((code, told["verdict"], told["http_status"],
                          told["endpoint"], told["deliverer"]),
                         (0, "delivered", 200, "crm", "deliverer-1"))
        self.assertEqual(told["response"]["body"], "thanks")
        self.assertIn("X-A: b", told["response"]["headers"])
        self.assertGreater(told["timings"]["total_ms"], 0)
        request, = rig.receiver.wait(path="/crm")
        self.assertTrue(is_signed(request))
        self.assertEqual(request.headers["authorization"], "Bearer hidden")
        self.assertEqual(request.headers["grapnel-type"], "grapnel.test")
        self.assertEqual(request.json()["type"], "grapnel.test")
        self.assertEqual(request.id, told["event_id"])
        shown = dict(told["request"]["headers"])
        self.assertEqual(shown["webhook-id"], told["event_id"])
        self.assertNotIn("hidden", str(told))
        with self.subTest("one that is not enabled"):
            self.assertEqual(rig.cli("endpoints", "test", "off")[1], 0)
        for name, verdict, reason, status in (
                ("ill", "retried", None, 503),
                ("moved", "dead", "rejected", 301),
                ("shut", "dead", "blocked_address", None)):
            with self.subTest(name):
                told, code = rig.cli("endpoints", "test", name)
                self.assertEqual((code, told["verdict"], told["reason"],
                                  told["http_status"]),
                                 (1, verdict, reason, status))
        with self.subTest("for people"):
            said = rig.cli_text("endpoints", "test", "crm")
            for word in ("> POST http://", "> webhook-signature: v1,",
                         "< HTTP/1.1 200", "< thanks", "delivered",
                         "first byte"):
                self.assertIn(word, said.stdout)
        with self.subTest("no such endpoint"):
            said = rig.cli_text("endpoints", "test", "cmr")
            self.assertEqual(said.returncode, 1)
            self.assertIn("did you mean crm", said.stderr)
        self.assertEqual(rig.cli("events")[0], [])
        self.assertEqual(rig.rows("deliverer-1", "SELECT * FROM attempts"), [])
        with self.subTest("no deliverer"):
            rig["deliverer-1"].stop()
            said = rig.cli_text("endpoints", "test", "crm")
            self.assertEqual(said.returncode, 69)
            self.assertIn("deliverer", said.stderr)

    def test_endpoints_test_reports_a_timeout(self):
        rig = self.rig()
        rig.config["endpoints"] = [rig.endpoint("hole", timeout="300ms")]
        rig.write_config()
        rig.start()
        rig.receiver.rules({"path": "/hole",
                            "responses": [{"action": "blackhole"}]})
        told, code = rig.cli("endpoints", "test", "hole")
        self.assertEqual((code, told["verdict"], told["error"]),
                         (1, "retried", "no response in time"))

    def test_endpoints_test_fails_at_once_when_its_deliverer_stops(self):
        """The client gets an error at once and does not wait for the timeout."""
        rig = self.rig()
        rig.config["endpoints"] = [rig.endpoint("hole", timeout="60s")]
        rig.write_config()
        rig.start()
        rig.receiver.rules({"path": "/hole",
                            "responses": [{"action": "blackhole"}]})
        asked = subprocess.Popen(
            [program("grapnel"), "-c", str(rig.config_path), "endpoints",
             "test", "hole"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **rig.env})
        rig.receiver.wait(path="/hole")
        rig["deliverer-1"].stop()
        _, error = asked.communicate(timeout=60)
        self.assertEqual(asked.returncode, 1)
        self.assertIn("stopping", error)

    def test_endpoints_test_uses_the_configured_certificates(self):
        """tls: an authority and a client certificate."""
        rig = self.rig()
        ca = Authority(rig.folder / "ca")
        ca.issue("client", "grapnel")
        server = Misbehaver(responds, tls=ca.server("asks", "127.0.0.1",
                                                   ask=True))
        self.addCleanup(server.close)
        tls = {"ca": "file:ca/ca.pem", "certificate": "file:ca/client.pem",
               "key": "file:ca/client.key"}
        rig.config["endpoints"] = [
            rig.endpoint("bank", url=server.url("/hook"), tls=tls,
                         allowed_ports=[server.port]),
            rig.endpoint("stranger", url=server.url("/hook"))]
        rig.write_config()
        rig.start()
        told, code = rig.cli("endpoints", "test", "bank")
        self.assertEqual((code, told["verdict"]), (0, "delivered"), told)
        self.assertGreater(told["timings"]["tls_ms"], 0)
        told, code = rig.cli("endpoints", "test", "stranger")
        self.assertEqual((code, told["verdict"]), (1, "retried"))
        self.assertTrue(told["error"].startswith("TLS: "), told["error"])
        with self.subTest("and by the pipeline"):
            event = rig.accept()
            server.wait(2)
            self.assertEqual(server.requests[1].id, event)
        with self.subTest("a key of another certificate is an error"):
            ca.issue("other", "x")
            rig.config["endpoints"][0]["tls"]["key"] = "file:ca/other.key"
            rig.write_config()
            said = rig.cli_text("check")
            self.assertEqual(said.returncode, 78)
            self.assertIn("tls.key: is not the private key of this certificate",
                          said.stdout + said.stderr)


class RetryPlan(RigTest):
    def test_retry_plan_shows_the_retries_and_the_load_of_a_recovery(self):
        """P9: from the configuration alone, without a pipeline."""
        rig = self.rig()
        rig.write_config()
        plan, code = rig.cli("retry-plan", "omise")
        self.assertEqual((code, plan["policy"], plan["simulation"]),
                         (0, "omise", None))
        self.assertEqual([a["wait_ms"] // 60000 for a in plan["attempts"]],
                         [0, 1, 5, 15, 60, 180, 360, 720, 1440, 2880, 2880])
        self.assertEqual(plan["gives_up"]["reason"], "budget_time")
        plan, _ = rig.cli("retry-plan", "strict", "--simulate", "5000",
                          "--outage", "30s")
        load = plan["simulation"]
        self.assertEqual((load["events"], load["delivered"], load["dead"]),
                         (5000, 5000, 0))
        self.assertEqual(sum(load["load"]), 5000)
        self.assertEqual(load["peak_per_s_without_jitter"], 5000)
        self.assertLess(load["peak_per_s"] * 6, 5000)
        said = rig.cli_text("retry-plan", "strict", "--simulate", "5000",
                            "--outage", "30s")
        for word in ("budget_attempts", "█", "without jitter"):
            self.assertIn(word, said.stdout)
        for wrong, code in ((("strikt",), 1),
                            (("strict", "--simulate", "5"), 64),
                            (("strict", "--simulate", "x", "--outage", "1s"),
                             64),
                            (("strict", "--simulate", "5", "--outage", "1"),
                             64)):
            self.assertEqual(rig.cli_text("retry-plan", *wrong).returncode,
                             code, wrong)


main()
