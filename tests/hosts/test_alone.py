"""P1, P2, P3: the host of an active process reaches the replication database, but no other process of the pipeline."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
from packets import why_not
from postgres import prepare, programs
from replicated import TAKEOVER_S, ReplicatedTest
from rig import main

WITH_TWO_INGRESSES = {"a": ["ingress"], "b": ["ingress"], "c": ["sequencer", "dlqd"], "d": ["deliverer-1"]}
WITH_TWO_SEQUENCERS = {"a": ["sequencer"], "b": ["sequencer"], "c": ["ingress", "dlqd"], "e": ["ingress", "dlqd"],
                       "d": ["deliverer-1"]}


class Alone(ReplicatedTest):
    def setUp(self):
        reason = why_not()
        if reason:
            self.skipTest(f"a relay accepts connections for hosts that are cut off; no network namespaces: {reason}")

    def begin_on(self, layout, tenure_ms=1):
        cluster = self.begin_with(layout, GRAPNEL_TEST_ALONE_MS=str(tenure_ms))
        cluster.start("deliverer-1")
        return cluster

    def cut_off(self, cluster, *hosts):
        """Each of them reaches the engine and the world only."""
        others = {(a, b) for a in hosts for b in cluster.layout if a != b}
        return self.wounds.disturb([way for a, b in others for way in ((a, b), (b, a))], is_cut=True)

    def replication(self, cluster, name):
        return cluster.ask(name, "status")["replication"]

    def wait_alone(self, cluster, name):
        """For much longer than it has to be before it hands over."""
        self.supervised(lambda: self.replication(cluster, name)["alone_ms"] > 3 * TAKEOVER_S * 1000, what=f"{name} to be alone")

    def row(self, cluster, name, host):
        """Whether the standby is ready, and how many processes it reaches."""
        line, = cluster.engine.sql(f"SELECT ready, peers FROM grapnel.node WHERE process = '{name}' AND host = '{host}'")
        ready, peers = line.split("|")
        return ready == "t", int(peers)

    def assert_stays(self, cluster, name, sent):
        """The active on host a has not given its store away, and all goes on."""
        self.assertEqual(cluster.takeovers(), {name: 1})
        self.assertEqual(self.supervisor.ended, {})
        sent.append(self.accept(cluster, "a"))
        self.judge(cluster, sent)
        self.supervised(lambda: self.replication(cluster, name)["alone_ms"] == 0, what=f"{name} to reach the others again")
        self.assertEqual(cluster.takeovers(), {name: 1})

    def assert_moves(self, cluster, name, sent, ingress):
        """Host a, which is cut off, has handed it over to b, and follows when it is healed. Host `ingress` accepts events then."""
        cut = self.cut_off(cluster, "a")
        sent.append(self.accept(cluster, "a" if name == "ingress" else ingress))
        self.supervised(cluster[f"{name}@b"].is_active, what=f"{name} of host b to take over")
        sent.append(self.accept(cluster, ingress))
        self.judge(cluster, sent)
        self.supervised(lambda: self.supervisor.ended, what=f"{name} of host a to end")
        self.assertEqual(self.supervisor.ended, {75: 1})
        # It was given away: nobody has waited for the silence.
        self.assertEqual(cluster.engine.sql("SELECT process FROM grapnel.owner WHERE claim <> -1"), [])
        self.assertIn("it hands the store over to=b", cluster[f"{name}@a"].log())
        self.supervised(lambda: self.row(cluster, name, "a") == (True, 0), what="host a to follow alone")
        self.wounds.restore(cut)
        self.supervised(lambda: self.row(cluster, name, "a")[1] > 0, what="host a to reach the others again")
        self.supervised(lambda: cluster.is_whole(name) and cluster.copies_are_equal(name), what="host a to follow")
        self.assertEqual(cluster.takeovers()[name], 2)
        sent.append(self.accept(cluster, ingress))
        self.judge(cluster, sent)
        self.assertEqual(self.supervisor.unasked, [])

    def test_an_ingress_that_reaches_nobody_hands_over_to_a_host_that_does(self):
        cluster = self.begin_on(WITH_TWO_INGRESSES)
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.supervised(lambda: self.row(cluster, "ingress", "b") == (True, 1), what="host b to reach the sequencer")
        listed = cluster.cli_at("b", "replicate", "status", "--json").stdout
        self.assertIn('"peers": 1', listed)
        # Connections that only look are no trouble to the other end.
        self.assertEqual([line for line in cluster["sequencer"].log().splitlines() if " warn " in line or " error " in line], [])
        self.assert_moves(cluster, "ingress", sent, "b")

    def test_a_sequencer_that_reaches_nobody_hands_over_to_a_host_that_does(self):
        cluster = self.begin_on(WITH_TWO_SEQUENCERS)
        sent = [self.accept(cluster, "c") for _ in range(5)]
        self.supervised(lambda: self.row(cluster, "sequencer", "b") == (True, 3), what="host b to reach all three")
        self.assert_moves(cluster, "sequencer", sent, "c")

    def test_one_that_reaches_nobody_keeps_its_store_while_no_standby_does(self):
        cluster = self.begin_on(WITH_TWO_INGRESSES)
        sent = [self.accept(cluster, "a") for _ in range(5)]
        cut = self.cut_off(cluster, "a", "b")
        sent.append(self.accept(cluster, "a"))
        self.wait_alone(cluster, "ingress")
        self.assertEqual(self.row(cluster, "ingress", "b"), (True, 0))
        metrics = {series["name"]: series.get("value") for series in cluster.ask("ingress", "status")["series"]}
        self.assertEqual(metrics["grapnel_replication_peers"], 0)
        self.wounds.restore(cut)
        self.assert_stays(cluster, "ingress", sent)

    def test_a_sequencer_that_is_away_makes_no_ingress_hand_over(self):
        cluster = self.begin_on(WITH_TWO_INGRESSES)
        sent = [self.accept(cluster, "a") for _ in range(5)]
        self.wounds.kill(["sequencer"])
        sent.append(self.accept(cluster, "a"))
        self.wait_alone(cluster, "ingress")
        self.assertEqual(self.row(cluster, "ingress", "b"), (True, 0))
        self.wounds.start_again(["sequencer"])
        self.assert_stays(cluster, "ingress", sent)

    def test_one_that_has_just_taken_over_keeps_its_store(self):
        """For ten minutes, so that it does not go to and fro."""
        cluster = self.begin_on(WITH_TWO_INGRESSES, tenure_ms=600_000)
        sent = [self.accept(cluster, "a") for _ in range(5)]
        cut = self.cut_off(cluster, "a")
        sent.append(self.accept(cluster, "a"))
        self.wait_alone(cluster, "ingress")
        self.assertEqual(self.row(cluster, "ingress", "b"), (True, 1))
        self.wounds.restore(cut)
        self.assert_stays(cluster, "ingress", sent)


if __name__ == "__main__":
    if programs():
        prepare()
    main(at_once=2)
