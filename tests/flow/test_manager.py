"""Each process reports its state to the service manager by the messages of sd_notify(3)."""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, program, wait_for

PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]
PTRACE_ATTACH, PTRACE_DETACH, WALL = 16, 17, 0x40000000
SILENCE_S = 0.4


class Manager:
    """The receiving end. `messages`: (time, {key: value}), in order."""

    def __init__(self, path, reads=True):
        self.messages, self.lock = [], threading.Condition()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.address = path.replace("\0", "@")
        if reads:
            self.read()

    def read(self):
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        while True:
            try:
                data = self.socket.recv(4096)
            except OSError:
                return
            if not data:
                return
            lines = dict(line.split("=", 1) for line in data.decode().split("\n"))
            with self.lock:
                self.messages.append((time.monotonic(), lines))
                self.lock.notify_all()

    def keys(self):
        with self.lock:
            return [key for _, lines in self.messages for key in lines]

    def wait(self, what, count=1, since=0):
        """The messages with this key, or this key and value, after `since` others."""
        def found():
            with self.lock:
                return [lines for _, lines in self.messages[since:]
                        if what in lines or
                        what in (f"{k}={v}" for k, v in lines.items())]
        wait_for(lambda: len(found()) >= count, what=f"{what} in {self.messages}")
        return found()

    def count(self):
        with self.lock:
            return len(self.messages)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class ManagerTest(RigTest):
    def manager(self, rig, name="notify", **how):
        path = name if name.startswith("\0") else str(rig.folder / name)
        manager = Manager(path, **how)
        self.addCleanup(manager.close)
        return manager

    def start(self, rig, name, manager, wait=True, **env):
        rig[name].start(wait, env={"NOTIFY_SOCKET": manager.address, **env})
        return rig[name]


class ALife(ManagerTest):
    def test_each_process_reports_ready_reloading_and_stopping(self):
        rig = self.rig(console=True)
        for name in PROCESSES:
            manager = self.manager(rig, name)
            self.start(rig, name, manager, wait=False)
            manager.wait("READY=1")
            # No wait: from here on it serves.
            self.assertTrue(rig[name].up(), name)
            self.assertNotIn("RELOADING", manager.keys())
            self.assertNotIn("WATCHDOG", manager.keys())
            manager.wait("STATUS")

            before = manager.count()
            rig[name].signal(signal.SIGHUP)
            manager.wait("READY=1", since=before)
            with manager.lock:
                lines = [lines for _, lines in manager.messages[before:]]
            self.assertEqual([key for line in lines for key in line
                              if key in ("RELOADING", "MONOTONIC_USEC", "READY")],
                             ["RELOADING", "MONOTONIC_USEC", "READY"])
            usec = int(next(l for l in lines if "RELOADING" in l)["MONOTONIC_USEC"])
            self.assertLess(usec, time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)

            self.assertEqual(rig[name].stop(), 0)
            stopping = manager.wait("STOPPING=1")
            # shutdown_grace is 5 s here; what comes beside it has a minute.
            self.assertEqual(stopping[0]["EXTEND_TIMEOUT_USEC"], "65000000")
            self.assertEqual(len(stopping), 1)

    def test_a_refused_reload_reports_its_end(self):
        rig = self.rig()
        manager = self.manager(rig)
        self.start(rig, "dlqd", manager)
        manager.wait("READY=1")
        before = manager.count()
        rig.config_path.write_text("nonsense: true\n")
        rig["dlqd"].signal(signal.SIGHUP)
        manager.wait("READY=1", since=before)
        self.assertIn("keeps the old one", rig["dlqd"].log())
        rig.write_config()

    def test_a_long_start_extends_its_timeout(self):
        """A kill would only begin the start again."""
        rig = self.rig(deliverers=0)
        disk = rig.folder / "disk"
        disk.mkdir()
        rig["ingress"].start()
        rig.accept()
        rig["ingress"].kill()  # its WAL is copied back at the start
        hold = disk / "hold-db"
        hold.touch()
        self.addCleanup(hold.unlink, missing_ok=True)
        manager = self.manager(rig)
        self.start(rig, "ingress", manager, wait=False,
                   LD_PRELOAD=program("rig-slowdisk.so"), RIG_DISK=str(disk),
                   ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "")
                   + ":verify_asan_link_order=0")
        self.assertEqual(manager.wait("EXTEND_TIMEOUT_USEC")[0],
                         {"EXTEND_TIMEOUT_USEC": "60000000",
                          "WATCHDOG": "1", "STATUS": "opening the database"})
        self.assertNotIn("READY", manager.keys())
        hold.unlink()
        manager.wait("READY=1")
        manager.wait("STATUS=accepting events; 1 waiting")

    def test_an_abstract_socket_works(self):
        rig = self.rig()
        manager = self.manager(rig, f"\0grapnel-test-{os.getpid()}")
        self.start(rig, "dlqd", manager)
        manager.wait("READY=1")

    def test_the_status_text_says_what_the_process_does(self):
        rig = self.rig(deliverers=0)
        manager = self.manager(rig)
        self.start(rig, "ingress", manager)
        manager.wait("STATUS=accepting events; 0 waiting")
        rig.accept()
        manager.wait("STATUS=accepting events; 1 waiting")

    def test_unusable_notify_addresses_do_no_harm(self):
        rig = self.rig()
        for address in ["vsock:2:1234", "relative", "@", "/" + "x" * 200,
                        str(rig.folder / "nobody")]:
            rig["dlqd"].start(env={"NOTIFY_SOCKET": address,
                                   "WATCHDOG_USEC": "1000000"})
            self.assertEqual(rig["dlqd"].stop(), 0)
        self.assertEqual(rig["dlqd"].log().count("NOTIFY_SOCKET is not a path"), 4)
        self.assertIn("the service manager cannot be notified", rig["dlqd"].log())

    def test_a_manager_that_does_not_read_blocks_no_process(self):
        rig = self.rig()
        manager = self.manager(rig, reads=False)
        filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(filler.close)
        filler.setblocking(False)
        with self.assertRaises(BlockingIOError):
            while True:
                filler.sendto(b"STATUS=full", manager.address)
        self.start(rig, "dlqd", manager, WATCHDOG_USEC="600000000")
        self.assertEqual(rig.ask("dlqd", "ping")["process"], "dlqd")
        manager.read()
        manager.wait("READY=1")
        manager.wait("WATCHDOG=1")


class Watchdog(ManagerTest):
    def test_the_watchdog_is_fed_while_idle(self):
        rig = self.rig(console=True)
        for name in PROCESSES:
            manager = self.manager(rig, name)
            self.start(rig, name, manager, WATCHDOG_USEC="200000")
            manager.wait("WATCHDOG=1", count=5)
            rig[name].stop()

    def test_the_watchdog_applies_only_to_its_process(self):
        rig = self.rig()
        manager = self.manager(rig)
        env = {"WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1"}
        self.start(rig, "dlqd", manager, **env)
        rig["dlqd"].stop()
        manager.wait("STOPPING=1")
        self.assertNotIn("WATCHDOG", manager.keys())
        command = rig["dlqd"].command
        child = subprocess.Popen(
            ["/bin/sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", *command],
            cwd=rig.folder, stderr=subprocess.DEVNULL,
            env={**os.environ, **rig.env, **env,
                 "NOTIFY_SOCKET": manager.address})
        manager.wait("WATCHDOG=1", count=3)
        child.terminate()
        self.assertEqual(child.wait(60), 0)

    def test_a_hanging_loop_does_not_feed_the_watchdog(self):
        """Only the loop's thread is stopped; no other thread feeds the watchdog for
        it."""
        rig = self.rig()
        for name in ["ingress", "dlqd"]:  # with and without a fallback thread of its own
            manager = self.manager(rig, name)
            self.start(rig, name, manager, WATCHDOG_USEC="200000")
            manager.wait("WATCHDOG=1", count=3)
            pid = rig[name].pid
            self.ptrace(PTRACE_ATTACH, pid)
            os.waitpid(pid, WALL)
            time.sleep(SILENCE_S)  # what was sent before it stopped is read
            before = manager.count()
            time.sleep(5 * SILENCE_S)
            self.assertEqual(manager.count(), before, manager.messages)
            self.ptrace(PTRACE_DETACH, pid)
            manager.wait("WATCHDOG=1", count=3, since=before)
            self.assertEqual(rig[name].stop(), 0)

    def ptrace(self, request, pid):
        self.assertEqual(ctypes.CDLL(None, use_errno=True).ptrace(
            request, pid, None, None), 0, os.strerror(ctypes.get_errno()))

    def test_a_stalled_disk_feeds_the_watchdog(self):
        """A restart would not help."""
        rig = self.rig(deliverers=0)
        disk = rig.folder / "disk"
        disk.mkdir()
        hold = disk / "hold"
        for name in ["sequencer", "ingress"]:
            manager = self.manager(rig, name)
            self.start(rig, name, manager, WATCHDOG_USEC="200000",
                       LD_PRELOAD=program("rig-slowdisk.so"), RIG_DISK=str(disk),
                       ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "")
                       + ":verify_asan_link_order=0")
            self.addCleanup(hold.unlink, missing_ok=True)
        hold.touch()
        poster = threading.Thread(target=rig.post, args=(rig.plane_body(),))
        poster.start()
        wait_for((disk / "held").exists, what="a sync to begin")
        manager.wait("WATCHDOG=1", count=5, since=manager.count())
        said = wait_for(lambda: [lines["STATUS"] for _, lines in manager.messages
                                 if "waiting for the disk" in
                                 lines.get("STATUS", "")],
                        what="a status that says so")
        self.assertRegex(said[0], r"waiting for the disk for \d+ s")
        before = manager.count()
        hold.unlink()
        poster.join()
        manager.wait("STATUS", since=before)


main()
