"""P7: no database, log or backup has a shared token, no command shows it and no endpoint
gets it."""

import base64
import hashlib
import hmac
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

ROOT = pathlib.Path(__file__).parents[2]
PROFILES = (ROOT / "lib/config/profiles.yaml").read_text().split("\n  - name: ")[1:]
BASIC = base64.b64encode(b"provider:pass-w0rd").decode()
STATES = {"object": "json:/o", "state": "json:/s", "initial": ["open"],
          "moves": ["open>closed"]}


def shared_token_profiles():
    """(name, its token's header) of each profile that takes one."""
    found = [(p.split("\n")[0], re.search(r"shared-token, header: ([\w-]+)", p))
             for p in PROFILES if "scheme: shared-token" in p]
    return [(name, header.group(1)) for name, header in found]


def custom(name, token, **verify):
    return {"name": name, "provider": "custom", "secrets": [token],
            "verify": {"scheme": "shared-token", **verify}}


class Places:
    """Each source: its configuration, its token as it is sent, and how a request
    brings it: path behind /in/, and headers."""

    def __init__(self):
        self.all = [
            (custom("bearer", "tok-bearer", header="Authorization",
                    prefix="Bearer "), "tok-bearer",
             "bearer?a=1", {"Authorization": "Bearer tok-bearer"}),
            (custom("basic", BASIC, header="Authorization", prefix="Basic "),
             BASIC, "basic", {"Authorization": f"Basic {BASIC}"}),
            (custom("field", "tok-field", signature="query:pw"), "tok-field",
             "field?a=1&pw=tok-field&b=2", {}),
            (custom("coded", "tok coded/", signature="query:p-w"), "tok coded/",
             "coded?p%2Dw=tok+%63oded%2F&b=2", {}),
            (custom("first", "tok-first", signature=["query:pw", "header:X-Pw"]),
             "tok-first", "first?b=2&pw=tok-first", {}),
            (custom("second", "tok-second",
                    signature=["header:X-Pw", "query:pw"]), "tok-second",
             "second?pw=tok-second&b=2", {}),
            (custom("third", "tok-third", signature=["query:pw", "header:X-Pw"]),
             "tok-third", "third?tok-third", {"X-Pw": "tok-third",
                                              "X-Again": "a tok-third b"}),
        ] + [({"name": name, "provider": name, "secrets": [f"tok-{name}"]},
              f"tok-{name}", f"{name}?b=2", {header: f"tok-{name}"})
             for name, header in shared_token_profiles()]

    def sources(self):
        return [{**source, "type": "json:/t", "id": "json:/n",
                 "dedupe": {"keys": [["source", "id"]], "ttl": "1h"},
                 "states": STATES} for source, *_ in self.all]


class Short(RigTest):
    def test_a_head_full_of_masked_tokens_is_stored_completely(self):
        """A mask is longer than a short token; the head has as many tokens as it
        can."""
        source = custom("short", "t", signature=["header:X-Pw", "query:p"])
        rig = self.rig({"sources": [{**source, "type": "json:/t",
                                     "id": "json:/n"}]}).start()
        path = "/in/short?p=t" + "&p=t" * 3900
        status, _, response = rig.post(b'{"t":"t","n":1}', path=path, headers={
            "Content-Type": "application/json", "X-Pw": "t",
            "X-Kept": "kept"})
        self.assertEqual(status, 200, response)
        shown, _ = rig.cli("show", response["id"])
        headers = dict(shown["headers"])
        self.assertEqual(headers[":query"].count("p=…"), 3901)
        self.assertEqual(headers["X-Kept"], "kept")


class Tokens(RigTest):
    def setUp(self):
        super().setUp()
        self.places = Places()

    def began(self, **more):
        rig = self.rig({"sources": self.places.sources(), **more})
        rig.config["endpoints"][0]["forward_headers"] = [
            "X-Again", "X-Pw", "X-Kept"]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503, "times": 1}, {"status": 400}]})
        return rig.start()

    def post(self, rig, path, body, headers):
        return rig.post(json.dumps(body).encode(), path="/in/" + path, headers={
            "Content-Type": "application/json", "X-Kept": "kept", **headers})

    def send_all(self, rig):
        """Every way that a request can go. {source: {way: event}}"""
        events = {}
        for source, token, path, headers in self.places.all:
            def accept(**body):
                status, _, response = self.post(
                    rig, path, {"t": "t", "o": source["name"], **body}, headers)
                self.assertEqual(status, 200, (source["name"], response))
                return response["id"]
            name = source["name"]
            ways = events[name] = {
                "done": accept(n=1, s="open"), "duplicate": accept(n=1, s="x"),
                "ignored": accept(n=2, s="open"),
                "refused": accept(n={}, s="open")}
            for way, id in ways.items():
                rig.wait_status(id, way)
            # Refused by ingress, with the right token: slips in the URL.
            slip = path.replace(name, name + "x", 1)
            for wrong, more in ((slip, {}), ("bearer/" + slip, {}),
                                ("none?" + path, {}), ("/", headers)):
                self.assertEqual(
                    self.post(rig, wrong, {}, {**headers, **more})[0], 404)
            # And once more in a field that is not its place, in other dead letters.
            more = "".join(f"%{ord(c):02x}" for c in token)
            self.post(rig, path + ("&" if "?" in path else "?") +
                      f"pw=x&x={more}", {}, headers)
        return events

    def found(self, folder, tokens):
        """(file, token) of each that is anywhere in a file."""
        files = [f for f in folder.rglob("*") if f.is_file() and
                 f.name != "grapnel.yaml" and not f.name.startswith("receiver")]
        self.assertTrue(any(f.name.endswith("-wal") for f in files))
        tokens = [t.encode() for t in tokens] + [
            b"".join(b"%%%02x" % c for c in t.encode()) for t in tokens]
        return [(str(f.relative_to(folder)), token) for f in files
                for token in tokens if token in f.read_bytes()]

    def test_no_token_is_stored_shown_or_delivered(self):
        rig = self.began()
        events = self.send_all(rig)
        tokens = [token for _, token, *_ in self.places.all] + [
            "%63oded", "pass-w0rd"]
        self.assertGreaterEqual(len(tokens), 9)
        dead_letters = wait_for(lambda: (lambda l: len(l) >= 2 * len(events) and l)(
            rig.cli("dlq")[0]))
        rejects, _ = rig.cli("rejects", "--limit", "1000")
        self.assertGreaterEqual(len(rejects), 4 * len(events))
        said = [rig.cli_text("rejects", "--json").stdout]
        said += [rig.cli_text(*args).stdout for ways in events.values()
                 for id in ways.values()
                 for args in (("trace", id, "--json"), ("show", id),
                              ("show", id, "--json"))]
        said += [rig.cli_text("dlq", "show", l["id"], "--json").stdout
                 for l in dead_letters]
        said += [rig.cli_text("rejects", "show", r["id"]).stdout
                 for r in rejects]
        for token in tokens:
            for text in said:
                self.assertNotIn(token, text)
        self.assertEqual(rig.cli_text("backup", rig.folder / "copies")
                         .returncode, 0)
        self.assertEqual(self.found(rig.folder, tokens), [])
        for request in rig.receiver.requests("/crm"):
            for token in tokens:
                self.assertNotIn(token, json.dumps(request.headers))
            self.assertEqual(request.headers["x-kept"], "kept")
            self.assertNotIn("x-pw", request.headers)

    def test_only_the_token_is_masked_and_show_names_it(self):
        rig = self.began()
        events = self.send_all(rig)
        queries = {"bearer": "a=1", "field": "a=1&pw=\u2026&b=2",
                   "coded": "p%2Dw=\u2026&b=2", "first": "b=2&pw=\u2026",
                   "second": "pw=\u2026&b=2", "third": "\u2026",
                   "gitlab": "b=2"}
        masked = {"bearer": ["Authorization"], "basic": ["Authorization"],
                  "field": ["query:pw"], "coded": ["query:p-w"],
                  "first": ["query:pw"], "second": ["query:pw"],
                  "third": ["X-Pw"], "gitlab": ["X-Gitlab-Token"]}
        for name, ways in events.items():
            with self.subTest(name):
                shown, _ = rig.cli("show", ways["done"])
                headers = dict(shown["headers"])
                self.assertEqual(headers.get(":query"), queries.get(name))
                self.assertEqual(headers["X-Kept"], "kept")
                self.assertEqual(shown["masked"], masked[name])
                said = rig.cli_text("show", ways["done"]).stdout
                self.assertIn(f"the token in {masked[name][0]} was masked",
                              said)
                raw = rig.cli_text("show", ways["done"], "--raw")
                self.assertEqual(json.loads(raw.stdout)["n"], 1)
                self.assertIn(f"not stored: the token in {masked[name][0]}",
                              raw.stderr)
        stored = [bytes(r["headers"]) for r in rig.rows(
            "ingress", "SELECT headers FROM archive ORDER BY n")]
        self.assertIn("Bearer \u2026".encode(), stored[0])
        self.assertIn("Basic \u2026".encode(), b"".join(stored))
        self.assertIn("a \u2026 b".encode(), b"".join(stored))

    def test_signatures_and_other_sources_headers_are_not_masked(self):
        """Only tokens are masked."""
        rig = self.rig().start("ingress")
        body = rig.plane_body()
        id = rig.accept(body, path="/in/plane?token=mine&a=1")
        headers = bytes(rig.rows("ingress", "SELECT headers FROM archive")[0]
                        ["headers"])
        self.assertIn(b"token=mine&a=1", headers)
        self.assertRegex(headers, rb"X-Plane-Signature[0-9a-f]{64}")
        self.assertEqual(rig.cli("show", id)[0]["masked"], [])
        self.assertEqual(rig.cli_text("show", id, "--raw").stderr, "")


class Signatures(RigTest):
    def test_p7_a_signature_is_never_forwarded(self):
        """Whatever the name of its header; also when its source was removed
        since."""
        source = {"name": "mine", "provider": "custom", "secrets": ["hush"],
                  "verify": {"scheme": "hmac-sha256", "header": "X-Proof"}}
        rig = self.rig()
        rig.config["sources"].append(source)
        rig.config["endpoints"][0]["forward_headers"] = ["X-Proof", "X-Kept"]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 503, "headers": {"Retry-After": "3600"}}]})
        rig.start()
        body = b'{"n": 1}'
        event = rig.accept(body, source="mine", headers={
            "X-Kept": "kept",
            "X-Proof": hmac.new(b"hush", body, hashlib.sha256).hexdigest()})
        [first] = rig.receiver.wait(event)
        self.assertEqual(first.headers["x-kept"], "kept")
        self.assertNotIn("x-proof", first.headers)
        wait_for(lambda: rig.trace(event)["deliveries"][0]["status"] ==
                 "retrying")
        rig.config["sources"].remove(source)
        rig.config["endpoints"][0]["timeout"] = "14s"  # so that it goes out anew
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig.cli_text("retry", event)  # exits 1: it fails again
        again = rig.receiver.wait(event, count=2)[1]
        self.assertNotIn("x-proof", again.headers)


if __name__ == "__main__":
    main()
