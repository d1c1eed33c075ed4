"""P7: a captured request that is sent again after its keys were removed takes no effect,
for schemes that sign no time."""

import base64
import hashlib
import hmac
import json
import pathlib
import shutil
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, sign_plane, wait_for  # noqa: E402

DAY_S = 86400
PUBLIC_URL = "https://hooks.example.com/in/"
KEY = b"k3y"


def hexed(body, how=hashlib.sha256):
    return hmac.new(KEY, body, how).hexdigest()


def in_base64(body, how=hashlib.sha256):
    return base64.b64encode(hmac.new(KEY, body, how).digest()).decode()


def headers_of(name, body, type="orders/create", shop="a.example"):
    """As the provider sends this body, under an id that it had never before."""
    fresh = str(uuid.uuid4())
    return {"Content-Type": "application/json"} | {
        "plane": lambda: sign_plane(body, KEY.decode()),
        "github": lambda: {"X-GitHub-Event": "issues",
                           "X-GitHub-Delivery": fresh,
                           "X-Hub-Signature-256": "sha256=" + hexed(body)},
        "shopify": lambda: {"X-Shopify-Webhook-Id": fresh,
                            "X-Shopify-Topic": type,
                            "X-Shopify-Shop-Domain": shop,
                            "X-Shopify-Hmac-Sha256": in_base64(body)},
        "typeform": lambda: {"Typeform-Signature": "sha256=" + in_base64(body)},
        "intercom": lambda: {"X-Hub-Signature":
                             "sha1=" + hexed(body, hashlib.sha1)},
        "bitbucket": lambda: {"X-Request-UUID": fresh,
                              "X-Event-Key": "pullrequest:updated",
                              "X-Hub-Signature": "sha256=" + hexed(body)},
        "jira": lambda: {"X-Atlassian-Webhook-Identifier": fresh,
                         "X-Hub-Signature": "sha256=" + hexed(body)},
        "sentry": lambda: {"Request-ID": fresh,
                           "Sentry-Hook-Resource": "event_alert",
                           "Sentry-Hook-Signature": hexed(body)},
        "vercel": lambda: {"x-vercel-signature": hexed(body, hashlib.sha1)},
        "square": lambda: {"x-square-hmacsha256-signature": in_base64(
            (PUBLIC_URL + name).encode() + body)},
    }[name]()


BODIES = {
    "plane": {"event": "issue", "action": "update", "workspace_id": "w",
              "data": {"id": "i", "updated_at": "2026-01-01T00:00:00Z"}},
    "github": {"action": "closed", "issue": {"updated_at": "2026-01-01"}},
    "shopify": {"id": 1, "updated_at": "2026-01-01"},
    "typeform": {"event_id": "e1", "event_type": "form_response"},
    "intercom": {"id": "notif_1", "topic": "conversation.user.created"},
    "bitbucket": {"pullrequest": {"updated_on": "2026-01-01"}},
    "jira": {"timestamp": 1700000000000, "webhookEvent": "jira:issue_updated"},
    "sentry": {"action": "triggered", "data": {"event": {"event_id": "e1"}}},
    "vercel": {"id": "v1", "type": "deployment.created"},
    "square": {"event_id": "q1", "type": "payment.updated"},
}


def source(name, **more):
    return {"name": name, "provider": name, "secrets": [KEY.decode()],
            "public_url": PUBLIC_URL + name, **more}


def custom(**more):
    return {"name": "ours", "provider": "custom", "secrets": [KEY.decode()],
            "verify": {"header": "X-Sig"}, "id": "header:X-Id",
            "type": "header:X-Type", "workspace": "json:/team", **more}


class SentAgain(RigTest):
    def long_ago(self, *sources, days=8, console=False, **config):
        """Runs, with a clock of some days ago."""
        rig = self.rig({"sources": list(sources), **config}, console=console)
        rig.step_clock(-days * DAY_S)
        return rig.start()

    def later(self, rig, days=0):
        """All of it again, with a clock of so many days ago."""
        rig.settle()
        rig.stop()
        rig.step_clock(-days * DAY_S)
        rig.start()

    def send(self, rig, name, body, **how):
        return rig.accept(body, source=name,
                          headers=headers_of(name, body, **how))

    def ours(self, rig, body, type="t"):
        return rig.accept(body, source="ours", headers={
            "X-Sig": hexed(body), "X-Id": str(uuid.uuid4()), "X-Type": type})

    def is_replayed(self, rig, event, of):
        trace = rig.wait_status(event, "duplicate")
        self.assertEqual((trace["reason"], trace["duplicate_of"]),
                         ("replayed", of))
        self.assertEqual(trace["deliveries"], [])


class Providers(SentAgain):
    def test_a_replay_takes_no_effect_with_any_profile_with_replays(self):
        """Eight days later, when all keys were removed."""
        rig = self.long_ago(*(source(name) for name in BODIES), console=True)
        bodies = {n: json.dumps(b).encode() for n, b in BODIES.items()}
        first = {n: self.send(rig, n, b) for n, b in bodies.items()}
        for event in first.values():
            rig.receiver.wait(event)
        self.later(rig)
        again = {n: self.send(rig, n, b) for n, b in bodies.items()}
        for name, event in again.items():
            with self.subTest(provider=name):
                self.is_replayed(rig, event, first[name])
        wait_for(lambda: rig.number("grapnel_events_replayed_total") ==
                 len(BODIES), what="all of them to be counted")
        self.assertEqual(len(rig.receiver.requests("/crm")), len(BODIES))
        with self.subTest("a person lets one through"):
            self.assertEqual(rig.cli("release", again["github"])[1], 0)
            rig.receiver.wait(again["github"])
        with self.subTest("a new one is no replay"):
            rig.receiver.wait(self.send(rig, "square", b'{"event_id":"q2"}'))

    def test_a_body_without_an_own_id_or_time_may_be_sent_again(self):
        """replays does not suppress a legitimate event."""
        bodies = {"github": b'{"action":"member_added","team":{"id":1}}',
                  "bitbucket": b'{"push":{"changes":[]}}',
                  "sentry": b'{"action":"resolved","data":{"issue":{"id":"1"}}}'}
        rig = self.long_ago(*(source(name) for name in bodies))
        for name, body in bodies.items():
            rig.receiver.wait(self.send(rig, name, body))
        self.later(rig)
        for name, body in bodies.items():
            rig.receiver.wait(self.send(rig, name, body))

    def test_replays_can_be_switched_off(self):
        rig = self.long_ago(source("square", dedupe={"replays": "none"}))
        body = b'{"event_id":"q1"}'
        rig.receiver.wait(self.send(rig, "square", body))
        self.later(rig)
        rig.receiver.wait(self.send(rig, "square", body))


class Shopify(SentAgain):
    BODY = json.dumps(BODIES["shopify"]).encode()

    def test_one_body_counts_once_for_all_shops(self):
        rig = self.long_ago(source("shopify"), days=8)
        first = self.send(rig, "shopify", self.BODY)
        rig.receiver.wait(first)
        for shop in ("b.example", "c.example"):
            self.is_replayed(
                rig, self.send(rig, "shopify", self.BODY, shop=shop), first)
        with self.subTest("one change comes under several topics of its shop"):
            rig.receiver.wait(self.send(rig, "shopify", self.BODY,
                                        type="orders/paid"))
        with self.subTest("but not for ever"):
            self.later(rig, days=5)
            for topic in ("orders/create", "orders/cancelled"):
                self.is_replayed(rig, self.send(
                    rig, "shopify", self.BODY, type=topic), first)

    def test_a_digest_outlives_its_event(self):
        """history.keep removes the event before dedupe.replays has passed."""
        rig = self.long_ago(source("shopify"), history={"keep": "1s"})
        rig.receiver.wait(self.send(rig, "shopify", self.BODY))
        wait_for(lambda: not rig.rows("sequencer", "SELECT 1 FROM events"),
                 what="the event to be removed")
        del rig.config["history"]
        rig.write_config()
        self.later(rig)
        self.is_replayed(rig, self.send(rig, "shopify", self.BODY), None)


class Honest(SentAgain):
    def test_a_retry_of_a_refused_or_lost_request_is_accepted(self):
        """P2: only an accepted request leaves a digest."""
        rig = self.long_ago(custom(
            workspaces=["a-*"], dedupe={"replays": "30d", "ttl": "1d"}))
        body = b'{"team":"b-1"}'
        rig.wait_status(self.ours(rig, body), "refused")
        with self.subTest("not signed: it left nothing"):
            lost = b'{"team":"a-1"}'
            self.assertEqual(rig.post(lost, source="ours", headers={
                "X-Sig": hexed(body)})[0], 401)
        with self.subTest("accepted, and lost with the disk of ingress"):
            rig["sequencer"].stop()
            self.ours(rig, lost)
            rig["ingress"].kill()
            for left in rig.state_dir.glob("ingress.db*"):
                left.unlink()
        del rig.config["sources"][0]["workspaces"]
        rig.write_config()
        rig.start()
        self.later(rig, days=1)
        for b in (body, lost):
            rig.receiver.wait(self.ours(rig, b))

    def test_a_digest_is_stored_with_its_event(self):
        """P3: after a kill, and in a restored database that gets the event again
        from ingress."""
        rig = self.long_ago(custom(dedupe={"replays": "30d", "ttl": "1d"}))
        rig.receiver.wait(self.ours(rig, b'{"n":0}'))
        rig.settle()
        rig["sequencer"].stop()
        kept = rig.folder / "kept"
        kept.mkdir()
        for file in rig.state_dir.glob("sequencer.db*"):
            shutil.copy2(file, kept)
        rig["sequencer"].start()
        first = self.ours(rig, b'{"n":1}')
        rig.wait_status(first)
        rig["sequencer"].kill()
        for file in rig.state_dir.glob("sequencer.db*"):
            file.unlink()
        for file in kept.iterdir():
            shutil.copy2(file, rig.state_dir)
        rig["sequencer"].start()
        rig.wait_status(first)
        rig["sequencer"].kill()
        rig["sequencer"].start()
        self.later(rig)
        self.is_replayed(rig, self.ours(rig, b'{"n":1}'), first)

    def test_unsigned_changes_do_not_disguise_a_replay(self):
        """Another id and type at once; and the replay leaves no key with that
        id."""
        rig = self.long_ago(custom(dedupe={"replays": "30d", "ttl": "1d"}))
        first = self.ours(rig, b'{"n":1}')
        rig.receiver.wait(first)
        self.is_replayed(rig, self.ours(rig, b'{"n":1}', type="other"), first)
        again = rig.accept(b'{"n":1}', source="ours", headers={
            "X-Sig": hexed(b'{"n":1}'), "X-Id": "guessed", "X-Type": "t"})
        self.is_replayed(rig, again, first)
        rig.receiver.wait(rig.accept(b'{"n":2}', source="ours", headers={
            "X-Sig": hexed(b'{"n":2}'), "X-Id": "guessed", "X-Type": "t"}))

    def test_a_replay_of_each_event_of_a_request_is_recognised(self):
        rig = self.long_ago(custom(batch=True, id="json:/n", dedupe={
            "replays": "30d", "ttl": "1d"}))
        body = b'[{"n":1},{"n":2}]'
        rig.wait_status(self.ours(rig, body))
        rig.receiver.wait(count=2, path="/crm")
        self.later(rig)
        trace = rig.wait_status(self.ours(rig, body))
        for event in trace["events"]:
            again = rig.wait_status(event["id"], "duplicate")
            self.assertEqual(again["reason"], "replayed")
        rig.receiver.wait(self.ours(rig, b'{"n":1}'))

    def test_a_replay_at_another_ingress_is_recognised(self):
        rig = self.rig({"sources": [source("square")]})
        rig.daemons["ingress-1"] = rig.daemons.pop("ingress")
        rig.daemons["ingress-1"].name = "ingress-1"
        rig.add("ingress-2")
        rig.step_clock(-8 * DAY_S)
        rig.start()
        body = b'{"event_id":"q1"}'
        first = self.send(rig, "square", body)
        rig.receiver.wait(first)
        taken = {n for n in ("ingress-1", "ingress-2")
                 if rig.rows(n, "SELECT 1 FROM archive")}
        self.later(rig)
        rig[taken.pop()].stop()
        self.is_replayed(rig, self.send(rig, "square", body), first)


if __name__ == "__main__":
    main()
