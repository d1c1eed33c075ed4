"""Requests that Grapnel signed are accepted, and changed ones are refused."""

import base64
import hashlib
import hmac
import unittest

from grapnel_receiver import Receiver, VerificationError
from vectors import KEY, NOW, VECTORS, body, delivery, headers

try:
    import cryptography  # noqa: F401
    ED25519 = True
except ImportError:
    ED25519 = False


class Vectors(unittest.TestCase):
    def test_every_request(self):
        for v in VECTORS["requests"]:
            if not ED25519 and any(k.startswith("whpk_") for k in v["keys"]):
                continue
            receiver = Receiver(v["keys"], clock=lambda: v["now"])
            verify = receiver.verify_standard if v["standard"] else receiver.verify
            with self.subTest(v["name"]):
                if v["valid"]:
                    event = verify(headers(v), body(v))
                    self.assertEqual(event.body, body(v))
                    self.assertEqual(event.id, dict(
                        (n.lower(), x) for n, x in v["headers"])["webhook-id"])
                else:
                    with self.assertRaises(VerificationError):
                        verify(headers(v), body(v))

    def test_headers_as_text(self):
        """As WSGI has them, in Latin-1."""
        [v] = [v for v in VECTORS["requests"] if v["name"] == "values in UTF-8"]
        receiver = Receiver(v["keys"], clock=lambda: v["now"])
        pairs = [(n, x.encode().decode("latin-1")) for n, x in v["headers"]]
        for given in (pairs, dict(pairs)):
            event = receiver.verify(given, body(v))
            self.assertEqual((event.type, event.workspace), ("prüfung€", "naà"))
        with self.assertRaisesRegex(ValueError, "as bytes"):
            receiver.verify(v["headers"], body(v))

    def test_fields_of_an_event(self):
        [v] = [v for v in VECTORS["requests"] if v["name"] == "every header"]
        event = Receiver(v["keys"], clock=lambda: v["now"]).verify(headers(v), body(v))
        self.assertEqual(event.json()["action"], "updated")
        self.assertEqual(
            (event.source, event.type, event.workspace, event.attempt, event.series,
             event.sequence, event.previous, event.source_sequence, event.gap, event.late,
             event.replay, event.time, event.clock),
            ("plane", "issue.updated", "demo", 2, "11400714819323198485", 19, 17, "6", "3-5",
             True, True, "2026-11-21T13:09:13.021Z", {"issue.created": 7, "issue.updated": 12}))


class Secrets(unittest.TestCase):
    def test_a_wrong_secret_is_refused_at_the_start(self):
        for secrets, said in ((["secret"], "begins with"), (["whsec_?"], "base64"),
                              (["whsec_"], "base64"), (["whsk_AAAA"], "private key"),
                              ([], "at least one"), (KEY, "list")):
            with self.subTest(secrets), self.assertRaisesRegex(ValueError, said):
                Receiver(secrets)

    @unittest.skipUnless(ED25519, "cryptography is not installed")
    def test_a_public_key_is_never_an_hmac_key(self):
        """It is public, so a stranger could sign with it."""
        with self.assertRaisesRegex(ValueError, "32 bytes"):
            Receiver(["whpk_AAAA"])
        [v] = [v for v in VECTORS["requests"] if v["name"] == "Ed25519"]
        public = base64.b64decode(v["keys"][0].removeprefix("whpk_"))
        content = f"evt_1.{NOW}.{{}}".encode()
        mac = base64.b64encode(hmac.new(public, content, hashlib.sha256).digest()).decode()
        for version in ("v1", "v1a"):
            with self.assertRaisesRegex(VerificationError, "is wrong"):
                Receiver(v["keys"], clock=lambda: NOW).verify_standard(
                    [("webhook-id", "evt_1"), ("webhook-timestamp", str(NOW)),
                     ("webhook-signature", f"{version},{mac}")], b"{}")

    def test_hundreds_of_signatures_are_refused(self):
        given, data = delivery("in order", 0)
        given = [(n, b" ".join([v] * 33) if n == b"webhook-signature" else v) for n, v in given]
        with self.assertRaisesRegex(VerificationError, "more than 32"):
            Receiver([KEY], clock=lambda: NOW).verify(given, data)

    def test_a_body_that_was_parsed_is_refused(self):
        given, data = delivery("in order", 0)
        with self.assertRaises(TypeError):
            Receiver([KEY], clock=lambda: NOW).verify(given, data.decode())


if __name__ == "__main__":
    unittest.main()
