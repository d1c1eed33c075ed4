"""The management API under attack: malformed and slow requests, floods, and clients that do not read,
neither end the console nor keep others out."""

import contextlib
import json
import os
import pathlib
import random
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, SLOW, http_request, main, wait_for

TOKEN = "an-admin-token-of-the-file"
SENT = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
PAUSE = b"POST /api/v1/endpoints/crm/pause HTTP/1.1\r\n" + SENT


class Hostile(RigTest):
    def api_rig(self, *names, **how):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True, **how)
        # What is freed is not to count: a sanitizer keeps 256 MiB of it.
        rig.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") \
            + ":quarantine_size_mb=4"
        return rig.start(*names)

    def connect(self, rig, says=b"", small=False):
        s = socket.socket()
        self.addCleanup(s.close)
        if small:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.settimeout(20 * SLOW)
        s.connect(("127.0.0.1", rig.console_port))
        with contextlib.suppress(OSError):
            s.sendall(says)
        return s

    def say(self, rig, raw):
        """(status, code of the error or None) of the response to these bytes."""
        s = self.connect(rig, raw)
        response = b""
        with contextlib.suppress(ConnectionResetError):
            while b"\r\n\r\n" not in response:
                response += s.recv(65536) or self.fail(f"no response: {response}")
            head, _, body = response.partition(b"\r\n\r\n")
            n = int(head.lower().split(b"content-length:")[1].split()[0])
            while len(body) < n and (more := s.recv(65536)):
                body += more
        s.close()
        status = int(head.split()[1])
        with contextlib.suppress(ValueError):
            return status, json.loads(body).get("error", {}).get("code")
        return status, None

    def is_well(self, rig, other=200):
        status, _, text = http_request(rig.console_port, "GET", "/api/v1/gaps", headers={
            "Authorization": f"Bearer {TOKEN}"})
        self.assertIn(status, (200, other), text)
        return status == 200

    def resident_kib(self, rig):
        status = pathlib.Path(f"/proc/{rig['console'].pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def test_malformed_requests_get_the_documented_errors(self):
        rig = self.api_rig()
        get = b"GET /api/v1/gaps HTTP/1.1\r\n" + SENT
        long = b"x" * 17000
        for raw, expected in [
                (b"GET /api/v1/gaps HTTP/1.1\r\n\r\n", (400, "host_needed")),
                (get + b"Host: localhost\r\n\r\n", (400, "host_needed")),
                (get.replace(b"localhost", b"evil.example") + b"\r\n", (421, "host_unknown")),
                (get + b"X: a\0b\r\n\r\n", (400, "bad_request")),
                (get + b"X : b\r\n\r\n", (400, "bad_request")),
                (get + b"X: a\nY: b\r\n\r\n", (400, "bad_request")),
                (get + b"X: a\r\n folded\r\n\r\n", (400, "bad_request")),
                (get.replace(b"gaps", b"gaps\0x") + b"\r\n", (400, "bad_request")),
                (get.replace(b"gaps", b"gaps?a b") + b"\r\n", (400, None)),
                (get + b"X: " + long + b"\r\n\r\n", (431, "headers_too_large")),
                (get + b"X: y\r\n" * 150 + b"\r\n", (431, "headers_too_large")),
                (get + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
                 (400, "bad_request")),
                (get + b"Content-Length: -1\r\n\r\n", (400, None)),
                (get + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                 (400, "bad_request")),
                (PAUSE + JSON + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                 (411, "length_required")),
                (PAUSE + JSON + b"Content-Length: 65537\r\n\r\n" + b" " * 65537,
                 (413, "too_large")),
                (PAUSE + JSON + b"Content-Length: 99999999999\r\n\r\n", (413, "too_large")),
                (PAUSE + JSON + b"Content-Length: 65537\r\nExpect: 100-continue\r\n\r\n",
                 (413, "too_large")),
                (PAUSE + JSON + b"Content-Length: 65535\r\n\r\n" + b"[" * 65535,
                 (400, "invalid_body")),
                (PAUSE + JSON + b'Content-Length: 9\r\n\r\n{"a": 1e999}'[:40], (400, None)),
                (get + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode(), (401, "unauthorized")),
                (get + b"Content-Encoding: gzip\r\n\r\n", (415, "unsupported_type")),
                (b"GET http://localhost/api/v1/gaps HTTP/1.1\r\n" + SENT + b"\r\n", (200, None)),
                (b"GET /api/v1/gaps HTTP/1.0\r\n" + SENT + b"\r\n", (200, None)),
                (b"GET /api/v1/%67aps?&&limit=%31& HTTP/1.1\r\n" + SENT + b"\r\n", (200, None)),
                (b"GET /api/v1/gaps?" + b"&" * 9000 + b" HTTP/1.1\r\n" + SENT + b"\r\n",
                 (200, None)),
                (b"GET /api/v1/events?type=" + b"%25" * 256 + b" HTTP/1.1\r\n" + SENT + b"\r\n",
                 (200, None)),
                (b"GET /api/v1/events?type=" + b"%25" * 4000 + b" HTTP/1.1\r\n" + SENT + b"\r\n",
                 (400, "invalid_argument")),
                (b"GET /api/v1/events?type=" + b"y" * 5000 + b" HTTP/1.1\r\n" + SENT + b"\r\n",
                 (400, "invalid_argument")),
                (b"GET /api/v1/" + b"/" * 9000 + b" HTTP/1.1\r\n" + SENT + b"\r\n",
                 (404, "no_route")),
                (b"POST /api/v1/endpoints/\xff/pause HTTP/1.1\r\n" + SENT + b"\r\n",
                 (404, "no_route")),
                (b"POST /api/v1/endpoints/%2e%2e%2f%00/pause HTTP/1.1\r\n" + SENT + b"\r\n",
                 (404, "no_route"))]:
            with self.subTest(raw[:200]):
                status, code = self.say(rig, raw)
                self.assertEqual(status, expected[0], code)
                if expected[1]:
                    self.assertEqual(code, expected[1])
        self.is_well(rig)
        rig["console"].stop(5)

    def test_a_connection_carries_many_requests(self):
        rig = self.api_rig()
        s = self.connect(rig, (b"GET /api/v1/gaps HTTP/1.1\r\n" + SENT + b"\r\n"
                               + PAUSE + JSON + b"Content-Length: 2\r\n\r\n{}"
                               + b"GET /api/v1/nothing HTTP/1.1\r\n" + SENT + b"\r\n") * 20)
        response = b""
        while response.count(b"HTTP/1.1 404") < 20:
            response += s.recv(65536) or self.fail(response)
        self.assertEqual(response.count(b"HTTP/1.1 200"), 40)

    def test_slow_clients_do_not_keep_others_out(self):
        rig = self.api_rig()
        for says in (b"", b"GET /api/v1/ga", PAUSE + b"X: ", PAUSE + JSON
                     + b"Content-Length: 60000\r\n\r\n{" + b" " * 50000):
            with self.subTest(says[:60]):
                crowd = [self.connect(rig, says) for _ in range(350)]
                self.is_well(rig)
                for s in crowd:
                    s.close()
        rig["console"].stop(5)

    def test_clients_that_do_not_read_use_bounded_memory(self):
        rig = self.api_rig()
        for _ in range(50):
            rig.accept()
        before = self.resident_kib(rig)
        ask = b"GET /api/v1/events?limit=1000 HTTP/1.1\r\n" + SENT + b"\r\n"
        for _ in range(3):
            crowd = [self.connect(rig, ask * 100, small=True) for _ in range(150)]
            wait_for(lambda: self.is_well(rig, 503))  # busy, until it has responded to them
            for s in crowd:
                s.close()
        self.assertLess(self.resident_kib(rig) - before, 96 * 1024 * SLOW)
        rig["console"].stop(5)

    def test_random_bytes_do_not_end_the_console(self):
        rig = self.api_rig()
        chance = random.Random(8081)
        begin = time.monotonic()
        good = [b"GET /api/v1/events?limit=5&type=a%20b HTTP/1.1\r\n" + SENT + b"\r\n",
                PAUSE + JSON + b"Content-Length: 2\r\n\r\n{}",
                b"GET /api/v1/gaps?open=true&cursor=ImEi HTTP/1.1\r\n" + SENT + b"\r\n"]
        while time.monotonic() - begin < 3:
            raw = bytearray(chance.choice(good).replace(TOKEN.encode(), b"~~~"))
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(raw))
                raw[at:at + chance.randrange(3)] = bytes(
                    chance.choice(b"\0\r\n /?&=%:{}\"\xff\xc3a0") for _ in range(
                        chance.randrange(4)))
            if b" ~~~\r" not in raw:
                continue  # too many wrong tokens would only get 429
            s = self.connect(rig, bytes(raw).replace(b"~~~", TOKEN.encode()))
            s.settimeout(0.01)
            with contextlib.suppress(OSError):
                s.recv(65536)
            s.close()
        self.is_well(rig)
        rig["console"].stop(5)

    def test_deliveries_do_not_notice_a_flood(self):
        rig = self.api_rig()
        crowd = [self.connect(rig, (b"GET /api/v1/events?limit=1000 HTTP/1.1\r\n" + SENT
                                    + b"\r\n") * 30) for _ in range(60)]
        event = rig.accept()
        rig.wait_status(event, timeout=15)
        self.is_well(rig)
        del crowd


if __name__ == "__main__":
    main(at_once=3)
