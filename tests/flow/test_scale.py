"""Deliverers join, stop, die with their disk, and freeze, and no event is lost."""

import pathlib
import sys
import time

import zmq

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import checker
from fake_sequencer import HEARTBEAT, GRANTED, pack, unpack
from rig import PLANE_SECRET, RigTest, main, wait_for

ENDPOINTS = [f"to-{i}" for i in range(8)]
LEASE_MS = 500
TIMEOUT_MS = 500


class Scale(RigTest):
    def pipeline(self, deliverers, endpoints=ENDPOINTS, **policy):
        rig = self.rig(deliverers=deliverers)
        rig.env["GRAPNEL_TEST_LEASE_MS"] = str(LEASE_MS)
        rig.config["endpoint_defaults"] = {
            "timeout": f"{TIMEOUT_MS}ms", "connect_timeout": f"{TIMEOUT_MS}ms"}
        rig.config["endpoints"] = [rig.endpoint(name) for name in endpoints]
        rig.config["retry_policies"][0] = {
            k: v for k, v in {**rig.config["retry_policies"][0],
                              **policy}.items() if v is not None}
        rig.write_config()
        rig.start()
        self.owners_on(rig, *(d.name for d in rig.deliverers))
        return rig

    def owners(self, rig):
        shown = rig.ask("sequencer", "endpoints", limit=1000)["endpoints"]
        return {e["name"]: e["owner"] for e in shown}

    def owners_on(self, rig, *names):
        """Wait until each endpoint has an owner, and these are all owners."""
        wait_for(lambda: set(self.owners(rig).values()) == set(names),
                 what=f"owners on {names}")

    def all_fail_once(self, rig):
        rig.receiver.rules(*({"path": f"/{name}", "per": "event", "responses": [
            {"status": 503}, {"status": 200}]} for name in ENDPOINTS))

    def judge(self, rig, *loads):
        rig.settle()
        acks = [a for load in loads for a in load.acks()]
        events, deliveries, dead_letters = rig.facts()
        checker.check_stores(acks, events, deliveries, dead_letters).require()
        self.assertEqual(dead_letters, [])
        for name in ENDPOINTS:
            checker.check(acks, rig.receiver.requests(f"/{name}"),
                          PLANE_SECRET).require()

    def workers(self, rig):
        """{deliverer: deliveries it made}"""
        rows = rig.rows("sequencer", "SELECT deliverer, count(*) AS n "
                        "FROM deliveries WHERE status = 3 GROUP BY deliverer")
        return {row["deliverer"]: row["n"] for row in rows}

    def test_new_deliverers_get_their_share(self):
        """P2, P4: from two to four under load; each has endpoints, each
        delivers, and nothing is lost or sent twice."""
        rig = self.pipeline(2)
        load = rig.load(count=1200, workspaces=10, rate=400)
        for name in ["deliverer-3", "deliverer-4"]:
            rig.add(name)
            rig.start(name)
        names = [d.name for d in rig.deliverers]
        self.owners_on(rig, *names)
        more = rig.load(count=400, workspaces=10, first=10_001)
        load.result()
        more.result()
        self.judge(rig, load, more)
        self.assertEqual(set(self.workers(rig)), set(names))
        self.sent_once(rig, rig.receiver.requests(), 1600 * len(ENDPOINTS))

    def sent_once(self, rig, requests, count):
        """Unless a machine with too much to do was silent for longer than a
        lease: then what it had was given to others. One that was not answered in
        time is tried again, and counts as another attempt."""
        if "grants ended" not in rig["sequencer"].log():
            first = [r for r in requests if r.headers["grapnel-attempt"] == "1"]
            self.assertEqual(len(first), count, "moved, so sent twice")

    def test_growing_to_ten_deliverers_loses_no_event(self):
        """P2, P4: one, then two, then ten, under load: nothing is lost and
        nothing is sent twice."""
        endpoints = [f"to-{i}" for i in range(60)]
        rig = self.pipeline(1, endpoints)
        load = rig.load(count=150, workspaces=5, rate=15)
        for upto in (2, 10):
            for n in range(len(rig.deliverers) + 1, upto + 1):
                rig.add(f"deliverer-{n}")
            rig.start()
            self.owners_on(rig, *(d.name for d in rig.deliverers))
        load.result()
        rig.settle()
        for name in endpoints:
            requests = rig.receiver.requests(f"/{name}")
            checker.check(load.acks(), requests, PLANE_SECRET).require()
            self.sent_once(rig, requests, 150)

    def test_scheduled_retries_of_a_dead_deliverer_keep_counts_and_times(self):
        """P3: it is lost with its disk; another deliverer makes the retries in
        time, as second attempts."""
        rig = self.pipeline(2, backoff="fixed", first_wait="4s", factor=None,
                            max_wait=None, jitter="none")
        self.all_fail_once(rig)
        event = rig.accept()
        due = wait_for(lambda: self.scheduled(rig), what="all retries scheduled")
        rig.kill("deliverer-2")
        for path in rig.state_dir.glob("deliverer-2.db*"):
            path.unlink()
        rig.settle()
        self.assertEqual(set(due), set(ENDPOINTS))
        for name, next_ms in due.items():
            first, second = rig.receiver.requests(f"/{name}", event)
            self.assertEqual(second.headers["grapnel-attempt"], "2")
            self.assertGreaterEqual(second.at_ms, next_ms)

    def scheduled(self, rig):
        """{endpoint: when its retry is due}, when all retries are scheduled."""
        rows = rig.rows("sequencer", "SELECT p.name, d.next_ms FROM deliveries "
                        "d JOIN endpoints p ON p.id = d.endpoint "
                        "WHERE d.status = 2")
        return len(rows) == len(ENDPOINTS) and {
            r["name"]: r["next_ms"] for r in rows}

    def test_a_stopping_deliverer_hands_over_at_once(self):
        """P2, P4: after a SIGTERM its endpoints move without waiting for the
        lease."""
        rig = self.pipeline(2)
        rig.kill()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "60000"  # waited for: a failure
        rig.start()
        self.owners_on(rig, "deliverer-1", "deliverer-2")
        load = rig.load(count=1200, workspaces=10, rate=400)
        rig.receiver.wait(count=500)
        self.assertEqual(rig["deliverer-2"].stop(), 0)
        self.owners_on(rig, "deliverer-1")
        load.result()
        self.judge(rig, load)

    def test_a_deliverer_lost_with_its_disk_loses_no_event(self):
        """P3: kill -9, and its database is deleted, with scheduled retries."""
        rig = self.pipeline(4)
        self.all_fail_once(rig)
        load = rig.load(count=500, workspaces=10, rate=250)
        rig.receiver.wait(count=500)
        wait_for(lambda: "deliverer-2" in self.workers(rig),
                 what="a delivery by deliverer-2")
        rig.kill("deliverer-2")
        for path in rig.state_dir.glob("deliverer-2.db*"):
            path.unlink()
        rest = ["deliverer-1", "deliverer-3", "deliverer-4"]
        self.owners_on(rig, *rest)
        load.result()
        self.judge(rig, load)

    def test_a_deliverer_that_returns_without_its_disk_starts_anew(self):
        """P3: the same name with an empty database: its endpoints' work begins
        anew at once, for its former process is gone."""
        rig = self.pipeline(1)
        rig.kill()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "60000"
        rig.start()
        self.all_fail_once(rig)
        load = rig.load(count=300, workspaces=10, rate=200)
        rig.receiver.wait(count=300)
        rig.kill("deliverer-1")
        for path in rig.state_dir.glob("deliverer-1.db*"):
            path.unlink()
        rig.start("deliverer-1")
        load.result()
        self.judge(rig, load)

    def rest_of_what_was_handed_out(self, rig):
        """Wait until all that has been handed to anybody so far is delivered."""
        row, = rig.rows("sequencer", "SELECT max(event) AS n FROM deliveries")
        wait_for(lambda: not rig.rows(
            "sequencer", "SELECT 1 FROM deliveries WHERE event <= ? AND "
            "status < 3 LIMIT 1", row["n"]), 60, "all before it delivered")

    def test_a_frozen_deliverer_begins_no_attempt_under_old_grants(self):
        """P3, P4: stopped past its lease its endpoints move; awake again it
        begins nothing under the old grants, and gets its part anew."""
        rig = self.pipeline(2)
        load = rig.load(count=1600, workspaces=10, rate=400)
        rig.receiver.wait(count=500)
        frozen = rig["deliverer-2"]
        its = [e for e, owner in self.owners(rig).items() if owner == frozen.name]
        frozen.pause()
        self.owners_on(rig, "deliverer-1")
        self.rest_of_what_was_handed_out(rig)
        before = len(rig.receiver.requests())
        thawed_ms = time.time() * 1000
        frozen.resume()
        load.result()
        self.owners_on(rig, "deliverer-1", "deliverer-2")
        self.judge(rig, load)
        again = rig.load(count=200, workspaces=10, first=10_001)
        again.result()
        self.judge(rig, load, again)
        with self.subTest("it worked again, under new grants"):
            row, = rig.rows(
                "sequencer", "SELECT count(*) AS n FROM deliveries WHERE "
                "deliverer = 'deliverer-2' AND at_ms > ?", int(thawed_ms))
            self.assertGreater(row["n"], 0)
        with self.subTest("it sent at most its requests in flight again after "
                          "another deliverer had delivered them"):
            requests = [(r.path, r.id) for r in rig.receiver.requests()]
            twice = set(requests[:before]) & set(requests[before:])
            self.assertLessEqual(len(twice), 32 * len(its))

    def test_the_last_deliverer_takes_the_work_of_all_others(self):
        """P3: all but one die, one after the other."""
        rig = self.pipeline(3)
        load = rig.load(count=900, workspaces=10, rate=200)
        for left in (2, 1):
            rig.receiver.wait(count=len(rig.receiver.requests()) + 300)
            rig.kill(f"deliverer-{left + 1}")
            self.owners_on(rig, *(f"deliverer-{i + 1}" for i in range(left)))
        load.result()
        self.judge(rig, load)

    def test_one_heartbeat_brings_thousands_of_grants(self):
        """P4: more than the way to a deliverer holds at a time. Those that were
        lost used to be asked for again, and lost again, heartbeat by heartbeat."""
        count = 1200
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "60000"
        rig.config["endpoints"] = [rig.endpoint(f"to-{i}")
                                   for i in range(count)]
        rig.write_config()
        rig.start("sequencer")
        context = zmq.Context()
        self.addCleanup(context.destroy, 0)
        inbox = f"ipc://{rig.run_dir}/deliverer-1.inbox"
        pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        self.addCleanup(pull.close, 0)
        self.addCleanup(push.close, 0)
        pull.rcvhwm = 64
        pull.bind(inbox)
        push.connect(f"ipc://{rig.run_dir}/sequencer.inbox")
        push.send(pack(HEARTBEAT, 1, "deliverer-1", inbox, 1, 1, 1, 0, b""))
        wait_for(lambda: all(e["owner"] for e in
                             rig.ask("sequencer", "endpoints",
                                     limit=1000)["endpoints"]),
                 what="all to be granted")
        heard = set()

        def hear():
            while pull.poll(0):
                frame = unpack(pull.recv())
                if frame[0] == GRANTED:
                    heard.add(frame[7])
            return len(heard) == count
        wait_for(hear, what="all to be heard of")


main(at_once=3)
