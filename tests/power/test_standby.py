"""Power cuts of two hosts with a replicated file: of a standby while it applies turns or restores a snapshot, of a start while it cuts the write-ahead log, and of an active. The next start has
each turn of the log, and nothing else.

The test prints its seed. GRAPNEL_POWER_SEED repeats one; GRAPNEL_POWER_STANDBY_CUTS sets how often."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from disk import Disk
from rig import main, program

CUTS = int(os.environ.get("GRAPNEL_POWER_STANDBY_CUTS", 150))
SEED = int(os.environ.get("GRAPNEL_POWER_SEED", random.randrange(1 << 32)))


class Standby(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="standby-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        for name in ("state", "journals"):
            (self.folder / name).mkdir()
        self.disk = Disk(self.folder / "state", self.folder / "journals")
        self.env = {**os.environ, "LD_PRELOAD": program("rig-power.so"),
                    "RIG_POWER": str(self.folder / "journals"),
                    "RIG_POWER_STATE": str(self.folder / "state"),
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                    + ":verify_asan_link_order=0"}

    def start(self, host, turns, seconds, dice):
        """One start of this host, which is killed after so many seconds (None: not)."""
        child = subprocess.Popen(
            [program("rig-standby"), self.folder / "state" / f"{host}.db",
             self.folder / "engine", str(dice.randrange(1 << 30)), str(turns)],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        try:
            out, error = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            out, error = child.communicate()
        self.assertIn(child.returncode, (0, -9), error)
        return out

    def wipe(self, host):
        self.disk.catch_up()
        for path in (self.folder / "state").glob(f"{host}.*"):
            path.unlink()
        self.disk.forget()

    def test_a_start_after_a_power_cut_has_each_turn_of_the_log_and_nothing_else(self):
        print(f"\nGRAPNEL_POWER_SEED={SEED}", file=sys.stderr, flush=True)
        dice = random.Random(SEED)
        cuts = restored = 0
        for _ in range(CUTS):
            host = dice.choice("ab")
            out = self.start(host, dice.choice([0, 30]),
                             dice.choice([None, dice.uniform(0.01, 0.5)]), dice)
            cuts += "cut=1" in out
            restored += "restored=1" in out
            # Sometimes only the process was killed, sometimes the disk is another one.
            if dice.random() < 0.8:
                self.disk.cut(dice, host + ".")
            elif dice.random() < 0.3:
                self.wipe(host)
        for host in "ab":
            last = self.start(host, 0, None, dice)
        print(f"{cuts} turns were cut, {restored} snapshots restored; {last}",
              file=sys.stderr)
        self.assertGreater(cuts, 0)
        self.assertGreater(restored, 0)


if __name__ == "__main__":
    main()
