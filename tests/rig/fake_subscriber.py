"""A process of a few lines that sends events to a sequencer and is told what becomes of them.
It keeps everything in memory, and can be set back as if it came from an older copy."""

import json
import struct
import time

from fake_sequencer import (ACKED, BATCH, EPOCHS, FakeSequencer, packed_headers,
                            unpack)

ACCEPTED, REPLAYED, OUTCOME = 32, 42, 50
OUTCOME_FIELDS = ("event_id source provider_id duplicate_of state open delivered dead resolved "
                  "attempts attempts_before last_ms next_ms endpoint http_status reason error "
                  "action_id at_ms").split()
# A source of one's own, whose events say their id.
LEDGER = {"name": "ledger", "provider": "custom", "secrets": ["key"],
          "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "form": "plain",
                     "encoding": "hex", "signed": "{body}"},
          "id": "json:/id", "type": "json:/type", "workspace": "json:/team"}


class FakeSubscriber(FakeSequencer):
    """The durable link is the same in both directions, so its sending end is taken from
    there."""

    def __init__(self, run_dir, name="outbox"):
        super().__init__(run_dir, "sequencer", name)
        self.outcomes = []  # in order
        self.epochs = []    # of each number that was applied
        self.made = 0
        self.requests = {}  # event: (body, headers)
        self.floor = None   # of the last `epochs` frame

    # what it sends

    def accept(self, event=None, body=None, key=None, workspace="ws-1"):
        """Send an event; its id."""
        self.made += 1
        event = event or f"evt_{self.made:026d}"
        body = body or json.dumps({
            "id": key or f"row-{self.made}", "type": "issue.updated",
            "team": workspace}).encode()
        self.requests[event] = (body, packed_headers([("content-type", "application/json")]))
        self.send_again(event)
        return event

    def send_again(self, event):
        body, headers = self.requests[event]
        self.put(ACCEPTED, event, "ledger", int(time.time() * 1000), "", headers, body, 0)

    def replay(self, event, action_id, new_id=""):
        body, headers = self.requests[event]
        now = int(time.time() * 1000)
        self.put(REPLAYED, action_id, now, event, event, new_id, "", 0, "ledger", now, "",
                 headers, body)

    # the receiving end

    def on_frame(self, frame):
        kind, _, _from, _inbox, *f = unpack(frame)
        if kind == BATCH:
            self.take(*f[1:7])
        elif kind == EPOCHS:
            self.on_epochs(f[2], f[6])
        elif kind == ACKED:
            self.on_acked(*f[1:])

    def epoch_of(self, n):
        return self.epochs[n - 1] if n else 0

    def take(self, prev_epoch, epoch, first, count, messages, question):
        at = 0
        gap = first > self.applied + 1
        if self.applied and first <= self.applied + 1 <= first + count and \
                self.epoch_of(self.applied) != (
                    epoch if first <= self.applied else prev_epoch):
            count = 0  # its own last row is another one: it only says where it is
        for k in range(count):
            n, = struct.unpack_from("<I", messages, at)
            m = messages[at + 4:at + 4 + n]
            at += 4 + n
            if first + k == self.applied + 1:
                self.applied += 1
                self.epochs.append(epoch)
                if m:
                    kind, _, *fields = unpack(m)
                    assert kind == OUTCOME, kind
                    self.outcomes.append(dict(zip(OUTCOME_FIELDS, fields, strict=True)))
        self.acknowledge(gap, question)

    def acknowledge(self, gap, question):
        here = self.applied, self.epoch_of(self.applied)
        self.send(ACKED, self.peer, *here, *here, int(gap), question)

    def on_epochs(self, floor, packed):
        """Goes back to the last row that both have, or to what the sender still has."""
        self.floor = floor
        theirs = list(struct.iter_unpack("<QQ", packed))
        while self.applied and self.epoch_of(self.applied) != max(
                (first, e) for e, first in theirs if first <= self.applied)[1]:
            self.set_back(self.applied - 1)
        if self.applied < floor - 1:
            last = max((first, e) for e, first in theirs if first <= floor - 1)[1]
            self.epochs += [last] * (floor - 1 - self.applied)
            self.applied = floor - 1
        self.acknowledge(True, 0)

    def set_back(self, n):
        """As if it came from a copy that was made when it had applied n messages."""
        self.applied = n
        del self.epochs[n:]

    # what it was told

    def of_event(self, event):
        return [o for o in self.outcomes if o["event_id"] == event]

    def until_state(self, event, state, timeout=15, **fields):
        """Until the last outcome of the event says so; it."""
        def found():
            of = self.of_event(event)
            return of and of[-1]["state"] == state and all(
                of[-1][k] == v for k, v in fields.items())
        try:
            self.until(found, timeout)
        except AssertionError:
            raise AssertionError(f"not {state} {fields}: {self.of_event(event)}") from None
        return self.of_event(event)[-1]

    def flush(self):
        """Until the sequencer has stored all that was sent to it."""
        self.until(lambda: self.cursor == len(self.log))
