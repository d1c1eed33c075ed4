"""Each provider profile: signatures by `grapnel send`, handshakes, requests with several
events, and replays under another delivery id."""

import base64
import hashlib
import hmac
import json
import pathlib
import subprocess
import sys
import time
import uuid
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, wait_for

VECTORS = json.loads(
    (pathlib.Path(__file__).parents[1] / "vectors.json").read_text())
PUBLIC_URL = "https://hooks.example.com/in/"
# A secret of each provider that its profile takes.
SECRETS = {v["provider"]: v["secret"] for v in VECTORS if v["valid"]}
PUBLIC_KEYS = ["standard-webhooks-ed25519", "discord", "sendgrid", "paypal"]
HUBSPOT_KEY = "hubspot-secret"


def source(provider, secret=None):
    return {"name": provider, "provider": provider,
            "secrets": [(secret or SECRETS[provider]).replace("$", "$$")],
            "public_url": PUBLIC_URL + provider, "webhook_id": "wh-1"}


def hubspot(body):
    """The headers that HubSpot sends with this body."""
    at = str(int(time.time() * 1000))
    signed = b"POST" + (PUBLIC_URL + "hubspot-v3").encode() + body + at.encode()
    mac = hmac.new(HUBSPOT_KEY.encode(), signed, hashlib.sha256).digest()
    return {"Content-Type": "application/json",
            "X-HubSpot-Request-Timestamp": at,
            "X-HubSpot-Signature-v3": base64.b64encode(mac).decode()}


def signed_v0(body, name, key):
    """Slack's and Zoom's way."""
    at = str(int(time.time()))
    mac = hmac.new(key.encode(), f"v0:{at}:".encode() + body, hashlib.sha256)
    prefix = "X-Slack-" if name == "slack" else "x-zm-"
    return {"Content-Type": "application/json",
            prefix + "Request-Timestamp": at,
            prefix + "Signature": "v0=" + mac.hexdigest()}


class Send(RigTest):
    def send(self, rig, name, *more):
        result, _ = rig.cli("send", name, *more)
        return result

    def use_own_keys(self, rig):
        """A fresh pair for each; its public half goes into the file."""
        for name in PUBLIC_KEYS:
            result = self.send(rig, name, "--private-key", f"{name}.pem")
            self.assertEqual((result["http_status"], result["reason"]),
                             (401, "signature_mismatch"), name)
            for s in rig.config["sources"]:
                if s["name"] == name:
                    s["secrets"] = [result["public_key"]]
        rig.write_config()
        rig["ingress"].reload()

    def test_send_signs_for_every_profile(self):
        """P7: ingress accepts the provider's signature and no other, and each event
        is parsed and delivered."""
        self.assertEqual(len(SECRETS), 28)
        rig = self.rig({"sources": [source(name) for name in SECRETS]}).start()
        self.use_own_keys(rig)
        for name in SECRETS:
            how = ["--private-key", f"{name}.pem"] if name in PUBLIC_KEYS else []
            result = self.send(rig, name, *how)
            self.assertEqual(result["http_status"], 200, (name, result))
        rig.receiver.wait(count=len(SECRETS), path="/crm")
        requests = rig.receiver.requests("/crm")
        self.assertEqual({r.headers["grapnel-source"] for r in requests},
                         set(SECRETS))
        for r in requests:
            with self.subTest(source=r.headers["grapnel-source"]):
                self.assertNotEqual(r.headers["grapnel-type"], "unknown")
                for header in r.headers:
                    if header not in ("webhook-signature", "grapnel-signature"):
                        self.assertNotRegex(header, "signature|token|hmac|sig$")

    def test_a_private_key_of_another_kind_is_refused(self):
        rig = self.rig({"sources": [source("discord"), source("paypal"),
                                    source("github")]})
        self.assertEqual(
            rig.cli_text("send", "discord", "--private-key",
                         "k.pem").returncode, 69)  # no ingress, but a key
        done = rig.cli_text("send", "paypal", "--private-key", "k.pem")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no private key (PEM) of the kind for source paypal",
                      done.stderr)
        self.assertEqual((rig.folder / "k.pem").stat().st_mode & 0o777, 0o600)
        done = rig.cli_text("send", "github", "--private-key", "k.pem")
        self.assertEqual(done.returncode, 64)

    def test_check_explains_a_profile(self):
        rig = self.rig()
        text = rig.cli_text("check", "--provider", "github").stdout
        self.assertIn("X-Hub-Signature-256", text)
        self.assertIn("provider: custom", text)
        done = rig.cli_text("check", "--provider", "githib")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did you mean github?", done.stderr)


class Handshakes(RigTest):
    def test_handshakes_are_answered_and_are_not_events(self):
        rig = self.rig({"sources": [source("slack", "s3cret"),
                                    source("zoom", "t0ken"),
                                    source("intercom")]}).start("ingress")
        slack = json.dumps({"type": "url_verification", "token": "x",
                            "challenge": "3eZbrw1aBm2rZgRNFdxV"}).encode()
        status, headers, response = rig.post(
            slack, "slack", signed_v0(slack, "slack", "s3cret"))
        self.assertEqual((status, response), (200, b"3eZbrw1aBm2rZgRNFdxV"))
        self.assertTrue(headers["Content-Type"].startswith("text/plain"))

        zoom = json.dumps({"event": "endpoint.url_validation", "payload": {
            "plainToken": "qgg8vlvZRS6UYooatFL8Aw"}}).encode()
        status, _, response = rig.post(zoom, "zoom",
                                     signed_v0(zoom, "zoom", "t0ken"))
        self.assertEqual(status, 200)
        self.assertEqual(response, {
            "plainToken": "qgg8vlvZRS6UYooatFL8Aw",
            "encryptedToken": hmac.new(b"t0ken", b"qgg8vlvZRS6UYooatFL8Aw",
                                       hashlib.sha256).hexdigest()})

        with self.subTest("a HEAD, where it is one"):
            status, _, response = http_request(rig.ingress_port, "HEAD",
                                             "/in/intercom")
            self.assertEqual((status, response), (200, b""))
            status, headers, _ = http_request(rig.ingress_port, "HEAD", "/in/zoom")
            self.assertEqual((status, headers["Allow"]), (405, "POST"))

        with self.subTest("only for those who sign"):
            for name, body in ("slack", slack), ("zoom", zoom):
                status, _, response = rig.post(body, name,
                                             signed_v0(body, name, "wrong"))
                self.assertEqual(status, 401)
                self.assertEqual(response["error"]["code"], "unauthorized")

        with self.subTest("an event of the same source is kept"):
            event = json.dumps({"type": "event_callback", "event_id": "Ev1",
                                "event": {"type": "app_mention"}}).encode()
            rig.accept(event, source="slack",
                       headers=signed_v0(event, "slack", "s3cret"))
        self.assertEqual(rig.rows("ingress", "SELECT source FROM archive"),
                         [{"source": "slack"}])

    def test_discord_gets_a_pong(self):
        rig = self.rig({"sources": [source("discord")]}).start("ingress")
        how = ["discord", "--private-key", "k.pem"]
        result, _ = rig.cli("send", *how)
        rig.config["sources"][0]["secrets"] = [result["public_key"]]
        rig.write_config()
        rig["ingress"].reload()
        for ping, status in ({"type": 1}, 200), ({"type": 0}, 204):
            (rig.folder / "ping.json").write_text(json.dumps(ping))
            result, _ = rig.cli("send", *how, "--file", "ping.json")
            self.assertEqual(result["http_status"], status, result)
            if status == 200:
                self.assertEqual(result["type"], 1)
        self.assertEqual(rig.rows("ingress", "SELECT source FROM archive"), [])


class SeveralEvents(RigTest):
    ELEMENTS = [
        b'{ "eventId":1,"subscriptionType":"contact.creation","portalId":62515,'
        b'"subscriptionId":12,"occurredAt":1700000000000, "note":"],[{\\"" }',
        b'{"eventId":2,"subscriptionType":"deal.deletion","portalId":62516,'
        b'"subscriptionId":12,"occurredAt":1.70e12}',
        b'{"eventId":3,"subscriptionType":"contact.creation","portalId":62515,'
        b'"subscriptionId":12,"occurredAt":1700000000002}',
    ]

    def hubspot_rig(self):
        return self.rig({"sources": [source("hubspot-v3", HUBSPOT_KEY)]})

    def take(self, rig, body):
        return rig.accept(body, source="hubspot-v3", headers=hubspot(body))

    def batch(self):
        return b"[ " + b" ,\r\n".join(self.ELEMENTS) + b" ]\n"

    def test_each_element_of_a_request_is_an_event(self):
        """P2, P10: as many events as elements, each with its own id, type and
        workspace, byte for byte; the request's trace leads to them."""
        rig = self.hubspot_rig().start()
        request = self.take(rig, self.batch())
        rig.receiver.wait(count=3, path="/crm")
        got = sorted(rig.receiver.requests("/crm"), key=lambda r: r.body[-20:])
        by_body = {r.body: r.headers for r in got}
        self.assertEqual(set(by_body), set(self.ELEMENTS))
        self.assertEqual(
            [(by_body[e]["grapnel-type"], by_body[e]["grapnel-workspace"],
              by_body[e]["grapnel-sequence"]) for e in self.ELEMENTS],
            [("contact.creation", "62515", "1"), ("deal.deletion", "62516", "1"),
             ("contact.creation", "62515", "2")])
        trace = rig.wait_status(request, "done")
        ids = [by_body[e]["webhook-id"] for e in self.ELEMENTS]
        self.assertEqual([e["id"] for e in trace["events"]], ids)
        self.assertEqual([e["provider_id"] for e in trace["events"]],
                         ["1", "2", "3"])
        for event in ids:
            trace = rig.wait_status(event, "done")
            self.assertEqual(trace["request"], request)
            self.assertEqual(trace["deliveries"][0]["status"], "delivered")
            self.assertIn("by source hubspot-v3", " ".join(
                t["what"] for t in trace["timeline"]))
        self.assertIn(ids[2], rig.cli_text("trace", request).stdout)

        with self.subTest("sent again, each is a duplicate"):
            again = self.take(rig, self.batch())
            trace = rig.wait_status(again, "done")
            self.assertEqual({e["status"] for e in trace["events"]},
                             {"duplicate"})

        with self.subTest("in another request with new ones, only those count"):
            body = b"[" + self.ELEMENTS[0] + b"," + self.ELEMENTS[0].replace(
                b'"eventId":1', b'"eventId":9') + b"]"
            trace = rig.wait_status(self.take(rig, body), "done")
            wait_for(lambda: len(rig.receiver.requests("/crm")) == 4)
            self.assertEqual([e["status"] for e in trace["events"]][0],
                             "duplicate")

    def test_a_body_that_is_not_a_list_is_one_event(self):
        rig = self.hubspot_rig().start()
        event = self.take(rig, self.ELEMENTS[0])
        request, = rig.receiver.wait(event)
        self.assertEqual(request.body, self.ELEMENTS[0])

    def test_a_request_that_cannot_be_split_is_a_dead_letter(self):
        """P2."""
        rig = self.hubspot_rig().start()
        for body in b"[]", b"no list", b"[1,", b'[{"eventId":{}}]':
            request = self.take(rig, body)
            trace = wait_for(lambda: rig.cli("trace", request)[0])
            events = {request} | {e["id"] for e in trace["events"]}
            wait_for(lambda: [x for x in rig.cli("dlq")[0]
                              if x["reason"].startswith("refused:")
                              and x["event_id"] in events],
                     what=f"a dead letter for {body}")

    def test_a_request_is_done_when_all_of_its_events_are(self):
        """P6, P10: an element that waits for an earlier number holds only
        itself, and the request's trace says that it is not done."""
        rig = self.rig({"sources": [{
            "name": "ledger", "provider": "custom", "secrets": ["t0p"],
            "verify": {"scheme": "shared-token", "header": "X-Token"},
            "batch": True, "id": "json:/n",
            "order": {"by": "sequence", "sequence": "json:/n",
                      "give_up_after": "1h"}}]}).start()
        how = {"source": "ledger", "headers": {"X-Token": "t0p"}}
        request = rig.accept(b'[{"n":1},{"n":3}]', **how)
        trace = wait_for(lambda: (t := rig.cli("trace", request)[0])
                         and t.get("events") and t)
        self.assertEqual([e["status"] for e in trace["events"]][1], "buffered")
        rig.receiver.wait(count=1, path="/crm")
        self.assertEqual(rig.trace(request)["status"], "routed")
        rig.accept(b'[{"n":2}]', **how)
        rig.wait_status(request, "done")
        self.assertEqual([r.body for r in rig.receiver.requests("/crm")][0],
                         b'{"n":1}')

    def test_split_events_keep_their_ids_when_split_again(self):
        """P4: a sequencer that has lost its disk splits the requests again, and the
        receiver gets the same ids."""
        rig = self.hubspot_rig().start()
        self.take(rig, self.batch())
        rig.receiver.wait(count=3, path="/crm")
        first = {r.headers["webhook-id"] for r in rig.receiver.requests("/crm")}
        rig["sequencer"].kill()
        rig["deliverer-1"].kill()
        for left in rig.state_dir.glob("sequencer.db*"):
            left.unlink()
        rig.start("sequencer", "deliverer-1")
        rig.receiver.wait(count=6, path="/crm")
        self.assertEqual(
            {r.headers["webhook-id"] for r in rig.receiver.requests("/crm")},
            first)


class Duplicates(RigTest):
    def test_a_replay_with_another_delivery_id_is_a_duplicate(self):
        """P7: GitHub signs only the body, so its digest is a key as well."""
        rig = self.rig({"sources": [source("github", "gh")]}).start()
        body = b'{"action":"opened","repository":{"full_name":"a/b"}}'

        def headers():
            return {"Content-Type": "application/json",
                    "X-GitHub-Event": "issues",
                    "X-GitHub-Delivery": str(uuid.uuid4()),
                    "X-Hub-Signature-256": "sha256=" + hmac.new(
                        b"gh", body, hashlib.sha256).hexdigest()}

        event = rig.accept(body, source="github", headers=headers())
        request, = rig.receiver.wait(event)
        self.assertEqual(request.headers["grapnel-type"], "issues.opened")
        self.assertEqual(request.headers["grapnel-workspace"], "a/b")
        self.assertEqual(request.headers["x-github-event"], "issues")
        replay = rig.accept(body, source="github", headers=headers())
        self.assertEqual(
            rig.wait_status(replay, "duplicate")["duplicate_of"], event)


    def test_a_form_sent_again_in_other_bytes_is_a_duplicate(self):
        """P7: Twilio signs the fields, not their encoding."""
        rig = self.rig({"sources": [source("twilio", "t0k")]}).start()
        signed = PUBLIC_URL + "twilio" + "AccountSidAC1MessageStatussent"
        mac = hmac.new(b"t0k", signed.encode(), hashlib.sha1).digest()

        def accept(body):
            return rig.accept(body, source="twilio", headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "I-Twilio-Idempotency-Token": str(uuid.uuid4()),
                "X-Twilio-Signature": base64.b64encode(mac).decode()})

        event = accept(b"AccountSid=AC1&MessageStatus=sent")
        rig.receiver.wait(event)
        for body in (b"MessageStatus=sent&AccountSid=AC1",
                     b"AccountSid=AC1&MessageStatus=s%65nt",
                     b"AccountSid=AC1MessageStatussent"):
            replay = accept(body)
            self.assertEqual(
                rig.wait_status(replay, "duplicate")["duplicate_of"], event)


def keeping_crc(body, other):
    """`other`, whose 64 `a`s are made of `a` and `c` so that its CRC-32 is that of
    `body`. A CRC is linear: each dead letter that is changed flips the same bits of it
    whatever the others are, so this is 32 equations with 64 unknowns."""
    at = other.index(b"a" * 64)
    other = bytearray(other)
    start = zlib.crc32(other)
    rows = []
    for i in range(64):
        other[at + i] = ord("c")
        rows.append((zlib.crc32(other) ^ start, 1 << i))
        other[at + i] = ord("a")
    want, chosen = zlib.crc32(body) ^ start, 0
    for bit in range(32):
        row = next(r for r in rows if r[0] >> bit & 1)
        rows = [(r[0] ^ row[0], r[1] ^ row[1]) if r[0] >> bit & 1 else r
                for r in rows if r is not row]
        if want >> bit & 1:
            want, chosen = want ^ row[0], chosen ^ row[1]
    for i in range(64):
        if chosen >> i & 1:
            other[at + i] = ord("c")
    return bytes(other)


class PayPal(RigTest):
    """P7: of the body only a CRC-32 is signed."""

    def setUp(self):
        super().setUp()
        self.rig_ = rig = self.rig({"sources": [source("paypal")]})
        key = rig.folder / "paypal.key"
        subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt",
                        "rsa_keygen_bits:2048", "-out", key], check=True,
                       capture_output=True)
        rig.config["sources"][0]["secrets"] = [subprocess.run(
            ["openssl", "pkey", "-in", key, "-pubout"], check=True,
            capture_output=True, text=True).stdout]
        rig.write_config()
        rig.start()

    def headers(self, body, age_s, id="t-1"):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s))
        signed = f"{id}|{at}|wh-1|{zlib.crc32(body)}".encode()
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign",
             self.rig_.folder / "paypal.key"], input=signed, check=True,
            capture_output=True).stdout
        return {"Content-Type": "application/json", "PAYPAL-TRANSMISSION-ID": id,
                "PAYPAL-TRANSMISSION-TIME": at, "PAYPAL-TRANSMISSION-SIG":
                base64.b64encode(signature).decode()}

    def test_a_changed_body_with_the_same_crc_takes_no_effect(self):
        body = (b'{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED",'
                b'"resource":{"total":"7.00"}}')
        other = keeping_crc(body, body.replace(b"7.00", b"9999.00").replace(
            b'"WH-1"', b'"WH-2","x":"' + b"a" * 64 + b'"'))
        self.assertEqual(zlib.crc32(body), zlib.crc32(other))
        headers = self.headers(body, age_s=3 * 86400)
        event = self.rig_.accept(body, source="paypal", headers=headers)
        self.rig_.receiver.wait(event)
        again = self.rig_.accept(other, source="paypal", headers=headers)
        self.assertEqual(
            self.rig_.wait_status(again, "duplicate")["duplicate_of"], event)

    def test_a_transmission_is_too_old_before_its_key_is_forgotten(self):
        body = b'{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED"}'
        for age_s in (5 * 86400, 8 * 86400, -3600):
            status, _, _ = self.rig_.post(body, source="paypal",
                                          headers=self.headers(body, age_s))
            self.assertEqual(status, 401)
        rejects, _ = self.rig_.cli("rejects", "--source", "paypal")
        self.assertEqual({r["reason"] for r in rejects}, {"timestamp_stale"})


class Expressions(RigTest):
    def test_fields_of_forms_and_queries_are_found(self):
        """The query reaches the archive, the sequencer, and never a receiver's
        headers."""
        rig = self.rig({"sources": [{
            "name": "shop", "provider": "custom", "secrets": ["t0p"],
            "verify": {"scheme": "shared-token", "signature": "query:key"},
            "id": "form:order", "type": ["query:event", "const:none"],
            "workspace": ["header:X-Shop", "form:shop[name]"]}]}).start()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        body = b"order=42&shop%5Bname%5D=caf%C3%A9+1"
        event = rig.accept(body, headers=form,
                           path="/in/shop?event=order%2Epaid&key=t0p")
        request, = rig.receiver.wait(event)
        self.assertEqual(request.body, body)
        self.assertEqual(request.headers["grapnel-type"], "order.paid")
        self.assertEqual(rig.trace(event)["provider_id"], "42")
        self.assertEqual(rig.trace(event)["workspace"], "café 1")
        self.assertNotIn("t0p", str(request.header_list))
        shown = rig.ask("ingress", "trace", id=event)
        self.assertNotIn("t0p", json.dumps(shown))
        status, _, _ = rig.post(body, headers=form, path="/in/shop?key=t0q")
        self.assertEqual(status, 401)


if __name__ == "__main__":
    main()
