"""GET /stream: events, attempts and alerts as they happen, filters, resuming, rights, limits, and clients
that do not read."""

import contextlib
import http.client
import json
import pathlib
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, SLOW, http_request, main, wait_for

TOKEN = "an-admin-token-of-the-file"


class Stream:
    """A stream that a thread reads."""

    def __init__(self, rig, query="", token=TOKEN, last_id=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", rig.console_port,
                                                     timeout=60 * SLOW)
        headers = {"Authorization": f"Bearer {token}"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        self.connection.request("GET", "/api/v1/stream" + query, headers=headers)
        self.sock = self.connection.sock
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.all, self.ended = [], False
        if self.status == 200:
            self.thread = threading.Thread(target=self.read, daemon=True)
            self.thread.start()

    def read(self):
        item = {}
        try:
            for line in self.response:
                line = line.decode().rstrip("\n")
                if not line:
                    if "event" in item:
                        item["data"] = json.loads(item["data"])
                        self.all.append(item)
                    item = {}
                elif not line.startswith(":"):
                    key, _, value = line.partition(": ")
                    item[key] = value
        except (OSError, http.client.HTTPException, AttributeError, ValueError):
            pass
        self.ended = True

    def of(self, kind):
        return [i["data"] for i in list(self.all) if i["event"] == kind]

    def close(self):
        """Without http.client, whose close() would wait for the thread."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Streams(RigTest):
    def stream_rig(self, config=None, **how):
        return self.rig({"console": {"tokens": [TOKEN]}, **(config or {})}, console=True, **how)

    def listen(self, rig, query="", **how):
        s = Stream(rig, query, **how)
        self.assertEqual(s.status, 200)
        self.addCleanup(s.close)
        return s

    def call(self, rig, method, path, body=None):
        status, _, text = http_request(rig.console_port, method, "/api/v1" + path,
                                       json.dumps(body) if body is not None else None,
                                       {"Authorization": f"Bearer {TOKEN}",
                                        "Content-Type": "application/json"})
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def listening(self, rig, *streams):
        """The processes have been asked once: from now on everything is sent."""
        for s in streams:
            wait_for(lambda s=s: rig.accept(rig.plane_body(workspace="first")) and (
                s.of("event") or s.of("attempt")), timeout=20)

    def test_events_and_attempts_come_with_filters(self):
        rig = self.stream_rig()
        rig.config["endpoints"].append(rig.endpoint("legal", guard=False))
        rig.write_config()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        rig.start()
        every = self.listen(rig)
        self.assertEqual(every.response.headers["Content-Type"], "text/event-stream")
        self.assertEqual(every.response.headers["Cache-Control"], "no-store")
        acme = self.listen(rig, "?workspace=acme")
        legal = self.listen(rig, "?kinds=attempt&endpoint=legal")
        other = self.listen(rig, "?kinds=attempt,alert&source=github")
        self.listening(rig, every, legal)
        event = rig.accept(rig.plane_body(workspace="acme"))
        wait_for(lambda: len(acme.of("attempt")) >= 2)
        self.assertEqual({i["id"] for i in acme.of("event")}, {event})
        self.assertEqual({(a["endpoint"], a["http_status"], a["outcome"])
                          for a in acme.of("attempt")},
                         {("crm", 200, "delivered"), ("legal", 400, "dead")})
        for a in acme.of("attempt"):
            self.assertEqual((a["event_id"], a["workspace"], a["source"]),
                             (event, "acme", "plane"))
        wait_for(lambda: event in [a["event_id"] for a in legal.of("attempt")])
        self.assertEqual({a["endpoint"] for a in legal.of("attempt")}, {"legal"})
        self.assertEqual(legal.of("event"), [])
        wait_for(lambda: len([a for a in every.of("attempt") if a["event_id"] == event]) == 2)
        self.assertEqual(other.all, [])
        ids = [i["id"] for i in every.all if "id" in i]
        self.assertEqual(len(set(ids)), len(ids))

    def test_alerts_come(self):
        rig = self.stream_rig({"alerts": [{
            "name": "quiet", "when": "process_silent", "silent_for": "1s", "for": "0s",
            "severity": "warning"}]}).start()
        s = self.listen(rig, "?kinds=alert")
        rig["dlqd"].pause()
        wait_for(lambda: [a for a in s.of("alert") if a["name"] == "quiet"
                          and a["subject"] == "dlqd" and a["state"] == "firing"], timeout=30)
        rig["dlqd"].resume()
        wait_for(lambda: [a for a in s.of("alert") if a["state"] == "resolved"], timeout=30)

    def test_a_stream_resumes_or_is_told_to_read_again(self):
        rig = self.stream_rig().start()
        s = self.listen(rig, "?kinds=event")
        self.listening(rig, s)
        seen = s.all[-1]["id"]
        s.close()
        missed = [rig.accept() for _ in range(5)]
        again = self.listen(rig, "?kinds=event", last_id=seen)
        wait_for(lambda: set(missed) <= {e["id"] for e in again.of("event")})
        self.assertEqual(again.of("reset"), [])
        for last_id in ("x", "x-1", seen.split("-")[0] + "-99999", seen + "0x",
                        seen.split("-")[0] + "--1", "9" * 3000):
            other = self.listen(rig, "?kinds=event", last_id=last_id)
            wait_for(lambda other=other: other.all)
            self.assertEqual(other.all[0]["event"], "reset")
            other.close()
        resumed = other.all[0]["id"]
        rig["console"].kill()
        rig["console"].start()
        after = self.listen(rig, "?kinds=event", last_id=resumed)
        wait_for(lambda: after.all)
        self.assertEqual(after.all[0]["event"], "reset")

    def test_streams_end_with_their_token(self):
        rig = self.stream_rig().start()
        made = self.call(rig, "POST", "/tokens", {"name": "tail", "role": "viewer"})
        kept = self.call(rig, "POST", "/tokens", {"name": "kept", "role": "viewer"})
        gone = [self.listen(rig, token=made["token"]) for _ in range(3)]
        stays = self.listen(rig, token=kept["token"])
        self.call(rig, "DELETE", "/tokens/" + made["id"])
        for s in gone:
            wait_for(lambda s=s: s.ended, timeout=10)
            self.assertEqual(s.of("end"), [{"reason": "token"}])
        self.assertEqual(Stream(rig, token=made["token"]).status, 401)
        self.assertEqual(Stream(rig, f"?token={TOKEN}", token="").status, 401)
        self.assertEqual(Stream(rig, f"?token={TOKEN}").status, 400)
        of_file = self.listen(rig)
        rig.config["console"]["tokens"] = ["another"]
        rig.write_config()
        rig["console"].signal(signal.SIGHUP)
        wait_for(lambda: of_file.ended)
        # While the sequencer is down, the others stay and go on afterwards.
        rig["sequencer"].kill()
        rig["sequencer"].start()
        wait_for(lambda: rig.accept() and stays.of("event"), timeout=30)
        self.assertFalse(stays.ended)

    def test_streams_are_limited(self):
        rig = self.stream_rig({"console": {"tokens": [f"{TOKEN}-{n}" for n in range(11)]}}).start()
        mine = [self.listen(rig, token=f"{TOKEN}-0") for _ in range(10)]
        self.assertEqual(Stream(rig, token=f"{TOKEN}-0").status, 429)
        for s in mine[:2]:
            s.close()
        wait_for(lambda: Stream(rig, "?seconds=60", token=f"{TOKEN}-0").status == 200)
        rest = [self.listen(rig, token=f"{TOKEN}-{n}") for n in range(1, 10) for _ in range(10)]
        wait_for(lambda: Stream(rig, token=f"{TOKEN}-10").status == 503)
        self.assertEqual(http_request(rig.console_port, "GET", "/healthz")[0], 200)
        for query in ("kinds=", "kinds=event,", "kinds=x", "seconds=0", "endpoint=", "x=1"):
            self.assertEqual(Stream(rig, "?" + query, token=f"{TOKEN}-10").status, 400)
        event = rig.accept()
        rig.wait_status(event)
        del rest

    def test_an_end_after_seconds_and_head(self):
        rig = self.stream_rig(deliverers=0).start("console", "sequencer")
        s = self.listen(rig, "?seconds=1")
        wait_for(lambda: s.ended, timeout=10)
        self.assertEqual(s.all[-1]["data"], {"reason": "seconds"})
        status, _, text = http_request(rig.console_port, "HEAD", "/api/v1/stream", headers={
            "Authorization": f"Bearer {TOKEN}"})
        self.assertEqual((status, text), (200, b""))
        rig["console"].stop(5)

    def test_a_client_that_does_not_read_is_cut_and_delays_nobody(self):
        rig = self.stream_rig().start()
        reader = self.listen(rig, "?kinds=event")
        self.listening(rig, reader)
        deaf = []
        for _ in range(5):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", rig.console_port))
            s.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n"
                      b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
            deaf.append(s)
            self.addCleanup(s.close)
        self.assertEqual(self.open_connections(rig), 6)
        begin = time.monotonic()
        sent = []
        while self.open_connections(rig) > 1:
            self.assertLess(time.monotonic() - begin, 60 * SLOW)
            sent += [rig.accept() for _ in range(100)]
        wait_for(lambda: sent[-1] in {e["id"] for e in reader.of("event")})
        self.assertFalse(reader.ended)

    def open_connections(self, rig):
        """Of clients, to the console's HTTP port."""
        port = f":{rig.console_port:04X}"
        lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        return sum(line.split()[1].endswith(port) and line.split()[3] == "01" for line in lines)

    def test_nothing_is_asked_while_nobody_listens(self):
        rig = self.stream_rig().start()
        s = self.listen(rig)
        self.listening(rig, s)
        rig["sequencer"].pause()  # nor does a process that hangs delay the console
        for _ in range(3):
            self.assertEqual(http_request(rig.console_port, "GET", "/healthz")[0], 200)
        rig["sequencer"].resume()
        s.close()


if __name__ == "__main__":
    main(at_once=3)
