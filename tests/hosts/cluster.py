"""A pipeline whose processes are on several hosts: each host has an address, a configuration, a run_dir, a disk and a
clock of its own. A name that several hosts have is a process with an instance on each, and its store is replicated."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import yaml
from engine import PORT as ENGINE_PORT
from engine import Engine
from network import make_network
from rig import PLANE_SECRET, SLOW, Daemon, Receiver, Rig, http_request, program, sign_plane, wait_for, write_clock

WORLD = "world"  # where clients and receivers are
HTTP_PORT = 8000
TOKEN = "t0ken-of-the-clients"
LEASE_MS = 2000


def hosts_of(layout, name):
    return [host for host, names in layout.items() if name in names]


def ports_of(layout):
    """{process: its first port}; it has three, or none, as dlqd has when it stays on the sequencer's host."""
    names = dict.fromkeys(name for names in layout.values() for name in names)
    return {name: 7470 + 10 * n for n, name in enumerate(names) if name != "dlqd" or len(hosts_of(layout, name)) > 1}


def open_ports(layout):
    """{host: ports that others connect to}"""
    first = ports_of(layout)
    return {host: [*(first[name] + n for name in names if name in first for n in range(3)), HTTP_PORT]
            for host, names in layout.items()}


def key_of(layout, name, host):
    """What the cluster calls this process: "sequencer", or "sequencer@a" if it has several instances."""
    return f"{name}@{host}" if len(hosts_of(layout, name)) > 1 else name


class Host:
    """A folder with a configuration, a run_dir, a state_dir on a disk of its own, and a clock."""

    def __init__(self, cluster, name, disk_bytes):
        self.cluster, self.name = cluster, name
        self.folder = cluster.folder / name
        self.run_dir, self.state_dir = self.folder / "run", self.folder / "state"
        self.config_path = self.folder / "grapnel.yaml"
        self.clock = self.folder / "clock"
        self.state_dir.mkdir(parents=True)
        self.step_clock(0)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes},mode=700", "tmpfs", self.state_dir],
                              capture_output=True, text=True)
        self.why_no_disk = done.stderr.strip() if done.returncode else None
        self.env = {**cluster.env, "RIG_CLOCK": str(self.clock), "LD_PRELOAD": program("rig-clock.so"),
                    "GRAPNEL_TEST_LEASE_MS": str(LEASE_MS),
                    # The sanitizer's library asks to be first, which is not needed.
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def add(self, name):
        daemon = (Instance if name in self.cluster.replicated else Daemon)(self, name)
        enter, prepare = self.cluster.network.enter(self.name), daemon.prepare_child

        def prepare_child():
            prepare()
            enter()
        daemon.prepare_child = prepare_child
        return daemon

    def write_config(self, config):
        self.config_path.write_text(yaml.safe_dump(config, sort_keys=False))

    def step_clock(self, by_s):
        """Its wall clock is off by so much from now on."""
        write_clock(self.clock, by_s)

    def wipe(self):
        """Its disk is replaced by an empty one. No process of it runs."""
        for folder in (self.state_dir, self.run_dir):
            for path in folder.iterdir() if folder.exists() else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def fill_disk(self):
        with open(self.state_dir / "ballast", "ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, max(4096, self.free_bytes()))

    def free_bytes(self):
        disk = os.statvfs(self.state_dir)
        return min(disk.f_bavail * disk.f_frsize, 16 << 20)

    def empty_disk(self):
        with contextlib.suppress(FileNotFoundError):
            (self.state_dir / "ballast").unlink()

    def ingress_is_ready(self):
        """As its clients see it."""
        with contextlib.suppress(OSError):
            address = self.cluster.network.address(self.name, WORLD)
            return http_request(HTTP_PORT, "GET", "/readyz", address=address, timeout=5)[0] == 200
        return False

    def console_is_open(self):
        return True  # its control socket is there; nobody looks at its pages

    def unmount(self):
        if not self.why_no_disk:
            subprocess.run(["umount", self.state_dir], check=False)


class Instance(Daemon):
    """A process on one of the hosts of its name. It is the active one, or a standby, which has no socket."""

    def spawn(self, env=None, stdout=None):
        self.log_begins = self.log_path.stat().st_size if self.log_path.exists() else 0
        return super().spawn(env, stdout)

    def said(self):
        """Its log since its last start."""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            log.seek(self.log_begins)
            return log.read()

    def is_active(self):
        return self.alive and self.responds()

    def is_ready(self):
        """A standby that can take over."""
        said = self.said()
        return self.alive and "this process owns the store" not in said and \
            said.rfind("standby: ready to take over") > said.rfind("standby: not ready to take over")

    def up(self):
        return super().up() or "following the engine's log" in self.said()


class Cluster(Rig):
    """`layout` says which host has which processes, {host: [name]}; the (first) host of the sequencer has dlqd and the
    console, too. `grapnel`, and questions to processes, are asked there.

    A name on several hosts has an instance on each, and the store of the name is replicated by an engine on `engine`, hosts
    of its own. `daemons` has each instance as "NAME@HOST", and cluster["NAME"] is the active one."""

    def __init__(self, layout, endpoints, disk_bytes=256 << 20, more=None, engine=(), takeover_s=None):
        self.layout = layout
        self.engine, self.takeover_s = None, takeover_s
        self.replicated = [name for name in dict.fromkeys(n for names in layout.values() for n in names)
                           if len(hosts_of(layout, name)) > 1]
        self.network = make_network([*layout, *engine, WORLD], WORLD,
                                    {**open_ports(layout), **{host: [ENGINE_PORT] for host in engine}})
        try:
            if engine:
                self.secret = base64.b64encode(os.urandom(32)).decode()
                self.engine = Engine(self.network, engine)
            super().__init__(deliverers=0, ingress=False)
            self.hub = hosts_of(layout, "sequencer")[0]
            self.daemons = {}
            self.hosts = {host: Host(self, host, disk_bytes) for host in layout}
            self.first_port = ports_of(layout)
            self.keys = {(name, host): self.make_key(name, host)
                         for name in self.first_port for host in hosts_of(layout, name)}
            self.shared = {**self.default_config(), "endpoints": endpoints(self), **(more or {})}
            for host, names in layout.items():
                self.configure(host)
                for name in names:
                    self.daemons[key_of(layout, name, host)] = self.hosts[host].add(name)
            self.run_dir, self.state_dir = self.hosts[self.hub].run_dir, self.hosts[self.hub].state_dir
            self.config_path = self.hosts[self.hub].config_path
            if self.replicated:
                done = self.cli_at(hosts_of(layout, self.replicated[0])[0], "replicate", "begin", *self.replicated)
                assert done.returncode == 0, done.stderr
        except BaseException:
            self.close_network()
            raise

    def make_receiver(self):
        return Receiver(self, address=self.network.address(WORLD), options=["--ends"])

    def make_key(self, name, host):
        done = subprocess.run([program("grapnel"), "keys", "make", name, "--keys", str(self.hosts[host].folder / "keys")],
                              check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def peer(self, name, host, seen_from):
        return {"name": name, "key": self.keys[name, host],
                "address": f"{self.network.address(host, seen_from)}:{self.first_port[name]}",
                **({"host": host} if name in self.replicated else {})}

    def configure(self, host):
        names = self.layout[host]
        config = {"state_dir": "state", "run_dir": "run", "shutdown_grace": "5s",
                  "cluster": {"keys": "keys", "peers": [self.peer(*instance, host) for instance in self.keys]}}
        listen = {"listen": f"{self.network.address(host)}:{HTTP_PORT}"}
        clients = {"sources": self.shared["sources"], "producers": [{"name": "billing", "tokens": [TOKEN]}],
                   "ingress": listen}
        if "sequencer" in names:
            config |= {**self.shared, **clients, "state_dir": "state", "run_dir": "run",
                       "metrics": {"interval": "500ms"}, "console": {"listen": "127.0.0.1:8001"}}
        elif any(name.startswith("ingress") for name in names):
            config |= clients
        if set(names) & set(self.replicated):
            config["cluster"]["host"] = host
            config["replicate"] = {"database": self.engine.database(host), "key": "file:replicate.key",
                                   "takeover_after": f"{self.takeover_s}s"}
            config["audit"] = {"key": "file:audit.key"}
            for name in ("replicate.key", "audit.key"):
                key = self.hosts[host].folder / name
                key.write_text(self.secret)
                key.chmod(0o600)
        self.hosts[host].write_config(config)

    # processes

    def names(self):
        return list(dict.fromkeys(daemon.name for daemon in self.daemons.values()))

    def instances(self, name):
        return [daemon for daemon in self.daemons.values() if daemon.name == name]

    def host_of(self, key):
        return self.daemons[key].rig.name

    def active(self, name):
        """The instance that serves now; None: none does. A former one that has not noticed yet that it is not the owner may
        serve, too."""
        return next((d for d in self.instances(name) if d.is_active()), None)

    def is_whole(self, name):
        """Of this replicated process one instance is active, and all others are standbys that are ready."""
        instances = self.instances(name)
        return [d.is_active() for d in instances].count(True) == 1 and all(d.is_active() or d.is_ready() for d in instances)

    def copies_are_equal(self, name):
        """Each standby that is ready has all turns of the engine's log, by their chain."""
        last, = self.engine.sql(f"SELECT last, chain FROM grapnel.owner WHERE process = '{name}'")
        copies = {line for d in self.instances(name) if d.is_ready() for line in self.engine.sql(
            f"SELECT n, chain FROM grapnel.node WHERE process = '{name}' AND host = '{d.rig.name}' AND ready")}
        return copies == {last}

    def takeovers(self):
        """{process: how often a start has become the owner of its store}"""
        return {line.split("|")[0]: int(line.split("|")[1])
                for line in self.engine.sql("SELECT process, epoch FROM grapnel.owner")}

    def __getitem__(self, name):
        if name not in self.replicated:
            return super().__getitem__(name)
        return wait_for(lambda: self.active(name), 60, f"an active {name}")

    def home(self, process):
        return self[process].rig

    def on(self, host):
        """The keys of its processes."""
        return [key for key, daemon in self.daemons.items() if daemon.rig.name == host]

    def start_host(self, host):
        """All its processes; those of a replicated name are the active ones or standbys then."""
        self.start(*self.on(host))

    def command_at(self, host, *words):
        """`grapnel` on that host, as arguments of subprocess."""
        return {"args": [program("grapnel"), *words, "-c", str(self.hosts[host].config_path)],
                "env": {**os.environ, **self.hosts[host].env}, "preexec_fn": self.network.enter(host), "text": True}

    def cli_at(self, host, *words):
        """The finished process."""
        return subprocess.run(**self.command_at(host, *words), capture_output=True, timeout=60 * SLOW)

    # clients

    def url_of_ingress(self, host):
        return self.network.address(host, WORLD), HTTP_PORT

    def post_to(self, host, body, timeout=30):
        """(status, response) of a signed request to this host's ingress; OSError: it does not respond."""
        address, port = self.url_of_ingress(host)
        status, _, text = http_request(port, "POST", "/in/plane", body, sign_plane(body), address=address,
                                       timeout=timeout * SLOW)
        return status, json.loads(text) if text[:1] == b"{" else text

    def post_at(self, host, body):
        """The status."""
        return self.post_to(host, body)[0]

    def close(self):
        for p in [*self.daemons.values(), *self.others]:
            p.kill()
        for host in self.hosts.values():
            host.unmount()
        super().close()
        self.close_network()

    def close_network(self):
        if self.engine:
            self.engine.close()
        self.network.close()
