"""Hosts of a cluster on one machine: a folder, an address and keys each, and a relay that plays the network.

The hosts have loopback addresses of their own (127.x.y.z). Every connection between two hosts passes a relay, which can
delay what it carries, hold it back for as long as a cut lasts (the connections stay open, as when a cable is pulled), and
keep a record of it."""

import os
import pathlib
import re
import resource
import select
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import msgpack
import yaml
import zmq
from relay import Relays
from rig import Daemon, RigTest, program
from zmq.utils import z85

PORT, CONTROL_PORT, CONSOLE_PORT = 7470, 7472, 7480
HEARTBEAT = 4  # a kind of frame, of proto/wire.h
CLOSED, CLOSE_WAIT = 7, 8  # states of tcp in Linux


def loopback(n):
    """An address of this test process alone."""
    return f"127.{64 + n}.{os.getpid() >> 8 & 0xff}.{os.getpid() & 0xff or 1}"


class Network:
    """The relays from one host to the other; each process has three ports."""

    def __init__(self):
        self.all = Relays()
        self.relays = self.all.all

    def way(self, n, to):
        """An address that leads to this one."""
        host = loopback(n)
        for port in (PORT, PORT + 1, CONTROL_PORT):
            self.all.add(host, port, (to, port))
        return host

    def set(self, **values):
        for relay in self.relays:
            for name, value in values.items():
                setattr(relay, name, value)

    def ends_have_closed(self):
        """The processes have closed all connections, which the relays still hold."""
        def state(s):
            try:
                return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
            except OSError:
                return CLOSED
        return all(state(s) in (CLOSE_WAIT, CLOSED)
                   for relay in self.relays for s in list(relay.other))

    @property
    def seen(self):
        return b"".join(bytes(relay.seen) for relay in self.relays)

    def close(self):
        self.all.close()


class Strangers:
    """Holds this many connections to an address open, in a thread, and replaces each that the other end closes. None of
    them finishes its handshake: one says nothing, the next one sends a greeting."""

    GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + bytes(32)

    def __init__(self, to, count):
        self.to, self.count = to, count
        self.opened = 0
        self.ended = False
        self.poll = select.epoll()
        self.held = {}
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.thread = threading.Thread(target=self.run, daemon=True)

    def open(self):
        s = socket.socket()
        try:
            s.settimeout(2)
            s.connect(self.to)
            if self.opened % 2:
                s.sendall(self.GREETING[:64])
        except OSError:
            s.close()
            return
        self.opened += 1
        self.held[s.fileno()] = s
        self.poll.register(s, select.EPOLLRDHUP)

    def run(self):
        while not self.ended:
            for _ in range(min(50, self.count - len(self.held))):
                self.open()
            for fd, _ in self.poll.poll(0.001):
                self.held.pop(fd).close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()
        for s in self.held.values():
            s.close()
        self.poll.close()


class Host:
    """A host beside the rig's own, with the folders and the configuration of its processes."""

    def __init__(self, rig, name):
        self.rig = rig
        self.folder = rig.folder / name
        self.folder.mkdir()
        self.run_dir, self.state_dir = self.folder / "run", self.folder / "state"
        self.config_path = self.folder / "grapnel.yaml"
        self.env = rig.env
        self.ingress_port = None

    def configure(self, peers, **more):
        self.config = {"state_dir": "state", "run_dir": "run",
                       "shutdown_grace": "5s",
                       "cluster": {"keys": str(self.rig.folder / "keys"),
                                   "peers": peers}, **more}
        self.write_config()

    def write_config(self):
        self.config_path.write_text(yaml.safe_dump(self.config, sort_keys=False))

    def ingress_is_ready(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.ingress_port)) == 0

    def add(self, name):
        daemon = Daemon(self, name)
        self.rig.others.append(daemon)
        return daemon


class HostsTest(RigTest):
    """A rig on host a; `sequencer` is at address 1, and the way to it from elsewhere at address 2. The way to process
    NAME on host b is at an address of its own, too. With `console` host a has a console that asks host b."""

    def cluster(self, far=("deliverer-2",), config=None, console=False, **how):
        rig = self.rig(config, **how)
        if console:
            rig.add_console()
        # Freed memory is freed, for what measures memory.
        rig.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + \
            ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
        self.network = Network()
        self.addCleanup(self.network.close)
        self.keys = {name: self.key(rig, name) for name in ("sequencer", *far, *(["console"] if console else []))}
        self.seat = {"sequencer": loopback(1)}
        ways = {"sequencer": self.network.way(2, loopback(1))}
        for n, name in enumerate(far):
            self.seat[name] = loopback(3 + 2 * n)
            ways[name] = self.network.way(4 + 2 * n, self.seat[name])
        asks = [{"name": "console", "key": self.keys["console"],
                 "address": f"{self.seat['sequencer']}:{CONSOLE_PORT}"}
                ] if console else []
        self.ways = ways
        rig.config["cluster"] = {"keys": "keys", "peers": [
            self.peer("sequencer", self.seat["sequencer"]),
            *(self.peer(name, ways[name]) for name in far), *asks]}
        rig.write_config()
        self.far = Host(rig, "b")
        self.far.configure([
            self.peer("sequencer", ways["sequencer"]),
            *(self.peer(name, self.seat[name]) for name in far), *asks])
        return rig

    def key(self, rig, name, folder="keys"):
        """Make a key; its public half."""
        done = subprocess.run(
            [program("grapnel"), "keys", "make", name, "--keys",
             str(rig.folder / folder)],
            check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def secret(self, rig, name):
        text = (rig.folder / "keys" / f"{name}.cert_secret").read_text()
        return re.search(r'secret-key = "(.*)"', text)[1]

    def connect(self, rig, key, server="sequencer"):
        """A client with this pair of keys at the inbox of a process."""
        push = zmq.Context.instance().socket(zmq.PUSH)
        self.addCleanup(push.close, 0)
        push.curve_publickey, push.curve_secretkey = key
        push.curve_serverkey = z85.encode(bytes.fromhex(self.keys[server]))
        push.connect(f"tcp://{self.seat[server]}:{PORT}")
        return push

    def heartbeat(self, name, inbox):
        return msgpack.packb([HEARTBEAT, 1, name, inbox, 1, 1, 1, 0, b""])

    def peer(self, name, host):
        return {"name": name, "address": f"{host}:{PORT}", "key": self.keys[name]}


def resident_kib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])
