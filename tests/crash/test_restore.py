"""P2, P3, P4: after a restore of some or all processes the pipeline reports it and continues,
and each event that another process still has is delivered."""

import contextlib
import errno
import itertools
import os
import pathlib
import random
import shutil
import sqlite3
import struct
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import zmq
from rig import RigTest, main, program, wait_for

LEASE_MS = 500
STORAGE = 74
SEED = int(os.environ.get("GRAPNEL_RESTORE_SEED", random.randrange(1 << 32)))
COMBINATIONS = int(os.environ.get("GRAPNEL_RESTORE_COMBINATIONS", 3))


class Restore(RigTest):
    def pipeline(self):
        """With a backup made under load, and a history after it."""
        self.unique, self.acks = 0, []
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = str(LEASE_MS)
        rig.config["endpoint_defaults"] = {"timeout": "500ms",
                                           "connect_timeout": "500ms"}
        rig.config["retry_policies"][0]["max_attempts"] = 1000
        rig.config["endpoints"].append(
            rig.endpoint("legal", workspaces=["ws-0000"], guard=False))
        rig.write_config()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        rig.start()
        self.some(rig, 200)
        load = self.load(rig, 400, rate=400)
        rig.receiver.wait(path="/crm", count=250)
        self.backup = rig.folder / "backup"
        rows, code = rig.cli("backup", self.backup)
        self.assertEqual((code, {r["process"] for r in rows}),
                         (0, set(rig.daemons)), rows)
        load.result()
        self.acks += load.acks()
        return rig

    def small(self, count):
        """(a pipeline of one endpoint that is stopped, what it delivered)"""
        self.unique, self.acks = 0, []
        rig = self.rig().start()
        acks = self.some(rig, count)
        rig.settle()
        rig.stop()
        return rig, acks

    def load(self, rig, count, **how):
        load = rig.load(count=count, workspaces=10, first=self.unique + 1,
                        **how)
        self.unique += count
        return load

    def some(self, rig, count):
        """Accepted events; their acknowledgements."""
        load = self.load(rig, count)
        self.assertEqual(load.result()["counts"], {"200": count})
        self.acks += load.acks()
        return load.acks()

    def put_back(self, rig, name):
        rig.kill(name)
        for path in rig.state_dir.glob(f"{name}.db*"):
            path.unlink()
        shutil.copy(self.backup / f"{name}.db", rig.state_dir)

    def delivered(self, rig, acks, timeout=30):
        ids = {a["id"] for a in acks}
        wait_for(lambda: ids <= set(rig.receiver.delivered("/crm")), timeout,
                 "all to be delivered")

    def says(self, rig, *words):
        """Some process says this at level warn or error."""
        def said():
            lines = "\n".join(line for d in rig.daemons.values()
                              for line in d.log().splitlines()
                              if " warn " in line or " error " in line)
            return all(word in lines for word in words)
        wait_for(said, what=f"a loud {words}")

    def links(self, rig, what):
        """Sum over all links of "set_back", "lost" …"""
        return sum(link[what] for row in rig.cli("status")[0]
                   for link in row["links"])

    def all_known_and_done(self, rig, acks):
        rows = rig.rows("sequencer", """
            SELECT e.id FROM events e WHERE NOT EXISTS (
                SELECT 1 FROM deliveries d WHERE d.event = e.n
                AND d.status < 3)""")
        unknown = {a["id"] for a in acks} - {r["id"] for r in rows}
        self.assertEqual(unknown, set(), "not known, or not done")

    def goes_on(self, rig):
        """New events are delivered, and all is as it should be."""
        self.delivered(rig, self.some(rig, 200))
        rig.settle()
        self.delivered(rig, self.acks)  # and all before
        ids = {}
        for request in rig.receiver.requests("/crm"):
            ids.setdefault(request.id, set()).add(request.body)
        self.assertEqual({len(bodies) for bodies in ids.values()}, {1})
        self.assertEqual(self.links(rig, "unprocessable"), 0)


    def begins_anew(self, rig, acks):
        """P2: numbers are given again, so they are of another series, and every
        process says since when what it had is lost. No peer has newer rows, so
        the copies themselves must tell."""
        series = {r.headers["grapnel-series"] for r in
                  rig.receiver.requests("/crm") if r.id in
                  {a["id"] for a in acks}}
        self.assertEqual(len(series), 2, "one before, one after the restore")
        for daemon in rig.daemons.values():
            said = [line for line in daemon.log().splitlines()
                    if "this database is a restored copy" in line]
            self.assertEqual(len(said), 1, daemon.name)
            self.assertRegex(said[0], r"since_at=20\d\d-")
        rig.stop()
        rig.start()
        self.delivered(rig, self.some(rig, 20))
        self.assertEqual(len({r.headers["grapnel-series"] for r in
                              rig.receiver.requests("/crm")}), 2,
                         "the next start is of the same series")


class FromABackup(Restore):
    def test_a_backup_has_complete_copies(self):
        """Each copy is a sound database without a -wal."""
        rig = self.pipeline()
        for name in rig.daemons:
            path = self.backup / f"{name}.db"
            self.assertEqual(path.stat().st_mode & 0o077, 0, "others read it")
            self.is_sound(path)
        with self.subTest("a second one into the same folder is refused"):
            done = rig.cli_text("backup", self.backup)
            self.assertEqual(done.returncode, 1)
            self.assertIn("already contains databases", done.stderr)

    def test_a_process_ends_during_its_backup(self):
        """The command says so, also when the process was started again, and copies the others."""
        rig = self.rig().start()
        for again in (False, True):
            with self.subTest(started_again=again), ThreadPoolExecutor() as pool:
                process = self.lone_process(rig)
                folder = rig.folder / f"backup-{again}"
                done = pool.submit(rig.cli_text, "backup", folder)
                self.assertIn(b'"backup"', process.recv_multipart()[-1])
                process.close(0)
                if again:
                    self.lone_process(rig)
                done = done.result()
                self.assertEqual(done.returncode, 69, done)
                self.assertRegex(done.stdout, r"deliverer-9 +failed: it ended before it replied")
                self.assertEqual({p.stem for p in folder.glob("*.db")}, set(rig.daemons))

    def test_a_process_hangs_during_its_backup(self):
        """Its copy does not grow: the command says so, and copies the others."""
        rig = self.rig().start()
        process = self.lone_process(rig)
        folder = rig.folder / "backup"
        with ThreadPoolExecutor() as pool:
            done = pool.submit(rig.cli_text, "backup", folder, env={"GRAPNEL_TEST_STILL_MS": "500"})
            self.assertIn(b'"backup"', process.recv_multipart()[-1])
            done = done.result()
        self.assertEqual(done.returncode, 69, done)
        self.assertRegex(done.stdout, r"deliverer-9 +failed: it does not respond")
        self.assertEqual({p.stem for p in folder.glob("*.db")}, set(rig.daemons))

    def is_sound(self, path):
        self.assertFalse(pathlib.Path(f"{path}-wal").exists())
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            self.assertGreater(db.execute("SELECT copied_ms FROM file_origin").fetchone()[0], 0)

    def backup_with(self, rig, error, n):
        """While the nth sync of a file of ingress's copy fails, or kills it. (the command, the files of it that are left,
        whether there was an nth sync)"""
        folder, hit = rig.folder / f"backup-{error}-{n}", rig.folder / f"hit-{error}-{n}"
        rig["ingress"].stop()
        rig["ingress"].start(env={
            "LD_PRELOAD": program("rig-faults.so"), "RIG_FAULT": f"sync:{error}:{n}",
            "RIG_FAULT_FILES": str(folder), "RIG_FAULT_HIT": str(hit),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"})
        done = rig.cli_text("backup", folder)
        left = {p.name for p in folder.iterdir()}
        others = {f"{name}.db" for name in set(rig.daemons) - {"ingress"}}
        self.assertLessEqual(others, left)
        return done, left - others, hit.exists()

    def test_a_copy_that_does_not_reach_the_disk_is_removed(self):
        """The command says why, and the process works on."""
        rig = self.rig().start()
        failed = 0
        for n in itertools.count(1):
            done, left, hit = self.backup_with(rig, errno.EIO, n)
            if not hit:
                break
            with self.subTest(sync=n):
                if done.returncode == 0:  # SQLite passes over the sync of a folder
                    self.assertEqual(left, {"ingress.db"})
                else:
                    self.assertEqual(done.returncode, 1, done)
                    self.assertRegex(done.stdout, r"ingress +failed: ")
                    self.assertEqual(left, set())
                    failed += 1
                rig.wait_status(rig.accept())
        self.assertGreaterEqual(failed, 3)

    def test_a_process_that_is_killed_leaves_no_copy_that_looks_complete(self):
        rig = self.rig().start()
        for n in itertools.count(1):
            done, left, hit = self.backup_with(rig, -9, n)
            if not hit:
                break
            with self.subTest(sync=n):
                self.assertEqual(done.returncode, 69, done)
                if "ingress.db" in left:  # it had all but its folder's entry on the disk
                    self.is_sound(rig.folder / f"backup--9-{n}" / "ingress.db")
                else:
                    self.assertIn("ingress.db.part", left)
        self.assertGreater(n, 3)

    def lone_process(self, rig):
        """A control socket whose requests the test takes."""
        router = zmq.Context.instance().socket(zmq.ROUTER)
        self.addCleanup(router.close, 0)
        router.rcvtimeo = 30000
        router.bind(f"ipc://{rig.run_dir}/deliverer-9.control")
        return router

    def test_a_restored_ingress_continues(self):
        """P2, P4: the sequencer has the events that the archive no longer has."""
        rig = self.pipeline()
        after = self.some(rig, 200)
        self.delivered(rig, after)
        self.put_back(rig, "ingress")
        rig.start("ingress")
        self.goes_on(rig)
        self.says(rig, "a durable link is rewound")
        self.assertGreater(self.links(rig, "set_back"), 0)
        self.all_known_and_done(rig, self.acks)
        with self.subTest("no id was given twice"):
            ids = [a["id"] for a in self.acks]
            self.assertEqual(len(set(ids)), len(ids))

    def test_a_restored_sequencer_continues(self):
        """P2, P4: ingress's archive and the deliverers' results bring it up to
        the present; numbers of the time between are of a new series."""
        rig = self.pipeline()
        after = self.some(rig, 200)
        self.delivered(rig, after)
        rig.settle()
        self.put_back(rig, "sequencer")
        rig.start("sequencer")
        self.goes_on(rig)
        self.says(rig, "a durable link is rewound")
        self.assertGreater(self.links(rig, "set_back"), 0)
        self.all_known_and_done(rig, self.acks)
        with self.subTest("numbers have no gap and no double"):
            self.numbers(rig)
        with self.subTest("a receiver can tell that numbering was set back"):
            last = rig.receiver.requests("/crm")[-1]
            first = rig.receiver.requests("/crm")[0]
            self.assertNotEqual(first.headers["grapnel-series"],
                                last.headers["grapnel-series"])

    def test_a_restored_sequencer_continues_with_work_in_progress(self):
        """P2, P3: also while deliveries wait for a retry and new ones arrive."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]},
                           {"path": "/legal", "responses": [{"status": 400}]})
        self.some(rig, 200)
        load = self.load(rig, 200, rate=200)
        self.put_back(rig, "sequencer")
        rig.start("sequencer")
        load.result()
        self.acks += load.acks()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        self.goes_on(rig)
        self.all_known_and_done(rig, self.acks)
        self.numbers(rig)

    def numbers(self, rig):
        for row in rig.rows("sequencer", """
                SELECT workspace, count(*) AS n, count(DISTINCT sequence) AS d,
                       max(sequence) AS m FROM events
                WHERE sequence IS NOT NULL GROUP BY workspace"""):
            self.assertEqual((row["n"], row["n"]), (row["d"], row["m"]), row)

    def test_a_restored_deliverer_continues(self):
        """P2, P3: the sequencer sends again the tasks that it has forgotten."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]},
                           {"path": "/legal", "responses": [{"status": 400}]})
        retrying = self.some(rig, 200)
        wait_for(lambda: rig.rows(
            "sequencer", "SELECT count(*) AS n FROM deliveries "
            "WHERE status = 2")[0]["n"] > 100, what="scheduled retries")
        self.put_back(rig, "deliverer-1")
        rig.start("deliverer-1")
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        self.delivered(rig, retrying)
        self.goes_on(rig)
        self.says(rig, "a durable link is rewound")
        self.all_known_and_done(rig, self.acks)

    def dead_letters(self, rig):
        """{event id: dead letter}, of those of `legal`."""
        return {r["event_id"]: r for r in rig.rows(
            "dlqd", "SELECT * FROM dead_letters WHERE endpoint = 'legal'")}

    def test_a_restored_dlqd_gets_its_dead_letters_again(self):
        """P2: the sequencer holds dead letters for a day after dlqd has them, so a
        restored dlqd gets them again, each once, whatever an operator did
        meanwhile; so does one that has lost its disk."""
        rig = self.pipeline()
        rig.settle()
        after = [a["id"] for a in self.some(rig, 200)  # 20 of them go to legal
                 if a["workspace"] == "ws-0000"]
        rig.settle()
        all_of_them = self.dead_letters(rig)
        self.assertEqual(len(after), 20)
        self.assertLessEqual(set(after), set(all_of_them))
        recovered, again, resolved, discarded = after[:4]
        for event in (recovered, again):
            if event == recovered:
                rig.receiver.rules({"path": "/legal", "per": "event",
                                    "responses": [{"status": 200}]})
            else:
                rig.receiver.rules({"path": "/legal",
                                    "responses": [{"status": 404}]})
            rig.cli("dlq", "retry", all_of_them[event]["id"])
            rig.settle()
        rig.cli("dlq", "resolve", all_of_them[resolved]["id"], "--note", "n")
        rig.cli("dlq", "discard", all_of_them[discarded]["id"], "--note", "n")
        rig.settle()
        before = self.dead_letters(rig)
        self.assertEqual((before[recovered]["state"], before[again]["generation"],
                          before[resolved]["state"]),
                         ("recovered", 2, "resolved"))
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        for what in ("restored", "empty"):
            with self.subTest(what):
                counted = self.counted(rig)
                self.put_back(rig, "dlqd")
                if what == "empty":
                    (rig.state_dir / "dlqd.db").unlink()
                rig.start("dlqd")
                wait_for(lambda: set(self.dead_letters(rig)) >= set(before),
                         what="the dead letters to come again")
                rig.settle()
                self.same_dead_letters(self.dead_letters(rig), before)
                # What comes again is counted as repeated, whatever became of it.
                self.assertEqual((self.counted(rig)), dict.fromkeys(counted, 0))
                self.assertEqual(self.links(rig, "lost"), 0)
                self.assertEqual(self.links(rig, "unprocessable"), 0)
        self.goes_on(rig)
        self.too_old(rig)

    def counted(self, rig):
        """What dlqd counts since its start."""
        values = rig.ask("dlqd", "status")["metrics"]
        return {name: values[name] for name in (
            "grapnel_dlqd_received_total", "grapnel_dlqd_recovered_total")}

    def same_dead_letters(self, now, before):
        """What was decided is undone; everything else is as it was."""
        self.assertEqual(set(now), set(before))
        for event, dead_letter in before.items():
            for column in ("id", "generation", "reason", "attempts", "first_ms",
                           "dead_ms", "last_http_status", "last_error",
                           "last_response", "previous", "sequence"):
                self.assertEqual(now[event][column], dead_letter[column], column)
            self.assertEqual(now[event]["state"], {
                "resolved": "dead", "discarded": "dead"}.get(
                    dead_letter["state"], dead_letter["state"]))

    def too_old(self, rig):
        """After a day they are gone, with their bodies: lost, loudly."""
        held = rig.rows("sequencer", "SELECT count(*) AS n FROM dead_letters")
        self.assertGreater(held[0]["n"], 40)
        rig["sequencer"].stop()
        rig.change("sequencer", "UPDATE dead_letters SET at_ms = at_ms - 86400000")
        rig.start("sequencer")
        wait_for(lambda: not rig.rows("sequencer", "SELECT 1 FROM dead_letters"),
                 what="the dead letters of yesterday to go")
        wait_for(lambda: not rig.rows(
            "sequencer", "SELECT 1 FROM bodies UNION ALL SELECT 1 FROM link_log "
            "JOIN link_out USING (link) WHERE peer = 'dlqd'"),
            what="their bodies and numbers to go")
        self.put_back(rig, "dlqd")
        rig.start("dlqd")
        self.goes_on(rig)
        self.says(rig, "messages are lost: their sender no longer has them")
        self.assertGreaterEqual(self.links(rig, "lost"), 20)

    def test_all_processes_restored_from_one_backup_continue(self):
        """P3: all of it from the same backup: it works on. Events of after the
        backup exist nowhere; those before it are done."""
        rig = self.pipeline()
        gone = self.some(rig, 100)
        self.delivered(rig, gone)
        rig.settle()
        for name in rig.daemons:
            self.put_back(rig, name)
        rig.start()
        fresh = self.some(rig, 200)
        self.delivered(rig, fresh)
        rig.settle()
        self.all_known_and_done(rig, fresh)
        self.begins_anew(rig, gone + fresh)

    def test_a_copy_of_a_stopped_folder_is_recognised(self):
        """P2: such a copy has no stamp, but it is another file."""
        rig, before = self.small(20)
        copy = rig.folder / "copy"
        shutil.copytree(rig.state_dir, copy)
        rig.start()
        gone = self.some(rig, 20)
        self.delivered(rig, gone)
        rig.settle()
        self.assertEqual(len({r.headers["grapnel-series"] for r in
                              rig.receiver.requests("/crm")}), 1,
                         "the copied files themselves are no copies")
        rig.kill()
        shutil.rmtree(rig.state_dir)
        shutil.copytree(copy, rig.state_dir)
        rig.start()
        fresh = self.some(rig, 20)
        self.delivered(rig, fresh)
        rig.settle()
        self.all_known_and_done(rig, before + fresh)
        self.begins_anew(rig, gone + fresh)

    def test_the_archive_alone_restores_all_events(self):
        """P2, P3: all processes but ingress lose their disk; the sequencer logs it,
        takes all events again, and new ones are delivered."""
        rig = self.pipeline()
        rig.settle()
        rig.kill("sequencer", "deliverer-1", "dlqd")
        for name in ("sequencer", "deliverer-1", "dlqd"):
            for path in rig.state_dir.glob(f"{name}.db*"):
                path.unlink()
        waiting = self.some(rig, 100)
        rig.start()
        self.delivered(rig, waiting)
        fresh = self.some(rig, 100)
        self.delivered(rig, fresh)
        rig.settle()
        self.says(rig, "the receiver was restored from a copy without messages "
                       "that it had acknowledged")
        self.all_known_and_done(rig, self.acks)


    def test_finished_numbers_of_an_older_epoch_do_not_hide_new_ones(self):
        """P2: the copy of the deliverer is some messages newer than that of the
        sequencer, and remembers that it has finished messages whose numbers the
        sequencer now gives to others."""
        rig = self.rig().start()
        rig.wait_status(rig.accept())
        rig.settle()
        rig.stop()
        place = rig.rows("deliverer-1", "SELECT n FROM link_in WHERE "
                         "peer = 'sequencer'")[0]["n"]
        epoch = rig.rows("deliverer-1", "SELECT epoch FROM link_in_epochs "
                       "ORDER BY first DESC LIMIT 1")[0]["epoch"]
        bits = bytearray(4096 // 8)
        for n in range(place + 2, place + 5):
            bits[n % 4096 // 8] |= 1 << n % 8
        rig.change("deliverer-1", "INSERT OR REPLACE INTO settled (one, ahead) "
                   "VALUES (1, ?)", struct.pack("<Q", place) + bits +
                   struct.pack("<QQ", 1, epoch))
        rig.start()
        for _ in range(5):
            rig.wait_status(rig.accept())
        self.assertIn("the new messages are accepted", rig["deliverer-1"].log())


class Combinations(Restore):
    def test_copies_of_different_ages_work_together(self):
        """P2, P4: each process from one of two backups, or from a copy made at the
        end. What was accepted before the first is known and done, and what comes
        then is delivered, or has a dead letter. Some of the 81 combinations;
        GRAPNEL_RESTORE_COMBINATIONS=81 tries all."""
        dice = random.Random(SEED)
        print(f"\nGRAPNEL_RESTORE_SEED={SEED}", file=sys.stderr, flush=True)
        rig = self.pipeline()
        before = [a for a in self.acks if a["id"] in {
            r["id"] for r in rig.rows("sequencer", "SELECT id FROM events")}]
        copies = {"first": self.backup, "second": rig.folder / "second",
                  "end": rig.folder / "end"}
        rig.settle()
        self.some(rig, 50)
        self.assertEqual(rig.cli("backup", copies["second"])[1], 0)
        self.some(rig, 50)
        rig.kill()
        shutil.copytree(rig.state_dir, copies["end"])
        before = [a for a in before if a["id"] in self.known_in_both(copies)]
        self.assertGreater(len(before), 100)
        names = sorted(rig.daemons)
        every = list(itertools.product(copies, repeat=len(names)))
        for ages in dice.sample(every, min(COMBINATIONS, len(every))):
            with self.subTest(dict(zip(names, ages))):
                self.try_ages(rig, copies, dict(zip(names, ages)), before)

    def known_in_both(self, copies):
        """Events that the first backup of the sequencer and of ingress has."""
        known = []
        for name, table, column in (("sequencer", "events", "id"),
                                     ("ingress", "archive", "event_id")):
            with contextlib.closing(sqlite3.connect(
                    copies["first"] / f"{name}.db")) as db:
                known.append({row[0] for row in db.execute(
                    f"SELECT {column} FROM {table}")})
        return set.intersection(*known)

    def try_ages(self, rig, copies, ages, before):
        rig.kill()
        for name, age in ages.items():
            for path in rig.state_dir.glob(f"{name}.*"):
                if path.suffix != ".lock":
                    path.unlink()
            for path in copies[age].glob(f"{name}.*"):
                shutil.copy(path, rig.state_dir)
        rig.start()
        fresh = self.some(rig, 20)
        self.delivered(rig, fresh)
        rig.settle()
        self.all_known_and_done(rig, before + fresh)
        dead_letters = {r["event_id"] for r in rig.rows(
            "dlqd", "SELECT event_id FROM dead_letters WHERE endpoint = 'legal'")}
        self.assertEqual({a["id"] for a in before + fresh
                          if a["workspace"] == "ws-0000"} - dead_letters,
                         set(), "no dead letter")


class Command(Restore):
    """`grapnel restore DIR`."""

    def files(self, rig):
        return {path.name: path.stat().st_ino for path in
                rig.state_dir.iterdir() if not path.name.endswith(".lock")}

    def refused(self, rig, *words, args=()):
        before = self.files(rig)
        done = rig.cli_text("restore", self.backup, *args)
        self.assertEqual(done.returncode, 1, done)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.files(rig), before, "something was changed")

    def test_restore_replaces_all_databases_or_none(self):
        """P2, P4: a refused restore changes no file; replaced files are kept; the
        report is true."""
        rig = self.pipeline()
        gone = self.some(rig, 50)
        self.delivered(rig, gone)
        with self.subTest("processes run"):
            self.refused(rig, "sequencer is running (process "
                         f"{rig['sequencer'].pid}): stop it, and",
                         "dlqd is running")
        rig.settle()
        rig.kill()
        with self.subTest("a copy is missing"):
            aside = self.backup / "dlqd.aside"
            (self.backup / "dlqd.db").rename(aside)
            self.refused(rig, "has no copy of dlqd")
            aside.rename(self.backup / "dlqd.db")
        with self.subTest("a copy is damaged"):
            whole = (self.backup / "sequencer.db").read_bytes()
            broken = bytearray(whole)
            broken[8192:8292] = bytes(100)
            (self.backup / "sequencer.db").write_bytes(broken)
            self.refused(rig, "sequencer.db: it is damaged")
            shutil.copy(self.backup / "dlqd.db", self.backup / "sequencer.db")
            self.refused(rig, "it has no table workspaces")
            (self.backup / "sequencer.db").write_bytes(whole)
        with self.subTest("no such process"):
            self.refused(rig, "deliverer-7.db: No such file", args=["deliverer-7"])
            self.refused(rig, "nobody is not the name", args=["nobody"])
        with self.subTest("its own folder"):
            staging = rig.state_dir / "restore.new"
            shutil.copytree(self.backup, staging)
            text = rig.cli_text("restore", staging)
            self.assertEqual(text.returncode, 1, text)
            self.assertIn("which it empties first", text.stderr)
            self.assertEqual(sorted(p.name for p in staging.iterdir()),
                             sorted(p.name for p in self.backup.iterdir()))
        with self.subTest("it was interrupted before"):
            marker = rig.state_dir / "restore.unfinished"
            marker.write_text("dlqd\nsequencer\n")
            daemon = rig["sequencer"].start(wait=False)
            self.assertEqual(daemon.wait_exit(), STORAGE)
            self.assertIn("`grapnel restore` was interrupted", daemon.log())
            self.refused(rig, "sequencer was part of it", args=["dlqd"])
            marker.unlink()
            marker.mkdir()  # it cannot be read
            self.refused(rig, "restore.unfinished: ", args=["dlqd"])
            marker.rmdir()
            marker.write_text("dlqd\nsequencer\n")
            done = rig.cli_text("restore", rig.state_dir)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("restore.unfinished", done.stderr)
            self.assertIn("from the folder of its backup", done.stderr)
        wal = (rig.state_dir / "sequencer.db-wal").read_bytes()
        done, code = rig.cli("restore", self.backup)
        self.assertEqual(code, 0, done)
        self.assertEqual({p["process"] for p in done["processes"]},
                         set(rig.daemons))
        lost = {p["process"]: p["requests_lost"] for p in done["processes"]}
        self.assertGreaterEqual(lost["ingress"], 50)
        self.assertTrue(all(p["copied_at"] > "2026" and p["replaced"]
                            for p in done["processes"]), done)
        kept = pathlib.Path(done["replaced_files"])
        self.assertEqual((kept / "sequencer.db-wal").read_bytes(), wal)
        self.assertEqual([p.name for p in rig.state_dir.iterdir()
                          if "-wal" in p.name or "-shm" in p.name or
                          "restore." in p.name], [])
        rig.start()
        fresh = self.some(rig, 100)
        self.delivered(rig, fresh)
        rig.settle()
        self.begins_anew(rig, gone + fresh)

    def test_no_process_starts_while_a_restore_s_mark_cannot_be_removed(self):
        """P2: all is in place, and no process starts: it says which file, why,
        and what to do; after that they start."""
        rig, _ = self.small(5)
        backup = rig.folder / "copy"
        shutil.copytree(rig.state_dir, backup)
        marker = rig.state_dir / "restore.unfinished"
        done = rig.cli_text("restore", backup, env={
            "LD_PRELOAD": program("rig-keep.so"), "RIG_KEEP": marker.name,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":verify_asan_link_order=0"})
        self.assertEqual(done.returncode, 1, done)
        self.assertTrue(marker.exists())
        self.assertIn(f"{marker} cannot be deleted: Input/output error",
                      done.stderr)
        self.assertIn("no process starts while it exists: correct the cause "
                      "and delete it", done.stderr)
        daemon = rig["sequencer"].start(wait=False)
        self.assertEqual(daemon.wait_exit(), STORAGE)
        marker.unlink()
        rig.start()
        self.goes_on(rig)

    def test_a_restore_that_cannot_write_its_mark_changes_nothing(self):
        """P2: as on a full disk. No process would start while the mark is there."""
        rig, _ = self.small(5)
        self.backup = rig.folder / "copy"
        shutil.copytree(rig.state_dir, self.backup)
        in_the_way = rig.state_dir / "restore.unfinished.new"
        in_the_way.mkdir()
        self.refused(rig, "restore.unfinished: ", "nothing was changed")
        in_the_way.rmdir()
        rig.start()
        self.goes_on(rig)

    def test_links_and_pipes_are_no_databases(self):
        """P2: the log of a linked file is beside its target, where no check looks."""
        rig, _ = self.small(5)
        self.backup = rig.folder / "copy"
        shutil.copytree(rig.state_dir, self.backup)
        here, there = self.backup / "dlqd.db", rig.folder / "elsewhere.db"
        here.rename(there)
        here.symlink_to(there)
        self.refused(rig, "dlqd.db is a symbolic link", "Nothing was changed")
        here.unlink()
        os.mkfifo(here)
        self.refused(rig, "dlqd.db is not a file")
        rows, code = rig.cli("verify", "--offline", self.backup)
        self.assertEqual(code, 1, rows)
        self.assertEqual({r["process"]: r["error"] for r in rows if not r["ok"]},
                         {"dlqd": f"{here} is not a file"})
        here.unlink()
        there.rename(here)
        here, there = rig.state_dir / "sequencer.db", rig.folder / "sequencer.db"
        here.rename(there)
        here.symlink_to(there)
        self.refused(rig, "sequencer.db is a symbolic link")
        before = there.read_bytes()
        daemon = rig["sequencer"].start(wait=False)
        self.assertEqual(daemon.wait_exit(), STORAGE)
        self.assertIn("sequencer.db is a symbolic link", daemon.log())
        self.assertEqual(there.read_bytes(), before)
        here.unlink()
        there.rename(here)
        rig.start()
        self.goes_on(rig)

    def test_a_restore_that_is_undone_counts_what_came_since(self):
        """P4: the numbers of the two histories are not of the same events."""
        rig, _ = self.small(20)
        self.backup = rig.folder / "copy"
        shutil.copytree(rig.state_dir, self.backup)

        def restored(folder):
            rig.stop()
            done, code = rig.cli("restore", folder)
            self.assertEqual(code, 0, done)
            rig.start()
            return ({p["process"]: p["requests_lost"] for p in done["processes"]}["ingress"],
                    pathlib.Path(done["replaced_files"]))
        rig.start()
        self.some(rig, 10)
        lost, replaced = restored(self.backup)
        self.assertEqual(lost, 10)
        self.some(rig, 15)
        lost, _ = restored(replaced)
        self.assertEqual(lost, 15, "5 if only the numbers are compared")

    def test_a_copied_folder_after_a_crash_includes_its_wal(self):
        """P2, P4: the -wal has the last commits."""
        self.unique, self.acks = 0, []
        rig = self.rig().start()
        kept = self.some(rig, 20)
        rig.settle()
        rig.kill()
        self.backup = rig.folder / "copy"
        shutil.copytree(rig.state_dir, self.backup)
        rig.start()
        self.delivered(rig, self.some(rig, 20))
        rig.settle()
        rig.stop()
        text = rig.cli_text("restore", self.backup, "dlqd", "sequencer")
        self.assertEqual(text.returncode, 0, text)
        self.assertRegex(text.stdout, r"sequencer +restored .*copied at 20")
        self.assertRegex(text.stdout, r"Data stored after 20.* is lost")
        self.assertIn("a new grapnel-series", text.stdout)
        text = rig.cli_text("restore", self.backup, "dlqd")
        self.assertIn("is lost", text.stdout)
        self.assertNotIn("grapnel-series", text.stdout)
        self.assertEqual({r["id"] for r in rig.rows(
            "sequencer", "SELECT id FROM events")}, {a["id"] for a in kept})
        rig.start()
        self.goes_on(rig)
        self.all_known_and_done(rig, self.acks)
        self.says(rig, "a new series of sequence numbers begins")

    @unittest.skipUnless(os.geteuid() == 0, "only root can change an owner")
    def test_root_leaves_no_files_that_the_processes_cannot_open(self):
        """P2, P4: a backup's folder is for the user of the processes; a restore
        by another user is refused before anything is changed."""
        other = 12345
        rig = self.rig().start()
        os.chown(rig.run_dir, other, other)
        backup = rig.folder / "backup"
        rows, code = rig.cli("backup", backup)
        self.assertEqual(code, 0, rows)
        self.assertEqual(backup.stat().st_uid, other)
        rig.stop()
        before = sorted(os.listdir(rig.state_dir))
        os.chown(rig.state_dir, other, other)
        done = rig.cli_text("restore", backup)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f"belongs to user {other}", done.stderr)
        self.assertEqual(sorted(os.listdir(rig.state_dir)), before)
        os.chown(rig.state_dir, 0, 0)
        with self.subTest("only what was restored is said to be older"):
            done = rig.cli_text("restore", backup, "dlqd")
            self.assertEqual(done.returncode, 0, done)
            self.assertNotIn("grapnel-series", done.stdout)

    def set_back(self, rig):
        """The old bytes in the same files; the events that are lost by it."""
        then = {p: p.read_bytes() for p in rig.state_dir.glob("*.db")}
        rig.start()
        gone = self.some(rig, 5)
        self.delivered(rig, gone)
        rig.settle()
        rig.stop()
        for path, content in then.items():
            path.write_bytes(content)
        return gone

    def test_files_overwritten_with_cp_are_recognised_as_copies(self):
        """P2, P4: although the inodes are the same."""
        rig, before = self.small(5)
        gone = self.set_back(rig)
        rig.start()
        fresh = self.some(rig, 5)
        self.delivered(rig, fresh)
        rig.settle()
        self.all_known_and_done(rig, before + fresh)
        self.begins_anew(rig, gone + fresh)

    def test_an_operator_can_declare_a_rolled_back_snapshot(self):
        """P2: the files cannot show that they have old bytes, so the operator names
        state_dir."""
        rig, before = self.small(5)
        gone = self.set_back(rig)
        for path in rig.state_dir.glob("*.db-start"):
            path.unlink()  # they are rolled back, too
        self.assertEqual(rig.cli("restore", rig.state_dir)[1], 0)
        rig.start()
        fresh = self.some(rig, 5)
        self.delivered(rig, fresh)
        rig.settle()
        self.all_known_and_done(rig, before + fresh)
        self.begins_anew(rig, gone + fresh)


class RawCopy(Restore):
    def test_a_raw_copy_of_a_live_database_works_or_is_refused(self):
        """`cp` of a live file and its -wal, put back: found damaged and refused
        with 74 and the way out, or it works."""
        rig = self.pipeline()
        refused = 0
        for round_ in range(6):
            name = ["sequencer", "ingress", "deliverer-1"][round_ % 3]
            # The later ones let a checkpoint pass between the two files.
            load = self.load(rig, 600, rate=600) if round_ < 3 else None
            copies = rig.folder / f"raw-{round_}"
            copies.mkdir()
            shutil.copy(rig.state_dir / f"{name}.db", copies)
            load = load or self.load(rig, 1500, size=4000)
            rig.receiver.wait(path="/crm",
                              count=len(rig.receiver.requests("/crm")) + 150)
            if round_ >= 3:
                load.result()
            shutil.copy(rig.state_dir / f"{name}.db-wal", copies)
            load.result()
            self.acks += load.acks()
            rig.settle()
            refused += self.try_copy(rig, name, copies)
            self.delivered(rig, self.some(rig, 50))
        print(f"\nraw copies refused: {refused} of 6", file=sys.stderr)

    def try_copy(self, rig, name, copies):
        """1: it was refused; then the original is put back."""
        rig.kill(name)
        original = rig.folder / "original"
        original.mkdir(exist_ok=True)
        for path in rig.state_dir.glob(f"{name}.db*"):
            shutil.move(path, original / path.name)
        for path in copies.iterdir():
            shutil.copy(path, rig.state_dir)
        daemon = rig[name].start(wait=False)
        wait_for(lambda: not daemon.alive or daemon.responds(),
                 what=f"{name} to be up, or to refuse")
        if daemon.alive:
            return 0
        self.assertEqual(daemon.wait_exit(), STORAGE)
        last = daemon.log().splitlines()[-1]
        self.assertIn(f"{name}.db is damaged", last)
        self.assertIn("grapnel backup", last)
        for path in rig.state_dir.glob(f"{name}.db*"):
            path.unlink()
        for path in original.glob(f"{name}.db*"):
            shutil.move(path, rig.state_dir / path.name)
        rig.start(name)
        return 1


main()
