"""Reload, stop and start: what an operator does to a pipeline that works."""

import itertools
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for


class Reload(RigTest):
    def reload(self, rig):
        rig.write_config()
        rows, code = rig.cli("reload")
        self.assertEqual((code, {r["process"] for r in rows if r["ok"]}),
                         (0, set(rig.daemons)), rows)

    def test_a_new_endpoint_gets_new_events(self):
        rig = self.rig().start()
        before = rig.accept()
        rig.wait_status(before)
        rig.config["endpoints"].append(rig.endpoint("audit"))
        self.reload(rig)
        after = rig.accept()
        rig.receiver.wait(after, path="/audit")
        rig.receiver.wait(after, path="/crm")
        rig.settle()
        self.assertEqual(rig.receiver.requests("/audit", before), [])

    def test_a_changed_url_takes_effect_for_what_waits_too(self):
        """P2: a delivery that was being retried goes to the new address, its
        attempts counted on."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "answers": [{"status": 503}]})
        rig.config["retry_policies"][0].update(max_attempts=10000)
        rig.write_config()
        rig.start()
        event = rig.accept()
        rig.receiver.wait(event, 2)
        rig.config["endpoints"][0]["url"] = rig.receiver.url("/moved")
        rig.write_config()
        for daemon in rig.daemons.values():  # as the supervisor's SIGHUP
            daemon.reload()
        moved, = rig.receiver.wait(event, path="/moved")
        self.assertGreaterEqual(int(moved.headers["grapnel-attempt"]), 3)
        rig.wait_status(event)
        later = rig.accept()
        rig.receiver.wait(later, path="/moved")
        self.assertEqual(rig.receiver.requests("/crm", later), [])

    def test_a_removed_endpoint_leaves_letters(self):
        """P2: what waits for an endpoint that is removed becomes a dead letter,
        endpoint_removed; once it is back a retry delivers it."""
        rig = self.rig()
        rig.config["endpoints"].append(rig.endpoint("gone"))
        rig.config["retry_policies"][0].update(max_attempts=10000)
        rig.write_config()
        rig.receiver.rules({"path": "/gone", "answers": [{"status": 503}]})
        rig.start()
        events = {rig.accept() for _ in range(20)}
        wait_for(lambda: {r.id for r in rig.receiver.requests("/gone")}
                 == events, what="a try of each")
        endpoint = rig.config["endpoints"].pop()
        self.reload(rig)
        letters = wait_for(lambda: len(rig.cli("dlq")[0]) == 20
                           and rig.cli("dlq")[0], what="20 letters")
        self.assertEqual({x["reason"] for x in letters}, {"endpoint_removed"})
        self.assertEqual({x["event_id"] for x in letters}, events)
        self.assertGreaterEqual(min(x["attempts"] for x in letters), 1)
        rig.settle()
        with self.subTest("back again"):
            rig.receiver.rules({"path": "/gone", "answers": [{"status": 200}]})
            rig.config["endpoints"].append(endpoint)
            self.reload(rig)
            _, code = rig.cli("dlq", "retry", *(x["id"] for x in letters))
            self.assertEqual(code, 0)
            wait_for(lambda: set(rig.receiver.delivered("/gone")) == events,
                     what="all delivered")
            rig.settle()
            states = {x["state"] for x in rig.cli("dlq", "--state", "all")[0]}
            self.assertEqual(states, {"recovered"})

    def test_a_bad_configuration_is_refused_and_the_old_one_stays(self):
        rig = self.rig().start()
        good = rig.config_path.read_text()
        rig.write_config(good.replace("max_attempts", "max_atempts"))
        with self.subTest("the command line says what is wrong: 78"):
            said = rig.cli_text("reload")
            self.assertEqual(said.returncode, 78)
            self.assertIn("max_atempts", said.stderr)
        for daemon in rig.daemons.values():
            daemon.reload()
        for daemon in rig.daemons.values():
            wait_for(lambda: "the old one stays" in daemon.log(),
                     what=f"{daemon.name} to say so")
            self.assertIn("max_atempts", daemon.log())
        event = rig.accept()
        rig.receiver.wait(event)

    def test_a_sighup_while_it_starts_is_a_reload(self):
        """A configuration that is a pipe says when it is read, and how often."""
        rig = self.rig()
        text = rig.config_path.read_text()
        rig.config_path.unlink()
        os.mkfifo(rig.config_path)
        dlqd = rig["dlqd"].start(wait=False)
        with open(rig.config_path, "w") as config:  # it is reading
            dlqd.reload()
            config.write(text)
        wait_for(dlqd.up, what="the start")
        with open(rig.config_path, "w") as config:  # it reads again
            config.write(text)
        wait_for(lambda: "configuration reloaded" in dlqd.log(),
                 what="a reload")

    def test_a_sighup_at_any_moment_of_a_start_ends_no_process(self):
        """P3: also before the first instruction of the program."""
        rig = self.rig(console=True)
        for wait_ms in (0, 3, 10, 25):
            for daemon in rig.daemons.values():
                daemon.start(wait=False)
            time.sleep(wait_ms / 1000)
            for daemon in rig.daemons.values():
                daemon.reload()
            for daemon in rig.daemons.values():
                wait_for(daemon.up, what=f"{daemon.name} to be up")
                wait_for(lambda: "configuration reloaded" in daemon.log(),
                         what=f"a reload of {daemon.name}")
                daemon.kill()
                daemon.log_path.unlink()

    def test_a_reload_under_load_loses_nothing(self):
        """P2, P4: twenty reloads, each with another address, while it runs."""
        rig = self.rig(deliverers=2).start()
        load = rig.load(count=1500, workspaces=10, rate=500)
        for i in range(20):
            rig.config["endpoints"][0]["url"] = rig.receiver.url(f"/crm?{i}")
            self.reload(rig)
        load.result()
        rig.settle()
        self.assertGreater(len({r.path for r in rig.receiver.requests()}), 5)
        # Every path is the one endpoint's: so the judge sees them.
        for request in rig.receiver.requests():
            request.path = "/crm"
        rig.judge(load)


class Stop(RigTest):
    def slow(self, grace):
        rig = self.rig({"shutdown_grace": grace})
        rig.receiver.rules({"path": "/crm", "per": "event", "answers": [
            {"status": 200, "delay_ms": 1500}, {"status": 200}]})
        return rig.start()

    def test_what_is_in_flight_ends_within_the_grace(self):
        """P4: a stop waits for the answer, and nothing is sent twice."""
        rig = self.slow("20s")
        event = rig.accept()
        rig.receiver.wait(event)
        self.assertEqual(set(rig.stop().values()), {0})
        rig.start()
        rig.wait_status(event)
        rig.settle()
        self.assertEqual(len(rig.receiver.requests(event=event)), 1)

    def test_what_does_not_end_is_tried_again_after(self):
        """P3, P4: a stop in the middle of slow deliveries: exit 0, and the work
        goes on after the start."""
        rig = self.slow("100ms")
        events = {rig.accept() for _ in range(10)}
        wait_for(lambda: {r.id for r in rig.receiver.requests()} == events,
                 what="all of them to be in flight")
        self.assertEqual(set(rig.stop().values()), {0})
        rig.start()
        for event in events:
            self.assertEqual(rig.wait_status(event)["deliveries"][0]["status"],
                             "delivered")
        rig.settle()
        self.assertEqual(rig.cli("dlq", "--state", "all")[0], [])

    def test_all_at_once_under_load(self):
        """P1, P2: SIGTERM to everything at the same moment, three times."""
        rig = self.rig(deliverers=2).start()
        load = rig.load(count=1500, workspaces=10, rate=1000)
        for _ in range(3):
            rig.receiver.wait(count=len(rig.receiver.requests()) + 100)
            for daemon in rig.daemons.values():
                daemon.asked_to_end = True
                daemon.signal(15)
            for daemon in rig.daemons.values():
                self.assertEqual(daemon.wait_exit(), 0, daemon.name)
            rig.start()
        load.result()
        rig.judge(load)

    def test_an_idle_pipeline_stops_in_any_order(self):
        rig = self.rig().start()
        event = rig.accept()
        rig.wait_status(event)
        for name in ["sequencer", "dlqd", "ingress", "deliverer-1"]:
            self.assertEqual(rig[name].stop(), 0, name)


class Start(RigTest):
    def test_in_any_order(self):
        """P3: each process waits for its peers; none ends because another is
        late. The first event comes as soon as the door is open."""
        rig = self.rig()
        names = list(rig.daemons)
        events = []
        for order in itertools.permutations(names):
            event = None
            for name in order:
                rig[name].start()
                if rig.daemons["ingress"].alive and event is None:
                    event = rig.accept()
            events.append(event)
            rig.receiver.wait(event)
            rig.kill()
        rig.start().settle()
        sequences = {e: rig.receiver.requests(event=e)[0].headers[
            "grapnel-sequence"] for e in events}
        self.assertEqual(list(sequences.values()),
                         [str(n) for n in range(1, len(events) + 1)])

    def test_events_wait_for_a_deliverer(self):
        """P2: without one events are taken and wait; one comes, they go."""
        rig = self.rig()
        rig.start("ingress", "sequencer", "dlqd")
        events = {rig.accept() for _ in range(20)}
        for event in events:
            trace = rig.wait_status(event, "routed")
            self.assertEqual(trace["deliveries"][0]["status"], "waiting")
        self.assertEqual(rig.receiver.requests(), [])
        rig.start()
        wait_for(lambda: set(rig.receiver.delivered()) == events,
                 what="all to be delivered")

    def test_events_wait_for_the_sequencer(self):
        """P1, P2: the door is open while all behind it is away."""
        rig = self.rig()
        rig.start("ingress")
        load = rig.load(count=1000, workspaces=10)
        self.assertEqual(load.result()["counts"], {"200": 1000})
        rig.start()
        rig.judge(load)


main()
