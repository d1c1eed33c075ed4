"""The libraries of receivers/: their own tests with real databases, their packages, and the
programs of their READMEs behind a real pipeline. P4, P7."""

import base64
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import redis_server
from between import Between, value
from postgres import OverTcp, Postgres, prepare, programs
from rig import BUILD, ROOT, Ports, Process, RigTest, main, wait_for

RECEIVERS = ROOT / "receivers"
PYTHON = "/usr/bin/python3"
NODE = shutil.which("node") or shutil.which("nodejs")
UNPACKED = ROOT / "build" / "debian" / "usr"  # by tools/deps test
GO = "/usr/lib/go/bin/go"  # Debian's: it has a compiled standard library
GOCODE = next((p for p in (UNPACKED / "share/gocode", pathlib.Path("/usr/share/gocode"))
               if (p / "src/github.com/lib/pq").exists()), None)
JARS = ROOT / "build" / "java" / "classpath"  # by tools/deps test
NODE_ENV = {"NODE_PATH": ":".join(map(str, [
    UNPACKED / "share/nodejs", *UNPACKED.glob("lib/*/nodejs"), "/usr/share/nodejs"]))}
OLD = "whsec_" + base64.b64encode(b"the secret on its way out").decode()
NEW = "whsec_" + base64.b64encode(b"the secret on its way in").decode()
TABLE = """
CREATE TABLE issues (event_id TEXT PRIMARY KEY, type TEXT, body TEXT, said TEXT);
CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.body LIKE '%wait here%' THEN PERFORM pg_advisory_xact_lock(1); END IF;
  RETURN NEW; END $$;
CREATE TRIGGER wait_for_test AFTER INSERT ON issues
  FOR EACH ROW EXECUTE FUNCTION wait_for_test();
"""


def can_import(*modules):
    return subprocess.run([PYTHON, "-c", f"import {','.join(modules)}"],
                          capture_output=True).returncode == 0


class Servers(RigTest):
    """PostgreSQL and Redis."""

    def make_postgres(self):
        return Postgres()

    def make_redis(self):
        return redis_server.Redis()

    def database(self, pg):
        """As the language names it."""
        return pg.uri

    def postgres(self):
        pg = self.make_postgres()
        self.addCleanup(pg.close)
        return pg.start()

    def servers(self):
        """Variables for the libraries' tests. What is not installed, they skip."""
        env = {}
        if programs():
            env["GRAPNEL_TEST_POSTGRES"] = self.database(self.postgres())
        if redis_server.program():
            redis = self.make_redis()
            self.addCleanup(redis.close)
            env["GRAPNEL_TEST_REDIS"] = redis.uri
        return env

    def temporary(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-receivers-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def passes(self, command, **how):
        done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, **how)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout


class Example(Process):
    """The program of a README."""

    def __init__(self, rig, command, port, env):
        self.port, self.variables = port, env
        super().__init__(rig, "example", command)

    def start(self, secrets):
        self.spawn({**self.variables, "WEBHOOK_SECRETS": secrets})
        wait_for(self.responds, what="the example to listen")
        return self

    def ask(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())

    def responds(self):
        with contextlib.suppress(OSError):
            return self.ask("/missing") is not None
        return False


class Behind(Servers):
    """Each language, with PostgreSQL: `command()` makes the program of the README."""

    def began(self, secrets=OLD):
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "exponential", "first_wait": "20ms", "factor": 2,
            "max_wait": "300ms", "jitter": "full", "max_attempts": 1000, "max_duration": "1h",
            "retry_on": ["network", 401, 408, 425, 429, "5xx"], "respect_retry_after": False}]})
        self.pg = self.postgres()
        self.pg.sql(TABLE)
        port = rig.ports.take()
        self.between = Between(port)
        self.addCleanup(self.between.close)
        rig.config["endpoints"] = [{
            **rig.endpoint("crm", signing_secrets=[OLD], breaker=False),
            "url": self.between.url}]
        rig.write_config()
        self.example = Example(rig, self.command(rig.folder, port), port,
                               {**self.env(), "DATABASE_URL": self.database(self.pg)})
        rig.others.append(self.example)
        self.example.start(secrets)
        return rig.start()

    def said(self, event):
        return self.pg.sql(f"SELECT said FROM issues WHERE event_id = '{event}'")

    def one(self, rig, said, body=None):
        """An accepted event, when it has been processed."""
        event = rig.accept(body or rig.plane_body("w"))
        wait_for(lambda: self.said(event), what=f"{event} to be processed")
        self.assertEqual(self.said(event), [said])
        return event

    def missing(self):
        return [(m["workspace"], m["number"]) for m in self.example.ask("/missing")]

    def again(self, rig, event, count):
        """Sent once more, and answered."""
        self.assertEqual(rig.cli("resend", event)[1], 0)
        wait_for(lambda: sum(value(h, "webhook-id") == event
                             for h, _ in self.between.seen) > count)
        rig.wait_status(event)

    def test_p4_each_event_once_and_what_its_number_says(self):
        rig = self.began()
        between = self.between
        first = self.one(rig, "ok")
        with self.subTest("a duplicate"):
            rig.wait_status(first)
            self.again(rig, first, 1)
            self.assertEqual(self.said(first), ["ok"])
        with self.subTest("lost: something responded 200 in the receiver's place"):
            between.rule = lambda h, b: 200
            lost = rig.accept(rig.plane_body("w"))
            rig.wait_status(lost)
            between.rule = between.forward
            self.one(rig, "gap_detected")
            self.assertEqual(self.missing(), [("w", 2)])
            self.again(rig, lost, 1)
            wait_for(lambda: self.said(lost) == ["old_event"])
            self.assertEqual(self.missing(), [])
        with self.subTest("kill -9 after the work, before the commit"):
            session = self.pg.session()
            self.addCleanup(session.close)
            session.do("SELECT pg_advisory_lock(1)")
            event = rig.accept(rig.plane_body("w", note="wait here"))
            wait_for(lambda: self.pg.sql(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
            self.example.kill()
            session.do("SELECT pg_advisory_unlock(1)")
            wait_for(lambda: not self.pg.sql(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"))
            self.example.start(OLD)
            wait_for(lambda: self.said(event) == ["ok"])
        with self.subTest("the database is restarted"):
            self.pg.kill()
            event = rig.accept(rig.plane_body("w"))
            wait_for(lambda: any(value(h, "webhook-id") == event for h, _ in between.seen))
            self.pg.restart()
            wait_for(lambda: self.said(event) == ["ok"], timeout=30)
        with self.subTest("a changed request"):
            count = len(between.seen)
            between.rule = lambda h, b: between.forward(h, b + b" ")
            event = rig.accept(rig.plane_body("w"))
            wait_for(lambda: len(between.seen) > count)
            between.rule = between.forward
            wait_for(lambda: self.said(event) == ["ok"])
            headers, body = between.request(event)
            self.assertEqual(between.forward(headers, body + b" "), 401)
            self.assertEqual(between.forward(headers, body), 204)
        with self.subTest("the secret is changed"):
            self.example.kill()
            self.example.start(f"{NEW} {OLD}")
            rig.config["endpoints"][0]["signing_secrets"] = [NEW, OLD]
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            self.one(rig, "ok")
            self.example.kill()
            self.example.start(NEW)
            self.one(rig, "ok")
        self.assertEqual(self.missing(), [])
        with self.subTest("a restore begins a new series"):
            rig.settle()
            backup = rig.folder / "backup"
            self.assertEqual(rig.cli("backup", backup)[1], 0)
            self.one(rig, "ok")
            rig.settle()
            rig.stop()
            done = rig.cli_text("restore", backup)
            self.assertEqual(done.returncode, 0, done)
            rig.start()
            self.one(rig, "new_series")
            self.one(rig, "ok")
            self.assertEqual(self.missing(), [])

    def test_p4_kills_lose_and_repeat_nothing(self):
        """Without `ordered`: requests run beside each other, and some arrive twice."""
        rig = self.began()
        between, events = self.between, []
        between.rule = lambda h, b: (between.forward(h, b), between.forward(h, b))[
            len(between.seen) % 2]
        for n in range(60):
            events.append(rig.accept(rig.plane_body(f"w{n % 3}")))
            if n % 20 == 10:
                self.example.kill()
                self.example.start(OLD)
            if n % 20 == 15:
                rig["deliverer-1"].kill()
                rig.start("deliverer-1")
        for event in events:
            rig.wait_status(event, timeout=60)
        self.assertEqual(sorted(self.pg.sql("SELECT event_id FROM issues")), sorted(events))
        self.assertEqual(self.missing(), [])


class Python(Behind):
    FOLDER = RECEIVERS / "python"

    def setUp(self):
        if not programs() or not can_import("fastapi", "uvicorn", "psycopg2"):
            self.skipTest("PostgreSQL, FastAPI, uvicorn or psycopg2 is not installed (tools/deps "
                          "test)")

    def env(self):
        return {"PYTHONPATH": str(self.FOLDER)}

    def command(self, folder, port):
        [program] = re.findall(r"\n```python\n(.*?)\n```\n",
                               (self.FOLDER / "README.md").read_text(), re.S)
        (folder / "app.py").write_text(program + "\n")
        [line] = re.findall("uvicorn (app:app .*)", (self.FOLDER / "README.md").read_text())
        return [PYTHON, "-m", "uvicorn", *line.replace("3000", str(port)).split()]


class Node(Behind):
    FOLDER = RECEIVERS / "node"

    def setUp(self):
        if not programs() or not NODE or not all(
                (UNPACKED / "share/nodejs" / name).exists() for name in ("express", "pg")):
            self.skipTest("PostgreSQL, Node.js, Express or pg is not installed (tools/deps test)")

    def env(self):
        return NODE_ENV

    def command(self, folder, port):
        [program] = re.findall(r"\n```js\n(.*?)\n```\n",
                               (self.FOLDER / "README.md").read_text(), re.S)
        (folder / "app.js").write_text(program.replace("listen(3000)", f"listen({port})"))
        # What `npm install` would do.
        (folder / "node_modules").mkdir()
        (folder / "node_modules" / "grapnel-receiver").symlink_to(self.FOLDER)
        return [NODE, str(folder / "app.js")]


def go_env(folder):
    """Without modules: Debian's libraries, and ours under its name."""
    place = folder / "go/src/grapnel"
    place.mkdir(parents=True)
    (place / "receiver").symlink_to(RECEIVERS / "go")
    return {**os.environ, "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "",
            "GOCACHE": str(BUILD / "go-cache"), "GOPATH": f"{folder / 'go'}:{GOCODE}"}


class Go(Behind):
    def setUp(self):
        if not programs() or not os.path.exists(GO) or not GOCODE:
            self.skipTest("PostgreSQL, Go or lib/pq is not installed (tools/deps test)")

    def env(self):
        return {}

    def command(self, folder, port):
        [program] = re.findall(r"\n```go\n(.*?)\n```\n",
                               (RECEIVERS / "go/README.md").read_text(), re.S)
        (folder / "main.go").write_text(program.replace(":3000", f":{port}") + "\n")
        self.passes([GO, "build", "-o", folder / "example", folder / "main.go"],
                    cwd=folder, env=go_env(folder))
        return [str(folder / "example")]


@unittest.skipUnless(os.path.exists(GO) and GOCODE, "Go or lib/pq is not there (tools/deps test)")
class GoLibrary(Servers):
    def test_its_own_tests(self):
        sqlite = (GOCODE / "src/github.com/mattn/go-sqlite3").exists()
        self.passes([GO, "test", "-vet", "all", "-tags", "drivers libsqlite3" if sqlite else "", "."], cwd=RECEIVERS / "go",
                    env={**go_env(self.temporary()), **self.servers()})
        self.assertEqual((RECEIVERS / "go/LICENSE").read_text(), (ROOT / "LICENSE").read_text())


class OnPorts:
    """Servers for drivers of Java, which have no Unix sockets."""

    def port(self):
        ports = Ports()
        self.addCleanup(ports.close)
        return ports.take()

    def make_postgres(self):
        return OverTcp(self.port())

    def make_redis(self):
        return redis_server.Redis(self.port())

    def database(self, pg):
        return f"jdbc:postgresql://127.0.0.1:{pg.port}/postgres?user=app&sslmode=disable"


QUIET_JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]


class Java(OnPorts, Behind):
    FOLDER = RECEIVERS / "java"

    def setUp(self):
        if not programs() or not JARS.exists():
            self.skipTest("PostgreSQL, or what Maven brings, is not there (tools/deps test)")

    def env(self):
        return {}

    def command(self, folder, port):
        text = (self.FOLDER / "README.md").read_text()
        [program] = re.findall(r"\n```java\n(.*?)\n```\n", text, re.S)
        [properties] = re.findall(r"\n```properties\n(.*?)\n```\n", text, re.S)
        (folder / "app").mkdir()
        (folder / "app/App.java").write_text(program + "\n")
        (folder / "application.properties").write_text(
            properties.replace("=3000", f"={port}\nserver.address=127.0.0.1") + "\n")
        libraries = f"{folder}:{JARS.read_text()}"
        self.passes(["javac", "--release", "17", "-proc:none", "-cp", libraries, "-d", folder,
                     folder / "app/App.java", *(self.FOLDER / "src/main/java").rglob("*.java")])
        return ["java", *QUIET_JVM, "-cp", libraries, "app.App"]


@unittest.skipUnless(JARS.exists(), "what Maven brings is not there (tools/deps test)")
class JavaLibrary(OnPorts, Servers):
    FOLDER = RECEIVERS / "java"

    def test_its_own_tests_and_package(self):
        """`mvn package`, as for publishing: its tests pass, and the jar has all of it."""
        folder = self.temporary()
        shutil.copytree(self.FOLDER, folder / "java", ignore=shutil.ignore_patterns("target"))
        shutil.copy(RECEIVERS / "vectors.json", folder)
        servers = self.servers()
        said = self.passes(["mvn", "-o", "-B", "-ntp", "-Dmaven.compiler.failOnWarning=true",
                            f"-DargLine={' '.join(QUIET_JVM)}", "package"], cwd=folder / "java",
                           env={**os.environ, **servers, "MAVEN_OPTS": " ".join(QUIET_JVM)})
        self.assertRegex(said, r"Tests run: [0-9]+, Failures: 0, Errors: 0, Skipped: 0\n\[INFO\] *\n")
        ran = (folder / "java/target/surefire-reports/TEST-grapnel.receiver.StoresTest.xml").read_text()
        for store, there in [("memory", True), ("sqlite", True), ("springInSqlite", True),
                             ("postgresql", "GRAPNEL_TEST_POSTGRES" in servers),
                             ("springInPostgresql", "GRAPNEL_TEST_POSTGRES" in servers),
                             ("redis", "GRAPNEL_TEST_REDIS" in servers)]:
            self.assertEqual(f'name="{store}' in ran, there, store)
        [jar] = (folder / "java/target").glob("*.jar")
        with zipfile.ZipFile(jar) as packed:
            names = packed.namelist()
            self.assertEqual(packed.read("META-INF/LICENSE"), (ROOT / "LICENSE").read_bytes())
        for source in (self.FOLDER / "src/main/java").rglob("*.java"):
            name = str(source.relative_to(self.FOLDER / "src/main/java")).replace(".java", ".class")
            self.assertIn(name, names)
        self.assertEqual((self.FOLDER / "LICENSE").read_text(), (ROOT / "LICENSE").read_text())


C = RECEIVERS / "c"
C_PARTS = {"SQLITE": "sqlite3", "POSTGRES": "libpq", "REDIS": "hiredis",
           "MICROHTTPD": "libmicrohttpd"}
TESTS = "-DGRAPNEL_RECEIVER_TESTS=ON"


def has_module(*names):
    return shutil.which("pkg-config") and subprocess.run(
        ["pkg-config", "--exists", *names]).returncode == 0


def c_program():
    """The program of the README, and how it is compiled."""
    text = (C / "README.md").read_text()
    [program] = re.findall(r"\n```c\n(.*?)\n```\n", text, re.S)
    [compiler] = re.findall("\n(cc .*)", text)
    return program + "\n", compiler


class CBuild:
    """The library for C, built in a folder that is kept, and installed inside of it."""

    def __init__(self, test, name, *options, sanitize=""):
        self.test, self.sanitize = test, sanitize
        self.folder = BUILD / f"receivers-c-{name}"
        self.installed = self.folder / "installed"
        with open(f"{self.folder}.lock", "w") as lock:  # tests that need it run at the same time
            fcntl.flock(lock, fcntl.LOCK_EX)
            test.passes(["cmake", "-G", "Ninja", "-S", C, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Debug",
                         f"-DCMAKE_INSTALL_PREFIX={self.installed}", "-DCMAKE_INSTALL_LIBDIR=lib",
                         f"-DGRAPNEL_RECEIVER_SANITIZE={sanitize}", "-DCMAKE_C_FLAGS=-Werror",
                         *(f"-DGRAPNEL_RECEIVER_{part}={'ON' if has_module(module) else 'OFF'}"
                           for part, module in C_PARTS.items()), *options])
            test.passes(["cmake", "--build", self.folder, "--target", "install"])

    def env(self):
        return {"LD_LIBRARY_PATH": str(self.installed / "lib"),
                "PKG_CONFIG_PATH": str(self.installed / "lib/pkgconfig")}

    def compile(self, folder, change=lambda program: program):
        """The program of the README, in `folder`, as the README says. Returns its path."""
        program, compiler = c_program()
        (folder / "main.c").write_text(change(program))
        flags = f"-fsanitize={self.sanitize}" if self.sanitize else ""
        self.test.passes(["sh", "-c", compiler.replace("cc ", f"cc -Wall -Wextra -Werror {flags} ", 1)],
                         cwd=folder, env={**os.environ, **self.env()})
        return folder / "receiver"


class CReceiver(Behind):
    def setUp(self):
        if not programs() or not has_module("libpq", "libmicrohttpd", "jansson", "cmocka"):
            self.skipTest("PostgreSQL, libpq, libmicrohttpd, jansson or cmocka is not installed "
                          "(tools/deps test)")
        self.build = CBuild(self, "asan", TESTS, sanitize="address,undefined")

    def env(self):
        return self.build.env()

    def command(self, folder, port):
        return [str(self.build.compile(folder, lambda p: p.replace("htons(3000)", f"htons({port})")))]


@unittest.skipUnless(has_module("cmocka", "jansson"), "cmocka or jansson is not installed (tools/deps test)")
class CLibrary(Servers):
    def run_tests(self, build, env, *tests):
        for test in tests:
            self.passes([build.folder / "tests" / test], env={**os.environ, **env})

    def test_its_own_tests(self):
        build = CBuild(self, "asan", TESTS, sanitize="address,undefined")
        self.run_tests(build, self.servers(), "test_verify", "test_stores", "test_microhttpd")
        self.assertEqual((C / "LICENSE").read_text(), (ROOT / "LICENSE").read_text())

    def test_its_threads(self):
        """With ThreadSanitizer, and without PostgreSQL, whose library it cannot see into."""
        build = CBuild(self, "tsan", TESTS, sanitize="thread")
        env = {name: value for name, value in self.servers().items() if "REDIS" in name}
        self.run_tests(build, env, "test_verify", "test_stores", "test_microhttpd")

    def test_it_can_be_published(self):
        """Static, without what is turned off; each library exports its own names only, and the
        header is one of C++, too."""
        build = CBuild(self, "static", "-DBUILD_SHARED_LIBS=OFF", "-DGRAPNEL_RECEIVER_REDIS=OFF",
                       "-DGRAPNEL_RECEIVER_SQLITE=OFF")
        folder = self.temporary()
        libraries = sorted((build.installed / "lib").glob("*.a"))
        self.assertEqual([p.name for p in libraries], [
            "libgrapnel-receiver-microhttpd.a", "libgrapnel-receiver-postgres.a", "libgrapnel-receiver.a"])
        for library in libraries:
            names = self.passes(["nm", "-g", "--defined-only", "--format=posix", library])
            for line in names.splitlines():
                if " " in line:
                    self.assertRegex(line, "^grapnel_", library)
        self.passes(["g++", "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++",
                     build.installed / "include/grapnel_receiver.h"])
        program = build.compile(folder)
        done = subprocess.run([program], capture_output=True, text=True, timeout=60,
                              env={"WEBHOOK_SECRETS": "whsec_AAAA", "DATABASE_URL": "host=/nowhere"})
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("receiver: PostgreSQL: ", done.stderr)


class PythonLibrary(Servers):
    FOLDER = RECEIVERS / "python"

    def test_its_own_tests(self):
        self.passes([PYTHON, "-B", "-m", "unittest", "discover", "-s", "tests"],
                    cwd=self.FOLDER, env={**os.environ, "PYTHONPATH": str(self.FOLDER),
                                          **self.servers()})

    @unittest.skipUnless(can_import("mypy"), "mypy is not installed (tools/deps test)")
    def test_its_types(self):
        self.passes([PYTHON, "-m", "mypy", "--strict", "--cache-dir", "/dev/null",
                     "grapnel_receiver"], cwd=self.FOLDER)

    @unittest.skipUnless(can_import("setuptools", "pip", "wheel"),
                         "pip, setuptools or wheel is not installed (tools/deps test)")
    def test_it_can_be_published(self):
        """The package that it builds has all of it, and works without its folder."""
        folder = self.temporary()
        shutil.copytree(self.FOLDER, folder / "source")
        self.passes([PYTHON, "-m", "pip", "install", "-q", "--no-index", "--no-deps",
                     "--no-build-isolation", "--target", folder / "installed",
                     "--disable-pip-version-check", folder / "source"])
        installed = folder / "installed" / "grapnel_receiver"
        self.assertEqual(sorted(p.name for p in installed.iterdir() if p.is_file()),
                         sorted(p.name for p in (self.FOLDER / "grapnel_receiver").iterdir()
                                if p.is_file()))
        self.passes([PYTHON, "-c", "import grapnel_receiver.asgi as a; print(a.__file__)"],
                    cwd=folder, env={**os.environ, "PYTHONPATH": str(installed.parent)})
        self.assertEqual((self.FOLDER / "LICENSE").read_text(), (ROOT / "LICENSE").read_text())


@unittest.skipUnless(NODE, "Node.js is not installed (tools/deps test)")
class NodeLibrary(Servers):
    FOLDER = RECEIVERS / "node"

    def test_its_own_tests(self):
        """Debian's sqlite3 asks a package for its binary that needs thirty others."""
        folder = self.temporary()
        finder = folder / "@mapbox" / "node-pre-gyp"
        finder.mkdir(parents=True)
        [binary] = sorted(UNPACKED.glob("lib/*/nodejs/sqlite3/lib/binding/*/*.node"))[-1:] or [""]
        (finder / "index.js").write_text(f"exports.find = () => {json.dumps(str(binary))};\n")
        said = self.passes([NODE, "--test"], cwd=self.FOLDER, env={
            **os.environ, **self.servers(), "NODE_PATH": f"{NODE_ENV['NODE_PATH']}:{folder}"})
        self.assertNotIn("# pass 0\n", said)

    def test_its_types(self):
        """The README's program and more, as TypeScript."""
        compiler = UNPACKED / "share/nodejs/typescript/bin/tsc"
        if not compiler.exists():
            self.skipTest("TypeScript is not there (tools/deps test)")
        self.passes([NODE, compiler, "--noEmit", "--strict", "--module", "commonjs",
                     "--target", "es2020", "--lib", "es2020", "types-test/use.ts"],
                    cwd=self.FOLDER)

    def test_it_can_be_published(self):
        """What package.json names is there, and every file of lib is named."""
        package = json.loads((self.FOLDER / "package.json").read_text())
        entry = package["exports"]["."]
        for path in (package["main"], package["types"], entry["types"], entry["default"]):
            self.assertTrue((self.FOLDER / path).is_file(), path)
        self.assertEqual(package["files"], ["lib"])
        self.assertEqual((self.FOLDER / "LICENSE").read_text(), (ROOT / "LICENSE").read_text())
        folder = self.temporary()
        (folder / "node_modules" / "grapnel-receiver").mkdir(parents=True)
        for name in ("lib", "package.json"):
            subprocess.run(["cp", "-r", str(self.FOLDER / name),
                            str(folder / "node_modules" / "grapnel-receiver")], check=True)
        (folder / "use.mjs").write_text(
            "import {Receiver, grapnel} from 'grapnel-receiver';\n"
            "new Receiver(['whsec_AAAA']);\n")
        self.passes([NODE, folder / "use.mjs"], cwd=folder)


del Behind
if programs():
    prepare()
main(at_once=3)
