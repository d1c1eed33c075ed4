"""Attacks on the console's two addresses do not keep others out, use bounded memory, and do
not prevent a stop."""

import contextlib
import os
import pathlib
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import msgpack
import zmq
from rig import RigTest, main, wait_for

GREETING = (b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32))
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"


def frame(body, flags=0):
    if len(body) > 255:
        return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


class Strangers(RigTest):
    def console(self, interval="100ms", **settings):
        rig = self.rig(console=True)
        # What is freed is not to count: a sanitizer keeps 256 MiB of it.
        rig.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") \
            + ":quarantine_size_mb=4"
        rig.config["metrics"]["interval"] = interval
        rig.config["console"].update(settings)
        rig.write_config()
        rig.start("console")
        self.port = int(rig.publish.rsplit(":", 1)[1])
        return rig

    def status(self, rig, what):
        with open(f"/proc/{rig['console'].pid}/status") as f:
            return next(int(x.split()[1]) for x in f if x.startswith(what))

    def rise(self, rig):
        """How much more memory (KiB) it had at once since `before` was set."""
        return self.status(rig, "VmHWM") - self.before

    def connect(self, port):
        s = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.addCleanup(s.close)
        return s

    def crowd(self, port, count, say=b"", small=False):
        """So many connections; each that is closed meanwhile does not matter."""
        all_of_them = []
        for _ in range(count):
            s = socket.socket()
            self.addCleanup(s.close)
            if small:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.settimeout(30)
            s.connect(("127.0.0.1", port))
            with contextlib.suppress(OSError):
                s.sendall(say)
            all_of_them.append(s)
        return all_of_them


class Http(Strangers):
    def test_silent_http_connections_do_not_keep_others_out(self):
        rig = self.console()
        for say in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: local"):
            with self.subTest(say):
                self.crowd(rig.console_port, 100, say)
                self.assertEqual(rig.console_page("/healthz")[0], 200)
        rig["console"].stop(5)

    def test_http_connections_that_do_not_read_do_not_keep_others_out(self):
        rig = self.console()
        ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.before = self.status(rig, "VmRSS")
        self.crowd(rig.console_port, 200, ask * 50, small=True)
        self.assertEqual(rig.console_page("/healthz")[0], 200)
        self.assertLess(self.rise(rig), 64 * 1024)
        rig["console"].stop(5)

    def page(self, rig, *hosts, version="1.1"):
        with self.connect(rig.console_port) as s:
            s.sendall((f"GET /metrics HTTP/{version}\r\nConnection: close\r\n"
                       + "".join(f"Host: {h}\r\n" for h in hosts)
                       + "\r\n").encode())
            text = b"".join(iter(lambda: s.recv(65536), b""))
        return int(text.split()[1]), text

    def test_foreign_host_names_are_refused(self):
        """DNS rebinding: a page of evil.example whose name resolves to our address
        sends its own name in Host."""
        rig = self.console(hosts=["metrics.example", "Other.Example"])
        port = rig.console_port
        for host in ("localhost", f"localhost:{port}", "LOCALHOST.",
                     "127.0.0.1", f"127.0.0.1:{port}", "127.8.8.8", "[::1]",
                     f"[::1]:{port}", "10.1.2.3:80", "metrics.example",
                     "METRICS.example:443", "other.example."):
            with self.subTest(host):
                self.assertEqual(self.page(rig, host)[0], 200)
        for host in ("evil.example", f"evil.example:{port}", "",
                     "localhost.evil.example", "127.0.0.1.evil.example",
                     "[::1", "[::1]x", "::1", "1.2.3", "0x7f000001", "127.1",
                     "localhost:80@evil.example", "x.metrics.example", "*"):
            with self.subTest(host):
                status, text = self.page(rig, host)
                self.assertEqual(status, 421, text)
                self.assertIn(b"console.hosts", text)
                self.assertNotIn(b"grapnel_up", text)
        self.assertEqual(self.page(rig, "localhost", "evil.example")[0], 400)
        self.assertEqual(self.page(rig)[0], 400)
        self.assertEqual(self.page(rig, version="1.0")[0], 200)


class Monitors(Strangers):
    def monitor(self, rig, topic=b""):
        sub = zmq.Context.instance().socket(zmq.SUB)
        sub.linger = 0
        self.addCleanup(sub.close)
        sub.connect(rig.publish)
        sub.subscribe(topic)
        return sub

    def hears(self, sub):
        self.assertTrue(sub.poll(30000), "it hears nothing")
        return msgpack.unpackb(sub.recv())

    def raw(self, say=b""):
        s = self.connect(self.port)
        s.sendall(GREETING + frame(READY, 4) + say)
        return s

    def is_closed(self, s):
        """Whatever it still sends; True, or the test ends after 30 s."""
        with contextlib.suppress(ConnectionError):
            while s.recv(65536):
                pass
        return True

    def send_until_closed(self, s, some, total):
        with contextlib.suppress(ConnectionError):
            for _ in range(1 + total // len(some)):
                s.sendall(some)

    def test_subscriptions_without_end_use_bounded_memory(self):
        rig = self.console()
        sub = self.monitor(rig)
        self.hears(sub)
        self.before = self.status(rig, "VmRSS")
        topics = b"".join(frame(b"\x01%060d" % n) for n in range(4000))
        for what, some in [
                ("many", topics),
                ("one is long", frame(b"\x01" + b"x" * 60_000)),
                ("one never ends", b"\x02" + struct.pack(">Q", 1 << 40)
                 + b"\x01" + b"y" * 60_000),
                ("in parts", frame(b"\x01" + b"z" * 99, 1) * 1000),
                ("of ZMTP 3.1", frame(b"\x09SUBSCRIBE" + b"z" * 99, 4) * 1000),
                ("pings", frame(b"\x04PING\0\0" + b"c" * 16, 4) * 1000)]:
            with self.subTest(what):
                self.send_until_closed(self.raw(), some, 32 << 20)
                self.hears(sub)
                self.assertLess(self.rise(rig), 24 * 1024)
        self.assertEqual(rig.console_page("/healthz")[0], 200)
        rig["console"].stop(5)

    def test_sigterm_ends_the_console_during_an_attack(self):
        rig = self.console()
        s = self.raw()
        s.settimeout(0.1)
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 100 << 20:
                some = b"".join(frame(b"\x01%060d" % (sent + n))
                                for n in range(1000))
                s.sendall(some)
                sent += len(some)
        rig["console"].stop(5)

    def test_silent_subscribers_do_not_keep_others_out(self):
        rig = self.console()
        sub = self.monitor(rig)
        self.hears(sub)
        for say in (b"", GREETING[:20], GREETING, GREETING + frame(READY, 4)):
            with self.subTest(say):
                self.crowd(self.port, 400, say)
                self.hears(sub)
                self.hears(self.monitor(rig))

    def test_subscribers_that_do_not_read_use_bounded_memory(self):
        rig = self.console()
        rig.start("sequencer", "dlqd", "deliverer-1", "ingress")
        sub = self.monitor(rig)
        self.before = self.status(rig, "VmRSS")
        self.crowd(self.port, 100, GREETING + frame(READY, 4) + frame(b"\x01"),
                   small=True)
        for _ in range(200):
            self.hears(sub)
        self.assertLess(self.rise(rig), 100 * 1024)
        rig["console"].stop(5)

    def test_connections_that_do_not_speak_zeromq_are_closed(self):
        rig = self.console()
        for what, say in [
                ("HTTP", b"GET / HTTP/1.1\r\n\r\n" + bytes(64)),
                ("ZMTP 1", b"\x01\x00" + bytes(64)),
                ("ZMTP 2", b"\xff" + bytes(8) + b"\x7f\x01" + bytes(64)),
                ("CURVE", GREETING.replace(b"NULL\0", b"CURVE")),
                ("no READY", GREETING + frame(b"\x01")),
                ("a REQ", GREETING + frame(READY.replace(b"SUB", b"REQ"), 4)),
                ("no type", GREETING + frame(b"\x05READY", 4)),
                ("a cut property", GREETING + frame(READY[:-1], 4)),
                ("a long READY", GREETING + frame(READY + bytes(900), 4)),
                ("an ERROR", GREETING + frame(b"\x05ERROR\x00", 4)),
                ("flags", GREETING + frame(READY, 4) + b"\x80\x00")]:
            with self.subTest(what):
                s = self.connect(self.port)
                s.sendall(say)
                self.assertTrue(self.is_closed(s))
        self.hears(self.monitor(rig))

    def test_subscriptions_select_by_prefix(self):
        """A cancelled subscription gets no more messages."""
        rig = self.console()
        sub = self.monitor(rig)
        self.assertTrue(sub.poll(30000))
        first = sub.recv()[:1]
        s = self.connect(self.port)
        for b in GREETING + frame(READY, 4) + frame(b"\x01" + b"nothing") \
                + frame(b"\x01" + first) + frame(b"\x04PING\0\0hi", 4):
            s.sendall(bytes([b]))
            time.sleep(0.001)
        got = s.makefile("rb")
        self.assertEqual(got.read(64)[:12], GREETING[:12])
        heard, pong = 0, False
        ready = False
        while heard < 3 or not pong:
            flags = got.read(1)[0]
            size = got.read(8 if flags & 2 else 1)
            body = got.read(int.from_bytes(size, "big"))
            if flags & 4:
                ready |= body.startswith(b"\x05READY\x0bSocket-Type")
                pong |= body == b"\x04PONGhi"
            else:
                self.assertEqual(body[:1], first)
                heard += 1
        self.assertTrue(ready)
        wait_for(lambda: rig.number("grapnel_console_subscribers") == 2)
        s.sendall(frame(b"\x00" + first) + frame(b"\x00" + b"nothing"))
        wait_for(lambda: rig.number("grapnel_console_subscribers") == 1)
        got.close()
        s.close()
        sub.unsubscribe(b"")
        wait_for(lambda: rig.number("grapnel_console_subscribers") == 0)


if __name__ == "__main__":
    main(3)
