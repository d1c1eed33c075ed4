"""Hosts as network namespaces, and the network between them: a switch in user space, which delays, reorders, loses and
drops Ethernet frames, each way between two hosts by itself.

A host's `eth0` is one end of a veth pair; the other end is a port of the switch. The switch reads and writes the ports as
packet sockets in a thread, so it needs no netem, which many kernels lack. Namespaces have no names: each lives as long as
the process that holds it, which ends with the test."""

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time

from relay import Way

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
ETH_P_ALL = 3
SOL_PACKET, ADD_MEMBERSHIP, IGNORE_OUTGOING, PROMISCUOUS = 263, 1, 23, 1
SIOCETHTOOL, RCVBUFFORCE = 0x8946, 33
OFFLOADS = (0x17, 0x1f, 0x24, 0x2c)  # checksums, TSO, GSO and GRO: a frame that leaves is as it would be on a wire
FRAME_BYTES = 2048
WAITING_MAX = 20000  # frames that the switch holds

libc = ctypes.CDLL(None, use_errno=True)


def unshare_network():
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def why_not():
    """Why no namespaces can be made here; None: they can."""
    try:
        done = subprocess.run(["ip", "link", "add", "gr0", "type", "veth", "peer", "name", "gr1"],
                              preexec_fn=unshare_network, capture_output=True, text=True)
        return done.stderr.strip() or None
    except (OSError, subprocess.SubprocessError) as error:
        return f"unshare() and `ip link add` fail: {error}"


class Namespace:
    """A network namespace, held by a process that sleeps."""

    def __init__(self):
        def prepare():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            unshare_network()
        self.holder = subprocess.Popen(["sleep", "infinity"], preexec_fn=prepare)
        self.fd = os.open(f"/proc/{self.holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def enter(self):
        """This thread, and all that it starts, is in this namespace."""
        if libc.setns(self.fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    def ip(self, *words, check=True):
        subprocess.run(["ip", *words], preexec_fn=self.enter, check=check, capture_output=not check)

    def close(self):
        os.close(self.fd)
        self.holder.kill()
        self.holder.wait()


def without_offloads(name):
    with socket.socket() as s:
        for what in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", what, 0))
            fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sQ", name.encode(), ctypes.addressof(value)))


class Switch(threading.Thread):
    """Forwards frames between its ports, by the address of their receiver. ways[a, b] is the way from port a to port b."""

    def __init__(self, namespace, ports):
        super().__init__(daemon=True)
        self.namespace, self.names = namespace, ports
        self.ways = {(a, b): Way() for a in range(len(ports)) for b in range(len(ports)) if a != b}
        self.carried = self.lost = 0
        self.due = []  # (when, number, frame, port)
        self.number = 0
        self.ended = False
        self.ready = threading.Event()
        self.sockets = []

    def open(self, name):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
        s.bind((name, 0))
        s.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
        s.setsockopt(SOL_PACKET, ADD_MEMBERSHIP,
                     struct.pack("IHH8s", socket.if_nametoindex(name), PROMISCUOUS, 0, b""))
        s.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 8 << 20)
        return s

    def run(self):
        self.namespace.enter()
        self.sockets = [self.open(name) for name in self.names]
        poll = select.epoll()
        number = {s.fileno(): n for n, s in enumerate(self.sockets)}
        for fd in number:
            poll.register(fd, select.EPOLLIN)
        self.ready.set()
        while not self.ended:
            wait_s = min(max(self.due[0][0] - time.monotonic(), 0), 0.1) if self.due else 0.1
            for fd, _ in poll.poll(wait_s):
                self.take(number[fd])
            self.send_due()
        poll.close()

    def take(self, n):
        for _ in range(64):
            try:
                frame = self.sockets[n].recv(FRAME_BYTES)
            except BlockingIOError:
                return
            except OSError:
                return  # the link is down
            to = frame[5] - 1 if frame[:5] == b"\x02\0\0\0\0" else -1
            if (n, to) in self.ways:
                self.carry(frame, to, self.ways[n, to])

    def carry(self, frame, to, way):
        if way.is_cut or (way.loss and random.random() < way.loss) or len(self.due) > WAITING_MAX:
            self.lost += 1
            return
        self.carried += 1
        if not way.delay_s and not way.jitter_s:
            self.send(to, frame)
            return
        self.number += 1
        heapq.heappush(self.due, (time.monotonic() + way.delay_s + random.uniform(0, way.jitter_s),
                                  self.number, frame, to))

    def send_due(self):
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            _, _, frame, to = heapq.heappop(self.due)
            self.send(to, frame)

    def send(self, to, frame):
        try:
            self.sockets[to].send(frame)
        except OSError:
            self.lost += 1  # no space, or the link is down

    def close(self):
        self.ended = True
        self.join()
        for s in self.sockets:
            s.close()


class PacketNetwork:
    """Namespaces with a switch. The thread that makes it, and what it starts, is on the host `here` from now on, until
    close(). Addresses are 10.77.0.1 and so on, in the order of `hosts`."""

    about = "network namespaces; frames are delayed, reordered, lost and dropped"
    loses_packets = True

    def __init__(self, hosts, here):
        self.hosts, self.here = list(hosts), here
        self.before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.middle = Namespace()
        self.of = {}
        for n, host in enumerate(self.hosts):
            self.of[host] = Namespace()
            self.make_link(host, n)
        self.switch = Switch(self.middle, [f"p{n}" for n in range(len(self.hosts))])
        self.switch.start()
        if not self.switch.ready.wait(10):
            raise OSError("the switch did not start")
        self.of[here].enter()

    def make_link(self, host, n):
        space = self.of[host]
        self.middle.ip("link", "add", f"p{n}", "type", "veth", "peer", "name", "eth0",
                       "address", f"02:00:00:00:00:{n + 1:02x}", "netns", str(space.holder.pid))
        self.middle.ip("link", "set", f"p{n}", "up")

        def offloads():
            space.enter()
            without_offloads("eth0")
        thread = threading.Thread(target=offloads)
        thread.start()
        thread.join()
        space.ip("link", "set", "lo", "up")
        space.ip("addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        self.plug(host)

    def address(self, host, seen_from=None):
        return f"10.77.0.{self.hosts.index(host) + 1}"

    def way(self, a, b):
        return self.switch.ways[self.hosts.index(a), self.hosts.index(b)]

    def enter(self, host):
        """For a child, before it runs its program."""
        return self.of[host].enter

    def read(self, host, path):
        """A file of /proc as it is on this host."""
        return subprocess.run(["cat", path], preexec_fn=self.enter(host), check=True, capture_output=True,
                              text=True).stdout

    def unplug(self, host):
        """Its link, with all its routes, is gone: what it sends gets an error at once."""
        self.of[host].ip("link", "set", "eth0", "down")

    def plug(self, host):
        self.of[host].ip("link", "set", "eth0", "up")
        for n, other in enumerate(self.hosts):
            if other != host:  # beyond routers there is no ARP, and no error from it
                self.of[host].ip("neigh", "replace", self.address(other), "lladdr",
                                 f"02:00:00:00:00:{n + 1:02x}", "dev", "eth0", "nud", "permanent")

    def close(self):
        libc.setns(self.before, CLONE_NEWNET)
        os.close(self.before)
        self.switch.close()
        for space in (*self.of.values(), self.middle):
            space.close()
