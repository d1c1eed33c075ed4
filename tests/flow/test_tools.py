"""tools/up, tools/down and tools/scale start, stop and change a pipeline under
supervisord."""

import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import BUILD, ROOT, processes_of, program, wait_for

DAEMONS = ["ingress", "sequencer", "dlqd"]
PR_SET_CHILD_SUBREAPER = 36


class Tools(unittest.TestCase):
    def setUp(self):
        # A space, as a user's folder may have one.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr tools-"))
        self.config = self.folder / "grapnel.yaml"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.assertNothingLeft)
        self.addCleanup(self.tool, "down")

    def environment(self, **env):
        return {**os.environ, "GRAPNEL_CONFIG": str(self.config),
                "GRAPNEL_BUILD": str(BUILD.resolve()), **env}

    def tool(self, name, *args, code=0, **env):
        # From another folder than the tools': paths must not depend on it.
        done = subprocess.run(
            [ROOT / "tools" / name, *args], cwd="/", text=True,
            capture_output=True, timeout=240, env=self.environment(**env))
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said + self.logs())
        return said

    def logs(self):
        return "".join(f"\n--- {log.name}\n{log.read_text()[-3000:]}"
                       for log in self.folder.glob("state/log/*.log"))

    def pid(self, name):
        """The holder of a daemon's lock, when there is a live one."""
        lock = self.folder / "state" / f"{name}.lock"
        text = lock.read_text().strip() if lock.exists() else ""
        if text and pathlib.Path("/proc", text).exists():
            return int(text)
        return None

    def assertNothingLeft(self):
        self.assertEqual(processes_of(self.folder), [])

    def test_up_shows_that_an_event_arrived(self):
        said = self.tool("up", "--detach")
        self.assertRegex(said, "(?i)webhook-id: evt_")
        self.assertRegex(said, "(?i)grapnel-signature: v1,")
        self.assertIn('"event"', said)
        self.assertIn("Grapnel is up", said)
        for secret in self.folder.glob(".grapnel/*"):
            self.assertEqual(secret.stat().st_mode & 0o777, 0o600)
        with self.subTest("the file that it wrote is right"):
            subprocess.run([program("grapnel-ingress"), "-c", self.config,
                            "--check"], check=True, capture_output=True)
        with self.subTest("it may be run again"):
            written = self.config.read_text()
            self.assertIn("Grapnel is up", self.tool("up", "--detach"))
            self.assertEqual(self.config.read_text(), written)
        with self.subTest("down, and down again"):
            self.tool("down")
            self.assertNothingLeft()
            self.tool("down")
        with self.subTest("another endpoint may be down"):
            text = self.config.read_text().replace(
                "endpoints:\n", "endpoints:\n  - {name: mine, url: \"http://"
                "127.0.0.1:1/\", allow_private: true}\n", 1)
            self.config.write_text(text)
            self.assertIn("Grapnel is up", self.tool("up", "--detach"))

    def test_scale_touches_only_what_changes(self):
        self.tool("up", "--detach", GRAPNEL_DELIVERERS="3")
        names = [*DAEMONS, "deliverer-1", "deliverer-2"]
        before = {n: self.pid(n) for n in names}
        self.assertTrue(all(before.values()), before)
        self.tool("scale", "5")
        wait_for(lambda: self.pid("deliverer-4") and self.pid("deliverer-5"))
        self.tool("scale", "2")
        for name in ["deliverer-3", "deliverer-4", "deliverer-5"]:
            self.assertIsNone(self.pid(name))
        self.assertEqual({n: self.pid(n) for n in names}, before)

    def test_a_process_that_ends_is_always_started_again(self):
        self.tool("up", "--detach")
        for _ in range(5):  # with supervisord's default, the fourth is the last
            pid = self.pid("sequencer")
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: self.pid("sequencer") not in (None, pid), 60)

    def test_a_sighup_right_after_a_start_ends_no_process(self):
        """Sent, like pkill does, as soon as a process has the program's name."""
        self.tool("up", "--detach")
        supervisor = self.folder / "run" / "supervisord.pid"
        children = pathlib.Path("/proc", supervisor.read_text().strip(),
                                "task", supervisor.read_text().strip(), "children")

        def dlqd(but):
            for pid in children.read_text().split():
                with contextlib.suppress(OSError):
                    comm = pathlib.Path("/proc", pid, "comm").read_text()
                    if comm == "grapnel-dlqd\n" and int(pid) != but:
                        return int(pid)

        for _ in range(3):
            before = self.pid("dlqd")
            os.kill(before, signal.SIGKILL)
            pid = wait_for(lambda: dlqd(before), 60)
            os.kill(pid, signal.SIGHUP)
            wait_for(lambda: self.pid("dlqd") == pid)
        self.assertNotIn("SIGHUP", self.logs())

    def test_down_ends_processes_of_a_killed_supervisor(self):
        self.tool("up", "--detach", GRAPNEL_DELIVERERS="2")
        supervisor = self.folder / "run" / "supervisord.pid"
        os.kill(int(supervisor.read_text()), signal.SIGKILL)
        self.assertTrue(self.pid("deliverer-2"))
        self.assertIn("Ending deliverer-2", self.tool("down"))
        self.assertNothingLeft()

    def test_down_ends_where_no_parent_collects_exit_codes(self):
        """As in a container whose first process is `sleep`."""
        self.assertEqual(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1), 0)
        self.addCleanup(ctypes.CDLL(None).prctl, PR_SET_CHILD_SUBREAPER, 0)
        self.tool("up", "--detach")
        pid = int((self.folder / "run" / "supervisord.pid").read_text())
        self.addCleanup(os.waitpid, pid, 0)
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([ROOT / "tools" / "down"], env=self.environment(),
                           timeout=60, check=True, stdout=subprocess.DEVNULL)
            return
        self.fail("tools/down waits for a process that has ended")

    def test_up_starts_afresh_after_a_killed_supervisor(self):
        self.tool("up", "--detach", GRAPNEL_INGRESSES="2")
        before = self.pid("ingress")
        self.assertTrue(self.pid("ingress-2"))
        supervisor = self.folder / "run" / "supervisord.pid"
        os.kill(int(supervisor.read_text()), signal.SIGKILL)
        self.assertIn("Grapnel is up", self.tool("up", "--detach"))
        self.assertNotEqual(self.pid("ingress"), before)
        with self.subTest("events may be in the database of a second one"):
            self.assertTrue(self.pid("ingress-2"))
        self.tool("down")
        self.assertNothingLeft()

    def test_ctrl_c_stops_everything_in_the_foreground(self):
        with open(self.folder / "up.log", "w+") as log:
            up = subprocess.Popen([ROOT / "tools" / "up"], stdout=log, stderr=log,
                                  env=self.environment(), start_new_session=True)
            wait_for(lambda: "Grapnel is up" in
                     (self.folder / "up.log").read_text(), 60)
            os.killpg(up.pid, signal.SIGINT)
            self.assertEqual(up.wait(60), 0)
        self.assertNothingLeft()

    def test_a_too_long_socket_path_is_reported(self):
        self.tool("up", "--detach")
        self.tool("down")
        text = self.config.read_text().replace("run_dir: run", "run_dir: " + "r" * 80)
        self.config.write_text(text)
        self.assertIn("is too long a path for a socket", self.tool("up", "--detach", code=1))

    def test_a_wrong_configuration_starts_no_process(self):
        self.config.write_text("state_dir: state\nsorces: []\n")
        self.assertIn("sorces", self.tool("up", "--detach", code=1))
        self.assertNothingLeft()

    def test_a_port_of_another_program_is_reported_at_once(self):
        self.tool("up", "--detach")
        self.tool("down")
        for block in ("ingress", "console"):
            with self.subTest(block), socket.create_server(("127.0.0.1", 0)) as other:
                text = self.config.read_text()
                address = f"127.0.0.1:{other.getsockname()[1]}"
                changed = re.sub(rf'(?s)(\n{block}:.*?listen: "?)[0-9.:]+',
                                 rf"\g<1>{address}", text, count=1)
                self.config.write_text(changed)
                self.assertIn(f"{address} is in use by another program",
                              self.tool("up", "--detach", code=1))
                self.config.write_text(text)
                self.assertNothingLeft()

    def test_scale_refuses_values_that_are_not_numbers(self):
        self.tool("scale", "none", code=64)
        self.tool("scale", "2", code=1)
        self.tool("up", "--detach", code=1, GRAPNEL_DELIVERERS="0")
        self.tool("up", "--detach", code=1, GRAPNEL_INGRESSES="two")


unittest.main(verbosity=2)
