"""Pipelines whose pages have something to show, and pictures of the pages: nothing at all, a shop as it might be, ten
thousand rows, and names as long as they may be."""

import base64
import hashlib
import hmac
import json
import random
import threading
import time

import history
from rig import Rig, wait_for

KEY = "a key of the shop"
TOKEN = history.TOKEN
LONG = "a-name-that-somebody-made-as-long-as-it-may-be-" * 4
SHOPS = ["acme", "globex", "initech", "umbrella", "hooli", "stark"]
TYPES = ["invoice.created", "invoice.paid", "invoice.paid", "order.created", "order.shipped", "customer.updated"]
VERIFY = {"scheme": "hmac-sha256", "header": "X-Sig", "form": "plain", "encoding": "hex", "signed": "{body}"}


def source(name, **more):
    return {"name": name, "provider": "custom", "secrets": [KEY], "verify": VERIFY, "id": "json:/id",
            "type": "json:/type", "workspace": "json:/shop", **more}


def send(rig, kind, shop="acme", source="shop", key=KEY, **data):
    rig.unique += 1
    body = json.dumps({"id": f"ev_{rig.unique:08}", "type": kind, "shop": shop, **data}).encode()
    return rig.post(body, source=source, headers={"X-Sig": hmac.new(key.encode(), body, hashlib.sha256).hexdigest()})


def rig_with(**config):
    return Rig({"secrets_key": base64.b64encode(bytes(32)).decode(), "console": {"tokens": [TOKEN]}, **config}, console=True)


def nothing():
    """A pipeline without endpoints and events."""
    rig = rig_with()
    rig.config.update(sources=[], endpoints=[])
    rig.write_config()
    return rig.start()


def shop(seconds=120, rate=25):
    """Shops that sell: billing delivers in order, crm too, audit is down, legal refuses, archive is at its rate limit; a
    ledger whose numbers have gaps. Events come until the caller sets `ended`. (rig, ended)"""
    rig = rig_with(console={"tokens": [TOKEN], "portal": {"name": "Example Inc.", "colour": "#0b6e4f"}})
    rig.config["sources"] = [source("shop"), source("ledger", order={"by": "sequence", "sequence": "json:/seq", "start": 1, "give_up_after": "1h"}),
                             {"name": "stripe", "provider": "stripe", "secrets": ["whsec_demo"]}]
    rig.config["retry_policies"] = [{"name": "patient", "backoff": "exponential", "first_wait": "10s", "factor": 3, "max_wait": "6h",
                                     "jitter": "full", "max_attempts": 9, "max_duration": "3d"},
                                    {"name": "short", "backoff": "fixed", "first_wait": "2s", "max_attempts": 3, "max_duration": "1h"}]
    rig.config["endpoints"] = [
        rig.endpoint("billing", types=["invoice.*", "ledger.*"], ordered="workspace"), rig.endpoint("crm", types=["customer.*", "order.*"]),
        rig.endpoint("audit", types=["invoice.paid"], workspaces=["acme", "hooli"], retry_policy="patient", breaker=False),
        rig.endpoint("legal", types=["contract.*"], guard=False), rig.endpoint("search"),
        rig.endpoint("tax", types=["tax.*"], retry_policy="short", breaker=False)]
    rig.receiver.rules({"path": "/billing", "responses": [{"status": 200, "delay_ms": 18}]}, {"path": "/crm", "responses": [{"status": 200, "delay_ms": 40}]},
                       {"path": "/search", "responses": [{"status": 200, "times": 40, "delay_ms": 4}, {"status": 503}] * 500},
                       {"path": "/audit", "responses": [{"status": 503, "body": "the database of audit is being moved"}]},
                       {"path": "/tax", "responses": [{"status": 500}]},
                       {"path": "/legal", "responses": [{"status": 422, "body": "{\"error\": \"unknown contract template\"}"}]})
    rig.write_config()
    rig.start()
    rig.ask("sequencer", "event_type_create", name="invoice.paid", description="The money of an invoice has arrived.",
            schema={"type": "object", "required": ["amount", "currency"], "properties": {"amount": {"type": "integer", "minimum": 1}, "currency": {"enum": ["EUR", "USD"]}}},
            example={"amount": 4900, "currency": "EUR"})
    ended = threading.Event()

    def sell():
        chance = random.Random(7)
        while not ended.wait(1 / rate):
            kind = chance.choice(TYPES)
            send(rig, kind, chance.choice(SHOPS), invoice=f"in_{chance.randrange(10 ** 8)}", amount=chance.randrange(100, 90000), currency="EUR",
                 customer={"name": chance.choice(["Ada Lovelace", "Grace Hopper", "Jürgen Groß"]), "since": "2024-03-01"}, paid=kind.endswith("paid"))
    threading.Thread(target=sell, daemon=True).start()
    for n in [*range(1, 24), *range(26, 40), 41, 42]:
        send(rig, "ledger.entry", "acme", "ledger", seq=n, amount=n * 100)
    for n in range(14):
        send(rig, "contract.signed", SHOPS[n % 3], contract=f"c-{n}")
        if n % 3 == 0:
            send(rig, "tax.filed", SHOPS[n % 4], year=2012 + n)
    for n in range(4):
        send(rig, "invoice.paid", "globex", key="another key")
    time.sleep(seconds)
    gap = min(rig.ask("sequencer", "gaps", open=True)["gaps"], key=lambda g: g["from"])
    rig.ask("sequencer", "close_gap", id=gap["id"], note="the provider lost 24")
    send(rig, "ledger.entry", "acme", "ledger", seq=25, amount=2500)  # late
    wait_for(lambda: len(rig.ask("dlqd", "dlq")["dead_letters"]) >= 14)
    return rig, ended


def long_names():
    """Every name and text as long as it may be."""
    rig = rig_with(console={"tokens": [TOKEN], "portal": {"name": "The very long name of an operator of webhooks, Inc. & Co. KG"}})
    name = LONG[:60]
    rig.config["sources"] = [source(name)]
    rig.config["endpoints"] = [rig.endpoint(LONG[:61] + "ok"), rig.endpoint(LONG[:60] + "bad", guard=False), rig.endpoint(LONG[:59] + "late", breaker=False)]
    rig.receiver.rules({"path": "/" + LONG[:60] + "bad", "responses": [{"status": 400, "body": LONG * 5}]},
                       {"path": "/" + LONG[:59] + "late", "responses": [{"status": 503, "body": LONG}]})
    rig.write_config()
    rig.start()
    for n in range(6):
        send(rig, LONG[:180] + str(n), LONG[:190], name, note=LONG * 3)
    send(rig, "x", "y", name, key="wrong")
    rig.ask("sequencer", "event_type_create", name=LONG, description=LONG * 5)
    wait_for(lambda: rig.ask("dlqd", "dlq")["dead_letters"])
    return rig


def paths_of(rig):
    """{name of a picture: path} of the pages that this pipeline can show."""
    out = {"overview": "/", "events": "/events", "dead-letters": "/dead-letters", "endpoints": "/endpoints", "workspaces": "/workspaces",
           "sources": "/sources", "rejects": "/rejects", "alerts": "/alerts", "jobs": "/jobs", "system": "/system", "process": "/system/sequencer",
           "audit": "/audit", "tokens": "/tokens", "event-types": "/event-types"}

    def first(name, path, process, command, rows, key):
        found = rig.ask(process, command, limit=50)[rows]
        if found:
            out[name] = path + found[0][key]
    first("event", "/events/", "sequencer", "events", "events", "id")
    first("dead-letter", "/dead-letters/", "dlqd", "dlq", "dead_letters", "id")
    first("endpoint", "/endpoints/", "sequencer", "endpoints", "endpoints", "name")
    first("workspace", "/workspaces/", "sequencer", "workspaces", "workspaces", "workspace")
    first("event-type", "/event-types/", "sequencer", "event_types", "event_types", "name")
    if rig.config["sources"]:
        out["source"] = "/sources/" + rig.config["sources"][0]["name"]
    return out


def picture(tab, url, file, width, dark=False, height=None, most=2400):
    """A page as it is at this width: as high as `height`, or all of it."""
    tab.ask("Emulation.setScrollbarsHidden", hidden=True)
    tab.look(width, height or 900, dark)
    tab.open(url)
    tab.wait("document.querySelector('main h1, .state, .sign-in') && !document.querySelector('.skeleton')", url)
    tab.js("document.documentElement.style.scrollbarGutter = 'auto'")
    tab.js("new Promise((done) => setTimeout(done, 900))")  # charts, drawings and lists below
    if not height:
        tab.look(width, max(700, min(most, tab.js("document.documentElement.scrollHeight"))), dark)
        tab.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    tab.screenshot(file)
