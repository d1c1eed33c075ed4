"""Acts: audit rows, idempotency keys and tokens, on real processes."""

import hashlib
import json
import os
import pathlib
import pwd
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import zmq
from rig import SIGNING_SECRET, RigTest, main, wait_for

USER = pwd.getpwuid(os.geteuid()).pw_name
OWNER = "tok_01JD3S6Q8W0N8M7V1T2X3Y4Z5A"


def raw(rig, process, question, poll_s=30):
    """The reply to this request; None: it got none."""
    with zmq.Context.instance().socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"ipc://{rig.run_dir}/{process}.control")
        socket.send_json(question)
        return socket.recv_json() if socket.poll(poll_s * 1000) else None


def by(key=None, digest="a" * 64, **more):
    keyed = {"owner": OWNER, "key": key, "digest": digest} if key else {}
    return {"actor": "token ops", "role": "operator", **keyed, **more}


def act(rig, process, ask, args, **how):
    return raw(rig, process, {"v": 1, "ask": ask, "args": args, "by": by(**how)})


def audit(rig, process):
    rows = []
    before = {}
    while True:
        reply = rig.ask(process, "audit", limit=2, **before)
        rows += reply["audit"]
        if not reply["next"]:
            return rows
        before = {"before": reply["next"]}


class Acts(RigTest):
    def test_by_is_checked_strictly(self):
        rig = self.rig().start()
        for name, what in [
                ({}, "by.actor is missing: who asks"),
                ({"actor": ""}, "by.actor: from 1 to 200 characters is needed"),
                ({"actor": "x", "role": "god"}, 'by.role: "god" is unknown'),
                ({"actor": "x", "boss": True}, "by.boss: it is not declared"),
                ({"actor": "x", "key": "k"}, "key, owner and digest are needed together"),
                (by("k", digest="Z" * 64), "64 hexadecimal digits"),
                (by("k", digest="a" * 63), "by.digest: 64 characters"),
                (by("k" * 1025), "by.key: from 1 to 1024 characters"),
                ("root", "a request is")]:
            reply = raw(rig, "dlqd", {"v": 1, "ask": "reload", "by": name})
            self.assertEqual((reply["ok"], reply["code"]), (False, "invalid"), name)
            self.assertIn(what, reply["error"])
        reply = raw(rig, "dlqd", {"v": 1, "ask": "dlq", "by": by("k")})
        self.assertEqual(reply["code"], "invalid")
        self.assertIn("dlq changes nothing", reply["error"])
        self.assertEqual(audit(rig, "dlqd"), [])

    def test_a_repeated_key_gets_the_same_reply_and_one_effect(self):
        rig = self.rig().start()
        event = rig.accept()
        rig.receiver.wait(event)
        rig.settle()
        args = {"events": [{"id": event}], "new_id": True}
        first = act(rig, "ingress", "resend", args, key="again-1")
        self.assertTrue(first["ok"], first)
        self.assertEqual(act(rig, "ingress", "resend", args, key="again-1"), first)
        other = act(rig, "ingress", "resend", args, key="again-1", digest="b" * 64)
        self.assertEqual(other["code"], "key_reused")
        rig.receiver.wait(first["reply"]["resent"][0]["new_id"])
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/crm")), 2)
        row, = audit(rig, "ingress")
        self.assertEqual(
            {k: row[k] for k in ("process", "actor", "role", "command", "args",
                                 "outcome", "request_id")},
            {"process": "ingress", "actor": "token ops", "role": "operator",
             "command": "resend", "args": args, "outcome": "done",
             "request_id": None})

    def test_a_refused_act_keeps_its_reply(self):
        rig = self.rig().start()
        wrong = {"name": "nowhere"}
        first = act(rig, "sequencer", "endpoint_pause", wrong, key="p-1")
        self.assertEqual((first["ok"], first["code"]), (False, "not_found"))
        self.assertEqual(act(rig, "sequencer", "endpoint_pause", wrong, key="p-1"), first)
        self.assertEqual([r["outcome"] for r in audit(rig, "sequencer")],
                         [first["error"]])

    def test_an_error_of_an_act_that_replies_later_is_not_kept(self):
        rig = self.rig().start()
        folder = rig.folder / "copies"
        args = {"path": str(folder / "dlqd.db")}
        first = act(rig, "dlqd", "backup", args, key="b-1")
        self.assertEqual((first["ok"], first["code"]), (False, "refused"))
        folder.mkdir()
        again = act(rig, "dlqd", "backup", args, key="b-1")
        self.assertTrue(again["ok"], again)
        self.assertEqual(act(rig, "dlqd", "backup", args, key="b-1"), again)

    def test_a_cursor_of_no_page_is_invalid_everywhere(self):
        rig = self.rig().start()
        for process, ask, name in [
                ("sequencer", "events", "before"), ("sequencer", "deliveries", "before"),
                ("sequencer", "gaps", "before"), ("sequencer", "workspaces", "after"),
                ("sequencer", "endpoints", "after"), ("dlqd", "dlq", "before"),
                ("dlqd", "audit", "before")]:
            reply = raw(rig, process, {"v": 1, "ask": ask, "args": {name: "no cursor"}})
            self.assertEqual((reply["ok"], reply.get("code")), (False, "invalid"), (ask, reply))

    def test_after_a_kill_the_key_tells_whether_it_was_done(self):
        """kill -9 somewhere between request and reply, again and again: the repeat
        finds the stored reply, or does it then."""
        rig = self.rig().start()
        event = rig.accept()
        rig.receiver.wait(event)
        rig.settle()
        replies = 0
        for n in range(6):
            args = {"events": [{"id": event}], "new_id": True}
            with zmq.Context.instance().socket(zmq.REQ) as socket:
                socket.linger = 0
                socket.connect(f"ipc://{rig.run_dir}/ingress.control")
                socket.send_json({"v": 1, "ask": "resend", "args": args,
                                  "by": by(f"kill-{n}")})
                time.sleep(n * 0.002)
                rig.kill("ingress")
                replies += bool(socket.poll(0))
            rig.start("ingress")
            done = rig.rows("ingress", "SELECT reply FROM idempotency WHERE key = ?",
                            f"kill-{n}")
            reply = act(rig, "ingress", "resend", args, key=f"kill-{n}")
            self.assertTrue(reply["ok"], reply)
            if done:
                self.assertEqual(json.loads(done[0]["reply"]), reply)
            rig.receiver.wait(reply["reply"]["resent"][0]["new_id"])
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/crm")), 7)
        self.assertEqual(len(audit(rig, "ingress")), 6)

    def test_an_act_that_replies_later_is_in_progress_only_while_it_runs(self):
        rig = self.rig(console=True)
        rig.config["notifiers"] = [{"name": "slow", "exec": ["/bin/sleep", "1.5"],
                                    "timeout": "10s"}]
        rig.write_config()
        rig.start()
        with zmq.Context.instance().socket(zmq.REQ) as socket:
            socket.linger = 0
            socket.connect(f"ipc://{rig.run_dir}/console.control")
            socket.send_json({"v": 1, "ask": "alerts_test", "args": {"name": "slow"},
                              "by": by("test-1")})
            wait_for(lambda: audit(rig, "console"), what="the start's row")
            reply = act(rig, "console", "alerts_test", {"name": "slow"}, key="test-1")
            self.assertEqual(reply["code"], "in_progress")
            reply = act(rig, "console", "alerts_test", {"name": "slow"})
            self.assertEqual(reply["code"], "in_progress")
            self.assertTrue(socket.poll(10000))
            first = socket.recv_json()
        self.assertTrue(first["ok"], first)
        self.assertEqual(act(rig, "console", "alerts_test", {"name": "slow"},
                             key="test-1"), first)
        self.assertEqual([r["outcome"] for r in audit(rig, "console")
                          if not r["outcome"].startswith("another")],
                         ["done", "started"])
        act_2 = {"v": 1, "ask": "alerts_test", "args": {"name": "slow"},
                 "by": by("test-2")}
        raw(rig, "console", act_2, poll_s=0.3)
        rig.kill("console")
        rig.start("console")
        self.assertEqual(audit(rig, "console")[0]["outcome"], "started")
        self.assertTrue(raw(rig, "console", act_2)["ok"])


class ApiTokens(RigTest):
    def check(self, rig, token):
        digest = hashlib.sha256(token.encode()).hexdigest()
        return rig.ask("sequencer", "token_check", sha256=digest)["token"]

    def test_a_token_is_shown_once_and_stored_as_a_digest(self):
        rig = self.rig().start()
        args = {"name": "ops", "role": "operator"}
        first = act(rig, "sequencer", "token_create", args, key="make")
        token = first["reply"].pop("token")
        self.assertRegex(token, r"^grp_[A-Za-z0-9_-]{43}$")
        again = act(rig, "sequencer", "token_create", args, key="make")
        self.assertIsNone(again["reply"].pop("token"))
        self.assertEqual(again, first)
        got = first["reply"]
        self.assertEqual((got["name"], got["role"], got["state"], got["created_by"]),
                         ("ops", "operator", "active", "token ops"))
        self.assertIsNone(self.check(rig, "grp_" + "x" * 43))
        self.assertEqual(self.check(rig, token)["id"], got["id"])
        self.assertIsNotNone(rig.ask("sequencer", "tokens")["tokens"][0]["last_used_at"])
        reply = act(rig, "sequencer", "token_create", args)
        self.assertEqual(reply["code"], "refused")
        self.assertIn("a token has the name ops", reply["error"])
        reply = act(rig, "sequencer", "token_create", {**args, "name": "a b"})
        self.assertEqual(reply["code"], "invalid")
        revoked = act(rig, "sequencer", "token_revoke", {"id": got["id"]})["reply"]
        self.assertEqual(revoked["state"], "revoked")
        self.assertIsNone(self.check(rig, token))
        self.assertEqual(act(rig, "sequencer", "token_revoke",
                             {"id": got["id"]})["reply"], revoked)
        reply = act(rig, "sequencer", "token_revoke", {"id": "tok_x"})
        self.assertEqual(reply["code"], "not_found")
        rig.stop()
        secret = token.encode()
        for path in rig.folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(secret, path.read_bytes(), path)


class Commands(RigTest):
    def test_audit_merges_the_rows_of_all_processes(self):
        rig = self.rig()
        rig.config["endpoints"].append(rig.endpoint("wide"))
        rig.write_config()
        rig.start()
        event = rig.accept()
        rig.settle()
        rig.cli("endpoints", "pause", "crm")
        rig.cli("resend", event)
        rig.cli("endpoints", "test", "crm")
        rig.cli("endpoints", "pause", "nowhere")
        rig.cli("reload")
        rows, code = rig.cli("audit")
        self.assertEqual(code, 0)
        self.assertEqual([r["at"] for r in rows],
                         sorted((r["at"] for r in rows), reverse=True))
        self.assertEqual({r["actor"] for r in rows}, {f"user {USER}"})
        by_command = {}
        for row in reversed(rows):
            by_command.setdefault(row["command"], []).append(row)
        pause, refused = by_command["endpoint_pause"]
        self.assertEqual((pause["process"], pause["args"], pause["outcome"]),
                         ("sequencer", {"name": "crm"}, "done"))
        self.assertIn("nowhere", refused["outcome"])
        resend, = by_command["resend"]
        self.assertEqual((resend["process"], resend["args"]["events"][0]["id"]),
                         ("ingress", event))
        self.assertEqual([(r["process"], r["args"]["endpoint"], r["outcome"])
                          for r in by_command["test"]],
                         [("deliverer-1", "crm", "started"),
                          ("deliverer-1", "crm", "done")])
        self.assertEqual({r["process"] for r in by_command["reload"]},
                         set(rig.daemons))
        newest, _ = rig.cli("audit", "--limit", "2")
        self.assertEqual(newest, rows[:2])
        self.assertEqual(rig.cli("audit", "--until", "1h"), ([], 0))
        text = rig.cli_text("audit").stdout
        self.assertIn('{"name":"crm"}', text)
        dump = json.dumps(rows) + "".join(d.log() for d in rig.daemons.values())
        self.assertNotIn(SIGNING_SECRET, dump)
        rig["dlqd"].stop()
        done = rig.cli_text("audit")
        self.assertEqual(done.returncode, 69)
        self.assertIn("the list is incomplete: these processes did not reply: dlqd",
                      done.stderr)
        self.assertIn("endpoint_pause", done.stdout)

    def test_tokens_in_a_script(self):
        rig = self.rig().start()
        self.assertIn("There are no tokens", rig.cli_text("tokens").stdout)
        done = rig.cli_text("tokens", "create", "ops", "--role", "operator",
                            "--expires", "90d")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^grp_\S{43}\n$")
        self.assertIn("shown only once", done.stderr)
        made, code = rig.cli("tokens", "create", "grafana", "--role", "viewer")
        self.assertEqual((code, made["expires_at"]), (0, None))
        self.assertRegex(made["token"], r"^grp_")
        rows, _ = rig.cli("tokens")
        self.assertEqual([(t["name"], t["role"], t["created_by"]) for t in rows],
                         [("grafana", "viewer", f"user {USER}"),
                          ("ops", "operator", f"user {USER}")])
        self.assertIsNotNone(rows[1]["expires_at"])
        said = rig.cli_text("tokens", "revoke", made["id"])
        self.assertIn("(grafana) is revoked", said.stdout)
        text = rig.cli_text("tokens").stdout
        self.assertRegex(text, r"grafana +viewer +- +revoked")
        for args, code, what in [
                (["create", "x"], 64, "--role is missing"),
                (["create", "x", "--role", "god"], 1, '"god" is unknown'),
                (["create", "x", "--role", "admin", "--expires", "soon"], 64,
                 '"soon" is not a time'),
                (["create", "x", "--role", "admin", "--expires", "2020-01-01"], 1,
                 "this time has passed"),
                (["create", "ops", "--role", "admin"], 1, "a token has the name ops"),
                (["revoke", "tok_x"], 1, "there is no token tok_x")]:
            done = rig.cli_text("tokens", *args)
            self.assertEqual(done.returncode, code, (args, done.stderr))
            self.assertIn(what, done.stderr)

    def test_without_its_record_a_restore_says_that_revoked_tokens_are_valid_again(self):
        rig = self.rig().start()
        made, _ = rig.cli("tokens", "create", "ops", "--role", "viewer")
        copies = rig.folder / "copies"
        rig.cli("backup", copies)
        rig.cli("tokens", "revoke", made["id"])
        rig.stop()
        (rig.state_dir / "ended").unlink()
        done = rig.cli_text("restore", copies)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("since then are valid again", done.stdout)
        rig.start()
        self.assertEqual(rig.cli("tokens")[0][0]["state"], "active")


main()
