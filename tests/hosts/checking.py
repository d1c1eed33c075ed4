"""What the checkers of this folder have in common: a random load with random faults, then everything heals, and what the
clients were told is compared with what the receivers got and the stores have."""

import json
import pathlib
import random
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
import checker
import clients
import faults
from cluster import Cluster
from rig import PLANE_SECRET, SLOW, RigTest, wait_for

RATE = 60 / SLOW        # events in a second
REFUSED = "ws-0"        # the endpoint `legal` gets its events, and refuses them
ORDERED = ("ledger", "single")
SLACK_MS = 1000         # what the end of a connection may need to the receiver on a network without faults


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


class Checking(RigTest):
    load = clients.Clients  # how clients choose an ingress

    def begin(self, layout, seed, **how):
        cluster = Cluster(layout, endpoints, **how, more={"retry_policies": [{
            "name": "default", "backoff": "exponential", "first_wait": "50ms", "factor": 2, "max_wait": "1s",
            "jitter": "full", "max_attempts": 1000, "max_duration": "1h",
            "retry_on": ["network", 408, 425, 429, "5xx"], "respect_retry_after": True}]})
        self.addCleanup(self._end, cluster)
        dice = random.Random(seed)
        cluster.receiver.rules(
            *({"path": f"/{name}", "responses": list(responses(dice))} for name in ("crm", *ORDERED)),
            {"path": "/legal", "responses": [{"status": 400, "body": "no"}]})
        return cluster.start()

    def check(self, layout, seed, seconds, **how):
        """Faults begin for so many seconds."""
        began = time.monotonic()
        cluster = self.begin(layout, seed, **how)
        load = self.load([cluster.url_of_ingress(h) for h in hosts_of_ingress(cluster)], seed, RATE).start()
        wounds = faults.Wounds(cluster)
        supervisor = faults.Supervisor(wounds)
        faults.run(faults.schedule(seed, seconds, cluster), wounds, supervisor)
        self.heal(cluster, supervisor, load)
        load.stop()
        self.judge(cluster, load, wounds)
        self.assertEqual(supervisor.unasked, [])
        print(f"{dict(load.counts())}; {sum(supervisor.started.values())} starts, ended by themselves with "
              f"{dict(supervisor.ended)}; "
              f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def heal(self, cluster, supervisor, load):
        """Without faults everything works again, by itself: each ingress accepts, and all is delivered."""
        def healed(fact):
            supervisor.look()
            return fact()
        for key, daemon in cluster.daemons.items():
            wait_for(lambda d=daemon: healed(lambda: d.alive and d.up()), 30, what=f"{key} to be up")
        for name in cluster.replicated:
            wait_for(lambda n=name: healed(lambda: cluster.is_whole(n)), 60,
                     f"one active {name}, and standbys that are ready")
        for host in hosts_of_ingress(cluster):
            if "ingress" not in cluster.replicated:
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
        for name in cluster.names():
            for link in cluster.ask(name, "status").get("links", []):
                self.assertEqual((link["lost"], link["set_back"], link["unprocessable"]), (0, 0, 0), (name, link))


def hosts_of_ingress(cluster):
    return [host for host, names in cluster.layout.items() if any(n.startswith("ingress") for n in names)]


def lane(request, endpoint):
    """Numbers of different series, workspaces and ordering keys do not compare."""
    series, workspace = checker.workspace(request)
    return series, workspace, None if endpoint == "single" else json.loads(request.body)["data"].get("key")
