"""grapnel replicate begin and off, killed at each of their steps: the same command goes on, and no start becomes a second owner. A real PostgreSQL server."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from engine_rig import Cluster
from rig import RigTest, main, program, wait_for
from test_replicated import Host

KILLED, UNAVAILABLE = -9, 69
TABLES = "owner", "log", "node", "snapshot"
STORE = "sequencer"


class Kills(RigTest):
    def hosts(self):
        self.engine = Cluster(standbys=1)
        self.addCleanup(self.engine.close)
        uri = self.engine.primary.uri_as("grapnel")
        a = Host("a", database=uri)
        b = Host("b", first=a, database=uri)
        for rig in (b, a):
            self.addCleanup(self._end, rig)
        return a, b

    def sql(self, *statements):
        return self.engine.primary.sql("; ".join(statements))

    def save(self, *hosts):
        """What the stopped hosts and the engine have now."""
        self.saved = {}
        for host in hosts:
            self.saved[host] = host.folder / "saved"
            shutil.copytree(host.state_dir, self.saved[host])
        self.sql(*(f"CREATE TABLE saved_{t} AS SELECT * FROM grapnel.{t}" for t in TABLES))

    def restore(self):
        for host, saved in self.saved.items():
            shutil.rmtree(host.state_dir)
            shutil.copytree(saved, host.state_dir)
        self.sql(*(f"DELETE FROM grapnel.{t}" for t in TABLES),
                 *(f"INSERT INTO grapnel.{t} SELECT * FROM saved_{t}" for t in TABLES))

    def is_killed(self, host, call, n, *args):
        """Runs a command that is killed instead of making its nth call of this kind. false: it makes fewer."""
        hit = host.folder / "hit"
        hit.unlink(missing_ok=True)
        done = host.cli_text("replicate", *args, env={
            "LD_PRELOAD": program("rig-faults.so"), "RIG_FAULT": f"{call}:-9:{n}", "RIG_FAULT_HIT": str(hit),
            "RIG_FAULT_FILES": str(host.state_dir),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"})
        self.assertEqual(done.returncode, KILLED if hit.exists() else 0, done)
        return hit.exists()

    def each_kill(self, host, calls, *args):
        """After each kill: (which one, whether the file has a position, whether the engine has the store)."""
        for call in calls:
            n = 1
            while True:
                self.restore()
                if not self.is_killed(host, call, n, *args):
                    break
                print(f"{call} {n}", end=", ", file=sys.stderr, flush=True)  # the last one has failed, if any
                self.wait_quiet()
                yield f"{call} {n}", self.has_position(host), self.owners() == 1
                n += 1
            self.assertGreater(n, 1, call)

    def wait_quiet(self):
        """A transaction of the killed command ends after it."""
        wait_for(lambda: self.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'grapnel'") == ["0"],
                 what="the engine to end the connections of the killed command")

    def position(self, host):
        path = host.state_dir / f"{STORE}.db-position"
        return path.read_bytes() if path.exists() else b""

    def has_position(self, host):
        return b"GRAPNELP" in self.position(host)

    def owners(self):
        return int(self.sql(f"SELECT count(*) FROM grapnel.owner WHERE process = '{STORE}'")[0])

    def run_ok(self, host, *args):
        done = host.cli_text("replicate", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def does_not_own(self, host):
        """A start of it waits."""
        said = len(host[STORE].log())
        host[STORE].start(wait=False)
        wait_for(lambda: "replication was not begun for this process" in host[STORE].log()[said:],
                 what="the start to say what is missing")
        self.assertFalse(host[STORE].responds())
        host[STORE].stop()

    def owns(self, host, events):
        """It starts as the owner, with these events."""
        host.start(STORE)
        self.assertEqual([host.trace(e)["sequence"] for e in events], list(range(1, len(events) + 1)))
        host[STORE].stop()

    def test_begin_is_killed_at_each_step(self):
        """P1, P4: the repetition begins the same history once, with all that the file has."""
        a, b = self.hosts()
        with a.alone():
            a.start()
            events = [a.accept() for _ in range(3)]
            for event in events:
                a.wait_status(event)
            a.kill()  # with a write-ahead log that was not copied
        self.save(a)
        seen = {}
        for what, has_position, has_row in self.each_kill(a, ("open", "write", "sync", "send", "receive"), "begin", STORE):
            first = (has_position, has_row) not in seen
            seen.setdefault((has_position, has_row), []).append(what)
            if first and has_position and not has_row:
                self.does_not_own(a)
            position = self.position(a)
            said = self.run_ok(a, "begin", STORE)
            self.assertIn("replication has begun already" if has_row else "replication begins", said)
            if has_position:
                self.assertEqual(self.position(a), position)
            self.assertIn("replication has begun already", self.run_ok(a, "begin", STORE))
            self.assertEqual(self.owners(), 1)
            if first:
                self.owns(a, events)
        print(seen, file=sys.stderr)
        self.assertEqual(set(seen), {(False, False), (True, False), (True, True)})

    def test_off_is_killed_at_each_step(self):
        """P1, P4: the file stays with its host, and the store with the engine until nobody else may own it."""
        a, b = self.hosts()
        self.run_begin(a)
        a.start()
        events = [a.accept() for _ in range(3)]
        for event in events:
            a.wait_status(event)
        b.follow(STORE)
        b.stop()
        a.stop()
        self.save(a, b)
        seen = {}
        for what, has_position, has_row in self.each_kill(a, ("open", "sync", "send", "receive"), "off", STORE):
            first = (has_position, has_row) not in seen
            seen.setdefault((has_position, has_row), []).append(what)
            if has_row:
                self.assertTrue(has_position)
                if first:
                    self.owns(a, events)
                self.run_ok(a, "off", STORE)
            elif has_position:
                if first:
                    self.does_not_own(a)
                    self.does_not_own(b)
                for host in (a, b):  # b's may be older, and a's has its history
                    done = host.cli_text("replicate", "begin", STORE)
                    self.assertEqual(done.returncode, 1, done)
                    self.assertIn("of a history that has ended", done.stderr)
                done = a.cli_text("replicate", "off", STORE)
                self.assertEqual(done.returncode, 1, done)
                self.assertIn(f"repeat this with `grapnel replicate off {STORE} --standbys-are-stopped`", done.stderr)
                self.run_ok(a, "off", STORE, "--standbys-are-stopped")
            self.assertFalse(self.has_position(a))
            self.assertEqual(self.owners(), 0)
            self.assertIn("is not replicated", self.run_ok(a, "off", STORE))
            if first:
                with a.alone():
                    self.owns(a, events)
        print(seen, file=sys.stderr)
        self.assertEqual(set(seen), {(True, True), (True, False), (False, False)})

    def run_begin(self, host):
        host.state_dir.mkdir()
        self.run_ok(host, "begin")

    def test_off_of_several_stores_goes_on(self):
        """P1: stores whose replication has ended before the kill do not keep the others from it."""
        a, _ = self.hosts()
        self.run_begin(a)
        a.start()
        event = a.accept()
        a.wait_status(event)
        a.stop()
        self.run_ok(a, "off", "ingress")
        self.run_ok(a, "off", "ingress", STORE, "dlqd")
        with a.alone():
            a.start()
            self.assertEqual([a.sequence(e) for e in (event, a.accept())], [1, 2])


if __name__ == "__main__":
    main()
