"""P1, P2, P3, P4, P5 with replicated stores, in the manner of Jepsen: two hosts have ingress, sequencer and dlqd each, and an
engine on three hosts has their stores. Meanwhile hosts are killed, cut off and wiped, and so are those of the engine. Then
everything heals, and what the clients were told is compared with what the receivers got.

    tests/hosts/test_checker_replicated.py [--seed N] [--seconds S] [--hosts 2|3] [--runs N]

A seed is printed; it repeats the schedule of faults. --seconds is how long faults begin; --hosts is how many have the stores."""

import argparse
import pathlib
import random
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
from checking import Checking
from clients import BalancedClients
from rig import SLOW, wait_for

STORES = ["ingress", "sequencer", "dlqd"]
LAYOUTS = {
    2: {"a": STORES, "b": STORES, "d": ["deliverer-1"], "e": ["deliverer-2"]},
    3: {"a": STORES, "b": STORES, "c": STORES, "d": ["deliverer-1"], "e": ["deliverer-2"]},
}
ENGINE = ["db1", "db2", "db3"]
TAKEOVER_S = 3 if SLOW == 1 else 6

options = argparse.ArgumentParser()
options.add_argument("--seed", type=int)
options.add_argument("--seconds", type=float, default=40)
options.add_argument("--hosts", type=int, choices=LAYOUTS, default=2)
options.add_argument("--runs", type=int, default=1)
given = options.parse_args([]) if __name__ != "__main__" else None


class ReplicatedChecker(Checking):
    load = BalancedClients

    def test_replicated_stores(self):
        seed = given.seed or random.randrange(1 << 32)
        print(f"\n--seed {seed} --seconds {given.seconds:g} --hosts {given.hosts}", file=sys.stderr, flush=True)
        self.check(LAYOUTS[given.hosts], seed, given.seconds, engine=ENGINE, takeover_s=TAKEOVER_S)

    def judge(self, cluster, load, wounds):
        super().judge(cluster, load, wounds)
        for name in cluster.replicated:
            wait_for(lambda n=name: cluster.copies_are_equal(n), what=f"the copies of {name} to be equal")
        lines = [line for name in cluster.replicated for d in cluster.instances(name) for line in d.log().splitlines()]
        # A file is a beginning of the log, plus one turn at most, which is cut off. It is of no use only when the
        # engine has forgotten the turns that follow it.
        aside = [line for line in lines if "the database is not what the engine's log has" in line]
        self.assertEqual([line for line in aside if "the log does not have turn" not in line], [])
        restored = sum("restoring a snapshot" in line for line in lines)
        print(f"takeovers: {cluster.takeovers()}; {restored} snapshots restored, {len(aside)} files set aside",
              file=sys.stderr, flush=True)


if __name__ == "__main__":
    given = options.parse_args([word for word in sys.argv[1:] if word != "-v"])
    suite = unittest.TestSuite(ReplicatedChecker("test_replicated_stores") for _ in range(given.runs))
    sys.exit(not unittest.TextTestRunner(verbosity=2, failfast=True).run(suite).wasSuccessful())
