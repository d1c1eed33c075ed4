"""`grapnel resend` sends one event again, and `grapnel replay` those of a period."""

import contextlib
import json
import pathlib
import signal
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import zmq
from rig import Process, RigTest, main, program, wait_for


class Replay(RigTest):
    def delivered(self, count=1, config=None, **how):
        """A pipeline in which so many events were delivered to crm."""
        rig = self.rig(config, **how).start()
        events = [rig.accept() for _ in range(count)]
        for event in events:
            rig.wait_status(event)
        return rig, events

    def requests(self, rig, event, path="/crm"):
        return rig.receiver.requests(path, event=event)


class Resend(Replay):
    def test_a_resent_event_has_the_same_id_and_sequence(self):
        """P4: it is marked as a replay, and the trace names the operator."""
        rig, (event, other) = self.delivered(2)
        reply, code = rig.cli("resend", event)
        self.assertEqual((code, reply), (0, {"id": event, "resent": True,
                                              "endpoint": None,
                                              "tried_now": []}))
        first, again = rig.receiver.wait(event, count=2)
        for header in ("webhook-id", "grapnel-sequence", "grapnel-previous",
                       "grapnel-clock", "grapnel-time"):
            self.assertEqual(first.headers[header], again.headers[header])
        self.assertEqual(first.body, again.body)
        self.assertNotIn("grapnel-replay", first.headers)
        self.assertEqual(again.headers["grapnel-replay"], "1")
        self.assertEqual(again.headers["grapnel-attempt"], "2")
        trace = wait_for(lambda: (t := rig.wait_status(event)) and len(
            t["deliveries"][0]["attempts"]) == 2 and t)
        said = [e["what"] for e in trace["timeline"]]
        self.assertTrue([s for s in said if s.startswith("sent again by")], said)
        self.assertEqual([a["n"] for a in trace["deliveries"][0]["attempts"]],
                         [1, 2])
        self.assertEqual(len(self.requests(rig, other)), 1)

    def test_a_confirmed_resend_takes_effect_once_despite_kills(self):
        """P3, P4."""
        rig, (event, *rest) = self.delivered(5)
        rig["sequencer"].kill()
        reply = rig.ask("ingress", "resend", events=[{"id": event}], who="me")
        self.assertEqual([x["id"] for x in reply["resent"]], [event])
        rig.kill()
        rig.start()
        rig.receiver.wait(event, count=2)
        rig.kill("ingress", "sequencer")
        rig.start().settle()
        self.assertEqual(len(self.requests(rig, event)), 2)
        for other in rest:
            self.assertEqual(len(self.requests(rig, other)), 1)

    def test_a_resend_recovers_a_dead_letter(self):
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 1}, {"status": 200}]})
        rig.start()
        event = rig.accept()
        stats = lambda: rig.cli("dlq", "stats")[0]
        wait_for(lambda: stats()["dead"] == 1)
        self.assertEqual(rig.cli("resend", event)[1], 0)
        wait_for(lambda: stats()["recovered"] == 1)
        self.assertEqual(stats()["dead"], 0)
        self.assertEqual(rig.cli("resend", event)[1], 0)
        rig.receiver.wait(event, count=3)
        rig.settle()
        self.assertEqual((stats()["dead"], stats()["recovered"]), (0, 1))

    def test_a_resend_can_name_another_endpoint(self):
        """Also one that is not subscribed to the event, with --always."""
        rig = self.rig()
        rig.config["endpoints"].append(
            rig.endpoint("shelf", types=["nothing.*"]))
        rig.write_config()
        rig.start()
        event = rig.accept()
        rig.wait_status(event)
        self.assertEqual(rig.cli("resend", event, "--endpoint", "shelf")[1], 0)
        request, = rig.receiver.wait(event, count=1, path="/shelf")
        self.assertNotIn("grapnel-replay", request.headers)
        rig.settle()
        self.assertEqual(len(self.requests(rig, event)), 1)
        said = rig.cli_text("resend", event, "--endpoint", "shelv")
        self.assertEqual(said.returncode, 1)
        self.assertIn("shelf", said.stderr)

    def test_events_that_cannot_be_resent_are_named(self):
        rig, (event,) = self.delivered()
        body = rig.plane_body()
        first, duplicate = rig.accept(body), rig.accept(body)
        rig.wait_status(duplicate, "duplicate")
        for wrong, word in ((duplicate, "release"),
                            ("evt_00000000000000000000000000", "archive"),
                            ("nonsense", "nonsense is not an event id")):
            said = rig.cli_text("resend", wrong)
            self.assertEqual(said.returncode, 1, said)
            self.assertIn(word, said.stderr)
        rig["sequencer"].kill()
        said = rig.cli_text("resend", event)
        self.assertEqual(said.returncode, 69)
        self.assertIn("sequencer", said.stderr)


class OfATime(Replay):
    def test_replay_counts_before_it_sends(self):
        rig = self.rig().start()
        old = rig.accept()
        rig.wait_status(old)
        time.sleep(0.01)
        since = time.time()
        events = [rig.accept(rig.plane_body("ws-2")) for _ in range(12)]
        body = rig.plane_body("ws-3")
        events.append(rig.accept(body))
        duplicate = rig.accept(body)
        rig.wait_status(duplicate, "duplicate")
        rig.settle()
        span = ("--since", time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(
            since)) + f".{int(since % 1 * 1000):03}Z")
        dry, code = rig.cli("replay", *span, "--dry-run")
        self.assertEqual((code, dry), (0, {
            "dry_run": True, "matched": 13, "unsure": 0, "replayed": 0,
            "skipped": {"duplicate": 1}, "missing": []}))
        one, _ = rig.cli("replay", *span, "--workspace", "ws-3")
        self.assertEqual((one["matched"], one["replayed"]), (1, 1))
        all_, _ = rig.cli("replay", *span, "--rate", "1000")
        self.assertEqual((all_["matched"], all_["replayed"]), (13, 13))
        rig.settle()
        for event in events[:12]:
            self.assertEqual(len(self.requests(rig, event)), 2)
        self.assertIn(len(self.requests(rig, events[12])), (2, 3))
        self.assertEqual(len(self.requests(rig, old)), 1)
        self.assertEqual(self.requests(rig, duplicate), [])

    def test_a_new_endpoint_can_get_earlier_events(self):
        rig, events = self.delivered(8)
        rig.config["endpoints"].append(rig.endpoint("late"))
        rig.config["endpoints"].append(
            rig.endpoint("picky", types=["nothing.*"]))
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        for name, count in (("late", 8), ("picky", 0)):
            reply, code = rig.cli("replay", "--since", "1h", "--endpoint",
                                   name)
            self.assertEqual((code, reply["replayed"]), (0, count))
        rig.settle()
        for event in events:
            again, = rig.receiver.wait(event, count=1, path="/late")
            self.assertNotIn("grapnel-replay", again.headers)
            self.assertEqual(len(self.requests(rig, event)), 1)
            self.assertEqual(self.requests(rig, event, "/picky"), [])

    def test_replay_can_make_new_events(self):
        rig, events = self.delivered(5)
        reply, code = rig.cli("replay", "--since", "1h", "--new-id")
        self.assertEqual((code, reply["replayed"]), (0, 5))
        rig.settle()
        rows, _ = rig.cli("events")
        self.assertEqual(len(rows), 10)
        self.assertEqual(sorted(r["sequence"] for r in rows),
                         list(range(1, 11)))
        for row in rows:
            request, = self.requests(rig, row["id"])
            new = row["id"] not in events
            self.assertEqual(request.headers.get("grapnel-replay"),
                             "1" if new else None)
            if new:
                said = [e["what"] for e in rig.trace(row["id"])["timeline"]]
                self.assertTrue([s for s in said if s.startswith("made of")])

    def test_replay_sends_events_that_only_the_archive_has(self):
        """The sequencer has removed the event; it takes it as a new one, once."""
        rig, (event,) = self.delivered(
            config={"history": {"keep": "1s"}})
        wait_for(lambda: rig.cli("events")[0] == [])
        self.assertEqual(rig.cli("resend", event)[1], 0)
        _, again = rig.receiver.wait(event, count=2)
        self.assertEqual(again.headers["grapnel-replay"], "1")

    def test_wrong_replay_arguments_are_usage_errors(self):
        rig = self.rig()
        for args in ((), ("--since", "nonsense"), ("--since", "1h", "--until",
                                                  "2h"),
                     ("--since", "1h", "--rate", "0")):
            self.assertEqual(rig.cli_text("replay", *args).returncode, 64)
        said = rig.cli_text("replay", "--since", "1h")
        self.assertEqual(said.returncode, 69)


class Readers(Replay):
    """Who reads the archive never holds up who writes it (P1)."""

    def fill(self, rig, mib):
        for _ in range(mib):
            rig.accept(rig.plane_body(pad="x" * 1000000))

    def begun(self, rig):
        """How often the write-ahead log was begun anew (its checkpoint
        sequence number)."""
        path = rig.state_dir / "ingress.db-wal"
        with open(path, "rb") as wal:
            return int.from_bytes(wal.read(16)[12:], "big")

    def begins_anew(self, rig):
        before = self.begun(rig)
        for _ in range(30):
            self.fill(rig, 4)
            if self.begun(rig) > before:
                return
        self.fail("120 MiB were written, and the log was not begun anew")

    def ask_and_not_listen(self, rig, question, count, **args):
        reader = zmq.Context.instance().socket(zmq.DEALER)
        self.addCleanup(reader.close, linger=0)
        reader.rcvhwm = 1
        reader.connect(f"ipc://{rig.run_dir}/ingress.control")
        for _ in range(count):
            reader.send_multipart([b"", json.dumps(
                {"v": 1, "ask": question, "args": args}).encode()])
        return reader

    def test_reading_the_archive_does_not_delay_writers(self):
        rig = self.rig(deliverers=0).start()
        event = rig.accept()
        rig.load(count=1200, connections=16).result()
        # Responses of 40 KiB that nobody fetches,
        listeners = [self.ask_and_not_listen(rig, "archive", 200, since_ms=0),
                     self.ask_and_not_listen(rig, "trace", 200, id=event)]
        # and a replay of all of it, which would take twenty minutes.
        replay = Process(rig, "replay", [
            program("grapnel"), "replay", "-c", str(rig.config_path),
            "--since", "1h", "--rate", "1"]).spawn()
        rig.others.append(replay)
        wait_for(lambda: rig.rows("ingress", "SELECT n FROM replays LIMIT 1"))
        self.begins_anew(rig)
        # One who is in the middle of the file is waited for by the log only.
        with contextlib.closing(sqlite3.connect(
                f"file:{rig.state_dir}/ingress.db?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT n FROM archive")
            rows.fetchone()
            at = self.begun(rig)
            self.fill(rig, 40)
            self.assertLessEqual(self.begun(rig), at + 1)
            rows.close()
        self.begins_anew(rig)
        for listener in listeners:
            listener.rcvhwm = 0
            self.assertTrue(json.loads(listener.recv_multipart()[1])["ok"])
        self.assertTrue(replay.alive)
        replay.signal(signal.SIGINT)
        self.assertEqual(replay.wait_exit(), 1, replay.log())
        self.assertIn("interrupted", replay.log())


main()
