"""How the command line prints what it found."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for
from terminal import Terminal


class Output(RigTest):
    def test_endpoints_test_keeps_line_breaks(self):
        rig = self.rig().start()
        rig.receiver.rules({"path": "/crm", "answers": [
            {"status": 200, "body": "one\n\n  two\x1b[31m\r\nthree"}]})
        said = rig.cli_text("endpoints", "test", "crm").stdout
        self.assertIn("\n< one\n< \n<   two?[31m\n< three\n", said)
        self.assertNotIn("\x1b", said)
        self.assertRegex(said, r"\n< HTTP/1.1 200 [^\n]*\n< [^\n]")
        self.assertRegex(said, r"\n<\n< one\n")

    def test_status_shows_rates_and_what_has_waited_longest(self):
        rig = self.rig({"metrics": {"interval": "200ms"}}).start()
        rig.receiver.rules({"path": "/crm", "answers": [{"status": 503}]})

        def told(pattern):
            rig.accept()
            found = re.search(pattern, rig.cli_text("status").stdout)
            return found and found[1]
        wait_for(lambda: float(told(r"Rates .*accepted ([\d.]+)/s") or 0) > 0)
        wait_for(lambda: float(told(r"Rates .*retried ([\d.]+)/s") or 0) > 0)
        wait_for(lambda: told(r"Waiting .* not final: (\d.*)"))
        rates = {p["process"]: p["rates"] for p in rig.cli("status")[0]}
        self.assertIn("grapnel_ingress_accepted_total", rates["ingress"])
        rig.receiver.rules()
        rig.settle()
        wait_for(lambda: "not final: none" in rig.cli_text("status").stdout)

    def test_times_in_the_local_zone(self):
        rig = self.rig()
        rig.env["TZ"] = "IST-05:30"  # POSIX: five and a half hours ahead
        rig.start()
        rig.receiver.rules({"path": "/crm", "answers": [{"status": 400}]})
        event = rig.accept()
        letter = wait_for(lambda: rig.cli("dlq")[0])[0]["id"]
        utc = rig.trace(event)["received_at"]
        hour, minute = int(utc[11:13]), int(utc[14:16])
        local = f"{(hour + 5 + (minute + 30) // 60) % 24:02d}:" \
                f"{(minute + 30) % 60:02d}{utc[16:23]}+05:30"
        for words in (["events"], ["deliveries"], ["trace", event],
                      ["dlq", "show", letter]):
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
        rig.receiver.rules({"path": "/crm", "answers": [
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
