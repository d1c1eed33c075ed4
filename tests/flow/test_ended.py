"""What was revoked or deleted stays so after a restore of an older copy of the sequencer, and after a
crash between the record of the act and its commit."""

import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import main, wait_for
from test_managed_endpoints import Managed

SLOW = {"retry_policies": [{
    "name": "default", "backoff": "fixed", "first_wait": "1h", "jitter": "none",
    "max_attempts": 1000, "max_duration": "100h"}]}


class Ended(Managed):
    def token_state(self, rig, made):
        return {t["id"]: t["state"] for t in rig.cli("tokens")[0]}[made["id"]]

    def names(self, rig):
        return [e["name"] for e in rig.cli("endpoints")[0]
                if e["managed_by"] == "api" and e["state"] != "removed"]

    def test_after_a_restore(self):
        """Also the deliveries that waited for the endpoint in the copy are not made."""
        rig = self.managed_rig(SLOW).start()
        rig.receiver.rules({"path": "/hook", "responses": [{"status": 503}]})
        gone, kept = self.make(rig), self.make(rig, path="/kept")
        token = rig.cli("tokens", "create", "t", "--role", "viewer")[0]
        other = rig.cli("tokens", "create", "other", "--role", "viewer")[0]
        event = rig.accept()
        rig.receiver.wait(event, path="/hook")
        copies = rig.folder / "copies"
        self.assertEqual(rig.cli("backup", copies)[1], 0)
        self.assertEqual(rig.cli("endpoints", "delete", gone["name"])[1], 0)
        self.assertEqual(rig.cli("tokens", "revoke", token["id"])[1], 0)
        rig.settle()
        rig.stop()
        before = len(rig.receiver.requests("/hook"))
        done = rig.cli_text("restore", copies)
        self.assertIn("stay revoked", done.stdout)
        self.assertIn("stay deleted", done.stdout)
        rig.receiver.rules()
        rig.start()
        self.assertEqual(self.names(rig), [kept["name"]])
        self.assertEqual(self.token_state(rig, token), "revoked")
        self.assertEqual(self.token_state(rig, other), "active")
        later = rig.accept()
        rig.receiver.wait(later, path="/kept")
        wait_for(lambda: [d for d in rig.trace(event)["deliveries"]
                          if d["endpoint"] == gone["name"] and d["status"] == "dead"])
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/hook")), before)
        with self.subTest("its name can be used again"):
            self.assertEqual(rig.cli("tokens", "create", "t", "--role",
                                     "viewer")[1], 0)
        with self.subTest("without the file, restore says what comes back"):
            rig.stop()
            (rig.state_dir / "ended").unlink()
            done = rig.cli_text("restore", copies)
            self.assertIn("are valid again", done.stdout)
            rig.start()
            self.assertEqual(self.token_state(rig, token), "active")
            self.assertIn(gone["name"], self.names(rig))

    def test_after_a_crash_before_the_commit(self):
        """The line is on disk, the act is not; the last line may be incomplete."""
        rig = self.managed_rig().start()
        gone, kept = self.make(rig), self.make(rig, path="/kept")
        token = rig.cli("tokens", "create", "t", "--role", "viewer")[0]
        other = rig.cli("tokens", "create", "other", "--role", "viewer")[0]
        rig.kill("sequencer")
        now = int(time.time() * 1000)
        (rig.state_dir / "ended").write_text(
            f"1000 tok_old\n{now} {gone['name']}\n{now} {token['id']}\n{now} {other['id'][:9]}")
        rig.daemons["sequencer"].start()
        self.assertEqual(self.token_state(rig, token), "revoked")
        self.assertEqual(self.token_state(rig, other), "active")
        self.assertEqual(self.names(rig), [kept["name"]])
        with self.subTest("who repeats the act is told that it is done, once"):
            self.assertEqual(rig.cli("endpoints", "delete", gone["name"])[1], 0)
            self.assertEqual(rig.cli("endpoints", "delete", gone["name"])[1], 1)
        with self.subTest("lines of 400 days ago, and the incomplete one, are dropped"):
            self.assertEqual(
                {line.split()[1] for line in
                 (rig.state_dir / "ended").read_text().splitlines()},
                {gone["name"], token["id"]})
        with self.subTest("the line after it is whole"):
            self.assertEqual(rig.cli("tokens", "revoke", other["id"])[1], 0)
            rig.kill("sequencer")
            rig.daemons["sequencer"].start()
            self.assertEqual(self.token_state(rig, other), "revoked")

    def test_what_cannot_be_recorded_is_refused(self):
        rig = self.managed_rig().start()
        made = self.make(rig)
        token = rig.cli("tokens", "create", "t", "--role", "viewer")[0]
        (rig.state_dir / "ended").mkdir()
        for words in (("endpoints", "delete", made["name"]),
                      ("tokens", "revoke", token["id"])):
            done = rig.cli_text(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be written", done.stderr)
        self.assertEqual(self.token_state(rig, token), "active")
        self.assertEqual(self.names(rig), [made["name"]])
        shutil.rmtree(rig.state_dir / "ended")
        self.assertEqual(rig.cli("tokens", "revoke", token["id"])[1], 0)
        self.assertEqual(self.token_state(rig, token), "revoked")


main()
