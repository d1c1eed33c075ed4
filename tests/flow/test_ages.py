"""Ages and latencies of events that an operator sent again, or that were buffered, count
from that moment."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

HOUR_S = 3600
AGO_S = 6 * HOUR_S  # when the events of a test come
LISTED = {"source": "ledger", "headers": {"X-Token": "t0p"}}


class Ages(RigTest):
    def long_ago(self, **config):
        """Runs, with a clock of six hours ago."""
        rig = self.rig({"alerts": [{"name": "waits", "when": "oldest_waiting",
                                    "above": "1h"}],
                        "history": {"keep": "30d"}, **config}, console=True)
        rig.step_clock(-AGO_S)
        return rig.start()

    def today(self, rig):
        """The clock is right again, and everything has been started since."""
        rig.stop()
        rig.step_clock(0)
        rig.start()
        wait_for(lambda: rig.number("grapnel_up", process="sequencer") and
                 rig.number("grapnel_oldest_open_seconds") is not None)

    def dead(self, rig, count):
        wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] == count,
                 what=f"{count} dead letters")

    def refuse(self, rig, *names, status=400):
        rig.receiver.rules(*({"path": f"/{n}", "responses": [{"status": status}]}
                             for n in names))

    def heard(self, rig):
        """The console has heard every process at least twice since now."""
        frames = rig.number("grapnel_console_frames_total")
        wait_for(lambda: rig.number("grapnel_console_frames_total") > frames + 12)

    def latencies(self, rig):
        """{endpoint: (deliveries, seconds)} of the histogram, when all is
        delivered."""
        rig.settle()
        self.heard(rig)
        return {e["name"]: tuple(
            rig.number(f"grapnel_end_to_end_seconds_{what}", endpoint=e["name"]) or 0
            for what in ("count", "sum")) for e in rig.config["endpoints"]}

    def assert_young(self, rig):
        """Something is open, since less than an hour; and no rule says otherwise."""
        self.heard(rig)
        self.assertGreater(rig.number("grapnel_deliveries_open"), 0)
        self.assertLess(rig.number("grapnel_oldest_open_seconds"), HOUR_S)
        self.assertEqual([a["summary"] for a in rig.cli("alerts")[0]
                          if a["name"] == "waits"], [])

    def test_the_age_of_a_requeued_delivery_counts_from_its_requeue(self):
        """Also one that died again and is retried again, and over a restart; an
        event that nobody retried waits since it came."""
        rig = self.long_ago(retry_policies=[{
            "name": "default", "backoff": "fixed", "first_wait": "1h",
            "jitter": "none", "max_attempts": 5}])
        self.refuse(rig, "crm")
        first = rig.accept()
        self.dead(rig, 1)
        self.today(rig)
        for retry in range(2):
            with self.subTest(retry=retry):
                self.refuse(rig, "crm", status=503)
                self.assertEqual(rig.cli("dlq", "retry", "--all")[1], 0)
                wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM deliveries "
                                          "WHERE status = 2"))
                self.assert_young(rig)
                rig["sequencer"].restart()
                self.assert_young(rig)
                self.refuse(rig, "crm")
                rig.cli("retry", first)
                self.dead(rig, 1)
        rig.stop()
        rig.step_clock(-AGO_S)
        rig.start()
        self.refuse(rig, "crm", status=503)
        rig.accept()
        wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM deliveries "
                                  "WHERE status = 2"))
        self.today(rig)
        rig.cli("dlq", "retry", "--all")
        wait_for(lambda: rig.number("grapnel_oldest_open_seconds") > AGO_S - HOUR_S,
                 what="the age of the one that waits since it came")

    def test_the_age_of_a_resent_event_counts_from_the_resend(self):
        """To the endpoint that had it, and to one that never did."""
        rig = self.long_ago()
        event = rig.accept()
        rig.settle()
        rig.config["endpoints"].append(rig.endpoint("erp"))
        rig.write_config()
        self.today(rig)
        for name in "crm", "erp":
            with self.subTest(name):
                self.refuse(rig, "crm", "erp", status=503)
                self.assertEqual(
                    rig.cli("resend", event, "--endpoint", name)[1], 0)
                self.assert_young(rig)
                rig.receiver.rules()
                rig.cli("retry", event)
                rig.settle()
        self.assertEqual(self.latencies(rig), {"crm": (0, 0), "erp": (0, 0)})

    def test_events_that_an_operator_sends_again_are_in_no_latency(self):
        """A dead letter; an event that was refused, alone or as a batch; a duplicate
        that is released, also if it is buffered for its order."""
        ledger = {"name": "ledger", "provider": "custom", "secrets": ["t0p"],
                  "verify": {"scheme": "shared-token", "header": "X-Token"},
                  "id": "json:/n", "type": "json:/type"}
        rig = self.long_ago(sources=[
            {"name": "plane", "provider": "plane", "secrets": ["${PLANE_SECRET}"]},
            {**ledger, "workspace": "const:w", "workspaces": ["other"]}])
        self.refuse(rig, "crm")
        rig.accept()
        rig.accept(b'[{"n":1,"type":"a"},{"n":2,"type":"a"}]', **LISTED)
        self.dead(rig, 2)
        rig.receiver.rules()
        rig.config["sources"][1] = ledger
        rig.write_config()
        rig.cli("reload")
        rig.accept(b'{"n":7,"type":"a"}', **LISTED)
        rig.settle()
        again = rig.accept(b'{"n":7,"type":"b"}', **LISTED)
        rig.wait_status(again, "duplicate")
        rig.config["sources"][1] = {**ledger, "batch": True, "order": {
            "by": "sequence", "sequence": "json:/n", "give_up_after": "1h"}}
        rig.write_config()
        self.today(rig)
        self.assertEqual(rig.cli("dlq", "retry", "--all")[1], 0)
        rig.receiver.wait(count=5, path="/crm")  # with the first 400
        self.assertEqual(rig.cli("release", again)[1], 0)
        rig.wait_status(again, "buffered")
        rig.accept(b'[{"n":3},{"n":4},{"n":5},{"n":6}]', **LISTED)
        rig.wait_status(again)
        count, seconds = self.latencies(rig)["crm"]
        self.assertLess(seconds, HOUR_S)
        self.assertEqual(count, 4)

    def test_deliveries_that_were_paused_or_held_are_in_no_latency(self):
        """A paused endpoint, one that was switched off, one that was held, and a lane
        that a dead letter halted. An endpoint that was down counts."""
        rig = self.rig(console=True)
        rig.config["retry_policies"] = [{
            "name": "default", "backoff": "fixed", "first_wait": "1s",
            "jitter": "none", "max_attempts": 1000}]
        rig.config["endpoints"] = [
            rig.endpoint("paused"), rig.endpoint("held"), rig.endpoint("off"),
            rig.endpoint("lane", ordered="all", on_dead="halt"),
            rig.endpoint("down", breaker=False)]
        rig.write_config()
        rig.step_clock(-AGO_S)
        rig.start()
        rig.accept()
        rig.settle()
        rig.cli("endpoints", "pause", "paused")
        rig.receiver.rules(*({"path": f"/{n}", "responses": [{"status": s}]}
                             for n, s in (("held", 404), ("lane", 400),
                                          ("down", 503), ("off", 503))))
        for _ in range(11):
            rig.accept()
        wait_for(lambda: rig.cli("endpoints", "held")[0]["state"] == "held")
        wait_for(lambda: rig.cli("endpoints", "lane")[0]["halted_lanes"])
        rig.config["endpoints"][2]["enabled"] = False
        rig.write_config()
        rig.cli("reload")
        self.today(rig)
        rig.receiver.rules()
        rig.cli("endpoints", "resume", "paused")
        rig.config["endpoints"][2]["enabled"] = True
        rig.write_config()
        rig.cli("reload")
        rig.cli("dlq", "resolve", "--all", "--endpoint", "lane", "--note", "seen")
        before = self.latencies(rig)
        for name in "paused", "held", "off", "lane":
            with self.subTest(name):
                self.assertLess(before[name][1], HOUR_S)
        self.assertGreater(before["down"][1], AGO_S)
        rig.accept()  # what comes from now on counts
        after = self.latencies(rig)
        self.assertEqual({n: c - before[n][0] for n, (c, _) in after.items()},
                         dict.fromkeys(after, 1))


main(at_once=4)
