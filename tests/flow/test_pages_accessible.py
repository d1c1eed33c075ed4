"""What axe-core finds on the console's pages: nothing, in light and dark, on a phone and on a desk. `tools/deps
test` gets it from npm; without it this test is skipped."""

import pathlib
import sys
import unittest

from test_pages import PAGES
from test_portal import PortalTest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from browser import chromium
from rig import main, wait_for

AXE = pathlib.Path(__file__).parents[2] / "build" / "axe" / "axe.min.js"
LOOKS = [(360, False), (1280, False), (1280, True), (360, True)]
OF_COLOURS = ', runOnly: ["color-contrast", "link-in-text-block"]'  # what dark colours change
RUN = """axe.run(document, {resultTypes: ["violations"]%s}).then((r) => r.violations.flatMap((v) => v.nodes.map((n) =>
    `${v.id} (${v.impact}): ${n.target.join(" ")}: ${n.failureSummary}`)))"""


@unittest.skipUnless(chromium(), "chromium is not installed: tools/deps test")
@unittest.skipUnless(AXE.exists(), "axe-core is not in build/axe: tools/deps test")
class Accessible(PortalTest):
    def looks(self, tab, what):
        """The DevTools protocol runs the script: the page's policy would refuse it."""
        if not tab.js("typeof axe !== 'undefined'"):
            tab.js(AXE.read_text())
        for width, dark in LOOKS:
            tab.look(width, dark=dark)
            tab.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # the portal chooses its colours
            with self.subTest(page=what, width=width, dark=dark):
                self.assertEqual(tab.js(RUN % (OF_COLOURS if dark else "")), [])
        tab.look(1280)

    def page(self, tab, path, sees="document.querySelector('h1')"):
        tab.open(self.base + path)
        tab.wait(sees, path)
        tab.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        tab.wait("!document.querySelector('.skeleton')", path)
        self.looks(tab, path)

    def filled(self):
        """A pipeline whose pages have something to show."""
        rig = self.pipeline()
        self.good = self.send(rig, "issue.made")
        self.late = self.send(rig, "report.made")
        for n in range(12):
            self.send(rig, "contract.signed", n=n)
        for seq in (1, 2, 5):
            self.send(rig, "issue.counted", source="ledger", seq=seq)
        rig.post(b"not signed", source="any", headers={"X-Sig": "00"})
        rig.cli("tokens", "create", "looks", "--role", "viewer")
        rig.ask("sequencer", "event_type_create", name="issue.made", schema={"required": ["id"]}, example={"id": 7})
        self.letter = self.dead(rig, 12)[0]["id"]
        wait_for(lambda: any(d["status"] == "retrying" for d in rig.deliveries(self.late)))
        rig.wait_status(self.good)
        return rig

    def test_no_page_has_a_violation(self):
        self.filled().ask("dlqd", "dlq_bulk", action="discard", note="a test", rate=1)
        tab = self.tab()
        self.page(tab, "/sign-in", "document.querySelector('input[name=token]')")
        tab = self.signed_in()
        for path in PAGES:
            self.page(tab, path)
        self.page(tab, f"/events/{self.good}", "document.querySelector('pre.block')")
        self.page(tab, f"/events/{self.late}", "document.querySelector('pre.block')")
        self.page(tab, "/endpoints/legal", "document.querySelector('figure.chart, tbody')")
        self.page(tab, "/endpoints/slow", "document.querySelector('tbody')")
        self.page(tab, f"/dead-letters/{self.letter}", "document.querySelector('pre.block')")
        self.page(tab, "/workspaces/acme", "document.querySelector('rect.missing')")
        self.page(tab, "/event-types/issue.made", "document.querySelector('pre.block')")
        tab.open(self.base + "/rejects")
        tab.click("tbody a")
        tab.wait("document.querySelector('pre.block')")
        self.looks(tab, "a refused request")
        self.page(tab, "/events?type=no", "document.querySelector('.state')")
        self.page(tab, "/events/evt_00000000000000000000000000", "document.querySelector('.state')")

    def test_no_dialog_has_a_violation(self):
        self.filled()
        tab = self.signed_in("/endpoints")
        for path, button in [("/endpoints", "New endpoint"), ("/endpoints/crm", "Pause…"), ("/endpoints/crm", "Test"),
                             (f"/events/{self.good}", "Send again…"), ("/dead-letters", "Resolve…"),
                             ("/tokens", "New token"), ("/workspaces/acme", "Close…"), ("/workspaces/acme", "Portal link…"),
                             ("/workspaces/acme", "Erase…"), ("/event-types", "New event type"), ("/jobs", "Replay events…"),
                             ("/alerts", "Silence a rule…")]:
            tab.open(self.base + path)
            tab.click("button", button)
            tab.wait("document.querySelector('dialog[open]') && !document.querySelector('dialog .skeleton')", button)
            self.looks(tab, f"{path}: {button}")

    def test_no_page_of_the_portal_has_a_violation(self):
        rig = self.portal(colour="#ffd400")  # with white text it could not be read
        event = self.send(rig, "issue.made")
        self.send(rig, "contract.signed")
        rig.wait_status(event)
        letter = wait_for(lambda: [d["id"] for d in self.dead(rig) if d["endpoint"] == self.own["acme"]["no"]])[0]
        for languages in ("en", "de"):
            tab = self.opened(languages=languages)
            for path, sees in [("/events", "tbody"), (f"/events/{event}", "pre.block"), ("/dead-letters", "tbody"),
                               (f"/dead-letters/{letter}", "pre.block"), ("/endpoints", "tbody"),
                               (f"/endpoints/{self.own['acme']['no']}", "svg.plan")]:
                self.go(tab, path)
                tab.wait(f"document.querySelector('{sees}') && !document.querySelector('.skeleton')", path)
                self.looks(tab, f"{languages} /portal{path}")
        tab.open(self.base + "/portal")
        tab.wait("document.querySelector('.sign-in')")
        self.looks(tab, "without a link")


if __name__ == "__main__":
    main(at_once=2)
