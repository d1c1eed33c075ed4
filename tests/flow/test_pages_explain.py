"""What the pages explain: the retry plan of an endpoint with the deliveries that wait on it, which endpoints would get
an event and why, and why a stored event did not reach an endpoint. A real pipeline, and a real browser."""

import pathlib
import sys
import unittest
import urllib.parse

from test_pages import TOKEN, PagesTest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from browser import chromium
from rig import main, wait_for


class Explained(PagesTest):
    """What the sequencer says, without a browser."""

    def became(self, rig, event, endpoint):
        one, = rig.ask("sequencer", "event_routing", id=event, endpoint=endpoint)["endpoints"]
        return one

    def reloaded(self, rig):
        """A signal alone may be handled after the next event."""
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)

    def would(self, rig, endpoint, **what):
        one, = rig.ask("sequencer", "routing", endpoint=endpoint, **what)["endpoints"]
        return one

    def test_why_an_event_did_not_reach_an_endpoint(self):
        rig = self.pipeline()
        rig.config["endpoints"].append(rig.endpoint("line", ordered="workspace", types=["step.*"], breaker=False,
                                                    retry_policy="slow"))
        rig.config["endpoints"].append(rig.endpoint("vip", types=["issue.*"], where={"json:/tier": "gold"}))
        self.reloaded(rig)
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]}, {"path": "/slow", "responses": [{"status": 503}]},
                           {"path": "/line", "responses": [{"status": 503}]})
        good = self.send(rig, "issue.made", tier="tin")
        rig.wait_status(good)
        one = self.became(rig, good, "crm")
        self.assertEqual((one["cause"], one["status"], one["routed"]), ("delivered", "delivered", True))
        one = self.became(rig, good, "legal")
        self.assertEqual((one["cause"], one["status"]), ("not_subscribed", "not_routed"))
        self.assertIn("type issue.made does not match contract.* or <*", one["why"])
        self.assertEqual([r["met"] for r in one["rules"]], [True, False, True, True])
        self.assertFalse(one["changed_since"])
        # A dead letter; its condition of an endpoint whose body is gone by then is not known.
        dead = self.send(rig, "contract.signed")
        letter, = self.dead(rig)
        one = self.became(rig, dead, "legal")
        self.assertEqual((one["cause"], one["dead_letter_id"]), ("dead", letter["id"]))
        self.assertIn("rejected", one["why"])
        # A scheduled retry.
        late = self.send(rig, "report.made")
        wait_for(lambda: any(d["status"] == "retrying" for d in rig.deliveries(late)))
        one = self.became(rig, late, "slow")
        self.assertEqual(one["cause"], "retry_scheduled")
        self.assertIsNotNone(one["until"])
        self.assertIn("attempt 1", one["why"])
        # An ordered lane: the second waits for the first, and names it.
        first, second = (self.send(rig, f"step.{n}") for n in (1, 2))
        wait_for(lambda: any(d["status"] == "retrying" for d in rig.deliveries(first)))
        wait_for(lambda: rig.deliveries(second))
        one = wait_for(lambda: (o := self.became(rig, second, "line"))["cause"] == "lane_blocked" and o)
        self.assertEqual(one["event_id"], first)
        # Paused.
        rig.cli("endpoints", "pause", "slow")
        one = self.became(rig, late, "slow")
        self.assertEqual(one["cause"], "paused")
        self.assertIn("resumes it", one["why"])
        rig.cli("endpoints", "resume", "slow")
        # Made later, and subscribed later.
        made = rig.ask("sequencer", "endpoint_create", url="https://example.com/", types=["issue.*"])["name"]
        one = self.became(rig, good, made)
        self.assertEqual(one["cause"], "made_later")
        after = self.send(rig, "order.made")
        wait_for(lambda: rig.ask("sequencer", "events", type="order.made")["events"])
        self.assertEqual(self.became(rig, after, made)["cause"], "not_subscribed")
        rig.ask("sequencer", "endpoint_change", name=made, types=["order.*"])
        one = self.became(rig, after, made)
        self.assertEqual((one["cause"], one["changed_since"]), ("subscribed_later", True))
        rig.config["endpoints"][0]["types"] = ["order.*"]
        rig.write_config()
        rig["sequencer"].reload()
        one = wait_for(lambda: (o := self.became(rig, after, "crm"))["changed_since"] and o)
        self.assertEqual(one["cause"], "subscribed_later")
        # A duplicate, and a buffered event.
        again = rig.ask("sequencer", "events", type="order.made")["events"][0]
        rig.unique -= 1
        copy = self.send(rig, "order.made")
        wait_for(lambda: rig.ask("sequencer", "events", status="duplicate")["events"])
        one = self.became(rig, copy, "crm")
        self.assertEqual((one["cause"], one["event_id"]), ("duplicate", again["id"]))
        self.send(rig, "issue.counted", source="ledger", seq=1)
        waits = self.send(rig, "issue.counted", source="ledger", seq=4)
        wait_for(lambda: rig.ask("sequencer", "events", status="buffered")["events"])
        one = self.became(rig, waits, "crm")
        self.assertEqual(one["cause"], "buffered")
        self.assertIn("2 to 3", one["why"])
        # The same on the command line, and page by page.
        said = rig.cli_text("explain", good, "--endpoint", "legal")
        self.assertIn("does not match contract.*", said.stdout)
        names, after_id = [], None
        while True:
            page = rig.ask("sequencer", "event_routing", id=good, limit=2, **({"after": after_id} if after_id else {}))
            names += [e["endpoint"] for e in page["endpoints"]]
            after_id = page["next"]
            if not after_id:
                break
        self.assertEqual(sorted(names), sorted(["crm", "legal", "slow", "line", "vip", made]))

    def test_which_endpoints_would_get_an_event(self):
        rig = self.pipeline(routes=[{"types": ["audit.*"], "where": {"json:/tier": "gold"}, "endpoints": ["legal"]},
                                    {"types": ["audit.*"], "endpoints": ["legal"]}])
        own = rig.ask("sequencer", "endpoint_create", url="https://example.com/", types=["a.*"], workspaces=["acme"])["name"]
        what = {"source": "any", "workspace": "acme"}
        one = wait_for(lambda: (o := self.would(rig, "crm", type="issue.made", **what)) and "a deliverer" not in o["then"] and o)
        self.assertIs(one["subscribed"], True)
        self.assertEqual(one["why"], "by its own subscription: any source, type issue.made matches issue.*, any workspace")
        self.assertIn("an attempt is made at once", one["then"])
        one = self.would(rig, "crm", type="other", **what)
        self.assertIs(one["subscribed"], False)
        self.assertEqual(one["why"], "type other does not match issue.* or <*")
        one = self.would(rig, "legal", type="audit.read", **what)
        self.assertIs(one["subscribed"], True)
        self.assertIn("by route 2: ", one["why"])  # the first one may match, the second does
        one = self.would(rig, own, type="a.b", source="any", workspace="other")
        self.assertEqual(one["why"], "workspace other does not match acme")
        self.assertIn("no source", self.would(rig, own, type="a.b", source="anny", workspace="acme")["note"])
        rig.cli("endpoints", "pause", "crm")
        self.assertIn("paused", self.would(rig, "crm", type="issue.made", **what)["then"])
        # What it says is what happens.
        for kind in ("issue.made", "audit.read", "a.b", "none"):
            event = self.send(rig, kind)
            wait_for(lambda: rig.ask("sequencer", "events", type=kind)["events"])
            said = {e["endpoint"] for e in rig.ask("sequencer", "routing", type=kind, **what)["endpoints"] if e["subscribed"]}
            self.assertEqual({d["endpoint"] for d in rig.deliveries(event)}, said, kind)
        # A token of a workspace hears only of its own endpoints, and of its own events.
        mine, _ = rig.cli("tokens", "create", "t", "--role", "workspace", "--workspace", "acme")
        auth = {"Authorization": f"Bearer {mine['token']}"}
        ask = lambda path: self.call("GET", "/api/v1" + path, **auth)
        own = rig.cli("endpoints", "create", "https://example.com/own", "--workspace", "acme")[0]["name"]
        _, _, page = ask("/routing?source=any&type=issue.made&workspace=other")
        self.assertEqual([e["endpoint"] for e in page["items"]][-1], own)
        self.assertNotIn("crm", str(page))
        _, _, page = ask(f"/events/{event}/routing")
        self.assertNotIn("crm", str(page))
        foreign = self.send(rig, "issue.made", team="other")
        wait_for(lambda: rig.ask("sequencer", "events", workspace="other")["events"])
        self.assertEqual(ask(f"/events/{foreign}/routing")[0], 404)
        self.assertEqual(ask("/endpoints/crm/plan")[0], 404)
        self.assertEqual(ask(f"/endpoints/{own}/plan")[0], 200)

    def test_the_plan_says_where_deliveries_stand(self):
        rig = self.pipeline()
        events = [self.send(rig, "report.made") for _ in range(3)]
        for event in events:
            wait_for(lambda: any(d["status"] == "retrying" for d in rig.deliveries(event)))
        plan = rig.ask("sequencer", "endpoint_plan", name="slow")
        self.assertEqual((plan["policy"], plan["backoff"], plan["retry_on"], plan["max_attempts"]), ("slow", "fixed", "5xx", 12))
        self.assertEqual([a["at_ms"] for a in plan["attempts"]], [n * 3600000 for n in range(12)])
        self.assertEqual((plan["gives_up"], plan["attempts_more"]), ("budget_attempts", False))
        self.assertEqual(plan["counts"], [{"attempts": 1, "deliveries": 3}])
        self.assertEqual({d["event_id"] for d in plan["deliveries"]}, set(events))
        due = [d["due_after_ms"] for d in plan["deliveries"]]
        self.assertTrue(all(d < 2 * 3600000 + 60000 for d in due), due)
        # Waiting ones that were not tried yet, and those of a paused endpoint.
        rig.cli("endpoints", "pause", "slow")
        self.send(rig, "report.made")
        # Deliveries that the deliverer is giving back are counted as in flight until it has.
        counts = [{"attempts": 0, "deliveries": 1}, {"attempts": 1, "deliveries": 3}]
        plan = wait_for(lambda: (p := rig.ask("sequencer", "endpoint_plan", name="slow"))["counts"] == counts and p)
        self.assertEqual(plan["state"], "paused")
        said = rig.cli_text("endpoints", "plan", "slow").stdout
        self.assertIn("Dead letter after attempt 12 (budget_attempts)", said)


    def test_an_open_circuit_breaker_and_a_rate_limit_are_named(self):
        rig = self.pipeline()
        rig.config["endpoints"] += [rig.endpoint("down", types=["down.*"], retry_policy="slow"),
                                    rig.endpoint("rated", types=["rated.*"], rate_limit="1/h")]
        self.reloaded(rig)
        rig.receiver.rules({"path": "/down", "responses": [{"status": 503}]})
        events = [self.send(rig, "down.now") for _ in range(8)]
        for event in events:
            wait_for(lambda: rig.deliveries(event))  # accepted, and at the sequencer, too
        auth = {"Authorization": f"Bearer {TOKEN}"}

        wait_for(lambda: len(rig.ask("sequencer", "events", type="down.now")["events"]) == len(events))

        def routing():
            return [self.call("GET", f"/api/v1/events/{e}/routing?endpoint=down", **auth)[2]["items"][0] for e in events]
        rows = wait_for(lambda: (r := routing()) and all(one["cause"] == "breaker_open" for one in r) and r)
        self.assertIn("circuit breaker", rows[0]["why"])
        *_, last = (self.send(rig, "rated.now") for _ in range(3))  # two may be sent at once
        wait_for(lambda: rig.deliveries(last))

        def last_at_rated():
            _, _, page = self.call("GET", f"/api/v1/events/{last}/routing?endpoint=rated", **auth)
            return page["items"][0]
        one = wait_for(lambda: (o := last_at_rated())["cause"] == "rate_limit" and o)
        self.assertRegex(one["why"], r"rate_limit of the endpoint: it permits the next attempt in \d+ ms")
        _, _, stats = self.call("GET", "/api/v1/endpoints/rated/stats", **auth)
        self.assertGreater(stats["rate_wait_ms"], 1000)
        _, _, stats = self.call("GET", "/api/v1/endpoints/crm/stats", **auth)
        self.assertEqual(stats["rate_wait_ms"], 0)


@unittest.skipUnless(chromium(), "chromium is not installed: tools/deps test")
class InABrowser(PagesTest):
    def test_the_plan_is_drawn_and_leads_to_events(self):
        rig = self.pipeline()
        event = self.send(rig, "report.made")
        wait_for(lambda: any(d["status"] == "retrying" for d in rig.deliveries(event)))
        tab = self.signed_in("/endpoints/slow")
        tab.sees("Retry policy slow")
        self.assertEqual(tab.js("document.querySelectorAll('svg.plan circle').length"), 12)
        tab.wait("document.querySelector('svg.plan a rect')")
        name = tab.js("document.querySelector('svg.plan a').getAttribute('aria-label')")
        self.assertRegex(name, r"^report\.made: 1 attempt so far, the next is due")
        tab.js("window.isSameDocument = true")
        tab.click("svg.plan a")
        tab.wait(f"location.pathname === '/events/{event}'")
        self.assertTrue(tab.js("window.isSameDocument"))  # loaded again, the portal would have lost its token
        tab.sees("Why, and why not")
        tab.click("summary", "Its place in the retry plan")
        tab.wait("document.querySelectorAll('svg.plan a rect').length === 1")

    def with_module(self, tab, name, expression):
        """The value of an expression of one of the page's modules, `m`, beside what makes elements."""
        return tab.js(f"""(async () => {{
            const of = (n) => import(document.querySelector("script[type=module]").src.replace("main.js", n));
            const m = await of("{name}");
            const show = (e) => {{ document.querySelector("main").replaceChildren(e); return e; }};
            return {expression};
        }})()""")

    def test_many_numbers_attempts_and_endpoints_stay_readable(self):
        self.pipeline()
        tab = self.signed_in("/jobs")
        tab.sees("Jobs")
        # 10,000 numbers with several gaps, one of a million, and late events.
        made = """(() => { const events = new Map();
            for (let n = 1; n <= 10000; n++) if (n % 97 && (n < 9900 || n > 9990)) events.set(n, {id: "evt_" + n, status: "done", type: "t", late: n % 50 === 0});
            for (let n = 1010001; n <= 1010020; n++) events.set(n, {id: "evt_" + n, status: "buffered", type: "t"});
            return [events, [{from: 9900, to: 9990, status: "open"}, {from: 10001, to: 1010000, status: "open"}, {from: 97, to: 97, status: "skipped"}]]; })()"""
        got = self.with_module(tab, "sequence.js", f"(([e, g]) => {{ const {{cells, older}} = m.cellsOf(e, g); "
                               f"return {{older, runs: cells.filter((c) => c.count > 1).map((c) => [c.n, c.count]), n: cells.length, "
                               f"sum: cells.reduce((s, c) => s + c.count, 0), span: cells.at(-1).n - cells[0].n + 1}}; }})({made})")
        self.assertEqual(got["runs"], [[9902, 87], [10003, 999996]])
        self.assertTrue(got["older"])
        self.assertEqual(got["sum"], got["span"])  # each number is drawn once
        self.assertLess(got["n"], 166)
        for width in (360, 1280):
            tab.look(width)
            drawn = self.with_module(tab, "sequence.js", f"(([e, g]) => {{ const svg = show(m.sequence('x', e, g, {width - 60})).querySelector('svg'); "
                                     f"const texts = [...svg.querySelectorAll('text')].map((t) => t.getBBox()); "
                                     f"return {{inside: [...svg.querySelectorAll('rect')].every((r) => r.getBBox().x + r.getBBox().width <= {width - 60}), "
                                     f"covered: texts.some((a, i) => texts.some((b, k) => k < i && Math.abs(a.y - b.y) < 8 && a.x < b.x + b.width && b.x < a.x + a.width))}}; }})({made})")
            self.assertEqual(drawn, {"inside": True, "covered": False}, width)
        # An event with 30 endpoints and 20 attempts at each.
        event = """{received_at: "2026-11-23T10:00:00.000Z", timeline: [{at: "2026-11-23T10:00:00.000Z", process: "ingress", what: "accepted"}],
            deliveries: Array.from({length: 30}, (_, d) => ({endpoint: "endpoint-with-a-long-name-" + d, status: d % 3 ? "delivered" : "dead",
                attempts: Array.from({length: 20}, (_, n) => ({n: n + 1, at: new Date(1795000000000 + n * 60000 + d).toISOString(), http_status: d % 3 && n === 19 ? 200 : 503, duration_ms: 5, error: d % 3 && n === 19 ? null : "503"}))}))}"""
        got = self.with_module(tab, "life.js", f"(() => {{ const e = {event}; const life = show(m.life(e)); return {{lanes: life.querySelectorAll('line.lane').length, "
                               f"points: life.querySelectorAll('circle').length, ends: life.querySelectorAll('circle.bad').length, text: life.textContent}}; }})()")
        self.assertEqual(got["lanes"], 15)
        self.assertEqual(got["ends"], 10)  # the dead ones are all drawn, with their last attempts
        self.assertLess(got["points"], 75)
        self.assertIn("14 of 30 deliveries are drawn", got["text"])
        self.assertIn("18 more", got["text"])
        # Of many deliveries that are due at nearly the same time, the first are drawn.
        plan = """{policy: "p", backoff: "fixed", retry_on: "5xx", max_attempts: 3, max_duration_ms: null, gives_up: "budget_attempts", attempts_more: false, state: "active",
            attempts: [0, 1, 2].map((n) => ({n: n + 1, wait_ms: n ? 3600000 : 0, min_ms: n ? 0 : 0, max_ms: n ? 3600000 : 0, at_ms: n * 3600000})),
            counts: [{attempts: 1, deliveries: 1000}], counts_more: true,
            deliveries: Array.from({length: 100}, (_, n) => ({event_id: "evt_" + n, type: "t", status: "retrying", attempts: 1, next_attempt_at: "2099-01-01T00:00:00.000Z", due_after_ms: 3600000 + n * 1000, policy: null}))}"""
        got = self.with_module(tab, "retry_plan.js", f"(() => {{ const svg = show(m.retryPlan({plan}, 300)[1]).querySelector('svg'); "
                               f"return [svg.querySelectorAll('a').length, [...svg.querySelectorAll('text')].map((t) => t.textContent)]; }})()")
        self.assertLessEqual(got[0], 24)
        self.assertIn("1,000", "".join(got[1]))
        self.assertTrue(any(t.startswith("+") for t in got[1]), got)

    def test_the_routing_of_an_event_is_explained(self):
        rig = self.pipeline()
        tab = self.signed_in("/endpoints/crm")
        tab.sees("Would it get this event?")
        tab.fill("form.filters input[name=source]", "any")
        tab.fill("form.filters input[name=type]", "issue.made")
        tab.key("Enter")
        tab.sees("type issue.made matches issue.*")
        tab.fill("form.filters input[name=type]", "order.made")
        tab.key("Enter")
        tab.sees("type order.made does not match issue.*")
        event = self.send(rig, "<b>" + "x" * 100, team="<i>acme")
        rig.wait_status(event)
        tab.open(self.base + f"/events?source=any&type={urllib.parse.quote('<b>y')}")
        tab.sees("No event matches")
        tab.click("summary", "Which endpoints would get an event?")
        tab.click("button", "Explain")
        tab.sees("type <b>y matches <*")
        tab.open(self.base + f"/events/{event}")
        tab.sees("type <b>xxxxxx")
        tab.fill("#why input[type=search]", "slo")
        tab.wait("document.querySelectorAll('#why tbody tr').length === 1")
        tab.sees("does not match report.*")
        self.assertEqual(tab.js("document.querySelectorAll('b b, i, .said > b').length"), 0)


if __name__ == "__main__":
    main(at_once=2)
