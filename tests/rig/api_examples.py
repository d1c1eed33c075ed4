"""A working request for each route of the management API: a pipeline with something of everything, and
for each operation of the OpenAPI document the parameters and the body of a request that succeeds.
A new route needs an entry here: a change in ACTS, with the process that makes it, and anything else in
READS if its path or its query has parameters that are required."""

import base64
import hashlib
import hmac
import http.client
import contextlib
import itertools
import json
import urllib.parse

from rig import wait_for

TOKEN = "an-admin-token-of-the-file"
BASE = "/api/v1"
LEDGER_KEY = "ledger key"
SECRETS_KEY = base64.b64encode(bytes(32)).decode()


class Pipeline:
    """The rig with its sources, endpoints and rules, and fresh targets for acts: each call of a method
    makes another one."""

    def __init__(self, test, settings=None, **how):
        self.rig = rig = test.rig({"console": {"tokens": [TOKEN]}, "secrets_key": SECRETS_KEY,
                                   **(settings or {})}, console=True, **how)
        self.count = itertools.count()
        rig.config["sources"].append({
            "name": "ledger", "provider": "custom", "secrets": [LEDGER_KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "form": "plain",
                       "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            "order": {"by": "sequence", "sequence": "json:/seq", "start": 1,
                      "give_up_after": "1h"}})
        rig.config["retry_policies"].append(
            {"name": "slow", "backoff": "fixed", "first_wait": "1h",
             "max_attempts": 12, "max_duration": "24h", "retry_on": ["5xx"]})
        rig.config["endpoints"] += [
            rig.endpoint("legal", guard=False, breaker=False),
            rig.endpoint("slow", breaker=False, retry_policy="slow"),
            rig.endpoint("spare", types=["nothing"]),
            {"name": "inbox", "transport": "pull", "types": ["pulled"]}]
        rig.config["notifiers"] = [{"name": "ops", "exec": ["/bin/true"]}]
        rig.write_config()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]},
                           {"path": "/slow", "responses": [{"status": 503}]})
        rig.start()
        rig.cli("evidence", "key")

    def call(self, method, path, body=None, token=TOKEN, key=None, source="127.0.0.1"):
        """(status, headers, document)"""
        c = http.client.HTTPConnection("127.0.0.1", self.rig.console_port, timeout=30,
                                       source_address=(source, 0))
        headers = {"Content-Type": "application/json"} if method != "GET" else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if key:
            headers["Idempotency-Key"] = key
        if method in ("PATCH", "DELETE"):
            headers["If-Match"] = "*"
        with contextlib.closing(c):
            c.request(method, BASE + path, None if body is None else json.dumps(body), headers)
            response = c.getresponse()
            if "event-stream" in response.headers["Content-Type"]:
                return response.status, response.headers, None
            text = response.read()
        json_is = text and "json" in response.headers["Content-Type"]
        return response.status, response.headers, json.loads(text) if json_is else text

    def document(self):
        return self.call("GET", "/openapi.json", token=None)[2]

    def operations(self):
        """("POST /endpoints/{name}/pause", its description in the document)"""
        for path, methods in self.document()["paths"].items():
            for method, operation in methods.items():
                yield f"{method.upper()} {path}", operation

    def name(self):
        return f"n{next(self.count)}"

    def event(self, workspace=None):
        """Delivered to crm, a dead letter of legal, and open for slow."""
        event = self.rig.accept(self.rig.plane_body(workspace=workspace or "ws-1"))
        wait_for(lambda: self.states(event) == ["dead", "delivered", "retrying"],
                 what="the three deliveries")
        return event

    def states(self, event):
        return sorted(d["status"] for d in self.rig.trace(event).get("deliveries", []))

    def dead_letter(self):
        workspace = self.name()
        self.event(workspace)
        return wait_for(lambda: self.rig.ask("dlqd", "dlq", workspace=workspace)
                        ["dead_letters"], what="the dead letter")[0]["id"]

    def ledger(self, seq, id, team, type="entry.made"):
        body = json.dumps({"id": id, "type": type, "team": team, "seq": seq}).encode()
        signature = hmac.new(LEDGER_KEY.encode(), body, hashlib.sha256).hexdigest()
        return self.rig.accept(body, source="ledger", headers={
            "X-Sig": signature, "Content-Type": "application/json"})

    def duplicate(self):
        team = self.name()
        first = self.ledger(1, team, team)
        self.rig.wait_status(self.ledger(1, team, team), "duplicate")
        self.rig.receiver.wait(first)
        again = self.ledger(1, team, team)
        self.rig.wait_status(again, "duplicate")
        return again

    def gap(self):
        team = self.name()
        self.ledger(1, team + "-1", team)
        self.rig.wait_status(self.ledger(3, team + "-3", team), "buffered")
        return self.rig.ask("sequencer", "gaps", workspace=team)["gaps"][0]["id"]

    def token(self):
        return self.rig.cli("tokens", "create", self.name(), "--role", "viewer")[0]["id"]

    def event_type(self):
        name = self.name()
        self.rig.ask("sequencer", "event_type_create", name=name)
        return name

    def workspace(self):
        name = self.name()
        self.event(name)
        return name

    def job(self):
        """One that runs for some seconds."""
        workspace = self.name()
        for _ in range(4):
            self.event(workspace)
        return self.rig.ask("dlqd", "dlq_bulk", action="discard", note="n", rate=1,
                            workspace=workspace)["id"]

    def take(self, take=True):
        """The body of a request that ends a delivery that was taken, or of one that takes it."""
        team = self.name()
        event = self.ledger(1, team, team, type="pulled")
        body = {"max": 1, "wait": "5s", "lease": "60s"}
        wait_for(lambda: self.rig.trace(event).get("deliveries"), what="the delivery")
        if not take:
            return body

        def taken():
            status, _, made = self.call("POST", "/pull/inbox/take", body)
            return status == 200 and made["take"] and made
        made = wait_for(taken, what="the take")
        return {"take": made["take"], "deliveries": [made["deliveries"][0]["event_id"]]}

    def attempts(self, event):
        return len([a for d in self.rig.trace(event)["deliveries"] if d["endpoint"] == "inbox"
                    for a in d["attempts"]])

    def jobs(self, process, workspace):
        return len([j for j in self.rig.ask(process, "jobs", limit=200)["jobs"]
                    if j["args"].get("workspace") == workspace])

    def endpoint(self):
        return self.rig.ask("sequencer", "endpoint_create", url="https://example.com/",
                            workspaces=[self.name()])["name"]

    def listener(self):
        return self.rig.ask("sequencer", "temporary_create", types=["nothing"])["name"]

    def reject(self):
        self.rig.post(b"{}", headers={"X-Plane-Signature": "wrong"})
        return self.rig.ask("ingress", "rejects")["rejects"][0]["id"]


class Act:
    """`process` makes the change, by this command of its own. `make` returns the parameters of the
    path and the body. `statuses`: of the response. `effects` counts what the change has done, if
    doing it twice would do more. Not `kept`: it leaves no audit row and no stored reply."""

    def __init__(self, process, command, make, statuses=(200,), effects=None, kept=True):
        self.process, self.command, self.make = process, command, make
        self.statuses, self.effects, self.kept = statuses, effects, kept


NOTE = {"note": "n"}

ACTS = {
    "POST /endpoints": Act(
        "sequencer", "endpoint_create",
        lambda p: ({}, {"url": "https://example.com/", "workspaces": [p.name()]}),
        effects=lambda p, a: len(p.rig.ask("sequencer", "endpoints",
                                           workspace=a["workspaces"][0])["endpoints"])),
    "PATCH /endpoints/{name}": Act(
        "sequencer", "endpoint_change", lambda p: ({"name": p.endpoint()}, {"timeout": "9s"})),
    "POST /endpoints/{name}/rotate-secret": Act(
        "sequencer", "endpoint_rotate", lambda p: ({"name": p.endpoint()}, {}),
        effects=lambda p, a: p.rig.ask("sequencer", "endpoint", name=a["name"])["version"] - 1),
    "DELETE /endpoints/{name}": Act(
        "sequencer", "endpoint_delete", lambda p: ({"name": p.endpoint()}, None)),
    "POST /temporary-endpoints": Act(
        "sequencer", "temporary_create",
        lambda p: ({}, {"types": ["nothing"], "description": p.name()}),
        effects=lambda p, a: p.rig.rows(
            "sequencer", "SELECT count(*) AS n FROM managed_endpoints WHERE description = ?",
            a["description"])[0]["n"]),
    "DELETE /temporary-endpoints/{name}": Act(
        "sequencer", "temporary_delete", lambda p: ({"name": p.listener()}, None)),
    "POST /endpoints/{name}/pause": Act(
        "sequencer", "endpoint_pause", lambda p: ({"name": "spare"}, {})),
    "POST /endpoints/{name}/resume": Act(
        "sequencer", "endpoint_resume", lambda p: ({"name": "spare"}, {})),
    "POST /endpoints/{name}/test": Act(
        "deliverer-1", "test", lambda p: ({"name": "crm"}, {})),
    "POST /events/{event}/resend": Act(
        "ingress", "resend", lambda p: ({"event": p.event()}, {"endpoint": "crm"}),
        effects=lambda p, a: len(p.rig.receiver.requests("/crm", a["event"])) - 1),
    "POST /events/{event}/retry": Act(
        "sequencer", "retry", lambda p: ({"event": p.event()}, {})),
    "POST /events/{event}/abandon": Act(
        "sequencer", "abandon", lambda p: ({"event": p.event()}, {"endpoint": "slow", **NOTE})),
    "POST /events/{event}/release": Act(
        "sequencer", "release", lambda p: ({"event": p.duplicate()}, {}),
        effects=lambda p, a: len(p.rig.receiver.requests("/crm", a["event"]))),
    "POST /dead-letters/{id}/retry": Act(
        "dlqd", "dlq_retry", lambda p: ({"id": p.dead_letter()}, {})),
    "POST /dead-letters/{id}/resolve": Act(
        "dlqd", "dlq_resolve", lambda p: ({"id": p.dead_letter()}, NOTE)),
    "POST /dead-letters/{id}/discard": Act(
        "dlqd", "dlq_discard", lambda p: ({"id": p.dead_letter()}, NOTE)),
    "POST /dead-letters/bulk": Act(
        "dlqd", "dlq_bulk",
        lambda p: ({}, {"action": "resolve", "workspace": p.workspace(), **NOTE}),
        effects=lambda p, a: p.jobs("dlqd", a["workspace"])),
    "POST /jobs/{id}/cancel": Act(
        "dlqd", "job_cancel", lambda p: ({"id": p.job()}, {}), statuses=(200, 409)),
    "POST /replays": Act(
        "ingress", "replay", lambda p: ({}, {"since": "1h", "workspace": p.workspace()}),
        effects=lambda p, a: p.jobs("ingress", a["workspace"])),
    "POST /gaps/{id}/close": Act("sequencer", "close_gap", lambda p: ({"id": p.gap()}, NOTE)),
    "POST /sources/{name}/test": Act(
        "console", "source_test", lambda p: ({"name": "plane"}, {})),
    "POST /alerts/{name}/test": Act("console", "alerts_test", lambda p: ({"name": "ops"}, {})),
    "POST /alerts/{name}/silence": Act(
        "console", "alert_silence", lambda p: ({"name": "disk_low"}, {"for": "2h", **NOTE})),
    "POST /alerts/{name}/unsilence": Act(
        "console", "alert_unsilence", lambda p: ({"name": "disk_low"}, {})),
    "POST /workspaces/{workspace}/portal-link": Act(
        "console", "portal_link", lambda p: ({"workspace": p.name()}, {"user": "anna"})),
    "POST /tokens": Act(
        "sequencer", "token_create", lambda p: ({}, {"name": p.name(), "role": "viewer"}),
        effects=lambda p, a: len([t for t in p.rig.ask("sequencer", "tokens", limit=1000)["tokens"]
                                  if t["name"] == a["name"]])),
    "POST /event-types": Act(
        "sequencer", "event_type_create",
        lambda p: ({}, {"name": p.name(), "schema": {"type": "object"}})),
    "PATCH /event-types/{name}": Act(
        "sequencer", "event_type_change",
        lambda p: ({"name": p.event_type()}, {"description": "d"})),
    "DELETE /event-types/{name}": Act(
        "sequencer", "event_type_delete", lambda p: ({"name": p.event_type()}, None)),
    "POST /pull/{endpoint}/take": Act(
        "deliverer-1", "pull_take", lambda p: ({"endpoint": "inbox"}, p.take(False)), kept=False),
    "POST /pull/{endpoint}/ack": Act(
        "deliverer-1", "pull_ack", lambda p: ({"endpoint": "inbox"}, p.take()), kept=False,
        effects=lambda p, a: p.attempts(a["deliveries"][0])),
    "POST /pull/{endpoint}/retry": Act(
        "deliverer-1", "pull_retry", lambda p: ({"endpoint": "inbox"}, p.take() | {"delay": "1h"}),
        effects=lambda p, a: p.attempts(a["deliveries"][0]), kept=False),
    "POST /pull/{endpoint}/dead": Act(
        "deliverer-1", "pull_dead", lambda p: ({"endpoint": "inbox"}, p.take() | NOTE),
        effects=lambda p, a: p.attempts(a["deliveries"][0]), kept=False),
    # It erases its own audit row and stored reply, too.
    "DELETE /workspaces/{workspace}": Act(
        "sequencer", "workspace_erase", lambda p: ({"workspace": p.workspace()}, None),
        kept=False),
    "DELETE /tokens/{id}": Act(
        "sequencer", "token_revoke", lambda p: ({"id": p.token()}, None)),
}

READS = {
    "GET /endpoints/{name}": lambda p: {"name": "crm"},
    "GET /endpoints/{name}/stats": lambda p: {"name": "crm"},
    "GET /endpoints/{name}/usual": lambda p: {"name": "crm"},
    "GET /endpoints/{name}/plan": lambda p: {"name": "crm"},
    "GET /routing": lambda p: {"source": "plane", "type": "issue.created"},
    "GET /events/{id}/routing": lambda p: {"id": p.event()},
    "GET /event-types/{name}": lambda p: {"name": p.event_type()},
    "GET /workspaces/{name}": lambda p: {"name": "ws-1"},
    "GET /workspaces/{workspace}": lambda p: {"workspace": "ws-1"},
    "GET /events/{id}": lambda p: {"id": p.event()},
    "GET /events/{id}/payload": lambda p: {"id": p.event()},
    "GET /events/{id}/evidence": lambda p: {"id": p.event()},
    "GET /attempts/{id}": lambda p: {"id": p.event() + ".crm.1"},
    "GET /dead-letters/{id}": lambda p: {"id": p.dead_letter()},
    "GET /rejects/{id}": lambda p: {"id": p.reject()},
    "GET /rejects/{id}/explanation": lambda p: {"id": p.reject()},
    "GET /jobs/{id}": lambda p: {"id": p.job()},
    "GET /processes/{process}": lambda p: {"process": "deliverer-1"},
    "GET /sources/{name}": lambda p: {"name": "plane"},
    "GET /series": lambda p: {"names": "accepted"},
}


def fill(operation, parameters):
    """(method, path): those of the path in it, the others in the query."""
    method, _, path = operation.partition(" ")
    query = dict(parameters)
    for name in parameters:
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", urllib.parse.quote(query.pop(name), safe=""))
    return method, path + ("?" + urllib.parse.urlencode(query) if query else "")


def is_change(operation):
    return not operation.startswith("GET ")
