"""Ordering keys: a producer's events of one workspace are delivered in order by key, and keys do not
wait for each other. P5."""

import collections
import json
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, wait_for

TOKEN = "t0ken-of-billing"
BLACKHOLE = {"path": "/hole", "responses": [{"status": 200, "delay_ms": 60000}]}
POLICY = {"name": "twice", "backoff": "fixed", "first_wait": "20ms", "jitter": "none",
          "max_attempts": 2, "max_duration": "1h", "retry_on": ["network", "5xx"]}


class OrderingKeys(RigTest):
    def pipeline(self, ordered="workspace", console=False, start=True, **endpoint):
        rig = self.rig({"producers": [{"name": "billing", "tokens": [TOKEN]}]},
                       console=console)
        rig.config["producers"][0]["may_name_urls"] = [rig.receiver.url("/*")]
        if console:
            rig.config["console"]["tokens"] = [TOKEN]
        rig.config["endpoints"] = [{
            **rig.endpoint("crm", timeout="60s"), "ordered": ordered, **endpoint}]
        rig.config["retry_policies"].append(POLICY)
        rig.write_config()
        return rig.start() if start else rig

    def publish(self, rig, key=None, workspace="acme", path=None, expect=200, **more):
        """The id of the event; with `path`, it is sent there instead of /crm."""
        event = {"type": "t", "workspace": workspace, "data": {"key": key}, **more}
        if key is not None:
            event["ordering_key"] = key
        if path:
            event |= {"endpoints": ["crm"], "url": rig.receiver.url(path)}
        status, _, text = http_request(
            rig.ingress_port, "POST", "/v1/events", json.dumps(event).encode(),
            {"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(status, expect, text)
        return json.loads(text)["id"] if status == 200 else text.decode()

    def order(self, rig, *events):
        """Those of these events that were delivered, in this order."""
        rig.receiver.stats()  # the record is written out
        return [e for e in rig.receiver.delivered() if e in events]

    def endpoint(self, rig):
        return rig.ask("sequencer", "endpoint", name="crm")

    def statuses(self, rig, *events):
        return [rig.deliveries(e)[0]["status"] for e in events]

    # lanes

    def test_each_key_of_a_workspace_is_a_lane(self):
        """P5: while an event has no response, those of its key wait, and those of other keys,
        of other workspaces and without a key do not."""
        rig = self.pipeline()
        rig.receiver.rules(BLACKHOLE)
        first = self.publish(rig, "a", path="/hole")
        second = self.publish(rig, "a")
        none = self.publish(rig, path="/hole")
        third = self.publish(rig)
        rig.receiver.wait(path="/hole", count=2)
        others = [self.publish(rig, "b"), self.publish(rig, "a", workspace="b"),
                  self.publish(rig, workspace="b")]
        for event in others:
            rig.wait_status(event)
        self.assertEqual(self.statuses(rig, second, third), ["waiting", "waiting"])
        rig.receiver.release()
        rig.settle()
        self.assertEqual(self.order(rig, first, second), [first, second])
        self.assertEqual(self.order(rig, none, third), [none, third])
        self.assertEqual(rig.trace(first)["ordering_key"], "a")
        self.assertIsNone(rig.trace(none)["ordering_key"])
        self.assertIn("ordering   key a\n", rig.cli_text("trace", first).stdout)
        self.assertIn('"ordering_key": "a"', rig.cli_text("show", first).stdout)

    def test_an_endpoint_that_is_ordered_as_a_whole_ignores_keys(self):
        rig = self.pipeline(ordered="all")
        rig.receiver.rules(BLACKHOLE)
        first = self.publish(rig, "a", path="/hole")
        rig.receiver.wait(first)
        rest = [self.publish(rig, "b"), self.publish(rig), self.publish(rig, "b", "w")]
        wait_for(lambda: self.endpoint(rig)["waiting"] == 3)
        rig.receiver.release()
        rig.settle()
        self.assertEqual(self.order(rig, first, *rest), [first, *rest])

    def test_the_workspaces_take_turns_however_many_keys_one_has(self):
        """An event of a quiet workspace is among the first, though hundreds of keys of another
        wait before it."""
        rig = self.pipeline(max_in_flight=1)
        rig.cli("endpoints", "pause", "crm")
        lines = "\n".join(json.dumps({"type": "t", "workspace": "noisy", "data": i,
                                      "ordering_key": f"k{i}"}) for i in range(500))
        status, _, text = http_request(
            rig.ingress_port, "POST", "/v1/events/batch", lines.encode(),
            {"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(status, 200, text)
        quiet = [self.publish(rig, workspace=f"quiet-{i}") for i in range(5)]
        wait_for(lambda: self.endpoint(rig)["waiting"] == 505)
        rig.cli("endpoints", "resume", "crm")
        rig.settle()
        order = [r.id for r in rig.receiver.requests()]
        self.assertLess(max(map(order.index, quiet)), 150)

    def test_a_reload_of_ordered_keeps_the_order_of_keys(self):
        rig = self.pipeline(ordered="none")
        rig.cli("endpoints", "pause", "crm")
        keys = [None if i % 4 == 3 else f"k{i % 4}" for i in range(40)]
        events = [self.publish(rig, key) for key in keys]
        wait_for(lambda: self.endpoint(rig)["waiting"] == len(events))
        for ordered in ["workspace", "all", "none", "workspace"]:
            rig.config["endpoints"][0]["ordered"] = ordered
            rig.write_config()
            rig["sequencer"].reload()
            wait_for(lambda: self.endpoint(rig)["ordered"] == ordered)
        heads = rig.rows("sequencer", "SELECT event FROM deliveries WHERE behind = 0")
        self.assertEqual(len(heads), 4)
        rig["sequencer"].restart()
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503}, {"status": 200}]})
        rig.cli("endpoints", "resume", "crm")
        rig.settle()
        for key in set(keys):
            mine = [e for e, k in zip(events, keys) if k == key]
            self.assertEqual(self.order(rig, *mine), mine)

    def test_order_holds_through_kills(self):
        """P5: kill -9 of the sequencer and the deliverer, while each event fails once."""
        rig = self.pipeline(timeout="1s")
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503}, {"status": 200}]})
        events = collections.defaultdict(list)

        def load(key):
            for _ in range(40):
                events[key].append(self.publish(rig, key))
        threads = [threading.Thread(target=load, args=(k,)) for k in (None, "a", "b", "c")]
        for thread in threads:
            thread.start()
        for process in ["sequencer", "deliverer-1", "sequencer"]:
            seen = len(rig.receiver.requests())
            wait_for(lambda: len(rig.receiver.requests()) > seen + 20)
            rig[process].restart()
        for thread in threads:
            thread.join(60)
        rig.settle()
        for mine in events.values():
            self.assertEqual(len(mine), 40)
            self.assertEqual(self.order(rig, *mine), mine)
            last = -1
            for request in rig.receiver.requests():
                if request.id in mine:
                    self.assertIn(mine.index(request.id), (last, last + 1))
                    last = mine.index(request.id)

    def test_a_consumer_gets_one_event_of_a_key_at_a_time(self):
        """P5: of a pull endpoint."""
        rig = self.pipeline(console=True, start=False)
        rig.config["endpoints"] = [{"name": "crm", "transport": "pull",
                                    "ordered": "workspace"}]
        rig.write_config()
        rig.start()
        first, second, other, none = (self.publish(rig, k) for k in ("a", "a", "b", None))

        def post(what, **body):
            status, _, text = http_request(
                rig.console_port, "POST", f"/api/v1/pull/crm/{what}",
                json.dumps(body).encode(), {"Authorization": f"Bearer {TOKEN}",
                                            "Content-Type": "application/json"})
            return json.loads(text) if status == 200 else {"deliveries": []}
        taken = {}

        def take():
            reply = post("take", wait="1s", max=10)
            taken.update({d["event_id"]: reply["take"] for d in reply["deliveries"]})
            return taken
        wait_for(lambda: set(take()) >= {first, other, none})
        self.assertEqual(post("take", max=10)["deliveries"], [])
        post("ack", take=taken[first], deliveries=[first])
        wait_for(lambda: second in take())

    # dead letters and replays

    def halted(self, rig):
        """A key's lane that its first event halts, and one that waits behind it."""
        rig.receiver.rules({"path": "/dead", "responses": [{"status": 503}]})
        first = self.publish(rig, "a", path="/dead")
        second = self.publish(rig, "a")
        letter = wait_for(lambda: rig.ask("dlqd", "dlq")["dead_letters"])[0]
        return first, second, letter["id"]

    def test_a_dead_letter_halts_the_lane_of_its_key(self):
        rig = self.pipeline(on_dead="halt", retry_policy="twice")
        first, second, letter = self.halted(rig)
        rig["sequencer"].restart()
        for key in ("b", None):
            rig.wait_status(self.publish(rig, key))
        self.assertEqual(self.statuses(rig, second), ["waiting"])
        self.assertEqual(
            [(h["workspace"], h["ordering_key"], h["dead_letter_id"])
             for h in self.endpoint(rig)["halted"]], [("acme", "a", letter)])
        # The halt follows the deliveries of its key when `ordered` changes.
        for ordered, key in [("all", None), ("workspace", "a")]:
            rig.config["endpoints"][0]["ordered"] = ordered
            rig.write_config()
            rig["sequencer"].reload()
            halt, = wait_for(lambda: self.endpoint(rig)["ordered"] == ordered and
                             self.endpoint(rig)["halted"])
            self.assertEqual(halt["ordering_key"], key)
            self.assertEqual(self.statuses(rig, second), ["waiting"])
        rig.wait_status(self.publish(rig, "b"))
        rig.receiver.rules()
        rig.ask("dlqd", "dlq_retry", id=letter)
        rig.wait_status(second)
        self.assertEqual(self.order(rig, first, second), [first, second])
        self.assertEqual(self.endpoint(rig)["halted"], [])

    def test_what_is_sent_again_is_in_the_lane_of_its_key(self):
        """P5: a dead letter and a delivered event, behind a request in flight."""
        rig = self.pipeline(retry_policy="twice")
        rig.receiver.rules({"path": "/dead", "responses": [{"status": 503}]}, BLACKHOLE)
        before = self.publish(rig, "a")
        dead = self.publish(rig, "a", path="/dead")
        letter = wait_for(lambda: rig.ask("dlqd", "dlq")["dead_letters"])[0]["id"]
        flying = self.publish(rig, "a", path="/hole")
        rig.receiver.wait(flying)
        rig.ask("dlqd", "dlq_retry", id=letter)
        self.assertEqual(rig.cli("resend", before)[1], 0)
        wait_for(lambda: self.statuses(rig, dead, before) == ["waiting", "waiting"])
        rig.wait_status(self.publish(rig, "b"))
        rig.receiver.rules()
        rig.receiver.release()
        rig.settle()
        again = [r.id for r in rig.receiver.requests() if r.delivered
                 and r.id in (before, dead, flying)]
        self.assertEqual(again, [before, flying, before, dead])

    def test_a_dead_letter_brings_its_key_to_an_older_sequencer(self):
        """P5: the sequencer's database is from before the event; dlqd has it."""
        rig = self.pipeline(retry_policy="twice")
        dead, _, letter = self.halted(rig)
        rig.settle()
        rig["sequencer"].stop()
        for table in ("events", "deliveries", "bodies", "dead_letters"):
            rig.change("sequencer", f"DELETE FROM {table}")
        rig["sequencer"].start()
        rig.receiver.rules({"path": "/dead", "responses": [
            {"status": 200, "delay_ms": 60000}]})
        rig.ask("dlqd", "dlq_retry", id=letter)
        rig.receiver.wait(dead, count=3)
        self.assertIn("a requeued event was unknown here", rig["sequencer"].log())
        later = self.publish(rig, "a")
        rig.wait_status(self.publish(rig, "b"))
        self.assertEqual(self.statuses(rig, later), ["waiting"])
        self.assertEqual(rig.trace(dead)["ordering_key"], "a")
        rig.receiver.release()
        rig.wait_status(later)

    # what a key may be

    def test_a_key_that_is_not_one_is_refused(self):
        rig = self.pipeline()
        for key, why in [("", "must not be empty"), ("k" * 256, "longer than 255 bytes"),
                         ("a\nb", "control character"), (7, "must be a string")]:
            text = self.publish(rig, key, expect=400)
            self.assertIn("ordering_key", text)
            self.assertIn(why, text)
        rig.wait_status(self.publish(rig, "k" * 255))

    def test_an_idempotency_key_is_for_one_ordering_key(self):
        rig = self.pipeline()
        event = self.publish(rig, "a", id="order-7")
        self.assertEqual(self.publish(rig, "a", id="order-7"), event)
        self.assertIn("idempotency_key_reused", self.publish(
            rig, "b", id="order-7", data={"key": "a"}, expect=422))


main()
