"""A relay of TCP connections, in user space: what it carries is delayed, held back or stalled, each way by itself.

It ends a connection of one host and opens one to the other, so it cannot lose or reorder packets: TCP repairs both, and what
the ends notice is a stall. That is what `loss` and `jitter_s` are here. A cut holds back what was sent; after it, it
arrives. Where namespaces can be made, packets are really lost and reordered: packets.py."""

import collections
import random
import selectors
import socket
import threading
import time

RETRANSMITTED_S = (0.2, 0.6)  # TCP's first wait for an acknowledgement, and its second


class Way:
    """One direction between two hosts. Each packet takes `delay_s` and up to `jitter_s` more, so later ones overtake
    it; `loss` is the part of them that is lost."""

    def __init__(self):
        self.set()

    def set(self, delay_s=0.0, jitter_s=0.0, loss=0.0, is_cut=False):
        self.delay_s, self.jitter_s, self.loss, self.is_cut = delay_s, jitter_s, loss, is_cut


class Relay:
    """Forwards one port to `to`. `there` is the way of what the connecting end sends, `back` the other one."""

    def __init__(self, host, port, to, there=None, back=None):
        self.to, self.there, self.back = to, there or Way(), back or Way()
        self.seen = bytearray()
        self.carried = 0
        self.record = False
        self.listener = socket.create_server((host, port), backlog=512)
        self.listener.setblocking(False)
        self.other, self.way = {}, {}
        self.waiting = {}  # of a socket: what it has to be sent, and when

    # of both ways

    @property
    def delay_s(self):
        return self.there.delay_s

    @delay_s.setter
    def delay_s(self, value):
        self.there.delay_s = self.back.delay_s = value

    @property
    def is_cut(self):
        return self.there.is_cut or self.back.is_cut

    @is_cut.setter
    def is_cut(self, value):
        self.there.is_cut = self.back.is_cut = value

    def accept(self, selector):
        try:
            near, _ = self.listener.accept()
        except OSError:
            return
        far = socket.socket()
        try:
            far.settimeout(5)
            far.connect(self.to)
        except OSError:
            near.close()
            far.close()
            return
        for a, b, way in ((near, far, self.there), (far, near, self.back)):
            a.setblocking(False)
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.other[a], self.way[a] = b, way
            self.waiting[b] = collections.deque()
            selector.register(a, selectors.EVENT_READ, self)

    def close_pair(self, a, selector):
        for s in (a, self.other.get(a)):
            if s in self.other:
                selector.unregister(s)
                del self.other[s], self.waiting[s], self.way[s]
                s.close()

    def read(self, a, selector):
        try:
            data = a.recv(256 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close_pair(a, selector)
            return
        self.carried += len(data)
        if self.record:
            self.seen += data
        way = self.way[a]
        wait_s = way.delay_s
        if way.jitter_s:
            wait_s += random.uniform(0, way.jitter_s)
        if way.loss and random.random() < way.loss:
            wait_s += random.uniform(*RETRANSMITTED_S)
        self.waiting[self.other[a]].append((time.monotonic() + wait_s, data))

    def write_due(self, selector):
        now, soon = time.monotonic(), 0.05
        for a, queue in list(self.waiting.items()):
            if a in self.other and self.way[self.other[a]].is_cut:
                continue
            while queue and queue[0][0] <= now and a in self.other:
                due, data = queue.popleft()
                try:
                    n = a.send(data)
                except BlockingIOError:
                    n = 0
                except OSError:
                    self.close_pair(a, selector)
                    break
                if n < len(data):
                    queue.appendleft((due, data[n:]))
                    soon = 0.001
                    break
            if queue and a in self.other:
                soon = min(soon, max(queue[0][0] - now, 0.0005))
        return soon


class Relays:
    """All relays of a test, in one thread."""

    def __init__(self):
        self.all = []
        self.selector = selectors.DefaultSelector()
        self.lock = threading.Lock()
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def add(self, *how):
        relay = Relay(*how)
        with self.lock:
            self.selector.register(relay.listener, selectors.EVENT_READ, relay)
            self.all.append(relay)
        return relay

    def turn(self, soon):
        """How long the next one may wait."""
        done, cut = False, False
        for key, _ in self.selector.select(soon):
            relay, s = key.data, key.fileobj
            if s is relay.listener:
                if relay.is_cut:
                    cut = True
                else:
                    relay.accept(self.selector)
                    done = True
            elif s in relay.other:
                if relay.way[s].is_cut:
                    cut = True
                else:
                    relay.read(s, self.selector)
                    done = True
        if cut and not done:
            time.sleep(0.005)  # those sockets stay readable
        return min((r.write_due(self.selector) for r in self.all), default=0.05)

    def run(self):
        soon = 0.05
        while not self.ended:
            with self.lock:
                soon = self.turn(soon)
            time.sleep(0)  # let add() have the lock

    def close(self):
        self.ended = True
        self.thread.join()
        for relay in self.all:
            for a in list(relay.other):
                relay.close_pair(a, self.selector)
            relay.listener.close()
        self.selector.close()
