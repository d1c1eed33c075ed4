"""P1, P2, P3, P4, P6, P7: this version continues the databases of each released version, as
a power cut left them (tests/golden/stores)."""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "golden" / "stores"))
import golden
from make import PROCESSES, ledger_body, ledger_headers, publish
from rig import RigTest, main, wait_for


class Upgrade(RigTest):
    def machine(self, version):
        rig = self.rig(console=True)
        self.facts = golden.unpack(rig, version)
        golden.set_clock(rig, version)
        return rig

    def each(self, check):
        found = golden.versions()
        self.assertIn("0.2.0", found)
        for version in found:
            with self.subTest(version):
                check(self.machine(version))

    def test_an_older_version_s_databases_continue(self):
        self.each(self.continues)

    def continues(self, rig):
        facts = self.facts
        checked = rig.cli_text("check")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        rig.start()
        self.is_of_this_version(rig)
        self.what_waited_is_delivered(rig)
        self.dead_letters_can_be_retried(rig)
        self.tokens_and_audit_rows_are_kept(rig)
        self.numbers_go_on(rig)
        self.what_is_missing_is_still_waited_for(rig)
        self.a_duplicate_is_recognised(rig)
        self.the_past_can_be_asked_and_replayed(rig)
        rig.settle()
        rows, code = rig.cli("verify")
        self.assertEqual(code, 0, rows)
        for process in rig.daemons.values():
            for said in (" error ", "restored copy", "is damaged", "set aside",
                         "cannot be applied", "invalid frame", "are lost"):
                self.assertNotIn(said, process.log())
        requests = rig.receiver.requests()
        for event in facts["untaken"] + list(facts["waiting"]):
            self.assertEqual(sum(r.id == event for r in requests), 1, event)

    def is_of_this_version(self, rig):
        said, _ = rig.cli("status")
        now = {row["process"]: row["store"]["schema_version"] for row in said}
        for name in PROCESSES:
            self.assertGreaterEqual(now[name], self.facts["schema_versions"][name])
            if now[name] > self.facts["schema_versions"][name]:
                self.assertIn("the schema of the database was upgraded",
                              rig[name].log())

    def what_waited_is_delivered(self, rig):
        """In flight, scheduled, behind another one, not taken by the sequencer."""
        for event, max_attempts in self.facts.get("chosen", {}).items():
            delivery, = rig.deliveries(event)
            self.assertEqual(delivery["retry"]["max_attempts"], max_attempts)
        for event, endpoint in self.facts["waiting"].items():
            rig.cli("retry", event)  # else scheduled ones wait for their time
            rig.receiver.wait(event, path=f"/{endpoint}")
        for event in self.facts["untaken"]:
            rig.receiver.wait(event, path="/crm")
        lane = [e for e, endpoint in self.facts["waiting"].items() if endpoint == "lane"]
        got = [r.id for r in rig.receiver.requests("/lane")]
        self.assertEqual(got, lane)

    def dead_letters_can_be_retried(self, rig):
        rows, _ = rig.cli("dlq")
        states = {row["id"]: row["state"] for row in rows}
        for dead_letter in self.facts["dead"].values():
            self.assertEqual(states[dead_letter], "dead")
            self.assertEqual(rig.cli("dlq", "show", dead_letter)[1], 0)
        for dead_letter in self.facts["resolved"]:
            self.assertEqual(rig.cli("dlq", "show", dead_letter)[0]["state"], "resolved")
        _, code = rig.cli("dlq", "retry", "--all")
        self.assertEqual(code, 0)
        for event in self.facts["dead"]:
            got = rig.receiver.wait(event, path="/refuse")
            self.assertTrue(all(r.delivered for r in got))
        wait_for(lambda: {row["state"] for row in rig.cli("dlq")[0]
                          if row["id"] in self.facts["dead"].values()} <= {"recovered"},
                 what="the dead letters to be recovered")

    def tokens_and_audit_rows_are_kept(self, rig):
        if "token" not in self.facts:
            return  # this version had none
        token = self.facts["token"]
        digest = hashlib.sha256(token["text"].encode()).hexdigest()
        found = rig.ask("sequencer", "token_check", sha256=digest)["token"]
        self.assertEqual(found["id"], token["id"])
        for process, commands in self.facts["acts"].items():
            rows = {r["command"] for r in rig.ask(process, "audit")["audit"]}
            self.assertLessEqual(set(commands), rows)

    def numbers_go_on(self, rig):
        event = rig.accept(rig.plane_body("ws-1"))
        got = rig.receiver.wait(event)[0]
        self.assertEqual(int(got.headers["grapnel-sequence"]),
                         self.facts["number"] + len(self.facts["untaken"]) + 1)
        self.assertEqual(got.headers["grapnel-series"], self.facts["series"])

    def what_is_missing_is_still_waited_for(self, rig):
        self.assertEqual(rig.trace(self.facts["ledger-3"])["status"], "buffered")
        gaps, _ = rig.cli("gaps", "--open")
        self.assertEqual([(g["from"], g["to"]) for g in gaps], [(2, 2)])
        body = ledger_body(2)
        second = rig.accept(body, source="ledger", headers=ledger_headers(body))
        rig.receiver.wait(second)
        rig.receiver.wait(self.facts["ledger-3"])
        order = [r.id for r in rig.receiver.requests("/crm")
                 if r.headers["grapnel-source"] == "ledger"]
        self.assertEqual(order, [second, self.facts["ledger-3"]])

    def a_duplicate_is_recognised(self, rig):
        published = self.facts["published"]
        self.assertEqual(publish(rig, published["key"], published["n"]),
                         published["id"])
        twice = self.facts["twice"]
        again = rig.accept(twice["body"].encode(), headers=twice["headers"])
        trace = rig.wait_status(again, "duplicate")
        self.assertEqual(trace["duplicate_of"], twice["id"])
        self.assertEqual(rig.receiver.requests(event=published["id"]), [])

    def the_past_can_be_asked_and_replayed(self, rig):
        rows, code = rig.cli("rejects")
        self.assertEqual((len(rows), code), (self.facts["rejects"], 0))
        for event in self.facts["delivered"]:
            self.assertEqual(rig.trace(event)["status"], "done")
            self.assertEqual(rig.cli_text("show", event).returncode, 0)
        event = self.facts["delivered"][0]
        _, code = rig.cli("resend", event)
        self.assertEqual(code, 0)
        got = rig.receiver.wait(event, path="/crm")
        self.assertEqual(got[0].body.decode(), self.facts["twice"]["body"])

    def test_an_old_backup_is_restored(self):
        """By `grapnel restore` of this version, which reports the upgrade."""
        self.each(self.is_restored)

    def is_restored(self, rig):
        backup = rig.folder / "backup"
        rig.state_dir.rename(backup)
        older = {name for name in PROCESSES
                 if self.facts["schema_versions"][name] < self.version_of(rig, name)}
        done = rig.cli_text("restore", backup)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in PROCESSES:
            line, = [line for line in done.stdout.splitlines()
                     if line.split()[:2] == [name, "restored"]]
            self.assertEqual("brought to" in line, name in older, line)
        verified, code = rig.cli("verify", "--offline", rig.state_dir)
        self.assertEqual(code, 0, verified)
        rig.start()
        for event in [*self.facts["waiting"], *self.facts["untaken"]]:
            rig.cli("retry", event)
            rig.receiver.wait(event)
        rig.settle()

    def version_of(self, rig, name):
        """The schema version that this program makes."""
        if not hasattr(self, "known"):
            fresh = self.rig(console=True).start()
            self.known = {row["process"]: row["store"]["schema_version"]
                          for row in fresh.cli("status")[0]}
        return self.known[name]


main()
