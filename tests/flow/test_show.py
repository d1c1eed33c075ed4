"""What came, as it came: `grapnel show`, `rejects show`. P10. Nothing that a
stranger sent drives the terminal, and no secret is shown."""

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
    """As sign_plane(), of a body that may be no JSON."""
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
        status, _, text = http_request(rig.door_port, "POST", path, body,
                                       headers)
        return status, json.loads(text)

    def accept(self, rig, body, path="/in/plane", **more):
        status, answer = self.post(rig, path, body,
                                   {**sign(body), **more})
        self.assertEqual(status, 200, answer)
        return answer["id"]

    def test_a_request_is_shown_as_it_came(self):
        rig = self.rig()
        rig.start()
        body = rig.plane_body("ws-1")
        event = self.accept(
            rig, body, "/in/plane?token=hush&a=1&Sig=hush", **{
                "X-Note": "\u00e9", "Cookie": "hush=1", "X-Api-Key": "hush"})
        wait_for(lambda: rig.trace(event))
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
        provider = rig.trace(event)["provider_id"]
        if provider:
            self.assertEqual(rig.cli("show", provider)[0]["id"], event)
        rig["sequencer"].stop()
        self.assertEqual(rig.cli("show", event)[0]["body"].encode(), body)
        done = rig.cli_text("show", "evt_" + 26 * "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no ingress has", done.stderr)

    def test_a_large_body_comes_in_pieces(self):
        rig = self.rig({"ingress": {"max_body": "3MiB"}}, deliverers=0)
        rig.start("ingress")
        body = json.dumps({"event": "issue", "x": "y" * 2500000}).encode()
        event = self.accept(rig, body)
        self.assertEqual(self.bytes_of(rig, "show", event, "--raw"), body)
        piece = rig.ask("ingress", "request", id=event)
        self.assertLess(len(piece["body_b64"]), 400000)

    def test_nothing_drives_the_terminal(self):
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

    def test_duplicates_refused_events_and_those_of_a_batch(self):
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
        status, answer = self.post(rig, "/in/many", whole, sign(whole))
        self.assertEqual(status, 200, answer)
        events = wait_for(lambda: (lambda t: t and t["events"])(
            rig.cli("trace", answer["id"])[0]))
        wait_for(lambda: rig.trace(duplicate)["status"] == "duplicate")
        self.assertEqual(self.bytes_of(rig, "show", duplicate, "--raw"), second)
        self.assertEqual(self.bytes_of(rig, "show", refused, "--raw"),
                         b'{"event": "issue"}')
        self.assertEqual(
            [self.bytes_of(rig, "show", e["id"], "--raw") for e in events],
            parts)
        self.assertEqual(self.bytes_of(rig, "show", answer["id"], "--raw"),
                         whole)

    def test_an_attempt_is_shown_as_it_was_sent(self):
        rig = self.rig(PRODUCERS)
        rig.config["endpoints"][0]["headers"] = {"X-Door": "hush"}
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "per": "event", "answers": [
            {"status": 503, "times": 1, "body": "no\x1b[2J " + 2000 * "x",
             "headers": {"Set-Cookie": "hush=1"}},
            {"status": 200, "body": "done"}]})
        rig.start()
        status, answer = self.post(
            rig, "/v1/events", json.dumps(
                {"type": "t", "workspace": "w", "data": {"n": 1.10}}),
            {"Authorization": "Bearer t0ken", "X-Hush": "a"})
        self.assertEqual(status, 200, answer)
        event = answer["id"]
        failed, done = rig.receiver.wait(event, 2)
        wait_for(lambda: rig.trace(event)["status"] == "done")
        found, code = rig.cli("show", event, "--attempt", "1")
        self.assertEqual((code, len(found)), (0, 1))
        sent = found[0]["request"]
        self.assertEqual((sent["method"], sent["url"]),
                         ("POST", rig.receiver.url("/crm")))
        headers = {k.lower(): v for k, v in sent["headers"]}
        self.assertEqual(headers["webhook-id"], event)
        self.assertEqual({headers["x-door"], headers["webhook-signature"]},
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
        self.assertIn("> " + done.body.decode(), text)
        self.assertIn("< done", text)
        self.assertEqual(rig.cli("show", event, "--attempt", "3")[1], 1)
        self.assertEqual(rig.cli("show", event, "--attempt", "x")[1], 64)
        self.assertEqual(rig.cli("show", event, "--endpoint", "crm")[1], 64)
        # What is kept of it has no secret either.
        rows = rig.rows("deliverer-1", "SELECT request FROM attempts ORDER BY n")
        self.assertEqual([bool(r["request"]) for r in rows], [True, False])
        self.assertNotIn(b"hush", rows[0]["request"])
        # trace prints the start of what came back.
        text = rig.cli_text("trace", event).stdout
        self.assertIn("no?[2J " + 1000 * "x", text)
        self.assertNotIn(1100 * "x", text)
        self.assertIn("bytes more)", text)
        self.assertIn("      done", text)

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
        """64 MiB in all: the source that has most gives way."""
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
