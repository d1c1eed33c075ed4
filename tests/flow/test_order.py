"""P6: order by numbers and times, gaps, states of objects, and released duplicates."""

import datetime
import hashlib
import hmac
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import zmq  # noqa: E402
from rig import SIGNING_SECRET, RigTest, is_signed, main, wait_for  # noqa: E402

KEY = "ledger key"


def ledger(**more):
    """A source of one's own, whose events say their number."""
    return {"name": "ledger", "provider": "custom", "secrets": [KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                       "form": "plain", "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            **more}


def by_number(**more):
    return {"by": "sequence", "sequence": "json:/seq", "start": 1,
            "give_up_after": "1h", **more}


class OrderTest(RigTest):
    def ledger(self, endpoint=None, **source):
        rig = self.rig({"sources": [ledger(**source)],
                        "endpoint_defaults": {"max_in_flight": 1}})
        if endpoint:
            rig.config["endpoints"] = [rig.endpoint("crm", **endpoint)]
            rig.write_config()
        return rig.start()

    def send(self, rig, seq=None, team="t", id=None, type="entry.made", **more):
        body = json.dumps({"id": id or f"{team}-{seq}", "type": type,
                           "team": team, "seq": seq, **more}).encode()
        signature = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        return rig.accept(body, source="ledger", headers={
            "X-Sig": signature, "Content-Type": "application/json"})

    def reload(self, rig, **order):
        rig.config["sources"][0]["order"] = order
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)

    def order_of(self, rig):
        """(source's number, ours, gap, late) in the traces of all delivered events,
        by our numbers."""
        rig.settle()
        got = {int(r.headers["grapnel-sequence"]): (
            int(r.headers["grapnel-source-sequence"]),
            r.headers.get("grapnel-gap"), r.headers.get("grapnel-late"))
            for r in rig.receiver.requests("/crm")}
        self.assertEqual(sorted(got), list(range(1, len(got) + 1)))
        return [got[n] for n in sorted(got)]

    def gaps(self, rig, *args):
        listed, code = rig.cli("gaps", *args)
        self.assertEqual(code, 0)
        return [(g["from"], g["to"], g["status"]) for g in reversed(listed)]


class Numbers(OrderTest):
    def test_an_early_event_is_buffered_until_the_missing_ones_arrive(self):
        """P6: and its trace says so."""
        rig = self.ledger(order=by_number())
        first = self.send(rig, 1)
        rig.receiver.wait(first)
        early = self.send(rig, 4)
        held = rig.wait_status(early, "buffered")
        self.assertEqual((held["sequence"], held["source_sequence"],
                          held["deliveries"]), (None, 4, []))
        self.assertEqual(self.gaps(rig), [(2, 3, "open")])
        self.send(rig, 3)
        wait_for(lambda: len(self.gaps(rig)) == 2, what="the gap to be split")
        self.assertEqual(sorted(self.gaps(rig)),
                         [(2, 2, "open"), (3, 3, "filled")])
        self.send(rig, 2)
        self.assertEqual(self.order_of(rig), [(n, None, None)
                                              for n in [1, 2, 3, 4]])
        self.assertEqual({s for _, _, s in self.gaps(rig)}, {"filled"})
        self.assertEqual(self.gaps(rig, "--open"), [])
        self.assertEqual(rig.trace(early)["sequence"], 4)

    def test_a_number_that_does_not_arrive_is_given_up_and_reported(self):
        """P6: the first event after a gap names it; events that arrive later are
        late."""
        rig = self.ledger(order=by_number(give_up_after="300ms"))
        for n in [1, 2, 5, 6, 8]:
            self.send(rig, n)
        self.assertEqual(self.order_of_held(rig, 5), [
            (1, None, None), (2, None, None), (5, "3-4", None),
            (6, None, None), (8, "7-7", None)])
        self.assertEqual(self.gaps(rig), [(3, 4, "skipped"), (7, 7, "skipped")])
        late = self.send(rig, 4)
        rig.receiver.wait(late)
        self.assertEqual(self.order_of(rig)[-1], (4, None, "1"))
        self.assertEqual(sorted(self.gaps(rig)),
                         [(3, 3, "skipped"), (4, 4, "filled"),
                          (7, 7, "skipped")])
        self.assertTrue(rig.trace(late)["late"])
        again = self.send(rig, 4)
        rig.wait_status(again, "duplicate")

    def order_of_held(self, rig, count):
        wait_for(lambda: len(rig.receiver.requests("/crm")) >= count,
                 what=f"{count} requests")
        return self.order_of(rig)

    def test_a_full_buffer_gives_up_the_oldest_gap(self):
        rig = self.ledger(order=by_number(buffer=3))
        for n in [2, 3, 4, 6, 7]:
            self.send(rig, n)
        wait_for(lambda: (1, 1, "skipped") in self.gaps(rig), what="the gap")
        self.assertEqual(self.order_of_held(rig, 3)[0], (2, "1-1", None))
        self.assertEqual(self.gaps(rig), [(1, 1, "skipped"), (5, 5, "open")])
        spaces, _ = rig.cli("workspaces", "t")
        self.assertEqual([(s["workspace"], s["sequence"], s["clock"],
                           s["open_gaps"], s["buffered"]) for s in spaces],
                         [("t", 3, {"entry.made": 3}, 1, 2)])

    def test_a_tolerated_gap_does_not_delay_events(self):
        rig = self.ledger(order=by_number(tolerance_gap=2))
        for n in [1, 4]:
            self.send(rig, n)
        self.assertEqual(self.order_of_held(rig, 2),
                         [(1, None, None), (4, "2-3", None)])
        self.assertEqual(self.gaps(rig), [(2, 3, "open")])
        held = self.send(rig, 8)
        rig.wait_status(held, "buffered")
        self.send(rig, 3)
        self.assertEqual(self.order_of_held(rig, 3)[-1], (3, None, "1"))
        self.send(rig, 5)
        rig.receiver.wait(held)
        self.assertEqual(self.order_of(rig)[-1], (8, "6-7", None))

    def test_an_operator_can_close_a_gap(self):
        rig = self.ledger(order=by_number())
        held = self.send(rig, 3)
        rig.wait_status(held, "buffered")
        gap, = rig.cli("gaps", "--open")[0]
        done = rig.cli_text("gaps", "close", gap["id"])
        self.assertEqual(done.returncode, 64, done.stderr)
        closed, code = rig.cli("gaps", "close", gap["id"], "--note", "never was")
        self.assertEqual((code, closed["status"]), (0, "closed"))
        request, = rig.receiver.wait(held)
        self.assertEqual(request.headers["grapnel-gap"], "1-2")
        gap, = rig.cli("gaps")[0]
        self.assertEqual((gap["status"], gap["note"]), ("closed", "never was"))
        self.assertEqual(rig.cli("gaps", "close", gap["id"], "--note", "x")[1],
                         1)

    def test_streams_of_types_and_workspaces_are_separate(self):
        rig = self.ledger(order=by_number(sequence_per="type", start="first"))
        for team, type_, n in [("a", "x", 7), ("a", "y", 1), ("b", "x", 3),
                               ("a", "x", 8), ("b", "x", 4)]:
            self.send(rig, n, team=team, type=type_, id=f"{team}{type_}{n}")
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/crm")), 5)
        self.assertEqual(self.gaps(rig), [])

    def test_an_event_without_its_number_is_a_dead_letter(self):
        rig = self.ledger(order=by_number())
        event = self.send(rig, "seven", id="x")
        trace = rig.wait_status(event, "refused")
        self.assertIn("order.sequence", trace["reason"])
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")[0]
        self.assertRegex(dead_letter["reason"], "^refused:order.sequence")

    def test_buffered_events_are_not_removed_as_history(self):
        """P2: however long they wait, and however short history.keep is."""
        rig = self.ledger(order=by_number())
        rig.config["history"] = {"keep": "1s"}
        rig.write_config()
        rig["sequencer"].restart()
        held = self.send(rig, 2)
        after = self.send(rig, 1, team="other")
        rig.receiver.wait(after)
        wait_for(lambda: not rig.rows(
            "sequencer", "SELECT 1 FROM events WHERE id = ?", after),
            what="an event that came later to be forgotten")
        self.send(rig, 1)
        rig.receiver.wait(held)

    def test_buffered_events_survive_kills_and_a_change_of_order(self):
        """P3, P6: the row in the buffer is in the event's own transaction."""
        rig = self.ledger(order=by_number())
        held = [self.send(rig, n) for n in [3, 4, 6]]
        for event in held:
            rig.wait_status(event, "buffered")
        rig["sequencer"].restart()
        self.send(rig, 1)
        self.send(rig, 2)
        rig.receiver.wait(held[1])
        self.assertEqual(rig.trace(held[2])["status"], "buffered")
        del rig.config["sources"][0]["order"]
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        request, = rig.receiver.wait(held[2])
        self.assertEqual(request.headers["grapnel-gap"], "5-5")
        self.assertEqual([n for n, _, _ in self.order_of(rig)], [1, 2, 3, 4, 6])

    def test_a_changed_number_field_begins_new_streams(self):
        """P6: while a source is not ordered its numbers are not watched, and
        those of another field can't be compared: the stream begins anew with
        the first that is seen. What was held goes."""
        rig = self.ledger(order=by_number())
        rig.wait_status(self.send(rig, 3, line=0), "buffered")
        self.reload(rig, by="arrival")
        for n in [4, 5]:
            rig.receiver.wait(self.send(rig, n, line=n - 3))
        self.assertEqual(self.gaps(rig), [(1, 2, "skipped")])
        self.reload(rig, **by_number())
        rig.receiver.wait(self.send(rig, 9, line=6))
        held = self.send(rig, 11, line=8)
        rig.wait_status(held, "buffered")
        self.assertEqual(self.gaps(rig, "--open"), [(10, 10, "open")])
        self.reload(rig, **by_number(sequence="json:/line"))
        rig.receiver.wait(held)
        rig.receiver.wait(self.send(rig, 12, line=8))
        rig.wait_status(self.send(rig, 14, line=11), "buffered")
        self.assertEqual(self.gaps(rig, "--open"), [(9, 10, "open")])
        self.send(rig, 13, line=10)
        self.send(rig, 15, line=9)
        rig.receiver.wait(count=9)
        self.assertEqual([(r.json()["seq"], r.headers.get("grapnel-gap"))
                          for r in rig.receiver.requests("/crm")],
                         [(3, "1-2"), (4, None), (5, None), (9, None),
                          (11, "10-10"), (12, None), (15, None), (13, None), (14, None)])
        self.assertEqual(sorted(self.gaps(rig)), [
            (1, 2, "skipped"), (9, 9, "filled"), (10, 10, "filled"),
            (10, 10, "skipped")])

    def test_a_shorter_wait_applies_to_open_gaps(self):
        rig = self.ledger(order=by_number())
        held = self.send(rig, 2)
        rig.wait_status(held, "buffered")
        self.reload(rig, **by_number(give_up_after="100ms"))
        request, = rig.receiver.wait(held)
        self.assertEqual(request.headers["grapnel-gap"], "1-1")

    def test_a_requeued_refused_event_may_be_buffered(self):
        """P2: it waits like any other event, with its body; its dead letter stays
        open until it is released."""
        rig = self.ledger(order=by_number(sequence="json:/number"))
        refused = self.send(rig, 2)
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")[0]
        self.reload(rig, **by_number())
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        rig.wait_status(refused, "buffered")
        rig.forget_dead_letters()
        self.assertEqual(rig.cli("dlq", "show", dead_letter["id"])[0]["state"],
                         "requeued")
        self.send(rig, 1)
        request, = rig.receiver.wait(refused)
        self.assertEqual((request.headers["grapnel-sequence"],
                          request.json()["seq"]), ("2", 2))
        self.recovered(rig, dead_letter)

    def recovered(self, rig, dead_letter):
        wait_for(lambda: rig.cli("dlq", "show", dead_letter["id"])[0]["state"]
                 == "recovered", what="the dead letter to be recovered")

    def test_a_requeued_refused_event_may_be_a_duplicate(self):
        """P2: it is kept with its body, and can be released."""
        rig = self.ledger(order=by_number(sequence="json:/number"))
        refused = self.send(rig, 1)
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")[0]
        self.reload(rig, **by_number())
        first = self.send(rig, 1)
        rig.receiver.wait(first)
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        self.recovered(rig, dead_letter)
        self.assertEqual(rig.trace(refused)["duplicate_of"], first)
        rig.forget_dead_letters()
        self.assertEqual(rig.cli("release", refused)[1], 0)
        request, = rig.receiver.wait(refused)
        self.assertEqual(request.headers["grapnel-late"], "1")

    def test_a_restored_sequencer_keeps_the_order(self):
        """P4, P6: what came since comes again from ingress, into the streams,
        buffers and keys of the copy: nothing is missing, a duplicate is one."""
        rig = self.ledger(order=by_number(), endpoint={"ordered": "workspace"})
        first = self.send(rig, 1)
        rig.receiver.wait(first)
        held = self.send(rig, 3)
        rig.wait_status(held, "buffered")
        self.assertEqual(rig.cli("backup", rig.folder / "copy")[1], 0)
        last = [self.send(rig, n) for n in (2, 4)][-1]
        rig.receiver.wait(last)
        rig.settle()
        rig["sequencer"].kill()
        for path in rig.state_dir.glob("sequencer.db*"):
            path.unlink()
        (rig.folder / "copy" / "sequencer.db").rename(
            rig.state_dir / "sequencer.db")
        rig["sequencer"].start()
        rig.wait_status(last)
        for n, of in [(1, first), (4, last)]:
            trace = rig.wait_status(self.send(rig, n), "duplicate")
            self.assertEqual(trace["duplicate_of"], of)
        rig.receiver.wait(self.send(rig, 5))
        rig.settle()
        self.assertEqual(self.gaps(rig), [(2, 2, "filled")])
        requests = rig.receiver.requests("/crm")
        seen = {int(r.headers["grapnel-source-sequence"]):
                int(r.headers["grapnel-sequence"]) for r in requests}
        self.assertEqual(seen, {n: n for n in range(1, 6)})
        self.assertEqual(len({r.headers["grapnel-series"]
                              for r in (requests[0], requests[-1])}), 2)

    def test_time_in_which_an_ingress_is_away_does_not_count_for_a_gap(self):
        """P6."""
        rig = self.ledger(order=by_number(give_up_after="500ms"))
        rig["sequencer"].pause()
        event = self.send(rig, 2)
        self.send(rig, 1)
        rig["ingress"].pause()
        rig["sequencer"].resume()
        rig["ingress"].resume()
        rig.receiver.wait(event)
        self.assertEqual(self.order_of(rig), [(1, None, None), (2, None, None)])


class Observe(OrderTest):
    def test_observe_delays_no_event_and_records_what_would_have_waited(self):
        rig = self.ledger(order=by_number(observe=True))
        ids = [self.send(rig, n) for n in [1, 3, 2, 5]]
        wait_for(lambda: len(rig.receiver.requests("/crm")) == 4)
        self.assertEqual(self.order_of(rig),
                         [(n, None, None) for n in [1, 3, 2, 5]])
        self.assertEqual(sorted(self.gaps(rig)),
                         [(2, 2, "filled"), (4, 4, "open")])
        self.assertIn("would have waited for 2-2",
                      json.dumps(rig.trace(ids[1])["timeline"]))


class Times(OrderTest):
    def test_events_of_a_window_are_released_in_time_order(self):
        """A shorter window also applies to buffered events."""
        by_time = {"by": "timestamp", "timestamp": "json:/at"}
        rig = self.ledger(order={**by_time, "window": "1h"})
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)

        def at(seconds, hours=0):
            zone = datetime.timezone(datetime.timedelta(hours=hours))
            return (now + datetime.timedelta(seconds=seconds)).astimezone(
                zone).isoformat()
        ids = [self.send(rig, id=f"e{i}", at=time) for i, time in enumerate(
            [at(3), at(1, hours=2), int(now.timestamp()) + 2, at(0.5)])]
        for event in ids:
            rig.wait_status(event, "buffered")
        self.reload(rig, **by_time, window="100ms")
        for event in ids:
            rig.receiver.wait(event)
        rig.settle()
        order = sorted((int(r.headers["grapnel-sequence"]), ids.index(r.id))
                       for r in rig.receiver.requests("/crm"))
        self.assertEqual([i for _, i in order], [3, 1, 2, 0])
        late = self.send(rig, id="late", at=at(-3600))
        request, = rig.receiver.wait(late)
        self.assertEqual(request.headers["grapnel-late"], "1")
        # One that can't be right is not believed: nothing is late for it.
        rig.receiver.wait(self.send(rig, id="odd", at=at(9 * 365 * 86400)))
        request, = rig.receiver.wait(
            self.send(rig, id="next", at=at(4)))
        self.assertNotIn("grapnel-late", request.headers)


class States(OrderTest):
    def states(self, **more):
        return self.ledger(states={
            "object": "json:/object", "state": "json:/state",
            "initial": ["open"],
            "moves": ["open>paid", "open>failed", "paid>refunded"], **more})

    def move(self, rig, state, object="o1"):
        return self.send(rig, id=f"{object}-{state}-{rig.unique}",
                         object=object, state=state)

    def test_only_valid_transitions_are_delivered(self):
        rig = self.states()
        moves = ["open", "refunded", "paid", "open", "failed", "refunded"]
        ids = [self.send(rig, id=f"m{i}", object="o1", state=s)
               for i, s in enumerate(moves)]
        rig.settle()
        status = [rig.trace(i)["status"] for i in ids]
        self.assertEqual(status, ["done", "ignored", "done", "ignored",
                                  "ignored", "done"])
        trace = rig.trace(ids[4])
        self.assertEqual(trace["reason"],
                         "invalid_transition: object o1 is paid, which cannot "
                         "become failed; valid: refunded")
        self.assertIn("object o1 is open, which cannot become refunded; "
                      "valid: paid, failed", rig.trace(ids[1])["reason"])
        self.assertIn("valid: refunded", rig.cli_text("trace", ids[4]).stdout)
        self.assertEqual(trace["sequence"], None)
        told = ["\n".join(e["what"] for e in rig.trace(i)["timeline"])
                for i in ids]
        self.assertIn("state of o1: starts as open", told[0])
        self.assertIn("state of o1: open to paid", told[2])
        self.assertIn("state of o1: paid to refunded", told[5])
        for invalid in (told[1], told[3], told[4]):
            self.assertNotIn("state of o1", invalid)
        self.assertEqual([e["id"] for e in rig.cli(
            "events", "--status", "ignored")[0]], [ids[4], ids[3], ids[1]])
        self.assertEqual(rig.cli("dlq")[0], [])

    def test_an_invalid_transition_can_be_forced(self):
        rig = self.states(on_invalid="dead_letter")
        paid = self.send(rig, id="m1", object="o1", state="paid")
        trace = rig.wait_status(paid, "ignored")
        self.assertIn("cannot start as paid; valid: open", trace["reason"])
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")[0]
        self.assertEqual((dead_letter["reason"], dead_letter["endpoint"]),
                         ("invalid_transition", None))
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        rig.receiver.wait(paid)
        refunded = self.send(rig, id="m2", object="o1", state="refunded")
        rig.receiver.wait(refunded)
        wait_for(lambda: rig.cli("dlq", "show", dead_letter["id"])[0]["state"]
                 == "recovered", what="the dead letter to be recovered")


    def test_buffered_events_are_judged_by_the_rules_at_their_release(self):
        """A reload adds states, then changes the order, while events are
        buffered."""
        rig = self.ledger(order=by_number())

        def send(n, state):
            return self.send(rig, n, object="o1", state=state, at=n)
        held = [send(2, "paid"), send(3, "open")]
        for event in held:
            rig.wait_status(event, "buffered")
        rig.config["sources"][0]["states"] = {
            "object": "json:/object", "state": "json:/state",
            "initial": ["open"], "moves": ["open>paid", "paid>closed"]}
        self.reload(rig, **by_number())
        self.assertEqual(rig.trace(held[0])["status"], "buffered")
        first = send(1, "open")
        rig.receiver.wait(held[0])
        self.assertIn("object o1 is paid, which cannot become open",
                      rig.wait_status(held[1], "ignored")["reason"])
        last = send(5, "closed")
        rig.wait_status(last, "buffered")
        self.reload(rig, by="timestamp", timestamp="json:/at", window="100ms")
        request, = rig.receiver.wait(last)
        self.assertEqual(request.headers["grapnel-gap"], "4-4")
        rig.settle()
        self.assertEqual([r.id for r in rig.receiver.requests("/crm")],
                         [first, held[0], last])
        self.assertEqual(self.gaps(rig, "--open"), [])


class Duplicates(OrderTest):
    def test_any_of_several_keys_identifies_a_duplicate(self):
        """P7: new keys of a duplicate identify the first event, too."""
        rig = self.ledger(dedupe={"keys": [["source", "id"],
                                           ["source", "json:/other"]]})
        first = self.send(rig, id="a", other="x")
        again = [self.send(rig, id="b", other="x"), self.send(rig, id="a"),
                 self.send(rig, id="b", other="y")]
        new = self.send(rig, id="c", other="z")
        for event in again:
            trace = rig.wait_status(event, "duplicate")
            self.assertEqual(trace["duplicate_of"], first)
        rig.receiver.wait(new)
        rig.settle()
        self.assertEqual({r.id for r in rig.receiver.requests()}, {first, new})

    def test_keys_are_forgotten_after_their_ttl(self):
        rig = self.ledger(dedupe={"keys": [["source", "id"]], "ttl": "1s"})
        first = self.send(rig, id="a")

        def is_new():
            event = self.send(rig, id="a")
            rig.settle()
            return rig.trace(event)["status"] == "done" and event
        self.assertNotEqual(wait_for(is_new, what="the key to end"), first)

    def test_the_same_body_within_the_window_is_a_duplicate(self):
        """Only where a window is set."""
        keys = {"keys": [["source", "header:X-Id"]]}
        rig = self.ledger(id="header:X-Id", dedupe={**keys, "window": "5m"})
        body = json.dumps({"team": "t", "type": "x"}).encode()
        signature = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()

        def send(id_):
            return rig.accept(body, source="ledger", headers={
                "X-Sig": signature, "X-Id": id_})
        first = send("1")
        trace = rig.wait_status(send("2"), "duplicate")
        self.assertEqual(trace["duplicate_of"], first)
        rig.config["sources"][0]["dedupe"] = keys
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig.receiver.wait(send("3"))
        rig.config["sources"][0]["dedupe"] = "none"
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig.receiver.wait(send("3"))

    def test_a_suppressed_duplicate_is_released(self):
        rig = self.ledger()
        self.send(rig, id="a")
        again = self.send(rig, id="a")
        rig.wait_status(again, "duplicate")
        released, code = rig.cli("release", again)
        self.assertEqual((code, released["id"]), (0, again))
        rig.receiver.wait(again)
        rig.wait_status(again, "done")
        done = rig.cli_text("release", again)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not a suppressed duplicate", done.stderr)


    def test_a_duplicate_can_be_released_in_the_turn_of_a_reload(self):
        """P2: the new configuration decides which endpoints get it."""
        rig = self.ledger()
        self.send(rig, id="a")
        again = self.send(rig, id="a")
        rig.wait_status(again, "duplicate")
        with zmq.Context.instance().socket(zmq.DEALER) as control:
            control.linger = 0
            control.connect(f"ipc://{rig.run_dir}/sequencer.control")

            def ask(question, **args):
                control.send_multipart([b"", json.dumps(
                    {"v": 1, "ask": question, "args": args}).encode()])

            def reply():
                self.assertTrue(control.poll(30000), "no reply")
                return json.loads(control.recv_multipart()[1])
            ask("ping")
            reply()
            rig["sequencer"].pause()  # so that both come in one turn
            ask("reload")
            ask("release", event=again)
            rig["sequencer"].resume()
            self.assertEqual([reply()["ok"] for _ in range(2)], [True, True])
        rig.receiver.wait(again)


class Backfill(OrderTest):
    def test_backfill_calls_once_until_it_is_answered(self):
        """P6: signed like a webhook, with backoff, one call at a time."""
        rig = self.rig({"sources": [ledger(order=by_number())]})
        rig.config["sources"][0]["order"].update(
            backfill=rig.receiver.url("/fill/{source}?w={workspace}"
                                      "&from={from}&to={to}"),
            signing_secrets=[SIGNING_SECRET], allow_private=True)
        rig.write_config()
        path = "/fill/ledger?w=a%20%26b&from=1&to=2"
        rig.receiver.rules({"path": "/fill/ledger", "responses": [
            {"status": 503, "times": 2}, {"status": 200}]})
        rig.start()
        held = self.send(rig, 3, team="a &b")
        calls = rig.receiver.wait(path=path, count=3, timeout=15)
        asked = json.loads(calls[0].body)
        self.assertEqual(
            (asked["source"], asked["workspace"], asked["from"], asked["to"],
             asked["gap"]), ("ledger", "a &b", 1, 2,
                             rig.cli("gaps")[0][0]["id"]))
        self.assertTrue(is_signed(calls[0]))
        self.assertEqual(len({c.id for c in calls}), 1)
        for n in [1, 2]:
            self.send(rig, n, team="a &b")
        rig.receiver.wait(held)
        rig.settle()
        self.assertEqual(len(rig.receiver.requests(path)), 3)
        self.assertEqual([n for n, _, _ in self.order_of(rig)], [1, 2, 3])

    def test_backfill_does_not_reach_private_addresses_by_default(self):
        """P8."""
        rig = self.rig({"sources": [ledger(order=by_number())]})
        rig.config["sources"][0]["order"]["backfill"] = \
            rig.receiver.url("/fill?from={from}")
        rig.write_config()
        rig.start()
        self.send(rig, 2)
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")[0]
        self.assertEqual((dead_letter["reason"], dead_letter["endpoint"]),
                         ("blocked_address", "backfill:ledger"))
        self.assertEqual(rig.receiver.requests("/fill?from=1"), [])

    def test_a_workspace_cannot_change_the_path_of_a_backfill_call(self):
        """P8: none is called for a workspace that servers or clients take for a
        step up; the gap says so, and what waits for it goes as usual."""
        rig = self.rig({"sources": [ledger(order=by_number())]})
        rig.config["sources"][0]["order"].update(
            backfill=rig.receiver.url("/fill/of/{workspace}/from/{from}?"
                                      "w={workspace}"), allow_private=True)
        rig.write_config()
        rig.start()
        bad = [".", "..", "%2e%2E", ".%2e", "../../admin", "a/..", "..\\b",
               "%2e%2e%2fadmin", "x/%2e%2e"]
        good = ["...", "a..b", ".well-known", "a/b", "%2e5", "ä/ö", "?", "#"]
        for team in bad + good:
            self.send(rig, 2, team=team)
        calls = wait_for(
            lambda: len({r.id for r in rig.receiver.requests()}) == len(good)
            and rig.receiver.requests(), what="the calls of good names")
        self.assertEqual({json.loads(r.body)["workspace"] for r in calls},
                         set(good))
        for call in calls:
            self.assertRegex(call.path, r"^/fill/of/[^/]+/from/1\?w=")
        gaps = {g["workspace"]: g for g in rig.cli("gaps", "--open")[0]}
        self.assertEqual(set(gaps), set(bad + good))
        for team in bad:
            self.assertRegex(gaps[team]["note"], "not called: .*path")
        for team in good:
            self.assertEqual(gaps[team]["note"], None)
        rig.config["sources"][0]["order"]["backfill"] = \
            rig.receiver.url("/fill?w={workspace}")
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        self.send(rig, 4, team="..")
        rig.receiver.wait(path="/fill?w=..")

    def test_a_workspace_cannot_change_the_path_of_a_stored_backfill_call(self):
        """P8: also one that an older version stored, or one with another
        template."""
        rig = self.rig({"sources": [ledger(order=by_number())]})
        rig.config["sources"][0]["order"].update(
            backfill=rig.receiver.url("/fill/{from}?w={workspace}"),
            allow_private=True)
        rig.write_config()
        rig.receiver.rules({"path": "/fill/1", "responses": [{"status": 503}]})
        rig.start()
        self.send(rig, 2, team="..")
        rig.receiver.wait(path="/fill/1?w=..")
        rig.config["sources"][0]["order"]["backfill"] = \
            rig.receiver.url("/fill/{workspace}/{from}")
        rig.write_config()
        rig["deliverer-1"].kill()
        rig["sequencer"].restart()
        rig["deliverer-1"].start()
        event, = [d["event_id"] for d in rig.cli(
            "deliveries", "--endpoint", "backfill:ledger")[0]]
        rig.cli("retry", event)
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")[0]
        self.assertEqual((dead_letter["reason"], dead_letter["endpoint"]),
                         ("rejected", "backfill:ledger"))
        self.assertEqual({r.path for r in rig.receiver.requests()},
                         {"/fill/1?w=.."})


class Alerts(OrderTest):
    def test_open_gaps_and_halted_lanes_are_alerts(self):
        """Both alerts fire, and resolve when the gap or halt has ended."""
        rig = self.rig({"sources": [ledger(order=by_number())]}, console=True)
        rig.config["endpoints"] = [rig.endpoint(
            "crm", ordered="workspace", on_dead="halt")]
        rig.config["alerts"] = [
            {"name": "gaps", "when": "open_gaps", "above": 0, "for": "0s"},
            {"name": "lanes", "when": "halted_lanes", "above": 0, "for": "0s"}]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400}, {"status": 200}]})
        rig.start()
        self.send(rig, 1)
        self.send(rig, 3)

        def state(of, *names):
            found = {a["name"]: a["state"] for a in rig.cli("alerts")[0]}
            return [found.get(n) for n in names] == [of] * len(names)
        wait_for(lambda: state("firing", "gaps", "lanes"), what="both to fire")
        self.assertEqual((rig.number("grapnel_gaps_open"),
                          rig.number("grapnel_events_buffered"),
                          rig.number("grapnel_lanes_halted")), (1, 1, 1))
        dead_letter, = rig.cli("dlq")[0]
        self.assertEqual(
            rig.cli("dlq", "resolve", dead_letter["id"], "--note", "x")[1], 0)
        self.send(rig, 2)
        rig.settle()
        wait_for(lambda: state("resolved", "gaps", "lanes"),
                 what="both to be resolved")


main()
