"""The engine of replication against real servers of PostgreSQL: what each call returns, and what it proves."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from engine_rig import HISTORY, ZEROS, Active, Cluster, Server, chain
from postgres import new_folder, prepare, programs
from rig import main, wait_for

LONG, SHORT = 60000, 2000  # hold_ms: a call may take half of it
NOBODY = "00" * 16
WEAK = "synchronous_standby_names is empty: an acknowledged commit is on one machine only"


class EngineTest(unittest.TestCase):
    standbys = 1

    def setUp(self):
        self.cluster = Cluster(standbys=self.standbys)
        self.addCleanup(self.cluster.close)
        self.primary = self.cluster.primary

    def active(self, uri=None, hold_ms=LONG, **options):
        """The owner of the store of `process`, with a connection of its own."""
        return Active(self.cluster.engine(uri, hold_ms=hold_ms, **options)).begin()

    def again(self, active, uri=None, **options):
        """The same owner with a new engine."""
        other = Active(self.cluster.engine(uri, **{"hold_ms": LONG, **options}), active.holder)
        other.n, other.epoch, other.beat_count = active.n, active.epoch, active.beat_count
        return other

    def is_(self, result, said, *words):
        self.assertEqual(said["result"], result, said)
        for word in words:
            self.assertIn(word, said["why"])
        return said

    def done(self, said):
        return self.is_("DONE", said)

    def no_row(self, said):
        return self.is_("NO_ROW", said)

    def unknown(self, said, *words):
        self.assertTrue(said["why"])
        return self.is_("UNKNOWN", said, *words)

    def pause_standbys(self):
        for standby in self.cluster.standbys:
            standby.pause()
            self.addCleanup(standby.resume)

    def resume_standbys(self):
        for standby in self.cluster.standbys:
            standby.resume()

    def waiting_commit(self):
        """The process of the server whose COMMIT waits for a standby."""
        return int(wait_for(self.primary.waits_for_a_standby, what="a COMMIT that waits")[0])

    def log(self, active, since=0):
        """All turns of the log, read in small pieces."""
        turns = []
        while True:
            more = active.follow(n=since, max_bytes=100_000)["turns"]
            if not more:
                return turns
            turns += more
            since = more[-1]["n"]

    def assert_log(self, turns, last):
        """These turns, each once, in order, with their bytes."""
        self.assertEqual([t["n"] for t in turns], list(range(1, last + 1)))
        self.assertEqual([t["chain"] for t in turns], [chain(n) for n in range(1, last + 1)])
        self.assertTrue(all(t["good"] for t in turns))


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Calls(EngineTest):
    """Servers that work."""

    def test_a_turn_a_beat_and_a_release_compare_all_that_the_owner_knows(self):
        a = self.active()
        self.done(a.append())
        before = a.follow()
        for wrong in ({"epoch": 2}, {"holder": "0b" * 16}, {"holder": NOBODY}, {"n": 0}, {"n": 2},
                      {"chain": chain(7)}, {"history": "b2" * 16}):
            at = {**a.at, **wrong}
            self.no_row(a.engine.append(**at, next=chain(2), parts=[10]))
            self.no_row(a.engine.beat(**at))
            self.no_row(a.engine.release(**at, beat=a.beat_count))
        self.no_row(a.engine.release(**a.at, beat=a.beat_count - 1))
        self.assertEqual(a.follow(), before)
        self.assert_log(self.log(a), 1)
        self.assertEqual(self.done(a.beat())["beat"], a.beat_count)
        self.assertEqual(a.beat_count, before["beat"] + 1)
        self.done(a.release())
        self.assertEqual(a.follow()["holder"], NOBODY)
        self.no_row(a.append())
        a.holder = NOBODY
        self.no_row(a.append())

    def test_a_takeover_and_a_claim_compare_what_the_standby_has_seen(self):
        a = self.active()
        self.done(a.append())
        seen = a.follow()
        me = "0b" * 16
        for wrong in ({"history": "b2" * 16}, {"epoch": 0}, {"n": 0}, {"chain": chain(7)},
                      {"beat": seen["beat"] - 1}, {"schema": 2}):
            self.no_row(a.engine.take_over(**{**seen, **wrong, "me": me}))
        for wrong in ({"history": "b2" * 16}, {"epoch": 0}, {"beat": seen["beat"] - 1}):
            self.no_row(a.engine.claim(**{**seen, **wrong}))
        self.assertEqual(a.follow(), seen)
        self.done(a.engine.claim(**seen))
        self.assertEqual(a.follow()["claim"], seen["beat"])
        self.assertEqual(self.done(a.engine.take_over(**{**seen, "me": me}))["epoch"], 2)
        self.no_row(a.append())
        self.no_row(a.beat())

    def test_a_turn_says_which_schema_it_leaves(self):
        a = self.active()
        seen = a.follow()
        a.schema = 3
        self.done(a.beat())
        self.assertEqual(a.follow()["schema"], 1)
        self.no_row(a.engine.append(**{**a.at, "epoch": 2}, next=chain(1), parts=[10]))
        self.assertEqual(a.follow()["schema"], 1)
        self.done(a.append())
        self.assertEqual(a.follow()["schema"], 3)
        self.no_row(a.engine.take_over(**{**a.follow(), "schema": seen["schema"], "me": "0b" * 16}))

    def test_what_a_snapshot_without_a_manifest_has_left_is_deleted(self):
        a = self.active()
        for n in (1, 2, 3, 4):
            self.done(a.append())
            for part in range(150 if n == 2 else 2):
                self.done(a.engine.put_snapshot(**a.at, part=part, bytes=10))
            if n == 1:
                self.done(a.engine.put_snapshot(**a.at, part=-1, bytes=10))
        for wrong in ({"epoch": 2}, {"holder": "0b" * 16}):
            self.no_row(a.engine.forget_unfinished(**{**a.at, **wrong}, after=1, before=4))
        self.assertTrue(self.done(a.engine.forget_unfinished(**a.at, after=1, before=4))["more"])
        self.assertFalse(self.done(a.engine.forget_unfinished(**a.at, after=1, before=4))["more"])
        self.assertEqual(self.primary.sql("SELECT n, count(*) FROM grapnel.snapshot GROUP BY n "
                                          "ORDER BY n"), ["1|3", "4|2"])
        self.assertEqual(len(self.log(a)), 4)

    def test_slices_of_a_turn_are_beside_snapshots_and_deleted_when_the_turn_is_not_in_the_log(self):
        a = self.active()
        self.done(a.append())
        put, get, forget = a.engine.put_slice, a.engine.get_slice, a.engine.forget_slices
        at = {**a.at, "n": 2}
        for slice, size in ((0, 1000), (1, 262144), (1, 5000)):  # the last one replaces
            self.done(put(**at, slice=slice, bytes=size))
        for wrong in ({"epoch": 2}, {"holder": "0b" * 16}, {"history": "b2" * 16}):
            self.no_row(put(**{**at, **wrong}, slice=2, bytes=10))
        self.no_row(forget(**{**a.at, "epoch": 2}))
        for slice, size in ((0, 1000), (1, 5000)):
            said = self.done(get(n=2, epoch=1, slice=slice))
            self.assertEqual((said["bytes"], said["good"]), (size, True))
        self.no_row(get(n=2, epoch=1, slice=2))
        self.no_row(get(n=2, epoch=2, slice=0))
        self.no_row(a.engine.get_snapshot(part=-1))
        self.done(a.append())  # from now on they are of a turn in the log
        self.assertFalse(self.done(forget(**a.at))["more"])
        self.done(a.engine.put_snapshot(**{**a.at, "n": 2}, part=0, bytes=10))
        self.done(a.engine.forget_unfinished(**a.at, after=-1, before=3))
        self.no_row(a.engine.get_snapshot(part=0))
        self.done(get(n=2, epoch=1, slice=0))
        for slice in range(150):
            self.done(put(**{**a.at, "n": 3}, slice=slice, bytes=10))
        self.assertTrue(self.done(forget(**a.at))["more"])
        self.assertFalse(self.done(forget(**a.at))["more"])
        self.no_row(get(n=3, epoch=1, slice=149))
        self.done(get(n=2, epoch=1, slice=0))
        self.done(a.append())
        self.done(a.engine.forget(**{**a.at, "n": 3}))  # with its turn
        self.no_row(get(n=2, epoch=1, slice=0))

    def test_a_history_begins_once(self):
        a = self.active()
        said = a.engine.begin_history(n=0, chain=ZEROS, schema=1)
        self.no_row(said)
        other = self.cluster.engine(process="dlqd", hold_ms=LONG)
        self.assertFalse(self.done(other.follow(n=0, chain=ZEROS, max_bytes=0))["exists"])
        self.assertEqual(a.follow()["history"], HISTORY)

    def test_a_turn_whose_acknowledgement_is_lost_is_in_once(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri)
        relay.lose_commit()
        self.unknown(a.append(20000), "connection lost")
        self.no_row(a.append(20000))
        seen = a.follow()
        self.assertEqual((seen["n"], seen["chain"], seen["holder"]), (1, chain(1), a.holder))
        a.n = 1
        self.done(a.beat())
        self.done(a.append())
        self.assert_log(self.log(a), 2)

    def test_a_turn_that_arrives_late_does_nothing_after_it_was_repeated(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri, hold_ms=SHORT)
        relay.hold()
        self.unknown(a.append(), "did not reply")
        self.done(a.append())
        self.assertEqual(relay.deliver(), 1)
        self.done(a.append())
        self.assert_log(self.log(a), 2)

    def test_a_release_that_arrives_late_does_nothing_after_a_beat(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri, hold_ms=SHORT)
        self.done(a.append())
        relay.hold()
        self.unknown(a.release("b"))
        self.done(a.beat())
        self.assertEqual(relay.deliver(), 1)
        self.assertEqual((a.follow()["holder"], a.follow()["heir"]), (a.holder, ""))
        relay.hold()  # and without a beat it gives the store away
        self.unknown(a.release())
        self.assertEqual(relay.deliver(), 1)
        self.assertEqual(a.follow()["holder"], NOBODY)

    def test_a_release_names_the_host_that_takes_over_without_waiting(self):
        a = self.active()
        self.assertEqual((a.follow()["host"], a.follow()["heir"]), ("a", ""))
        self.done(a.beat())
        self.done(a.release("b"))
        b, c = (Active(self.cluster.engine(host=h, hold_ms=LONG), h * 32) for h in "bc")
        self.assertEqual([(s["host"], s["heir"], s["for_another"])
                          for s in (a.follow(), b.follow(), c.follow())],
                         [("a", "b", True), ("a", "b", False), ("a", "b", True)])
        b.take_over()
        for each in (a, b):
            seen = each.follow()
            self.assertEqual((seen["holder"], seen["host"], seen["heir"], seen["for_another"]),
                             (b.holder, "b", "", False))
        self.done(b.beat())
        self.done(b.release())  # for any host
        self.assertEqual([(s["host"], s["heir"], s["for_another"]) for s in (a.follow(), b.follow())],
                         2 * [("b", "", False)])

    def test_a_release_for_a_host_whose_acknowledgement_is_lost_is_known_by_the_judge(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri)
        self.done(a.beat())
        relay.lose_commit()
        self.unknown(a.release("b"), "connection lost")
        self.no_row(a.beat())
        seen = a.follow()
        self.assertEqual((seen["holder"], seen["heir"], seen["epoch"]), (NOBODY, "b", 1))
        self.no_row(a.release("c"))
        self.assertEqual(a.follow(), seen)

    def test_of_two_standbys_that_take_over_at_once_one_becomes_the_owner(self):
        a = self.active()
        seen = a.follow()
        rivals = [Active(self.cluster.engine(host=h, hold_ms=LONG), f"{h}" * 32) for h in "bc"]
        for rival in rivals:
            rival.follow(n=0)
        with self.primary.session() as row:
            row.do("BEGIN")
            row.do("SELECT 1 FROM grapnel.owner FOR UPDATE")
            for rival in rivals:
                rival.engine.send("take_over", **{**seen, "me": rival.holder})
            wait_for(lambda: self.primary.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'grapnel' "
                "AND wait_event_type = 'Lock'") == ["2"], what="both to wait for the row")
            row.do("COMMIT")
        said = [rival.engine.receive() for rival in rivals]
        self.assertEqual(sorted(s["result"] for s in said), ["DONE", "NO_ROW"])
        winner = rivals[[s["result"] for s in said].index("DONE")]
        owner = a.follow()
        self.assertEqual((owner["holder"], owner["epoch"]), (winner.holder, 2))

    def test_the_log_is_read_in_whole_turns_in_order_within_its_limit(self):
        a = self.active()
        sizes = [[100], [262144, 262144, 5], [3000, 3000], [3000], [3001]]
        for parts in sizes:
            self.done(a.append(*parts))
        self.assert_log(self.log(a), 5)
        self.assertEqual([t["parts"] for t in self.log(a)], sizes)
        for since, limit, expected in ((0, 1, [1]), (0, 100, [1]), (0, 524392, [1]), (0, 524393, [1, 2]),
                                       (1, 1, [2]), (2, 9000, [3, 4]), (2, 8999, [3]),
                                       (2, 12001, [3, 4, 5]), (5, 1000, []), (0, 0, [])):
            turns = a.follow(n=since, max_bytes=limit)["turns"]
            self.assertEqual([t["n"] for t in turns], expected, (since, limit))

    def test_a_turn_of_16_mib_is_one_turn(self):
        a = self.active()
        self.done(a.append(*[262144] * 64))
        turn, = self.log(a)
        self.assertEqual(turn["parts"], [262144] * 64)
        self.assertTrue(turn["good"])

    def test_a_snapshot_is_read_when_its_manifest_is_there(self):
        a = self.active()
        self.done(a.append())
        put, get = a.engine.put_snapshot, a.engine.get_snapshot
        self.no_row(get(part=-1))
        self.done(put(**a.at, part=0, bytes=1000))
        self.done(put(**a.at, part=1, bytes=262144))
        self.no_row(get(part=0))
        self.done(put(**a.at, part=1, bytes=5000))  # replaces it
        self.done(put(**a.at, part=-1, bytes=64))
        for part, size in ((-1, 64), (0, 1000), (1, 5000)):
            said = self.done(get(part=part))
            self.assertEqual((said["n"], said["epoch"], said["bytes"], said["good"]),
                             (1, 1, size, True))
        self.no_row(get(part=2))
        self.done(a.append())
        self.done(put(**a.at, part=0, bytes=2000))  # of a newer one, which is not whole
        self.assertEqual(self.done(get(part=0))["n"], 1)
        self.done(put(**a.at, part=-1, bytes=64))
        self.assertEqual(self.done(get(part=0))["n"], 2)
        for wrong in ({"epoch": 2}, {"holder": "0b" * 16}, {"history": "b2" * 16}):
            self.no_row(put(**{**a.at, **wrong}, part=0, bytes=3000))
        self.assertEqual(self.done(get(part=0))["bytes"], 2000)

    def test_old_turns_and_snapshots_are_deleted_in_bounded_steps_by_the_owner_alone(self):
        a = self.active()
        self.done(a.append(*[10] * 150))
        for _ in range(3):
            self.done(a.append(*[10] * 40))
        for n in (1, 3):
            for part in range(60 if n == 1 else 2):
                self.done(a.engine.put_snapshot(**{**a.at, "n": n}, part=part, bytes=10))
            self.done(a.engine.put_snapshot(**{**a.at, "n": n}, part=-1, bytes=10))
        for wrong in ({"epoch": 2}, {"holder": "0b" * 16}):
            self.no_row(a.engine.forget(**{**a.at, **wrong, "n": 3}))
        self.assertEqual(len(self.log(a)), 4)
        self.assertTrue(self.done(a.engine.forget(**{**a.at, "n": 3}))["more"])
        self.assertTrue(self.done(a.engine.forget(**{**a.at, "n": 3}))["more"])
        self.assertFalse(self.done(a.engine.forget(**{**a.at, "n": 3}))["more"])
        self.assertEqual([t["n"] for t in a.follow(n=0, max_bytes=10**6)["turns"]], [4])
        self.assertEqual(self.primary.sql("SELECT DISTINCT n FROM grapnel.snapshot"), ["3"])
        self.assertFalse(self.done(a.engine.forget(**{**a.at, "n": 3}))["more"])

    def test_each_process_has_a_log_of_its_own(self):
        a, b = self.active(), self.active(process="dlqd")
        self.done(a.append(10))
        self.done(b.append(20))
        self.done(b.append(30))
        self.assertEqual([t["parts"] for t in self.log(a)], [[10]])
        self.assertEqual([t["parts"] for t in self.log(b)], [[20], [30]])
        self.done(b.engine.forget(**{**b.at, "n": 2}))
        self.assertEqual(len(self.log(a)), 1)

    def test_the_row_of_the_node_says_how_far_it_is(self):
        a = self.active()
        self.done(a.engine.follow(n=5, chain=chain(5), ready=True, peers=3, max_bytes=0))
        query = "SELECT process, host, n, right(encode(chain, 'hex'), 2), ready, why, peers FROM grapnel.node"
        self.assertEqual(self.primary.sql(query), ["sequencer|a|5|05|t||3"])
        self.done(a.engine.follow(n=6, chain=chain(6), why="no secret \u00e4", max_bytes=0))
        self.assertEqual(self.primary.sql(query), ["sequencer|a|6|06|f|no secret \u00e4|0"])
        self.done(a.engine.follow(n=6, chain=chain(6), peers=1, max_bytes=0))
        self.no_row(a.engine.get_snapshot(part=-1))  # writes it, and changes nothing of it
        self.assertEqual(self.primary.sql(query), ["sequencer|a|6|06|f||1"])


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class People(EngineTest):
    """What is read for people, and for a handover."""

    def nodes(self, engine):
        nodes = self.done(engine.nodes())["nodes"]
        for node in nodes:
            self.assertGreaterEqual(node.pop("seen_ms"), 0)
        return nodes

    def test_the_nodes_are_the_other_hosts_of_this_process(self):
        a = self.active()
        self.assertEqual(self.nodes(a.engine), [])
        c, b = (self.cluster.engine(host=h, hold_ms=LONG) for h in "cb")
        other = self.cluster.engine(host="d", process="dlqd", hold_ms=LONG)
        self.done(c.follow(n=7, chain=chain(7), ready=True, peers=2, max_bytes=0))
        self.done(b.follow(n=5, chain=chain(5), why="no secret \u00e4", max_bytes=0))
        self.done(other.follow(n=1, chain=chain(1), max_bytes=0))
        node_b = {"host": "b", "n": 5, "ready": False, "why": "no secret \u00e4", "peers": 0}
        node_c = {"host": "c", "n": 7, "ready": True, "why": "", "peers": 2}
        self.assertEqual(self.nodes(a.engine), [node_b, node_c])
        self.assertEqual(self.nodes(b), [{"host": "a", "n": 0, "ready": False, "why": "", "peers": 0}, node_c])
        self.primary.sql("UPDATE grapnel.node SET seen = seen - interval '90 s' WHERE host = 'c'")
        ages = {n["host"]: n["seen_ms"] for n in self.done(a.engine.nodes())["nodes"]}
        self.assertGreaterEqual(ages["c"], 90_000)
        self.assertLess(ages["b"], ages["c"])

    def test_texts_that_are_too_long_are_cut(self):
        a = self.active(host="a" * 300)
        self.assertEqual(a.follow()["host"], "a" * 255)
        self.done(a.beat())
        self.done(a.release("a" * 299))  # it is compared whole
        self.assertTrue(a.follow()["for_another"])
        self.done(self.cluster.engine(host="b", hold_ms=LONG).follow(
            n=0, chain=ZEROS, why="w" * 5000, max_bytes=0))
        self.assertEqual(self.nodes(a.engine)[0]["why"], "w" * 499)

    def test_a_read_that_waits_too_long_takes_nothing_from_the_owner(self):
        a = self.active(hold_ms=2 * SHORT)
        with self.primary.session() as table:
            table.do("BEGIN")
            table.do("LOCK TABLE grapnel.node")
            self.unknown(a.engine.nodes())
            self.done(a.beat())
            self.done(a.append())
            table.do("COMMIT")
        self.assertEqual(self.nodes(a.engine), [])

    def test_the_overview_has_each_process_with_its_hosts_and_the_size_of_its_log(self):
        people = self.cluster.engine(process="", host="", hold_ms=LONG)
        self.assertEqual(self.done(people.overview())["stores"], [])
        s, d = self.active(), self.active(process="dlqd", host="b")
        for parts in ([100], [20000, 300000], [4000]):
            self.done(s.append(*parts))
        self.done(d.append(50))
        self.done(s.engine.put_snapshot(**s.at, part=0, bytes=10))  # no manifest: not whole
        self.done(self.cluster.engine(host="x", hold_ms=LONG).follow(
            n=2, chain=chain(2), why="it restores", max_bytes=0))
        self.done(self.cluster.engine(process="other", host="x", hold_ms=LONG).follow(
            n=0, chain=ZEROS, max_bytes=0))
        two = self.done(people.overview())["stores"]
        self.assertEqual([(o["process"], o["n"], o["chain"], o["epoch"], o["holder"], o["host"],
                           o["snapshot_n"], o["log_bytes"], [n["host"] for n in o["nodes"]])
                          for o in two],
                         [("dlqd", 1, chain(1), 1, d.holder, "b", -1, 50, ["b"]),
                          ("sequencer", 3, chain(3), 1, s.holder, "a", -1, 324100, ["a", "x"])])
        self.assertEqual((two[1]["nodes"][1]["n"], two[1]["nodes"][1]["why"]), (2, "it restores"))
        for n in (1, 2):
            self.done(s.engine.put_snapshot(**{**s.at, "n": n}, part=-1, bytes=10))
        one = self.done(people.overview())["stores"][1]
        self.assertEqual((one["snapshot_n"], one["log_bytes"]), (2, 4000))

    def test_the_overview_is_read_while_commits_wait_and_with_weak_settings(self):
        a = self.active()
        careless = self.cluster.engine(process="", host="", hold_ms=LONG, accept_weak=True)
        self.pause_standbys()
        a.send_append()
        self.waiting_commit()
        self.assertEqual(self.done(careless.overview())["stores"][0]["n"], 0)
        self.primary.set(synchronous_standby_names="")
        self.unknown(a.engine.receive())
        self.assertEqual(self.done(careless.overview())["stores"][0]["n"], 1)
        self.unknown(self.cluster.engine(process="", host="", hold_ms=LONG).overview(), WEAK)


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Ends(EngineTest):
    """The end of a history, and the beginning of the next one."""

    NEXT = "b2" * 16

    def begin(self, active, holder="0c" * 16):
        """Another history of the same process."""
        active.history, active.n, active.holder = self.NEXT, 0, holder
        self.done(active.engine.begin_history(history=self.NEXT, n=0, chain=ZEROS, schema=1))
        seen = active.follow()
        self.assertEqual((seen["history"], seen["holder"], seen["epoch"], seen["host"], seen["heir"]),
                         (self.NEXT, NOBODY, 0, "", ""))
        active.epoch = self.done(active.engine.take_over(**{**seen, "me": holder}))["epoch"]

    def clear(self, active):
        while self.done(active.engine.clear())["more"]:
            pass

    def rows(self, process="sequencer"):
        return [int(self.primary.sql(f"SELECT count(*) FROM grapnel.{t} "
                                     f"WHERE process = '{process}'")[0])
                for t in ("owner", "log", "snapshot", "node")]

    def test_the_end_compares_all_that_the_caller_has_seen(self):
        a, other = self.active(), self.active(process="dlqd")
        self.done(a.append())
        seen = a.follow()
        for wrong in ({"history": "b2" * 16}, {"epoch": 0}, {"holder": NOBODY}, {"holder": "0b" * 16},
                      {"n": 0}, {"chain": chain(7)}, {"beat": seen["beat"] - 1}):
            self.no_row(a.engine.end_history(**{**seen, **wrong}))
        self.assertEqual(a.follow(), seen)
        self.done(a.engine.end_history(**seen))
        self.assertFalse(a.follow()["exists"])
        self.no_row(a.engine.end_history(**seen))
        self.assertTrue(other.follow()["exists"])
        self.done(other.beat())
        self.done(other.release())
        seen = other.follow()
        self.no_row(other.engine.end_history(**{**seen, "holder": other.holder}))
        self.done(other.engine.end_history(**seen))
        self.assertFalse(other.follow()["exists"])

    def test_after_the_end_no_statement_of_that_history_changes_anything(self):
        a = self.active()
        self.done(a.append(10))
        self.done(a.engine.put_snapshot(**a.at, part=-1, bytes=10))
        seen = a.follow()
        self.done(a.engine.end_history(**seen))

        def refused():
            self.no_row(a.append(10))
            self.no_row(a.beat())
            self.no_row(a.release("b"))
            self.no_row(a.engine.claim(**seen))
            self.no_row(a.engine.take_over(**{**seen, "me": "0b" * 16}))
            self.no_row(a.engine.put_snapshot(**a.at, part=-1, bytes=20))
            self.no_row(a.engine.forget(**a.at))
            self.no_row(a.engine.end_history(**seen))
        refused()
        self.assertEqual(self.rows()[:3], [0, 1, 1])
        self.clear(a)
        b = self.again(a)
        self.begin(b)
        refused()
        self.assertEqual(self.rows()[:3], [1, 0, 0])

    def test_a_history_begins_when_nothing_of_the_former_one_is_left(self):
        a = self.active()
        for _ in range(3):
            self.done(a.append(*[10] * 50))
        for part in (-1, *range(120)):
            self.done(a.engine.put_snapshot(**a.at, part=part, bytes=10))
        seen = a.follow()
        self.no_row(a.engine.clear())  # of a history that has not ended
        self.assertEqual(self.rows(), [1, 150, 121, 1])
        self.done(a.engine.end_history(**seen))
        begin = {"history": self.NEXT, "n": 0, "chain": ZEROS, "schema": 1}
        self.no_row(a.engine.begin_history(**begin))
        self.assertTrue(self.done(a.engine.clear())["more"])
        self.assertEqual(self.rows()[:3], [0, 50, 21])
        self.no_row(a.engine.begin_history(**begin))
        self.assertFalse(self.done(a.engine.clear())["more"])
        self.assertEqual(self.rows(), [0, 0, 0, 0])
        self.begin(a)
        self.no_row(a.engine.clear())
        self.assertEqual(self.done(a.engine.follow(n=0, chain=ZEROS, max_bytes=1000))["turns"], [])

    def test_a_log_without_snapshots_and_snapshots_without_a_log_are_cleared_too(self):
        for n, process in enumerate(("sequencer", "dlqd")):
            a = self.active(process=process)
            if n:
                self.done(a.engine.put_snapshot(**a.at, part=0, bytes=10))
            else:
                self.done(a.append(10))
            self.done(a.engine.end_history(**a.follow()))
            self.no_row(a.engine.begin_history(history=self.NEXT, n=0, chain=ZEROS, schema=1))
            self.clear(a)
            self.begin(a)

    def test_one_clears_only_its_own_process(self):
        a, b = self.active(), self.active(process="dlqd")
        for each in (a, b):
            self.done(each.append(10))
            self.done(each.engine.put_snapshot(**each.at, part=-1, bytes=10))
            self.done(each.engine.end_history(**each.follow()))
        self.clear(a)
        self.assertEqual([self.rows(), self.rows("dlqd")], [[0, 0, 0, 0], [0, 1, 1, 1]])

    def test_an_end_whose_acknowledgement_is_lost_is_in(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri)
        seen = a.follow()
        relay.lose_commit()
        self.unknown(a.engine.end_history(**seen), "connection lost")
        self.no_row(a.engine.end_history(**seen))
        self.assertFalse(a.follow()["exists"])
        relay.lose_commit()
        self.unknown(a.engine.clear(), "connection lost")
        self.clear(a)
        self.begin(a)

    def test_an_end_and_a_turn_that_arrive_late_do_nothing_to_the_next_history(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(hold_ms=SHORT, uri=relay.uri)
        self.done(a.append(10))
        seen = a.follow()
        late = self.again(a, relay.uri, hold_ms=SHORT)
        self.done(late.beat())
        seen = a.follow()
        relay.hold()
        self.unknown(a.engine.end_history(**seen))
        self.unknown(late.append(20))
        direct = self.again(a)
        self.done(direct.engine.end_history(**seen))
        self.clear(direct)
        self.begin(direct)
        self.done(direct.append(30))
        self.assertEqual(relay.deliver(), 2)
        self.assertTrue(direct.follow()["exists"])
        turn, = self.done(direct.engine.follow(n=0, chain=ZEROS, max_bytes=1000))["turns"]
        self.assertEqual((turn["parts"], turn["good"]), ([30], True))

    def race(self, first, second):
        """The owner row is locked, `first` waits for it, then `second` too."""
        waiting = ("SELECT count(*) FROM pg_stat_activity WHERE usename = 'grapnel' "
                   "AND wait_event_type = 'Lock'")
        with self.primary.session() as row:
            row.do("BEGIN")
            row.do("SELECT 1 FROM grapnel.owner FOR UPDATE")
            for n, send in enumerate((first, second), 1):
                send()
                wait_for(lambda n=n: self.primary.sql(waiting) == [str(n)], what="the row")
            row.do("COMMIT")

    def test_the_end_and_a_turn_at_once_are_one_after_the_other(self):
        a = self.active()
        self.done(a.append(10))
        operator = self.cluster.engine(host="b", hold_ms=LONG)
        for end_first in (False, True):
            seen = a.follow()
            def end():
                operator.send("end_history", **seen)
            self.race(*((end, a.send_append) if end_first else (a.send_append, end)))
            said = [operator.receive()["result"], a.engine.receive()["result"]]
            self.assertEqual(said, ["DONE", "NO_ROW"] if end_first else ["NO_ROW", "DONE"])
            if not end_first:
                a.n += 1
        self.assertEqual(self.rows()[:2], [0, 2])


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Waits(EngineTest):
    """A COMMIT that waits for a standby is not acknowledged."""

    def test_a_commit_that_waits_too_long_is_unknown_and_is_in_later(self):
        a = self.active(hold_ms=SHORT)
        self.pause_standbys()
        self.unknown(a.append(), "did not reply within 1 s")
        self.waiting_commit()
        self.unknown(a.append())  # the first one holds the row
        self.unknown(a.beat())
        self.unknown(a.engine.follow(n=0, chain=ZEROS, max_bytes=100))
        self.resume_standbys()
        wait_for(lambda: not self.primary.waits_for_a_standby(), what="the COMMIT to end")
        slow = self.again(a)
        self.no_row(slow.append())
        seen = slow.follow()
        self.assertEqual((seen["n"], seen["chain"], seen["holder"]), (1, chain(1), a.holder))
        slow.n = 1
        self.done(slow.beat())
        self.assert_log(self.log(slow), 1)

    def test_what_is_read_is_believed_only_when_a_commit_has_waited(self):
        a = self.active()
        self.done(a.append())
        self.done(a.engine.put_snapshot(**a.at, part=-1, bytes=10))
        reader = self.cluster.engine(host="b", hold_ms=SHORT)
        self.done(reader.follow(n=0, chain=ZEROS, max_bytes=1000))
        self.pause_standbys()
        said = self.unknown(reader.follow(n=0, chain=ZEROS, max_bytes=1000))
        self.assertEqual(said["turns"], [])
        other = self.cluster.engine(host="c", hold_ms=SHORT)
        self.unknown(other.follow(n=0, chain=ZEROS, max_bytes=0))
        other = self.cluster.engine(host="d", hold_ms=SHORT)
        self.assertEqual(self.unknown(other.get_snapshot(part=-1))["bytes"], 0)

    def test_a_cancelled_wait_is_unknown_although_commit_succeeds(self):
        a = self.active()
        self.pause_standbys()
        a.send_append()
        self.primary.sql(f"SELECT pg_cancel_backend({self.waiting_commit()})")
        self.unknown(a.engine.receive(), "warning of the server", "canceling wait")
        # Its row is visible, and the connection of this role hides warnings.
        self.assertEqual(self.primary.sql("SELECT last FROM grapnel.owner"), ["1"])
        self.primary.sql("SET synchronous_commit = local")
        self.primary.sql("ALTER ROLE grapnel SET client_min_messages = error")
        b = self.again(a)
        b.n = 1
        b.send_append()
        self.primary.sql(f"SELECT pg_cancel_backend({self.waiting_commit()})")
        self.unknown(b.engine.receive(), "warning of the server", "canceling wait")
        self.resume_standbys()
        b.n = 2
        self.done(b.beat())

    def test_a_terminated_wait_is_unknown(self):
        a = self.active()
        self.pause_standbys()
        a.send_append()
        self.primary.sql(f"SELECT pg_terminate_backend({self.waiting_commit()})")
        self.unknown(a.engine.receive())

    def test_a_role_cannot_lower_synchronous_commit(self):
        a = self.active()
        self.primary.sql("ALTER ROLE grapnel SET synchronous_commit = off")
        self.primary.sql("ALTER ROLE grapnel SET default_transaction_isolation = serializable")
        self.pause_standbys()
        b = self.again(a, hold_ms=SHORT)
        self.unknown(b.append(), "did not reply")
        self.waiting_commit()


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Weak(EngineTest):
    """Settings under which an acknowledged commit can be lost."""

    def test_settings_that_became_weak_are_noticed_at_the_next_turn(self):
        a = self.active()
        self.done(a.append())
        self.primary.set(synchronous_standby_names="")
        self.unknown(a.append(), WEAK)
        self.unknown(a.beat(), WEAK)
        self.unknown(a.engine.follow(n=0, chain=ZEROS, max_bytes=100), WEAK)
        careless = self.again(a, accept_weak=True)
        careless.n = 2
        self.done(careless.append())
        self.primary.set(synchronous_standby_names="ANY 1 (*)")
        self.primary.sql("CHECKPOINT")  # then its process knows the setting, too
        a.n = 3
        self.done(a.append())
        self.assert_log(self.log(a), 4)

    def test_a_commit_that_is_let_go_by_a_reload_is_unknown(self):
        a = self.active()
        self.pause_standbys()
        a.send_append()
        self.waiting_commit()
        self.primary.set(synchronous_standby_names="")
        self.unknown(a.engine.receive(), WEAK)

    def test_a_commit_that_is_let_go_between_two_reloads_is_unknown(self):
        a = self.active()
        self.pause_standbys()
        a.send_append()
        process = self.waiting_commit()
        os.kill(process, signal.SIGSTOP)
        self.primary.set(synchronous_standby_names="")
        self.primary.sql("CHECKPOINT")  # the process that lets go has read it
        self.primary.set(synchronous_standby_names="ANY 1 (*)")
        os.kill(process, signal.SIGCONT)
        self.unknown(a.engine.receive(), "read its settings again during COMMIT")

    def test_the_check_names_what_is_weak_and_what_to_do(self):
        def found(engine):
            said = self.done(engine.check())
            self.assertTrue(all(f["fix"] for f in said["found"]))
            return [(f["weak"], f["what"].split(":")[0]) for f in said["found"]]
        engine = self.cluster.engine(hold_ms=LONG)
        hidden = (False, "this role may not see whether a synchronous standby is connected")
        self.assertEqual(found(engine), [])
        self.primary.sql("REVOKE pg_read_all_stats FROM grapnel")
        self.assertEqual(found(engine), [hidden])
        self.primary.sql("GRANT pg_read_all_stats TO grapnel")
        standby, = self.cluster.standbys
        standby.kill()
        wait_for(lambda: found(engine) == [(False, "no synchronous standby is connected")])
        self.primary.set(synchronous_standby_names="")
        self.assertEqual(found(engine), [(True, "synchronous_standby_names is empty")])
        self.primary.restart(fsync="off", full_page_writes="off")
        self.assertEqual(found(engine), [
            (True, "fsync is off"), (True, "full_page_writes is off"),
            (True, "synchronous_standby_names is empty")])
        self.unknown(engine.begin_history(n=0, chain=ZEROS, schema=1), "fsync is off")
        self.primary.kill()
        self.unknown(engine.check(), "cannot connect")


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Lost(EngineTest):
    """The loss of servers."""

    standbys = 2

    def hosts(self):
        every = [self.primary, *self.cluster.standbys]
        return "postgresql://grapnel@/postgres?host=" + ",".join(str(s.folder) for s in every)

    def assert_done_is_there(self, active, done):
        """After a failover: repeats or judges the open turn, as the protocol does, and compares the log."""
        said = wait_for(lambda: (s := active.append(5000))["result"] != "UNKNOWN" and s, 30,
                        what="the new primary")
        if said["result"] == "NO_ROW":
            seen = active.follow()
            self.assertEqual((seen["n"], seen["chain"]), (active.n + 1, chain(active.n + 1)))
            active.n += 1
        self.done(active.append())
        self.assertGreaterEqual(active.n, done + 2)
        self.assert_log(self.log(active), active.n)

    def test_each_acknowledged_turn_survives_the_primary(self):
        a = self.active(self.hosts(), hold_ms=4 * SHORT)
        for _ in range(2):
            for _ in range(30):
                self.done(a.append(5000))
            done = a.n
            a.send_append(5000)
            self.cluster.fail_over()
            said = a.engine.receive()
            if said["result"] == "DONE":
                a.n += 1
            self.assert_done_is_there(a, done)

    def test_a_silent_host_does_not_use_up_the_time_of_the_next_one(self):
        a = self.active(self.hosts(), hold_ms=8 * SHORT)
        self.done(a.append())
        self.primary.pause()
        self.addCleanup(self.primary.kill)
        for standby in self.cluster.standbys:
            standby.sql("SELECT 1")
        best, other = sorted(self.cluster.standbys, key=Server.received, reverse=True)
        best.promote()
        other.restart(primary_conninfo=f"user=app host={best.folder}", cluster_name="s9")
        self.cluster.primary, old = best, self.primary
        self.cluster.wait_synchronous()
        self.unknown(a.append(), "did not reply")
        self.assert_done_is_there(a, 1)
        old.kill()

    def test_a_service_file_names_the_hosts(self):
        """The first one is a standby, the second one is not there."""
        hosts = f"{self.cluster.standbys[0].folder},{self.primary.folder}/nothing,{self.primary.folder}"
        file = self.primary.folder / "services"
        file.write_text(f"[grapnel]\nhost={hosts}\nport=5432,5432,5432\nuser=grapnel\ndbname=postgres\n")
        os.environ["PGSERVICEFILE"] = str(file)
        self.addCleanup(os.environ.pop, "PGSERVICEFILE")
        a = self.active("service=grapnel")
        self.done(a.append())
        self.assert_log(self.log(a), 1)
        self.primary.kill()
        self.unknown(a.append())
        self.unknown(a.append(), "read-only", "No such file")

    def test_a_standby_of_the_engine_cannot_be_written_to(self):
        standby = self.cluster.standbys[0]
        e = self.cluster.engine(standby.uri_as("grapnel"), hold_ms=LONG)
        self.unknown(e.begin_history(n=0, chain=ZEROS, schema=1), "cannot connect", "read-only")
        e = self.cluster.engine(standby.uri_as("grapnel") + "&target_session_attrs=any",
                                hold_ms=LONG)
        self.unknown(e.begin_history(n=0, chain=ZEROS, schema=1), "SQLSTATE")


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Refused(EngineTest):
    """Errors say nothing about a turn: it is repeated until it is in."""

    def test_the_server_has_no_connection_for_us(self):
        a = self.active()
        self.primary.sql("ALTER ROLE grapnel CONNECTION LIMIT 0")
        b = self.again(a)
        self.unknown(b.append(), "too many connections")
        self.primary.sql("ALTER ROLE grapnel CONNECTION LIMIT -1")
        self.done(b.append())

    def test_the_disk_of_the_server_is_full(self):
        small = new_folder()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small],
                              capture_output=True, text=True)
        if done.returncode != 0:
            small.rmdir()
            self.skipTest(f"no right to mount a tmpfs: {done.stderr.strip()}")

        def unmount():
            self.cluster.close()
            subprocess.run(["umount", small], check=True)
            small.rmdir()
        self.addCleanup(unmount)
        owner = self.primary.data.stat()
        space = small / "space"
        space.mkdir()
        os.chown(space, owner.st_uid, owner.st_gid)
        self.primary.set(synchronous_standby_names="")  # a standby has no such folder
        a = self.active(accept_weak=True)
        self.primary.sql(f"CREATE TABLESPACE small LOCATION '{space}'")
        self.primary.sql("ALTER TABLE grapnel.log SET TABLESPACE small")
        ballast = small / "ballast"
        ballast.write_bytes(bytes(4 << 20))
        while (said := a.append(200_000))["result"] == "DONE":
            self.assertLess(a.n, 100)
        self.unknown(said, "SQLSTATE 53100")
        self.assertEqual(a.follow()["n"], a.n)
        self.unknown(a.append(200_000), "SQLSTATE 53100")
        ballast.unlink()
        self.done(a.append(200_000))
        self.assert_log(self.log(a), a.n)

    def test_the_network_is_cut_and_heals(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri, hold_ms=SHORT)
        self.done(a.append())
        relay.cut()
        self.unknown(a.append(), "did not reply within 1 s")
        self.unknown(a.append(), "cannot connect", "did not reply within")
        relay.heal()
        slow = self.again(a)
        said = slow.append()
        if said["result"] == "NO_ROW":  # what was under way arrived after all
            slow.n += 1
        else:
            self.done(said)
        self.done(slow.beat())
        self.assert_log(self.log(slow), 2)

    def test_a_slow_network_is_waited_for(self):
        relay = self.cluster.relay(self.primary)
        a = self.active(relay.uri)
        relay.delay_s = 0.02
        self.done(a.append(100_000))
        self.done(a.beat())

    def test_a_connection_that_the_server_has_closed_is_replaced_before_it_is_used(self):
        a = self.active()
        process, = self.primary.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'grapnel'")
        self.primary.sql(f"SELECT pg_terminate_backend({process})")
        wait_for(lambda: not pathlib.Path("/proc", process).exists(), what="its end")
        self.done(a.append())

    def test_the_role_of_the_ddl_can_do_nothing_else(self):
        for sql in ("UPDATE grapnel.log SET n = 1", "TRUNCATE grapnel.owner",
                    "TRUNCATE grapnel.log", "DROP TABLE grapnel.log",
                    "CREATE TABLE grapnel.more (n int)"):
            done = subprocess.run(["psql", "-X", "-c", sql, self.primary.uri_as("grapnel")],
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, sql)


if __name__ == "__main__":
    if programs():
        prepare()
    main(at_once=4)
