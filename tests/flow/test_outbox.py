"""grapnel-outbox makes events of the rows of a PostgreSQL table. P1, P2.

Each test has a server of its own, which it starts.
"""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import relay_cases
from postgres import Database, Postgres, prepare, programs
from rig import main, wait_for

OLD_ROWS = int(os.environ.get("GRAPNEL_OLD_ROWS", 200000))


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Outbox(relay_cases.ServerCases):
    shares = True

    def setUp(self):
        self.pg = Postgres()
        self.addCleanup(self.pg.close)
        self.pg.start().make_table()
        self.db = Database(self.pg)
        self.addCleanup(self.db.close)

    def database_is_killed(self):
        self.pg.restart()

    kills = (database_is_killed,)

    # what is made of a row

    def test_the_payload_is_sent_as_it_is(self):
        rig = self.pipeline()
        self.pg.sql("INSERT INTO webhook_outbox (id, payload) VALUES "
                    "('a', '{\"x\" : 1.00}'), ('b', 'a text: \"Grüße\"'), "
                    "('c', '1, \"url\": \"http://127.0.0.1/\"'), "
                    "('d', '{\"a\": 1, \"a\": 2}'), ('e', ' [] ')")
        events = self.all_arrive(rig, "abcde")
        got = {r.id: r for r in rig.receiver.requests()}
        want = {"a": '{"x" : 1.00}', "b": 'a text: "Grüße"',
                "c": '1, "url": "http://127.0.0.1/"', "d": '{"a": 1, "a": 2}',
                "e": "[]"}
        self.assertEqual({row: got[e].body.decode() for row, e in events.items()},
                         want)
        self.assertEqual({row: got[e].headers["content-type"].split(";")[0]
                          for row, e in events.items()},
                         {"a": "application/json", "b": "text/plain",
                          "c": "text/plain", "d": "text/plain",
                          "e": "application/json"})
        self.assertEqual({r.path for r in got.values()}, {"/crm"})

    def test_columns_and_statuses_have_other_names(self):
        self.pg.sql(
            "CREATE SCHEMA shop; CREATE TABLE shop.\"Out\" (\"Key\" uuid PRIMARY KEY "
            "DEFAULT gen_random_uuid(), doc jsonb, state text DEFAULT 'new', "
            "kind text, tenant text, reason text, made timestamptz DEFAULT now())")
        rig = self.pipeline(
            table="shop.Out", body="event", where="tenant <> 'nobody'",
            columns={"id": "Key", "payload": "doc", "status": "state",
                     "type": "kind", "workspace": "tenant",
                     "error_message": "reason", "created_at": "made"},
            statuses={"new": "new", "retrying": "taken", "delivered": "ok",
                      "failed": "bad"})
        self.pg.sql("INSERT INTO shop.\"Out\" (doc, kind, tenant) VALUES "
                    "('{\"n\": 1}', 'order.paid', 'acme'), "
                    "(NULL, 'order.paid', 'acme'), ('{}', 'x', 'nobody')")
        request, = rig.receiver.wait()
        body = request.json()
        self.assertEqual((body["type"], body["workspace"], body["data"]),
                         ("order.paid", "acme", {"n": 1}))
        wait_for(lambda: self.pg.sql(
            "SELECT state, reason FROM shop.\"Out\" ORDER BY state") ==
            ["bad|the payload is NULL", "new|", "ok|"])

    def test_a_row_names_its_url(self):
        rig = self.pipeline(start=False, endpoint="crm")
        rig.config["outbox"][0]["may_name_urls"] = [
            rig.receiver.url("/hooks/*")]
        rig.write_config()
        rig.start()
        self.pg.sql(
            "INSERT INTO webhook_outbox (id, payload, target_url) VALUES "
            f"('good', '{{}}', '{rig.receiver.url('/hooks/7')}'), "
            f"('bad', '{{}}', '{rig.receiver.url('/other')}'), "
            "('none', '{}', NULL)")
        rig.receiver.wait(count=2)
        wait_for(lambda: self.pg.statuses() ==
                 {"SUCCESS": 2, "FAILED_PERMANENTLY": 1})
        self.assertEqual({r.path for r in rig.receiver.requests()},
                         {"/hooks/7", "/crm"})
        self.assertEqual(
            self.pg.sql("SELECT error_message FROM webhook_outbox WHERE id = 'bad'"),
            ["url: it matches none of the producer's `may_name_urls`"])

    def test_show_trace_and_replay(self):
        rig = self.pipeline()
        self.pg.insert(1, 1)
        event = self.all_arrive(rig, ["row-1"])["row-1"]
        trace = rig.trace("row-1")
        self.assertEqual(trace["id"], event)
        self.assertIn("row row-1 of table webhook_outbox", json.dumps(trace))
        shown = rig.cli_text("show", event)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn('{"n": 1}', shown.stdout)
        done = rig.cli_text("resend", event)
        self.assertEqual(done.returncode, 0, done.stderr)
        requests = rig.receiver.wait(event=event, count=2)
        self.assertEqual({r.body for r in requests}, {b'{"n": 1}'})

    def test_a_payload_that_was_not_read_is_not_sent(self):
        """It is as long as a reload permits, and longer than at the start."""
        rig = self.pipeline(config={"ingress": {"max_body": "100KiB"}})
        rig.config["ingress"]["max_body"] = "1MiB"
        rig.write_config()
        done = rig.cli_text("reload")
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for(lambda: "configuration reloaded" in rig["outbox"].log())
        self.pg.sql("INSERT INTO webhook_outbox (id, payload) VALUES "
                    "('large', repeat('x', 200000)), ('good', '{}')")
        wait_for(lambda: self.pg.statuses() ==
                 {"FAILED_PERMANENTLY": 1, "SUCCESS": 1})
        self.assertIn("200000 bytes", self.row("large")[4])
        self.assertIn("when grapnel-outbox started", self.row("large")[4])
        self.assertEqual({r.body for r in rig.receiver.wait()}, {b"{}"})

    def test_the_relay_has_another_name_or_table(self):
        """What it sent before is sent again as it was, and no other row hears of it."""
        rig = self.pipeline()
        self.pg.insert(1, 1)
        event = self.all_arrive(rig, ["row-1"])["row-1"]
        self.pg.sql("CREATE TABLE other (LIKE webhook_outbox INCLUDING ALL)")
        for change in ({"table": "other"}, {"name": "renamed"}):
            rig.config["outbox"][0].update(change)
            rig.write_config()
            done = rig.cli_text("reload")
            self.assertEqual(done.returncode, 0, done.stderr)
            rig["outbox"].restart()
            if "table" in change:
                self.pg.sql("INSERT INTO other (id, payload) VALUES ('row-1', NULL)")
                wait_for(lambda: self.pg.sql("SELECT status FROM other") ==
                         ["FAILED_PERMANENTLY"])
            done = rig.cli_text("resend", event)
            self.assertEqual(done.returncode, 0, done.stderr)
            if "table" in change:
                wait_for(lambda: "an outcome is dropped" in rig["outbox"].log())
                self.assertEqual(self.pg.sql("SELECT status FROM other"),
                                 ["FAILED_PERMANENTLY"])
        requests = rig.receiver.wait(event=event, count=3)
        self.assertEqual({(r.body, r.headers.get("content-type")) for r in requests},
                         {(b'{"n": 1}', "application/json")})
        kept = "SELECT count(*) AS n FROM outcomes WHERE relay = 'orders'"
        wait_for(lambda: rig.rows("outbox", kept) == [{"n": 1}])
        rig["outbox"].kill()
        rig.change("outbox", "UPDATE outcomes SET last_ms = last_ms - 86400000 * 2")
        rig["outbox"].start()
        wait_for(lambda: rig.rows("outbox", kept) == [{"n": 0}])

    def test_a_relay_that_sends_events_is_removed(self):
        """Also while a row waits for its next attempt."""
        rig = self.pipeline(body="event", config={"retry_policies": [{
            "name": "slow", "backoff": "fixed", "first_wait": "2s", "jitter": "none",
            "max_attempts": 3, "retry_on": ["5xx"]}]}, retry_policy="slow")
        self.insert(1, 1)
        first = self.all_arrive(rig, ["row-1"])["row-1"]
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        self.insert(2, 2)
        wait_for(lambda: self.row("row-2")[3])
        del rig.config["outbox"][0]["body"]
        rig.config["outbox"][0]["name"] = "other"
        rig.write_config()
        done = rig.cli_text("reload")
        self.assertEqual(done.returncode, 0, done.stderr)
        rig["outbox"].restart()
        rig.receiver.rules()
        done = rig.cli_text("resend", first)
        self.assertEqual(done.returncode, 0, done.stderr)
        sent, again = rig.receiver.wait(event=first, count=2)
        self.assertEqual((again.body, again.headers["content-type"]),
                         (sent.body, sent.headers["content-type"]))
        self.assertEqual(set(again.json()), {"id", "type", "workspace", "timestamp", "data"})
        second = self.events(rig)["row-2"]
        bodies = [r.body for r in rig.receiver.wait(event=second, count=2)]
        self.assertEqual(bodies[0], bodies[1])

    # exactly once

    def fails_to_commit(self, on):
        """The database refuses to commit what outbox does with rows."""
        self.pg.sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'not now'; END $$; "
            "CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON webhook_outbox "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
            if on else "DROP TRIGGER refuse ON webhook_outbox")

    def test_a_row_that_is_taken_again_is_the_same_event(self):
        """By the same process, and by another one, which does not know it."""
        rig = self.pipeline(processes=2, start=False)
        rig.start("ingress", "sequencer", "deliverer-1", "dlqd", "outbox")
        self.fails_to_commit(True)
        self.pg.insert(1, 20)
        rig.receiver.wait(count=20)
        wait_for(lambda: "not now" in rig["outbox"].log())
        self.assertEqual(self.pg.statuses(), {"NOT_CALLED": 20})
        rig["outbox"].kill()
        self.fails_to_commit(False)
        rig["outbox-2"].start()
        self.all_arrive(rig, [f"row-{i}" for i in range(1, 21)])
        self.assertEqual(rig.rows("outbox-2", "SELECT count(*) AS n FROM archive"),
                         [{"n": 20}])

    # what became of it

    def test_a_row_that_was_changed_is_not_sent_as_the_old_one(self):
        """What the relay adds to it may change; and the row as it was is sent again."""
        self.pg.sql("ALTER TABLE webhook_outbox ADD event_type text")
        rig = self.pipeline(type="a")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 404}]})
        self.pg.sql("INSERT INTO webhook_outbox (id, payload, event_type) VALUES "
                    "('row-1', '{\"v\": 1, \"w\": 2}', 'b'), ('row-2', '{}', NULL)")
        wait_for(lambda: self.pg.statuses() == {"FAILED_PERMANENTLY": 2})
        # A kill before that would write the outcomes again, after the reset.
        wait_for(lambda: rig.rows("outbox", "SELECT count(*) AS n FROM outcomes") ==
                 [{"n": 0}])
        rig.config["outbox"][0]["type"] = "c"
        rig.write_config()
        rig["outbox"].restart()
        rig.receiver.rules()
        for change, column in (("payload = '{\"v\": 2, \"w\": 2}'", "payload"),
                               ("payload = '{\"v\": 1}', event_type = 'x'", "payload"),
                               ("payload = '{\"v\": 1, \"w\": 2}'", "type")):
            self.pg.sql(f"UPDATE webhook_outbox SET {change}, status = 'NOT_CALLED', "
                        "error_message = NULL WHERE id = 'row-1'")
            wait_for(lambda: f"its {column} differs" in self.row("row-1")[4])
            self.assertEqual(self.row("row-1")[0], "FAILED_PERMANENTLY")
        self.pg.sql("UPDATE webhook_outbox SET event_type = CASE id WHEN 'row-1' THEN 'b' "
                    "END, status = 'NOT_CALLED'")
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 2})
        self.assertEqual({r.body for r in rig.receiver.wait(count=4)},
                         {b'{"v": 1, "w": 2}', b"{}"})

    def test_a_row_of_another_process_is_reset(self):
        rig = self.pipeline(processes=2, start=False)
        rig.start("ingress", "sequencer", "deliverer-1", "dlqd", "outbox")
        self.pg.insert(1, 3)
        self.all_arrive(rig, ["row-1", "row-2", "row-3"])
        rig["outbox"].stop()
        rig["outbox-2"].start()
        self.pg.sql("UPDATE webhook_outbox SET status = 'NOT_CALLED' "
                    "WHERE id = 'row-2'")
        requests = rig.receiver.wait(count=4)
        self.all_arrive(rig, ["row-1", "row-2", "row-3"])
        self.assertEqual(requests[3].body, b'{"n": 2}')

    def test_a_row_of_another_process_was_changed(self):
        """It shows no attempt: its event is refused, and its row says so."""
        self.pg.sql("ALTER TABLE webhook_outbox DROP last_attempt_at, DROP retry_count")
        rig = self.pipeline(processes=2, start=False)
        rig.start("ingress", "sequencer", "deliverer-1", "dlqd", "outbox")
        self.pg.insert(1, 2)
        self.all_arrive(rig, ["row-1", "row-2"])
        rig["outbox"].stop()
        rig["outbox-2"].start()
        self.pg.sql("UPDATE webhook_outbox SET payload = '{}', status = 'NOT_CALLED' "
                    "WHERE id = 'row-2'")
        wait_for(lambda: self.pg.sql(
            "SELECT status, error_message ~ '^refused: idempotency_key_reused' "
            "FROM webhook_outbox WHERE id = 'row-2'") == ["FAILED_PERMANENTLY|t"])
        self.assertEqual(len(rig.receiver.requests()), 2)

    def test_people_decide(self):
        """An operator's retry and resolve move the row, too."""
        rig = self.pipeline(config={"retry_policies": [{
            "name": "once", "backoff": "fixed", "first_wait": "1s",
            "max_attempts": 1, "retry_on": ["5xx"]}]}, retry_policy="once")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        self.pg.insert(1, 2)
        wait_for(lambda: self.pg.statuses() == {"FAILED_PERMANENTLY": 2})
        letters = wait_for(lambda: len(
            rig.ask("dlqd", "dlq")["dead_letters"]) == 2 and {
            x["event_id"]: x["id"] for x in rig.ask("dlqd", "dlq")["dead_letters"]})
        events = self.events(rig)
        rig.receiver.rules()
        rig.ask("dlqd", "dlq_retry", id=letters[events["row-1"]])
        rig.ask("dlqd", "dlq_resolve", id=letters[events["row-2"]], note="done")
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 2})
        self.assertEqual(self.row("row-1")[4], "")
        self.assertEqual(self.row("row-2")[4], "resolved by a person")

    def test_nobody_is_subscribed(self):
        rig = self.pipeline(type="order.paid", start=False)
        rig.config["endpoints"][0]["types"] = ["order.shipped"]
        rig.write_config()
        rig.start()
        self.pg.insert(1, 1)
        wait_for(lambda: self.row("row-1")[0] == "FAILED_PERMANENTLY")
        self.assertIn("no_endpoint", self.row("row-1")[4])

    def test_kill_9_of_everything(self):
        """Commits are slow, so that kills hit rows that are stored and not committed yet."""
        self.pg.sql(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(0.002); RETURN NULL; END $$; "
            "CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON webhook_outbox "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
        super().test_kill_9_of_everything()

    # order, and late rows

    def test_rows_of_a_workspace_are_in_order(self):
        rig = self.pipeline(start=False, batch=7)
        rig.config["endpoints"][0]["ordered"] = "workspace"
        rig.write_config()
        self.pg.sql("ALTER TABLE webhook_outbox ADD workspace text")
        rig.start()
        for first in range(0, 90, 30):
            self.pg.insert(first, first + 29, payload="i::text",
                           more="workspace='ws-' || i % 3")
        rig.receiver.wait(count=90)
        got = [int(r.body) for r in rig.receiver.requests()]
        for w in range(3):
            mine = [n for n in got if n % 3 == w]
            self.assertEqual(mine, sorted(mine))

    def test_rows_of_a_long_transaction_come_late(self):
        rig = self.pipeline()
        session = self.pg.session()
        self.addCleanup(session.close)
        session.do("BEGIN; INSERT INTO webhook_outbox (id, payload) "
                   "VALUES ('late', '\"late\"')")
        self.pg.insert(1, 5)
        rig.receiver.wait(count=5)
        session.do("COMMIT")
        rig.receiver.wait(count=6)
        self.all_arrive(rig, ["late", *(f"row-{i}" for i in range(1, 6))])

    def test_no_transaction_stays_open(self):
        """While there is nothing to do, and while the archive is full."""
        rig = self.pipeline(poll="5m")  # else the pause may be in the middle of a poll
        self.pg.insert(1, 5)
        rig.receiver.wait(count=5)
        asked = ("SELECT count(*) FROM pg_stat_activity WHERE "
                 "application_name LIKE 'grapnel%' AND xact_start IS NOT NULL")
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 5})

        def paused_without_one():
            """If the pause came in the middle of a statement, try again."""
            rig["outbox"].pause()
            if self.pg.sql(asked) == ["0"]:
                return True
            rig["outbox"].resume()
            return False
        wait_for(paused_without_one)
        self.pg.insert(6, 9)  # even now
        self.assertEqual(self.pg.sql(asked), ["0"])
        rig["outbox"].resume()
        rig.receiver.wait(count=9)

    # the database

    def test_old_rows_are_not_read(self):
        """Each statement finds its rows by an index, as EXPLAIN shows."""
        self.pg.sql("INSERT INTO webhook_outbox (id, payload, status, last_attempt_at) "
                    "SELECT 'old-' || i, '{}', CASE i % 5 WHEN 0 THEN "
                    "'FAILED_PERMANENTLY' ELSE 'SUCCESS' END, now() - CASE WHEN i > 700 "
                    "THEN interval '1 day' ELSE interval '9 days' END "
                    f"FROM generate_series(1, {OLD_ROWS}) i; "
                    "CREATE INDEX ON webhook_outbox (last_attempt_at) "
                    "WHERE status = 'SUCCESS'; ANALYZE webhook_outbox")
        rig = self.pipeline(start=False, after_success="delete after 7d")
        self.pg.restart(session_preload_libraries="auto_explain",
                        auto_explain__log_min_duration=0)
        rig.start()
        self.pg.insert(1, 10)
        rig.receiver.wait(count=10)
        statements = {"WITH locked": "webhook_outbox_new",
                      "UPDATE": "webhook_outbox_pkey",
                      "DELETE": "last_attempt_at_idx",
                      "SELECT count": "webhook_outbox_new"}

        def plans():
            """{beginning of a statement: its plans}"""
            log = (self.pg.folder / "log").read_text()
            return {begin: [p.split("LOG:")[0] for p in
                            log.split(f"Query Text: {begin}")[1:]]
                    for begin in statements}
        wait_for(lambda: all(plans().values()), what="each statement to be run")
        for begin, index in statements.items():
            for plan in plans()[begin]:
                if "webhook_outbox" not in plan.split("\n")[0]:
                    continue  # not ours
                self.assertIn(index, plan)
                self.assertNotIn("Seq Scan", plan)

    def test_init_prints_all_that_a_relay_needs(self):
        """Its user may do only this; the SQL can be run again."""
        self.pg.sql("DROP TABLE webhook_outbox; CREATE ROLE relay LOGIN; "
                    "CREATE SCHEMA shop; CREATE TABLE secret (x int)")
        uri = self.pg.uri.replace("app@", "relay@")
        rig = self.pipeline(start=False, database=uri, table="shop.out",
                            columns={"event_id": "event", "type": "kind"})
        done = rig.cli_text("outbox", "init")
        self.assertEqual(done.returncode, 0, done.stderr)
        for _ in range(2):
            self.pg.sql(done.stdout)
        rig.start()
        self.pg.sql("INSERT INTO shop.out (id, payload) VALUES ('a', '{}')")
        wait_for(lambda: self.pg.sql("SELECT status FROM shop.out") == ["SUCCESS"])
        event, = self.events(rig).values()
        self.assertEqual(self.pg.sql("SELECT event FROM shop.out"), [event])
        self.assertIn("grapnel_outbox_new",
                      "".join(self.pg.sql("SELECT indexname FROM pg_indexes")))
        self.assertEqual(self.pg.sql(
            "SELECT has_table_privilege('relay', 'secret', 'SELECT'), "
            "has_table_privilege('relay', 'shop.out', 'DELETE')"), ["f|f"])
        self.assertIn('there is no relay "order" (did you mean orders?)',
                      rig.cli_text("outbox", "init", "order").stderr)

    def test_the_password_comes_from_a_file(self):
        """A password in the configuration is an error."""
        rig = self.pipeline(start=False,
                            database="postgresql://app:secret@/postgres")
        done = rig.cli_text("check")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("password_file", done.stderr)


if programs():
    prepare()
main(at_once=4)
