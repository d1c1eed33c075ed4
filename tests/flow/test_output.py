"""The output of the command line: columns, times, progress."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for
from terminal import Terminal


class Output(RigTest):
    def test_endpoints_test_keeps_line_breaks(self):
        rig = self.rig().start()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "body": "one\n\n  two\x1b[31m\r\nthree"}]})
        said = rig.cli_text("endpoints", "test", "crm").stdout
        self.assertIn("\n< one\n< \n<   two?[31m\n< three\n", said)
        self.assertNotIn("\x1b", said)
        self.assertRegex(said, r"\n< HTTP/1.1 200 [^\n]*\n< [^\n]")
        self.assertRegex(said, r"\n<\n< one\n")

    def test_status_shows_rates_and_the_longest_wait(self):
        rig = self.rig({"metrics": {"interval": "200ms"}}).start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})

        def told(pattern):
            rig.accept()
            found = re.search(pattern, rig.cli_text("status").stdout)
            return found and found[1]
        wait_for(lambda: float(told(r"Rates .*accepted ([\d.]+)/s") or 0) > 0)
        wait_for(lambda: float(told(r"Rates .*retried ([\d.]+)/s") or 0) > 0)
        wait_for(lambda: told(r"Waiting .* have not ended: (\d.*)"))
        rates = {p["process"]: p["rates"] for p in rig.cli("status")[0]}
        self.assertIn("grapnel_ingress_accepted_total", rates["ingress"])
        rig.receiver.rules()
        rig.settle()
        wait_for(lambda: "have not ended: none" in rig.cli_text("status").stdout)

    def test_status_names_the_endpoints_in_trouble(self):
        """One line for each, with time and reason; no line when all is well."""
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "1s",
            "jitter": "none", "max_attempts": 1000}]})
        names = ["crm", "down", "gone", "held", "paused"]
        rig.config["endpoints"] = [rig.endpoint(n) for n in names]
        rig.write_config()
        rig.start()
        rig.accept()
        rig.settle()

        def told():
            return sorted(line for line in rig.cli_text("status").stdout.split("\n")
                          if line.startswith("Endpoint "))
        self.assertEqual(told(), [])
        self.assertEqual([p.get("troubles", []) for p in rig.cli("status")[0]],
                         4 * [[]])
        rig.receiver.rules(*({"path": f"/{n}", "responses": [{"status": s}]}
                             for n, s in (("down", 503), ("gone", 410),
                                          ("held", 404))))
        rig.cli("endpoints", "pause", "paused")
        for _ in range(11):
            rig.accept()
        lines = wait_for(lambda: len(told()) == 4 and told(), what="four lines")
        for line, (name, state, why) in zip(lines, (
                ("down", "failing", "responded 503"),
                ("gone", "disabled", "410"), ("held", "held", "status 404"),
                ("paused", "paused", "by "))):
            self.assertRegex(line, rf"^Endpoint {name}: {state} since "
                             rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ UTC: "
                             rf".*{why}")
        troubles = {p["process"]: p["troubles"] for p in rig.cli("status")[0]
                    if p.get("troubles")}
        self.assertEqual(
            [(t["endpoint"], t["state"]) for t in troubles["sequencer"]],
            [("gone", "disabled"), ("held", "held"), ("paused", "paused")])
        down, = troubles["deliverer-1"]
        self.assertEqual((down["endpoint"], down["state"], down["reason"]),
                         ("down", "failing", "responded 503"))
        self.assertRegex(down["since"], r"^\d{4}-.*Z$")
        rig.receiver.rules()
        for name in "gone", "paused":
            rig.cli("endpoints", "resume", name)
        wait_for(lambda: not told(), what="nothing to be told")

    def test_status_lists_all_processes_when_all_are_down(self):
        rig = self.rig(console=True)
        everything = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]
        for _ in range(2):  # never started; stopped in order
            shown, code = rig.cli("status")
            self.assertEqual([(p["process"], p["up"]) for p in shown],
                             [(n, False) for n in everything])
            self.assertEqual(code, 69)
            rig.start()
            rig.stop()

    def test_local_prints_times_in_the_local_zone(self):
        rig = self.rig()
        rig.env["TZ"] = "IST-05:30"  # POSIX: five and a half hours ahead
        rig.start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        event = rig.accept()
        dead_letter = wait_for(lambda: rig.cli("dlq")[0])[0]["id"]
        utc = rig.trace(event)["received_at"]
        hour, minute = int(utc[11:13]), int(utc[14:16])
        local = f"{(hour + 5 + (minute + 30) // 60) % 24:02d}:" \
                f"{(minute + 30) % 60:02d}{utc[16:23]}+05:30"
        for words in (["events"], ["deliveries"], ["trace", event],
                      ["dlq", "show", dead_letter]):
            with self.subTest(words):
                said = rig.cli_text(*words, "--local").stdout
                self.assertIn(local, said)
                self.assertNotIn("UTC", said)
                self.assertIn("local time", said)
                self.assertIn(utc.replace("T", " ")[:-1],
                              rig.cli_text(*words).stdout)
        self.assertIn("DEAD SINCE (local time)",
                      rig.cli_text("dlq", "--local").stdout)
        self.assertIn("local time", rig.cli_text("top", "--once",
                                                 "--local").stdout)
        # A script's times are UTC in any case.
        self.assertEqual(rig.cli("trace", event, "--local")[0]["received_at"],
                         utc)

    def test_top_fits_a_terminal_below_80_columns(self):
        rig = self.rig({"metrics": {"interval": "200ms"}}).start()
        for columns in (40, 60, 79):
            with self.subTest(columns):
                top = Terminal(rig, "top", "--once", rows=40, columns=columns)
                self.addCleanup(top.close)
                self.assertEqual(top.wait_exit(), 0)
                text = re.sub(rb"\x1b\[[0-9;]*m", b"", top.raw).decode()
                lines = text.replace("\r", "").splitlines()
                self.assertTrue(any("PROCESS" in line for line in lines))
                self.assertLessEqual(max(map(len, lines)), columns)

    def test_progress_has_its_own_line(self):
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 12}, {"status": 200}]})
        rig.start()
        for _ in range(12):
            rig.accept()
        wait_for(lambda: rig.cli("dlq", "stats")[0]["dead"] == 12)
        bulk = Terminal(rig, "dlq", "retry", "--all", "--rate", "10",
                        columns=100)
        self.addCleanup(bulk.close)
        self.assertEqual(bulk.wait_exit(), 0)
        text = bulk.raw.decode()
        self.assertRegex(text, r"\r#+\.+ \d+ of 12 requeued, \d.*s left")
        self.assertRegex(text, r"12 of 12 requeued[^\r\n]*\r?\n12 requeued\r?\n$")

    def test_send_uses_the_workspace_that_the_provider_would(self):
        rig = self.rig()
        rig.config["sources"] += [
            {"name": name, "provider": name, "secrets": ["shh"]}
            for name in ("stripe", "github")]
        rig.write_config()
        rig.start()
        self.assertEqual(rig.cli("send", "stripe")[0]["workspace"], "default")
        self.assertEqual(rig.cli("send", "github")[0]["workspace"], "octo/demo")
        self.assertEqual(rig.cli("send", "plane")[0]["workspace"], "demo")
        self.assertEqual(rig.cli("send", "stripe", "--workspace",
                                 "acct_7")[0]["workspace"], "acct_7")


main()
