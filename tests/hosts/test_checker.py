"""P1, P2, P3, P4, P5 on several hosts, in the manner of Jepsen: clients post, receivers record, and meanwhile processes are
killed and stopped, hosts are cut off, slow and lossy, clocks jump, and disks fill up. Then everything heals, and what the
clients were told is compared with what the receivers got.

    tests/hosts/test_checker.py [--seed N] [--seconds S] [--hosts 3|5] [--runs N]

A seed is printed; it repeats the schedule of faults. --seconds is how long faults begin."""

import argparse
import json
import pathlib
import random
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
import checker
import clients
import faults
from cluster import Cluster
from rig import PLANE_SECRET, SLOW, RigTest, wait_for

LAYOUTS = {
    3: {"a": ["ingress-1", "deliverer-1"], "b": ["ingress-2", "deliverer-2"], "c": ["sequencer", "dlqd", "console"]},
    5: {"a": ["ingress-1"], "b": ["ingress-2"], "c": ["sequencer", "dlqd", "console"], "d": ["deliverer-1"],
        "e": ["deliverer-2"]},
}
RATE = 60 / SLOW        # events in a second
REFUSED = "ws-0"        # the endpoint `legal` gets its events, and refuses them
ORDERED = ("ledger", "single")
SLACK_MS = 1000         # what the end of a connection may need to the receiver on a network without faults

options = argparse.ArgumentParser()
options.add_argument("--seed", type=int)
options.add_argument("--seconds", type=float, default=40)
options.add_argument("--hosts", type=int, choices=LAYOUTS)
options.add_argument("--runs", type=int, default=1)
given = options.parse_args([]) if __name__ != "__main__" else None


def endpoints(rig):
    timeout = {"timeout": f"{SLOW if SLOW > 1 else 2}s", "connect_timeout": f"{SLOW if SLOW > 1 else 2}s"}
    return [rig.endpoint("crm", **timeout), rig.endpoint("ledger", ordered="workspace", **timeout),
            rig.endpoint("single", ordered="all", workspaces=["ws-1"], **timeout),
            rig.endpoint("legal", workspaces=[REFUSED], **timeout)]


def responses(dice, count=4000):
    """Mostly good and soon, sometimes slow, late or wrong."""
    for _ in range(count):
        what = dice.random()
        if what < 0.90:
            yield {"status": 200, "delay_ms": dice.randrange(15)}
        elif what < 0.94:
            yield {"status": dice.choice((500, 503, 429))}
        elif what < 0.97:
            yield {"status": 200, "delay_ms": dice.randrange(100, 800)}
        elif what < 0.98:
            yield {"status": 200, "delay_ms": 8000}  # after the time-out
        elif what < 0.99:
            yield {"action": "close"}
        else:
            yield {"action": "reset"}
    yield {"status": 200}  # the last one is for all further requests


class Checker(RigTest):
    def begin(self, layout, seed):
        cluster = Cluster(layout, endpoints, more={"retry_policies": [{
            "name": "default", "backoff": "exponential", "first_wait": "50ms", "factor": 2, "max_wait": "1s",
            "jitter": "full", "max_attempts": 1000, "max_duration": "1h",
            "retry_on": ["network", 408, 425, 429, "5xx"], "respect_retry_after": True}]})
        self.addCleanup(self._end, cluster)
        dice = random.Random(seed)
        cluster.receiver.rules(
            *({"path": f"/{name}", "responses": list(responses(dice))} for name in ("crm", *ORDERED)),
            {"path": "/legal", "responses": [{"status": 400, "body": "no"}]})
        return cluster.start()

    def check(self, hosts, seed, seconds):
        print(f"\n--seed {seed} --seconds {seconds:g} --hosts {hosts}", file=sys.stderr, flush=True)
        began = time.monotonic()
        cluster = self.begin(LAYOUTS[hosts], seed)
        ingresses = [cluster.url_of_ingress(h) for h, names in LAYOUTS[hosts].items()
                     if any(n.startswith("ingress") for n in names)]
        load = clients.Clients(ingresses, seed, RATE).start()
        wounds = faults.Wounds(cluster)
        supervisor = faults.Supervisor(wounds)
        faults.run(faults.schedule(seed, seconds, cluster), wounds, supervisor)
        self.heal(cluster, supervisor, load)
        load.stop()
        self.judge(cluster, load, wounds)
        self.assertEqual(supervisor.unasked, [])
        print(f"{dict(load.counts())}; {sum(supervisor.started.values())} starts; "
              f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def heal(self, cluster, supervisor, load):
        """Without faults everything works again, by itself: each ingress accepts, and all is delivered."""
        def healed(fact):
            supervisor.look()
            return fact()
        for daemon in cluster.daemons.values():
            wait_for(lambda d=daemon: healed(lambda: d.alive and d.up()), what=f"{daemon.name} to be up")
        for host, names in cluster.layout.items():
            if any(n.startswith("ingress") for n in names):
                wait_for(lambda h=host: healed(cluster.hosts[h].ingress_is_ready), what=f"the ingress of {host}")
        before = sum(t.get("status") == 200 for t in load.told)
        wait_for(lambda: healed(lambda: sum(t.get("status") == 200 for t in load.told) > before + 20),
                 what="clients to be told 200 again")

    def judge(self, cluster, load, wounds):
        cluster.settle(90)
        events, deliveries, dead_letters = cluster.facts()
        told = load.told
        verdicts = {"stores": checker.check_stores([t for t in told if t.get("status") == 200], events, deliveries,
                                                   dead_letters)}
        for name in ("crm", *ORDERED, "legal"):
            subscribed = {"single": ["ws-1"], "legal": [REFUSED]}.get(name, clients.WORKSPACES)
            asked = [t for t in told if t["workspace"] in subscribed]
            ended = {x["event_id"] for x in dead_letters if x["endpoint"] == name}
            requests = cluster.receiver.requests(f"/{name}")
            verdicts[name] = checker.check(asked, requests, PLANE_SECRET, ended=ended, repeats=True)
            if name != "legal" and ended:
                verdicts[name].add("a dead letter of a good endpoint", sorted(ended)[:5])
            if name in ORDERED:
                verdicts[f"lanes of {name}"] = checker.check_lanes(
                    requests, lambda r, n=name: lane(r, n), SLACK_MS, lambda r: self.unseen(cluster, wounds, r))
        for name, verdict in verdicts.items():
            print(f"{name}: {verdict}", file=sys.stderr, flush=True)
        self.check_links(cluster)
        self.assertEqual({x["reason"] for x in dead_letters} - {"rejected"}, set())
        for verdict in verdicts.values():
            verdict.require()

    def unseen(self, cluster, wounds, request):
        """The receiver may have seen its end late: the network between them was disturbed, or its sender is unknown."""
        end_ms = request.ended_ms or float("inf")
        names = {cluster.network.address(h): h for h in cluster.layout}
        return any(since < end_ms and request.at_ms < until for host, since, until in wounds.blind
                   if host == names.get(request.sender, host))

    def check_links(self, cluster):
        """Exactly once between processes: no link lost, rewound or set aside a message."""
        for row in cluster.cli("status")[0]:
            for link in row.get("links", []):
                self.assertEqual((link["lost"], link["set_back"], link["unprocessable"]), (0, 0, 0),
                                 (row["process"], link))

    def test_three_hosts(self):
        self.check(3, given.seed or random.randrange(1 << 32), given.seconds)

    def test_five_hosts(self):
        self.check(5, given.seed or random.randrange(1 << 32), given.seconds)


def lane(request, endpoint):
    """Numbers of different series, workspaces and ordering keys do not compare."""
    series, workspace = checker.workspace(request)
    return series, workspace, None if endpoint == "single" else json.loads(request.body)["data"].get("key")


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
