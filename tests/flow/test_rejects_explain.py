"""`grapnel rejects explain`: the mistake behind a refused request is named by ingress, without a secret."""

import base64
import hashlib
import hmac
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

LIVE, TEST, SHARED = "whsec_of_live_mode_0001", "whsec_of_test_mode_0002", "a-shared-token-0003"
BODY = b'{"id": "evt_1", "type": "charge.succeeded", "livemode": false}'


class Explained(RigTest):
    def pipeline(self):
        rig = self.rig()
        rig.config["sources"] += [
            {"name": "stripe-live", "provider": "stripe", "secrets": [LIVE]},
            {"name": "stripe-test", "provider": "stripe", "secrets": [TEST]},
            {"name": "lab", "provider": "gitlab", "secrets": [SHARED]},
            {"name": "shop", "provider": "square", "secrets": ["square key 0004"],
             "public_url": "https://hooks.example.com/in/shop"}]
        rig.write_config()
        return rig.start()

    def refused(self, rig, body=BODY, secret=LIVE, source="stripe-live", signed=None, at=None, **headers):
        at = str(int(at or time.time()))
        made = hmac.new(secret.encode(), at.encode() + b"." + (signed or body), hashlib.sha256).hexdigest()
        status, _, _ = rig.post(body, source=source, headers=headers or {
            "Stripe-Signature": f"t={at},v1={made}", "Content-Type": "application/json"})
        self.assertIn(status, (401, 404))
        return rig.ask("ingress", "rejects")["rejects"][0]["id"]

    def explain(self, rig, id):
        def asked():
            found, code = rig.cli("rejects", "explain", id)
            return found if code == 0 else None
        found = wait_for(asked)  # five in a second
        self.assertNotIn(LIVE, json.dumps(found))
        self.assertNotIn(TEST, json.dumps(found))
        self.assertNotIn(SHARED, json.dumps(found))
        return found

    def named(self, rig, id):
        return [(f["mistake"], f["certain"]) for f in self.explain(rig, id)["findings"]]

    def test_the_mistake_is_named_also_after_a_restart(self):
        rig = self.pipeline()
        other = self.refused(rig, secret=TEST)
        for restarted in (False, True):
            with self.subTest(restarted=restarted):
                found = self.explain(rig, other)
                self.assertEqual([f["mistake"] for f in found["findings"]], ["other_source"])
                self.assertIn("the source stripe-test", found["findings"][0]["text"])
                self.assertIn("test mode", found["findings"][0]["text"])
                self.assertEqual((found["source"], found["reason"], found["complete"], found["note"]),
                                 ("stripe-live", "signature_mismatch", True, None))
            rig["ingress"].restart()
        said = wait_for(lambda: (t := rig.cli_text("rejects", "explain", other)).returncode == 0 and t.stdout)
        self.assertIn("other_source: It is signed with the secret of the source stripe-test", said)
        compact = json.dumps(json.loads(BODY), separators=(",", ":")).encode()
        self.assertEqual(self.named(rig, self.refused(rig, signed=compact)), [("body_json", True)])
        self.assertEqual(self.named(rig, self.refused(rig, at=time.time() - 3600)), [("time_old", True)])
        self.assertEqual(self.named(rig, self.refused(rig, **{"X-None": "1"})), [("header_missing", True)])
        self.assertEqual(self.named(rig, self.refused(rig, secret="nobody's")), [("test_mode", False)])
        self.assertEqual(self.named(rig, self.refused(rig, source="stripe-liv")), [("source_unknown", True)])
        # The secret is corrected: the same request would be accepted.
        rig.config["sources"][-4]["secrets"] = [LIVE, TEST]
        rig.write_config()
        self.assertEqual(rig.cli_text("reload").returncode, 0)
        self.assertEqual(wait_for(lambda: (n := self.named(rig, other)) and n[0][0] == "accepted_now" and n),
                         [("accepted_now", True)])

    def test_what_cannot_be_compared_is_said(self):
        rig = self.pipeline()
        id = self.refused(rig, source="lab", **{"X-Gitlab-Token": "another token"})
        found = self.explain(rig, id)
        self.assertEqual(found["findings"], [])
        self.assertIn("tokens of refused requests are not kept", found["note"])
        # Neither a wrong token nor one of another source is on the disk.
        self.refused(rig, **{"X-Gitlab-Token": SHARED, "Authorization": f"Bearer {SHARED}"})
        rig["ingress"].stop()
        for path in rig.state_dir.glob("ingress.db*"):
            self.assertNotIn(b"another token", path.read_bytes())
            self.assertNotIn(SHARED.encode(), path.read_bytes())
        # After a day the signature has gone, and the row is there.
        rig.change("ingress", "UPDATE reject_bodies SET at_ms = at_ms - 90000000")
        rig.start("ingress")
        wait_for(lambda: rig.rows("ingress", "SELECT * FROM reject_bodies") == [])
        self.assertIn("not kept", self.explain(rig, id)["note"])
        done = rig.cli_text("rejects", "explain", "rej_none")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no refused request has the id", done.stderr)

    def test_a_url_that_was_signed_and_an_empty_body(self):
        rig = self.pipeline()
        url = b"http://hooks.example.com/in/shop"
        made = base64.b64encode(hmac.new(b"square key 0004", url + BODY, hashlib.sha256).digest()).decode()
        found = self.explain(rig, self.refused(rig, source="shop", **{"x-square-hmacsha256-signature": made}))
        self.assertEqual([f["mistake"] for f in found["findings"]], ["public_url"])
        self.assertIn(url.decode(), found["findings"][0]["text"])
        # A request without a body is kept, too, and has none to show.
        id = self.refused(rig, body=b"", secret=TEST)
        self.assertEqual(self.named(rig, id)[0], ("other_source", True))
        self.assertEqual(rig.ask("ingress", "reject", id=id)["has_body"], False)
        self.assertNotIn("body_b64", rig.ask("ingress", "reject", id=id))

    def test_five_in_a_second(self):
        rig = self.pipeline()
        id = self.refused(rig, secret=TEST)
        codes = [self.is_limited(rig, id) for _ in range(12)]
        self.assertEqual(codes[:5], [False] * 5)
        self.assertIn(True, codes)

    @staticmethod
    def is_limited(rig, id):
        try:
            rig.ask("ingress", "reject_explain", id=id)
        except AssertionError as e:
            assert "limited" in str(e), e
            return True
        return False


if __name__ == "__main__":
    main(at_once=2)
