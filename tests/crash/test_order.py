"""Order under fire (P5, P6): what goes when, what is missing, what is a repeat,
exactly as a simple model says; and what an ordered endpoint sees while everything
is killed again and again."""

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


def source(**order):
    return {"name": "ledger", "provider": "custom", "secrets": [KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                       "form": "plain", "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            "order": {"by": "sequence", "sequence": "json:/seq", **order}}


class Sender:
    """Posts like a provider: each event until it is answered 200."""

    def __init__(self, rig):
        self.rig = rig

    def post(self, event):
        body = json.dumps(event).encode()
        headers = {"X-Sig": hmac.new(KEY.encode(), body,
                                     hashlib.sha256).hexdigest()}
        while True:
            try:
                status, _, _ = self.rig.post(body, "ledger", headers)
                if status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.01)

    def post_all(self, lists):
        threads = [threading.Thread(target=lambda e=events: [
            self.post(x) for x in e]) for events in lists]
        for t in threads:
            t.start()
        return threads


class Killer:
    """kill -9 of one process after another. In the main thread: a daemon dies
    with the thread that started it."""

    def __init__(self, rig, every_s):
        self.rig, self.every_s = rig, every_s
        self.chance = random.Random(7)
        self.count = 0

    def until(self, fact):
        at = time.monotonic() + self.every_s
        while not fact():
            if time.monotonic() < at:
                time.sleep(0.02)
                continue
            name = self.chance.choice(list(self.rig.daemons))
            self.rig[name].restart(wait=False)
            self.count += 1
            at = time.monotonic() + self.every_s
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
            self.gone[team].append((id_, gap, late))
            s["next"] = max(s["next"], n + 1)
        self.drain(s, team)

    def drain(self, s, team):
        while s["held"]:
            n, _, id_ = s["held"][0]
            hole = range(s["next"], n)
            if len(hole) > self.tolerance and s["missing"][n - 1] == "open":
                if len(s["held"]) <= self.buffer:
                    return
                for k in range(n - 1, s["next"] - 1, -1):
                    if s["missing"].get(k) != "open":
                        break
                    s["missing"][k] = "skipped"
            s["held"].pop(0)
            self.gone[team].append(
                (id_, f"{s['next']}-{n - 1}" if len(hole) else None, False))
            s["next"] = max(s["next"], n + 1)


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
        rig.write_config()
        rig.start()
        lists = self.events(chance, "pqrs", 50, chance.choice([5, 20, 50]))
        threads = Sender(rig).post_all(lists)
        if kills:
            Killer(rig, 0.7).until(
                lambda: not any(t.is_alive() for t in threads))
        for thread in threads:
            thread.join()
        rig.settle(120)
        self.judge(rig, order, f"seed {seed}, {order}")

    def judge(self, rig, order, what):
        bodies = {r["event_id"]: json.loads(r["body"]) for r in rig.rows(
            "ingress", "SELECT event_id, body FROM archive")}
        rows = rig.rows("sequencer", "SELECT id, workspace, status, sequence, "
                        "gap, late, duplicate_of FROM events ORDER BY n")
        model = Model(order["tolerance_gap"], order["buffer"],
                      order["start"] == "first",
                      order["sequence_per"] == "type")
        for row in rows:
            model.arrive(row["id"], bodies[row["id"]])
        gone = collections.defaultdict(list)
        for row in sorted((r for r in rows if r["sequence"]),
                          key=lambda r: r["sequence"]):
            gone[row["workspace"]].append(
                (row["id"], row["gap"], bool(row["late"])))
            self.assertEqual(row["sequence"], len(gone[row["workspace"]]), what)
        self.assertEqual(gone, model.gone, what)
        self.assertEqual({r["id"]: r["duplicate_of"] for r in rows
                          if r["status"] == 1}, model.duplicates, what)
        self.assertEqual({r["id"] for r in rows if r["status"] == 3},
                         {h[2] for s in model.streams.values()
                          for h in s["held"]}, what)
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
        see_in_order(self, rig, what)

    def test_what_goes_and_what_is_missing_is_what_the_model_says(self):
        """P6: numbers, gaps, repeats, lateness; each event's place is in its own
        transaction, so kills change nothing."""
        for seed in range(1, 6):
            with self.subTest(seed=seed):
                self.one(seed, kills=False)

    def test_the_same_under_kills(self):
        """P3, P6."""
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

    def test_a_hundred_shuffled_workspaces_under_kills(self):
        """P3, P5, P6: numbers shuffled within 50, 1 % lost, 3 % doubled, a
        kill -9 every second: an ordered endpoint sees each workspace in order,
        every lost number is a gap, nothing else is."""
        chance = random.Random(1)
        rig = self.rig({"sources": [source(start=1, give_up_after="10s")]})
        rig.config["endpoints"] = [rig.endpoint("crm", ordered="workspace")]
        rig.write_config()
        rig.start()
        lost, lists = {}, [[] for _ in range(8)]
        for t in range(self.TEAMS):
            team = f"t{t}"
            # The last one is what shows that those before it are missing.
            kept = [i for i in range(1, self.COUNT + 1)
                    if chance.random() > 0.01 or i == self.COUNT]
            lost[team] = set(range(1, self.COUNT + 1)) - set(kept)
            kept += [i for i in kept if chance.random() < 0.03]
            kept.sort(key=lambda i: i + chance.random() * self.REACH)
            lists[t % 8] += [{"id": f"{team}-{i}", "type": "x", "team": team,
                              "seq": i} for i in kept]
        killer = Killer(rig, 1.0)
        threads = Sender(rig).post_all(lists)
        killer.until(lambda: not any(t.is_alive() for t in threads))
        for thread in threads:
            thread.join()
        end = time.monotonic() + 4  # and while gaps are waited for
        killer.until(lambda: time.monotonic() > end)
        wait_for(lambda: rig.cli("gaps", "--open")[0] == [], 60,
                 "all gaps to be over")
        rig.settle(180)
        gaps = collections.defaultdict(set)
        for g in rig.cli("gaps", "--limit", 10000)[0]:
            self.assertIn(g["status"], ("filled", "skipped"))
            if g["status"] == "skipped":
                gaps[g["workspace"]] |= set(range(g["from"], g["to"] + 1))
        self.assertEqual(dict(gaps), {t: n for t, n in lost.items() if n})
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
        for team, gone in lost.items():
            self.assertEqual([n for _, n in sorted(numbers[team])],
                             sorted(set(range(1, self.COUNT + 1)) - gone))
        self.assertEqual(dict(told), {t: n for t, n in lost.items() if n})
        self.assertGreater(killer.count, 3)


main()
