"""Rows of an outbox table with an ordering key: an ordered endpoint gets those of a key in the order
in which they were committed, as far as OPERATIONS promises that. P2, P5."""

import collections
import pathlib
import random
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from postgres import Postgres, programs
from rig import RigTest, main, wait_for

POLICY = {"name": "twice", "backoff": "fixed", "first_wait": "20ms", "jitter": "none",
          "max_attempts": 2, "max_duration": "1h", "retry_on": ["network", "5xx"]}


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class OutboxOrder(RigTest):
    @classmethod
    def setUpClass(cls):
        cls.pg = Postgres()
        cls.addClassCleanup(cls.pg.close)
        cls.pg.start()

    def setUp(self):
        self.pg.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        self.pg.make_table()
        self.pg.sql("ALTER TABLE webhook_outbox ADD ordering_key text")

    def pipeline(self, relays=({},), **endpoint):
        rig = self.rig()
        rig.config["outbox"] = [
            {"name": f"orders-{i}", "database": self.pg.uri, "poll": "200ms",
             "batch": 7, "retry_policy": "default", "endpoint": "crm",
             "may_name_urls": [rig.receiver.url("/*")], **relay}
            for i, relay in enumerate(relays)]
        rig.config["endpoints"] = [rig.endpoint("crm", ordered="workspace", **endpoint)]
        rig.config["retry_policies"].append(POLICY)
        rig.write_config()
        rig.add("outbox")
        return rig.start()

    def insert(self, key, *payloads, url=None):
        for payload in payloads:
            self.pg.sql(
                "INSERT INTO webhook_outbox (id, payload, ordering_key, target_url) "
                f"VALUES ('{payload}', '\"{payload}\"', '{key}', "
                + (f"'{url}')" if url else "NULL)"))

    def got(self, rig, path="/crm"):
        return [r.json() for r in rig.receiver.requests(path)]

    def write(self, keys, transactions, committed):
        """A writer, one of several. The row of `counters` is the business object: its lock
        decides the order of the transactions of one key, and its number says it."""
        session = self.pg.session()
        for _ in range(transactions):
            key, good = random.choice(keys), random.random() < 0.7
            rows = random.randint(1, 3)
            one = (f"UPDATE counters SET n = n + 1 WHERE key = '{key}'; "
                   "INSERT INTO webhook_outbox (id, payload, ordering_key) SELECT "
                   "gen_random_uuid()::text, json_build_object('key', key, 'n', n), key "
                   f"FROM counters WHERE key = '{key}'; ")
            said = session.do(
                f"BEGIN; {one * rows}{'COMMIT' if good else 'ROLLBACK'}; SELECT 'done'")
            self.assertEqual(said.strip(), "done")
            if good:
                committed.append((key, rows))
        session.close()

    def writers(self, keys, count, transactions, meanwhile):
        """How many rows of each key were committed."""
        self.pg.sql("CREATE TABLE counters (key text PRIMARY KEY, n int); INSERT INTO "
                    "counters VALUES " + ", ".join(f"('{k}', 0)" for k in keys))
        committed = []
        threads = [threading.Thread(target=self.write, args=(keys, transactions, committed))
                   for _ in range(count)]
        for thread in threads:
            thread.start()
        meanwhile()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        wanted = collections.Counter()
        for key, rows in committed:
            wanted[key] += rows
        return wanted

    def assert_in_commit_order(self, rig, wanted):
        """P5: of each key, all rows from the first to the last; one may come again after a
        kill, but not behind a later one."""
        wait_for(lambda: set(self.pg.statuses()) == {"SUCCESS"}, 30, "all to be delivered")
        rig.settle()
        last = collections.Counter()
        for one in self.got(rig):
            self.assertIn(one["n"], (last[one["key"]], last[one["key"]] + 1), one)
            last[one["key"]] = one["n"]
        self.assertEqual(last, wanted)

    def test_rows_of_a_key_are_sent_in_the_order_of_their_commits(self):
        """P2, P5: writers are concurrent and roll back a third, while the sequencer and
        outbox are killed, and each event fails once."""
        rig = self.pipeline(max_in_flight=64)
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503}, {"status": 200}]})

        def kills():
            for process in ["sequencer", "outbox", "sequencer"]:
                seen = len(self.got(rig))
                wait_for(lambda: len(self.got(rig)) > seen + 20)
                rig[process].restart()
        wanted = self.writers(["a", "b", "c", "d", "e"], 5, 25, kills)
        self.assert_in_commit_order(rig, wanted)
        rows = rig.rows("sequencer", "SELECT DISTINCT lane, lane_key FROM deliveries")
        self.assertEqual(len(rows), 5)
        self.assertEqual(len({r["lane"] for r in rows}), 1)

    def test_relays_that_divide_a_table_by_key_keep_the_order(self):
        where = "mod(abs(hashtext(coalesce(ordering_key, '')::text)::bigint), 2) = {}"
        rig = self.pipeline([{"where": where.format(i)} for i in (0, 1)])
        wanted = self.writers(["a", "b", "c", "d"], 3, 10, lambda: None)
        self.assert_in_commit_order(rig, wanted)
        sources = rig.rows("sequencer", "SELECT DISTINCT source FROM events")
        self.assertEqual(len(sources), 2)

    def test_the_row_of_a_long_transaction_is_sent_when_the_database_shows_it(self):
        """It delays no row that was committed before it, and is behind all of them."""
        rig = self.pipeline()
        session = self.pg.session()
        self.addCleanup(session.close)
        session.do("BEGIN; INSERT INTO webhook_outbox (id, payload, ordering_key) "
                   "VALUES ('late', '\"late\"', 'a')")
        self.insert("a", "1", "2", "3")
        rig.receiver.wait(count=3)
        session.do("COMMIT")
        rig.receiver.wait(count=4)
        self.insert("a", "4")
        rig.receiver.wait(count=5)
        self.assertEqual(self.got(rig), ["1", "2", "3", "late", "4"])

    def test_rows_that_a_dead_process_still_has_locked_are_not_overtaken(self):
        """P5: outbox is killed while the server takes rows for it. The server notices that
        only at the end of the statement; until then those rows stay locked."""
        rig = self.pipeline()

        def connected():
            return rig["outbox"].log().count("connected to the database of a relay")
        wait_for(connected)
        self.pg.sql(
            "CREATE TABLE gate (closed int); INSERT INTO gate VALUES (1); "
            "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "WHILE EXISTS (SELECT 1 FROM gate) LOOP PERFORM pg_sleep(0.05); END LOOP; "
            "RETURN NEW; END $$; CREATE TRIGGER pass BEFORE UPDATE ON webhook_outbox "
            "FOR EACH ROW WHEN (OLD.id = '1') EXECUTE FUNCTION pass()")
        self.insert("a", "1")
        wait_for(lambda: self.pg.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == ["1"])
        rig["outbox"].kill()
        self.insert("a", "2")
        rig["outbox"].start()
        wait_for(lambda: connected() == 2)
        self.pg.sql("DELETE FROM gate")
        rig.receiver.wait(count=2)
        self.assertEqual(self.got(rig), ["1", "2"])

    def test_a_dead_head_halts_the_rows_of_its_key_alone(self):
        """P5: also after a kill. When the row is reset in SQL, it is sent before the rows
        that wait behind it."""
        rig = self.pipeline([{"retry_policy": "twice"}], on_dead="halt",
                            retry_policy="twice")
        rig.receiver.rules({"path": "/dead", "responses": [{"status": 503}]})
        self.insert("a", "dead", url=rig.receiver.url("/dead"))
        wait_for(lambda: self.pg.statuses() == {"FAILED_PERMANENTLY": 1})
        self.insert("a", "a1", "a2")
        self.insert("b", "b1")
        rig.receiver.wait(path="/crm")
        rig["sequencer"].restart()
        self.insert("b", "b2")
        rig.receiver.wait(path="/crm", count=2)
        self.assertEqual(self.got(rig), ["b1", "b2"])
        lane, = rig.ask("sequencer", "endpoint", name="crm")["halted"]
        self.assertEqual((lane["workspace"], lane["ordering_key"]), ("default", "a"))
        shown = rig.cli_text("endpoints", "crm")
        self.assertIn("in workspace default, ordering key a by", shown.stdout)
        rig.receiver.rules()
        self.pg.sql("UPDATE webhook_outbox SET status = 'NOT_CALLED' WHERE id = 'dead'")
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 5})
        rig.settle()
        order = [r.json() for r in rig.receiver.requests() if r.delivered]
        self.assertEqual(order, ["b1", "b2", "dead", "a1", "a2"])

    def test_an_invalid_key_fails_its_row_alone(self):
        rig = self.pipeline()
        self.insert("k" * 255, "good")
        self.insert("k" * 256, "long")
        self.insert("", "none")
        rig.receiver.wait(count=2)
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 2, "FAILED_PERMANENTLY": 1})
        self.assertEqual(
            self.pg.sql("SELECT error_message FROM webhook_outbox WHERE id = 'long'"),
            ["ordering_key: is longer than 255 bytes"])
        self.assertEqual(rig.trace("good")["ordering_key"], "k" * 255)
        self.assertIsNone(rig.trace("none")["ordering_key"])


main()
