"""Each way in which an endpoint can behave in one attempt, with a real socket: the outcome,
what is stored of it, and which addresses are never called."""

import gzip
import os
import pathlib
import socket
import sys
import threading
import time
from email.utils import formatdate

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_sequencer import config
from lone_deliverer import LEASE_MS, DelivererTest, event
from misbehaver import Authority, Misbehaver, http2
from rig import SLOW, main, program, wait_for

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def says(data):
    """Reads the request, sends these bytes, closes."""
    def behave(c):
        c.request()
        c.send(data)
    return behave


def stays(data):
    """The same, and leaves the connection open."""
    def behave(c):
        c.request()
        c.send(data)
        c.until_closed()
    return behave


def responds(c):
    while True:
        c.request()
        c.respond()


class AttemptTest(DelivererTest):
    grants = 1000

    def to(self, url, **change):
        """A grant for an endpoint of its own at this URL: (grant, name)."""
        AttemptTest.grants += 1
        name = f"e{AttemptTest.grants}"
        change = {"max_attempts": 2, "first_wait_ms": 10, "timeout_ms": 2000,
                  "connect_timeout_ms": 2000, **change}
        self.s.grant(AttemptTest.grants, name, config(name, url, **change))
        return AttemptTest.grants, name

    def serve(self, behave, **how):
        m = Misbehaver(behave, **how)
        self.addCleanup(m.close)
        return m

    def deliver(self, n, url, timeout=15, task=None, **change):
        """The last result of event n at this URL."""
        g, name = self.to(url, **change)
        self.s.task(g, name, event(n), **(task or {}))
        return self.ended(n, timeout=timeout)[0]

    def start_again(self, **env):
        """The deliverer once more, in this environment."""
        self.d.kill()
        self.s.run_for(0.05)
        heartbeats = len(self.s.heartbeats)
        # A sanitizer's library asks to be first, which is not needed.
        env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") \
            + ":verify_asan_link_order=0"
        self.d.start(env=env)
        self.s.until(lambda: len(self.s.heartbeats) > heartbeats, 10 * SLOW)

    def metric(self, name):
        return self.r.ask("deliverer-1", "status")["metrics"][name]

    def resident(self):
        with open(f"/proc/{self.d.pid}/status") as f:
            return next(int(x.split()[1]) for x in f if x.startswith("VmRSS"))

    def attempts(self, n):
        return self.r.ask("deliverer-1", "trace", id=event(n))["attempts"]


class Outcomes(AttemptTest):
    """P2: every failure comes to its end, for the reason that it has."""

    def test_invalid_responses_are_retried(self):
        huge = b"X-Long: " + b"x" * 200_000 + b"\r\n"
        cases = [  # what it does, status, what is said of it
            ("closes at once", lambda c: None, 0, "closed|broke"),
            ("reset at once", lambda c: c.reset(), 0, "broke|connect"),
            ("closes after the request", says(b""), 0, "closed"),
            ("reset after the request",
             lambda c: (c.request(), c.reset()), 0, "connection closed"),
            ("half a head", says(b"HTTP/1.1 200 OK\r\nContent-Le"), 0,
             "closed|broke|cut"),
            ("another protocol", says(b"SSH-2.0-OpenSSH_9.2\r\n"), 0,
             "not HTTP"),
            ("HTTP/0.9", says(b"<html>hello</html>"), 0, "not HTTP"),
            ("a 1xx and nothing more",
             says(b"HTTP/1.1 102 Processing\r\n\r\n"), 0, "closed|broke"),
            ("a header line of 200 KB",
             says(b"HTTP/1.1 200 OK\r\n" + huge + b"\r\n"), 0, "too large"),
            ("heads without end", stays(
                b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 10), 0, "in time"),
            ("never responds", stays(b""), 0, "no response in time"),
            ("500 cut short",
             says(b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf"), 500,
             "responded 500"),
        ]
        for n, (what, behave, status, error) in enumerate(cases):
            with self.subTest(what):
                m = self.serve(behave)
                r = self.deliver(n, m.url(), timeout_ms=600)
                self.assertEqual((r["outcome"], r["reason"], r["attempts"],
                                  r["http_status"]),
                                 ("dead", "budget_attempts", 2, status), r)
                self.assertRegex(r["error"], error)

    def test_a_connection_that_closes_before_the_request_is_retried(self):
        """P2: the address of such a connection is unknown, so no request is sent,
        and the event is retried."""
        names = self.r.folder / "names"
        names.write_text("both.rig 127.0.0.3\nboth.rig 127.0.0.1\n")
        self.start_again(LD_PRELOAD=program("rig-gone.so") + ":"
                         + program("rig-fakedns.so"), RIG_DNS=str(names))
        m = self.serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        for n, url, change in [
                (1, m.url(), {}),
                # Nor when another address of its host is one that may not be.
                (2, f"http://both.rig:{m.port}/",
                 {"allow_private": 0, "allow_cidrs": "127.0.0.1/32"})]:
            r = self.deliver(n, url, **change)
            self.assertEqual((r["outcome"], r["reason"], r["attempts"],
                              r["error"]), ("dead", "budget_attempts", 2,
                                            "connection closed unexpectedly"), r)

    def test_an_ordered_request_is_not_sent_after_the_lease(self):
        """P5: the deliverer was stopped between its connect and its request;
        another one may have the lane by then."""
        stall = self.r.folder / "stall"
        self.start_again(LD_PRELOAD=program("rig-stall.so"),
                         RIG_STALL=str(stall), RIG_STALL_MS=str(LEASE_MS + 200))
        m = self.serve(responds)
        self.assertEqual(self.deliver(1, m.url())["outcome"], "delivered")
        stall.touch()
        r = self.deliver(2, m.url(name="localhost"), ordered=1)
        self.assertEqual((r["outcome"], r["error"]),
                         ("released", "interrupted: the deliverer's lease has expired"))
        self.assertFalse(stall.exists())
        self.assertEqual([x.id for x in m.requests], [event(1)])

    def test_a_complete_2xx_head_is_a_delivery(self):
        """An endpoint that has sent the whole head of a 2xx has the event."""
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        cases = [
            ("closes after the head", says(head)),
            ("reset after the head",
             lambda c: (c.request(), c.send(head), c.reset())),
            ("a body that never ends", stays(head + b"some")),
            ("a body too large to read", stays(head + b"x" * 1_000_000)),
            ("two 1xx before it", says(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n"
                b"Link: </x>\r\n\r\nHTTP/1.1 204 None\r\n\r\n")),
            ("a malformed chunk", says(
                b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")),
            ("an unknown encoding", says(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: no-such\r\n"
                b"Content-Length: 3\r\n\r\nabc")),
        ]
        for n, (what, behave) in enumerate(cases):
            with self.subTest(what):
                m = self.serve(behave)
                r = self.deliver(n, m.url(), timeout_ms=1500)
                self.assertEqual((r["outcome"], r["attempts"]),
                                 ("delivered", 1), r)
                self.assertEqual(len(m.requests), 1)

    def test_redirects_are_not_followed(self):
        other = self.serve(responds)
        for n, status in enumerate((300, 301, 302, 303, 304, 307, 308)):
            m = self.serve(says(f"HTTP/1.1 {status} Go\r\nLocation: "
                                f"{other.url()}\r\nContent-Length: 0\r\n\r\n"
                                .encode()))
            r = self.deliver(n, m.url())
            self.assertEqual((r["outcome"], r["reason"], r["http_status"]),
                             ("dead", "rejected", status))
        self.assertEqual(other.connections, 0)

    def test_attempts_without_a_connection_are_retried(self):
        gone = self.serve(responds)
        gone.close()
        full = socket.socket()  # a backlog of one, and nobody accepts
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        self.addCleanup(full.close)
        fillers = []
        for _ in range(4):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(full.getsockname())
            fillers.append(s)
            self.addCleanup(s.close)
        for n, (url, error) in enumerate([
                (gone.url(), "connection refused"),
                (f"http://127.0.0.1:{full.getsockname()[1]}/",
                 "could not connect in time"),
                ("http://nothing.invalid/", "host not found")]):
            with self.subTest(error):
                r = self.deliver(n, url, connect_timeout_ms=400)
                self.assertEqual((r["outcome"], r["reason"], r["error"]),
                                 ("dead", "budget_attempts", error))

    def test_status_headers_and_start_of_the_body_are_kept(self):
        """The first 16 KiB of the body are stored as received, without
        decompression, and the time of each step."""
        bomb = gzip.compress(b"0" * 50_000_000)
        m = self.serve(lambda c: (c.request(), c.respond(
            503, "Content-Encoding: gzip\r\nX-Told: yes\r\n", bomb)))
        before = self.resident()
        self.deliver(1, m.url(), max_attempts=1)
        self.assertLess(self.resident() - before, 20 * 1024)
        row, = self.r.rows("deliverer-1",
                           "SELECT * FROM attempts")
        self.assertEqual(row["response"], bomb[:16384])
        head = row["headers"].decode()
        self.assertTrue(head.startswith("HTTP/1.1 503 Told\r\n"))
        self.assertIn("X-Told: yes\r\n", head)
        steps = [row[k] for k in ("dns_us", "connect_us", "first_byte_us",
                                  "total_us")]
        self.assertEqual(steps, sorted(steps))
        self.assertGreater(steps[0], 0)
        self.assertEqual(row["tls_us"], 0)
        attempt, = self.attempts(1)
        self.assertEqual(attempt["response"]["http_version"], "1.1")
        self.assertIn("X-Told: yes", attempt["response"]["headers"])
        self.assertGreater(attempt["timings"]["total_ms"], 0)
        self.assertIsNone(attempt["timings"]["tls_ms"])

    def test_retry_after_lengthens_the_wait_in_seconds_and_as_a_date(self):
        """It never shortens a wait, and the retry budget limits it."""
        def told(c):
            r = c.request()
            c.respond(503, f"Retry-After: {said[r.id]}\r\n")
        m = self.serve(told)
        said = {event(1): "7", event(2): formatdate(time.time() + 60,
                                                    usegmt=True),
                event(3): formatdate(time.time() - 9999, usegmt=True),
                event(4): "-5", event(5): "soon", event(6): "999999999",
                event(7): "9" * 30}
        g, name = self.to(m.url(), first_wait_ms=1000, max_attempts=9,
                          max_duration_ms=600_000)
        for e in said:
            self.s.task(g, name, e)
        self.s.until(lambda: all(self.s.of(e) for e in said), 20)
        waits = {}
        for e in said:
            r = self.s.of(e)[0]
            self.assertEqual(r["outcome"], "retrying")
            waits[e] = (r["next_ms"] - r["at_ms"]) / 1000
        slack = 3 * SLOW
        for e, least in ((1, 7), (2, 58), (3, 1), (4, 1), (5, 1), (6, 600),
                         (7, 1)):
            self.assertGreaterEqual(waits[event(e)], least - 0.1, said[event(e)])
            self.assertLess(waits[event(e)], least + 2 + slack, said[event(e)])


class Time(AttemptTest):
    def test_a_response_that_arrives_during_a_stall_is_not_a_timeout(self):
        """The response arrives while the deliverer is stopped for longer than each
        timeout."""
        wait, go = [], []

        def slow(c):
            c.request()
            wait.append(c)
            while not go:
                time.sleep(0.01)
            c.respond()
        m = self.serve(slow)
        g, name = self.to(m.url(), timeout_ms=1500, connect_timeout_ms=700)
        for n in range(20):
            self.s.task(g, name, event(n))
        self.s.until(lambda: len(wait) == 20, 10 * SLOW)
        self.d.pause()
        go.append(1)
        time.sleep(3)
        self.d.resume()
        for r in self.ended(*range(20)):
            self.assertEqual((r["outcome"], r["attempts"]), ("delivered", 1), r)
        self.assertEqual(len(m.requests), 20)

    def test_a_response_that_arrives_during_a_slow_commit_is_not_a_timeout(self):
        """The response arrives while a commit waits for the disk."""
        wait, go = [], []
        disk = self.r.folder / "disk"
        disk.mkdir()
        self.start_again(LD_PRELOAD=program("rig-slowdisk.so"),
                         RIG_DISK=str(disk))

        def slow(c):
            c.request()
            wait.append(c)
            while not go:
                time.sleep(0.01)
            c.respond()
        m = self.serve(slow)
        g, name = self.to(m.url(), timeout_ms=1500, connect_timeout_ms=700)
        for n in range(20):
            self.s.task(g, name, event(n))
        self.s.until(lambda: len(wait) == 20, 10 * SLOW)
        (disk / "hold").touch()
        g, name = self.to(self.serve(responds).url())
        self.s.task(g, name, event(20))
        self.s.until((disk / "held").exists, 10 * SLOW)
        go.append(1)
        time.sleep(3)
        (disk / "hold").unlink()
        for r in self.ended(*range(21)):
            self.assertEqual((r["outcome"], r["attempts"]), ("delivered", 1), r)
        self.assertEqual(len(m.requests), 20)

    def test_requests_continue_while_outcomes_are_committed(self):
        """P4: and no outcome is reported before it is on disk."""
        disk = self.r.folder / "disk"
        disk.mkdir()
        self.start_again(LD_PRELOAD=program("rig-slowdisk.so"),
                         RIG_DISK=str(disk), GRAPNEL_TEST_LEASE_MS="600000")
        go, answered = threading.Event(), []

        def slow(c):
            while True:
                c.request()
                go.wait()
                c.respond()
                answered.append(c)
        m = self.serve(slow)
        g, name = self.to(m.url(), max_in_flight=20, timeout_ms=60_000)
        for n in range(260):  # more than one commit is for
            self.s.task(g, name, event(n))
        # On disk, so that the next commit is one of outcomes.
        self.s.until(lambda: len(m.requests) == 20 and self.tasks() == 260,
                     10 * SLOW)
        self.d.pause()  # it reads all of these responses at once
        go.set()
        wait_for(lambda: len(answered) == 20)
        (disk / "hold").touch()
        self.d.resume()
        wait_for((disk / "held").exists)
        wait_for(lambda: len(m.requests) == 260)
        self.s.run_for(0.1)
        self.assertEqual(self.s.results, [])
        (disk / "hold").unlink()
        for r in self.ended(*range(260)):
            self.assertEqual((r["outcome"], r["attempts"]), ("delivered", 1), r)
        self.assertEqual(len(m.requests), 260)

    def test_a_connect_that_completes_during_a_stall_is_not_a_timeout(self):
        """TLS needs the server's next message, which arrived while the deliverer
        was stopped."""
        ca = Authority(self.r.folder / "ca")
        held, go = [], []
        context = ca.server("slow", "127.0.0.1")

        def slow(c):
            held.append(c)
            while not go:
                time.sleep(0.01)
            c.sock = context.wrap_socket(c.sock, server_side=True)
            responds(c)
        m = self.serve(slow)
        g, name = self.to(f"https://127.0.0.1:{m.port}/", timeout_ms=3000,
                          connect_timeout_ms=2500, tls_ca=ca.pem())
        self.s.task(g, name, event(1))
        self.s.until(lambda: held, 10 * SLOW)
        self.d.pause()
        go.append(1)
        time.sleep(3.5)
        self.d.resume()
        r, = self.ended(1)
        self.assertEqual((r["outcome"], r["attempts"]), ("delivered", 1), r)

    def test_an_expired_event_is_not_sent(self):
        """It is dead at once, with its reason."""
        m = self.serve(lambda c: (c.request(), c.respond(503)))
        now = int(time.time() * 1000)
        r = self.deliver(1, m.url(), task={"expires_ms": now - 1})
        self.assertEqual((r["outcome"], r["reason"], r["attempts"],
                          r["attempt_id"]), ("dead", "expired", 0, 0))
        self.assertEqual(m.requests, [])
        r = self.deliver(2, m.url(), task={"expires_ms": now + 600_000},
                         first_wait_ms=3_600_000)
        self.assertEqual((r["outcome"], r["reason"], r["attempts"]),
                         ("dead", "expired", 1))


class Connections(AttemptTest):
    def test_connections_are_kept_and_their_reuse_is_measured(self):
        m = self.serve(responds)
        g, name = self.to(m.url(), max_in_flight=1)
        for n in range(10):
            self.s.task(g, name, event(n))
        self.ended(*range(10))
        self.assertEqual(m.connections, 1)
        wait_for(lambda: self.metric("grapnel_connections_reused_total") == 9)
        self.assertEqual(self.metric("grapnel_connections_reused_percent"), 90)
        self.assertEqual(self.metric("grapnel_connections_total"), 1)

    def test_a_dead_kept_connection_costs_one_more_request(self):
        """P4: libcurl sends a POST again, once and on a new connection, when a kept
        connection closes before a response."""
        def dies(c):
            c.request()
            c.respond()
            c.request()  # and not a word

        m = self.serve(dies)
        g, name = self.to(m.url(), max_in_flight=1)
        self.s.task(g, name, event(1))
        self.ended(1)
        self.s.task(g, name, event(2))
        r, = self.ended(2)
        self.assertEqual((r["outcome"], r["attempts"]), ("delivered", 1))
        self.assertEqual([(q.id, q.connection) for q in m.requests],
                         [(event(1), 1), (event(2), 1), (event(2), 2)])
        self.assertEqual([q.headers["grapnel-attempt"] for q in m.requests],
                         ["1"] * 3)
        self.assertEqual(self.attempts(2)[0]["sends"], 2)
        wait_for(lambda: self.metric("grapnel_attempts_resent_total") == 1)

    def test_several_dead_kept_connections_cost_one_more_request(self):
        """And not one request for each kept connection."""
        served = []

        def dies(c):
            c.request()
            served.append(1)
            while len(served) < 4:
                time.sleep(0.01)
            c.respond()
            c.request()
            if c.number > 4:
                c.respond()
        m = self.serve(dies)
        g, name = self.to(m.url(), max_in_flight=4)
        for n in range(4):
            self.s.task(g, name, event(n))
        self.ended(*range(4))
        self.assertEqual(m.connections, 4)
        self.s.task(g, name, event(9))
        self.assertEqual(self.ended(9)[0]["outcome"], "delivered")
        self.assertEqual([q.connection > 4 for q in m.requests[4:]],
                         [False, True])

    def test_an_endpoint_with_an_ipv6_address_gets_events(self):
        try:
            m = self.serve(responds, host="::1")
        except OSError:
            self.skipTest("this machine has no ::1")
        self.assertEqual(self.deliver(1, m.url())["outcome"], "delivered")
        self.assertEqual(
            self.deliver(2, m.url(), allow_private=0)["reason"],
            "blocked_address")
        self.assertEqual(len(m.requests), 1)

    def test_http2_is_used_when_tls_offers_it(self):
        """One connection, many requests at once."""
        ca = Authority(self.r.folder / "ca")
        m = self.serve(http2, tls=ca.server("h2", "127.0.0.1",
                                            alpn=["h2", "http/1.1"]))
        g, name = self.to(m.url(), tls_ca=ca.pem(), max_in_flight=1)
        for n in range(20):
            self.s.task(g, name, event(n))
        for r in self.ended(*range(20)):
            self.assertEqual(r["outcome"], "delivered", r)
        self.assertEqual(m.connections, 1)
        self.assertEqual(
            self.attempts(3)[0]["response"]["http_version"], "2")
        self.assertIn("stream 39", [q.line for q in m.requests])

    def test_http1_is_used_when_tls_does_not_offer_http2(self):
        ca = Authority(self.r.folder / "ca")
        m = self.serve(responds, tls=ca.server("old", "127.0.0.1",
                                              alpn=["http/1.1"]))
        self.assertEqual(self.deliver(1, m.url(), tls_ca=ca.pem())["outcome"],
                         "delivered")
        self.assertTrue(m.requests[0].line.endswith("HTTP/1.1"))


    def test_a_request_in_flight_at_a_goaway_is_made_again(self):
        """Whether the server processed it or not, it is made on another connection,
        with the same webhook-id."""
        ca = Authority(self.r.folder / "ca")
        context = ca.server("away", "127.0.0.1", alpn=["h2"])
        for n, taken in enumerate((0, 1)):
            with self.subTest(taken=taken):
                m = self.serve(
                    lambda c, taken=taken: http2(
                        c, taken if c.number == 1 else None), tls=context)
                r = self.deliver(n, m.url(), tls_ca=ca.pem(), max_attempts=3)
                self.assertEqual(r["outcome"], "delivered", r)
                self.assertEqual(m.connections, 2)
                self.assertEqual(len(m.requests), 2)


def trickles(head, rest):
    """Byte by byte, for ever."""
    def behave(c):
        c.request()
        c.send(head)
        while True:
            c.send(rest)
            time.sleep(0.02)
    return behave


def floods(head, some):
    """For ever, as fast as it goes."""
    def behave(c):
        c.request()
        c.send(head)
        while True:
            c.send(some * 1000)
    return behave

def streams(head, some, total=16 << 20, kept=False):
    """As fast as it goes, `total` bytes of it, and then nothing more. `kept`:
    in response to the second request of a connection."""
    def behave(c):
        if kept:
            c.request()
            c.respond()
        c.request()
        c.send(head)
        some_more = some * (1 + 65536 // len(some))
        for _ in range(1 + total // len(some_more)):
            c.send(some_more)
        c.until_closed()
    return behave


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
AROUND = [  # what a chunked response may carry besides its body
    ("trailers without end", CHUNKED + b"2\r\nok\r\n0\r\n", b"X-A: b\r\n"),
    ("the shortest trailers", CHUNKED + b"0\r\n", b"a:\r\n"),
    ("folded trailers", CHUNKED + b"0\r\nX-A: b\r\n", b" c\r\n"),
    ("a trailer without end", CHUNKED + b"2\r\nok\r\n0\r\nX-A: ", b"x"),
    ("a chunk extension without end", CHUNKED + b"2;a=", b"x"),
    ("chunk extensions", CHUNKED, b"1;" + b"x" * 999 + b"\r\n-\r\n"),
    ("an extension of the last chunk", CHUNKED + b"2\r\nok\r\n0;", b"x"),
    ("tiny chunks", CHUNKED, b"1\r\n-\r\n"),
]


class Hostile(AttemptTest):
    """P2: a response without end is cut off, takes no memory, and does not delay
    other endpoints."""

    def test_responses_without_end_are_cut_off(self):
        ok, line = b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"
        cases = [
            ("a head byte by byte", trickles(ok, b"x"), 0),
            ("1xx for ever, slowly",
             trickles(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), 0),
            ("1xx for ever", floods(b"", b"HTTP/1.1 102 More\r\n\r\n"), 0),
            ("header lines for ever", floods(ok, line), 0),
            ("one header line for ever", floods(ok, b"x"), 0),
            ("a protocol that nobody asked for",
             stays(b"HTTP/1.1 101 Switching Protocols\r\n"
                   b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), 0),
            ("lengths that contradict", stays(
                b"HTTP/1.1 503 No\r\nContent-Length: 5\r\n"
                b"Content-Length: 7\r\n\r\nabcde"), 503),
            ("a length below zero", stays(
                b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), 0),
            ("an impossible status", stays(
                b"HTTP/1.1 0 Zero\r\nContent-Length: 0\r\n\r\n"), 0),
        ]
        good = self.serve(responds)
        before = self.resident()
        for n, (what, behave, status) in enumerate(cases):
            with self.subTest(what):
                g, name = self.to(self.serve(behave).url(), timeout_ms=700)
                self.s.task(g, name, event(n))
                self.assertEqual(
                    self.deliver(100 + n, good.url())["outcome"], "delivered")
                r, = self.ended(n)
                self.assertEqual((r["outcome"], r["reason"], r["attempts"],
                                  r["http_status"]),
                                 ("dead", "budget_attempts", 2, status), r)
        self.assertLess(self.resident() - before, 20 * 1024)

    def peak(self):
        """The most memory it has had at once since it was asked before."""
        with open(f"/proc/{self.d.pid}/status") as f:
            kib = next(int(x.split()[1]) for x in f if x.startswith("VmHWM"))
        with open(f"/proc/{self.d.pid}/clear_refs", "w") as f:
            f.write("5")
        return kib

    def test_extensions_and_trailers_of_chunks_are_bounded(self):
        """The status counts; the deliverer does not wait for the rest or store
        it."""
        self.deliver(1000, self.serve(responds).url())
        self.peak()
        before = self.resident()
        for n, (what, head, some) in enumerate(AROUND):
            for kept in (False, True):
                with self.subTest(what, kept=kept):
                    m = self.serve(streams(head, some, kept=kept))
                    g, name = self.to(m.url(), timeout_ms=60_000)
                    for i in range(1 + kept):
                        self.s.task(g, name, event(100 * i + n + 10 * kept))
                        r, = self.ended(100 * i + n + 10 * kept)
                        self.assertEqual(
                            (r["outcome"], r["attempts"], r["http_status"]),
                            ("delivered", 1, 200), r)
                    self.assertEqual(m.connections, 1)
                    self.assertLess(self.peak() - before, 20 * 1024)

    def test_a_hundred_hostile_responses_do_not_delay_others(self):
        self.deliver(1000, self.serve(responds).url())
        self.peak()
        before = self.resident()
        m = self.serve(streams(CHUNKED + b"2\r\nok\r\n0\r\n", b"X-A: b\r\n",
                               total=1 << 20))
        g, name = self.to(m.url(), timeout_ms=60_000, max_in_flight=100)
        for n in range(100):
            self.s.task(g, name, event(n))
        self.assertEqual({r["outcome"] for r in self.ended(*range(100))},
                         {"delivered"})
        self.assertLess(self.peak() - before, 60 * 1024)
        self.deliver(1001, self.serve(responds).url())
        self.assertLess(self.resident() - before, 40 * 1024)

    def test_a_too_large_head_is_not_a_response(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
        for n, (lines, outcome) in enumerate([
                (b"X-A: %s\r\n" % (b"b" * 60_000), "delivered"),
                (b"X-A: %s\r\n" % (b"b" * 70_000), "dead"),
                (b"a:\r\n" * 1_700, "delivered"),
                (b"a:\r\n" * 2_000, "dead")]):
            with self.subTest(n=n):
                r = self.deliver(
                    n, self.serve(stays(head + lines + b"\r\n")).url())
                self.assertEqual(r["outcome"], outcome, r)
                if outcome == "dead":
                    self.assertEqual(
                        (r["attempts"], r["http_status"],
                         self.attempts(n)[0]["error"]),
                        (2, 0, "the response was too large"), r)

    def test_a_body_byte_by_byte_is_a_response(self):
        m = self.serve(trickles(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"))
        r = self.deliver(1, m.url(), timeout_ms=700)
        self.assertEqual((r["outcome"], r["attempts"], r["http_status"]),
                         ("delivered", 1, 200), r)

    def test_a_response_before_the_body_was_read_counts(self):
        """And the unread body does not disturb the next request."""
        body = b"x" * 1_000_000

        def early(status, then):
            def behave(c):
                c.head()
                c.respond(status)
                then(c)
            return behave
        for n, (status, then, outcome) in enumerate([
                (413, lambda c: c.until_closed(), "dead"),
                (200, lambda c: c.until_closed(), "delivered"),
                (200, lambda c: time.sleep(3), "delivered"),
                (413, lambda c: time.sleep(3), "dead")]):
            with self.subTest(n=n):
                m = self.serve(early(status, then))
                r = self.deliver(n, m.url(), timeout_ms=1500,
                                 task={"body": body})
                self.assertEqual((r["outcome"], r["http_status"],
                                  r["attempts"]), (outcome, status, 1), r)
        with self.subTest("the next"):
            def reads_on(c):
                while True:
                    c.head()
                    c.respond()
                    c.request()
            m = self.serve(reads_on)
            g, name = self.to(m.url(), max_in_flight=1)
            for n in range(10, 15):
                self.s.task(g, name, event(n), body=body)
            self.assertEqual([r["outcome"] for r in self.ended(*range(10, 15))],
                             ["delivered"] * 5)
            self.assertEqual([len(q.body) for q in m.requests],
                             [len(body)] * len(m.requests))


class Tls(AttemptTest):
    def setUp(self):
        super().setUp()
        self.ca = Authority(self.r.folder / "ca")

    def test_an_untrusted_certificate_is_retried_and_named(self):
        """Certificates get corrected; until then no request is sent."""
        other = Authority(self.r.folder / "other", "other")
        good = self.ca.server("good", "127.0.0.1")
        cases = [
            ("expired", self.ca.server("old", "127.0.0.1", days=-1),
             "expired", {}),
            ("another name", self.ca.server("named", "example.com"),
             "another host name", {}),
            ("unknown authority", other.server("strange", "127.0.0.1"),
             "unable to get|unable to verify|self-signed", {}),
            ("an authority that we were not told of", good,
             "unable to get|unable to verify|self-signed", {"tls_ca": b""}),
        ]
        for n, (what, context, error, change) in enumerate(cases):
            with self.subTest(what):
                m = self.serve(responds, tls=context)
                r = self.deliver(n, m.url(), **{"tls_ca": self.ca.pem(),
                                                **change})
                self.assertEqual((r["outcome"], r["reason"], r["attempts"]),
                                 ("dead", "budget_attempts", 2))
                self.assertRegex(r["error"], "^TLS: .*(" + error + ")")
                self.assertEqual(m.requests, [])

    def test_a_server_without_tls_is_retried(self):
        for n, behave in enumerate([stays(b"HTTP/1.1 400 Bad\r\n\r\n"),
                                    lambda c: c.send(b"\x15\x03\x01\x00\x02\x02\x28"),
                                    lambda c: None]):
            m = self.serve(behave)
            r = self.deliver(n, f"https://127.0.0.1:{m.port}/", timeout_ms=900)
            self.assertEqual((r["outcome"], r["reason"]),
                             ("dead", "budget_attempts"), r)

    def test_a_client_certificate_is_shown_to_its_endpoint_only(self):
        """Shown to the endpoint that has one configured, and to no other."""
        certificate, key = self.ca.issue("client", "grapnel")
        shown = {"tls_certificate": pathlib.Path(certificate).read_bytes(),
                 "tls_key": pathlib.Path(key).read_bytes()}
        m = self.serve(responds, tls=self.ca.server("asks", "127.0.0.1",
                                                   ask=True))
        r = self.deliver(1, m.url(), tls_ca=self.ca.pem(), **shown)
        self.assertEqual(r["outcome"], "delivered", r)
        r = self.deliver(2, m.url(), tls_ca=self.ca.pem())
        self.assertEqual((r["outcome"], r["reason"]),
                         ("dead", "budget_attempts"), r)
        self.assertEqual([q.id for q in m.requests], [event(1)])

    def test_p8_a_kept_connection_does_not_lend_its_certificate(self):
        """Another endpoint with the same host and port gets a connection of its
        own, and is refused."""
        certificate, key = self.ca.issue("client", "grapnel")
        m = self.serve(responds, tls=self.ca.server("asks", "127.0.0.1",
                                                   ask=True))
        r = self.deliver(1, m.url(), tls_ca=self.ca.pem(),
                         tls_certificate=pathlib.Path(certificate).read_bytes(),
                         tls_key=pathlib.Path(key).read_bytes())
        self.assertEqual(r["outcome"], "delivered")
        self.deliver(2, m.url(), tls_ca=self.ca.pem(), max_attempts=1)
        self.deliver(3, m.url(), max_attempts=1)
        self.assertEqual([q.id for q in m.requests], [event(1)])


class Guard(AttemptTest):
    """P8: nothing that a URL can name reaches where it may not."""

    def test_proxies_of_the_environment_are_not_used(self):
        """With a proxy the guard would judge the proxy's address, and the proxy
        would connect to any address."""
        proxy, m = self.serve(responds), self.serve(responds)
        names = ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY",
                 "ALL_PROXY")
        self.start_again(**{name: proxy.url() for name in names})
        self.assertEqual(self.deliver(1, m.url())["outcome"], "delivered")
        r = self.deliver(2, "http://169.254.169.254/latest", allow_private=0)
        self.assertEqual(r["reason"], "blocked_address")
        self.deliver(3, "https://localhost:1/")
        self.assertEqual((proxy.connections, len(m.requests)), (0, 1))

    def test_a_name_that_changes_to_a_private_address_is_blocked(self):
        """DNS rebinding: the name is public at the first lookup and private at the
        connect. The guard judges the socket's address."""
        inside = self.serve(responds, host="127.0.0.3")
        m = self.serve(responds)
        while m.port == inside.port:  # or a connection to it is kept
            m = self.serve(responds)
        names = self.r.folder / "names"
        env = {"LD_PRELOAD": program("rig-fakedns.so"), "RIG_DNS": str(names)}
        change = {"allow_private": 0, "allow_cidrs": "127.0.0.1/32"}

        def url(port):
            return f"http://rebind.rig:{port}/"
        names.write_text("rebind.rig 127.0.0.1\n")
        self.start_again(**env)
        self.assertEqual(self.deliver(1, url(m.port), **change)["outcome"],
                         "delivered")
        names.write_text("rebind.rig 127.0.0.3\n")
        for n, port in ((2, inside.port), (3, 22)):
            r = self.deliver(n, url(port), **change)
            self.assertEqual((r["outcome"], r["reason"]),
                             ("dead", "blocked_address"), r)
        self.start_again(**env)  # no name is remembered, no connection kept
        r = self.deliver(4, url(m.port), **change)
        self.assertEqual(r["reason"], "blocked_address")
        with self.subTest("of several addresses only those that may be"):
            names.write_text("both.rig 127.0.0.3\nboth.rig 127.0.0.1\n")
            r = self.deliver(5, f"http://both.rig:{m.port}/", **change)
            self.assertEqual(r["outcome"], "delivered", r)
        self.assertEqual((inside.connections, len(m.requests)), (0, 2))

    def test_allowed_ports_restricts_the_port(self):
        m = self.serve(responds)
        other = (m.port + 1).to_bytes(2, "little")
        r = self.deliver(1, m.url(), allowed_ports=other)
        self.assertEqual((r["outcome"], r["reason"]),
                         ("dead", "blocked_address"))
        self.assertEqual(m.connections, 0)
        r = self.deliver(2, m.url(),
                         allowed_ports=other + m.port.to_bytes(2, "little"))
        self.assertEqual(r["outcome"], "delivered")

    def test_only_http_and_https_are_used(self):
        """A grant with another scheme is not confirmed, and no connection is
        opened."""
        m = self.serve(responds)
        for scheme in ("ftp", "gopher", "file", "dict", "telnet", "ldap"):
            self.to(f"{scheme}://127.0.0.1:{m.port}/x")
        wait_for(lambda: self.d.log().count("URL is not valid") >= 6)
        self.assertEqual(m.connections, 0)


main(at_once=4)
