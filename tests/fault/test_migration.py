"""P2, P3: a kill or a full disk at any write or sync of an upgrade leaves the earlier schema
or the new one, complete, and the next start continues.

All calls take minutes, so the test draws some; GRAPNEL_MIGRATIONS=all takes each."""

import contextlib
import errno
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import golden
from rig import RigTest, main, program, wait_for

COUNT = os.environ.get("GRAPNEL_MIGRATIONS", "24")
SEED = int(os.environ.get("GRAPNEL_MIGRATIONS_SEED", 4711))
VERSION = "0.1.0"
PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd"]  # console's did not change
STORAGE = 74
FAULTS = [("write", -signal.SIGKILL), ("sync", -signal.SIGKILL),
          ("write", errno.ENOSPC), ("sync", errno.EIO)]
MOST = 40


def image(folder, name):
    """(version, schema) of a database as it would be opened after a crash; the files
    stay as they are."""
    with tempfile.TemporaryDirectory() as place:
        for suffix in ("", "-wal"):
            path = folder / f"{name}.db{suffix}"
            if path.exists():
                shutil.copy(path, place)
        with contextlib.closing(sqlite3.connect(f"{place}/{name}.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            schema = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE name "
                                "NOT IN ('file_origin', 'file_start', 'clock_spans') "
                                "ORDER BY 1, 2")  # these are made when first needed
            return db.execute("PRAGMA user_version").fetchone()[0], schema.fetchall()


class Migration(RigTest):
    def machine(self):
        rig = self.rig(console=True)
        golden.unpack(rig, VERSION)
        self.kept = rig.folder / "kept"
        shutil.copytree(rig.state_dir, self.kept)
        self.before = {name: image(self.kept, name) for name in PROCESSES}
        rig.start()
        self.after = {name: image(rig.state_dir, name) for name in PROCESSES}
        for name in PROCESSES:
            self.assertGreater(self.after[name][0], self.before[name][0])
        rig.stop()
        return rig

    def put_back(self, rig, name):
        for path in rig.state_dir.glob(f"{name}.*"):
            path.unlink()
        for path in self.kept.glob(f"{name}.*"):
            shutil.copy(path, rig.state_dir)

    def is_whole(self, rig, name, what):
        found = image(rig.state_dir, name)
        self.assertTrue(found in (self.before[name], self.after[name]),
                        f"{what}: version {found[0]} with another schema")
        return found == self.before[name]

    def try_one(self, rig, name, call, error, n):
        """true: the call was made so often during the start."""
        what = f"{name}:{call}:{error}:{n}"
        hit = rig.folder / "hit"
        hit.unlink(missing_ok=True)
        self.put_back(rig, name)
        victim = rig[name]
        said = len(victim.log())
        victim.start(wait=False, env={
            "LD_PRELOAD": program("rig-faults.so"),
            "RIG_FAULT": f"{call}:{error}:{n}", "RIG_FAULT_HIT": str(hit),
            "RIG_FAULT_FILES": str(rig.state_dir),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":verify_asan_link_order=0"})
        wait_for(victim.settled, what=what)
        if victim.alive:
            victim.kill()
        elif error > 0:
            self.assertEqual(victim.wait_exit(), STORAGE, what)
        else:
            self.assertEqual(victim.wait_exit(), error, what)
        if self.is_whole(rig, name, what):
            self.earlier += 1
            if error == errno.ENOSPC and "so the schema cannot be upgraded" in victim.log()[said:]:
                self.told += 1
        victim.start()
        self.assertEqual(image(rig.state_dir, name), self.after[name], what)
        victim.kill()
        return hit.exists()

    def test_an_upgrade_survives_a_kill_or_a_full_disk_at_any_call(self):
        rig = self.machine()
        self.earlier = self.told = 0
        dice = random.Random(SEED)
        print(f"\nGRAPNEL_MIGRATIONS_SEED={SEED}", file=sys.stderr, flush=True)
        if COUNT == "all":
            hits = self.all(rig)
        else:
            hits = 0
            while hits < int(COUNT):
                hits += self.try_one(rig, dice.choice(PROCESSES), *dice.choice(FAULTS),
                                     dice.randint(1, MOST))
        print(f"{hits} calls failed, {self.earlier} left the earlier schema",
              file=sys.stderr)
        self.assertGreater(self.earlier, 0)

    def all(self, rig):
        hits = 0
        for name in PROCESSES:
            for call, error in FAULTS:
                n = 1
                while self.try_one(rig, name, call, error, n):
                    n, hits = n + 1, hits + 1
        self.assertGreater(self.told, 0)
        return hits

    def test_an_upgrade_with_too_little_space_keeps_the_earlier_schema(self):
        """The log says what is missing, and the process starts when there is
        space."""
        rig = self.machine()
        shutil.rmtree(rig.state_dir)
        rig.state_dir.mkdir(mode=0o700)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs",
                               rig.state_dir], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"no right to mount a tmpfs: {done.stderr.strip()}")
        try:
            told = [name for name in PROCESSES for kib in range(16, 144, 32)
                    if self.starts_with(rig, name, kib << 10)]
            self.assertGreaterEqual(set(told), {"sequencer", "dlqd"})
        finally:
            rig.stop()
            subprocess.run(["umount", rig.state_dir], check=True)

    def starts_with(self, rig, name, free):
        """With so many bytes free. true: the log says that the schema needs more."""
        ballast = rig.state_dir / "ballast"
        ballast.write_bytes(b"")
        self.put_back(rig, name)
        disk = os.statvfs(rig.state_dir)
        ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - free))
        victim = rig[name]
        said = len(victim.log())
        victim.spawn()  # ingress accepts nothing with so little space: it is up all the same
        wait_for(lambda: not victim.alive or victim.responds(), what=name)
        if victim.alive:
            victim.kill()
        else:
            self.assertEqual(victim.wait_exit(), STORAGE, victim.log()[said:])
        earlier = self.is_whole(rig, name, f"{name} with {free} bytes")
        log = victim.log()[said:]
        if earlier:
            self.assertIn("the disk is full", log.lower())
        ballast.write_bytes(b"")
        victim.start()
        self.assertEqual(image(rig.state_dir, name), self.after[name])
        victim.kill()
        version, now = self.before[name][0], self.after[name][0]
        return earlier and ("the disk is full, so the schema cannot be upgraded from "
                            f"version {version} to {now}") in log


main()
