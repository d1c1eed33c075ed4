"""P2: a delivery that its deliverer has lost is assigned again, and a slow one is not."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

NOT_KNOWN = "its deliverer does not know this delivery"


class Watch(RigTest):
    def pipeline(self, **endpoint):
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.config["endpoint_defaults"] = {"timeout": "1s",
                                           "connect_timeout": "1s"}
        rig.config["endpoints"] = [rig.endpoint("crm", **endpoint)]
        rig.write_config()
        return rig

    def lose(self, rig, events):
        """The deliverer forgets what it has of them: as a defect would have it,
        for which there is nothing in the protocol."""
        wait_for(lambda: len(rig.rows("deliverer-1", "SELECT 1 FROM tasks"))
                 == len(events), what="rows of the tasks")
        rig["deliverer-1"].kill()
        rig.change("deliverer-1", "DELETE FROM tasks")
        rig.receiver.rules()
        rig.start("deliverer-1")

    def said(self, rig):
        return [line for line in rig["sequencer"].log().splitlines()
                if NOT_KNOWN in line]

    def test_lost_deliveries_are_assigned_again(self):
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 503, "times": 1}, {"action": "blackhole"}]})
        rig.start()
        events = [rig.accept() for _ in range(3)]
        rig.receiver.wait(count=3)
        wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM deliveries "
                                  "WHERE status = 2"), what="a retry")
        self.lose(rig, events)
        for event in events:
            rig.wait_status(event)
        self.assertEqual(len(self.said(rig)), 3)
        self.assertTrue(all(any(event in line for line in self.said(rig))
                            for event in events))

    def test_a_lane_continues_in_order_after_a_lost_delivery(self):
        """P5 too."""
        rig = self.pipeline(ordered="all")
        rig.receiver.rules({"path": "/crm", "responses": [
            {"action": "blackhole"}]})
        rig.start()
        events = [rig.accept() for _ in range(3)]
        rig.receiver.wait(events[0])
        self.lose(rig, events[:1])
        for event in events:
            rig.wait_status(event)
        self.assertEqual([r.id for r in rig.receiver.requests()],
                         [events[0], *events])

    def test_slow_deliveries_are_not_assigned_again(self):
        """Behind a rate limit, and between retries, for longer than any attempt
        takes: no event is sent twice."""
        rig = self.pipeline(rate_limit="5/s")
        rig.config["endpoints"].append(rig.endpoint("slow"))
        rig.config["retry_policies"][0].update(first_wait="7s", max_wait="7s",
                                               jitter="none")
        rig.write_config()
        rig.receiver.rules({"path": "/slow", "responses": [
            {"status": 503, "times": 1}, {"status": 200}]})
        rig.start()
        events = [rig.accept() for _ in range(35)]
        for event in events:
            rig.wait_status(event, timeout=30)
        self.assertGreater(rig.rows("deliverer-1", "SELECT n FROM link_in "
                                    "WHERE peer = 'sequencer'")[0]["n"],
                           70, "nothing was asked")
        self.assertEqual(len(rig.receiver.requests("/crm")), 35)
        self.assertEqual(self.said(rig), [])


if __name__ == "__main__":
    main(3)
