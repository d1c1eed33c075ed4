"""One process starts from an older copy while the others run on."""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for


class SetBack(RigTest):
    def restore(self, rig, process):
        rig.kill(process)
        for end in ("-wal", "-shm"):
            (rig.state_dir / f"{process}.db{end}").unlink(missing_ok=True)
        shutil.copy(rig.folder / "copy" / f"{process}.db",
                    rig.state_dir / f"{process}.db")
        rig[process].start()

    def backup(self, rig):
        _, code = rig.cli("backup", str(rig.folder / "copy"))
        self.assertEqual(code, 0)

    def newer_than_the_copy(self):
        """(rig, an event that came since; its attempt hangs)"""
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.start()
        rig.wait_status(rig.accept())
        self.backup(rig)
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 60000}]})
        return rig, rig.accept()

    def test_a_deliverer_older_than_its_results_gets_its_endpoints_back(self):
        """The copy was made while an attempt was in flight. The deliverer gives all
        back; it stays, so it must get its endpoints again."""
        rig = self.rig().start()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 2000}, {"status": 200}]})
        first = rig.accept()
        wait_for(lambda: rig.rows(
            "deliverer-1", "SELECT 1 FROM tasks"), what="the attempt's row")
        self.backup(rig)
        rig.wait_status(first)
        self.restore(rig, "sequencer")
        # Its grants are revoked either by that, or by the restored sequencer.
        wait_for(lambda: "a copy without messages that it had" in
                 rig["deliverer-1"].log(),
                 what="the deliverer to hear of it")
        second = rig.accept()
        rig.receiver.wait(second)
        rig.wait_status(second)
        rig.wait_status(first)

    def test_a_deliverer_older_than_its_tasks_gets_them_again(self):
        """P2: a task that came after the copy of its deliverer was made, and had
        no result: nobody else knows of it, and its link has forgotten it."""
        rig, second = self.newer_than_the_copy()
        wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM link_out WHERE "
                                  "peer = 'deliverer-1' AND cursor = 2"),
                 what="the task to be acknowledged")
        rig["deliverer-1"].kill()
        rig.receiver.rules()
        self.restore(rig, "deliverer-1")
        rig.wait_status(second)

    def test_a_deliverer_older_than_a_revoke_releases_again(self):
        """P2: the copy of its deliverer has not heard that an endpoint is to be
        given back; the sequencer waits for that."""
        rig, second = self.newer_than_the_copy()
        wait_for(lambda: rig.rows("deliverer-1", "SELECT 1 FROM tasks"),
                 what="the attempt's row")
        rig.cli("endpoints", "pause", "crm")
        wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM link_out WHERE "
                                  "peer = 'deliverer-1' AND cursor = 3"),
                 what="the revocation to be acknowledged")
        rig["deliverer-1"].kill()
        rig.receiver.rules()
        self.restore(rig, "deliverer-1")
        rig.cli("endpoints", "resume", "crm")
        rig.wait_status(second)

    def test_a_sequencer_older_than_a_requeue_gets_it_again(self):
        """P2: a dead letter that was requeued after the copy of the sequencer was
        made: there its delivery is dead, and dlqd waits for its end."""
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        events = [rig.accept(), rig.accept()]
        wait_for(lambda: len(rig.cli("dlq")[0]) == 2, what="two dead letters")
        dead_letters = {x["event_id"]: x["id"] for x in rig.cli("dlq")[0]}
        rig.receiver.rules()
        rig.cli("dlq", "retry", dead_letters[events[0]])
        rig.receiver.wait(events[0], count=2)
        rig.settle()
        self.backup(rig)
        rig["deliverer-1"].kill()
        rig.cli("dlq", "retry", dead_letters[events[1]])
        wait_for(lambda: rig.rows("dlqd", "SELECT 1 FROM link_out WHERE "
                                  "cursor = 2"), what="it to be taken")
        self.restore(rig, "sequencer")
        rig["deliverer-1"].start()
        wait_for(lambda: rig.cli("dlq", "show", dead_letters[events[1]])[0]["state"]
                 == "recovered", what="the second one to be delivered")

    def test_a_dlqd_older_than_a_requeue_s_end_learns_it_again(self):
        """P2: the copy of dlqd was made while a requeued dead letter was tried; what
        it came to is no more on its way."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 1}, {"status": 200}]})
        rig.start()
        event = rig.accept()
        wait_for(lambda: rig.cli("dlq")[0], what="a dead letter")
        dead_letter = rig.cli("dlq")[0][0]["id"]

        def state():
            return rig.cli("dlq", "show", dead_letter)[0]["state"]
        rig.cli("endpoints", "pause", "crm")
        rig.cli("dlq", "retry", dead_letter)
        wait_for(lambda: rig.rows("dlqd", "SELECT 1 FROM link_out WHERE "
                                  "cursor = 1"), what="it to be taken")
        self.backup(rig)
        rig.cli("endpoints", "resume", "crm")
        rig.wait_status(event)
        wait_for(lambda: state() == "recovered", what="its end")
        rig.settle()
        self.restore(rig, "dlqd")
        wait_for(lambda: state() == "recovered", what="its end, again")


if __name__ == "__main__":
    main()
