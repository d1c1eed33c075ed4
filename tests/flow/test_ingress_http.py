"""What ingress accepts and refuses over HTTP, with each documented response, and that it
never hangs. P1, P7."""

import concurrent.futures
import hashlib
import hmac
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import (PLANE_SECRET, SLOW, RigTest, main, program, sign_plane,
                 wait_for)

BODY = b'{"event": "issue", "n": 1}'


def plane_signature(body):
    return hmac.new(PLANE_SECRET.encode(), body, hashlib.sha256).hexdigest()


def head(*lines, body=BODY, length=True, line="POST /in/plane HTTP/1.1",
         host="Host: ingress"):
    """A signed request's bytes up to its body; `lines` are more headers."""
    all_lines = [line, *([host] if host else []),
                 f"X-Plane-Signature: {plane_signature(body)}",
                 *([f"Content-Length: {len(body)}"] if length else []), *lines]
    return "\r\n".join(all_lines).encode("latin-1") + b"\r\n\r\n"


def chunk(piece, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)


class Response:
    def __init__(self, raw):
        self.raw = raw
        self.status, self.headers, self.body, self.rest = None, {}, b"", b""
        start, _, rest = raw.partition(b"\r\n\r\n")
        lines = start.decode("latin-1").split("\r\n")
        if m := re.match(r"HTTP/1\.[01] (\d{3}) ", lines[0]):
            self.status = int(m[1])
        self.headers = {k.lower(): v for k, _, v in
                        (line.partition(": ") for line in lines[1:])}
        n = int(self.headers.get("content-length", 0))
        self.body, self.rest = rest[:n], rest[n:]

    def error(self):
        return json.loads(self.body)["error"]["code"]


class IngressTest(RigTest):
    def start_ingress(self, **ingress):
        rig = self.rig({"ingress": ingress}, deliverers=0)
        rig.start("ingress")
        return rig

    def connect(self, rig, timeout=20):
        s = socket.create_connection(("127.0.0.1", rig.ingress_port),
                                     timeout * SLOW)
        self.addCleanup(s.close)
        return s

    def read_all(self, s):
        raw = b""
        try:
            while piece := s.recv(65536):
                raw += piece
        except ConnectionResetError:
            pass
        return raw

    def talk(self, rig, *pieces, pause=0, end=True):
        """Send the pieces, say that no more comes, read to the end."""
        s = self.connect(rig)
        try:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(pause)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self.read_all(s) if end else s

    def ask(self, rig, *pieces, **how):
        """The same with `Connection: close`d requests: one response."""
        return Response(self.talk(rig, *pieces, **how))

    def read_response(self, s):
        raw = b""
        while b"\r\n\r\n" not in raw:
            piece = s.recv(65536)
            if not piece:
                return Response(raw)
            raw += piece
        a = Response(raw)
        while len(a.body) < int(a.headers.get("content-length", 0)):
            piece = s.recv(65536)
            if not piece:
                break
            a = Response(a.raw + piece)
        return a

    def archived(self, rig):
        return rig.rows("ingress", "SELECT * FROM archive ORDER BY n")


class Taken(IngressTest):
    def test_a_200_means_that_the_raw_request_is_on_disk(self):
        rig = self.start_ingress()
        a = self.ask(rig, head("X-Twice: 1", "x-twice: 2 ", "X-Empty:",
                               "X-Text: caf\xe9", "Connection: close"), BODY)
        self.assertEqual(a.status, 200)
        response = json.loads(a.body)
        self.assertEqual(response["status"], "accepted")
        self.assertRegex(response["id"], "^evt_[0-9A-HJKMNP-TV-Z]{26}$")
        rig["ingress"].kill()
        [row] = self.archived(rig)
        self.assertEqual(row["event_id"], response["id"])
        self.assertEqual(bytes(row["body"]), BODY)
        self.assertEqual(row["source"], "plane")
        self.assertEqual(row["remote"], "127.0.0.1")
        self.assertLess(abs(row["received_ms"] / 1000 - time.time()), 60)
        self.assertEqual(unpack(bytes(row["headers"])), [
            (b"Host", b"ingress"),
            (b"X-Plane-Signature", plane_signature(BODY).encode()),
            (b"Content-Length", b"%d" % len(BODY)), (b"X-Twice", b"1"),
            (b"x-twice", b"2"), (b"X-Empty", b""), (b"X-Text", b"caf\xe9"),
            (b"Connection", b"close")])

    def test_requests_do_not_depend_on_how_bytes_are_cut(self):
        rig = self.start_ingress()
        whole = head("Connection: close") + BODY
        for size in (1, 3, 50):
            pieces = [whole[i:i + size] for i in range(0, len(whole), size)]
            self.assertEqual(self.ask(rig, *pieces, pause=0.0005).status, 200)
        chunked = head("Transfer-Encoding: chunked", "Connection: close",
                       length=False)
        a = self.ask(rig, chunked, chunk(BODY[:5], b';a="b"'), chunk(BODY[5:]),
                     b"0\r\n\r\n")
        self.assertEqual(a.status, 200)
        self.assertEqual({bytes(r["body"]) for r in self.archived(rig)}, {BODY})

    def test_expect_100_continue_is_answered(self):
        rig = self.start_ingress()
        s = self.connect(rig)
        s.sendall(head("Expect: 100-continue", "Connection: close"))
        self.assertEqual(s.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        s.sendall(BODY)
        self.assertEqual(self.read_response(s).status, 200)
        a = self.ask(rig, head("Expect: 100-continue",
                               line="POST /in/nobody HTTP/1.1"))
        self.assertEqual(a.status, 404)
        a = self.ask(rig, head("Expect: 100-continue",
                               "Content-Length: 9999999", length=False))
        self.assertEqual((a.status, a.error()), (413, "too_large"))

    def test_many_requests_on_one_connection_are_all_answered_in_order(self):
        rig = self.start_ingress()
        s = self.connect(rig)
        wrong = head().replace(b"X-Plane-Signature: ", b"X-Plane-Signature: 0")
        s.sendall((head() + BODY + wrong + BODY) * 200
                  + head("Connection: close") + BODY)
        raw = self.read_all(s)
        statuses = [int(m) for m in re.findall(rb"HTTP/1\.1 (\d{3}) ", raw)]
        self.assertEqual(statuses, [200, 401] * 200 + [200])
        ids = re.findall(rb'"id":"(evt_\w+)"', raw)
        self.assertEqual(len(set(ids)), 201)
        self.assertEqual(ids, sorted(ids))

    def test_a_request_is_stored_though_its_client_has_left(self):
        rig = self.start_ingress()
        s = self.connect(rig)
        s.sendall(head() + BODY)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))  # leave with a reset
        wait_for(lambda: len(self.archived(rig)) == 1)
        s.close()
        self.assertEqual(rig.post(BODY)[0], 200)

    def group(self, rig):
        """Requests that are read at once, while the disk syncs none."""
        disk = pathlib.Path(rig.folder, "disk")
        disk.mkdir(exist_ok=True)
        rig["ingress"].stop()
        rig["ingress"].start(env={
            "LD_PRELOAD": program("rig-slowdisk.so"), "RIG_DISK": str(disk),
            # The sanitizer's library asks to be first, which is not needed.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":verify_asan_link_order=0"})
        clients = [self.connect(rig) for _ in range(20)]
        for s in clients:  # it is accepted when this is answered
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: ingress\r\n\r\n")
            self.assertEqual(self.read_response(s).status, 200)
        (disk / "hold").touch()
        rig["ingress"].pause()
        for s in clients:
            s.sendall(head() + BODY)
        rig["ingress"].resume()
        wait_for((disk / "held").exists, what="a sync to begin")
        return disk, clients

    def test_a_200_waits_for_its_sync_while_others_are_read(self):
        """P1. Refused requests get their response without waiting for the disk."""
        rig = self.start_ingress()
        disk, clients = self.group(rig)
        wrong = head("Connection: close").replace(b"Signature: ",
                                                  b"Signature: 0")
        self.assertEqual(self.ask(rig, wrong, BODY).status, 401)
        late = self.connect(rig)
        late.sendall(head() + BODY)
        self.assertEqual(self.ask(rig, wrong, BODY).status, 401)
        self.assertTrue((disk / "held").exists())
        ready, _, _ = select.select([*clients, late], [], [], 0)
        self.assertEqual(ready, [])
        (disk / "hold").unlink()
        ids = {json.loads(self.read_response(s).body)["id"]
               for s in [*clients, late]}
        self.assertEqual({r["event_id"] for r in self.archived(rig)}, ids)
        self.assertEqual(len(ids), 21)

    def test_a_failed_sync_gives_no_200(self):
        """P1. The request may be on disk nevertheless, and is then delivered."""
        rig = self.start_ingress()
        disk, clients = self.group(rig)
        (disk / "fail").touch()
        (disk / "hold").unlink()
        self.assertEqual(rig["ingress"].wait_exit(), 74)
        self.assertEqual([self.read_all(s) for s in clients], [b""] * 20)
        rig["ingress"].start()
        self.assertEqual(self.ask(rig, head("Connection: close"), BODY).status,
                         200)

    def test_incomplete_requests_are_not_stored(self):
        rig = self.start_ingress()
        for cut in (10, len(head()) - 2, len(head()) + 5):
            s = self.connect(rig)
            s.sendall((head() + BODY)[:cut])
            s.close()
            s = self.connect(rig)
            s.sendall((head() + BODY)[:cut])
            s.shutdown(socket.SHUT_WR)
            self.assertNotIn(b" 200 ", self.read_all(s))
        chunked = head("Transfer-Encoding: chunked", length=False)
        s = self.connect(rig)
        s.sendall(chunked + chunk(BODY))  # the last chunk never comes
        s.shutdown(socket.SHUT_WR)
        self.assertNotIn(b" 200 ", self.read_all(s))
        self.assertEqual(self.archived(rig), [])


class Admission(IngressTest):
    def test_each_bad_signature_gets_the_same_response(self):
        rig = self.rig({"sources": [
            {"name": "ledger", "provider": "custom", "secrets": ["k"],
             "verify": {"scheme": "hmac-sha256", "header": "X-Signature",
                        "form": "plain", "prefix": "sha256=",
                        "encoding": "hex", "secret_encoding": "raw",
                        "signed": "{ts}.{body}",
                        "time": {"from": "header:X-Time", "unit": "s"}},
             "clock_skew": "5m", "id": "header:X-Id"}]}, deliverers=0)
        rig.start("ingress")

        def signed(ts, key=b"k"):
            mac = hmac.new(key, f"{ts}.".encode() + BODY, hashlib.sha256)
            return {"X-Signature": f"sha256={mac.hexdigest()}", "X-Time": ts}

        now = int(time.time())
        good = signed(str(now))
        wrong = {
            "signature_missing": {"X-Time": str(now)},
            "signature_malformed": {**good, "X-Signature": "sha256=00"},
            "signature_mismatch": signed(str(now), b"other"),
            "timestamp_missing": {"X-Signature": good["X-Signature"]},
            "timestamp_malformed": {**good, "X-Time": f"0{now}"},
            "timestamp_stale": signed(str(now - 400)),
        }
        responses = set()
        for reason, headers in wrong.items():
            status, got, response = rig.post(BODY, "ledger", headers)
            got.pop("Date")
            responses.add((status, json.dumps(response), json.dumps(got)))
            self.assertIn(f"reason={reason}", rig["ingress"].log())
        self.assertEqual(len(responses), 1, responses)
        [(status, response, _)] = responses
        self.assertEqual(status, 401)
        self.assertEqual(json.loads(response)["error"]["code"], "unauthorized")
        self.assertEqual(rig.post(BODY, "ledger", good)[0], 200)
        self.assertEqual(rig.post(BODY, "ledger", signed(str(now + 200)))[0],
                         200)
        self.assertEqual(rig.post(BODY, "ledger", signed(str(now + 400)))[0],
                         401)

    def test_a_signature_in_a_trailer_does_not_count(self):
        rig = self.start_ingress()
        unsigned = (b"POST /in/plane HTTP/1.1\r\nHost: x\r\n"
                    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        a = self.ask(rig, unsigned + chunk(BODY) + b"0\r\nX-Plane-Signature: "
                     + plane_signature(BODY).encode() + b"\r\n\r\n")
        self.assertEqual(a.status, 401)
        a = self.ask(rig, head("Transfer-Encoding: chunked", length=False)
                     + chunk(BODY) + b"0\r\nX-Late: 1\r\nConnection: close"
                     b"\r\n\r\n" + head("Connection: close") + BODY)
        self.assertEqual(a.status, 200)
        self.assertNotIn(b"X-Late", bytes(self.archived(rig)[0]["headers"]))


class Refused(IngressTest):
    def test_wrong_paths_methods_and_encodings_are_refused(self):
        rig = self.start_ingress()
        post = "POST {} HTTP/1.1"
        for path in ("/", "/in/", "/in/nobody", "/in", "/in/plane/",
                     "/in//plane", "/in/../in/plane", "/in/%70lane",
                     "/in/plane%00", "//in/plane", "/in/PLANE", "*",
                     "http://x", "http://x/in", "ftp://x/in/plane",
                     "://x/in/plane"):
            a = self.ask(rig, head("Connection: close",
                                   line=post.format(path)) + BODY)
            self.assertEqual((path, a.status, a.error()),
                             (path, 404, "not_found"))
        for path in ("http://x/in/plane", "HTTPS://x:1/in/plane?a=b"):
            a = self.ask(rig, head("Connection: close",
                                   line=post.format(path)) + BODY)
            self.assertEqual((path, a.status), (path, 200))
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"):
            a = self.ask(rig, head("Connection: close",
                                   line=f"{method} /in/plane HTTP/1.1") + BODY)
            self.assertEqual((a.status, a.headers["allow"]), (405, "POST"))
        a = self.ask(rig, head("Connection: close",
                               line="POST /healthz HTTP/1.1") + BODY)
        self.assertEqual((a.status, a.headers["allow"]), (405, "GET, HEAD"))
        for path in ("/healthz", "/readyz"):
            for method in ("GET", "HEAD"):
                a = self.ask(rig, f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
                             "Connection: close\r\n\r\n".encode())
                self.assertEqual(a.status, 200)
        for coding, status in (("gzip", 415), ("identity", 200), ("br", 415)):
            a = self.ask(rig, head(f"Content-Encoding: {coding}",
                                   "Connection: close") + BODY)
            self.assertEqual(a.status, status)
        a = self.ask(rig, head("Connection: close",
                               line="POST /in/plane?a=b HTTP/1.1") + BODY)
        self.assertEqual(a.status, 200)

    def refused_and_closed(self, rig, raw, statuses=(400,)):
        """Nothing behind it is read as a request. (What libmicrohttpd refuses
        by itself it may say twice, and closes.)"""
        smuggled = head("Connection: close") + BODY
        all_said = self.talk(rig, raw + smuggled)
        said = re.findall(rb"HTTP/1\.1 (\d{3}) ", all_said)
        self.assertTrue(said, (raw, all_said))
        self.assertLessEqual({int(n) for n in said}, set(statuses),
                             (raw, all_said))

    def test_an_unclear_length_is_refused(self):
        rig = self.start_ingress()
        te, cl = "Transfer-Encoding: chunked", f"Content-Length: {len(BODY)}"
        for lines in ([te, cl], [cl, te], [cl, cl], [cl, "Content-Length: 0"],
                      ["Content-Length: 0", "Content-Length: 0"], [te, te],
                      ["Content-Length: +5"], ["Content-Length: 0x5"],
                      ["Content-Length: 5, 5"], ["Content-Length: -1"],
                      ["Content-Length: 5 5"], ["Content-Length:"],
                      ["Transfer-Encoding: xchunked"],
                      ["Transfer-Encoding: chunked, identity"],
                      ["Transfer-Encoding: identity"],
                      ["Transfer-Encoding: chunked\t"],
                      ["Transfer-Encoding: \x0bchunked"],
                      ["Transfer-Encoding:"]):
            self.refused_and_closed(rig, head(*lines, length=False) + BODY)
        for n in (2**63, 2**64, 10**30):
            self.refused_and_closed(
                rig, head(f"Content-Length: {n}", length=False), (400, 413))
        self.refused_and_closed(
            rig, head(te, line="POST /in/plane HTTP/1.0", length=False)
            + chunk(BODY) + b"0\r\n\r\n")
        self.assertEqual(self.archived(rig), [])

    def test_malformed_chunks_are_refused(self):
        rig = self.start_ingress()
        start = head("Transfer-Encoding: chunked", length=False)
        for bad in (b"0_2e\r\n", b"0x1\r\na\r\n", b"-1\r\n", b"g\r\n", b"\r\n",
                    b" 5\r\n", b"5\r\nabcdefg\r\n0\r\n\r\n"):
            self.refused_and_closed(rig, start + bad)
        for big in (b"fffffffffffffffff\r\n", b"1" + b"0" * 40 + b"\r\n"):
            self.refused_and_closed(rig, start + big, (400, 413))
        self.assertEqual(self.archived(rig), [])

    FRAMED = [b"5;a=\"b\"", b"\r\n", BODY[:5], b"\r\n",
              b"%x" % (len(BODY) - 5), b"\r\n", BODY[5:], b"\r\n",
              b"000", b"\r\n", b"X-Late: 1", b"\r\n", b"\r\n"]

    def test_a_chunk_line_without_cr_lf_is_refused(self):
        """A proxy that accepts no bare LF would see another end of the body, and
        another request after it."""
        rig = self.start_ingress()
        start = head("Transfer-Encoding: chunked", length=False)
        for at, piece in enumerate(self.FRAMED):
            for end in (b"\n", b"\r\r\n", b"\r", b" \r\n", b"\0\r\n"):
                # Blanks may follow an extension and a trailer.
                if piece == b"\r\n" and (end != b" \r\n" or at not in (1, 11)):
                    bad = self.FRAMED[:at] + [end] + self.FRAMED[at + 1:]
                    self.refused_and_closed(rig, start + b"".join(bad))
        for lines in (b"X: a\nb\r\n", b"X: a\r\n b\r\n", b"X: \0\r\n"):
            self.refused_and_closed(rig, start + chunk(BODY) + b"0\r\n" + lines
                                    + b"\r\n")
        # Also of a request that is refused for something else.
        nobody = head("Transfer-Encoding: chunked", length=False,
                      line="POST /in/nobody HTTP/1.1")
        self.refused_and_closed(rig, nobody + b"1\na\r\n0\r\n\r\n")
        self.assertEqual(self.archived(rig), [])

    def test_a_bare_lf_is_found_however_bytes_are_cut(self):
        rig = self.start_ingress()
        start = head("Transfer-Encoding: chunked", length=False)
        for at in (1, 3, 5, 7, 9, 11, 12):
            bad = b"".join(self.FRAMED[:at] + [b"\n"] + self.FRAMED[at + 1:])
            first = len(b"".join(self.FRAMED[:at]))
            for cut in range(max(first - 2, 0), min(first + 3, len(bad))):
                a = self.ask(rig, start + bad[:cut], bad[cut:], pause=0.002)
                self.assertEqual((a.status, a.headers.get("connection")),
                                 (400, "close"), (at, cut, a.raw))
            a = self.ask(rig, start, *[bytes([b]) for b in bad], pause=0.0005)
            self.assertEqual(a.status, 400, (at, a.raw))
        self.assertEqual(self.archived(rig), [])

    def test_valid_chunks_are_accepted_however_bytes_are_cut(self):
        rig = self.start_ingress()
        start = head("Transfer-Encoding: chunked", "Connection: close",
                     length=False)
        good = b"".join(self.FRAMED)
        for cut in range(len(good)):
            a = self.ask(rig, start + good[:cut], good[cut:], pause=0.0005)
            self.assertEqual(a.status, 200, (cut, a.raw))
        whole = start + good
        for cut in (1, 40, len(start) - 1, len(start) - 3):
            a = self.ask(rig, whole[:cut], whole[cut:], pause=0.002)
            self.assertEqual(a.status, 200, (cut, a.raw))
        self.assertEqual({bytes(r["body"]) for r in self.archived(rig)}, {BODY})

    def test_chunked_requests_can_share_a_connection(self):
        rig = self.start_ingress()
        start = head("Transfer-Encoding: chunked", length=False)
        good = start + b"".join(self.FRAMED)
        s = self.connect(rig)
        for raw in (good, head() + BODY, good, good):
            s.sendall(raw)
            self.assertEqual(self.read_response(s).status, 200)
        # Others may be sent behind one without waiting for its response.
        s.sendall(good + head() + BODY + head("Connection: close") + BODY)
        raw = self.read_all(s)
        self.assertEqual(re.findall(rb"HTTP/1\.1 (\d{3}) ", raw), [b"200"] * 3)
        # One that is sent behind another, in the same bytes, is refused.
        a = self.talk(rig, head() + BODY + good + head() + BODY)
        self.assertEqual(re.findall(rb"HTTP/1\.1 (\d{3}) ", a),
                         [b"200", b"400"], a)
        # Bad ones are found there too.
        s = self.connect(rig)
        for raw in (good, head() + BODY):
            s.sendall(raw)
            self.assertEqual(self.read_response(s).status, 200)
        s.sendall(start + chunk(BODY) + b"0\r\n\n" + head() + BODY)
        raw = self.read_all(s)
        self.assertEqual(re.findall(rb"HTTP/1\.1 (\d{3}) ", raw), [b"400"])

    def test_malformed_headers_are_refused(self):
        rig = self.start_ingress()
        end = head()[:-2]
        for bad in (b"X-A: b\0c\r\n", b"X-A: b\r\n folded\r\n",
                    b"X-A: b\r\n\tfolded\r\n", b"X-A: b\rc\r\n", b"X-A: b\n",
                    b"X-A : b\r\n", b": b\r\n", b"X\xe9: b\r\n",
                    b"Host: other\r\n", b"no colon\r\n", b"X-A: \x01\r\n",
                    b"X-A:\0\r\n", b"X\0A: b\r\n"):
            self.refused_and_closed(rig, end + bad + b"\r\n" + BODY)
        first = head(host="") \
            .replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\n Host: x\r\n")
        self.refused_and_closed(rig, first + BODY)
        self.refused_and_closed(rig, head(host="") + BODY)
        self.assertEqual(self.archived(rig), [])

    def test_malformed_request_lines_are_refused(self):
        rig = self.start_ingress()
        for line in ("POST /in/plane HTTP/1.32", "POST /in/plane HTTP/2.0",
                     "POST /in/plane HTTP/0.9", "POST /in/plane",
                     "P(ST /in/plane HTTP/1.1", "POST /in/pla\0ne HTTP/1.1",
                     "POST /in/plane\0 HTTP/1.1",
                     "POST /in/plane x HTTP/1.1", "POST /in/plane\t HTTP/1.1",
                     "POST  /in/plane HTTP/1.1", "POST /in/plane  HTTP/1.1",
                     "POST\t/in/plane HTTP/1.1"):
            raw = self.talk(rig, head(line=line) + BODY)
            self.assertNotRegex(raw, rb"HTTP/1\.1 [23]", line)
        for junk in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)
                     + b"\n", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + head()
                     + BODY, b"\0" * 100 + b"\r\n\r\n"):
            self.assertNotRegex(self.talk(rig, junk), rb"HTTP/1\.1 [23]")
        self.assertEqual(self.archived(rig), [])

    def test_too_large_or_too_many_headers_are_431(self):
        rig = self.start_ingress()
        for lines in (["X-A: " + "a" * 20000], ["X-A: " + "a" * 1000000],
                      ["X-A: b"] * 200, ["X-A: b"] * 10000):
            a = self.ask(rig, head(*lines) + BODY)
            self.assertEqual(a.status, 431, len(lines))
        self.assertEqual(self.ask(rig, head(
            *(f"X-{i}: {'a' * 100}" for i in range(100)),
            "Connection: close") + BODY).status, 200)
        a = self.ask(rig, head(line="POST /" + "a" * 60000 + " HTTP/1.1"))
        self.assertIn(a.status, (414, 431))

    def test_a_too_large_body_is_413_and_the_client_reads_it(self):
        rig = self.start_ingress(max_body="64KiB")
        fits, over = b"a" * 65536, b"a" * 65537
        self.assertEqual(self.ask(rig, head("Connection: close", body=fits)
                                  + fits).status, 200)
        for body in (over, b"a" * 8_000_000):
            a = self.ask(rig, head("Connection: close", body=body) + body)
            self.assertEqual((a.status, a.error()), (413, "too_large"))
            a = self.ask(rig, head("Transfer-Encoding: chunked",
                                   "Connection: close", body=body,
                                   length=False),
                         *(chunk(body[i:i + 50000])
                           for i in range(0, len(body), 50000)),
                         b"0\r\n\r\n")
            self.assertEqual((a.status, a.error()), (413, "too_large"))
        a = self.ask(rig, head("Transfer-Encoding: chunked", length=False),
                     *[chunk(b"a" * 1_000_000)] * 30)  # and on, and on
        self.assertIn(a.status, (413, None))
        self.assertEqual(len(self.archived(rig)), 1)


class Bounds(IngressTest):
    def test_a_slow_request_is_closed(self):
        rig = self.start_ingress(read_timeout="1s")
        slow = [
            (b"", b"POST /in/pl"),
            (b"POST /in/plane HTTP/1.1\r\n", b"X"),
            (head(length=False, body=b"") [:-2], b"X-A: b\r\n"),
            (head("Content-Length: 1000", length=False), b"a"),
            (head("Transfer-Encoding: chunked", length=False), b"1\r\na\r\n"),
        ]

        def trickle(start, piece):
            s = self.connect(rig)
            s.sendall(start)
            began, i = time.monotonic(), 0
            s.settimeout(0.1)
            while time.monotonic() - began < 15 * SLOW:
                try:
                    s.sendall(piece[i % len(piece):i % len(piece) + 1])
                    i += 1
                    raw = s.recv(1000)
                    return Response(raw), time.monotonic() - began
                except TimeoutError:
                    pass
                except ConnectionError:
                    return Response(b""), time.monotonic() - began
            self.fail(f"{start!r} was never cut")

        with concurrent.futures.ThreadPoolExecutor() as pool:
            for a, took in pool.map(lambda args: trickle(*args), slow):
                self.assertEqual((a.status, a.error()), (408, "timeout"))
                self.assertGreater(took, 0.8)
                self.assertLess(took, 4 * SLOW)
        self.assertEqual(rig.post(BODY)[0], 200)

    def test_an_idle_connection_is_closed_without_a_response(self):
        rig = self.start_ingress(read_timeout="1s")
        s = self.connect(rig)
        s.sendall(head() + BODY)
        self.assertEqual(self.read_response(s).status, 200)
        self.assertEqual(self.read_all(s), b"")

    def test_connections_above_the_maximum_wait_and_are_served(self):
        rig = self.start_ingress(max_connections=50, read_timeout="1s")
        idle = [self.connect(rig) for _ in range(120)]
        self.assertEqual(self.ask(rig, head("Connection: close")
                                  + BODY).status, 200)
        del idle

    def test_many_large_bodies_use_bounded_memory(self):
        rig = self.start_ingress(max_body="16MiB", read_timeout="60s")
        piece = b"a" * 1_000_000
        conns = [self.connect(rig) for _ in range(12)]
        for s in conns:
            s.sendall(head("Content-Length: 15000001", length=False))
        for _ in range(15):
            for s in conns:
                s.sendall(piece)
        for s in conns:
            s.sendall(b"a")
        statuses = [self.read_response(s).status for s in conns]
        self.assertIn(503, statuses)
        self.assertEqual(set(statuses), {401, 503})
        self.assertEqual(rig.post(BODY)[0], 200)


class Ends(IngressTest):
    def test_a_taken_port_is_reported_in_one_sentence(self):
        rig = self.rig(deliverers=0)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", rig.ingress_port))
            s.listen()
            rig["ingress"].spawn()
            self.assertEqual(rig["ingress"].wait_exit(), 69)
            rig["ingress"].child = None  # as it should be
        self.assertIn("in use", rig["ingress"].log())

    def test_sigterm_ends_an_idle_ingress_at_once(self):
        rig = self.start_ingress()
        s = self.connect(rig)
        s.sendall(head() + BODY)
        self.assertEqual(self.read_response(s).status, 200)
        began = time.monotonic()
        self.assertEqual(rig["ingress"].stop(), 0)
        self.assertLess(time.monotonic() - began, 2 * SLOW)

    def test_requests_sent_before_sigterm_get_a_response(self):
        rig = self.start_ingress()
        known = [self.connect(rig) for _ in range(10)]
        for s in known:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: ingress\r\n\r\n")
            self.assertEqual(self.read_response(s).status, 200)
        rig["ingress"].pause()
        new = [self.connect(rig) for _ in range(50)]
        for s in known + new:
            s.sendall(head() + BODY)
        rig["ingress"].signal(signal.SIGTERM)
        rig["ingress"].resume()
        responses = [Response(self.read_all(s)) for s in known + new]
        self.assertEqual({a.status for a in responses}, {503})
        self.assertEqual(rig["ingress"].stop(), 0)

    def test_incomplete_requests_get_503_when_the_grace_ends(self):
        rig = self.rig({"shutdown_grace": "1s"}, deliverers=0)
        rig.start("ingress")
        s = self.connect(rig)
        s.sendall(head()[:-2] + b"Expect: 100-continue\r\n\r\n")
        self.assertIn(b" 100 ", s.recv(100))  # so it is being read
        rig["ingress"].signal(signal.SIGTERM)
        late = self.read_response(s)
        self.assertEqual((late.status, late.error()), (503, "unavailable"))
        self.assertIn("retry-after", late.headers)

    def test_a_request_in_progress_is_finished_after_sigterm(self):
        rig = self.start_ingress()
        s = self.connect(rig)
        kept = self.connect(rig)
        kept.sendall(head("Content-Length: 30", length=False) + b"a")
        s.sendall(head())
        time.sleep(0.2 * SLOW)
        rig["ingress"].signal(signal.SIGTERM)
        time.sleep(0.2 * SLOW)
        with self.assertRaises(ConnectionRefusedError):
            self.connect(rig)
        s.sendall(BODY + head() + BODY)  # and one more, too late
        taken = Response(self.read_all(s))
        self.assertEqual(taken.status, 200)
        late = Response(taken.rest)
        self.assertEqual((late.status, late.error()), (503, "unavailable"))
        self.assertIn("retry-after", late.headers)
        kept.close()
        self.assertEqual(rig["ingress"].stop(), 0)
        self.assertEqual(len(self.archived(rig)), 1)

    def test_a_reload_changes_secrets_and_bounds(self):
        rig = self.start_ingress()
        self.assertEqual(rig.post(BODY)[0], 200)
        rig.config["sources"][0]["secrets"] = ["another"]
        rig.config["ingress"]["max_body"] = "1KiB"
        rig.write_config()
        rig["ingress"].reload()
        wait_for(lambda: rig.post(BODY)[0] == 401)
        self.assertEqual(rig.post(BODY, headers=sign_plane(BODY, "another"))[0],
                         200)
        self.assertEqual(rig.post(b"a" * 2000, headers={})[0], 413)


def unpack(packed):
    """headers.h, read by other eyes."""
    out = []
    while packed:
        n, v = struct.unpack_from("<II", packed)
        out.append((packed[8:8 + n], packed[8 + n:8 + n + v]))
        packed = packed[8 + n + v:]
    return out


class NoRoom(IngressTest):
    """When there is no space."""

    def test_a_full_archive_is_503_until_the_sequencer_takes_events(self):
        rig = self.rig({"ingress": {"archive": {"max_size": "2MiB"}}},
                       deliverers=0)
        rig.start("ingress")
        body = json.dumps({"event": "issue", "pad": "x" * 100_000}).encode()
        statuses = [rig.post(body)[0] for _ in range(40)]
        self.assertEqual(set(statuses), {200, 503})
        self.assertEqual(statuses, sorted(statuses))
        status, headers, response = rig.post(BODY)
        self.assertEqual((status, response["error"]["code"]),
                         (503, "unavailable"))
        self.assertGreater(int(headers["Retry-After"]), 0)
        self.assertFalse(rig.ingress_is_ready())
        rejects, _ = rig.cli("rejects", "--source", "plane")  # none is written
        self.assertEqual([r["reason"] for r in rejects],
                         ["backlog_full"] * (statuses.count(503) + 1))
        self.assertEqual(len(self.archived(rig)), statuses.count(200))


if __name__ == "__main__":
    main()
