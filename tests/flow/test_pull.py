"""Pull endpoints: consumers take deliveries over HTTP and end each; what happens when they do not,
when a process is killed meanwhile, and when requests are repeated, late or wrong."""

import base64
import contextlib
import json
import pathlib
import sys
import threading
from datetime import datetime, timezone

import zmq

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, is_signed, main, wait_for

TOKEN = "an-admin-token-of-the-file"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Reply:
    def __init__(self, status, body):
        self.status, self.body = status, body

    def __getattr__(self, name):
        return self.body[name]

    @property
    def events(self):
        return [d["event_id"] for d in self.body["deliveries"]]

    @property
    def error(self):
        return self.body["error"]


class PullTest(RigTest):
    def pull_rig(self, deliverers=1, policy=None, **endpoint):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True,
                       deliverers=deliverers)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull",
                                    "signing_secrets": [SECRET], **endpoint}]
        if policy:
            rig.config["retry_policies"] = [{"name": "default", **policy}]
        rig.write_config()
        return rig.start()

    def post(self, rig, path, body=None, key=None, token=TOKEN, timeout=40):
        headers = {"Authorization": f"Bearer {token}",
                   "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        status, _, text = http_request(
            rig.console_port, "POST", f"/api/v1/pull/{path}",
            json.dumps(body or {}).encode(), headers, timeout=timeout)
        return Reply(status, json.loads(text))

    def take(self, rig, endpoint="jobs", **body):
        """Until there is something: at the start a deliverer gets the endpoint first."""
        key = body.pop("key", None)

        def taken():
            reply = self.post(rig, f"{endpoint}/take", {"wait": "5s", **body}, key)
            return reply if reply.status == 200 and reply.take else None
        return wait_for(taken, what="a take")

    def attempts(self, rig, event):
        return [(a["outcome"], a["reason"])
                for a in rig.ask("deliverer-1", "trace", id=event)["attempts"]]

    def wait_dead(self, rig, event):
        """Its only delivery, when it is dead."""
        delivery, = wait_for(lambda: [d for d in rig.deliveries(event)
                                      if d["status"] == "dead"],
                             what=f"{event} to be dead")
        return delivery

    def end(self, rig, how, take, **body):
        return self.post(rig, f"jobs/{how}", {"take": take.take, **body})


class Consumers(PullTest):
    def test_a_consumer_gets_what_an_endpoint_gets_and_acknowledges_it(self):
        rig = self.pull_rig()
        body = rig.plane_body(workspace="acme")
        event = rig.accept(body)
        take = self.take(rig, lease="30s")
        one, = take.deliveries
        self.assertEqual((one["event_id"], one["workspace"], one["source"],
                          one["sequence"], one["attempt"]),
                         (event, "acme", "plane", 1, 1))
        self.assertEqual((one["body"].encode(), one["body_base64"]), (body, None))
        headers = {name.lower(): value for name, value in one["headers"]}
        self.assertEqual((headers["webhook-id"], headers["grapnel-type"],
                          headers["content-type"]),
                         (event, one["type"], "application/json"))
        self.assertTrue(is_signed(type("Request", (), {
            "headers": headers, "body": body, "id": event}), SECRET))
        waiting, = rig.ask("deliverer-1", "trace", id=event)["waiting"]
        self.assertEqual(waiting["state"], "in_flight")
        for _ in range(2):  # a repeat changes nothing
            reply = self.end(rig, "ack", take, deliveries=[event])
            self.assertEqual((reply.status, reply.body),
                             (200, {"deliveries": [event], "open": 0}))
        trace = rig.wait_status(event)
        self.assertEqual(self.attempts(rig, event), [("delivered", None)])
        self.assertEqual(trace["deliveries"][0]["status"], "delivered")
        again = self.post(rig, "jobs/take")
        self.assertEqual((again.take, again.deliveries), (None, []))

    def test_bodies_that_are_not_text_come_in_base64_and_large_ones_in_several_takes(self):
        rig = self.pull_rig(max_in_flight=100)
        bodies = {}
        for i in range(8):
            body = rig.plane_body(text=("x" * 700_000) + str(i))
            bodies[rig.accept(body)] = body
        got = {}
        while len(got) < len(bodies):
            take = self.take(rig, max=100)
            self.assertLessEqual(sum(len(d["body"]) for d in take.deliveries),
                                 2 * 1024 * 1024)
            got.update((d["event_id"], d["body"].encode()) for d in take.deliveries)
            self.end(rig, "ack", take)
        self.assertEqual(got, bodies)
        rig.config["sources"].append(
            {"name": "raw", "provider": "custom", "secrets": ["token-of-raw"],
             "type": "header:X-Type", "verify": {"scheme": "shared-token",
                                                  "header": "X-Token"}})
        rig.write_config()
        for name in ("ingress", "sequencer"):
            rig[name].reload()
        raw = bytes(range(256))

        def accepted():
            status, _, said = rig.post(raw, source="raw", headers={
                "X-Token": "token-of-raw", "X-Type": "t"})
            return status == 200 and said["id"]
        event = wait_for(accepted)
        one, = self.take(rig).deliveries
        self.assertEqual((one["event_id"], one["body"],
                          base64.b64decode(one["body_base64"])), (event, None, raw))

    def test_retry_and_dead_end_an_attempt_as_failed(self):
        rig = self.pull_rig(policy={"backoff": "fixed", "first_wait": "10ms",
                                    "max_attempts": 3})
        events = [rig.accept()]
        take = self.take(rig)
        events.append(rig.accept())
        # A delay is kept, and three attempts are the budget.
        self.end(rig, "retry", take, delay="1h", note="the database is away")
        wait_for(lambda: [d for d in rig.deliveries(events[0])
                          if d["status"] == "retrying"])
        self.assertIn("the database is away", rig.cli_text("trace", events[0]).stdout)
        take = self.take(rig)
        self.assertEqual(take.events, [events[1]])
        self.assertEqual(self.end(rig, "dead", take, note="no such customer").status, 200)
        self.assertEqual(self.wait_dead(rig, events[1])["reason"], "rejected")
        letter, = wait_for(lambda: rig.ask("dlqd", "dlq")["dead_letters"])
        self.assertIn("no such customer", json.dumps(letter))
        for how in ("ack", "retry"):
            reply = self.end(rig, how, take)
            self.assertEqual((reply.status, reply.error["code"]), (409, "refused"))
        # An operator's retry makes the delayed one due.
        rig.cli("retry", events[0])
        for attempt in (2, 3):
            take = self.take(rig)
            self.assertEqual([(d["event_id"], d["attempt"]) for d in take.deliveries],
                             [(events[0], attempt)])
            self.end(rig, "retry", take, delay="0s")
        self.assertEqual(self.wait_dead(rig, events[0])["reason"], "budget_attempts")

    def test_an_ended_lease_is_a_failed_attempt_and_its_lane_waits_for_it(self):
        rig = self.pull_rig(ordered="workspace")
        first, second = [rig.accept(rig.plane_body(workspace="acme"))
                         for _ in range(2)]
        other = rig.accept(rig.plane_body(workspace="other"))
        taken = {}
        while set(taken) != {first, other}:
            take = self.take(rig, lease="2s", key=f"k{len(taken)}")
            taken.update((event, take) for event in take.events)
            self.assertNotIn(second, taken)
        self.end(rig, "ack", taken[other], deliveries=[other])
        again = self.take(rig, lease="30s")  # waits until the lease of `first` has ended
        self.assertEqual([(d["event_id"], d["attempt"]) for d in again.deliveries],
                         [(first, 2)])
        self.assertEqual(self.attempts(rig, first), [("retrying", "lease_expired")])
        # Too late: recorded, but the second consumer has it, and its lane waits for that one.
        late = self.end(rig, "ack", taken[first], deliveries=[first])
        self.assertEqual((late.status, late.error["code"]), (409, "refused"))
        self.assertEqual(self.post(rig, "jobs/take").deliveries, [])
        self.end(rig, "retry", again, deliveries=[first], delay="0s")
        rig.wait_status(first)  # the late acknowledgement counts
        take = self.take(rig)
        self.assertEqual(take.events, [second])

    def test_a_late_acknowledgement_delivers(self):
        rig = self.pull_rig()
        event = rig.accept()
        take = self.take(rig, lease="1s")
        wait_for(lambda: rig.rows("deliverer-1", "SELECT 1 FROM taken WHERE state = 4"),
                 what="the lease to end")
        for _ in range(2):
            self.assertEqual(self.end(rig, "ack", take).status, 409)
        rig.wait_status(event)
        self.assertEqual(self.attempts(rig, event),
                         [("retrying", "lease_expired"), ("delivered", None)])
        self.assertEqual(self.post(rig, "jobs/take").deliveries, [])

    def test_two_consumers_share_and_each_delivery_is_taken_once(self):
        rig = self.pull_rig(max_in_flight=20)
        events = {rig.accept() for _ in range(60)}
        got, lock = [], threading.Lock()

        def consume():
            while len(got) < len(events):
                reply = self.post(rig, "jobs/take", {"max": 7, "wait": "300ms"})
                if reply.status != 200 or not reply.take:
                    continue
                with lock:
                    got.extend(reply.events)
                self.assertEqual(self.end(rig, "ack", reply).status, 200)
        threads = [threading.Thread(target=consume) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((len(got), set(got)), (60, events))
        rig.settle()

    def test_max_in_flight_bounds_what_consumers_have(self):
        rig = self.pull_rig(max_in_flight=3)
        for _ in range(5):
            rig.accept()
        taken = []
        while len(taken) < 3:
            taken += self.take(rig).events
        self.assertEqual(self.post(rig, "jobs/take").deliveries, [])


class Waiting(PullTest):
    def test_a_waiting_take_gets_the_next_event_and_delays_nobody(self):
        rig = self.pull_rig()
        rig.accept()
        self.end(rig, "ack", self.take(rig))
        replies = []
        callers = [threading.Thread(target=lambda: replies.append(
            self.post(rig, "jobs/take", {"wait": "30s", "max": 1})))
            for _ in range(12)]
        for c in callers:
            c.start()
        wait_for(lambda: rig.number("grapnel_takes_waiting") == 12)
        # Twelve wait at the deliverer; others get their replies.
        self.assertEqual(self.post(rig, "jobs/take").take, None)
        self.assertEqual(rig.ask("deliverer-1", "ping")["process"], "deliverer-1")
        for _ in range(12):
            rig.accept()
        for c in callers:
            c.join()
        self.assertEqual([(r.status, len(r.deliveries)) for r in replies], [(200, 1)] * 12)

    def test_waiting_takes_are_bounded(self):
        rig = self.pull_rig()
        rig.accept()
        self.end(rig, "ack", self.take(rig))
        replies = []
        callers = [threading.Thread(target=lambda: replies.append(
            self.post(rig, "jobs/take", {"wait": "2s"}))) for _ in range(20)]
        for c in callers:
            c.start()
        for c in callers:
            c.join()
        statuses = sorted(r.status for r in replies)
        self.assertEqual(statuses, [200] * 16 + [503] * 4)
        # The deliverer has bounds of its own.
        with contextlib.ExitStack() as stack:
            callers = []
            for _ in range(17):
                s = stack.enter_context(zmq.Context.instance().socket(zmq.REQ))
                s.linger = 0
                s.connect(f"ipc://{rig.run_dir}/deliverer-1.control")
                s.send_json({"v": 1, "ask": "pull_take", "by": {"actor": "token x"},
                             "args": {"endpoint": "jobs", "wait_ms": 30000}})
                callers.append(s)
            refused = wait_for(lambda: [s for s in callers if s.poll(0)])
            self.assertEqual([s.recv_json()["code"] for s in refused], ["busy"])

    def test_nothing_is_given_to_a_client_that_has_gone(self):
        rig = self.pull_rig()
        rig.accept()
        self.end(rig, "ack", self.take(rig))
        with contextlib.suppress(TimeoutError, OSError):
            self.post(rig, "jobs/take", {"wait": "30s"}, timeout=0.5)
        wait_for(lambda: "takes_waiting 1" in rig.console_page("/metrics")[1]
                 or rig.number("grapnel_takes_waiting") == 1)
        # The console notices within a second, and the deliverer when it replies.
        context = zmq.Context.instance()
        with context.socket(zmq.REQ) as leaver:
            leaver.linger = 0
            leaver.connect(f"ipc://{rig.run_dir}/deliverer-1.control")
            leaver.send_json({"v": 1, "ask": "pull_take", "args": {
                "endpoint": "jobs", "wait_ms": 30000}})
            wait_for(lambda: rig.number("grapnel_takes_waiting") == 2)
        threading.Event().wait(1.5)  # for the console's look at its clients
        event = rig.accept()
        take = self.take(rig)
        self.assertEqual([(d["event_id"], d["attempt"]) for d in take.deliveries],
                         [(event, 1)])


class Ends(PullTest):
    def test_a_take_whose_reply_was_lost_is_the_same_after_a_kill(self):
        rig = self.pull_rig()
        event = rig.accept()
        rig.wait_status(event, "routed")
        by = {"actor": "token x", "owner": "token x", "key": "k1"}
        context = zmq.Context.instance()

        def ask(digest="d" * 64):
            with context.socket(zmq.REQ) as s:
                s.linger = 0
                s.connect(f"ipc://{rig.run_dir}/deliverer-1.control")
                s.send_json({"v": 1, "ask": "pull_take", "args": {"endpoint": "jobs"},
                             "by": {**by, "digest": digest}})
                wait_for(lambda: s.poll(0) or
                         rig.rows("deliverer-1", "SELECT 1 FROM takes"))
                s.poll(5000)
                return s.recv_json()

        first = wait_for(lambda: (r := ask())["ok"] and r["reply"]["take"] and r)["reply"]
        rig["deliverer-1"].kill()
        rig["deliverer-1"].start()
        again = wait_for(lambda: (r := ask())["ok"] and r)["reply"]
        self.assertEqual((again["take"], again["until"]), (first["take"], first["until"]))
        self.assertEqual([d["event_id"] for d in again["deliveries"]], [event])
        self.assertEqual(again["deliveries"][0]["headers"],
                         first["deliveries"][0]["headers"])
        self.assertEqual(ask("e" * 64)["code"], "key_reused")
        reply = self.post(rig, "jobs/ack", {"take": first["take"]})
        self.assertEqual(reply.status, 200)
        self.assertEqual(ask()["code"], "refused")
        rig.wait_status(event)

    def test_a_take_outlives_a_restart_of_everything(self):
        rig = self.pull_rig()
        events = {rig.accept() for _ in range(3)}
        take = self.take(rig, lease="60s")
        while set(take.events) != events:
            self.end(rig, "retry", take, delay="0s")
            take = self.take(rig, lease="60s")
        self.assertEqual(self.end(rig, "ack", take, deliveries=take.events[:1]).open, 2)
        self.assertEqual(set(rig.stop().values()), {0})
        rig.start()
        # The endpoint is where it was, and gives out what is new.
        other = rig.accept()
        self.assertEqual(self.take(rig).events, [other])
        self.assertEqual(self.end(rig, "ack", take).open, 0)
        for event in events:
            rig.wait_status(event)

    def test_a_grant_ends_only_when_its_takes_have_ended(self):
        rig = self.pull_rig()
        event = rig.accept()
        take = self.take(rig, lease="60s")
        rig.config["endpoints"][0]["max_in_flight"] = 7
        rig.write_config()
        rig["sequencer"].reload()
        wait_for(lambda: "releasing an endpoint" in rig["deliverer-1"].log())
        self.assertEqual(self.post(rig, "jobs/take").status, 503)
        self.assertEqual(rig.rows("deliverer-1", "SELECT 1 FROM grants WHERE state > 1"), [])
        self.assertEqual(self.end(rig, "ack", take).status, 200)
        rig.wait_status(event)
        other = rig.accept()
        self.assertEqual(self.take(rig).events, [other])

    def test_endpoints_move_to_another_deliverer_when_their_takes_have_ended(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True, deliverers=2)
        names = [f"jobs-{i}" for i in range(6)]
        rig.config["endpoints"] = [{"name": n, "transport": "pull"} for n in names]
        rig.write_config()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.start("ingress", "sequencer", "dlqd", "console", "deliverer-1")
        event = rig.accept()
        takes = {n: self.take(rig, n) for n in names}
        rig.start("deliverer-2")
        moving = wait_for(lambda: [n for n in names if f"releasing an endpoint endpoint={n}"
                                   in rig["deliverer-1"].log()], what="endpoints to move")
        self.assertEqual(rig.rows("deliverer-2", "SELECT * FROM tasks"), [])
        for name, take in takes.items():
            reply = self.post(rig, f"{name}/ack", {"take": take.take})
            self.assertEqual((reply.status, reply.deliveries), (200, [event]))
        rig.wait_status(event)
        other = rig.accept()
        after = {n: self.take(rig, n) for n in names}
        self.assertEqual({n: t.events for n, t in after.items()}, {n: [other] for n in names})
        self.assertTrue(all(after[n].take.endswith("deliverer-2") for n in moving))

    def test_a_lost_deliverer_delays_its_deliveries_by_a_lease(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True, deliverers=2)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull", "timeout": "3s",
                                    "ordered": "all"}]
        rig.write_config()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.start()
        event = rig.accept()
        first = self.take(rig)
        owner = first.take.rsplit("_", 1)[1]
        rig[owner].kill()
        second = self.take(rig)  # after the silence, which is longer than the lease
        self.assertEqual(second.events, [event])
        self.assertNotIn(owner, second.take)
        behind = rig.accept()
        rig[owner].start()
        wait_for(lambda: rig.rows(owner, "SELECT 1 FROM taken WHERE state = 4"))
        # Too late, but the event was processed: the second consumer need not, and the lane
        # waits for it.
        self.assertEqual(self.end(rig, "ack", first).status, 409)
        wait_for(lambda: rig.deliveries(event)[0]["status"] == "delivered")
        third = self.post(rig, "jobs/take")
        if third.body.get("deliveries"):  # on a slow machine the second one's lease is over
            self.assertLess(second.until, datetime.now(timezone.utc).isoformat())
        else:
            self.end(rig, "retry", second, delay="0s")
            third = self.take(rig)
        self.assertEqual(third.events, [behind])

    def test_the_clock_may_be_set_while_a_lease_runs(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull"}]
        rig.write_config()
        rig.step_clock(0)
        rig.start()
        for by in (3600, -3600):
            event = rig.accept()
            take = self.take(rig, lease="60s")
            rig.step_clock(by)
            wait_for(lambda: rig.ask("deliverer-1", "ping"))
            self.assertEqual(self.post(rig, "jobs/take").body["deliveries"], [])
            reply = self.end(rig, "ack", take)
            self.assertEqual((reply.status, reply.body.get("deliveries")), (200, [event]))

    def test_an_operator_does_not_interfere_with_what_a_consumer_has(self):
        rig = self.pull_rig(ordered="all")
        event = rig.accept()
        self.end(rig, "retry", self.take(rig), delay="0s")
        take = self.take(rig)
        behind = rig.accept()
        wait_for(lambda: rig.deliveries(event)[0]["status"] == "retrying")
        rig.cli("retry", event)
        rig.ask("deliverer-1", "ping")
        self.assertEqual(self.post(rig, "jobs/take").deliveries, [])
        rig.cli("abandon", event, "--endpoint", "jobs", "--note", "not wanted")
        wait_for(lambda: rig.rows("deliverer-1", "SELECT 1 FROM taken WHERE dropped = 1"))
        # The lane waits for the consumer, whose end does not change the delivery.
        self.assertEqual(self.post(rig, "jobs/take", {"wait": "500ms"}).deliveries, [])
        self.assertEqual(self.end(rig, "retry", take, delay="0s").status, 200)
        self.assertEqual(self.take(rig).events, [behind])
        self.assertEqual(self.wait_dead(rig, event)["reason"], "abandoned")

    def test_after_a_restore_takes_from_before_are_unknown_and_nothing_is_lost(self):
        rig = self.pull_rig()
        event = rig.accept()
        take = self.take(rig, lease="60s")
        copy = rig.folder / "copy"
        done = rig.cli_text("backup", copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        rig.stop()
        done = rig.cli_text("restore", copy, "--force")
        if done.returncode:
            done = rig.cli_text("restore", copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        rig.start()
        self.assertEqual(self.end(rig, "ack", take).status, 404)
        again = self.take(rig)
        self.assertEqual(again.events, [event])
        self.end(rig, "ack", again)
        rig.wait_status(event)


class Wrong(PullTest):
    def test_wrong_requests_get_clear_errors_and_change_nothing(self):
        rig = self.pull_rig()
        rig.config["endpoints"].append(rig.endpoint("crm"))
        rig.write_config()
        rig["sequencer"].reload()
        event = rig.accept()
        take = self.take(rig)
        other_event = rig.accept()
        other = self.take(rig)
        viewer, _ = rig.cli("tokens", "create", "looks", "--role", "viewer")
        cases = [
            ("nowhere/take", {}, 404, "not_found"),
            ("jobs/take", {"max": 0}, 400, "invalid_argument"),
            ("jobs/take", {"max": 1001}, 400, "invalid_argument"),
            ("jobs/take", {"wait": "31s"}, 400, "invalid_argument"),
            ("jobs/take", {"wait": 5}, 400, "invalid_argument"),
            ("jobs/take", {"wait": "soon"}, 400, "invalid_argument"),
            ("jobs/take", {"lease": "10ms"}, 400, "invalid_argument"),
            ("jobs/take", {"lease": "2m"}, 400, "invalid_argument"),
            ("jobs/ack", {}, 400, "invalid_argument"),
            ("jobs/ack", {"take": "take_1"}, 404, "not_found"),
            ("jobs/ack", {"take": "take_" + "0" * 26 + "_deliverer-1"}, 404, "not_found"),
            ("jobs/ack", {"take": "take_" + "0" * 26 + "_deliverer-9"}, 503,
             "process_unavailable"),
            ("jobs/ack", {"take": "take_" + "0" * 26 + "_deliverer-1/../sequencer"}, 404,
             "not_found"),
            ("jobs/ack", {"take": "take_" + "0" * 26 + "_sequencer"}, 404, "not_found"),
            ("crm/ack", {"take": take.take}, 404, "not_found"),
            ("jobs/ack", {"take": take.take, "deliveries": [other_event]}, 404,
             "not_found"),
            ("jobs/ack", {"take": take.take, "deliveries": [event, "x"]}, 404, "not_found"),
            ("jobs/ack", {"take": take.take, "deliveries": []}, 400, "invalid_argument"),
            ("jobs/retry", {"take": take.take, "delay": "25h"}, 400, "invalid_argument"),
        ]
        for path, body, status, code in cases:
            with self.subTest(path=path, body=body):
                reply = self.post(rig, path, body)
                self.assertEqual((reply.status, reply.error["code"]), (status, code),
                                 reply.body)
        wait_for(lambda: self.post(rig, "crm/take").status == 409)
        reply = self.post(rig, "jobs/take", token=viewer["token"])
        self.assertEqual((reply.status, reply.error["code"]), (403, "role"))
        for t in (take, other):
            self.assertEqual(self.end(rig, "ack", t).status, 200)
        rig.config["endpoints"] = rig.config["endpoints"][:1]
        rig.write_config()
        rig["sequencer"].reload()
        wait_for(lambda: self.post(rig, "crm/take").status == 404)
        rig.cli("endpoints", "pause", "jobs")
        reply = wait_for(lambda: (r := self.post(rig, "jobs/take")).status == 409 and r)
        self.assertIn("paused", reply.error["message"])

    def test_settings_of_requests_do_not_apply(self):
        rig = self.rig()
        for key, value in (("url", "http://127.0.0.1:1/"), ("method", "PUT"),
                           ("allow_private", True), ("breaker", False), ("guard", False),
                           ("connect_timeout", "1s"), ("allowed_ports", [80]),
                           ("tls", {"ca": "x"})):
            rig.config["endpoints"] = [{"name": "jobs", "transport": "pull", key: value}]
            rig.write_config()
            done = rig.cli_text("check")
            self.assertNotEqual(done.returncode, 0, key)
            self.assertIn("has no effect with transport: pull; remove it",
                          done.stdout + done.stderr, key)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull"}]
        rig.write_config()
        self.assertEqual(rig.cli_text("check").returncode, 0)
        done = rig.cli_text("endpoints", "test", "jobs")
        self.assertNotEqual(done.returncode, 0)


main(at_once=4)
