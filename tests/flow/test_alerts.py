"""Alerts: each notifier is sent each alert once when it fires and once when it ends,
even if a process was down meanwhile."""

import base64
import json
import pathlib
import socketserver
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import SIGNING_SECRET, RigTest, is_signed, main, wait_for

# Nothing but what a test is about.
BUILT_IN = ["dlq-warning", "dlq-critical", "dlq_growth_rate", "dlq_expiring",
            "webhook_backlog", "webhook_delivery_failure_rate",
            "webhook_retry_failure_rate", "high_e2e_latency", "sequence_gaps",
            "lanes_halted", "endpoint_disabled", "endpoint_held",
            "endpoint_failing", "endpoint_waiting",
            "high_duplicate_rate", "signature_failures", "process_silent",
            "unusual_silence", "dead_letter", "new_refusal", "status_mix",
            "disk_low", "damaged_data", "standby_not_ready", "standby_behind", "active_alone",
            "log_unreachable", "engine_slow"]


def only(*rules):
    """`alerts`: these, and none of those that are built in."""
    off = [{"name": n, "when": "dead_letters", "above": 0, "enabled": False}
           for n in BUILT_IN]
    return [*off, *rules]


class Mails(socketserver.ThreadingTCPServer):
    """A mail server that keeps what it gets."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, port):
        self.mails = []
        super().__init__(("127.0.0.1", port), Mail)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Mail(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        self.say("220 rig")
        mail = {"to": []}
        while line := self.rfile.readline().decode().strip():
            word = line.split(":")[0].upper()
            if word == "MAIL FROM":
                mail["from"] = line.split(":")[1]
            if word == "RCPT TO":
                mail["to"].append(line.split(":")[1])
            if word == "DATA":
                self.say("354 go on")
                mail["lines"] = list(iter(
                    lambda: self.rfile.readline().decode().rstrip("\r\n"), "."))
                self.server.mails.append(mail)
            self.say("221 bye" if word == "QUIT" else "250 ok")
            if word == "QUIT":
                return


class Alerts(RigTest):
    def with_alerts(self, rules, notifiers=None, **more):
        rig = self.rig({"alerts": only(*rules), **more}, console=True)
        rig.config["notifiers"] = notifiers if notifiers is not None else [
            {"name": "ops", "webhook": rig.receiver.url("/ops"),
             "allow_private": True, "signing_secrets": [SIGNING_SECRET]}]
        rig.write_config()
        rig.receiver.rules({"path": "/ops", "responses": [{"status": 200}]},
                           {"path": "/crm", "responses": [{"status": 400}]})
        return rig.start()

    def told(self, rig, path="/ops"):
        """Bodies that a webhook took, each once."""
        return list({r.id: r.json() for r in rig.receiver.requests(path)
                     if r.delivered}.values())

    def kill_events(self, rig, n):
        events = [rig.accept(rig.plane_body("ws-1")) for _ in range(n)]
        wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] >= n)
        return events

    def settle(self, rig):
        """Two more judgements and all that they cause."""
        def frames():
            return rig.number("grapnel_console_frames_total") or 0

        seen = frames()
        wait_for(lambda: frames() > seen + 30 and
                 rig.number("grapnel_notifications_waiting") == 0)

    def test_an_alert_is_sent_once_when_it_fires_and_once_when_it_ends(self):
        rig = self.with_alerts([{"name": "dlq", "when": "dead_letters",
                                 "above": 2, "severity": "critical"}])
        self.kill_events(rig, 3)
        first = rig.receiver.wait(path="/ops")[0]
        self.assertTrue(is_signed(first))
        body = first.json()
        [alert] = body["alerts"]
        self.assertEqual(
            {k: alert[k] for k in ["name", "when", "severity", "state", "value",
                                   "above"]},
            {"name": "dlq", "when": "dead_letters", "severity": "critical",
             "state": "firing", "value": 3, "above": 2})
        self.assertIn("dlq", body["text"])
        self.assertIn(": 3 (above 2)", body["text"])
        # A restart, orderly or not, tells nobody anything.
        self.settle(rig)
        rig["console"].restart()
        self.settle(rig)
        self.assertEqual(len(self.told(rig)), 1)
        [listed], code = rig.cli("alerts")
        self.assertEqual((listed["state"], listed["name"], code),
                         ("firing", "dlq", 0))
        for dead_letter in rig.cli("dlq")[0]:
            rig.cli("dlq", "discard", dead_letter["id"], "--note", "test")
        wait_for(lambda: len(self.told(rig)) == 2)
        [alert] = self.told(rig)[1]["alerts"]
        self.assertEqual((alert["name"], alert["state"]), ("dlq", "resolved"))
        self.settle(rig)
        self.assertEqual(len(self.told(rig)), 2)
        [listed], _ = rig.cli("alerts")
        self.assertEqual(listed["state"], "resolved")

    def test_a_notifier_that_is_down_blocks_no_other_and_gets_alerts_later(self):
        rig = self.with_alerts([{"name": "dlq", "when": "dead_letters",
                                 "above": 0}])
        rig.config["notifiers"].append(
            {"name": "other", "webhook": rig.receiver.url("/other"),
             "allow_private": True})
        rig.write_config()
        rig.receiver.rules(
            {"path": "/ops", "responses": [{"status": 500, "times": 2},
                                         {"status": 200}]},
            {"path": "/crm", "responses": [{"status": 400}]},
            {"path": "/other", "responses": [{"status": 200}]})
        rig.cli("reload")
        self.kill_events(rig, 1)
        rig.receiver.wait(path="/other")
        rig.receiver.wait(path="/ops")
        rig["console"].restart()  # what is still to be told outlives it
        wait_for(lambda: self.told(rig), timeout=60)
        requests = rig.receiver.requests("/ops")
        self.assertEqual(len({r.id for r in requests}), 1)
        self.assertEqual(len({r.body for r in requests}), 1)

    def test_each_dead_letter_is_reported_once_though_processes_were_down(self):
        rig = self.with_alerts([{"name": "each", "when": "dead_letter"}])
        wait_for(lambda: rig.rows("console", "SELECT value FROM cursors"))
        events = self.kill_events(rig, 3)
        rig.receiver.wait(path="/ops")
        rig["console"].kill()
        events += self.kill_events(rig, 4)
        rig["dlqd"].kill()
        rig["console"].start()
        self.settle(rig)
        rig["dlqd"].start()

        def dead_letters():
            return [dead_letter for body in self.told(rig)
                    for alert in body["alerts"] for dead_letter in alert["dead_letters"]]

        wait_for(lambda: len(dead_letters()) >= len(events))
        self.settle(rig)
        self.assertEqual(sorted(l["event_id"] for l in dead_letters()),
                         sorted(events))
        alert = self.told(rig)[0]["alerts"][0]
        self.assertEqual((alert["endpoint"], alert["reason"]),
                         ("crm", "rejected"))
        self.assertIn("400", alert["summary"])

    def test_dead_letters_from_before_the_console_started_are_reported(self):
        """With a new console.db, those of the last day."""
        rig = self.rig({"alerts": only({"name": "each", "when": "dead_letter"}),
                        "notifiers": [{"name": "ops", "allow_private": True,
                                       "webhook": "http://127.0.0.1:1/"}]},
                       console=True)
        rig.config["notifiers"][0]["webhook"] = rig.receiver.url("/ops")
        rig.write_config()
        rig.receiver.rules({"path": "/ops", "responses": [{"status": 200}]},
                           {"path": "/crm", "responses": [{"status": 400}]})
        rig.start("ingress", "sequencer", "dlqd", "deliverer-1")
        events = self.kill_events(rig, 2)
        rig["dlqd"].stop()
        rig.change("dlqd", "UPDATE history SET at_ms = at_ms - 90000000 "
                   "WHERE n = (SELECT min(n) FROM history)")
        rig.start("dlqd", "console")
        rig.receiver.wait(path="/ops")
        self.settle(rig)
        told = [dead_letter["event_id"] for body in self.told(rig)
                for alert in body["alerts"] for dead_letter in alert["dead_letters"]]
        self.assertEqual(len(told), 1)
        self.assertIn(told[0], events)

    def test_dead_letters_that_are_sent_again_do_not_count_as_new(self):
        """The sequencer sends them again to a dlqd that was restored, or that has
        lost its database."""
        rig = self.with_alerts([{"name": "growth", "when": "dead_letter_growth",
                                 "above": 4, "window": "1h"}])
        copy = rig.folder / "copy"
        self.assertEqual(rig.cli("backup", str(copy))[1], 0)
        self.kill_events(rig, 3)
        for restored in True, False:
            with self.subTest(restored=restored):
                rig["dlqd"].stop()
                if restored:
                    self.assertEqual(
                        rig.cli_text("restore", str(copy), "dlqd").returncode, 0)
                else:
                    for path in rig.state_dir.glob("dlqd.db*"):
                        path.unlink()
                dead = len(rig.rows("sequencer", "SELECT 1 FROM dead_letters"))
                rig["dlqd"].start()
                wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] == dead,
                         what=f"{dead} dead letters to come again")
                rig.accept()
                wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] == dead + 1)
                numbers = rig.ask("dlqd", "status")["metrics"]
                self.assertEqual(numbers["grapnel_dlqd_received_total"], 1)
        self.settle(rig)
        self.assertEqual(rig.cli("alerts")[0], [])

    def test_an_alert_has_its_rule_s_name_and_its_present_value(self):
        rig = self.with_alerts(
            [{"name": "dlq-more", "when": "dead_letters", "above": 0},
             {"name": "dlq", "when": "dead_letters", "above": 0}])
        rig.receiver.rules({"path": "/ops", "responses": [{"status": 500}]},
                           {"path": "/crm", "responses": [{"status": 400}]})
        wait_for(lambda: rig.number("grapnel_up", process="dlqd"))
        self.kill_events(rig, 1)

        def message(state):
            rows = rig.rows("console", "SELECT alerts, subject, text FROM "
                            "notifications WHERE state = ?", state)
            return rows and rows[0]

        first = wait_for(lambda: message("firing"))
        self.assertEqual(first["alerts"], "dlq-more dlq")
        self.assertEqual(first["subject"], "[Grapnel] 2 firing: dlq-more dlq")
        self.kill_events(rig, 3)
        wait_for(lambda: [a["value"] for a in rig.cli("alerts")[0]] == [4, 4])
        for alert in rig.cli("alerts")[0]:
            self.assertIn(": 4 (above 0)", alert["summary"])
        rig["console"].restart()  # the value is judged anew
        wait_for(lambda: [a["value"] for a in rig.cli("alerts")[0]] == [4, 4])
        for dead_letter in rig.cli("dlq")[0]:
            rig.cli("dlq", "discard", dead_letter["id"], "--note", "test")
        last = wait_for(lambda: message("resolved"))
        self.assertIn(": 0 (no longer above 0)", last["text"])
        self.assertEqual(last["alerts"], "dlq-more dlq")

    def test_a_retried_dead_letter_is_in_no_latency(self):
        """Neither one of a delivery, nor one of an event that was refused."""
        rig = self.with_alerts([], sources=[
            {"name": "plane", "provider": "plane", "secrets": ["${PLANE_SECRET}"],
             "workspaces": ["ws-1"]}])
        events = self.kill_events(rig, 1)
        broken = rig.accept(rig.plane_body("ws-2"))
        wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] == 2)
        self.assertIn(None, [l["endpoint"] for l in rig.cli("dlq")[0]])
        del rig.config["sources"][0]["workspaces"]
        rig.write_config()
        rig.cli("reload")
        rig.cli("dlq", "retry", "--all")
        rig.receiver.wait(broken, path="/crm")
        wait_for(lambda: [l["endpoint"] for l in rig.cli("dlq")[0]] ==
                 ["crm", "crm"], what="both to be dead again")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.cli("dlq", "retry", "--all")
        for event in [*events, broken]:
            rig.wait_status(event)
        fresh = rig.accept()
        rig.wait_status(fresh)
        wait_for(lambda: rig.number("grapnel_end_to_end_seconds_count"))
        self.settle(rig)
        self.assertEqual(rig.number("grapnel_end_to_end_seconds_count"), 1)

    def test_a_command_gets_the_facts_and_no_shell_and_no_secrets(self):
        script = self.folder_for_scripts() / "told.py"
        out = script.with_suffix(".out")
        script.write_text(
            "import json, os, sys\n"
            "row = [sys.argv[2:], json.load(sys.stdin), dict(os.environ)]\n"
            f"open({str(out)!r}, 'a').write(json.dumps(row) + '\\n')\n")
        rig = self.with_alerts(
            [{"name": "dlq", "when": "dead_letters", "above": 0}],
            [{"name": "run", "exec": ["/usr/bin/python3", str(script), "-",
                                      "; touch /tmp/x $$(id)"]},
             {"name": "hangs", "timeout": "200ms",
              "exec": ["/bin/sh", "-c", "sleep 1000"]},
             {"name": "missing", "exec": ["/nonexistent"]}])
        self.kill_events(rig, 1)
        wait_for(out.exists)
        wait_for(lambda: out.read_text().endswith("\n"))
        words, body, env = json.loads(out.read_text().splitlines()[0])
        self.assertEqual(words, ["; touch /tmp/x $(id)"])
        self.assertEqual(body["alerts"][0]["name"], "dlq")
        self.assertEqual((env["GRAPNEL_STATE"], env["GRAPNEL_ALERTS"],
                          env["GRAPNEL_SEVERITY"]),
                         ("firing", "dlq", "warning"))
        self.assertNotIn("PLANE_SECRET", env)
        results, code = rig.cli("alerts", "test", "hangs")
        self.assertEqual((results[0]["ok"], code), (False, 1))
        self.assertIn("timeout", results[0]["why"])
        results, code = rig.cli("alerts", "test", "missing")
        self.assertIn("No such file", results[0]["why"])
        results, code = rig.cli("alerts", "test", "nobody")
        self.assertEqual((results, code), (None, 1))

    def folder_for_scripts(self):
        import shutil
        import tempfile
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-told-"))
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def test_a_mail_is_sent(self):
        rig = self.with_alerts(
            [{"name": "dlq", "when": "dead_letters", "above": 0}], [])
        port = rig.ports.take()
        server = Mails(port)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        rig.config["notifiers"] = [
            {"name": "mail", "allow_private": True, "email": {
                "server": f"smtp://127.0.0.1:{port}",
                "from": "grapnel@example.com",
                "to": ["a@example.com", "b@example.com"]}}]
        rig.write_config()
        rig.cli("reload")
        self.kill_events(rig, 1)
        wait_for(lambda: server.mails)
        mail = server.mails[0]
        self.assertEqual(mail["to"], ["<a@example.com>", "<b@example.com>"])
        head = mail["lines"][:mail["lines"].index("")]
        subject = base64.b64decode(
            [l for l in head if l.startswith("Subject:")][0]
            .split("?")[3]).decode()
        self.assertEqual(subject, "[Grapnel] 1 firing: dlq")
        self.assertIn(": 1 (above 0)", "\n".join(mail["lines"]))

    def test_notifiers_reach_private_addresses_only_if_allowed(self):  # P8
        rig = self.with_alerts([], [])
        rig.config["notifiers"] = [
            {"name": "inside", "webhook": rig.receiver.url("/ops")},
            {"name": "mail", "email": {
                "server": f"smtp://127.0.0.1:{rig.receiver.port}",
                "from": "g@example.com", "to": "a@example.com"}}]
        rig.write_config()
        rig.cli("reload")
        for name in ["inside", "mail"]:
            results, code = rig.cli("alerts", "test", name)
            self.assertEqual(code, 1)
            self.assertIn("private", results[0]["why"])
        self.assertEqual(rig.receiver.requests("/ops"), [])

    def test_a_silent_process_fires_an_alert_that_ends_when_it_returns(self):
        rig = self.with_alerts([{"name": "silent", "when": "process_silent",
                                 "silent_for": "1s"}])
        wait_for(lambda: rig.number("grapnel_up", process="sequencer"))
        rig["sequencer"].kill()
        wait_for(lambda: any(a["process"] == "sequencer"
                             for b in self.told(rig) for a in b["alerts"]))
        rig["sequencer"].start()
        wait_for(lambda: any(a["state"] == "resolved"
                             for b in self.told(rig) for a in b["alerts"]))

    def test_notifications_are_signed_with_a_rotated_secret(self):
        rig = self.with_alerts([{"name": "sig", "when": "signature_failures",
                                 "above": 3, "source": "plane"}])
        wait_for(lambda: rig.number("grapnel_up", process="ingress"))
        for _ in range(4):
            rig.post(b"{}", headers={"X-Plane-Signature": "0" * 64})
        rig.receiver.wait(path="/ops")
        alert = self.told(rig)[0]["alerts"][0]
        self.assertEqual((alert["source"], alert["value"]), ("plane", 4))

    # ---- silences ----

    RULE = {"name": "dlq", "when": "dead_letters", "above": 2}

    def firing(self, rig):
        return wait_for(lambda: [a for a in rig.cli("alerts")[0]
                                 if a["name"] == "dlq" and a["state"] == "firing"])

    def test_a_silence_survives_a_restart_ends_by_itself_and_then_notifies(self):
        rig = self.with_alerts([self.RULE])
        reply, code = rig.cli("alerts", "silence", "dlq", "--for", "1d", "--note", "a test")
        self.assertEqual(code, 0)
        self.assertEqual((reply["name"], reply["note"]), ("dlq", "a test"))
        self.kill_events(rig, 3)
        [alert] = self.firing(rig)
        self.assertEqual(alert["silenced_until"], reply["silenced_until"])
        rig["console"].kill()
        rig["console"].start()
        self.settle(rig)
        self.assertEqual(self.told(rig), [])
        self.assertEqual(rig.cli("alerts", "silences")[0], [reply])
        # Made shorter, it ends while the console is down.
        self.assertEqual(rig.cli("alerts", "silence", "dlq", "--for", "1s")[1], 0)
        rig["console"].kill()
        self.assertEqual(self.told(rig), [])
        rig["console"].start()
        [body] = wait_for(lambda: self.told(rig), timeout=30)
        self.assertEqual([(a["state"], a["value"]) for a in body["alerts"]], [("firing", 3)])
        self.assertIsNone(self.firing(rig)[0]["silenced_until"])
        self.assertEqual(rig.cli("alerts", "silences")[0], [])
        rig["console"].restart()
        self.settle(rig)
        self.assertEqual(len(self.told(rig)), 1)
        rows = [r for r in rig.ask("console", "audit")["audit"] if r["command"] == "alert_silence"]
        self.assertEqual([r["outcome"] for r in rows], ["done", "done"])
        self.assertEqual(rows[1]["args"]["note"], "a test")

    def test_unsilence_notifies_at_once_and_what_fired_before_is_resolved(self):
        rig = self.with_alerts([self.RULE])
        self.kill_events(rig, 3)
        rig.receiver.wait(path="/ops")
        rig.cli("alerts", "silence", "dlq", "--for", "1h")
        self.assertEqual(rig.cli("dlq", "discard", "--all", "--note", "x")[1], 0)
        wait_for(lambda: len(self.told(rig)) == 2, timeout=30)
        self.assertEqual(self.told(rig)[-1]["alerts"][0]["state"], "resolved")
        self.kill_events(rig, 3)
        self.firing(rig)
        self.settle(rig)
        self.assertEqual(len(self.told(rig)), 2)
        self.assertEqual(rig.cli("alerts", "unsilence", "dlq")[1], 0)
        wait_for(lambda: len(self.told(rig)) == 3, timeout=30)
        self.assertEqual(rig.cli("alerts", "unsilence", "dlq")[1], 0)

    def test_wrong_silences_are_refused(self):
        rig = self.with_alerts([self.RULE])
        for args, code in [(("nothing", "--for", "1h"), 1), (("dlq", "--for", "100d"), 1),
                           (("dlq", "--for", "x"), 64), (("dlq",), 64)]:
            self.assertEqual(rig.cli_text("alerts", "silence", *args).returncode, code, args)
        self.assertIn('there is no alert "dql" (did you mean dlq?)',
                      rig.cli_text("alerts", "silence", "dql", "--for", "1h").stderr)
        self.assertEqual(rig.cli_text("alerts", "unsilence", "nothing").returncode, 1)
        self.kill_events(rig, 3)
        rig.receiver.wait(path="/ops")

main()
