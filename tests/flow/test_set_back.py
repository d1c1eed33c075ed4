"""One process comes back from an older copy while the others run on."""

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

    def test_only_results_were_set_back(self):
        """The copy was made while an attempt flew. The deliverer gives all
        back; it stays, so it must get its endpoints again."""
        rig = self.rig().start()
        rig.receiver.rules({"path": "/crm", "answers": [
            {"status": 200, "delay_ms": 2000}, {"status": 200}]})
        first = rig.accept()
        wait_for(lambda: rig.rows(
            "deliverer-1", "SELECT 1 FROM tasks"), what="the attempt's row")
        self.backup(rig)
        rig.wait_status(first)
        self.restore(rig, "sequencer")
        wait_for(lambda: "the link was set back" in rig["deliverer-1"].log(),
                 what="the deliverer to hear of it")
        second = rig.accept()
        rig.receiver.wait(second)
        rig.wait_status(second)
        rig.wait_status(first)


if __name__ == "__main__":
    main()
