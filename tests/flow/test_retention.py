"""What is older than history.keep and ingress.archive.keep is deleted, a few rows at a time: all of it when nothing else
happens, and beside events that arrive, of which none is lost."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

MANY = 2000  # some sixty steps
TABLES = {"ingress": "archive", "sequencer": "events", "deliverer-1": "attempts"}


class Retention(RigTest):
    def start(self, keep):
        rig = self.rig({"history": {"keep": keep}})
        rig.config["ingress"]["archive"] = {"keep": keep}
        rig.write_config()
        return rig.start()

    def stored(self, rig):
        return {p: rig.rows(p, f"SELECT count(*) AS n FROM {t}")[0]["n"] for p, t in TABLES.items()}

    def wait_until_deleted(self, rig):
        def deleted():
            return not any(self.stored(rig).values())
        wait_for(deleted, 8, "all old rows to be deleted")

    def test_old_rows_are_deleted_while_nothing_else_happens(self):
        rig = self.start("30d")
        rig.load(count=MANY).result()
        rig.settle()
        self.assertTrue(all(n >= MANY for n in self.stored(rig).values()), self.stored(rig))
        rig.config["history"] = rig.config["ingress"]["archive"] = {"keep": "1s"}
        rig.write_config()
        for daemon in rig.daemons.values():
            daemon.reload()
        self.wait_until_deleted(rig)

    def test_events_that_arrive_meanwhile_are_delivered(self):
        rig = self.start("1s")
        rig.load(count=2 * MANY, rate=MANY // 2).result()
        self.assertLess(self.stored(rig)["sequencer"], 2 * MANY)  # some are deleted while others arrive
        self.assertEqual(len({r.id for r in rig.receiver.wait(count=2 * MANY)}), 2 * MANY)
        self.wait_until_deleted(rig)


if __name__ == "__main__":
    main()
