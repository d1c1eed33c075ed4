"""Jobs: bulk actions on dead letters and replays over HTTP, their progress, cancel, and crashes."""

import contextlib
import http.client
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

TOKEN = "an-admin-token-of-the-file"
ENDED = ("done", "failed", "cancelled")


class Jobs(RigTest):
    def call(self, rig, method, path, body=None, **headers):
        """(status, document) of one request to the API."""
        c = http.client.HTTPConnection("127.0.0.1", rig.console_port, timeout=30)
        sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json",
                **{k.replace("_", "-"): v for k, v in headers.items()}}
        with contextlib.closing(c):
            c.request(method, "/api/v1" + path, None if body is None else json.dumps(body), sent)
            response = c.getresponse()
            self.retry_after = response.headers["Retry-After"]
            return response.status, json.loads(response.read())

    def made(self, rig, path, **body):
        status, reply = self.call(rig, "POST", path, body)
        self.assertEqual(status, 200, reply)
        return reply

    def job(self, rig, job):
        status, reply = self.call(rig, "GET", f"/jobs/{job['id']}")
        self.assertEqual(status, 200, reply)
        return reply

    def ended(self, rig, job):
        return wait_for(lambda: (j := self.job(rig, job))["state"] in ENDED and j,
                        what="the job to end")

    def api_rig(self, **how):
        return self.rig({"console": {"tokens": [TOKEN]}}, console=True, **how)

    def dead(self, count, workspaces=("acme",), **how):
        """A pipeline with so many dead letters of each workspace."""
        rig = self.api_rig(**how)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        events = {w: [rig.accept(rig.plane_body(workspace=w)) for _ in range(count)]
                  for w in workspaces}
        wait_for(lambda: rig.cli("dlq", "stats")[0]["dead"] == count * len(workspaces))
        return rig, events


class Bulk(Jobs):
    def test_a_job_acts_on_what_matches_and_on_nothing_else(self):
        rig, events = self.dead(5, ("acme", "other"))
        counted = self.ended(rig, self.made(rig, "/dead-letters/bulk", action="retry",
                                            workspace="acme", dry_run=True))
        self.assertEqual((counted["state"], counted["total"], counted["done"]), ("done", 5, 0))
        self.assertEqual(rig.cli("dlq", "stats")[0]["dead"], 10)
        job = self.ended(rig, self.made(rig, "/dead-letters/bulk", action="resolve",
                                        workspace="acme", note="by hand", limit=3))
        self.assertEqual((job["state"], job["total"], job["done"], job["failed"]),
                         ("done", 3, 3, 0))
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        job = self.ended(rig, self.made(rig, "/dead-letters/bulk", action="retry"))
        self.assertEqual((job["total"], job["done"]), (7, 7))
        self.assertEqual(job["who"], "token 1 of console.tokens")
        wait_for(lambda: rig.cli("dlq", "stats")[0]["recovered"] == 7)
        stats = rig.cli("dlq", "stats")[0]
        self.assertEqual((stats["dead"], stats["resolved"]), (0, 3))
        for event in events["other"]:
            rig.receiver.wait(event, count=2)
        # The audit names the job twice: when it was made, and when it ended.
        rows = [r for r in rig.cli("audit")[0] if r["command"] == "dlq_bulk"]
        self.assertEqual(len(rows), 6)
        self.assertEqual(len([r for r in rows if r["outcome"] == "done"]), 3)
        self.assertEqual(len([r for r in rows if job["id"] in r["outcome"]]), 1)
        history, _ = rig.cli("dlq", "show", events["other"][0])
        self.assertIn(job["id"], str(history["history"]))

    def test_wrong_requests_are_refused(self):
        rig = self.api_rig(deliverers=0).start()
        for body, field in [({}, "action"), ({"action": "eat"}, "action"),
                            ({"action": "retry", "limit": 0}, "limit"),
                            ({"action": "retry", "rate": 1001}, "rate")]:
            status, reply = self.call(rig, "POST", "/dead-letters/bulk", body)
            self.assertEqual((status, reply["error"]["field"]), (400, field), reply)
        for body in ({"action": "resolve"}, {"action": "retry", "note": "x"},
                     {"action": "discard", "note": "x", "to": "crm"}):
            self.assertEqual(self.call(rig, "POST", "/dead-letters/bulk", body)[0], 400)
        for to in ("nobody", f"ep_{'0' * 26}"):
            status, _ = self.call(rig, "POST", "/dead-letters/bulk", {"action": "retry", "to": to})
            self.assertEqual(status, 404, to)
        for path in ("/jobs/job_x", "/jobs/%20"):
            self.assertEqual(self.call(rig, "GET", path)[0], 404)
        self.assertEqual(self.call(rig, "POST", "/jobs/job_x/cancel", {})[0], 404)

    def test_an_idempotency_key_makes_one_job(self):
        rig = self.api_rig(deliverers=0).start()
        made = [self.call(rig, "POST", "/dead-letters/bulk", {"action": "retry"},
                          Idempotency_Key="k") for _ in range(3)]
        self.assertEqual(len({reply["id"] for _, reply in made}), 1)
        self.assertEqual(len(self.call(rig, "GET", "/jobs")[1]["items"]), 1)

    def test_cancel_ends_it_between_two_items_and_says_which_was_the_last(self):
        rig, _ = self.dead(12)
        job = self.made(rig, "/dead-letters/bulk", action="discard", note="x", rate=1)
        wait_for(lambda: self.job(rig, job)["done"] > 0)
        status, end = self.call(rig, "POST", f"/jobs/{job['id']}/cancel", {})
        self.assertEqual((status, end["state"]), (200, "cancelled"))
        self.assertLess(end["done"], 12)
        discarded = [x["id"] for x in rig.ask("dlqd", "dlq", state="discarded")["dead_letters"]]
        self.assertEqual(len(discarded), end["done"])
        self.assertIn(end["last_item"], discarded)
        self.assertEqual(self.call(rig, "POST", f"/jobs/{job['id']}/cancel", {})[0], 409)
        self.assertEqual(rig.cli("dlq", "stats")[0]["discarded"], end["done"])

    def test_kills_neither_lose_nor_repeat_an_item(self):
        rig, events = self.dead(30)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        job = self.made(rig, "/dead-letters/bulk", action="retry", rate=40)
        for n in (1, 6, 14, 22):
            wait_for(lambda: self.job(rig, job)["done"] >= n)
            rig["dlqd"].kill()
            rig.start()
        end = self.ended(rig, job)
        self.assertEqual((end["total"], end["done"], end["failed"]), (30, 30, 0))
        wait_for(lambda: rig.cli("dlq", "stats")[0]["recovered"] == 30)
        for event in events["acme"]:
            self.assertEqual(len(rig.receiver.requests("/crm", event=event)), 2)

    def test_one_runs_and_the_others_wait_up_to_a_bound(self):
        rig, _ = self.dead(3)
        first = self.made(rig, "/dead-letters/bulk", action="discard", note="x", rate=1)
        wait_for(lambda: self.job(rig, first)["state"] == "running")
        waiting = [self.made(rig, "/dead-letters/bulk", action="discard", note="x", dry_run=True)
                   for _ in range(20)]
        one_more = {"action": "discard", "note": "x", "dry_run": True}
        status, reply = self.call(rig, "POST", "/dead-letters/bulk", one_more,
                                  Idempotency_Key="later")
        self.assertEqual((status, reply["error"]["code"]), (429, "rate_limited"))
        self.assertEqual(self.retry_after, "10")
        self.assertEqual(self.job(rig, waiting[-1])["state"], "waiting")
        listed, code = rig.cli("jobs", "--limit", "30")
        self.assertEqual((code, len(listed)), (0, 21))
        end, code = rig.cli("jobs", "cancel", first["id"])
        self.assertEqual((code, end["state"]), (0, "cancelled"))
        self.assertEqual(self.ended(rig, waiting[-1])["state"], "done")
        status, reply = self.call(rig, "POST", "/dead-letters/bulk", one_more,
                                  Idempotency_Key="later")
        self.assertEqual(status, 200, reply)
        pages, cursor = [], ""
        while cursor is not None:
            _, page = self.call(rig, "GET", f"/jobs?limit=8{cursor and '&cursor=' + cursor}")
            pages += [x["id"] for x in page["items"]]
            cursor = page["next_cursor"]
        self.assertEqual(pages, sorted(pages, reverse=True))
        self.assertEqual(len(set(pages)), 22)


class Replays(Jobs):
    def test_a_replay_sends_what_matches_once_despite_kills(self):
        rig = self.api_rig()
        rig.start()
        events = {w: [rig.accept(rig.plane_body(workspace=w)) for _ in range(12)]
                  for w in ("acme", "other")}
        rig.settle()
        dry, = self.made(rig, "/replays", since="1h", workspace="acme", dry_run=True)["jobs"]
        dry = self.ended(rig, dry)
        self.assertEqual((dry["state"], dry["total"], dry["done"]), ("done", 12, 0))
        job, = self.made(rig, "/replays", since="1h", workspace="acme", rate=20)["jobs"]
        for n, victim in ((1, "ingress"), (5, "sequencer"), (8, "ingress")):
            wait_for(lambda: self.job(rig, job)["done"] >= n)
            rig[victim].kill()
            rig.start()
        end = self.ended(rig, job)
        self.assertEqual((end["state"], end["done"], end["failed"]), ("done", 12, 0), end)
        for event in events["acme"]:
            rig.receiver.wait(event, count=2)
        rig.settle()
        for event in events["acme"]:
            self.assertEqual(len(rig.receiver.requests("/crm", event=event)), 2)
        for event in events["other"]:
            self.assertEqual(len(rig.receiver.requests("/crm", event=event)), 1)

    def test_new_ids_are_the_same_after_a_kill(self):
        rig = self.api_rig().start()
        for _ in range(10):
            rig.accept()
        rig.settle()
        job, = self.made(rig, "/replays", since="1h", new_id=True, rate=20)["jobs"]
        wait_for(lambda: self.job(rig, job)["done"] >= 3)
        rig["ingress"].kill()
        rig.start()
        self.assertEqual(self.ended(rig, job)["done"], 10)
        rig.settle()
        wait_for(lambda: len(rig.receiver.requests("/crm")) == 20)
        ids = {r.headers["webhook-id"] for r in rig.receiver.requests("/crm")}
        self.assertEqual(len(ids), 20)

    def test_what_cannot_be_done_fails_or_waits_and_says_why(self):
        rig = self.api_rig(deliverers=0).start()
        rig.accept()
        status, reply = self.call(rig, "POST", "/replays", {"since": "1h", "endpoint": "cmr"})
        self.assertEqual((status, reply["error"]["code"]), (404, "not_found"), reply)
        self.assertIn("did you mean crm?", reply["error"]["message"])
        self.assertEqual(self.call(rig, "GET", "/jobs")[1]["items"], [])
        # The endpoint may be removed when the job was made already.
        end = self.ended(rig, rig.ask("ingress", "replay", since_ms=0, endpoint="nobody"))
        self.assertEqual(end["state"], "failed")
        self.assertIn("nobody", end["last_error"])
        status, reply = self.call(rig, "POST", "/replays", {"since": "1h", "until": "2h"})
        self.assertEqual(status, 400, reply)
        self.assertEqual(self.call(rig, "POST", "/replays", {})[1]["error"]["field"], "since")
        rig["sequencer"].kill()
        job, = self.made(rig, "/replays", since="1h")["jobs"]
        rig.start()
        self.assertEqual(self.ended(rig, job)["state"], "done")

    def test_an_ingress_that_is_away_is_named(self):
        """Whether it was killed or stopped: its archive has events."""
        rig = self.api_rig()
        rig.add("ingress-2")
        rig.start()
        wait_for(lambda: rig.accept() and all(
            rig.rows(name, "SELECT n FROM archive LIMIT 1") for name in ("ingress", "ingress-2")),
            what="both to have events")
        for end in ("stop", "kill"):
            with self.subTest(end):
                getattr(rig["ingress-2"], end)()
                ask = {"since": "1h", "rate": 1000}
                status, reply = self.call(rig, "POST", "/replays", ask, Idempotency_Key=end)
                self.assertEqual((status, [j["process"] for j in reply["jobs"]], reply["missing"]),
                                 (200, ["ingress"],
                                  [{"process": "ingress-2", "why": "it does not run"}]))
                status, page = self.call(rig, "GET", "/jobs")
                self.assertEqual((status, page["unreachable"]), (200, ["ingress-2"]))
                self.assertIn(reply["jobs"][0]["id"], [j["id"] for j in page["items"]])
                rig.start()
                status, again = self.call(rig, "POST", "/replays", ask, Idempotency_Key=end)
                self.assertEqual((status, [j["process"] for j in again["jobs"]], again["missing"]),
                                 (200, ["ingress", "ingress-2"], []))
                self.assertEqual(again["jobs"][0]["id"], reply["jobs"][0]["id"])
                for job in again["jobs"]:
                    self.assertEqual(self.ended(rig, job)["state"], "done")
                self.assertEqual(self.call(rig, "GET", "/jobs")[1]["unreachable"], [])
        for name in ("ingress", "ingress-2"):
            rig[name].kill()
        status, reply = self.call(rig, "POST", "/replays", {"since": "1h"})
        self.assertEqual((status, reply["error"]["code"]), (503, "process_unavailable"))

    def test_events_of_one_request_are_judged_each(self):
        rig = self.api_rig()
        rig.config["producers"] = [{"name": "ledger", "tokens": ["a-token-of-the-ledger-1"]}]
        rig.write_config()
        rig.start()
        status, _, reply = rig.post("\n".join(json.dumps(
            {"type": "paid" if n % 2 else "open", "workspace": "acme", "data": {"n": n}})
            for n in range(8)).encode(), path="/v1/events/batch",
            headers={"Authorization": "Bearer a-token-of-the-ledger-1"})
        self.assertEqual(status, 200, reply)
        rig.settle()
        job, = self.made(rig, "/replays", since="1h", type="paid")["jobs"]
        self.assertEqual(self.ended(rig, job)["done"], 4)
        wait_for(lambda: len(rig.receiver.requests("/crm")) == 12)


main()
