"""What holds for grapnel-outbox with each kind of database; the tests of all of them share it.

A test has in self.db an object with
    uri        what the relay's `database` is
    sql(text)  does it in a transaction; a list of tuples of texts
    writer()   another connection: do(text) in a transaction that stays open, commit(), rollback(),
               close(); do() and commit() raise the class's `errors` if the database is away
    kill(), start()   of a server (ServerCases)
"""
import random
import threading
import time

from rig import RigTest, wait_for


class RelayCases(RigTest):
    kills = ()  # functions beside those of processes
    shares = False  # whether each of two processes takes a part of many rows

    def pipeline(self, processes=1, config=None, start=True, **relay):
        rig = self.rig({"outbox": [{"name": "orders", "database": self.db.uri,
                                    "retry_policy": "default", "poll": "200ms",
                                    **relay}], **(config or {})})
        for i in range(processes):
            rig.add("outbox" if i == 0 else f"outbox-{i + 1}")
        return rig.start() if start else rig

    def insert(self, first, last, payload="{{\"n\": {0}}}", table="webhook_outbox"):
        values = ", ".join(f"('row-{i}', '{payload.format(i)}')"
                           for i in range(first, last + 1))
        self.db.sql(f"INSERT INTO {table} (id, payload) VALUES {values}")

    def statuses(self):
        return {status: int(n) for status, n in self.db.sql(
            "SELECT status, count(*) FROM webhook_outbox GROUP BY status")}

    def row(self, row):
        """Status, retries, whether it has times of the last and the next attempt, error."""
        status, retries, last, next_, error = self.db.sql(
            "SELECT status, retry_count, last_attempt_at, next_attempt_at, "
            f"error_message FROM webhook_outbox WHERE id = '{row}'")[0]
        return (status, int(retries), last is not None, next_ is not None,
                error or "")

    def events(self, rig):
        """{row id: event id}; each row has at most one event."""
        rows = rig.rows("sequencer", "SELECT id, provider_id FROM events "
                        "WHERE source = 'orders'")
        self.assertEqual(len(rows), len({r["provider_id"] for r in rows}))
        return {r["provider_id"]: r["id"] for r in rows}

    def all_arrive(self, rig, rows, timeout=60):
        """Each of these rows is one event, which the endpoint got; no other row is."""
        wait_for(lambda: set(self.statuses()) <= {"SUCCESS"}, timeout,
                 "all rows to be delivered")
        wait_for(lambda: len(self.events(rig)) >= len(rows), timeout,
                 "each row to be an event")
        rig.settle()
        events = self.events(rig)
        self.assertEqual(set(events), set(rows))
        self.assertEqual(set(rig.receiver.delivered()), set(events.values()))
        return events

    # what became of it

    def test_the_outcome_is_written_back(self):
        """With the reason; a row that is reset in SQL is sent again, with a new budget."""
        rig = self.pipeline(config={"retry_policies": [{
            "name": "twice", "backoff": "fixed", "first_wait": "1s",
            "jitter": "none", "max_attempts": 2, "retry_on": ["5xx"]}]},
            retry_policy="twice")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        self.insert(1, 1)
        scheduled = wait_for(lambda: (r := self.row("row-1"))[3] and r)
        self.assertEqual(scheduled[:3], ("PENDING_RETRY", 0, True))
        wait_for(lambda: self.row("row-1")[0] == "FAILED_PERMANENTLY")
        status, retries, last, next_, error = self.row("row-1")
        self.assertEqual((retries, last, next_), (1, True, False))
        self.assertIn("crm: ", error)
        self.assertIn("500", error)
        rig.receiver.rules()
        self.db.sql("UPDATE webhook_outbox SET status = 'NOT_CALLED'")
        wait_for(lambda: self.row("row-1") == ("SUCCESS", 0, True, False, ""))
        self.assertEqual(len(rig.receiver.wait(count=3)), 3)
        self.assertEqual(len(self.events(rig)), 1)

    def test_invalid_rows_do_not_stop_the_others(self):
        for column in ("workspace", "endpoint"):
            self.db.sql(f"ALTER TABLE webhook_outbox ADD COLUMN {column} TEXT")
        rig = self.pipeline(config={"ingress": {"max_body": "100KiB"}})
        large, long = "x" * 200000, "w" * 300
        self.db.sql(
            "INSERT INTO webhook_outbox (id, payload, workspace, endpoint) VALUES "
            f"('null', NULL, NULL, NULL), ('large', '{large}', NULL, NULL), "
            f"('long', '{{}}', '{long}', NULL), ('good', '{{}}', NULL, NULL), "
            "('where', '{}', NULL, 'nowhere'), "
            "('it''s \\ \"good\" – ½', 'a text: Grüße \\ ''', 'ws ½', NULL)")
        rig.receiver.wait(count=2)
        wait_for(lambda: self.statuses() == {"FAILED_PERMANENTLY": 4, "SUCCESS": 2})
        why = dict(self.db.sql("SELECT id, error_message FROM webhook_outbox"))
        self.assertIn("is NULL", why["null"])
        self.assertIn("200000 bytes", why["large"])
        self.assertIn("workspace", why["long"])
        self.assertIn('there is no endpoint "nowhere"', why["where"])
        self.assertEqual({r.body.decode() for r in rig.receiver.requests()},
                         {"{}", "a text: Grüße \\ '"})

    def test_an_outcome_does_not_replace_a_newer_one(self):
        """Another process took the row after a reset, and has written what became of it; ours had not
        been written before. Without a final status, or with a time in the future, it is written. When
        the row is reset once more, this process sends it."""
        rig = self.pipeline()
        self.insert(1, 3)
        self.all_arrive(rig, ["row-1", "row-2", "row-3"])
        rig["outbox"].stop()
        self.db.sql("UPDATE webhook_outbox SET status = 'PENDING_RETRY' WHERE id = 'row-2'")
        self.db.sql("UPDATE webhook_outbox SET last_attempt_at = '2099-01-01 00:00:00' "
                    "WHERE id = 'row-3'")
        minute_ago_ms = int(time.time() * 1000) - 60000
        for n, (row, event) in enumerate(self.events(rig).items(), 1):
            rig.change("outbox", "INSERT INTO outcomes (event_id, n, relay, row_id, status, "
                       "retries, last_ms, next_ms, error, action_id, refused, waits, due_ms) "
                       f"VALUES ('{event}', {n}, 'orders', '{row}', 3, 7, {minute_ago_ms}, "
                       "0, 'crm: old', 0, 0, 0, 0)")
        rig.change("outbox", "DELETE FROM ended")
        rig["outbox"].start()
        wait_for(lambda: rig.rows("outbox", "SELECT count(*) AS n FROM outcomes") ==
                 [{"n": 0}], what="the outcomes to be written or dropped")
        self.assertEqual(self.row("row-1"), ("SUCCESS", 0, True, False, ""))
        for row in ("row-2", "row-3"):
            self.assertEqual(self.row(row), ("FAILED_PERMANENTLY", 7, True, False, "crm: old"))
        self.db.sql("UPDATE webhook_outbox SET status = 'NOT_CALLED' WHERE id = 'row-1'")
        rig.receiver.wait(count=4)
        wait_for(lambda: self.row("row-1") == ("SUCCESS", 0, True, False, ""))

    # exactly once

    def write(self, name, count, committed, stop):
        """A writer: transactions of some rows; a third of them is rolled back."""
        writer, n = self.db.writer(), 0
        while n < count and not stop.is_set():
            rows = [f"{name}-{n + i}" for i in range(random.randint(1, 8))]
            values = ", ".join(f"('{r}', '\"{r}\"')" for r in rows)
            n += len(rows)
            try:
                writer.do(f"INSERT INTO webhook_outbox (id, payload) VALUES {values}")
                if random.random() < 0.67:
                    writer.commit()
                    committed.update(rows)
                else:
                    writer.rollback()
                time.sleep(random.uniform(0, 0.01))
            except writer.errors:
                # The server died: whether it was committed is to be asked.
                writer.close()
                found = wait_for(lambda: self.ask(
                    "SELECT id FROM webhook_outbox WHERE id IN ("
                    + ", ".join(f"'{r}'" for r in rows) + ")"))[0]
                committed.update(row for row, in found)
                writer = self.db.writer()
        writer.close()

    def ask(self, sql):
        """None: the database is away. Else a list with the rows in it."""
        try:
            return [self.db.sql(sql)]
        except AssertionError:
            return None

    def test_kill_9_of_everything(self):
        """Writers go on, some roll back, while outbox, the sequencer and the database are killed."""
        rig = self.pipeline(processes=2, batch=20)
        committed, stop = set(), threading.Event()
        writers = [threading.Thread(target=self.write,
                                    args=(f"w{i}", 500, committed, stop))
                   for i in range(3)]
        for writer in writers:
            writer.start()
        self.addCleanup(stop.set)
        for what in ("outbox", *self.kills, "sequencer", "outbox-2", "outbox",
                     *self.kills, "outbox-2", "sequencer"):
            time.sleep(random.uniform(0.05, 0.4))
            if callable(what):
                what(self)
            else:
                rig[what].restart()
        for writer in writers:
            writer.join(60)
            self.assertFalse(writer.is_alive())
        self.assertEqual(committed, {row for row, in self.db.sql(
            "SELECT id FROM webhook_outbox")})
        self.all_arrive(rig, committed)

    def test_two_processes_share_a_table(self):
        rig = self.pipeline(processes=2, batch=10)
        for first in range(0, 300, 50):
            self.insert(first, first + 49)
        self.all_arrive(rig, [f"row-{i}" for i in range(300)])
        counts = [rig.rows(p, "SELECT count(*) AS n FROM archive")[0]["n"]
                  for p in ("outbox", "outbox-2")]
        if self.shares:
            self.assertEqual(sum(counts), 300)
            self.assertGreater(min(counts), 0)

    def test_rows_of_a_key_are_in_order(self):
        """With an ordering key, and those without one; all are of one workspace."""
        self.db.sql("ALTER TABLE webhook_outbox ADD COLUMN ordering_key VARCHAR(255)")
        rig = self.pipeline(start=False, batch=7)
        rig.config["endpoints"][0]["ordered"] = "workspace"
        rig.write_config()
        rig.start()
        keys = ["'a'", "'b'", "NULL"]
        for first in range(0, 30, 10):
            self.db.sql(
                "INSERT INTO webhook_outbox (id, payload, ordering_key) VALUES " + ", ".join(
                    f"('row-{i:02}', '{i}', {keys[i % 3]})" for i in range(first, first + 10)))
        rig.receiver.wait(count=30)
        got = [int(r.body) for r in rig.receiver.requests()]
        for key in range(3):
            mine = [n for n in got if n % 3 == key]
            self.assertEqual(mine, sorted(mine))
        found = rig.rows("sequencer", "SELECT ordering_key, count(*) AS n FROM events "
                         "GROUP BY 1 ORDER BY 1")
        self.assertEqual([(r["ordering_key"], r["n"]) for r in found],
                         [(None, 10), ("a", 10), ("b", 10)])

    def test_the_table_changes_while_it_runs(self):
        rig = self.pipeline()
        self.insert(1, 1)
        rig.receiver.wait()
        self.db.sql("ALTER TABLE webhook_outbox RENAME COLUMN payload TO body")
        wait_for(lambda: "has no column payload: set columns.payload of relay orders"
                 in rig["outbox"].log())
        self.db.sql("ALTER TABLE webhook_outbox RENAME COLUMN body TO payload")
        self.insert(2, 2)
        self.all_arrive(rig, ["row-1", "row-2"])


class ServerCases(RelayCases):
    """Of databases that have a server."""

    def test_the_database_is_away_and_comes_back(self):
        rig = self.pipeline()
        self.insert(1, 3)
        rig.receiver.wait(count=3)
        self.db.kill()
        wait_for(lambda: "the database of a relay cannot be used" in
                 rig["outbox"].log())
        health = rig.cli_text("health", "outbox")
        self.assertEqual(health.returncode, 0, health.stderr)
        self.assertIn("waiting for the database", health.stdout)
        self.db.start()
        self.insert(4, 6)
        self.all_arrive(rig, [f"row-{i}" for i in range(1, 7)])
