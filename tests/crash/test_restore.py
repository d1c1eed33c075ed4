"""`grapnel backup` while running, each process in turn put back to it later:
the pipeline says what was set back and goes on, new events are delivered, and
what still exists anywhere else comes back (P2, P3, P4)."""

import pathlib
import shutil
import sqlite3
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

LEASE_MS = 500
STORAGE = 74


class Restore(RigTest):
    def pipeline(self):
        """With a backup made under load, and a history after it."""
        self.unique = 0
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = str(LEASE_MS)
        rig.config["endpoint_defaults"] = {"timeout": "500ms",
                                           "connect_timeout": "500ms"}
        rig.config["retry_policies"][0]["max_attempts"] = 1000
        rig.config["endpoints"].append(
            rig.endpoint("legal", workspaces=["ws-0000"]))
        rig.write_config()
        rig.receiver.rules({"path": "/legal", "answers": [{"status": 400}]})
        rig.start()
        self.acks = []
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


class FromABackup(Restore):
    def test_the_copies_are_whole(self):
        """Each copy is a database of its own, sound, without a -wal."""
        rig = self.pipeline()
        for name in rig.daemons:
            path = self.backup / f"{name}.db"
            self.assertEqual(path.stat().st_mode & 0o077, 0, "others read it")
            self.assertFalse(pathlib.Path(f"{path}-wal").exists())
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
                self.assertEqual(
                    db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        with self.subTest("a second one into the same folder is refused"):
            done = rig.cli_text("backup", self.backup)
            self.assertEqual(done.returncode, 1)
            self.assertIn("holds databases already", done.stderr)

    def test_ingress(self):
        """P2, P4: the sequencer has what the archive has not any more."""
        rig = self.pipeline()
        after = self.some(rig, 200)
        self.delivered(rig, after)
        self.put_back(rig, "ingress")
        rig.start("ingress")
        self.goes_on(rig)
        self.says(rig, "a link was set back")
        self.assertGreater(self.links(rig, "set_back"), 0)
        self.all_known_and_done(rig, self.acks)
        with self.subTest("no id was given twice"):
            ids = [a["id"] for a in self.acks]
            self.assertEqual(len(set(ids)), len(ids))

    def test_sequencer(self):
        """P2, P4: ingress's archive and the deliverers' results bring it up to
        the present; numbers of the time between are of a new series."""
        rig = self.pipeline()
        after = self.some(rig, 200)
        self.delivered(rig, after)
        rig.settle()
        self.put_back(rig, "sequencer")
        rig.start("sequencer")
        self.goes_on(rig)
        self.says(rig, "set back")
        self.assertGreater(self.links(rig, "set_back"), 0)
        self.all_known_and_done(rig, self.acks)
        with self.subTest("numbers have no hole and no double"):
            self.numbers(rig)
        with self.subTest("a receiver can tell that numbering was set back"):
            last = rig.receiver.requests("/crm")[-1]
            first = rig.receiver.requests("/crm")[0]
            self.assertNotEqual(first.headers["grapnel-series"],
                                last.headers["grapnel-series"])

    def test_sequencer_with_work_under_way(self):
        """P2, P3: the same while deliveries are parked and come in."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "answers": [{"status": 503}]},
                           {"path": "/legal", "answers": [{"status": 400}]})
        self.some(rig, 200)
        load = self.load(rig, 200, rate=200)
        self.put_back(rig, "sequencer")
        rig.start("sequencer")
        load.result()
        self.acks += load.acks()
        rig.receiver.rules({"path": "/legal", "answers": [{"status": 400}]})
        self.goes_on(rig)
        self.all_known_and_done(rig, self.acks)
        self.numbers(rig)

    def numbers(self, rig):
        for row in rig.rows("sequencer", """
                SELECT workspace, count(*) AS n, count(DISTINCT sequence) AS d,
                       max(sequence) AS m FROM events
                WHERE sequence IS NOT NULL GROUP BY workspace"""):
            self.assertEqual((row["n"], row["n"]), (row["d"], row["m"]), row)

    def test_deliverer(self):
        """P2, P3: the sequencer gives again what this one has forgotten."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "answers": [{"status": 503}]},
                           {"path": "/legal", "answers": [{"status": 400}]})
        parked = self.some(rig, 200)
        wait_for(lambda: rig.rows(
            "sequencer", "SELECT count(*) AS n FROM deliveries "
            "WHERE status = 2")[0]["n"] > 100, what="parked retries")
        self.put_back(rig, "deliverer-1")
        rig.start("deliverer-1")
        rig.receiver.rules({"path": "/legal", "answers": [{"status": 400}]})
        self.delivered(rig, parked)
        self.goes_on(rig)
        self.says(rig, "set back")
        self.all_known_and_done(rig, self.acks)

    def test_dlqd(self):
        """P2: letters that no one holds any more are counted lost, loudly; new
        ones are kept, and the deliveries are dead on record."""
        rig = self.pipeline()
        rig.settle()
        before = len(rig.cli("dlq", "--limit", "1000")[0])
        after = self.some(rig, 200)  # 20 of them go to legal
        rig.settle()
        self.assertEqual(len(rig.cli("dlq", "--limit", "1000")[0]),
                         before + 20)
        self.put_back(rig, "dlqd")
        kept = len(rig.rows("dlqd", "SELECT 1 FROM letters"))
        rig.start("dlqd")
        self.goes_on(rig)
        self.says(rig, "messages are lost: their sender holds them no more")
        lost = before + 20 - kept
        self.assertGreaterEqual(lost, 20)
        self.assertEqual(self.links(rig, "lost"), lost)
        letters = rig.cli("dlq", "--limit", "1000")[0]
        self.assertEqual(len(letters), kept + 20)
        with self.subTest("what became of the others is known all the same"):
            legal = next(a for a in after if a["workspace"] == "ws-0000")
            dead = [d for d in rig.trace(legal["id"])["deliveries"]
                    if d["endpoint"] == "legal"]
            self.assertEqual(dead[0]["status"], "dead")

    def test_everything_at_once(self):
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

    def test_all_but_ingress_lose_their_disk(self):
        """P2, P3: the archive alone: the sequencer takes all of it anew, loudly,
        and new events are delivered."""
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
        self.says(rig, "the receiver came back behind what it acknowledged")
        self.all_known_and_done(rig, self.acks)


    def test_numbers_that_were_finished_in_an_older_epoch(self):
        """P2: the copy of the deliverer is some messages newer than that of the
        sequencer, and remembers that it has finished messages whose numbers the
        sequencer now gives to others."""
        rig = self.rig().start()
        rig.wait_status(rig.accept())
        rig.settle()
        rig.stop()
        place = rig.rows("deliverer-1", "SELECT n FROM hop_in WHERE "
                         "peer = 'sequencer'")[0]["n"]
        run = rig.rows("deliverer-1", "SELECT run FROM hop_in_runs "
                       "ORDER BY first DESC LIMIT 1")[0]["run"]
        bits = bytearray(4096 // 8)
        for n in range(place + 2, place + 5):
            bits[n % 4096 // 8] |= 1 << n % 8
        rig.change("deliverer-1", "INSERT OR REPLACE INTO settled (one, ahead) "
                   "VALUES (1, ?)", struct.pack("<Q", place) + bits +
                   struct.pack("<QQ", 1, run))
        rig.start()
        for _ in range(5):
            rig.wait_status(rig.accept())
        self.assertIn("they are taken again", rig["deliverer-1"].log())


class RawCopy(Restore):
    def test_a_raw_copy_of_a_live_database(self):
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
        wait_for(lambda: not daemon.alive or daemon.answers(),
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
