"""A deliverer of a few lines: the other end of a sequencer, for tests of its side of
the grants. It takes what it is given, keeps everything in memory, and reports only what
it is told to."""

import os
import time

from fake_sequencer import (ACKED, BATCH, HEARTBEAT, GRANTED, RESULT, TASK,
                            FakeSequencer, unpack)

HEARTBEAT_S = 0.2
OUTCOMES = {"delivered": 1, "retrying": 2, "dead": 3, "released": 4}


class FakeDeliverer(FakeSequencer):
    """The durable link is the same in both directions, so it is taken from there."""

    def __init__(self, run_dir, name="deliverer-1"):
        super().__init__(run_dir, "sequencer", name)
        self.store = int.from_bytes(os.urandom(7), "little") | 1
        self.got = []  # (kind, fields) of the messages, in order
        self.heartbeat_at = 0

    def turn(self, timeout_ms=10):
        if time.monotonic() >= self.heartbeat_at:
            self.heartbeat_at = time.monotonic() + HEARTBEAT_S
            self.send(HEARTBEAT, self.store, self.epoch, int(time.monotonic() * 1000),
                      0, b"")
        super().turn(timeout_ms)

    def on_frame(self, frame):
        kind, _, _from, _inbox, *f = unpack(frame)
        if kind == GRANTED:
            self.grants[f[2]] = f[3]
        elif kind == BATCH:
            self.on_batch(*f[2:7])
        elif kind == ACKED:
            self.on_acked(*f[1:])

    def apply(self, m):
        if m:
            kind, _, *fields = unpack(m)
            self.got.append((kind, fields))

    def tasks(self, event):
        return [f for kind, f in self.got if kind == TASK and f[2] == event]

    def report(self, task, outcome, attempts=1, status=0, reason="",
               attempt_id=None):
        """Write the result of a task to the log; it leaves with the next turn."""
        grant, endpoint, event = task[:3]
        now = int(time.time() * 1000)
        if attempt_id is None:
            attempt_id = int.from_bytes(os.urandom(7), "little") | 1
        self.put(RESULT, grant, endpoint, event, attempt_id, OUTCOMES[outcome],
                 attempts, now, 1, status, reason, "", now if attempts else 0, 0,
                 b"", 1 if attempts else 0)

    def flush(self):
        """Until the sequencer has stored all that was reported."""
        self.until(lambda: self.cursor == len(self.log))
