"""A relay while its database, its table or its rows are in trouble. P1, P2.

What `grapnel outbox check` and `outbox status` say about it is here, too.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from postgres import Postgres, prepare, programs
from rig import RigTest, main, wait_for

OURS = "application_name LIKE 'grapnel%'"
RAISE = ("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
         "$$ BEGIN IF {when} THEN RAISE 'not row %', NEW.id; END IF; "
         "RETURN NEW; END $$; CREATE {kind} refuse {time} UPDATE ON webhook_outbox "
         "{more} FOR EACH ROW EXECUTE FUNCTION refuse()")


class Troubled(RigTest):
    def setUp(self):
        self.pg = Postgres()
        self.addCleanup(self.pg.close)
        self.pg.start().make_table()

    def pipeline(self, config=None, start=True, console=False, **relay):
        rig = self.rig({"outbox": [{"name": "orders", "database": self.pg.uri,
                                    "retry_policy": "default", "poll": "100ms",
                                    **relay}], **(config or {})}, console=console)
        rig.add("outbox")
        return rig.start() if start else rig

    def status(self, rig):
        relay, = rig.cli("outbox", "status")[0]
        return relay

    def wait_statuses(self, timeout=15, **want):
        wait_for(lambda: self.pg.statuses() == want, timeout, f"statuses {want}")

    def one_event_each(self, rig, rows):
        """Each of these rows is one event, which the endpoint got once; no other row is."""
        rig.settle()
        found = rig.rows("sequencer", "SELECT id, provider_id FROM events "
                         "WHERE source = 'orders' AND status NOT IN (1, 2)")
        self.assertEqual(sorted(r["provider_id"] for r in found), sorted(rows))
        self.assertEqual(sorted(r.id for r in rig.receiver.requests() if r.delivered),
                         sorted(r["id"] for r in found))

    def rows(self, first, last):
        return [f"row-{i}" for i in range(first, last + 1)]


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Refused(Troubled):
    """The database refuses to change a row: the others go on."""

    def test_an_outcome_is_refused(self):
        rig = self.pipeline(console=True)
        self.pg.sql("ALTER TABLE webhook_outbox ADD CONSTRAINT never CHECK "
                    "(status <> 'SUCCESS' OR id NOT IN ('row-3', 'row-7'))")
        self.pg.insert(1, 10)
        self.wait_statuses(SUCCESS=8, PENDING_RETRY=2)
        log = wait_for(lambda: (t := rig["outbox"].log()).count(
            "the database refused an outcome") >= 2 and t)
        self.assertIn("row=row-3", log)
        self.assertIn("violates check constraint", log)
        self.assertNotIn("Failing row", log)
        wait_for(lambda: (rig.number("grapnel_outbox_set_aside_total") or 0) >= 2)
        # Those behind them are written at once, and the relay is as before.
        self.pg.insert(11, 20)
        self.wait_statuses(SUCCESS=18, PENDING_RETRY=2)
        wait_for(lambda: self.status(rig)["outcomes_waiting"] == 2)
        self.assertTrue(self.status(rig)["connected"])
        self.pg.sql("ALTER TABLE webhook_outbox DROP CONSTRAINT never")
        self.wait_statuses(SUCCESS=20)
        self.one_event_each(rig, self.rows(1, 20))

    def test_rows_that_may_not_be_taken(self):
        """A trigger refuses that they are taken, marked as failed, or committed."""
        self.pg.sql(RAISE.format(
            kind="TRIGGER", time="BEFORE", more="",
            when="NEW.id = 'row-3' OR NEW.status = 'FAILED_PERMANENTLY'") +
            "; CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF NEW.id = 'row-5' THEN RAISE 'not at a commit'; END IF; "
            "RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER later AFTER UPDATE ON "
            "webhook_outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
            "EXECUTE FUNCTION later()")
        rig = self.pipeline()
        self.pg.sql("INSERT INTO webhook_outbox (id) VALUES ('no-payload')")
        self.pg.insert(1, 30)
        self.wait_statuses(SUCCESS=28, NOT_CALLED=3)
        log = wait_for(lambda: (t := rig["outbox"].log()).count(
            "it is set aside") >= 3 and t)
        for row, why in (("row-3", "not row row-3"), ("no-payload", "not row no-payload"),
                         ("row-5", "not at a commit")):
            line, = [x for x in log.splitlines()
                     if "set aside" in x and f"row={row}" in x][:1]
            self.assertIn(why, line)
        self.assertGreater(self.status(rig)["set_aside"], 0)
        self.pg.sql("DROP TRIGGER refuse ON webhook_outbox; "
                    "DROP TRIGGER later ON webhook_outbox")
        self.wait_statuses(SUCCESS=30, FAILED_PERMANENTLY=1)
        self.one_event_each(rig, self.rows(1, 30))

    def test_a_row_fails_with_any_code(self):
        """Codes of its own, of a slow trigger, and of a statement that only one row runs."""
        self.pg.sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF NEW.id = 'row-3' THEN RAISE 'own' USING ERRCODE = 'SH001'; END IF; "
            "IF NEW.id = 'row-5' THEN RAISE 'slow' USING ERRCODE = '57014'; END IF; "
            "IF NEW.id = 'row-7' THEN PERFORM 1 FROM no_such_table; END IF; "
            "RETURN NEW; END $$; CREATE TRIGGER refuse BEFORE UPDATE ON "
            "webhook_outbox FOR EACH ROW EXECUTE FUNCTION refuse()")
        rig = self.pipeline()
        self.pg.insert(1, 10)
        self.wait_statuses(SUCCESS=7, NOT_CALLED=3)
        self.pg.sql("DROP TRIGGER refuse ON webhook_outbox")
        self.wait_statuses(SUCCESS=10)
        self.one_event_each(rig, self.rows(1, 10))

    def test_a_row_has_no_id(self):
        """Those behind it are taken, however large it is."""
        self.pg.sql("ALTER TABLE webhook_outbox DROP CONSTRAINT webhook_outbox_pkey; "
                    "ALTER TABLE webhook_outbox ALTER id DROP NOT NULL, ADD UNIQUE (id); "
                    "INSERT INTO webhook_outbox (payload) VALUES (repeat('x', 5000000))")
        rig = self.pipeline()
        self.pg.insert(1, 5)
        self.wait_statuses(SUCCESS=5, NOT_CALLED=1)
        wait_for(lambda: self.status(rig)["waiting"] == 0)
        checked = rig.cli_text("outbox", "check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("has rows whose id is NULL", checked.stdout)
        self.one_event_each(rig, self.rows(1, 5))

    def test_columns_are_not_null(self):
        """Those to which NULL is written keep their value, or get an empty text."""
        self.pg.sql("ALTER TABLE webhook_outbox "
                    "ALTER next_attempt_at SET DEFAULT now(), "
                    "ALTER next_attempt_at SET NOT NULL, "
                    "ALTER last_attempt_at SET DEFAULT now(), "
                    "ALTER last_attempt_at SET NOT NULL, "
                    "ALTER error_message SET DEFAULT '', "
                    "ALTER error_message SET NOT NULL")
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}, {"status": 200}]})
        self.pg.insert(1, 3)
        self.pg.sql("INSERT INTO webhook_outbox (id) VALUES ('bad')")
        self.wait_statuses(SUCCESS=3, FAILED_PERMANENTLY=1)
        self.assertEqual(self.pg.sql("SELECT DISTINCT error_message FROM webhook_outbox "
                                     "WHERE status = 'SUCCESS'"), [""])
        self.assertEqual(rig.cli_text("outbox", "check").stdout,
                         "orders: nothing is missing\n")
        self.one_event_each(rig, self.rows(1, 3))

    def test_options_of_the_uri(self):
        """They hold, but outcomes are durable, and waits for locks are short. Those of a service, too;
        synchronous_commit is changed only if it is off."""
        self.pg.sql(
            "CREATE SCHEMA tenant; CREATE TABLE tenant.webhook_outbox (LIKE "
            "public.webhook_outbox INCLUDING ALL); ALTER TABLE tenant.webhook_outbox "
            "ALTER target_url TYPE text, ADD workspace text; "
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "NEW.error_message = current_setting('synchronous_commit') || ' ' || "
            "current_setting('lock_timeout'); RETURN NEW; END $$; CREATE TRIGGER note "
            "BEFORE UPDATE ON tenant.webhook_outbox FOR EACH ROW WHEN "
            "(NEW.status = 'SUCCESS') EXECUTE FUNCTION note()")
        service = self.pg.folder / "service.conf"
        service.write_text(f"[shop]\nhost={self.pg.folder}\nuser=app\ndbname=postgres\noptions="
                           "-csearch_path=tenant -csynchronous_commit=local -clock_timeout=9s\n")
        os.environ["PGSERVICEFILE"] = str(service)
        self.addCleanup(os.environ.pop, "PGSERVICEFILE")
        rig = self.pipeline(endpoint="crm", database=self.pg.uri + "&options=-csearch_path"
                            "%3Dtenant%20-csynchronous_commit%3Doff%20-clock_timeout%3D9s")
        self.pg.sql("INSERT INTO tenant.webhook_outbox (id, payload, target_url, "
                    "workspace) VALUES ('good', '{}', NULL, NULL), "
                    "('url', '{}', repeat('u', 1000000), NULL), "
                    "('workspace', '{}', NULL, repeat('w', 1000000))")
        want = {"good|SUCCESS", "url|FAILED_PERMANENTLY", "workspace|FAILED_PERMANENTLY"}
        wait_for(lambda: set(self.pg.sql("SELECT id || '|' || status FROM "
                                         "tenant.webhook_outbox")) == want)
        self.assertEqual(self.pg.sql("SELECT error_message FROM tenant.webhook_outbox "
                                     "ORDER BY id")[::2],
                         ["on 500ms", "workspace: is longer than 255 bytes"])
        rig.config["outbox"][0]["database"] = "postgresql:///?service=shop"
        rig.write_config()
        rig["outbox"].restart()
        self.pg.sql("INSERT INTO tenant.webhook_outbox (id, payload) VALUES ('service', '{}')")
        wait_for(lambda: self.pg.sql("SELECT error_message FROM tenant.webhook_outbox "
                                     "WHERE id = 'service'") == ["local 500ms"])

    def test_the_encoding_is_sql_ascii(self):
        self.pg.sql("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0")
        rig = self.pipeline(database=self.pg.uri.replace("/postgres?", "/bytes?"))
        wait_for(lambda: "the encoding of the database is SQL_ASCII: a relay needs one that "
                 "can be converted to UTF-8" in (self.status(rig).get("error") or ""))
        checked = rig.cli_text("outbox", "check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("the encoding of the database is SQL_ASCII", checked.stdout)
        self.assertIn("make a database with ENCODING 'UTF8'", checked.stdout)

    def test_the_status_is_of_another_type(self):
        self.pg.sql("CREATE TYPE state AS ENUM ('NOT_CALLED', 'PENDING_RETRY', "
                    "'SUCCESS'); DROP INDEX webhook_outbox_new; ALTER TABLE "
                    "webhook_outbox ALTER status DROP DEFAULT, ALTER status TYPE state "
                    "USING status::state, ALTER status SET DEFAULT 'NOT_CALLED'")
        rig = self.pipeline()
        self.pg.insert(1, 2)
        wait_for(lambda: "column status of type state does not take the statuses" in
                 (self.status(rig).get("error") or ""))
        self.assertEqual(self.pg.statuses(), {"NOT_CALLED": 2})
        self.assertIn('invalid input value for enum state: "FAILED_PERMANENTLY"',
                      rig.cli_text("outbox", "check").stdout)
        self.pg.sql("ALTER TYPE state ADD VALUE 'FAILED_PERMANENTLY'")
        self.pg.sql("INSERT INTO webhook_outbox (id) VALUES ('bad')")
        self.wait_statuses(SUCCESS=2, FAILED_PERMANENTLY=1)
        self.one_event_each(rig, self.rows(1, 2))

    def test_the_payload_is_of_bytes(self):
        self.pg.sql("ALTER TABLE webhook_outbox ALTER payload TYPE bytea USING NULL")
        rig = self.pipeline()
        self.pg.sql("INSERT INTO webhook_outbox (id, payload) VALUES "
                    "('a', '{\"x\": \"ü\"}'), ('b', '\\xff'), ('c', '[]')")
        self.wait_statuses(SUCCESS=2, NOT_CALLED=1)
        self.one_event_each(rig, ["a", "c"])
        self.assertEqual(sorted(r.body.decode() for r in rig.receiver.requests()),
                         ["[]", '{"x": "ü"}'])

    def test_the_id_gets_another_type(self):
        self.pg.sql("ALTER TABLE webhook_outbox ALTER id TYPE int USING 1")
        rig = self.pipeline()
        self.pg.sql("INSERT INTO webhook_outbox (id, payload) VALUES (1, '{}')")
        self.wait_statuses(SUCCESS=1)
        self.pg.sql("ALTER TABLE webhook_outbox ALTER id TYPE bigint")
        self.pg.sql("INSERT INTO webhook_outbox (id, payload) VALUES "
                    "(3000000000, '{}'), (3000000001, NULL)")
        self.wait_statuses(SUCCESS=2, FAILED_PERMANENTLY=1)
        self.one_event_each(rig, ["1", "3000000000"])

    def test_the_status_column_is_too_short(self):
        rig = self.pipeline()
        self.pg.insert(1, 3)
        self.wait_statuses(SUCCESS=3)
        self.pg.sql("ALTER TABLE webhook_outbox ALTER status TYPE varchar(10)")
        self.pg.insert(4, 6)
        wait_for(lambda: "value too long for type character varying(10)" in
                 rig["outbox"].log())
        found = rig.cli_text("outbox", "check")
        self.assertEqual(found.returncode, 1)
        self.assertIn("has room for 10 characters; FAILED_PERMANENTLY needs 18",
                      found.stdout)
        self.pg.sql("ALTER TABLE webhook_outbox ALTER status TYPE varchar(50)")
        self.wait_statuses(SUCCESS=6)
        self.one_event_each(rig, self.rows(1, 6))

    def test_somebody_has_locked_a_row(self):
        """Also the whole table; and a deadlock. No transaction of ours waits for long."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [{"delay_ms": 100000}]})
        self.pg.insert(1, 4)
        rig.receiver.wait(count=4)
        session = self.pg.session()
        self.addCleanup(session.close)
        session.do("BEGIN; SELECT 1 FROM webhook_outbox WHERE id = 'row-2' FOR UPDATE")
        rig.receiver.rules()
        rig.receiver.release()
        self.wait_statuses(SUCCESS=3, PENDING_RETRY=1)
        self.pg.insert(5, 6)
        self.wait_statuses(SUCCESS=5, PENDING_RETRY=1)
        session.do("COMMIT; BEGIN; LOCK TABLE webhook_outbox")
        wait_for(lambda: "lock timeout" in (self.status(rig).get("error") or ""))
        session.do("COMMIT")
        self.wait_statuses(SUCCESS=6)
        # A deadlock: we have row-7 and want row-8, the session the other way round.
        self.pg.sql(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_sleep(0.3); RETURN NEW; END $$; "
            "CREATE TRIGGER slow BEFORE UPDATE ON webhook_outbox FOR EACH ROW "
            "WHEN (NEW.status = 'SUCCESS') EXECUTE FUNCTION slow()")
        rig.receiver.rules({"path": "/crm", "responses": [{"delay_ms": 100000}]})
        self.pg.insert(7, 8)
        rig.receiver.wait(count=8)
        session.do("SET deadlock_timeout = '10ms'; BEGIN; "
                   "SELECT 1 FROM webhook_outbox WHERE id = 'row-8' FOR UPDATE")
        rig.receiver.rules()
        rig.receiver.release()
        wait_for(lambda: self.pg.sql(
            f"SELECT 1 FROM pg_stat_activity WHERE {OURS} AND "
            "wait_event_type = 'Lock'"), what="us to wait for row-8")
        session.do("UPDATE webhook_outbox SET payload = payload WHERE id = 'row-7'; "
                   "COMMIT")
        self.wait_statuses(SUCCESS=8)
        self.one_event_each(rig, self.rows(1, 8))


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Away(Troubled):
    """The database cannot be used for a while."""

    def refused_with(self, rig, error):
        wait_for(lambda: error in (self.status(rig).get("error") or ""),
                 what=f"the error {error}")
        status = self.status(rig)
        self.assertFalse(status["connected"])
        self.assertTrue(status["since"])

    def test_read_only_and_out_of_connections(self):
        self.pg.sql("CREATE ROLE relay LOGIN; GRANT ALL ON webhook_outbox TO relay")
        rig = self.pipeline(database=self.pg.uri.replace("app@", "relay@"))
        self.pg.insert(1, 2)
        self.wait_statuses(SUCCESS=2)
        self.pg.sql("ALTER SYSTEM SET default_transaction_read_only = on")
        self.pg.sql("SELECT pg_reload_conf()")
        self.refused_with(rig, "read-only")
        done = rig.cli_text("outbox", "check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("default_transaction_read_only is on", done.stdout)
        session = self.pg.session()
        session.do("SET default_transaction_read_only = off")
        session.do("INSERT INTO webhook_outbox (id, payload) VALUES ('row-3', '{}')")
        session.do("ALTER SYSTEM RESET ALL")
        session.do("SELECT pg_reload_conf()")
        session.close()
        self.wait_statuses(SUCCESS=3)
        self.pg.sql("ALTER ROLE relay CONNECTION LIMIT 0")
        self.pg.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE usename = 'relay'")
        self.refused_with(rig, "too many connections")
        self.pg.insert(4, 5)
        self.pg.sql("ALTER ROLE relay CONNECTION LIMIT -1")
        self.wait_statuses(SUCCESS=5)
        self.one_event_each(rig, self.rows(1, 5))

    def test_failing_over_to_a_standby(self):
        other = Postgres(copy_of=self.pg)
        self.addCleanup(other.close)
        other.start()
        uri = (f"postgresql://app@/postgres?host={other.folder},{self.pg.folder}")
        rig = self.pipeline(database=uri)
        self.pg.insert(1, 5)
        self.wait_statuses(SUCCESS=5)
        wait_for(lambda: other.statuses() == {"SUCCESS": 5}, what="the standby")
        self.pg.kill()
        other.sql("SELECT pg_promote()")
        self.pg = other
        self.pg.insert(6, 9)
        self.wait_statuses(SUCCESS=9)
        self.one_event_each(rig, self.rows(1, 9))

    def test_the_process_stalls_in_a_transaction(self):
        """The server ends the transaction, so that vacuum is not held back for long."""
        rig = self.pipeline(batch=1)
        asked = (f"SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND "
                 "xact_start IS NOT NULL")
        count = 0

        def stalls():
            nonlocal count
            self.pg.insert(count + 1, count + 100)
            count += 100
            rig["outbox"].pause()
            if self.pg.sql(asked) == ["1"]:
                return True
            rig["outbox"].resume()
            return False
        wait_for(stalls, what="a stall between taking rows and the commit")
        wait_for(lambda: self.pg.sql(asked) == ["0"], 20,
                 "the server to end the transaction")
        rig["outbox"].resume()
        self.wait_statuses(SUCCESS=count, timeout=60)
        self.one_event_each(rig, self.rows(1, count))

    def test_columns_go_and_come_back(self):
        rig = self.pipeline()
        self.pg.insert(1, 1)
        self.wait_statuses(SUCCESS=1)
        self.pg.sql("ALTER TABLE webhook_outbox DROP retry_count, "
                    "DROP error_message, DROP next_attempt_at")
        self.pg.insert(2, 3)
        self.wait_statuses(SUCCESS=3)
        self.pg.sql("ALTER TABLE webhook_outbox DROP created_at")
        self.pg.insert(4, 4)
        self.wait_statuses(SUCCESS=4)
        wait_for(lambda: (s := self.status(rig))["waiting"] == 0 and s["oldest_ms"] is None)
        self.pg.sql("ALTER TABLE webhook_outbox RENAME id TO key")
        wait_for(lambda: "has no column id" in (self.status(rig).get("error") or ""))
        self.pg.sql("ALTER TABLE webhook_outbox RENAME key TO id; "
                    "ALTER TABLE webhook_outbox ADD error_message text")
        self.pg.sql("INSERT INTO webhook_outbox (id) VALUES ('bad')")
        self.wait_statuses(SUCCESS=4, FAILED_PERMANENTLY=1)
        self.pg.insert(5, 5)
        self.wait_statuses(SUCCESS=5, FAILED_PERMANENTLY=1)
        self.one_event_each(rig, self.rows(1, 5))

    def test_the_clocks_differ(self):
        """Ours is a day ahead; an application's rows are from tomorrow."""
        rig = self.pipeline(start=False)
        rig.step_clock(86400)
        rig.start()
        self.pg.insert(1, 3)
        self.pg.sql("INSERT INTO webhook_outbox (id, payload, created_at) VALUES "
                    "('row-4', '{}', now() + interval '1 day')")
        self.wait_statuses(SUCCESS=4)
        wait_for(lambda: self.status(rig)["waiting"] == 0)
        status = self.status(rig)
        self.assertLess(status["lag_p50_ms"], 60000)
        self.assertIsNone(status["oldest_ms"])
        self.one_event_each(rig, self.rows(1, 4))

    def test_a_database_is_restored_from_an_older_copy(self):
        """Rows that were new in the copy are sent again, as the same events."""
        rig = self.pipeline()
        self.pg.insert(1, 2)
        self.wait_statuses(SUCCESS=2)
        rig["outbox"].stop()
        self.pg.insert(3, 4)
        self.pg.sql("CREATE TABLE copy AS TABLE webhook_outbox")
        rig["outbox"].start()
        self.pg.insert(5, 6)
        self.wait_statuses(SUCCESS=6)
        first = {r.id: r.body for r in rig.receiver.wait(count=6)}
        rig["outbox"].stop()
        self.pg.sql("TRUNCATE webhook_outbox; "
                    "INSERT INTO webhook_outbox TABLE copy")
        rig["outbox"].start()
        self.wait_statuses(SUCCESS=4)
        rig.settle()
        requests = rig.receiver.requests()
        self.assertEqual(len(requests), 8)
        self.assertEqual({r.id: r.body for r in requests}, first)
        self.assertEqual({r.body for r in requests[6:]}, {b'{"n": 3}', b'{"n": 4}'})

    def test_grapnel_is_restored_from_an_older_copy(self):
        """Rows that were taken since wait for the statement in the documentation; then all are
        delivered, and those that Grapnel knows not twice."""
        rig = self.pipeline(config={"retry_policies": [{
            "name": "slow", "backoff": "fixed", "first_wait": "1s",
            "max_attempts": 100, "retry_on": ["5xx"]}]}, retry_policy="slow")
        self.pg.insert(1, 2)
        self.wait_statuses(SUCCESS=2)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        self.pg.insert(3, 4)
        self.wait_statuses(SUCCESS=2, PENDING_RETRY=2)
        self.assertEqual(rig.cli("backup", str(rig.folder / "copy"))[1], 0)
        self.pg.insert(5, 6)
        self.wait_statuses(SUCCESS=2, PENDING_RETRY=4)
        rig.stop()
        done = rig.cli_text("restore", str(rig.folder / "copy"))
        self.assertEqual(done.returncode, 0, done.stderr)
        rig.receiver.rules()
        rig.start()
        self.wait_statuses(SUCCESS=4, PENDING_RETRY=2)
        self.pg.sql("UPDATE webhook_outbox SET status = 'NOT_CALLED' "
                    "WHERE status = 'PENDING_RETRY'")
        self.wait_statuses(SUCCESS=6)
        self.one_event_each(rig, self.rows(1, 6))


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Commands(Troubled):
    def test_delivered_rows_are_deleted(self):
        """In batches, and only those that are old; the relay may need a privilege for it."""
        self.pg.sql(
            "CREATE ROLE relay LOGIN; GRANT SELECT, UPDATE ON webhook_outbox TO relay; "
            "INSERT INTO webhook_outbox (id, payload, status, last_attempt_at) SELECT "
            "s || i, '{}', s, now() - d::interval FROM generate_series(1, 600) i, "
            "(VALUES ('SUCCESS', '2 hours'), ('FAILED_PERMANENTLY', '2 hours'), "
            "('PENDING_RETRY', '2 hours')) v(s, d); "
            "INSERT INTO webhook_outbox (id, payload, status, last_attempt_at) "
            "VALUES ('young', '{}', 'SUCCESS', now())")
        rig = self.pipeline(database=self.pg.uri.replace("app@", "relay@"),
                            after_success="delete after 1h", start=False)
        checked = rig.cli_text("outbox", "check", "orders")
        self.assertIn("may not delete delivered rows", checked.stdout)
        rig.start()
        wait_for(lambda: "delivered rows cannot be deleted" in rig["outbox"].log())
        self.pg.insert(1, 5)
        self.wait_statuses(SUCCESS=606, FAILED_PERMANENTLY=600, PENDING_RETRY=600)
        self.pg.sql("GRANT DELETE ON webhook_outbox TO relay")
        rig["outbox"].restart()
        self.wait_statuses(SUCCESS=6, FAILED_PERMANENTLY=600, PENDING_RETRY=600)
        init = rig.cli_text("outbox", "init").stdout
        self.assertIn("GRANT SELECT, UPDATE, DELETE ON", init)
        self.pg.sql("DROP TABLE webhook_outbox CASCADE")
        self.pg.sql(init)
        self.assertIn("webhook_outbox_grapnel_outbox_old", self.pg.sql(
            "SELECT indexname FROM pg_indexes"))
        checked = rig.cli_text("outbox", "check")
        self.assertEqual((checked.returncode, checked.stdout),
                         (0, "orders: nothing is missing\n"))

    def test_after_success_is_checked(self):
        rig = self.pipeline(start=False, after_success="delete after soon")
        done = rig.cli_text("check")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("delete after 7d", done.stderr)

    def test_check_says_what_is_missing(self):
        rig = self.pipeline(start=False)
        relay = rig.config["outbox"][0]

        def check(sql=None, **change):
            """What is found with this change of the database and of the relay."""
            if sql:
                self.pg.sql(sql)
            rig.config["outbox"][0] = {**relay, **change}
            rig.write_config()
            found, code = rig.cli("outbox", "check", "orders")
            self.assertEqual(code, 1 if found else 0)
            self.assertTrue(all(f["fix"] for f in found))
            return "\n".join(f["error"] for f in found)

        self.assertEqual(check(), "")
        self.assertIn("cannot connect", check(database="postgresql://app@/x?host=/tmp/no"))
        self.assertIn('database "nowhere" does not exist',
                      check(database=self.pg.uri.replace("/postgres?", "/nowhere?")))
        self.assertIn("password_file", check(password_file="missing"))
        self.assertIn("there is no table other", check(table="other"))
        self.assertIn("has no column body", check(columns={"payload": "body"}))
        self.assertIn('there is no endpoint "nowhere"', check(endpoint="nowhere"))
        self.assertIn("new rows cannot be read", check(where="no_such_column > 1"))
        as_relay = {"database": self.pg.uri.replace("app@", "relay@")}
        found = check("CREATE ROLE relay LOGIN; GRANT SELECT (id, payload) ON "
                      "webhook_outbox TO relay", **as_relay)
        self.assertIn("has no privilege SELECT on status, target_url", found)
        self.assertIn("has no privilege UPDATE on status", found)
        self.assertIn("has no index of new rows", check("DROP INDEX webhook_outbox_new"))
        self.assertIn("has no trigger that tells of new rows",
                      check("DROP TRIGGER webhook_outbox_notify ON webhook_outbox"))
        self.assertIn("unknown status strange", check(
            "INSERT INTO webhook_outbox (id, status) VALUES ('x', 'strange')"))
        self.assertIn("is not unique", check(
            "ALTER TABLE webhook_outbox DROP CONSTRAINT webhook_outbox_pkey"))
        self.assertIn("column error_message has room for 20 characters", check(
            "ALTER TABLE webhook_outbox ALTER error_message TYPE varchar(20)"))
        self.assertIn("outcomes cannot be written", check(
            "ALTER TABLE webhook_outbox DROP retry_count, ADD retry_count jsonb"))

    def test_status_and_char_ids(self):
        """Figures of a relay, whose table has ids of a fixed width."""
        self.pg.sql("ALTER TABLE webhook_outbox ALTER id TYPE char(36)")
        rig = self.pipeline()
        self.pg.insert(1, 20)
        self.wait_statuses(SUCCESS=20)
        status = wait_for(lambda: (s := self.status(rig))["waiting"] == 0 and
                          s["taken_per_s"] > 0 and s["written_per_s"] > 0 and s)
        self.assertEqual((status["relay"], status["process"], status["connected"]),
                         ("orders", "outbox", True))
        self.assertGreater(status["lag_p99_ms"], 0)
        self.assertIsNone(status["oldest_ms"])
        shown = rig.cli_text("outbox", "status", "orders")
        self.assertIn("connected", shown.stdout)
        head, row = (line.split() for line in shown.stdout.replace("NEW ROWS", "NEW")
                     .splitlines()[:2])
        self.assertEqual(row[head.index("OLDEST")], "-")
        other = rig.cli_text("outbox", "status", "other")
        self.assertEqual(other.returncode, 1)
        # Rows that it cannot take, because somebody has locked them, are counted.
        session = self.pg.session()
        self.addCleanup(session.close)
        rig["outbox"].pause()
        self.pg.insert(21, 30)
        session.do("BEGIN; SELECT 1 FROM webhook_outbox FOR UPDATE")
        rig["outbox"].resume()
        status = wait_for(lambda: (s := self.status(rig))["waiting"] == 10 and s)
        self.assertGreater(status["oldest_ms"], 0)
        session.do("COMMIT")
        self.wait_statuses(SUCCESS=30)


if programs():
    prepare()
main(at_once=6)
