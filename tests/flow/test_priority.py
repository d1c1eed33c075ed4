"""Which deliveries leave first while others wait for the same endpoint: `priority`."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, wait_for

TOKEN = "t0ken-of-the-app"
QUEUE_LANES = 1 << 60  # sequencer/dispatch/lane.c
QUEUES = {"normal": 0, "high": 1, "low": 2}
# How many deliveries may have been at the deliverer already (sequencer/dispatch/dispatch_window.h).
WINDOW_MIN = 256


class Priority(RigTest):
    def pipeline(self, routes=(), **endpoint):
        """One request at a time, so that requests are in the order of their beginning."""
        rig = self.rig({"producers": [{"name": "app", "tokens": [TOKEN]}]})
        rig.config["endpoints"] = [rig.endpoint(
            "crm", **{"max_in_flight": 1, "breaker": False, **endpoint})]
        rig.config["routes"] = list(routes)
        rig.write_config()
        return rig.start()

    def publish(self, rig, events, workspace="acme"):
        """`events`: the other fields of each. Their ids."""
        lines = [json.dumps({"type": "order.paid", "workspace": workspace,
                             "data": {"n": n}, **event})
                 for n, event in enumerate(events)]
        status, _, body = http_request(
            rig.ingress_port, "POST", "/v1/events/batch", "\n".join(lines).encode(),
            {"Authorization": f"Bearer {TOKEN}"})
        responses = [json.loads(line) for line in body.splitlines()]
        self.assertEqual(status, 200, responses[:2])
        return [r["id"] for r in responses]

    def routed(self, rig, count):
        """Wait until so many deliveries are stored."""
        wait_for(lambda: rig.rows("sequencer", "SELECT count(*) AS n FROM deliveries")
                 [0]["n"] >= count, 60, f"{count} deliveries")

    def pause(self, rig):
        self.assertEqual(rig.cli_text("endpoints", "pause", "crm").returncode, 0)

    def resume(self, rig):
        self.assertEqual(rig.cli_text("endpoints", "resume", "crm").returncode, 0)

    def order(self, rig, count):
        """Ids of all requests."""
        rig.receiver.wait(count=count, path="/crm", timeout=120)
        return [r.id for r in rig.receiver.requests("/crm")]

    def priority(self, rig, event):
        (delivery,) = rig.deliveries(event)
        return delivery["priority"]

    def queue(self, rig, event):
        """In which queue its delivery is, by its lane."""
        (row,) = rig.rows("sequencer", "SELECT lane FROM deliveries d JOIN events e "
                          "ON e.n = d.event WHERE e.id = ?", event)
        number = (row["lane"] + (1 << 63)) // QUEUE_LANES
        return next(name for name, n in QUEUES.items() if n == number)

    def test_a_high_event_overtakes_thousands_that_wait_for_a_slow_endpoint(self):
        """Also those at the deliverer; only the request in flight is before it."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 10}]})
        normal = self.publish(rig, [{}] * 3000)
        rig.receiver.wait(count=20, path="/crm")
        self.routed(rig, len(normal))
        sent = len(rig.receiver.requests("/crm"))
        (high,) = self.publish(rig, [{"priority": "high"}])
        rig.receiver.wait(high)
        ids = [r.id for r in rig.receiver.requests("/crm")]
        # 100 requests a second: those that began until it was stored, sent and received.
        self.assertLess(ids.index(high) - sent, 150)
        self.assertLess(len(ids), 1000)
        self.assertEqual(self.priority(rig, high), "high")
        self.assertEqual(self.priority(rig, normal[0]), "normal")
        shown = rig.cli_text("trace", high).stdout
        self.assertIn("priority high", shown)

    def test_no_priority_stops_the_others(self):
        """While high ones wait all the time, low ones have a tenth and normal ones
        two tenths, after the deliverer's window is full of them."""
        rig = self.pipeline()
        self.pause(rig)
        each = 1500
        low = set(self.publish(rig, [{"priority": "low"}] * each))
        normal = set(self.publish(rig, [{}] * each))
        high = set(self.publish(rig, [{"priority": "high"}] * each))
        self.routed(rig, 3 * each)
        self.resume(rig)
        ids = self.order(rig, 3 * each)
        self.assertEqual(sorted(ids), sorted(low | normal | high))
        last = max(n for n, event in enumerate(ids) if event in high) + 1
        had = {name: len(all_of.intersection(ids[:last]))
               for name, all_of in (("low", low), ("normal", normal), ("high", high))}
        self.assertEqual(had["high"], each)
        # Dispatched meanwhile: a seventh of 1500 low ones, two sevenths normal ones.
        waiting = WINDOW_MIN + 32
        self.assertGreater(had["low"], each / 7 - waiting / 3 - 20, had)
        self.assertGreater(had["normal"], each * 2 / 7 - waiting * 2 / 3 - 40, had)
        self.assertLess(had["low"] + had["normal"], each * 3 / 7 + 40, had)
        # And low ones have a tenth beside normal ones.
        rest = ids[last:]
        end = max(n for n, event in enumerate(rest) if event in normal) + 1
        share = len(low.intersection(rest[:end])) / end
        self.assertGreater(share, 0.09, (share, end))

    def test_an_ordered_workspace_stays_in_order(self):
        """P5: whatever priorities its events have."""
        rig = self.pipeline(ordered="workspace", max_in_flight=8)
        self.pause(rig)
        kinds = [{"priority": "low"}, {}, {"priority": "high"}, {"priority": "normal"}]
        acme = self.publish(rig, kinds * 20)
        other = self.publish(rig, kinds * 20, "other")
        self.routed(rig, 160)
        self.resume(rig)
        ids = self.order(rig, 160)
        for events in (acme, other):
            self.assertEqual([e for e in ids if e in set(events)], events)

    def test_the_event_chooses_before_the_route(self):
        routes = [{"types": ["issue.*"], "endpoints": ["crm"], "priority": "low"},
                  {"types": ["order.*", "issue.*"], "endpoints": ["crm"],
                   "priority": "high"}]
        rig = self.pipeline(routes)
        order, issue, chosen, other = self.publish(rig, [
            {}, {"type": "issue.new"}, {"priority": "normal"}, {"priority": "low"}])
        for event, priority in ((order, "high"), (issue, "low"), (chosen, "normal"),
                                (other, "low")):
            rig.wait_status(event)
            self.assertEqual(self.priority(rig, event), priority)
        sample = rig.folder / "event.json"
        sample.write_text(json.dumps({"type": "order.paid", "workspace": "acme",
                                      "data": {}}))
        shown, _ = rig.cli("check", "--event", str(sample), "--source", "app")
        self.assertEqual(shown["routing"][0]["priority"], "high")
        self.assertIn("; priority high", rig.cli_text(
            "check", "--event", str(sample), "--source", "app").stdout)
        refused = http_request(
            rig.ingress_port, "POST", "/v1/events", json.dumps(
                {"type": "t", "workspace": "w", "data": 1, "priority": "top"}).encode(),
            {"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(refused[0], 400)
        self.assertIn(b"priority", refused[2])

    def test_a_delivery_that_is_sent_again_keeps_its_priority(self):
        """A dead letter that is retried, and an event that `resend` sends again."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 2}, {"status": 200}]})
        low, high = self.publish(rig, [{"priority": "low"}, {"priority": "high"}])

        def waits():
            """In the queue of its priority."""
            for event, priority in ((low, "low"), (high, "high")):
                wait_for(lambda e=event: rig.deliveries(e)[0]["status"] == "waiting",
                         what="a reopened delivery")
                self.assertEqual(self.priority(rig, event), priority)
                self.assertEqual(self.queue(rig, event), priority)
        wait_for(lambda: len(rig.rows("dlqd", "SELECT 1 AS n FROM dead_letters")) == 2,
                 what="two dead letters")
        self.pause(rig)
        self.assertEqual(rig.cli("dlq", "retry", "--all")[1], 0)
        waits()
        self.resume(rig)
        for event in (low, high):
            wait_for(lambda e=event: rig.deliveries(e)[0]["status"] == "delivered",
                     what="delivered")
        self.pause(rig)
        for event in (low, high):
            self.assertEqual(rig.cli("resend", event)[1], 0)
        waits()

    def test_queues_survive_a_restart_and_another_order(self):
        """A kill loses no turn and no delivery; a reload that changes `ordered` twice
        brings each delivery back into its queue."""
        rig = self.pipeline()
        self.pause(rig)
        low, normal, high = [self.publish(rig, [{"priority": p}] * 600)
                             for p in ("low", "normal", "high")]
        self.routed(rig, 1800)
        for ordered in ("workspace", "none"):
            rig.config["endpoints"][0]["ordered"] = ordered
            rig.write_config()
            self.assertEqual(rig.cli_text("reload").returncode, 0)
            wait_for(lambda: rig.rows(
                "sequencer", "SELECT count(*) AS n FROM deliveries WHERE (lane < 0) = ?",
                ordered == "none")[0]["n"] == 1800, 60, f"lanes of {ordered}")
        for event in (low[0], low[-1], normal[0], normal[-1], high[0], high[-1]):
            self.assertEqual(self.queue(rig, event), self.priority(rig, event))
        self.resume(rig)
        rig.receiver.wait(count=100, path="/crm")
        rig.kill("sequencer")
        rig.start("sequencer")
        rig.settle()
        ids = [r.id for r in rig.receiver.requests("/crm")]
        self.assertEqual(set(ids), {*low, *normal, *high})
        first = ids[:300]
        self.assertGreater(len(set(first) & set(high)), 250)


if __name__ == "__main__":
    main()
