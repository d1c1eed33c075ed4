"""P10: `grapnel show` and `rejects show` print requests as received, without control
characters and secrets."""

import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import PLANE_SECRET, RigTest, http_request, main, program, wait_for
from terminal import Terminal

ESCAPE = b'{"event": "issue", "a": "\x9b2J"}'  # no UTF-8: C1 in Latin-1
PRODUCERS = {"producers": [{"name": "billing", "tokens": ["t0ken"]}]}


def sign(body):
    """Like sign_plane(), for a body that may not be JSON."""
    return {"X-Plane-Event": "issue", "X-Plane-Delivery": str(uuid.uuid4()),
            "X-Plane-Signature": hmac.new(PLANE_SECRET.encode(), body,
                                          hashlib.sha256).hexdigest()}


class Show(RigTest):
    def bytes_of(self, rig, *args):
        """What is written to a file, byte for byte."""
        done = subprocess.run(
            [program("grapnel"), *args, "-c", str(rig.config_path)],
            capture_output=True, env={**os.environ, **rig.env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def post(self, rig, path, body, headers):
        status, _, text = http_request(rig.ingress_port, "POST", path, body,
                                       headers)
        return status, json.loads(text)

    def accept(self, rig, body, path="/in/plane", **more):
        status, response = self.post(rig, path, body,
                                   {**sign(body), **more})
        self.assertEqual(status, 200, response)
        return response["id"]

    def test_show_prints_the_request_as_received(self):
        rig = self.rig()
        rig.start()
        body = rig.plane_body("ws-1")
        event = self.accept(
            rig, body, "/in/plane?token=hush&a=1&Sig=hush", **{
                "X-Note": "\u00e9", "Cookie": "hush=1", "X-Api-Key": "hush"})
        wait_for(lambda: rig.deliveries(event))
        found, code = rig.cli("show", event)
        self.assertEqual((code, found["id"], found["body"].encode()),
                         (0, event, body))
        headers = dict(found["headers"])
        self.assertEqual(headers["X-Plane-Event"], "issue")
        self.assertEqual(headers[":query"], "token=\u2026&a=1&Sig=\u2026")
        self.assertEqual({headers[k] for k in (
            "X-Plane-Signature", "Cookie", "X-Api-Key")}, {"\u2026"})
        self.assertEqual(self.bytes_of(rig, "show", event, "--raw"), body)
        text = rig.cli_text("show", event).stdout
        self.assertIn(body.decode(), text)
        self.assertIn("X-Plane-Event: ", text)
        self.assertNotIn("hush", text)
        text = rig.cli_text("show", event, "--headers").stdout
        self.assertIn("X-Plane-Event: ", text)
        self.assertNotIn(body.decode(), text)
        for both in ("--headers", "--json"):
            done = rig.cli_text("show", event, "--raw", both)
            self.assertEqual((done.returncode, done.stdout), (64, ""), done)
        # By the provider's id, and what is known to ingress alone.
        provider = rig.trace(event)["delivery_id"]
        self.assertEqual(rig.cli("show", provider)[0]["id"], event)
        rig["sequencer"].stop()
        self.assertEqual(rig.cli("show", event)[0]["body"].encode(), body)
        done = rig.cli_text("show", "evt_" + 26 * "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no ingress process has", done.stderr)

    def test_a_large_body_is_read_in_pieces(self):
        rig = self.rig({"ingress": {"max_body": "3MiB"}}, deliverers=0)
        rig.start("ingress")
        body = json.dumps({"event": "issue", "x": "y" * 2500000}).encode()
        event = self.accept(rig, body)
        self.assertEqual(self.bytes_of(rig, "show", event, "--raw"), body)
        piece = rig.ask("ingress", "request", id=event)
        self.assertLess(len(piece["body_b64"]), 400000)

    def test_show_prints_no_control_characters(self):
        rig = self.rig(deliverers=0)
        rig.start("ingress")
        escape = b'{"event": "issue", "a": "\x1b]0;owned\x07 \xc2\x9b2J"}'
        event = self.accept(rig, escape, **{"X-Note": "\x9b2J"})
        binary = self.accept(rig, ESCAPE)
        for words in (["show", event], ["show", event, "--raw"],
                      ["show", binary], ["show", binary, "--raw"]):
            with self.subTest(words=words):
                terminal = Terminal(rig, *words)
                self.addCleanup(terminal.close)
                terminal.wait_exit()
                self.assertNotIn(b"]0;owned\x07", terminal.raw)
                self.assertNotIn(b"\x9b", terminal.raw)
        self.assertEqual(self.bytes_of(rig, "show", event, "--raw"), escape)
        self.assertEqual(self.bytes_of(rig, "show", binary, "--raw"), ESCAPE)
        self.assertIn("body_b64", rig.cli("show", binary)[0])

    def test_a_type_or_workspace_that_is_too_long_is_cut(self):
        rig = self.rig()
        rig.start()
        for name, sent, kept in (("type", {"action": "é" * 2000},
                                  "issue." + "é" * 123 + "…"),
                                 ("type", {"action": "a" + "é" * 2000},
                                  "issue.a" + "é" * 122 + "…"),
                                 ("workspace", {"workspace": "w" * 256}, "w" * 252 + "…"),
                                 ("workspace", {"workspace": "w" * 255}, "w" * 255)):
            event = self.accept(rig, rig.plane_body(**sent))
            shown = wait_for(lambda e=event: rig.trace(e).get("status") and rig.trace(e))
            self.assertEqual((shown[name], shown["status"] == "refused"),
                             (kept, kept.endswith("…")))
            self.assertEqual([event], [e["id"] for e in rig.ask(
                "sequencer", "events", **{name: kept})["events"]])
        status = rig.ask("sequencer", "events", type="issue.é*…")["events"]
        self.assertEqual([e["status"] for e in status], ["refused"])

    def test_show_prints_duplicates_refused_and_split_events(self):
        rig = self.rig({"sources": [
            {"name": "plane", "provider": "plane", "secrets": ["plane_wh_rig"],
             "id": "header:X-Plane-Delivery", "workspace": "json:/w",
             "dedupe": {"keys": [["json:/n"]], "ttl": "1h"}},
            {"name": "many", "provider": "plane", "secrets": ["plane_wh_rig"],
             "batch": True}]})
        rig.start()

        def body(n, **more):
            return json.dumps({"event": "issue", "n": n, "w": "x", **more}
                              ).encode()

        first, second = body(1, a=1), body(1, a=2)
        self.accept(rig, first)
        duplicate = self.accept(rig, second)
        refused = self.accept(rig, json.dumps({"event": "issue"}).encode())
        parts = [b'{"event": "issue", "p": 1}', b'{"event":"issue",  "p":2}']
        whole = b"[" + b", ".join(parts) + b"]"
        status, response = self.post(rig, "/in/many", whole, sign(whole))
        self.assertEqual(status, 200, response)
        events = wait_for(lambda: rig.trace(response["id"]).get("events"))
        wait_for(lambda: rig.trace(duplicate)["status"] == "duplicate")
        self.assertEqual(self.bytes_of(rig, "show", duplicate, "--raw"), second)
        self.assertEqual(self.bytes_of(rig, "show", refused, "--raw"),
                         b'{"event": "issue"}')
        self.assertEqual(
            [self.bytes_of(rig, "show", e["id"], "--raw") for e in events],
            parts)
        self.assertEqual(self.bytes_of(rig, "show", response["id"], "--raw"),
                         whole)

    def test_show_prints_an_attempt_as_sent(self):
        rig = self.rig(PRODUCERS)
        rig.config["endpoints"][0]["headers"] = {"X-Shop": "hush"}
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503, "times": 1, "body": "no\x1b[2J " + 2000 * "x",
             "headers": {"Set-Cookie": "hush=1"}},
            {"status": 200, "body": "done"}]})
        rig.start()
        status, response = self.post(
            rig, "/v1/events", json.dumps(
                {"type": "t", "workspace": "w", "data": {"n": 1.10}}),
            {"Authorization": "Bearer t0ken", "X-Hush": "a"})
        self.assertEqual(status, 200, response)
        event = response["id"]
        failed, done = rig.receiver.wait(event, 2)
        wait_for(lambda: rig.trace(event)["status"] == "done")
        found, code = rig.cli("show", event, "--attempt", "1")
        self.assertEqual((code, len(found)), (0, 1))
        sent = found[0]["request"]
        self.assertEqual((sent["method"], sent["url"]),
                         ("POST", rig.receiver.url("/crm")))
        headers = {k.lower(): v for k, v in sent["headers"]}
        self.assertEqual(headers["webhook-id"], event)
        self.assertEqual({headers["x-shop"], headers["webhook-signature"]},
                         {"\u2026"})
        self.assertEqual(headers["grapnel-attempt"],
                         failed.headers["grapnel-attempt"])
        self.assertEqual(found[0]["sent_body"].encode(), failed.body)
        self.assertIn("no", found[0]["response"]["body"])
        for text in [rig.cli_text("show", event, "--attempt", "1").stdout,
                     json.dumps(found)]:
            self.assertNotIn("hush", text)
        text = rig.cli_text("show", event, "--attempt", "1").stdout
        self.assertIn("> " + failed.body.decode(), text)
        self.assertIn("< no?[2J xxx", text)
        text = rig.cli_text("show", event, "--attempt", "2", "--endpoint",
                            "crm").stdout
        self.assertIn("> POST " + rig.receiver.url("/crm"), text)
        self.assertIn("> grapnel-attempt: 2", text)
        self.assertIn("> " + done.body.decode(), text)
        self.assertIn("< done", text)
        self.assertEqual(rig.cli("show", event, "--attempt", "3")[1], 1)
        self.assertEqual(rig.cli("show", event, "--attempt", "x")[1], 64)
        self.assertEqual(rig.cli("show", event, "--endpoint", "crm")[1], 64)
        # What is kept of it has no secret either.
        rows = rig.rows("deliverer-1", "SELECT request FROM attempts ORDER BY n")
        self.assertEqual([bool(r["request"]) for r in rows], [True, False])
        self.assertNotIn(b"hush", rows[0]["request"])
        self.assertEqual(len(rig.rows("deliverer-1",
                                      "SELECT * FROM templates")), 1)
        # trace prints the start of the response.
        text = rig.cli_text("trace", event).stdout
        self.assertIn("no?[2J " + 1000 * "x", text)
        self.assertNotIn(1100 * "x", text)
        self.assertIn("bytes more)", text)
        self.assertIn("      done", text)

    def sent(self, rig, event, number=1):
        """The request of an attempt, as show says it: headers in order, small
        letters."""
        found, code = rig.cli("show", event, "--attempt", str(number))
        self.assertEqual((code, len(found)), (0, 1), found)
        sent = found[0]["request"]
        return found[0], [(k.lower(), v) for k, v in sent["headers"]]

    def test_show_rebuilds_a_delivered_attempt(self):
        """Each received header with its value, except secrets, with the URL and
        configuration of that time."""
        rig = self.rig({"sources": [
            {"name": "plane", "provider": "plane", "secrets": ["plane_wh_rig"],
             "workspace": "json:/w", "type": "json:/t",
             "order": {"by": "sequence", "sequence": "json:/seq",
                       "give_up_after": "100ms"}}]})
        rig.config["endpoints"][0].update(
            headers={"X-Shop": "hush", "X-Api": "hush"},
            forward_headers=["X-Note", "X-Twice", "Content-Language"],
            method="PUT", url=rig.receiver.url("/crm?key=hush"))
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 201, "body": 5000 * "y", "headers": {"X-Back": "b"}}]})
        rig.start()
        events = []
        for n, more in ((1, {"Content-Type": "application/json"}),
                        (2, {"Content-Type": "text/x; a=1", "X-Note": "a b"}),
                        (5, {"X-Twice": "1", "x-note": "", "X-PLANE-EVENT": "e"}),
                        (6, {"Content-Type": "application/json"}), (3, {})):
            body = json.dumps({"w": "w", "t": f"t{n}", "seq": n}).encode()
            signed = sign(body)
            if "X-PLANE-EVENT" in more:
                del signed["X-Plane-Event"]
            status, response = self.post(rig, "/in/plane", body,
                                       {**signed, **more})
            self.assertEqual(status, 200, response)
            events.append(response["id"])
            rig.wait_status(response["id"])
        for event in events:
            [request] = rig.receiver.wait(event)
            found, headers = self.sent(rig, event)
            self.assertEqual(
                (found["outcome"], found["request"]["method"],
                 found["request"]["url"], found["request"]["rebuilt"]),
                ("delivered", "PUT", rig.receiver.url("/crm") + "?\u2026", True))
            came = {k.lower(): v for k, v in request.headers.items()}
            for name in ("host", "content-length", "accept-encoding", "accept"):
                came.pop(name, None)
            for name in ("x-shop", "x-api", "webhook-signature",
                         "grapnel-signature"):
                came[name] = "\u2026"
            self.assertEqual(dict(headers), came)
            self.assertEqual(found["response"]["headers"].count("X-Back: b"), 1)
            self.assertEqual(found["sent_body"].encode(), request.body)
            self.assertNotIn("hush", json.dumps(found))
        names = {name for e in events for name, _ in self.sent(rig, e)[1]}
        for name in ("grapnel-late", "grapnel-gap", "grapnel-clock",
                     "grapnel-previous", "grapnel-source-sequence", "x-note"):
            self.assertIn(name, names)
        kinds = rig.rows("deliverer-1", "SELECT template FROM attempts WHERE "
                         "attempt_id <> 0 ORDER BY n")
        self.assertTrue(all(r["template"] for r in kinds))
        self.assertNotIn(b"hush", b"".join(
            r["request"] for r in rig.rows("deliverer-1",
                                           "SELECT request FROM templates")))
        # After a reload and a restart the old one is as it was.
        before = self.sent(rig, events[0])
        rig.config["endpoints"][0].update(url=rig.receiver.url("/other"),
                                          headers={"X-New": "hush"})
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig["deliverer-1"].restart()
        self.assertEqual(self.sent(rig, events[0]), before)
        # The same kind again is not stored again.
        count = len(rig.rows("deliverer-1", "SELECT * FROM templates"))
        rig.config["endpoints"][0].update(
            headers={"X-Shop": "hush", "X-Api": "hush"},
            url=rig.receiver.url("/crm?key=hush"))
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        body = json.dumps({"w": "w2", "t": "t", "seq": 1}).encode()
        event = self.accept(rig, body, **{"Content-Type": "application/json"})
        rig.wait_status(event)
        self.assertEqual(self.sent(rig, event)[1][0][0], before[1][0][0])
        self.assertLessEqual(
            len(rig.rows("deliverer-1", "SELECT * FROM templates")), count + 1)
        # Without the others' rows the values are missing, and it says so.
        rig["sequencer"].stop()
        rig["ingress"].stop()
        rig["ingress"].start()
        headers = dict(self.sent(rig, event)[1])
        self.assertIsNone(headers["grapnel-type"])
        self.assertEqual(headers["webhook-id"], event)
        self.assertIn("grapnel-type: (no process stores",
                      rig.cli_text("show", event, "--attempt", "1").stdout)

    def test_request_templates_are_bounded(self):
        """Strangers choose names of headers; a request whose template is not stored
        says so."""
        rig = self.rig()
        rig.start()
        event = self.accept(rig, rig.plane_body())
        rig.wait_status(event)
        rig["deliverer-1"].stop()
        self.assertEqual(len(rig.rows("deliverer-1",
                                      "SELECT * FROM templates")), 1)
        rig.change("deliverer-1", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                   "SELECT i + 1 FROM n WHERE i < 1023) INSERT INTO templates "
                   "(request, used_ms) SELECT CAST(request || i AS BLOB), used_ms "
                   "FROM templates, n")
        rig["deliverer-1"].start()
        again = self.accept(rig, rig.plane_body())
        rig.wait_status(again)
        self.assertTrue(self.sent(rig, again)[1])
        other = self.accept(rig, rig.plane_body(),
                            **{"Content-Type": "application/json"})
        rig.wait_status(other)
        found, code = rig.cli("show", other, "--attempt", "1")
        self.assertEqual((code, found[0]["request"]), (0, None))
        self.assertIn("are not stored", rig.cli_text(
            "show", other, "--attempt", "1").stdout)
        # What history.keep has passed makes space.
        rig["deliverer-1"].stop()
        rig.change("deliverer-1", "UPDATE templates SET used_ms = 1 WHERE id > 1")
        rig["deliverer-1"].start()
        wait_for(lambda: len(rig.rows("deliverer-1",
                                      "SELECT * FROM templates")) == 1)
        other = self.accept(rig, rig.plane_body(),
                            **{"Content-Type": "application/json"})
        rig.wait_status(other)
        self.assertTrue(self.sent(rig, other)[1])
        self.assertTrue(self.sent(rig, again)[1])

    def test_a_refused_request_keeps_its_body_for_a_day(self):
        rig = self.rig(PRODUCERS, deliverers=0)
        rig.start("ingress")
        body = b'{"event": "issue", "forged": "\x1b[2J"}'
        wrong = {**sign(body), "X-Plane-Signature": 64 * "0"}
        self.assertEqual(self.post(rig, "/in/plane", body, wrong)[0], 401)
        self.assertEqual(self.post(rig, "/in/nobody", body, wrong)[0], 404)
        listed, _ = rig.cli("rejects", "--source", "plane")
        one = listed[0]
        self.assertTrue(one["has_body"])
        self.assertRegex(one["id"], r"^rej_[0-9A-Z]{26}$")
        rig["ingress"].stop()
        rig.start("ingress")
        shown, _ = rig.cli("rejects", "show", one["id"])
        self.assertEqual(shown["body"].encode(), body)
        self.assertEqual(self.bytes_of(rig, "rejects", "show", one["id"],
                                       "--raw"), body)
        text = rig.cli_text("rejects", "show", one["id"]).stdout
        self.assertIn("forged", text)
        self.assertNotIn("\x1b", text)
        self.assertNotIn(64 * "0", text)
        unknown = rig.cli("rejects", "--source", "-")[0] or \
            [r for r in rig.cli("rejects")[0] if r["source"] == ""]
        self.assertFalse(unknown[0]["has_body"])
        self.assertEqual(rig.cli("rejects", "show", "rej_x")[1], 1)
        # After a day it goes, the rest stays.
        rig["ingress"].stop()
        rig.change("ingress", "UPDATE reject_bodies SET at_ms = at_ms - 90000000")
        rig.start("ingress")
        wait_for(lambda: rig.rows("ingress", "SELECT * FROM reject_bodies") == [])
        shown, code = rig.cli("rejects", "show", one["id"])
        self.assertEqual((code, shown["has_body"]), (0, False))

    def test_bodies_of_refused_requests_are_bounded(self):
        """64 MiB in all: the source with the most bodies loses some."""
        rig = self.rig(PRODUCERS, deliverers=0)
        rig.start("ingress")
        body = b'{"event": "issue"}'
        wrong = {**sign(body), "X-Plane-Signature": 64 * "0"}
        self.post(rig, "/in/plane", body, wrong)
        rig.ask("ingress", "rejects")
        rig["ingress"].stop()
        for n in range(65):
            rig.change("ingress", "INSERT INTO reject_bodies (id, source, at_ms,"
                       " body) SELECT ?1, 'billing', at_ms, zeroblob(1048576)"
                       " FROM reject_bodies LIMIT 1", f"rej_{n:026}")
        rig.start("ingress")
        self.post(rig, "/in/plane", body, wrong)
        rig.ask("ingress", "rejects")
        rows = {r["source"]: r for r in rig.rows(
            "ingress", "SELECT source, count(*) AS n, sum(length(body)) AS bytes"
            " FROM reject_bodies GROUP BY source")}
        self.assertEqual(rows["plane"]["n"], 2)
        self.assertLessEqual(sum(r["bytes"] for r in rows.values()), 64 << 20)
        self.assertGreater(rows["billing"]["n"], 60)


if __name__ == "__main__":
    main()
