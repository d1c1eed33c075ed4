"""A PostgreSQL server of a test's own, on a Unix socket in a temporary folder."""
import atexit
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading

from rig import SLOW, die_with_parent, wait_for

TABLE = """
CREATE TABLE webhook_outbox (
  id VARCHAR(36) PRIMARY KEY, target_url VARCHAR(255), payload TEXT,
  status VARCHAR(50) NOT NULL DEFAULT 'NOT_CALLED',
  created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
  last_attempt_at TIMESTAMPTZ, next_attempt_at TIMESTAMPTZ,
  retry_count INT NOT NULL DEFAULT 0, error_message TEXT);
CREATE INDEX webhook_outbox_new ON webhook_outbox (created_at, id)
  WHERE status = 'NOT_CALLED';
CREATE FUNCTION webhook_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('grapnel_outbox', ''); RETURN NULL; END $$;
CREATE TRIGGER webhook_outbox_notify AFTER INSERT ON webhook_outbox
  FOR EACH STATEMENT EXECUTE FUNCTION webhook_outbox_notify();
"""


def programs():
    """The folder of the newest server that is installed; None: there is none."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"),
                   key=lambda p: int(p.parts[-3]))
    return found[-1].parent if found else None


def as_user():
    """The start of a command of the server, which refuses to run as root; and its user."""
    if os.getuid() != 0:
        return [], None
    user = "postgres"
    try:
        pwd.getpwnam(user)
    except KeyError:
        user = "nobody"
    return ["setpriv", f"--reuid={user}", "--clear-groups",
            f"--regid={pwd.getpwnam(user).pw_gid}", "--pdeathsig=KILL"], user


def new_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-pg-"))
    if as_user()[1]:
        shutil.chown(folder, as_user()[1])
    folder.chmod(0o755)
    return folder


TEMPLATE = None


def prepare():
    """Makes the data of an empty server, once, which takes longer than a test: each server is a copy of
    it. Before the tests of a file run beside each other, call it for all of them."""
    global TEMPLATE
    if TEMPLATE or not programs():
        return TEMPLATE
    TEMPLATE = new_folder() / "data"
    done = subprocess.run(
        [*as_user()[0], str(programs() / "initdb"), "-D", str(TEMPLATE), "-N",
         "-U", "app", "-A", "trust", "-E", "UTF8", "--locale=C", "--wal-segsize=1"],
        capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    owner = os.getpid()

    def remove():
        if os.getpid() == owner:  # and not a test that was forked
            shutil.rmtree(TEMPLATE.parent, ignore_errors=True)
    atexit.register(remove)
    return TEMPLATE


class Session:
    """A connection that stays open: psql, which is told what to do. `strict`: an error ends it."""

    def __init__(self, server, strict=False):
        self.child = subprocess.Popen(
            [*server.psql_command(), "-v", f"ON_ERROR_STOP={int(strict)}", "-f", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, preexec_fn=die_with_parent)

    def do(self, sql):
        """Returns what it printed; waits until the server has done it."""
        self.child.stdin.write(f"{sql};\n\\echo END\n")
        self.child.stdin.flush()
        lines = []
        for line in self.child.stdout:
            if line == "END\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"psql ended: {lines}")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Postgres:
    prepare_child = staticmethod(die_with_parent)
    env = None  # of the server; None: that of the test

    def __init__(self, copy_of=None):
        """`copy_of`: the physical standby of that server, which runs."""
        self.bin = programs()
        self.as_user, _ = as_user()
        self.folder = new_folder()
        self.data = self.folder / "data"
        self.child = None
        self.asking = None  # the session of sql(): a psql for each would cost more
        self.lock = threading.Lock()
        self.make_data(copy_of)

    def make_data(self, copy_of=None):
        """Of a server without any: a new one's, or a copy as in __init__()."""
        command = ["cp", "-r", str(prepare()), str(self.data)]
        if copy_of:
            command = [str(self.bin / "pg_basebackup"), "-D", str(self.data), "-R",
                       "-N", "-c", "fast", "-d", copy_of.uri]
        done = subprocess.run([*self.as_user, *command], capture_output=True,
                              text=True, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr
        self.data.chmod(0o700)

    @property
    def uri(self):
        return f"postgresql://app@/postgres?host={self.folder}"

    def psql_command(self):
        return ["psql", "-X", "-q", "-t", "-A", self.uri]

    def start(self, **options):
        with open(self.folder / "log", "ab") as log:
            self.child = subprocess.Popen(
                [*self.as_user, str(self.bin / "postgres"), "-D", str(self.data),
                 "-k", str(self.folder), "-c", "listen_addresses=",
                 "-c", "fsync=off", "-c", "max_connections=40",
                 *(word for key, value in options.items()
                   for word in ("-c", f"{key.replace('__', '.')}={value}"))],
                stdout=log, stderr=log, cwd="/", env=self.env, preexec_fn=self.prepare_child)
        wait_for(self.responds, timeout=30, what="PostgreSQL to be up")
        return self

    def responds(self):
        return subprocess.run([*self.psql_command(), "-c", "SELECT 1"],
                              capture_output=True).returncode == 0

    def hang_up(self):
        if self.asking:
            self.asking.close()
        self.asking = None

    def kill(self):
        """kill -9 of the server; its processes end when they notice."""
        with self.lock:
            self.hang_up()
            self.child.kill()
            self.child.wait()

    def wait_gone(self):
        """After kill(): until the last process of the old server has ended, a new one refuses to start."""
        wait_for(lambda: subprocess.run(
            ["fuser", "-s", str(self.data / "global/pg_control")],
            capture_output=True).returncode != 0, what="the old server to be gone")

    def restart(self, **options):
        self.kill()
        self.wait_gone()
        return self.start(**options)

    def close(self):
        self.hang_up()
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGQUIT)  # its data is removed anyway
            try:
                self.child.wait(20 * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()
        self.remove_segment()
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_segment(self):
        """kill -9 leaves a segment of shared memory, of which a machine has 4096 (PostgreSQL, "Managing Kernel
        Resources"); line 7 of the file is its key and number."""
        with contextlib.suppress(OSError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            if len(lines) > 6:
                subprocess.run(["ipcrm", "-m", lines[6].split()[1]], stderr=subprocess.DEVNULL)

    def session(self):
        return Session(self)

    def sql(self, text):
        """Lines that it printed. Each statement is a transaction."""
        with self.lock:
            self.asking = self.asking or Session(self, strict=True)
            try:
                return self.asking.do(text).splitlines()
            except (AssertionError, BrokenPipeError) as error:
                self.hang_up()
                raise AssertionError(f"{text}: {error}") from None

    def make_table(self):
        self.sql(TABLE)
        return self

    def insert(self, first, last, payload="'{\"n\": ' || i || '}'", more=""):
        """Rows row-FIRST … row-LAST in one transaction."""
        columns = "".join(f", {c.split('=')[0]}" for c in more.split(";") if c)
        values = "".join(f", {c.split('=')[1]}" for c in more.split(";") if c)
        self.sql(f"INSERT INTO webhook_outbox (id, payload{columns}) SELECT "
                 f"'row-' || i, {payload}{values} "
                 f"FROM generate_series({first}, {last}) i")

    def statuses(self):
        """{status: how many}"""
        return {line.split("|")[0]: int(line.split("|")[1]) for line in self.sql(
            "SELECT status, count(*) FROM webhook_outbox GROUP BY 1")}


class OverTcp(Postgres):
    """A server that listens on 127.0.0.1, too: JDBC has no Unix sockets."""

    def __init__(self, port):
        self.port = port
        super().__init__()

    @property
    def uri(self):
        return f"{super().uri}&port={self.port}"

    def start(self, **options):
        return super().start(listen_addresses="127.0.0.1", port=self.port, **options)


class Writer(Session):
    """For relay_cases.py."""
    errors = (AssertionError, BrokenPipeError)

    def __init__(self, server):
        super().__init__(server, strict=True)
        self.begun = False

    def do(self, sql):
        if not self.begun:
            super().do("BEGIN")
        self.begun = True
        return super().do(sql)

    def commit(self):
        self.begun = False
        super().do("COMMIT")

    def rollback(self):
        self.begun = False
        super().do("ROLLBACK")


class Database:
    """A server, as relay_cases.py uses it: rows are tuples, and NULL is None."""

    def __init__(self, server):
        self.server = server
        self.uri = server.uri
        self.asking = None
        self.asked = None  # the process of the server that it asks
        self.lock = threading.Lock()

    def sql(self, text):
        with self.lock:
            try:
                if self.asked != self.server.child:
                    self.close()
                if not self.asking:
                    self.asked = self.server.child
                    self.asking = Session(self.server, strict=True)
                    self.asking.do("\\pset null NULL\n\\pset fieldsep '\\t'\nSELECT 1")
                said = self.asking.do(text)
            except (AssertionError, BrokenPipeError) as error:
                self.close()
                raise AssertionError(f"{text}: {error}") from None
        return [tuple(None if v == "NULL" else v for v in line.split("\t"))
                for line in said.splitlines()]

    def writer(self):
        return Writer(self.server)

    def kill(self):
        self.server.kill()

    def start(self):
        self.server.restart()

    def close(self):
        if self.asking:
            self.asking.close()
        self.asking = None
