"""`grapnel evidence`: the whole story of an event in one file, whose every byte is signed, verified by the
script that the package has."""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import random
import resource
import signal
import stat
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "rig"))
from rig import RigTest, http_request, main, program, sign_plane, wait_for

TOKEN = "an-admin-token-of-the-file"
SCRIPT = ROOT / "examples" / "evidence" / "verify-evidence.py"
spec = importlib.util.spec_from_file_location("verify_evidence", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


class Evidence(RigTest):
    def keys(self, rig):
        """Makes the key pair; the file of the public key."""
        done = rig.cli_text("evidence", "key")
        self.assertEqual(done.returncode, 0, done.stderr)
        path = pathlib.Path(rig.folder) / "evidence.pem"
        path.write_text(done.stdout)
        return path

    def export(self, rig, event, *args, code=0):
        path = pathlib.Path(rig.folder) / f"evidence-{random.getrandbits(40)}.json"
        done = rig.cli_text("evidence", event, "--output", path, *args)
        self.assertEqual(done.returncode, code, done.stderr)
        return path if code == 0 else (path, done.stderr)

    def test_the_file_tells_the_whole_story(self):
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400, "body": "no thanks"}]})
        rig.start()
        pem = self.keys(rig)
        self.assertEqual(stat.S_IMODE((rig.state_dir / "evidence.key").stat().st_mode), 0o600)
        self.assertEqual(rig.cli_text("evidence", "key").stdout, pem.read_text())
        body = rig.plane_body("ws-1")
        event = rig.accept(body, headers={**sign_plane(body), "X-Api-Key": "hush"})
        other = rig.accept()
        letter = f"dlq_{event[4:]}-crm"
        wait_for(lambda: len(rig.ask("dlqd", "dlq")["dead_letters"]) == 2)
        rig.receiver.reset()
        for one in letter, f"dlq_{other[4:]}-crm":
            self.assertEqual(rig.cli("dlq", "retry", one)[1], 0)
        rig.wait_status(event)
        wait_for(lambda: all(d["status"] == "delivered" for d in rig.deliveries(event)))
        self.assertEqual(rig.cli("resend", event)[1], 0)
        wait_for(lambda: len(rig.deliveries(event)[0]["attempts"]) == 3)
        path = self.export(rig, event)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        done = subprocess.run([sys.executable, SCRIPT, pem, path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(event, done.stdout)
        story = json.loads(path.read_bytes())
        self.assertEqual(story["event"]["id"], event)
        self.assertEqual(story["request"]["body"].encode(), body)
        headers = dict(story["request"]["headers"])
        self.assertEqual(headers["X-Plane-Event"], "issue")
        self.assertEqual({headers[k] for k in ("X-Plane-Signature", "X-Api-Key")}, {"\u2026"})
        self.assertNotIn("hush", path.read_text())
        self.assertEqual(story["verification"]["verified_by"], "hmac-sha256")
        self.assertEqual([(a["n"], a["http_status"]) for a in story["attempts"]],
                         [(1, 400), (2, 200), (3, 200)])
        self.assertEqual(story["attempts"][0]["response"]["body"], "no thanks")
        sent = dict(story["attempts"][0]["request"]["headers"])
        self.assertEqual(sent["grapnel-workspace"], "ws-1")
        self.assertEqual(sorted(a["command"] for a in story["acts"]), ["dlq_retry", "resend"])
        self.assertNotIn(other[4:], json.dumps(story["acts"]))
        self.assertEqual({h.split(":")[0] for h in story["audit_heads"]}, {"ingress", "dlqd"})
        self.assertEqual(story["missing"], [])
        times = [s["at"] for s in story["timeline"]]
        self.assertEqual(times, sorted(times))

    def test_every_changed_byte_is_detected(self):
        rig = self.rig()
        rig.start()
        pem = self.keys(rig)
        event = rig.accept(b'{"event": "issue", "action": "created", "data": {}}')
        rig.wait_status(event)
        data = self.export(rig, event).read_bytes()
        script.verify(pem, data)

        def found(changed):
            try:
                script.verify(pem, changed)
            except ValueError:
                return True
            return False
        signed, signature = script.split(data)
        runs, at = [], 0
        for at in range(len(data)):
            for bit in (1, 0x20):
                changed = bytearray(data)
                changed[at] ^= bit
                # A change that still splits must reach the signature: openssl judges those.
                try:
                    parts = script.split(bytes(changed))
                except ValueError:
                    continue
                self.assertNotEqual(parts, (signed, signature), at)
                if bit == 1 and (at % 24 == 0 or at > len(signed)):
                    runs.append(bytes(changed))
        runs += [data[:-1], data[1:], data + b"\n", data + data, signed, b"",
                 signed + data[len(signed):].upper(), data[:len(signed)] + b" " + data[len(signed):]]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual([i for i, f in enumerate(pool.map(found, runs)) if not f], [])
        # Signed with another key, even if the file names the public key of that.
        fake = pathlib.Path(rig.folder) / "fake.key"
        rig.cli_text("evidence", "key", "--private-key", fake)
        forged = self.export(rig, event, "--private-key", fake).read_bytes()
        self.assertTrue(found(forged))

    def test_a_file_is_whole_or_absent(self):
        rig = self.rig()
        rig.start()
        event = rig.accept()
        rig.wait_status(event)
        path, said = self.export(rig, event, code=1)
        self.assertIn("grapnel evidence key", said)
        pem = self.keys(rig)
        path = self.export(rig, event)
        before = path.read_bytes()
        done = rig.cli_text("evidence", event, "--output", path)
        self.assertEqual((done.returncode, path.read_bytes()), (1, before), done.stderr)
        self.assertIn("File exists", done.stderr)
        folder = pathlib.Path(rig.folder) / "full"
        folder.mkdir()

        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
        done = subprocess.run([program("grapnel"), "evidence", event, "-c", str(rig.config_path),
                               "--output", str(folder / "e.json")], preexec_fn=no_space,
                              capture_output=True, text=True, env={**os.environ, **rig.env})
        self.assertEqual((done.returncode, list(folder.iterdir())), (1, []), done.stderr)
        rig["dlqd"].stop()
        path, said = self.export(rig, event, code=69)
        self.assertFalse(path.exists())
        self.assertIn("dlqd", said)
        partial = self.export(rig, event, "--partial").read_bytes()
        self.assertIn("dlqd", script.verify(pem, partial)["missing"][0])
        done = rig.cli_text("evidence", "evt_" + 26 * "0")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)

    def test_a_process_that_was_stopped_in_order_is_missed(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, deliverers=2, console=True)
        rig.start()
        self.keys(rig)
        event = rig.accept()
        rig.wait_status(event)
        by = rig.deliveries(event)[0]["attempts"][0]["deliverer"]
        self.assertEqual(len(json.loads(self.export(rig, event).read_bytes())["attempts"]), 1)
        rig[by].stop()
        self.assertFalse((rig.run_dir / f"{by}.control").exists())
        path, said = self.export(rig, event, code=69)
        self.assertIn(by, said)
        self.assertEqual(self.get(rig, event, TOKEN)[0], 503)
        partial = json.loads(self.export(rig, event, "--partial").read_bytes())
        self.assertEqual((partial["attempts"], len(partial["missing"])), ([], 1), partial["missing"])
        self.assertIn(f"{by} could not be reached", partial["missing"][0])

    def test_why_the_request_is_missing(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True)
        rig.start()
        self.keys(rig)
        first, damaged, last = [rig.accept(rig.plane_body()) for _ in range(3)]
        for event in first, damaged, last:
            rig.wait_status(event)
        rig["ingress"].stop()
        story = json.loads(self.export(rig, damaged, "--partial").read_bytes())
        self.assertIsNone(story["request"])
        self.assertEqual([m.split(" (")[0] for m in story["missing"]],
                         ["ingress could not be reached"])
        rig.change("ingress", "UPDATE archive SET body = CAST(replace(CAST(body AS TEXT), "
                   "'issue', 'ISSUE') AS BLOB) WHERE event_id = ?", damaged)
        rig.start("ingress")
        path, said = self.export(rig, damaged, code=1)
        self.assertIn("is damaged", said)
        self.assertEqual(self.get(rig, damaged, TOKEN)[0], 409)
        story = json.loads(self.export(rig, damaged, "--partial").read_bytes())
        self.assertIsNone(story["request"])
        self.assertIn("is damaged", story["missing"][0])
        self.assertNotIn("no longer", " ".join(story["missing"]))
        rig["ingress"].stop()
        rig.change("ingress", "DELETE FROM archive WHERE event_id = ?", damaged)
        rig.start("ingress")
        story = json.loads(self.export(rig, damaged).read_bytes())
        self.assertEqual(len(story["missing"]), 1, story["missing"])
        self.assertIn("no longer in the archive", story["missing"][0])
        self.assertEqual(self.get(rig, damaged, TOKEN)[0], 200)

    def test_acts_on_others_stay_out_of_the_file(self):
        rig = self.rig({"producers": [{"name": "billing", "tokens": [TOKEN]}]})
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        self.keys(rig)
        # The sender has named its event after an endpoint.
        body = json.dumps({"type": "t", "workspace": "w", "data": {}, "id": "crm"}).encode()
        mine = rig.accept(body, path="/v1/events", headers={"Authorization": f"Bearer {TOKEN}"})
        other = rig.accept()
        wait_for(lambda: len(rig.ask("dlqd", "dlq")["dead_letters"]) == 2)
        self.assertEqual(rig.cli("endpoints", "pause", "crm")[1], 0)
        self.assertEqual(rig.cli("dlq", "retry", f"dlq_{mine[4:]}-crm", f"dlq_{other[4:]}-crm")[1], 0)
        story = json.loads(self.export(rig, mine).read_bytes())
        act, = story["acts"]
        self.assertEqual((act["command"], act["args"]["ids"]),
                         ("dlq_retry", [f"dlq_{mine[4:]}-crm", "\u2026 1 others"]))
        self.assertNotIn(other[4:], json.dumps(story))

    def get(self, rig, event, token, path="evidence"):
        return http_request(rig.console_port, "GET", f"/api/v1/events/{event}/{path}", b"",
                            {"Authorization": f"Bearer {token}"})

    def test_it_is_downloaded_by_operators(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}, "ingress": {"max_body": "3MiB"}}, console=True)
        rig.start()
        body = rig.plane_body("ws-1")
        event = rig.accept(body)
        large = rig.accept(rig.plane_body(x="y" * 400000))
        rig.wait_status(event)
        self.assertEqual(self.get(rig, event, TOKEN)[0], 409)
        pem = self.keys(rig)
        rig.cli("resend", event)
        wait_for(lambda: len(rig.deliveries(event)[0]["attempts"]) == 2)
        status, headers, text = self.get(rig, event, TOKEN)
        self.assertEqual(status, 200, text)
        self.assertEqual(headers["Content-Disposition"],
                         f'attachment; filename="{event}.evidence.json"')
        story = script.verify(pem, text)
        self.assertEqual(story["request"]["body"].encode(), body)
        self.assertEqual([a["http_status"] for a in story["attempts"]], [200, 200])
        self.assertEqual([a["command"] for a in story["acts"]], ["resend"])
        self.assertEqual(story["exported_by"], "token 1 of console.tokens")
        mine = json.loads(self.export(rig, event).read_bytes())
        for key in ("request", "verification", "event", "attempts", "timeline", "acts"):
            self.assertEqual(story[key], mine[key], key)
        for role, more in (("viewer", []), ("workspace", ["--workspace", "ws-1"])):
            made, _ = rig.cli("tokens", "create", role, "--role", role, *more)
            self.assertEqual(self.get(rig, event, made["token"])[0], 403)
        self.assertEqual(self.get(rig, "evt_" + 26 * "0", TOKEN)[0], 404)
        self.assertEqual(self.get(rig, large, TOKEN)[0], 409)
        rig["deliverer-1"].stop()
        self.assertEqual(self.get(rig, event, TOKEN)[0], 503)

    def test_nothing_is_left_after_erasure(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True)
        rig.start()
        self.keys(rig)
        event = rig.accept(rig.plane_body("gone"))
        rig.wait_status(event)
        self.export(rig, event)
        job = rig.cli("workspaces", "erase", "gone")
        self.assertEqual(job[1], 0, job)
        wait_for(lambda: all(j["state"] == "done" for j in rig.cli("jobs")[0]))
        path, said = self.export(rig, event, code=1)
        self.assertIn("was erased: there is nothing to export", said)
        self.assertFalse(path.exists())
        self.assertEqual(self.get(rig, event, TOKEN)[0], 404)


if __name__ == "__main__":
    main()
