"""Endpoints that are made, changed, rotated and deleted at run time, through the management
API."""

import base64
import hashlib
import hmac
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import main, wait_for
from test_api import Api

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(1, 33))).decode()


def signed_by(request, secret):
    """Whether a request has a webhook-signature of this secret."""
    sent = request.headers
    content = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + request.body
    digest = hmac.new(base64.b64decode(secret[len("whsec_"):]), content, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode() in sent["webhook-signature"].split()


class Managed(Api):
    def managed_rig(self, config=None, **how):
        return self.api_rig({"secrets_key": KEY, "endpoints": [], **(config or {})}, **how)

    def make(self, rig, path="/hook", **settings):
        settings = {"url": rig.receiver.url(path), "allow_private": True, **settings}
        status, headers, made = self.call(rig, "POST", "/endpoints", settings)
        self.assertEqual(status, 200, made)
        self.assertEqual(headers["ETag"], '"1"')
        return made

    def change(self, rig, made, patch, version="*"):
        status, _, document = self.call(rig, "PATCH", f"/endpoints/{made['name']}", patch,
                                        If_Match=version)
        self.assertEqual(status, 200, document)
        return document


    def restart(self, rig):
        rig.stop()
        rig.start()


class Life(Managed):
    def test_a_new_endpoint_gets_later_events_of_its_workspace(self):
        rig = self.managed_rig().start()
        rig.accept(rig.plane_body("acme"))
        rig.settle()
        made = self.make(rig, workspaces=["acme"], description="Acme's")
        self.assertRegex(made["name"], "^ep_[0-9A-Z]{26}$")
        self.assertRegex(made["secret"], "^whsec_")
        self.assertEqual((made["managed_by"], made["version"], made["workspace"],
                          made["description"], made["state"]),
                         ("api", 1, "acme", "Acme's", "active"))
        mine = rig.accept(rig.plane_body("acme"))
        rig.accept(rig.plane_body("other"))
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/hook")), [mine])
        request, = rig.receiver.requests("/hook")
        self.assertTrue(signed_by(request, made["secret"]))
        shown = self.get(rig, f"/endpoints/{made['name']}")
        self.assertNotIn("secret", shown)
        self.assertNotIn(made["secret"], json.dumps(shown))
        self.assertEqual(shown["settings"]["signing_secrets"], ["…"])
        self.assertEqual([e["name"] for e in
                          self.get(rig, "/endpoints?workspace=acme")["items"]], [made["name"]])
        self.assertEqual(self.get(rig, "/endpoints?workspace=other")["items"], [])
        stats = self.get(rig, f"/endpoints/{made['name']}/stats?period=15m")
        self.assertEqual((stats["name"], stats["attempts"], stats["success_rate"],
                          stats["breaker"]), (made["name"], 1, 1, "closed"))
        self.assertEqual(self.error(self.call(rig, "GET", "/endpoints/nobody/stats")),
                         (404, "not_found", None))
        self.assertEqual(self.error(self.call(rig, "GET", f"/endpoints/{made['name']}/stats"
                                                          "?period=2d")),
                         (400, "invalid_argument", "period"))

    def test_a_change_applies_to_the_next_attempt(self):
        rig = self.managed_rig().start()
        made = self.make(rig, types=["issue.*"])
        first = rig.accept()
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/hook")), [first])
        changed = self.change(rig, made, {"url": rig.receiver.url("/moved")}, '"1"')
        self.assertEqual((changed["version"], changed["secret"]), (2, None))
        second = rig.accept()
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/moved")), [second])
        self.change(rig, made, {"types": ["cycle.*"]})
        rig.accept()
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/moved")), [second])
        self.change(rig, made, {"types": None})
        third = rig.accept()
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/moved")), [second, third])

    def test_waiting_deliveries_go_to_the_changed_url(self):
        rig = self.managed_rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "50ms", "jitter": "none",
            "max_attempts": 1000, "max_duration": "1h"}]}).start()
        rig.receiver.rules({"path": "/hook", "responses": [{"status": 503}]})
        made = self.make(rig)
        events = [rig.accept() for _ in range(5)]
        rig.receiver.wait(count=10)
        self.change(rig, made, {"url": rig.receiver.url("/good")})
        rig.settle()
        self.assertEqual(sorted(rig.receiver.delivered("/good")), sorted(events))

    def test_only_the_version_that_was_read_is_changed(self):
        rig = self.managed_rig().start()
        path = f"/endpoints/{self.make(rig)['name']}"
        patch = {"timeout": "5s"}
        self.assertEqual(self.error(self.call(rig, "PATCH", path, patch)),
                         (428, "precondition_required", "If-Match"))
        self.assertEqual(self.error(self.call(rig, "DELETE", path)),
                         (428, "precondition_required", "If-Match"))
        self.assertEqual(self.call(rig, "PATCH", path, patch, If_Match='"1"')[0], 200)
        for tag in ('"1"', '"x"', "2", '"2', 'W/"2"', '"1", "2"'):
            self.assertEqual(self.error(self.call(rig, "PATCH", path, patch, If_Match=tag))[:2],
                             (412, "changed"), tag)
        self.assertEqual(self.call(rig, "GET", path)[1]["ETag"], '"2"')
        self.assertEqual(self.call(rig, "DELETE", path, If_Match='"2"')[0], 200)

    def test_a_deleted_endpoint_gets_nothing_more(self):
        rig = self.managed_rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "1h", "jitter": "none",
            "max_attempts": 1000, "max_duration": "100h"}]}).start()
        rig.receiver.rules({"path": "/hook", "responses": [{"status": 503}]})
        made = self.make(rig)
        event = rig.accept()
        rig.receiver.wait(event)
        status, _, gone = self.call(rig, "DELETE", f"/endpoints/{made['name']}", If_Match="*")
        self.assertEqual(status, 200, gone)
        rig.settle()
        letter, = rig.rows("dlqd", "SELECT endpoint, reason FROM dead_letters")
        self.assertEqual((letter["endpoint"], letter["reason"]),
                         (made["name"], "endpoint_removed"))
        rig.receiver.rules()
        later = rig.accept()
        rig.settle()
        self.assertEqual(rig.trace(later)["deliveries"], [])
        self.assertEqual(self.call(rig, "POST", f"/endpoints/{made['name']}/resume", {})[0], 404)
        for path, body in ((f"/events/{event}/resend", {"endpoint": made["name"]}),
                           ("/replays", {"since": "1h", "endpoint": made["name"]})):
            self.assertEqual(self.error(self.call(rig, "POST", path, body))[:2],
                             (404, "not_found"), path)
        self.assertEqual(rig.cli("resend", event, "--endpoint", made["name"])[1], 1)
        self.assertEqual(rig.cli("dlq", "retry", event, "--to", made["name"])[1], 1)
        rig.settle()
        self.assertEqual(len(rig.rows("dlqd", "SELECT endpoint FROM dead_letters")), 1)
        again = self.make(rig)
        self.assertNotEqual(again["name"], made["name"])
        self.restart(rig)
        self.assertEqual(list(rig.receiver.delivered("/hook")), [])

    def test_a_private_address_that_is_not_permitted_gets_a_warning(self):
        """As `grapnel check` warns of it in the file; a workspace is told who can permit it."""
        rig = self.managed_rig().start()
        self.assertNotIn("warnings", self.make(rig))
        made = self.make(rig, allow_private=False)
        self.assertIn("127.0.0.1 is a private address", made["warnings"][0])
        self.assertIn("set `allow_private` to true", made["warnings"][0])
        self.assertIn("private address", self.change(rig, made, {"timeout": "9s"})["warnings"][0])
        self.assertNotIn("warnings", self.change(rig, made, {"allow_private": ["127.0.0.0/8"]}))
        token = rig.cli("tokens", "create", "t", "--role", "workspace", "--workspace", "acme")[0]
        status, _, own = self.call(rig, "POST", "/endpoints", {"url": "http://[::1]:9/"},
                                   token=token["token"])
        self.assertEqual(status, 200, own)
        self.assertIn("Only the operator", own["warnings"][0])

    def test_a_rotated_secret_overlaps_with_the_old_one(self):
        rig = self.managed_rig().start()
        made = self.make(rig)
        path = f"/endpoints/{made['name']}/rotate-secret"
        for overlap, wrong in [("one day", 'overlap: "one day" is not a duration; write a number'),
                               (5, "overlap: a duration as a text")]:
            status, _, document = self.call(rig, "POST", path, {"overlap": overlap})
            self.assertEqual((status, document["error"]["field"]), (400, "overlap"))
            self.assertIn(wrong, document["error"]["message"])
        rotated = self.call(rig, "POST", path, {})[2]
        self.assertNotEqual(rotated["secret"], made["secret"])
        rig.accept()
        rig.settle()
        request = rig.receiver.requests("/hook")[-1]
        self.assertTrue(signed_by(request, made["secret"]))
        self.assertTrue(signed_by(request, rotated["secret"]))
        last = self.call(rig, "POST", path, {"overlap": "1s"})[2]
        name = made["name"]
        wait_for(lambda: self.get(rig, f"/endpoints/{name}")["version"] == 4,
                 what="the end of the old secrets")
        rig.accept()
        rig.settle()
        request = rig.receiver.requests("/hook")[-1]
        self.assertTrue(signed_by(request, last["secret"]))
        self.assertFalse(signed_by(request, rotated["secret"]))

    def test_a_test_event_is_sent_with_the_settings_of_the_sequencer(self):
        rig = self.managed_rig().start()
        made = self.make(rig, types=["nothing"], headers={"x-key": "of-the-customer"})
        path = f"/endpoints/{made['name']}/test"
        status, _, tested = self.call(rig, "POST", path, {})
        self.assertEqual((status, tested["verdict"]), (200, "delivered"), tested)
        request, = rig.receiver.wait(path="/hook")
        self.assertEqual((request.id, request.headers["x-key"]),
                         (tested["event_id"], "of-the-customer"))
        self.assertTrue(signed_by(request, made["secret"]))
        self.assertNotIn("of-the-customer", json.dumps(tested))
        self.change(rig, made, {"url": rig.receiver.url("/moved")})
        self.assertEqual(self.call(rig, "POST", path, {})[0], 200)
        rig.receiver.wait(path="/moved")
        self.call(rig, "DELETE", f"/endpoints/{made['name']}", If_Match="*")
        self.assertEqual(self.error(self.call(rig, "POST", path, {}))[:2], (404, "not_found"))
        rig["sequencer"].kill()
        self.assertEqual(self.error(self.call(rig, "POST", path, {}))[:2],
                         (503, "process_unavailable"))

    def test_it_can_be_named_by_its_id(self):
        """By a producer's event, and when a dead letter is sent to another endpoint."""
        rig = self.managed_rig({"producers": [{"name": "shop", "tokens": ["of-the-shop-" * 3]}]})
        rig.config["endpoints"] = [rig.endpoint("crm", guard=False)]
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        made = self.make(rig, types=["never"])
        letter = rig.accept()
        rig.settle()
        dead, = rig.ask("dlqd", "dlq")["dead_letters"]
        self.assertEqual(rig.cli("dlq", "retry", dead["id"], "--to", made["name"])[1], 0)
        rig.receiver.wait(letter, path="/hook")
        other = self.make(rig, "/other")
        self.make(rig, "/not")
        event = {"type": "a.b", "workspace": "w", "data": {}, "endpoints": [other["name"]]}
        status, _, reply = rig.post(json.dumps(event).encode(), path="/v1/events", headers={
            "Authorization": "Bearer " + "of-the-shop-" * 3})
        self.assertEqual(status, 200, reply)
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/other")), [reply["id"]])
        self.assertEqual(list(rig.receiver.delivered("/not")), [])
        self.assertEqual(list(rig.receiver.delivered("/hook")), [letter])

    def test_endpoints_of_the_file_are_changed_only_there(self):
        rig = self.api_rig({"secrets_key": KEY}).start()
        shown = self.get(rig, "/endpoints/crm")
        self.assertEqual((shown["managed_by"], shown["version"]), ("file", None))
        self.assertIn("/crm", shown["settings"]["url"])
        self.assertEqual(self.error(self.call(rig, "PATCH", "/endpoints/crm", {"timeout": "1s"},
                                              If_Match="*"))[:2], (409, "refused"))
        self.assertEqual(self.error(self.call(rig, "DELETE", "/endpoints/crm",
                                              If_Match="*"))[:2], (409, "refused"))
        made = self.make(rig)
        event = rig.accept()
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/hook")), [event])
        self.assertEqual(list(rig.receiver.delivered("/crm")), [event])
        self.assertEqual([e["name"] for e in self.get(rig, "/endpoints")["items"]],
                         ["crm", made["name"]])


class Wrong(Managed):
    def test_a_wrong_setting_is_named(self):
        rig = self.managed_rig().start()
        url = rig.receiver.url("/hook")
        for settings, field in [({}, "url"), ({"url": "ftp://x"}, "url"),
                                ({"url": url, "timeout": "9h"}, "timeout"),
                                ({"url": url, "retry_policy": "none"}, "retry_policy"),
                                ({"url": url, "headers": {"host": "x"}}, "headers"),
                                ({"url": url, "signing_secrets": ["file:/etc/passwd"]},
                                 "signing_secrets"),
                                ({"url": url, "enabled": False}, "enabled"),
                                ({"url": url, "name": "crm"}, "name")]:
            with self.subTest(settings):
                answer = self.call(rig, "POST", "/endpoints", settings)
                self.assertEqual(self.error(answer), (400, "invalid_argument", field))
        self.assertEqual(self.get(rig, "/endpoints")["items"], [])

    def test_secrets_need_a_key(self):
        rig = self.api_rig().start()
        answer = self.call(rig, "POST", "/endpoints", {"url": "https://example.com/"})
        self.assertEqual(answer[0], 400)
        self.assertIn("secrets_key", answer[2]["error"]["message"])
        self.assertEqual([e["name"] for e in self.get(rig, "/endpoints")["items"]], ["crm"])

    def test_a_repeat_with_the_same_key_makes_one_endpoint(self):
        rig = self.managed_rig().start()
        body = {"url": rig.receiver.url("/hook"), "allow_private": True}
        first = self.call(rig, "POST", "/endpoints", body, Idempotency_Key="k")[2]
        again = self.call(rig, "POST", "/endpoints", body, Idempotency_Key="k")[2]
        self.assertEqual(again, {**first, "secret": None})
        self.assertEqual(len(self.get(rig, "/endpoints")["items"]), 1)


class Secrets(Managed):
    def files_with(self, rig, text):
        return [p.name for p in pathlib.Path(rig.state_dir).rglob("*")
                if p.is_file() and text.encode() in p.read_bytes()]

    def test_no_file_has_a_secret(self):
        rig = self.managed_rig().start()
        made = self.make(rig, headers={"authorization": "Bearer of-the-customer"})
        rig.accept()
        rig.settle()
        self.assertEqual(rig.receiver.requests("/hook")[0].headers["authorization"],
                         "Bearer of-the-customer")
        rig.stop()
        self.assertEqual(self.files_with(rig, made["secret"]), [])
        self.assertEqual(self.files_with(rig, "of-the-customer"), [])

    def test_after_a_change_of_the_key_secrets_are_sealed_again(self):
        rig = self.managed_rig().start()
        made = [self.make(rig) for _ in range(40)]
        rig.config["secrets_key"] = [OTHER_KEY, KEY]
        rig.write_config()
        for p in rig.daemons.values():
            p.reload()
        wait_for(lambda: len(rig.rows("sequencer", "SELECT DISTINCT secrets_key "
                                      "FROM managed_endpoints")) == 1
                 and self.current(rig) == self.id_of(OTHER_KEY), what="the new key")
        rig.config["secrets_key"] = OTHER_KEY
        rig.write_config()
        self.restart(rig)
        rig.accept()
        rig.settle()
        requests = rig.receiver.requests("/hook")
        for e in made:
            self.assertEqual(sum(signed_by(r, e["secret"]) for r in requests), 1)

    def current(self, rig):
        return rig.rows("sequencer", "SELECT max(secrets_key) AS k FROM managed_endpoints")[0]["k"]

    def id_of(self, key):
        return hashlib.sha256(b"grapnel secrets key" + base64.b64decode(key)).hexdigest()[:16]

    def test_without_its_key_one_endpoint_waits_and_the_others_deliver(self):
        rig = self.managed_rig().start()
        old = self.make(rig, "/old")
        rig.config["secrets_key"] = OTHER_KEY
        rig.config["endpoints"] = [rig.endpoint("crm")]
        rig.write_config()
        self.restart(rig)
        new = self.make(rig, "/new")
        event = rig.accept()
        wait_for(lambda: len(rig.receiver.requests()) == 2)
        shown = self.get(rig, f"/endpoints/{old['name']}")
        self.assertEqual((shown["state"], shown["waiting"]), ("paused", 1))
        self.assertIn("secret_unreadable", shown["reason"])
        self.assertEqual(list(rig.receiver.delivered("/new")), [event])
        self.assertEqual(list(rig.receiver.delivered("/crm")), [event])
        rig.config["secrets_key"] = [OTHER_KEY, KEY]
        rig.write_config()
        self.restart(rig)
        self.call(rig, "POST", f"/endpoints/{old['name']}/resume", {})
        rig.settle()
        self.assertEqual(list(rig.receiver.delivered("/old")), [event])
        self.assertTrue(new["name"])


class Crashes(Managed):
    def test_what_was_answered_is_kept(self):
        """Whatever was acknowledged before a kill -9 is what delivers after it."""
        rig = self.managed_rig().start()
        kept = self.make(rig, "/kept")
        changed = self.make(rig, "/before")
        self.change(rig, changed, {"url": rig.receiver.url("/after")})
        gone = self.make(rig, "/gone")
        self.call(rig, "DELETE", f"/endpoints/{gone['name']}", If_Match="*")
        rig.kill()
        rig.start()
        event = rig.accept()
        rig.settle()
        for path, events in [("/kept", [event]), ("/after", [event]), ("/before", []),
                             ("/gone", [])]:
            self.assertEqual(list(rig.receiver.delivered(path)), events, path)
        self.assertEqual(
            [(e["name"], e["state"]) for e in self.get(rig, "/endpoints")["items"]],
            [(kept["name"], "active"), (changed["name"], "active"), (gone["name"], "removed")])


class Grants(Managed):
    def test_an_idle_endpoint_has_no_owner(self):
        rig = self.managed_rig().start()
        made = self.make(rig)
        self.assertIsNone(self.get(rig, f"/endpoints/{made['name']}")["owner"])
        rig.accept()
        rig.settle()
        self.assertEqual(self.get(rig, f"/endpoints/{made['name']}")["owner"], "deliverer-1")


if __name__ == "__main__":
    main()
