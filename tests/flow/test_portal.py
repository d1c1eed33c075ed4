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


if __name__ == "__main__":
    main(at_once=2)
