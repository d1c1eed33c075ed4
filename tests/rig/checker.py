"""The judge: did every acknowledged event come out, once in name and number?

After Jepsen's total-queue: attempted are the events that were sent, acknowledged
those that got 200, delivered those that the receiver responded 2xx.

    lost        acknowledged, and neither delivered nor ended otherwise
    unexpected  delivered, never attempted
    duplicated  delivered more often than once (allowed: at least once)
    recovered   delivered though the sender saw no 200 (allowed)

and ours, each a problem: an event with two ids, an id with two events, another
id than ingress said; another body, workspace or number on another attempt;
bytes that are not those that were signed at ingress; in a workspace a number
twice, or a gap; `grapnel-previous` that is not the number before; and, for the
stores, an acknowledged event that is nowhere, or work that is not over. For
ordered endpoints, check_lanes(): a request before its turn, or beside another.

    verdict = check(load.acks(), rig.receiver.requests("/crm"), PLANE_SECRET)
    verdict.require()
"""

import collections
import hashlib
import hmac
import json

FINAL_EVENTS = {"done", "duplicate", "ignored", "refused", "expired"}
FINAL_DELIVERIES = {"delivered", "dead"}
SHOWN = 5  # examples of each problem


class Verdict:
    def __init__(self):
        self.attempted = self.acknowledged = self.delivered = 0
        self.lost, self.unexpected = [], []
        self.duplicated, self.recovered = [], []
        self.problems = collections.defaultdict(list)

    def add(self, problem, example):
        self.problems[problem].append(example)

    @property
    def ok(self):
        return not (self.lost or self.unexpected or self.problems)

    def __str__(self):
        lines = [f"attempted {self.attempted}, acknowledged {self.acknowledged}, "
                 f"delivered {self.delivered}; lost {len(self.lost)}, "
                 f"unexpected {len(self.unexpected)}, duplicated "
                 f"{len(self.duplicated)}, recovered {len(self.recovered)}"]
        shown = {**self.problems}
        if self.lost:
            shown["lost"] = self.lost
        if self.unexpected:
            shown["unexpected"] = self.unexpected
        for problem, examples in shown.items():
            lines.append(f"{problem} ({len(examples)}): "
                         f"{', '.join(map(str, examples[:SHOWN]))}")
        return "\n".join(lines)

    def require(self):
        if not self.ok:
            raise AssertionError(str(self))
        return self


def event_number(request):
    """The load's `n` in a received body; None when the load did not send it."""
    try:
        return json.loads(request.body)["data"]["n"]
    except (ValueError, KeyError, TypeError):
        return None


def check(acks, requests, secret=None, ended=(), contiguous=True,
          chained=True, ordered=False, repeats=False):
    """Judge one endpoint's requests against ingress's responses.

    `ended` holds ids of events that ended otherwise, as dead letters or refused.
    `contiguous`: the receiver was sent every numbered event, so its numbers have
    no gap. `chained`: so does each grapnel-previous. `ordered`: in a workspace
    the first 2xx responses come in the order of the numbers. `repeats`: clients
    sent an event again when they did not get 2xx; it is one event all the same."""
    verdict = Verdict()
    sent = _one_of_each(acks) if repeats else {a["n"]: a for a in acks}
    by_n = collections.defaultdict(list)
    for request in requests:
        by_n[event_number(request)].append(request)

    verdict.attempted = len(sent)
    if len(sent) != len(acks) and not repeats:
        verdict.add("an event sent twice by the load", len(acks) - len(sent))
    for n, ack in sent.items():
        taken = ack.get("status") == 200
        delivered = [r for r in by_n.get(n, []) if r.delivered]
        verdict.acknowledged += taken
        verdict.delivered += bool(delivered)
        # Of an event that was sent again the first one may be known only to the receiver.
        ids = {ack.get("id"), *ack.get("ids", ()), *(r.id for r in by_n.get(n, []))}
        if taken and not delivered and not ids & set(ended):
            verdict.lost.append(ack["id"] or n)
        if delivered and not taken:
            verdict.recovered.append(n)
        if len(delivered) > 1:
            verdict.duplicated.append(n)
        _check_identity(verdict, ack, by_n.get(n, []), secret)
    verdict.unexpected = [r for n, found in by_n.items() if n not in sent
                          for r in found]
    known = [r for n, found in by_n.items() if n in sent for r in found]
    _check_ids(verdict, known)
    _check_numbers(verdict, known, contiguous, chained, ordered)
    return verdict


def _one_of_each(acks):
    """For each event what its client was told at last: 200, if it ever was. `id` is the event's only if no other
    request of it can have been accepted; else None."""
    by_n = collections.defaultdict(list)
    for ack in acks:
        by_n[ack["n"]].append(ack)
    told = {}
    for n, all_of_it in by_n.items():
        good = [a for a in all_of_it if a.get("status") == 200]
        told[n] = {**(good or all_of_it)[0], "ids": {a["id"] for a in good}}
        if len(all_of_it) > 1:
            told[n]["id"] = None
    return told


def _check_identity(verdict, ack, requests, secret):
    """All attempts of one event are the same event."""
    for what, values in {
            "event with two ids": {r.id for r in requests},
            "event with two numbers": {number(r) for r in requests},
            "event in two workspaces": {workspace(r) for r in requests},
            "event with two bodies": {r.body for r in requests}}.items():
        if len(values) > 1:
            shown = sorted(map(str, values))
            verdict.add(what, (ack["n"], shown if len(shown[0]) < 80 else ""))
    for request in requests[:1]:
        if ack.get("id") and request.id != ack["id"]:
            verdict.add("another id than ingress said", (request.id, ack["id"]))
        if workspace(request)[1] != ack["workspace"]:
            verdict.add("wrong workspace", (request.id, workspace(request)[1],
                                            ack["workspace"]))
        if "data" in ack:  # of a producer's event, whose body we make
            if json.loads(request.body)["data"] != ack["data"]:
                verdict.add("not the data that was sent in", request.id)
        elif secret and hmac.new(secret.encode(), request.body, hashlib.sha256
                                 ).hexdigest() != ack["signature"]:
            verdict.add("not the bytes that were sent in", request.id)


def number(request):
    text = request.headers.get("grapnel-sequence", "")
    return int(text) if text.isdigit() else None


def workspace(request):
    """What a number is unique in. Numbers compare within a series."""
    return (request.headers.get("grapnel-series", ""),
            request.headers.get("grapnel-workspace"))


def _check_ids(verdict, requests):
    events = collections.defaultdict(set)
    for request in requests:
        events[request.id].add(event_number(request))
    for event, ns in events.items():
        if event is None or len(ns) > 1:
            verdict.add("id of two events", (event, sorted(ns)[:SHOWN]))


def _check_numbers(verdict, requests, contiguous, chained, ordered):
    spaces = collections.defaultdict(lambda: collections.defaultdict(list))
    for request in requests:
        if number(request) is None:
            verdict.add("no sequence", request)
        else:
            spaces[workspace(request)][number(request)].append(request)
    for space, numbers in spaces.items():
        before, last_ms = 0, 0
        for n in sorted(numbers):
            found = numbers[n]
            if len({r.id for r in found}) > 1:
                verdict.add("number of two events", (space, n))
            if contiguous and n != before + 1:
                verdict.add("gap", (space, before, n))
            previous = {r.headers.get("grapnel-previous") for r in found}
            if chained and previous != {str(before)}:
                verdict.add("wrong grapnel-previous", (space, n, previous, before))
            first = min((r.at_ms for r in found if r.delivered), default=None)
            if ordered and first is not None:
                if first < last_ms:
                    verdict.add("out of order", (space, n))
                last_ms = first
            before = n


def check_lanes(requests, lane, slack_ms=0, unseen=lambda request: False):
    """Judge the requests of one ordered endpoint, which the receiver recorded with their ends.

    `lane(request)` names its lane. In a lane a number never comes after a higher one, however often it is sent, and
    two requests are never open at once. `slack_ms`: how long the end of a connection may need to the
    receiver. `unseen(request)`: the receiver could not see when its sender ended it."""
    verdict = Verdict()
    lanes = collections.defaultdict(list)
    for request in requests:
        lanes[lane(request)].append(request)
    for name, of_lane in lanes.items():
        highest, before = None, []
        for request in sorted(of_lane, key=lambda r: (r.at_ms, r.n)):
            n = number(request)
            if highest is not None and n < highest:
                verdict.add("a request after one with a higher number", (name, n, highest, request))
            highest = n if highest is None else max(n, highest)
            for other in before:
                if _end(other) - slack_ms > request.at_ms and not unseen(other):
                    verdict.add("two requests of a lane at once", (name, other, other.sender, request, request.sender))
            before = [r for r in before if _end(r) > request.at_ms] + [request]
    verdict.delivered = sum(r.delivered for r in requests)
    return verdict


def _end(request):
    return request.ended_ms if request.ended_ms is not None else float("inf")


def check_stores(acks, events, deliveries, dead_letters=None):
    """Conservation, at rest: accepted = delivered + dead + suppressed.

    `events` are {id, workspace, sequence, status}, `deliveries`
    {event, endpoint, status}, from the sequencer's database or the command
    line; `dead_letters` {event_id, endpoint} as dlqd has them."""
    verdict = Verdict()
    known = {e["id"]: e for e in events}
    verdict.attempted = len(acks)
    if len(known) != len(events):
        verdict.add("event stored twice", len(events) - len(known))
    for ack in acks:
        if ack.get("status") == 200:
            verdict.acknowledged += 1
            if ack["id"] not in known:
                verdict.lost.append(ack["id"])
    for event in events:
        if event["status"] not in FINAL_EVENTS:
            verdict.add("event that is not over", (event["id"], event["status"]))
    _check_stored_numbers(verdict, events)
    _check_deliveries(verdict, known, deliveries, dead_letters)
    return verdict


def _check_stored_numbers(verdict, events):
    spaces = collections.defaultdict(list)
    for event in events:
        if event["sequence"]:
            spaces[event["workspace"]].append(event["sequence"])
        elif event["status"] == "done":
            verdict.add("delivered without a number", event["id"])
    for space, numbers in spaces.items():
        if len(set(numbers)) != len(numbers):
            verdict.add("number of two events", space)
        if max(numbers) != len(set(numbers)):
            missing = set(range(1, max(numbers) + 1)) - set(numbers)
            verdict.add("gap", (space, sorted(missing)[:SHOWN]))


def _check_deliveries(verdict, known, deliveries, dead_letters):
    seen = set()
    for d in deliveries:
        key = (d["event"], d["endpoint"])
        if key in seen:
            verdict.add("delivery stored twice", key)
        seen.add(key)
        verdict.delivered += d["status"] == "delivered"
        if d["event"] not in known:
            verdict.add("delivery without its event", key)
        if d["status"] not in FINAL_DELIVERIES:
            verdict.add("delivery that is not over", (*key, d["status"]))
    if dead_letters is None:
        return
    dead = {(d["event"], d["endpoint"]) for d in deliveries
            if d["status"] == "dead"}
    kept = {(x["event_id"], x["endpoint"]) for x in dead_letters}
    for key in dead - kept:
        verdict.add("dead without a dead letter", key)
    for x in dead_letters:
        if "reason" in x and not x["reason"]:
            verdict.add("dead letter without a reason", (x["event_id"], x["endpoint"]))
