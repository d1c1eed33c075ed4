"""P1: while the disk does not complete a write, ingress refuses with 503, and continues
when the disk does."""

import json
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, program, wait_for

TOKEN = "t0ken-of-billing"
EVENT = {"type": "invoice.paid", "workspace": "acct_1", "data": {}}


class StalledDisk(RigTest):
    def pipeline(self, stall_ms=500):
        rig = self.rig({"producers": [{"name": "billing", "tokens": [TOKEN]}],
                        "ingress": {"archive": {"keep": "30d"}}},
                       deliverers=0)
        self.disk = pathlib.Path(rig.folder, "disk")
        self.disk.mkdir()
        self.env = {
            "LD_PRELOAD": program("rig-slowdisk.so"),
            "RIG_DISK": str(self.disk),
            # The sanitizer's library asks to be first, which is not needed.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":verify_asan_link_order=0"}
        if stall_ms:
            self.env["GRAPNEL_TEST_STALL_MS"] = str(stall_ms)
        rig["ingress"].start(env=self.env)
        self.addCleanup(self.go_on)  # else its end would wait, too
        return rig

    def go_on(self):
        for name in ("hold", "hold-db"):
            (self.disk / name).unlink(missing_ok=True)

    def held(self, name="held"):
        wait_for((self.disk / name).exists, what="a sync to begin")

    def post(self, rig, key, responses=None):
        status, headers, text = http_request(
            rig.ingress_port, "POST", "/v1/events",
            json.dumps({**EVENT, "id": key}),
            {"Authorization": f"Bearer {TOKEN}"}, timeout=120)
        response = status, headers, json.loads(text)
        if responses is not None:
            responses.append(response)
        return response

    def posting(self, rig, keys):
        """Posts each from a thread of its own; the list of what they get."""
        responses = []
        self.threads = [threading.Thread(target=self.post,
                                         args=(rig, key, responses))
                        for key in keys]
        for thread in self.threads:
            thread.start()
        return responses

    def get(self, rig, path):
        status, headers, text = http_request(rig.ingress_port, "GET", path,
                                             timeout=120)
        return status, json.loads(text)

    def is_refused(self, response):
        status, headers, body = response
        self.assertEqual(status, 503, body)
        self.assertIn("Retry-After", headers)
        self.assertEqual(body["error"]["code"], "unavailable")

    def says_so(self, rig):
        status, body = self.get(rig, "/healthz")
        self.assertEqual((status, body["status"]), (200, "disk_stalled"))
        self.assertGreater(body["stalled_ms"], 0)
        status, body = self.get(rig, "/readyz")
        self.assertEqual(status, 503)
        self.assertIn("disk stalls", body["error"]["message"])

    def stalls(self, rig):
        return self.get(rig, "/healthz")[1]["status"] == "disk_stalled"

    def recovers(self, rig):
        self.go_on()
        wait_for(lambda: self.get(rig, "/readyz")[0] == 200)
        self.assertEqual(self.get(rig, "/healthz"), (200, {"status": "ok"}))

    def test_a_request_gets_503_after_five_seconds_of_a_stalled_commit(self):
        rig = self.pipeline(stall_ms=None)
        (self.disk / "hold").touch()
        begun = time.monotonic()
        responses = self.posting(rig, ["a"])
        self.held()
        self.assertEqual(self.get(rig, "/healthz"), (200, {"status": "ok"}))
        wait_for(lambda: responses)
        self.assertGreater(time.monotonic() - begun, 4.5)
        self.is_refused(responses[0])
        self.assertTrue((self.disk / "held").exists())
        self.says_so(rig)
        self.is_refused(self.post(rig, "b"))  # at once: the sync is still held
        self.assertTrue((self.disk / "held").exists())
        self.recovers(rig)
        # The first was stored all the same; its duplicate is recognised.
        stored, = rig.rows("ingress", "SELECT event_id FROM archive")
        status, _, body = self.post(rig, "a")
        self.assertEqual((status, body["id"]), (200, stored["event_id"]))
        self.assertEqual(self.post(rig, "b")[0], 200)
        rows, = rig.rows("ingress", "SELECT count(*) AS n FROM archive")
        self.assertEqual(rows["n"], 2)
        self.assertIn("the disk stalls", rig["ingress"].log())
        reasons = [r["reason"] for r in rig.ask("ingress", "rejects")["rejects"]]
        self.assertIn("store_slow", reasons)
        self.assertIn("disk_stalled", reasons)

    def test_a_stalled_large_commit_gives_503(self):
        """A thread makes this commit, while the loop reads on."""
        rig = self.pipeline()
        keys = [f"k{n}" for n in range(30)]
        (self.disk / "hold").touch()
        first = self.posting(rig, ["k0"])
        self.held()
        responses = self.posting(rig, keys[1:])
        wait_for(lambda: len(responses) == 29)  # those of the queue behind it
        wait_for(lambda: first)
        for response in [*first, *responses]:
            self.is_refused(response)
        self.says_so(rig)
        self.go_on()
        wait_for(lambda: not self.stalls(rig))
        rig["ingress"].pause()
        responses = self.posting(rig, keys)
        time.sleep(0.2)  # to fill the sockets; fewer only test less
        (self.disk / "hold").touch()
        rig["ingress"].resume()
        self.held()
        wait_for(lambda: len(responses) == 30)
        self.assertIn(503, [a[0] for a in responses])
        self.says_so(rig)
        self.recovers(rig)
        self.assertEqual([self.post(rig, key)[0] for key in keys], 30 * [200])
        rows, = rig.rows("ingress", "SELECT count(*) AS n FROM archive")
        self.assertEqual(rows["n"], 30)

    def test_a_stalled_checkpoint_gives_503(self):
        """The loop waits for the thread that copies the WAL."""
        rig = self.pipeline()
        (self.disk / "hold-db").touch()
        body = json.dumps({**EVENT, "data": "x" * 1000000}).encode()
        statuses = set()

        def fill():
            statuses.add(http_request(
                rig.ingress_port, "POST", "/v1/events", body,
                {"Authorization": f"Bearer {TOKEN}"}, timeout=120)[0])
            return self.stalls(rig)

        wait_for(fill, timeout=60)
        self.assertEqual(statuses - {200, 503}, set())
        self.says_so(rig)
        self.is_refused(self.post(rig, "b"))
        self.recovers(rig)
        self.assertEqual(self.post(rig, "b")[0], 200)

    def test_a_stalled_first_commit_gives_503(self):
        """The port is open already."""
        rig = self.pipeline()
        rig["ingress"].stop()
        (self.disk / "hold").touch()
        rig["ingress"].start(env=self.env, wait=False)
        responses = []
        wait_for(rig.ingress_is_ready)
        responses = self.posting(rig, ["a"])
        wait_for(lambda: responses)
        self.is_refused(responses[0])
        self.says_so(rig)
        self.recovers(rig)
        self.assertEqual(self.post(rig, "a")[0], 200)

    def test_a_database_that_opens_slowly_is_logged(self):
        """The port is closed meanwhile, so only the log can say why."""
        rig = self.pipeline()
        self.post(rig, "a")
        rig["ingress"].kill()  # its WAL is copied back at the start
        (self.disk / "hold-db").touch()
        rig["ingress"].start(env=self.env, wait=False)
        wait_for(lambda: "opening the database takes long"
                 in rig["ingress"].log())
        self.go_on()
        wait_for(rig["ingress"].up)
        self.assertEqual(self.post(rig, "b")[0], 200)


if __name__ == "__main__":
    main()
