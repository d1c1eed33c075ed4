"""`grapnel drill`: it finds each planted defect of a receiver, and none in a correct one."""

import base64
import concurrent.futures
import hashlib
import hmac
import http.server
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import ROOT, Process, RigTest, main, wait_for

SECRET = "whsec_" + base64.b64encode(b"the secret of the drilled receiver").decode()
KNOWN = {f"grapnel-{n}" for n in ("attempt", "clock", "gap", "hops", "late", "previous", "replay", "sequence",
                                  "series", "source", "source-sequence", "time", "type", "workspace")}

# Each defect, and what the drill is to say of it.
DEFECTS = {
    "no_signature_check": {"accepts_wrong_signature", "accepts_unsigned"},
    "unsigned_is_fine": {"accepts_unsigned"},
    "no_clock_check": {"accepts_stale", "accepts_future"},
    "first_signature_only": {"checks_one_signature"},
    "fixed_headers": {"knows_all_headers"},
    "conflict_on_duplicate": {"refuses_duplicate", "refuses_replay", "loses_concurrent"},
    "in_order_only": {"refuses_reordered"},
    "no_gaps": {"refuses_early", "refuses_gap"},
    "one_series": {"refuses_new_series"},
    "small_bodies": {"refuses_large", "refuses_slow"},
    "impatient": {"refuses_slow"},
    "slow": {"slow_response"},
    "gone": {"refuses_with_410"},
    "dies_of_forgery": {"refuses_with_retry"},
}


def mac(content):
    return "v1," + base64.b64encode(hmac.new(base64.b64decode(SECRET[6:]), content, hashlib.sha256).digest()).decode()


class Receiver:
    """A receiver as docs/RECEIVING.md wants it, except for one defect."""

    def __init__(self, defect=""):
        receiver, self.defect = self, defect
        self.ids, self.highest, self.seen, self.lock = set(), {}, [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                size, began = int(self.headers["Content-Length"]), time.monotonic()
                body = self.rfile.read(size)
                status = receiver.judge(self.headers, body, time.monotonic() - began)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/hooks"

    def is_forged(self, h, body):
        id, at = h["webhook-id"], h["webhook-timestamp"]
        names = sorted(n for n in (n.lower() for n in h) if n.startswith("grapnel-") and n != "grapnel-signature")
        if self.defect == "fixed_headers":
            names = [n for n in names if n in KNOWN]
        lines = [f"webhook-id {id}", f"webhook-timestamp {at}", f"body-sha256 {hashlib.sha256(body).hexdigest()}",
                 *(f"{n} {h[n]}" for n in names)]
        right = mac("".join(f"{line}\n" for line in ["grapnel-signature v1", *lines]).encode("latin-1"))
        given = h.get("grapnel-signature", "").split()
        if self.defect == "unsigned_is_fine" and not given:
            return False
        return right not in (given[:1] if self.defect == "first_signature_only" else given)

    def judge(self, h, body, took):
        self.seen.append(({n.lower(): v for n, v in h.items()}, body))
        refusal = {"gone": 410, "dies_of_forgery": 500}.get(self.defect, 401)
        if self.defect != "no_clock_check" and abs(time.time() - int(h["webhook-timestamp"])) > 300:
            return refusal
        if self.defect != "no_signature_check" and self.is_forged(h, body):
            return refusal
        if self.defect == "small_bodies" and len(body) > 100_000:
            return 413
        if self.defect == "impatient" and took > 0.5:
            return 400
        if self.defect == "slow" and h["grapnel-sequence"] == "1":
            time.sleep(1.2)
        id, numbers = h["webhook-id"], (h["grapnel-series"], h["grapnel-workspace"])
        sequence, previous = int(h["grapnel-sequence"]), int(h["grapnel-previous"])
        with self.lock:
            if id in self.ids:
                return 409 if self.defect == "conflict_on_duplicate" else 200
            if self.defect == "in_order_only" and sequence <= self.highest.get(numbers, 0):
                return 409
            if self.defect == "no_gaps" and previous != self.highest.get(numbers, 0) and sequence > previous:
                return 422
            if self.defect == "one_series" and self.highest and numbers not in self.highest:
                return 400
            self.ids.add(id)
            self.highest[numbers] = max(sequence, self.highest.get(numbers, 0))
        return 204


class Drill(RigTest):
    def drilled(self, receivers, **settings):
        """A rig with an endpoint for each of them, by name."""
        rig = self.rig()
        rig.config["endpoints"] += [
            {"name": name, "url": r.url, "allow_private": True, "signing_secrets": [SECRET], "types": ["nothing"],
             "timeout": "2s" if name == "slow" else "15s", **settings} for name, r in receivers.items()]
        rig.write_config()
        return rig.start()

    def found(self, rig, name, *args):
        done, code = rig.cli("drill", name, *args)
        self.assertEqual(code, 1 if done["defects"] or done["unjudged"] else 0, done)
        return done

    def test_each_planted_defect_is_named_and_no_other(self):
        receivers = {d.replace("_", "-"): Receiver(d) for d in DEFECTS}
        rig = self.drilled(receivers)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = dict(zip(receivers, pool.map(lambda n: self.found(rig, n), receivers)))
        for name, done in results.items():
            with self.subTest(defect=name):
                self.assertIsNone(done["unjudged"])
                self.assertEqual({d["defect"] for d in done["defects"]}, DEFECTS[name.replace("-", "_")], done)

    def test_correct_receivers_have_none(self):
        receiver = Receiver()
        rig = self.drilled({"good": receiver})
        # The example of docs/RECEIVING.md.
        port = rig.ports.take()
        example = Process(rig, "example", [
            sys.executable, str(ROOT / "examples/receiver/python/receiver.py"), "serve", "--port", str(port),
            "--state", str(rig.folder / "receiver.state")])
        rig.others.append(example)
        example.spawn({"WEBHOOK_SECRETS": SECRET})
        wait_for(lambda: "listens " in example.log(), what="the example to listen")
        rig.config["endpoints"].append(
            {"name": "example", "url": f"http://127.0.0.1:{port}/hooks", "allow_private": True,
             "signing_secrets": [SECRET], "types": ["nothing"]})
        rig.write_config()
        before = rig.rows("sequencer", "SELECT count(*) AS n FROM deliveries")
        for name in ("good", "example"):
            with self.subTest(receiver=name):
                done = self.found(rig, name)
                self.assertEqual((done["defects"], done["unjudged"]), ([], None))
                self.assertEqual(len(done["steps"]), 19)
        # Requests are marked, in a series and workspace of their own, and nothing is stored.
        first, *rest = receiver.seen
        self.assertNotIn("grapnel-drill", first[0])
        self.assertTrue(all(h.get("grapnel-drill") for h, _ in rest))
        self.assertEqual({h["grapnel-workspace"] for h, _ in receiver.seen}, {"grapnel-drill"})
        self.assertEqual({h["grapnel-type"] for h, _ in receiver.seen}, {"grapnel.drill"})
        self.assertEqual(len({h["grapnel-series"] for h, _ in receiver.seen}), 2)
        self.assertEqual(rig.rows("sequencer", "SELECT count(*) AS n FROM deliveries"), before)
        again = self.found(rig, "good", "--type", "invoice.paid", "--body", self.body(rig, '{"amount": 3}'))
        self.assertNotEqual(again["series"], done["series"])
        self.assertEqual(json.loads(receiver.seen[-1][1]), {"amount": 3})
        self.assertEqual(receiver.seen[-1][0]["grapnel-type"], "invoice.paid")
        said = rig.cli_text("drill", "good")
        self.assertEqual(said.returncode, 0)
        self.assertIn("0 defects", said.stdout)

    def body(self, rig, text):
        path = rig.folder / "body.json"
        path.write_text(text)
        return str(path)

    def test_what_cannot_be_judged(self):
        receiver = Receiver()
        other = "whsec_" + base64.b64encode(b"a secret that the receiver does not have").decode()
        rig = self.drilled({"good": receiver}, signing_secrets=[other])
        done = self.found(rig, "good")
        self.assertIn("it has another secret", done["unjudged"])
        self.assertEqual(len(done["steps"]), 1)
        self.assertEqual(len(receiver.seen), 1)
        for args, said in ((("nobody",), "there is no endpoint"),
                           (("good", "--body", self.body(rig, "[1]")), "it is not a JSON object")):
            wrong = rig.cli_text("drill", *args)
            self.assertEqual((wrong.returncode, wrong.stdout), (1, ""), wrong)
            self.assertIn(said, wrong.stderr)
        # A receiver that nobody can tell forged requests: they are not sent.
        open_ = Receiver("no_signature_check")
        rig.config["endpoints"].append({"name": "open", "url": open_.url, "allow_private": True, "types": ["nothing"]})
        rig.write_config()
        done = self.found(rig, "open")
        self.assertEqual((done["defects"], done["signed"]), ([], False))
        self.assertEqual(len(done["steps"]), 14)


if __name__ == "__main__":
    main(at_once=2)
