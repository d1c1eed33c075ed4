"""When the disk fills up under load, ingress responds 503, no accepted event is lost, and the
pipeline continues by itself when there is space again.

The databases are on a small tmpfs, which needs the right to mount (CI has it)."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, sign_plane, wait_for
from steps import Steps

# Three stores, each with a WAL that may grow to 32 MiB, must fit on it. The
# ingress shuts at 5 % of it, the sequencer takes no events at 4 %.
DISK_BYTES = 256 << 20


class FullDisk(RigTest):
    def pipeline(self, **how):
        mounted = []
        self.addCleanup(lambda: [self.unmount(path) for path in mounted])
        rig = self.rig(**how)  # its end comes before the unmount
        rig.state_dir.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700",
             "tmpfs", rig.state_dir], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"no right to mount a tmpfs: {done.stderr.strip()}")
        mounted.append(rig.state_dir)
        return rig

    def unmount(self, path):
        subprocess.run(["umount", path], check=True)
        if not os.environ.get("GRAPNEL_KEEP"):
            shutil.rmtree(path.parent, ignore_errors=True)

    def fill(self, rig, leave=0):
        """Take what space there is, but for `leave` bytes."""
        with open(rig.state_dir / "ballast", "ab", buffering=0) as ballast:
            with contextlib.suppress(OSError):  # until it is full
                while (free := self.free_bytes(rig)) > leave:
                    size = os.fstat(ballast.fileno()).st_size
                    os.posix_fallocate(ballast.fileno(), size,
                                       min(free - leave, 16 << 20))

    def free_bytes(self, rig):
        disk = os.statvfs(rig.state_dir)
        return disk.f_bavail * disk.f_frsize

    def free(self, rig):
        (rig.state_dir / "ballast").unlink()

    def refused(self, load, count):
        """Wait for so many 503 among its responses."""
        wait_for(lambda: sum(a.get("status") == 503 for a in load.acks())
                 >= count, what=f"{count} times 503")

    def check_503(self, rig):
        body = rig.plane_body()
        status, headers, response = rig.post(body)
        self.assertEqual(status, 503, response)
        self.assertGreater(int(headers["Retry-After"]), 0)
        self.assertIn("code", response["error"])
        status, _, _ = http_request(rig.ingress_port, "GET", "/readyz")
        self.assertEqual(status, 503)
        status, _, _ = http_request(rig.ingress_port, "GET", "/healthz")
        self.assertEqual(status, 200)
        status, _, _ = rig.post(body, headers={
            **sign_plane(body), "X-Plane-Signature": "0" * 64})
        self.assertIn(status, (401, 503))

    def check_all_live(self, rig):
        for daemon in rig.daemons.values():
            self.assertTrue(daemon.alive, f"{daemon.name}: {daemon.log()}")

    def pull(self, rig, path, **body):
        status, _, text = http_request(
            rig.console_port, "POST", f"/api/v1/pull/jobs/{path}", json.dumps(body).encode(),
            {"Authorization": "Bearer an-admin-token-of-the-file",
             "Content-Type": "application/json"})
        return status, json.loads(text)

    def test_consumers_of_a_pull_endpoint_take_and_end_nothing_that_is_not_stored(self):
        """P2: a request either takes effect on disk or gets 503, and is repeated."""
        rig = self.pipeline(config={"console": {"tokens": ["an-admin-token-of-the-file"]}},
                            console=True)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull", "max_in_flight": 100}]
        rig.write_config()
        rig.start()
        events, acked, refused = set(), set(), set()

        def consume():
            status, take = self.pull(rig, "take", max=3, wait="100ms")
            refused.add(take["error"]["code"] if status != 200 else "")
            if status != 200 or not take["take"]:
                return
            for d in take["deliveries"]:
                while True:
                    status, said = self.pull(rig, "ack", take=take["take"],
                                             deliveries=[d["event_id"]])
                    if status == 200:
                        break
                    refused.add(said["error"]["code"])
                    self.assertEqual(status, 503, said)
                    if "disk_full" in refused and (rig.state_dir / "ballast").exists():
                        self.free(rig)
                acked.add(d["event_id"])
        for _ in range(10):
            events |= {rig.accept() for _ in range(30)}
            wait_for(lambda: len(rig.rows("deliverer-1", "SELECT 1 FROM tasks")) == 30)
            consume()
            self.fill(rig)
            # Each change may fit into the part of the write-ahead log that is used again.
            wait_for(lambda: consume() or "disk_full" in refused or acked == events,
                     what="a refusal")
            with contextlib.suppress(FileNotFoundError):
                self.free(rig)
            wait_for(lambda: consume() or acked == events, what="all to be taken")
            if "disk_full" in refused:
                break
        self.assertIn("disk_full", refused)
        rig.settle()
        self.assertEqual({rig.trace(e)["status"] for e in events}, {"done"})
        self.assertLessEqual(refused, {"", "disk_full", "process_unavailable", "busy"})

    def test_a_disk_full_to_the_last_byte_loses_no_accepted_event(self):
        """P1, P2, P10: the disk is filled under load, three times."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 200, "delay_ms": 30}]})
        rig.start()
        loads = []
        for i in range(3):
            load = rig.load(count=1500, workspaces=10, rate=300, size=2000,
                            first=1 + 10_000 * i)
            loads.append(load)
            rig.receiver.wait(count=len(rig.receiver.requests()) + 100)
            self.fill(rig)
            self.refused(load, 50)
            self.fill(rig)  # what a checkpoint or a purge has freed
            self.check_503(rig)
            self.refused(load, 200)
            self.check_all_live(rig)
            self.free(rig)
            wait_for(rig.ingress_is_ready, what="ingress to accept again")
            rig.accept(rig.plane_body("after"))
            counts = load.result()["counts"]
            self.assertEqual(set(counts), {"200", "503"}, counts)
            self.assertGreater(counts["200"], 100)
        # rig.accept()'s own are known to no load: they are judged apart.
        rig.settle()
        rig.receiver.seen = [r for r in rig.receiver.requests()
                             if r.headers["grapnel-workspace"] != "after"]
        rig.judge(*loads)
        rows = rig.rows("sequencer", "SELECT sequence FROM events WHERE "
                        "workspace = 'after' ORDER BY sequence")
        self.assertEqual([r["sequence"] for r in rows], [1, 2, 3])
        taken = [a["id"] for load in loads for a in load.acks()
                 if a.get("status") == 200]
        for event in taken[::7]:
            self.assertEqual(rig.ask("ingress", "trace", id=event)["id"], event)

    def test_a_disk_that_fills_during_a_batch_reports_only_stored_lines(self):
        """P1: the lines that are stored are called accepted, and no others; the
        batch goes through when it is sent again."""
        rig = self.pipeline(config={"producers": [
            {"name": "billing", "tokens": ["t0ken"]}],
            "ingress": {"max_body": "64MiB"}})
        disk = Steps(rig)
        self.addCleanup(disk.end)
        events = [json.dumps({"type": "invoice.paid", "workspace": "w",
                              "id": f"k{n}", "data": "x" * 4000})
                  for n in range(3000)]
        responses = []

        def send():
            responses.append(http_request(
                rig.ingress_port, "POST", "/v1/events/batch", "\n".join(events),
                {"Authorization": "Bearer t0ken"}, timeout=120))

        disk.begin()
        thread = threading.Thread(target=send)
        thread.start()
        self.addCleanup(thread.join)
        disk.until(lambda: self.ids(rig), "a first piece")
        disk.held()
        self.fill(rig)
        disk.end()
        thread.join()
        status, headers, text = responses.pop()
        self.assertEqual(status, 207, text[:300])
        self.assertGreater(int(headers["Retry-After"]), 0)
        results = [json.loads(x) for x in text.splitlines()]
        self.assertEqual(len(results), len(events))
        stored = [x["id"] for x in results if "id" in x]
        self.assertTrue(0 < len(stored) < len(events))
        self.assertEqual(self.ids(rig), stored)
        self.assertEqual({x["error"]["code"] for x in results[len(stored):]},
                         {"unavailable"})
        self.free(rig)
        wait_for(rig.ingress_is_ready, what="ingress to accept again")
        send()
        self.assertEqual(responses[0][0], 200)
        ids = [json.loads(x)["id"] for x in responses[0][2].splitlines()]
        self.assertEqual(ids[:len(stored)], stored)
        self.assertEqual(self.ids(rig), ids)

    def ids(self, rig):
        return [x["event_id"] for x in rig.rows(
            "ingress", "SELECT event_id FROM archive ORDER BY n")]

    def test_outcomes_use_the_last_space(self):
        """P2: with little space ingress is shut, and what was taken before is
        delivered all the same, though its retries go on for long: the logs of
        the stores don't eat the space."""
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.config["retry_policies"][0].update(
            # The open circuit probes once in a twentieth of this: 50 times in
            # a second, and the 300 below take 6 s.
            first_wait="400ms", max_wait="400ms", jitter="none",
            max_attempts=1000)
        rig.write_config()
        rig.start()
        load = rig.load(count=150, workspaces=10, size=1000)
        load.result()
        wait_for(lambda: {r.id for r in rig.receiver.requests()}
                 == {a["id"] for a in load.acks()}, what="a try of each")
        self.fill(rig, leave=DISK_BYTES * 3 // 100)
        wait_for(lambda: not rig.ingress_is_ready(), what="ingress to refuse")
        self.check_503(rig)
        rig.receiver.wait(count=len(rig.receiver.requests()) + 300, timeout=60)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.settle()
        self.assertLess(self.free_bytes(rig), DISK_BYTES // 20)
        self.check_503(rig)
        self.free(rig)
        wait_for(rig.ingress_is_ready, what="ingress to accept again")
        rig.judge(load)

    def test_buffered_events_survive_a_full_disk(self):
        """P2, P6: what waits for its turn stays in the buffer when the turn that
        lets it go is taken back; a gap that is said to be closed is. With space
        again all goes, once, in order."""
        rig = self.pipeline()
        rig.config["sources"][0]["order"] = {
            "by": "sequence", "sequence": "json:/data/seq", "start": 1,
            "give_up_after": "1h"}
        rig.config["endpoints"] = [rig.endpoint("crm", ordered="workspace")]
        rig.write_config()
        rig.start()
        held = [rig.accept(rig.plane_body("w", seq=n)) for n in range(2, 202)]
        rig.wait_status(held[-1], "buffered")
        rig["sequencer"].stop()  # so that its log has no space of its own
        rig.start()
        gap, = rig.cli("gaps", "--open")[0]
        close = ["gaps", "close", gap["id"], "--note", "n"]
        self.fill(rig)
        closed = rig.cli(*close)[1] == 0
        wait_for(lambda: not rig.ingress_is_ready(), what="ingress to refuse")
        self.assertEqual(rig.post(rig.plane_body("w", seq=1))[0], 503)
        self.check_all_live(rig)
        self.free(rig)
        wait_for(rig.ingress_is_ready, what="ingress to accept again")
        self.assertEqual(rig.cli("gaps", "--open")[0], [] if closed else [gap])
        self.assertEqual(rig.cli(*close)[1], 1 if closed else 0)
        rig.receiver.wait(held[-1], timeout=60)
        rig.settle()
        requests = rig.receiver.requests("/crm")
        self.assertEqual([r.id for r in requests], held)
        self.assertEqual([r.headers["grapnel-sequence"] for r in requests],
                         [str(n) for n in range(1, 201)])
        self.assertEqual(requests[0].headers["grapnel-gap"], "1-1")

    def test_a_full_archive_makes_space_for_new_requests(self):
        """P1: what was handed on makes space for what comes, though neither
        archive.keep nor archive.max_size asks for it: ingress stays open."""
        rig = self.pipeline()
        rig.start()
        self.fill(rig, leave=48 << 20)
        for n in range(60):
            event = rig.accept(rig.plane_body(pad="x" * 1_000_000, n=n))
            rig.receiver.wait(event)
        rig.settle()
        kept, = rig.rows("ingress", "SELECT count(*) AS n FROM archive")
        self.assertIn(kept["n"], range(5, 50))

    def count(self, rig, process, table, where="true"):
        row, = rig.rows(process,
                        f"SELECT count(*) AS n FROM {table} WHERE {where}")
        return row["n"]

    def unmatched(self, rig, batch, lines=900):
        """Events with much to remember, which end at once."""
        status, _, response = http_request(
            rig.ingress_port, "POST", "/v1/events/batch",
            "\n".join(json.dumps({
                "workspace": "u" * 250, "type": "t" * 250, "data": {},
                "id": f"{batch}-{n}".rjust(250)}) for n in range(lines)),
            {"Authorization": "Bearer t0ken-of-ours"})
        self.assertEqual(status, 200, response)
        return lines

    def test_a_full_history_makes_space_for_new_events(self):
        """P1, P2: what has ended makes space for what comes, long before
        history.keep asks for it: ingress stays open. What is not over stays."""
        rig = self.pipeline()
        rig.config["producers"] = [{"name": "us", "tokens": ["t0ken-of-ours"]}]
        rig.config["endpoints"] = [rig.endpoint("crm", workspaces=["ws-*"])]
        rig.config["retry_policies"][0].update(
            first_wait="30m", max_wait="30m", jitter="none")
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 503}, {"status": 200, "body": "x" * 16_000}]})
        rig.write_config()
        rig.start()
        first = rig.accept()
        retrying = "status = 2"
        wait_for(lambda: self.count(rig, "sequencer", "deliveries", retrying),
                 what="its retry to be scheduled")
        self.fill(rig, leave=112 << 20)
        sent = sum(self.unmatched(rig, batch) for batch in range(20))
        load = rig.load(count=1500, workspaces=10, size=300)
        self.assertEqual(set(load.result()["counts"]), {"200"})
        rig.receiver.wait(count=1501)  # so all before it was taken, too
        wait_for(lambda: self.count(rig, "sequencer", "events") < sent,
                 what="a shorter history of events")
        wait_for(lambda: "history.keep" in rig["deliverer-1"].log() and
                 self.count(rig, "deliverer-1", "attempts") < 1500,
                 what="a shorter history of attempts")
        self.assertIn("history.keep", rig["sequencer"].log())
        self.assertTrue(rig.ingress_is_ready())
        self.assertEqual(
            self.count(rig, "sequencer", "deliveries", retrying), 1)
        self.assertEqual(
            {r.id for r in rig.receiver.requests("/crm")},
            {first, *(a["id"] for a in load.acks())})

    def test_ids_of_an_upgrade_wait_for_space(self):
        """P10: a search by a provider's id says that events are still being read, not that no event has the id."""
        token = "an-admin-token-of-the-file"
        rig = self.pipeline(config={"console": {"tokens": [token]}}, console=True)
        rig.start()
        rig.settle()
        rig.stop()
        with contextlib.closing(sqlite3.connect(rig.state_dir / "sequencer.db")) as db, db:
            db.execute("DELETE FROM provider_ids")
            db.execute("WITH RECURSIVE m(n) AS (SELECT 5000 UNION ALL SELECT n + 500 FROM m WHERE n < 80000) "
                       "INSERT INTO events(n, id, source, provider_id, type, workspace, received_ms, taken_ms, status) "
                       "SELECT n, printf('evt_%026d', n), 'plane', 'own-' || n, 't', 'w', 1000 * unixepoch(), 1000 * unixepoch(), 0 FROM m")
        self.fill(rig, DISK_BYTES // 28)
        rig.start("sequencer")
        rig.start("console")

        def get(path):
            status, headers, text = http_request(rig.console_port, "GET", f"/api/v1/{path}",
                                                 headers={"Authorization": f"Bearer {token}"})
            return status, headers.get("Retry-After"), json.loads(text)

        for command in (["trace", "own-6000"], ["trace", "own-6000", "--json"], ["show", "own-6000"],
                        ["events", "--id", "own-6000"]):
            done = rig.cli_text(*command)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("waits for free space on the disk", done.stderr)
            self.assertEqual(done.stdout, "")
        unknown = "evt_" + 26 * "0"
        self.assertIn(f"no event has the id {unknown}", rig.cli_text("trace", unknown).stderr)
        for path in ("events/own-6000", "events?id=own-6000", "events/own-6000/payload"):
            status, again, text = get(path)
            self.assertEqual((status, again, text["error"]["code"]), (503, "1", "busy"), text)
        with self.assertRaisesRegex(Exception, "free space"):
            rig.ask("sequencer", "listed", source="plane", provider_ids=["own-6000"], own_ids=["evt_x"])
        self.free(rig)
        wait_for(lambda: rig.cli_text("trace", "own-6000").returncode == 0, what="the ids of all events")
        self.assertEqual(get("events/own-6000")[0], 200)
        missing = rig.ask("sequencer", "listed", source="plane", provider_ids=["own-6000", "own-1"],
                          own_ids=["evt_x", "evt_y"])["missing"]
        self.assertEqual(missing, [False, True][:len(missing)])

    def test_a_start_on_a_full_disk_waits_or_exits_74(self):
        """P3: killed while the disk is full, started while it still is: each
        comes up and waits, or says 74; with space again all is delivered."""
        rig = self.pipeline()
        rig.start()
        load = rig.load(count=900, workspaces=10, rate=300, size=2000)
        rig.receiver.wait(count=100)
        self.fill(rig)
        self.refused(load, 20)
        rig.kill()
        for daemon in rig.daemons.values():
            daemon.start(wait=False)
        self.fill(rig)
        for daemon in rig.daemons.values():
            wait_for(lambda: not daemon.alive or daemon.responds(),
                     what=f"{daemon.name} to be up, or not to be")
            if not daemon.alive:
                self.assertEqual(daemon.wait_exit(), 74, daemon.log())
        self.free(rig)
        rig.start()
        load.result()
        rig.judge(load)


main()
