"""grapnel-outbox makes events of the rows of a MariaDB table. P1, P2."""

import contextlib
import pathlib
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from mariadb import MariaDB, programs
import relay_cases
from misbehaver import Authority
from rig import RigTest, main, wait_for


@unittest.skipUnless(programs(), "MariaDB is not installed")
class OutboxMariadb(relay_cases.ServerCases):
    """One server for all tests; each has a database of its own."""
    count = 0

    @classmethod
    def setUpClass(cls):
        cls.db = MariaDB()
        cls.addClassCleanup(cls.db.close)
        cls.db.start()

    def setUp(self):
        OutboxMariadb.count += 1
        self.db.use(f"app{OutboxMariadb.count}")
        self.addCleanup(self.db.drop)

    def database_is_killed(self):
        self.db.restart()

    kills = (database_is_killed,)

    # what is made of a row

    def test_ids_and_times_of_other_types(self):
        tables = {
            "numbers": "id BIGINT AUTO_INCREMENT PRIMARY KEY, payload BLOB, "
                       "last_attempt_at BIGINT",
            "bytes": "id BINARY(4) PRIMARY KEY, payload JSON, "
                     "last_attempt_at TIMESTAMP NULL",
            "uuids": "id UUID PRIMARY KEY DEFAULT UUID(), payload TEXT, "
                     "last_attempt_at DATETIME",
            "latin": "id CHAR(20) CHARACTER SET latin1 PRIMARY KEY, payload TEXT "
                     "CHARACTER SET latin1, last_attempt_at INT"}
        for name, columns in tables.items():
            self.db.sql(f"CREATE TABLE {name} ({columns}, status ENUM('NOT_CALLED', "
                        "'PENDING_RETRY', 'SUCCESS', 'FAILED_PERMANENTLY') NOT NULL "
                        "DEFAULT 'NOT_CALLED', error_message VARCHAR(10))")
        rig = self.rig({"outbox": [
            {"name": name, "database": self.db.uri, "retry_policy": "default",
             "table": name, "poll": "200ms"} for name in tables]})
        rig.add("outbox")
        rig.start()
        self.db.sql("INSERT INTO numbers (payload) VALUES ('{}'), ('[1]'), (NULL); "
                    "INSERT INTO bytes (id, payload) VALUES (X'00ff2710', '1'); "
                    "INSERT INTO uuids (payload) VALUES ('2'); "
                    "INSERT INTO latin (id, payload) VALUES ('größe', 'ü')")
        requests = rig.receiver.wait(count=5)
        self.assertEqual({r.body for r in requests},
                         {b"{}", b"[1]", b"1", b"2", "ü".encode()})
        for name in tables:
            wait_for(lambda: {s for s, in self.db.sql(
                f"SELECT status FROM {name} WHERE payload IS NOT NULL")} ==
                {"SUCCESS"}, what=f"the rows of {name}")
        wait_for(lambda: self.db.sql("SELECT status, error_message FROM numbers "
                                     "WHERE payload IS NULL") ==
                 [("FAILED_PERMANENTLY", "the payloa")])
        ids = {(r["source"], r["provider_id"]) for r in rig.rows(
            "sequencer", "SELECT source, provider_id FROM events")}
        uuid, = self.db.sql("SELECT id FROM uuids")[0]
        self.assertEqual(ids, {("numbers", "1"), ("numbers", "2"),
                               ("bytes", "00FF2710"), ("uuids", uuid),
                               ("latin", "größe")})
        milliseconds, = self.db.sql("SELECT last_attempt_at FROM numbers "
                                    "WHERE id = 1")[0]
        self.assertLess(abs(int(milliseconds) / 1000 - time.time()), 600)
        for name in ("bytes", "uuids"):
            self.assertEqual(self.db.sql(
                f"SELECT abs(TIMESTAMPDIFF(SECOND, last_attempt_at, NOW())) < 600 "
                f"FROM {name}"), [("1",)])

    def test_large_payloads_are_taken_in_parts(self):
        """More than a batch has, and more than the server's packet."""
        rig = self.pipeline(start=False, config={"ingress": {"max_body": "2MiB"}})
        rows = [f"row-{i:02}" for i in range(18)]
        self.db.sql("INSERT INTO webhook_outbox (id, payload) VALUES " + ", ".join(
            f"('{r}', CONCAT('\"', REPEAT('x', 1000000), '\"'))" for r in rows))
        rig.start()
        self.all_arrive(rig, rows)

    # locks

    def test_locked_rows_do_not_stop_the_others(self):
        rig = self.pipeline(start=False)
        self.insert(1, 5)
        writer = self.db.writer()
        self.addCleanup(writer.close)
        writer.do("UPDATE webhook_outbox SET target_url = NULL WHERE id = 'row-2'; "
                  "INSERT INTO webhook_outbox (id, payload) VALUES ('late', '1')")
        rig.start()
        rig.receiver.wait(count=4)
        wait_for(lambda: self.statuses() == {"SUCCESS": 4, "NOT_CALLED": 1})
        writer.commit()
        self.all_arrive(rig, ["late", *(f"row-{i}" for i in range(1, 6))])

    def test_the_application_does_not_wait_for_our_disk(self):
        """outbox cannot commit its own file, while it has taken a row; others can be written."""
        rig = self.pipeline()
        self.insert(1, 1)
        self.all_arrive(rig, ["row-1"])
        writer = self.db.writer()
        self.addCleanup(writer.close)
        with contextlib.closing(sqlite3.connect(rig.state_dir / "outbox.db",
                                                isolation_level=None)) as ours:
            # The relay's next statement waits in the server; then its loop waits for us.
            writer.tell("LOCK TABLES webhook_outbox WRITE")
            waits = ("SELECT count(*) FROM information_schema.PROCESSLIST WHERE "
                     "STATE LIKE 'Waiting for table metadata lock'")
            wait_for(lambda: self.db.sql(waits) == [("1",)])
            ours.execute("BEGIN IMMEDIATE")
            writer.tell("INSERT INTO webhook_outbox (id, payload) VALUES ('row-5', '5'); "
                        "UNLOCK TABLES")
            taken = ("SELECT count(*) FROM information_schema.INNODB_TRX WHERE "
                     "trx_rows_locked > 0")
            wait_for(lambda: self.db.sql(taken) == [("1",)])
            self.db.sql("SET innodb_lock_wait_timeout = 0; "
                        "INSERT INTO webhook_outbox (id, payload) VALUES "
                        "('row-4', '4'), ('row-6', '6'); "
                        "UPDATE webhook_outbox SET target_url = NULL "
                        "WHERE id IN ('row-1', 'row-4')")
            self.assertEqual(self.db.sql(taken), [("1",)])
            ours.execute("ROLLBACK")
        self.all_arrive(rig, ["row-1", "row-4", "row-5", "row-6"])

    # the database

    def test_a_connection_that_the_server_still_has_is_waited_for(self):
        """Rows that it has locked would be skipped, and younger ones taken first."""
        rig = self.pipeline(start=False)
        old = self.db.writer()
        self.addCleanup(old.close)
        self.insert(1, 1)
        self.assertEqual(old.do("SELECT GET_LOCK(MD5(CONCAT_WS(' ', 'grapnel', "
                                "DATABASE(), 'outbox', 'orders', "
                                "'webhook_outbox')), 0)"), ["1\n"])
        rig.start()
        wait_for(lambda: "an earlier connection of this process" in
                 rig["outbox"].log())
        self.assertEqual(self.statuses(), {"NOT_CALLED": 1})
        old.close()
        self.all_arrive(rig, ["row-1"])

    def test_check_says_what_is_missing(self):
        rig = self.pipeline(start=False, after_success="delete after 1d")
        check = lambda: rig.cli_text("outbox", "check").stdout  # noqa: E731
        self.assertIn("no index finds delivered rows", check())
        self.db.sql("CREATE INDEX old ON webhook_outbox (status, last_attempt_at)")
        self.assertEqual(check(), "orders: nothing is missing\n")
        self.db.sql("ALTER TABLE webhook_outbox ENGINE = MyISAM, "
                    "MODIFY status VARCHAR(13)")
        said = check()
        self.assertIn("engine has no transactions", said)
        self.assertIn("status FAILED_PERMANENTLY is longer than column", said)
        self.db.sql("ALTER TABLE webhook_outbox DROP PRIMARY KEY")
        self.assertIn("the column of ids has no index", check())
        self.db.sql("CREATE USER reader; GRANT SELECT ON webhook_outbox TO reader")
        self.addCleanup(self.db.sql, "DROP USER reader", database=False)
        rig.config["outbox"][0]["database"] = self.db.uri.replace("root@", "reader@")
        rig.write_config()
        said = check()
        self.assertIn("grant UPDATE", said)
        self.assertIn("grant DELETE", said)

    def test_delivered_rows_are_deleted(self):
        rig = self.pipeline(after_success="delete after 1d")
        self.db.sql("INSERT INTO webhook_outbox (id, payload, status, last_attempt_at) "
                    "VALUES ('old', '1', 'SUCCESS', NOW() - INTERVAL 2 DAY), "
                    "('young', '1', 'SUCCESS', NOW() - INTERVAL 1 HOUR), "
                    "('failed', '1', 'FAILED_PERMANENTLY', NOW() - INTERVAL 2 DAY), "
                    "('never', '1', 'SUCCESS', NULL)")
        rig["outbox"].restart()
        wait_for(lambda: {row for row, in self.db.sql(
            "SELECT id FROM webhook_outbox")} == {"young", "failed", "never"})

    def test_only_rows_of_the_relay_are_deleted(self):
        """Another worker has its rows in the same table."""
        self.db.sql("ALTER TABLE webhook_outbox ADD kind TEXT")
        rig = self.pipeline(after_success="delete after 1d",
                            where="kind = 'webhook' OR kind IS NULL")
        self.db.sql("INSERT INTO webhook_outbox (id, kind, status, last_attempt_at) "
                    "VALUES ('mail', 'mail', 'SUCCESS', NOW() - INTERVAL 2 DAY), "
                    "('ours', 'webhook', 'SUCCESS', NOW() - INTERVAL 2 DAY)")
        rig["outbox"].restart()
        wait_for(lambda: self.db.sql("SELECT id FROM webhook_outbox") == [("mail",)])

    def test_a_row_without_an_id_does_not_stop_the_others(self):
        self.db.sql("ALTER TABLE webhook_outbox DROP PRIMARY KEY, "
                    "MODIFY id VARCHAR(64) NULL UNIQUE")
        rig = self.pipeline(start=False)
        self.db.sql("INSERT INTO webhook_outbox (id, payload) VALUES (NULL, '0')")
        self.assertIn("a new row has no id", rig.cli_text("outbox", "check").stdout)
        self.insert(1, 2)
        rig.start()
        wait_for(lambda: self.statuses() == {"SUCCESS": 2, "NOT_CALLED": 1})

    def test_an_id_with_nul_is_refused(self):
        """It is not taken for another one, and as many as a batch has do not stop the others. One
        that cannot be marked is set aside."""
        rig = self.pipeline(start=False, batch=2)
        self.db.sql("DELIMITER //\n"
                    "CREATE TRIGGER no BEFORE UPDATE ON webhook_outbox FOR EACH ROW "
                    "IF OLD.payload = 'never' THEN SIGNAL SQLSTATE '45000'; END IF //\n")
        self.db.sql("INSERT INTO webhook_outbox (id, payload, status) VALUES "
                    "(CONCAT('a', CHAR(0), 'b'), '0', 'NOT_CALLED'), "
                    "(CONCAT('a', CHAR(0), 'c'), '0', 'NOT_CALLED'), "
                    "(CONCAT('a', CHAR(1), 'b'), '0', 'NOT_CALLED'), "
                    "(CONCAT('a', CHAR(0)), 'never', 'NOT_CALLED'), "
                    "(CHAR(0), '0', 'NOT_CALLED'), ('a', '1', 'CANCELLED')")
        self.insert(1, 2)
        rig.start()
        wait_for(lambda: self.statuses() == {"SUCCESS": 2, "FAILED_PERMANENTLY": 4,
                                             "NOT_CALLED": 1, "CANCELLED": 1})
        self.assertEqual(self.db.sql("SELECT DISTINCT error_message FROM webhook_outbox WHERE "
                                     "status = 'FAILED_PERMANENTLY'"),
                         [("id: has a control character",)])
        self.assertEqual(len(self.events(rig)), 2)

    def test_any_error_of_a_trigger_is_about_its_row(self):
        rig = self.pipeline(start=False)
        self.db.sql("DELIMITER //\n"
                    "CREATE TRIGGER no BEFORE UPDATE ON webhook_outbox FOR EACH ROW "
                    "IF OLD.id = 'row-2' THEN SIGNAL SQLSTATE 'SH001' SET "
                    "MYSQL_ERRNO = 31001, MESSAGE_TEXT = 'not this one'; END IF //\n")
        self.insert(1, 3)
        rig.start()
        wait_for(lambda: self.statuses() == {"SUCCESS": 2, "NOT_CALLED": 1})
        self.assertIn("not this one", rig["outbox"].log())

    def test_a_table_without_transactions_is_refused(self):
        rig = self.pipeline(start=False)
        self.insert(1, 1)
        self.db.sql("ALTER TABLE webhook_outbox ENGINE = Aria")
        rig.start()
        wait_for(lambda: "engine has no transactions" in rig["outbox"].log())
        self.assertEqual(self.statuses(), {"NOT_CALLED": 1})
        self.db.sql("ALTER TABLE webhook_outbox ENGINE = InnoDB")
        self.all_arrive(rig, ["row-1"])

    def test_old_rows_are_not_read(self):
        """The statement that takes rows finds them by the index, as EXPLAIN shows."""
        self.db.sql("INSERT INTO webhook_outbox (id, payload, status) SELECT "
                    "CONCAT('old-', seq), '{}', 'SUCCESS' FROM seq_1_to_200000")
        rig = self.pipeline()
        slow = self.db.folder / "slow"
        self.db.sql("SET GLOBAL log_slow_verbosity = 'explain', GLOBAL "
                    "long_query_time = 0, GLOBAL slow_query_log = ON")
        self.addCleanup(self.db.sql, "SET GLOBAL slow_query_log = OFF")
        rig["outbox"].restart()
        self.insert(1, 10)
        rig.receiver.wait(count=10)
        plans = [entry for entry in slow.read_text().split("# User@Host")
                 if "SKIP LOCKED" in entry]
        self.assertTrue(plans)
        for plan in plans:
            self.assertIn("\twebhook_outbox\tref\twebhook_outbox_new\twebhook_outbox_new\t",
                          plan)
            self.assertNotIn("filesort", plan)
        done = rig.cli_text("outbox", "check")
        self.assertNotIn("index", done.stdout)
        self.db.sql("DROP INDEX webhook_outbox_new ON webhook_outbox")
        self.assertIn("no index finds new rows", rig.cli_text("outbox", "check").stdout)

    def test_init_prints_all_that_a_relay_needs(self):
        """Its user may do only this; the SQL can be run again. The server becomes read-only."""
        self.db.sql("DROP TABLE webhook_outbox; CREATE USER relay IDENTIFIED BY 'it''s'; "
                    "CREATE TABLE secret (x INT)")
        self.addCleanup(self.db.sql, "DROP USER relay", database=False)
        password = self.db.folder / "password"
        password.write_text("it's\n")
        rig = self.pipeline(start=False,
                            database=self.db.uri.replace("root@", "relay@"),
                            password_file=str(password), table="out",
                            columns={"event_id": "event", "type": "kind"})
        done = rig.cli_text("outbox", "init")
        self.assertEqual(done.returncode, 0, done.stderr)
        for _ in range(2):
            self.db.sql(done.stdout)
        rig.start()
        self.db.sql("INSERT INTO `out` (id, payload) VALUES ('a', '{}')")
        wait_for(lambda: self.db.sql("SELECT status FROM `out`") == [("SUCCESS",)])
        event, = self.events(rig).values()
        self.assertEqual(self.db.sql("SELECT event FROM `out`"), [(event,)])
        grants = [g for g, in self.db.sql("SHOW GRANTS FOR relay")][1:]
        self.assertEqual(len(grants), 1)
        self.assertIn("GRANT SELECT, UPDATE ON", grants[0])
        self.db.sql("SET GLOBAL read_only = ON")
        self.addCleanup(self.db.sql, "SET GLOBAL read_only = OFF")
        self.db.sql("INSERT INTO `out` (id, payload) VALUES ('b', '{}')")
        wait_for(lambda: "--read-only" in rig["outbox"].log())
        self.db.sql("SET GLOBAL read_only = OFF")
        rig.receiver.wait(count=2)


@unittest.skipUnless(programs(), "MariaDB is not installed")
class Tls(RigTest):
    """Over TCP: the server's certificate is verified off loopback, and where `ssl_ca` is set."""

    def test_the_certificate_is_verified(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-tls-"))
        self.addCleanup(shutil.rmtree, folder)
        ours, other = Authority(folder / "ours"), Authority(folder / "other")
        host = socket.gethostname()
        certificate, key = ours.issue("server", host)
        db = MariaDB()
        self.addCleanup(db.close)
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        tcp = ("--skip-networking=0", "--bind-address=*", f"--port={port}")
        db.start(*tcp, f"--ssl-cert={certificate}", f"--ssl-key={key}")
        db.use("app")
        db.sql("CREATE TABLE loopback LIKE webhook_outbox; CREATE USER relay@'%' REQUIRE SSL; "
               "CREATE USER plain@'%'; GRANT ALL ON app.* TO relay@'%', plain@'%'")
        ca = f"?ssl_ca={ours.file('ca.pem')}"
        relays = {"right": (f"relay@{host}:{port}/app{ca}", "webhook_outbox"),
                  "loopback": (f"plain@127.0.0.1:{port}/app", "loopback"),
                  "name": (f"relay@127.0.0.1:{port}/app{ca}", "a"),
                  "authority": (f"relay@{host}:{port}/app?ssl_ca={other.file('ca.pem')}", "b"),
                  "system": (f"relay@{host}:{port}/app", "c")}
        rig = self.rig({"outbox": [
            {"name": name, "database": f"mysql://{uri}", "table": table,
             "poll": "200ms"} for name, (uri, table) in relays.items()]})
        rig.add("outbox")
        rig.start()
        for table in ("webhook_outbox", "loopback"):
            db.sql(f"INSERT INTO {table} (id, payload) VALUES ('a', '1')")
            wait_for(lambda: db.sql(f"SELECT status FROM {table}") == [("SUCCESS",)])
        found = rig.cli_text("outbox", "check").stdout
        for name in ("right", "loopback"):
            self.assertIn(f"{name}: nothing is missing", found)
        log = wait_for(lambda: (t := rig["outbox"].log()).count("cannot be used") >= 3 and t)
        for name, why in (("name", f"names 127.0.0.1 and is signed by an authority of "
                                   f"{ours.file('ca.pem')}: "),
                          ("authority", f"names {host} and is signed by an authority of "
                                        f"{other.file('ca.pem')}: "),
                          ("system", f"names {host} and is signed by an authority of "
                                     "/etc/ssl/certs/ca-certificates.crt: ")):
            line, = [x for x in log.splitlines()
                     if "cannot be used" in x and f"relay={name}" in x]
            self.assertIn(why, line)
            self.assertIn("TLS/SSL error", line)
            self.assertIn(why, found)
        self.assertIn("set `?ssl_ca=FILE` in `database`", found)
        db.kill()
        db.start(*tcp)  # without TLS
        db.sql("INSERT INTO webhook_outbox (id, payload) VALUES ('b', '1'); "
               "INSERT INTO loopback (id, payload) VALUES ('b', '1')")
        wait_for(lambda: db.sql("SELECT status FROM loopback WHERE id = 'b'") == [("SUCCESS",)])
        wait_for(lambda: [x for x in rig["outbox"].log().splitlines()
                          if "relay=right" in x and "the server must use TLS" in x])
        self.assertEqual(db.sql("SELECT status FROM webhook_outbox WHERE id = 'b'"),
                         [("NOT_CALLED",)])


main()
