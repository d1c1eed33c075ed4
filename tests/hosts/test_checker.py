"""P1, P2, P3, P4, P5 on several hosts, in the manner of Jepsen: clients post, receivers record, and meanwhile processes are
killed and stopped, hosts are cut off, slow and lossy, clocks jump, and disks fill up. Then everything heals, and what the
clients were told is compared with what the receivers got.

    tests/hosts/test_checker.py [--seed N] [--seconds S] [--hosts 3|5] [--runs N]

A seed is printed; it repeats the schedule of faults. --seconds is how long faults begin."""

import argparse
import pathlib
import random
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
from checking import Checking

LAYOUTS = {
    3: {"a": ["ingress-1", "deliverer-1"], "b": ["ingress-2", "deliverer-2"], "c": ["sequencer", "dlqd", "console"]},
    5: {"a": ["ingress-1"], "b": ["ingress-2"], "c": ["sequencer", "dlqd", "console"], "d": ["deliverer-1"],
        "e": ["deliverer-2"]},
}

options = argparse.ArgumentParser()
options.add_argument("--seed", type=int)
options.add_argument("--seconds", type=float, default=40)
options.add_argument("--hosts", type=int, choices=LAYOUTS)
options.add_argument("--runs", type=int, default=1)
given = options.parse_args([]) if __name__ != "__main__" else None


class Checker(Checking):
    def run_on(self, hosts):
        seed = given.seed or random.randrange(1 << 32)
        print(f"\n--seed {seed} --seconds {given.seconds:g} --hosts {hosts}", file=sys.stderr, flush=True)
        self.check(LAYOUTS[hosts], seed, given.seconds)

    def test_three_hosts(self):
        self.run_on(3)

    def test_five_hosts(self):
        self.run_on(5)


def selected():
    """The tests of the hosts that were asked for."""
    names = {3: "test_three_hosts", 5: "test_five_hosts"}
    suite = unittest.TestSuite()
    for _ in range(given.runs):
        suite.addTests(Checker(names[n]) for n in ([given.hosts] if given.hosts else names))
    return suite


if __name__ == "__main__":
    given = options.parse_args([word for word in sys.argv[1:] if word != "-v"])
    sys.exit(not unittest.TextTestRunner(verbosity=2, failfast=True).run(selected()).wasSuccessful())
