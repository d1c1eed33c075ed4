"""P2, P4: the commands of the guide "Copy the databases with Litestream" work, with the real program: the disk is
wiped under load, and what is restored continues. `tools/deps test` builds Litestream; without it this test is
skipped."""

import contextlib
import pathlib
import shutil
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide
from rig import BUILD, ROOT, Process, RigTest, main, wait_for

PAGE = ROOT / "docs/guides/litestream.md"
LITESTREAM = ROOT / "build/litestream"


@unittest.skipUnless((LITESTREAM / "litestream").exists(),
                     "litestream is not in build/litestream: tools/deps test")
class Litestream(RigTest):
    def machine(self):
        rig = self.pipeline = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("crm", workspaces=["ws-1", "ws-0*"]),
            rig.endpoint("down", workspaces=["ws-down"]),
            rig.endpoint("legal", workspaces=["ws-legal"])]
        rig.config["retry_policies"][0]["max_attempts"] = 100000
        rig.write_config()
        rig.receiver.rules({"path": "/down", "responses": [{"status": 503}]},
                           {"path": "/legal", "responses": [{"status": 400}]})
        self.sbin, self.copies = rig.folder / "sbin", rig.folder / "copies"
        self.sbin.mkdir()
        self.work = rig.folder / "work"
        self.work.mkdir()
        path = f"{BUILD / 'bin'}:{LITESTREAM}:{self.sbin}:/usr/bin:/bin"
        self.copier = Process(rig, "litestream", [self.sbin / "grapnel-litestream"])
        self.copier_env = {"PATH": path}
        self.addCleanup(self.copier.kill)
        self.guide = Guide(PAGE, rig.folder, replace={
            "/usr/local/sbin": str(self.sbin),
            "/etc/litestream.yml": str(rig.folder / "litestream.yml"),
            "/etc/systemd/system": str(rig.folder),
            "/var/lib/grapnel-litestream": str(self.work),
            "/var/lib/grapnel": str(rig.state_dir),
            "/var/backups/grapnel-copies": str(self.copies),
            " -o grapnel -g grapnel": "",
        }, commands={
            "runuser": 'shift 3; exec "$@"', "chown": "exit 0",
            "systemctl": self.systemctl,
        }, env={**rig.env, "GRAPNEL_CONFIG": str(rig.config_path), "PATH": path})
        self.addCleanup(self.guide.close)
        return rig.start()

    def systemctl(self, words):
        for unit in [w for w in words[1:] if not w.startswith("-")]:
            starts = words[0] in ("start", "enable")
            if unit == "grapnel.target":
                self.pipeline.start() if starts else self.pipeline.stop()
            elif starts:
                self.copier.spawn(self.copier_env)
            else:
                self.copier.stop()
        return 0

    def copied(self):
        """The events in the newest copy; none while it is not complete."""
        with tempfile.TemporaryDirectory() as folder:
            self.pipeline.run(self.sbin / "grapnel-litestream-restore", folder, env=self.copier_env)
            if not (pathlib.Path(folder) / "dlqd.db").exists():
                return set()
            with contextlib.closing(sqlite3.connect(f"{folder}/ingress.db")) as db:
                return {event for event, in db.execute("SELECT event_id FROM archive")}

    @staticmethod
    def acked(load):
        """Its accepted events, in their order."""
        return [ack["id"] for ack in load.acks() if ack.get("id")]

    def accept(self, count):
        return [self.pipeline.accept(self.pipeline.plane_body("ws-1")) for _ in range(count)]

    def test_a_wiped_disk_loses_the_last_seconds_only(self):
        rig = self.machine()
        waits = rig.accept(rig.plane_body("ws-down"))
        dead = rig.accept(rig.plane_body("ws-legal"))
        wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")
        events = self.accept(30)
        self.guide.run("Prepare")
        wait_for(lambda: {waits, dead, *events} <= self.copied(), what="a first copy")

        # What is written while it is away is in the copy that its next start begins.
        self.copier.kill()
        events += self.accept(30)
        rig.receiver.wait(events[-1])
        rig.stop()  # the write-ahead logs are gone
        rig.start()
        events += self.accept(30)
        self.copier.spawn(self.copier_env)
        wait_for(lambda: {waits, dead, *events} <= self.copied(), what="the copy of the next start")
        self.assertEqual(len(list(self.copies.iterdir())), 2)
        self.guide.run("Delete old copies")
        self.assertEqual(len(list(self.copies.iterdir())), 1)

        # Both end under load, and the disk is wiped.
        load = rig.load(count=1000000, connections=1, rate=200, workspaces=1)
        wait_for(lambda: set(self.acked(load)) & self.copied(), timeout=30, what="a copy of the load")
        rig.kill()
        self.copier.kill()
        load.kill()
        series = {r.headers["grapnel-series"] for r in rig.receiver.requests("/crm")}
        for folder in (rig.state_dir, rig.run_dir, self.work):
            shutil.rmtree(folder)
        self.work.mkdir()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        self.guide.run("On the new machine")
        self.guide.finish()

        again = self.accept(5)
        rig.settle()
        present = {row["event_id"] for row in rig.rows("ingress", "SELECT event_id FROM archive")}
        self.assertLessEqual({waits, dead, *events, *again}, present)
        there = [event in present for event in self.acked(load)]
        self.assertTrue(there[0])
        self.assertEqual(there, sorted(there, reverse=True), "only the newest are missing")
        dead_letters = {row["event_id"] for row in rig.cli("dlq")[0]}
        self.assertEqual(dead_letters, {dead})
        self.assertLessEqual(present - dead_letters, set(rig.receiver.delivered()))

        fresh = [r for r in rig.receiver.requests("/crm") if r.headers["grapnel-series"] not in series]
        self.assertEqual(len({r.headers["grapnel-series"] for r in fresh}), 1)
        by_workspace = {}
        for r in fresh:
            numbers = by_workspace.setdefault(r.headers["grapnel-workspace"], {})
            self.assertEqual(numbers.setdefault(int(r.headers["grapnel-sequence"]), r.id), r.id)
        for numbers in by_workspace.values():
            self.assertEqual(sorted(numbers), list(range(min(numbers), max(numbers) + 1)))
        self.assertLessEqual(set(again), {r.id for r in fresh})


main()
