"""The management API of the console: each route, its errors, its lists and its limits, as docs/API.md
describes them."""

import base64
import contextlib
import http.client
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, SLOW, main, sign_plane, wait_for

TOKEN = "an-admin-token-of-the-file"
BASE = "/api/v1"
UNSET = object()


class Api(RigTest):
    def api_rig(self, config=None, **how):
        config = {"console": {"tokens": ["another", TOKEN]}, **(config or {})}
        rig = self.rig(config, console=True, **how)
        return rig

    def call(self, rig, method, path, body=UNSET, token=TOKEN, base=BASE, **headers):
        """(status, headers, document) of one request on a connection of its own."""
        c = http.client.HTTPConnection("127.0.0.1", rig.console_port, timeout=30)
        sent = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            sent.setdefault("Authorization", f"Bearer {token}")
        data = None
        if body is not UNSET:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        with contextlib.closing(c):
            c.request(method, base + path, data, sent)
            response = c.getresponse()
            text = response.read()
        document = json.loads(text) if text and "json" in response.headers["Content-Type"] \
            else text
        return response.status, response.headers, document

    def get(self, rig, path, **how):
        status, _, document = self.call(rig, "GET", path, **how)
        self.assertEqual(status, 200, document)
        return document

    def error(self, answer):
        status, headers, document = answer
        self.assertEqual(list(document), ["error"], document)
        self.assertEqual(sorted(document["error"]),
                         ["code", "field", "message", "request_id"])
        self.assertEqual(document["error"]["request_id"], headers["X-Request-Id"])
        return status, document["error"]["code"], document["error"]["field"]


class Requests(Api):
    def test_requests_without_a_known_token_are_refused(self):
        rig = self.api_rig(deliverers=0).start("console")
        for token in (None, "wrong", "an-admin-token-of-the-fil", "another2"):
            for path in ("/events", "/nothing"):
                answer = self.call(rig, "GET", path, token=token)
                self.assertEqual(self.error(answer), (401, "unauthorized", None))
                self.assertEqual(answer[1]["WWW-Authenticate"], "Bearer")
        for header in ("Basic YTpi", TOKEN, "Bearer", f"Bearer {TOKEN}, Bearer x"):
            self.assertEqual(self.error(self.call(rig, "GET", "/events",
                                                  Authorization=header))[0], 401)
        self.assertEqual(self.error(self.call(rig, "GET", "/events", token="another"))[0], 503)

    def test_without_any_token_the_response_says_how_to_add_one(self):
        rig = self.rig(console=True, deliverers=0).start("console")
        answer = self.call(rig, "GET", "/events", token=None)
        self.assertEqual(self.error(answer)[0], 401)
        self.assertIn("grapnel tokens create", answer[2]["error"]["message"])
        self.assertIn("console.tokens", answer[2]["error"]["message"])

    def test_an_address_with_many_wrong_tokens_has_to_wait(self):
        rig = self.api_rig(deliverers=0).start("console")
        statuses = [self.call(rig, "GET", "/events", token=f"guess-{n}")[0]
                    for n in range(25)]
        self.assertEqual(statuses, [401] * 20 + [429] * 5)
        answer = self.call(rig, "GET", "/events", token=None)
        self.assertEqual(self.error(answer), (429, "rate_limited", None))
        self.assertIn(int(answer[1]["Retry-After"]), range(1, 11))
        self.assertEqual(rig.console_page("/metrics")[0], 200)
        # A token of the file works; only some of those that the sequencer may know are asked for.
        self.assertEqual(self.call(rig, "GET", "/events")[0], 503)
        statuses = [self.call(rig, "GET", "/events", token=f"grp_{n}")[0] for n in range(60)]
        self.assertEqual((statuses[0], set(statuses)), (503, {429, 503}))

    def test_known_tokens_work_beside_wrong_ones_from_the_same_address(self):
        rig = self.api_rig(deliverers=0).start("sequencer", "console")
        known, fresh = (rig.cli("tokens", "create", name, "--role", "viewer")[0]["token"]
                        for name in ("known", "fresh"))
        wait_for(lambda: self.call(rig, "GET", "/endpoints", token=known)[0] == 200)

        def guess():
            return [self.call(rig, "GET", "/endpoints", token=f"grp_{n}")[0] for n in range(100)]
        self.assertEqual(guess()[-1], 429)
        until = time.monotonic() + 2  # what the console knows is older than its second
        while time.monotonic() < until:
            self.assertIn(429, guess())
            self.assertEqual(self.call(rig, "GET", "/endpoints", token=known)[0], 200)
        wait_for(lambda: self.call(rig, "GET", "/endpoints", token=fresh)[0] == 200)
        tokens = rig.ask("sequencer", "tokens")["tokens"]
        rig.cli("tokens", "revoke", next(t["id"] for t in tokens if t["name"] == "known"))
        wait_for(lambda: self.call(rig, "GET", "/endpoints", token=known)[0] in (401, 429))

    def test_unknown_paths_methods_and_arguments_are_refused(self):
        rig = self.api_rig(deliverers=0).start("console")
        for path in ("", "/", "/nothing", "/events/", "//events", "/Events", "/%", "/%zz",
                     "/events%00", "/endpoints//pause", "/events/../gaps"):
            with self.subTest(path):
                self.assertEqual(self.error(self.call(rig, "GET", path)),
                                 (404, "no_route", None))
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "X"):
            with self.subTest(method):
                answer = self.call(rig, method, "/events")
                self.assertEqual(self.error(answer), (405, "method_not_allowed", None))
                self.assertEqual(answer[1]["Allow"], "GET, HEAD")
        answer = self.call(rig, "GET", "/endpoints/crm/pause")
        self.assertEqual((answer[0], answer[1]["Allow"]), (405, "POST"))
        for query, field in [("limit=0", "limit"), ("limit=1&limit=1", "limit"),
                             ("typ=x", "typ"), ("status=maybe", "status"),
                             ("since=x", "since"), ("cursor=x", "cursor"),
                             ("type=%ff", "type"), ("type=%00", "type"), ("who=me", "who"),
                             ("since_ms=1", "since_ms"), ("before=1", "before")]:
            with self.subTest(query):
                self.assertEqual(self.error(self.call(rig, "GET", "/events?" + query)),
                                 (400, "invalid_argument", field))
        known = self.call(rig, "GET", "/events?typ=x")[2]["error"]["message"]
        self.assertIn("workspace, source, type, endpoint, status, id, since, until, limit,"
                      " cursor", known)

    def test_changes_need_json_and_no_other_site(self):
        rig = self.api_rig().start()
        path = "/endpoints/crm/pause"
        for body, kind in [(b"{}", "text/plain"), (b"a=b", "application/x-www-form-urlencoded"),
                           (b"{}", "application/jsonp"), (b"{}", ""), (b"", "text/plain")]:
            self.assertEqual(self.error(self.call(rig, "POST", path, body, Content_Type=kind)),
                             (415, "unsupported_type", None))
        self.assertEqual(self.error(self.call(rig, "POST", path, b"{}", Content_Encoding="gzip")),
                         (415, "unsupported_type", None))
        for headers in [{"Origin": "http://evil.example"}, {"Origin": "null"},
                        {"Origin": f"http://127.0.0.1:{rig.console_port + 1}"},
                        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}]:
            self.assertEqual(self.error(self.call(rig, "POST", path, {}, **headers)),
                             (403, "cross_site", None))
        for body in (b"[]", b"{", b"5", b'"x"', b"\xff", b'{"a":1,"a":1}', b"{}{}",
                     b"[" * 60000, b'{"a":"\\u0000"}', b'{"\xff":1}'):
            self.assertEqual(self.error(self.call(rig, "POST", path, body)),
                             (400, "invalid_body", None))
        self.assertEqual(self.error(self.call(rig, "POST", path, {"who": "me"})),
                         (400, "invalid_argument", "who"))
        self.assertEqual(self.error(self.call(rig, "POST", path + "?a=b", {}))[0], 400)
        state = rig.ask("sequencer", "endpoint", name="crm")
        self.assertEqual(state["state"], "active")
        port = rig.console_port
        for headers in [{"Origin": f"http://127.0.0.1:{port}"},
                        {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"},
                        {"Content_Type": "application/json; charset=utf-8"},
                        {"Content_Type": "Application/JSON"}]:
            status, _, document = self.call(rig, "POST", path, {}, **headers)
            self.assertEqual((status, document["state"]), (200, "paused"))
        self.assertEqual(document["reason"], "by token 2 of console.tokens")
        self.assertEqual(self.call(rig, "POST", "/endpoints/crm/resume")[0], 200)

    def test_responses_have_headers_against_misuse(self):
        rig = self.api_rig().start()
        status, headers, _ = self.call(rig, "GET", "/events", Origin="http://evil.example")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "application/json; charset=utf-8")
        self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        self.assertRegex(headers["X-Request-Id"], "^req_[0-9A-Z]{26}$")
        self.assertFalse([name for name in headers if name.startswith("Access-Control")])
        full = self.call(rig, "GET", "/gaps")[1]
        status, headers, text = self.call(rig, "HEAD", "/gaps")
        self.assertEqual((status, text), (200, b""))
        self.assertEqual(headers["Content-Length"], full["Content-Length"])


class Tokens(Api):
    def make(self, rig, name, role):
        status, _, made = self.call(rig, "POST", "/tokens", {"name": name, "role": role})
        self.assertEqual(status, 200, made)
        return made["id"], made["token"]

    def test_a_token_may_do_what_its_role_says(self):
        rig = self.api_rig().start()
        _, viewer = self.make(rig, "looks", "viewer")
        _, operator = self.make(rig, "acts", "operator")
        _, admin = self.make(rig, "owns", "admin")
        for token, allowed in [(viewer, (200, 403, 403)), (operator, (200, 200, 403)),
                               (admin, (200, 200, 200))]:
            answers = [self.call(rig, "GET", "/events", token=token),
                       self.call(rig, "POST", "/endpoints/crm/pause", {}, token=token),
                       self.call(rig, "GET", "/tokens", token=token)]
            self.assertEqual(tuple(a[0] for a in answers), allowed)
            for answer in answers:
                if answer[0] == 403:
                    self.assertEqual(self.error(answer), (403, "role", None))
        state = rig.ask("sequencer", "endpoint", name="crm")
        self.assertEqual(state["reason"], "by token acts")
        rows = rig.ask("sequencer", "audit")["audit"]
        self.assertEqual([(r["command"], r["actor"], r["role"]) for r in rows],
                         [("endpoint_pause", "token owns", "admin"),
                          ("endpoint_pause", "token acts", "operator")]
                         + [("token_create", "token 2 of console.tokens", "admin")] * 3)
        self.assertRegex(rows[0]["request_id"], "^req_")

    def test_a_revoked_token_is_refused_within_a_second(self):
        rig = self.api_rig().start()
        made, token = self.make(rig, "ops", "admin")
        self.assertEqual(self.call(rig, "GET", "/events", token=token)[0], 200)
        status, _, revoked = self.call(rig, "DELETE", "/tokens/" + made)
        self.assertEqual((status, revoked["state"]), (200, "revoked"))
        wait_for(lambda: self.call(rig, "GET", "/events", token=token)[0] == 401,
                 what="the console to look again")
        self.assertEqual(self.error(self.call(rig, "GET", "/events", token=token)),
                         (401, "unauthorized", None))
        self.assertEqual(self.call(rig, "GET", "/events", token="grp_" + "x" * 43)[0], 401)

    def test_without_the_sequencer_tokens_of_the_file_work(self):
        rig = self.api_rig(deliverers=0).start("console", "dlqd")
        self.assertEqual(self.call(rig, "GET", "/alerts")[0], 200)
        self.assertEqual(self.error(self.call(rig, "GET", "/alerts", token="grp_x")),
                         (503, "process_unavailable", None))

    def test_a_repeat_with_the_same_key_changes_nothing(self):
        rig = self.api_rig().start()
        body = {"name": "ops", "role": "viewer"}
        first = self.call(rig, "POST", "/tokens", body, Idempotency_Key="k-1")
        self.assertEqual(first[0], 200)
        again = self.call(rig, "POST", "/tokens", body, Idempotency_Key="k-1")
        self.assertEqual(again[0], 200)
        self.assertEqual(again[2], {**first[2], "token": None})
        other = self.call(rig, "POST", "/tokens", {**body, "role": "admin"},
                          Idempotency_Key="k-1")
        self.assertEqual(self.error(other), (422, "key_reused", None))
        # Another path or token has keys of its own.
        self.assertEqual(self.call(rig, "POST", "/endpoints/crm/pause", {},
                                   Idempotency_Key="k-1")[0], 200)
        taken = self.call(rig, "POST", "/tokens", body, token="another", Idempotency_Key="k-1")
        self.assertEqual(self.error(taken), (409, "refused", None))
        for key in ("", "a b", "x" * 129, "\xe9"):
            self.assertEqual(self.error(self.call(rig, "POST", "/endpoints/crm/pause", {},
                                                  Idempotency_Key=key)),
                             (400, "invalid_argument", "Idempotency-Key"))


class Lists(Api):
    def test_a_list_is_read_page_by_page(self):
        rig = self.api_rig().start()
        ids = [rig.accept() for _ in range(45)]
        rig.wait_status(ids[-1])
        found, cursor, pages = [], None, 0
        while True:
            page = self.get(rig, "/events?limit=10" + (f"&cursor={cursor}" if cursor else ""))
            self.assertEqual(sorted(page), ["items", "next_cursor"])
            self.assertLessEqual(len(page["items"]), 10)
            found += [e["id"] for e in page["items"]]
            cursor, pages = page["next_cursor"], pages + 1
            if not cursor:
                break
        self.assertEqual(found, ids[::-1])
        self.assertLess(pages, 10)
        one, = self.get(rig, "/events?limit=1&type=issue.*&since=1h&workspace=ws-1")["items"]
        self.assertEqual(one["id"], ids[-1])
        self.assertEqual(self.get(rig, "/events?until=2020-01-01")["items"], [])

    def pages(self, rig, path, **how):
        """The ids of all pages."""
        ids, cursor = [], ""
        while cursor is not None:
            page = self.get(rig, path + (f"&cursor={cursor}" if cursor else ""), **how)
            ids += [e["id"] for e in page["items"]]
            cursor = page["next_cursor"]
        return ids

    def test_events_are_found_by_a_pattern_of_endpoints(self):
        rig = self.api_rig()
        rig.config["endpoints"][0]["workspaces"] = ["ws-1", "ws-2", "ws-3"]
        rig.config["endpoints"] += [rig.endpoint("legal", workspaces=["ws-2"]),
                                    *(rig.endpoint(f"many-{n}", workspaces=["ws-3"])
                                      for n in range(150))]
        rig.write_config()
        rig.start()
        one, two, three = (rig.accept(rig.plane_body(f"ws-{n}")) for n in (1, 2, 3))
        body = rig.plane_body("ws-4")
        _, again = (rig.accept(body, headers=headers)
                         for headers in 2 * [sign_plane(body)])
        for event in (one, two, three):
            rig.wait_status(event)
        rig.settle()
        self.assertEqual(self.pages(rig, "/events?status=duplicate"), [again])
        delivery = rig.trace(two)["delivery_id"]
        for query, events in (("endpoint=cr*", [three, two, one]), ("endpoint=*", [three, two, one]),
                              ("endpoint=le*l", [two]), ("endpoint=x*", []),
                              ("endpoint=m*-0", [three]), ("endpoint=*&limit=1", [three, two, one]),
                              ("endpoint=*&status=done", [three, two, one]),
                              ("endpoint=*&status=expired", []),
                              ("endpoint=*&status=duplicate", []),
                              ("endpoint=*&workspace=ws-1", [one]),
                              (f"endpoint=le*&id={delivery}", [two]),
                              (f"endpoint=m*&id={delivery}", [])):
            self.assertEqual(self.pages(rig, "/events?" + query), events, query)
        found, _ = rig.cli("events", "--endpoint", "le*")
        self.assertEqual([e["id"] for e in found], [two])

    def test_an_event_is_found_below_many_of_the_same_provider_id(self):
        rig = self.api_rig({"sources": [
            {"name": name, "provider": "plane", "secrets": ["${PLANE_SECRET}"]}
            for name in ("plane", "plane2")]}).start()
        token = rig.cli("tokens", "create", "t", "--role", "workspace", "--workspace",
                        "ws-1")[0]["token"]
        body = rig.plane_body("ws-1")
        headers = sign_plane(body)
        first = rig.accept(body, headers=headers)
        other = rig.plane_body("ws-2")
        headers = {**sign_plane(other), "X-Plane-Delivery": headers["X-Plane-Delivery"]}
        others = [rig.accept(other, headers=headers, source="plane2") for _ in range(120)]
        rig.wait_status(others[0])
        rig.settle()
        path, newest_first = f"/events?id={headers['X-Plane-Delivery']}", others[::-1] + [first]
        for query, events in (("", newest_first), ("&limit=7", newest_first),
                              ("&limit=121", newest_first), ("&limit=1000", newest_first),
                              ("&workspace=ws-1", [first]), ("&status=done", [others[0], first]),
                              ("&endpoint=crm", [others[0], first]), ("&source=plane", [first]),
                              ("&status=duplicate&limit=50", others[:0:-1]), ("x", [])):
            self.assertEqual(self.pages(rig, path + query), events, query)
        self.assertEqual(self.pages(rig, path, token=token), [first])
        found, _ = rig.cli("events", "--id", headers["X-Plane-Delivery"], "--limit", "200")
        self.assertEqual([e["id"] for e in found], newest_first)
        said = rig.cli_text("trace", headers["X-Plane-Delivery"])
        self.assertIn("100 or more events share this provider id", said.stderr)


class Replies(Api):
    def test_the_reply_of_a_process_is_passed_on_unchanged(self):
        rig = self.api_rig({"secrets_key": base64.b64encode(bytes(32)).decode()}).start()
        rig.wait_status(rig.accept())
        few, many = ({f"X-Header-{n}": f"\u00e4 \"{n}\"" for n in range(count)} for count in (3, 40))
        for headers in (few, many):
            status, _, made = self.call(rig, "POST", "/endpoints", {
                "url": rig.receiver.url("/made"), "allow_private": True, "headers": headers})
            self.assertEqual(status, 200, made)
            name = made["name"]
            status, answer, shown = self.call(rig, "GET", f"/endpoints/{name}")
            self.assertEqual((status, answer["ETag"]), (200, f'"{made["version"]}"'))
            self.assertEqual(len(shown["settings"]["headers"]), len(headers))
            self.assertEqual(shown, rig.ask("sequencer", "endpoint", name=name))
        self.assertEqual(self.get(rig, "/workspaces/ws-1"),
                         rig.ask("sequencer", "workspace", workspace="ws-1"))
        self.assertEqual(self.get(rig, "/endpoints?limit=2"), {
            "items": rig.ask("sequencer", "endpoints", limit=2)["endpoints"],
            "next_cursor": self.get(rig, "/endpoints?limit=2")["next_cursor"]})


class Events(Api):
    def test_an_event_has_the_newest_attempts_of_each_delivery(self):
        """Thousands of them would hold the processes that deliver. `grapnel trace` and evidence have all."""
        rig = self.api_rig({"retry_policies": [{"name": "default", "backoff": "fixed", "first_wait": "2ms",
                                                "jitter": "none", "max_attempts": 1000}]}).start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}] * 120 + [{"status": 200}]})
        event = rig.accept()
        rig.wait_status(event)
        rig.settle()
        document = self.get(rig, "/events/" + event)
        delivery, = document["deliveries"]
        numbers = [a["n"] for a in delivery["attempts"]]
        self.assertEqual((numbers[-1], len(numbers), delivery["attempts_left_out"]), (121, 101, 20))
        self.assertEqual(numbers, sorted(numbers))
        self.assertNotIn("attempt 10 at", json.dumps(document["timeline"]))
        self.assertEqual({a["request"]["method"] for a in delivery["attempts"][2:]}, {"POST"})
        delivery, = rig.trace(event)["deliveries"]
        self.assertEqual(([a["n"] for a in delivery["attempts"]], delivery["attempts_left_out"]),
                         (list(range(1, 122)), 0))
        self.assertEqual(rig.cli_text("evidence", "key").returncode, 0)
        self.assertIn(b"attempt 10 at", self.get(rig, f"/events/{event}/evidence"))

    def test_an_event_has_what_all_processes_know(self):
        rig = self.api_rig().start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}, {"status": 200}]})
        event = rig.accept()
        rig.wait_status(event)
        wait_for(lambda: len(rig.ask("sequencer", "trace", id=event)["deliveries"][0]
                             ["attempts"]) == 2)
        document = self.get(rig, "/events/" + event)
        trace = rig.trace(event)
        self.assertEqual(document["timeline"], trace["timeline"])
        self.assertEqual((document["id"], document["unreachable"]), (event, []))
        self.assertGreaterEqual({step["process"] for step in document["timeline"]},
                                {"ingress", "sequencer"})
        first = document["deliveries"][0]["attempts"][0]
        self.assertEqual((first["http_status"], first["sends"]), (503, 1))
        attempt = self.get(rig, f"/attempts/{event}.crm.1")
        self.assertEqual((attempt["n"], attempt["http_status"], attempt["outcome"]),
                         (1, 503, "retrying"))
        asked = rig.ask("deliverer-1", "trace", id=event, endpoint="crm", n=2)["attempts"]
        self.assertEqual([(a["endpoint"], a["n"]) for a in asked], [("crm", 2)])
        for bad in ("x", event, f"{event}.crm", f"{event}.crm.9", f"{event}.crn.1",
                    f"{event}.crm.0", f"{event}.crm.1x", f"{event}..1"):
            self.assertEqual(self.error(self.call(rig, "GET", "/attempts/" + bad))[:2],
                             (404, "not_found"))
        self.assertEqual(self.error(self.call(rig, "GET", "/events/evt_nothing"))[:2],
                         (404, "not_found"))

    def test_an_event_while_processes_are_down(self):
        rig = self.api_rig().start()
        event = rig.accept()
        rig.wait_status(event)
        rig["deliverer-1"].kill()
        self.assertEqual(self.get(rig, "/events/" + event)["unreachable"], ["deliverer-1"])
        rig["sequencer"].kill()
        document = self.get(rig, "/events/" + event)
        self.assertEqual(document["unreachable"], ["sequencer", "deliverer-1"])
        self.assertEqual((document["source"], "status" in document), ("plane", False))
        self.assertEqual(self.error(self.call(rig, "GET", "/events/evt_nothing"))[:2],
                         (503, "process_unavailable"))

    def test_a_payload_is_a_download_of_the_bytes_as_they_came(self):
        rig = self.api_rig({"ingress": {"max_body": "8MiB"}}).start()
        body = rig.plane_body()
        large = body[:-1] + b', "more": "' + b"\xc3\xa4" * 3_500_000 + b'"}'
        for sent in (body, large):
            event = rig.accept(sent)
            status, headers, text = self.call(rig, "GET", f"/events/{event}/payload")
            self.assertEqual(status, 200)
            self.assertTrue(text == sent, f"{len(text)} of {len(sent)} bytes")
            self.assertEqual(headers["Content-Type"], "application/octet-stream")
            self.assertEqual(headers["Content-Disposition"],
                             f'attachment; filename="{event}.bin"')
            self.assertEqual(headers["Content-Security-Policy"], "sandbox")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            head = self.call(rig, "HEAD", f"/events/{event}/payload")
            self.assertEqual((head[0], head[1]["Content-Length"]), (200, str(len(sent))))
        self.assertEqual(self.error(self.call(rig, "GET", "/events/evt_x/payload"))[:2],
                         (404, "not_found"))
        # Ingress ends in the middle: so does the response, before its Content-Length.
        c = http.client.HTTPConnection("127.0.0.1", rig.console_port, timeout=30)
        self.addCleanup(c.close)
        c.request("GET", f"{BASE}/events/{event}/payload",
                  headers={"Authorization": f"Bearer {TOKEN}"})
        response = c.getresponse()
        rig["ingress"].kill()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        self.assertEqual(self.error(self.call(rig, "GET", f"/events/{event}/payload"))[:2],
                         (503, "process_unavailable"))

    def test_acts_on_an_event(self):
        rig = self.api_rig().start()
        event = rig.accept()
        rig.wait_status(event)
        status, _, document = self.call(rig, "POST", f"/events/{event}/resend", {})
        self.assertEqual((status, document["resent"][0]["id"]), (200, event))
        rig.receiver.wait(event, count=2)
        status, _, document = self.call(rig, "POST", f"/events/{event}/retry", {})
        self.assertEqual((status, document["id"]), (200, event))
        for path in ("/events/evt_x/resend", "/events/evt_x/retry",
                     f"/events/evt_{'0' * 26}/resend", f"/events/evt_{'0' * 26}/retry",
                     f"/events/evt_{'0' * 26}/release", "/gaps/gap_99/close"):
            body = {"note": "n"} if "gaps" in path else {}
            self.assertEqual(self.error(self.call(rig, "POST", path, body))[:2],
                             (404, "not_found"), path)
        for body in ({"endpoint": "cmr"}, {"endpoint": "cmr", "new_id": True},
                     {"endpoint": f"ep_{'0' * 26}"}):
            reply = self.error(self.call(rig, "POST", f"/events/{event}/resend", body))
            self.assertEqual(reply[:2], (404, "not_found"), body)
        self.assertEqual(self.error(self.call(rig, "POST", f"/events/{event}/abandon",
                                              {"endpoint": "crm", "note": "n"}))[0], 409)
        status, _, document = self.call(rig, "POST", "/endpoints/crm/test")
        self.assertEqual((status, document["verdict"]), (200, "delivered"))
        self.assertEqual(self.error(self.call(rig, "POST", "/endpoints/crn/test", {}))[:2],
                         (404, "not_found"))
        rows = self.get(rig, "/audit")["items"]
        self.assertEqual([r["command"] for r in rows if r["outcome"] == "done"],
                         ["test", "resend", "retry", "resend"])
        self.assertEqual({r["actor"] for r in rows}, {"token 2 of console.tokens"})
        found, cursor = [], ""
        while cursor is not None:
            page = self.get(rig, "/audit?limit=2" + (f"&cursor={cursor}" if cursor else ""))
            found += page["items"]
            cursor = page["next_cursor"]
        self.assertEqual(found, rows)


class Resources(Api):
    def test_endpoints_and_workspaces(self):
        rig = self.api_rig().start()
        rig.wait_status(rig.accept(rig.plane_body(workspace="ws-1")))
        page = self.get(rig, "/endpoints")
        self.assertEqual(([e["name"] for e in page["items"]], page["next_cursor"]),
                         (["crm"], None))
        self.assertEqual(self.get(rig, "/endpoints/crm")["state"], "active")
        page = self.get(rig, "/workspaces")
        self.assertEqual([w["workspace"] for w in page["items"]], ["ws-1"])
        self.assertEqual(self.get(rig, "/workspaces/ws-1")["sequence"], 1)
        for path in ("/endpoints/crn", "/workspaces/ws-2", "/workspaces/*"):
            self.assertEqual(self.error(self.call(rig, "GET", path))[:2], (404, "not_found"))

    def test_dead_letters(self):
        rig = self.api_rig().start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}] * 3 + [{"status": 200}]})
        ids = []
        for _ in range(3):
            event = rig.accept()
            rig.wait_status(event)
            ids.append(event)
        page = wait_for(lambda: len((p := self.get(rig, "/dead-letters"))["items"]) == 3 and p)
        letters = [letter["id"] for letter in page["items"]]
        self.assertEqual(self.get(rig, "/dead-letters/" + letters[0])["last_http_status"], 400)
        status, _, done = self.call(rig, "POST", f"/dead-letters/{letters[0]}/resolve",
                                    {"note": "by hand"})
        self.assertEqual((status, done["state"]), (200, "resolved"))
        self.assertEqual(self.error(self.call(rig, "POST",
                                              f"/dead-letters/{letters[0]}/resolve",
                                              {"note": "x"}))[:2], (409, "refused"))
        status, _, done = self.call(rig, "POST", f"/dead-letters/{letters[1]}/discard",
                                    {"note": "a test"})
        self.assertEqual((status, done["state"]), (200, "discarded"))
        self.assertEqual(self.error(self.call(rig, "POST", f"/dead-letters/{letters[2]}/retry",
                                              {"to": f"ep_{'0' * 26}"}))[:2], (404, "not_found"))
        self.assertEqual(self.get(rig, "/dead-letters/" + letters[2])["state"], "dead")
        status, _, done = self.call(rig, "POST", f"/dead-letters/{letters[2]}/retry", {})
        self.assertEqual((status, done["requeued"]), (200, [letters[2]]))
        self.assertEqual(self.error(self.call(rig, "GET", "/dead-letters/dlq_x"))[:2],
                         (404, "not_found"))

    def test_rejects_of_several_ingresses(self):
        rig = self.api_rig().start()
        self.assertEqual(rig.post(b"{}", headers={})[0], 401)
        self.assertEqual(rig.post(b"{}", headers={})[0], 401)
        page = wait_for(lambda: len((p := self.get(rig, "/rejects"))["items"]) == 2 and p)
        self.assertIsNone(page["next_cursor"])
        newest = page["items"][0]
        self.assertEqual(self.get(rig, "/rejects/" + newest["id"])["reason"],
                         newest["reason"])
        self.assertEqual(self.get(rig, "/rejects?limit=1")["items"], [newest])
        self.assertEqual(self.error(self.call(rig, "GET", "/rejects/rej_x"))[:2],
                         (404, "not_found"))
        rig["ingress"].kill()
        self.assertEqual(self.error(self.call(rig, "GET", "/rejects"))[0], 503)

    def test_alerts_and_the_description(self):
        rig = self.api_rig(deliverers=0).start("console", "sequencer")
        self.assertEqual(self.get(rig, "/gaps"), {"items": [], "next_cursor": None})
        self.assertIsInstance(self.get(rig, "/alerts")["items"], list)
        self.assertEqual(self.error(self.call(rig, "POST", "/alerts/nothing/test"))[:2],
                         (404, "not_found"))
        document = self.get(rig, "/openapi.json", token=None)
        self.assertEqual(document["openapi"], "3.1.0")
        status, headers, page = self.call(rig, "GET", "/api/docs", token=None, base="")
        self.assertEqual(status, 200)
        self.assertIn("text/html", headers["Content-Type"])
        self.assertIn(b"/events/{id}/payload", page)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])

    def test_every_route_of_the_description_is_there(self):
        """Each responds to a viewer and to an unknown token as its role says."""
        rig = self.api_rig().start()
        tokens = {role: self.call(rig, "POST", "/tokens", {"name": role, "role": role})[2]["token"]
                  for role in ("viewer", "operator")}
        roles = ["viewer", "operator", "admin"]
        paths = self.get(rig, "/openapi.json")["paths"]
        self.assertGreater(len(paths), 25)
        for path, methods in paths.items():
            for method, operation in methods.items():
                with self.subTest(f"{method} {path}"):
                    real = path.replace("{", "").replace("}", "")
                    if path == "/stream":  # else its response does not end
                        real += "?seconds=1"
                    for role, token in tokens.items():
                        allowed = roles.index(role) >= roles.index(operation["x-grapnel-role"])
                        status = self.call(rig, method.upper(), real, token=token)[0]
                        if allowed:
                            self.assertIn(status, (200, 400, 404, 409, 428))
                        else:
                            self.assertEqual(status, 403)
                    self.assertEqual(self.call(rig, method.upper(), real, token=None)[0], 401)


class Answers(Api):
    def test_a_dead_letter_is_not_sent_to_an_unknown_endpoint(self):
        rig = self.api_rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        rig.accept()
        rig.settle()
        before, = rig.ask("dlqd", "dlq")["dead_letters"]
        answer = self.call(rig, "POST", f"/dead-letters/{before['id']}/retry", {"to": "nobody"})
        self.assertEqual(self.error(answer), (404, "not_found", None))
        with self.assertRaisesRegex(Exception, "no endpoint is named nobody"):
            rig.ask("dlqd", "dlq_retry_all", to="nobody")
        self.assertEqual(rig.ask("dlqd", "dlq")["dead_letters"], [before])

    def test_a_retry_that_changes_nothing_is_an_error(self):
        """Also in the audit, and when the same request comes again."""
        rig = self.api_rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        event = rig.accept()
        rig.settle()
        letter, = (d["id"] for d in rig.ask("dlqd", "dlq")["dead_letters"])
        absent = "0" * 26
        rig.ask("dlqd", "dlq_resolve", id=letter, note="by hand")
        for key, id_, status, code, text in (
                ("a", letter, 409, "refused", "nothing to retry"),
                ("b", event, 409, "refused", "no dead letter of this event waits"),
                ("c", f"dlq_{absent}-crm", 404, "not_found", "there is no dead letter"),
                ("d", f"evt_{absent}", 404, "not_found", "no dead letter of this event")):
            with self.subTest(id_):
                reply, again = (self.call(rig, "POST", f"/dead-letters/{id_}/retry", {},
                                          Idempotency_Key=key) for _ in range(2))
                self.assertEqual(self.error(reply)[:2], (status, code))
                self.assertIn(text, reply[2]["error"]["message"])
                self.assertEqual(self.error(again), self.error(reply))
                row, = (r for r in rig.ask("dlqd", "audit")["audit"]
                        if r["command"] == "dlq_retry" and r["args"]["id"] == id_)
                self.assertEqual(row["outcome"], reply[2]["error"]["message"])
        # A list of ids still says which were refused.
        reply, code = rig.cli("dlq", "retry", letter, f"evt_{absent}")
        self.assertEqual((code, reply["requeued"], [r["id"] for r in reply["refused"]]),
                         (1, [], [letter, f"evt_{absent}"]))

    def test_cookies_of_an_endpoint_are_never_shown(self):
        rig = self.api_rig()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "headers": {"Set-Cookie": "hush=1", "X-Other": "seen"}}]})
        rig.start()
        event = rig.accept()
        rig.settle()
        for path in (f"/attempts/{event}.crm.1", f"/events/{event}"):
            text = json.dumps(self.get(rig, path))
            self.assertIn("seen", text)
            self.assertIn("et-cookie: \\u2026", text.lower())
            self.assertNotIn("hush", text)


class Processes(Api):
    def test_a_stopped_process_delays_only_its_own_requests(self):
        rig = self.api_rig().start()
        self.get(rig, "/gaps")
        rig["sequencer"].pause()
        begun = time.monotonic()
        waiting = [self.begin(rig, "/events") for _ in range(20)]
        # The console itself, and other processes, respond at once.
        self.assertEqual(rig.console_page("/metrics")[0], 200)
        self.assertEqual(self.error(self.call(rig, "GET", "/nothing"))[0], 404)
        self.assertLess(time.monotonic() - begun, 3)
        for c in waiting:
            response = c.getresponse()
            answer = (response.status, response.headers, json.load(response))
            self.assertEqual(self.error(answer), (504, "process_timeout", None))
            self.assertIn("sequencer", answer[2]["error"]["message"])
            c.close()
        self.assertLess(time.monotonic() - begun, 10)
        rig["sequencer"].resume()
        self.get(rig, "/events")

    def begin(self, rig, path):
        c = http.client.HTTPConnection("127.0.0.1", rig.console_port, timeout=30)
        self.addCleanup(c.close)
        c.request("GET", BASE + path, headers={"Authorization": f"Bearer {TOKEN}"})
        return c

    def test_a_process_that_is_down_is_named(self):
        rig = self.api_rig().start("console")
        answer = self.call(rig, "GET", "/events")
        self.assertEqual(self.error(answer), (503, "process_unavailable", None))
        self.assertIn("sequencer", answer[2]["error"]["message"])
        rig.start("sequencer")
        self.get(rig, "/events")
        rig["sequencer"].kill()  # its socket's file stays
        self.assertEqual(self.error(self.call(rig, "GET", "/events"))[0], 503)
        rig["sequencer"].start()
        self.get(rig, "/events")

    def test_responses_do_not_wait_for_a_timer(self):
        rig = self.api_rig({"metrics": {"interval": "10s"},
                            "console": {"tokens": [TOKEN], "evaluate": "1h"}})
        rig.start("console", "dlqd")
        begun = time.monotonic()
        for _ in range(10):
            self.assertEqual(self.call(rig, "GET", "/events")[0], 503)
            self.get(rig, "/dead-letters")
        self.assertLess(time.monotonic() - begun, 3 * SLOW)

    def test_a_process_that_dies_before_its_reply(self):
        rig = self.api_rig().start()
        self.get(rig, "/events")
        rig["sequencer"].pause()
        waiting = [self.begin(rig, "/events") for _ in range(20)]
        time.sleep(0.2)
        rig["sequencer"].kill()
        for c in waiting:
            response = c.getresponse()
            answer = (response.status, response.headers, json.load(response))
            self.assertEqual(self.error(answer), (503, "process_unavailable", None))
        rig["sequencer"].start()
        self.get(rig, "/events")

    def test_too_many_requests_for_one_process_leave_space_for_others(self):
        rig = self.api_rig().start()
        rig["sequencer"].pause()
        crowd = [self.begin(rig, "/events") for _ in range(110)]
        self.assertEqual(rig.console_page("/healthz")[0], 200)
        codes = [c.getresponse().status for c in crowd]
        self.assertEqual(set(codes), {503, 504})
        self.assertEqual(codes.count(504), 72)  # 8 asked, 64 wait
        rig["sequencer"].resume()
        self.get(rig, "/events")

    def test_clients_that_leave_and_a_stop_meanwhile(self):
        rig = self.api_rig().start()
        rig["sequencer"].pause()
        for c in [self.begin(rig, "/events") for _ in range(30)]:
            c.close()
        waiting = [self.begin(rig, "/events") for _ in range(5)]
        rig["console"].stop(5)
        rig["sequencer"].resume()
        del waiting


if __name__ == "__main__":
    main(at_once=4)
