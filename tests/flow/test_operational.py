"""Operational events: Grapnel's own events come once from each cause, to endpoints that name
the source `grapnel`, and never feed themselves."""

import base64
import hashlib
import hmac
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, is_signed, main, wait_for

KEY = "ledger key"
OFF = ["dlq-warning", "dlq-critical", "dlq_growth_rate", "dlq_expiring",
       "webhook_backlog", "webhook_delivery_failure_rate",
       "webhook_retry_failure_rate", "high_e2e_latency", "sequence_gaps",
       "lanes_halted", "endpoint_disabled", "endpoint_held",
       "endpoint_failing", "endpoint_waiting", "high_duplicate_rate",
       "signature_failures", "unusual_silence", "dead_letter", "new_refusal",
       "status_mix", "process_silent", "disk_low", "damaged_data",
       "standby_not_ready", "standby_behind", "active_alone",
       "log_unreachable", "engine_slow"]


class Operational(RigTest):
    def with_ops(self, config=None, ops=None, **how):
        """A pipeline whose endpoint `ops` is subscribed to Grapnel's own events."""
        rig = self.rig(config, **how)
        rig.config["endpoints"].append(
            rig.endpoint("ops", **(ops or {"sources": ["grapnel"]})))
        rig.write_config()
        return rig

    def got(self, rig, path="/ops"):
        """{webhook-id: body} of what an endpoint was sent."""
        return {r.id: r.json() for r in rig.receiver.requests(path)
                if r.headers["grapnel-source"] == "grapnel"}

    def wait_got(self, rig, kind, count=1, path="/ops"):
        def some():
            found = [b for b in self.got(rig, path).values()
                     if b["type"] == f"grapnel.{kind}"]
            return len(found) >= count and found
        return wait_for(some, what=f"{count} of grapnel.{kind}")

    def written(self, rig):
        return [r["type"] for r in rig.rows(
            "sequencer", "SELECT type FROM events WHERE source = 'grapnel' "
            "ORDER BY n")]

    # ---- each kind ----

    def test_a_dead_letter_is_an_event(self):
        """It names the delivery, is signed, traced, and is dead-lettered itself."""
        rig = self.with_ops()
        rig.receiver.rules(
            {"path": "/crm", "responses": [{"status": 400}]},
            {"path": "/ops", "responses": [{"status": 400}]})
        rig.start()
        event = rig.accept(rig.plane_body("acme"))
        body, = self.wait_got(rig, "delivery.dead")
        request, = rig.receiver.requests("/ops")
        self.assertTrue(is_signed(request))
        self.assertEqual(body["id"], request.id)
        self.assertEqual(body["workspace"], "acme")
        self.assertEqual(request.headers["grapnel-type"], "grapnel.delivery.dead")
        self.assertEqual(
            {k: body["data"][k] for k in (
                "event_id", "endpoint", "source", "type", "reason",
                "http_status", "attempts", "generation", "left_out")},
            {"event_id": event, "endpoint": "crm", "source": "plane",
             "type": "issue.updated", "reason": "rejected", "http_status": 400,
             "attempts": 1, "generation": 1, "left_out": 0})
        trace = rig.wait_status(request.id)
        self.assertEqual([(d["endpoint"], d["status"])
                          for d in trace["deliveries"]], [("ops", "dead")])
        with self.subTest("its own dead letter is no cause, and can be retried"):
            rig.settle()
            self.assertEqual(self.written(rig), ["grapnel.delivery.dead"])
            dead, = (x for x in rig.cli("dlq")[0] if x["endpoint"] == "ops")
            rig.receiver.rules()
            self.assertEqual(rig.cli("dlq", "retry", dead["id"])[1], 0)
            again = rig.receiver.wait(request.id, count=2, path="/ops")[-1]
            self.assertEqual(again.body, request.body)

    def test_a_disabled_and_a_failing_endpoint_are_events(self):
        rig = self.with_ops({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "50ms",
            "jitter": "none", "max_attempts": 4}]})
        rig.config["endpoints"][0] |= {"disable_after": "1s",
                                       "workspaces": ["acme"]}
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        rig.start()

        def disabled():
            rig.accept(rig.plane_body("acme"))
            return [b for b in self.got(rig).values()
                    if b["type"] == "grapnel.endpoint.disabled"]
        gone, = wait_for(disabled)
        self.assertEqual((gone["workspace"], gone["data"]["endpoint"],
                          gone["data"]["reason"]), ("acme", "crm", "failing"))
        failing, = self.wait_got(rig, "endpoint.failing")
        self.assertEqual((failing["data"]["endpoint"],
                          failing["data"]["reason"],
                          failing["data"]["percent"]), ("crm", "failing", 50))

    def test_a_held_endpoint_is_an_event(self):
        rig = self.with_ops()
        rig.start()
        rig.receiver.wait(rig.accept())
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 404}]})
        for _ in range(12):
            rig.accept()
        body, = self.wait_got(rig, "endpoint.failing")
        self.assertEqual((body["data"]["reason"], body["data"]["http_status"]),
                         ("held", 404))

    def test_gaps_are_events(self):
        source = {"name": "ledger", "provider": "custom", "secrets": [KEY],
                  "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                             "form": "plain", "encoding": "hex",
                             "signed": "{body}"},
                  "id": "json:/id", "type": "json:/type",
                  "workspace": "json:/team",
                  "order": {"by": "sequence", "sequence": "json:/seq",
                            "start": 1, "give_up_after": "200ms"}}
        rig = self.with_ops({"sources": [source]}).start()
        body = json.dumps({"id": "3", "type": "entry.made", "team": "acme",
                           "seq": 3}).encode()
        rig.accept(body, source="ledger", headers={
            "X-Sig": hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()})
        opened, = self.wait_got(rig, "gap.opened")
        skipped, = self.wait_got(rig, "gap.skipped")
        for got in (opened, skipped):
            self.assertEqual(got["workspace"], "acme")
            self.assertEqual(
                {k: got["data"][k] for k in ("source", "workspace", "from", "to")},
                {"source": "ledger", "workspace": "acme", "from": 1, "to": 2})
        self.assertEqual(opened["data"]["gap"], skipped["data"]["gap"])

    def test_alerts_are_events_once_each_whichever_process_dies(self):
        """The console keeps its report until the sequencer has replied."""
        rules = [{"name": n, "when": "dead_letters", "above": 0,
                  "enabled": False} for n in OFF]
        rules.append({"name": "paused", "when": "endpoint_waiting",
                      "above": "1ms", "endpoint": ["crm"]})
        rig = self.with_ops({"alerts": rules}, console=True).start()
        rig.cli("endpoints", "pause", "crm")
        body, = self.wait_got(rig, "alert.firing")
        self.assertEqual(
            {k: body["data"][k] for k in ("name", "when", "subject", "severity")},
            {"name": "paused", "when": "endpoint_waiting", "subject": "crm",
             "severity": "warning"})
        with self.subTest("the same report again makes no second event"):
            row, = rig.rows("console", "SELECT * FROM alerts")
            reply = rig.ask(
                "sequencer", "alert_event", n=77, state="firing", name="paused",
                when="endpoint_waiting", subject="crm", severity="warning",
                since_ms=row["since_ms"], value=1.0, summary="again")
            self.assertEqual(reply, {"n": 77, "written": False})
        with self.subTest("a report waits while the sequencer is away"):
            rig.cli("endpoints", "resume", "crm")
            self.wait_got(rig, "alert.resolved")
            rig.cli("endpoints", "pause", "crm")
            wait_for(lambda: rig.rows(
                "console", "SELECT * FROM alerts WHERE state = 'firing'"))
            rig.kill("sequencer", "console")
            rig.step_clock(61)
            rig.start("sequencer", "console")
            self.wait_got(rig, "alert.firing", count=2)
            wait_for(lambda: not rig.rows("console",
                                          "SELECT * FROM alert_events"))
            self.assertEqual(
                len([b for b in self.got(rig).values()
                     if b["type"] == "grapnel.alert.firing"]), 2)

    # ---- who gets them ----

    def test_nothing_is_written_while_nobody_is_subscribed(self):
        """Neither a missing `sources` nor a pattern names the source grapnel; types and
        workspaces select as for other events."""
        rig = self.rig()
        for name, more in {"all": {}, "star": {"sources": ["*"]}}.items():
            rig.config["endpoints"].append(rig.endpoint(name, **more))
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        rig.accept()
        rig.settle()
        self.assertEqual(self.written(rig), [])
        self.assertEqual(rig.rows("sequencer",
                                  "SELECT * FROM operational_limits"), [])
        rig.config["endpoints"] += [
            rig.endpoint("globex", sources=["grapnel"], workspaces=["globex"]),
            rig.endpoint("gaps", sources=["grapnel"], types=["grapnel.gap.*"])]
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig.accept(rig.plane_body("acme"))
        rig.settle()
        self.assertEqual(self.written(rig), [])
        rig.config["endpoints"].append(
            rig.endpoint("acme", sources=["grapnel"], workspaces=["acme"]))
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig.step_clock(61)
        rig["sequencer"].restart()
        rig.accept(rig.plane_body("acme"))
        self.wait_got(rig, "delivery.dead", path="/acme")
        self.assertEqual([self.got(rig, p) for p in (
            "/all", "/star", "/globex", "/gaps")], [{}, {}, {}, {}])

    def test_an_endpoint_made_at_run_time_gets_those_of_its_workspace(self):
        rig = self.rig()
        (rig.folder / "key").write_text(base64.b64encode(bytes(32)).decode())
        (rig.folder / "key").chmod(0o600)
        rig.config["secrets_key"] = "file:key"
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        for name in ("acme", "globex"):
            rig.ask("sequencer", "endpoint_create", sources=["grapnel"],
                    url=rig.receiver.url(f"/{name}"), allow_private=True,
                    workspaces=[name])
        own = rig.ask("sequencer", "endpoint_create", url=rig.receiver.url("/own"),
                      allow_private=True, workspaces=["acme"])["name"]
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]},
                           {"path": "/own", "responses": [{"status": 400}]})
        rig.accept(rig.plane_body("acme"))
        self.wait_got(rig, "delivery.dead", path="/acme")
        rig.settle()
        self.assertEqual(self.got(rig, "/globex"), {})
        # The tokens of the workspace read what it gets: nothing about the operator's endpoints.
        self.assertEqual({r.json()["data"]["endpoint"] for r in rig.receiver.requests("/acme")},
                         {own})

    def test_check_refuses_the_name_and_knows_the_source(self):
        rig = self.with_ops()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn("grapnel, so this", done.stdout + done.stderr)
        self.assertIn("source grapnel → all types → ops", done.stdout)
        rig.config["endpoints"][-1]["types"] = ["grapnel.nothing"]
        rig.write_config()
        done = rig.cli_text("check")
        self.assertIn("grapnel.nothing", done.stdout + done.stderr)
        rig.config["endpoints"][-1]["types"] = ["grapnel.endpoint.*"]
        rig.config["sources"][0]["name"] = "grapnel"
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 78)
        self.assertIn("it is the source of Grapnel's own events", done.stderr)

    # ---- how many ----

    def test_one_a_minute_with_the_number_of_those_left_out(self):
        """Those left out survive a kill, and the newest is sent when the minute is
        over."""
        rig = self.with_ops()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.step_clock(0)
        rig.start()
        events = [rig.accept() for _ in range(5)]
        for event in events:
            rig.wait_status(event)
        first, = self.wait_got(rig, "delivery.dead")
        self.assertEqual(first["data"]["left_out"], 0)
        rig["sequencer"].kill()
        rig.step_clock(61)
        rig.start("sequencer")
        bodies = self.wait_got(rig, "delivery.dead", count=2)
        last, = (b for b in bodies if b["id"] != first["id"])
        self.assertEqual(last["data"]["left_out"], 3)
        self.assertNotEqual(last["data"]["event_id"],
                            first["data"]["event_id"])

    def test_a_kill_around_the_cause_makes_exactly_one(self):
        """P4: cause and event are one transaction."""
        rig = self.with_ops()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        for n in range(4):
            event = rig.accept(rig.plane_body(f"ws-{n}"))
            rig.receiver.wait(event, path="/crm")
            rig["sequencer"].kill()
            rig.start("sequencer")
            rig.wait_status(event)
        rig.settle()
        rows = rig.rows("sequencer", "SELECT id FROM events "
                        "WHERE source = 'grapnel'")
        left, = rig.rows("sequencer", "SELECT left_out FROM operational_limits")
        self.assertEqual((len(rows), left["left_out"]), (1, 3))
        self.wait_got(rig, "delivery.dead")
        self.assertEqual(set(self.got(rig)), {r["id"] for r in rows})

    def test_an_endpoint_that_fails_on_its_own_failures_makes_no_storm(self):
        rig = self.with_ops(
            {"retry_policies": [{
                "name": "default", "backoff": "fixed", "first_wait": "20ms",
                "jitter": "none", "max_attempts": 3}]},
            ops={"disable_after": "1s"})
        rig.config["endpoints"][0] |= {"disable_after": "1s",
                                       "sources": ["plane", "grapnel"]}
        rig.config["endpoints"][1]["sources"] = ["grapnel"]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]},
                           {"path": "/ops", "responses": [{"status": 500}]})
        rig.start()

        def states():
            rig.accept()
            shown = {e["name"]: e["state"] for e in rig.cli("endpoints")[0]}
            return shown == {"crm": "disabled", "ops": "disabled"}
        wait_for(states)
        about = [json.loads(r["body"])["data"]["endpoint"] for r in rig.rows(
            "sequencer", "SELECT body FROM bodies JOIN events ON n = event "
            "WHERE source = 'grapnel'")]
        self.assertNotIn("ops", about)
        self.assertLessEqual(
            len(self.written(rig)), 3)  # one of each kind about crm
        self.assertEqual(len(set(self.written(rig))), len(self.written(rig)))

    # ---- again ----

    def test_they_are_shown_and_sent_again(self):
        """On the command line and over HTTP, also after a crash and after their delivery has ended;
        not after the erasure of their workspace."""
        rig = self.with_ops(console=True)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        rig.accept(rig.plane_body("acme"))
        self.wait_got(rig, "delivery.dead")
        first, = rig.receiver.requests("/ops")
        rig.wait_status(first.id, "done")
        token = rig.cli("tokens", "create", "t", "--role", "operator")[0]["token"]

        def api(method, path, body=None):
            status, _, text = http_request(
                rig.console_port, method, f"/api/v1{path}",
                None if body is None else json.dumps(body).encode(),
                {"Authorization": f"Bearer {token}",
                 "Content-Type": "application/json"})
            return status, text

        def again(count, replay="1"):
            request = rig.receiver.wait(first.id, count=count, path="/ops")[-1]
            self.assertEqual((request.body, request.headers.get("grapnel-replay")),
                             (first.body, replay))
            rig.wait_status(first.id, "done")

        rig.kill("sequencer")
        rig.daemons["sequencer"].start()
        self.assertEqual(rig.cli_text("show", first.id, "--raw").stdout,
                         first.body.decode())
        shown = rig.cli("show", first.id)[0]
        self.assertEqual((shown["source"], shown["process"]), ("grapnel", "sequencer"))
        self.assertIn(["content-type", "application/json"], shown["headers"])
        attempt, = rig.cli("show", first.id, "--attempt", "1")[0]
        self.assertEqual(attempt["sent_body"], first.body.decode())
        self.assertEqual(api("GET", f"/events/{first.id}/payload"), (200, first.body))
        with self.subTest("resend"):
            self.assertEqual(rig.cli("resend", first.id)[1], 0)
            again(2)
            self.assertEqual(api("POST", f"/events/{first.id}/resend", {})[0], 200)
            again(3)
            self.assertEqual(rig.cli("resend", first.id, "--endpoint", "crm")[1], 0)
            wait_for(lambda: [r for r in rig.receiver.requests("/crm")
                              if r.id == first.id], what="it, at crm")
        with self.subTest("replay"):
            words = ("replay", "--since", "1h", "--source", "grapnel")
            self.assertEqual(rig.cli(*words, "--dry-run")[0]["matched"], 1)
            self.assertEqual(rig.cli(*words, "--new-id")[0]["replayed"], 0)
            self.assertEqual(
                rig.cli(*words, "--endpoint", "ops")[0]["replayed"], 1)
            again(4)
        with self.subTest("neither makes an event of its own"):
            rig.settle()
            self.assertEqual(self.written(rig), ["grapnel.delivery.dead"])
        with self.subTest("it is gone with its workspace"):
            job = rig.ask("sequencer", "workspace_erase", workspace="acme")
            wait_for(lambda: rig.ask("sequencer", "job", id=job["id"])["state"]
                     == "done", timeout=30)
            self.assertEqual(rig.rows("sequencer",
                                      "SELECT * FROM operational_bodies"), [])
            self.assertEqual(rig.cli("show", first.id)[1], 1)
            self.assertEqual(rig.cli("resend", first.id)[1], 1)
            self.assertEqual(api("GET", f"/events/{first.id}/payload")[0], 404)

    # ---- loops ----

    def test_a_loop_through_our_own_ingress_ends(self):
        """The request with four hops is refused, and `rejects` says why."""
        rig = self.rig({"sources": [{
            "name": "echo", "provider": "custom", "secrets": [KEY],
            "verify": {"scheme": "shared-token", "header": "X-Key"},
            "type": "header:X-Type", "dedupe": "none"}]})
        rig.config["endpoints"] = [
            {"name": "loop", "url": rig.ingress_url("/in/echo"),
             "allow_private": True,
             "headers": {"X-Key": KEY, "X-Type": "again"}},
            rig.endpoint("crm")]
        rig.write_config()
        rig.start()
        first = rig.accept(b"{}", source="echo",
                           headers={"X-Key": KEY, "X-Type": "first"})
        reject, = wait_for(lambda: rig.cli("rejects")[0])
        self.assertEqual((reject["source"], reject["reason"]),
                         ("echo", "too_many_hops"))
        rig.settle()
        hops = [r.headers["grapnel-hops"] for r in rig.receiver.requests("/crm")]
        self.assertEqual(hops, ["1", "2", "3", "4"])
        self.assertEqual(len(rig.rows("sequencer", "SELECT * FROM events")), 4)
        dead, = rig.cli("dlq")[0]
        self.assertEqual((dead["endpoint"], dead["reason"]),
                         ("loop", "rejected"))
        self.assertTrue(first)
        for value, status in {"3": 200, "4": 400, "x": 400, "-1": 400}.items():
            with self.subTest(value):
                self.assertEqual(rig.post(
                    b"{}", source="echo",
                    headers={"X-Key": KEY, "X-Type": "t",
                             "grapnel-hops": value})[0], status)


main()
