"""The Standard Webhooks library and openssl accept our signatures; without the library its
test is skipped."""

import base64
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from lone_deliverer import DelivererTest, event
from rig import main

LIBRARY = "standardwebhooks==1.1.0"
OLD = "whsec_" + base64.b64encode(b"the old secret, on its way out").decode()
NEW = "whsec_" + base64.b64encode(b"the new secret, on its way in.").decode()
# Of svix-server's own test: seed and public half.
OWN = ("whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dR"
       "qSKJp4AJ6p9lMicMFs6Kvg==")
PUBLIC = base64.b64decode(OWN[5:])[32:]
# What is asked of the library: one JSON document in, one out.
JUDGE = """
import json, sys
from standardwebhooks import Webhook, WebhookVerificationError
asked = json.load(sys.stdin)
try:
    Webhook(asked["secret"]).verify(bytes.fromhex(asked["body"]),
                                    asked["headers"], json_parse=False)
    print("accepted")
except WebhookVerificationError as e:
    print("refused:", e)
"""


class Judged(DelivererTest):
    def sent(self, n, secrets, body=b'{"n": 1}'):
        """The request for this body, as it arrived."""
        self.grant(100 + n, secrets=secrets)
        self.task(n, 100 + n, body=body)
        self.ended(n)
        return self.requests(n, count=1)[0]

    def library(self):
        """The Python of an environment that has it."""
        folder = self.r.folder / "venv"
        python = folder / "bin" / "python"
        for command in (
                [sys.executable, "-m", "venv", "--without-pip", folder],
                [sys.executable, "-m", "pip", "--python", python, "--quiet",
                 "--disable-pip-version-check", "--retries", "0", "--timeout",
                 "10", "install", "--no-deps", LIBRARY]):
            try:
                done = subprocess.run(command, capture_output=True, text=True,
                                      timeout=90)
            except (OSError, subprocess.TimeoutExpired) as e:
                self.skipTest(f"{LIBRARY} can't be had here: {e}")
            if done.returncode:
                self.skipTest(f"{LIBRARY} can't be had here: "
                              + (done.stderr or done.stdout).strip()[-300:])
        return python

    def judge(self, python, request, secret, body=None):
        asked = {"secret": secret, "headers": request.headers,
                 "body": (request.body if body is None else body).hex()}
        done = subprocess.run([python, "-c", JUDGE], input=json.dumps(asked),
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def test_the_library_accepts_our_requests(self):
        """With both secrets of a rotation and any bytes; and it refuses another
        body."""
        python = self.library()
        for n, body in enumerate([b'{"n": 1}', b'{\r\n "a":1}\r\n', b"",
                                  '{"ö": "\U0001f680"}'.encode()], 1):
            r = self.sent(n, f"{NEW} {OLD} {OWN}", body)
            for secret in (NEW, OLD):
                with self.subTest(body=body, secret=secret):
                    self.assertEqual(self.judge(python, r, secret), "accepted")
            self.assertIn("refused", self.judge(python, r, NEW, body + b" "))
            self.assertIn("refused", self.judge(
                python, r, "whsec_" + base64.b64encode(b"x" * 24).decode()))

    def test_openssl_accepts_our_v1a(self):
        r = self.sent(50, OWN)
        version, _, signature = r.headers["webhook-signature"].partition(",")
        self.assertEqual(version, "v1a")
        content = ".".join([event(50), r.headers["webhook-timestamp"], ""])
        for name, data in (
                ("public.der", bytes.fromhex("302a300506032b6570032100")
                 + PUBLIC),
                ("signature", base64.b64decode(signature)),
                ("content", content.encode() + r.body),
                ("other", content.encode() + r.body + b" ")):
            (self.r.folder / name).write_bytes(data)
        self.assertEqual([self.openssl("content"), self.openssl("other")],
                         [0, 1])

    def openssl(self, content):
        return subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-keyform",
             "DER", "-inkey", "public.der", "-sigfile", "signature", "-in",
             content], cwd=self.r.folder, capture_output=True).returncode


main()
