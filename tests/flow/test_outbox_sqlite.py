"""grapnel-outbox makes events of the rows of a table in a SQLite file. P1, P2."""

import contextlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import relay_cases
from rig import die_with_parent, main, wait_for

TABLE = """
CREATE TABLE webhook_outbox (
  id VARCHAR(36) NOT NULL PRIMARY KEY, target_url VARCHAR(255), payload TEXT,
  status VARCHAR(50) NOT NULL DEFAULT 'NOT_CALLED',
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  last_attempt_at TEXT, next_attempt_at TEXT,
  retry_count INTEGER NOT NULL DEFAULT 0, error_message TEXT);
CREATE INDEX webhook_outbox_new ON webhook_outbox (created_at, id)
  WHERE status = 'NOT_CALLED';
"""

# Holds the write lock, with a row that is never committed, until it is killed.
HOLDER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("INSERT INTO webhook_outbox (id, payload) VALUES ('never', '{}')")
print("holds", flush=True)
time.sleep(600)
"""


class Writer:
    errors = (sqlite3.Error,)

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)

    def do(self, sql):
        if not self.db.in_transaction:
            self.db.execute("BEGIN IMMEDIATE")
        self.db.execute(sql)

    def commit(self):
        self.db.execute("COMMIT")

    def rollback(self):
        self.db.execute("ROLLBACK")

    def close(self):
        self.db.close()


class File:
    """The application's file."""

    def __init__(self, wal=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-sqlite-"))
        self.path = self.folder / "app.db"
        self.uri = f"sqlite://{self.path}"
        self.make(self.path, wal)

    @staticmethod
    def make(path, wal=True):
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            db.executescript(TABLE)

    def sql(self, text, timeout=60):
        with contextlib.closing(sqlite3.connect(self.path, timeout=timeout)) as db:
            db.execute("PRAGMA synchronous = OFF")
            with db:
                return [tuple(None if v is None else str(v) for v in row)
                        for row in db.execute(text)]

    def writer(self):
        return Writer(self.path)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class OutboxSqlite(relay_cases.RelayCases):
    def setUp(self):
        self.db = File()
        self.addCleanup(self.db.close)

    def holder(self):
        child = subprocess.Popen([sys.executable, "-c", HOLDER, str(self.db.path)],
                                 stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), b"holds\n")
        return child

    def application_is_killed(self):
        """In the middle of a transaction."""
        self.holder().kill()

    kills = (application_is_killed,)

    # what is made of a row

    def test_ids_and_times_of_other_types(self):
        """Integers, blobs and texts in columns of any type; a payload that is a blob."""
        tables = {
            "numbers": "id INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB, "
                       "created_at INTEGER DEFAULT 1, last_attempt_at INTEGER",
            "blobs": "id BLOB PRIMARY KEY NOT NULL, payload TEXT, "
                     "last_attempt_at DATETIME",
            "anything": "id PRIMARY KEY NOT NULL, payload, last_attempt_at",
            "strict": "id ANY PRIMARY KEY NOT NULL, payload TEXT, "
                      "last_attempt_at TEXT"}
        for name, columns in tables.items():
            self.db.sql(f"CREATE TABLE {name} ({columns}, status TEXT NOT NULL "
                        "DEFAULT 'NOT_CALLED')"
                        + (" STRICT, WITHOUT ROWID" if name == "strict" else ""))
        rig = self.rig({"outbox": [
            {"name": name, "database": self.db.uri, "retry_policy": "default",
             "table": name} for name in tables]})
        rig.add("outbox")
        rig.start()
        self.db.sql("INSERT INTO numbers (payload) VALUES (x'7b7d'), ('[1]')")
        self.db.sql("INSERT INTO blobs (id, payload) VALUES (x'00ff10', '1'), "
                    "(x'', '2')")
        for name in ("anything", "strict"):
            self.db.sql(f"INSERT INTO {name} (id, payload) VALUES (17, '3'), "
                        "('text', '4'), (x'ab', '5'), ('18', '6')")
        rig.receiver.wait(count=11)
        for name in tables:
            wait_for(lambda: {s for s, in self.db.sql(
                f"SELECT status FROM {name} WHERE id <> x''")} == {"SUCCESS"},
                what=f"the rows of {name}")
        self.assertEqual(
            {(r["source"], r["provider_id"]) for r in rig.rows(
                "sequencer", "SELECT source, provider_id FROM events")},
            {("numbers", "1"), ("numbers", "2"), ("blobs", "00ff10"),
             *((t, i) for t in ("anything", "strict")
               for i in ("17", "text", "ab", "18"))})
        (milliseconds,), = self.db.sql(
            "SELECT last_attempt_at FROM numbers WHERE id = 1")
        self.assertLess(abs(int(milliseconds) / 1000 - time.time()), 600)
        self.assertEqual(self.db.sql(
            "SELECT count(*) FROM blobs WHERE abs(julianday(last_attempt_at) - "
            "julianday('now')) < 0.01"), [("1",)])

    def test_an_id_with_nul_is_refused(self):
        """It would be taken for another one."""
        rig = self.pipeline()
        self.db.sql("INSERT INTO webhook_outbox (id, payload) VALUES "
                    "('a' || char(0) || 'b', '0')")
        self.insert(1, 1)
        wait_for(lambda: self.statuses() == {"SUCCESS": 1, "FAILED_PERMANENTLY": 1})
        self.assertEqual(self.db.sql("SELECT error_message FROM webhook_outbox WHERE "
                                     "status = 'FAILED_PERMANENTLY'"),
                         [("id: has a control character",)])
        self.assertEqual(len(self.events(rig)), 1)

    def test_a_row_is_noticed_at_once(self):
        """By data_version: the table is read as rarely as possible. Also without WAL."""
        for wal in (True, False):
            with self.subTest(wal=wal):
                self.db = File(wal)
                self.addCleanup(self.db.close)
                rig = self.pipeline(poll="5m")
                for i in range(3):
                    self.insert(i, i)
                    rig.receiver.wait(count=i + 1)
                self.all_arrive(rig, ["row-0", "row-1", "row-2"])
                mode, = self.db.sql("PRAGMA journal_mode")[0]
                self.assertEqual(mode, "wal" if wal else "delete")

    # the lock

    def test_the_application_holds_the_lock_for_long(self):
        """Its rows are sent meanwhile; they are marked when the lock is free."""
        rig = self.pipeline()
        rig["outbox"].pause()
        self.insert(1, 3)
        holder = self.holder()
        rig["outbox"].resume()
        rig.receiver.wait(count=3)
        wait_for(lambda: "is locked: another connection has held its lock for 2 s"
                 in rig["outbox"].log())
        self.assertEqual(self.statuses(), {"NOT_CALLED": 3})
        holder.kill()
        self.all_arrive(rig, ["row-1", "row-2", "row-3"])

    def test_checkpoints_are_the_applications(self):
        """We hold no snapshot that keeps its WAL from starting again, and make no checkpoint."""
        rig = self.pipeline()
        self.insert(1, 50)
        self.all_arrive(rig, [f"row-{i}" for i in range(1, 51)])
        self.assertEqual(self.db.sql("PRAGMA wal_checkpoint(TRUNCATE)"),
                         [("0", "0", "0")])

    # what the file refuses

    def refuses(self, sql, why, ready):
        """After `sql` the file refuses row-2, and the others go on; after `ready` it follows."""
        rig = self.pipeline()
        for statement in sql:
            self.db.sql(statement)
        self.insert(1, 4)
        wait_for(lambda: self.statuses().get("SUCCESS") == 3)
        wait_for(lambda: why in rig["outbox"].log())
        for statement in ready:
            self.db.sql(statement)
        self.all_arrive(rig, [f"row-{i}" for i in range(1, 5)])

    def test_a_deferred_constraint_refuses_a_mark(self):
        """It is checked at the commit of all rows."""
        self.refuses(
            ["CREATE TABLE parent (id TEXT PRIMARY KEY)",
             "CREATE TABLE child (id TEXT REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
             "CREATE TRIGGER no AFTER UPDATE ON webhook_outbox WHEN NEW.id = 'row-2' "
             "BEGIN INSERT INTO child VALUES (NEW.id); END"],
            "a deferred FOREIGN KEY constraint failed",
            ["INSERT INTO parent VALUES ('row-2')"])

    def test_a_deferred_constraint_refuses_an_outcome(self):
        self.refuses(
            ["CREATE TABLE parent (id TEXT PRIMARY KEY)",
             "CREATE TABLE child (id TEXT REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
             "CREATE TRIGGER no AFTER UPDATE ON webhook_outbox WHEN NEW.id = 'row-2' AND "
             "NEW.status = 'SUCCESS' BEGIN INSERT INTO child VALUES (NEW.id); END"],
            "a deferred FOREIGN KEY constraint failed",
            ["INSERT INTO parent VALUES ('row-2')"])

    def test_a_function_of_a_trigger_fails(self):
        """That is SQLITE_ERROR, and not a constraint."""
        for when in ("", " AND NEW.status = 'SUCCESS'"):
            with self.subTest(when=when):
                self.db = File()
                self.addCleanup(self.db.close)
                self.refuses(
                    ["CREATE TRIGGER no AFTER UPDATE ON webhook_outbox WHEN NEW.id = 'row-2'"
                     f"{when} BEGIN SELECT json('['); END"], "malformed JSON",
                    ["DROP TRIGGER no"])

    # the file

    def test_the_file_is_away_damaged_and_comes_back(self):
        rig = self.pipeline(start=False)
        away = self.db.folder / "away"
        self.db.path.rename(away)
        rig.start()
        wait_for(lambda: "No such file or directory" in rig["outbox"].log())
        self.db.path.write_text("this is text, and not a database" * 100)
        wait_for(lambda: "file is not a database" in rig["outbox"].log())
        away.rename(self.db.path)
        self.insert(1, 2)
        self.all_arrive(rig, ["row-1", "row-2"])
        self.db.sql("DROP TABLE webhook_outbox")
        wait_for(lambda: "has no table webhook_outbox" in rig["outbox"].log())
        File.make(self.db.path)
        self.insert(3, 3)
        wait_for(lambda: self.statuses() == {"SUCCESS": 1})

    def test_the_file_is_restored_from_a_backup(self):
        """As a new file in its place, while outbox runs. Rows of the backup that were sent are sent
        again, by the same events."""
        rig = self.pipeline(poll="5m")
        self.insert(1, 2)
        events = self.all_arrive(rig, ["row-1", "row-2"])
        backup = self.db.folder / "backup"
        with contextlib.closing(sqlite3.connect(self.db.path)) as db:
            db.execute("VACUUM INTO ?", (str(backup),))
        with contextlib.closing(sqlite3.connect(backup)) as db, db:
            db.execute("UPDATE webhook_outbox SET status = 'NOT_CALLED' "
                       "WHERE id = 'row-2'")
        for suffix in ("-wal", "-shm"):
            (self.db.folder / f"app.db{suffix}").unlink(missing_ok=True)
        os.replace(backup, self.db.path)
        self.insert(3, 3)
        again = self.all_arrive(rig, ["row-1", "row-2", "row-3"])
        self.assertEqual({row: again[row] for row in events}, events)

    def test_old_rows_are_not_read(self):
        self.db.sql("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i "
                    "WHERE n < 200000) INSERT INTO webhook_outbox (id, payload, "
                    "status) SELECT 'old-' || n, '{}', 'SUCCESS' FROM i")
        rig = self.pipeline(start=False)
        done = rig.cli_text("outbox", "check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("index", done.stdout)
        self.db.sql("DROP INDEX webhook_outbox_new")
        self.assertIn("no index finds new rows", rig.cli_text("outbox", "check").stdout)

    def test_init_prints_all_that_a_relay_needs(self):
        """The SQL can be run again."""
        self.db.sql("DROP TABLE webhook_outbox")
        rig = self.pipeline(start=False, table="out",
                            columns={"event_id": "event", "type": "kind"})
        done = rig.cli_text("outbox", "init")
        self.assertEqual(done.returncode, 0, done.stderr)
        for _ in range(2):
            with contextlib.closing(sqlite3.connect(self.db.path)) as db:
                db.executescript(done.stdout)
        rig.start()
        self.db.sql("INSERT INTO out (id, payload) VALUES ('a', '{}')")
        wait_for(lambda: self.db.sql("SELECT status FROM out") == [("SUCCESS",)])
        event, = self.events(rig).values()
        self.assertEqual(self.db.sql("SELECT event FROM out"), [(event,)])
        self.assertIn("out_grapnel", str(self.db.sql(
            "SELECT name FROM sqlite_schema")))


main()
