"""The network of a test with several hosts: namespaces where they can be made, else loopback addresses with relays.

Both have address(), way(), enter(), unplug() and plug(); see packets.PacketNetwork."""

import os
import sys

from hosts import loopback
from packets import PacketNetwork, why_not
from relay import Relays, Way


class LoopbackNetwork:
    """Each host has an address in 127/8, and a relay in front of each of `ports` for each other host. What a host sends
    to `here` passes no relay: receivers have one URL for all hosts."""

    about = "loopback addresses with relays; packets are delayed or held back, and receivers are always reached"
    loses_packets = False

    def __init__(self, hosts, here, ports):
        self.hosts, self.here = list(hosts), here
        self.relays = Relays()
        self.ways = {(a, b): Way() for a in hosts for b in hosts if a != b}
        for a in hosts:
            for b in hosts:
                for port in ports.get(b, ()) if a != b else ():
                    self.relays.add(self.address(b, a), port, (self.address(b), port),
                                    self.ways[a, b], self.ways[b, a])

    def address(self, host, seen_from=None):
        n = self.hosts.index(host)
        if seen_from in (None, host):
            return "127.0.0.1" if host == self.here else loopback(1 + n)
        return loopback(20 + len(self.hosts) * self.hosts.index(seen_from) + n)

    def way(self, a, b):
        return self.ways[a, b]

    def enter(self, host):
        return lambda: None

    def close(self):
        self.relays.close()


def make_network(hosts, here, ports):
    """`ports`: those of each host that others connect to."""
    reason = "GRAPNEL_NAMESPACES=0" if os.environ.get("GRAPNEL_NAMESPACES") == "0" else why_not()
    network = LoopbackNetwork(hosts, here, ports) if reason else PacketNetwork(hosts, here)
    print(f"the hosts are {network.about}" + (f" (no network namespaces: {reason})" if reason else ""),
          file=sys.stderr, flush=True)
    return network
