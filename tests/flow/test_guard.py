"""An endpoint that worked and then refuses everything is held: its deliveries wait until
one of them is accepted."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

FEW = 20  # dead letters that a bad deployment may cost


class Guard(RigTest):
    def working(self, responses=({"status": 404},), **endpoint):
        """Runs with an endpoint that has delivered, and now does this."""
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "1s",
            "jitter": "none", "max_attempts": 5}]})
        rig.config["endpoints"][0].update(endpoint)
        rig.write_config()
        rig.start()
        rig.accept()
        rig.settle()
        rig.receiver.rules({"path": "/crm", "responses": list(responses)})
        return rig

    def shown(self, rig):
        return rig.cli("endpoints", "crm")[0]

    def held(self, rig):
        return wait_for(lambda: self.shown(rig)["state"] == "held"
                        and self.shown(rig), what="the endpoint to be held")

    def probed(self, rig, times=2):
        asked = len(rig.receiver.requests("/crm"))

        def more():
            rig.receiver.stats()  # what it holds back is written out
            return len(rig.receiver.requests("/crm")) >= asked + times
        wait_for(more, what="probes")

    def dead(self, rig):
        return rig.cli("dlq", "stats")[0]["dead"]

    def test_an_endpoint_that_refuses_everything_causes_few_dead_letters(self):
        """P2: also over restarts of all processes; when the endpoint works again,
        all other events are delivered."""
        rig = self.working()
        rig.load(count=400, workspaces=7).result()
        shown = self.held(rig)
        self.assertIn("404", shown["reason"])
        self.probed(rig)
        self.assertLessEqual(self.dead(rig), FEW)
        rig.kill()
        rig.start()
        self.probed(rig)
        self.assertEqual(self.shown(rig)["since"], shown["since"])
        self.assertLessEqual(self.dead(rig), FEW)
        rig.receiver.rules()
        rig.settle()
        self.assertEqual(self.shown(rig)["state"], "active")
        dead = self.dead(rig)
        self.assertLessEqual(dead, FEW)
        self.assertEqual(len(set(rig.receiver.delivered("/crm"))), 401 - dead)

    def test_an_operator_can_resume_and_switch_off_the_guard(self):
        """After a resume all deliveries are tried, and the endpoint is held again;
        with guard: off each refusal is a dead letter."""
        rig = self.working([{"status": 422}])
        rig.load(count=60, workspaces=3).result()
        self.held(rig)
        dead = self.dead(rig)
        self.assertEqual(rig.cli("endpoints", "resume", "crm")[1], 0)
        wait_for(lambda: self.dead(rig) > dead, what="more dead letters")
        self.held(rig)
        self.assertLessEqual(self.dead(rig), 2 * FEW)
        rig.config["endpoints"][0]["guard"] = False
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        wait_for(lambda: self.dead(rig) == 60, what="all dead letters")
        self.assertEqual(self.shown(rig)["state"], "active")

    def test_held_deliveries_keep_their_order(self):
        """P5."""
        rig = self.working(ordered="all")
        events = [rig.accept() for _ in range(20)]
        self.held(rig)
        self.probed(rig, 1)
        rig.receiver.rules()
        rig.settle()
        died = {x["event_id"] for x in rig.cli("dlq")[0]}
        self.assertEqual(len(died), 9)
        delivered = list(rig.receiver.delivered("/crm"))[1:]
        self.assertEqual(delivered, [e for e in events if e not in died])

    def test_an_endpoint_that_never_worked_is_not_held(self):
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 404}]})
        rig.start()
        rig.load(count=30).result()
        wait_for(lambda: self.dead(rig) == 30, what="30 dead letters")
        self.assertEqual(self.shown(rig)["state"], "active")


main(at_once=4)
