"""Operators' actions on one open delivery: retry, abandon, resend and replay."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_deliverer import FakeDeliverer
from fake_sequencer import DROPPED, packed_headers
from fake_subscriber import ACCEPTED
from rig import RigTest, main, wait_for

LONG = {"name": "default", "backoff": "fixed", "first_wait": "1h",
        "jitter": "none", "max_attempts": 12, "max_duration": "7d",
        "retry_on": ["network", "5xx"]}


def fails(count, *then, **how):
    """The first `count` attempts at /crm get 503, later ones 200."""
    return {"path": "/crm", **how, "responses": [
        {"status": 503, "times": count}, *(then or [{"status": 200}])]}


class Actions(RigTest):
    def pipeline(self, *rules, policy=None, **endpoint):
        rig = self.rig()
        rig.config["retry_policies"] = [{**LONG, **(policy or {})}]
        rig.config["endpoints"] = [rig.endpoint("crm", **endpoint)]
        rig.write_config()
        rig.receiver.rules(*rules)
        return rig.start()

    def delivery(self, rig, event):
        """None while the sequencer does not have the event."""
        found = rig.deliveries(event)
        self.assertLessEqual(len(found), 1)
        return found[0] if found else None

    def until(self, rig, event, status, attempts=None):
        wait_for(lambda: (d := self.delivery(rig, event)) and
                 d["status"] == status and
                 (attempts is None or len(d["attempts"]) == attempts),
                 what=f"{event} to be {status}")

    def waiting(self, rig, count=1, **body):
        """Events that failed once and wait an hour for their retry."""
        events = [rig.accept(rig.plane_body(**body)) for _ in range(count)]
        for event in events:
            self.until(rig, event, "retrying", 1)
        return events

    def retry(self, rig, event, *more):
        reply, code = rig.cli("retry", event, *more)
        delivery, = reply["deliveries"]
        return delivery, code

    def requests(self, rig, event):
        return rig.receiver.requests("/crm", event=event)

    def dead_letters(self, rig, state="all"):
        return rig.cli("dlq", "--state", state)[0]


class Retry(Actions):
    def test_retry_makes_a_scheduled_retry_due_within_its_budget(self):
        """P2: each retry is one attempt of the budget, and the last one ends it."""
        rig = self.pipeline(fails(4), policy={"max_attempts": 4})
        event, = self.waiting(rig)
        first, code = self.retry(rig, event)
        self.assertEqual((code, first["accepted"], first["result"]),
                         (0, True, "now"))
        self.assertEqual((first["attempt"]["n"], first["attempt"]["outcome"]),
                         (2, "retrying"))
        said = rig.cli_text("retry", event)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("attempt 3: status 503, failed, next attempt at 20",
                      said.stdout)
        said = rig.cli_text("retry", event)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("attempt 4: status 503, dead: budget_attempts",
                      said.stdout)
        self.until(rig, event, "dead")
        self.assertEqual([r.headers["grapnel-attempt"]
                          for r in rig.receiver.wait(event, count=4)],
                         ["1", "2", "3", "4"])
        self.assertNotIn("grapnel-replay", self.requests(rig, event)[-1].headers)
        self.assertIn("retry at crm asked for by",
                      str(rig.trace(event)["timeline"]))
        over, code = self.retry(rig, event)
        self.assertEqual((code, over["accepted"]), (1, False))
        self.assertIn("dlq retry", over["why"])

    def test_resend_and_replay_make_a_scheduled_retry_due(self):
        """A delivery that waits for its retry is sent now."""
        rig = self.pipeline(fails(2))
        event, = self.waiting(rig)
        self.assertEqual(rig.cli("resend", event)[1], 0)
        rig.receiver.wait(event, count=2)
        self.until(rig, event, "retrying", 2)
        self.assertEqual(rig.cli("replay", "--since", "1h")[1], 0)
        rig.receiver.wait(event, count=3)
        rig.wait_status(event)
        self.assertEqual(len(self.requests(rig, event)), 3)

    def test_a_confirmed_retry_survives_kills(self):
        """P3: a confirmed retry is made, though its deliverer was down and the
        sequencer is killed."""
        rig = self.pipeline(fails(3))
        event, other = self.waiting(rig, 2)
        rig["deliverer-1"].kill()
        said = rig.cli_text("retry", event)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("deliverer-1 does not respond", said.stdout)
        rig["sequencer"].kill()
        said = rig.cli_text("retry", other)
        self.assertEqual(said.returncode, 69)
        self.assertIn("nothing was done", said.stderr)
        rig.start("sequencer", "deliverer-1")
        self.until(rig, event, "retrying", 2)
        self.assertEqual(len(self.requests(rig, other)), 1)
        self.assertEqual(self.retry(rig, other)[1], 0)
        rig["deliverer-1"].kill()
        rig.start("deliverer-1")
        rig.wait_status(other)

    def test_retry_waits_for_a_paused_endpoint(self):
        rig = self.pipeline(fails(1))
        event, = self.waiting(rig)
        rig.cli("endpoints", "pause", "crm")
        delivery, code = self.retry(rig, event)
        self.assertEqual((code, delivery["result"]), (0, "paused"))
        self.assertIn("endpoints resume crm", delivery["why"])
        rig.cli("endpoints", "resume", "crm")
        rig.receiver.wait(event, count=2)
        rig.wait_status(event)

    def test_retry_is_the_next_probe_of_an_open_circuit_breaker(self):
        rig = self.pipeline(fails(6))
        events = self.waiting(rig, 5)  # as many failures as open it
        grant, = rig.ask("deliverer-1", "status")["grants"]
        self.assertEqual(grant["breaker"], "open")
        delivery, code = self.retry(rig, events[3])
        self.assertEqual(code, 0)
        self.assertEqual(delivery["attempt"]["n"], 2)
        rig.receiver.wait(events[3], count=2)
        self.assertEqual([len(self.requests(rig, e)) for e in events],
                         [1, 1, 1, 2, 1])

    def test_retry_during_an_attempt_starts_no_second_one(self):
        rig = self.pipeline({"path": "/crm", "responses": [
            {"action": "blackhole"}, {"status": 200}]}, timeout="3s")
        event = rig.accept()
        rig.receiver.wait(event)
        said = rig.cli_text("retry", event)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("attempt is in progress", said.stdout)
        self.assertEqual(len(self.requests(rig, event)), 1)

    def test_p5_retry_does_not_overtake_an_earlier_event_of_its_lane(self):
        rig = self.pipeline(fails(1), ordered="workspace")
        first, = self.waiting(rig, workspace="a")
        second = rig.accept(rig.plane_body("a"))
        wait_for(lambda: rig.deliveries(second))
        delivery, code = self.retry(rig, second)
        self.assertEqual((code, delivery["result"]), (0, "behind"))
        self.assertEqual(self.retry(rig, first)[1], 0)
        rig.settle()
        self.assertEqual([r.id for r in rig.receiver.requests("/crm")],
                         [first, first, second])

    def test_retry_refuses_unknown_and_final_deliveries(self):
        rig = self.pipeline()
        event = rig.accept()
        rig.wait_status(event)
        delivery, code = self.retry(rig, event)
        self.assertEqual((code, delivery["result"]), (1, "delivered"))
        self.assertIn("resend", delivery["why"])
        for args, word in (((event, "--endpoint", "crn"), "did you mean"),
                           (("evt_00000000000000000000000000",), "no event")):
            said = rig.cli_text("retry", *args)
            self.assertEqual(said.returncode, 1, said)
            self.assertIn(word, said.stderr)


class Abandon(Actions):
    def abandon(self, rig, event, *more):
        return rig.cli("abandon", event, "--endpoint", "crm", "--note",
                       "obsolete", *more)

    def test_abandon_makes_a_waiting_delivery_a_dead_letter_at_once(self):
        """P2: its reason, note and attempts are on record; it can be sent again."""
        rig = self.pipeline(fails(1))
        event, = self.waiting(rig)
        reply, code = self.abandon(rig, event)
        self.assertEqual((code, reply["in_flight"]), (0, False))
        dead_letter, = wait_for(lambda: self.dead_letters(rig, "dead"))
        self.assertEqual((dead_letter["id"], dead_letter["reason"], dead_letter["attempts"]),
                         (reply["dead_letter_id"], "abandoned", 1))
        self.assertIn("obsolete", dead_letter["last_error"])
        self.assertIn("abandoned at crm by", str(rig.trace(event)["timeline"]))
        said = rig.cli_text("abandon", event, "--endpoint", "crm", "--note", "x")
        self.assertEqual(said.returncode, 1)
        self.assertIn("dead letter of crm already (abandoned)", said.stderr)
        wait_for(lambda: not rig.ask("deliverer-1", "trace", id=event)["waiting"])
        self.assertEqual(rig.cli("dlq", "retry", event)[1], 0)
        rig.receiver.wait(event, count=2)
        rig.settle()
        self.assertEqual([x["state"] for x in self.dead_letters(rig)], ["recovered"])

    def test_p5_a_lane_waits_for_the_attempt_of_an_abandoned_delivery(self):
        """Also with on_dead: halt the lane continues, and an immediate requeue
        begins only when that attempt has ended."""
        rig = self.pipeline({"path": "/crm", "responses": [
            {"status": 503, "delay_ms": 1500}, {"status": 200}]},
            ordered="workspace", on_dead="halt", timeout="5s")
        first = rig.accept(rig.plane_body("a"))
        rig.receiver.wait(first)
        reply, code = self.abandon(rig, first)
        self.assertEqual((code, reply["in_flight"]), (0, True))
        second = rig.accept(rig.plane_body("a"))
        wait_for(lambda: self.dead_letters(rig, "dead"))
        self.assertEqual(rig.cli("dlq", "retry", first)[1], 0)
        rig.receiver.wait(first, count=2)
        rig.settle()
        requests = rig.receiver.requests("/crm")
        self.assertEqual(sorted(r.id for r in requests),
                         sorted([first, first, second]))
        self.assertEqual(requests[0].id, first)
        self.assertGreaterEqual(requests[1].at_ms, requests[0].at_ms + 1400)
        shown = rig.ask("sequencer", "endpoint", name="crm")
        self.assertEqual((shown["halted_lanes"], shown["in_flight"]), (0, 0))

    def test_an_abandoned_delivery_that_succeeds_is_recovered(self):
        rig = self.pipeline({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 1000}]}, timeout="5s")
        event = rig.accept()
        rig.receiver.wait(event)
        said = rig.cli_text("abandon", event, "--endpoint", "crm", "--note", "x")
        self.assertIn("attempt in progress may", said.stdout)
        wait_for(lambda: [x["state"] for x in self.dead_letters(rig)] ==
                 ["recovered"])
        self.assertEqual(self.delivery(rig, event)["status"], "delivered")
        self.assertEqual(rig.ask("sequencer", "endpoint", name="crm")["in_flight"], 0)

    def test_a_confirmed_abandon_survives_kills(self):
        """P3: after kill -9 of all processes the delivery is not sent, the dead
        letter exists, and its lane continues."""
        rig = self.pipeline(fails(1), ordered="workspace")
        event, = self.waiting(rig, workspace="a")
        second = rig.accept(rig.plane_body("a"))
        wait_for(lambda: rig.deliveries(second))
        rig.kill("deliverer-1", "dlqd")
        self.assertEqual(self.abandon(rig, event)[1], 0)
        rig["sequencer"].kill()
        rig.start()
        rig.wait_status(second)
        dead_letter, = wait_for(lambda: self.dead_letters(rig, "dead"))
        self.assertEqual(dead_letter["event_id"], event)
        self.assertEqual(len(self.requests(rig, event)), 1)

    def test_abandon_refuses_wrong_arguments(self):
        rig = self.pipeline()
        event = rig.accept()
        rig.wait_status(event)
        for args, code, word in (
                ((event, "--note", "x"), 64, "--endpoint"),
                ((event, "--endpoint", "crm"), 64, "--note"),
                ((event, "--endpoint", "crn", "--note", "x"), 1,
                 "did you mean"),
                ((event, "--endpoint", "crm", "--note", "x"), 1,
                 "already delivered to crm")):
            said = rig.cli_text("abandon", *args)
            self.assertEqual(said.returncode, code, said)
            self.assertIn(word, said.stderr)


class LateAnswer(Actions):
    def test_a_late_drop_report_does_not_end_a_later_generation(self):
        """P5: a delivery is abandoned and sent again before its deliverer has read
        that; it is out once."""
        rig = self.pipeline()
        rig["deliverer-1"].kill()
        d = FakeDeliverer(rig.run_dir)
        self.addCleanup(d.close)
        event = rig.accept(rig.plane_body())
        d.until(lambda: d.tasks(event), 30)
        reply, code = rig.cli("abandon", event, "--endpoint", "crm", "--note", "x")
        self.assertEqual(code, 0, reply)
        # Its attempt ended before it reads that it is to drop the delivery.
        # It may have come twice, under a grant that ended when the database was seen to be another one.
        sent = len(d.tasks(event))
        first = d.tasks(event)[-1]
        d.report(first, "dead", status=400, reason="rejected")
        self.assertNotIn(DROPPED, [kind for kind, _ in d.got])
        d.flush()
        wait_for(lambda: rig.cli("dlq", "retry", reply["dead_letter_id"])[1] == 0,
                 what="the dead letter to be sent again")
        d.until(lambda: len(d.tasks(event)) == sent + 1)
        self.assertIn(DROPPED, [kind for kind, _ in d.got])
        # It knows nothing of a delivery that has ended, and says so.
        d.report(first, "released", attempts=0, reason="dropped", attempt_id=0)
        d.flush()
        d.report(d.tasks(event)[-1], "delivered", attempts=2, status=200)
        d.flush()
        self.until(rig, event, "delivered")
        later = rig.accept(rig.plane_body())
        d.until(lambda: d.tasks(later))
        self.assertEqual(len(d.tasks(event)), sent + 1)


class Senders(Actions):
    def test_a_process_may_send_only_what_its_kind_sends(self):
        """The key of a deliverer on another host, if it is stolen, makes no events (SECURITY)."""
        rig = self.pipeline()
        rig["deliverer-1"].kill()
        d = FakeDeliverer(rig.run_dir)
        self.addCleanup(d.close)
        event = rig.accept(rig.plane_body())
        d.until(lambda: d.tasks(event), 30)
        made = f"evt_{7:026d}"
        d.put(ACCEPTED, made, "plane", int(time.time() * 1000), "",
              packed_headers([("content-type", "application/json")]), rig.plane_body(), 0)
        d.flush()
        [link] = [row for row in rig.ask("sequencer", "status")["links"]
                  if row["peer"] == "deliverer-1" and row["direction"] == "in"]
        self.assertEqual(link["unprocessable"], 1)
        self.assertEqual(rig.cli("trace", made)[1], 1)  # it is unknown
        d.report(d.tasks(event)[-1], "delivered", status=200)
        d.flush()
        self.until(rig, event, "delivered")



main()
