"""A name with several instances: peers, `grapnel` and the console reach the one that is active, on whichever host it is.
P1, P2."""

import datetime
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hosts import CONSOLE_PORT, CONTROL_PORT, PORT, Host, HostsTest, Network, loopback
from erasure import Erasure  # hosts has put the folder on the path
from rig import main, sign_plane, wait_for

import msgpack
import zmq
from zmq.utils import z85

INGRESS_PORT, DLQD_PORT = 7510, 7490


def seconds(time):
    """Of a time as the processes write it."""
    return datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()


class Rig(Erasure, HostsTest):
    """Host a has ingress, dlqd and a sequencer, host b a deliverer, host c the second instance of the sequencer. Hosts
    reach each other at their addresses directly."""

    def instances(self, console=False, moves="sequencer"):
        """`moves`: the process of host a that has an instance on host c, too."""
        rig = self.rig(deliverers=0)
        if console:
            rig.add_console()
        self.network = Network()
        a, b, c = (loopback(n) for n in (1, 3, 5))
        self.c = c
        ports = {"sequencer": PORT, "ingress": INGRESS_PORT, "dlqd": DLQD_PORT, "console": CONSOLE_PORT}
        at_a = [name for name in ports if console or name != "console"]
        names = [*(f"{name}@a" if name == moves else name for name in at_a), "deliverer-2", f"{moves}@c"]
        keys = self.keys = {name: self.key(rig, name.partition("@")[0], f"keys-{name}") for name in names}
        peers = [{"name": name, "address": f"{a}:{ports[name]}", "key": keys[name]} for name in at_a if name != moves]
        peers += [
            {"name": "deliverer-2", "address": f"{b}:{PORT}", "key": keys["deliverer-2"]},
            *({"name": moves, "host": host, "address": f"{address}:{ports[moves]}", "key": keys[f"{moves}@{host}"]}
              for host, address in (("a", a), ("c", c)))]
        self.folders = {"a": self.keys_of(rig, "a", *names[:len(at_a)]),
                        "b": self.keys_of(rig, "b", "deliverer-2"),
                        "c": self.keys_of(rig, "c", f"{moves}@c")}
        rig.config["cluster"] = {"keys": self.folders["a"], "host": "a", "peers": peers}
        rig.write_config()
        self.far, self.third = Host(rig, "host-b"), Host(rig, "host-c")
        for host, name in ((self.far, "b"), (self.third, "c")):
            more = {k: v for k, v in rig.config.items()
                    if k not in ("state_dir", "run_dir", "cluster", "shutdown_grace")} if name == "c" else {}
            host.configure(peers, **more)
            host.config["cluster"] |= {"keys": self.folders[name], "host": name}
            host.write_config()
        return rig

    def keys_of(self, rig, host, *names):
        folder = rig.folder / f"keys-of-{host}"
        folder.mkdir()
        for name in names:
            for file in (rig.folder / f"keys-{name}").iterdir():
                file.rename(folder / file.name)
        return str(folder)

    def move(self, rig, to, daemon, end="stop"):
        """Its database, by hand, as nothing is replicated here."""
        getattr(daemon, end)()
        to.state_dir.mkdir(mode=0o700, exist_ok=True)
        for file in daemon.rig.state_dir.glob(f"{daemon.name}.db*"):
            file.rename(to.state_dir / file.name)


class Instances(Rig):
    def test_deliveries_go_on_when_the_sequencer_moves_to_its_other_host_and_back(self):
        rig = self.instances()
        rig.start()
        self.far.add("deliverer-2").start()
        load = rig.load(count=300, connections=8)
        load.result()
        rig.judge(load)
        self.move(rig, self.third, rig["sequencer"])
        waiting = [rig.accept() for _ in range(50)]
        moved = self.third.add("sequencer").start()
        for event in waiting:
            rig.receiver.wait(event)
        load = rig.load(count=300, connections=8)
        load.result()
        for ack in load.acks():
            rig.receiver.wait(ack["id"])
        self.move(rig, rig, moved)
        waiting = [rig.accept() for _ in range(50)]
        rig["sequencer"].start()
        for event in waiting:
            rig.receiver.wait(event)
            rig.wait_status(event)

    def test_the_key_of_an_instance_cannot_speak_for_the_other_one(self):
        rig = self.rig(deliverers=0)
        self.keys = {name: self.key(rig, name.partition("@")[0], f"keys-{name}")
                     for name in ("sequencer", "deliverer-2@b", "deliverer-2@c")}
        self.seat = {"sequencer": loopback(1)}
        rig.config["cluster"] = {"keys": "keys-sequencer", "peers": [
            self.peer("sequencer", loopback(1)),
            *({"name": "deliverer-2", "host": host, "address": f"{loopback(n)}:{PORT}",
               "key": self.keys[f"deliverer-2@{host}"]} for host, n in (("b", 3), ("c", 5)))]}
        rig.write_config()
        rig.start()
        (rig.folder / "keys-deliverer-2@b").rename(rig.folder / "keys")
        push = self.connect(rig, (z85.encode(bytes.fromhex(self.keys["deliverer-2@b"])),
                                  self.secret(rig, "deliverer-2").encode()))
        for inbox in ("peer://deliverer-2@c.inbox", "peer://deliverer-2.inbox", "peer://deliverer-2@.inbox",
                      "peer://deliverer-2@b@c.inbox", "peer://deliverer-2@b.nothing", "peer://deliverer-2@b"):
            push.send(self.heartbeat("deliverer-2", inbox))
        wait_for(lambda: "its sender's key belongs to another name" in rig["sequencer"].log(),
                 what="a frame to be refused")
        self.assertNotIn("a deliverer registered", rig["sequencer"].log())
        push.send(self.heartbeat("deliverer-2", "peer://deliverer-2@b.inbox"))
        wait_for(lambda: "a deliverer registered" in rig["sequencer"].log(), what="the one right frame")
        self.assertEqual(rig["sequencer"].log().count("a deliverer registered"), 1)


class Asked(Rig):
    """The console is on host a, and `grapnel` runs there."""

    def row(self, rig, name="sequencer"):
        rows, _ = rig.cli("status")
        self.assertEqual([r["process"] for r in rows].count(name), 1)
        return next(r for r in rows if r["process"] == name)

    def wait_for_row(self, rig, process, host=None):
        """`grapnel` reaches this process, there."""
        row = wait_for(lambda: (r := self.row(rig, process.name)).get("pid") == process.pid and r, 30,
                       what=f"{process.name} of process {process.pid} to be reached")
        if host:
            self.assertTrue(row["host"].startswith(f"{host} ({self.c}:"), row)
        else:
            self.assertNotIn("host", row)

    def wait_for_metrics(self, rig, process):
        """The console forwards the numbers of this start, and not those of an earlier one."""
        started = self.row(rig, process.name)["started_at"]
        sub = zmq.Context.instance().socket(zmq.SUB)
        self.addCleanup(sub.close, 0)
        sub.rcvtimeo = 30000
        sub.subscribe(b"")
        sub.connect(rig.publish)

        def is_forwarded():
            frame = msgpack.unpackb(sub.recv())
            return frame["process"] == process.name and frame["started_ms"] >= 1000 * seconds(started)
        wait_for(is_forwarded, 30, what="its metrics")

    def test_the_one_that_runs_is_asked_on_whichever_host_it_is(self):
        rig = self.instances(console=True)
        rig.start()
        self.far.add("deliverer-2").start()
        first = rig["sequencer"]
        self.wait_for_row(rig, first)
        event = rig.accept()
        rig.receiver.wait(event)
        rig.wait_status(event)
        self.move(rig, self.third, first, end="kill")
        self.assertTrue((rig.run_dir / "sequencer.control").exists())
        row = wait_for(lambda: "start it on one of them" in (r := self.row(rig)).get("error", "") and r,
                       what="nobody to be reached")
        self.assertIn("it does not answer on this host (a)", row["error"])
        self.assertIn(f"no connection to c at tcp://{self.c}:{CONTROL_PORT}", row["error"])
        self.assertEqual(rig.cli_text("health", "sequencer").returncode, 69)

        moved = self.third.add("sequencer").start()
        self.wait_for_row(rig, moved, "c")
        self.assertEqual(rig.cli("trace", event)[0]["unreachable"], [])
        health = rig.cli_text("health", "sequencer")
        self.assertEqual(health.returncode, 0, health.stderr)
        self.assertIn(f"; on c ({self.c}:", health.stdout)
        self.assertIn(f"c ({self.c}:", rig.cli_text("status").stdout)
        self.wait_for_metrics(rig, moved)
        # An act, and its audit row, are those of the process that did it.
        done = rig.cli_text("endpoints", "pause", "crm")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("endpoint_pause", json.dumps(rig.cli("audit")[0]))
        self.assertIn("is on another host", rig.cli_text("backup", str(rig.folder / "copies")).stderr)

        self.move(rig, rig, moved)
        first.start()
        self.wait_for_row(rig, first)
        self.wait_for_metrics(rig, first)
        self.assertFalse((rig.run_dir / "sequencer.host").exists())
        # Without the console the one of this host is asked directly.
        rig["console"].kill()
        self.wait_for_row(rig, first)

    def copy(self, rig, to, name):
        """As a standby would have it, of a process that is stopped."""
        to.state_dir.mkdir(mode=0o700, exist_ok=True)
        for file in rig.state_dir.glob(f"{name}.db*"):
            shutil.copyfile(file, to.state_dir / file.name)

    def test_a_former_one_that_hangs_is_not_asked_when_another_answers(self):
        rig = self.instances(console=True)
        rig.start()
        first = rig["sequencer"]
        self.wait_for_row(rig, first)
        first.pause()
        self.copy(rig, self.third, "sequencer")
        moved = self.third.add("sequencer").start()
        self.wait_for_row(rig, moved, "c")
        self.wait_for_metrics(rig, moved)
        # A console that starts now finds the socket of the former one, and asks both.
        rig["console"].kill()
        (rig.run_dir / "sequencer.control").unlink()
        rig["console"].start()
        self.wait_for_row(rig, moved, "c")
        # The former one goes on and stops in order: it removes no file of the console.
        files = [rig.run_dir / f"sequencer.{kind}" for kind in ("control", "metrics", "host")]
        self.assertTrue(all(f.exists() for f in files))
        before = [f.stat().st_ino for f in files]
        first.stop()
        self.assertEqual([f.stat().st_ino for f in files], before)
        self.wait_for_row(rig, moved, "c")
        # It starts as the active one again, and takes its place.
        self.move(rig, rig, moved)
        first.start()
        self.wait_for_row(rig, first)

    def former_at_c(self):
        """The control port of a former sequencer on host c that is not ours to start: it only takes connections."""
        router = zmq.Context.instance().socket(zmq.ROUTER)
        self.addCleanup(router.close, 0)
        router.curve_server = True
        text = (pathlib.Path(self.folders["c"]) / "sequencer.cert_secret").read_text()
        router.curve_publickey = z85.encode(bytes.fromhex(self.keys["sequencer@c"]))
        router.curve_secretkey = text.split('secret-key = "')[1].split('"')[0].encode()
        router.rcvtimeo = 30000
        router.bind(f"tcp://{self.c}:{CONTROL_PORT}")
        return router

    def test_one_elsewhere_that_hangs_with_its_connection_open_is_not_asked_when_another_answers(self):
        rig = self.instances(console=True)
        router = self.former_at_c()
        rig.start("ingress", "dlqd", "console")
        self.assertEqual(router.recv_multipart()[1], b"metrics")  # it is connected, and answers nothing
        wait_for(lambda: (rig.run_dir / "sequencer.host").exists(), what="it to be asked")
        rig.start("sequencer")
        self.wait_for_row(rig, rig["sequencer"])

    def test_one_that_refuses_does_not_replace_one_that_hangs(self):
        """A process that waits for the log of its store refuses requests, so it may be a former one."""
        rig = self.instances(console=True)
        rig.start()
        self.wait_for_row(rig, rig["sequencer"])
        rig["sequencer"].pause()
        router = self.former_at_c()
        refusal = json.dumps({"v": 1, "ok": False, "code": "busy", "error": "waits"}).encode()
        for _ in range(6):  # rounds of pings, more than replace one that hangs
            router.send_multipart([*router.recv_multipart()[:3], refusal])
        rig["sequencer"].resume()
        self.wait_for_row(rig, rig["sequencer"])

    def test_an_erasure_reaches_the_one_that_has_moved(self):
        rig = self.instances(console=True, moves="dlqd")
        rig.start()
        self.far.add("deliverer-2").start()
        body = rig.plane_body(workspace="acme-erased")
        self.assertEqual(rig.post(body, headers=sign_plane(body))[0], 200)
        self.move(rig, self.third, rig["dlqd"], end="kill")
        moved = self.third.add("dlqd").start()
        self.wait_for_row(rig, moved, "c")
        done = rig.cli_text("workspaces", "erase", "acme-erased", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ended(rig, json.loads(done.stdout))
        near, far = ((state / "erasures").read_text().splitlines() for state in (rig.state_dir, self.third.state_dir))
        self.assertEqual(near[0], far[0])
        self.assertEqual([line.split()[1] for line in near[1:]], [line.split()[1] for line in far[1:]])


main()
