"""The disk changes a bit of what was written: what it costs is said, and what another
process still has comes back. P2."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

FRAME_HEADER, WAL_HEADER = 24, 32


def flip(path, at, bit=0):
    """One bit of a file is another."""
    with open(path, "r+b", buffering=0) as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


class Wal(RigTest):
    def test_dead_letters_behind_the_damage_come_again(self):
        """P2: dlqd's log of the last commits is damaged at its beginning. It warns,
        and the sequencer sends all of them again."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "answers": [{"status": 400}]})
        rig.start()
        wait_for(rig.door_is_open, what="the door")
        for count in range(1, 25):
            rig.accept()
            wait_for(lambda: len(rig.rows("dlqd", "SELECT n FROM letters")) ==
                     count, what=f"dead letter {count}")
        rig["dlqd"].kill()
        wal = rig.state_dir / "dlqd.db-wal"
        size = wal.stat().st_size
        page = int.from_bytes(wal.read_bytes()[8:12], "big")
        frames = (size - WAL_HEADER) // (page + FRAME_HEADER)
        flip(wal, WAL_HEADER + (frames // 4) * (page + FRAME_HEADER) + 100)
        rig.start("dlqd")
        log = rig["dlqd"].log()
        self.assertIn("the write-ahead log is damaged", log)
        self.assertIn(f"frame={frames // 4 + 1} ", log)
        wait_for(lambda: len(rig.rows("dlqd", "SELECT n FROM letters")) == 24,
                 what="all dead letters to be there again")
        listed, _ = rig.cli("dlq", "--limit", "100")
        self.assertEqual({r["state"] for r in listed}, {"dead"})

    def test_a_crash_is_not_called_damage(self):
        rig = self.rig().start()
        for _ in range(5):
            rig.accept()
        rig.settle()
        rig.kill()
        rig.start()
        for daemon in rig.daemons.values():
            self.assertNotIn("write-ahead log", daemon.log())


main()
