"""The chain over audit rows on a running pipeline: real databases that were tampered with, published
hashes, restores, keys, and kills."""

import contextlib
import http.client as http_client
import json
import os
import pathlib
import pwd
import random
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

TOKEN = "an-admin-token-of-the-file"
USER = pwd.getpwuid(os.geteuid()).pw_name


class ChainTest(RigTest):
    def acts(self, rig, count):
        for n in range(count):
            rig.cli("endpoints", ("pause", "resume")[n % 2], "crm")

    def head(self, rig, process="sequencer"):
        return rig.ask(process, "audit_head")["head"]

    def verify(self, rig, *args):
        """(exit code, the rows by process, the text)"""
        document, code = rig.cli("audit", "verify", *args)
        self.assertEqual(document["ok"], code == 0, document)
        text = rig.cli_text("audit", "verify", *args)
        self.assertEqual(text.returncode, code, text.stderr)
        return code, {r["process"]: r for r in document["processes"]}, text.stdout

    def tamper(self, rig, *statements):
        rig["sequencer"].stop()
        for sql in statements:
            rig.change("sequencer", sql)
        rig.start("sequencer")


class Chain(ChainTest):
    def test_rows_that_were_changed_removed_or_inserted_are_named(self):
        rig = self.rig().start()
        self.acts(rig, 6)
        code, rows, text = self.verify(rig)
        self.assertEqual(code, 0, text)
        self.assertEqual(set(rows), set(rig.daemons))
        self.assertEqual((rows["sequencer"]["rows"], rows["sequencer"]["last"]), (6, 6))
        for sql, undo, finding, words in [
                ("UPDATE audit SET actor = 'user nobody' WHERE n = 3",
                 f"UPDATE audit SET actor = 'user {USER}' WHERE n = 3",
                 {"from": 3, "to": 3, "what": "changed", "key": None},
                 "row 3: changed or inserted"),
                ("UPDATE audit SET at_ms = at_ms - 1000 WHERE n = 4",
                 "UPDATE audit SET at_ms = at_ms + 1000 WHERE n = 4",
                 {"from": 4, "to": 4, "what": "unlinked", "key": None},
                 "row 4: the hash does not follow"),
                ("INSERT INTO audit SELECT 7, at_ms, actor, role, command, args, outcome, "
                 "request_id, salt, content, hash, key, erased FROM audit WHERE n = 6",
                 "DELETE FROM audit WHERE n = 7",
                 {"from": 7, "to": 7, "what": "changed", "key": None},
                 "row 7: changed or inserted"),
                ("DELETE FROM audit WHERE n BETWEEN 2 AND 3", None,
                 {"from": 2, "to": 3, "what": "missing", "key": None},
                 "rows 2 to 3: removed")]:
            self.tamper(rig, sql)
            code, rows, text = self.verify(rig)
            self.assertEqual((code, rows["sequencer"]["ok"]), (1, False), sql)
            self.assertIn(finding, rows["sequencer"]["findings"], sql)
            self.assertRegex(text, r"sequencer +BROKEN")
            self.assertIn(words, text)
            self.assertRegex(text, r"dlqd +ok")
            if undo:
                self.tamper(rig, undo, "UPDATE sqlite_sequence SET seq = 6 "
                                       "WHERE name = 'audit'")
                self.assertEqual(self.verify(rig)[0], 0, sql)

    def test_cut_off_rows_are_missed_against_a_published_hash(self):
        rig = self.rig().start()
        self.acts(rig, 3)
        early = self.head(rig)
        self.acts(rig, 3)
        late = self.head(rig)
        self.assertRegex(late, r"^sequencer:6:[0-9a-f]{64}$")
        for head in (late, late.split(":")[2], f"{early},{late}", f"{early} {late}"):
            code, _, text = self.verify(rig, "--head", head)
            self.assertEqual(code, 0, text)
        self.tamper(rig, "DELETE FROM audit WHERE n > 4",
                    "UPDATE sqlite_sequence SET seq = 4 WHERE name = 'audit'")
        self.assertEqual(self.verify(rig)[0], 0)
        self.assertEqual(self.verify(rig, "--head", early)[0], 0)
        code, _, text = self.verify(rig, "--head", f"{early},{late}")
        self.assertEqual(code, 1)
        self.assertIn(f"{early}: in the chain", text)
        self.assertIn(f"{late}: rows 5 to 6 were cut off: the newest row is 4", text)
        self.acts(rig, 4)
        code, _, text = self.verify(rig, "--head", late)
        self.assertIn("row 6 has another hash: it was changed", text)
        code, _, text = self.verify(rig, "--head", late.split(":")[2])
        self.assertEqual(code, 1)
        self.assertIn("no row of any process has this hash", text)
        for wrong in ("x", "sequencer:6", "sequencer:x:" + "a" * 64, "a" * 63, "A" * 64):
            done = rig.cli_text("audit", "verify", "--head", wrong)
            self.assertEqual(done.returncode, 64, wrong)
            self.assertIn("is not a published hash", done.stderr)

    def test_it_is_verified_over_http(self):
        """In several pages, with the result that the command line has."""
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True).start()
        for n in range(505):
            rig.ask("sequencer", ("endpoint_pause", "endpoint_resume")[n % 2], name="crm")

        def http(query=""):
            c = http_client.HTTPConnection("127.0.0.1", rig.console_port, timeout=30)
            with contextlib.closing(c):
                c.request("GET", "/api/v1/audit/verify" + query,
                          headers={"Authorization": f"Bearer {TOKEN}"})
                response = c.getresponse()
                return response.status, json.loads(response.read())
        head = self.head(rig)
        status, document = http("?head=" + head)
        self.assertEqual((status, document["ok"]), (200, True), document)
        self.assertEqual(document, rig.cli("audit", "verify", "--head", head)[0])
        rows = {r["process"]: r for r in document["processes"]}
        self.assertEqual(set(rows), set(rig.daemons))
        self.assertEqual((rows["sequencer"]["rows"], rows["sequencer"]["last"]), (505, 505))
        self.tamper(rig, "UPDATE audit SET actor = 'x' WHERE n = 3", "DELETE FROM audit WHERE n > 503",
                    "UPDATE sqlite_sequence SET seq = 503 WHERE name = 'audit'")
        status, document = http("?head=" + head)
        self.assertEqual((status, document["ok"]), (200, False))
        rows = {r["process"]: r for r in document["processes"]}
        self.assertEqual([(f["from"], f["what"]) for f in rows["sequencer"]["findings"]],
                         [(3, "changed")])
        self.assertEqual([m["head"] for m in document["missing_heads"]], [head])
        self.assertIn("rows 504 to 505 were cut off", document["missing_heads"][0]["problem"])
        status, document = http("?head=x")
        self.assertEqual((status, document["error"]["field"]), (400, "head"))
        rig["sequencer"].stop()
        status, document = http("?head=" + head)
        self.assertEqual((status, document["ok"]), (200, False))
        self.assertIn("its process did not reply", json.dumps(document))

    def test_a_process_that_is_down_is_not_verified(self):
        rig = self.rig().start()
        head = rig.ask("sequencer", "audit_head")["head"]
        self.assertIsNone(head)
        self.acts(rig, 1)
        head = self.head(rig)
        rig["sequencer"].stop()
        done = rig.cli_text("audit", "verify", "--head", head)
        self.assertEqual(done.returncode, 69)
        self.assertIn("sequencer", done.stderr)
        self.assertIn("its process did not reply", done.stdout)

    def test_kills_during_acts_leave_a_whole_chain(self):
        rig = self.rig().start()
        over = threading.Event()
        counts = {"done": 0}

        def act():
            while not over.is_set():
                done = rig.cli_text("endpoints", "pause", "crm")
                counts["done"] += done.returncode == 0

        actors = [threading.Thread(target=act) for _ in range(2)]
        for actor in actors:
            actor.start()
        seed = random.Random(int(os.environ.get("GRAPNEL_SEED", 1)))
        try:
            for _ in range(6):
                done = counts["done"]
                wait_for(lambda done=done: counts["done"] > done + seed.randrange(4),
                         what="acts")
                rig.kill("sequencer")
                rig.start("sequencer")
        finally:
            over.set()
            for actor in actors:
                actor.join()
        code, rows, text = self.verify(rig)
        self.assertEqual(code, 0, text)
        self.assertGreaterEqual(rows["sequencer"]["rows"], counts["done"])

    def test_a_restore_is_a_row(self):
        rig = self.rig().start()
        self.acts(rig, 2)
        early = self.head(rig)
        copies = rig.folder / "copies"
        rig.cli("backup", copies)
        self.assertEqual([p.name for p in copies.iterdir() if p.suffix != ".db"], [])
        self.acts(rig, 3)
        late = self.head(rig)
        rig.stop()
        done = rig.cli_text("restore", copies)
        self.assertEqual(done.returncode, 0, done.stderr)
        rig.start()
        for process in rig.daemons:
            row = rig.ask(process, "audit", limit=1)["audit"][0]
            self.assertEqual((row["command"], row["actor"], row["outcome"]),
                             ("restore", f"user {USER}", "done"), process)
            self.assertEqual((row["args"]["copied_by"], row["args"]["from"]),
                             ("grapnel", os.path.realpath(copies)))
            self.assertIsNotNone(row["args"]["copied_at"])
        code, rows, text = self.verify(rig, "--head", early)
        self.assertEqual(code, 0, text)
        self.assertEqual(len(rows["sequencer"]["restores"]), 1)
        self.assertIn("restored from a backup", text)
        code, _, text = self.verify(rig, "--head", late)
        self.assertEqual(code, 1)
        self.assertIn("or a restore replaced", text)
        rig["dlqd"].restart()
        rows = rig.ask("dlqd", "audit")["audit"]
        self.assertEqual([r["command"] for r in rows].count("restore"), 1)


class Keys(ChainTest):
    def test_the_key_is_made_once_and_in_no_backup(self):
        rig = self.rig()
        said = rig.cli_text("check").stdout
        self.assertIn("The first process that starts makes", said)
        rig.start()
        path = rig.state_dir / "audit.key"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        key = path.read_text()
        self.assertRegex(key, r"^[0-9a-f]{64}\n$")
        self.assertEqual([p.name for p in rig.state_dir.iterdir()
                          if p.name.startswith("audit.key")], ["audit.key"])
        self.acts(rig, 1)
        self.assertIn(f"the key in {path}", rig.cli_text("check").stdout)
        keys = {rig.ask(p, "audit_verify")["key"] for p in rig.daemons}
        self.assertEqual(len(keys), 1)
        rig.stop()
        for file in rig.folder.rglob("*"):
            if file.is_file() and file != path:
                self.assertNotIn(key.strip().encode(), file.read_bytes(), file)
        rig.start()
        self.assertEqual(path.read_text(), key)

    def test_an_unusable_key_stops_the_start_with_its_reason(self):
        rig = self.rig().start()
        path = rig.state_dir / "audit.key"
        key = path.read_text()
        rig["dlqd"].stop()
        path.write_text("short\n")
        rig["dlqd"].start(wait=False)
        self.assertEqual(rig["dlqd"].wait_exit(), 78)
        self.assertIn("audit.key, the key of the audit chain, cannot be used: it has no key",
                      rig["dlqd"].log())
        self.assertIn("cannot be used: it has no key", rig.cli_text("check").stdout)
        path.write_text(key)
        rig["dlqd"].start()

    def test_another_key_leaves_a_row_and_needs_the_old_one(self):
        rig = self.rig().start()
        self.acts(rig, 3)
        old = (rig.state_dir / "audit.key").read_text().strip()
        secret = rig.folder / "new.key"
        secret.write_text("n" * 40)
        secret.chmod(0o600)
        rig.config["audit"] = {"key": f"file:{secret}"}
        rig.write_config()
        said = rig.cli("reload")[0]
        self.assertIn("audit.key", json.dumps(said))
        self.acts(rig, 1)
        rig.stop()
        rig.start()
        wait_for(lambda: "the key of the audit chain changed" in rig["sequencer"].log(),
                 what="the log line about the key")
        self.acts(rig, 2)
        row = rig.ask("sequencer", "audit", limit=3)["audit"][2]
        self.assertEqual((row["command"], row["actor"]), ("audit_key", "grapnel"))
        code, rows, text = self.verify(rig)
        self.assertEqual(code, 1)
        self.assertIn(f"written with the key {row['args']['old']}, which is not in", text)
        self.assertEqual(rows["sequencer"]["findings"][0]["to"], 5)
        rig.config["audit"]["old_keys"] = [old]
        rig.write_config()
        rig.stop()
        rig.start()
        code, rows, text = self.verify(rig)
        self.assertEqual(code, 0, text)
        self.assertEqual(rows["sequencer"]["rows"], 8)

    def test_a_restore_without_the_key_begins_with_another_one(self):
        rig = self.rig().start()
        self.acts(rig, 2)
        copies = rig.folder / "copies"
        rig.cli("backup", copies)
        key = rig.state_dir / "audit.key"
        old = key.read_text().strip()
        rig.stop()
        key.unlink()
        self.assertEqual(rig.cli_text("restore", copies).returncode, 0)
        rig.start()
        rows = rig.ask("sequencer", "audit")["audit"]
        self.assertEqual([r["command"] for r in rows],
                         ["restore", "audit_key", "backup", "endpoint_resume", "endpoint_pause"])
        self.assertIn("the key of the audit chain changed", rig["sequencer"].log())
        code, found, _ = self.verify(rig)
        self.assertEqual((code, found["sequencer"]["findings"][0]["what"]),
                         (1, "unknown_key"))
        rig.stop()
        key.write_text(old)
        rig.start()
        self.acts(rig, 1)
        code, found, _ = self.verify(rig)
        self.assertEqual([(f["from"], f["to"]) for f in found["sequencer"]["findings"]],
                         [(4, 5)])

    def test_a_reload_with_an_unreadable_key_keeps_the_old_one(self):
        rig = self.rig()
        secret = rig.folder / "a.key"
        secret.write_text("n" * 40)
        secret.chmod(0o600)
        rig.config["audit"] = {"key": f"file:{secret}"}
        rig.write_config()
        rig.start()
        secret.write_text("n" * 31)
        done = rig.cli_text("reload")
        self.assertEqual(done.returncode, 78)
        self.assertIn("audit.key: is too short for a key", done.stderr + done.stdout)
        self.acts(rig, 2)
        self.assertEqual(self.verify(rig)[0], 0)
        self.assertFalse((rig.state_dir / "audit.key").exists())


class Published(ChainTest):
    def test_all_heads_are_sent_in_one_message_and_logged(self):
        rig = self.rig(console=True)
        rig.config["notifiers"] = [
            {"name": "vault", "webhook": rig.receiver.url("/vault"), "allow_private": True},
            {"name": "ops", "webhook": rig.receiver.url("/ops"), "allow_private": True}]
        rig.config["audit"] = {"notify": ["vault"]}
        rig.config["console"]["evaluate"] = "1h"
        rig.write_config()
        rig.start()
        self.acts(rig, 2)
        rig.cli("reload")
        rig["console"].stop()
        rig.config["console"]["evaluate"] = "500ms"
        rig.write_config()
        rig.start("console")
        rig.receiver.wait(path="/vault")
        request, = rig.receiver.requests("/vault")
        body = json.loads(request.body)
        heads = {h["process"]: h["head"] for h in body["audit_heads"]}
        self.assertEqual(set(heads), set(rig.daemons))
        self.assertEqual(heads["sequencer"], self.head(rig))
        for head in heads.values():
            self.assertIn(head, body["text"])
        self.assertEqual(body["alerts"], [])
        published = ",".join(h for h in heads.values() if h)
        code, _, text = self.verify(rig, "--head", published)
        self.assertEqual(code, 0, text)
        rig["console"].restart()
        wait_for(lambda: "the newest hash" in rig["console"].log(), what="the log line")
        logged = re.findall(r"the newest hash of the audit chain head=(\S+)",
                            rig["console"].log())
        self.assertEqual(self.verify(rig, "--head", logged[-1])[0], 0)
        rig.cli("alerts", "test", "ops")
        self.assertEqual(len(rig.receiver.requests("/vault")), 1)


main()
