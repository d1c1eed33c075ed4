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
stores, an acknowledged event that is nowhere, or work that is not over.

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
          chained=True, ordered=False):
    """Judge one endpoint's requests against ingress's responses.

    `ended` holds ids of events that ended otherwise, as dead letters or refused.
    `contiguous`: the receiver was sent every numbered event, so its numbers have
    no gap. `chained`: so does each grapnel-previous. `ordered`: in a workspace
    the first 2xx responses come in the order of the numbers."""
    verdict = Verdict()
    sent = {a["n"]: a for a in acks}
    by_n = collections.defaultdict(list)
    for request in requests:
        by_n[event_number(request)].append(request)

    verdict.attempted = len(sent)
    if len(sent) != len(acks):
        verdict.add("an event sent twice by the load", len(acks) - len(sent))
    for n, ack in sent.items():
        taken = ack.get("status") == 200
        delivered = [r for r in by_n.get(n, []) if r.delivered]
        verdict.acknowledged += taken
        verdict.delivered += bool(delivered)
        if taken and not delivered and ack["id"] not in ended:
            verdict.lost.append(ack["id"])
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
        if secret and hmac.new(secret.encode(), request.body, hashlib.sha256
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
