"""P2, P7: a wrong clock at a start removes no data, and data that is really old is
removed."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

DAY_S = 86400
KEPT = {  # what a process keeps for a while: one table of each kind
    "ingress": ["archive", "reject_bodies"],
    "sequencer": ["events", "recent_keys", "dead_letters", "gaps", "actions"],
    "deliverer-1": ["attempts"],
    "dlqd": ["dead_letters"],
    "console": ["notifications"],
}


class WrongClock(RigTest):
    def begin(self, by_s):
        """Everything runs, with a clock that is wrong by so much, and keeps one row of
        each kind at least."""
        rig = self.rig({
            "ingress": {"archive": {"keep": "7d"}}, "history": {"keep": "7d"},
            "dlq": {"keep": "7d"},
            "alerts": [{"name": "dead_letter", "when": "dead_letter"}]}, console=True)
        rig.config["sources"].append(rig.config["sources"][0] | {
            "name": "ordered", "order": {
                "by": "sequence", "sequence": "json:/data/number",
                "give_up_after": "10ms"}})
        rig.config["endpoints"].append(rig.endpoint("no"))
        rig.config["notifiers"] = [{"name": "ops", "allow_private": True,
                                    "webhook": rig.receiver.url("/ops")}]
        rig.write_config()
        rig.receiver.rules({"path": "/no", "responses": [{"status": 400}]},
                           {"path": "/ops", "responses": [{"status": 503}]},
                           {"path": "/crm", "responses": [{"status": 200}]})
        rig.step_clock(by_s)
        rig.start()
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM cursors"),
                 what="the console to ask for dead letters")
        self.body = rig.plane_body()
        self.event = rig.accept(self.body)
        self.assertEqual(rig.post(self.body, headers={})[0], 401)
        for number in 1, 3:  # 2 is missing, which is noted
            rig.accept(rig.plane_body(number=number), source="ordered")
        rig.settle()
        rig.cli("dlq", "retry", "--all")
        rig.settle()
        rig.cli("endpoints", "pause", "crm")
        rig.cli("endpoints", "resume", "crm")
        for table in self.counts(rig):
            wait_for(lambda: self.counts(rig)[table], what=f"rows in {table}")
        return rig

    def counts(self, rig):
        return {f"{process}.{table}": rig.rows(
            process, f"SELECT count(*) AS n FROM {table}")[0]["n"]
            for process, tables in KEPT.items() for table in tables}

    def again(self, rig, by_s, end):
        """All of it is started again, by a clock that is wrong by so much, and has
        looked for what is old more than once."""
        end()
        rig.step_clock(by_s)
        rig.start()
        wait_for(lambda: rig.ingress_is_ready(), what="ingress")
        rig.accept()
        rig.settle()
        for process in KEPT:
            wait_for(lambda: rig.ask(process, "status")["uptime_ms"] > 2500,
                     what=f"{process} to have run for a while")

    def check_all_is_there(self, rig, before):
        now = self.counts(rig)
        self.assertEqual([t for t in now if now[t] < before[t]], [],
                         f"{now}, it was {before}")
        self.assertEqual(rig.cli("show", self.event)[1], 0)

    def check_keys_are_there(self, rig):
        again = rig.accept(self.body)
        trace = rig.wait_status(again, "duplicate")
        self.assertEqual(trace["duplicate_of"], self.event)

    def test_a_clock_that_was_ahead_removes_no_data(self):
        rig = self.begin(0)
        before = self.counts(rig)
        self.again(rig, 40 * DAY_S, rig.kill)
        self.again(rig, 40 * DAY_S, rig.stop)
        self.again(rig, 0, rig.stop)
        self.check_all_is_there(rig, before)
        self.check_keys_are_there(rig)
        self.assertIn("the clock was changed", rig["ingress"].log())

    def test_a_clock_that_was_behind_removes_no_data(self):
        rig = self.begin(-40 * DAY_S)
        before = self.counts(rig)
        self.again(rig, 0, rig.kill)
        self.again(rig, 0, rig.stop)
        self.check_all_is_there(rig, before)

    def test_a_clock_that_falls_behind_removes_no_data(self):
        rig = self.begin(0)
        before = self.counts(rig)
        self.again(rig, -40 * DAY_S, rig.kill)
        self.again(rig, 0, rig.stop)
        self.check_all_is_there(rig, before)
        self.check_keys_are_there(rig)

    def test_data_that_is_old_by_a_right_clock_is_removed(self):
        """By the time in which the processes ran, also after the wrong clocks
        above."""
        rig = self.begin(0)
        self.again(rig, 40 * DAY_S, rig.stop)
        for keep in "archive", "history", "dlq":
            part = rig.config["ingress"] if keep == "archive" else rig.config
            part[keep] = {"keep": "1s"}
        rig.write_config()
        self.again(rig, 0, rig.stop)

        for table in ("ingress.archive", "deliverer-1.attempts", "dlqd.dead_letters",
                      "sequencer.dead_letters"):
            # A reload is a reason to look again; without it dlqd does each minute.
            wait_for(lambda: rig.ask("dlqd", "reload") and
                     not self.counts(rig)[table], what=f"{table} to go")


main()
