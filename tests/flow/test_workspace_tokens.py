"""P11, tokens of workspaces and of the portal: every route of the API with the token of the workspace, with that of another
workspace, and without a declaration that permits it; and the ways in which a customer could try to
reach what belongs to others. A new route that is open to workspaces and has no example here fails."""

import base64
import concurrent.futures
import contextlib
import copy
import http.client
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from api_examples import BASE, Pipeline, fill, is_change  # noqa: E402
from rig import RigTest, http_request, main, wait_for  # noqa: E402

# The operator's endpoints, of which no customer hears.
OPERATORS = re.compile(r"\b(crm|legal|slow|spare|inbox)\b")
LIMITS = {"tenants": {"requests": "1000/s", "changes": "1000/s", "tests": "1000/s",
                      "endpoints": 500, "streams": 8}}


class Workspace:
    """One with events, a delivery, a dead letter, a pull endpoint and a token."""

    def __init__(self, pipeline, name):
        self.pipeline, self.name = pipeline, name
        rig = pipeline.rig
        self.token = rig.cli("tokens", "create", name + "-token", "--role", "workspace",
                             "--workspace", name)[0]["token"]
        self.hook = self.by_operator("hook")
        self.refuses = self.by_operator("refuses", guard="off")
        self.pull = self.call("POST", "/endpoints", {
            "transport": "pull", "description": f"{name} pull", "timeout": "60s"})[2]["name"]
        self.seen, self.letter = self.event(), None
        self.letter = f"dlq_{self.seen[4:]}-{self.refuses}"

    def portal(self, **args):
        """The same with a token of the portal."""
        made = self.pipeline.call("POST", f"/workspaces/{self.name}/portal-link", args)[2]
        body = json.dumps({"link": made["url"].split("#link=")[1]}).encode()
        status, _, text = http_request(self.pipeline.rig.console_port, "POST", "/api/portal", body,
                                       {"Content-Type": "application/json"})
        assert status == 200, text
        other = copy.copy(self)
        other.token = json.loads(text)["token"]
        return other

    def by_operator(self, path, **more):
        """Made for the workspace by an operator, who may permit the receiver's address."""
        return self.pipeline.rig.ask(
            "sequencer", "endpoint_create", workspaces=[self.name], allow_private=True,
            description=f"{self.name} {path}",
            url=self.pipeline.rig.receiver.url(f"/{self.name}-{path}"), **more)["name"]

    def call(self, method, path, body=None, **how):
        return self.pipeline.call(method, path, body, **{"token": self.token, **how})

    def event(self):
        rig = self.pipeline.rig
        event = rig.accept(rig.plane_body(workspace=self.name))
        wait_for(lambda: self.states(event) == {self.hook: "delivered", self.refuses: "dead"},
                 what="the deliveries")
        wait_for(lambda: [d for d in rig.ask("dlqd", "dlq", workspace=self.name, limit=1000)
                          ["dead_letters"] if d["event_id"] == event
                          and d["endpoint"] == self.refuses], what="the dead letter")
        return event

    def states(self, event):
        return {d["endpoint"]: d["status"]
                for d in self.pipeline.rig.trace(event).get("deliveries", [])
                if d["endpoint"] in (self.hook, self.refuses)}

    def endpoint(self):
        return self.call("POST", "/endpoints", {"url": "https://example.com/",
                                                "types": ["nothing"]})[2]["name"]

    def dead_letter(self):
        return f"dlq_{self.event()[4:]}-{self.refuses}"

    def take(self):
        self.event()

        def taken():
            status, _, made = self.call("POST", f"/pull/{self.pull}/take",
                                        {"max": 1, "wait": "5s"})
            return status == 200 and made["take"] and made
        made = wait_for(taken, what="the take")
        return {"take": made["take"], "deliveries": [made["deliveries"][0]["event_id"]]}


# What a workspace may do: (parameters, body) of a request that succeeds with its own token.
# None, or a query: nothing of it names what belongs to somebody, and the response of another workspace
# must have nothing of this one.
OPEN = {
    "GET /endpoints": None,
    "POST /endpoints": lambda w: ({}, {"url": "https://example.com/", "types": ["nothing"],
                                      "workspaces": [w.name]}),
    "GET /endpoints/{name}": lambda w: ({"name": w.hook}, None),
    "GET /endpoints/{name}/stats": lambda w: ({"name": w.hook}, None),
    "GET /endpoints/{name}/plan": lambda w: ({"name": w.hook}, None),
    "PATCH /endpoints/{name}": lambda w: ({"name": w.endpoint()}, {"timeout": "9s"}),
    "DELETE /endpoints/{name}": lambda w: ({"name": w.endpoint()}, None),
    "POST /endpoints/{name}/rotate-secret": lambda w: ({"name": w.endpoint()}, {}),
    "POST /endpoints/{name}/pause": lambda w: ({"name": w.endpoint()}, {}),
    "POST /endpoints/{name}/resume": lambda w: ({"name": w.endpoint()}, {}),
    "POST /endpoints/{name}/test": lambda w: ({"name": w.hook}, {}),
    "GET /events": None,
    "GET /events/{id}": lambda w: ({"id": w.seen}, None),
    "GET /events/{id}/payload": lambda w: ({"id": w.seen}, None),
    "GET /events/{id}/routing": lambda w: ({"id": w.seen}, None),
    "GET /routing": {"source": "plane", "type": "issue.created"},
    "POST /events/{event}/resend": lambda w: ({"event": w.seen}, {"endpoint": w.hook}),
    "GET /deliveries": None,
    "GET /attempts/{id}": lambda w: ({"id": f"{w.seen}.{w.hook}.1"}, None),
    "GET /dead-letters": None,
    "GET /dead-letters/{id}": lambda w: ({"id": w.letter}, None),
    "POST /dead-letters/{id}/retry": lambda w: ({"id": w.dead_letter()}, {}),
    "POST /dead-letters/{id}/resolve": lambda w: ({"id": w.dead_letter()}, {"note": "n"}),
    "POST /dead-letters/{id}/discard": lambda w: ({"id": w.dead_letter()}, {"note": "n"}),
    "GET /workspaces/{workspace}": lambda w: ({"workspace": w.name}, None),
    "GET /event-types": None,
    "GET /event-types/{name}": lambda w: ({"name": w.pipeline.event_type()}, None),
    "GET /stream": None,
    "POST /pull/{endpoint}/take": lambda w: ({"endpoint": w.pull}, {"max": 1}),
    "POST /pull/{endpoint}/ack": lambda w: ({"endpoint": w.pull}, w.take()),
    "POST /pull/{endpoint}/retry": lambda w: ({"endpoint": w.pull}, w.take() | {"delay": "1h"}),
    "POST /pull/{endpoint}/dead": lambda w: ({"endpoint": w.pull}, w.take() | {"note": "n"}),
}
SHARED = {"GET /event-types/{name}"}


def without_id(document):
    return {k: v for k, v in document["error"].items() if k != "request_id"}


class Tenants(RigTest):
    def two(self, **settings):
        pipeline = Pipeline(self, settings={**LIMITS, **settings})
        pipeline.rig.receiver.rules(*({"path": path, "responses": [{"status": status}]}
                                      for path, status in (("/legal", 400), ("/slow", 503),
                                                           ("/wsalpha-refuses", 400),
                                                           ("/wsbravo-refuses", 400))))
        return pipeline, Workspace(pipeline, "wsalpha"), Workspace(pipeline, "wsbravo")

    def assertHidden(self, other, text, what):
        """The text has nothing of the workspace `other`, and nothing of the operator's."""
        text = text if isinstance(text, str) else json.dumps(text)
        for marker in (other.name, other.hook, other.refuses, other.pull, other.seen[4:]):
            self.assertNotIn(marker, text, what)
        self.assertIsNone(OPERATORS.search(text), what)


class Routes(Tenants):
    def test_each_route_is_closed_or_confined(self):
        pipeline, alpha, bravo = self.two()
        operations = dict(pipeline.operations())
        permitted = {o for o, about in operations.items() if about["x-grapnel-workspace-token"]}
        self.assertEqual(permitted, set(OPEN), "add an example to OPEN, or close the route")
        reads = bravo.portal(read_only=True)
        for portal, one, two in ((False, alpha, bravo), (True, alpha.portal(), bravo.portal())):
            for operation in operations:
                with self.subTest(operation, portal=portal):
                    if operation in OPEN and not (portal and operation.startswith("POST /pull/")):
                        self.walk(operation, OPEN[operation], one, two)
                    else:
                        self.is_closed(pipeline, operation, two)
        for operation in operations:
            if is_change(operation):
                with self.subTest(operation, portal="only to read"):
                    self.is_closed(pipeline, operation, reads)
        # Nothing of what the other workspace tried has happened.
        for name in (alpha.hook, alpha.refuses, alpha.pull):
            self.assertEqual(pipeline.rig.ask("sequencer", "endpoint", name=name)["state"],
                             "active")

    def is_closed(self, pipeline, operation, workspace):
        method, path = fill(operation, {})
        path = path.replace("{", "").replace("}", "")
        status, _, document = workspace.call(method, path, {} if is_change(operation) else None)
        self.assertEqual((status, document["error"]["code"]), (403, "role"))

    def walk(self, operation, example, alpha, bravo):
        if not callable(example):
            status, _, document = bravo.call(*fill(operation, example or {}))
            self.assertEqual(status, 200, document)
            self.assertHidden(alpha, document, operation)
            return
        parameters, body = example(alpha)
        method, path = fill(operation, parameters)
        if operation not in SHARED:
            status, _, document = bravo.call(method, path, body)
            if parameters:
                self.assertEqual(status, 404, document)
                missing = {k: self.missing(v) for k, v in parameters.items()}
                missing = bravo.call(*fill(operation, missing), body)
                self.assertEqual(missing[0], 404)
                self.assertEqual(without_id(document), without_id(missing[2]), operation)
            else:
                self.assertEqual((status, document["error"]["field"]), (400, "workspaces"))
            self.assertHidden(alpha, document, operation)
        status, _, document = alpha.call(method, path, body)
        self.assertEqual(status, 200, document)
        if isinstance(document, dict):
            self.assertHidden(bravo, document, operation)

    def missing(self, text):
        """The id of something that never was."""
        return re.sub("01[0-9A-Z]{24}", "01AAAAAAAAAAAAAAAAAAAAAAAA", text) \
            if "01" in text else text + "x"


class Attacks(Tenants):
    def test_nothing_reaches_another_workspace(self):
        pipeline, alpha, bravo = self.two()
        rig = pipeline.rig
        self.filters(alpha, bravo)
        self.names_of_endpoints(alpha, bravo)
        self.settings(alpha, bravo, rig)
        self.operators(pipeline, alpha, bravo)
        self.pages(alpha, bravo)
        self.keys(alpha, bravo)
        self.dead_letters(rig, alpha, bravo)
        self.pulls(alpha, bravo)

    def filters(self, alpha, bravo):
        for path in ("/events", "/deliveries", "/dead-letters", "/endpoints"):
            for query in ("workspace=*", "workspace=wsalpha", "workspace=ws*", "workspace=",
                          "workspace=%77salpha", "workspace=wsbravo&workspace=wsalpha",
                          "tenant=wsalpha", "tenant=wsbravo&tenant=wsalpha", "workspace=wsalpha%00",
                          f"endpoint={alpha.hook}", "endpoint=crm", "endpoint=*", "endpoint=ep_*",
                          "limit=1000", "status=dead", "state=all"):
                status, _, document = bravo.call("GET", f"{path}?{query}")
                self.assertIn(status, (200, 400), (path, query))
                if status == 200:
                    self.assertHidden(alpha, document, (path, query))
                if query.startswith("tenant"):
                    self.assertEqual(status, 400, (path, query))
            self.assertTrue(bravo.call("GET", path)[2]["items"], path)
        for pattern, any_is_found in (("ep_*", True), ("cr*", False), (alpha.hook + "*", False)):
            found = bravo.call("GET", f"/events?endpoint={pattern}")[2]["items"]
            self.assertEqual(bool(found), any_is_found, pattern)
        for name in ("wsalpha", "*", "ws*", "grapnel", "default", "wsbravo%00", "wsbravo%2F",
                     "WSBRAVO", "wsbravo%20"):
            self.assertIn(bravo.call("GET", f"/workspaces/{name}")[0], (404,), name)

    def names_of_endpoints(self, alpha, bravo):
        event = bravo.seen
        for name in (alpha.hook, "crm", "nobody", "*", "legal"):
            status, _, document = bravo.call("POST", f"/events/{event}/resend", {"endpoint": name})
            self.assertEqual((status, without_id(document)["code"]), (404, "not_found"), name)
            self.assertEqual(bravo.call("GET", f"/attempts/{event}.{name}.1")[0], 404)
            self.assertEqual(bravo.call("GET", f"/dead-letters/dlq_{event[4:]}-{name}")[0], 404)
        for body, field in (({}, "endpoint"), ({"endpoint": bravo.hook, "new_id": True}, "new_id")):
            status, _, document = bravo.call("POST", f"/events/{event}/resend", body)
            self.assertEqual((status, document["error"]["field"]), (400, field))
        # A dead letter by its event could be one of another endpoint, and an event by the
        # provider's id one of another workspace.
        for path in (f"/dead-letters/{event}", f"/dead-letters/dlq_{event[4:]}",
                     f"/dead-letters/dlq_{event[4:]}-", "/events/evt_", "/events/x"):
            self.assertEqual(bravo.call("GET", path)[0], 404, path)

    def settings(self, alpha, bravo, rig):
        """What a workspace cannot set, and what it cannot take over."""
        own = bravo.endpoint()
        url = {"url": "https://example.com/", "types": ["nothing"]}
        for change, field in (
                ({"allow_private": True}, "allow_private"), ({"allowed_ports": [80]}, "allowed_ports"),
                ({"allow_private": ["10.0.0.0/8"]}, "allow_private"),
                ({"tls": {"ca": "x"}}, "tls"), ({"retry_policy": "slow"}, "retry_policy"),
                ({"forward_headers": ["X-Plane-Event"]}, "forward_headers"),
                ({"max_in_flight": 33}, "max_in_flight"), ({"timeout": "16s"}, "timeout"),
                ({"disable_after": "30d"}, "disable_after"),
                ({"where": {"header:X-Plane-Signature": {"prefix": "a"}}}, "where"),
                ({"where": {"query:token": {"prefix": "a"}}}, "where"),
                ({"types": [f"t{i}" for i in range(51)]}, "types"),
                ({"headers": {"Host": "inside"}}, "headers"),
                ({"headers": {"webhook-id": "1"}}, "headers"),
                ({"headers": {"x": "file:/etc/passwd"}}, "headers"),
                ({"workspaces": ["wsalpha"]}, "workspaces"), ({"workspaces": ["*"]}, "workspaces"),
                ({"workspaces": ["wsbravo", "wsalpha"]}, "workspaces"), ({"workspaces": []}, "workspaces"),
                ({"workspaces": ["grapnel"]}, "workspaces"),
                ({"tenant": "wsalpha"}, "tenant"), ({"id": "ep_01AAAAAAAAAAAAAAAAAAAAAAAA"}, "id")):
            for method, path, body in (("POST", "/endpoints", url | change),
                                       ("PATCH", f"/endpoints/{own}", change)):
                status, _, document = bravo.call(method, path, body)
                self.assertEqual((status, document["error"]["field"]), (400, field), change)
                self.assertHidden(alpha, {} if "wsalpha" in json.dumps(body) else document, change)
        for given in ({}, {"workspaces": None}, {"workspaces": ["wsbravo"]}):
            status, _, made = bravo.call("POST", "/endpoints", url | given)
            self.assertEqual(status, 200, (made, given))
            self.assertEqual(made["settings"]["workspaces"], ["wsbravo"])
            changed = bravo.call("PATCH", f"/endpoints/{made['name']}", given | {"timeout": "3s"})[2]
            self.assertEqual(changed["workspace"], "wsbravo")
        # An operator opened the network for this one: another URL would use that.
        status, _, document = bravo.call("PATCH", f"/endpoints/{bravo.hook}",
                                         {"url": "http://127.0.0.1:1/"})
        self.assertEqual((status, document["error"]["field"]), (400, "allow_private"))
        self.removals(bravo, rig)
        # Its headers may have the operator's secrets: they do not go along to another server.
        kept = rig.ask("sequencer", "endpoint_create", workspaces=["wsbravo"],
                       url="https://example.com/", types=["nothing"], headers={"X-Key": "of the operator"})["name"]
        for body in ({"url": "https://example.org/"},
                     {"url": "https://example.org/", "headers": {"X-Other": "1"}},
                     {"transport": "pull"}, {"transport": "pull", "url": None},
                     {"transport": "pull", "url": None, "headers": {"X-Other": "1"}}):
            status, _, document = bravo.call("PATCH", f"/endpoints/{kept}", body)
            self.assertEqual((status, document["error"]["field"]), (400, "headers"))
        body = {"url": "https://example.org/", "headers": {"X-Key": None}}
        self.assertEqual(bravo.call("PATCH", f"/endpoints/{kept}", body)[0], 200)
        # An internal address: the error does not say what a name resolves to.
        made = bravo.call("POST", "/endpoints", {
            "url": f"http://localhost:{urllib.parse.urlsplit(rig.receiver.url('/')).port}/"})[2]
        status, _, document = bravo.call("POST", f"/endpoints/{made['name']}/test", {})
        self.assertEqual(status, 200)
        self.assertIn("private address", document["error"])
        self.assertNotIn("127.0.0.1", json.dumps(document))

    def removals(self, bravo, rig):
        """null removes a setting: those that only an operator may set stay, with all the others."""
        for setting, value in (("allow_private", True), ("allowed_ports", [80, 443]),
                               ("tls", {}), ("retry_policy", "default"),
                               ("forward_headers", ["X-Plane-Event"]),
                               ("where", {"query:token": "a"})):
            name = rig.ask("sequencer", "endpoint_create", workspaces=["wsbravo"], types=["nothing"],
                           url="https://example.com/", **{setting: value})["name"]
            for body in ({setting: None}, {setting: None, "url": "https://example.org/"},
                         {"timeout": "1s"}):
                status, _, document = bravo.call("PATCH", f"/endpoints/{name}", body)
                self.assertEqual((status, document.get("error", {}).get("field")), (400, setting), body)
            self.assertEqual(rig.ask("sequencer", "endpoint", name=name)["version"], 1)

    def operators(self, pipeline, alpha, bravo):
        """Endpoints of the file and of several workspaces, and what they get, are hidden."""
        both = pipeline.rig.ask("sequencer", "endpoint_create", url="https://example.com/",
                                workspaces=["wsalpha", "wsbravo"], types=["nothing"])["name"]
        for name in ("crm", both):
            for method, path, body in (("GET", "", None), ("PATCH", "", {"timeout": "1s"}),
                                       ("DELETE", "", None), ("POST", "/pause", {}),
                                       ("POST", "/test", {}), ("POST", "/rotate-secret", {})):
                self.assertEqual(bravo.call(method, f"/endpoints/{name}{path}", body)[0], 404)
        self.assertNotIn(both, json.dumps(bravo.call("GET", "/endpoints?limit=1000")[2]))
        trace = bravo.call("GET", f"/events/{bravo.seen}")[2]
        self.assertEqual({d["endpoint"] for d in trace["deliveries"]},
                         {bravo.hook, bravo.refuses, bravo.pull})
        self.assertTrue([a for d in trace["deliveries"] for a in d["attempts"] if a.get("response")])
        self.assertTrue(trace["timeline"])
        operators = {d["endpoint"] for d in pipeline.call("GET", f"/events/{bravo.seen}")[2]
                     ["deliveries"]}
        self.assertLess({"crm", "legal"}, operators)

    def pages(self, alpha, bravo):
        """A cursor is for its token alone."""
        first = alpha.call("GET", "/events?limit=1")[2]
        self.assertTrue(first["next_cursor"])
        cursor = urllib.parse.quote(first["next_cursor"])
        self.assertEqual(alpha.call("GET", f"/events?limit=1&cursor={cursor}")[0], 200)
        plain = base64.urlsafe_b64encode(b'"99999999.99999999.0"').decode().rstrip("=")
        for wrong in (cursor, plain, cursor.split(".")[-1]):
            status, _, document = bravo.call("GET", f"/events?limit=1&cursor={wrong}")
            self.assertEqual((status, document["error"]["field"]), (400, "cursor"))

    def keys(self, alpha, bravo):
        """An Idempotency-Key is of its token: another one gets no stored response."""
        body = {"url": "https://example.com/", "types": ["nothing"], "description": "by key"}
        made = alpha.call("POST", "/endpoints", body, key="one-key")
        again = alpha.call("POST", "/endpoints", body, key="one-key")
        other = bravo.call("POST", "/endpoints", body, key="one-key")
        self.assertEqual(made[2]["name"], again[2]["name"])
        self.assertEqual(other[0], 200)
        self.assertEqual(other[2]["workspace"], "wsbravo")
        self.assertHidden(alpha, other[2], "a repeated key")
        self.assertNotEqual(made[2]["name"], other[2]["name"])

    def dead_letters(self, rig, alpha, bravo):
        """Retried to an endpoint of another workspace, it is as if that did not exist."""
        letter = bravo.dead_letter()
        shown = bravo.call("GET", f"/dead-letters/{letter}")[2]
        self.assertTrue(shown["body"])
        self.assertNotIn("headers", shown)
        self.assertTrue(rig.ask("dlqd", "dlq_show", id=letter)["headers"])
        for to in (alpha.hook, "crm", "nobody"):
            status, _, document = bravo.call("POST", f"/dead-letters/{letter}/retry", {"to": to})
            self.assertEqual((status, document["error"]["code"]), (404, "not_found"), to)
        self.assertEqual(rig.ask("dlqd", "dlq_show", id=letter)["state"], "dead")
        # Sent by an operator to an endpoint of another workspace, it is not that workspace's.
        rig.ask("dlqd", "dlq_retry", id=letter, to=alpha.refuses)
        moved = f"dlq_{letter[4:30]}-{alpha.refuses}"
        wait_for(lambda: rig.cli("dlq", "show", moved)[1] == 0, what="the dead letter")
        for workspace in (alpha, bravo):
            for method, path, body in (("GET", "", None), ("POST", "/retry", {}),
                                       ("POST", "/discard", {"note": "n"})):
                self.assertEqual(workspace.call(method, f"/dead-letters/{moved}{path}", body)[0], 404)
            self.assertNotIn(moved, json.dumps(workspace.call("GET", "/dead-letters?limit=1000")[2]))

    def pulls(self, alpha, bravo):
        """A take of another workspace, through an own endpoint."""
        taken = alpha.take()
        for end in ("ack", "retry", "dead"):
            body = taken | ({"note": "n"} if end == "dead" else {})
            for endpoint in (bravo.pull, alpha.pull):
                self.assertEqual(bravo.call("POST", f"/pull/{endpoint}/{end}", body)[0], 404)
        self.assertEqual(alpha.call("POST", f"/pull/{alpha.pull}/ack", taken)[0], 200)


class Moves(Tenants):
    def test_an_endpoint_that_an_operator_moves_brings_nothing_of_others(self):
        pipeline, alpha, bravo = self.two()
        rig = pipeline.rig
        rig.receiver.rules({"path": "/held", "responses": [{"status": 503}]})
        pulled, pushed = (rig.ask("sequencer", "endpoint_create", **settings,
                                  workspaces=[alpha.name, bravo.name])["name"]
                          for settings in ({"transport": "pull"}, {
                              "url": rig.receiver.url("/held"), "allow_private": True,
                              "retry_policy": "slow"}))
        theirs = rig.accept(rig.plane_body(workspace=bravo.name))
        wait_for(lambda: (pushed, "retrying") in {(d["endpoint"], d["status"]) for d in rig.trace(
            theirs).get("deliveries", [])}, what="the attempt")

        def move(endpoint, workspace):
            return pipeline.call("PATCH", f"/endpoints/{endpoint}", {"workspaces": [workspace]})
        for endpoint in (pulled, pushed):
            for workspace in (alpha.name, bravo.name):
                status, _, document = move(endpoint, workspace)
                self.assertEqual((status, document["error"]["code"]), (409, "refused"))
                self.assertIn("deliveries wait", document["error"]["message"])
        self.assertEqual(alpha.call("POST", f"/pull/{pulled}/take", {})[0], 404)
        taken = pipeline.call("POST", f"/pull/{pulled}/take", {"wait": "5s"})[2]
        self.assertEqual([d["event_id"] for d in taken["deliveries"]], [theirs])
        self.assertEqual(move(pulled, alpha.name)[0], 409)
        self.assertEqual(pipeline.call("POST", f"/pull/{pulled}/ack", {
            "take": taken["take"], "deliveries": [theirs]})[0], 200)
        wait_for(lambda: move(pulled, alpha.name)[0] == 200, what="the change")
        # It had the event when it was of both workspaces.
        self.assertIn(pipeline.call("POST", f"/events/{theirs}/resend", {})[0], (200, 202))
        own = rig.accept(rig.plane_body(workspace=alpha.name))
        taken = alpha.call("POST", f"/pull/{pulled}/take", {"wait": "5s"})[2]
        self.assertEqual([d["event_id"] for d in taken["deliveries"]], [own])
        self.assertEqual([d["status"] for d in rig.trace(theirs)["deliveries"]
                          if d["endpoint"] == pulled], ["delivered"])
        listed = alpha.call("GET", f"/deliveries?endpoint={pulled}")[2]["items"]
        self.assertEqual([d["event_id"] for d in listed], [own])

    def test_a_take_that_waits_gets_nothing_of_the_next_workspace(self):
        pipeline, alpha, bravo = self.two()
        rig = pipeline.rig
        pulled = rig.ask("sequencer", "endpoint_create", transport="pull",
                         workspaces=[alpha.name])["name"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waits = pool.submit(alpha.call, "POST", f"/pull/{pulled}/take", {"wait": "4s"})
            wait_for(lambda: rig.number("grapnel_takes_waiting") == 1, what="the take that waits")
            self.assertEqual(pipeline.call("PATCH", f"/endpoints/{pulled}", {
                "workspaces": [bravo.name]})[0], 200)
            theirs = rig.accept(rig.plane_body(workspace=bravo.name))
            wait_for(lambda: pulled in {d["endpoint"] for d in rig.trace(theirs).get(
                "deliveries", [])}, what="the delivery")
            self.assertEqual(waits.result()[2]["deliveries"], [])
        taken = bravo.call("POST", f"/pull/{pulled}/take", {"wait": "5s"})[2]
        self.assertEqual([d["event_id"] for d in taken["deliveries"]], [theirs])


class Tokens(Tenants):
    def test_what_a_token_of_a_workspace_is(self):
        pipeline = Pipeline(self)
        rig = pipeline.rig

        def make(**body):
            return pipeline.call("POST", "/tokens", {"name": pipeline.name(), **body})
        for body in ({"role": "workspace"}, {"role": "viewer", "workspace": "acme"},
                     {"role": "workspace", "workspace": "ac*"},
                     {"role": "workspace", "workspace": "grapnel"},
                     {"role": "workspace", "workspace": "erased:0123456789abcdef"},
                     {"role": "workspace", "workspace": "a" * 256},
                     {"role": "workspace", "workspace": ""}):
            status, _, document = make(**body)
            self.assertEqual((status, document["error"]["field"]), (400, "workspace"), body)
        made = make(role="workspace", workspace="acme")[2]
        self.assertEqual((made["role"], made["workspace"]), ("workspace", "acme"))
        text = rig.cli_text("tokens").stdout
        self.assertIn("acme", text)
        token = made["token"]
        # Its acts have its name in the audit rows.
        made = pipeline.call("POST", "/endpoints", {
            "url": "https://example.com/", "types": ["nothing"]}, token=token)[2]
        row = rig.ask("sequencer", "audit", limit=1)["audit"][0]
        self.assertEqual((row["actor"], row["role"], row["command"]),
                         ("token " + made["created_by"].split()[-1], "workspace", "endpoint_create"))
        # An erasure ends it at once, and deletes it.
        pipeline.event("acme")
        self.assertEqual(pipeline.call("DELETE", "/workspaces/acme")[0], 200)
        wait_for(lambda: pipeline.call("GET", "/endpoints", token=token)[0] == 401,
                 what="the end of the token")
        wait_for(lambda: not rig.rows("sequencer", "SELECT 1 FROM tokens WHERE workspace = 'acme'"),
                 what="the erased token")
        self.assertEqual(make(role="workspace", workspace="acme")[0], 400)


class Limits(Tenants):
    def test_a_workspace_is_limited_and_others_are_not(self):
        pipeline, alpha, bravo = self.two(tenants={
            "requests": "1000/s", "tests": "1/h", "endpoints": 5, "streams": 1, "takes": 1,
            "changes": "1/h"})
        # Endpoints: those that were deleted today count.
        for _ in range(2):
            self.assertEqual(alpha.call("DELETE", f"/endpoints/{alpha.endpoint()}")[0], 200)
        status, _, document = alpha.call("POST", "/endpoints", {"url": "https://example.com/"})
        self.assertEqual((status, document["error"]["code"]), (409, "refused"))
        self.assertIn("5 endpoints", document["error"]["message"])
        bravo.endpoint()
        self.by_rate(alpha, bravo)
        self.by_number(alpha, bravo)

    def by_rate(self, alpha, bravo):
        answers = [alpha.call("POST", f"/endpoints/{alpha.hook}/test", {}) for _ in range(4)]
        self.assertEqual([a[0] for a in answers], [200, 200, 200, 429])
        self.assertGreater(int(answers[-1][1]["Retry-After"]), 60)
        status, _, document = bravo.call("POST", f"/endpoints/{bravo.hook}/test", {})
        self.assertEqual(status, 200)
        self.assertEqual(document["response"]["headers"], "")

        # 60 changes at once, refused ones too; reads and pulls go on.
        answers = [alpha.call("PATCH", f"/endpoints/{bravo.hook}", {}) for _ in range(60)]
        self.assertEqual({answers[0][0], answers[-1][0]}, {404, 429})
        self.assertEqual(alpha.call("GET", "/endpoints")[0], 200)
        self.assertEqual(alpha.call("POST", f"/pull/{alpha.pull}/take", {})[0], 200)
        bravo.endpoint()

    def by_number(self, alpha, bravo):
        with contextlib.closing(self.stream(alpha)) as first:
            self.assertEqual(first.answer.status, 200)
            with contextlib.closing(self.stream(alpha)) as second:
                self.assertEqual(second.answer.status, 429)
            with contextlib.closing(self.stream(bravo)) as other:
                self.assertEqual(other.answer.status, 200)

    def stream(self, workspace, query=""):
        c = http.client.HTTPConnection("127.0.0.1", workspace.pipeline.rig.console_port, timeout=20)
        c.request("GET", f"{BASE}/stream{query}", headers={
            "Authorization": f"Bearer {workspace.token}"})
        c.answer = c.getresponse()
        return c

    def test_a_stream_has_only_its_own_and_ends_with_its_token(self):
        pipeline, alpha, bravo = self.two()
        streams = [self.stream(alpha, q) for q in ("", "?workspace=wsbravo", f"?endpoint={bravo.hook}",
                                                   "?workspace=*", "?kinds=alert")]
        operator = http.client.HTTPConnection("127.0.0.1", pipeline.rig.console_port, timeout=20)
        wait_for(lambda: pipeline.call("GET", "/endpoints")[0] == 200)
        theirs, own = bravo.event(), alpha.event()
        texts = ["" for _ in streams]
        self.read(streams[0], lambda text: text.count(own) >= 3, texts, 0)
        token = pipeline.rig.ask("sequencer", "tokens")["tokens"]
        token = next(t["id"] for t in token if t["workspace"] == "wsalpha")
        pipeline.rig.cli("tokens", "revoke", token)
        for i, stream in enumerate(streams):
            self.read(stream, lambda text: "event: end" in text, texts, i)
            self.assertHidden(bravo, texts[i], i)
            self.assertNotIn(theirs, texts[i])
            self.assertEqual(own in texts[i], i == 0)
            stream.close()
        operator.close()

    def read(self, stream, enough, texts, i):
        until = time.monotonic() + 15
        while not enough(texts[i]) and time.monotonic() < until:
            line = stream.answer.readline().decode()
            if not line:
                break
            texts[i] += line
        self.assertTrue(enough(texts[i]), texts[i])


    def test_tests_hold_up_neither_backups_nor_each_other(self):
        pipeline, alpha, bravo = self.two()
        rig, answers = pipeline.rig, []
        rig.receiver.rules({"path": "/silent", "responses": [{"status": 200, "delay_ms": 60000}]})
        silent = alpha.by_operator("hook")
        pipeline.call("PATCH", f"/endpoints/{silent}",
                      {"url": rig.receiver.url("/silent"), "timeout": "4s"})
        testers = [threading.Thread(target=lambda: answers.append(
            call("POST", f"/endpoints/{silent}/test", {})))
            for call in (alpha.call, *[pipeline.call] * 6)]
        for tester in testers:
            tester.start()
        wait_for(lambda: len(rig.receiver.requests("/silent")) == 7, what="the tests")
        self.assertEqual(bravo.call("POST", f"/endpoints/{bravo.hook}/test", {})[0], 200)
        rig.cli("backup", str(rig.folder / "copies"))
        self.assertEqual(answers, [])
        for tester in testers:
            tester.join()
        self.assertEqual({a[0] for a in answers}, {200})

    def test_each_request_counts_also_one_that_is_refused(self):
        pipeline = Pipeline(self, settings={"tenants": {"requests": "1/h"}})
        for name, method, path, status in (("a", "GET", "/nothing", 404), ("b", "GET", "/tokens", 403),
                                           ("c", "PUT", "/endpoints", 405)):
            token = pipeline.rig.cli("tokens", "create", name, "--role", "workspace",
                                     "--workspace", name)[0]["token"]
            self.assertEqual(pipeline.call(method, path, token=token)[0], status)
            self.assertEqual(pipeline.call(method, path, token=token)[0], 429)
            self.assertEqual(pipeline.call("GET", "/endpoints", token=token)[0], 429)


class Takes(Tenants):
    def test_a_waiting_take_ends_with_its_token(self):
        pipeline, alpha, bravo = self.two()
        rig, answers = pipeline.rig, {}

        def take(workspace):
            body = {"max": 1, "wait": "20s"}
            answers[workspace.name] = workspace.call("POST", f"/pull/{workspace.pull}/take", body)
        for workspace in (alpha, bravo):  # what there is so far
            while workspace.call("POST", f"/pull/{workspace.pull}/take", {"max": 100})[2]["take"]:
                pass
        takers = [threading.Thread(target=take, args=(w,)) for w in (alpha, alpha, bravo)]
        for taker in takers:
            taker.start()
        wait_for(lambda: rig.number("grapnel_takes_waiting") == 3, what="the takes")
        tokens = rig.ask("sequencer", "tokens")["tokens"]
        rig.cli("tokens", "revoke", next(t["id"] for t in tokens if t["workspace"] == "wsalpha"))
        for taker in takers[:2]:
            taker.join()
        self.assertEqual(answers["wsalpha"][0], 401)
        self.assertEqual(answers["wsalpha"][2]["error"]["code"], "unauthorized")
        self.assertNotIn("wsbravo", answers)  # goes on
        event = bravo.event()
        takers[2].join()
        self.assertEqual(answers["wsbravo"][2]["deliveries"][0]["event_id"], event)
        # Nothing was given to the one that ended: the next token gets it at once.
        alpha.token = rig.cli("tokens", "create", "again", "--role", "workspace", "--workspace",
                              "wsalpha")[0]["token"]
        event = alpha.event()
        take(alpha)
        self.assertEqual(answers["wsalpha"][2]["deliveries"][0]["event_id"], event)


class Reasons(RigTest):
    def test_the_reason_of_an_event_without_subscribers_is_for_operators(self):
        rig = self.rig({"console": {"tokens": ["an-admin-token-of-the-file"]}}, console=True)
        rig.config["endpoints"][0]["types"] = ["nothing"]
        rig.write_config()
        rig.start()
        token = rig.cli("tokens", "create", "t", "--role", "workspace", "--workspace",
                        "wsalpha")[0]["token"]

        def get(path, who):
            return http_request(rig.console_port, "GET", BASE + path, None,
                                {"Authorization": f"Bearer {who}"})
        stream = http.client.HTTPConnection("127.0.0.1", rig.console_port, timeout=20)
        stream.request("GET", f"{BASE}/stream", headers={"Authorization": f"Bearer {token}"})
        answer = stream.getresponse()
        event = rig.accept(rig.plane_body(workspace="wsalpha"))
        rig.wait_status(event)
        for path in ("/events", f"/events/{event}"):
            self.assertIn(b"crm", get(path, "an-admin-token-of-the-file")[2])
            text = get(path, token)[2]
            self.assertIn(event.encode(), text)
            self.assertNotIn(b"crm", text)
        line = ""
        while event not in line:
            line = answer.readline().decode()
            self.assertTrue(line)
        self.assertNotIn("crm", line)
        stream.close()


class Operational(Tenants):
    def test_an_operational_event_belongs_to_the_workspace_of_its_endpoint(self):
        # What it tells of an endpoint of operators, or of several workspaces, is not the customer's,
        # although the event that died is.
        pipeline, alpha, bravo = self.two()
        rig = pipeline.rig
        rig.receiver.rules(*({"path": path, "responses": [{"status": 400}]}
                             for path in ("/legal", "/both", "/wsalpha-refuses")))
        both = rig.ask("sequencer", "endpoint_create", workspaces=["wsalpha", "wsbravo"],
                       allow_private=True, url=rig.receiver.url("/both"))["name"]
        hears = alpha.call("POST", "/endpoints", {"transport": "pull", "sources": ["grapnel"]})[2][
            "name"]
        stream = Limits.stream(self, alpha)
        alpha.event()

        def subjects():
            found = {}
            for e in rig.ask("sequencer", "events", source="grapnel")["events"]:
                body = pipeline.call("GET", f"/events/{e['id']}/payload")[2]
                found[json.loads(body)["data"]["endpoint"]] = e["id"]
            return found if {"legal", both, alpha.refuses} <= set(found) else None
        found = wait_for(subjects, what="the operational events")
        own = found[alpha.refuses]
        listed = alpha.call("GET", "/events?source=grapnel&limit=1000")[2]["items"]
        with self.subTest("list"):
            self.assertEqual([e["id"] for e in listed], [own])
        for subject, event in found.items():
            status = 200 if subject == alpha.refuses else 404
            for method, path, body in (("GET", "", None), ("GET", "/payload", None),
                                       ("POST", "/resend", {"endpoint": hears})):
                with self.subTest(subject=subject, request=method + path):
                    document = alpha.call(method, f"/events/{event}{path}", body)
                    self.assertEqual(document[0], status, document[2])
                    self.assertEqual(bravo.call(method, f"/events/{event}{path}", body)[0], 404)
        # An operator who sends them again, to all or to this one, does not show them.
        for event in found.values():
            for body in ({}, {"endpoint": hears}, {"endpoint": hears, "always": True}):
                self.assertIn(pipeline.call("POST", f"/events/{event}/resend", body)[0],
                              (200, 202), body)
        taken = alpha.call("POST", f"/pull/{hears}/take", {"max": 10, "wait": "10s"})[2]
        with self.subTest("sent again"):
            self.assertEqual([d["event_id"] for d in taken["deliveries"]], [own])
            self.assertEqual([d["event_id"] for d in rig.ask(
                "sequencer", "deliveries", endpoint=hears)["deliveries"]], [own])
        # The stream has the events in their order: one that follows them ends what is looked at.
        last, texts = alpha.event(), [""]
        Limits.read(self, stream, lambda text: last in text and own in text, texts, 0)
        stream.close()
        for subject, event in found.items():
            with self.subTest("stream", subject=subject):
                self.assertEqual(event in texts[0], subject == alpha.refuses)

    def test_operational_events_reach_only_their_workspace(self):
        pipeline, alpha, bravo = self.two()
        rig = pipeline.rig
        for workspace in (alpha, bravo):
            workspace.hears = rig.ask(
                "sequencer", "endpoint_create", workspaces=[workspace.name], sources=["grapnel"],
                allow_private=True, url=rig.receiver.url(f"/hears-{workspace.name}"))["name"]
        default = rig.ask("sequencer", "endpoint_create", workspaces=["default"],
                          sources=["grapnel"], allow_private=True,
                          url=rig.receiver.url("/hears-default"))["name"]
        self.assertTrue(default)
        every = rig.ask("sequencer", "endpoint_create", sources=["grapnel"], allow_private=True,
                        url=rig.receiver.url("/hears-all"))["name"]
        self.assertTrue(every)
        rig.ask("sequencer", "alert_event", n=1, state="firing", name="dead", when="dead",
                subject="crm", severity="warning", since_ms=1, value=1.0, summary="s")
        alpha.event()  # dead at its own endpoint, and at the operator's
        got = wait_for(lambda: rig.receiver.requests("/hears-wsalpha"), what="an event")
        wait_for(lambda: len(rig.receiver.requests("/hears-all")) >= 3, what="all of them")
        self.assertEqual(len(got), 1)
        self.assertEqual(got[0].json()["data"]["endpoint"], alpha.refuses)
        everything = [r.json() for r in rig.receiver.requests("/hears-all")]
        self.assertEqual({e["workspace"] for e in everything}, {"wsalpha", "grapnel"})
        self.assertIn("legal", {e["data"].get("endpoint") for e in everything})
        self.assertFalse(rig.receiver.requests("/hears-wsbravo"))
        self.assertFalse(rig.receiver.requests("/hears-default"))


main()
