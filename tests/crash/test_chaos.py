"""P1, P2, P3, P4, P10: random kills under load, of one, two and all processes, lose no
event, and traces stay right.

The test prints its seed. GRAPNEL_CHAOS_SEED repeats one; GRAPNEL_CHAOS_KILLS (200)
and GRAPNEL_CHAOS_EVENTS (2000) change its length."""

import collections
import concurrent.futures
import datetime
import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import checker
from rig import PLANE_SECRET, SLOW, RigTest, main, wait_for
from troubled import troubled

KILLS = int(os.environ.get("GRAPNEL_CHAOS_KILLS", 200))
EVENTS = int(os.environ.get("GRAPNEL_CHAOS_EVENTS", 2000))
SEED = int(os.environ.get("GRAPNEL_CHAOS_SEED", random.randrange(1 << 32)))
WORKSPACES = 50
LEGAL = ["ws-0000", "ws-0001"]  # events of these also go to an endpoint
                                # that refuses all
PAUSE_S = 0.12                  # mean time between two kills
DOWN_S = 0.25                   # the longest that one is left dead
SLACK_MS = 5000 * SLOW          # two processes' clocks; one may stand still
SAMPLE = 100                    # events that are traced


def ms(text):
    return datetime.datetime.fromisoformat(
        text.replace("Z", "+00:00")).timestamp() * 1000


class Supervisor:
    """Starts what has died, after a while of its own choice; notes an end that
    was not its doing."""

    def __init__(self, rig, dice):
        self.rig, self.dice = rig, dice
        self.due = {}
        self.kills = collections.Counter()
        self.wiped = 0
        self.unasked = []

    def kill(self, *names):
        for name in names:
            daemon = self.rig[name]
            self.look(name)
            daemon.kill()
            self.kills[name] += 1
            self.due[name] = time.monotonic() + self.dice.uniform(0, DOWN_S)
            if name.startswith("deliverer") and self.dice.random() < 0.05:
                self.wipe(name)

    def wipe(self, name):
        for path in self.rig.state_dir.glob(f"{name}.db*"):
            path.unlink()
        self.wiped += 1

    def look(self, name):
        daemon = self.rig[name]
        if name not in self.due and not daemon.alive:
            self.unasked.append(f"{name} ended by itself with "
                                f"{daemon.exit_code}: {daemon.log()[-800:]}")
            self.due[name] = 0

    def restart(self, everything=False):
        now = time.monotonic()
        for name in self.rig.daemons:
            self.look(name)
            if name in self.due and (everything or now >= self.due[name]):
                del self.due[name]
                self.rig[name].start(wait=False)

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while True:
            self.restart()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.01))


class Operator(threading.Thread):
    """Sends dead letters back, again and again, who may be there or not."""

    def __init__(self, rig):
        super().__init__(daemon=True)
        self.rig, self.requeued, self.done = rig, 0, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.1):
            dead_letters, code = self.rig.cli("dlq", "--limit", "3")
            if code == 0 and dead_letters:
                reply, _ = self.rig.cli(
                    "dlq", "retry", *(x["id"] for x in dead_letters))
                self.requeued += len(reply["requeued"]) if reply else 0

    def leave(self):
        self.done.set()
        self.join()


class Chaos(RigTest):
    def victims(self, dice, names):
        how = dice.random()
        if how < 0.10:
            return names  # the power goes
        return dice.sample(names, 2 if how < 0.25 else 1)

    def test_no_event_is_lost_and_no_sequence_is_given_twice(self):
        """P1, P2, P3, P4, P10 under kill -9."""
        print(f"\nGRAPNEL_CHAOS_SEED={SEED} GRAPNEL_CHAOS_KILLS={KILLS}",
              file=sys.stderr, flush=True)
        dice = random.Random(SEED)
        rig = troubled(self.rig(deliverers=2), LEGAL).start()
        supervisor = Supervisor(rig, dice)
        names = list(rig.daemons)
        rate = max(1, int(EVENTS / (KILLS * PAUSE_S * 0.8)))
        load = rig.load(count=EVENTS, workspaces=WORKSPACES, size=700,
                        rate=rate, timeout=5)
        operator = Operator(rig)
        begun = time.monotonic()
        while supervisor.kills.total() < KILLS:
            supervisor.run_for(dice.expovariate(1 / PAUSE_S))
            supervisor.kill(*self.victims(dice, names))
        under_fire = len(load.acks())
        wait_for(lambda: supervisor.restart() or not load.alive, 120,
                 "the load to end")
        supervisor.restart(everything=True)
        killed_s = time.monotonic() - begun
        for daemon in rig.daemons.values():
            wait_for(daemon.up, what=f"{daemon.name} to be up")
        operator.leave()
        self.judge(rig, load)
        self.assertEqual(supervisor.unasked, [])
        self.assertGreater(under_fire, EVENTS / 4, "too little load")
        print(f"kills {dict(supervisor.kills)} in {killed_s:.0f} s, "
              f"{supervisor.wiped} with their disk; {operator.requeued} dead letters "
              f"requeued; {under_fire} of {EVENTS} "
              f"answered under fire; {time.monotonic() - begun:.0f} s in all",
              file=sys.stderr)

    def judge(self, rig, load):
        rig.settle(60)
        acks = load.acks()
        self.assertEqual(len(acks), EVENTS)
        events, deliveries, dead_letters = rig.facts()
        checker.check_stores(acks, events, deliveries, dead_letters).require()
        self.check_series(rig)
        for name, asked in {"crm": acks, "audit": acks, "legal": [
                a for a in acks if a["workspace"] in LEGAL]}.items():
            ended = {x["event_id"] for x in dead_letters if x["endpoint"] == name}
            verdict = checker.check(asked, rig.receiver.requests(f"/{name}"),
                                    PLANE_SECRET, ended=ended).require()
            print(f"{name}: {verdict}", file=sys.stderr)
            if name != "legal":
                self.assertEqual(ended, set(), "a dead letter of a good response")
        self.assertEqual({(x["endpoint"], x["reason"], x["state"])
                          for x in dead_letters}, {("legal", "rejected", "dead")})
        self.check_links(rig)
        self.check_traces(rig, acks)

    def check_series(self, rig):
        """No sequence was set back: there is one series."""
        self.assertEqual(len({r.headers["grapnel-series"]
                              for r in rig.receiver.requests()}), 1)

    def check_links(self, rig):
        """Exactly once between stages: nothing lost, set back or set aside,
        but where a deliverer had lost its disk."""
        for row in rig.cli("status")[0]:
            for link in row["links"]:
                if "deliverer" in row["process"] + link["peer"]:
                    continue
                self.assertEqual(
                    (link["lost"], link["set_back"], link["unprocessable"]),
                    (0, 0, 0), (row["process"], link))

    def check_traces(self, rig, acks):
        """Did we receive it, did we process it, what did it change: of each the
        reply of one command is what the load and the receiver saw."""
        seen = collections.defaultdict(list)
        for request in rig.receiver.requests():
            seen[request.id, request.path[1:]].append(request)
        taken = [a for a in acks if a.get("status") == 200]
        asked = random.Random(SEED).sample(taken, min(SAMPLE, len(taken)))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            traces = list(pool.map(lambda a: rig.trace(a["id"]), asked))
        for ack, trace in zip(asked, traces):
            told = "\n".join(e["what"] for e in trace["timeline"])
            self.check_received(ack, trace, told)
            self.check_processed(ack, trace, told)
            for delivery in trace["deliveries"]:
                self.check_delivery(trace, delivery, told,
                                    seen[ack["id"], delivery["endpoint"]])

    def check_received(self, ack, trace, told):
        """Between the load's question and its reply, from there, signed."""
        at_ms = ms(trace["received_at"])
        self.assertLess(ack["sent_ms"] - SLACK_MS, at_ms, ack)
        self.assertLess(at_ms, ack["responded_ms"] + SLACK_MS, ack)
        self.assertEqual((trace["id"], trace["source"], trace["unreachable"]),
                         (ack["id"], "plane", []))
        self.assertEqual(told.count("received from 127.0.0.1 by source plane"),
                         1, told)
        self.assertIn("verified by hmac-sha256, secret 1", told)

    def check_processed(self, ack, trace, told):
        """Numbered once, and given to the subscribed endpoints, and no others."""
        legal = ack["workspace"] in LEGAL
        self.assertEqual((trace["status"], trace["workspace"]),
                         ("done", ack["workspace"]))
        self.assertEqual(told.count(f"sequenced: number {trace['sequence']} of "
                                    f"workspace {ack['workspace']}"), 1, told)
        self.assertEqual({d["endpoint"] for d in trace["deliveries"]},
                         {"crm", "audit", *(["legal"] if legal else [])})
        for name in ("crm", "audit"):
            self.assertIn(f"routed to {name}: by its own", told)
        self.assertIn("routed to legal: by its own" if legal else
                      "not sent to legal: not subscribed to workspace", told)

    def check_delivery(self, trace, delivery, told, requests):
        said = collections.Counter(
            a["http_status"] for a in delivery["attempts"])
        saw = collections.Counter(r.status for r in requests)
        what = (trace["id"], delivery, requests)
        self.assertEqual({r.headers["grapnel-sequence"] for r in requests},
                         {str(trace["sequence"])}, what)
        final = {"delivered": 200, "dead": 400}[delivery["status"]]
        self.assertEqual(delivery["attempts"][-1]["http_status"], final, what)
        self.assertEqual(f"delivered to {delivery['endpoint']}" in told,
                         final == 200, what)
        if final == 400:
            self.assertIn(f"-{delivery['endpoint']} ({delivery['endpoint']}) "
                          "dead: rejected", told)
        # An attempt whose record died with its process was seen, not said.
        for status, count in said.items():
            if status:
                self.assertLessEqual(count, saw[status], what)
        for attempt in delivery["attempts"]:
            at_ms = ms(attempt["at"])
            self.assertTrue(not attempt["http_status"] or any(
                r.status == attempt["http_status"] and
                abs(r.at_ms - at_ms) < attempt["duration_ms"] + SLACK_MS
                for r in requests), (attempt, what))


main()
