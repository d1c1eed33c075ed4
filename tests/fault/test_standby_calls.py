"""The Nth write or sync of a start of a replicated process fails, or the process is killed there: while it cuts the write-ahead log of a killed active, while it applies
turns, and while it restores a snapshot. A full disk is waited for; after anything else the next start continues."""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import main, program

ENOSPC, EIO, KILL, HALF = 28, 5, -9, 0
STORAGE = 74


class Calls(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="standby-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.dice = random.Random(3)
        (self.folder / "state").mkdir()
        self.was = self.folder / "was"

    def start(self, host, turns=0, fault=None):
        env = dict(os.environ)
        hit = self.folder / "hit"
        hit.unlink(missing_ok=True)
        if fault:
            env.update({
                "LD_PRELOAD": program("rig-faults.so"), "RIG_FAULT": fault,
                "RIG_FAULT_FILES": f"{self.folder}/state/",
                "RIG_FAULT_HIT": str(hit),
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                + ":verify_asan_link_order=0"})
        done = subprocess.run(
            [program("rig-standby"), self.folder / "state" / f"{host}.db",
             self.folder / "engine", str(self.dice.randrange(1 << 30)),
             str(turns)], env=env, capture_output=True, text=True)
        return done, hit.exists()

    def make(self):
        """Host a has a turn that is not in the log, and host b lacks the last turns."""
        self.start("a", 12)
        self.start("b")
        while True:
            done, _ = self.start("a", 25)
            self.assertIn(done.returncode, (0, KILL), done.stderr)
            shutil.rmtree(self.was, ignore_errors=True)
            shutil.copytree(self.folder / "state", self.was)
            done, _ = self.start("a")
            new, _ = self.start("c")
            (self.folder / "state" / "c.db").unlink()
            if "cut=1" in done.stdout and "restored=1" in new.stdout:
                return

    def test_each_call_may_fail(self):
        self.make()
        hits = {}
        for host in "abc":  # c has no file
            for call, error in (("write", KILL), ("sync", KILL), ("write", ENOSPC),
                                ("write", HALF), ("write", EIO), ("sync", EIO)):
                n = 1
                while True:
                    for path in (self.folder / "state").iterdir():
                        path.unlink()
                    shutil.copytree(self.was, self.folder / "state",
                                    dirs_exist_ok=True)
                    done, hit = self.start(host, 0, f"{call}:{error}:{n}")
                    with self.subTest(host=host, call=call, error=error, n=n):
                        if not hit or error in (ENOSPC, HALF):
                            self.assertEqual(done.returncode, 0, done.stderr)
                        else:
                            self.assertEqual(
                                done.returncode,
                                KILL if error == KILL else STORAGE, done.stderr)
                            again, _ = self.start(host)
                            self.assertEqual(again.returncode, 0, again.stderr)
                    if not hit:
                        break
                    hits[call, error] = hits.get((call, error), 0) + 1
                    # Each of the first calls, then one in thirty.
                    n += 1 if n < 8 else 30
        print(f"\n{hits}", file=sys.stderr)
        self.assertEqual(len(hits), 6)


if __name__ == "__main__":
    main()
