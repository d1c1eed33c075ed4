"""`where` conditions and routes select the endpoints of an event, and `check` and traces
explain why."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for


class Routes(RigTest):
    def test_where_selects_events_by_json_and_headers(self):
        """P2, P10: an endpoint gets each event once; the trace names the endpoints
        that did not get it, and why."""
        rig = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("urgent", where={
                "json:/data/priority": ["high", "urgent"]}),
            rig.endpoint("large", where={
                "json:/data/points": {"at_least": 5, "below": 8}}),
            rig.endpoint("named", where={
                "header:X-Plane-Event": "issue",
                "json:/data/key": {"prefix": "OPS-"},
                "json:/data/deleted_at": {"exists": False}})]
        rig.config["routes"] = [
            {"endpoints": ["urgent"], "where": {"json:/data/rush": True}}]
        rig.write_config()
        rig.start()
        wanted = {
            "urgent": [{"priority": "high"}, {"priority": "urgent"},
                       {"priority": "low", "rush": True},
                       {"priority": "high", "rush": True}],
            "large": [{"points": 5}, {"points": 7.5}, {"points": "6"}],
            "named": [{"key": "OPS-1"}, {"key": "OPS-", "deleted_at": None}],
            None: [{}, {"priority": "High"}, {"points": 8}, {"points": "many"},
                   {"key": "ops-1"}, {"key": "OPS-1", "deleted_at": "now"},
                   {"rush": False}]}
        events = {name: {rig.accept(rig.plane_body(**data)) for data in all_data}
                  for name, all_data in wanted.items()}
        rig.settle()
        for name in ["urgent", "large", "named"]:
            # Once each, though two subscriptions take it.
            self.assertEqual(sorted(r.id for r in
                                    rig.receiver.requests(f"/{name}")),
                             sorted(events[name]), name)
        said = " ".join(x["what"] for x in
                        rig.trace(next(iter(events["large"])))["timeline"])
        self.assertIn("not sent to named", said)
        for event in events[None]:
            trace = rig.trace(event)
            self.assertEqual((trace["status"], trace["deliveries"]), ("done", []))
            self.assertIn("json:/data/points", trace["reason"])
            self.assertIn("no endpoint is subscribed to it",
                          " ".join(x["what"] for x in trace["timeline"]))

    def test_check_explains_each_subscription(self):
        rig = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("crm", where={"json:/data/priority": "high"}),
            rig.endpoint("log", types=["cycle.*"])]
        rig.write_config()
        sample = rig.folder / "body.json"

        def check(**data):
            sample.write_bytes(rig.plane_body(**data))
            found, code = rig.cli("check", "--event", str(sample))
            self.assertEqual(code, 0)
            return found["endpoints"], {x["endpoint"]: x["why"]
                                        for x in found["routing"]}
        self.assertEqual(check(priority="high"),
                         (["crm"], {"crm": "by its own subscription",
                                    "log": "not subscribed to type issue.updated"}))
        endpoints, why = check(priority="low")
        self.assertEqual(endpoints, [])
        self.assertEqual(why["crm"], "condition json:/data/priority is high "
                                     "not met: the value is low")
        text = rig.cli_text("check", "--event", str(sample)).stdout
        self.assertIn("crm: no, condition json:/data/priority is high", text)
        self.assertIn("where json:/data/priority is high",
                      rig.cli_text("check").stdout)

    def test_new_routes_apply_only_to_new_events(self):
        """Events that were routed before keep their endpoints."""
        rig = self.rig()
        rig.config["endpoints"] = [rig.endpoint("crm"),
                                   rig.endpoint("log", types=["cycle.*"])]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503, "times": 3}, {"status": 200}]})
        rig.start()
        before = rig.accept()
        rig.receiver.wait(before)
        rig.config["endpoints"][0]["types"] = ["cycle.*"]
        rig.config["endpoints"][1]["types"] = ["issue.*"]
        rig.write_config()
        rig["sequencer"].reload()

        def follows():
            after = rig.accept()
            rig.wait_status(after)
            return [d["endpoint"] for d in rig.trace(after)["deliveries"]] == \
                ["log"]
        wait_for(follows)
        rig.settle()
        self.assertIn(before, rig.receiver.delivered("/crm"))
        self.assertEqual(rig.receiver.requests("/log", before), [])


main()
