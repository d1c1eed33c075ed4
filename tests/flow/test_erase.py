"""Erasure of a workspace: nothing of it is left in any file, others are untouched, and it survives
kills and a restore."""

import base64
import contextlib
import http.client
import json
import pathlib
import shutil
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from erasure import Erasure
from rig import RigTest, main, sign_plane, wait_for

TOKEN = "an-admin-token-of-the-file"
NAME = "mk-wörkspace/7"
TRACE = "a97e5c1d" + 6 * "4be1"
MARK = "mark3r"
PRODUCER = "a-token-of-the-ledger-1"


class Erase(Erasure, RigTest):
    def call(self, rig, method, path, body=None, token=TOKEN):
        """(status, document) of one request to the API."""
        c = http.client.HTTPConnection("127.0.0.1", rig.console_port, timeout=30)
        with contextlib.closing(c):
            c.request(method, "/api/v1" + path, None if body is None else json.dumps(body),
                      {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
            response = c.getresponse()
            return response.status, json.loads(response.read())

    def full_rig(self):
        """Of two workspaces: delivered, retried, dead and refused events, with the mark in each
        place that a stranger or an endpoint can write to."""
        rig = self.rig({"console": {"tokens": [TOKEN]},
                        "secrets_key": base64.b64encode(bytes(32)).decode()}, console=True)
        rig.config["producers"] = [{"name": "ledger", "tokens": [PRODUCER]}]
        rig.config["endpoints"].append(rig.endpoint("legal", guard=False))
        rig.config["endpoints"].append(rig.endpoint("slow", ordered="workspace",
                                                    retry_policy="patient"))
        rig.config["endpoints"].append({"name": "jobs", "transport": "pull",
                                        "ordered": "workspace", "workspaces": [NAME]})
        rig.config["retry_policies"].append({**rig.config["retry_policies"][0],
                                             "name": "patient", "first_wait": "1h",
                                             "max_wait": "1h", "max_duration": "1d"})
        rig.write_config()
        rig.receiver.rules(
            {"path": "/legal", "responses": [{"status": 400, "body": f"{MARK}-response"}]},
            {"path": "/slow", "responses": [{"status": 503, "body": f"{MARK}-response"}]})
        rig.start()
        self.made = [self.call(rig, "POST", "/endpoints", {
            "url": rig.receiver.url("/made"), "allow_private": True, "workspaces": workspaces,
            "description": f"{MARK}-{workspaces[0]}"})[1]["name"]
            for workspaces in ([NAME], ["other", NAME])]
        self.events = {w: [self.post(rig, w) for _ in range(6)] for w in (NAME, "other")}
        for w in (NAME, "other"):
            status, _, _ = rig.post(
                json.dumps({"type": f"{MARK}.made", "workspace": w,
                            "ordering_key": f"{MARK}-{w}",
                            "data": {"x": f"{MARK}-{w}"}}).encode(), path="/v1/events",
                headers={"Authorization": f"Bearer {PRODUCER}"})
            self.assertEqual(status, 200)
            body = rig.plane_body(workspace=w, x=f"{MARK}-{w}")
            rig.post(body, headers={"X-Plane-Signature": "wrong", "X-Mark": f"{MARK}-{w}"})
        wait_for(lambda: rig.cli("dlq", "stats")[0]["dead"] == 14)
        wait_for(lambda: len(rig.ask("ingress", "rejects")["rejects"]) == 2)
        for w in (NAME, "other"):
            letter, *_ = rig.ask("dlqd", "dlq", workspace=w)["dead_letters"]
            rig.ask("dlqd", "dlq_resolve", id=letter["id"], note=f"{MARK}-{w}")
            rig.ask("sequencer", "abandon", event=self.events[w][1], endpoint="slow",
                    note=f"{MARK}-{w}")
        wait_for(lambda: rig.cli("dlq", "stats")[0]["dead"] == 14)
        for how in ("ack", "retry"):  # a consumer has ended one, and has another
            status, take = self.call(rig, "POST", "/pull/jobs/take",
                                     {"max": 1, "wait": "5s", "lease": "1s"})
            self.assertEqual((status, len(take["deliveries"])), (200, 1), take)
            if how == "ack":
                self.call(rig, "POST", "/pull/jobs/ack", {"take": take["take"]})
        return rig

    def trace_of(self, workspace):
        trace = TRACE if workspace == NAME else 32 * "b"
        return {"traceparent": f"00-{trace}-00f067aa0ba902b7-01",
                "tracestate": f"mark={MARK}-{workspace[:4]}"}

    def post(self, rig, workspace, expect=200):
        body = rig.plane_body(workspace=workspace, x=f"{MARK}-{workspace}")
        status, _, reply = rig.post(body, headers={**sign_plane(body),
                                                   "X-Mark": f"{MARK}-{workspace}",
                                                   **self.trace_of(workspace)})
        self.assertEqual(status, expect, reply)
        return reply.get("id")

    def erase(self, rig, workspace=NAME, expect=200):
        status, job = self.call(rig, "DELETE",
                                "/workspaces/" + urllib.parse.quote(workspace, safe=""))
        self.assertEqual(status, expect, job)
        return job

    PHASES = ["away", None, "refuse", "handed", "drop", "events", "sent", "rest", "own", "scrub",
              "end"]

    def phase(self, rig, job):
        return self.job(rig, job).get("result", {"phase": "away"}).get("phase")

    def found(self, rig):
        """The files with bytes of the workspace, but for the log."""
        marks = [NAME.encode(), json.dumps(NAME)[1:-1].encode(), f"{MARK}-mk-w".encode(),
                 TRACE.encode()]
        return sorted((f.name, m) for f in rig.state_dir.rglob("*")
                      if f.is_file() and not f.name.endswith(".log")
                      for m in marks if m in f.read_bytes())

    def left(self, rig):
        """The same of the responses, which other workspaces' attempts have as well."""
        rows = rig.rows("deliverer-1", "SELECT DISTINCT event_id FROM attempts WHERE "
                        "length(response) > 0")
        return {row["event_id"] for row in rows} & set(self.events[NAME])


    def restore(self, rig, copy):
        rig.stop()
        for file in copy.glob("*.db"):
            for old in rig.state_dir.glob(file.name + "*"):
                old.unlink()
            shutil.copy(file, rig.state_dir / file.name)
        self.assertTrue(self.found(rig))
        rig.start()

    def erased_again(self, rig):
        self.ended(rig, wait_for(lambda: [j for j in rig.ask("sequencer", "jobs")["jobs"]
                                          if j["who"] == "grapnel"])[0])


class Everything(Erase):
    def test_nothing_is_left_and_others_are_untouched(self):
        rig = self.full_rig()
        self.assertTrue(self.found(rig))
        before = rig.ask("sequencer", "workspace", workspace="other")
        end = self.ended(rig, self.erase(rig))
        self.assertEqual(self.found(rig), [])
        self.assertEqual(self.left(rig), set())
        self.assertIn("backups", end["result"])
        self.assertNotIn(NAME, str(end))
        self.post(rig, NAME, expect=410)
        status, _, _ = rig.post(
            json.dumps({"type": "x", "workspace": NAME, "data": {}}).encode(),
            path="/v1/events", headers={"Authorization": f"Bearer {PRODUCER}"})
        self.assertEqual(status, 410)
        lines = "\n".join(json.dumps({"type": "x", "workspace": w, "data": {}})
                          for w in ("other", NAME))
        status, _, reply = rig.post(lines.encode(), path="/v1/events/batch",
                                    headers={"Authorization": f"Bearer {PRODUCER}"})
        self.assertEqual(status, 207)
        self.assertIn(b'"code":"gone"', reply)
        self.assertEqual(self.found(rig), [])
        notes = [r["args"].get("note") for r in rig.cli("audit")[0] if r["args"]]
        self.assertEqual([n for n in notes if n], [f"{MARK}-other"] * 2)
        self.assertEqual(rig.cli("audit", "verify")[1], 0)
        # Who erased it, and when, stays.
        done = [r for r in rig.cli("audit")[0] if r["command"] == "workspace_erase"]
        self.assertEqual([r["actor"] for r in done], ["token 1 of console.tokens"] * 2)
        # Its endpoints are gone, and those of others have forgotten it.
        alone, both = (rig.ask("sequencer", "endpoint", name=name) for name in self.made)
        self.assertEqual(alone["state"], "removed")
        self.assertEqual(both["settings"]["workspaces"], ["other"])
        # The other workspace continues where it was.
        after = rig.ask("sequencer", "workspace", workspace="other")
        self.assertEqual(after["sequence"], before["sequence"] + 1)
        self.assertEqual(rig.ask("sequencer", "workspaces")["workspaces"],
                         [after])
        wait_for(lambda: len(rig.ask("dlqd", "dlq", workspace="other")["dead_letters"]) == 8)
        self.assertEqual(len(rig.ask("ingress", "rejects")["rejects"]), 1)
        for event in self.events["other"]:
            self.assertEqual(rig.ask("ingress", "request", id=event)["id"], event)
        self.assertEqual(self.call(rig, "GET", f"/events/{self.events[NAME][0]}")[1]["workspace"][:7],
                         "erased:")
        status, reply = self.call(rig, "POST", f"/events/{self.events[NAME][0]}/resend", {})
        self.assertEqual((status, reply["error"]["code"]), (404, "not_found"), reply)
        self.assertEqual(rig.cli("resend", self.events[NAME][0])[1], 1)
        last = self.post(rig, "other")
        rig.receiver.wait(last, path="/crm")
        self.assertEqual(self.call(rig, "DELETE", "/workspaces/nobody")[0], 404)
        self.assertEqual(self.call(rig, "DELETE", "/workspaces/default")[0], 409)

    def test_kills_at_every_step_lose_nothing(self):
        rig = self.full_rig()
        job = self.erase(rig)
        killed = []
        for phase, victim in (("refuse", "sequencer"), ("refuse", "ingress"),
                              ("drop", "deliverer-1"), ("events", "sequencer"),
                              ("events", "deliverer-1"), ("events", "ingress"),
                              ("rest", "dlqd"), ("rest", "ingress"), ("rest", "sequencer"),
                              ("scrub", "dlqd"), ("scrub", "sequencer")):
            wait_for(lambda: self.PHASES.index(self.phase(rig, job)) >= self.PHASES.index(phase))
            killed.append(self.phase(rig, job))
            rig[victim].kill()
            rig.start()
        self.assertLessEqual({"events", "rest", "scrub"}, set(killed), killed)
        self.ended(rig, job)
        self.assertEqual(self.found(rig), [])
        self.assertEqual(self.left(rig), set())
        self.post(rig, NAME, expect=410)
        self.assertEqual(len(rig.ask("dlqd", "dlq", workspace="other")["dead_letters"]), 7)

    def test_a_process_that_is_away_delays_it_and_is_named(self):
        rig = self.full_rig()
        rig["dlqd"].kill()
        job = self.erase(rig)
        wait_for(lambda: "dlqd" in (self.job(rig, job).get("last_error") or ""))
        self.post(rig, NAME, expect=410)
        status, reply = self.call(rig, "POST", f"/jobs/{job['id']}/cancel", {})
        self.assertEqual((status, reply["error"]["code"]), (409, "refused"))
        rig.start()
        self.ended(rig, job)
        self.assertEqual(self.found(rig), [])

    def test_a_restored_copy_is_erased_again(self):
        rig = self.full_rig()
        copy = rig.folder / "copy"
        self.assertEqual(rig.cli("backup", str(copy))[1], 0)
        self.ended(rig, self.erase(rig))
        self.restore(rig, copy)
        self.post(rig, NAME, expect=410)
        self.erased_again(rig)
        self.assertEqual(self.found(rig), [])
        self.assertEqual(self.left(rig), set())
        wait_for(lambda: not (rig.state_dir / "erase-again").exists())

    def test_a_workspace_without_events_is_erased(self):
        """Its endpoints and tokens make it known, also in a restored copy."""
        rig = self.rig({"console": {"tokens": [TOKEN]},
                        "secrets_key": base64.b64encode(bytes(32)).decode()}, console=True)
        rig.start()
        alone, shared, deleted, token = (f"{NAME} {n}" for n in range(4))
        self.assertEqual(self.erase(rig, alone, expect=404)["error"]["code"], "not_found")
        names = [self.call(rig, "POST", "/endpoints", {
            "url": rig.receiver.url("/made"), "allow_private": True, "workspaces": w})[1]["name"]
            for w in ([alone], ["other", shared], [deleted])]
        self.assertEqual(rig.cli("endpoints", "delete", names[2])[1], 0)
        _, made = self.call(rig, "POST", "/tokens", {"name": "made", "role": "workspace",
                                                     "workspace": token})
        copy = rig.folder / "copy"
        self.assertEqual(rig.cli("backup", str(copy))[1], 0)
        for workspace in (alone, shared, deleted, token):
            self.ended(rig, self.erase(rig, workspace))
        self.assertEqual(self.found(rig), [])
        self.restore(rig, copy)
        self.erased_again(rig)
        self.assertEqual(self.found(rig), [])
        states = [rig.ask("sequencer", "endpoint", name=name)["state"] for name in names]
        self.assertEqual(states, ["removed", "active", "removed"])
        self.assertEqual(self.call(rig, "GET", "/events", token=made["token"])[0], 401)

    def test_events_of_one_request_are_erased_each(self):
        """The others of the request stay, and are sent again as before."""
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True)
        rig.config["sources"].append({
            "name": "many", "provider": "custom", "secrets": ["a-secret-of-many"],
            "verify": {"scheme": "shared-token", "header": "X-Token"}, "batch": True,
            "id": "json:/id", "type": "json:/type", "workspace": "json:/ws"})
        rig.write_config()
        rig.start()
        parts = [{"id": f"e{n}", "type": "t", "ws": NAME if n % 2 else "other",
                  "x": f"{MARK}-{NAME if n % 2 else 'other'}"} for n in range(6)]
        send = lambda: rig.post(json.dumps(parts).encode(), source="many",
                                headers={"X-Token": "a-secret-of-many"})
        status, _, reply = send()
        self.assertEqual(status, 200, reply)
        rig.settle()
        self.ended(rig, self.erase(rig))
        self.assertEqual(self.found(rig), [])
        parts = [{**p, "id": p["id"] + "b"} for p in parts]
        self.assertEqual(send()[0], 200)
        rig.settle()
        self.assertEqual(self.found(rig), [])
        self.assertEqual(rig.ask("sequencer", "workspace", workspace="other")["sequence"], 6)
        parts = parts[1:2]
        self.assertEqual(send()[0], 410)
        status, reply = self.call(rig, "POST", "/replays", {"since": "1h"})
        wait_for(lambda: rig.ask("ingress", "job", id=reply["jobs"][0]["id"])["state"] == "done")
        rig.settle()
        wait_for(lambda: len(rig.receiver.requests("/crm")) == 3 + 3 + 3 + 6)
        self.assertEqual(self.found(rig), [])

    def test_an_event_that_is_purged_meanwhile_lets_no_other_be_forgotten(self):
        """The deliverer was asked about 100 events; one of them goes before ingress was asked, too."""
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True)
        rig.receiver.rules({"path": "/crm",
                            "responses": [{"status": 400, "body": f"{MARK}-response"}]})
        rig.start()
        self.events = {NAME: [self.post(rig, NAME) for _ in range(101)]}
        wait_for(lambda: self.left(rig) == set(self.events[NAME]))
        rig.settle()
        rig["deliverer-1"].pause()
        job = self.erase(rig)
        wait_for(lambda: self.phase(rig, job) == "events")
        rig["ingress"].pause()
        rig["deliverer-1"].resume()
        wait_for(lambda: "deliverer-1" == json.loads(
            rig.rows("sequencer", "SELECT position FROM jobs")[0]["position"])["at"])
        rig["sequencer"].kill()
        first = "SELECT min(n) FROM events"
        rig.change("sequencer", f"DELETE FROM deliveries WHERE event = ({first})")
        rig.change("sequencer", f"DELETE FROM events WHERE n = ({first})")
        rig["ingress"].resume()
        rig.start()
        self.ended(rig, job)
        self.assertLessEqual(self.left(rig), {self.events[NAME][0]})


class ManyDeliveries(Erase):
    """One event has more open deliveries than one step of the job ends."""

    def crowd(self, events=1, **endpoint):
        """Events of a workspace with 200 open deliveries each, at endpoints of this kind."""
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True)
        rig.config["retry_policies"] = [{
            "name": "default", "backoff": "fixed", "first_wait": "500ms", "jitter": "none",
            "max_attempts": 1000, "max_duration": "1d"}]
        self.names = [f"e{n}" for n in range(200)]
        endpoint = endpoint or {"url": rig.receiver.url("/crowd"), "allow_private": True}
        rig.config["endpoints"] = [{"name": name, **endpoint} for name in self.names]
        rig.write_config()
        rig.receiver.rules({"path": "/crowd", "responses": [{"status": 503}]})
        rig.start()
        self.post_crowd(rig, events)
        return rig

    def post_crowd(self, rig, events):
        self.mine = [self.post(rig, NAME) for _ in range(events)]
        wait_for(lambda: self.count(rig, "status < 3") == 200 * events,
                 what="all deliveries to be open")

    def count(self, rig, where):
        marks = ", ".join("?" for _ in self.mine)
        row, = rig.rows("sequencer", f"SELECT count(*) AS n FROM deliveries WHERE {where} AND event "
                        f"IN (SELECT n FROM events WHERE id IN ({marks}))", *self.mine)
        return row["n"]

    def ended_whole(self, rig, job):
        """The job is done, and none of the deliveries is open, at a deliverer or stored."""
        self.ended(rig, job)
        self.assertEqual(self.count(rig, "status < 3"), 0)
        self.assertEqual(self.count(rig, "grant_id <> 0"), 0)
        for process, table in (("sequencer", "bodies"), ("deliverer-1", "tasks")):
            self.assertEqual(rig.rows(process, f"SELECT count(*) AS n FROM {table}")[0]["n"], 0)
        self.assertEqual(self.found(rig), [])

    def sent_since(self, rig):
        """How often an erased event is sent, while another event reaches all endpoints."""
        before = len(rig.receiver.requests("/crowd"))
        rig.receiver.rules()
        other = self.post(rig, "other")
        rig.receiver.wait(other, count=200, path="/crowd", timeout=30)
        return [r for r in rig.receiver.requests("/crowd")[before:] if r.id in self.mine]

    def test_to_pull_endpoints(self):
        rig = self.crowd(transport="pull")
        self.ended_whole(rig, self.erase(rig))
        status, take = self.call(rig, "POST", "/pull/e199/take", {"max": 1})
        self.assertEqual((status, take["deliveries"]), (200, []))

    def test_to_a_receiver_that_fails(self):
        rig = self.crowd()
        self.ended_whole(rig, self.erase(rig))
        self.assertEqual(self.sent_since(rig), [])

    def test_to_paused_endpoints(self):
        rig = self.crowd()
        for name in self.names:
            rig.ask("sequencer", "endpoint_pause", name=name)
        self.ended_whole(rig, self.erase(rig))
        for name in self.names:
            rig.ask("sequencer", "endpoint_resume", name=name)
        self.assertEqual(self.sent_since(rig), [])

    def test_it_continues_after_a_kill_in_between(self):
        rig = self.crowd(events=10)
        job = self.erase(rig)
        for _ in range(3):
            wait_for(lambda: self.count(rig, "status = 4") > 0)
            rig["sequencer"].kill()
            rig.start()
        self.ended_whole(rig, job)
        self.assertEqual(self.sent_since(rig), [])

    def test_a_delivery_that_is_opened_again_meanwhile_is_ended_too(self):
        """As by a replay that waited for the end of its deliverer's copy."""
        rig = self.crowd(transport="pull")
        rig["deliverer-1"].pause()
        job = self.erase(rig)
        wait_for(lambda: self.phase(rig, job) == "events")
        rig["sequencer"].kill()
        rig.change("sequencer", "INSERT INTO reopenings(event, endpoint, action_id) SELECT event, "
                   "endpoint, 7 FROM deliveries")
        rig["deliverer-1"].resume()
        rig.start()
        self.ended_whole(rig, job)


main()
