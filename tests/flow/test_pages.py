"""The console's pages in a real browser, with a real pipeline behind them: signing in, what each role sees, what
events of strangers can do, each act, the keyboard, and a process that is killed while somebody looks."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import pathlib
import re
import socket
import sys
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from browser import Browser, chromium
from rig import RigTest, main, wait_for

KEY = "a key of any"
TOKEN = "an-admin-token-of-the-file"
PAGES = ["/", "/events", "/dead-letters", "/endpoints", "/workspaces", "/rejects", "/alerts", "/jobs", "/audit",
         "/tokens", "/system", "/system/sequencer", "/sources", "/sources/any", "/event-types"]
LONGEST_PRESS_S = 2.5  # a page waits 3 s for a release (console/pages/pointer.js)
RLO = "\u202e"
HOSTILE = f"<img src=x onerror=hacked()>{RLO}\"'--></script><script>hacked()</script>"

browser = None


class PagesTest(RigTest):
    def pipeline(self, *endpoints, **more):
        """A rig with the console: crm delivers, legal refuses, slow responds 503."""
        rig = self.rig({"console": {"tokens": [TOKEN]}, "secrets_key": base64.b64encode(bytes(32)).decode(), **more},
                       console=True)
        rig.config["sources"].append({
            "name": "any", "provider": "custom", "secrets": [KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "form": "plain",
                       "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "json:/type", "workspace": "json:/team"})
        rig.config["sources"].append({
            **rig.config["sources"][-1], "name": "ledger",
            "order": {"by": "sequence", "sequence": "json:/seq", "start": 1, "give_up_after": "1h"}})
        rig.config["retry_policies"].append(
            {"name": "slow", "backoff": "fixed", "first_wait": "1h",
             "max_attempts": 12, "max_duration": "24h", "retry_on": ["5xx"]})
        rig.config["endpoints"] += [
            rig.endpoint("legal", guard=False, breaker=False, types=["contract.*", "<*"]),
            rig.endpoint("slow", breaker=False, retry_policy="slow", types=["report.*"])]
        rig.config["endpoints"][0]["types"] = ["issue.*", "<*"]
        rig.write_config()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400, "body": HOSTILE}]},
                           {"path": "/slow", "responses": [{"status": 503}]})
        self.base = f"http://127.0.0.1:{rig.console_port}"
        return rig.start()

    def send(self, rig, kind, team="acme", source="any", **data):
        rig.unique += 1
        body = json.dumps({"id": f"any-{rig.unique}", "type": kind, "team": team, **data}).encode()
        signature = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        return rig.accept(body, source=source, headers={"X-Sig": signature, "Content-Type": "text/html"})

    def tab(self, **how):
        global browser
        if not browser:
            browser = Browser()
            unittest.addModuleCleanup(browser.close)
        tab = browser.tab(**how)
        self.addCleanup(lambda: self.assertEqual(tab.problems, []))
        return tab

    def signed_in(self, path="/", token=TOKEN, **how):
        tab = self.tab(**how)
        tab.open(self.base + path)
        tab.fill("input[name=token]", token)
        tab.key("Enter")
        tab.wait("document.querySelector('.frame h1')", "a page")
        return tab

    def call(self, method, path, body=None, **headers):
        """(status, headers, document)"""
        c = http.client.HTTPConnection(self.base[7:], timeout=30)
        self.addCleanup(c.close)
        sent = {k.replace("_", "-"): v for k, v in headers.items()}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        c.request(method, path, None if body is None else json.dumps(body), sent)
        response = c.getresponse()
        text = response.read()
        return response.status, response.headers, json.loads(text) if text[:1] == b"{" else text

    def session(self, token=TOKEN, **headers):
        """(cookie, csrf) of a new session."""
        status, answered, document = self.call("POST", "/api/session", {"token": token}, **headers)
        self.assertEqual(status, 200, document)
        return answered["Set-Cookie"].split(";")[0], document["csrf"]

    @contextlib.contextmanager
    def shown_anew(self, tab):
        """An act after which the page is read again: before that, a click may miss."""
        tab.js("document.querySelector('.head').dataset.old = ''")
        yield
        tab.wait("document.querySelector('.head') && !document.querySelector('.head[data-old]')", "the page anew")

    def dead(self, rig, count=1):
        return wait_for(lambda: len(d := rig.ask("dlqd", "dlq")["dead_letters"]) >= count and d)


class Sessions(PagesTest):
    """Signing in, and what a session may do; without a browser, which hides what it sends."""

    def test_a_path_that_is_empty_or_has_no_slash(self):
        rig = self.pipeline()
        for path in (b"?a", b"events", b"*"):
            with socket.create_connection(("127.0.0.1", rig.console_port), 30) as s:
                s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                response = b"".join(iter(lambda: s.recv(4096), b""))
            self.assertNotIn(b" 200 ", response[:20])
        self.assertEqual(self.call("GET", "/events")[0], 200)

    def test_a_session_has_its_tokens_role_until_the_token_ends(self):
        rig = self.pipeline()
        made, _ = rig.cli("tokens", "create", "looks", "--role", "viewer")
        cookie, csrf = self.session(made["token"])
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0], 200)
        self.assertEqual(self.call("GET", "/api/session", Cookie=cookie)[2]["role"], "viewer")
        pause = ("POST", "/api/v1/endpoints/crm/pause", {})
        self.assertEqual(self.call(*pause, Cookie=cookie, Grapnel_Csrf=csrf)[0], 403)
        rig.cli("tokens", "revoke", made["id"])
        wait_for(lambda: self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0] == 401)
        # The same for a token of the file.
        cookie, csrf = self.session()
        self.assertEqual(self.call(*pause, Cookie=cookie, Grapnel_Csrf=csrf)[0], 200)
        rig.config["console"]["tokens"] = ["another"]
        rig.write_config()
        rig["console"].reload()
        wait_for(lambda: self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0] == 401)
        status, headers, _ = self.call("GET", "/api/session", Cookie=cookie)
        self.assertEqual(status, 401)

    def test_changes_need_the_pages_header_and_no_other_site(self):
        self.pipeline()
        cookie, csrf = self.session()
        other, other_csrf = self.session()
        self.assertNotEqual((cookie, csrf), (other, other_csrf))
        pause = ("POST", "/api/v1/endpoints/crm/pause", {})
        for sent in ({}, {"Grapnel_Csrf": ""}, {"Grapnel_Csrf": "0" * 64}, {"Grapnel_Csrf": other_csrf}):
            status, _, document = self.call(*pause, Cookie=cookie, **sent)
            self.assertEqual((status, document["error"]["code"]), (403, "csrf"))
        self.assertEqual(self.call("DELETE", "/api/session", Cookie=cookie)[0], 403)
        for sent in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}):
            self.assertEqual(self.call(*pause, Cookie=cookie, Grapnel_Csrf=csrf, **sent)[2]["error"]["code"], "cross_site")
            self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=cookie, **sent)[0], 403)
            self.assertEqual(self.call("POST", "/api/session", {"token": TOKEN}, **sent)[0], 403)
        self.assertEqual(self.call(*pause, Cookie=cookie, Grapnel_Csrf=csrf, Origin=self.base)[0], 200)
        self.assertEqual(self.call("POST", "/api/session", {"token": TOKEN}, Content_Type="text/plain")[0], 415)
        for body in ({}, [], {"token": ""}, {"token": 1}, {"token": TOKEN, "link": "x"}, {"token": "x" * 600}):
            self.assertEqual(self.call("POST", "/api/session", body)[0], 400)
        # Signed out: the cookie is worth nothing.
        self.assertEqual(self.call("DELETE", "/api/session", Cookie=cookie, Grapnel_Csrf=csrf)[0], 200)
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0], 401)
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=other)[0], 200)

    def test_the_cookie_is_new_hidden_and_bound_to_https(self):
        self.pipeline()
        port = self.base.rsplit(":", 1)[1]
        fixed = f"grapnel-{port}=" + "ab" * 32
        status, headers, _ = self.call("POST", "/api/session", {"token": TOKEN}, Cookie=fixed)
        cookie = headers["Set-Cookie"]
        self.assertRegex(cookie, rf"^grapnel-{port}=[0-9a-f]{{64}}; Path=/; HttpOnly; SameSite=Strict$")
        self.assertNotIn("ab" * 32, cookie)
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=fixed)[0], 401)
        # A second sign-in in the same browser ends the first session.
        first = cookie.split(";")[0]
        second = self.session(Cookie=first)[0]
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=first)[0], 401)
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=second)[0], 200)
        # The browser sees HTTPS, as a proxy before the console has the certificate.
        _, headers, _ = self.call("POST", "/api/session", {"token": TOKEN}, Origin=self.base.replace("http:", "https:"))
        self.assertRegex(headers["Set-Cookie"], rf"^__Host-grapnel-{port}=[0-9a-f]{{64}}; Path=/; HttpOnly; SameSite=Strict; Secure$")
        secure = headers["Set-Cookie"].split(";")[0]
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=f"{fixed}; {secure}")[0], 200)

    def test_wrong_tokens_are_counted_and_a_link_works_once(self):
        rig = self.pipeline()
        made, code = rig.cli("console", "link", "--role", "viewer")
        self.assertEqual(code, 0)
        secret = made["url"].split("#link=")[1]
        rows = rig.rows("console", "SELECT args, outcome FROM audit WHERE command = 'console_link'")
        self.assertNotIn(secret, str(rows))
        self.assertNotIn(secret, rig["console"].log())
        status, headers, document = self.call("POST", "/api/session", {"link": secret})
        self.assertEqual((status, document["role"]), (200, "viewer"))
        cookie = headers["Set-Cookie"].split(";")[0]
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0], 200)
        rig["console"].reload()
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0], 200)
        self.assertEqual(self.call("POST", "/api/session", {"link": secret})[0], 401)
        statuses = [self.call("POST", "/api/session", {("link", "token")[n % 2]: f"guess-{n}"})[0] for n in range(24)]
        self.assertEqual(statuses, [401] * 19 + [429] * 5)
        rig["console"].restart()
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Cookie=cookie)[0], 401)

    def test_a_stream_ends_when_its_user_signs_out(self):
        rig = self.pipeline()
        cookie, csrf = self.session()
        c = http.client.HTTPConnection(self.base[7:], timeout=8)
        self.addCleanup(c.close)
        c.request("GET", "/api/v1/stream", headers={"Cookie": cookie})
        response = c.getresponse()
        self.assertEqual(response.status, 200)
        self.assertIn(b"retry", response.read1(1000))
        self.call("DELETE", "/api/session", Cookie=cookie, Grapnel_Csrf=csrf)
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            while response.read1(1000):  # until the console closes the connection; a timeout fails
                pass

    def test_files_are_confined_cached_and_nothing_else(self):
        rig = self.pipeline()
        status, headers, text = self.call("GET", "/events/anything")
        self.assertEqual((status, headers["Cache-Control"]), (200, "no-cache"))
        policy = headers["Content-Security-Policy"]
        for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
                     "require-trusted-types-for 'script'", "trusted-types 'none'"):
            self.assertIn(rule, policy)
        self.assertNotIn("unsafe", policy)
        for name, value in [("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
                            ("Cross-Origin-Opener-Policy", "same-origin"), ("X-Frame-Options", "DENY")]:
            self.assertEqual(headers[name], value)
        tag = headers["ETag"]
        self.assertEqual(self.call("GET", "/", If_None_Match=tag)[0], 304)
        main_js = re.search(rb'src="([^"]*main\.js)"', text)[1].decode()
        status, headers, plain = self.call("GET", main_js)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/javascript; charset=utf-8"))
        self.assertIn("immutable", headers["Cache-Control"])
        status, headers, packed = self.call("GET", main_js, Accept_Encoding="gzip, br")
        self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
        self.assertLess(len(packed), len(plain))
        for path in ("/nothing", "/pages/", main_js.replace("main", "../main"), main_js + "x", "/pages/x/main.js",
                     "/events.html", "//events", "/pages/..%2f..%2fetc/passwd"):
            self.assertEqual(self.call("GET", path)[0], 404, path)
        self.assertEqual(self.call("POST", "/events", {})[0], 405)
        # From a folder, while somebody changes them.
        folder = rig.folder / "own"
        folder.mkdir()
        (folder / "index.html").write_text("<title>mine</title>")
        (folder / "main.js").write_text("1")
        (rig.folder / "secret.js").write_text("2")
        rig.config["console"]["pages"] = str(folder)
        rig.write_config()
        rig["console"].reload()
        self.assertIn(b"mine", self.call("GET", "/")[2])
        self.assertEqual(self.call("GET", "/pages/@VERSION@/main.js")[2], b"1")
        for name in ("../secret.js", "..%2fsecret.js", "none.js", "", ".", "grapnel.yaml"):
            self.assertEqual(self.call("GET", f"/pages/@VERSION@/{name}")[0], 404, name)


@unittest.skipUnless(chromium(), "chromium is not installed: tools/deps test")
class InABrowser(PagesTest):
    def test_signing_in_and_out(self):
        rig = self.pipeline()
        tab = self.tab()
        tab.open(self.base + "/events?type=issue.*")
        tab.fill("input[name=token]", "wrong")
        tab.key("Enter")
        tab.sees("This token is unknown")
        tab.fill("input[name=token]", TOKEN)
        tab.key("Enter")
        tab.wait("document.querySelector('h1')?.textContent === 'Events'")
        self.assertEqual(tab.path(), "/events?type=issue.*")  # what was asked for
        cookie, = tab.cookies()
        self.assertEqual((cookie["httpOnly"], cookie["sameSite"]), (True, "Strict"))
        self.assertEqual(tab.js("document.cookie"), "")
        tab.click("button", "Sign out")
        tab.wait("location.pathname === '/sign-in'")
        self.assertEqual(self.call("GET", "/api/session", Cookie=f"{cookie['name']}={cookie['value']}")[0], 401)
        # A link needs no token, leaves no trace in the address, and works once.
        url = rig.cli("console", "link")[0]["url"]
        tab.open(url)
        tab.wait("document.querySelector('h1')?.textContent === 'Overview'")
        self.assertEqual(tab.path(), "/")
        other = self.tab()
        other.open(url)
        other.sees("This link was used")
        self.assertNotIn("link", other.path())
        # Only pages of this console come after it.
        other.open(self.base + "/sign-in?next=//evil.example/")
        other.fill("input[name=token]", TOKEN)
        other.key("Enter")
        other.wait("document.querySelector('.frame h1')")
        self.assertEqual(other.js("location.origin"), self.base)

    def test_a_page_brings_its_own_modules_and_the_others_come_later(self):
        self.pipeline()
        tab = self.signed_in("/jobs")
        tab.sees("No job")
        tab.wait("performance.getEntriesByType('resource').some((e) => e.name.endsWith('/page_tokens.js'))", "the last of the other pages")
        tab.ask("Network.clearBrowserCache")
        # What is blocked was not needed.
        tab.ask("Network.setBlockedURLs", urls=["*/page_event.js", "*/page_workspaces.js", "*/page_overview.js"])
        tab.requests.clear()
        tab.open(self.base + "/events")
        tab.sees("No event yet")
        self.assertEqual(len([u for u in tab.requests if u.endswith("/api/session")]), 1)
        named = tab.js("[...document.querySelectorAll('link[rel=modulepreload]')].map((l) => l.href.split('/').pop())")
        self.assertIn("page_events.js", named)
        self.assertNotIn("page_event.js", named)

        # Of a page whose module cannot be had, as when another version of the console runs by now.
        tab.click(".nav a", "Workspaces")
        tab.sees("The files of this page could not be loaded.")
        tab.click(".nav a", "Jobs")
        tab.sees("No job")
        tab.click(".nav a", "Workspaces")
        tab.sees("The files of this page could not be loaded.")
        tab.ask("Network.setBlockedURLs", urls=[])
        tab.click("main button", "Try again")
        tab.sees("No workspace yet")

    def test_each_role_sees_what_it_may_do(self):
        rig = self.pipeline()
        dead = self.send(rig, "contract.signed")
        late = self.send(rig, "report.made")
        letter, = self.dead(rig)
        wait_for(lambda: any(d["status"] == "retrying" for d in rig.deliveries(late)))
        viewer, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
        mine, _ = rig.cli("tokens", "create", "t", "--role", "workspace", "--workspace", "acme")
        _, code = rig.cli("endpoints", "create", "https://example.com/own", "--workspace", "acme")
        self.assertEqual(code, 0)
        acts = {"Pause…", "Test", "Retry…", "Resolve…", "Discard…", "Try now", "Abandon…", "Send again…", "New endpoint"}

        def buttons(tab, path, sees):
            tab.open(self.base + path)
            tab.sees(sees)
            return acts & {name for role, name, _ in tab.tree() if role == "button"}

        pages = [("/endpoints", "legal"), ("/endpoints/crm", "Deliveries"), (f"/events/{late}", "retrying"),
                 ("/dead-letters", "rejected"), (f"/dead-letters/{letter['id']}", "refused it")]
        tab = self.signed_in(token=viewer["token"])
        self.assertEqual([buttons(tab, *page) for page in pages], [set()] * 5)
        tab = self.signed_in()
        self.assertEqual(set().union(*(buttons(tab, *page) for page in pages)), acts)
        tab = self.signed_in(token=mine["token"])
        tab.wait("document.querySelector('h1')?.textContent === 'Events'")  # the overview is not for it
        self.assertEqual(tab.js("[...document.querySelectorAll('.nav a')].map((a) => a.textContent)"),
                         ["Events", "Dead letters", "Endpoints"])
        tab.sees("contract.signed")
        tab.open(self.base + "/endpoints")
        tab.sees("example.com/own")
        self.assertNotIn("legal", tab.text())
        tab.open(self.base + f"/dead-letters/{letter['id']}")
        tab.sees("There is no such thing")
        self.assertTrue(dead)

    def test_what_strangers_send_is_text_on_every_page(self):
        rig = self.pipeline()
        event = self.send(rig, "<b>" + HOSTILE, team="<i>" + HOSTILE, html=HOSTILE, control="\u0007\u001b[31m")
        letter, = self.dead(rig)
        wait_for(lambda: any(d["status"] == "delivered" for d in rig.deliveries(event)))
        tab = self.signed_in()
        for path, sees in [("/events", "<b><img"), (f"/events/{event}", "<b><img"), ("/endpoints/legal", "<b><img"),
                           ("/dead-letters", "rejected"), (f"/dead-letters/{letter['id']}", "onerror=hacked()"),
                           ("/", "What is wrong now"), ("/endpoints", "legal"), ("/audit", "Audit"),
                           ("/workspaces", "<i><img"), (f"/workspaces/{urllib.parse.quote('<i>' + HOSTILE, '')}", "<i><img"),
                           ("/events?type=" + "%3Cimg%20src=x%3E", "No event matches")]:
            with self.subTest(path):
                tab.open(self.base + path)
                tab.sees(sees)
                if path == f"/events/{event}":
                    tab.sees('"html"')  # its payload
                    tab.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                self.assertEqual(tab.js("document.querySelectorAll('img:not([src$=\"icon.svg\"]), b.x, body script, i > *').length"), 0)
                self.assertEqual(tab.js("typeof hacked"), "undefined")
                self.assertNotIn(RLO, tab.js("document.body.textContent") or "")
        self.assertFalse([u for u in tab.requests if not u.startswith(self.base)], tab.requests)
        # The payload as a download is not shown by the browser.
        cookie, _ = self.session()
        _, headers, _ = self.call("GET", f"/api/v1/events/{event}/payload", Cookie=cookie)
        self.assertIn("attachment", headers["Content-Disposition"])
        self.assertEqual(headers["Content-Type"], "application/octet-stream")

    def test_acts_on_events_and_dead_letters(self):
        rig = self.pipeline()
        good = self.send(rig, "issue.made")
        late = self.send(rig, "report.made")
        for n in range(4):
            self.send(rig, "contract.signed", n=n)
        letters = self.dead(rig, 4)
        tab = self.signed_in(f"/events/{good}")
        tab.click("button", "Send again…")
        tab.click("dialog button", "Send again")
        tab.sees("It is sent again.")
        wait_for(lambda: len(rig.receiver.requests(path="/crm", event=good)) > 1)
        tab.open(f"{self.base}/events/{late}")
        before = len(rig.receiver.requests(path="/slow"))
        tab.click("button", "Try now")
        wait_for(lambda: len(rig.receiver.requests(path="/slow")) > before)
        tab.click("button", "Abandon…")
        tab.fill("dialog textarea", "slow is gone")
        tab.click("dialog button", "Abandon")
        tab.sees("It is abandoned.")
        letters = {d["id"]: d for d in self.dead(rig, 5)}
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 200}]},
                           {"path": "/slow", "responses": [{"status": 503}]})
        of_legal = [i for i, d in letters.items() if d["endpoint"] == "legal"]

        def decide(letter, button, note, said):
            tab.open(f"{self.base}/dead-letters/{letter}")
            tab.click(".head button", button)
            if note:
                tab.fill("dialog textarea", note)
            tab.click("dialog button.main")
            tab.sees(said)
        decide(of_legal[0], "Retry…", None, "It is tried again.")
        decide(of_legal[1], "Resolve…", "by <b>hand</b>", "It is resolved.")
        tab.sees("by <b>hand</b>")
        decide(next(i for i, d in letters.items() if d["endpoint"] == "slow"), "Discard…", "a test", "It is discarded.")
        # Many at once: counted first, then a job.
        tab.open(f"{self.base}/dead-letters?reason=rejected")
        tab.sees("All that match")
        tab.click("button", "Retry…")
        tab.sees("Retry 2 dead letters?")
        tab.click("dialog button.main")
        tab.sees("2 done")
        tab.click("dialog button", "Close")
        wait_for(lambda: rig.ask("dlqd", "dlq_stats")["recovered"] == 3)
        tab.open(f"{self.base}/dead-letters")
        tab.sees("No dead letter needs a decision")
        rig.settle()

    def test_a_click_is_not_lost_when_the_page_is_read_again_meanwhile(self):
        rig = self.pipeline()
        late = self.send(rig, "report.made")
        tab = self.signed_in(f"/events/{late}")
        for _ in range(10):
            rig["sequencer"].pause()
            tab.click("button", "Try now")
            release, pressed = tab.press("button", "Abandon…"), time.monotonic()
            tab.js("performance.clearResourceTimings()")
            rig["sequencer"].resume()
            tab.sees("An attempt is made now.")
            tab.wait(f"performance.getEntriesByType('resource').some((e) => e.name.endsWith('/events/{late}'))",
                     "the event, read again")
            tab.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            release()
            if time.monotonic() - pressed < LONGEST_PRESS_S:
                break
            # A page does not wait longer, and the machine was slow: once more.
            tab.open(f"{self.base}/events/{late}")
        tab.fill("dialog textarea", "slow is gone")
        tab.click("dialog button", "Abandon")
        tab.sees("It is abandoned.")

    def test_a_press_right_after_a_click_counts_as_one(self):
        self.pipeline()
        tab = self.signed_in("/")
        pending = tab.js("""(async () => {
            const url = performance.getEntriesByType("resource").find((e) => e.name.includes("pointer")).name;
            const { released } = await import(url);
            const say = (what) => document.body.dispatchEvent(new PointerEvent(what, { bubbles: true }));
            let told = false;
            say("pointerdown"); say("pointerup");
            const waits = released().then(() => { told = true; });
            say("pointerdown");
            await new Promise((done) => setTimeout(done, 50));
            const before = told;
            say("pointerup");
            await waits;
            return before;
        })()""")
        self.assertIs(pending, False)

    def test_acts_on_endpoints(self):
        rig = self.pipeline()
        tab = self.signed_in("/endpoints/crm")
        tab.click("button", "Pause…")
        tab.click("dialog button", "Pause")
        tab.wait("document.querySelector('.head .badge')?.textContent === 'paused'")
        waits = self.send(rig, "issue.waits")
        tab.click("button", "Resume")
        tab.wait("document.querySelector('.head .badge')?.textContent === 'active'")
        rig.wait_status(waits)
        tab.click("button", "Test")
        tab.sees("The endpoint accepted it.")
        tab.key("Escape")
        tab.open(self.base + "/endpoints")
        tab.click("button", "New endpoint")
        tab.fill("dialog [name=url]", "http://127.0.0.1:1/x")
        tab.fill("dialog [name=description]", "made <here>")
        tab.fill("dialog [name=rest]", '{"allow_private": true, "max_in_flight": "x"}')
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]:not([hidden])')", "the error of a wrong setting")
        tab.js("document.querySelector('dialog [name=rest]').value = '{\"allow_private\": true}'")
        tab.click("dialog button.main")
        tab.sees("whsec_")
        tab.click("dialog button", "I have stored it")
        tab.sees("made <here>")
        name = tab.path().split("/")[-1]
        tab.click("button", "Change…")
        tab.fill("dialog [name=types]", "invoice.*")
        with self.shown_anew(tab):
            tab.click("dialog button.main")
        tab.sees("It is changed.")
        endpoint = rig.ask("sequencer", "endpoint", name=name)
        self.assertEqual((endpoint["settings"]["types"], endpoint["settings"]["allow_private"]), (["invoice.*"], True))
        tab.click("button", "New secret…")
        tab.click("dialog button.main")
        tab.sees("whsec_")
        with self.shown_anew(tab):
            tab.click("dialog button", "I have stored it")
        # Somebody else changes it meanwhile: nothing is lost.
        tab.click("button", "Change…")
        tab.fill("dialog [name=types]", "other.*")
        rig.ask("sequencer", "endpoint_change", name=name, types=["third.*"])
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]:not([hidden])')")
        tab.key("Escape")
        self.assertEqual(rig.ask("sequencer", "endpoint", name=name)["settings"]["types"], ["third.*"])
        tab.open(f"{self.base}/endpoints/{name}")
        tab.click("button", "Delete…")
        tab.click("dialog button.main")
        tab.wait("location.pathname === '/endpoints'")
        self.assertEqual(rig.ask("sequencer", "endpoint", name=name)["state"], "removed")

    def test_a_sequence_is_drawn_with_its_gap_and_the_gap_is_closed(self):
        rig = self.pipeline()
        for seq in (1, 2, 5):
            self.send(rig, "issue.counted", source="ledger", seq=seq)
        wait_for(lambda: [w["buffered"] for w in rig.ask("sequencer", "workspaces")["workspaces"]] == [1])
        tab = self.signed_in("/workspaces")
        tab.click("tbody a", "acme")
        tab.sees("Numbers of ledger")
        cells = "[...document.querySelectorAll('rect%s title')].map((t) => t.textContent)"
        self.assertEqual(tab.js(cells % ".missing"), ["3: missing", "4: missing"])
        self.assertIn("5: buffered (issue.counted)", tab.js(cells % ".warn"))
        tab.click("button", "Close…")
        tab.fill("dialog textarea", "they were test events")
        tab.click("dialog button.main")
        tab.sees("It is closed.")
        tab.sees("they were test events")
        self.assertEqual(rig.ask("sequencer", "workspace", workspace="acme")["buffered"], 0)
        rig.settle()

    def test_refused_requests_alerts_jobs_tokens_and_the_audit(self):
        rig = self.pipeline()
        rig.post(b"<b>" + HOSTILE.encode(), source="any", headers={"X-Sig": "00", "X-Odd": "<i>odd</i>"})
        for _ in range(12):
            self.send(rig, "contract.signed")
        self.dead(rig, 12)
        tab = self.signed_in("/rejects")
        tab.click("tbody a")
        tab.sees("<b><img")
        tab.sees("<i>odd</i>")
        tab.open(self.base + "/alerts")
        tab.click("button", "Silence…")
        tab.click("dialog button.main")
        tab.sees("It is silenced.")
        self.assertEqual(len(rig.ask("console", "silences")["silences"]), 1)
        tab.click("button", "End the silence")
        tab.sees("It is no longer silenced.")
        # A job that takes long is cancelled.
        rig.ask("dlqd", "dlq_bulk", action="discard", note="a test", rate=1)
        tab.open(self.base + "/jobs")
        tab.click("button", "Cancel…")
        tab.click("dialog button.main")
        tab.sees("It is cancelled.")
        self.assertEqual(rig.ask("dlqd", "jobs")["jobs"][0]["state"], "cancelled")
        tab.open(self.base + "/tokens")
        tab.click(".head button", "New token")
        tab.fill("dialog [name=name]", "of-a-page")
        tab.click("dialog button.main")
        tab.sees("grp_")
        token = tab.js("document.querySelector('dialog pre').textContent")
        self.assertEqual(self.call("GET", "/api/v1/endpoints", Authorization=f"Bearer {token}")[0], 200)
        tab.click("dialog button", "I have stored it")
        tab.click("button", "Revoke…")
        tab.click("dialog button.main")
        tab.sees("It is revoked.")
        wait_for(lambda: self.call("GET", "/api/v1/endpoints", Authorization=f"Bearer {token}")[0] == 401)
        tab.open(self.base + "/audit")
        tab.sees("token revoke")
        tab.click("button", "Verify")
        tab.sees("are whole")
        # Somebody who may not read it is told so.
        viewer, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
        other = self.signed_in("/jobs", token=viewer["token"])
        other.sees("discard")
        self.assertNotIn("Cancel…", other.text())
        self.assertNotIn("Tokens", other.text())
        other.open(self.base + "/tokens")
        other.sees("This page needs another role")

    def test_names_and_messages_stay_as_they_are(self):
        """Also those with an underscore, which is a space in the API's words."""
        rig = self.pipeline()
        made = self.call("POST", "/api/v1/endpoints", {
            "url": rig.receiver.url("/legal"), "allow_private": True, "types": ["contract.*"]},
            Authorization=f"Bearer {TOKEN}")[2]["name"]
        self.send(rig, "contract.signed")
        self.dead(rig, 2)
        tab = self.signed_in("/dead-letters")
        tab.sees("By endpoint")
        tab.click(".troubles button", made)
        tab.wait(f"new URLSearchParams(location.search).get('endpoint') === '{made}'")
        operator, _ = rig.cli("tokens", "create", "ops_eu", "--role", "operator")
        pause = lambda name: self.call("POST", f"/api/v1/endpoints/{name}/pause", {},
                                       Authorization=f"Bearer {operator['token']}")
        self.assertEqual((pause("no_such_hook")[0], pause(made)[0]), (404, 200))
        for path, message in (("/audit", "no_such_hook"), ("/", "by token ops_eu"),
                              (f"/endpoints/{made}", "by token ops_eu"),
                              ("/system/sequencer", "by token ops_eu")):
            with self.subTest(path):
                tab.open(self.base + path)
                tab.sees(message)
        tab.open(self.base + "/audit")
        outcome = next(r["outcome"] for r in rig.ask("sequencer", "audit")["audit"]
                       if "no_such_hook" in r["outcome"])
        tab.wait(f"[...document.querySelectorAll('.badge')].some((b) => b.textContent === {json.dumps(outcome)})")

    def test_only_by_keyboard_and_with_names_for_a_screen_reader(self):
        rig = self.pipeline()
        events = [self.send(rig, f"issue.n{n}") for n in range(3)]
        for event in events:
            rig.wait_status(event)
        tab = self.signed_in("/events")
        tab.sees("issue.n2")
        tab.key("?")
        tab.sees("next row")
        tab.key("Escape")
        tab.wait("!document.querySelector('dialog')")
        for key in "jjk":
            tab.key(key)
        self.assertIn("issue.n2", tab.js("document.activeElement.textContent"))
        tab.key("Enter")
        tab.wait(f"location.pathname === '/events/{events[2]}'")
        tab.open(self.base + "/events")
        tab.sees("issue.n2")
        tab.key("/")
        tab.write(events[0])
        tab.key("Enter")
        tab.wait(f"location.pathname === '/events/{events[0]}'")
        for path in PAGES + [f"/events/{events[0]}", "/endpoints/crm", "/sign-in"]:
            with self.subTest(path):
                tab.open(self.base + path)
                tab.wait("document.querySelector('h1')")
                rows = tab.tree()
                nameless = [(role, properties) for role, name, properties in rows
                            if role in ("button", "link", "textbox", "searchbox", "combobox", "image", "dialog",
                                        "checkbox", "table") and not name and role != "table"]
                self.assertEqual(nameless, [])
                self.assertEqual(sum(role == "heading" and p.get("level") == 1 for role, _, p in rows), 1, rows)
                self.assertEqual(sum(role == "main" for role, _, _ in rows), 1)

    def test_the_list_of_events_follows_them_live(self):
        rig = self.pipeline()
        self.send(rig, "issue.first")
        tab = self.signed_in("/events?live=1")
        tab.sees("issue.first")
        tab.sees("● Live")
        event = self.send(rig, "issue.second")
        tab.sees("issue.second")
        tab.wait("document.querySelector('tbody tr .badge')?.textContent === 'done'")
        tab.click("button", "Live")
        self.assertNotIn("live", tab.path())
        rig.wait_status(event)

    def test_a_process_that_is_killed_is_named_and_the_page_heals(self):
        rig = self.pipeline()
        tab = self.signed_in("/")
        tab.sees("no alert fires")
        rig.kill("sequencer")
        tab.sees("sequencer does not run")
        rig.start("sequencer")
        tab.sees("no alert fires")
        # The console itself: what was there stays; its sessions end with it.
        rig.kill("console")
        tab.sees("The console does not respond since")
        self.assertIn("Accepted", tab.text())
        rig.start("console")
        tab.sees("Your session has ended")
        tab.problems.clear()


if __name__ == "__main__":
    main(at_once=2)
