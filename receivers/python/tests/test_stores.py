"""Each store: what it says of Grapnel's deliveries, and what it has stored after an error, a
rollback, or a crash.

GRAPNEL_TEST_POSTGRES (postgresql://…) and GRAPNEL_TEST_REDIS (unix://…) name servers whose
data the tests may delete."""

import contextlib
import dataclasses
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest

from grapnel_receiver import (Busy, MemoryStore, Missing, PostgresStore, Receiver, RedisStore,
                              SQLiteStore)
from vectors import KEY, NOW, VECTORS, delivery

POSTGRES = os.environ.get("GRAPNEL_TEST_POSTGRES")
REDIS = os.environ.get("GRAPNEL_TEST_REDIS")


class Base:
    """What all stores do."""

    def setUp(self):
        self.now = NOW
        self.store = self.new_store()

    def receiver(self, **options):
        return Receiver([KEY], self.store, clock=lambda: self.now,
                        tolerance_s=10 ** 9, **options)

    def take(self, receiver, scenario, number):
        """The result, and what `handle` was called with."""
        calls = []
        check = receiver.receive(*delivery(scenario, number),
                                 lambda event, check, _: calls.append((event, check)))
        self.assertEqual([c for _, c in calls], [check] if check.first else [])
        return check

    def test_every_scenario(self):
        for scenario in VECTORS["order"]:
            self.store = self.new_store()
            receiver = self.receiver()
            for i, step in enumerate(scenario["deliveries"]):
                with self.subTest(scenario["name"], step=i):
                    check = dataclasses.asdict(self.take(receiver, scenario["name"], i))
                    self.assertEqual(check, {k: step[k] for k in check})
            with self.subTest(scenario["name"], step="missing"):
                self.assertEqual(
                    [[m.series, m.workspace, m.number, m.unsure] for m in receiver.missing(0)],
                    scenario["missing"])

    def test_only_deduplicate(self):
        receiver = self.receiver(order=False)
        self.assertEqual([self.take(receiver, "a loss", n).result for n in (0, 2, 2)],
                         ["ok", "ok", "duplicate"])
        self.assertEqual(receiver.missing(0), [])

    def test_after_an_error_nothing_is_stored(self):
        receiver = self.receiver()

        def fail(*args):
            raise KeyError("of the handler")

        for _ in range(2):
            with self.assertRaisesRegex(KeyError, "of the handler"):
                receiver.receive(*delivery("a loss", 0), fail)
        self.assertEqual(self.take(receiver, "a loss", 0).result, "ok")
        with self.assertRaises(KeyError):
            receiver.receive(*delivery("a loss", 2), fail)
        self.assertEqual(receiver.missing(0), [])
        self.assertEqual(self.take(receiver, "a loss", 1).result, "ok")

    def test_missing_waits_and_forget_forgets(self):
        receiver = self.receiver()
        self.take(receiver, "a loss", 0)
        self.now += 10
        self.take(receiver, "a loss", 2)
        self.now += 100
        self.assertEqual(receiver.missing(101), [])
        self.assertEqual(receiver.missing(100), [Missing("1", "w", 3, NOW + 10)])
        receiver.forget(101)
        self.assertEqual(receiver.missing(0), [Missing("1", "w", 3, NOW + 10)])
        receiver.forget(99)  # raises the floor to 4
        self.assertEqual(receiver.missing(0), [])
        self.assertEqual(self.take(receiver, "a loss", 3).result, "ok")
        self.assertEqual(receiver.missing(0), [])

    def test_the_same_event_twice_at_once(self):
        """The second one waits and is a duplicate, or is told to come again."""
        receiver, inside, go = self.receiver(), threading.Event(), threading.Event()
        results = []

        def slow(*args):
            inside.set()
            go.wait(60)

        def run(handle):
            try:
                results.append(receiver.receive(*delivery("in order", 0), handle).result)
            except Busy:
                results.append("busy")

        first = threading.Thread(target=run, args=[slow])
        first.start()
        inside.wait(60)
        second = threading.Thread(target=run, args=[lambda *args: None])
        second.start()
        second.join(0.2)
        go.set()
        first.join()
        second.join()
        self.assertIn(sorted(results), (["duplicate", "ok"], ["busy", "ok"]))
        self.assertEqual(self.take(receiver, "in order", 0).result, "duplicate")


class Memory(Base, unittest.TestCase):
    def new_store(self):
        return MemoryStore()

    def test_it_forgets_by_itself(self):
        self.store = MemoryStore(keep_s=100)
        receiver = self.receiver()
        self.take(receiver, "a loss", 0)
        self.now += 101
        self.take(receiver, "a loss", 3)
        self.assertEqual(list(self.store._ids.values()), [self.now])
        self.assertEqual([list(s.arrived) for s in self.store._spaces.values()], [[5]])

    def test_it_joins_no_transaction(self):
        with self.assertRaisesRegex(TypeError, "process"):
            self.receiver().check(self.receiver().verify(*delivery("in order", 0)), None)


class SQL(Base):
    def test_work_and_event_are_one_transaction(self):
        receiver = self.receiver()

        def work(event, check, connection):
            self.run_sql(connection, f"INSERT INTO work VALUES ('{event.id}')")
            if self.fails:
                raise KeyError("after the work")

        self.fails = True
        with self.assertRaises(KeyError):
            receiver.receive(*delivery("in order", 0), work)
        self.assertEqual(self.work(), 0)
        self.fails = False
        self.assertEqual(receiver.receive(*delivery("in order", 0), work).result, "ok")
        self.assertEqual(receiver.receive(*delivery("in order", 0), work).result, "duplicate")
        self.assertEqual(self.work(), 1)

    def test_check_joins_the_transaction_of_the_caller(self):
        receiver = self.receiver()
        event = receiver.verify(*delivery("in order", 0))
        for end in ("rollback", "commit"):
            with contextlib.closing(self.connect()) as connection:
                self.assertEqual(receiver.check(event, connection).result, "ok")
                self.run_sql(connection, "INSERT INTO work VALUES ('x')")
                getattr(connection, end)()
        with contextlib.closing(self.connect()) as connection:
            self.assertEqual(receiver.check(event, connection).result, "duplicate")
            connection.rollback()
        self.assertEqual(self.work(), 1)

    def test_autocommit_is_refused(self):
        receiver = self.receiver()
        event = receiver.verify(*delivery("in order", 0))
        with contextlib.closing(self.autocommitting()) as connection:
            with self.assertRaisesRegex(ValueError, "begin a transaction"):
                receiver.check(event, connection)
            self.run_sql(connection, "BEGIN")
            self.assertEqual(receiver.check(event, connection).result, "ok")
            self.run_sql(connection, "COMMIT")

    def test_kill_between_work_and_commit_repeats_neither(self):
        """The process dies after its work, before the commit: nothing of it is there."""
        self.die()
        self.assertEqual(self.work(), 0)
        self.assertEqual(self.take(self.receiver(), "in order", 0).result, "ok")

    def die(self):
        program = f"""
import os
from grapnel_receiver import *
from vectors import KEY, NOW, delivery
{self.OPEN}
def work(event, check, connection):
    {self.WORK}
    os.kill(os.getpid(), 9)
Receiver([KEY], store, clock=lambda: NOW).receive(*delivery("in order", 0), work)
"""
        done = subprocess.run([sys.executable, "-c", program], env={
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **self.env()},
            capture_output=True, text=True)
        self.assertEqual(done.returncode, -9, done.stderr)

    WORK = "cursor = connection.cursor(); cursor.execute(\"INSERT INTO work VALUES ('x')\")"

    def work(self):
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT count(*) FROM work")
            return cursor.fetchone()[0]

    def run_sql(self, connection, sql):
        cursor = connection.cursor()
        cursor.execute(sql)
        cursor.close()

    def test_an_older_event_waits_for_the_newer_one(self):
        """Else both would be `ok`, and the older one could overwrite the newer one's work."""
        receiver, inside, go = self.receiver(), threading.Event(), threading.Event()
        self.take(receiver, "a loss, sent again", 0)
        results = {}

        def slow(event, check, _):
            inside.set()
            go.wait(60)

        def run(number, handle):
            results[number] = receiver.receive(
                *delivery("a loss, sent again", number), handle).result

        newer = threading.Thread(target=run, args=[1, slow])
        newer.start()
        inside.wait(60)
        older = threading.Thread(target=run, args=[3, lambda *args: None])
        older.start()
        older.join(0.2)
        self.assertEqual(results, {})
        go.set()
        newer.join()
        older.join()
        self.assertEqual(results, {1: "gap_detected", 3: "old_event"})


class SQLite(SQL, unittest.TestCase):
    OPEN = "store = SQLiteStore(os.environ['FILE'])"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        super().setUp()

    def new_store(self):
        self.path = str(self.folder / f"{len(list(self.folder.iterdir()))}.db")
        store = SQLiteStore(self.path)
        store.create_tables()
        store.create_tables()
        with contextlib.closing(self.connect()) as connection, connection:
            connection.execute("CREATE TABLE work (id TEXT)")
        return store

    def connect(self):
        return sqlite3.connect(self.path, timeout=30)

    def autocommitting(self):
        return sqlite3.connect(self.path, timeout=30, isolation_level=None)

    def env(self):
        return {"FILE": self.path}

    def test_connections_of_the_caller(self):
        """With rows that are not tuples."""
        def connect():
            connection = self.connect()
            connection.row_factory = sqlite3.Row
            return connection

        self.store = SQLiteStore(connect)
        receiver = self.receiver()
        self.assertEqual([self.take(receiver, "a loss", n).result for n in (0, 2, 2)],
                         ["ok", "gap_detected", "duplicate"])
        self.assertEqual([m.number for m in receiver.missing(0)], [3])


class Postgres(SQL):
    def setUp(self):
        try:
            self.driver = __import__(self.DRIVER)
        except ImportError:
            self.skipTest(f"{self.DRIVER} is not installed")
        super().setUp()

    def new_store(self):
        store = PostgresStore(self.connect)
        with contextlib.closing(self.connect()) as connection:
            for table in ("work", "grapnel_events", "grapnel_series", "grapnel_numbers"):
                self.run_sql(connection, f"DROP TABLE IF EXISTS {table}")
            self.run_sql(connection, "CREATE TABLE work (id TEXT)")
            connection.commit()
        store.create_tables()
        store.create_tables()
        return store

    def connect(self):
        return self.driver.connect(POSTGRES)

    def autocommitting(self):
        connection = self.connect()
        connection.autocommit = True
        return connection

    def env(self):
        return {"URI": POSTGRES}

    @property
    def OPEN(self):
        return (f"import {self.DRIVER} as driver\n"
                "store = PostgresStore(lambda: driver.connect(os.environ['URI']))")

    def test_a_pool_gets_its_connections_back(self):
        out = []

        def take_one():
            out.append(self.connect())
            return out[-1]

        self.store = PostgresStore(take_one, lambda connection: (out.remove(connection),
                                                                 connection.close()))
        self.assertEqual(self.take(self.receiver(), "in order", 0).result, "ok")
        with self.assertRaises(KeyError):
            self.receiver().receive(*delivery("in order", 1), lambda *a: {}["x"])
        self.assertEqual(out, [])


@unittest.skipUnless(POSTGRES, "GRAPNEL_TEST_POSTGRES is not set")
class Psycopg2(Postgres, unittest.TestCase):
    DRIVER = "psycopg2"

    def test_rows_as_dictionaries(self):
        extras = __import__("psycopg2.extras").extras
        self.store = PostgresStore(lambda: self.driver.connect(
            POSTGRES, cursor_factory=extras.RealDictCursor))
        receiver = self.receiver()
        self.assertEqual([self.take(receiver, "a loss", n).result for n in (0, 2, 2)],
                         ["ok", "gap_detected", "duplicate"])
        self.assertEqual([m.number for m in receiver.missing(0)], [3])


@unittest.skipUnless(POSTGRES, "GRAPNEL_TEST_POSTGRES is not set")
class Psycopg3(Postgres, unittest.TestCase):
    DRIVER = "psycopg"


@unittest.skipUnless(REDIS, "GRAPNEL_TEST_REDIS is not set")
class Redis(Base, unittest.TestCase):
    decode = False
    OPEN = ("import redis\nstore = RedisStore(redis.Redis.from_url(os.environ['URI']), "
            "lease_s=1)")

    def setUp(self):
        try:
            import redis
        except ImportError:
            self.skipTest("redis-py is not installed")
        self.client = redis.Redis.from_url(REDIS, decode_responses=self.decode)
        self.addCleanup(self.client.close)
        super().setUp()

    def new_store(self):
        self.client.flushall()
        return RedisStore(self.client, lease_s=60)

    def test_a_claim_of_a_dead_process_ends(self):
        """The work was done, and is done again: no transaction joins the two."""
        self.die()
        self.store = RedisStore(self.client)
        receiver = self.receiver()
        with self.assertRaises(Busy):
            self.take(receiver, "in order", 0)
        while True:
            with contextlib.suppress(Busy):
                check = self.take(receiver, "in order", 0)
                break
        self.assertEqual(check.result, "ok")
        self.assertEqual(self.take(receiver, "in order", 0).result, "duplicate")

    die = SQL.die
    WORK = "open(os.environ['FILE'], 'a').write('x')"

    def env(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return {"URI": REDIS, "FILE": folder.name + "/work"}

    def test_every_key_expires_and_has_the_prefix(self):
        self.take(self.receiver(), "a loss", 0)
        self.take(self.receiver(), "a loss", 2)
        keys = [k.decode() if isinstance(k, bytes) else k for k in self.client.keys("*")]
        self.assertGreater(len(keys), 6)
        for key in keys:
            self.assertTrue(key.startswith("{grapnel}:"), key)
            if key != "{grapnel}:spaces":  # forget() removes what has expired
                self.assertGreater(self.client.ttl(key), 39 * 86400, key)


class RedisText(Redis):
    decode = True


if __name__ == "__main__":
    unittest.main()
