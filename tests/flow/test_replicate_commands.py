"""grapnel replicate and grapnel handover, with real processes on two hosts (folders) and a real PostgreSQL server."""
import json
import pathlib
import re
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from engine_rig import Cluster
from rig import RigTest, main, wait_for
from test_replicated import STORES, Host


class Commands(RigTest):
    def hosts(self, **options):
        self.engine = Cluster(**{"standbys": 1, **options})
        self.addCleanup(self.engine.close)
        uri = self.engine.primary.uri_as("grapnel")
        a = Host("a", database=uri)
        b = Host("b", first=a, database=uri)
        for rig in (b, a):
            self.addCleanup(self._end, rig)
        return a, b

    def run_ok(self, rig, *args):
        done = rig.cli_text(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def refused(self, rig, code, text, *args):
        done = rig.cli_text(*args)
        self.assertEqual(done.returncode, code, done)
        self.assertIn(text, done.stderr)

    def status(self, rig, code=0):
        done = rig.cli_text("replicate", "status", "--json")
        self.assertEqual(done.returncode, code, done)
        return {s["process"]: s for s in json.loads(done.stdout)["stores"]}

    def events_before(self, host, count=1, end=Host.stop):
        """Ids of events that the host got and delivered without replication."""
        with host.alone():
            host.start()
            events = [host.accept() for _ in range(count)]
            for event in events:
                host.wait_status(event)
            end(host)
        return events

    def begun(self):
        """Host a has events from before the replication; b follows."""
        a, b = self.hosts()
        events = self.events_before(a, 3, Host.kill)  # with write-ahead logs that were not copied
        self.run_ok(a, "replicate", "begin")
        a.start()
        b.follow()
        return a, b, events

    def test_a_database_with_events_is_replicated_and_handed_over(self):
        """P1, P4: replication begins with what a killed process has left, and a handover loses and renumbers nothing."""
        a, b, events = self.begun()
        wait_for(lambda: a.cli_text("replicate", "status").returncode == 0, 60, "standbys")
        stores = self.status(b)
        self.assertEqual({s["active"] for s in stores.values()}, {"a"})
        self.assertEqual({h["role"] for s in stores.values() for h in s["hosts"]},
                         {"active", "standby"})
        self.assertEqual(a.cli("replicate", "status")[0]["not_begun"], [])
        text = self.run_ok(a, "replicate", "status")
        self.assertRegex(text, r"sequencer +a +active")
        self.assertIn("nothing: 1 standby can take over", text)
        self.assertRegex(a.cli_text("status").stdout, r"(?m)^PROCESS .* HOST$[\s\S]*^sequencer +up .* a$")
        self.refused(a, 1, "c is not a host that follows", "handover", "sequencer", "c")
        self.refused(a, 1, "a has sequencer already", "handover", "sequencer", "a")
        self.refused(a, 64, "not the name of a process", "handover", "deliverer-a", "b")
        for name in STORES:
            said = self.run_ok(a, "handover", name, "b")
            self.assertRegex(said, rf"{name}: b has it now, after \d+ ms")
            self.assertEqual(a[name].wait_exit(), 75)
        b.start("deliverer-b")
        self.assertEqual({s["active"] for s in self.status(b, 1).values()}, {"b"})
        event = b.accept()
        b.wait_status(event, timeout=60)
        self.assertEqual([b.trace(e)["sequence"] for e in [*events, event]], [1, 2, 3, 4])
        rows = self.run_ok(b, "audit")
        self.assertIn("handover", rows)

    def test_begin_can_be_repeated_and_refuses_another_file(self):
        """P1: a history begins once; a host with another file cannot begin it again."""
        a, b = self.hosts()
        self.assertEqual(self.status(a, 1), {})
        a.state_dir.mkdir()
        b.state_dir.mkdir()
        self.assertIn("it was never begun", self.run_ok(a, "replicate", "off", "sequencer"))
        a["dlqd"].start(wait=False)
        wait_for(lambda: "run `grapnel replicate begin` on the host" in a["dlqd"].log(), what="a reason")
        self.refused(a, 1, "dlqd is running", "replicate", "begin")
        self.assertEqual(self.status(a, 1), {})  # no other one has begun
        a["dlqd"].stop()
        self.assertIn("sequencer: replication begins", self.run_ok(a, "replicate", "begin", "sequencer"))
        self.assertRegex(a.cli_text("replicate", "status").stdout,
                         "(?s)sequencer +- +- .*sequencer: no process is active: it begins when")
        self.run_ok(a, "replicate", "begin")
        a.start()
        self.refused(a, 1, "sequencer is running", "replicate", "begin", "sequencer")
        self.refused(a, 64, "x is not the name", "replicate", "begin", "x")
        self.refused(b, 1, "and a has it", "replicate", "begin", "sequencer")
        a.stop()
        self.assertIn("has begun already", self.run_ok(a, "replicate", "begin"))

    def test_begin_finds_every_replicated_store_of_its_host(self):
        """P1: an ingress of another name replicates, too, whether `cluster.peers` names it or only its database is there."""
        a, _ = self.hosts()
        at = iter(range(7000, 8000, 10))
        a.config["cluster"]["peers"] = [
            {"name": name, "host": host, "address": f"127.0.0.1:{next(at)}", "key": f"{next(at):064x}"}
            for name, host in [("ingress-2", "a"), ("ingress-2", "b"), ("sequencer", "a"), ("sequencer", "b"),
                               ("dlqd", "b"), ("deliverer-a", "a")]]
        a.write_config()
        a.state_dir.mkdir()
        said = self.run_ok(a, "replicate", "begin")
        self.assertEqual(re.findall(r"^(\S+): replication begins", said, re.M), ["ingress-2", "sequencer"])
        (a.state_dir / "dlqd.db").symlink_to("elsewhere")
        a.config["cluster"]["peers"].append({"name": "dlqd", "host": "a", "address": f"127.0.0.1:{next(at)}", "key": f"{next(at):064x}"})
        a.write_config()
        self.refused(a, 74, "dlqd.db is a symbolic link", "replicate", "begin")
        self.assertEqual(set(self.status(a, 1)), {"ingress-2", "sequencer"})
        (a.state_dir / "dlqd.db").unlink()
        del a.config["cluster"]["peers"][-1]
        a.write_config()
        status, code = a.cli("replicate", "status")
        self.assertEqual((status["not_begun"], code), (["dlqd"], 1), "that of host b")
        table = a.cli_text("replicate", "status").stdout
        self.assertIn("dlqd: it is not replicated: `grapnel replicate begin dlqd` on its host", table)
        self.assertRegex(table, r"(?m)^ingress-2( +-)+ *$")
        self.assertRegex(table, r"(?m)^sequencer( +-)+ *$")
        sqlite3.connect(a.state_dir / "ingress-3 old.db").execute("CREATE TABLE t(v)").connection.close()
        sqlite3.connect(a.state_dir / "ingress-3.db").execute("CREATE TABLE t(v)").connection.close()
        self.run_ok(a, "replicate", "begin")
        self.assertEqual(set(self.status(a, 1)), {"ingress-2", "ingress-3", "sequencer"})
        (a.state_dir / "ingress-3.db").unlink()
        a.config["cluster"]["host"] = "c"
        a.write_config()
        self.refused(a, 78, "cluster.peers has no ingress, sequencer or dlqd on host c", "replicate", "begin")
        self.assertIn("warning: cluster.peers has no process on host c", a.cli_text("check").stderr)

    def test_a_begin_that_was_interrupted_goes_on(self):
        """P1: the position is written before the engine's row, and the repetition uses it."""
        a, _ = self.hosts()
        self.events_before(a)
        self.engine.primary.pause()
        done = a.cli_text("replicate", "begin", "sequencer", timeout=120)
        self.assertEqual(done.returncode, 69, done)
        self.engine.primary.resume()
        self.engine.primary.sql("REVOKE INSERT ON grapnel.owner FROM grapnel")
        self.refused(a, 69, "repeat this command", "replicate", "begin", "sequencer")
        position = (a.state_dir / "sequencer.db-position").read_bytes()
        self.engine.primary.sql("GRANT INSERT ON grapnel.owner TO grapnel")
        self.run_ok(a, "replicate", "begin")
        self.assertEqual((a.state_dir / "sequencer.db-position").read_bytes(), position)
        a.start()
        self.assertEqual(a.sequence(a.accept()), 2)

    def test_off_leaves_the_file_with_its_host(self):
        """P1: replication ends only where the newest file is, and the pipeline goes on without it."""
        a, b, events = self.begun()
        self.refused(a, 1, "is running", "replicate", "off", "sequencer")
        b.kill("sequencer")
        self.refused(b, 1, "is active on a", "replicate", "off", "sequencer")
        b.follow("sequencer")
        a.stop()
        for name in STORES:
            wait_for(b[name].up, 60, f"{name} of b to own its store")
        b.start("deliverer-b")
        event = b.accept()
        b.wait_status(event, timeout=60)
        self.refused(a, 1, "and b had it last", "replicate", "off", "sequencer")
        self.refused(a, 1, "is replicated: end that first", "restore", str(a.state_dir))
        b.stop()
        self.run_ok(b, "replicate", "off", *STORES)
        self.assertIn("is not replicated", self.run_ok(b, "replicate", "off", "sequencer"))
        self.refused(a, 1, "was ended already", "replicate", "off", "sequencer")
        self.refused(b, 1, "is not replicated on this host", "replicate", "off", "sequencer",
                     "--standbys-are-stopped")
        self.assertEqual(self.status(b, 1), {})
        del b.config["replicate"]
        b.write_config()
        b.start()
        last = b.accept()
        b.wait_status(last)
        self.assertEqual([b.trace(e)["sequence"] for e in [*events, event, last]],
                         [1, 2, 3, 4, 5])

    def test_a_history_that_was_begun_by_mistake_ends_unused(self):
        """P1: an empty beginning on the wrong host does not keep the host with the data from beginning."""
        a, b = self.hosts()
        self.events_before(a)
        b.state_dir.mkdir()
        self.run_ok(b, "replicate", "begin")
        self.refused(a, 1, "run `grapnel replicate off sequencer` first", "replicate", "begin", "sequencer")
        self.run_ok(a, "replicate", "off", *STORES)
        self.run_ok(a, "replicate", "begin")
        a.start()
        self.assertEqual(a.sequence(a.accept()), 2)

    def test_a_restored_backup_begins_a_new_series(self):
        """P4: replication that begins with a restored copy treats it as one: numbers that receivers may have seen are of another series."""
        a, b = self.hosts()
        with a.alone():
            a.start()
            first = a.accept()
            a.wait_status(first)
            backup = a.folder / "backup"
            self.run_ok(a, "backup", str(backup))
            a.wait_status(a.accept())
            a.stop()
            self.assertEqual(a.cli_text("restore", str(backup)).returncode, 0)
        self.run_ok(a, "replicate", "begin")
        a.start()
        wait_for(lambda: "this database is a restored copy" in a["sequencer"].log(),  # the sockets are bound before
                 what="the sequencer to say so")
        event = a.accept()
        series = {r.headers["grapnel-series"] for e in (first, event) for r in a.receiver.wait(e, timeout=60)}
        self.assertEqual(len(series), 2)

    def test_a_lost_engine_does_not_hold_the_file(self):
        """P1: with the engine gone for good, the operator says so, and the host goes on alone."""
        a, b, events = self.begun()
        b.kill()
        a.kill()
        self.engine.close()
        self.refused(a, 69, "the replication database", "replicate", "off", "sequencer")
        self.run_ok(a, "replicate", "off", *STORES, "--standbys-are-stopped")
        del a.config["replicate"]
        a.write_config()
        a.start()
        event = a.accept()
        a.wait_status(event)
        self.assertEqual([a.trace(e)["sequence"] for e in [*events, event]], [1, 2, 3, 4])

    def check(self, rig, code=0):
        """What `grapnel check` prints about the replication database."""
        done = rig.cli_text("check", "--json")
        self.assertEqual(done.returncode, code, done)
        said = json.loads(done.stdout)
        self.assertEqual(said["ok"], code == 0)
        lines = said["warnings" if said["ok"] else "errors"]
        text = rig.cli_text("check")
        self.assertEqual(text.returncode, code)
        for line in lines:
            self.assertIn(re.sub(r"\d+ ms", "N ms", line), re.sub(r"\d+ ms", "N ms", text.stderr))
        return "\n".join(line for line in lines if "audit.key" not in line)

    def test_check_connects_to_the_replication_database(self):
        """What keeps processes from working, or can lose data, is an error; what may end by itself is a warning."""
        a, _ = self.hosts()
        primary, (standby,) = self.engine.primary, self.engine.standbys
        self.assertEqual(self.check(a), "")
        standby.kill()
        wait_for(lambda: "replicate.database: warning: no synchronous standby is connected" in self.check(a))
        primary.set(synchronous_standby_names="")
        weak = "synchronous_standby_names is empty"
        self.assertRegex(self.check(a, 78), rf"{weak}.*set accept_weak_durability")
        a.config["replicate"]["accept_weak_durability"] = True
        a.write_config()
        self.assertRegex(self.check(a), rf"warning: {weak}.*accept_weak_durability permits it")
        primary.sql("REVOKE USAGE ON SCHEMA grapnel FROM grapnel")
        self.assertRegex(self.check(a, 78), 'the role "grapnel" may not use the tables')
        primary.sql("DROP SCHEMA grapnel CASCADE")
        self.assertRegex(self.check(a, 78), r'"postgres" has no tables.*grapnel replicate init \| psql')
        primary.pause()
        self.assertRegex(self.check(a), "replicate.database: warning: it cannot be checked: .*within")
        primary.resume()
        primary.kill()
        self.assertRegex(self.check(a), "replicate.database: warning: it cannot be checked: cannot connect")
        del a.config["replicate"]
        a.write_config()
        self.assertEqual(self.check(a), "")

    def test_a_weak_engine_is_refused_and_reported(self):
        """P1: an engine that can lose what it has acknowledged ends the start, unless the operator accepts it."""
        a, b = self.hosts(standbys=0)
        a.state_dir.mkdir()
        done = a.cli_text("replicate", "begin", "sequencer")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("synchronous_standby_names is empty", done.stderr)
        a["sequencer"].start(wait=False)
        self.assertEqual(a["sequencer"].wait_exit(), 69)
        self.assertIn("accept_weak_durability", a["sequencer"].log())
        a.config["replicate"]["accept_weak_durability"] = True
        a.write_config()
        self.run_ok(a, "replicate", "begin")
        a.start()
        a.wait_status(a.accept())
        done = a.cli_text("replicate", "status")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(re.search("synchronous_standby_names is empty", done.stdout), done)
        b.config["replicate"]["accept_weak_durability"] = True
        b.write_config()
        b.follow()
        store = self.status(a, 1)["sequencer"]
        could = "what the database has acknowledged and could lose: synchronous_standby_names is empty"
        self.assertEqual((store["safe"], store["lost_now"][:len(could)]), (False, could))
        done = a.cli_text("replicate", "status")
        self.assertIn(f"sequencer: {could}", done.stdout)
        self.assertNotIn("nothing", done.stdout)


if __name__ == "__main__":
    main()
