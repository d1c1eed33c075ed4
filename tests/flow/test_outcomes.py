"""Outcomes travel back: a process that sends events is told what becomes of them."""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_subscriber import LEDGER, FakeSubscriber
from rig import SLOW, RigTest, main, wait_for

ONCE = {"name": "default", "backoff": "fixed", "first_wait": "20ms", "jitter": "none",
        "max_attempts": 12, "max_duration": "1h", "retry_on": ["network", "5xx"]}
HOUR = {**ONCE, "first_wait": "1h", "max_duration": "7d"}


class Outcomes(RigTest):
    def pipeline(self, *responses, policy=ONCE, **endpoint):
        self.r = rig = self.rig()
        rig.config["sources"].append(LEDGER)
        rig.config["retry_policies"] = [policy]
        rig.config["endpoints"] = [rig.endpoint("crm", guard=False, **endpoint)]
        rig.write_config()
        self.respond(*responses)
        rig.start()
        self.s = self.subscriber()
        return rig, self.s

    def respond(self, *responses):
        self.r.receiver.rules({"path": "/crm", "per": "event", "responses": responses or [
            {"status": 200}]})

    def subscriber(self, name="outbox"):
        s = FakeSubscriber(self.r.run_dir, name)
        self.addCleanup(s.close)
        return s

    def known(self, event, status):
        """Until the delivery of this event has this status in the sequencer's database."""
        wait_for(lambda: self.r.rows(
            "sequencer", "SELECT 1 FROM deliveries d JOIN events e ON e.n = d.event "
            "WHERE e.id = ? AND d.status = ?", event, status), what=f"{event}: {status}")

    def dead_letter(self, event):
        return wait_for(lambda: [x["id"] for x in self.r.cli("dlq")[0]
                                 if x["event_id"] == event], what="a dead letter")[0]

    def set_back(self, s, n):
        """The subscriber comes back from an older copy; the sequencer learns it from its
        cursor."""
        s.set_back(n)
        s.acknowledge(False, 0)

    # causes

    def test_delivered_after_a_retry(self):
        _, s = self.pipeline({"status": 503, "times": 1}, {"status": 200})
        event = s.accept()
        o = s.until_state(event, "delivered", 15 * SLOW, attempts=2)
        self.assertEqual((o["open"], o["delivered"], o["dead"], o["next_ms"]), (0, 1, 0, 0))
        self.assertEqual((o["source"], o["endpoint"], o["error"]), ("ledger", "", ""))
        self.assertEqual(o["provider_id"], "row-1")
        self.assertGreater(o["last_ms"], 0)

    def test_a_scheduled_retry_and_what_people_do_with_it(self):
        rig, s = self.pipeline({"status": 503, "times": 2}, {"status": 200}, policy=HOUR)
        event, other = s.accept(), s.accept()
        for e in (event, other):
            o = s.until_state(e, "open", 15 * SLOW, attempts=1)
            self.assertGreater(o["next_ms"], o["at_ms"])
            self.assertEqual((o["endpoint"], o["http_status"]), ("crm", 503))
            self.assertIn("503", o["error"])
        rig.cli("retry", event)
        self.assertGreater(s.until_state(event, "open", 15 * SLOW, attempts=2)["next_ms"],
                           o["at_ms"])
        rig.cli("abandon", other, "--endpoint", "crm", "--note", "not needed")
        o = s.until_state(other, "dead", 15 * SLOW, reason="abandoned")
        self.assertIn("not needed", o["error"])

    def test_dead_then_what_people_decide(self):
        """Retried, dead again, resolved; a second one is discarded."""
        rig, s = self.pipeline({"status": 400})
        event, other = s.accept(), s.accept()
        for e in (event, other):
            o = s.until_state(e, "dead", 15 * SLOW, dead=1, endpoint="crm", http_status=400)
            self.assertTrue(o["reason"])
        rig.cli("dlq", "retry", self.dead_letter(event))
        s.until_state(event, "dead", 15 * SLOW, attempts=1, attempts_before=1)
        rig.cli("dlq", "resolve", self.dead_letter(event), "--note", "by hand")
        s.until_state(event, "resolved", 15 * SLOW, resolved=1)
        told = len(s.of_event(other))
        rig.cli("dlq", "discard", self.dead_letter(other), "--note", "a test")
        s.until(lambda: len(s.of_event(other)) > told, 15 * SLOW)
        s.until_state(other, "dead", 15 * SLOW, resolved=0)
        self.respond({"status": 200})
        s.replay(event, 77)  # what was resolved is open again
        s.until_state(event, "delivered", 15 * SLOW, action_id=77, resolved=0)

    def test_events_that_reach_no_endpoint(self):
        rig, s = self.pipeline(types=["issue.created"])
        event = s.accept(key="the-same")
        self.assertIn("crm", s.until_state(event, "no_endpoint", 15 * SLOW)["reason"])
        duplicate = s.accept(key="the-same")
        s.until_state(duplicate, "duplicate", 15 * SLOW, duplicate_of=event)
        refused = s.accept(body=b"nonsense")
        self.assertTrue(s.until_state(refused, "refused", 15 * SLOW)["reason"])
        rig.cli("dlq", "resolve", self.dead_letter(refused), "--note", "nonsense")
        s.until_state(refused, "resolved", 15 * SLOW)
        s.replay(event, 5)  # nothing is opened; it is answered all the same
        s.until_state(event, "no_endpoint", 15 * SLOW, action_id=5)

    def test_the_endpoint_is_removed(self):
        rig, s = self.pipeline({"status": 503}, policy=HOUR)
        event = s.accept()
        s.until_state(event, "open", 15 * SLOW, attempts=1)
        rig.config["endpoints"] = [rig.endpoint("other", types=["x"])]
        rig.write_config()
        rig["sequencer"].reload()
        s.until_state(event, "dead", 15 * SLOW, reason="endpoint_removed", endpoint="crm")

    def test_an_event_of_an_ingress_has_no_subscriber(self):
        rig, s = self.pipeline()
        mine = s.accept()
        s.until_state(mine, "delivered", 15 * SLOW)
        rig.wait_status(rig.accept())
        s.replay(mine, 9, new_id="evt_" + "9" * 26)
        s.flush()
        self.known("evt_" + "9" * 26, 3)
        s.run_for(0.1)
        self.assertEqual({o["event_id"] for o in s.outcomes}, {mine})
        self.assertEqual(rig.rows("sequencer", "SELECT count(*) AS n FROM events WHERE "
                                  "subscriber IS NULL"), [{"n": 2}])

    def test_the_process_that_sent_it_last_is_told(self):
        """… and the event is delivered once, though both send it."""
        rig, s = self.pipeline()
        event = s.accept()
        s.until_state(event, "delivered", 15 * SLOW)
        second = self.subscriber("outbox-2")
        second.requests = s.requests
        second.send_again(event)
        second.until_state(event, "delivered", 15 * SLOW)
        self.assertEqual(len(rig.receiver.wait(event)), 1)
        second.replay(event, 3)
        second.until_state(event, "delivered", 15 * SLOW, action_id=3, attempts_before=1)
        s.run_for(0.1)
        self.assertEqual(len(s.of_event(event)), 1)

    # deaths and copies

    def test_killed_between_the_change_and_the_message(self):
        rig, s = self.pipeline({"status": 200, "delay_ms": 60000})
        events = [s.accept() for _ in range(3)]
        s.flush()
        rig.receiver.wait(count=3)
        s.close()  # frames to it stay in a pipe of the sequencer
        self.s.close = lambda: None
        rig.receiver.release()
        for e in events:
            self.known(e, 3)
        rig["sequencer"].restart()
        s = self.subscriber()
        for e in events:
            s.until_state(e, "delivered", 15 * SLOW)

    def test_killed_again_and_again(self):
        """Whatever is lost on the way, the last outcome of each event is its end."""
        rig, s = self.pipeline({"status": 503, "times": 1}, {"status": 200})
        events = []
        for kills in range(4):
            events += [s.accept() for _ in range(50)]
            s.until(lambda: len(s.outcomes) > 40 * (kills + 1), 30 * SLOW)
            rig["sequencer"].kill()
            s.run_for(0.05)
            rig["sequencer"].start()
        for e in events:
            s.until_state(e, "delivered", 30 * SLOW, attempts=2)
        s.until(lambda: rig.rows("sequencer", "SELECT 1 FROM link_out WHERE peer = 'outbox' "
                                 "AND cursor = ?", s.applied), 15 * SLOW)

    def test_a_subscriber_from_an_older_copy_gets_them_again(self):
        rig, s = self.pipeline()
        events = [s.accept() for _ in range(3)]
        for e in events:
            s.until_state(e, "delivered", 15 * SLOW)
        wait_for(lambda: s.run_for(0.05) or rig.rows(
            "sequencer", "SELECT 1 FROM link_out WHERE peer = 'outbox' AND cursor = ?",
            s.applied), what="the acknowledgement to be stored")
        told, s.outcomes = s.applied, []
        self.set_back(s, 1)
        s.until(lambda: s.applied == told, 15 * SLOW)
        self.assertEqual([o["state"] for o in s.outcomes], ["delivered"] * (told - 1))
        s.outcomes = []
        self.set_back(s, 0)  # its database is lost
        s.until(lambda: s.applied == told, 15 * SLOW)
        self.assertEqual({o["event_id"] for o in s.outcomes}, set(events))

    def test_a_sequencer_from_an_older_copy(self):
        """Its log has other rows at the numbers that the subscriber has."""
        self.restore_the_sequencer(lambda s: None)

    def test_both_from_copies_of_different_times(self):
        self.restore_the_sequencer(lambda s: s.set_back(2))

    def test_the_sequencer_from_a_copy_and_the_subscriber_anew(self):
        self.restore_the_sequencer(lambda s: s.set_back(0))

    def restore_the_sequencer(self, meanwhile):
        rig, s = self.pipeline()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        first = s.accept()
        s.until_state(first, "delivered", 15 * SLOW)
        _, code = rig.cli("backup", str(rig.folder / "copy"))
        self.assertEqual(code, 0)
        lost = [s.accept() for _ in range(3)]
        for e in lost:
            s.until_state(e, "delivered", 15 * SLOW)
        rig.kill("sequencer")
        for end in ("-wal", "-shm"):
            (rig.state_dir / f"sequencer.db{end}").unlink(missing_ok=True)
        shutil.copy(rig.folder / "copy" / "sequencer.db", rig.state_dir / "sequencer.db")
        s.outcomes = []
        meanwhile(s)
        rig["sequencer"].start()
        s.until(lambda: {o["event_id"] for o in s.outcomes if o["state"] == "delivered"}
                >= set(lost), 30 * SLOW)
        after = s.accept()
        s.until_state(after, "delivered", 15 * SLOW)

    def test_an_erased_workspace_is_in_no_outcome(self):
        rig, s = self.pipeline({"status": 503, "body": "secret"}, policy=HOUR)
        event = s.accept(workspace="mark3r", key="mark3r-key")
        s.until_state(event, "open", 15 * SLOW, attempts=1)
        s.outcomes = []
        done = rig.cli_text("workspaces", "erase", "mark3r")
        self.assertEqual(done.returncode, 0, done.stderr)
        o = s.until_state(event, "erased", 30 * SLOW)
        self.assertEqual((o["provider_id"], o["endpoint"], o["reason"], o["error"]),
                         ("", "", "", ""))


if __name__ == "__main__":
    main()
