"""`grapnel health` returns its exit code within a second, whatever state a process is
in."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, program, wait_for

PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]
DISK_BYTES = 16 << 20


class Health(RigTest):
    def health(self, rig, *args, code=0):
        """What it says, in one line. The limit is that of the test, not of the
        command: one that waited for the process would never end."""
        done = subprocess.run([program("grapnel"), "health", "--run-dir",
                               str(rig.run_dir), *args],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        said = done.stdout + done.stderr
        if "--json" in args:
            return json.loads(done.stdout)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertEqual(bool(done.stderr), code != 0)
        return said.strip()

    def test_health_reports_whether_a_process_is_alive(self):
        rig = self.rig(console=True).start()
        for name in PROCESSES:
            self.assertRegex(self.health(rig, name), f"^{name}: .*; \\d+ waiting$")
            self.assertRegex(self.health(rig, name, "--ready"), f"^{name}: ")
        rows = self.health(rig, "--json", "ingress", "console")
        self.assertEqual([(r["process"], r["alive"], r["ready"], r["state"])
                          for r in rows],
                         [("ingress", True, True, "accepting events"),
                          ("console", True, True, "running")])
        rig["dlqd"].stop()
        self.assertIn("dlqd: not running", self.health(rig, "dlqd", code=69))
        rig["sequencer"].kill()
        self.assertIn("sequencer: not running",
                      self.health(rig, "sequencer", code=69))
        row, other = self.health(rig, "--json", "dlqd", "ingress", code=69)
        self.assertEqual((row["alive"], row["ready"], row["error"]),
                         (False, False, "not running"))
        self.assertTrue(other["alive"])
        self.assertIn("deliverer-9: not running",
                      self.health(rig, "deliverer-9", code=69))

    def test_health_does_not_wait_for_a_hanging_process(self):
        """Also if so many clients wait that the process accepts no connection."""
        rig = self.rig(deliverers=0)
        rig["dlqd"].start()
        rig["dlqd"].pause()
        self.assertIn("dlqd: it does not respond", self.health(rig, "dlqd", code=69))
        waiting = []
        with contextlib.suppress(BlockingIOError):
            while True:
                s = socket.socket(socket.AF_UNIX)
                self.addCleanup(s.close)
                s.setblocking(False)
                s.connect(str(rig.run_dir / "dlqd.control"))
                waiting.append(s)
        self.assertGreater(len(waiting), 10)
        self.health(rig, "dlqd", code=69)
        self.health(rig, "dlqd", "--ready", code=69)
        rig["dlqd"].resume()
        for s in waiting:
            s.close()
        wait_for(lambda: "running" in self.health(rig, "dlqd"))

    def test_unknown_names_and_folders_are_errors(self):
        rig = self.rig()
        for name in ("ingres", "../ingress", "ingress/x", "", "Ingress"):
            done = rig.cli_text("health", name)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn("is not the name of a process", done.stderr)
        self.assertEqual(rig.cli_text("health").returncode, 64)
        self.assertIn("No such file or directory (run_dir is ",
                      self.health(rig, "ingress", code=69))

    def test_health_needs_neither_secrets_nor_a_valid_configuration(self):
        rig = self.rig(deliverers=0)
        rig["ingress"].start()
        text = rig.config_path.read_text()
        rig.config_path.write_text(text + "\nroutes: 7\nx: '${NOT_SET}'\n}{")
        del rig.env["PLANE_SECRET"]
        done = rig.cli_text("health", "ingress")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_process_with_a_full_disk_is_alive_and_not_ready(self):
        """A restart would not help; /healthz and /readyz report the same."""
        rig = self.rig(deliverers=0)
        rig.state_dir.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700",
             "tmpfs", rig.state_dir], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"no right to mount a tmpfs: {done.stderr.strip()}")
        self.addCleanup(shutil.rmtree, rig.folder, ignore_errors=True)
        self.addCleanup(subprocess.run, ["umount", "-l", rig.state_dir], check=True)
        rig["ingress"].start()
        with open(rig.state_dir / "ballast", "ab", buffering=0) as ballast:
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(1 << 20))
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(4096))

        def probe(path):
            return http_request(rig.ingress_port, "GET", path)[0]
        wait_for(lambda: probe("/readyz") == 503, what="ingress to refuse")
        self.assertEqual(probe("/healthz"), 200)
        self.assertRegex(self.health(rig, "ingress"),
                         "^ingress: alive, not ready: refusing events: ")
        self.assertRegex(self.health(rig, "ingress", "--ready", code=69),
                         "ingress: not ready: refusing events: ")
        os.unlink(rig.state_dir / "ballast")
        wait_for(lambda: probe("/readyz") == 200, what="ingress to accept")
        self.assertEqual(self.health(rig, "ingress", "--ready"),
                         "ingress: accepting events; 0 waiting")


main()
