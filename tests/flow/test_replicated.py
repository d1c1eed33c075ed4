"""Two hosts with one set of replicated stores: what is acknowledged survives the loss of the host that acknowledged it. Both hosts are
folders of this machine, and share the port of ingress; the engine is a real PostgreSQL server with a synchronous standby."""
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from engine_rig import ZEROS, Cluster
from erasure import Erasure
from rig import SLOW, Rig, RigTest, http_request, main, program, wait_for

STORES = "ingress", "sequencer", "dlqd"
TAKEOVER_S = 3


class Host(Rig):
    """One of the hosts. Its processes log `ready` when they own their stores."""

    def __init__(self, name, first=None, **replicate):
        self.host = name
        super().__init__(deliverers=0)
        self.add(f"deliverer-{name}")
        if first:
            self.ports.close()
            self.ingress_port = first.ingress_port
            self.config["endpoints"] = first.config["endpoints"]
        self.key = first.key if first else base64.b64encode(os.urandom(32)).decode()
        (self.folder / "replicate.key").write_text(self.key)
        (self.folder / "replicate.key").chmod(0o600)
        self.config["ingress"] = {"listen": f"127.0.0.1:{self.ingress_port}"}
        self.config["cluster"] = {"host": name}
        self.config["replicate"] = {"key": "file:replicate.key",
                                    "takeover_after": f"{TAKEOVER_S * SLOW}s", **replicate}
        self.write_config()

    @contextlib.contextmanager
    def alone(self):
        """Within it, the configuration has no `replicate`."""
        replicate = self.config.pop("replicate")
        self.write_config()
        yield
        self.config["replicate"] = replicate
        self.write_config()

    def follow(self, *names):
        """Starts standbys, and waits until each is ready."""
        names = names or STORES
        before = {n: len(self[n].log()) for n in names}
        for name in names:
            self[name].start(wait=False)
        for name in names:
            wait_for(lambda n=name: "standby: ready to take over" in self[n].log()[before[n]:], 30,
                     f"{name} of {self.host} to be ready")

    def lose(self):
        """All processes are killed, and the disk is gone."""
        self.kill()
        shutil.rmtree(self.state_dir)


def firing(rig):
    """The processes for which log_unreachable fires."""
    return {alert["subject"] for alert in rig.cli("alerts")[0]
            if (alert["name"], alert["state"]) == ("log_unreachable", "firing")}


class Replicated(Erasure, RigTest):
    def pair(self, relayed=False, **options):
        engine = Cluster(standbys=1)
        self.addCleanup(engine.close)
        uri = engine.primary.uri_as("grapnel")
        if relayed:
            self.relay = engine.relay(engine.primary)
            uri = self.relay.uri
        for process in STORES:
            asked = engine.engine(process=process)
            self.assertEqual(asked.begin_history(n=0, chain=ZEROS, schema=0)["result"], "DONE")
        a = Host("a", database=uri, **options)
        b = Host("b", first=a, database=uri, **options)
        for rig in (b, a):
            self.addCleanup(self._end, rig)
        return engine, a, b

    def test_a_host_is_lost_and_the_other_goes_on(self):
        """P1, P4: what was acknowledged is delivered by the other host, under the numbers that it has."""
        _, a, b = self.pair()
        a.start()
        b.follow()
        events = [a.accept() for _ in range(20)]
        for event in events[:10]:
            a.receiver.wait(event)
        a.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        late = [a.accept() for _ in range(5)]
        a.lose()
        b.start("deliverer-b")
        for name in STORES:
            wait_for(b[name].up, 60, f"{name} of b to own its store")
        a.receiver.rules()
        for event in events + late:
            b.wait_status(event, timeout=60)
        traced = [b.trace(e)["sequence"] for e in events + late]
        self.assertEqual(sorted(traced), list(range(1, len(traced) + 1)))
        more = b.accept()
        self.assertEqual(b.trace(more)["sequence"], len(traced) + 1)

    def test_a_wiped_host_comes_back_as_a_standby(self):
        """P1: the active makes snapshots, from which a host without files becomes a standby, and takes over later."""
        _, a, b = self.pair()
        a.start()
        events = [a.accept() for _ in range(10)]
        b.follow()
        a.lose()
        b.start("deliverer-b")
        for name in STORES:
            wait_for(b[name].up, 60, f"{name} of b to own its store")
        events += [b.accept() for _ in range(10)]
        a.follow()
        for name in STORES:
            self.assertIn("restoring a snapshot", a[name].log())
            snapshot = b.ask(name, "status")["replication"]["snapshot"]
            self.assertGreaterEqual(snapshot["turn"], 0)
            self.assertEqual(snapshot["error"], "")
        events += [b.accept() for _ in range(10)]
        b.lose()
        a.start("deliverer-a")
        for name in STORES:
            wait_for(a[name].up, 60, f"{name} of a to own its store")
        for event in events:
            a.wait_status(event, timeout=60)
        self.assertEqual([a.trace(e)["sequence"] for e in events],
                         list(range(1, len(events) + 1)))

    def test_an_erasure_ends_the_copies_in_the_engine(self):
        """P1: an erased workspace is in no turn and no snapshot of the engine, and standbys that were there still follow."""
        engine, a, b = self.pair()
        a.start()
        b.follow()
        kept, gone = a.accept(a.plane_body("ws-1")), a.accept(a.plane_body("ws-2"))
        for event in (kept, gone):
            a.wait_status(event)
        before = {s: int(engine.primary.sql(f"SELECT last FROM grapnel.owner WHERE process = '{s}'")[0])
                  for s in STORES}
        job, code = a.cli("workspaces", "erase", "ws-2")
        self.assertEqual(code, 0)
        self.ended(a, job)
        for s in STORES:
            oldest = engine.primary.sql(
                "SELECT min(n) FROM (SELECT n FROM grapnel.log WHERE process = '{0}' UNION ALL "
                "SELECT n FROM grapnel.snapshot WHERE process = '{0}') AS x".format(s))
            self.assertGreaterEqual(int(oldest[0]), before[s], s)
            self.assertFalse(list(b.state_dir.glob("*.diverged*")))
        a.lose()
        b.start("deliverer-b")
        for name in STORES:
            wait_for(b[name].up, 60, f"{name} of b to own its store")
        self.assertEqual(b.trace(kept)["sequence"], 1)
        self.assertEqual(b.rows("sequencer", "SELECT 1 FROM events WHERE workspace = 'ws-2'"), [])

    def test_an_erasure_names_the_host_that_it_waits_for(self):
        _, a, b = self.pair()
        a.start()
        b.follow()
        a.wait_status(a.accept(a.plane_body("ws-2")))
        b.kill()
        job, code = a.cli("workspaces", "erase", "ws-2")
        self.assertEqual(code, 0)
        wait_for(lambda: re.match("waits for (ingress|sequencer|dlqd): an erasure waits until b has read turn ",
                                  self.job(a, job).get("last_error") or ""), 60, "the reason")
        b.follow()
        self.ended(a, job)

    def test_a_stop_gives_the_stores_away(self):
        """P1: a standby does not wait for the silence of a process that was stopped, and the stopped host follows it afterwards."""
        _, a, b = self.pair()
        a.start()
        b.follow()
        event = a.accept()
        a.receiver.wait(event)
        self.assertEqual(set(a.stop().values()), {0})
        b.start("deliverer-b")
        for name in STORES:
            wait_for(b[name].up, 60, f"{name} of b to own its store")
            self.assertIn("the store was given away", a[name].log())
        for n in range(3):
            b.accept()
        a.follow()
        for name in STORES:
            self.assertNotIn("is not a beginning", a[name].log())
        for name in STORES:
            b[name].kill()
        b["deliverer-b"].kill()
        a.start("deliverer-a")
        for name in STORES:
            wait_for(a[name].up, 60, f"{name} of a to own its store again")
        last = a.accept()
        a.wait_status(last)
        self.assertEqual(a.trace(last)["sequence"], 5)
        self.assertEqual(a.trace(event)["sequence"], 1)

    def test_the_configuration_and_the_file_must_agree(self):
        """P1: neither a file that was never replicated, nor a replicated one without `replicate`, is started."""
        _, a, b = self.pair()
        with a.alone():
            a.start()
            a.accept()
            a.stop()
        a["sequencer"].start(wait=False)
        self.assertEqual(a["sequencer"].wait_exit(), 78)
        self.assertIn("grapnel replicate begin sequencer", a["sequencer"].log())
        b.start()
        b.stop()
        with b.alone():
            b["sequencer"].start(wait=False)
            self.assertEqual(b["sequencer"].wait_exit(), 78)
        self.assertIn("grapnel replicate off sequencer", b["sequencer"].log())

    def test_a_start_that_hangs_after_its_takeover_leaves_the_store_to_another(self):
        """P1: its thread would beat for ever, and nobody would serve. When it goes on, it finds that it is fenced."""
        _, a, b = self.pair()
        a.start()
        hangs = b.folder / "hangs"
        hangs.touch()
        b.env.update({"LD_PRELOAD": program("rig-stall.so"), "RIG_STALL_OPEN": str(hangs),
                      "RIG_STALL_FILE": str(b.state_dir / "sequencer.db-shm"),  # which SQLite opens, and a standby does not
                      "GRAPNEL_TEST_STUCK_MS": str(2000 * SLOW),
                      "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"})
        b.follow("sequencer")
        event = a.accept()
        a.wait_status(event)
        a["sequencer"].kill()
        wait_for(lambda: "this process owns the store now" in b["sequencer"].log(), 60, "b to take over")
        a.follow("sequencer")
        wait_for(a["sequencer"].up, 60, "the sequencer of a to own its store again")
        self.assertIn("the heartbeats to the engine stop", b["sequencer"].log())
        self.assertTrue(b["sequencer"].alive)
        event2 = a.accept()
        a.wait_status(event2)
        hangs.unlink()
        self.assertEqual(b["sequencer"].wait_exit(60), 75)
        self.assertEqual([a.trace(e)["sequence"] for e in (event, event2)], [1, 2])

    def test_while_the_engine_is_silent_nobody_is_told_anything(self):
        """P1: no 2xx without the engine's acknowledgement; clients get 503 and errors, and the processes go on by themselves."""
        _, a, _ = self.pair(relayed=True)
        a.env["GRAPNEL_TEST_STALL_MS"] = "1000"
        a.add_console()
        a.config["alerts"] = [{"name": "log_unreachable", "when": "replication_waits", "above": "2s"}]
        a.write_config()
        a.start()
        event = a.accept()
        a.receiver.wait(event)
        self.relay.cut()
        body = a.plane_body()
        self.assertEqual(a.post(body)[0], 503)
        wait_for(lambda: "replication database" in str(a.post(body)), 30,
                 "the refusal to say why")
        status, _, text = http_request(a.ingress_port, "GET", "/healthz")
        self.assertEqual((status, json.loads(text)["status"]), (200, "replication_stalled"))
        self.assertEqual(http_request(a.ingress_port, "GET", "/readyz")[0], 503)
        wait_for(lambda: "waited for the replication database" in str(a.cli_text("health", "sequencer")), 30,
                 "grapnel health to say why")
        said = a.cli_text("status")
        self.assertRegex(said.stdout, r"(?m)^sequencer +waits ")
        self.assertIn("sequencer runs, and does not report its state: it has waited for the", said.stderr)
        self.assertNotIn("Start it", said.stderr)
        self.assertEqual(len(a.receiver.requests("/crm")), 1)
        wait_for(lambda: firing(a) >= {"ingress", "sequencer"}, 60, "the alert")
        self.relay.heal()
        wait_for(lambda: not firing(a), 60, "the alert to end")
        wait_for(lambda: a.post(body)[0] == 200, 60, "ingress to accept again")
        a.receiver.wait(count=2, timeout=60)
        again = a.accept()
        a.wait_status(again, timeout=60)
        self.assertEqual(a.trace(again)["sequence"], 3)

    def test_a_stop_does_not_wait_for_a_silent_engine(self):
        """P1: SIGTERM ends a process that waits for the engine, and the next start has what was acknowledged."""
        _, a, _ = self.pair(relayed=True)
        a.start()
        event = a.accept()
        a.receiver.wait(event)
        self.relay.cut()
        a["sequencer"].signal(signal.SIGTERM)
        self.assertIn(a["sequencer"].wait_exit(60), (0, 69))
        self.relay.heal()
        a.start("sequencer")
        self.assertEqual(a.trace(event)["sequence"], 1)


if __name__ == "__main__":
    main()
