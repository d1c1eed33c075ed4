"""The pages Sources and one source, with their routes: numbers, how to set up a provider, a test event that takes the
usual way, and who may look and send."""

import hashlib
import hmac
import json
import pathlib
import sys
import threading

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
