"""P2, P8: endpoints that abuse HTTP/2 or TLS and name servers that lie or stay silent
cannot delay others, fill the memory, or lead to a private address."""

import ctypes
import os
import pathlib
import socket
import struct
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_sequencer import config
from lone_deliverer import DelivererTest, event
from misbehaver import Authority, Misbehaver
from rig import SLOW, main, start_as_supervised

SENT_MOST = 64 << 20  # by an endpoint that would send for ever
MEMORY_KIB = 24 * 1024
DATA, HEADERS, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = \
    0, 1, 3, 4, 5, 6, 7, 8, 9
STATUS_200 = b"\x88"


def frame(kind, flags=0, stream=0, payload=b""):
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags])
            + stream.to_bytes(4, "big") + payload)


def field(name, value):
    """HPACK: a literal field that enters no table; both below 127 bytes."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def floods(c, first, some):
    """`first`, then `some` until the other side has closed or enough is sent."""
    c.send(first)
    some *= max(1, 65536 // len(some))
    for _ in range(SENT_MOST // len(some)):
        c.send(some)
    c.until_closed()


def http2_behaves(act, settings=b""):
    """Shakes hands, reads until our request has ended, then does `act`."""
    def behave(c):
        assert c.take(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        c.send(frame(SETTINGS, 0, 0, settings))
        ended = False
        while not ended:
            size, kind = int.from_bytes(c.take(3), "big"), c.take(1)[0]
            flags, _ = c.take(1)[0], c.take(4)
            c.take(size)
            if kind == SETTINGS and not flags & 1:
                c.send(frame(SETTINGS, 1))
            ended = kind in (DATA, HEADERS) and flags & 1
        act(c)
    return behave


class Hostile(DelivererTest):
    grants = 5000

    def serve(self, behave, **how):
        m = Misbehaver(behave, **how)
        self.addCleanup(m.close)
        return m

    def to(self, url, **change):
        Hostile.grants += 1
        name = f"h{Hostile.grants}"
        self.s.grant(Hostile.grants, name, config(name, url, **{
            "max_attempts": 1, "first_wait_ms": 10, "timeout_ms": 2000,
            "connect_timeout_ms": 2000, **change}))
        return Hostile.grants, name

    def attempt(self, n, url, body=b"{}", **change):
        g, name = self.to(url, **change)
        self.s.task(g, name, event(n), body=body)
        return self.ended(n, timeout=30)[0]

    def peak_kib(self):
        with open(f"/proc/{self.d.pid}/status") as f:
            peak = next(int(x.split()[1]) for x in f if x.startswith("VmHWM"))
        pathlib.Path(f"/proc/{self.d.pid}/clear_refs").write_text("5")
        return peak

    def neighbour_is_served(self, n):
        self.s.task(*self.neighbour, event(n))
        self.assertEqual(self.ended(n)[0]["outcome"], "delivered")

    def setUp(self):
        # What is freed is memory again: the sanitizer would keep 256 MiB of it.
        os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") \
            + ":quarantine_size_mb=1:malloc_context_size=1"
        super().setUp()
        self.neighbour = self.to(self.r.receiver.url("/neighbour"))
        self.neighbour_is_served(900)
        self.peak_kib()


class Http2(Hostile):
    def setUp(self):
        super().setUp()
        self.ca = Authority(self.r.folder / "ca")
        self.tls = self.ca.server("h2", "127.0.0.1", alpn=["h2"])

    def each(self, cases, **change):
        """(name, what it does, settings, outcome): with memory and a neighbour."""
        before = self.peak_kib()
        for n, (what, act, settings, outcome) in enumerate(cases):
            with self.subTest(what):
                m = self.serve(http2_behaves(act, settings), tls=self.tls)
                r = self.attempt(n, m.url(), tls_ca=self.ca.pem(), **change)
                self.assertEqual(r["outcome"], outcome, r)
                self.assertLess(self.peak_kib() - before, MEMORY_KIB)
                self.neighbour_is_served(100 + n)

    def test_heads_without_end_are_cut_off(self):
        a_field = field(b"x-a", b"b" * 100)
        entry = b"\x40\x03x-b" + b"\x7f\x80\x1f" + b"b" * 4095  # 127 + 3968
        self.each([
            ("continuations",
             lambda c: floods(c, frame(HEADERS, 0, 1, STATUS_200),
                              frame(CONTINUATION, 0, 1, a_field * 100)),
             b"", "dead"),
            ("empty continuations",
             lambda c: floods(c, frame(HEADERS, 0, 1, STATUS_200),
                              frame(CONTINUATION, 0, 1)), b"", "dead"),
            ("one entry named a hundred thousand times",
             lambda c: floods(c, frame(HEADERS, 0, 1, STATUS_200 + entry)
                              + frame(CONTINUATION, 0, 1, b"\xbe" * 16000),
                              frame(CONTINUATION, 0, 1, b"\xbe" * 16000)),
             b"", "dead"),
            ("informational responses",
             lambda c: floods(c, b"", frame(HEADERS, 4, 1,
                                            b"\x48\x03103")), b"", "dead"),
            ("trailers",
             lambda c: floods(c, frame(HEADERS, 4, 1, STATUS_200)
                              + frame(DATA, 0, 1, b"ok")
                              + frame(HEADERS, 1, 1, a_field),
                              frame(CONTINUATION, 0, 1, a_field * 100)),
             b"", "delivered"),
        ])

    def test_frames_without_end_are_cut_off(self):
        response = frame(HEADERS, 4, 1, STATUS_200)
        self.each([
            ("settings", lambda c: floods(c, b"", frame(SETTINGS)), b"", "dead"),
            ("pings", lambda c: floods(c, b"", frame(PING, 0, 0, bytes(8))), b"",
             "dead"),
            ("window updates", lambda c: floods(
                c, b"", frame(WINDOW, 0, 1, bytes([0, 0, 0, 1]))), b"", "dead"),
            ("empty data", lambda c: floods(c, response, frame(DATA, 0, 1)), b"",
             "delivered"),
            ("data of a byte", lambda c: floods(c, response, frame(DATA, 0, 1, b"x")),
             b"", "delivered"),
            ("unknown frames", lambda c: floods(
                c, b"", frame(0xaa, 0, 1, bytes(1000))), b"", "dead"),
        ])

    def test_malformed_frames_end_the_attempt(self):
        self.each([
            ("a promise that was declined", lambda c: c.send(
                frame(PUSH, 4, 1, bytes([0, 0, 0, 2]) + b"\x82\x84\x87")
                + frame(HEADERS, 5, 1, STATUS_200)), b"", "dead"),
            ("a reset", lambda c: c.send(frame(RST, 0, 1, bytes([0, 0, 0, 1]))),
             b"", "dead"),
            ("a stream of its own", lambda c: c.send(
                frame(HEADERS, 5, 2, STATUS_200)), b"", "dead"),
            ("a frame of 16 MiB", lambda c: c.send(
                b"\xff\xff\xff\0\0\0\0\0\1" + bytes(100000)), b"", "dead"),
            ("fields that can't be decoded", lambda c: c.send(
                frame(HEADERS, 5, 1, b"\xff" * 40)), b"", "dead"),
            ("no status", lambda c: c.send(
                frame(HEADERS, 5, 1, field(b"x-a", b"b"))), b"", "dead"),
            ("a status that is text", lambda c: c.send(
                frame(HEADERS, 5, 1, b"\x48\x032zz")), b"", "dead"),
        ])

    def test_an_endpoint_without_a_window_for_the_body_times_out(self):
        """SETTINGS_INITIAL_WINDOW_SIZE is 0, and no window is ever opened."""
        m = self.serve(http2_behaves(lambda c: None, struct.pack(">HI", 4, 0)),
                       tls=self.tls)
        before = self.peak_kib()
        r = self.attempt(1, m.url(), b"x" * 100_000, tls_ca=self.ca.pem())
        self.assertEqual(r["outcome"], "dead", r)
        self.assertLess(self.peak_kib() - before, MEMORY_KIB)
        self.neighbour_is_served(2)


class Tls(Hostile):
    def test_handshakes_without_end_time_out(self):
        """Bytes in place of TLS, behind our ClientHello."""
        record = b"\x16\x03\x03"
        before = self.peak_kib()

        def hello(act):
            def behave(c):
                c.read()
                act(c)
            return behave
        cases = [
            ("silence", lambda c: c.until_closed()),
            ("a record that never ends", lambda c: floods(
                c, record + b"\x40\x00", b"\x02")),
            ("a certificate of 16 MiB", lambda c: floods(
                c, b"", record + b"\x40\x00" + b"\x0b\xff\xff\xff"
                + bytes(0x4000 - 4))),
            ("warnings", lambda c: floods(c, b"", b"\x15\x03\x03\0\x02\x01\x5a")),
            ("empty records", lambda c: floods(c, b"", record + b"\0\0")),
            ("HTTP/1.1", lambda c: floods(c, b"HTTP/1.1 200 OK\r\n", b"x: y\r\n")),
        ]
        for n, (what, act) in enumerate(cases):
            with self.subTest(what):
                m = self.serve(hello(act))
                r = self.attempt(n, f"https://127.0.0.1:{m.port}/")
                self.assertEqual(r["outcome"], "dead", r)
                self.assertLess(self.peak_kib() - before, MEMORY_KIB)
                self.neighbour_is_served(100 + n)

    def test_a_chain_of_a_thousand_certificates_is_refused(self):
        ca = Authority(self.r.folder / "ca")
        certificate, key = ca.issue("long", "127.0.0.1")
        chain = pathlib.Path(certificate).read_text() \
            + ca.pem().decode() * 1000
        pathlib.Path(certificate).write_text(chain)
        tls = ca.server("other", "127.0.0.1")
        tls.load_cert_chain(certificate, key)
        before = self.peak_kib()
        m = self.serve(lambda c: None, tls=tls)
        r = self.attempt(1, m.url(), tls_ca=ca.pem())
        self.assertEqual((r["outcome"], m.requests), ("dead", []), r)
        self.assertLess(self.peak_kib() - before, MEMORY_KIB)
        self.neighbour_is_served(2)


class NameServer:
    """A name server on port 53 of a loopback address: `response(name, count)` says
    the addresses, or None for silence; `asked` counts."""

    def __init__(self, host, response):
        self.response, self.asked = response, {}
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((host, 53))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                query, sender = self.sock.recvfrom(2000)
            except OSError:
                return
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            question = query[12:at + 5]
            kind = int.from_bytes(query[at + 1:at + 3], "big")
            name = ".".join(labels)
            self.asked[name] = count = self.asked.get(name, 0) + (kind == 1)
            found = self.response(name, count)
            if found is None:
                continue
            found = found if kind == 1 else []
            self.sock.sendto(
                query[:2] + b"\x81\x80\0\1" + struct.pack(">HHH", len(found), 0, 0)
                + question + b"".join(
                    b"\xc0\x0c\0\1\0\1" + bytes(4) + b"\0\4"
                    + socket.inet_aton(a) for a in found), sender)

    def close(self):
        self.sock.close()


def in_own_namespace(resolv_conf):
    """What a child does before its program: from then on it sees this file in the
    place of /etc/resolv.conf."""
    libc = ctypes.CDLL(None, use_errno=True)
    newns, bind, private = 0x20000, 0x1000, 0x40000 | 0x4000

    def prepare():
        start_as_supervised()
        if libc.unshare(newns) or \
                libc.mount(None, b"/", None, private, None) or \
                libc.mount(os.fsencode(resolv_conf), b"/etc/resolv.conf", None,
                           bind, None):
            raise OSError(ctypes.get_errno(), "no mount namespace")
    return prepare


@unittest.skipIf(os.getuid(), "needs root: port 53 and a mount namespace")
class Names(Hostile):
    """Names under .test, which no real name server has (RFC 6761)."""

    def asks(self, response):
        """The deliverer once more, with this for a name server."""
        host = f"127.53.{os.getpid() % 250}.{os.getpid() // 250 % 250 + 1}"
        try:
            server = NameServer(host, response)
        except OSError as error:
            self.skipTest(f"port 53 of a loopback address: {error}")
        self.addCleanup(server.close)
        conf = self.r.folder / "resolv.conf"
        conf.write_text(f"nameserver {host}\n")
        self.d.prepare_child = in_own_namespace(conf)
        self.restart()
        self.neighbour = self.to(self.r.receiver.url("/neighbour"))
        return server

    def test_silent_name_servers_do_not_delay_others(self):
        """Attempts end in time, other endpoints get their events, and a stop does
        not wait for the resolver's threads."""
        server = self.asks(lambda name, count: None)
        count = 40
        for n in range(count):
            g, name = self.to(f"http://e{n}.silent.test/", connect_timeout_ms=500)
            self.s.task(g, name, event(n))
        self.s.until(lambda: len(server.asked) >= count // 2, 10 * SLOW)
        self.neighbour_is_served(500)
        for r in self.ended(*range(count), timeout=30):
            self.assertEqual((r["outcome"], r["reason"]),
                             ("dead", "budget_attempts"), r)
        self.neighbour_is_served(501)
        self.assertLess(len(os.listdir(f"/proc/{self.d.pid}/task")), 2 * count + 20)
        self.assertEqual(self.d.stop(timeout=5), 0)

    def test_p8_a_name_with_changing_addresses_reaches_no_private_one(self):
        """A time to live of 0, another response to each question, and both addresses
        in one."""
        inside = self.serve(lambda c: None, host="127.0.0.3")
        m = self.serve(lambda c: (c.request(), c.respond()))
        addresses = [["127.0.0.1"], ["127.0.0.3"], ["127.0.0.3", "127.0.0.1"],
                     ["127.0.0.1", "127.0.0.3"]]
        self.asks(lambda name, count: addresses[(int(name[1]) + count) % 4])
        change = {"allow_private": 0, "allow_cidrs": "127.0.0.1/32"}
        outcomes = set()
        for n in range(16):
            port = (m, inside)[n % 2].port
            r = self.attempt(n, f"http://r{n // 2}.test:{port}/", **change)
            outcomes.add((r["outcome"], r["reason"]))
        self.assertIn(("dead", "blocked_address"), outcomes)
        self.assertTrue(any(o == "delivered" for o, _ in outcomes), outcomes)
        self.assertEqual(inside.connections, 0)
        self.assertGreater(m.connections, 0)


main(at_once=2)
