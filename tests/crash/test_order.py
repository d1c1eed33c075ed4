"""P5, P6: releases, gaps and duplicates equal those of a simple model, and an ordered
endpoint sees its order, while processes are killed."""

import collections
import hashlib
import hmac
import http.client
import json
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for  # noqa: E402

KEY = "ledger key"
# Less than half of what keys are kept for.
TWO_DAYS_S = 2 * 86400


def source(**order):
    return {"name": "ledger", "provider": "custom", "secrets": [KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                       "form": "plain", "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            "order": {"by": "sequence", "sequence": "json:/seq", **order}}


class Sender:
    """Posts like a provider: each event until it gets 200, each list on a
    connection of its own."""

    def __init__(self, rig):
        self.rig = rig
        self.sent = collections.Counter()  # by list
        self.threads = []

    def post(self, connection, event):
        body = json.dumps(event).encode()
        headers = {"X-Sig": hmac.new(KEY.encode(), body,
                                     hashlib.sha256).hexdigest()}
        while True:
            try:
                connection.request("POST", "/in/ledger", body, headers)
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    return
            except (OSError, http.client.HTTPException):
                connection.close()
            time.sleep(0.01)

    def run(self, n, events):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.rig.ingress_port, timeout=30)
        for event in events:
            self.post(connection, event)
            self.sent[n] += 1
        connection.close()

    def start(self, lists):
        self.threads = [threading.Thread(target=self.run, args=(n, events))
                        for n, events in enumerate(lists)]
        for thread in self.threads:
            thread.start()
        return self

    def ended(self):
        return not any(t.is_alive() for t in self.threads)

    def join(self):
        for thread in self.threads:
            thread.join()

    def count(self):
        return sum(self.sent.values())


class Killer:
    """kill -9 of one process after another, and a step of the clock with each, up
    to `step_s` from what it is, one way or the other. In the main thread: a
    daemon dies with the thread that started it."""

    def __init__(self, rig, seed=7, step_s=0):
        self.rig, self.step_s = rig, step_s
        self.chance = random.Random(seed)
        self.count = 0

    def kill(self):
        if self.step_s:
            self.rig.step_clock(self.chance.uniform(-self.step_s, self.step_s))
        name = self.chance.choice(list(self.rig.daemons))
        self.rig[name].restart(wait=False)
        self.count += 1

    def until(self, fact, progress=time.monotonic, every=1.0):
        """Until `fact`, one each time that `progress` has grown by `every`."""
        at = progress() + every
        while not fact():
            if progress() < at:
                time.sleep(0.01)
                continue
            self.kill()
            at = progress() + every
        self.wait_up()

    def wait_up(self):
        for daemon in self.rig.daemons.values():
            wait_for(daemon.up, what=f"{daemon.name} to be up")


class Model:
    """What a sequencer that is never killed does with these arrivals when no
    wait is ever over: only a full buffer gives a gap up."""

    def __init__(self, tolerance, buffer, start_first, per_type):
        self.tolerance, self.buffer = tolerance, buffer
        self.start_first, self.per_type = start_first, per_type
        self.seen, self.duplicates = {}, {}
        self.streams = {}
        self.gone = collections.defaultdict(list)  # by workspace, in order
        self.gone_of = collections.defaultdict(list)  # by stream

    def arrive(self, id_, event):
        if event["id"] in self.seen:
            self.duplicates[id_] = self.seen[event["id"]]
            return
        self.seen[event["id"]] = id_
        n, team = event["seq"], event["team"]
        key = (team, event["type"] if self.per_type else "")
        s = self.streams.setdefault(key, {
            "next": n if self.start_first else 1, "held": [], "missing": {},
            "high": (n if self.start_first else 1) - 1})
        if n in s["missing"]:
            s["missing"][n] = "filled"
        for k in range(s["high"] + 1, n):
            s["missing"][k] = "open"
        s["high"] = max(s["high"], n)
        late = n < s["next"]
        if not late and n - s["next"] > self.tolerance:
            s["held"].append((n, len(self.seen), id_))
            s["held"].sort()
        else:
            gap = None
            if n > s["next"]:
                gap = f"{s['next']}-{n - 1}"
            self.go(key, id_, gap, late)
            s["next"] = max(s["next"], n + 1)
        self.drain(s, key)

    def go(self, key, id_, gap, late):
        self.gone[key[0]].append((id_, gap, late))
        self.gone_of[key].append((id_, gap, late))

    def drain(self, s, key):
        while s["held"]:
            n, _, id_ = s["held"][0]
            gap = range(s["next"], n)
            if len(gap) > self.tolerance and s["missing"][n - 1] == "open":
                if len(s["held"]) <= self.buffer:
                    return
                for k in range(n - 1, s["next"] - 1, -1):
                    if s["missing"].get(k) != "open":
                        break
                    s["missing"][k] = "skipped"
            s["held"].pop(0)
            self.go(key, id_, f"{s['next']}-{n - 1}" if len(gap) else None,
                    False)
            s["next"] = max(s["next"], n + 1)

    def give_up(self):
        """All waits have ended."""
        for key, s in self.streams.items():
            for n, status in s["missing"].items():
                s["missing"][n] = "skipped" if status == "open" else status
            self.drain(s, key)


class AsTheModel(RigTest):
    def events(self, chance, teams, count, reach):
        """Lists for each sender: shuffled within `reach`, some lost, some
        doubled, some with a number that another event has too."""
        lists = []
        for team in teams:
            counts = collections.Counter()
            made = []
            for i in range(count):
                type_ = chance.choice("ab")
                counts[type_] += 1
                made.append({"id": f"{team}-{i}", "team": team, "type": type_,
                             "seq": 0, "i": i})
            for e in made:
                e["seq"] = e["i"] + 1
            kept = [e for e in made if chance.random() > 0.05]
            kept += [dict(e) for e in kept if chance.random() < 0.05]
            kept += [dict(e, id=e["id"] + "x") for e in kept
                     if chance.random() < 0.03]
            kept.sort(key=lambda e: e["i"] + chance.random() * reach)
            lists.append(kept)
        return lists

    def one(self, seed, kills):
        chance = random.Random(seed)
        order = {"tolerance_gap": chance.choice([0, 0, 2]),
                 "buffer": chance.choice([3, 10, 1000]),
                 "start": chance.choice(["first", 1]),
                 "sequence_per": chance.choice(["workspace", "type"])}
        rig = self.rig({"sources": [source(give_up_after="1h", **order)]})
        rig.config["endpoints"] = [rig.endpoint("crm", ordered="workspace")]
        # A step of the clock is no reason to give up a retry.
        rig.config["retry_policies"][0]["max_duration"] = "30d"
        rig.write_config()
        killer = Killer(rig, seed, step_s=TWO_DAYS_S)
        if kills:
            rig.step_clock(0)
        rig.start()
        lists = self.events(chance, "pqrs", 50, chance.choice([5, 20, 50]))
        sender = Sender(rig).start(lists)
        if kills:
            killer.until(sender.ended, sender.count, 20)
        sender.join()
        rig.settle(120)
        what = f"seed {seed}, {order}"
        model = self.judge(rig, order, what)
        rig.config["sources"][0]["order"]["give_up_after"] = "100ms"
        rig.write_config()
        if kills:
            killer.kill()
            killer.wait_up()
        self.assertEqual(rig.cli("reload")[1], 0)
        wait_for(lambda: rig.cli("gaps", "--open")[0] == [],
                 what="all waits to end")
        rig.settle(120)
        self.judge_end(rig, model, what)

    def judge(self, rig, order, what):
        bodies = {r["event_id"]: json.loads(r["body"]) for r in rig.rows(
            "ingress", "SELECT event_id, body FROM archive")}
        rows = rig.rows("sequencer", "SELECT id, status, duplicate_of "
                        "FROM events ORDER BY n")
        model = Model(order["tolerance_gap"], order["buffer"],
                      order["start"] == "first",
                      order["sequence_per"] == "type")
        for row in rows:
            model.arrive(row["id"], bodies[row["id"]])
        self.assertEqual(self.gone(rig, what, lambda row: row["workspace"]),
                         model.gone, what)
        self.assertEqual({r["id"]: r["duplicate_of"] for r in rows
                          if r["status"] == 1}, model.duplicates, what)
        self.assertEqual({r["id"] for r in rows if r["status"] == 3},
                         {h[2] for s in model.streams.values()
                          for h in s["held"]}, what)
        self.judge_gaps(rig, model, what)
        see_in_order(self, rig, what)
        return model

    def gone(self, rig, what, key):
        """What went, in its order: {key: [(id, gap, late)]}"""
        gone = collections.defaultdict(list)
        numbers = collections.defaultdict(list)
        for row in rig.rows("sequencer", "SELECT * FROM events WHERE sequence "
                            "IS NOT NULL ORDER BY sequence"):
            gone[key(row)].append((row["id"], row["gap"], bool(row["late"])))
            numbers[row["workspace"]].append(row["sequence"])
        for team, all_of in numbers.items():
            self.assertEqual(all_of, list(range(1, len(all_of) + 1)),
                             f"{what} {team}")
        return gone

    def judge_gaps(self, rig, model, what):
        missing = {}
        names = ["open", "filled", "skipped", "closed"]
        for g in rig.rows("sequencer", "SELECT * FROM gaps"):
            for n in range(g["first"], g["last"] + 1):
                key = (g["workspace"], g["type"], n)
                self.assertNotIn(key, missing, what)
                missing[key] = names[g["status"]]
        self.assertEqual(missing, {
            (*key, n): status for key, s in model.streams.items()
            for n, status in s["missing"].items()}, what)

    def judge_end(self, rig, model, what):
        """Of two streams in one workspace nobody knows whose wait has ended
        first."""
        model.give_up()
        self.assertEqual(rig.rows("sequencer", "SELECT 1 FROM events "
                                  "WHERE status = 3"), [], what)
        self.assertEqual(self.gone(rig, what, lambda row: (
            row["workspace"], row["type"] if model.per_type else "")),
            model.gone_of, what)
        self.judge_gaps(rig, model, what)
        see_in_order(self, rig, what)

    def test_releases_and_gaps_equal_the_model_s(self):
        """P6: numbers, gaps, duplicates, lateness; each event's position is in its own
        transaction, so kills change nothing."""
        for seed in range(1, 5):
            with self.subTest(seed=seed):
                self.one(seed, kills=False)

    def test_releases_and_gaps_equal_the_model_s_under_kills_and_clock_steps(self):
        """P3, P6: no wait ends early or late because of a step of the clock."""
        for seed in range(11, 14):
            with self.subTest(seed=seed):
                self.one(seed, kills=True)


def see_in_order(test, rig, what=""):
    """P5: at an ordered endpoint no event begins before the one in front."""
    last = collections.defaultdict(int)
    seen = collections.defaultdict(set)
    for r in rig.receiver.requests("/crm"):
        team, n = (r.headers["grapnel-workspace"],
                   int(r.headers["grapnel-sequence"]))
        test.assertGreaterEqual(n, last[team], f"{what} {team}")
        last[team] = n
        seen[team].add(n)
    for team, numbers in seen.items():
        test.assertEqual(sorted(numbers), list(range(1, last[team] + 1)), what)


class Shuffled(RigTest):
    TEAMS, COUNT, REACH = 100, 50, 50

    def lists(self, chance):
        """What 8 connections send, and what is lost: {team: numbers}. A team's
        last one is what shows that those before it are missing."""
        lost, lists = {}, [[] for _ in range(8)]
        for t in range(self.TEAMS):
            team = f"t{t}"
            kept = [i for i in range(1, self.COUNT + 1)
                    if chance.random() > 0.01 or i == self.COUNT]
            lost[team] = set(range(1, self.COUNT + 1)) - set(kept)
            kept += [i for i in kept if chance.random() < 0.03]
            kept.sort(key=lambda i: i + chance.random() * self.REACH)
            lists[t % 8] += [{"id": f"{team}-{i}", "type": "x", "team": team,
                              "seq": i} for i in kept]
        return lists, lost

    def test_a_hundred_shuffled_workspaces_stay_in_order_under_kills(self):
        """P3, P5, P6: numbers shuffled within 50, 1 % lost, 3 % doubled, a
        kill -9 every second: an ordered endpoint sees each workspace in order,
        every lost number is a gap, nothing else is.

        Nothing is given up before all were sent, so that a slow machine makes
        no gaps; then, still under kills, all waits have ended soon."""
        rig = self.rig({"sources": [source(start=1, give_up_after="1h")]})
        rig.config["endpoints"] = [rig.endpoint("crm", ordered="workspace")]
        rig.write_config()
        rig.start()
        lists, lost = self.lists(random.Random(1))
        killer = Killer(rig)
        sender = Sender(rig).start(lists)
        killer.until(lambda: sender.ended() and killer.count > 3)
        sender.join()
        rig.settle(180)
        rig.config["sources"][0]["order"]["give_up_after"] = "1s"
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        count = killer.count
        killer.until(lambda: killer.count > count + 1)
        wait_for(lambda: rig.cli("gaps", "--open")[0] == [], 60,
                 "all gaps to end")
        rig.settle(180)
        self.judge(rig, {t: n for t, n in lost.items() if n})

    def judge(self, rig, lost):
        gaps = collections.defaultdict(set)
        for g in rig.cli("gaps", "--limit", 10000)[0]:
            self.assertIn(g["status"], ("filled", "skipped"))
            if g["status"] == "skipped":
                gaps[g["workspace"]] |= set(range(g["from"], g["to"] + 1))
        self.assertEqual(dict(gaps), lost)
        see_in_order(self, rig)
        numbers = collections.defaultdict(list)
        told = collections.defaultdict(set)
        for r in rig.receiver.delivered("/crm").values():
            team = r.headers["grapnel-workspace"]
            numbers[team].append((int(r.headers["grapnel-sequence"]),
                                  int(r.headers["grapnel-source-sequence"])))
            self.assertNotIn("grapnel-late", r.headers)
            if "grapnel-gap" in r.headers:
                a, b = map(int, r.headers["grapnel-gap"].split("-"))
                told[team] |= set(range(a, b + 1))
        for team in (f"t{t}" for t in range(self.TEAMS)):
            self.assertEqual(
                [n for _, n in sorted(numbers[team])],
                sorted(set(range(1, self.COUNT + 1)) - lost.get(team, set())))
        self.assertEqual(dict(told), lost)


main()
