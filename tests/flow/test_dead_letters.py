"""Dead letters are found, retried, resolved, discarded and redirected by the command
line."""

import contextlib
import os
import pathlib
import pty
import pwd
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, program, wait_for


class Letters(RigTest):
    def dead(self, count, *responses):
        """A pipeline in which so many events died at crm with 400."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": count}, *(responses or [{"status": 200}])]})
        rig.start()
        events = [rig.accept() for _ in range(count)]
        self.until(rig, dead=count)
        return rig, events

    def until(self, rig, **counts):
        wait_for(lambda: {k: self.stats(rig)[k] for k in counts} == counts,
                 what=f"dead letters {counts}")

    def stats(self, rig):
        stats, code = rig.cli("dlq", "stats")
        self.assertEqual(code, 0)
        return stats


class Traced(Letters):
    def said(self, rig, event, *words):
        """Lines of the sequencer that begin with one of these words, in order."""
        return [line["what"] for line in rig.trace(event)["timeline"]
                if line["process"] == "sequencer"
                and line["what"].startswith(words)]

    def test_a_trace_shows_the_end_of_each_generation(self):
        """P10: of every generation, over restarts: it died twice, was delivered, was
        sent again, died, and was retried."""
        rig, (event,) = self.dead(1, {"status": 404}, {"status": 200},
                                  {"status": 410}, {"status": 200})
        told = ["dead-lettered at crm: rejected"]
        self.assertEqual(self.said(rig, event, "dead-lettered"), told)
        rig.cli("dlq", "retry", "--all")
        wait_for(lambda: len(rig.receiver.requests("/crm", event)) == 2)
        self.until(rig, dead=1)
        rig["sequencer"].restart()
        told += ["dead-lettered at crm: rejected"]
        self.assertEqual(self.said(rig, event, "dead-lettered"), told)
        rig.cli("dlq", "retry", "--all")
        told += ["delivered to crm after 3 attempt(s)"]
        wait_for(lambda: self.said(rig, event, "dead-lettered", "delivered") == told)
        rig.cli("resend", event)
        told += ["dead-lettered at crm: endpoint_gone"]
        wait_for(lambda: self.said(rig, event, "dead-lettered", "delivered") == told)
        rig.cli("endpoints", "resume", "crm")
        rig.cli("dlq", "retry", "--all")
        told += ["delivered to crm after 5 attempt(s)"]
        wait_for(lambda: self.said(rig, event, "dead-lettered", "delivered") == told)
        lines = self.said(rig, event, "attempt", "dead-lettered", "delivered")
        self.assertEqual([line.split()[0] for line in lines],
                         ["attempt", "dead-lettered"] * 2
                         + ["attempt", "delivered", "attempt", "dead-lettered",
                            "attempt", "delivered"])

    def test_an_event_id_identifies_its_only_dead_letter(self):
        """With several dead letters the error says what to write."""
        rig = self.rig()
        rig.config["endpoints"].append(rig.endpoint("erp"))
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        one = rig.accept()
        self.until(rig, dead=1)
        for id_ in one, f"dlq_{one[4:]}":
            self.assertEqual(rig.cli("dlq", "show", id_)[0]["id"],
                             f"dlq_{one[4:]}-crm")
        rig.receiver.rules({"path": "*", "responses": [{"status": 400}]})
        two = rig.accept()
        self.until(rig, dead=3)
        for words in (["show"], ["resolve", "--note", "x"]):
            for id_ in two, f"dlq_{two[4:]}":
                said = rig.cli_text("dlq", words[0], id_, *words[1:]).stderr
                self.assertIn(f"2 dead letters: write one's id, such as "
                              f"dlq_{two[4:]}-", said)
        for command in "trace", "show":
            said = rig.cli_text(command, "evt_nope").stderr
            self.assertEqual(said.count("evt_nope"), 1, said)

    def test_a_trace_shows_that_an_event_was_refused(self):
        """P10: also after a new configuration has accepted it."""
        rig = self.rig({"sources": [{
            "name": "plane", "provider": "plane", "secrets": ["${PLANE_SECRET}"],
            "workspaces": ["ws-1"]}]}).start()
        event = rig.accept(rig.plane_body("ws-2"))
        self.until(rig, dead=1)
        told = self.said(rig, event, "refused")
        self.assertEqual(len(told), 1)
        rig.cli("dlq", "retry", "--all")
        wait_for(lambda: self.said(rig, event, "refused") == 2 * told)
        self.until(rig, dead=1)
        del rig.config["sources"][0]["workspaces"]
        rig.write_config()
        rig.cli("reload")
        rig.cli("dlq", "retry", "--all")
        rig.wait_status(event)
        self.assertEqual(self.said(rig, event, "refused"), 2 * told)


class Bulk(Letters):
    def test_retry_all_sends_the_oldest_first_and_each_once(self):
        """P2: the oldest first, each once, and what it did is on record."""
        rig, events = self.dead(40)
        self.assertEqual(self.stats(rig)["by_reason"], {"rejected": 40})
        self.assertEqual(self.stats(rig)["by_endpoint"], {"crm": 40})
        self.assertEqual(self.stats(rig)["by_fault"], {"endpoint": 40})
        reply, code = rig.cli("dlq", "retry", "--all", "--rate", "1000")
        self.assertEqual(code, 0)
        self.assertEqual(len(reply["requeued"]), 40)
        self.assertEqual(len(set(reply["requeued"])), 40)
        self.until(rig, dead=0, requeued=0, recovered=40)
        self.assertEqual(self.stats(rig)["by_reason"], {})
        for event in events:
            self.assertEqual(len(rig.receiver.wait(event, count=2)), 2)
        shown, _ = rig.cli("dlq", "show", reply["requeued"][0])
        me = pwd.getpwuid(os.geteuid()).pw_name
        self.assertIn(f"by {me}", [h["what"] for h in shown["history"]])
        again, code = rig.cli("dlq", "retry", "--all")
        self.assertEqual((code, again["requeued"]), (0, []))

    def test_retry_all_does_not_send_what_dies_again(self):
        """P9: one command sends no dead letter twice."""
        rig, events = self.dead(12, {"status": 400})
        said = rig.cli_text("dlq", "retry", "--all", "--rate", "10")
        self.assertEqual((said.returncode, said.stdout), (0, "12 requeued\n"))
        self.until(rig, dead=12, requeued=0)
        for event in events:
            self.assertEqual(len(rig.receiver.wait(event, count=2)), 2)

    def test_retry_all_sends_only_matching_dead_letters(self):
        rig, _ = self.dead(6)
        none, code = rig.cli("dlq", "retry", "--all", "--endpoint", "other")
        self.assertEqual((code, none["requeued"]), (1, []))
        two, _ = rig.cli("dlq", "retry", "--all", "--reason", "rej*",
                         "--limit", "2")
        self.assertEqual(len(two["requeued"]), 2)
        self.until(rig, dead=4, recovered=2)

    def test_resolve_and_discard_apply_to_all_matching_dead_letters(self):
        """P2: each gets the note; after a kill -9 the same command continues."""
        rig, events = self.dead(12)
        for command in ("resolve", "discard"):
            for args, word in ((("--all",), "--note"),
                               (("--note", "x"), "--all"),
                               (("--all", events[0], "--note", "x"), "--all")):
                said = rig.cli_text("dlq", command, *args)
                self.assertEqual(said.returncode, 64, said.stderr)
                self.assertIn(word, said.stderr)
        some, code = rig.cli("dlq", "resolve", "--all", "--reason", "rej*",
                             "--limit", "4", "--note", "by phone")
        self.assertEqual((code, len(some["resolved"])), (0, 4))
        rig["dlqd"].kill()
        rig["dlqd"].start()
        self.until(rig, dead=8, resolved=4)
        said = rig.cli_text("dlq", "discard", "--all", "--endpoint", "crm",
                            "--rate", "1000", "--note", "a test")
        self.assertEqual((said.returncode, said.stdout), (0, "8 discarded\n"))
        self.until(rig, dead=0, resolved=4, discarded=8)
        shown, _ = rig.cli("dlq", "show", some["resolved"][0])
        self.assertEqual(shown["note"], "by phone")
        again, code = rig.cli("dlq", "discard", "--all", "--note", "x")
        self.assertEqual((code, again["discarded"]), (0, []))

    def test_an_event_id_retries_all_its_dead_letters(self):
        """An event without a dead letter is an error."""
        rig, (event,) = self.dead(1)
        reply, code = rig.cli("dlq", "retry", event)
        self.assertEqual((code, len(reply["requeued"])), (0, 1))
        self.until(rig, dead=0, recovered=1)
        reply, code = rig.cli("dlq", "retry", event)
        self.assertEqual((code, reply["requeued"]), (1, []))
        self.assertIn("no dead letter", reply["refused"][0]["why"])

    def test_an_interrupted_retry_all_continues_later(self):
        """P3: a kill of dlqd in between loses no dead letter and sends none
        twice."""
        rig, events = self.dead(30)
        rig.cli("dlq", "retry", "--all", "--limit", "10")
        rig["dlqd"].kill()
        said = rig.cli_text("dlq", "retry", "--all")
        self.assertEqual(said.returncode, 69)
        self.assertIn("dlqd", said.stderr)
        rig["dlqd"].start()
        rig.cli("dlq", "retry", "--all", "--rate", "1000")
        self.until(rig, dead=0, requeued=0, recovered=30)
        for event in events:  # the receiver writes its record with a delay
            self.assertEqual(len(rig.receiver.wait(event, count=2)), 2)

    def test_two_operators_requeue_each_dead_letter_once(self):
        """P3, P4: each dead letter is requeued once, by either operator, even if dlqd
        dies before it replies."""
        rig, events = self.dead(60)
        command = [program("grapnel"), "dlq", "-c", str(rig.config_path),
                   "retry", "--all", "--rate", "200"]
        for _ in range(4):
            asked = [subprocess.Popen(
                command, cwd=rig.folder, env={**os.environ, **rig.env},
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for _ in range(2)]
            before = self.stats(rig)["dead"]
            wait_for(lambda: self.stats(rig)["dead"] < before or
                     all(p.poll() is not None for p in asked))
            rig["dlqd"].kill()
            for process in asked:
                process.wait(60)
            rig["dlqd"].start()
        rig.cli("dlq", "retry", "--all", "--rate", "1000")
        self.until(rig, dead=0, requeued=0, recovered=60)
        rig.settle()
        for event in events:
            self.assertEqual(len(rig.receiver.wait(event, count=2)), 2)

    def test_retry_all_shows_progress_and_can_be_interrupted(self):
        rig, _ = self.dead(12)
        screen, terminal = pty.openpty()
        process = subprocess.Popen(
            [program("grapnel"), "dlq", "-c", str(rig.config_path), "retry",
             "--all", "--rate", "5"], cwd=rig.folder, stdin=terminal,
            env={**os.environ, **rig.env}, stdout=subprocess.PIPE,
            stderr=terminal)
        os.close(terminal)
        shown = b""
        while b"1 of 12 requeued" not in shown:
            shown += os.read(screen, 4096)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal's end
            while more := os.read(screen, 4096):
                shown += more
        self.assertEqual((process.wait(60), process.stdout.read()), (1, b""))
        process.stdout.close()
        os.close(screen)
        self.assertIn(b"\r", shown)
        self.assertIn(b"the same command continues with the rest", shown)
        self.assertGreater(self.stats(rig)["dead"], 0)
        rig.cli("dlq", "retry", "--all", "--rate", "1000")
        self.until(rig, dead=0, requeued=0, recovered=12)

    def test_wrong_dlq_arguments_are_refused(self):
        rig, _ = self.dead(1)
        for args, word in ((["retry"], "--all"),
                           (["retry", "--all", "dlq_x"], "--all"),
                           (["retry", "--all", "--rate", "0"], "--rate"),
                           (["retry", "--all", "--since", "soon"], "--since"),
                           (["--state", "ded"], "dead")):
            said = rig.cli_text("dlq", *args)
            self.assertEqual(said.returncode, 64, (args, said.stderr))
            self.assertIn(word, said.stderr)


class Life(Letters):
    def said(self, rig, *args):
        reply, code = rig.cli(*args)
        self.assertEqual(code, 0, args)
        return reply

    def test_a_dead_letter_can_be_handled_by_the_command_line_alone(self):
        """P2: sent, dead, found, looked at, retried, dead again, retried at
        another URL, recovered; others resolved and discarded; all on record."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 422, "body": "no such field"}]})
        rig.start()
        for n in range(3):
            rig.cli("send", "plane", "--workspace", f"team-{n}",
                    "--type", "issue.created")
        self.until(rig, dead=3)
        for filters in (["--endpoint", "crm"], ["--source", "plane"],
                        ["--workspace", "team-*"], ["--type", "issue.*"],
                        ["--reason", "rejected"], ["--state", "dead"],
                        ["--since", "1h"], []):
            self.assertEqual(len(self.said(rig, "dlq", *filters)), 3, filters)
        for filters in (["--state", "resolved"], ["--reason", "budget_time"], ["--until", "1h"]):
            self.assertEqual(self.said(rig, "dlq", *filters), [], filters)
        dead_letter, = self.said(rig, "dlq", "--workspace", "team-0")
        self.assertEqual(
            {k: dead_letter[k] for k in ("endpoint", "reason", "state", "attempts",
                                    "last_http_status", "last_response")},
            {"endpoint": "crm", "reason": "rejected", "state": "dead",
             "attempts": 1, "last_http_status": 422,
             "last_response": "no such field"})
        shown = self.said(rig, "dlq", "show", dead_letter["id"])
        self.assertIn(["X-Plane-Event", "issue"], shown["headers"])
        self.assertIn("team-0", shown["body"])
        self.said(rig, "dlq", "retry", dead_letter["id"])
        self.until(rig, dead=3, requeued=0)
        shown = self.said(rig, "dlq", "show", dead_letter["id"])
        self.assertEqual((shown["attempts"], shown["generation"]), (2, 2))
        rig.config["endpoints"][0]["url"] = rig.receiver.url("/moved")
        rig.write_config()
        self.said(rig, "reload")
        self.said(rig, "dlq", "retry", dead_letter["id"])
        self.until(rig, dead=2, requeued=0, recovered=1)
        resolved, discarded = self.said(rig, "dlq")
        self.said(rig, "dlq", "resolve", resolved["id"], "--note", "by phone")
        self.said(rig, "dlq", "discard", discarded["id"], "--note", "a test")
        self.assertEqual(self.said(rig, "dlq"), [])
        stats = self.stats(rig)
        self.assertEqual({k: stats[k] for k in (
            "dead", "requeued", "recovered", "resolved", "discarded")},
            {"dead": 0, "requeued": 0, "recovered": 1, "resolved": 1,
             "discarded": 1})
        for wrong in (["retry", dead_letter["id"]], ["retry", resolved["id"]],
                      ["resolve", discarded["id"], "--note", "again"],
                      ["show", "dlq_nonsense"], ["retry", dead_letter["event_id"]],
                      ["retry", dead_letter["id"][:-3]]):
            self.assertEqual(rig.cli_text("dlq", *wrong).returncode, 1, wrong)
        # An event's id finds its dead letter, when it has one.
        self.assertEqual(self.said(rig, "dlq", "show", dead_letter["event_id"])["id"],
                         dead_letter["id"])
        history = self.said(rig, "dlq", "show", dead_letter["id"])["history"]
        self.assertEqual([h["to"] for h in history], [
            "dead", "requeued", "dead", "requeued", "recovered"])
        told = [e["what"] for e in rig.trace(dead_letter["event_id"])["timeline"]]
        for words in ("attempt 3 at crm by deliverer-1: responded 200",
                      "recovered: delivered after the requeue"):
            self.assertIn(words, "\n".join(told))
        self.assertEqual([a["http_status"] for a in rig.trace(
            dead_letter["event_id"])["deliveries"][0]["attempts"]], [422, 422, 200])


class Redirect(Letters):
    def dead_with_another(self, count):
        rig, events = self.dead(count)
        rig.config["endpoints"].append(
            rig.endpoint("spare", types=["nothing.*"]))
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        return rig, events

    def test_a_dead_letter_can_be_sent_to_another_endpoint(self):
        """P2: it is resolved, with a note. The other endpoint never had the event,
        so it is not marked as a replay."""
        rig, (event,) = self.dead_with_another(1)
        dead_letter, = rig.cli("dlq")[0]
        reply, code = rig.cli("dlq", "retry", dead_letter["id"], "--to", "spare")
        self.assertEqual((code, reply["requeued"]), (0, [dead_letter["id"]]))
        request, = rig.receiver.wait(event, count=1, path="/spare")
        self.assertNotIn("grapnel-replay", request.headers)
        shown, _ = rig.cli("dlq", "show", dead_letter["id"])
        self.assertEqual((shown["state"], shown["note"]),
                         ("resolved", "sent to spare instead"))
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/crm", event=event)), 1)
        wait_for(lambda: rig.rows(
            "dlqd", "SELECT n FROM redirects WHERE link_n >= 0") == [])
        for to, word in (("crm", "failed at this endpoint"), ("spear", "spare")):
            said = rig.cli_text("dlq", "retry", dead_letter["id"], "--to", to)
            self.assertEqual(said.returncode, 1)
            self.assertIn(word, said.stdout + said.stderr)

    def test_dead_letters_that_cannot_be_redirected_are_named(self):
        """One that is being retried, and one of the other endpoint itself; the rest
        is sent."""
        rig, events = self.dead_with_another(3)
        first, *rest = (x["id"] for x in rig.cli("dlq")[0])
        rig["deliverer-1"].kill()
        self.assertEqual(rig.cli("dlq", "retry", first)[1], 0)
        reply, code = rig.cli("dlq", "retry", first, rest[0], "--to", "spare")
        self.assertEqual((code, reply["requeued"]), (1, rest[:1]))
        self.assertIn("requeued since", reply["refused"][0]["why"])
        reply, code = rig.cli("dlq", "retry", "--all", "--to", "crm")
        self.assertEqual((code, reply["requeued"],
                          [x["id"] for x in reply["refused"]]),
                         (1, [], rest[1:]))
        said = rig.cli_text("dlq", "retry", "--all", "--to", "crm")
        self.assertIn("1 dead letter was refused: it failed at this endpoint", said.stderr)
        rig["deliverer-1"].start()
        self.until(rig, dead=1, requeued=0, recovered=1, resolved=1)

    def test_a_restored_sequencer_gets_redirects_again(self):
        """P2, P4: it is resolved here, so nobody else would see to it. (The
        link has carried something before: its place is not the first.)"""
        rig, (before, event) = self.dead_with_another(2)
        dead_letters = {x["event_id"]: x for x in rig.cli("dlq")[0]}
        dead_letter = dead_letters[event]
        rig.cli("dlq", "retry", dead_letters[before]["id"], "--to", "spare")
        rig.receiver.wait(before, count=1, path="/spare")
        rig.settle()
        self.assertEqual(rig.cli("backup", rig.folder / "old")[1], 0)
        rig.cli("dlq", "retry", dead_letter["id"], "--to", "spare")
        rig.receiver.wait(event, count=1, path="/spare")
        rig.settle()
        wait_for(lambda: rig.rows("dlqd", "SELECT link_n FROM redirects") ==
                 [{"link_n": -1}] * 2)
        rig["sequencer"].kill()
        for path in rig.state_dir.glob("sequencer.db*"):
            path.unlink()
        shutil.copy(rig.folder / "old" / "sequencer.db", rig.state_dir)
        rig["sequencer"].start()
        wait_for(lambda: [d["status"] for d in rig.deliveries(event)
                          if d["endpoint"] == "spare"] == ["delivered"],
                 what="the delivery to be there again")

    def test_redirects_survive_kills_and_take_effect_once(self):
        """P3, P4: the sequencer is down and dlqd dies; a further failure is a dead
        letter of the other endpoint."""
        rig, events = self.dead_with_another(20)
        rig.receiver.rules({"path": "/spare", "responses": [
            {"status": 400, "times": 1}, {"status": 200}]})
        rig["sequencer"].kill()
        reply, code = rig.cli("dlq", "retry", "--all", "--to", "spare")
        self.assertEqual((code, len(reply["requeued"])), (0, 20))
        rig["dlqd"].kill()
        rig.start()
        for event in events:
            rig.receiver.wait(event, count=1, path="/spare")
        self.until(rig, resolved=20, dead=1)
        rig.settle()
        for event in events:
            self.assertEqual(
                len(rig.receiver.requests("/spare", event=event)), 1)
        self.assertEqual([x["endpoint"] for x in rig.cli("dlq")[0]], ["spare"])


main()
