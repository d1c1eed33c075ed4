"""Which retry policy and which URL a delivery has, and what a policy says about one attempt.
P2, P8."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, is_signed, main, wait_for

QUICK = {"backoff": "fixed", "first_wait": "20ms", "jitter": "none",
         "max_attempts": 3}
TOKEN = "t0ken-of-the-app"


class Policies(RigTest):
    def start(self, policy, responses, **endpoint):
        rig = self.rig()
        rig.config["retry_policies"] = [{"name": "quick", **QUICK, **policy}]
        rig.config["endpoints"] = [
            rig.endpoint("crm", retry_policy="quick", **endpoint)]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": responses})
        return rig.start()

    def test_a_policys_timeout_replaces_the_endpoints(self):
        """In both directions: shorter than the endpoint's, and longer."""
        rig = self.start({"timeout": "300ms"},
                         [{"action": "blackhole"}, {"status": 200}],
                         timeout="60s", connect_timeout="60s")
        event = rig.accept()
        trace = rig.wait_status(event)
        first, second = trace["deliveries"][0]["attempts"]
        self.assertIsNone(first["http_status"])
        self.assertRegex(first["error"], "(?i)time")
        self.assertEqual(second["http_status"], 200)
        rig.config["retry_policies"][0]["timeout"] = "30s"
        rig.config["endpoints"][0]["timeout"] = "200ms"
        rig.write_config()
        self.assertEqual(rig.cli_text("reload").returncode, 0)
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 900}]})
        event = rig.accept()
        trace = rig.wait_status(event)
        self.assertEqual([a["http_status"] for a in
                          trace["deliveries"][0]["attempts"]], [200])

    def test_a_redirect_is_retried_and_never_followed(self):
        elsewhere = {"status": 302, "headers": {"Location": "/elsewhere"}}
        rig = self.start({"retry_on": ["network", "3xx"]},
                         [{**elsewhere, "times": 2}, {"status": 200}])
        event = rig.accept()
        trace = rig.wait_status(event)
        self.assertEqual([a["http_status"] for a in
                          trace["deliveries"][0]["attempts"]], [302, 302, 200])
        self.assertEqual({r.path for r in rig.receiver.wait(event, 3)}, {"/crm"})


class Pipeline(RigTest):
    """The endpoint's own policy makes three attempts; it always responds 503."""

    def pipeline(self, endpoints=None, routes=(), **policies):
        rig = self.rig({"producers": [{"name": "app", "tokens": [TOKEN]}]})
        rig.config["retry_policies"] = [
            {"name": "own", **QUICK},
            *({"name": name, **QUICK, **policy}
              for name, policy in policies.items())]
        rig.config["endpoints"] = [
            rig.endpoint(name, retry_policy="own", breaker=False, **more)
            for name, more in (endpoints or {"crm": {}}).items()]
        rig.config["routes"] = list(routes)
        rig.write_config()
        self.respond(rig, 503)
        return rig

    def respond(self, rig, status, **more):
        rig.receiver.rules(*({"path": f"/{e['name']}", "responses": [
            {"status": status, **more}]} for e in rig.config["endpoints"]))

    def reload(self, rig):
        rig.write_config()
        done = rig.cli_text("reload")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def post(self, rig, path="/v1/events", lines=None, **more):
        body = {"type": "order.paid", "workspace": "acme", "data": {"n": 1}}
        text = "\n".join(json.dumps({**body, **line})
                         for line in lines or [more])
        status, _, response = http_request(
            rig.ingress_port, "POST", path, text.encode(),
            {"Authorization": f"Bearer {TOKEN}"})
        return status, [json.loads(line) for line in response.splitlines()]

    def publish(self, rig, **more):
        status, (response,) = self.post(rig, **more)
        self.assertEqual(status, 200, response)
        return response["id"]

    def ended(self, rig, event, status="done"):
        """{endpoint: (attempts, reason)} when all of its deliveries are dead."""
        trace = rig.wait_status(event, status)
        return {d["endpoint"]: (len(d["attempts"]), d["reason"])
                for d in trace["deliveries"]}

    def delivery(self, rig, event, attempts, status="retrying"):
        """Its only delivery, when it has so many attempts and this status."""
        def found():
            for d in rig.deliveries(event):
                if len(d["attempts"]) == attempts and d["status"] == status:
                    return d
            return None
        return wait_for(found, what=f"{event}: {attempts} attempts, {status}")


class Choice(Pipeline):
    def test_a_route_chooses(self):
        """Each key is that of the first route that has it; other events have the
        policies of their endpoints."""
        rig = self.pipeline({"crm": {"workspaces": ["ws-*"]}}, [
            {"types": ["issue.updated"], "endpoints": ["crm"], "max_attempts": 2},
            {"types": ["issue.*"], "endpoints": ["crm"],
             "retry_policy": "many", "max_attempts": 5},
            {"types": ["cycle.*"], "endpoints": ["crm"], "retry_policy": "many",
             "expires_in": "10s"}],
            many={"max_attempts": 9}).start()
        updated = rig.accept(rig.plane_body())
        created = rig.accept(rig.plane_body(action="create"))
        other = rig.accept(rig.plane_body(event="project"))
        self.assertEqual(self.ended(rig, updated), {"crm": (2, "budget_attempts")})
        self.assertEqual(self.ended(rig, created), {"crm": (5, "budget_attempts")})
        self.assertEqual(self.ended(rig, other), {"crm": (3, "budget_attempts")})
        retry = rig.deliveries(updated)[0]["retry"]
        self.assertEqual((retry["policy"], retry["max_attempts"]), ("many", 2))
        self.assertIsNone(rig.deliveries(other)[0]["retry"])
        self.assertIn("retry policy many, chosen for this delivery, at most 2 "
                      "attempts", rig.cli_text("trace", updated).stdout)
        with self.subTest("a route ends deliveries"):
            rig.config["retry_policies"][1]["first_wait"] = "1h"
            self.reload(rig)
            event = rig.accept(rig.plane_body(event="cycle"))
            self.assertEqual(self.ended(rig, event, "expired"),
                             {"crm": (1, "expired")})
        with self.subTest("check shows it"):
            path = rig.folder / "event.json"
            path.write_bytes(rig.plane_body())
            shown, _ = rig.cli("check", "--event", path, "--source", "plane")
            self.assertEqual(shown["routing"][0]["retry"],
                             {"policy": "many", "max_attempts": 2,
                              "max_duration_ms": None, "expires_in_ms": None})
            self.assertIn("retry policy many, at most 2 attempts", rig.cli_text(
                "check", "--event", path, "--source", "plane").stdout)

    def test_an_event_chooses(self):
        """Stronger than its route; what it chose is not delivered."""
        rig = self.pipeline(None, [
            {"endpoints": ["crm"], "retry_policy": "once"}],
            once={"max_attempts": 1}, four={"max_attempts": 4}).start()
        event = self.publish(rig, retry_policy="four")
        self.assertEqual(self.ended(rig, event), {"crm": (4, "budget_attempts")})
        self.assertEqual(list(rig.receiver.wait(event)[0].json()),
                         ["id", "type", "workspace", "timestamp", "data"])
        event = self.publish(rig, max_attempts=2)
        self.assertEqual(self.ended(rig, event), {"crm": (2, "budget_attempts")})
        status, lines = self.post(rig, "/v1/events/batch", [
            {"id": "a"}, {"id": "b", "retry_policy": "four", "max_attempts": 5}])
        self.assertEqual(status, 200, lines)
        self.assertEqual([self.ended(rig, line["id"]) for line in lines],
                         [{"crm": (1, "budget_attempts")},
                          {"crm": (5, "budget_attempts")}])

    def test_an_endpoint_limits_what_may_be_chosen(self):
        rig = self.pipeline({"any": {}, "fewer": {"retry_choice": "fewer"},
                             "none": {"retry_choice": "none"}},
                            long={"max_attempts": 6}).start()
        event = self.publish(rig, retry_policy="long")
        self.assertEqual({e: n for e, (n, _) in self.ended(rig, event).items()},
                         {"any": 6, "fewer": 3, "none": 3})
        event = self.publish(rig, max_attempts=2)
        self.assertEqual({e: n for e, (n, _) in self.ended(rig, event).items()},
                         {"any": 2, "fewer": 2, "none": 3})

    def test_an_unknown_policy_is_refused(self):
        rig = self.pipeline().start()
        for field, value, why in (
                ("retry_policy", "ownn", r'no retry policy "ownn"; there are: '
                                         r"own, default, strict, .*omise"),
                ("retry_policy", 7, "must be a string"),
                ("max_attempts", 0, "must be a whole number from 1 to 1000000"),
                ("max_attempts", "3", "must be a whole number")):
            status, (response,) = self.post(rig, **{field: value})
            self.assertEqual((status, response["error"]["field"]), (400, field))
            self.assertRegex(response["error"]["message"], f"^{field}: .*{why}")
        status, lines = self.post(rig, "/v1/events/batch", [
            {"id": "a"}, {"id": "b", "retry_policy": "ownn"}])
        self.assertEqual((status, lines[1]["error"]["field"]),
                         (207, "retry_policy"))

    def test_a_removed_policy_is_replaced_by_the_endpoints(self):
        """Also of deliveries that wait for a retry at their deliverer."""
        rig = self.pipeline(slow={"first_wait": "1h", "max_attempts": 9}).start()
        events = [self.publish(rig, retry_policy="slow") for _ in range(2)]
        for event in events:
            self.delivery(rig, event, 1)
        rig.config["retry_policies"][1]["max_attempts"] = 8
        self.reload(rig)  # a changed policy is sent again
        self.assertEqual(rig.deliveries(events[0])[0]["retry"]["max_attempts"], 8)
        del rig.config["retry_policies"][1]
        self.reload(rig)
        self.assertIsNone(rig.deliveries(events[0])[0]["retry"])
        for event in events:
            wait_for(lambda e=event: rig.deliveries(e)[0]["status"] == "retrying")
            self.assertEqual(rig.cli("retry", event)[1], 0)
            self.assertEqual(self.ended(rig, event),
                             {"crm": (3, "budget_attempts")})
        self.assertEqual(rig["sequencer"].log().count(
            "that is no longer in the configuration"), 1)

    def test_a_choice_survives_kills(self):
        """P2: of the deliverer and of the sequencer, at once and while it waits for
        longer than the endpoint's own policy ever would."""
        rig = self.pipeline(
            patient={"first_wait": "400ms", "max_attempts": 6},
            yearly={"first_wait": "1000h", "max_attempts": 2}).start()
        yearly = self.publish(rig, retry_policy="yearly")
        due = self.delivery(rig, yearly, 1)["next_attempt_at"]
        event = self.publish(rig, retry_policy="patient")
        rig.receiver.wait(event, 2)
        rig.kill("deliverer-1")
        rig.start("deliverer-1")
        rig.receiver.wait(event, 3)
        rig.kill("sequencer")
        rig.start("sequencer")
        rig.receiver.wait(event, 4)
        rig.kill("sequencer", "deliverer-1")
        rig.start("sequencer", "deliverer-1")
        (attempts, reason), = self.ended(rig, event).values()
        # An attempt whose result was lost in the kill may be made twice.
        self.assertEqual(reason, "budget_attempts")
        self.assertGreaterEqual(attempts, 6)
        self.assertEqual(self.delivery(rig, yearly, 1)["next_attempt_at"], due)

    def test_a_dead_letter_keeps_its_choice(self):
        """And an event that is sent again has the choice of its routes today."""
        rig = self.pipeline(None, [{"endpoints": ["crm"], "max_attempts": 2}])
        rig.start()
        event = rig.accept()
        self.assertEqual(self.ended(rig, event), {"crm": (2, "budget_attempts")})
        self.assertEqual(rig.cli("dlq", "retry", "--all")[1], 0)
        self.delivery(rig, event, 4, "dead")
        rig.config["routes"][0]["max_attempts"] = 1
        self.reload(rig)
        self.assertEqual(rig.cli("resend", event)[1], 0)
        self.delivery(rig, event, 5, "dead")

    def test_a_chosen_policy_has_its_timeout_and_its_statuses(self):
        rig = self.pipeline(
            {"crm": {"timeout": "60s"}},
            hasty={"timeout": "200ms", "max_attempts": 2},
            tolerant={"retry_on": [404, "3xx"], "max_attempts": 2}).start()
        self.respond(rig, 404)
        event = self.publish(rig, retry_policy="tolerant")
        self.assertEqual(self.ended(rig, event), {"crm": (2, "budget_attempts")})
        event = self.publish(rig)
        self.assertEqual(self.ended(rig, event), {"crm": (1, "rejected")})
        rig.receiver.rules({"path": "/crm",
                            "responses": [{"action": "blackhole"}]})
        event = self.publish(rig, retry_policy="hasty")
        self.assertEqual(self.ended(rig, event), {"crm": (2, "budget_attempts")})


class NamedUrls(Pipeline):
    """A producer's event names the URL of its delivery; its endpoint supplies the rest.
    P8."""

    def named(self, urls, **endpoint):
        rig = self.pipeline({"crm": endpoint, "erp": {}})
        other = rig.another_receiver("other")
        rig.config["producers"][0]["may_name_urls"] = [
            url.replace("PORT", str(other.port)) for url in urls]
        rig.write_config()
        return rig.start(), other

    def test_an_event_is_sent_to_its_url(self):
        """Signed and tried as the endpoint says; the body does not have it."""
        rig, other = self.named(["http://127.0.0.1:PORT/hooks/*"])
        url = other.url("/hooks/7?x=1")
        other.rules({"path": "/hooks/7", "responses": [
            {"status": 503, "times": 2}, {"status": 200}]})
        event = self.publish(rig, endpoints=["crm"], url=url)
        got = other.wait(event, 3)
        self.assertTrue(all(map(is_signed, got)))
        self.assertEqual(list(got[0].json()),
                         ["id", "type", "workspace", "timestamp", "data"])
        self.assertEqual({name for name in got[0].headers if "url" in name}, set())
        self.assertEqual(self.delivery(rig, event, 3, "delivered")["endpoint"],
                         "crm")
        self.assertEqual(rig.receiver.requests(event=event), [])
        with self.subTest("a dead letter keeps its URL, also for kills"):
            other.rules({"path": "/hooks/7", "responses": [{"status": 400}]})
            event = self.publish(rig, endpoints=["crm"], url=url)
            self.delivery(rig, event, 1, "dead")
            rig.kill("sequencer", "deliverer-1")
            rig.start("sequencer", "deliverer-1")
            self.assertEqual(rig.cli("dlq", "retry", "--all")[1], 0)
            other.wait(event, 2)
            self.delivery(rig, event, 2, "dead")
            self.assertEqual(rig.receiver.requests(event=event), [])
        with self.subTest("at another endpoint it is not used"):
            self.respond(rig, 200)
            letter, = [d["id"] for d in rig.cli("dlq")[0]
                       if d["event_id"] == event]
            done = rig.cli_text("dlq", "retry", letter, "--to", "erp")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(rig.receiver.wait(event)[0].path, "/erp")

    def test_urls_that_may_not_be_named_are_refused(self):
        rig, other = self.named(["http://127.0.0.1:PORT/hooks/*",
                                 "https://*.example.com/hooks/*"],
                                allowed_ports=[443, 80], url="http://127.0.0.1/")
        inside = other.url("/hooks/1")
        rig.config["producers"].append({"name": "plain", "tokens": ["t2"]})
        for endpoints, url, status, why in (
                (["erp"], other.url("/other/1"), 403, "matches none of"),
                (["erp"], "https://evil.com/a.example.com/hooks/1", 403,
                 "matches none of"),
                (["erp"], inside.replace("//", "//user:pw@"), 400,
                 "must not contain a user or a password"),
                (["erp"], "https://a.example.com/hooks/../x", 400, ". or .."),
                (["erp"], "file:///etc/passwd", 400, "must begin with https"),
                (["erp"], "http://127.0.0.1/" + 2048 * "x", 400, "longer than"),
                (["crm"], inside, 400, "not in `allowed_ports`"),
                (["crm", "erp"], inside, 400, "needs `endpoints` with one name"),
                (None, inside, 400, "needs `endpoints` with one name")):
            more = {"endpoints": endpoints} if endpoints else {}
            got, (response,) = self.post(rig, url=url, **more)
            self.assertEqual((got, response["error"]["field"]), (status, "url"),
                             (url, response))
            self.assertIn(why, response["error"]["message"])
        del rig.config["producers"][0]["may_name_urls"]
        self.reload(rig)
        got, (response,) = self.post(rig, endpoints=["erp"], url=inside)
        self.assertEqual(got, 403)
        self.assertIn("it has no `may_name_urls`", response["error"]["message"])
        self.assertEqual(other.requests(), [])

    def test_the_guard_judges_the_address_of_a_named_url(self):
        """P8: by `allow_private` of the endpoint."""
        rig, other = self.named(["http://127.0.0.1:PORT/*", "http://localhost:*/*"],
                                allow_private=["10.0.0.0/8"])
        for url in (other.url("/x"), f"http://localhost:{other.port}/x"):
            event = self.publish(rig, endpoints=["crm"], url=url)
            self.assertEqual(self.ended(rig, event),
                             {"crm": (1, "blocked_address")})
        event = self.publish(rig, endpoints=["erp"], url=other.url("/x"))
        self.assertEqual(other.wait(event)[0].path, "/x")
        self.assertEqual(len(other.requests()), 1)


main()
