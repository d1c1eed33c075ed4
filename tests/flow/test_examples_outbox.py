"""The programs of examples/outbox: an order and the webhook about it are stored together, or
neither is. P1.

Each is built once. A language whose tools are missing is skipped, with the reason.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from postgres import OverTcp, programs
from rig import ROOT, Ports, RigTest, die_with_parent, main, wait_for

EXAMPLES = ROOT / "examples" / "outbox"
UNPACKED = ROOT / "build" / "debian" / "usr" / "share"  # by tools/deps test
QUIET_JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]


class Missing(Exception):
    """A tool that a language needs."""


def tool(*names):
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise Missing(f"{names[0]} is not installed (tools/deps test)")


def folder_of(*places):
    for place in places:
        if place.exists():
            return place
    raise Missing(f"{places[0]} is not there (tools/deps test)")


def jars(*names):
    """Debian's: spring3-core.jar in one release, spring-core.jar in another."""
    found = []
    for name in names:
        there = sorted(glob.glob(f"/usr/share/java/{name}.jar"))
        if not there:
            raise Missing(f"/usr/share/java/{name}.jar is not installed (tools/deps test)")
        found.append(there[0])
    return ":".join(found)


class Program:
    """One example: what builds it, in `folder`, and what runs it."""

    def __init__(self, name, folder, build=None, run=None, env=None, uri=None):
        self.name, self.folder, self.missing = name, folder / name, None
        self.folder.mkdir()
        self.child, self.env, self.uri = None, {}, uri
        try:
            self.env = {k: str(v) for k, v in (env(self) if env else {}).items()}
            self.command = run(self)
            if build:
                self.child = self.start(build(self))
        except Missing as reason:
            self.missing = str(reason)

    def start(self, command, **env):
        return subprocess.Popen(
            command, cwd=self.folder, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=die_with_parent,
            env={**os.environ, "HOME": str(self.folder), **self.env, **env})

    def run(self, database, *args):
        """Starts it: `database` has the URI's end."""
        self.child = self.start([*self.command, *args],
                                DATABASE_URL=(self.uri or "postgresql://app@%s") % database)

    def end(self):
        """A program that a failed test left running."""
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()
        self.child.stderr.close()

    def ended(self):
        """(exit code, what it printed)"""
        out, error = self.child.communicate(timeout=120)
        return self.child.returncode, out + error


def java(name, *libraries):
    def classes(self):
        return f"{self.folder}:{jars('postgresql', *libraries)}"

    return {
        "name": name,
        "build": lambda self: [
            tool("ecj", "javac"), "-proc:none", "-source", "11", "-target", "11", "-nowarn",
            "-cp", classes(self), "-d", str(self.folder),
            str(EXAMPLES / name / "PlaceOrder.java")],
        "run": lambda self: [tool("java"), *QUIET_JVM, "-cp", classes(self), "PlaceOrder"],
        "uri": "jdbc:postgresql://%s&user=app",
    }


def sqlalchemy(self):
    done = subprocess.run(["/usr/bin/python3", "-c", "import sqlalchemy, psycopg2"],
                          capture_output=True)
    if done.returncode:
        raise Missing("SQLAlchemy and psycopg2 are not installed (tools/deps test)")
    return ["/usr/bin/python3", str(EXAMPLES / "sqlalchemy" / "place_order.py")]


def libpq(self):
    flags = subprocess.run([tool("pkg-config"), "--cflags", "--libs", "libpq"],
                           capture_output=True, text=True, check=True).stdout.split()
    return [tool("cc"), "-Wall", "-Wextra", "-Werror", "-o", "place_order",
            str(EXAMPLES / "c" / "place_order.c"), *flags]


def go(self):
    """Debian's own first: it has a compiled standard library."""
    place = pathlib.Path("/usr/lib/go/bin/go")
    return str(place) if place.exists() else tool("go")


PROGRAMS = [
    {"name": "c", "build": libpq, "run": lambda self: [str(self.folder / "place_order")]},
    {"name": "go",
     "build": lambda self: [go(self), "build", "-o", "place_order",
                            str(EXAMPLES / "go" / "place_order.go")],
     "run": lambda self: [str(self.folder / "place_order")],
     "env": lambda self: {
         "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOCACHE": self.folder / "cache",
         "GOPATH": folder_of(UNPACKED / "gocode", pathlib.Path("/usr/share/gocode"))}},
    java("jdbc"),
    {"name": "node",
     "run": lambda self: [tool("node", "nodejs"), str(EXAMPLES / "node" / "place-order.js")],
     "env": lambda self: {"NODE_PATH": folder_of(
         UNPACKED / "nodejs" / "pg", pathlib.Path("/usr/share/nodejs/pg")).parent}},
    java("spring", "spring*-core", "spring*-beans", "spring*-jdbc", "spring*-transaction",
         "commons-logging"),
    {"name": "sqlalchemy", "run": sqlalchemy},
]


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Examples(RigTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-examples-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        # All are built at the same time.
        cls.programs = [Program(folder=cls.folder, **p) for p in PROGRAMS]
        for program in cls.programs:
            if program.child:
                code, said = program.ended()
                assert code == 0, f"{program.name}: {said}"

    def setUp(self):
        ports = Ports()
        self.addCleanup(ports.close)
        self.pg = OverTcp(ports.take())
        self.addCleanup(self.pg.close)
        self.pg.start()
        self.database = f"127.0.0.1:{self.pg.port}/postgres?sslmode=disable"

    def pipeline(self):
        """With the tables of the examples; the outbox is as `grapnel outbox init` prints it."""
        rig = self.rig({"outbox": [{
            "name": "shop", "database": self.pg.uri, "poll": "200ms",
            "columns": {"type": "event_type", "workspace": "workspace"}}]})
        done = rig.cli_text("outbox", "init")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.pg.sql(done.stdout)
        self.pg.sql((EXAMPLES / "orders.sql").read_text())
        rig.add("outbox")
        return rig.start()

    def usable(self):
        """The programs whose tools are here. Says which are skipped, and why."""
        for program in self.programs:
            with self.subTest(program.name):
                if program.missing:
                    self.skipTest(program.missing)
        found = [p for p in self.programs if not p.missing]
        if not found:
            self.skipTest("no tool of any language is installed")
        return found

    def begin(self, *args):
        used = self.usable()
        for program in used:
            program.run(self.database, *args)
            self.addCleanup(program.end)
        return used

    def nothing_leaves(self, rig):
        """Neither an order nor a webhook is there; a row that follows is the first to be sent."""
        self.assertEqual(self.pg.sql("SELECT count(*) FROM orders"), ["0"])
        self.assertEqual(self.pg.statuses(), {})
        self.pg.sql("INSERT INTO webhook_outbox (id, payload) VALUES ('last', '{}')")
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 1})
        rig.settle()
        self.assertEqual([r.body for r in rig.receiver.requests()], [b"{}"])

    def test_a_committed_order_is_sent(self):
        rig = self.pipeline()
        orders = set()
        for program in self.begin():
            code, said = program.ended()
            self.assertEqual(code, 0, f"{program.name}: {said}")
            orders.add(int(said.split()[1]))
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": len(orders)}, 30)
        rig.settle()
        requests = rig.receiver.requests()
        self.assertEqual({r.json()["order"]: r.json() for r in requests},
                         {n: {"order": n, "customer": "acme", "total": 4200} for n in orders})
        self.assertEqual(len(requests), len(orders))
        self.assertEqual(set(self.pg.sql("SELECT id FROM orders")), {str(n) for n in orders})
        self.assertEqual(
            {(e["type"], e["workspace"]) for e in rig.rows(
                "sequencer", "SELECT type, workspace FROM events WHERE source = 'shop'")},
            {("order.placed", "acme")})

    def test_an_order_that_is_rolled_back_is_not_sent(self):
        rig = self.pipeline()
        for program in self.begin("declined"):
            code, said = program.ended()
            self.assertNotEqual(code, 0, f"{program.name}: {said}")
            self.assertIn("the payment was declined", said, program.name)
        self.nothing_leaves(rig)

    def test_a_program_that_is_killed_between_the_statements(self):
        """The second one waits for a lock meanwhile."""
        rig = self.pipeline()
        lock = self.pg.session()
        self.addCleanup(lock.close)
        lock.do("BEGIN; LOCK TABLE webhook_outbox IN SHARE ROW EXCLUSIVE MODE")
        used = self.begin()
        inside = ("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                  "AND query LIKE 'INSERT INTO webhook_outbox%'")
        wait_for(lambda: self.pg.sql(inside) == [str(len(used))], 60,
                 "all programs to wait")
        for program in used:
            program.child.kill()
            program.child.wait()
        lock.do("COMMIT")
        wait_for(lambda: self.pg.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE client_port > 0") == ["0"],
            what="their connections to end")
        self.nothing_leaves(rig)


main()
