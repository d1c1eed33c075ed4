"""A name with several instances: peers reach the one that is active, on whichever host it is. P1, P2."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hosts import PORT, Host, HostsTest, Network, loopback
from rig import main, wait_for
from zmq.utils import z85

INGRESS_PORT, DLQD_PORT = 7480, 7490


class Instances(HostsTest):
    """Host a has ingress, dlqd and a sequencer, host b a deliverer, host c the second instance of the sequencer. Hosts
    reach each other at their addresses directly."""

    def instances(self):
        rig = self.rig(deliverers=0)
        self.network = Network()
        a, b, c = (loopback(n) for n in (1, 3, 5))
        keys = {name: self.key(rig, name.partition("@")[0], f"keys-{name}")
                for name in ("ingress", "dlqd", "deliverer-2", "sequencer@a", "sequencer@c")}
        peers = [
            {"name": "ingress", "address": f"{a}:{INGRESS_PORT}", "key": keys["ingress"]},
            {"name": "dlqd", "address": f"{a}:{DLQD_PORT}", "key": keys["dlqd"]},
            {"name": "deliverer-2", "address": f"{b}:{PORT}", "key": keys["deliverer-2"]},
            {"name": "sequencer", "host": "a", "address": f"{a}:{PORT}", "key": keys["sequencer@a"]},
            {"name": "sequencer", "host": "c", "address": f"{c}:{PORT}", "key": keys["sequencer@c"]}]
        self.folders = {"a": self.keys_of(rig, "a", "ingress", "dlqd", "sequencer@a"),
                        "b": self.keys_of(rig, "b", "deliverer-2"),
                        "c": self.keys_of(rig, "c", "sequencer@c")}
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

    def move(self, rig, to, daemon):
        """Its database, by hand, as nothing is replicated here."""
        daemon.stop()
        for file in daemon.rig.state_dir.glob("sequencer.db*"):
            file.rename(to.state_dir / file.name)

    def test_deliveries_go_on_when_the_sequencer_moves_to_its_other_host_and_back(self):
        rig = self.instances()
        rig.start()
        self.far.add("deliverer-2").start()
        load = rig.load(count=300, connections=8)
        load.result()
        rig.judge(load)
        self.third.state_dir.mkdir(mode=0o700)
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


main()
