"""`grapnel listen` forwards the deliveries of a pull endpoint to a local service, also from a machine
without configuration, and leaves nothing behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, program, wait_for


class Listen(RigTest):
    def pull_rig(self, **endpoint):
        rig = self.rig(console=True)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull", **endpoint}]
        rig.write_config()
        rig.start()
        made, code = rig.cli("tokens", "create", "laptop", "--role", "operator")
        self.assertEqual(code, 0, made)
        self.token = rig.folder / "laptop" / "token"
        self.token.parent.mkdir()
        self.token.write_text(made["token"] + "\n")
        return rig

    def listen(self, rig, *options, token=True):
        """As on another machine: without a configuration."""
        child = subprocess.Popen(
            [program("grapnel"), "listen", "jobs", "--console",
             f"http://127.0.0.1:{rig.console_port}",
             *(["--token", f"file:{self.token}"] if token else []), *options],
            cwd=self.token.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("GRAPNEL_")})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def end(self, child):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 0, err)
        return out, err

    def test_each_delivery_is_forwarded_as_a_request_of_grapnel(self):
        rig = self.pull_rig(signing_secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"), "--json")
        bodies = [rig.plane_body() for _ in range(3)]
        events = [rig.accept(b) for b in bodies]
        for event, body in zip(events, bodies):
            got, = rig.receiver.wait(event, path="/local")
            self.assertEqual(got.headers["grapnel-type"], "issue.updated")
            self.assertIn("webhook-signature", got.headers)
            self.assertEqual(got.headers["content-length"], str(len(body)))
            rig.wait_status(event)
        out, _ = self.end(child)
        shown = [json.loads(line) for line in out.splitlines() if line]
        self.assertEqual([(s["event_id"], s["http_status"]) for s in shown],
                         [(e, 200) for e in events])

    def test_failures_are_shown_and_come_again(self):
        rig = self.pull_rig()
        rig.receiver.rules({"path": "/local", "responses": [{"status": 503}, {"status": 200}]})
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"), "--bodies")
        event = rig.accept()
        rig.receiver.wait(event, path="/local", count=2)
        rig.wait_status(event)
        out, err = self.end(child)
        self.assertIn("503", out)
        self.assertIn("attempt 2", out)
        self.assertIn("> webhook-id:", out.lower())
        self.assertIn("Listening", err)

    def test_a_restart_of_the_console_interrupts_it_only(self):
        rig = self.pull_rig()
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"))
        rig.receiver.wait(rig.accept(), path="/local")
        rig["console"].kill()
        event = rig.accept()
        rig["console"].start()
        rig.receiver.wait(event, path="/local")
        rig.wait_status(event)
        _, err = self.end(child)
        self.assertIn("trying again", err)

    def test_what_it_had_taken_is_given_back_at_once(self):
        rig = self.pull_rig()
        rig.receiver.rules({"path": "/local", "responses": [{"action": "blackhole"}]})
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"))
        event = rig.accept()
        wait_for(lambda: rig.rows("deliverer-1", "SELECT 1 FROM taken WHERE state = 0"))
        rig.receiver.wait(event, path="/local")
        self.end(child)
        self.assertEqual(rig.rows("deliverer-1", "SELECT 1 FROM taken WHERE state = 0"), [])

    def test_what_is_wrong_is_said(self):
        rig = self.pull_rig()
        for options, token, words in [((), False, "a token is needed"),
                                      (("--token", "grp_wrong"), False, "token is unknown")]:
            child = self.listen(rig, *options, token=token)
            _, err = child.communicate(timeout=30)
            self.assertNotEqual(child.returncode, 0)
            self.assertIn(words, err)


main(at_once=3)
