"""The replication database loses commits that it has acknowledged: a standby that was not synchronous is promoted. The processes notice it and end, and what an
operator does then (docs/CLUSTER.md, "The log went back") lets the pipeline go on."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from engine_rig import Cluster
from rig import RigTest, main, wait_for
from test_replicated import STORES, Host

STORAGE = 74
LOST = "ingress", "sequencer"  # the stores whose log has lost turns; dlqd had none to lose


class WentBack(RigTest):
    def hosts(self):
        """s1 is synchronous, s2 is not."""
        self.engine = Cluster(standbys=2, names="FIRST 1 (s1)")
        self.addCleanup(self.engine.close)
        servers = [self.engine.primary, *self.engine.standbys]
        uri = "postgresql://grapnel@/postgres?host=" + ",".join(str(s.folder) for s in servers)
        a = Host("a", database=uri)
        b = Host("b", first=a, database=uri)
        for rig in (b, a):
            self.addCleanup(self._end, rig)
        a.state_dir.mkdir()
        self.run_ok(a, "replicate", "begin")
        a.start()
        b.follow()
        return a, b

    def run_ok(self, rig, *args):
        done = rig.cli_text(*args)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def last(self, name):
        return int(self.engine.primary.sql(f"SELECT last FROM grapnel.owner WHERE process = '{name}'")[0])

    def stop_copying(self):
        """s2 has all of now, and nothing that comes."""
        old = self.engine.standbys[1]
        wait_for(lambda: self.engine.primary.sql(
            "SELECT 1 FROM pg_stat_replication WHERE application_name = 's2' AND replay_lsn >= "
            "(SELECT max(flush_lsn) FROM pg_stat_replication)"), what="s2 to have everything")
        old.kill()

    def lose_commits(self):
        """s2 becomes the primary, and gets a synchronous standby."""
        for lost in (self.engine.primary, self.engine.standbys[0]):
            lost.kill()
            self.addCleanup(lost.close)
        old = self.engine.standbys[1]
        old.wait_gone()
        old.start(cluster_name="s2")
        old.promote()
        self.engine.primary, self.engine.standbys = old, []
        self.engine.add_standby()
        self.engine.wait_synchronous()
        old.sql("CHECKPOINT")

    def follows(self, host, *names):
        """These standbys have all turns."""
        for name in names:
            wait_for(lambda n=name: self.engine.primary.sql(
                f"SELECT 1 FROM grapnel.node JOIN grapnel.owner USING (process) WHERE process = '{n}' AND "
                f"node.host = '{host.host}' AND n = last"), 30, f"{name} of {host.host} to have all turns")

    def ends(self, daemon, text):
        self.assertEqual(daemon.wait_exit(60), STORAGE)
        self.assertIn(text, daemon.log())

    def ends_again(self, daemon):
        said = len(daemon.log())
        daemon.start(wait=False)
        self.assertEqual(daemon.wait_exit(60), STORAGE, daemon.log()[said:])
        self.assertIn("The log went back", daemon.log()[said:])

    def went_back(self):
        """Host a has events of which the log has lost the later ones. (hosts a and b, events before, events after)"""
        a, b = self.hosts()
        kept = [a.accept() for _ in range(3)]
        for event in kept:
            a.wait_status(event)
        self.follows(b, *STORES)
        self.stop_copying()
        gone = [a.accept() for _ in range(3)]
        for event in gone:
            a.wait_status(event)
        self.follows(b, *STORES)
        self.lose_commits()
        for name in LOST:
            self.ends(a[name], "contradicts")
            self.ends(b[name], "The log went back")
        for name in LOST:
            for rig in (a, b):
                self.ends_again(rig[name])
        self.assertTrue(a["dlqd"].up())
        return a, b, kept, gone

    def test_the_operator_keeps_the_file(self):
        """P1, P4: all events are there with their numbers, and the next number follows."""
        a, b, kept, gone = self.went_back()
        b.kill()
        for name in LOST:
            self.run_ok(a, "replicate", "off", name, "--standbys-are-stopped")
            self.engine.primary.sql(f"DELETE FROM grapnel.owner WHERE process = '{name}'")
            self.run_ok(a, "replicate", "begin", name)
        a.start()
        event = a.accept()
        a.wait_status(event)
        self.assertEqual([a.trace(e)["sequence"] for e in [*kept, *gone, event]], list(range(1, 8)))
        self.assertEqual(len({r.headers["grapnel-series"] for r in a.receiver.requests()}), 1)
        self.judge(a, [*kept, *gone, event])
        b.follow()
        self.takes_over(a, b, [*kept, *gone, event], 8)

    def judge(self, host, events):
        """Each of these was delivered once, and nothing else."""
        host.settle()
        self.assertEqual(sorted(r.id for r in host.receiver.requests()), sorted(events))

    def takes_over(self, a, b, events, number):
        a.lose()
        b.start("deliverer-b")
        for name in STORES:
            wait_for(b[name].up, 60, f"{name} of b to own its store")
        for e in events:
            b.wait_status(e)
        event = b.accept()
        b.wait_status(event, timeout=60)
        self.assertEqual(b.trace(event)["sequence"], number)

    def test_the_operator_keeps_the_log(self):
        """P1, P4: what the log lacks is lost, and nothing else; numbers that receivers may have seen are of another series."""
        a, b, kept, gone = self.went_back()
        for rig in (a, b):
            for name in LOST:
                for path in rig.state_dir.glob(f"{name}.db*"):
                    path.rename(rig.folder / path.name)
        a.start_s = 60
        a.start()
        event = a.accept()
        a.wait_status(event)
        self.assertEqual([a.trace(e)["sequence"] for e in kept], [1, 2, 3])
        for lost in gone:
            self.assertIn("the sequencer does not have it", a.cli_text("trace", lost).stdout)
        self.judge(a, [*kept, *gone, event])
        series = {r.id: r.headers["grapnel-series"] for r in a.receiver.requests()}
        self.assertNotEqual(series[event], series[gone[0]])
        b.follow(*LOST)
        self.takes_over(a, b, [*kept, event], a.trace(event)["sequence"] + 1)

    def lose_one_turn(self):
        """The log has lost the last turn of a's ingress, which has noticed it; b does not run. (hosts a and b, the turn that is left)"""
        a, b = self.hosts()
        a.wait_status(a.accept())
        b.kill()
        a.kill("sequencer", "dlqd", "deliverer-a")
        a["ingress"].pause()  # or s2 may lack a turn that it makes by itself
        wait_for(lambda: not self.engine.primary.sql(
            "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' "
            "AND pid <> pg_backend_pid()"), what="the last statement of a's ingress to end")
        self.stop_copying()
        before = self.last("ingress")
        a["ingress"].resume()
        a.accept()
        self.assertEqual(self.last("ingress"), before + 1)
        self.lose_commits()
        self.ends(a["ingress"], "contradicts")
        return a, b, before

    def test_one_turn_is_lost(self):
        """P1: a start may cut off one turn of which nobody was told, but not the one whose loss the active has noticed."""
        a, _, _ = self.lose_one_turn()
        for _ in range(2):
            self.ends_again(a["ingress"])

    def test_one_turn_is_lost_and_another_host_goes_on(self):
        """P1: a host whose last turn the log has lost and then replaced keeps it in a file beside, and does not just follow."""
        a, b, before = self.lose_one_turn()
        b["ingress"].start(wait=False)
        wait_for(b["ingress"].up, 60, "ingress of b to own its store")
        wait_for(lambda: self.last("ingress") > before, what="b to go on")
        a.follow("ingress")
        self.assertIn("it was renamed", a["ingress"].log())
        self.assertTrue((a.state_dir / "ingress.db.diverged").exists())


if __name__ == "__main__":
    main(at_once=2)
