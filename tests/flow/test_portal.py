"""The portal: one workspace's pages for a customer's own users: links that work once, tokens that reach nothing but
their workspace, frames, the pages in a browser, and the example of docs/CONSOLE.md."""

import base64
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import chromium
from rig import main, wait_for
from test_pages import HOSTILE, RLO, TOKEN, PagesTest

ROOT = pathlib.Path(__file__).parents[2]
MANY = {"requests": "1000/s", "changes": "1000/s", "tests": "1000/s", "streams": 8}


class PortalTest(PagesTest):
    def portal(self, **portal):
        """The pipeline, with an endpoint of acme that delivers, one that refuses, and the same of bravo."""
        rig = self.pipeline(tenants=MANY, console={"tokens": [TOKEN], "portal": {"name": "Acme hooks", **portal}})
        rig.receiver.rules(*({"path": f"/{w}-no", "responses": [{"status": 400, "body": HOSTILE}]} for w in ("acme", "bravo")))
        self.own = {w: {kind: rig.ask("sequencer", "endpoint_create", workspaces=[w], allow_private=True, guard="off",
                                      description=f"{w} {kind}", url=rig.receiver.url(f"/{w}-{kind}"),
                                      types=["issue.*", "<*"] if kind == "yes" else ["contract.*", "<*"])["name"]
                        for kind in ("yes", "no")} for w in ("acme", "bravo")}
        return rig

    def link(self, workspace="acme", **args):
        status, _, document = self.call("POST", f"/api/v1/workspaces/{workspace}/portal-link", args,
                                        Authorization=f"Bearer {TOKEN}")
        self.assertEqual(status, 200, document)
        return document["url"]

    def enter(self, url, **headers):
        return self.call("POST", "/api/portal", {"link": url.split("#link=")[1]}, **headers)

    def token(self, workspace="acme", **args):
        status, headers, document = self.enter(self.link(workspace, **args))
        self.assertEqual(status, 200, document)
        self.assertNotIn("Set-Cookie", headers)
        return {"Authorization": f"Bearer {document['token']}"}

    def opened(self, path="", workspace="acme", languages="en", **how):
        """A tab with the portal, without a frame."""
        args = how.pop("args", {})
        tab = self.tab(**how)
        tab.ask("Emulation.setUserAgentOverride", userAgent="test", acceptLanguage=languages)
        tab.open(self.link(workspace, **args).replace("/portal#", f"/portal{path}#"))
        tab.wait("document.querySelector('.portal .page :is(h1, .state)')", "a page")
        return tab

    def go(self, tab, path):
        """Another part of the portal, as a link in it does: the address alone would open nothing."""
        tab.js(f"history.pushState(null, '', '/portal{path}'); dispatchEvent(new PopStateEvent('popstate'))")


class Links(PortalTest):
    def test_a_link_works_once_and_nothing_of_it_is_stored(self):
        rig = self.portal()
        made, code = rig.cli("portal", "link", "acme", "--user", "anna", "--read-only")
        self.assertEqual(code, 0)
        self.assertTrue(made["url"].startswith(f"{self.base}/portal#link="), made)
        secret = made["url"].split("#link=")[1]
        status, headers, document = self.enter(made["url"])
        self.assertEqual((status, document["workspace"], document["read_only"], document["expires_in"]),
                         (200, "acme", True, 900))
        self.assertEqual(headers["Cache-Control"], "no-store")
        status, _, again = self.enter(made["url"])
        self.assertEqual((status, again["error"]["code"]), (401, "unauthorized"))
        rows = str(rig.rows("console", "SELECT * FROM audit WHERE command = 'portal_link'"))
        self.assertIn("acme", rows)
        for hidden in (secret, document["token"]):
            self.assertNotIn(hidden, rows)
            self.assertNotIn(hidden, rig["console"].log())
        self.assertIn("portal anna", rig["console"].log())
        # A repeat with the same key shows no secret.
        ask = ("POST", "/api/v1/workspaces/acme/portal-link", {})
        key = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "k1"}
        self.assertIsNotNone(self.call(*ask, **key)[2]["url"])
        self.assertIsNone(self.call(*ask, **key)[2]["url"])
        for role, status in (("viewer", 403), ("operator", 200)):
            token = rig.cli("tokens", "create", role, "--role", role)[0]["token"]
            self.assertEqual(self.call(*ask, Authorization=f"Bearer {token}")[0], status)
        for workspace, body in (("*", {}), ("grapnel", {}), ("a" * 600, {}), ("acme", {"user": "x" * 101}),
                                ("acme", {"user": "ä" * 60}), ("acme", {"user": "a\nb"}), ("acme", {"role": "x"})):
            self.assertEqual(self.call("POST", f"/api/v1/workspaces/{workspace}/portal-link", body,
                                       Authorization=f"Bearer {TOKEN}")[0], 400, (workspace, body))

    def test_an_exchange_needs_our_page_and_a_link(self):
        self.portal()
        url = self.link()
        for sent in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
                     {"Origin": "null"}):
            self.assertEqual(self.enter(url, **sent)[2]["error"]["code"], "cross_site")
        self.assertEqual(self.enter(url, Content_Type="text/plain")[0], 415)
        for body in ({}, {"link": ""}, {"link": 1}, {"link": "x" * 600}, {"link": "x", "token": "y"}, {"token": TOKEN}):
            self.assertEqual(self.call("POST", "/api/portal", body)[0], 400, body)
        # Wrong links are not counted: nobody guesses them, and many users may have one proxy's address.
        for n in range(25):
            self.assertEqual(self.call("POST", "/api/portal", {"link": f"{n:064x}"})[0], 401)
        self.assertEqual(self.enter(url, Origin=self.base)[0], 200)
        self.assertEqual(self.call("PUT", "/api/portal", {})[0], 405)
        status, _, about = self.call("GET", "/api/portal")
        self.assertEqual((status, about["name"], about["origins"]), (200, "Acme hooks", []))

    def test_a_token_reaches_only_its_workspace_and_needs_no_cookie(self):
        rig = self.portal()
        mine, theirs = self.token(), self.token("bravo")
        event = self.send(rig, "issue.made", team="bravo")
        wait_for(lambda: any(d["endpoint"] == self.own["bravo"]["yes"] and d["status"] == "delivered" for d in rig.deliveries(event)))
        for path in (f"/events/{event}", f"/events/{event}/payload", f"/endpoints/{self.own['bravo']['yes']}",
                     f"/attempts/{event}.{self.own['bravo']['yes']}.1", "/endpoints/crm", "/workspaces/bravo"):
            self.assertEqual(self.call("GET", f"/api/v1{path}", **theirs)[0], 404 if "crm" in path else 200, path)
            self.assertEqual(self.call("GET", f"/api/v1{path}", **mine)[0], 404, path)
        for path in ("/tokens", "/audit", "/workspaces", "/series?names=x", "/jobs", "/rejects"):
            self.assertEqual(self.call("GET", f"/api/v1{path}", **mine)[0], 403, path)
        self.assertEqual(self.call("POST", "/api/v1/workspaces/acme/portal-link", {}, **mine)[0], 403)
        self.assertEqual(self.call("POST", f"/api/v1/pull/{self.own['acme']['yes']}/take", {}, **mine)[0], 403)
        # It is no session, and begins none; a session's cookie does not reach the portal.
        token = mine["Authorization"][7:]
        self.assertEqual(self.call("POST", "/api/session", {"token": token})[0], 401)
        self.assertEqual(self.call("GET", "/api/session", **mine)[0], 409)
        self.assertEqual(self.call("GET", "/api/alerts", **mine)[0], 401)
        cookie, csrf = self.session()
        self.assertEqual(self.call("DELETE", "/api/portal", Cookie=cookie, Grapnel_Csrf=csrf)[0], 401)
        self.assertEqual(self.call("DELETE", "/api/portal", Authorization=f"Bearer {TOKEN}")[0], 409)
        status, _, document = self.call("GET", "/api/v1/endpoints", Cookie=cookie, **mine)
        self.assertEqual(status, 200)
        self.assertEqual({e["name"] for e in document["items"]}, set(self.own["acme"].values()))
        self.assertEqual(self.call("GET", f"/api/v1/endpoints?token={token}")[0], 401)
        # What it may not set.
        for body in ({"allow_private": True}, {"allowed_ports": [22]}, {"tls": {"ca": "x"}}, {"headers": {"webhook-id": "1"}}):
            self.assertEqual(self.call("POST", "/api/v1/endpoints", {"url": "https://example.com/", **body}, **mine)[0], 400, body)
        # Histories name the user.
        named = self.token(user="anna")
        name = self.call("POST", "/api/v1/endpoints", {"url": "https://example.com/x", "types": ["none"]}, **named)[2]["name"]
        self.assertEqual(rig.ask("sequencer", "endpoint", name=name)["created_by"], "portal anna")
        # Only to read.
        reads = self.token(read_only=True)
        self.assertEqual(self.call("GET", "/api/v1/endpoints", **reads)[0], 200)
        for method, path, body in (("POST", f"/endpoints/{name}/pause", {}), ("POST", "/endpoints", {"url": "https://example.com/"}),
                                   ("DELETE", f"/endpoints/{name}", None)):
            self.assertEqual(self.call(method, f"/api/v1{path}", body, If_Match="*", **reads)[0], 403, path)
        # A list goes on with a renewed token.
        page = self.call("GET", "/api/v1/endpoints?limit=1", **self.token(user="bob"))[2]
        renewed = self.token(user="bob")
        self.assertEqual(self.call("GET", f"/api/v1/endpoints?limit=1&cursor={page['next_cursor']}", **renewed)[0], 200)
        self.assertEqual(self.call("GET", f"/api/v1/endpoints?limit=1&cursor={page['next_cursor']}", **theirs)[0], 400)

    def stream(self, token):
        c = http.client.HTTPConnection(self.base[7:], timeout=15)
        self.addCleanup(c.close)
        c.request("GET", "/api/v1/stream", headers=token)
        response = c.getresponse()
        self.assertEqual(response.status, 200)
        self.assertIn(b"retry", response.read1(1000))
        return response

    def ends(self, stream):
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            while stream.read1(1000):  # until the console closes the connection; a timeout fails
                pass

    def test_tokens_end_with_their_page_their_workspace_and_the_console(self):
        rig = self.portal()
        rig.wait_status(self.send(rig, "issue.made"))
        first, second, theirs = self.token(), self.token(), self.token("bravo")
        unused = self.link()
        streams = [self.stream(t) for t in (first, second)]
        rig["console"].reload()
        self.assertEqual(self.call("GET", "/api/v1/events", **first)[0], 200)
        # Its page leaves.
        self.assertEqual(self.call("DELETE", "/api/portal", **first)[0], 200)
        self.ends(streams[0])
        self.assertEqual(self.call("GET", "/api/v1/events", **first)[0], 401)
        self.assertEqual(self.call("GET", "/api/v1/events", **second)[0], 200)
        # Its workspace is erased.
        rig.cli("workspaces", "erase", "acme")
        self.ends(streams[1])
        self.assertEqual(self.call("GET", "/api/v1/events", **second)[0], 401)
        self.assertEqual(self.enter(unused)[0], 401)
        status, _, document = self.call("POST", "/api/v1/workspaces/acme/portal-link", {}, Authorization=f"Bearer {TOKEN}")
        self.assertEqual((status, document["error"]["code"]), (409, "refused"))
        self.assertEqual(self.call("GET", "/api/v1/endpoints", **theirs)[0], 200)
        # A workspace has so many tokens; those of others stay.
        first = self.token("charlie")
        for _ in range(64):
            last = self.token("charlie")
        self.assertEqual(self.call("GET", "/api/v1/endpoints", **first)[0], 401)
        for token in (last, theirs):
            self.assertEqual(self.call("GET", "/api/v1/endpoints", **token)[0], 200)
        link = self.link("bravo")
        rig["console"].restart()
        self.assertEqual(self.call("GET", "/api/v1/endpoints", **theirs)[0], 401)
        self.assertEqual(self.enter(link)[0], 401)

    def test_only_the_portal_may_be_in_a_frame_and_only_of_configured_origins(self):
        rig = self.portal(origins=["https://app.example.com", "http://localhost:3000"], url="https://hooks.example.com")
        self.assertRegex(self.link(), r"^https://hooks\.example\.com/portal#link=[0-9a-f]{64}$")
        for path in ("/portal", "/portal/", "/portal/events/evt_x"):
            status, headers, _ = self.call("GET", path)
            self.assertEqual((status, headers["X-Frame-Options"], headers["Cache-Control"]), (200, None, "no-store"))
            policy = headers["Content-Security-Policy"]
            self.assertIn("frame-ancestors https://app.example.com http://localhost:3000", policy)
            self.assertIn("require-trusted-types-for 'script'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        text = self.call("GET", "/portal")[2].decode()
        files = re.findall(r'(?:src|href)="(/pages/[^"]*)"', text)
        self.assertIn("page_events.js", str(files))
        self.assertNotIn("page_overview.js", str(files))
        for path in ("/", "/events", "/sign-in", "/portalx", *files[:3]):
            _, headers, _ = self.call("GET", path)
            self.assertNotIn("app.example.com", headers["Content-Security-Policy"] or "", path)
            if path != "/portalx":
                self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
        rig.config["console"]["portal"] = {}
        rig.write_config()
        rig["console"].reload()
        wait_for(lambda: "frame-ancestors 'none'" in self.call("GET", "/portal")[1]["Content-Security-Policy"])
        self.assertEqual(self.call("GET", "/portal")[1]["X-Frame-Options"], "DENY")
        for portal in ({"origins": ["https://app.example.com/"]}, {"origins": ["http://app.example.com"]}, {"origins": ["*"]},
                       {"origins": ["https://*.example.com"]}, {"origins": ["https://a.example; script-src *"]},
                       {"origins": ["https://App.example.com"]}, {"origins": ["https://app.example.com:443"]},
                       {"origins": ["http://localhost.evil.example"]}, {"origins": ["null"]}, {"origins": ["https://a@b.example"]},
                       {"origins": [f"https://h{n}.example.com" for n in range(300)]},
                       {"colour": "red"}, {"colour": "#12345"}, {"colour": "#1234567"}, {"url": "https://a.example/x"}, {"name": "x" * 61}):
            rig.config["console"]["portal"] = portal
            rig.write_config()
            self.assertNotEqual(rig.cli("check")[1], 0, portal)


class Site:
    """A site of another origin than the console, with pages of its own. `links` makes the URL of the next link."""

    def __init__(self, test):
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send("text/html", site.pages.get(self.path, "<title>empty</title>"))

            def do_POST(self):
                self.send("application/json", json.dumps({"url": site.links()}))

            def send(self, kind, text):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.pages, self.links = {}, None
        self.server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        self.origin = f"http://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)


def example(kind):
    """The example of docs/CONSOLE.md in this language."""
    text = (ROOT / "docs" / "CONSOLE.md").read_text().split("## Embed the portal")[1]
    return re.search(rf"```{kind}\n(.*?)```", text, re.S)[1]


# What a page around the portal says to it, and hears from it.
HOST = """<!DOCTYPE html><title>host</title><style>iframe { width: 100%; height: 90vh }</style>
<iframe title="portal" src="CONSOLE/portal"></iframe>
<script>window.heard = []; addEventListener("message", (e) => heard.push([e.origin, e.data]));
const say = (link, to) => document.querySelector("iframe").contentWindow.postMessage({ grapnel: "portal", link }, to);
</script>"""
LATER = "(() => { const now = Date.now.bind(Date); Date.now = () => now() + %d * 1000; })()"


@unittest.skipUnless(chromium(), "chromium is not installed: tools/deps test")
class InABrowser(PortalTest):
    def test_a_link_opens_it_once_and_leaves_no_trace(self):
        rig = self.portal(colour="#ffd400")
        event = self.send(rig, "issue.made")
        rig.wait_status(event)
        url = self.link(user="anna")
        tab = self.tab()
        # The cookie of an operator in the same browser is not used.
        tab.open(self.base + "/")
        tab.fill("input[name=token]", TOKEN)
        tab.key("Enter")
        tab.wait("document.querySelector('.frame h1')")
        tab.sent.clear()
        tab.open(url)
        tab.sees("issue.made")
        self.assertEqual(tab.path(), "/portal")
        self.assertEqual(tab.js("document.title"), "Events · Acme hooks")
        self.assertEqual(tab.js("document.documentElement.lang"), "en")
        sent = [h for h in tab.sent if "authorization" in h]
        self.assertTrue(sent)
        self.assertFalse([h for h in sent if "cookie" in h])
        token = sent[0]["authorization"][7:]
        self.assertTrue(token.startswith("grpp_"))
        self.assertFalse([u for u in tab.requests if token in u or url.split("=")[1] in u.split("#")[0]])
        self.assertEqual(tab.js("[localStorage.length, sessionStorage.length, document.cookie]"), [0, 0, ""])
        self.assertFalse([c for c in tab.cookies() if token in c["value"]])
        # Its parts are addresses of their own, and the address alone opens nothing.
        tab.click("tbody a", "issue.made")
        tab.wait(f"location.pathname === '/portal/events/{event}'")
        tab.sees("Its life")
        tab.js("history.back()")
        tab.wait("document.querySelector('h1')?.textContent === 'Events'")
        tab.open(f"{self.base}/portal/events/{event}")
        tab.sees("This page needs a link.")
        self.assertNotIn("issue.made", tab.text())
        # The same link again, and one for another part.
        other = self.tab()
        other.open(url)
        other.sees("This link was used, or has expired")
        self.assertEqual((other.path(), other.cookies()), ("/portal", []))
        other.js("location.hash = " + json.dumps(self.link().split("#")[1]))
        other.sees("issue.made")
        # The text on the colour can be read, and so can links.
        self.assertEqual(tab.js("getComputedStyle(document.documentElement).getPropertyValue('--on-brand')"), "#000000")
        brand = tab.js("document.querySelector('script').src.replace('portal.js', 'brand.js')")
        self.assertEqual(tab.js(f"""(async () => {{
            const {{contrast, readable, SURFACES, textOn}} = await import({json.dumps(brand)});
            const bad = [];
            for (let i = 0; i < 4096; i++) {{
                const c = "#" + [i >> 8, (i >> 4) & 15, i & 15].map((v) => (v * 17).toString(16).padStart(2, "0")).join("");
                for (const [surface, own] of [["light", "#ffffff"], ["light", "#eef1f6"], ["dark", "#171b21"], ["dark", "#222934"]])
                    if (contrast(readable(c, SURFACES[surface]), own) < 4.5) bad.push([c, own]);
                if (contrast(textOn(c), c) < 4.5) bad.push(c);
            }}
            return bad; }})()"""), [])

    def test_the_example_of_the_document_works_and_is_renewed(self):
        rig = self.portal()
        site = Site(self)
        port = site.server.server_port
        site.server.shutdown()
        site.server.server_close()
        rig.config["console"]["portal"]["origins"] = [site.origin]
        rig.write_config()
        rig["console"].reload()
        (rig.folder / "page.html").write_text(example("html"))
        (rig.folder / "site.py").write_text(example("python"))
        token = rig.cli("tokens", "create", "site", "--role", "operator")[0]["token"]
        process = subprocess.Popen([sys.executable, "site.py"], cwd=rig.folder, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "CONSOLE": self.base, "TOKEN": token, "PORT": str(port)})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        rig.wait_status(self.send(rig, "issue.made"))

        def answers():
            with contextlib.suppress(OSError):
                c = http.client.HTTPConnection("localhost", port, timeout=5)
                c.request("GET", "/")
                return c.getresponse().status == 200
        wait_for(answers, what="the site")
        tab = self.tab()
        tab.open(site.origin + "/")
        frame = tab.frame(self.base)
        frame.sees("issue.made")
        self.assertEqual((frame.path(), frame.js("document.cookie"), frame.cookies()), ("/portal", "", []))
        frame.click(".nav a", "Endpoints")
        frame.sees("acme yes")
        opened = rig["console"].log().count("the portal is opened")
        first = next(h["authorization"] for h in frame.sent if "authorization" in h)
        # A minute before the end the frame asks, and goes on where it was.
        frame.js("document.querySelector('h1').dataset.old = ''")
        frame.js(LATER % 850)
        wait_for(lambda: rig["console"].log().count("the portal is opened") == opened + 1, what="the renewal")
        wait_for(lambda: self.call("GET", "/api/v1/endpoints", Authorization=first)[0] == 401, what="the end of the first token")
        frame.click(".nav a", "Dead letters")
        frame.sees("No dead letter needs a decision")
        # The console restarts: the page asks again by itself.
        rig["console"].restart()
        frame.click(".nav a", "Events")
        frame.sees("issue.made")
        self.assertEqual(rig["console"].log().count("portal anna"), opened + 2)
        tab.problems.clear()  # requests while the console was away

    def test_frames_of_other_origins_and_their_messages(self):
        rig = self.portal()
        good, evil = Site(self), Site(self)
        rig.config["console"]["portal"]["origins"] = [good.origin]
        rig.write_config()
        rig["console"].reload()
        rig.wait_status(self.send(rig, "issue.made"))
        for site in (good, evil):
            site.pages["/"] = HOST.replace("CONSOLE", self.base)
        evil.pages["/sends"] = "<script>addEventListener('message', (e) => parent.frames[0].postMessage(e.data, '*'))</script>"
        # The browser shows nothing of it in a page of another origin, and says so.
        tab = self.tab()
        tab.open(evil.origin + "/")
        wait_for(lambda: any("frame-ancestors" in p for p in tab.js("1") and tab.problems), what="the violation")
        tab.problems.clear()
        self.assertEqual(tab.js("heard"), [])
        # Nor any other page in one of ours.
        good.pages["/console"] = HOST.replace("CONSOLE/portal", self.base + "/events")
        tab.open(good.origin + "/console")
        wait_for(lambda: any("frame-ancestors" in p for p in tab.js("1") and tab.problems), what="the violation")
        tab.problems.clear()
        # In a page of ours: it asks, and takes a link only from there.
        tab.open(good.origin + "/")
        tab.wait("heard.length")
        self.assertEqual(tab.js("heard[0]"), [self.base, {"grapnel": "portal", "want": "link"}])
        frame = tab.frame(self.base)
        theirs = self.link("bravo")
        tab.js(f"""new Promise((done) => {{
            const f = document.createElement("iframe");
            f.src = {json.dumps(evil.origin + "/sends")};
            f.onload = () => {{ f.contentWindow.postMessage({{ grapnel: "portal", link: {json.dumps(theirs)} }}, "*"); setTimeout(done, 300); }};
            document.body.append(f);
        }})""")
        for wrong in ("null", "{}", "'x'", "{grapnel: 'portal', link: 7}", "{grapnel: 'portal', link: 'javascript:alert(1)'}",
                      "{grapnel: 'other', link: %s}" % json.dumps(theirs)):
            tab.js(f"document.querySelector('iframe').contentWindow.postMessage({wrong}, '*')")
        url = self.link()
        tab.js(f"say({json.dumps(url)}, {json.dumps(self.base)})")
        frame.sees("issue.made")
        # What it has not asked for is not taken either.
        tab.js(f"say({json.dumps(theirs)}, {json.dumps(self.base)})")
        frame.click(".nav a", "Endpoints")
        frame.sees("acme yes")
        self.assertEqual(self.enter(theirs)[0], 200)  # nobody has used it

    def test_without_a_frame_its_end_is_announced_and_clear(self):
        rig = self.portal()
        rig.wait_status(self.send(rig, "issue.made"))
        tab = self.opened()
        tab.sees("issue.made")
        tab.js(LATER % 850)
        tab.sees("ask for a new link")
        self.assertIn("issue.made", tab.text())
        tab.js(LATER % 60)
        tab.sees("This page has ended.")
        self.assertNotIn("issue.made", tab.text())
        tab.js("location.hash = " + json.dumps(self.link().split("#")[1]))
        tab.sees("issue.made")
        # An erased workspace ends it at once.
        rig.cli("workspaces", "erase", "acme")
        tab.click(".nav a", "Endpoints")
        tab.sees("This page has ended.")

    def test_it_says_at_once_that_its_token_has_ended(self):
        rig = self.portal()
        rig.wait_status(self.send(rig, "issue.made"))
        tab = self.opened("/events?live=1")
        tab.sees("● Live")
        tab.sees("issue.made")
        token = next(h["authorization"] for h in tab.sent if "authorization" in h)
        self.assertEqual(self.call("DELETE", "/api/portal", Authorization=token)[0], 200)
        tab.sees("This page has ended.")  # nobody has clicked
        tab.sees("open a new one")
        self.assertNotIn("issue.made", tab.text())
        # A link that nobody has opened in time: the same as one that was used.
        tab.open(f"{self.base}/portal#link=" + "0" * 64)
        tab.sees("This link was used, or has expired: a link works once, for 10 minutes.")

    def test_every_act_and_nothing_of_others(self):
        rig = self.portal()
        self.send(rig, "contract.signed", team="bravo")
        event = self.send(rig, "issue.made")
        for n in range(3):
            self.send(rig, "contract.signed", n=n)
        self.dead(rig, 4)
        yes, no = self.own["acme"]["yes"], self.own["acme"]["no"]
        wait_for(lambda: any(d["endpoint"] == yes and d["status"] == "delivered" for d in rig.deliveries(event)))
        tab = self.opened("/endpoints")
        tab.sees("acme no")
        self.assertNotIn("bravo", tab.text())
        self.assertNotIn("crm", tab.text())
        self.assertNotIn("copy curl", tab.text())
        # Make, change, rotate, pause, resume, test, delete.
        tab.click("button", "New endpoint")
        self.assertFalse(tab.js("!!document.querySelector('dialog [name=workspaces], dialog [name=retry_policy]')"))
        tab.fill("dialog [name=url]", rig.receiver.url("/made"))
        tab.fill("dialog [name=rest]", '{"allow_private": true}')
        tab.click("dialog button.main")
        tab.wait("document.querySelector('dialog [role=alert]:not([hidden])')", "rule 6")
        tab.fill("dialog [name=url]", "https://example.com/made")
        tab.js("document.querySelector('dialog [name=rest]').value = ''")
        tab.fill("dialog [name=types]", "nothing")
        tab.click("dialog button.main")
        tab.sees("whsec_")
        tab.click("dialog button", "I have stored it")
        tab.wait("/^.portal.endpoints.ep_/.test(location.pathname) && document.querySelector('.head button')")
        name = tab.path().split("/")[-1]
        self.assertEqual(rig.ask("sequencer", "endpoint", name=name)["settings"]["workspaces"], ["acme"])
        tab.click("button", "Change…")
        tab.fill("dialog [name=types]", "invoice.*")
        with self.shown_anew(tab):
            tab.click("dialog button.main")
        tab.click("button", "New secret…")
        tab.click("dialog button.main")
        tab.sees("whsec_")
        with self.shown_anew(tab):
            tab.click("dialog button", "I have stored it")
        tab.click("button", "Delete…")
        tab.click("dialog button.main")
        tab.wait("location.pathname === '/portal/endpoints'")
        self.assertEqual(rig.ask("sequencer", "endpoint", name=name)["state"], "removed")
        tab.click("tbody a", "acme yes")
        tab.click("button", "Pause…")
        tab.click("dialog button", "Pause")
        tab.wait("document.querySelector('.head .badge')?.textContent === 'paused'")
        tab.click("button", "Resume")
        tab.wait("document.querySelector('.head .badge')?.textContent === 'active'")
        tab.click("button", "Test")
        tab.sees("The endpoint accepted it.")
        tab.key("Escape")
        # Search, one event with its life, payload and attempts; send again.
        tab.click(".nav a", "Events")
        tab.fill("input[name=type]", "issue.*")
        tab.wait("document.querySelectorAll('tbody tr').length === 1")
        tab.click("tbody a", "issue.made")
        tab.sees("Its life")
        tab.wait("document.querySelector('.life svg circle')")
        tab.sees('"issue.made"')  # of the payload
        tab.click("summary", "Attempt 1")
        tab.sees("POST ")
        tab.click("section button", "Send again…")
        tab.click("dialog button.main")
        tab.sees("It is sent again.")
        wait_for(lambda: len(rig.receiver.requests(path="/acme-yes", event=event)) > 1)
        # The payload as a file: a link would have no token.
        tab.js("(() => { window.saved = []; const make = URL.createObjectURL.bind(URL); "
               "URL.createObjectURL = (b) => { b.text().then((t) => saved.push(b.type, t)); return make(b); }; })()")
        # The page may be drawn again with the new attempt, and move the button.
        wait_for(lambda: (tab.click("button", "Download"), tab.js("window.saved.length"))[1])
        self.assertEqual(tab.js("saved[0]"), "application/octet-stream")
        self.assertIn("issue.made", tab.js("saved[1]"))
        # Dead letters.
        letters = [d["id"] for d in rig.ask("dlqd", "dlq", limit=100)["dead_letters"] if d["endpoint"] == no]
        rig.receiver.rules({"path": "/acme-no", "responses": [{"status": 200}]})

        def decide(letter, button, note, said):
            tab.click(".nav a", "Dead letters")
            tab.sees("rejected")
            tab.js(f"[...document.querySelectorAll('tbody a')].find((a) => a.pathname.endsWith({json.dumps(letter)})).click()")
            tab.click(".head button", button)
            if note:
                tab.fill("dialog textarea", note)
            tab.click("dialog button.main")
            tab.sees(said)
        decide(letters[0], "Retry…", None, "It is tried again.")
        decide(letters[1], "Resolve…", "by hand", "It is resolved.")
        decide(letters[2], "Discard…", "a test", "It is discarded.")
        tab.click(".nav a", "Dead letters")
        tab.sees("No dead letter needs a decision")
        # What belongs to others is as if it did not exist.
        for path in (f"/endpoints/{self.own['bravo']['yes']}", "/endpoints/crm", f"/dead-letters/dlq_{event[4:]}-legal", "/events/evt_01AAAAAAAAAAAAAAAAAAAAAAAA"):
            other = self.opened(path) if "ep_" in path else tab
            if other is tab:
                self.go(tab, path)
            other.sees("There is no such thing")
        # Only to read.
        reads = self.opened(f"/endpoints/{yes}", args={"read_only": True})
        reads.sees("only to read")
        reads.sees("Deliveries")
        self.assertEqual({n for role, n, _ in reads.tree() if role == "button"} & {"Test", "Pause…", "Change…", "Delete…"}, set())

    def test_hostile_texts_in_german_on_a_phone_by_keyboard(self):
        rig = self.portal(name="<b>Café & Söhne GmbH, Benachrichtigungen</b>")
        event = self.send(rig, "<b>" + HOSTILE, html=HOSTILE, control="\u0007\u001b[31m")
        wait_for(lambda: {d["status"] for d in rig.deliveries(event) if d["endpoint"] in self.own["acme"].values()} == {"delivered", "dead"})
        letter = wait_for(lambda: [d for d in rig.ask("dlqd", "dlq", limit=100)["dead_letters"] if d["endpoint"] == self.own["acme"]["no"]])[0]
        tab = self.opened(languages="fr,de-AT,en", width=360, height=740)
        self.assertEqual(tab.js("document.documentElement.lang"), "de")
        for path, sees, heading in [("/events", "<b><img", "Ereignisse"), (f"/events/{event}", "Sein Weg", None),
                                    ("/dead-letters", "abgelehnt", "Gescheitert"), (f"/dead-letters/{letter['id']}", "onerror=hacked()", None),
                                    ("/endpoints", "acme no", "Endpunkte"), (f"/endpoints/{self.own['acme']['no']}", "Wie es läuft", None)]:
            with self.subTest(path):
                self.go(tab, path)
                tab.sees(sees)
                if heading:
                    tab.wait(f"document.querySelector('h1')?.textContent === {json.dumps(heading)}")
                tab.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                self.assertEqual(tab.js("document.querySelectorAll('img, h1 b, td b, pre b, .brand b, body script').length"), 0)
                self.assertEqual(tab.js("typeof hacked"), "undefined")
                self.assertNotIn(RLO, tab.js("document.body.textContent"))
                self.assertLessEqual(tab.js("document.documentElement.scrollWidth"), 360)
                rows = tab.tree()
                self.assertEqual([(role, p) for role, name, p in rows if role in (
                    "button", "link", "textbox", "searchbox", "combobox", "dialog") and not name], [])
                self.assertEqual(sum(role == "heading" and p.get("level") == 1 for role, _, p in rows), 1)
                # Steps and messages of the API are in English; nothing else is.
                for word in ("Received", "Delivered", "Send again", "Settings", "Reason", "Retry…", "Pause…", "routed"):
                    self.assertNotRegex(tab.text(), rf"(?<![\w<]){word}\b(?![.\w])", path)
        tab.look(1280)
        self.go(tab, "/events")
        tab.wait("document.querySelector('tbody tr')")
        tab.key("?")
        tab.sees("nächste Zeile")
        tab.key("Escape")
        tab.wait("!document.querySelector('dialog')")
        tab.key("j")
        tab.key("Enter")
        tab.wait(f"location.pathname === '/portal/events/{event}'")

    def test_it_follows_live_and_heals_after_a_process_was_killed(self):
        rig = self.portal()
        rig.wait_status(self.send(rig, "issue.first"))
        tab = self.opened("/events?live=1")
        tab.sees("● Live")
        tab.sees("issue.first")
        self.send(rig, "issue.second")
        tab.sees("issue.second")
        self.send(rig, "issue.other", team="bravo")
        rig.kill("sequencer")
        tab.click(".nav a", "Endpoints")
        tab.sees("This could not be read")
        self.assertNotIn("sequencer", tab.text())
        rig.start("sequencer")
        tab.sees("acme yes")
        tab.click(".nav a", "Events")
        tab.sees("issue.second")
        self.assertNotIn("issue.other", tab.text())
        rig.kill("console")
        tab.click(".nav a", "Endpoints")
        tab.sees("There is no connection since")
        rig.start("console")
        tab.sees("This page has ended.")  # its tokens are in the memory of the console
        tab.problems.clear()


if __name__ == "__main__":
    main(at_once=2)
