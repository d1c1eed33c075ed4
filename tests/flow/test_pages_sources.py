"""The pages Sources and one source, with their routes: numbers, what is usual, how to set up a provider, a test event that takes the
usual way, and who may look and send."""

import datetime
import hashlib
import hmac
import json
import pathlib
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import PLANE_SECRET, main, wait_for
from test_pages import KEY, TOKEN, PagesTest

SHARED = "a token that gitlab sends"


class SourcesTest(PagesTest):
    def pipeline(self, *args, **more):
        """Beside the sources of PagesTest: hub; lab, which sends its secret itself; chat, whose key is the provider's own."""
        self.extra = [
            {"name": "hub", "provider": "github", "secrets": ["hub key"], "public_url": "https://hooks.example.com/in/hub"},
            {"name": "lab", "provider": "gitlab", "secrets": [SHARED]},
            {"name": "chat", "provider": "discord", "secrets": ["0" * 64]}]
        return super().pipeline(*args, **more)

    def rig(self, config=None, **how):
        rig = super().rig(config, **how)
        rig.config["sources"] += getattr(self, "extra", [])
        rig.config["producers"] = [{"name": "shop", "tokens": ["a-token-of-the-shop-with-32-letters!"]}]
        rig.write_config()
        return rig

    def ask(self, method, path, token=TOKEN, body=None, **headers):
        return self.call(method, f"/api/v1{path}", body, Authorization=f"Bearer {token}", **headers)

    def source(self, name):
        status, _, page = self.ask("GET", "/sources")
        self.assertEqual(status, 200, page)
        return {s["name"]: s for s in page["items"]}[name]

    def send_test(self, name, key, **how):
        return self.ask("POST", f"/sources/{name}/test", body={}, Idempotency_Key=key, **how)

    def learned(self, rig, source, days, rates=None):
        """As if the source had been watched for so many days, and had sent so many events in each hour of the week."""
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_sources WHERE source = ? AND event_ms > 0", source))
        rig["console"].stop()
        rig.change("console", "UPDATE learned_sources SET learned_ms = ?, expected = 0, missing = 0, longest = 0 WHERE source = ?",
                   days * 86400000.0, source)
        if rates:
            rig.change("console", "INSERT OR REPLACE INTO learned_hours(source, rates) VALUES(?, ?)", source,
                       struct.pack("<672f", *[rate for rate in rates for _ in range(4)]))
        rig["console"].start()
        wait_for(rig.console_is_open)

    def usual(self, name):
        return self.ask("GET", f"/sources/{name}")[2]["usual"]


class Routes(SourcesTest):
    """Without a browser."""

    def test_what_was_accepted_refused_and_a_duplicate(self):
        rig = self.pipeline()
        before = wait_for(lambda: (s := self.source("any"))["accepted"] is not None and s["duplicates"] is not None and s)
        self.assertEqual((before["requests"], before["last_event_at"], before["reasons"]), (0, None, []))
        body = json.dumps({"id": "same", "type": "issue.made", "team": "acme"}).encode()
        for _ in range(2):
            event = rig.accept(body, source="any", headers={"X-Sig": self.signature(body)})
        for _ in range(3):
            rig.post(body, source="any", headers={"X-Sig": "00" * 32})
        rig.post(body, source="any", headers={})
        rig.wait_status(event, "duplicate")
        row = wait_for(lambda: (s := self.source("any"))["requests"] == 6 and s["duplicates"] and s)
        self.assertEqual((row["accepted"], row["refused"], row["duplicates"]), (2, 4, 1))
        self.assertEqual([(r["reason"], r["count"]) for r in row["reasons"]],
                         [("signature_mismatch", 3), ("signature_missing", 1)])
        last = rig.trace(event)["received_at"]
        self.assertEqual(row["last_event_at"], last)
        # A restart of ingress begins to count anew; it knows when the last event came.
        rig["ingress"].restart()
        row = wait_for(lambda: (s := self.source("any"))["accepted"] == 0 and s)
        self.assertEqual(row["last_event_at"], last)

    def signature(self, body):
        return hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()

    def test_numbers_are_unknown_while_ingress_is_away(self):
        rig = self.pipeline()
        wait_for(lambda: self.source("hub")["accepted"] == 0)
        rig["ingress"].stop()
        row = wait_for(lambda: (s := self.source("hub"))["accepted"] is None and s)
        self.assertEqual((row["requests"], row["refused"], row["counted_since"], row["provider"]), (None, None, None, "github"))

    def test_how_to_set_it_up_and_no_secret_anywhere(self):
        rig = self.pipeline()
        status, _, hub = self.ask("GET", "/sources/hub")
        self.assertEqual((status, hub["url"], hub["path"]), (200, "https://hooks.example.com/in/hub", "/in/hub"))
        self.assertEqual(hub["local_url"], f"http://127.0.0.1:{rig.ingress_port}/in/hub")
        page = (pathlib.Path(__file__).parents[2] / "docs" / "PROVIDERS.md").read_text()
        for fact in hub["facts"]:
            self.assertIn(f"- **{fact['name']}**: {fact['text']}\n", page)
        self.assertIn(f"- **at the provider**: {hub['setup']}\n", page)
        self.assertIn("X-Hub-Signature-256", next(f["text"] for f in hub["facts"] if f["name"] == "verified"))
        self.assertIn("private key", self.ask("GET", "/sources/chat")[2]["no_test"])
        self.assertEqual(self.ask("GET", "/sources/shop")[2]["kind"], "producer")
        self.assertEqual(self.ask("GET", "/sources/nothing")[0], 404)
        everything = [str(self.ask("GET", f"/sources{name}")[2]) for name in ("", "/hub", "/lab", "/plane", "/any", "/shop")]
        for secret in ("hub key", SHARED, PLANE_SECRET, KEY, "a-token-of-the-shop"):
            self.assertNotIn(secret, "".join(everything))

    def test_a_test_event_takes_the_usual_way_and_is_audited(self):
        rig = self.pipeline()
        for name in ("plane", "lab"):  # signed, and with the secret itself
            status, _, sent = self.send_test(name, f"once-{name}")
            self.assertEqual((status, sent["http_status"], sent["error"]), (200, 200, None), sent)
            trace = wait_for(lambda: (t := self.ask("GET", f"/events/{sent['event']}")[2]).get("status") == "done" and t)
            self.assertTrue(trace["timeline"][0]["what"].startswith("a test of the console, received from"), trace)
            self.assertEqual(self.send_test(name, f"once-{name}")[2], sent)
            self.assertEqual(rig.rows("ingress", "SELECT count(*) AS n FROM archive WHERE source = ?", name)[0]["n"], 1)
            payload = self.ask("GET", f"/events/{sent['event']}/payload")[2]
            self.assertIn("Made by a test of the console", str(payload))
            self.assertNotIn(SHARED, str(payload))
        rows = [a for a in self.ask("GET", "/audit")[2]["items"] if a["command"] == "source_test"]
        self.assertEqual(sorted(a["outcome"] for a in rows), ["done", "done", "started", "started"])
        self.assertNotIn(SHARED, str(rows))
        # The private key of a provider is its own; a producer has tokens, of which there are only hashes.
        self.assertEqual(self.send_test("chat", "c")[0], 409)
        self.assertEqual(self.send_test("shop", "s")[0], 404)
        self.assertEqual(self.send_test("nobody", "n")[0], 404)

    def test_ingress_refuses_a_test_when_its_secret_differs(self):
        rig = self.pipeline()
        next(s for s in rig.config["sources"] if s["name"] == "hub")["secrets"] = ["another key"]
        rig.write_config()
        rig["console"].restart()
        status, _, sent = wait_for(lambda: rig.console_is_open() and self.send_test("hub", "x"))
        self.assertEqual((status, sent["http_status"], sent["event"]), (200, 401, None))
        self.assertTrue(sent["error"])
        self.assertEqual(rig.ask("ingress", "rejects", source="hub")["rejects"][0]["reason"], "signature_mismatch")

    def test_too_many_tests_and_an_ingress_that_is_away(self):
        rig = self.pipeline()
        answers = [self.send_test("hub", f"k{n}") for n in range(8)]
        self.assertEqual([a[0] for a in answers[:5]], [200] * 5)
        self.assertIn(429, [a[0] for a in answers[5:]])
        rig["console"].restart()
        wait_for(rig.console_is_open)
        rig["ingress"].stop()
        status, _, error = self.send_test("hub", "away")
        self.assertEqual((status, error["error"]["code"]), (409, "refused"))
        self.assertIn("cannot be reached", error["error"]["message"])
        rig.start("ingress")
        self.assertEqual(self.send_test("hub", "away")[2]["http_status"], 200)  # the failure was not stored

    def test_a_console_that_dies_during_a_test_sends_no_second_event(self):
        rig = self.pipeline()
        rig["ingress"].pause()
        thread = threading.Thread(target=self.send_and_lose, args=("plane", "dies"))
        thread.start()
        wait_for(lambda: self.unread(rig.ingress_port), what="a request that ingress has not read")
        rig.kill("console")
        thread.join()
        rig["ingress"].resume()
        rig.start("console")
        wait_for(rig.console_is_open)
        status, _, sent = self.send_test("plane", "dies")
        self.assertEqual((status, sent["http_status"]), (200, 200))
        rig.settle()
        events = rig.rows("sequencer", "SELECT id, status FROM events WHERE source = 'plane'")
        self.assertEqual(len(events), 2)
        self.assertEqual(len(rig.receiver.requests(path="/crm")), 1, events)

    def unread(self, port):
        """How many bytes have come to this port and were not read."""
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(r[4].split(":")[1], 16) for r in rows if r[1].endswith(f":{port:04X}") and r[3] != "0A")

    def send_and_lose(self, name, key):
        try:
            self.send_test(name, key)
        except OSError:
            pass
        except Exception as e:  # http.client's
            self.assertIn("Remote", type(e).__name__)

    def test_what_was_learned_about_a_source(self):
        rig = self.pipeline()
        wait_for(lambda: self.usual("any")["watching"])
        nothing = self.usual("any")
        self.assertEqual((nothing["state"], nothing["watched_ms"], nothing["hours"], nothing["judged_from"]), ("unused", 0, [], None))
        self.assertEqual((nothing["alert"], nothing["alert_at"], nothing["silence_ms"]), (None, None, None))
        self.send(rig, "issue.made")
        wait_for(lambda: self.usual("any")["state"] == "learning" and self.usual("any")["watched_ms"] > 0)
        self.learned(rig, "any", 13)
        learning = wait_for(lambda: (u := self.usual("any"))["watching"] and u)
        self.assertEqual((learning["state"], learning["alert"], learning["alert_at"]), ("learning", "unusual_silence", None))
        left = datetime.datetime.fromisoformat(learning["judged_from"]) - datetime.datetime.now(datetime.timezone.utc)
        self.assertAlmostEqual(left / datetime.timedelta(days=1), 1, delta=0.01)
        self.assertIsNone(self.source("any")["missing"])
        # 30 events in each hour from Monday 0:00 to 1:00, 60 in the others; hours are stored from Thursday on.
        rates = [30 if hour == 96 else 60 for hour in range(168)]
        self.learned(rig, "any", 20, rates)
        usual = wait_for(lambda: (u := self.usual("any"))["alert_at"] and u)
        self.assertEqual((usual["state"], usual["hours"][:2], len(usual["hours"])), ("usual", [30, 60], 168))
        self.assertEqual(usual["rate"], rates[int(time.time() // 3600) % 168])
        self.assertIn(usual["quiet_rate"], (30, 60))
        # 20 missing events at 60 an hour are 20 minutes; the quietest day may have 30.
        self.assertTrue(19 * 60000 <= usual["silence_ms"] <= 45 * 60000, usual)
        ahead = datetime.datetime.fromisoformat(usual["alert_at"]) - datetime.datetime.now(datetime.timezone.utc)
        self.assertTrue(datetime.timedelta(minutes=17) < ahead < datetime.timedelta(minutes=46), usual)
        self.assertLess(self.source("any")["missing"], 5)
        rig["ingress"].stop()
        away = wait_for(lambda: (u := self.usual("any"))["watching"] is False and u)
        self.assertIsNone(away["alert_at"])
        rig.start("ingress")
        # Too few, and too many are missing.
        self.learned(rig, "any", 20, [0] * 168)
        self.assertEqual(self.usual("any")["state"], "rare")
        self.learned(rig, "any", 20, [400000] * 168)
        silent = wait_for(lambda: (u := self.usual("any"))["state"] == "unusual" and u)
        self.assertEqual(silent["alert_at"], None)
        self.assertGreater(self.source("any")["missing"], 20)
        rig.post(b"{}", source="any", headers={"X-Sig": "00" * 32})
        [refusal] = wait_for(lambda: self.usual("any")["refusals"])
        self.assertEqual((refusal["reason"], refusal["new"]), ("signature_mismatch", True))

    def test_no_rule_watches_a_source(self):
        rig = self.pipeline(alerts=[{"name": "unusual_silence", "when": "unusual_silence", "above": 20, "source": ["hub"]}])
        self.send(rig, "issue.made")
        self.learned(rig, "any", 20, [60] * 168)
        usual = wait_for(lambda: (u := self.usual("any"))["watching"] and u)
        self.assertEqual((usual["state"], usual["alert"], usual["alert_at"]), ("usual", None, None))

    def test_with_which_statuses_an_endpoint_usually_responds(self):
        rig = self.pipeline()
        path = "/endpoints/crm/usual"
        unused = self.ask("GET", path)[2]
        self.assertEqual((unused["state"], unused["shares"], unused["recent"], unused["alert"]), ("unused", None, None, "status_mix"))

        def responded():
            """What it counted before the console had its first metrics is not new to the console."""
            rig.wait_status(self.send(rig, "issue.made"))
            usual = self.ask("GET", path)[2]
            return usual["recent_responses"] and usual
        learning = wait_for(responded)
        self.assertEqual((learning["state"], learning["recent"]["2xx"], learning["shares"]), ("learning", 1, None))
        self.assertTrue(learning["judged_from"])
        rig["console"].stop()
        past = [[0] * 5, [10, 0, 0, 30, 0], [900, 0, 50, 50, 0], [0, 0, .05, .05, 0], [0] * 5]
        rig.change("console", "UPDATE learned_endpoints SET learned_ms = ?, counts = ?", 30 * 86400000.0,
                   struct.pack("<25d", *[n for each in past for n in each]))
        rig["console"].start()
        wait_for(rig.console_is_open)
        usual = self.ask("GET", path)[2]
        self.assertEqual((usual["state"], usual["judged_from"], usual["responses"]), ("unusual", None, 1000))
        self.assertEqual((usual["shares"], usual["recent"]), ({"2xx": .9, "3xx": 0, "4xx": .05, "5xx": .05, "none": 0},
                                                             {"2xx": .25, "3xx": 0, "4xx": 0, "5xx": .75, "none": 0}))

    def test_who_may_look_and_send(self):
        rig = self.pipeline()
        tokens = {role: rig.cli("tokens", "create", role, "--role", role, *(("--workspace", "acme") if role == "workspace" else ()))[0]["token"]
                  for role in ("viewer", "operator", "workspace")}
        for route in ("/sources", "/sources/hub"):
            self.assertEqual(self.ask("GET", route, tokens["viewer"])[0], 200)
            status, _, error = self.ask("GET", route, tokens["workspace"])
            self.assertEqual((status, error["error"]["code"]), (403, "role"))
            self.assertNotIn("hooks.example.com", str(error))
        self.assertEqual([self.send_test("hub", "w", token=tokens[r])[0] for r in ("viewer", "workspace", "operator")], [403, 403, 200])
        # A page of another site cannot send one.
        self.assertEqual(self.send_test("hub", "x", Origin="https://evil.example")[0], 403)


class Pages(SourcesTest):
    def test_from_an_empty_page_to_a_test_event(self):
        rig = self.pipeline()
        tab = self.signed_in("/sources")
        tab.sees("hub")
        self.assertEqual(tab.js("document.querySelector('.nav [aria-current]').textContent"), "Sources")
        tab.key("/")
        tab.write("gith")
        tab.wait("document.querySelectorAll('tbody tr').length === 1")
        tab.wait("location.search === '?name=gith'")
        tab.key("Escape")
        tab.key("j")
        tab.key("Enter")
        tab.wait("location.pathname === '/sources/hub'")
        tab.sees("https://hooks.example.com/in/hub")
        tab.sees("Settings of the repository or organization > Webhooks")
        tab.sees("X-Hub-Signature-256")
        self.assertNotIn("hub key", tab.js("document.documentElement.outerHTML"))
        tab.click("button", "Send a test event…")
        tab.click("dialog button.main")
        tab.wait("location.pathname.startsWith('/events/evt_')")
        tab.sees("test event")
        tab.open(self.base + "/sources/hub")
        tab.sees("issues.opened")
        rig.settle()

    def test_refused_requests_and_what_is_missing(self):
        rig = self.pipeline()
        rig.post(b"<b>x</b>", source="hub", headers={"X-Hub-Signature-256": "sha256=00"})
        tab = self.signed_in("/sources/hub")
        tab.sees("signature malformed")
        tab.click("section.flush tbody a", "signature malformed")
        tab.sees("<b>x</b>")
        tab.open(self.base + "/sources/lab")
        tab.sees("YOUR-HOST/in/lab")
        tab.open(self.base + "/sources/shop")
        tab.sees("Only hashes of tokens are stored")
        self.assertNotIn("Send a test event…", tab.text())
        rig.kill("sequencer")
        tab.open(self.base + "/sources/hub")
        tab.sees("Set up GitHub")
        tab.sees("sequencer does not run")
        rig.start("sequencer")
        tab.wait("!document.body.innerText.includes('sequencer does not run')")

    def test_what_is_usual_for_a_source_and_an_endpoint(self):
        rig = self.pipeline()
        tab = self.signed_in("/sources/any")
        tab.sees("No event has come yet. The console begins to learn with the first one")
        self.send(rig, "issue.made")
        tab.sees("The console still learns what is usual")
        self.learned(rig, "any", 20, [60] * 168)
        tab = self.signed_in("/sources/any")
        tab.sees("At this hour of the week it usually sends about 60.0 events an hour")
        tab.sees("Without another event the alert unusual_silence fires at about")
        tab.wait("document.querySelector('#usual figure svg path.line')", "the rates of a week")
        self.learned(rig, "any", 20, [0] * 168)
        tab = self.signed_in("/sources/any")
        tab.sees("It sends too rarely")
        self.learned(rig, "any", 20, [400000] * 168)
        tab = self.signed_in("/sources/any")
        tab.sees("It is silent for longer than usual.")
        tab.open(self.base + "/sources")
        tab.sees("unusually silent")
        tab.open(self.base + "/endpoints/slow")
        tab.sees("The console has seen no response yet")
        tab.open(self.base + "/endpoints/crm")
        tab.sees("In the last one to two hours")
        tab.sees("and needs 7 days and 200 responses")

    def test_no_source_says_what_to_do_first(self):
        rig = self.pipeline()
        rig.config["sources"], rig.config["producers"] = [], []
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        tab = self.signed_in("/sources")
        tab.sees("No source yet")
        tab.sees("grapnel reload")

    def test_why_a_request_was_refused(self):
        rig = self.pipeline()
        body = b'{"zen": "x"}'
        signature = hmac.new(b"hub key\n", body, hashlib.sha256).hexdigest()
        rig.post(body, source="hub", headers={"X-Hub-Signature-256": f"sha256={signature}"})
        id = rig.ask("ingress", "rejects", source="hub")["rejects"][0]["id"]
        tab = self.signed_in(f"/rejects/{id}")
        tab.sees("signed with this source's secret and a newline behind it")
        tab.sees("Remove the newline from the secret at the sender")
        self.assertNotIn("hub key", tab.text())
        viewer, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
        self.assertEqual(self.ask("GET", f"/rejects/{id}/explanation", token=viewer["token"])[0], 403)
        tab = self.signed_in(f"/rejects/{id}", token=viewer["token"])
        tab.sees("Headers, without secrets")
        self.assertNotIn("newline", tab.text())

    def test_a_viewer_and_a_workspace(self):
        rig = self.pipeline()
        viewer, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
        mine, _ = rig.cli("tokens", "create", "m", "--role", "workspace", "--workspace", "acme")
        tab = self.signed_in("/sources/hub", token=viewer["token"])
        tab.sees("Set up GitHub")
        self.assertNotIn("Send a test event…", tab.text())
        tab = self.signed_in(token=mine["token"])
        self.assertNotIn("Sources", tab.js("document.querySelector('.nav').textContent"))
        for path in ("/sources", "/sources/hub"):
            tab.open(self.base + path)
            tab.sees("This page needs another role")
            self.assertNotIn("hooks.example.com", tab.text())


if __name__ == "__main__":
    main(at_once=2)
