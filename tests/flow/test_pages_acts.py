"""Acts of the API that are for a person: event types, replays, links to the portal, erasures and silences, each in a
browser against a real pipeline; and that each act of the API is on a page, or is for programs."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from browser import chromium
from rig import main, wait_for
from test_pages import HOSTILE, TOKEN, PagesTest

PAGES = pathlib.Path(__file__).parents[2] / "console" / "pages"
EXAMPLES = PAGES.parents[1] / "examples"
# Consumers, `grapnel listen` and scripts use these.
OF_PROGRAMS = {"/pull/{endpoint}/take", "/pull/{endpoint}/ack", "/pull/{endpoint}/retry", "/pull/{endpoint}/dead",
               "/temporary-endpoints"}


class Acts(PagesTest):
    """Without a browser."""

    def test_each_act_of_the_api_is_on_a_page(self):
        """A new route that changes something needs a page, or a reason."""
        self.pipeline()
        _, _, document = self.call("GET", "/api/v1/openapi.json", Authorization=f"Bearer {TOKEN}")
        used = set()
        for file in PAGES.glob("*.js"):
            text = file.read_text()
            path = re.search(r'const path = at\("([\w-]+)"', text)
            for method, call in re.findall(r'act\("(POST|PATCH|DELETE)", (.*)', text):
                call = call.replace("${path}", f'at("{path and path[1]}", x)')
                used.add((method, call))
        missing = set()
        for path, methods in document["paths"].items():
            route = path.replace("/api/v1", "")
            first, *rest = route.strip("/").split("/")
            last = rest[-1] if rest and rest[-1][0] != "{" else None
            for method in {m.upper() for m in methods} - {"GET"}:
                def is_it(call):
                    at_it = f'"{first}"' in call or f'"/{first}' in call
                    # `doIt(what)`, `decide(what)`: the last segment is a value.
                    return at_it and (not last or f"/{last}" in call or "/${what}" in call)
                if route not in OF_PROGRAMS and not any(m == method and is_it(call) for m, call in used):
                    missing.add(f"{method} {route}")
        self.assertEqual(missing, set())


@unittest.skipUnless(chromium(), "chromium is not installed: tools/deps test")
class InABrowser(PagesTest):
    def test_the_evidence_about_an_event_is_downloaded_and_verified(self):
        """By who may use its route: operators and admins, not a viewer and not a workspace."""
        rig = self.pipeline()
        event = self.send(rig, "issue.made", team="acme")
        rig.wait_status(event)
        roles = {role: rig.cli("tokens", "create", role, "--role", role, *(("--workspace", "acme") if role == "workspace" else ()))[0]["token"]
                 for role in ("viewer", "operator", "workspace")}
        for role in ("viewer", "workspace"):
            tab = self.signed_in(f"/events/{event}", token=roles[role])
            tab.sees("Its life")
            self.assertNotIn("Evidence", tab.text())
            self.assertEqual(self.call("GET", f"/api/v1/events/{event}/evidence", Authorization=f"Bearer {roles[role]}")[0], 403)
        tab = self.signed_in(f"/events/{event}", token=roles["operator"])
        tab.js("(() => { window.saved = []; const make = URL.createObjectURL.bind(URL); "
               "URL.createObjectURL = (b) => { b.text().then((t) => saved.push(t)); return make(b); }; "
               "HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }; })()")
        tab.click(".head button", "Evidence…")
        tab.click("dialog button.main")
        tab.sees("there is no key pair")  # the dialog stays, and says what to do
        public = pathlib.Path(rig.folder) / "evidence.pem"
        public.write_text(rig.cli_text("evidence", "key").stdout)
        tab.click("dialog button.main")
        tab.wait("saved.length === 2 && !document.querySelector('dialog')")
        [name] = [s for s in tab.js("saved") if s.startswith("evidence-")]
        self.assertEqual(name, f"evidence-{event}.json")
        file = pathlib.Path(rig.folder) / name
        file.write_text(next(s for s in tab.js("saved") if s != name), newline="")
        self.assertEqual(json.loads(file.read_text())["event"]["id"], event)
        verified = subprocess.run([sys.executable, EXAMPLES / "evidence" / "verify-evidence.py", public, file], capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_event_types_are_made_changed_and_removed(self):
        rig = self.pipeline()
        tab = self.signed_in("/event-types")
        tab.sees("No event type in the catalogue")
        tab.click("button", "New event type")
        tab.fill("dialog [name=name]", "invoice.paid")
        tab.fill("dialog [name=description]", HOSTILE)
        tab.fill("dialog [name=schema]", '{"required": ["amount"],')
        tab.click("dialog button.main")
        tab.sees("The schema is not JSON")
        self.assertEqual(tab.js("document.activeElement.name"), "schema")
        tab.fill("dialog [name=schema]", '{"required": ["amount"], "oops": 1}')
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]')?.textContent.includes('oops')")
        tab.fill("dialog [name=schema]", '{"required": ["amount"], "title": "<b>x</b>"}')
        tab.fill("dialog [name=example]", '{"amount": 7}')
        tab.click("dialog button.main")
        tab.wait("location.pathname === '/event-types/invoice.paid'")
        tab.sees('"amount": 7')
        tab.sees("<b>x</b>")
        self.assertEqual(tab.js("document.querySelectorAll('main img, main b').length"), 0)
        self.assertEqual(rig.ask("sequencer", "event_type", name="invoice.paid")["schema"]["required"], ["amount"])
        # Somebody else changes it meanwhile: nothing is overwritten.
        tab.click("button", "Change…")
        tab.wait("document.querySelector('dialog [name=description]')")
        rig.ask("sequencer", "event_type_change", name="invoice.paid", description="theirs")
        tab.fill("dialog [name=description]", "mine")
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]:not([hidden])')")
        tab.key("Escape")
        self.assertEqual(rig.ask("sequencer", "event_type", name="invoice.paid")["description"], "theirs")
        tab.open(self.base + "/event-types/invoice.paid")
        tab.sees("theirs")
        tab.click("button", "Change…")
        tab.fill("dialog [name=description]", "money has arrived")
        tab.js("document.querySelector('dialog [name=example]').value = ''")
        with self.shown_anew(tab):
            tab.click("dialog button.main")
        tab.sees("money has arrived")
        tab.sees("It has no example.")
        self.assertEqual(rig.ask("sequencer", "event_type", name="invoice.paid")["schema"]["required"], ["amount"])
        tab.click(".crumb a")
        tab.sees("has a schema")
        tab.key("j")
        tab.key("Enter")
        tab.click("button", "Remove…")
        tab.click("dialog button.main")
        tab.sees("No event type in the catalogue")
        viewer, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
        rig.ask("sequencer", "event_type_create", name="a.b")
        tab = self.signed_in("/event-types/a.b", token=viewer["token"])
        tab.sees("any data passes")
        self.assertEqual({n for role, n, _ in tab.tree() if role == "button"} & {"Change…", "Remove…"}, set())

    def test_a_replay_is_counted_made_and_watched(self):
        rig = self.pipeline()
        events = [self.send(rig, "issue.made") for _ in range(3)]
        self.send(rig, "issue.made", team="other")
        rig.settle()
        before = len(rig.receiver.requests(path="/crm"))
        tab = self.signed_in("/jobs")
        tab.click("button", "Replay events…")
        tab.fill("dialog [name=since]", "yesterday")
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]:not([hidden])')")
        self.assertEqual(tab.js("document.activeElement.name"), "since")
        tab.fill("dialog [name=since]", "1h")
        tab.fill("dialog [name=workspace]", "nobody")
        tab.click("dialog button.main")
        tab.sees("No event matches")
        tab.click("dialog button", "Close")
        tab.click("button", "Replay events…")
        tab.fill("dialog [name=workspace]", "acme")
        tab.click("dialog button.main")
        tab.sees("Send 3 events again?")
        self.assertEqual(len(rig.receiver.requests(path="/crm")), before)  # until now it has only counted
        tab.click("dialog button.main")
        tab.sees("They are sent again.")
        for event in events:
            rig.receiver.wait(event, count=2)
        tab.wait("[...document.querySelectorAll('tbody tr')].some((r) => /replay.*done.*3 of 3/s.test(r.innerText))", "the job")
        tab.click("tbody button", "replay")
        tab.sees('"workspace": "acme"')
        tab.key("Escape")
        # Of one endpoint, from its page.
        tab.open(self.base + "/endpoints/crm")
        tab.click("button", "Replay…")
        tab.wait("document.querySelector('dialog [name=endpoint]')?.value === 'crm'")
        tab.fill("dialog [name=workspace]", "other")
        tab.click("dialog button.main")
        tab.sees("Send 1 event again?")
        tab.click("dialog [name=new_id]")
        tab.click("dialog button.main")
        tab.wait("location.pathname === '/jobs'")
        wait_for(lambda: len(rig.receiver.requests(path="/crm")) == before + 4)
        rig.settle()

    def test_a_workspace_gets_a_link_and_is_erased(self):
        rig = self.pipeline()
        self.send(rig, "issue.made")
        rig.settle()
        tab = self.signed_in("/workspaces/acme")
        tab.click("button", "Portal link…")
        tab.fill("dialog [name=user]", "anna")
        tab.click("dialog [name=read_only]")
        tab.click("dialog button.main")
        tab.sees("/portal#link=")
        url = tab.js("document.querySelector('dialog pre').textContent")
        tab.click("dialog button", "I have stored it")
        portal = self.tab()
        portal.open(url)
        portal.sees("issue.made")
        portal.sees("only to read")
        tab.click("button", "Erase…")
        tab.fill("dialog [name=name]", "acm")
        tab.click("dialog button.main")
        tab.sees("This is not the name of this workspace.")
        tab.fill("dialog [name=name]", "acme")
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog .badge')?.textContent === 'done'", "the end of the erasure", 60)
        self.assertNotIn("Cancel the job", tab.text())
        tab.click("dialog button", "Close")
        tab.wait("location.pathname === '/jobs'")
        tab.click("tbody button", "workspace erase")
        tab.sees("Result")
        self.assertEqual(rig.rows("sequencer", "SELECT count(*) AS n FROM events WHERE workspace = 'acme'")[0]["n"], 0)
        operator, _ = rig.cli("tokens", "create", "o", "--role", "operator")
        self.send(rig, "issue.made", team="bravo")
        rig.settle()
        tab = self.signed_in("/workspaces/bravo", token=operator["token"])
        tab.sees("Portal link…")
        self.assertNotIn("Erase…", tab.text())
        portal.problems.clear()  # its requests after the end of its workspace

    def test_a_rule_is_silenced_before_it_fires(self):
        rig = self.pipeline(alerts=[{"name": "little", "when": "disk_low", "below": "1KiB"}])
        tab = self.signed_in("/alerts")
        tab.click("button", "Silence a rule…")
        tab.fill("dialog [name=name]", "litle")
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]:not([hidden])')")
        tab.fill("dialog [name=name]", "little")
        tab.fill("dialog [name=note]", "the <b>migration</b>")
        tab.click("dialog button.main")
        tab.sees("the <b>migration</b>")
        tab.sees("Silences")
        self.assertEqual([s["name"] for s in rig.ask("console", "silences")["silences"]], ["little"])
        tab.click("button", "End it")
        wait_for(lambda: not rig.ask("console", "silences")["silences"])
        tab.wait("!document.body.innerText.includes('Silences')")


if __name__ == "__main__":
    main(at_once=2)
