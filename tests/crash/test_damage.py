"""P2: a flipped bit on disk is reported, and data that another process still has is
restored."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import sqlite3
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


def change_content(path, what, by):
    """What is stored of an event is something else, in the file itself: as if the disk
    had changed it. The process is down and its WAL copied back."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(path, "r+b") as file:
        content = file.read()
        assert what in content, f"{what} is not in {path}"
        at = content.find(what)
        while at >= 0:
            file.seek(at)
            file.write(by)
            at = content.find(what, at + 1)


class Content(RigTest):
    """What is stored is not what was accepted: nobody gets it, and a person sees it."""

    MARK, OTHER = b"intact-4711", b"intact-4712"

    def body(self, rig):
        return rig.plane_body(mark=self.MARK.decode())

    def check_not_delivered(self, rig):
        for request in rig.receiver.requests():
            self.assertNotIn(self.OTHER, request.body)

    def dead_letter(self, rig, event, reason):
        wait_for(lambda: [r for r in rig.cli("dlq")[0] if r["event_id"] == event],
                 what="the dead letter")
        one, = rig.cli("dlq")[0]
        self.assertEqual((one["event_id"], one["reason"]), (event, reason))
        return one["id"]

    def test_a_damaged_archived_request_is_not_delivered(self):
        """The sequencer did not have it yet. The next event is delivered."""
        rig = self.rig().start()
        rig["sequencer"].stop()
        event = rig.accept(self.body(rig))
        rig["ingress"].stop()
        change_content(rig.state_dir / "ingress.db", self.MARK, self.OTHER)
        rig.start()
        wait_for(rig.ingress_is_ready, what="ingress")
        rig.receiver.wait(rig.accept())
        dead_letter = self.dead_letter(rig, event, "refused:damaged")
        self.check_not_delivered(rig)
        self.assertRegex(rig["ingress"].log(), f"event={event} .*is damaged")
        done = rig.cli_text("dlq", "retry", dead_letter)
        self.assertEqual(done.returncode, 1)
        self.assertIn("damaged", done.stdout + done.stderr)
        self.assertNotEqual(rig.cli("show", event)[1], 0)
        rig.settle()
        self.check_not_delivered(rig)

    def test_a_damaged_event_is_restored_from_the_archive(self):
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.start()
        rig["deliverer-1"].stop()
        event = rig.accept(self.body(rig))
        wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM bodies"),
                 what="the sequencer to have it")
        rig["sequencer"].stop()
        change_content(rig.state_dir / "sequencer.db", self.MARK, self.OTHER)
        rig.start()
        self.dead_letter(rig, event, "damaged")
        rig.receiver.wait(rig.accept())
        self.check_not_delivered(rig)
        self.assertRegex(rig["sequencer"].log(), f"event={event} .*is damaged")
        self.assertEqual(rig.cli("resend", event)[1], 0)
        request, = rig.receiver.wait(event)
        self.assertIn(self.MARK, request.body)
        self.check_not_delivered(rig)

    def test_a_damaged_buffered_event_is_not_delivered(self):
        """What changed is a part of its row that is never written again. When the
        event is released, other parts of the row are, and that must not make it look
        intact."""
        key = "ledger key"
        rig = self.rig({"sources": [{
            "name": "ledger", "provider": "custom", "secrets": [key],
            "verify": {"scheme": "shared-token", "header": "X-Key"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            "order": {"by": "sequence", "sequence": "json:/seq", "start": 1,
                      "give_up_after": "1h"}}]}).start()

        def send(seq):
            body = {"id": f"no-{seq}", "type": "made", "team": "t", "seq": seq}
            return rig.accept(json.dumps(body).encode(), source="ledger", headers={
                "X-Key": key, "Content-Type": "application/json"})

        held = send(2)
        rig.wait_status(held, "buffered")
        rig["sequencer"].stop()
        other = held[:-1] + ("0" if held[-1] != "0" else "1")
        change_content(rig.state_dir / "sequencer.db", held.encode(),
                       other.encode())
        rig.start()
        rig.receiver.wait(send(1))
        wait_for(lambda: [r for r in rig.cli("dlq")[0]
                          if r["reason"] in ("damaged", "refused:damaged")],
                 what="the dead letter")
        rig.settle()
        self.assertNotIn(other, rig.receiver.delivered("/crm"))
        found, code = rig.cli("verify", "sequencer")
        self.assertEqual((code, [d["table"] for d in found[0]["damaged"]]),
                         (1, ["events"]), found)

    def test_a_damaged_task_is_sent_again_by_the_sequencer(self):
        rig = self.rig({"retry_policies": [{
            "name": "default", "first_wait": "1s", "max_wait": "1s",
            "jitter": "none", "max_attempts": 50}]})
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.start()
        event = rig.accept(self.body(rig))
        wait_for(lambda: rig.rows("deliverer-1",
                                  "SELECT 1 FROM tasks WHERE retrying = 1"),
                 what="a scheduled retry")
        rig["deliverer-1"].kill()
        change_content(rig.state_dir / "deliverer-1.db", self.MARK, self.OTHER)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.start()
        wait_for(lambda: event in rig.receiver.delivered("/crm"), 120,
                 what="the delivery")
        self.check_not_delivered(rig)

    def test_a_damaged_dead_letter_is_not_delivered(self):
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        event = rig.accept(self.body(rig))
        dead_letter = self.dead_letter(rig, event, "rejected")
        rig["dlqd"].stop()
        change_content(rig.state_dir / "dlqd.db", self.MARK, self.OTHER)
        rig.start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        done = rig.cli_text("dlq", "retry", dead_letter)
        self.assertEqual(done.returncode, 1)
        self.assertIn("damaged", done.stdout + done.stderr)
        self.assertEqual(rig.cli("resend", event)[1], 0)
        wait_for(lambda: event in rig.receiver.delivered("/crm"),
                 what="the delivery")
        self.check_not_delivered(rig)


class Wal(RigTest):
    def test_dead_letters_of_a_damaged_wal_are_sent_again(self):
        """P2: dlqd's log of the last commits is damaged at its beginning. It warns,
        and the sequencer sends all of them again."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        wait_for(rig.ingress_is_ready, what="ingress")
        for count in range(1, 25):
            rig.accept()
            wait_for(lambda: len(rig.rows("dlqd", "SELECT n FROM dead_letters")) ==
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
        wait_for(lambda: len(rig.rows("dlqd", "SELECT n FROM dead_letters")) == 24,
                 what="all dead letters to be there again")
        listed, _ = rig.cli("dlq", "--limit", "100")
        self.assertEqual({r["state"] for r in listed}, {"dead"})

    def test_a_crash_is_not_reported_as_damage(self):
        rig = self.rig().start()
        for _ in range(5):
            rig.accept()
        rig.settle()
        rig.kill()
        rig.start()
        for daemon in rig.daemons.values():
            self.assertNotIn("write-ahead log", daemon.log())


class Verify(RigTest):
    MARK, OTHER = Content.MARK, Content.OTHER

    def test_verify_names_the_damaged_rows(self):
        """By the process that runs, of one that is down, and of a copy. P2."""
        rig = self.rig(console=True)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.start()
        wait_for(rig.ingress_is_ready, what="ingress")
        good, code = rig.cli("verify")
        self.assertEqual((code, [r["ok"] for r in good]), (0, [True] * 5), good)
        self.assertEqual({r["by"] for r in good}, set(rig.daemons))
        event = rig.accept(rig.plane_body(mark=self.MARK.decode()))
        rig.settle()
        rig["ingress"].stop()
        change_content(rig.state_dir / "ingress.db", self.MARK, self.OTHER)
        down, code = rig.cli("verify", "ingress")
        self.assertEqual((code, down[0]["by"]), (1, "grapnel"))
        rig.start("ingress")
        found, code = rig.cli("verify")
        self.assertEqual(code, 1)
        by_name = {r["process"]: r for r in found}
        self.assertEqual([n for n in by_name if not by_name[n]["ok"]], ["ingress"])
        self.assertEqual(by_name["ingress"]["damaged"], [
            {"table": "archive", "id": event, "what": "wrong checksum"}])
        self.assertEqual(by_name["ingress"]["damaged"], down[0]["damaged"])
        self.assertIn(event, rig.cli_text("verify").stdout)
        wait_for(lambda: rig.number("grapnel_damaged_total"), what="the number")
        wait_for(lambda: "damaged_data" in rig.cli_text("alerts").stdout,
                 what="the alert")
        copy = rig.folder / "copy"
        self.assertEqual(rig.cli("backup", copy)[1], 0)
        found, code = rig.cli("verify", "--offline", copy)
        self.assertEqual((code, len(found)), (1, 5))
        self.assertEqual(rig.cli("verify", "--offline", rig.folder / "no")[1], 1)


class Flips(RigTest):
    """Bits are flipped at random, in main files and WALs. Each flip is harmless, or it is
    found by a start or by `verify`; and no changed data is ever delivered."""

    COUNT, STARTS = int(os.environ.get("GRAPNEL_FLIPS", 40)), 4
    SEED = int(os.environ.get("GRAPNEL_SEED", 4711))
    TABLES = {  # what carries a checksum (lib/store/sums.h)
        "ingress": {"archive": "event_id, source, received_ms, headers, body"},
        "sequencer": {"events": "id, source, type, workspace, sequence, clock",
                      "bodies": "event, headers, body"},
        "dlqd": {"dead_letters": "event_id, endpoint, type, workspace",
                 "contents": "dead letter, headers, body"}}

    def content(self, folder, process):
        """What is stored; None: it can't be read."""
        uri = f"file:{folder / process}.db?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
                db.text_factory = bytes
                return {(table, row) for table, columns in
                        self.TABLES[process].items()
                        for row in db.execute(f"SELECT {columns} FROM {table}")}
        except sqlite3.DatabaseError:
            return None

    @staticmethod
    def is_last_frame(path, at):
        if not path.name.endswith("-wal"):
            return False
        wal = path.read_bytes()
        size = FRAME_HEADER + int.from_bytes(wal[8:12], "big")
        end = WAL_HEADER
        while wal[end + 8:end + 16] == wal[16:24]:  # of this log, by its salts
            end += size
        return end - size <= at < end

    def filled(self):
        """Everything ran and was killed: dead letters and events that wait. A copy of
        its state, without what belongs to no database."""
        rig = self.rig()
        rig.receiver.rules(
            {"path": "/no", "responses": [{"status": 400}]},
            {"path": "*", "responses": [{"status": 200}]})
        rig.config["endpoints"] += [rig.endpoint("no"), rig.endpoint("later")]
        rig.write_config()
        rig.start()
        wait_for(rig.ingress_is_ready, what="ingress")
        self.bodies = {}
        for n in range(25):
            body = rig.plane_body(mark=f"mark-{n}")
            self.bodies[rig.accept(body)] = body
        rig.settle()
        rig.cli("endpoints", "pause", "later")
        for n in range(15):
            body = rig.plane_body(mark=f"later-{n}")
            self.bodies[rig.accept(body)] = body
        wait_for(lambda: rig.rows("sequencer", "SELECT count(*) AS n FROM events")
                 [0]["n"] == 40, what="all events")
        rig.kill()
        kept = rig.folder / "kept"
        shutil.copytree(rig.state_dir, kept)
        return rig, kept

    def one_flip(self, chance, kept, folder):
        """A copy with one bit flipped; (process, the file, where)."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        for shm in folder.glob("*-shm"):
            shm.unlink()
        process = chance.choice(list(self.TABLES))
        files = [f for f in (folder / f"{process}.db", folder / f"{process}.db-wal")
                 if f.exists() and f.stat().st_size]
        file = chance.choice(files)
        at = chance.randrange(file.stat().st_size)
        flip(file, at, chance.randrange(8))
        return process, file.name, at

    def test_a_flipped_bit_is_harmless_or_reported(self):
        chance = random.Random(self.SEED)
        rig, kept = self.filled()
        folder, silent, found = rig.folder / "flipped", [], 0
        before = {process: self.content(kept, process) for process in self.TABLES}
        for _ in range(self.COUNT):
            process, name, at = self.one_flip(chance, kept, folder)
            after = self.content(folder, process)
            reply, code = rig.cli("verify", process, "--offline", folder)
            if code:
                found += 1
            elif after != before[process]:
                silent.append((name, at, len(before[process] - (after or set()))))
        # The last frame of a WAL may be torn by a crash. What was acknowledged to
        # another process is missed there (links.h).
        silent = [s for s in silent if not self.is_last_frame(kept / s[0], s[1])]
        self.assertEqual(silent, [], f"seed {self.SEED}")
        print(f"{self.COUNT} flips, {found} found", file=sys.stderr)

    def test_no_changed_data_is_delivered(self):
        chance = random.Random(self.SEED + 1)
        rig, kept = self.filled()
        for _ in range(self.STARTS):
            process, name, at = self.one_flip(chance, kept, rig.state_dir)
            for daemon in rig.daemons.values():
                daemon.start(wait=False)
            wait_for(lambda: all(d.up() or not d.alive
                                 for d in rig.daemons.values()),
                     what="each process to be up or to refuse its database")
            up = {n for n, d in rig.daemons.items() if d.alive}
            if up == set(rig.daemons):
                rig.cli("endpoints", "resume", "later")
                rig.cli("dlq", "retry", "--all")
                with contextlib.suppress(AssertionError):
                    rig.settle(timeout=5)
            for request in rig.receiver.requests():
                self.assertEqual(request.body, self.bodies.get(request.id),
                                 f"{name} at {at}, seed {self.SEED}")
            rig.kill(*up)


main()
