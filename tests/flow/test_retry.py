"""What is retried, when and how often, and what becomes a dead letter instead."""

import datetime
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import SLOW, RigTest, is_signed, main, wait_for

POLICY = {"backoff": "exponential", "first_wait": "20ms", "factor": 2,
          "max_wait": "200ms", "jitter": "none", "max_attempts": 12,
          "retry_on": ["network", 408, 425, 429, "5xx"],
          "respect_retry_after": True}
RFC3339 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
DEAD_LETTER_KEYS = {"id", "event_id", "endpoint", "reason", "state", "attempts",
               "first_at", "dead_at", "last_http_status", "last_error",
               "last_response", "note"}


class Retries(RigTest):
    def start(self, policy=None, responses=({"status": 200},), **endpoint):
        rig = self.rig()
        rig.config["retry_policies"] = [
            {"name": "quick", **POLICY, **(policy or {})}]
        rig.config["endpoints"] = [
            rig.endpoint("crm", retry_policy="quick", **endpoint)]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": list(responses)})
        return rig.start()

    def dead_letter(self, rig, state="dead"):
        """The one dead letter, when it is in this state."""
        dead_letters = wait_for(lambda: rig.cli("dlq", "--state", state)[0],
                           what=f"a dead letter that is {state}")
        self.assertEqual(len(dead_letters), 1)
        self.assertEqual(DEAD_LETTER_KEYS - set(dead_letters[0]), set())
        return dead_letters[0]

    def attempts(self, rig, event):
        """None yet while the sequencer does not have the event."""
        return [a for d in rig.deliveries(event) for a in d["attempts"]]


class Again(Retries):
    def test_a_503_is_retried_until_200(self):
        """P2, P4: retried with the same webhook-id and body, each signed anew,
        each attempt on record."""
        rig = self.start(responses=[{"status": 503, "times": 3},
                                  {"status": 200}])
        event = rig.accept()
        requests = rig.receiver.wait(event, 4)
        trace = rig.wait_status(event)
        self.assertEqual([r.headers["grapnel-attempt"] for r in requests],
                         ["1", "2", "3", "4"])
        self.assertEqual(len({r.body for r in requests}), 1)
        self.assertEqual({r.headers["grapnel-sequence"] for r in requests},
                         {"1"})
        self.assertTrue(all(map(is_signed, requests)))
        attempts = trace["deliveries"][0]["attempts"]
        self.assertEqual([(a["n"], a["http_status"]) for a in attempts],
                         [(1, 503), (2, 503), (3, 503), (4, 200)])
        with self.subTest("not before the policy's time"):
            waits = [b.at_ms - a.at_ms for a, b in zip(requests, requests[1:])]
            for wait, least in zip(waits, [20, 40, 80]):
                self.assertGreaterEqual(wait, least - 1)
                self.assertLess(wait, least + 1000 * SLOW)
        self.assertEqual(rig.cli("dlq", "--state", "all")[0], [])

    def test_a_broken_connection_is_retried(self):
        """P2: closed, reset or cut short."""
        rig = self.start(responses=[
            {"action": "close"}, {"action": "reset"},
            {"action": "cut", "status": 503, "body": "half of"},
            {"raw": "SSH-2.0 hello\r\n"}, {"status": 200}])
        event = rig.accept()
        rig.receiver.wait(event, 5)
        trace = rig.wait_status(event)
        attempts = trace["deliveries"][0]["attempts"]
        self.assertEqual(len(attempts), 5)
        for attempt in attempts[:2]:
            self.assertIsNone(attempt["http_status"])
            self.assertTrue(attempt["error"])

    def test_a_timeout_is_retried(self):
        """P2."""
        rig = self.start(responses=[{"action": "blackhole", "times": 2},
                                  {"status": 200}], timeout="300ms")
        event = rig.accept()
        requests = rig.receiver.wait(event, 3)
        # It counts from the begin of a turn that may have begun long ago.
        for a, b in zip(requests, requests[1:]):
            self.assertGreaterEqual(b.at_ms - a.at_ms, 150)
        trace = rig.wait_status(event)
        first = trace["deliveries"][0]["attempts"][0]
        self.assertIsNone(first["http_status"])
        self.assertRegex(first["error"], "(?i)time")
        self.assertGreaterEqual(first["duration_ms"], 150)

    def test_a_refused_connection_is_retried(self):
        """P2: until a server listens."""
        rig = self.start({"max_attempts": 1000})
        rig.receiver.stop()
        event = rig.accept()
        wait_for(lambda: len(self.attempts(rig, event)) >= 2,
                 what="two failed attempts")
        self.assertEqual(rig.trace(event)["status"], "routed")
        delivery, = rig.deliveries(event)
        self.assertEqual(delivery["status"], "retrying")
        self.assertRegex(delivery["next_attempt_at"], RFC3339)
        rig.receiver.start()
        rig.receiver.wait(event)
        rig.wait_status(event)

    def test_retry_after_is_respected(self):
        """P9: no attempt is made before the time that the endpoint names."""
        rig = self.start(responses=[
            {"status": 429, "headers": {"Retry-After": "2"}},
            {"status": 200}])
        event = rig.accept()
        a, b = rig.receiver.wait(event, 2)
        self.assertGreaterEqual(b.at_ms - a.at_ms, 1990)
        rig.wait_status(event)

    def test_a_slow_endpoint_does_not_delay_others(self):
        """P2: one endpoint never responds and fills its window."""
        rig = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("hole", timeout="60s", max_in_flight=4),
            rig.endpoint("fine")]
        rig.config["shutdown_grace"] = "200ms"
        rig.write_config()
        rig.receiver.rules(
            {"path": "/hole", "responses": [{"action": "blackhole"}]})
        rig.start()
        load = rig.load(count=600, workspaces=5)
        load.result()
        wait_for(lambda: len(rig.receiver.delivered("/fine")) == 600,
                 what="all at the neighbour")
        hole = rig.receiver.stats()["paths"]["/hole"]
        self.assertEqual(hole["max_in_flight"], 4)


class Final(Retries):
    def test_400_is_a_dead_letter(self):
        """P2: an attempt that cannot succeed is not retried; the last response is
        kept."""
        rig = self.start(responses=[{"status": 400, "body": "no such field"}])
        event = rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual(
            {k: dead_letter[k] for k in ("event_id", "endpoint", "reason", "state",
                                    "attempts", "last_http_status",
                                    "last_response", "note")},
            {"event_id": event, "endpoint": "crm", "reason": "rejected",
             "state": "dead", "attempts": 1, "last_http_status": 400,
             "last_response": "no such field", "note": None})
        self.assertRegex(dead_letter["dead_at"], RFC3339)
        self.assertRegex(dead_letter["first_at"], RFC3339)
        trace = rig.wait_status(event)
        delivery, = trace["deliveries"]
        self.assertEqual(delivery["status"], "dead")
        self.assertEqual([a["http_status"] for a in delivery["attempts"]],
                         [400])
        self.assertIn("dlqd", {e["process"] for e in trace["timeline"]})
        with self.subTest("show has all of it"):
            shown, code = rig.cli("dlq", "show", dead_letter["id"])
            self.assertEqual(code, 0)
            self.assertEqual(shown["body"].encode(),
                             rig.receiver.wait(event, 1)[0].body)
            said = rig.cli_text("dlq", "show", dead_letter["id"])
            for word in (event, "rejected", "no such field", "crm"):
                self.assertIn(word, said.stdout)
        with self.subTest("an unknown one: 1, and a sentence"):
            said = rig.cli_text("dlq", "show", dead_letter["id"] + "x")
            self.assertEqual(said.returncode, 1)
            self.assertIn(dead_letter["id"] + "x", said.stderr)
        self.assertEqual(len(rig.receiver.requests("/crm")), 1)

    def test_a_redirect_is_not_followed(self):
        """P8: a 3xx is final."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 302, "headers": {"Location": rig.receiver.url("/x")}}]})
        rig.start()
        rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual((dead_letter["reason"], dead_letter["last_http_status"]),
                         ("rejected", 302))
        self.assertEqual(rig.receiver.requests("/x"), [])

    def test_a_410_is_a_dead_letter_with_its_own_reason(self):
        """P2."""
        rig = self.start(responses=[{"status": 410}])
        rig.accept()
        self.assertEqual(self.dead_letter(rig)["reason"], "endpoint_gone")

    def test_a_private_address_is_not_called(self):
        """P8: without allow_private, Grapnel does not connect to loopback."""
        rig = self.start(responses=[{"status": 200}], allow_private=False)
        rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual((dead_letter["reason"], dead_letter["last_http_status"]),
                         ("blocked_address", None))
        self.assertEqual(rig.receiver.requests(), [])

    def test_a_delivery_is_dead_after_max_attempts(self):
        """P2: after max_attempts it is dead, budget_attempts."""
        rig = self.start({"max_attempts": 3}, [{"status": 503, "body": "x"}])
        event = rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual(
            (dead_letter["reason"], dead_letter["attempts"], dead_letter["last_http_status"],
             dead_letter["last_response"]), ("budget_attempts", 3, 503, "x"))
        rig.settle()
        self.assertEqual(len(rig.receiver.requests(event=event)), 3)

    def test_a_delivery_is_dead_after_max_duration(self):
        """P2: when max_duration has expired it is dead, budget_time."""
        rig = self.start({"max_attempts": 1000, "max_duration": "500ms"},
                         [{"status": 503}])
        event = rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual(dead_letter["reason"], "budget_time")
        requests = rig.receiver.requests(event=event)
        self.assertGreater(len(requests), 2)
        self.assertLess(requests[-1].at_ms - requests[0].at_ms,
                        500 + 1000 * SLOW)


class Requeue(Retries):
    def test_a_requeued_dead_letter_that_is_delivered_is_recovered(self):
        """P2: dlq retry gives it a new budget; then it is recovered."""
        rig = self.start({"max_attempts": 2}, [{"status": 503, "times": 3},
                                               {"status": 200}])
        event = rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual(dead_letter["attempts"], 2)
        reply, code = rig.cli("dlq", "retry", dead_letter["id"])
        self.assertEqual((code, reply["requeued"]), (0, [dead_letter["id"]]))
        requests = rig.receiver.wait(event, 4)
        self.assertEqual([r.headers["grapnel-attempt"] for r in requests],
                         ["1", "2", "3", "4"])
        self.assertEqual(requests[2].headers.get("grapnel-replay"), "1")
        self.assertEqual({r.headers["grapnel-sequence"] for r in requests},
                         {"1"})
        recovered = self.dead_letter(rig, "recovered")
        self.assertEqual(recovered["id"], dead_letter["id"])
        self.assertEqual(rig.cli("dlq")[0], [])
        trace = rig.wait_status(event)
        self.assertEqual(trace["deliveries"][0]["status"], "delivered")
        with self.subTest("it can't be requeued again: 1, and why"):
            reply, code = rig.cli("dlq", "retry", dead_letter["id"])
            self.assertEqual((code, reply["requeued"]), (1, []))
            self.assertIn("delivered", reply["refused"][0]["why"])

    def test_a_delivery_that_was_never_sent_is_not_marked_as_a_replay(self):
        """A dead letter whose attempts cannot have reached the endpoint is
        retried without grapnel-replay, also when it moved in between."""
        rig = self.start(responses=[{"status": 200}], allow_private=False)
        event = rig.accept()
        dead_letter = self.dead_letter(rig)
        self.assertEqual(dead_letter["reason"], "blocked_address")
        rig.config["endpoints"][0]["allow_private"] = True
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        request, = rig.receiver.wait(event, 1)
        self.assertNotIn("grapnel-replay", request.headers)
        with self.subTest("now it was sent: the next one is marked"):
            rig.wait_status(event)
            self.assertEqual(rig.cli("resend", event)[1], 0)
            self.assertEqual(rig.receiver.wait(event, 2)[1].headers.get(
                "grapnel-replay"), "1")

    def test_a_requeued_dead_letter_can_be_dead_again(self):
        """P2: the same dead letter, dead again, with all attempts counted; of
        several, only those that can be are requeued."""
        rig = self.start(responses=[{"status": 400}])
        event = rig.accept()
        dead_letter = self.dead_letter(rig)
        reply, code = rig.cli("dlq", "retry", dead_letter["id"], "dlq_nonsense")
        self.assertEqual(code, 1)
        self.assertEqual(reply["requeued"], [dead_letter["id"]])
        self.assertEqual(reply["refused"][0]["id"], "dlq_nonsense")
        rig.receiver.wait(event, 2)
        again = wait_for(lambda: [x for x in rig.cli("dlq")[0]
                                  if x["attempts"] == 2], what="2nd dead letter")[0]
        self.assertEqual((again["id"], again["state"], again["reason"]),
                         (dead_letter["id"], "dead", "rejected"))
        with self.subTest("its history tells both generations"):
            shown, _ = rig.cli("dlq", "show", dead_letter["id"])
            self.assertEqual(shown["generation"], 2)
            self.assertEqual([h["to"] for h in shown["history"]],
                             ["dead", "requeued", "dead"])

    def test_dead_letters_are_found_by_their_properties(self):
        rig = self.start(responses=[{"status": 400}])
        rig.accept(rig.plane_body("acme"))
        rig.accept(rig.plane_body("other", "create", "project"))
        wait_for(lambda: len(rig.cli("dlq")[0]) == 2, what="two dead letters")

        def count(*args):
            found, code = rig.cli("dlq", *args)
            self.assertEqual(code, 0)
            return len(found)
        self.assertEqual(count("--workspace", "acme"), 1)
        self.assertEqual(count("--type", "project.*"), 1)
        self.assertEqual(count("--endpoint", "crm", "--reason", "rejected"), 2)
        self.assertEqual(count("--source", "plane"), 2)
        with self.subTest("a source that is not known is an error"):
            self.assertEqual(rig.cli("dlq", "--source", "none")[1], 1)
        self.assertEqual(count("--since", "1h"), 2)
        until = (datetime.datetime.now(datetime.timezone.utc)
                 - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.assertEqual(count("--until", until), 0)
        self.assertEqual(count("--limit", "1"), 1)
        self.assertEqual(rig.cli_text("dlq", "--state", "ded").returncode, 64)


main(at_once=3)
