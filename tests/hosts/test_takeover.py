"""P1, P2, P3, P5: a host with replicated stores is lost, stopped, or cut off, or the engine is, and the standby on another
host goes on with all that was acknowledged."""

import contextlib
import http.client
import json
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
import faults
from postgres import prepare, programs
from replicated import STORES, TAKEOVER_S, ReplicatedTest
from rig import SLOW, main, sign_plane


class Takeover(ReplicatedTest):
    def hand_over(self, cluster, name, host, to):
        """The active looks at the standbys once in each `hold` when it has nothing else to do, so it may know an older state."""
        def accepted():
            done = cluster.cli_at(host, "handover", name, to)
            if "no standby of it runs" in done.stderr or "is not ready" in done.stderr:
                return False
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        print(self.supervised(accepted, what=f"handover of {name}").strip(), file=sys.stderr)

    def test_a_host_that_is_wiped_after_a_2xx_loses_nothing(self):
        """Nothing of the event had left the host, except to the engine's log."""
        cluster = self.begin()
        cluster["sequencer@a"].pause()
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.wipe("a")
        self.wait_active(cluster, "b")
        cluster.start("deliverer-1")
        sent.append(self.accept(cluster, "b"))
        self.judge(cluster, sent)
        for name in STORES:
            status = cluster.ask(name, "status")["replication"]
            self.assertEqual((status["host"], status["role"], status["epoch"]), ("b", "active", 2))
        self.wounds.start_again(cluster.on("a"))
        for name in STORES:
            self.supervised(lambda n=name: cluster.is_whole(n) and cluster.copies_are_equal(n),
                            what=f"{name} of the wiped host to follow")

    def test_the_standby_takes_over_from_a_host_that_was_killed(self):
        cluster = self.begin()
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.kill(cluster.on("a"))
        killed = time.monotonic()
        self.wait_active(cluster, "b")
        took_s = time.monotonic() - killed
        print(f"takeover after {took_s:.1f} s; takeover_after is {TAKEOVER_S} s", file=sys.stderr)
        self.assertLess(took_s, 2 * TAKEOVER_S * SLOW)
        sent.append(self.accept(cluster, "b"))
        self.judge(cluster, sent)

    def test_a_process_that_is_stopped_gives_its_store_away_at_once(self):
        """No standby has waited for its silence: it would have written a claim after half of it."""
        cluster = self.begin(takeover_s=30)
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        for name in STORES:
            key, = self.wounds.stop_active(name)
            self.assertEqual(cluster[key].wait_exit(), 0)
        self.wait_active(cluster, "b")
        self.assertEqual(cluster.engine.sql("SELECT process FROM grapnel.owner WHERE claim <> -1"), [])
        self.assertEqual(set(cluster.takeovers().values()), {2})
        sent.append(self.accept(cluster, "b"))
        self.judge(cluster, sent)

    def test_a_process_that_is_killed_and_starts_again_does_not_wait(self):
        """Its lock file shows that the former owner has ended."""
        cluster = self.begin(takeover_s=30)
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        for name in STORES:
            cluster[f"{name}@a"].kill()
        self.wait_active(cluster, "a")
        self.assertEqual(cluster.engine.sql("SELECT process FROM grapnel.owner WHERE claim <> -1"), [])
        sent.append(self.accept(cluster, "a"))
        self.judge(cluster, sent)

    def test_a_handover_gives_the_stores_to_the_host_that_is_named(self):
        cluster = self.begin(takeover_s=30, hosts="abc")
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        for name in STORES:
            self.hand_over(cluster, name, "a", "c")
        self.wait_active(cluster, "c")
        self.assertEqual(cluster.engine.sql("SELECT process FROM grapnel.owner WHERE claim <> -1"), [])
        sent.append(self.accept(cluster, "c"))
        self.judge(cluster, sent)
        for name in STORES:
            self.supervised(lambda n=name: cluster.is_whole(n) and cluster.copies_are_equal(n),
                            what=f"the former active {name} to follow")
        self.assertEqual(self.supervisor.unasked, [])

    def test_a_turn_that_the_engine_lacks_is_cut_off_when_its_host_comes_back(self):
        """The event in it was never acknowledged. Its sender sends it again, and it is one event."""
        cluster = self.begin()
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        cut = self.wounds.disturb(faults.ways_to(self.wounds, "a", "all", "both"), is_cut=True)
        body = cluster.plane_body()
        before = (cluster.hosts["a"].state_dir / "ingress.db-wal").read_bytes()
        with contextlib.suppress(OSError):
            self.assertNotEqual(cluster.post_to("a", body, timeout=1)[0], 200)
        self.assertNotEqual((cluster.hosts["a"].state_dir / "ingress.db-wal").read_bytes(), before)
        self.wounds.kill(cluster.on("a"))
        self.wait_active(cluster, "b")
        self.wounds.restore(cut)
        sent.append(self.accept(cluster, "b"))
        self.wounds.start_again(cluster.on("a"))
        for name in STORES:
            self.supervised(lambda n=name: cluster.is_whole(n) and cluster.copies_are_equal(n),
                            what=f"{name} of host a to follow")
        self.assertEqual(list(cluster.hosts["a"].state_dir.glob("*diverged*")), [])
        sent.append(self.accept(cluster, "b", body))
        self.judge(cluster, sent)

    def test_a_standby_with_a_full_disk_leaves_the_stores_to_another_host(self):
        """It could only take them over again and again, and keep them from a host that has space."""
        cluster = self.begin()
        if cluster.hosts["b"].why_no_disk:
            self.skipTest(cluster.hosts["b"].why_no_disk)
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.fill("b")
        self.wounds.kill(cluster.on("a"))
        for name in STORES:
            standby = cluster[f"{name}@b"]
            self.supervised(lambda d=standby: d.said().rfind("not ready") > d.said().rfind("standby: ready") or d.exit_code,
                            what=f"{name} of host b to notice it")
        self.wounds.start_again(cluster.on("a"))
        self.wait_active(cluster, "a")
        sent.append(self.accept(cluster, "a"))
        self.wounds.empty("b")
        for name in STORES:
            self.supervised(lambda n=name: cluster.is_whole(n), what=f"{name} of host b to follow")
        self.judge(cluster, sent)
        self.assertEqual(self.supervisor.unasked, [])

    def test_a_host_with_a_full_disk_hands_its_stores_over(self):
        """It cannot store anything more, also not the end of its work, and loses nothing."""
        cluster = self.begin(takeover_s=30)
        if cluster.hosts["a"].why_no_disk:
            self.skipTest(cluster.hosts["a"].why_no_disk)
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.fill("a")

        def is_refused():
            """The process may have some space of its own left."""
            body = cluster.plane_body()
            status = cluster.post_to("a", body, timeout=30)[0]
            if status == 200:
                sent.append(json.loads(body)["data"]["n"])
            return status == 503
        self.supervised(is_refused, what="503 of the ingress with a full disk")
        for name in STORES:
            self.hand_over(cluster, name, "a", "b")
        self.wait_active(cluster, "b")
        self.assertEqual(cluster.engine.sql("SELECT process FROM grapnel.owner WHERE claim <> -1"), [])
        sent.append(self.accept(cluster, "b"))
        self.wounds.empty("a")
        for name in STORES:
            self.supervised(lambda n=name: cluster.is_whole(n), what=f"{name} of host a to follow")
        self.judge(cluster, sent)
        self.assertEqual(self.supervisor.unasked, [])

    def test_while_the_engine_is_away_nothing_is_acknowledged_and_then_all_goes_on(self):
        cluster = self.begin()
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        cluster.receiver.wait(count=5)
        cluster.engine.lose()
        bodies = [cluster.plane_body() for _ in range(5)]

        def is_refused(body):
            try:
                status, said = cluster.post_to("a", body, timeout=TAKEOVER_S)
            except OSError:
                return False
            self.assertEqual(status, 503, said)
            return True
        self.supervised(lambda: is_refused(bodies[0]), what="503 of ingress")
        for body in bodies:
            is_refused(body)
        self.assertEqual(len(cluster.receiver.delivered("/crm")), 5)
        cluster.engine.come_back()
        cluster.engine.wait_whole()
        sent += [self.accept(cluster, self.host_of_ingress(cluster), body) for body in bodies]
        self.judge(cluster, sent)
        self.assertEqual(self.supervisor.unasked, [])

    def test_while_the_engines_primary_is_cut_off_from_its_standbys_nothing_is_acknowledged(self):
        """Its hosts reach it, and it executes what they send, but no COMMIT ends. It heals by itself, without a failover."""
        cluster = self.begin()
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        cluster.receiver.wait(count=5)
        for way in ("both", "out", "in"):
            cut = self.wounds.disturb_engine(lambda e, w=way: faults.ways_to_standbys(e, "all standbys", w, None),
                                             is_cut=True)
            body = cluster.plane_body()
            for _ in range(2):
                with contextlib.suppress(OSError):
                    self.assertNotEqual(cluster.post_to("a", body, timeout=TAKEOVER_S)[0], 200)
            self.assertEqual(len(cluster.receiver.delivered("/crm")), len(sent))
            self.wounds.restore_engine(cut)
            self.supervised(self.wounds.is_over, what="the engine to be whole")
            sent.append(self.accept(cluster, self.host_of_ingress(cluster), body))
            cluster.receiver.wait(count=len(sent), timeout=60)
        self.judge(cluster, sent)
        self.assertEqual(self.supervisor.unasked, [])

    def host_of_ingress(self, cluster):
        return self.supervised(lambda: cluster.active("ingress"), what="an active ingress").rig.name

    def test_an_active_that_wakes_after_a_takeover_acknowledges_nothing_and_follows(self):
        """A request waits in its socket meanwhile. Its sender is not told 2xx, and sends it again to the other host."""
        cluster = self.begin()
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.pause(cluster.on("a"))
        body = cluster.plane_body()
        waiting = http.client.HTTPConnection(*cluster.url_of_ingress("a"), timeout=60 * SLOW)
        self.addCleanup(waiting.close)
        waiting.request("POST", "/in/plane", body, sign_plane(body))
        for name in STORES:
            self.supervised(cluster[f"{name}@b"].is_active, what=f"{name} of host b to take over")
        sent.append(self.accept(cluster, "b"))
        self.wounds.resume(cluster.on("a"))
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.assertNotEqual(waiting.getresponse().status, 200)
        for name in STORES:
            self.supervised(lambda n=name: cluster.is_whole(n) and cluster[f"{n}@b"].is_active(),
                            what=f"{name} of host a to follow")
        sent.append(self.accept(cluster, "b", body))
        self.judge(cluster, sent)
        self.assertEqual(self.supervisor.ended, {75: len(STORES)})

    def test_of_two_standbys_one_takes_over(self):
        cluster = self.begin(hosts="abc")
        before = cluster.takeovers()
        cluster.start("deliverer-1")
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.kill(cluster.on("a"))
        for name in STORES:
            self.supervised(lambda n=name: cluster.active(n), what=f"{name} to be taken over")
        sent.append(self.accept(cluster, self.host_of_ingress(cluster)))
        self.judge(cluster, sent)
        for name in STORES:
            self.assertEqual([d.is_active() for d in cluster.instances(name)].count(True), 1)
            self.assertEqual([d.is_ready() for d in cluster.instances(name)].count(True), 1)
        self.assertEqual(cluster.takeovers(), {name: count + 1 for name, count in before.items()})


if __name__ == "__main__":
    if programs():
        prepare()
    main(at_once=2)
