"""grapnel handover whose reply is lost: it looks at the replication database, and says what it knows. A real PostgreSQL server."""
import contextlib
import pathlib
import socket
import sys
import threading

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from engine_rig import Cluster
from rig import RigTest, main, program, wait_for
from test_replicated import Host

STORE = "sequencer"
TAKEOVER = "40s"  # the command waits for a reply and a third of this, and no standby may lose its patience meanwhile


class ControlRelay:
    """A run_dir whose control socket leads to that of a process. `on_request`: called when a handover is asked for, before the process gets it."""

    def __init__(self, rig, on_request=lambda: None, passes_request=True, passes_reply=True):
        self.to = str(rig.run_dir / f"{STORE}.control")
        self.on_request, self.passes_request, self.passes_reply = on_request, passes_request, passes_reply
        self.asked = threading.Event()
        folder = rig.folder / "relayed"
        folder.mkdir()
        self.config = rig.folder / "relayed.yaml"
        self.config.write_text(yaml.safe_dump({**rig.config, "run_dir": "relayed"}))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / f"{STORE}.control"))
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.to)
                threading.Thread(target=self.forth, args=(near, far), daemon=True).start()
                threading.Thread(target=self.back, args=(near, far), daemon=True).start()

    def forth(self, near, far):
        with contextlib.suppress(OSError):
            while data := near.recv(1 << 16):
                if b'"handover"' in data:
                    self.asked.set()
                    self.on_request()
                    if not self.passes_request:
                        continue
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)

    def back(self, near, far):
        with contextlib.suppress(OSError):
            while data := far.recv(1 << 16):
                if self.passes_reply or not self.asked.is_set():
                    near.sendall(data)
            if not self.asked.is_set():
                near.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


class Reply(RigTest):
    def begun(self):
        engine = Cluster(standbys=1)
        self.addCleanup(engine.close)
        uri = engine.primary.uri_as("grapnel")
        a = Host("a", database=uri, takeover_after=TAKEOVER)
        b = Host("b", first=a, database=uri, takeover_after=TAKEOVER)
        for rig in (b, a):
            self.addCleanup(self._end, rig)
        a.state_dir.mkdir()
        self.assertEqual(a.cli_text("replicate", "begin").returncode, 0)
        a.start()
        b.follow(STORE)
        wait_for(lambda: engine.primary.sql(f"SELECT 1 FROM grapnel.node WHERE process = '{STORE}' AND host = 'b' AND ready"),
                 60, "the engine to know that the standby is ready")
        events = [a.accept() for _ in range(3)]
        for event in events:
            a.wait_status(event)
        # The active reads the rows of the others now and then, and refuses a handover before it knows of a standby.
        wait_for(lambda: [s["value"] for s in a.ask(STORE, "status")["series"]
                          if s["name"] == "grapnel_replication_standbys_ready"] == [1], 60,
                 "the active to know of the standby")
        return a, b, events

    def hand_over(self, rig, **how):
        relay = ControlRelay(rig, **how)
        self.addCleanup(relay.close)
        done = rig.run(program("grapnel"), "handover", "-c", relay.config, STORE, "b", timeout=120)
        self.assertTrue(relay.asked.is_set(), done)
        return done

    def owns(self, b, events):
        wait_for(b[STORE].up, 60, "the sequencer of b to own its store")
        self.assertEqual([b.trace(e)["sequence"] for e in events], list(range(1, len(events) + 1)))

    def test_it_was_handed_over(self):
        """P1, P4: the command sees in the engine that the other host has it."""
        a, b, events = self.begun()
        done = self.hand_over(a, passes_reply=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"sequencer: b has it now, after \d+ ms")
        self.assertEqual(a[STORE].wait_exit(), 75)
        self.owns(b, events)

    def test_the_request_was_lost(self):
        """P1, P4: the command says that no other host has it, and the active goes on."""
        a, _, events = self.begun()
        done = self.hand_over(a, passes_request=False)
        self.assertEqual((done.returncode, done.stdout), (69, ""), done)
        self.assertIn("No other host has it yet. If the request has reached it, it may still hand over", done.stderr)
        events.append(a.accept())
        a.wait_status(events[-1])
        self.assertEqual([a.trace(e)["sequence"] for e in events], [1, 2, 3, 4])

    def test_the_active_takes_the_request_later(self):
        """P1, P4: it was stopped meanwhile. What the command said is true, before and after."""
        a, b, events = self.begun()
        done = self.hand_over(a, on_request=a[STORE].pause)
        self.assertEqual((done.returncode, done.stdout), (69, ""), done)
        self.assertIn("it may still hand over", done.stderr)
        self.assertFalse(b[STORE].responds())
        a[STORE].resume()
        self.assertEqual(a[STORE].wait_exit(), 75)
        self.owns(b, events)


if __name__ == "__main__":
    main(at_once=3)
