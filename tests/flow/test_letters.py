"""The life of dead letters, by the command line alone."""

import os
import pathlib
import pwd
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for


class Letters(RigTest):
    def dead(self, count, *answers):
        """A pipeline in which so many events died at crm with 400."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "answers": [
            {"status": 400, "times": count}, *(answers or [{"status": 200}])]})
        rig.start()
        events = [rig.accept() for _ in range(count)]
        self.until(rig, dead=count)
        return rig, events

    def until(self, rig, **counts):
        wait_for(lambda: {k: self.stats(rig)[k] for k in counts} == counts,
                 what=f"letters {counts}")

    def stats(self, rig):
        stats, code = rig.cli("dlq", "stats")
        self.assertEqual(code, 0)
        return stats


class Bulk(Letters):
    def test_all_of_them(self):
        """P2: the oldest first, each once, and what it did is on record."""
        rig, events = self.dead(40)
        self.assertEqual(self.stats(rig)["by_reason"], {"rejected": 40})
        self.assertEqual(self.stats(rig)["by_endpoint"], {"crm": 40})
        self.assertEqual(self.stats(rig)["by_fault"], {"endpoint": 40})
        answer, code = rig.cli("dlq", "retry", "--all", "--rate", "1000")
        self.assertEqual(code, 0)
        self.assertEqual(len(answer["requeued"]), 40)
        self.assertEqual(len(set(answer["requeued"])), 40)
        self.until(rig, dead=0, requeued=0, recovered=40)
        self.assertEqual(self.stats(rig)["by_reason"], {})
        for event in events:
            self.assertEqual(len(rig.receiver.requests(event=event)), 2)
        shown, _ = rig.cli("dlq", "show", answer["requeued"][0])
        me = pwd.getpwuid(os.geteuid()).pw_name
        self.assertIn(f"by {me}", [h["what"] for h in shown["history"]])
        again, code = rig.cli("dlq", "retry", "--all")
        self.assertEqual((code, again["requeued"]), (0, []))

    def test_what_dies_again_is_left_alone(self):
        """P9: nothing is sent twice by one command."""
        rig, events = self.dead(12, {"status": 400})
        said = rig.cli_text("dlq", "retry", "--all", "--rate", "10")
        self.assertEqual((said.returncode, said.stdout), (0, "12 requeued\n"))
        self.until(rig, dead=12, requeued=0)
        for event in events:
            self.assertEqual(len(rig.receiver.requests(event=event)), 2)

    def test_only_what_the_filters_take(self):
        rig, _ = self.dead(6)
        none, code = rig.cli("dlq", "retry", "--all", "--endpoint", "other")
        self.assertEqual((code, none["requeued"]), (0, []))
        two, _ = rig.cli("dlq", "retry", "--all", "--reason", "rej*",
                         "--limit", "2")
        self.assertEqual(len(two["requeued"]), 2)
        self.until(rig, dead=4, recovered=2)

    def test_an_interrupted_one_goes_on_later(self):
        """P3: dlqd killed in between loses no letter and sends none twice."""
        rig, events = self.dead(30)
        rig.cli("dlq", "retry", "--all", "--limit", "10")
        rig["dlqd"].kill()
        said = rig.cli_text("dlq", "retry", "--all")
        self.assertEqual(said.returncode, 69)
        self.assertIn("dlqd", said.stderr)
        rig["dlqd"].start()
        rig.cli("dlq", "retry", "--all", "--rate", "1000")
        self.until(rig, dead=0, requeued=0, recovered=30)
        for event in events:
            self.assertEqual(len(rig.receiver.requests(event=event)), 2)

    def test_what_is_wrong_is_said(self):
        rig, _ = self.dead(1)
        for args, word in ((["retry"], "--all"),
                           (["retry", "--all", "dlq_x"], "--all"),
                           (["retry", "--all", "--rate", "0"], "--rate"),
                           (["retry", "--all", "--since", "soon"], "--since"),
                           (["--state", "ded"], "dead")):
            said = rig.cli_text("dlq", *args)
            self.assertEqual(said.returncode, 64, (args, said.stderr))
            self.assertIn(word, said.stderr)


class Redirect(Letters):
    def dead_with_another(self, count):
        rig, events = self.dead(count)
        rig.config["endpoints"].append(
            rig.endpoint("spare", types=["nothing.*"]))
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        return rig, events

    def test_to_another_endpoint(self):
        """P2: it is dealt with, and says how; the other one gets it marked."""
        rig, (event,) = self.dead_with_another(1)
        letter, = rig.cli("dlq")[0]
        answer, code = rig.cli("dlq", "retry", letter["id"], "--to", "spare")
        self.assertEqual((code, answer["requeued"]), (0, [letter["id"]]))
        request, = rig.receiver.wait(event, count=1, path="/spare")
        self.assertEqual(request.headers["grapnel-replay"], "1")
        shown, _ = rig.cli("dlq", "show", letter["id"])
        self.assertEqual((shown["state"], shown["note"]),
                         ("resolved", "sent to spare instead"))
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/crm", event=event)), 1)
        wait_for(lambda: rig.rows(
            "dlqd", "SELECT n FROM redirects WHERE hop_n >= 0") == [])
        for to, word in (("crm", "died"), ("spear", "spare")):
            said = rig.cli_text("dlq", "retry", letter["id"], "--to", to)
            self.assertEqual(said.returncode, 1)
            self.assertIn(word, said.stdout + said.stderr)

    def test_all_of_them_over_a_kill_each_once(self):
        """P3, P4: the sequencer was away, dlqd dies; and one more failure is a
        letter of the other endpoint."""
        rig, events = self.dead_with_another(20)
        rig.receiver.rules({"path": "/spare", "answers": [
            {"status": 400, "times": 1}, {"status": 200}]})
        rig["sequencer"].kill()
        answer, code = rig.cli("dlq", "retry", "--all", "--to", "spare")
        self.assertEqual((code, len(answer["requeued"])), (0, 20))
        rig["dlqd"].kill()
        rig.start()
        for event in events:
            rig.receiver.wait(event, count=1, path="/spare")
        self.until(rig, resolved=20, dead=1)
        rig.settle()
        for event in events:
            self.assertEqual(
                len(rig.receiver.requests("/spare", event=event)), 1)
        self.assertEqual([x["endpoint"] for x in rig.cli("dlq")[0]], ["spare"])


main()
