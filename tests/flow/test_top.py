"""`grapnel top` on a terminal of 80 by 24."""

import os
import pathlib
import signal
import sys
import termios

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for
from terminal import Terminal

USAGE, UNAVAILABLE = 64, 69


class Top(RigTest):
    def terminal(self, rig, *words, **how):
        terminal = Terminal(rig, *(words or ["top"]), **how)
        self.addCleanup(terminal.close)
        return terminal

    def ends_well(self, terminal):
        echo = termios.ECHO | termios.ICANON
        self.assertEqual(termios.tcgetattr(terminal.fd)[3] & echo, 0)
        terminal.press("q")
        wait_for(lambda: termios.tcgetattr(terminal.fd)[3]
                 == terminal.before[3], what="the terminal to be restored")
        self.assertEqual(terminal.wait_exit(), 0, terminal.raw)
        self.assertNotIn(b"Sanitizer", terminal.raw)

    def test_top_shows_rates_trouble_and_lost_processes(self):
        rig = self.rig({"metrics": {"interval": "200ms"}}, console=True,
                       deliverers=2)
        rig.config["endpoints"].append(rig.endpoint("warehouse"))
        rig.config["retry_policies"][0].update(
            first_wait="10m", max_wait="10m", jitter="none")
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]},
                           {"path": "/warehouse", "responses": [{"status": 200}]})
        rig.start()
        top = self.terminal(rig)
        top.wait("grapnel top", "6 up")
        top.wait("attempts 0/s")  # it knows how it was until now
        top.wait("in 0/s")
        # 503 and nothing else: first, and marked; the other is not. Rates are
        # of the last ten seconds: something must come.
        top.wait("! crm", "breaker open", meanwhile=rig.accept)
        top.wait("  warehouse", " 0% ", "active", meanwhile=rig.accept)
        lines = top.lines()
        row = [next(i for i, line in enumerate(lines) if name in line)
               for name in (" crm ", " warehouse ")]
        self.assertLess(row[0], row[1])
        top.wait(r"in [0-9.]+/s +refused 0/s", "delivered [0-9.]+/s",
                 meanwhile=rig.accept)
        top.wait(r"end to end p50 [0-9.]+m?s p95 [0-9.]+m?s",
                 meanwhile=rig.accept)
        top.wait("ingress 0 > sequencer 0 > held 0 > .*retry [1-9]")
        self.assertIn("q quit", top.lines()[23])
        # Sorted, scrolled, explained.
        top.press("n")
        top.wait(r"\*ENDPOINT")
        top.press("l")
        top.wait(r"\*P95")
        top.press("?")
        top.wait("space", "pause, continue")
        top.press("x")
        top.wait(r"\*P95")
        # Through the console, and without it.
        self.assertIn("by the console", top.lines()[0])
        rig["console"].pause()
        top.wait("5 up, 1 silent, 0 down", "by each process")
        top.wait("! console", "silent")
        rig["console"].resume()
        top.wait("6 up", "by the console")
        rig.kill("console")
        top.wait("by each process")
        top.wait("! console", "down")
        top.wait("are not evaluated")
        # One that stands still is silent, one that was killed is down; both
        # say so in the middle of it all, and nothing waits for them.
        rig["sequencer"].pause()
        rig.kill("dlqd")
        top.wait("! sequencer", "silent")
        top.wait("! dlqd", "down")
        top.wait("held -")
        top.press("r")
        top.wait(r"\*TRY/s")
        rig["sequencer"].resume()
        top.wait("  sequencer", "up")
        # Another size.
        top.resize(12, 60)
        wait_for(lambda: "q quit" in top.lines()[11], what="another size")
        top.resize(40, 120)
        wait_for(lambda: "q quit" in top.lines()[39], what="another size")
        top.wait("! dlqd", "down")
        self.ends_well(top)
        self.assertIn(b"\x1b[?1049l", top.raw)  # the screen of before
        done = rig.cli_text("top", "--once")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("dlqd", done.stderr)
        self.assertRegex(done.stdout, r"! dlqd +down")

    def test_top_checks_the_terminal(self):
        """A monochrome terminal is sufficient, one that cannot be drawn on is
        refused, and --once needs no terminal."""
        rig = self.rig({"metrics": {"interval": "200ms"}}).start()
        top = self.terminal(rig, term="vt100")
        top.wait("  ingress", "up")
        self.assertNotIn(b"\x1b[3", top.raw)  # no colour
        self.ends_well(top)
        for signo in (signal.SIGINT, signal.SIGTERM):
            top = self.terminal(rig)
            top.wait("  ingress", "up")
            os.kill(top.child, signo)
            self.assertEqual(top.wait_exit(), 0, top.raw)
            self.assertIn(b"\x1b[?1049l", top.raw)
        for term in ("dumb", "no-such-terminal", ""):
            top = self.terminal(rig, term=term)
            self.assertEqual(top.wait_exit(), USAGE, top.raw)
            self.assertIn(b"top needs a terminal", top.raw)
        done = rig.cli_text("top")
        self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
        self.assertIn("--once", done.stderr)
        look, code = rig.cli("top")
        self.assertEqual(code, 0)
        self.assertEqual([p["process"] for p in look["processes"]],
                         ["ingress", "sequencer", "deliverer-1", "dlqd"])
        self.assertEqual({p["state"] for p in look["processes"]}, {"up"})
        self.assertEqual(look["endpoints"][0]["state"], "active")
        self.assertEqual(look["rates"]["accepted_per_s"], 0)
        # What waits at ingress for a sequencer that is away.
        rig.kill("sequencer")
        rig.accept()

        def waits():
            depths = rig.cli("top")[0]["depths"]
            return depths["to_sequencer"] == 1 and depths["oldest_s"] > 0
        wait_for(waits)


main()
