"""`order: suggested` and `states: suggested` with requests as providers sign them: in order nothing is
found, swapped events are late or invalid."""

import hashlib
import hmac
import base64
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

KEY = "a-secret-of-the-tests"


def mac(text, key=KEY.encode()):
    return hmac.new(key, text, hashlib.sha256)


class Suggested(RigTest):
    def with_sources(self, *providers, **each):
        rig = self.rig()
        rig.config["sources"] = [
            {"name": p, "provider": p, "order": "suggested",
             "secrets": [base64.b64encode(KEY.encode()).decode() if p == "omise" else KEY],
             **({"states": "suggested"} if p in ("stripe", "omise") else {}), **each} for p in providers]
        rig.config["endpoints"] = [rig.endpoint("crm")]
        rig.write_config()
        return rig

    def stripe(self, rig, n, kind, status, created, kept="payment_intent"):
        body = json.dumps({"id": f"evt_{n}", "object": "event", "created": created, "livemode": True,
                           "type": f"{kept}.{kind}",
                           "data": {"object": {"id": "obj_1", "object": kept, "status": status}}}).encode()
        now = int(time.time())
        return rig.accept(body, source="stripe", headers={
            "Stripe-Signature": f"t={now},v1={mac(b'%d.' % now + body).hexdigest()}"})

    def shopify(self, rig, n, topic, at):
        body = json.dumps({"id": 820982911946154508, "n": n}).encode()
        return rig.accept(body, source="shopify", headers={
            "X-Shopify-Hmac-Sha256": base64.b64encode(mac(body).digest()).decode(),
            "X-Shopify-Topic": topic, "X-Shopify-Shop-Domain": "demo.myshopify.com",
            "X-Shopify-Webhook-Id": f"w{n}", "X-Shopify-Triggered-At": at})

    def omise(self, rig, n, key, status, at):
        body = json.dumps({"object": "event", "id": f"evnt_{n}", "livemode": False, "key": key, "created_at": at,
                           "data": {"object": "charge", "id": "chrg_1", "status": status}}).encode()
        now = int(time.time())
        return rig.accept(body, source="omise", headers={
            "Omise-Signature": mac(b"%d." % now + body).hexdigest(), "Omise-Signature-Timestamp": str(now)})

    def of(self, rig, event):
        trace = rig.trace(event)
        return trace["status"], bool(trace["late"])

    def test_what_comes_in_order_is_delivered_and_what_is_swapped_is_found(self):
        rig = self.with_sources("stripe", "shopify", "omise").start()
        then = int(time.time()) - 60
        # Stripe: two in order, then one of before; shopify and omise likewise, at the same time.
        first = [self.stripe(rig, 1, "created", "requires_payment_method", then),
                 self.stripe(rig, 2, "succeeded", "succeeded", then + 5),
                 self.shopify(rig, 1, "orders/create", "2023-03-29T18:00:27.877041743Z"),
                 self.shopify(rig, 2, "orders/paid", "2023-03-29T18:00:27.977041743Z"),
                 self.omise(rig, 1, "charge.create", "pending", "2023-03-29T18:00:20Z"),
                 self.omise(rig, 2, "charge.complete", "successful", "2023-03-29T18:00:24Z")]
        for event in first:
            rig.wait_status(event)
            self.assertEqual(self.of(rig, event), ("done", False))
        paths = [r.headers["webhook-id"] for r in rig.receiver.requests("/crm")]
        for early, late in zip(first[::2], first[1::2]):
            self.assertLess(paths.index(early), paths.index(late))
        # Late by its time, and no longer a valid transition.
        stale = [self.stripe(rig, 3, "processing", "processing", then + 3),
                 self.omise(rig, 3, "charge.update", "pending", "2023-03-29T18:00:22Z")]
        for event in stale:
            wait_for(lambda event=event: rig.trace(event)["status"] == "ignored")
            self.assertIn("invalid_transition", rig.trace(event)["reason"])
        late = [self.shopify(rig, 3, "orders/updated", "2023-03-29T18:00:26.000000000Z"),
                self.stripe(rig, 4, "succeeded", "succeeded", then + 1, kept="charge")]
        for event in late:
            rig.wait_status(event)
            self.assertEqual(self.of(rig, event), ("done", True))

    def test_swapped_events_within_the_window_are_delivered_in_order(self):
        rig = self.with_sources("stripe").start()
        then = int(time.time()) - 60
        second = self.stripe(rig, 2, "succeeded", "succeeded", then + 1)
        first = self.stripe(rig, 1, "processing", "processing", then)
        for event in (first, second):
            rig.wait_status(event)
            self.assertEqual(self.of(rig, event), ("done", False))
        self.assertEqual([r.headers["webhook-id"] for r in rig.receiver.requests("/crm")], [first, second])

    def test_an_event_without_the_time_is_delivered_as_it_arrives(self):
        rig = self.with_sources("github").start()
        body = json.dumps({"ref": "refs/heads/main", "repository": {"full_name": "octo/demo"},
                           "pusher": {"name": "octo"}}).encode()
        event = rig.accept(body, source="github", headers={
            "X-Hub-Signature-256": "sha256=" + mac(body).hexdigest(), "X-GitHub-Event": "push",
            "X-GitHub-Delivery": "d1"})
        rig.wait_status(event)
        self.assertEqual(self.of(rig, event), ("done", False))

    def test_check_prints_what_was_chosen_and_refuses_what_is_not_suggested(self):
        rig = self.with_sources("stripe")
        printed = rig.cli_text("check").stdout
        self.assertIn("order of stripe: by the time json:/created (suggested by its profile)", printed)
        self.assertIn({"source": "stripe", "key": "order", "text": "by the time json:/created"},
                      rig.cli("check")[0]["suggested"])
        self.assertIn("states of stripe: json:/data/object/status of json:/data/object/id", printed)
        self.assertIn("order: suggested", rig.cli_text("check", "--print").stdout)
        self.assertIn("suggested order", rig.cli_text("check", "--provider", "stripe").stdout)
        for provider, key in [("svix", "order"), ("paddle", "states")]:
            rig.config["sources"] = [{"name": "s", "provider": provider, "secrets": ["whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="],
                                      key: "suggested"}]
            rig.write_config()
            done = rig.cli_text("check")
            self.assertEqual(done.returncode, 78)
            self.assertIn(f"{key}: suggested: the profile of provider {provider} suggests no", done.stderr)
        rig.config["sources"][0] |= {"provider": "stripe", "states": "some"}
        rig.write_config()
        self.assertIn("must be suggested, or a section with object", rig.cli_text("check").stderr)


main()
