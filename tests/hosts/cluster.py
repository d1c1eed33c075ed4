"""A pipeline whose processes are on several hosts: each host has an address, a configuration, a run_dir, a disk and a
clock of its own."""

import contextlib
import os
import pathlib
import subprocess

import yaml
from network import make_network
from rig import PLANE_SECRET, Daemon, Receiver, Rig, http_request, program, sign_plane

WORLD = "world"  # where clients and receivers are
HTTP_PORT = 8000
TOKEN = "t0ken-of-the-clients"
LEASE_MS = 2000
CLOCK_BYTES = 8


def ports_of(layout):
    """{process: its first port}; it has three, or none."""
    return {name: 7470 + 10 * n for names in layout.values() for n, name in enumerate(names) if name != "dlqd"}


def open_ports(layout):
    """{host: ports that others connect to}"""
    first = ports_of(layout)
    return {host: [*(first[name] + n for name in names if name in first for n in range(3)), HTTP_PORT]
            for host, names in layout.items()}


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
        daemon = Daemon(self, name)
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
        with open(self.clock, "r+b" if self.clock.exists() else "w+b", buffering=0) as clock:
            clock.write(int(by_s * 1e9).to_bytes(CLOCK_BYTES, "little", signed=True))

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


class Cluster(Rig):
    """`layout` says which host has which processes, {host: [name]}; the host of the sequencer has dlqd and the console,
    too. `grapnel`, and questions to processes, are asked there."""

    def __init__(self, layout, endpoints, disk_bytes=256 << 20, more=None):
        self.layout = layout
        self.network = make_network([*layout, WORLD], WORLD, open_ports(layout))
        try:
            super().__init__(deliverers=0, ingress=False)
            self.hub = next(h for h, names in layout.items() if "sequencer" in names)
            self.daemons = {}
            self.hosts = {host: Host(self, host, disk_bytes) for host in layout}
            self.first_port = ports_of(layout)
            self.keys = {name: self.make_key(name) for name in self.first_port}
            self.shared = {**self.default_config(), "endpoints": endpoints(self), **(more or {})}
            for host, names in layout.items():
                self.configure(host)
                for name in names:
                    self.daemons[name] = self.hosts[host].add(name)
            self.run_dir, self.state_dir = self.hosts[self.hub].run_dir, self.hosts[self.hub].state_dir
            self.config_path = self.hosts[self.hub].config_path
        except BaseException:
            self.network.close()
            raise

    def make_receiver(self):
        return Receiver(self, address=self.network.address(WORLD), options=["--ends"])

    def make_key(self, name):
        done = subprocess.run([program("grapnel"), "keys", "make", name, "--keys", str(self.folder / "keys")],
                              check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def configure(self, host):
        config = {"state_dir": "state", "run_dir": "run", "shutdown_grace": "5s",
                  "cluster": {"keys": str(self.folder / "keys"), "peers": [
                      {"name": name, "key": key,
                       "address": f"{self.network.address(self.host_of(name), host)}:{self.first_port[name]}"}
                      for name, key in self.keys.items()]}}
        listen = {"listen": f"{self.network.address(host)}:{HTTP_PORT}"}
        clients = {"sources": self.shared["sources"], "producers": [{"name": "billing", "tokens": [TOKEN]}],
                   "ingress": listen}
        if host == self.hub:
            config |= {**self.shared, **clients, "state_dir": "state", "run_dir": "run",
                       "metrics": {"interval": "500ms"}, "console": {"listen": "127.0.0.1:8001"}}
        elif any(name.startswith("ingress") for name in self.layout[host]):
            config |= clients
        self.hosts[host].write_config(config)

    def host_of(self, name):
        return next(h for h, names in self.layout.items() if name in names)

    def url_of_ingress(self, host):
        return self.network.address(host, WORLD), HTTP_PORT

    def post_at(self, host, body):
        """The status of a signed request to this host's ingress."""
        address, port = self.url_of_ingress(host)
        return http_request(port, "POST", "/in/plane", body, sign_plane(body), address=address)[0]

    def close(self):
        for p in [*self.daemons.values(), *self.others]:
            p.kill()
        for host in self.hosts.values():
            host.unmount()
        super().close()
        self.network.close()
