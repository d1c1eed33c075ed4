"""A sequencer of a hundred lines: the other end of a deliverer, for tests of
its side of the grants. It speaks the link and the frames of proto/schema.h, keeps
everything in memory, and does only what it is told."""

import base64
import os
import struct
import time

import msgpack
import zmq

BATCH, ACKED, EPOCHS, HEARTBEAT, HEARTBEAT_ACK, GRANTED, REVOKED = 1, 2, 3, 4, 5, 6, 7
TASK, REVOKE, DROPPED, RESULT, RELEASED, CONFIG = 33, 34, 35, 36, 37, 64
CHECK, MISSING = 48, 49
RESULT_FIELDS = ("grant endpoint event_id attempt_id outcome attempts at_ms "
                 "duration_ms http_status reason error first_ms next_ms "
                 "response sends").split()
OUTCOMES = {1: "delivered", 2: "retrying", 3: "dead", 4: "released"}


def pack(*fields):
    return msgpack.packb(fields)


def unpack(frame):
    return msgpack.unpackb(frame, strict_map_key=False)


def packed_headers(headers):
    return b"".join(struct.pack("<II", len(k), len(v)) + k.encode() + v.encode()
                    for k, v in headers)


def statuses(*listed):
    bits = bytearray(75)
    for s in listed:
        bits[s // 8] |= 1 << s % 8
    return bytes(bits)


def config(name, url, **change):
    c = dict(name=name, transport=0, url=url, method="POST", headers=b"", trace_context=0, secrets="",
             allow_private=1, allow_cidrs="", timeout_ms=5000,
             connect_timeout_ms=1000, max_in_flight=32, ordered=0, rate_count=0,
             rate_per_ms=1000, breaker=1, guard=1, backoff=1,
             first_wait_ms=50, max_wait_ms=0, factor_milli=1000, schedule=b"",
             repeat_last=0, jitter_full=0, jitter_milli=0, max_attempts=5,
             max_duration_ms=0, retry_network=1,
             retry_status=statuses(408, 425, 429, *range(500, 600)),
             respect_retry_after=1, attempt_ms=0, allowed_ports=b"", tls_ca=b"",
             tls_certificate=b"", tls_key=b"", chosen_wait_ms=0)
    c.update(change)
    return pack(CONFIG, 4, *c.values())


class FakeSequencer:
    def __init__(self, run_dir, peer="deliverer-1", name="sequencer"):
        self.zmq = zmq.Context()
        self.name = name
        self.inbox = f"ipc://{run_dir}/{name}.inbox"
        self.pull = self.zmq.socket(zmq.PULL)
        self.pull.linger = 0
        self.pull.bind(self.inbox)
        self.push = self.zmq.socket(zmq.PUSH)
        self.push.linger = 0
        self.push.sndhwm = 0
        self.push.connect(f"ipc://{run_dir}/{peer}.inbox")
        self.peer = peer
        self.epoch = int.from_bytes(os.urandom(7), "little") | 1
        self.log = []          # messages, number from 1
        self.sent = self.cursor = self.taken = 0
        self.applied = 0         # of the deliverer's log
        self.their_epoch = 0
        self.results, self.released, self.heartbeats = [], [], []
        self.missing = []      # (event, task, results before it)
        self.counted = 0
        self.grants = {}       # grant -> (endpoint, config)
        self.health = (0, 0, 0, 0)  # healthy, held since, status, in all
        self.heartbeat_acks = self.answers_unconfigured = True
        self.parse = True
        self.revoked = set()
        self.asked_ms = 0

    # what it says

    def put(self, kind, *fields, version=1):
        self.log.append(pack(kind, version, *fields))
        return len(self.log)

    def written_by(self, version, n):
        """The message n as a program with this version of its kind sends it."""
        kind, _, *fields = unpack(self.log[n - 1])
        self.log[n - 1] = pack(kind, version, *fields)

    def task(self, grant, endpoint, event, body=b'{"n":1}', attempts=0,
             base=0, first_ms=0, next_ms=0, headers=None, sequence=1,
             previous=0, clock="t=1", series=0, replay=0, expires_ms=0,
             workspace="ws-1", source_sequence="", gap="", late=0, url="",
             retry=b"", ordering_key="", high=0):
        return self.put(
            TASK, grant, endpoint, event, "plane", "issue.created", workspace,
            int(time.time() * 1000), sequence, previous, clock,
            source_sequence, gap, late, url, series, replay, attempts, base, first_ms, next_ms,
            packed_headers(headers or [("Content-Type", "application/json")]),
            body, expires_ms, retry, ordering_key, high, version=2)

    def revoke(self, grant):
        self.put(REVOKE, grant)

    def drop(self, grant, endpoint, event):
        self.put(DROPPED, grant, endpoint, event)

    def check(self, grant, endpoint, event, task):
        self.put(CHECK, grant, endpoint, event, task)

    def grant(self, grant, endpoint, conf):
        self.grants[grant] = (endpoint, conf)
        self.send_granted(grant)

    def send_granted(self, grant, heartbeat=None):
        if not self.heartbeats:
            return
        _, epoch, stamp, _ = heartbeat or self.heartbeats[-1]
        endpoint, conf = self.grants[grant]
        self.send(GRANTED, epoch, stamp, grant, endpoint, conf, *self.health, 0)

    def say_revoked(self, grant):
        self.send(REVOKED, grant)

    def send(self, kind, *fields):
        version = 2 if kind in (BATCH, ACKED, GRANTED) else 1
        self.push.send(pack(kind, version, self.name, self.inbox, *fields),
                       zmq.DONTWAIT)

    # the durable link

    def send_batches(self, limit=4096):
        while self.sent < len(self.log) and self.sent - self.cursor < limit:
            first = self.sent + 1
            some = self.log[self.sent:self.sent + 128]
            body = b"".join(struct.pack("<I", len(m)) + m for m in some)
            self.send(BATCH, self.peer, self.epoch if first > 1 else 0, self.epoch,
                      first, len(some), body, 1)
            self.sent += len(some)

    def ask(self):
        first = self.cursor + 1
        self.send(BATCH, self.peer, self.epoch if first > 1 else 0, self.epoch,
                  first, 0, b"", 1)

    def on_acked(self, n, epoch, taken, taken_epoch, gap, _answered_question):
        if n and epoch != self.epoch:
            self.send(EPOCHS, self.peer, len(self.log) + 1, 1, taken, taken_epoch, 1,
                      struct.pack("<QQ", self.epoch, 1))
            return
        self.cursor, self.taken = n, taken
        if gap or taken < self.sent and time.time() - self.asked_ms > 0.3:
            self.asked_ms = time.time()
            self.sent = taken

    def on_batch(self, epoch, first, count, messages, question):
        at = 0
        for k in range(count):
            n, = struct.unpack_from("<I", messages, at)
            m = messages[at + 4:at + 4 + n]
            at += 4 + n
            if first + k == self.applied + 1:
                self.applied += 1
                self.apply(m)
        self.their_epoch = epoch or self.their_epoch
        self.send(ACKED, self.peer, self.applied, self.their_epoch, self.applied,
                  self.their_epoch, int(first > self.applied + 1), question)

    def apply(self, m):
        self.counted += 1
        if not self.parse or not m:
            return
        kind, _, *fields = unpack(m)
        if kind == RESULT:
            r = dict(zip(RESULT_FIELDS, fields))
            r["outcome"] = OUTCOMES[r["outcome"]]
            self.results.append(r)
        elif kind == MISSING:
            self.missing.append((fields[2], fields[3], len(self.results)))
        elif kind == RELEASED:
            self.released.append(fields[0])

    # the turn

    def turn(self, timeout_ms=10):
        if self.pull.poll(timeout_ms):
            try:
                while True:
                    self.on_frame(self.pull.recv(zmq.DONTWAIT))
            except zmq.Again:
                pass
        self.send_batches()

    def on_frame(self, frame):
        kind, _, _from, _inbox, *f = unpack(frame)
        if kind == HEARTBEAT:
            self.on_heartbeat(*f)
        elif kind == ACKED:
            self.on_acked(*f[1:])
        elif kind == BATCH:
            self.on_batch(f[2], f[3], f[4], f[5], f[6])
        elif kind == EPOCHS:
            pass

    def on_heartbeat(self, store, epoch, stamp, count, unconfigured):
        unconfigured = struct.unpack(f"<{count}Q", unconfigured)
        self.heartbeats.append((store, epoch, stamp, unconfigured))
        if not self.heartbeat_acks:
            return
        self.send(HEARTBEAT_ACK, epoch, stamp)
        if not self.answers_unconfigured:
            return
        for g in unconfigured:
            if g in self.grants:
                self.send_granted(g)
            else:
                self.say_revoked(g)
        if self.sent > self.taken:
            self.ask()

    def until(self, fact, timeout=10):
        end = time.monotonic() + timeout
        while not fact():
            if time.monotonic() > end:
                raise AssertionError(f"in vain: {fact}")
            self.turn()

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()

    def of(self, event):
        return [r for r in self.results if r["event_id"] == event]

    def close(self):
        self.pull.close()
        self.push.close()
        self.zmq.term()
