"""The example receivers of docs/RECEIVING.md, behind a pipeline and a proxy that repeats,
loses, delays and changes requests, log the right result each time. P4, P7."""

import base64
import hashlib
import hmac
import importlib.util
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from between import Between, value
from rig import ROOT, Process, RigTest, main, wait_for

EXAMPLES = ROOT / "examples" / "receiver"
NODE = shutil.which("node") or shutil.which("nodejs")
NO_NODE = "no node here: tools/deps test installs it"
OLD = "whsec_" + base64.b64encode(b"the secret on its way out").decode()
NEW = "whsec_" + base64.b64encode(b"the secret on its way in").decode()
PAGE = (ROOT / "docs" / "RECEIVING.md").read_text()


def changed(headers, name, to):
    """`to`: None takes it away."""
    rest = [(n, v) for n, v in headers if n.lower() != name]
    return rest + [(name, to)] * (to is not None)


def sign(content):
    key = base64.b64decode(OLD.removeprefix("whsec_"))
    return "v1," + base64.b64encode(
        hmac.new(key, content, hashlib.sha256).digest()).decode()


class Server(Process):
    def __init__(self, rig, program_, port):
        self.program = [*program_]
        self.state = rig.folder / "receiver.state"
        super().__init__(rig, "example", [
            *self.program, "serve", "--port", str(port), "--state",
            str(self.state)])

    def start(self, secrets=OLD, env=None):
        before = self.log().count("listens ")
        self.spawn({"WEBHOOK_SECRETS": secrets, **(env or {})})
        wait_for(lambda: self.log().count("listens ") > before,
                 what="the example to listen")
        return self

    def lines(self, event=None):
        lines = [line.split(" ") for line in self.log().splitlines()]
        return [" ".join(line[:1] + line[2:]) for line in lines
                if event is None or event in line[1:2]]

    def missing(self, older=0):
        done = subprocess.run(
            [*self.program, "missing", "--state", str(self.state), "--older",
             str(older)], capture_output=True, text=True)
        lines = done.stdout.splitlines()
        assert done.returncode == any(x.startswith("missing") for x in lines), done
        assert not done.stderr, done.stderr
        return [" ".join(line.split(" ")[:3]) for line in lines]


class Receives:
    """What both do. `PROGRAM`: how it is started."""

    def began(self, **endpoint):
        rig = self.rig()
        port = rig.ports.take()
        self.between = Between(port)
        self.addCleanup(self.between.close)
        self.server = Server(rig, self.PROGRAM, port)
        rig.others.append(self.server)
        rig.config["endpoints"] = [{**rig.endpoint(
            "crm", signing_secrets=[OLD], **endpoint), "url": self.between.url}]
        rig.write_config()
        self.server.start()
        return rig.start()

    def one(self, rig, workspace="w", said=None, **how):
        """An accepted event that the receiver has logged."""
        event = rig.accept(rig.plane_body(workspace, **how))
        self.says(event, said)
        return event

    def says(self, event, said=None, count=1):
        wait_for(lambda: len(self.server.lines(event)) >= count,
                 what=f"{count} lines about {event}: {self.server.lines()}")
        if said is not None:
            self.assertEqual(self.server.lines(event)[count - 1], said)

    def again(self, rig, event):
        self.assertEqual(rig.cli("resend", event)[1], 0)

    def test_p4_receivers_handle_repeated_lost_and_out_of_order_events(self):
        rig = self.began()
        between, server = self.between, self.server
        self.one(rig, said="processed w 1 starts-after=0")
        with self.subTest("the same request twice"):
            between.rule = lambda h, b: (between.forward(h, b),
                                         between.forward(h, b))[1]
            event = rig.accept(rig.plane_body("w"))
            self.says(event, "duplicate w 2", count=2)
            self.assertEqual(server.lines(event)[0], "processed w 2")
            between.rule = between.forward
        with self.subTest("an operator sends it again"):
            rig.wait_status(event)
            self.again(rig, event)
            self.says(event, "duplicate w 2 replay=1", count=3)
        with self.subTest("lost: somebody responded 200 in the receiver's place"):
            between.rule = lambda h, b: 200
            lost = rig.accept(rig.plane_body("w"))
            rig.wait_status(lost)
            between.rule = between.forward
            self.one(rig, said="processed w 4 waits-for=3")
            self.one(rig, said="processed w 5")
            self.one(rig, "other", said="processed other 1 starts-after=0")
            self.assertEqual(server.missing(), ["missing w 3"])
            self.assertEqual(server.missing(older=3600), [])
            self.again(rig, lost)
            self.says(lost, "processed w 3 was-waited-for replay=1")
            self.assertEqual(server.missing(), [])
        with self.subTest("two at once on an endpoint without `ordered`"):
            go = threading.Event()
            body = rig.plane_body("w")
            between.rule = lambda h, b: (go.wait(60) if b == body else None,
                                         between.forward(h, b))[1]
            first = rig.accept(body)
            wait_for(lambda: any(b == body for _, b in between.seen))
            self.one(rig, said="processed w 7 waits-for=6")
            go.set()
            self.says(first, "processed w 6 was-waited-for")
            self.assertEqual(server.missing(), [])
            between.rule = between.forward
        with self.subTest("kill -9 and a new start: it knows what it had"):
            server.kill()
            while_down = rig.accept(rig.plane_body("w"))  # is tried again
            server.start()
            self.says(while_down, "processed w 8")
            rig.wait_status(event)
            self.again(rig, event)
            self.says(event, "duplicate w 2 replay=1", count=4)
            self.assertEqual(server.missing(), [])
        with self.subTest("other types, then all again: not a loss"):
            rig.config["endpoints"][0]["types"] = ["cycle.*"]
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            for _ in range(2):
                rig.wait_status(rig.accept(rig.plane_body("w")))
            self.one(rig, event="cycle", said="processed w 11")
            del rig.config["endpoints"][0]["types"]
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            self.one(rig, said="processed w 12")
            self.assertEqual(server.missing(), [])
        with self.subTest("a test of the endpoint has no sequence"):
            done = rig.cli_text("endpoints", "test", "crm")
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(server.log(), r"processed evt_\w+\n")
            self.assertIn("grapnel-signature", done.stdout)

    def test_p7_changed_requests_are_refused(self):
        rig = self.began()
        between, server = self.between, self.server
        self.one(rig, said="processed w 1 starts-after=0")
        wrong = "refused grapnel-signature is wrong"
        for what, change, said in (
                ("a header changed",
                 lambda h, b: (changed(h, "grapnel-sequence", "7"), b), wrong),
                ("a header taken away",
                 lambda h, b: (changed(h, "grapnel-previous", None), b), wrong),
                ("a header added",
                 lambda h, b: (changed(h, "grapnel-replay", "1"), b), wrong),
                ("one that nobody knows added",
                 lambda h, b: (changed(h, "grapnel-new", "1"), b), wrong),
                ("a header twice",
                 lambda h, b: (h + [("Grapnel-Sequence", "2")], b), wrong),
                ("the body changed", lambda h, b: (h, b + b" "),
                 "refused webhook-signature is wrong"),
                ("the signature changed",
                 lambda h, b: (changed(h, "webhook-signature", "v1,AAAA"), b),
                 "refused webhook-signature is wrong"),
                ("the signature taken away",
                 lambda h, b: (changed(h, "grapnel-signature", None), b),
                 "refused 0 headers grapnel-signature")):
            with self.subTest(what):
                count = len(server.lines())
                between.rule = lambda h, b: between.forward(*change(h, b))
                event = rig.accept(rig.plane_body("w"))
                rig.wait_status(event)
                self.assertEqual(server.log().splitlines()[count:], [said])
                # Refused for good; its operator sends it again.
                between.rule = between.forward
                self.again(rig, event)
                self.says(event)
                self.assertIn("processed w", server.lines(event)[0])
        self.assertEqual(server.missing(), [])
        with self.subTest("a captured request within its time"):
            headers, body = between.request(event)
            self.assertEqual(between.forward(headers, body), 204)
            self.says(event, count=2)
            self.assertIn("duplicate w", server.lines(event)[1])
        with self.subTest("and after it"):
            server.kill()
            server.start(env=self.later(rig, 600))
            self.assertEqual(between.forward(headers, body), 401)
            self.assertIn("refused webhook-timestamp is too far off",
                          server.log())

    def test_p7_a_secret_can_be_changed_without_a_refusal(self):
        """The sender signs with both secrets meanwhile."""
        rig = self.began()
        self.one(rig, said="processed w 1 starts-after=0")
        for secrets, has in (([OLD], f"{NEW} {OLD}"), ([NEW, OLD], f"{NEW} {OLD}"),
                             ([NEW, OLD], NEW), ([NEW], NEW)):
            self.server.kill()
            self.server.start(has)
            rig.config["endpoints"][0]["signing_secrets"] = secrets
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            self.one(rig)
        self.assertNotIn("refused", self.server.log())
        self.assertEqual(self.server.missing(), [])

    def test_p4_receivers_handle_a_new_series_after_a_restore(self):
        rig = self.began()
        server, between = self.server, self.between
        for n in (1, 2):
            self.one(rig)
        rig.settle()
        backup = rig.folder / "backup"
        self.assertEqual(rig.cli("backup", backup)[1], 0)
        for n in (3, 4):
            gone = self.one(rig, said=f"processed w {n}")
        rig.settle()
        rig.stop()
        done = rig.cli_text("restore", backup)
        self.assertEqual(done.returncode, 0, done)
        rig.start()
        after = self.one(rig, said="processed w 3 starts-after=2")
        self.assertNotEqual(after, gone)
        self.one(rig, said="processed w 4")
        self.assertEqual(server.missing(), [])
        between.rule = lambda h, b: 200
        lost = rig.accept(rig.plane_body("w"))
        rig.wait_status(lost)
        between.rule = between.forward
        self.one(rig, said="processed w 6 waits-for=5")
        self.assertEqual(server.missing(), ["missing w 5"])

    def by_hand(self, n, sequence, previous, series="1", at_s=0, **more):
        """A request of ours, signed as Grapnel does it; what is logged of it."""
        id, body = f"evt_{n:026d}", b"{}"
        headers = {"grapnel-attempt": "1", "grapnel-source": "s",
                   "grapnel-type": "t", "grapnel-workspace": "w",
                   "grapnel-time": "2026-11-21T19:49:17.021Z",
                   "grapnel-series": series, "grapnel-sequence": str(sequence),
                   "grapnel-previous": str(previous),
                   **{f"grapnel-{k}": v for k, v in more.items()}}
        stamp = str(int(time.time()) + at_s)
        text = "".join(f"{name} {value}\n" for name, value in (
            ("grapnel-signature", "v1"), ("webhook-id", id),
            ("webhook-timestamp", stamp),
            ("body-sha256", hashlib.sha256(body).hexdigest()),
            *sorted(headers.items())))
        headers |= {
            "webhook-id": id, "webhook-timestamp": stamp,
            "webhook-signature": sign(f"{id}.{stamp}.".encode() + body),
            "grapnel-signature": sign(text.encode())}
        count = len(self.server.lines(id))
        self.assertEqual(self.between.forward([*headers.items()], body), 204)
        self.says(id, count=count + 1)
        return self.server.lines(id)[-1]

    def test_p4_receivers_report_what_the_numbers_mean(self):
        """Cases that are rare in a pipeline."""
        rig = self.rig(deliverers=0)
        port = rig.ports.take()
        self.between = Between(port)
        self.addCleanup(self.between.close)
        server = self.server = Server(rig, self.PROGRAM, port)
        rig.others.append(server)
        server.start()
        say = self.by_hand
        with self.subTest("a receiver that is younger than the endpoint"):
            self.assertEqual(say(1, 7, 5, replay="1"), "processed w 7 replay=1")
            self.assertEqual(say(2, 12, 11), "processed w 12 starts-after=11")
            self.assertEqual(say(3, 11, 9), "processed w 11 was-waited-for")
            self.assertEqual(server.missing(), [])
        with self.subTest("what the provider's order says"):
            self.assertEqual(say(4, 13, 12, gap="3-5"), "processed w 13 gap=3-5")
            self.assertEqual(say(5, 14, 13, late="1"), "processed w 14 late=1")
        with self.subTest("to an endpoint that had never had it"):
            self.assertEqual(say(6, 3, 0), "processed w 3")
        with self.subTest("one number, two events"):
            self.assertEqual(say(7, 14, 13),
                             "processed w 14 number-of-another-event")
        with self.subTest("a new series: under way at the backup, new, again"):
            self.assertEqual(say(8, 10, 8, "2"), "processed w 10 starts-after=8")
            self.assertEqual(say(9, 13, 12, "2"), "processed w 13 waits-for=12")
            self.assertEqual(server.missing(), ["unsure w 12"])
            self.assertEqual(say(5, 15, 14, "2"), "duplicate w 15 waits-for=14")
            self.assertEqual(say(10, 21, 20, "2"), "processed w 21 waits-for=20")
            self.assertEqual(sorted(server.missing()), [
                "missing w 20", "unsure w 12", "unsure w 14"])
        with self.subTest("after a start"):
            server.kill()
            server.start()
            self.assertEqual(say(10, 21, 20, "2"), "duplicate w 21 waits-for=20")
            self.assertEqual(say(11, 20, 15, "2"),
                             "processed w 20 was-waited-for")
            self.assertEqual(sorted(server.missing()),
                             ["unsure w 12", "unsure w 14"])
        with self.subTest("after 41 days it has forgotten, and misses nothing"):
            later_s = 41 * 86400
            server.kill()
            server.start(env=self.later(rig, later_s))
            self.assertEqual(server.missing(), [])
            self.assertEqual(say(1, 7, 5, at_s=later_s, replay="1"),
                             "processed w 7 replay=1")
            self.assertEqual(say(12, 22, 21, "2", later_s), "processed w 22")
            self.assertEqual(say(13, 24, 23, "2", later_s),
                             "processed w 24 waits-for=23")
        with self.subTest("and once more"):
            server.kill()
            server.start(env=self.later(rig, 2 * later_s))
            self.assertEqual(say(14, 25, 24, "2", 2 * later_s),
                             "processed w 25")

    def test_receivers_agree_with_every_vector(self):
        vectors = json.loads((EXAMPLES / "vectors.json").read_text())
        judged = self.judge([v for v in vectors if self.can(v)])
        self.assertGreater(len(judged), 30)
        for v, why in judged:
            with self.subTest(v["name"]):
                self.assertEqual(why == "", v["valid"], why)


class Python(Receives, RigTest):
    PROGRAM = (sys.executable, str(EXAMPLES / "python" / "receiver.py"))

    def later(self, rig, by_s):
        """Its environment, when its clock is ahead."""
        rig.step_clock(by_s)
        return rig.env

    def can(self, vector):
        """There is no Ed25519 in the standard library."""
        return not vector["valid"] or any(
            k.startswith("whsec_") for k in vector["keys"])

    def test_a_start_that_fails_says_why_in_one_line(self):
        rig = self.rig()
        other = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(other.close)
        taken = other.getsockname()[1]
        usual = {"--state": rig.folder / "receiver.db", "--port": rig.ports.take()}
        for secrets, options, said in [
                ("", {}, "WEBHOOK_SECRETS is not set"),
                (f"{OLD} whpk_AAAA", {}, "WEBHOOK_SECRETS: word 2 is not whsec_"),
                ("whsec_not*base64", {}, "WEBHOOK_SECRETS: word 1 is not whsec_"),
                (OLD, {"--state": rig.folder / "no" / "receiver.db"}, "--state .*: unable to open"),
                (OLD, {"--port": taken}, f"--port {taken}: .*in use"),
                (OLD, {"--port": 70000}, "--port 70000: ")]:
            with self.subTest(said):
                words = [str(w) for pair in {**usual, **options}.items() for w in pair]
                done = subprocess.run(
                    [*self.PROGRAM, "serve", *words],
                    env={"WEBHOOK_SECRETS": secrets}, capture_output=True, text=True, timeout=30)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertRegex(done.stderr, f"^{said}.*\n$")

    def judge(self, vectors):
        spec = importlib.util.spec_from_file_location("example", self.PROGRAM[1])
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        judged = []
        for v in vectors:
            headers = [(n, x.encode().decode("latin-1")) for n, x in v["headers"]]
            try:
                example.verify(headers, base64.b64decode(v["body_base64"]),
                               v["keys"], v["now"])
                why = ""
            except example.Refused as refused:
                why = str(refused)
            judged.append((v, why))
        return judged


@unittest.skipUnless(NODE, NO_NODE)
class Node(Receives, RigTest):
    PROGRAM = (NODE, str(EXAMPLES / "node" / "receiver.js"))
    JUDGE = """
        const {pairs, verify, Refused} = require(process.argv[1]);
        const vectors = JSON.parse(require('fs').readFileSync(0));
        console.log(JSON.stringify(vectors.map((v) => {
          const raw = v.headers.flat().map(
            (text) => Buffer.from(text).toString('latin1'));
          try {
            verify(pairs(raw), Buffer.from(v.body_base64, 'base64'), v.keys, v.now);
            return '';
          } catch (why) {
            if (!(why instanceof Refused)) throw why;
            return why.message;
          }
        })));"""

    def later(self, rig, by_s):
        script = rig.folder / "later.js"
        script.write_text("const now = Date.now;\n"
                          f"Date.now = () => now() + {1000 * by_s};\n")
        return {"NODE_OPTIONS": f"--require {script}"}

    def can(self, vector):
        return True

    def judge(self, vectors):
        done = subprocess.run([NODE, "-e", self.JUDGE, self.PROGRAM[1]],
                              input=json.dumps(vectors), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(zip(vectors, json.loads(done.stdout)))

    def test_the_documented_commands_make_keys_that_verify(self):
        """The receiver has only the public key."""
        rig = self.began()
        [commands] = [block for block in re.findall(
            "\n```sh\n(.*?)\n```\n", PAGE, re.S) if "genpkey" in block]
        done = rig.run("sh", "-ec", commands)
        self.assertEqual(done.returncode, 0, done)
        self.server.kill()
        self.server.start((rig.folder / "crm.public").read_text())
        for file, more in (("crm.private", ""), ("crm.secret", (
                rig.folder / "crm.secret").read_text())):
            rig.config["endpoints"][0]["signing_secrets"] = [f"file:{file}"]
            rig.write_config()
            self.assertEqual(rig.cli("reload")[1], 0)
            self.server.kill()
            self.server.start(
                (rig.folder / "crm.public").read_text() + more)
            self.one(rig)
        self.assertNotIn("refused", self.server.log())


class Document(unittest.TestCase):
    def test_the_document_includes_the_example_files(self):
        for language, path in (("python", "python/receiver.py"),
                               ("js", "node/receiver.js")):
            with self.subTest(path):
                self.assertIn(f"\n```{language}\n" + (EXAMPLES / path).read_text()
                              + "```\n", PAGE)

    def test_the_documented_request_is_a_vector(self):
        [v] = [v for v in json.loads((EXAMPLES / "vectors.json").read_text())
               if v["name"] == "every header"]
        self.assertIn(v["signed_text"], PAGE)
        for name, val in v["headers"]:
            self.assertIn(f"\n{name}: {val}\n", PAGE)


main()
