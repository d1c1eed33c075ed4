"""A process is stopped for a while, for less or more than the lease."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

STILL_S = 3


class Away(RigTest):
    def pipeline(self, guard=True, **how):
        rig = self.rig(**how)
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.config["endpoint_defaults"] = {"timeout": "500ms",
                                           "connect_timeout": "500ms"}
        rig.config["endpoints"][0]["guard"] = guard
        rig.write_config()
        return rig.start()

    def grants(self, rig):
        return rig["sequencer"].log().count(" granted ")

    def stand_still(self, rig, name, load):
        """For STILL_S; ingress must take events meanwhile."""
        rig[name].pause()
        end = time.monotonic() + STILL_S
        taken = len(load.acks())
        wait_for(lambda: time.monotonic() > end)
        rig[name].resume()
        return len(load.acks()) - taken

    def test_ingress_accepts_while_the_sequencer_is_stopped(self):
        """P1, P2, P4: longer than the lease. Ingress stays open; time in which
        the sequencer stood still is not held against the deliverers."""
        rig = self.pipeline(deliverers=2)
        load = rig.load(count=2700, workspaces=10, rate=300)
        rig.receiver.wait(count=900)  # some leases long: owners are settled
        before = self.grants(rig)
        self.assertGreater(self.stand_still(rig, "sequencer", load), 300)
        load.result()
        self.assertEqual(load.result()["counts"], {"200": 2700})
        verdict = rig.judge(load)
        self.assertEqual(verdict.duplicated, [])
        self.assertEqual(self.grants(rig), before)

    def test_requests_to_a_stopped_ingress_are_answered_later(self):
        """P1, P4: requests that were sent meanwhile are answered after, once."""
        rig = self.pipeline()
        load = rig.load(count=900, workspaces=10, rate=300, timeout=30)
        rig.receiver.wait(count=100)
        self.stand_still(rig, "ingress", load)
        self.assertEqual(load.result()["counts"], {"200": 900})
        self.assertEqual(rig.judge(load).duplicated, [])

    def test_stopping_each_process_in_turn_loses_no_event(self):
        """P3: each for a moment, under load."""
        rig = self.pipeline(deliverers=2)
        load = rig.load(count=1500, workspaces=10, rate=300, timeout=30)
        rig.receiver.wait(count=100)
        for name in 2 * list(rig.daemons):
            rig[name].pause()
            end = time.monotonic() + 0.3
            wait_for(lambda: time.monotonic() > end)
            rig[name].resume()
        load.result()
        rig.judge(load)

    def test_dead_letters_wait_for_a_dlqd_that_is_down(self):
        """P2: and no other work waits."""
        # A 200 may overtake ten refusals under load: then the guard would hold the endpoint.
        rig = self.pipeline(guard=False)
        rig["dlqd"].stop()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 300}, {"status": 200}]})
        load = rig.load(count=400, workspaces=10)
        load.result()
        wait_for(lambda: len(rig.receiver.requests()) == 400, what="all tried")
        self.assertEqual(rig.cli_text("dlq").returncode, 69)
        rig["sequencer"].restart()  # they are on disk there
        rig.start()
        wait_for(lambda: len(rig.rows("dlqd", "SELECT 1 FROM dead_letters")) == 300,
                 what="300 letters")
        rig.judge(load, contiguous=True)
        with self.subTest("each with its event"):
            dead_letter = rig.cli("dlq", "--limit", "1")[0][0]
            shown, _ = rig.cli("dlq", "show", dead_letter["id"])
            request, = rig.receiver.requests(event=dead_letter["event_id"])
            self.assertEqual(shown["body"].encode(), request.body)


main()
