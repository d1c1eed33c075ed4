"""Ordered lanes deliver one event at a time and in order, whatever fails."""

import collections
import contextlib
import hashlib
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

LEASE_MS = 500
TIMEOUT_MS = 500
POLICY = {"name": "quick", "backoff": "fixed", "first_wait": "20ms",
          "jitter": "none", "max_attempts": 3, "max_duration": "1h",
          "retry_on": ["network", "5xx"]}
ONCE = {"path": "/crm", "per": "event",
        "responses": [{"status": 503}, {"status": 200}]}


class Lanes(RigTest):
    def pipeline(self, deliverers=1, ordered="workspace", start=True, **endpoint):
        rig = self.rig(deliverers=deliverers)
        rig.env["GRAPNEL_TEST_LEASE_MS"] = str(LEASE_MS)
        rig.config["endpoint_defaults"] = {
            "timeout": f"{TIMEOUT_MS}ms", "connect_timeout": f"{TIMEOUT_MS}ms",
            "ordered": ordered}
        rig.config["endpoints"] = [rig.endpoint("crm", **endpoint)]
        rig.config["retry_policies"].append(POLICY)
        rig.write_config()
        if start:
            rig.start()
        return rig

    def lane_of(self, request, ordered):
        return request.headers["grapnel-workspace"] if ordered == "workspace" \
            else "all"

    def assert_in_order(self, rig, ordered="workspace", path="/crm"):
        """P5: in a lane, requests are those of one event until that is final,
        then those of the next: every event's requests stand together, and the
        numbers of a workspace only grow. Returns {lane: event ids}."""
        lanes = collections.defaultdict(list)
        numbers = collections.defaultdict(int)
        for request in rig.receiver.requests(path):
            lane = lanes[self.lane_of(request, ordered)]
            if lane and lane[-1] == request.id:
                continue
            self.assertNotIn(request.id, lane, "again, after another")
            lane.append(request.id)
            workspace = request.headers["grapnel-workspace"]
            number = int(request.headers["grapnel-sequence"])
            self.assertGreater(number, numbers[workspace])
            numbers[workspace] = number
        return lanes

    def endpoint(self, rig, name="crm"):
        return rig.ask("sequencer", "endpoint", name=name)

    # one at a time

    def test_an_event_waits_for_the_end_of_the_previous_one(self):
        """P5: while a lane's first event has no response, no other event of it is
        sent; other lanes continue."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"action": "blackhole"}, {"status": 200}]})
        first = rig.accept(rig.plane_body("a"))
        rig.receiver.wait(first)
        second = rig.accept(rig.plane_body("a"))
        others = [rig.accept(rig.plane_body("b")) for _ in range(5)]
        for other in others:
            rig.receiver.wait(other)
        requests = rig.receiver.requests("/crm")
        self.assertNotIn(second, [r.id for r in requests[:1 + len(others)]])
        rig.settle()
        lanes = self.assert_in_order(rig)
        self.assertEqual(lanes, {"a": [first, second], "b": others})

    def test_order_holds_through_failures(self):
        """P5: each event fails once and is retried before the next one begins."""
        for ordered in ["workspace", "all"]:
            with self.subTest(ordered):
                rig = self.pipeline(deliverers=2, ordered=ordered)
                rig.receiver.rules(ONCE)
                load = rig.load(count=200, workspaces=20)
                load.result()
                rig.judge(load)
                self.assert_in_order(rig, ordered)

    def test_lanes_do_not_slow_each_other(self):
        """Five hundred lanes fill the window of an endpoint, however much waits
        behind each head."""
        rig = self.pipeline(start=False, max_in_flight=64, timeout="60s")
        rig.start("ingress", "sequencer", "dlqd")
        load = rig.load(count=2000, workspaces=500, rate=0)
        load.result()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 60000}]})
        rig.start()
        wait_for(lambda: rig.receiver.stats()["paths"].get("/crm", {}).get(
            "max_in_flight") == 64, what="the window to be full")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.receiver.release()
        rig.judge(load, timeout=120)
        self.assert_in_order(rig)

    def test_a_noisy_workspace_does_not_starve_the_rest(self):
        """Workspaces take turns: an event of a quiet one is sent among the first,
        though hundreds of a noisy one waited before it."""
        for ordered in ["none", "workspace"]:
            with self.subTest(ordered):
                rig = self.pipeline(ordered=ordered, max_in_flight=1)
                rig.cli("endpoints", "pause", "crm")
                rig.load(count=500, workspaces=1).result()
                quiet = [rig.accept(rig.plane_body(f"quiet-{i}"))
                         for i in range(5)]
                wait_for(lambda: self.endpoint(rig)["waiting"] == 505)
                rig.cli("endpoints", "resume", "crm")
                rig.settle()
                order = [r.id for r in rig.receiver.requests("/crm")]
                self.assertLess(max(map(order.index, quiet)), 150)

    def waits(self, rig, noisy, more):
        """So many deliveries of one workspace, and behind them those of `more`; paused."""
        rig.cli("endpoints", "pause", "crm")
        loads = [rig.load(count=noisy, workspaces=1), rig.load(**more)]
        for load in loads:
            load.result()
        count = noisy + more["count"]
        wait_for(lambda: self.endpoint(rig)["waiting"] == count)
        return [{a["id"] for a in load.acks()} for load in loads]

    def sent(self, rig):
        rig.cli("endpoints", "resume", "crm")
        rig.settle()
        return [r.id for r in rig.receiver.requests("/crm")]

    def test_new_workspaces_do_not_stop_the_rest(self):
        """The first events of a workspace are before the backlog of the others, but
        only in every second batch."""
        rig = self.pipeline(ordered="none", max_in_flight=1)
        noisy, new = self.waits(rig, 200, {
            "count": 400, "first": 1_000_000, "workspaces": 10_000_000})
        order = self.sent(rig)
        self.assertLess(max(map(order.index, noisy)), 450)
        self.assertLess(min(map(order.index, new)), 50)

    def test_a_restart_keeps_the_order_of_a_backlog(self):
        """What a workspace sends after a restart is behind what it sent before, and
        a quiet workspace is before both."""
        rig = self.pipeline(ordered="none", max_in_flight=1)
        rig.cli("endpoints", "pause", "crm")
        before = rig.load(count=600, workspaces=1)
        before.result()
        wait_for(lambda: self.endpoint(rig)["waiting"] == 600)
        rig["sequencer"].restart()
        after = rig.load(count=20, workspaces=1, first=1_000_000)
        after.result()
        quiet = rig.accept(rig.plane_body("quiet"))
        wait_for(lambda: self.endpoint(rig)["waiting"] == 621)
        order = self.sent(rig)
        self.assertGreaterEqual(
            min(order.index(a["id"]) for a in after.acks()), 600)
        self.assertLess(order.index(quiet), 50)

    # through dead letters

    def test_order_holds_through_kills(self):
        """P5, P3: kill -9 of each process in turn, under load."""
        rig = self.pipeline(deliverers=2)
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503}, {"status": 200, "delay_ms": 5}]})
        load = rig.load(count=600, workspaces=12, rate=150)
        for name in ["deliverer-1", "sequencer", "deliverer-2", "dlqd",
                     "sequencer", "deliverer-1"]:
            seen = len(rig.receiver.requests("/crm"))
            wait_for(lambda: len(rig.receiver.requests("/crm")) > seen + 30
                     or not load.alive)
            rig[name].restart()
        load.result()
        rig.judge(load, timeout=120)
        self.assert_no_overtaking(rig, delay_ms=5)

    def assert_no_overtaking(self, rig, ordered="workspace", delay_ms=0):
        """P5 where a response may have died with a process: an event may come
        again, but never behind a later one of its lane, and none before the one
        in front was answered (2xx responses take `delay_ms`)."""
        before = {}
        for request in rig.receiver.requests("/crm"):
            lane = self.lane_of(request, ordered)
            number = int(request.headers["grapnel-sequence"])
            last, request_before = before.get(lane, (0, None))
            self.assertGreaterEqual(number, last, request)
            if number > last and request_before:
                self.assertTrue(request_before.delivered, request)
                self.assertGreaterEqual(
                    request.at_ms - request_before.at_ms, delay_ms, request)
            before[lane] = number, request

    def test_order_holds_when_a_frozen_owner_wakes(self):
        """P5: its lanes move when it is stopped for longer than its lease; when it
        wakes it sends no event that the new owner has passed."""
        rig = self.pipeline(deliverers=2)
        rig.receiver.rules(ONCE)
        load = rig.load(count=400, workspaces=10, rate=200)
        wait_for(lambda: self.endpoint(rig)["owner"] and
                 len(rig.receiver.requests("/crm")) > 20)
        owner = self.endpoint(rig)["owner"]
        rig[owner].pause()
        wait_for(lambda: self.endpoint(rig)["owner"] not in (owner, None),
                 what="another owner")
        rig[owner].resume()
        load.result()
        rig.judge(load, timeout=120)
        self.assert_no_overtaking(rig)

    def test_a_stopping_deliverer_hands_its_lanes_over_in_order(self):
        """P5: after a SIGTERM another deliverer makes the scheduled retries, in
        order."""
        rig = self.pipeline(deliverers=2)
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503, "times": 2}, {"status": 200}]})
        load = rig.load(count=200, workspaces=10, rate=100)
        wait_for(lambda: len(rig.receiver.requests("/crm")) > 20)
        owner = self.endpoint(rig)["owner"]
        self.assertEqual(rig[owner].stop(), 0)
        load.result()
        rig.judge(load, timeout=120)
        self.assert_in_order(rig)

    # dead letters

    def dead_letter(self, rig, event):
        def found():
            dead_letters, _ = rig.cli("dlq", "--state", "all")
            return [x for x in dead_letters if x["event_id"] == event
                    and x["state"] == "dead"]
        return wait_for(found, what=f"a dead letter of {event}")[0]

    def first_dies(self, rig):
        """Rules: the first event dies, all else is delivered."""
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 503, "times": POLICY["max_attempts"]}, {"status": 200}]})

    def test_a_lane_continues_after_a_dead_letter(self):
        """P5: with on_dead: continue; the dead letter is sent again when an
        operator asks for it."""
        rig = self.pipeline(retry_policy="quick")
        self.first_dies(rig)
        first, second = (rig.accept(rig.plane_body("a")) for _ in range(2))
        rig.wait_status(second)
        dead_letter = self.dead_letter(rig, first)
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        rig.receiver.wait(first, count=POLICY["max_attempts"] + 1)
        rig.settle()

    def test_a_requeue_is_sent_before_the_waiting_deliveries_of_its_lane(self):
        """P5: a requeue is sent before all that wait in its lane, after those in flight."""
        rig = self.pipeline(retry_policy="quick", timeout="60s")
        self.first_dies(rig)
        first = rig.accept(rig.plane_body("a"))
        dead_letter = self.dead_letter(rig, first)
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 60000}, {"status": 200}]})
        rest = [rig.accept(rig.plane_body("a")) for _ in range(3)]
        rig.receiver.wait(rest[0])
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        wait_for(lambda: rig.trace(first)["deliveries"][0]["status"] == "waiting",
                 what="the requeue to be in its lane")
        rig.receiver.release()
        rig.settle()
        order = [r.id for r in rig.receiver.requests("/crm")]
        self.assertEqual(order[POLICY["max_attempts"]:],
                         [rest[0], first, rest[1], rest[2]])

    def halted(self, rig):
        """A lane that its first event halts, with one waiting behind."""
        self.first_dies(rig)
        first, second = (rig.accept(rig.plane_body("a")) for _ in range(2))
        dead_letter = self.dead_letter(rig, first)
        other = rig.accept(rig.plane_body("b"))
        rig.wait_status(other)
        shown, = self.endpoint(rig)["halted"]
        self.assertEqual((shown["workspace"], shown["event_id"],
                          shown["dead_letter_id"]), ("a", first, dead_letter["id"]))
        self.assertEqual(rig.receiver.requests("/crm", second), [])
        return first, second, dead_letter["id"]

    def goes_on(self, rig, second):
        rig.wait_status(second)
        self.assertEqual(self.endpoint(rig)["halted"], [])

    def test_a_halted_lane_continues_when_its_dead_letter_is_delivered(self):
        """P5: with on_dead: halt; other lanes continue, and a restart keeps the
        halt."""
        rig = self.pipeline(retry_policy="quick", on_dead="halt")
        first, second, dead_letter = self.halted(rig)
        rig["sequencer"].restart()
        self.assertEqual(rig.receiver.requests("/crm", second), [])
        self.assertEqual(rig.cli("dlq", "retry", dead_letter)[1], 0)
        self.goes_on(rig, second)
        rig.settle()
        order = [r.id for r in rig.receiver.requests("/crm") if
                 r.headers["grapnel-workspace"] == "a"]
        self.assertEqual(order[-2:], [first, second])

    def test_a_halted_lane_continues_after_a_decision(self):
        """P5: resolved or discarded, with a note that is stored."""
        for word, state in [("resolve", "resolved"), ("discard", "discarded")]:
            with self.subTest(word):
                rig = self.pipeline(retry_policy="quick", on_dead="halt")
                first, second, dead_letter = self.halted(rig)
                self.assertEqual(rig.cli("dlq", word, dead_letter)[1], 64)
                shown, code = rig.cli("dlq", word, dead_letter, "--note", "by hand")
                self.assertEqual((code, shown["state"], shown["note"]),
                                 (0, state, "by hand"))
                self.goes_on(rig, second)
                self.assertEqual(rig.cli("dlq", "retry", dead_letter)[1], 1)
                self.assertEqual(
                    rig.cli("dlq", word, dead_letter, "--note", "x")[1], 1)
                listed, _ = rig.cli("dlq", "--state", state)
                self.assertEqual([x["id"] for x in listed], [dead_letter])
                rig.settle()
                self.assertEqual(rig.rows("dlqd", "SELECT * FROM decisions"), [])
                self.assertIn("by hand", str(rig.trace(first)["timeline"]))

    def test_a_decision_reaches_a_sequencer_that_was_down(self):
        """P5, P3: also after kill -9 of either end before it arrives."""
        rig = self.pipeline(retry_policy="quick", on_dead="halt")
        _, second, dead_letter = self.halted(rig)
        rig["sequencer"].kill()
        self.assertEqual(
            rig.cli("dlq", "discard", dead_letter, "--note", "x")[1], 0)
        rig["dlqd"].restart()
        rig["sequencer"].start()
        self.goes_on(rig, second)

    def test_a_halted_lane_can_continue_though_its_dead_letter_is_lost(self):
        """P5: the dead letter is lost with dlqd's disk; a resend that is delivered
        ends the halt."""
        rig = self.pipeline(retry_policy="quick", on_dead="halt")
        first, second, dead_letter = self.halted(rig)
        rig["dlqd"].kill()
        for path in rig.state_dir.glob("dlqd.db*"):
            path.unlink()
        rig["dlqd"].start()
        self.assertEqual(rig.cli("dlq", "resolve", dead_letter, "--note", "x")[1], 1)
        self.assertEqual(
            rig.cli("resend", first, "--endpoint", "crm")[1], 0)
        self.goes_on(rig, second)
        rig.receiver.wait(second)
        order = [r.id for r in rig.receiver.requests("/crm") if
                 r.headers["grapnel-workspace"] == "a"]
        self.assertEqual(order[-2:], [first, second])

    def test_a_lane_stays_halted_when_its_dead_letter_fails_again(self):
        rig = self.pipeline(retry_policy="quick", on_dead="halt")
        first, second, dead_letter = self.halted(rig)
        self.first_dies(rig)
        self.assertEqual(rig.cli("dlq", "retry", dead_letter)[1], 0)
        rig.receiver.wait(first, count=2 * POLICY["max_attempts"])
        self.dead_letter(rig, first)
        wait_for(lambda: len(self.endpoint(rig)["halted"]) == 1)
        self.assertEqual(rig.receiver.requests("/crm", second), [])

    def test_a_lane_stays_halted_under_another_owner(self):
        """P5: the halt belongs to the lane."""
        rig = self.pipeline(deliverers=2, retry_policy="quick", on_dead="halt")
        _, second, dead_letter = self.halted(rig)
        owner = self.endpoint(rig)["owner"]
        self.assertEqual(rig[owner].stop(), 0)
        rig.receiver.wait(rig.accept(rig.plane_body("b")))
        self.assertNotEqual(self.endpoint(rig)["owner"], owner)
        self.assertEqual(rig.receiver.requests("/crm", second), [])
        self.assertEqual(
            rig.cli("dlq", "resolve", dead_letter, "--note", "x")[1], 0)
        self.goes_on(rig, second)

    def test_removing_an_endpoint_ends_its_halted_lanes(self):
        """P2, P5: deliveries behind the dead letter become dead letters. When the
        endpoint is configured again, its lanes are free."""
        rig = self.pipeline(retry_policy="quick", on_dead="halt")
        rig.config["endpoints"].append(rig.endpoint("other", types=["x.*"]))
        first, second, dead_letter = self.halted(rig)
        kept = rig.config["endpoints"]
        for endpoints in (kept[1:], kept):
            rig.config["endpoints"] = endpoints
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            dead = self.dead_letter(rig, second)
            self.assertEqual(dead["reason"], "endpoint_removed")
        third = rig.accept(rig.plane_body("a"))
        rig.wait_status(third)
        for event, id_ in [(first, dead_letter), (second, dead["id"])]:
            self.assertEqual(rig.cli("dlq", "retry", id_)[1], 0)
            rig.wait_status(event)
        rig.settle()
        self.assertEqual(self.endpoint(rig)["halted"], [])
        order = [r.id for r in rig.receiver.requests("/crm") if r.delivered
                 and r.headers["grapnel-workspace"] == "a"]
        self.assertEqual(order, [third, first, second])

    def test_a_halted_lane_continues_when_on_dead_changes(self):
        rig = self.pipeline(retry_policy="quick", on_dead="halt")
        _, second, _ = self.halted(rig)
        rig.config["endpoints"][0]["on_dead"] = "continue"
        rig.write_config()
        rig["sequencer"].reload()
        self.goes_on(rig, second)

    # reload

    def test_a_reload_can_change_ordered(self):
        """P5: waiting deliveries are sent in order when an endpoint becomes
        ordered, and in parallel when it is no longer ordered."""
        rig = self.pipeline(ordered="none")
        rig.cli("endpoints", "pause", "crm")
        events = [rig.accept(rig.plane_body(f"w{i % 3}")) for i in range(60)]
        wait_for(lambda: self.endpoint(rig)["waiting"] == len(events))
        for ordered in ["all", "workspace", "none", "workspace"]:
            rig.config["endpoint_defaults"]["ordered"] = ordered
            rig.write_config()
            rig["sequencer"].reload()
            wait_for(lambda: self.endpoint(rig)["ordered"] == ordered)
        rig["sequencer"].restart()
        rig.receiver.rules(ONCE)
        rig.cli("endpoints", "resume", "crm")
        rig.settle()
        lanes = self.assert_in_order(rig)
        self.assertEqual(sum(map(len, lanes.values())), len(events))

    def test_a_requeue_while_its_endpoint_is_removed_keeps_its_lane(self):
        """P5: a dead letter that is requeued while a removed endpoint's owner still
        has its grant is in its lane when the endpoint is back."""
        rig = self.pipeline(retry_policy="quick", start=False)
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "60000"
        rig.config["endpoints"].append(rig.endpoint("other", types=["x.*"]))
        rig.write_config()
        rig.start()
        self.first_dies(rig)
        first = rig.accept(rig.plane_body("a"))
        dead_letter = self.dead_letter(rig, first)
        rig["deliverer-1"].pause()
        kept = rig.config["endpoints"]
        rig.config["endpoints"] = kept[1:]
        rig.write_config()
        self.assertEqual(rig.ask("sequencer", "reload")["file"],
                         str(rig.config_path))
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        wait_for(lambda: "requeued" in rig["sequencer"].log(),
                 what="the sequencer to have it back")
        rig.config["endpoints"] = kept
        rig.write_config()
        rig.ask("sequencer", "reload")
        rig.receiver.rules(ONCE)
        second = rig.accept(rig.plane_body("a"))
        rig["deliverer-1"].resume()
        rig.wait_status(second)
        rig.settle()
        self.assert_in_order(rig)


class NewWorkspaces(RigTest):
    """Lanes have numbers that ascend with their workspaces."""

    pipeline, lane_of = Lanes.pipeline, Lanes.lane_of
    assert_in_order = Lanes.assert_in_order

    UPGRADE = pathlib.Path(__file__).parents[2] / "sequencer" / "upgrade"
    MIGRATION = UPGRADE / "16-workspace_lanes.sql"
    QUEUE = UPGRADE / "37-queue.sql"

    def load(self, rig, count):
        """`count` events, each the first of a workspace; their ids in order."""
        load = rig.load(count=count, connections=1, first=1_000_000,
                        workspaces=10_000_000, size=300)
        load.result()
        return [a["id"] for a in load.acks()]

    def test_waiting_deliveries_of_new_workspaces_go_in_arrival_order(self):
        """Lanes of new workspaces are at the end of the index; reading them in
        another order would need a cache of the whole index."""
        for ordered in ("none", "workspace"):
            with self.subTest(ordered=ordered):
                rig = self.pipeline(ordered=ordered, max_in_flight=1)
                rig["deliverer-1"].stop()
                came = self.load(rig, 300)
                rig.start("deliverer-1")
                rig.settle()
                self.assertEqual([r.id for r in rig.receiver.requests("/crm")], came)

    def as_an_older_program_left_it(self, rig):
        """Lanes are hashes; then what the first start does to such a store."""
        with contextlib.closing(sqlite3.connect(
                rig.state_dir / "sequencer.db")) as db, db:
            db.create_function("old_lane", 2, lambda lane, name: (
                1 if lane > 0 else -1) * ((int.from_bytes(hashlib.sha256(
                    name.encode()).digest()[:8], "little") >> 2) + 1))
            db.execute("UPDATE deliveries SET lane = old_lane(lane, (SELECT "
                       "workspace FROM events WHERE n = event)) WHERE lane <> 0")
            db.execute("ALTER TABLE workspaces DROP COLUMN lane")
        with contextlib.closing(sqlite3.connect(
                rig.state_dir / "sequencer.db")) as db:
            db.executescript(self.MIGRATION.read_text())

    def taken(self, rig):
        return rig.rows("sequencer", "SELECT count(*) AS n FROM deliveries")[0]["n"]

    def test_a_backlog_of_an_older_database_is_put_into_rounds(self):
        """Each workspace had a lane: the noisy one was first. What its deliverer had
        is sent, too, when that deliverer is lost."""
        rig = self.pipeline(ordered="none", max_in_flight=4, timeout="60s")
        rig.receiver.rules({"path": "/crm", "responses": [{"action": "blackhole"}]})
        load = rig.load(count=1000, workspaces=2)
        load.result()
        wait_for(lambda: len(rig.receiver.requests("/crm")) == 4)
        wait_for(lambda: self.taken(rig) == 1000)
        rig.kill()
        with contextlib.closing(sqlite3.connect(
                rig.state_dir / "sequencer.db")) as db, db:
            db.execute("UPDATE deliveries SET lane = -9223372036854775808 + (SELECT "
                       "w.lane FROM events JOIN workspaces w ON w.name = workspace "
                       "WHERE n = event)")
            db.execute("ALTER TABLE workspaces DROP COLUMN positions")
            db.execute("ALTER TABLE endpoints DROP COLUMN round")
        with contextlib.closing(sqlite3.connect(
                rig.state_dir / "sequencer.db")) as db:
            db.executescript(self.QUEUE.read_text())
            rounds = dict(db.execute(
                "SELECT (lane + 9223372036854775806) / 2, count(*) FROM deliveries "
                "WHERE status = 0 GROUP BY 1"))
        self.assertEqual(rounds[0], 512)
        self.assertEqual(len(rounds), 2)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.start()
        rig.judge(load)

    def test_lanes_of_an_older_database_keep_their_order(self):
        """P5: its lanes are hashes. Waiting deliveries get lanes of today, behind
        those that their deliverer has."""
        for ordered in ("none", "workspace"):
            with self.subTest(ordered=ordered):
                rig = self.pipeline(ordered=ordered)
                rig.receiver.rules({"path": "/crm", "responses": [
                    {"action": "blackhole"}, {"status": 200}]})
                events = [rig.accept(rig.plane_body(f"w{i % 3}"))
                          for i in range(12)]
                rig.receiver.wait(events[0])
                rig.kill()
                self.as_an_older_program_left_it(rig)
                rig.start()
                for event in events:
                    rig.receiver.wait(event)
                rig.settle()
                if ordered == "workspace":
                    self.assert_in_order(rig)

main()
