"""P10: a trace says what happened to an event and which processes did not respond, and
lists find rare events."""

import hashlib
import hmac
import json
import os
import pathlib
import pwd
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for  # noqa: E402

KEY = "ledger key"
ME = pwd.getpwuid(os.geteuid()).pw_name
# What a terminal would obey: all of C0 but line ends and tabs, DEL, C1, marks that
# turn the direction.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e]")


class Response(RigTest):
    def ledger(self, **more):
        """Numbered events; crm is subscribed to entries, audit to all, legal to none of
        these."""
        rig = self.rig({"sources": [{
            "name": "ledger", "provider": "custom", "secrets": ["old", KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                       "form": "plain", "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            "dedupe": {"keys": [["source", "id"]], "ttl": "1h"},
            "order": {"by": "sequence", "sequence": "json:/seq", "start": 1,
                      "give_up_after": "1h"}}], **more})
        rig.config["endpoints"] = [
            rig.endpoint("crm", types=["entry.*"]), rig.endpoint("audit"),
            rig.endpoint("legal", workspaces=["legal-*"]),
            rig.endpoint("off", enabled=False)]
        rig.write_config()
        return rig

    def send(self, rig, seq, team="t", id=None, **more):
        body = json.dumps({"id": id or f"{team}-{seq}", "type": "entry.made",
                           "team": team, "seq": seq, **more}).encode()
        mac = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        return rig.accept(body, source="ledger", headers={
            "X-Sig": mac, "Content-Type": "application/json"})

    def told(self, rig, event, process=None):
        """The timeline as one text, a line each."""
        return "\n".join(e["what"] for e in rig.trace(event)["timeline"]
                         if process in (None, e["process"]))


class Story(Response):
    def test_a_trace_shows_each_step_and_what_delayed_it(self):
        rig = self.ledger().start()
        self.assertEqual(rig.cli("endpoints", "pause", "audit")[1], 0)
        self.send(rig, 1)
        event = self.send(rig, 3)
        rig.wait_status(event, "buffered")
        self.assertIn("gap_1 (2-2 missing): opened", self.told(rig, event))
        self.assertIn("buffered", self.told(rig, event))
        self.assertEqual(rig.cli("gaps", "close", "gap_1", "--note",
                                 "never sent")[1], 0)
        rig.receiver.wait(event, path="/crm")
        self.assertEqual(rig.cli("endpoints", "resume", "audit")[1], 0)
        rig.receiver.wait(event, path="/audit")
        rig.wait_status(event)
        said = self.told(rig, event)
        for words in ("received from 127.0.0.1 by source ledger",
                      "verified by hmac-sha256, secret 2",
                      f"gap_1 (2-2 missing): closed by {ME}: never sent",
                      "released without waiting for 2",
                      "sequenced: number 2 of workspace t",
                      "routed to crm: by its own subscription",
                      "not sent to legal: not subscribed to workspace t",
                      "not sent to off: the endpoint is switched off",
                      f"endpoint audit: paused by {ME}",
                      f"endpoint audit: resumed by {ME}",
                      "attempt 1 at crm by deliverer-1: responded 200",
                      "delivered to audit"):
            self.assertIn(words, said)
        with self.subTest("in the order in which it was"):
            # Ingress says when it was received. A turn of the sequencer has the time at which it began, which may be
            # some milliseconds earlier.
            at = [said.index(w) for w in
                  ("buffered", "closed by", "sequenced",
                   "routed to crm", "attempt 1 at crm")]
            self.assertEqual(at, sorted(at))
        with self.subTest("not judged by what the configuration became"):
            self.assertNotIn("by the current configuration", said)
            rig.config["endpoints"][2]["workspaces"] = ["other-*"]
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            wait_for(lambda: "not sent to legal: not subscribed to workspace t (by "
                     "the current configuration" in self.told(rig, event))

    def test_a_trace_shows_operators_actions(self):
        """A duplicate released, a dead letter retried, resolved; sent again."""
        rig = self.ledger()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 2}, {"status": 200}]})
        rig.start()
        first = self.send(rig, 1)
        again = self.send(rig, 1)
        rig.wait_status(again, "duplicate")
        self.assertIn(f"duplicate of {first}: stored", self.told(rig, again))
        self.assertEqual(rig.cli("release", again)[1], 0)
        rig.receiver.wait(again, path="/crm")
        self.assertIn(f"released by {ME}", self.told(rig, again))
        dead_letters = wait_for(lambda: len(rig.cli("dlq")[0]) == 2 and
                           rig.cli("dlq")[0])
        for dead_letter in dead_letters:
            if dead_letter["event_id"] == first:
                self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
            else:
                self.assertEqual(rig.cli("dlq", "resolve", dead_letter["id"],
                                         "--note", "by hand")[1], 0)
        rig.receiver.wait(first, count=2, path="/crm")
        self.assertEqual(rig.cli("resend", first, "--endpoint", "legal")[1], 0)
        rig.receiver.wait(first, path="/legal")
        rig.settle()
        said = self.told(rig, first)
        for words in ("rejected after 1 attempt", f"requeued: by {ME}",
                      "recovered: delivered after the requeue",
                      f"sent again by {ME} to legal",
                      "an operator sent it to legal",
                      "delivered to legal"):
            self.assertIn(words, said)
        self.assertIn(f"resolved: by {ME}: by hand", self.told(rig, again))
        with self.subTest("ids of other kinds, and none"):
            self.assertEqual(rig.trace(f"dlq_{first[4:]}-crm")["id"], first)
            for id_, word in (("evt_0", "no event"), ("nonsense", "no event"),
                              ("dlq_nonsense", "no event"),
                              ("x" * 5000, "no event"), ("\x1b[31m", "no")):
                said = rig.cli_text("trace", id_)
                self.assertEqual(said.returncode, 1, id_)
                self.assertIn(word, said.stderr)
                self.assertIsNone(CONTROLS.search(said.stderr))

    def test_a_trace_names_processes_that_do_not_respond(self):
        """In bounded time: one process is down, one is stopped."""
        rig = self.ledger().start()
        event = self.send(rig, 1)
        rig.receiver.wait(event, path="/crm")
        rig.wait_status(event)
        rig["dlqd"].kill()
        rig["deliverer-1"].pause()
        trace, code = rig.cli("trace", event, timeout=30)
        rig["deliverer-1"].resume()
        self.assertEqual((code, trace["status"]), (0, "done"))
        self.assertEqual(sorted(trace["unreachable"]), ["deliverer-1", "dlqd"])
        said = rig.cli_text("trace", event)
        self.assertIn("dlqd cannot be reached", said.stdout)
        rig["sequencer"].kill()
        trace, code = rig.cli("trace", event)
        self.assertEqual((code, trace["id"], trace["unreachable"]),
                         (69, event, ["sequencer", "dlqd"]))
        self.assertIn("received from", json.dumps(trace["timeline"]))
        with self.subTest("what only ingress has"):
            late = self.send(rig, 2)
            listed, code = rig.cli("events", "--status", "accepted")
            self.assertEqual((code, [(e["id"], e["status"], e["source"])
                                     for e in listed]),
                             (0, [(late, "accepted", "ledger")]))
            self.assertEqual(rig.cli("events", "--status", "accepted",
                                     "--source", "other"), ([], 1))
            self.assertEqual(rig.cli("events", "--status", "accepted",
                                     "--type", "x")[1], 64)
            self.assertIn(late, rig.cli_text("events", "--status",
                                             "accepted").stdout)
        rig.start()
        rig.wait_status(late)
        self.assertEqual(rig.cli("events", "--status", "accepted"), ([], 0))

    def test_strangers_text_can_not_command_a_terminal(self):
        """Strangers write types, workspaces, headers, bodies and responses."""
        evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\x08"
        rig = self.ledger()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "body": f"no {evil}"}]})
        rig.start()
        for body in (
                json.dumps({"id": f"i{evil}", "type": f"entry.{evil}", "seq": 1,
                            "team": f"t{evil}"}).encode(),
                json.dumps({"id": "i", "type": "entry.\x9b31m", "team": "t\u202e",
                            "seq": 1, "nul": "\0", "evil": evil},
                           ensure_ascii=False).encode(),
                b"\0\x1b[31m no json", b"\0\xff\x1b[31m no text"):
            mac = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
            rig.accept(body, source="ledger", headers={
                "X-Sig": mac, "X-Odd": "a\tb \x80", "Content-Type": "text/evil"})
        dead_letters = wait_for(lambda: len(rig.cli("dlq")[0]) == 4 and
                           rig.cli("dlq")[0])
        self.assertEqual({x["endpoint"] for x in dead_letters}, {"crm", None}, dead_letters)
        event = next(x["event_id"] for x in dead_letters if x["endpoint"])
        asked = [("trace", event), ("events",), ("deliveries",), ("dlq",),
                 ("workspaces",), ("workspaces", "t\u202e"), ("gaps",),
                 *(("dlq", "show", x["id"]) for x in dead_letters)]
        for args in asked:
            said = rig.cli_text(*args)
            self.assertEqual(said.returncode, 0, (args, said.stderr))
            found = CONTROLS.search(said.stdout)
            self.assertIsNone(found, (args, found, said.stdout))
        shown = "".join(rig.cli_text("dlq", "show", x["id"]).stdout
                        for x in dead_letters)
        self.assertIn("??[31m no json", shown)  # a NUL ends no text


class Lists(Response):
    def test_rare_events_are_found_among_many(self):
        """Over many blocks of events, page by page, and after a restart."""
        rig = self.rig()
        rig.config["endpoints"] = [rig.endpoint("crm", types=["issue.*"])]
        rig.write_config()
        rig.start()
        rare = rig.accept(rig.plane_body("rare", event="project"))
        rig.load(count=3000, workspaces=7, connections=8).result()
        late = rig.accept(rig.plane_body("rare", event="cycle"))
        rig.settle()

        def ids(*args):
            listed, code = rig.cli("events", *args)
            self.assertEqual(code, 0)
            return [e["id"] for e in listed]

        wait_for(lambda: len(rig.rows("sequencer", "SELECT block FROM search_filters")) == 2)
        for again in (False, True):
            self.assertEqual(ids("--workspace", "rare"), [late, rare])
            self.assertEqual(ids("--workspace", "ra*"), [late, rare])
            self.assertEqual(rig.cli("events", "--workspace", "none"), ([], 1))
            self.assertEqual(ids("--type", "project.updated"), [rare])
            self.assertEqual(ids("--status", "routed"), [])
            self.assertEqual(rig.cli("events", "--status", "expired"), ([], 0))
            self.assertEqual(len(ids("--status", "done", "--limit", "5000")),
                             3002)
            self.assertEqual(ids("--limit", "1"), [late])
            self.assertEqual(len(set(ids("--workspace", "ws-*", "--limit",
                                         "2500"))), 2500)
            deliveries = rig.cli("deliveries", "--limit", "9999")[0]
            self.assertEqual(len({d["event_id"] for d in deliveries}), 3000)
            for none in (["--workspace", "rare"], ["--status", "open"],
                         ["--status", "dead"]):
                self.assertEqual(rig.cli("deliveries", *none), ([], 0))
            self.assertEqual(rig.cli("deliveries", "--endpoint", "nobody"),
                             ([], 1))
            rig["sequencer"].restart()
        with self.subTest("what an old event becomes is found, too"):
            self.assertEqual(rig.cli("resend", rare, "--endpoint", "crm")[1], 0)
            rig.receiver.wait(rare, path="/crm")
            rig.settle()
            found, _ = rig.cli("deliveries", "--workspace", "rare")
            self.assertEqual([d["event_id"] for d in found], [rare])

    def test_removed_events_leave_no_search_rows_behind(self):
        """An event that waits for a year keeps its own rows, not the filters of all
        events since."""
        rig = self.rig({"history": {"keep": "1s"}})
        rig.config["endpoints"] = [rig.endpoint("crm", types=["project.*"])]
        rig.write_config()
        rig.start()
        self.assertEqual(rig.cli("endpoints", "pause", "crm")[1], 0)
        old = rig.accept(rig.plane_body("rare", event="project"))
        rig.load(count=2100, workspaces=7, connections=8).result()
        wait_for(lambda: [e["id"] for e in rig.cli("events")[0]] == [old] and
                 rig.rows("sequencer", "SELECT block FROM search_filters") == [{"block": 0}],
                 timeout=30, what="only one event, and its block")



main()
