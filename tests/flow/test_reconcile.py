"""P12. Reconciliation: events that never arrived are found in the provider's list, each once, and no others; whatever is
killed, and whatever the provider responds."""

import hashlib
import hmac
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_provider import FakeProvider
from rig import RigTest, main, wait_for

SECRET = "whsec_reconciled"
STRIPE = "/v1/events?limit={limit}&created[gte]={{from}}&created[lte]={{to}}"


def sign_stripe(body):
    at = int(time.time())
    mac = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={at},v1={mac}", "Content-Type": "application/json"}


class ReconcileTest(RigTest):
    def provider(self):
        provider = FakeProvider()
        self.addCleanup(provider.close)
        return provider

    def stripe(self, provider, limit=100, **reconcile):
        """A pipeline with a source `stripe`, whose provider is a fake. All but reconcile and ingress run."""
        rig = self.rig()
        (rig.folder / "key").write_text("sk_test\n")
        rig.config["sources"].append({
            "name": "stripe", "provider": "stripe", "secrets": [SECRET],
            "reconcile": {"every": "1s", "grace": "0s", "pause": "0s", "token_file": "key",
                          "url": provider.url + STRIPE.format(limit=limit), **reconcile}})
        rig.write_config()
        rig.add("reconcile")
        return self.begun(rig.start())

    def send(self, rig, event):
        """As the provider does."""
        body = json.dumps(event).encode()
        return rig.accept(body, source="stripe", headers=sign_stripe(body))

    def begun(self, rig):
        """The first walk begins when the process sees the source: what a test lists must be younger."""
        def seen():
            rows, code = rig.cli("reconcile")
            return code == 0 and rows and rows[0]["covered_until"]
        wait_for(seen, what="the first walk to begin")
        return rig

    def state(self, rig):
        rows, code = rig.cli("reconcile")
        self.assertEqual(code, 0)
        return rows[0]

    def found(self, rig):
        """{provider id: gap} of what was reconciled"""
        gaps, _ = rig.cli("gaps", "--limit", "5000")
        gaps = [g for g in gaps if g["status"] == "reconciled"]
        found = {g["note"].rsplit(" ", 1)[1]: g for g in gaps}
        self.assertEqual(len(found), len(gaps), "an event has several records")
        return found

    def walks(self, rig, count=1):
        """Waits until the list was compared so many times more, each begun after this call."""
        for _ in range(count):
            now = time.time()
            wait_for(lambda: self.state(rig)["covered_until"] >= iso(now), 30, "a walk")

    def events(self, rig):
        """{provider id: [status]} of the source's events"""
        rows, _ = rig.cli("events", "--source", "stripe", "--limit", "5000")
        out = {}
        for e in rows:
            out.setdefault(e["provider_id"], []).append(e["status"])
        return out


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".000Z"


class Found(ReconcileTest):
    def test_fifty_of_a_thousand_within_an_interval(self):
        provider = self.provider()
        rig = self.stripe(provider)
        events = [provider.stripe_event(f"evt_{i:04}") for i in range(1000)]
        lost = set(random.Random(18).sample(range(1000), 50))
        for i, event in enumerate(events):
            if i not in lost:
                self.send(rig, event)
        provider.events = events
        names = {f"evt_{i:04}" for i in lost}
        wait_for(lambda: len(self.found(rig)) >= 50, 30, "50 events")
        self.walks(rig, 2)
        self.assertEqual(set(self.found(rig)), names)
        self.assertEqual({k: len(v) for k, v in self.events(rig).items()}, {e["id"]: 1 for e in events})
        rig.settle()
        one = sorted(names)[0]
        gap = self.found(rig)[one]
        event = gap["note"].split(",")[0]
        self.assertEqual((gap["source"], gap["type"], gap["from"], gap["to"]), ("stripe", "charge.succeeded", 0, 0))
        trace = rig.wait_status(event)
        self.assertTrue(trace["reconciled"])
        self.assertIn("reconciled", json.dumps(trace["timeline"]))
        self.assertIn("done, reconciled", rig.cli_text("events", "--source", "stripe", "--limit", "1000").stdout)
        self.assertEqual(rig.receiver.wait(event)[0].json(), next(e for e in events if e["id"] == one))
        self.assertIn("an event that its provider lists never arrived", rig["reconcile"].log())
        # It has no signature, and nothing says that one was verified.
        self.assertIsNone(rig.ask("reconcile", "trace", id=event)["verified_by"])
        self.assertIn("stripe (", json.dumps(trace["timeline"]))
        self.assertIn("not signed", json.dumps(trace["timeline"]))
        document, code = rig.cli("check", "--against", "1h")
        self.assertEqual((code, document["judged"], document["differences"]), (0, 1000, []))
        # The original arrives after all: a duplicate.
        original = next(e for e in events if e["id"] == one)
        self.assertEqual(rig.wait_status(self.send(rig, original), "duplicate")["duplicate_of"], event)

    def test_a_question_of_many_ids_gets_its_reply_in_parts(self):
        rig = self.stripe(self.provider())
        rig.wait_status(self.send(rig, self.provider().stripe_event("evt_here")), "done")
        ids = [f"evt_{i}" for i in range(500)]
        ids[1] = "evt_here"

        def ask(source, ids):
            own = [f"evt_{i:026}" for i, _ in enumerate(ids)]
            return rig.ask("sequencer", "listed", source=source, provider_ids=ids, own_ids=own)["missing"]

        missing = ask("stripe", ids)
        self.assertTrue(1 <= len(missing) <= 64, missing)
        missing = ask("stripe", ids[1:])
        self.assertEqual(missing, [i > 0 for i in range(len(missing))])
        self.assertEqual(ask("stripe", ["evt_here"]), [False])
        self.assertEqual(ask("another", ["evt_here"]), [True])

    def test_nothing_before_the_first_start_unless_asked_for(self):
        provider = self.provider()
        old = provider.stripe_event("evt_old", int(time.time()) - 86400)
        provider.events.append(old)
        rig = self.stripe(provider)
        self.walks(rig, 2)
        self.assertEqual(self.found(rig), {})
        self.assertEqual(rig.cli_text("reconcile", "stripe", "--since", "2d").returncode, 0)
        wait_for(lambda: "evt_old" in self.found(rig))
        self.assertEqual(rig.cli_text("reconcile", "nobody").returncode, 1)

    def test_grace_waits_for_the_provider(self):
        provider = self.provider()
        rig = self.stripe(provider, grace="1h")
        provider.events.append(provider.stripe_event("evt_young"))
        asked = len(provider.requests)
        first = self.state(rig)["next_at"]
        wait_for(lambda: self.state(rig)["next_at"] > first, what="an interval")
        self.assertEqual((self.found(rig), len(provider.requests)), ({}, asked))

    def test_what_an_ingress_has_is_not_missing(self):
        """Accepted, but not with the sequencer yet: nothing is judged until every ingress was read."""
        provider = self.provider()
        rig = self.stripe(provider)
        self.send(rig, provider.stripe_event("evt_first"))  # the sequencer knows this ingress
        rig.settle()
        rig.kill("sequencer")
        events = [provider.stripe_event(f"evt_{i}") for i in range(20)]
        for event in events:
            self.send(rig, event)
        rig["ingress"].pause()
        provider.events = events
        rig.start("sequencer")
        wait_for(lambda: "ingress" in (self.state(rig)["error"] or "") or
                 self.state(rig)["state"] == "asking", 30, "a question")
        self.assertEqual(self.found(rig), {})
        rig["ingress"].resume()
        self.walks(rig, 2)
        self.assertEqual(self.found(rig), {})


    def test_older_than_the_history(self):
        """What was purged may have arrived; what is younger is known."""
        provider = self.provider()
        now = int(time.time())
        rig = self.stripe(provider, every="1h", look_back="0s")
        for i in range(3):
            self.send(rig, provider.stripe_event(f"evt_arrived{i}", now - 6 * 86400))
        rig.settle()
        rig.stop()
        rig.config["history"] = {"keep": "2d"}
        rig.write_config()
        rig.change("sequencer", "UPDATE events SET taken_ms = taken_ms - 5 * 86400000")
        rig.start()
        wait_for(lambda: not rig.rows("sequencer", "SELECT 1 FROM events"), 30, "a purge")
        provider.events = [provider.stripe_event(f"evt_arrived{i}", now - 6 * 86400) for i in range(3)] + [
            provider.stripe_event("evt_unknown", now - 5 * 86400 - 60), provider.stripe_event("evt_lost", now - 4 * 86400)]
        self.assertEqual(rig.cli_text("reconcile", "stripe", "--since", "20d").returncode, 0)
        wait_for(lambda: self.found(rig), 30, "the event")
        rig.settle()
        self.assertEqual(set(self.events(rig)), {"evt_lost"})
        self.assertIn("older than the history of the sequencer", rig["reconcile"].log())

    def test_a_clock_that_was_wrong(self):
        provider = self.provider()
        rig = self.stripe(provider, every="1h")
        wait_for(lambda: self.state(rig)["completed_at"], 30, "a walk")
        rig.kill("reconcile")
        rig.change("reconcile", "UPDATE walks SET from_ms = from_ms + 86400000, covered_ms = covered_ms + 86400000, "
                                "due_ms = due_ms + 86400000")
        provider.events = [provider.stripe_event("evt_in_its_shadow")]
        time.sleep(1)
        rig.start("reconcile")
        wait_for(lambda: self.found(rig), 30, "the event")
        self.assertLessEqual(self.state(rig)["covered_until"], iso(time.time()))
        self.assertIn("the clock was wrong", rig["reconcile"].log())


class Killed(ReconcileTest):
    def test_kill_9_at_any_time(self):
        provider = self.provider()
        rig = self.stripe(provider, limit=10, pause="5ms")
        events = [provider.stripe_event(f"evt_{i:03}") for i in range(150)]
        lost = set(random.Random(9).sample(range(150), 30))
        for i, event in enumerate(events):
            if i not in lost:
                self.send(rig, event)
        provider.events = events
        random_time = random.Random(9)
        for victim in ["reconcile", "sequencer", "reconcile", "reconcile"]:
            seen = len(provider.requests)
            wait_for(lambda: len(provider.requests) > seen + random_time.randrange(5), 30, "requests")
            rig.kill(victim)
            rig.start(victim)
        wait_for(lambda: len(self.found(rig)) >= 30, 60, "30 events")
        self.walks(rig, 1)
        self.assertEqual(set(self.found(rig)), {f"evt_{i:03}" for i in lost})
        self.assertEqual({k: len(v) for k, v in self.events(rig).items()}, {e["id"]: 1 for e in events})

    def test_a_restore_then_reconcile(self):
        provider = self.provider()
        rig = self.stripe(provider, every="1h")
        copy = rig.folder / "copy"
        before = [provider.stripe_event(f"evt_before{i}") for i in range(5)]
        after = [provider.stripe_event(f"evt_after{i}") for i in range(5)]
        for event in before:
            self.send(rig, event)
        rig.settle()
        self.assertEqual(rig.cli_text("backup", str(copy)).returncode, 0)
        for event in after:
            self.send(rig, event)
        rig.settle()
        provider.events = before + after
        rig.stop()
        refused = rig.cli_text("restore", str(copy), "--then-reconcile", "plane")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no source of this name has `reconcile`", refused.stderr)
        done = rig.cli_text("restore", str(copy), "--then-reconcile", "stripe")
        self.assertEqual(done.returncode, 0, done.stderr)
        rig.start()
        wait_for(lambda: len(self.found(rig)) >= 5, 30, "what the backup lacks")
        self.assertEqual(set(self.found(rig)), {e["id"] for e in after})
        self.assertFalse((rig.state_dir / "reconcile-since").exists())
        self.assertEqual({k: len(v) for k, v in self.events(rig).items()}, {e["id"]: 1 for e in before + after})


class Bad(ReconcileTest):
    """A provider that is down, asks to wait, never ends, or lies."""

    def error(self, rig, text):
        return wait_for(lambda: text in (self.state(rig)["error"] or ""), 30, text)

    def recovers(self, rig, provider):
        provider.respond = None
        provider.events.append(provider.stripe_event("evt_at_last"))
        self.assertEqual(rig.cli_text("reconcile", "stripe").returncode, 0)
        wait_for(lambda: "evt_at_last" in self.found(rig), 30, "the missing event")
        self.assertIsNone(self.state(rig)["error"])

    def test_each_error_is_shown_and_ends(self):
        provider = self.provider()
        rig = self.stripe(provider, every="1s", timeout="1s")
        big = b'{"data": ["' + b"x" * (9 << 20) + b'"]}'
        for respond, text in [
                (lambda *_: (500, {}, b""), "responds 500"),
                (lambda *_: (401, {}, b""), "check token_file"),
                (lambda *_: (302, {"Location": "http://127.0.0.1:1/"}, b""), "redirects are not followed"),
                (lambda *_: (200, {}, b"<html>"), "not JSON"),
                (lambda *_: (200, {}, b'{"data": {"a": 1}}'), "no list of events"),
                (lambda *_: (200, {}, b'{}'), "nothing at"),
                (lambda *_: (200, {}, big), "larger than"),
                (lambda *_: time.sleep(2), "imed out")]:
            provider.respond = respond
            rig.cli_text("reconcile", "stripe")
            self.error(rig, text)
        provider.respond = lambda *_: (500, {}, b"")
        rig.cli_text("reconcile", "stripe")
        self.error(rig, "responds 500")
        self.recovers(rig, provider)

    def test_retry_after_is_respected(self):
        provider = self.provider()
        rig = self.stripe(provider)
        provider.respond = lambda *_: (429, {"Retry-After": "3600"}, b"")
        self.error(rig, "asks to wait 3600 s")
        self.assertGreater(self.state(rig)["next_at"], iso(time.time() + 3000))
        self.recovers(rig, provider)

    def test_a_list_that_never_ends_moves_nothing(self):
        provider = self.provider()
        rig = self.stripe(provider, every="1s")
        pages = iter(range(1 << 30))

        def endless(path, query):
            n = next(pages)
            events = [provider.stripe_event(f"evt_{n}_{i}", 1000) for i in range(3)]
            return 200, {}, json.dumps({"data": events, "has_more": True}).encode()
        provider.respond = endless
        wait_for(lambda: self.state(rig)["pages"] > 210, 30, "a second run")
        covered = self.state(rig)["covered_until"]
        self.assertEqual(self.found(rig), {})
        provider.respond = lambda path, query: (200, {}, json.dumps(
            {"data": [provider.stripe_event("evt_same", 1000)], "has_more": True}).encode())
        self.error(rig, "does not end")
        self.assertEqual(self.state(rig)["covered_until"], covered)
        rig.cli_text("reconcile", "stripe", "--since", "1h")
        self.recovers(rig, provider)

    def test_lies(self):
        provider = self.provider()
        rig = self.stripe(provider)
        now = int(time.time())
        odd = [provider.stripe_event("evt_future", now + 86400), provider.stripe_event("", now),
               provider.stripe_event("evt_\u0000", now), {"id": "evt_timeless"}, 7, None, [],
               provider.stripe_event("evt_x" + "y" * 5000, now), {**provider.stripe_event("evt_bad", now), "created": "soon"}]
        twice = provider.stripe_event("evt_twice", now)
        provider.respond = lambda *_: (200, {}, json.dumps({"data": [*odd, twice, twice], "has_more": False}).encode())
        wait_for(lambda: self.found(rig), 30, "the event")
        self.walks(rig, 1)
        self.assertEqual(set(self.found(rig)), {"evt_twice"})
        self.assertIn("without an id or a time", rig["reconcile"].log())

    def test_down(self):
        provider = self.provider()
        rig = self.stripe(provider)
        self.walks(rig)
        provider.close()
        self.error(rig, "onnect")
        event = provider.stripe_event("evt_live")  # ingress goes on
        self.assertEqual(rig.wait_status(self.send(rig, event))["status"], "done")


class Others(ReconcileTest):
    """GitHub's deliveries, Omise's events, and a list described in the file."""

    def source(self, **source):
        rig = self.rig()
        (rig.folder / "key").write_text("sk_test\n")
        rig.config["sources"].append({"secrets": ["c2VjcmV0c2VjcmV0"], **source})
        rig.write_config()
        rig.add("reconcile")
        return self.begun(rig.start())

    def test_github(self):
        provider = self.provider()
        rig = self.source(name="github", provider="github", reconcile={
            "every": "1s", "grace": "0s", "pause": "0s", "token_file": "key",
            "url": provider.url + "/repos/o/r/hooks/1/deliveries?per_page=7"})
        secret = rig.config["sources"][1]["secrets"][0]
        sent = []
        for i in range(40):
            payload = {"action": "opened", "issue": {"number": i, "updated_at": iso(time.time())},
                       "repository": {"full_name": "o/r"}}
            headers = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": f"guid-{i}",
                       "Content-Type": "application/x-www-form-urlencoded", "X-Hub-Signature-256": "sha256=secret"}
            sent.append({"guid": f"guid-{i}", "id": 1000 + i, "delivered_at": iso(time.time()), "event": "issues",
                         "headers": headers, "payload": payload})
            if i % 4:
                body = json.dumps(payload).encode()
                mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
                rig.accept(body, source="github", headers={**headers, "Content-Type": "application/json",
                                                           "X-Hub-Signature-256": f"sha256={mac}"})
        sent.insert(0, {**sent[5], "id": 900})  # delivered twice
        sent.insert(0, {**sent[5], "guid": "guid-old", "id": 1, "delivered_at": "2020-01-01T00:00:00Z"})
        provider.events = sent
        wait_for(lambda: len(self.found(rig)) >= 10, 30, "10 deliveries")
        self.walks(rig, 1)
        found = self.found(rig)
        self.assertEqual(set(found), {f"guid-{i}" for i in range(0, 40, 4)})
        event = found["guid-8"]["note"].split(",")[0]
        self.assertEqual(found["guid-8"]["type"], "issues.opened")
        self.assertEqual(found["guid-8"]["workspace"], "o/r")
        rig.wait_status(event)
        shown = rig.cli_text("show", event).stdout
        self.assertNotIn("sha256=secret", shown)

    def test_omise(self):
        provider = self.provider()
        rig = self.source(name="omise", provider="omise", reconcile={
            "every": "1s", "grace": "0s", "pause": "0s", "token_file": "key",
            "url": provider.url + "/events?limit=3&from={from}&to={to}"})
        provider.events = [{"object": "event", "id": f"evnt_{i}", "key": "charge.complete", "livemode": False,
                            "created_at": iso(time.time()).replace(".000", ""), "data": {"n": i}} for i in range(10)]
        wait_for(lambda: len(self.found(rig)) >= 10, 30, "10 events")
        self.assertEqual(set(self.found(rig)), {f"evnt_{i}" for i in range(10)})
        self.assertTrue(provider.requests[-1][2]["Authorization"].startswith("Basic "))

    def github(self, provider, **more):
        return self.source(name="github", provider="github", **more, reconcile={
            "every": "1s", "grace": "0s", "pause": "0s", "token_file": "key",
            "url": provider.url + "/repos/o/r/hooks/1/deliveries?per_page=4"})

    def delivery(self, i, **headers):
        return {"guid": f"guid-{i}", "id": 1000 + i, "delivered_at": iso(time.time()), "event": "issues",
                "headers": {"X-GitHub-Event": "issues", "X-GitHub-Delivery": f"guid-{i}", **headers},
                "payload": {"action": "opened", "issue": {"number": i}, "repository": {"full_name": "o/r"}}}

    def test_one_that_cannot_be_fetched_does_not_block_others(self):
        provider = self.provider()
        rig = self.github(provider)
        provider.events = [self.delivery(i) for i in range(6)]
        responses = {"1002": (200, {}, b'"' + b"x" * (20 << 20) + b'"'), "1003": (422, {}, b""), "1005": (500, {}, b"")}
        provider.respond = lambda path, query: responses.get(path.rsplit("/", 1)[1])
        wait_for(lambda: "500" in (self.state(rig)["error"] or ""), 30, "a failure")
        self.assertEqual(self.found(rig), {})  # the newest is tried again first

        def tried():
            rig.cli_text("reconcile", "github")
            return len(self.found(rig)) >= 3
        wait_for(tried, 60, "the others")
        self.walks(rig, 1)
        self.assertEqual(set(self.found(rig)), {"guid-0", "guid-1", "guid-4"})
        log = rig["reconcile"].log()
        for text in ["larger than ingress.max_body", "responds 422", "responds 500"]:
            self.assertIn(text, log)

    def test_several_link_headers_and_too_long_ones(self):
        provider = self.provider()
        rig = self.github(provider)
        before = self.state(rig)["covered_until"]
        extra = {"link": f'<{provider.url}/{"x" * 9000}>; rel="first"'}

        def respond(path, query):
            if not path.endswith("deliveries"):
                return None
            status, headers, body = provider.github(path, query)
            return status, {**headers, **extra}, body
        provider.respond = respond
        provider.events = [self.delivery(i) for i in range(6)]
        wait_for(lambda: "header Link" in (self.state(rig)["error"] or ""), 30, "an error")
        self.assertEqual(self.found(rig), {})
        self.assertLessEqual(self.state(rig)["covered_until"], max(before, iso(time.time())))
        extra = {"link": f'<{provider.url}/>; rel="first"'}
        wait_for(lambda: len(self.found(rig)) >= 6, 30, "6 deliveries")

    def test_a_workspace_in_a_header_that_the_list_lacks(self):
        provider = self.provider()
        rig = self.github(provider, workspace="header:X-Tenant")
        provider.events = [self.delivery(0), self.delivery(1, **{"X-Tenant": "acme"})]
        wait_for(lambda: self.found(rig), 30, "the event")
        self.walks(rig, 1)
        self.assertEqual({k: g["workspace"] for k, g in self.found(rig).items()}, {"guid-1": "acme"})
        self.assertIn("lacks the header that names the workspace", rig["reconcile"].log())

    def test_custom(self):
        provider = self.provider()
        listed = []

        def respond(path, query):
            at = int(query.get("page", 0))
            return 200, {}, json.dumps({"result": {"items": listed[at:at + 4]},
                                        "next": str(at + 4) if at + 4 < 9 else None}).encode()
        provider.respond = respond
        rig = self.source(
            name="own", provider="custom", verify={"header": "X-Signature"}, id="json:/uid", type="json:/kind",
            dedupe={"keys": [["source", "id"]], "ttl": "1d"},
            reconcile={"every": "1s", "grace": "0s", "pause": "0s", "token_file": "key", "url": provider.url + "/list",
                       "list": {"auth": "plain", "auth_header": "X-Key", "events": "json:/result/items", "time": "json:/at",
                                "paging": "cursor", "parameter": "page", "cursor": "json:/next"}})
        listed += [{"uid": f"e{i}", "at": int(time.time() * 1000) + i, "kind": "thing.made", "\u00e9": i,
                   "big": 123456789012345678901234567890} for i in range(9)]
        wait_for(lambda: len(self.found(rig)) >= 9, 30, "9 events")
        self.assertEqual(set(self.found(rig)), {f"e{i}" for i in range(9)})
        self.assertEqual(provider.requests[-1][2]["X-Key"], "sk_test")
        provider.respond = lambda *_: (200, {"Content-Type": "application/json"}, b'{"result": {"items": []}}')

    def test_check(self):
        rig = self.rig()
        rig.config["sources"].append({"name": "stripe", "provider": "stripe", "secrets": [SECRET], "reconcile": {
            "token_file": "key", "url": "http://api.example.com/v1/events"}})
        for change, text in [
                ({}, "must begin with https://"),
                ({"reconcile": {"url": "https://{from}/x"}}, "braces in the host"),
                ({"provider": "github", "reconcile": {}}, "url is missing"),
                ({"provider": "slack", "reconcile": {}}, "does not say how its provider lists events"),
                ({"dedupe": "none", "reconcile": {}}, "needs a key of dedupe"),
                ({"dedupe": {"keys": [["source", "id", "body_sha256"]]}, "reconcile": {}}, "needs a key of dedupe"),
                ({"workspace": "header:X-Tenant", "reconcile": {}}, "list.headers is missing: workspace"),
                ({"workspace": "query:tenant", "reconcile": {}}, "workspace of this source is read from query:"),
                ({"reconcile": {"look_back": "30d"}}, "looks back further")]:
            with self.subTest(text):
                config = {**rig.config["sources"][1], **change}
                rig.config["sources"][1] = config
                rig.write_config()
                done = rig.cli_text("check")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stdout + done.stderr)
                rig.config["sources"][1] = {"name": "stripe", "provider": "stripe", "secrets": [SECRET],
                                            "reconcile": {}}


main()
