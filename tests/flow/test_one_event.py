"""One event through the whole pipeline: the request at the endpoint, its trace, status and
metrics."""

import datetime
import hashlib
import hmac
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import SLOW, RigTest, is_signed, main, wait_for

import msgpack
import zmq

RFC3339 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
TRACE_KEYS = {"id", "source", "provider_id", "type", "workspace", "sequence",
              "source_sequence", "received_at", "status", "reason",
              "duplicate_of", "late", "gap", "deliveries", "timeline"}
DELIVERY_KEYS = {"endpoint", "status", "attempts", "next_attempt_at"}
ATTEMPT_KEYS = {"n", "at", "http_status", "error", "duration_ms", "deliverer"}
# docs/RECEIVING.md: what a plane event carries, and nothing else.
OUR_HEADERS = {"webhook-id", "webhook-timestamp", "webhook-signature",
               "grapnel-signature",
               "grapnel-source", "grapnel-type", "grapnel-workspace",
               "grapnel-time", "grapnel-sequence", "grapnel-previous",
               "grapnel-clock", "grapnel-series", "grapnel-attempt",
               "grapnel-hops", "traceparent"}
HTTP_HEADERS = {"host", "content-length", "content-type", "accept",
                "user-agent"}


def seconds(text):
    return datetime.datetime.fromisoformat(
        text.replace("Z", "+00:00")).timestamp()


class OneEvent(RigTest):
    def delivered(self, rig, body, **how):
        event = rig.accept(body, **how)
        request, = rig.receiver.wait(event)
        return event, request

    def test_an_event_arrives_byte_for_byte_and_signed(self):
        """P4: the endpoint gets the body byte for byte, with id, sequence and signature."""
        rig = self.rig().start()
        body = rig.plane_body("ws-1", action="updated").replace(
            b'": ', b'":   ') + b" \n"
        before = time.time()
        event, request = self.delivered(rig, body)
        self.assertEqual((request.method, request.path), ("POST", "/crm"))
        self.assertEqual(request.body, body)
        self.assertRegex(event, r"^evt_[0-9A-HJKMNP-TV-Z]{26}$")
        h = request.headers
        self.assertEqual(h["content-type"], "application/json")
        self.assertEqual(
            {k: h.get(k) for k in OUR_HEADERS - {
                "webhook-timestamp", "webhook-signature",
                "grapnel-signature", "grapnel-time", "grapnel-series",
                "traceparent"}},
            {"webhook-id": event, "grapnel-source": "plane",
             "grapnel-type": "issue.updated", "grapnel-workspace": "ws-1",
             "grapnel-sequence": "1", "grapnel-previous": "0",
             "grapnel-clock": "issue.updated=1", "grapnel-attempt": "1",
             "grapnel-hops": "1"})
        self.assertEqual(h["traceparent"][3:35], rig.trace(event)["trace_id"])
        self.assertTrue(is_signed(request))
        self.assertAlmostEqual(int(h["webhook-timestamp"]), before,
                               delta=5 * SLOW)
        self.assertRegex(h["grapnel-time"], RFC3339)
        self.assertAlmostEqual(seconds(h["grapnel-time"]), before,
                               delta=5 * SLOW)
        with self.subTest("no header but those that are promised"):
            extra = set(h) - OUR_HEADERS - HTTP_HEADERS
            self.assertEqual({x for x in extra if not x.startswith("x-plane")},
                             set())
            self.assertNotIn("x-plane-signature", h)
        with self.subTest("each header once"):
            names = [name.lower() for name, _ in request.header_list]
            self.assertEqual(len(names), len(set(names)))

    def test_a_trace_shows_the_whole_history(self):
        """P10: one command says what it is, where it went, and when."""
        rig = self.rig().start()
        event, request = self.delivered(rig, rig.plane_body("ws-7"))
        trace = rig.wait_status(event)
        self.assertEqual(TRACE_KEYS - set(trace), set())
        self.assertRegex(trace["received_at"], RFC3339)
        self.assertEqual(
            {k: trace[k] for k in ("id", "source", "type", "workspace",
                                   "sequence", "status", "reason",
                                   "duplicate_of", "late", "gap",
                                   "source_sequence")},
            {"id": event, "source": "plane", "type": "issue.updated",
             "workspace": "ws-7", "sequence": 1, "status": "done",
             "reason": None, "duplicate_of": None, "late": False, "gap": None,
             "source_sequence": None})
        delivery, = trace["deliveries"]
        self.assertEqual(DELIVERY_KEYS - set(delivery), set())
        self.assertEqual((delivery["endpoint"], delivery["status"],
                          delivery["next_attempt_at"]),
                         ("crm", "delivered", None))
        attempt, = delivery["attempts"]
        self.assertLessEqual(ATTEMPT_KEYS, set(attempt))
        self.assertEqual((attempt["n"], attempt["http_status"],
                          attempt["error"], attempt["deliverer"]),
                         (1, 200, None, "deliverer-1"))
        self.assertLess(abs(seconds(attempt["at"]) * 1000 - request.at_ms),
                        5000 * SLOW)
        with self.subTest("the timeline is in order, with every process"):
            times = [seconds(entry["at"]) for entry in trace["timeline"]]
            self.assertEqual(times, sorted(times))
            for entry in trace["timeline"]:
                self.assertEqual(set(entry), {"at", "process", "what"})
            self.assertLessEqual({"ingress", "sequencer"},
                                 {e["process"] for e in trace["timeline"]})
        with self.subTest("for people"):
            said = rig.cli_text("trace", event)
            self.assertEqual(said.returncode, 0)
            for word in (event, "issue.updated", "ws-7", "crm", "delivered"):
                self.assertIn(word, said.stdout)
        with self.subTest("and it is found by the other id, or not at all"):
            self.assertEqual(rig.cli("trace", "evt_00000000000000000000000000")
                             [1], 1)

    def test_status_shows_every_process(self):
        rig = self.rig(deliverers=2).start()
        event, _ = self.delivered(rig, rig.plane_body())
        rig.wait_status(event)
        rows, code = rig.cli("status")
        self.assertEqual(code, 0)
        self.assertEqual({row["process"] for row in rows}, set(rig.daemons))
        for row in rows:
            self.assertTrue(row["up"], row)
            self.assertEqual(row["pid"], rig[row["process"]].pid)
            self.assertGreater(row["store"]["bytes"], 0)
            for link in row["links"]:
                self.assertEqual((link["lost"], link["set_back"],
                                  link["unprocessable"]), (0, 0, 0), row)
        with self.subTest("events lists it"):
            events, code = rig.cli("events", "--workspace", "ws-1")
            self.assertEqual((code, [e["id"] for e in events]), (0, [event]))
        with self.subTest("a process that is away is named, 69"):
            rig["dlqd"].stop()
            said = rig.cli_text("status")
            self.assertEqual(said.returncode, 69)
            self.assertIn("dlqd", said.stderr)

    def test_each_process_publishes_its_counters(self):
        rig = self.rig({"metrics": {"interval": "100ms"}}).start()
        event, _ = self.delivered(rig, rig.plane_body())
        rig.wait_status(event)
        for name in rig.daemons:
            with self.subTest(name), \
                    zmq.Context.instance().socket(zmq.SUB) as sub:
                sub.connect(f"ipc://{rig.run_dir}/{name}.metrics")
                sub.subscribe(b"")
                self.assertTrue(sub.poll(10_000 * SLOW))
                frame = msgpack.unpackb(sub.recv())
                self.assertEqual((frame["v"], frame["process"]), (1, name))
                self.assertLess(abs(frame["time_ms"] / 1000 - time.time()),
                                5 * SLOW)
                self.assertGreater(len(frame["metrics"]), 3)
                for metric, value in frame["metrics"].items():
                    self.assertRegex(metric, r"^grapnel_[a-z0-9_]+$")
                    self.assertIsInstance(value, int)

    def test_a_custom_source_verifies_its_scheme(self):
        """P7: a custom scheme over time and body holds; another is refused."""
        rig = self.rig({"sources": [{
            "name": "ledger", "provider": "custom", "secrets": ["s3cret"],
            "verify": {"scheme": "hmac-sha256", "header": "X-Signature",
                       "form": "plain", "prefix": "sha256=",
                       "encoding": "hex", "secret_encoding": "raw",
                       "signed": "{ts}.{body}",
                       "time": {"from": "header:X-Time", "unit": "s"}},
            "clock_skew": "5m", "id": "header:X-Event-Id",
            "type": "json:/type", "workspace": "json:/account/id"}]}).start()

        def signed(body, at, event="e-1"):
            mac = hmac.new(b"s3cret", b"%d." % at + body, hashlib.sha256)
            return {"X-Signature": "sha256=" + mac.hexdigest(),
                    "X-Time": str(at), "X-Event-Id": event,
                    "Content-Type": "application/json"}
        body = b'{"type": "account.paid", "account": {"id": "acct_9"}}'
        now = int(time.time())
        event, request = self.delivered(rig, body, source="ledger",
                                        headers=signed(body, now))
        self.assertEqual(request.body, body)
        self.assertEqual((request.headers["grapnel-source"],
                          request.headers["grapnel-type"],
                          request.headers["grapnel-workspace"]),
                         ("ledger", "account.paid", "acct_9"))
        self.assertNotIn("x-signature", request.headers)
        trace = rig.wait_status(event)
        self.assertEqual(trace["provider_id"], "e-1")
        with self.subTest("found by the provider's id"):
            found, code = rig.cli("trace", "e-1")
            self.assertEqual((code, found["id"]), (0, event))
        with self.subTest("stale, or of another time: refused"):
            old = now - 600
            self.assertEqual(rig.post(body, "ledger", signed(body, old))[0],
                             401)
            moved = {**signed(body, old), "X-Time": str(now)}
            self.assertEqual(rig.post(body, "ledger", moved)[0], 401)
        with self.subTest("its own id again: a duplicate, taken and not sent"):
            again = rig.accept(body, source="ledger",
                               headers=signed(body, now))
            trace = rig.wait_status(again, "duplicate")
            self.assertEqual(trace["duplicate_of"], event)
        rig.settle()
        self.assertEqual(len(rig.receiver.requests()), 1)


class Duplicates(RigTest):
    def test_a_duplicate_is_kept_and_not_delivered(self):
        """P7: a replayed request takes no second effect, and is recorded."""
        rig = self.rig().start()
        body = rig.plane_body("ws-1")
        first = rig.accept(body)
        rig.receiver.wait(first)
        again = rig.accept(body)
        self.assertNotEqual(first, again)
        trace = rig.wait_status(again, "duplicate")
        self.assertEqual((trace["duplicate_of"], trace["sequence"],
                          trace["deliveries"]), (first, None, []))
        after = rig.accept(rig.plane_body("ws-1"))
        request, = rig.receiver.wait(after)
        with self.subTest("it has no sequence"):
            self.assertEqual(request.headers["grapnel-sequence"], "2")
        rig.settle()
        self.assertEqual(rig.receiver.requests(event=again), [])
        self.assertEqual(len(rig.receiver.requests()), 2)
        with self.subTest("it is on record, with its body"):
            listed, _ = rig.cli("events", "--status", "duplicate")
            self.assertEqual([e["id"] for e in listed], [again])
            kept, = rig.rows("ingress", "SELECT body FROM archive "
                             "WHERE event_id = ?", again)
            self.assertEqual(kept["body"], body)

    def test_of_simultaneous_duplicates_one_takes_effect(self):
        """P7."""
        rig = self.rig().start()
        body = rig.plane_body("ws-1")
        copies = [rig.accept(body) for _ in range(20)]
        rig.settle()
        status = [rig.trace(event)["status"] for event in copies]
        self.assertEqual(sorted(status), ["done"] + 19 * ["duplicate"])
        self.assertEqual(len(rig.receiver.requests()), 1)


class Numbers(RigTest):
    def test_sequences_have_no_gap_in_fifty_workspaces_at_once(self):
        """P4: numbers from 1 without a gap, an unbroken chain of
        grapnel-previous."""
        rig = self.rig().start()
        load = rig.load(count=1500, workspaces=50, size=600)
        self.assertEqual(load.result()["counts"], {"200": 1500})
        verdict = rig.judge(load)
        self.assertEqual(verdict.delivered, 1500)
        self.assertEqual(verdict.duplicated, [])
        spaces = {}
        for request in rig.receiver.requests("/crm"):
            h = request.headers
            spaces.setdefault(h["grapnel-workspace"], {})[
                int(h["grapnel-sequence"])] = h
        self.assertEqual(len(spaces), 50)
        for numbers in spaces.values():
            self.assertEqual(sorted(numbers), list(range(1, 31)))

    def test_grapnel_clock_counts_each_type(self):
        """P4: grapnel-clock says how many of each type there were so far."""
        rig = self.rig().start()
        clocks = []
        for event, action in [("issue", "create"), ("issue", "update"),
                              ("project", "create"), ("issue", "update")]:
            id_ = rig.accept(rig.plane_body("w", action, event))
            clocks.append(
                rig.receiver.wait(id_)[0].headers["grapnel-clock"])
        self.assertEqual(
            [",".join(sorted(c.split(","))) for c in clocks],
            ["issue.created=1", "issue.created=1,issue.updated=1",
             "issue.created=1,issue.updated=1,project.created=1",
             "issue.created=1,issue.updated=2,project.created=1"])


class Routes(RigTest):
    def routed(self):
        rig = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("issues", types=["issue.*"]),
            rig.endpoint("acme", workspaces=["acme-*"]),
            rig.endpoint("exact", types=["project.created"],
                         workspaces=["acme-1"], sources=["plane"])]
        rig.write_config()
        return rig.start()

    def test_each_endpoint_gets_what_it_is_subscribed_to(self):
        """P2: an event reaches every endpoint that is subscribed to it; each endpoint's
        grapnel-previous counts only what was routed to it."""
        rig = self.routed()
        sent = [("issue", "create", "acme-1"), ("issue", "update", "other"),
                ("project", "create", "acme-1"), ("issue", "update", "acme-1"),
                ("project", "delete", "acme-1"), ("cycle", "create", "acme-2")]
        ids = [rig.accept(rig.plane_body(w, action, event))
               for event, action, w in sent]
        rig.settle()

        def got(path):
            return [ids.index(r.id) for r in sorted(
                rig.receiver.requests(path), key=lambda r: ids.index(r.id))]
        self.assertEqual(got("/issues"), [0, 1, 3])
        self.assertEqual(got("/acme"), [0, 2, 3, 4, 5])
        self.assertEqual(got("/exact"), [2])
        previous = {(r.path, ids.index(r.id)): r.headers["grapnel-previous"]
                    for r in rig.receiver.requests()}
        # acme-1's numbers are 1, 2, 3, 4 for events 0, 2, 3, 4.
        self.assertEqual(
            {k: previous[k] for k in [("/issues", 0), ("/issues", 3),
                                      ("/acme", 2), ("/acme", 3),
                                      ("/exact", 2)]},
            {("/issues", 0): "0", ("/issues", 3): "1", ("/acme", 2): "1",
             ("/acme", 3): "2", ("/exact", 2): "0"})
        trace = rig.trace(ids[0])
        self.assertEqual({d["endpoint"] for d in trace["deliveries"]},
                         {"issues", "acme"})

    def test_an_event_without_a_subscribed_endpoint_is_recorded_as_done(self):
        """P2."""
        rig = self.routed()
        event = rig.accept(rig.plane_body("other", "create", "project"))
        trace = rig.wait_status(event, "done")
        self.assertEqual((trace["deliveries"], trace["sequence"]), ([], 1))
        self.assertIn("no endpoint is subscribed to it",
                      json.dumps(trace["timeline"]))
        rig.settle()
        self.assertEqual(rig.receiver.requests(), [])


class Refused(RigTest):
    def test_an_event_that_cannot_be_parsed_is_a_dead_letter(self):
        """P2: an event whose field can't be had is kept, refused, with its
        reason; a retry after the configuration was changed delivers it."""
        source = {"name": "raw", "provider": "custom", "secrets": ["k"],
                  "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                             "form": "plain", "encoding": "hex",
                             "signed": "{body}"},
                  "workspace": "json:/team"}
        rig = self.rig({"sources": [source]}).start()
        body = b"not json at all"
        headers = {"X-Sig": hmac.new(b"k", body, hashlib.sha256).hexdigest(),
                   "Content-Type": "text/plain"}
        event = rig.accept(body, source="raw", headers=headers)
        trace = rig.wait_status(event, "refused")
        self.assertTrue(trace["reason"])
        self.assertEqual((trace["sequence"], trace["deliveries"]), (None, []))
        dead_letters = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")
        dead_letter, = dead_letters
        self.assertEqual((dead_letter["event_id"], dead_letter["endpoint"],
                          dead_letter["state"]), (event, None, "dead"))
        self.assertRegex(dead_letter["reason"], r"^refused")
        shown, code = rig.cli("dlq", "show", dead_letter["id"])
        self.assertEqual((code, shown["body"]), (0, body.decode()))
        with self.subTest("nothing changed: it is refused again"):
            _, code = rig.cli("dlq", "retry", dead_letter["id"])
            self.assertEqual(code, 0)
            wait_for(lambda: rig.cli("dlq", "show", dead_letter["id"])[0]["generation"]
                     == 2 and rig.cli("dlq")[0], what="its second dead letter")
        with self.subTest("now it can be understood"):
            rig.config["sources"][0]["workspace"] = "const:all"
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            _, code = rig.cli("dlq", "retry", dead_letter["id"])
            self.assertEqual(code, 0)
            request, = rig.receiver.wait(event)
            self.assertEqual((request.body, request.headers["content-type"],
                              request.headers["grapnel-workspace"]),
                             (body, "text/plain", "all"))
            wait_for(lambda: rig.cli("dlq", "show", dead_letter["id"])[0]["state"]
                     == "recovered", what="the dead letter to be recovered")
            rig.wait_status(event, "done")


class Clocks(RigTest):
    def test_signature_times_follow_the_wall_clock(self):
        """P7: a step of the system's clock is followed slowly, in all that is
        ours. Who signs to us, and who judges what we sign, has that clock."""
        rig = self.rig({"sources": [{
            "name": "timed", "provider": "custom", "secrets": ["key"],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                       "form": "plain", "encoding": "hex",
                       "signed": "{ts}.{body}",
                       "time": {"from": "header:X-Time", "unit": "s"}}}]})
        rig.step_clock(0)
        rig.start()
        rig.step_clock(3600)

        def signed(at):
            body = json.dumps({"at": at}).encode()
            content = str(at).encode() + b"." + body
            return {"body": body, "source": "timed", "headers": {
                "X-Time": str(at), "X-Sig": hmac.new(
                    b"key", content, hashlib.sha256).hexdigest()}}
        before = int(time.time())
        self.assertEqual(rig.post(**signed(before))[0], 401)
        request, = rig.receiver.wait(rig.accept(**signed(before + 3600)))
        self.assertIn(int(request.headers["webhook-timestamp"]),
                      range(before + 3600, int(time.time()) + 3602))
        self.assertTrue(is_signed(request))

    def test_retries_scheduled_by_a_wrong_clock_are_made_in_time(self):
        """P2: the scheduled retries by a clock that was a year ahead is tried when it is
        right again, wherever it waits; and who is to hear of a dead letter hears of it."""
        rig = self.rig({
            "alerts": [{"name": "dead_letter", "when": "dead_letter"}]}, console=True)
        rig.config["notifiers"] = [{"name": "ops", "allow_private": True,
                                    "webhook": rig.receiver.url("/ops")}]
        rig.config["endpoints"] += [rig.endpoint("no")]
        rig.config["retry_policies"][0].update(
            first_wait="30m", max_wait="30m", jitter="none")
        rig.write_config()
        for end in rig.kill, rig.stop:  # it waits at the deliverer; it is given back
            rig.receiver.rules(*({"path": path, "responses": [{"status": status}]}
                                 for path, status in
                                 (("/crm", 503), ("/no", 400), ("/ops", 503))))
            rig.step_clock(400 * 86400)
            rig.start()
            wait_for(lambda: rig.rows("console", "SELECT 1 FROM cursors"),
                     what="the console to ask for dead letters")
            event = rig.accept()
            wait_for(lambda: rig.rows("sequencer", (
                "SELECT 1 FROM deliveries WHERE status = 2")) and
                rig.rows("console", (
                    "SELECT 1 FROM notifications WHERE attempts > 0")),
                what="a retry to be scheduled, and nobody told")
            end()
            rig.step_clock(0)
            told = len(rig.receiver.requests("/ops"))
            rig.receiver.rules({"path": "*", "responses": [{"status": 200}]})
            rig.start()
            wait_for(lambda: event in rig.receiver.delivered("/crm"),
                     what="the retry")
            wait_for(lambda: len(rig.receiver.requests("/ops")) > told,
                     what="the message")
            rig.stop()


main()
