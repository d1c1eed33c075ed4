"""A MariaDB server of a test's own, on a Unix socket in a temporary folder."""
import pathlib
import shutil
import subprocess
import tempfile

from rig import SLOW, die_with_parent, wait_for

TABLE = """
CREATE TABLE webhook_outbox (
  id VARCHAR(36) PRIMARY KEY, target_url VARCHAR(255), payload LONGTEXT,
  status VARCHAR(50) NOT NULL DEFAULT 'NOT_CALLED',
  created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  last_attempt_at DATETIME(3), next_attempt_at DATETIME(3),
  retry_count INT NOT NULL DEFAULT 0, error_message TEXT,
  INDEX webhook_outbox_new (status, created_at, id)) DEFAULT CHARSET utf8mb4;
"""


def programs():
    """Whether the server and its client are installed."""
    return bool(shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
                and shutil.which("mariadb-install-db") and shutil.which("mariadb"))


class Writer:
    """A connection that stays open: the client, which is told what to do."""
    errors = (AssertionError, BrokenPipeError)

    def __init__(self, server):
        self.child = subprocess.Popen(
            [*server.client(), "--unbuffered", "--skip-reconnect"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)
        self.begun = False

    def tell(self, sql):
        """Returns what it printed; waits until the server has done it."""
        self.child.stdin.write(f"{sql};\nSELECT 'END';\n")
        self.child.stdin.flush()
        lines = []
        for line in self.child.stdout:
            if line == "END\n":
                return lines
            lines.append(line)
        raise AssertionError(f"the client ended: {lines}")

    def do(self, sql):
        if not self.begun:
            self.tell("START TRANSACTION")
        self.begun = True
        return self.tell(sql)

    def commit(self):
        self.begun = False
        self.tell("COMMIT")

    def rollback(self):
        self.begun = False
        self.tell("ROLLBACK")

    def close(self):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        self.child.stdout.close()
        self.child.wait()


class MariaDB:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-my-"))
        self.socket = self.folder / "socket"
        self.database = "app"
        self.child = None
        done = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={self.folder}/data",
             "--user=root", "--auth-root-authentication-method=normal",
             "--skip-test-db", "--innodb-log-file-size=8M"],
            capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def uri(self):
        return f"mysql://root@/{self.database}?socket={self.socket}"

    def client(self, database=True):
        return ["mariadb", "--no-defaults", "--batch", "--skip-column-names", "--raw",
                "--default-character-set=utf8mb4", "--user=root",
                f"--socket={self.socket}", *([self.database] if database else [])]

    def start(self, *options):
        with open(self.folder / "log", "ab") as log:
            self.child = subprocess.Popen(
                [shutil.which("mariadbd", path="/usr/sbin:/usr/bin"), "--no-defaults",
                 f"--datadir={self.folder}/data", f"--socket={self.socket}",
                 "--skip-networking", "--user=root", "--skip-log-bin",
                 "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=8M",
                 "--innodb-buffer-pool-size=64M", "--performance-schema=OFF",
                 f"--slow-query-log-file={self.folder}/slow",
                 # What a relay has to change for itself.
                 "--sql-mode=NO_BACKSLASH_ESCAPES",
                 "--transaction-isolation=REPEATABLE-READ", *options],
                stdout=log, stderr=log, cwd="/", preexec_fn=die_with_parent)
        wait_for(self.responds, timeout=30, what="MariaDB to be up")
        return self

    def responds(self):
        return subprocess.run([*self.client(False), "-e", "SELECT 1"],
                              capture_output=True).returncode == 0

    def kill(self):
        self.child.kill()
        self.child.wait()

    def restart(self):
        self.kill()
        return self.start()

    def close(self):
        if self.child and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(20 * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def use(self, database):
        """A new database with the usual table."""
        self.database = database
        self.sql(f"CREATE DATABASE {database}", database=False)
        self.sql(TABLE)

    def drop(self):
        self.sql(f"DROP DATABASE {self.database}", database=False)

    def sql(self, text, database=True):
        done = subprocess.run([*self.client(database)], input=text,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [tuple(None if v == "NULL" else v for v in line.split("\t"))
                for line in done.stdout.splitlines()]

    def writer(self):
        return Writer(self)
