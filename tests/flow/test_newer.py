"""Every program refuses a database of a newer version, names both versions, and changes
neither it nor its write-ahead log."""

import contextlib
import hashlib
import pathlib
import shutil
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main

STORAGE = 74
PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]
NEWER = 97


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir())
            if path.is_file() and path.suffix != ".lock"}


def make_newer(path, where):
    """The version goes up: in the file, or in its log only, as a crash leaves it."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA user_version = {NEWER}")
        if where == "log":
            for suffix in ("", "-wal"):
                shutil.copy(f"{path}{suffix}", f"{path}{suffix}.kept")
    if where == "log":
        for suffix in ("", "-wal"):
            pathlib.Path(f"{path}{suffix}.kept").rename(f"{path}{suffix}")


class Newer(RigTest):
    def pipeline(self):
        rig = self.rig(console=True)
        rig.start()
        rig.receiver.wait(rig.accept())
        rig.settle()
        self.known = {name: rig.rows(name, "PRAGMA user_version")[0]["user_version"]
                      for name in PROCESSES}
        return rig

    def refused(self, rig, name, where):
        path = rig.state_dir / f"{name}.db"
        make_newer(path, where)
        if where == "log":
            self.assertLess(int.from_bytes(path.read_bytes()[60:64], "big"), NEWER)
        before = digests(rig.state_dir)
        daemon = rig[name]
        daemon.spawn()
        self.assertEqual(daemon.wait_exit(), STORAGE, daemon.log())
        kind = name.split("-")[0]
        self.assertRegex(
            daemon.log(),
            rf"{name}\.db has schema version {NEWER}, this grapnel-{kind} "
            rf"\d+\.\d+\.\d+ knows versions up to {self.known[name]}; install the "
            "newer version or restore a backup made before the upgrade")
        self.assertEqual(digests(rig.state_dir), before, name)

    def test_each_process_refuses_a_newer_database_unchanged(self):
        rig = self.pipeline()
        rig.stop()
        for name in PROCESSES:
            with self.subTest(name):
                self.refused(rig, name, "file")

    def test_a_newer_version_in_the_wal_is_refused(self):
        rig = self.pipeline()
        rig.kill()
        for name in PROCESSES:
            with self.subTest(name):
                self.refused(rig, name, "log")

    def test_restore_and_verify_refuse_newer_databases_unchanged(self):
        rig = self.pipeline()
        backup = rig.folder / "backup"
        _, code = rig.cli("backup", backup)
        self.assertEqual(code, 0)
        rig.stop()
        make_newer(backup / "sequencer.db", "file")
        before, copies = digests(rig.state_dir), digests(backup)
        for folder in (backup, rig.state_dir):  # elsewhere, and in place
            if folder == rig.state_dir:
                make_newer(rig.state_dir / "sequencer.db", "file")
                before = digests(rig.state_dir)
            said = rig.cli_text("restore", folder)
            self.assertEqual(said.returncode, 1, said.stdout)
            self.assertRegex(
                said.stderr,
                rf"{folder}/sequencer\.db has schema version {NEWER}, this grapnel "
                rf"\S+ knows versions up to {self.known['sequencer']}: install")
            self.assertIn("Nothing was changed", said.stderr)
            self.assertEqual(digests(rig.state_dir), before)
        rows, code = rig.cli("verify", "--offline", backup)
        self.assertEqual(code, 1)
        row, = [row for row in rows if not row["ok"]]
        self.assertEqual(row["process"], "sequencer")
        self.assertIn(f"has schema version {NEWER}", row["error"])
        self.assertEqual(digests(backup), copies)

    def test_restore_knows_the_copy_of_another_process(self):
        rig = self.pipeline()
        backup = rig.folder / "backup"
        rig.cli("backup", backup)
        rig.stop()
        before = digests(rig.state_dir)
        shutil.copy(backup / "sequencer.db", backup / "dlqd.db")
        with contextlib.closing(sqlite3.connect(backup / "dlqd.db")) as db:
            db.execute(f"PRAGMA user_version = {self.known['dlqd']}")
        said = rig.cli_text("restore", backup)
        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertRegex(said.stderr, r"dlqd\.db: it is not a database of this process")
        self.assertEqual(digests(rig.state_dir), before)


main()
