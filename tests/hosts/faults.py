"""What can go wrong with hosts: a table of faults, each with a beginning and an end, and random schedules of them.

A fault is a row: a function that says what it can strike, begin() and heal(). Faults may overlap, also of one kind at one
target: each counts in `faults.Wounds`, and what they are together is what holds. Those of the engine of replication do not
overlap, so that one standby of it always has each acknowledged commit."""

import collections
import dataclasses
import random
import signal
import subprocess
import sys
import time

from cluster import WORLD


@dataclasses.dataclass(frozen=True)
class Fault:
    targets: callable  # cluster → list of targets
    begin: callable    # (wounds, target, rng): what heal() needs
    heal: callable     # (wounds, target, what begin() returned)
    lasts_s: tuple     # at least, at most
    weight: int = 1    # how often, beside others


@dataclasses.dataclass(frozen=True)
class Planned:
    at_s: float
    name: str
    target: object
    lasts_s: float
    seed: int

    def __str__(self):
        where = self.target if isinstance(self.target, str) else " ".join(self.target)
        return f"{self.at_s:6.1f} s  {self.name} {where}, for {self.lasts_s:.1f} s"


class Wounds:
    """What is wrong now, as counts, so that the end of one fault does not end another."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.down, self.paused, self.full = (collections.Counter() for _ in range(3))
        self.unplugged = collections.Counter()
        self.ways = {}   # of each fault: ({(a, b)}, values of Way)
        self.clocks = collections.Counter()
        self.blind = []  # (host, from ms, to ms): receivers did not see all that this host did
        self.space_was_short = set()
        self.engine_is_struck = False
        self.engine_heals = []
        self.handovers = []  # commands

    # processes

    def kill(self, names):
        for name in names:
            self.down[name] += 1
            self.cluster[name].kill()

    def start_again(self, names):
        self.down.subtract(names)

    def pause(self, names):
        for name in names:
            self.paused[name] += 1
            if self.cluster[name].alive:
                self.cluster[name].pause()

    def resume(self, names):
        for name in names:
            self.paused[name] -= 1
            if not self.paused[name] and self.cluster[name].alive:
                self.cluster[name].resume()

    # instances of a name

    def kill_active(self, name):
        """The keys of what was killed."""
        return self.end_active(name, lambda daemon: daemon.kill())

    def stop_active(self, name):
        return self.end_active(name, lambda daemon: daemon.signal(signal.SIGTERM))

    def end_active(self, name, end):
        daemon = self.cluster.active(name)
        if not daemon:
            return []
        key = f"{name}@{daemon.rig.name}"
        self.down[key] += 1
        daemon.asked_to_end = True
        end(daemon)
        return [key]

    def hand_over(self, name, dice):
        """To another host, if there is a standby that is ready; it may not be any more when it is asked."""
        active = self.cluster.active(name)
        ready = [d.rig.name for d in self.cluster.instances(name) if d.is_ready()]
        if active and ready:
            self.handovers.append(subprocess.Popen(
                **self.cluster.command_at(active.rig.name, "handover", name, dice.choice(ready)),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def cut_off_active(self, name, way):
        daemon = self.cluster.active(name)
        return self.disturb(ways_of(self, daemon.rig.name, way) if daemon else [], is_cut=True)

    def wipe(self, host):
        """Its processes are killed, and its disk is empty."""
        self.kill(self.cluster.on(host))
        self.cluster.hosts[host].wipe()

    # the engine

    def strike_engine(self, strike):
        """What heal_engine() needs: whether it was struck. It can be by one fault at a time."""
        if self.engine_is_struck:
            return False
        self.engine_is_struck = True
        strike(self.cluster.engine)
        return True

    def heal_engine(self, was_struck, heal):
        """In a thread, because servers need seconds to start and to copy others."""
        def work():
            heal(self.cluster.engine)
            self.cluster.engine.wait_whole()
            self.engine_is_struck = False
        if was_struck:
            self.engine_heals.append(self.cluster.engine.later(work))

    def disturb_engine(self, pairs_of, **values):
        """A strike at the links between the engine's hosts; what restore_engine() needs. `pairs_of`: engine → ways."""
        begun = []
        self.strike_engine(lambda engine: begun.append(self.disturb(pairs_of(engine), **values)))
        return begun

    def restore_engine(self, begun):
        for ways in begun:
            self.restore(ways)
        self.heal_engine(bool(begun), lambda _: None)

    def is_over(self):
        """Nothing that was begun goes on. Raises what a heal has raised."""
        return all(heal.done() and not heal.result() for heal in self.engine_heals) and \
            all(command.poll() is not None for command in self.handovers)

    # the network

    def disturb(self, pairs, **values):
        """A fault's effect on these ways; what restore() needs."""
        key = object()
        self.ways[key] = (set(pairs), values)
        self.apply()
        return key, time.time() * 1000

    def restore(self, begun):
        key, since_ms = begun
        pairs, values = self.ways.pop(key)
        self.apply()
        # A retransmission comes as late again as the fault was long.
        now_ms = time.time() * 1000
        for host in {h for pair in pairs if WORLD in pair for h in pair} - {WORLD}:
            self.blind.append((host, since_ms, 2 * now_ms - since_ms + 1000))

    def apply(self):
        hosts = self.cluster.network.hosts
        for a in hosts:
            for b in hosts:
                if a == b:
                    continue
                at = [values for pairs, values in self.ways.values() if (a, b) in pairs]
                self.cluster.network.way(a, b).set(
                    delay_s=sum(v.get("delay_s", 0) for v in at), jitter_s=sum(v.get("jitter_s", 0) for v in at),
                    loss=max((v.get("loss", 0) for v in at), default=0), is_cut=any(v.get("is_cut") for v in at))

    def unplug(self, host):
        self.unplugged[host] += 1
        self.cluster.network.unplug(host)
        return time.time() * 1000

    def plug(self, host, since_ms):
        self.unplugged[host] -= 1
        if not self.unplugged[host]:
            self.cluster.network.plug(host)
        now_ms = time.time() * 1000
        self.blind.append((host, since_ms, 2 * now_ms - since_ms + 1000))

    # clocks and disks

    def step_clock(self, host, by_s):
        self.clocks[host] += by_s
        machine = self.cluster.hosts.get(host) or self.cluster.engine[host]
        machine.step_clock(self.clocks[host])
        return by_s

    def fill(self, host):
        self.full[host] += 1
        self.space_was_short.add(host)
        self.cluster.hosts[host].fill_disk()

    def empty(self, host):
        self.full[host] -= 1
        if not self.full[host]:
            self.cluster.hosts[host].empty_disk()


# ---- what can be struck ----

def processes(cluster):
    return list(cluster.daemons)


def hosts(cluster):
    return list(cluster.layout)


def directions(cluster):
    return [(host, way) for host in cluster.layout for way in ("out", "in")]


def pairs(cluster):
    return [(a, b) for a in cluster.layout for b in cluster.layout if a < b]


def ordered_pairs(cluster):
    return [(a, b) for a in cluster.layout for b in cluster.layout if a != b]


def hosts_with_links(cluster):
    return hosts(cluster) if cluster.network.loses_packets else []


def hosts_with_disks(cluster):
    return [name for name, host in cluster.hosts.items() if not host.why_no_disk]


def replicated(cluster):
    return cluster.replicated


def replicated_with_ways(cluster):
    return [(name, way) for name in cluster.replicated for way in ("both", "out", "in")]


def hosts_with_replicas(cluster):
    return list(dict.fromkeys(daemon.rig.name for name in cluster.replicated for daemon in cluster.instances(name)))


def engines(cluster):
    return ["engine"] if cluster.engine else []


def engine_hosts(cluster):
    return cluster.engine.hosts if cluster.engine else []


def engine_links(cluster):
    """(which of the engine's links, which way, as its primary sees them)"""
    return [(which, way) for which in ("one standby", "all standbys") for way in ("both", "out", "in")] \
        if cluster.engine else []


def ways_to_engine(cluster):
    """(a host of replicated stores, one of the engine's or "all", which way)"""
    return [(host, to, way) for host in hosts_with_replicas(cluster) for to in [*engine_hosts(cluster), "all"]
            for way in ("both", "out", "in")] if cluster.engine else []


def all_processes_of(wounds, host):
    return wounds.cluster.on(host)


def ways_of(wounds, host, way=None):
    """All ways out of a host, into it, or both, those of clients and receivers included."""
    others = [h for h in wounds.cluster.network.hosts if h != host]
    return [*((host, h) for h in others if way != "in"), *((h, host) for h in others if way != "out")]


def ways_to(wounds, host, to, way):
    ends = engine_hosts(wounds.cluster) if to == "all" else [to]
    return [pair for end in ends for pair in ((host, end), (end, host))
            if way == "both" or (pair[0] == host) == (way == "out")]


def ways_to_standbys(engine, which, way, dice):
    standbys = engine.standbys if which == "all standbys" else [dice.choice(engine.standbys)]
    return [pair for s in standbys for pair in ((engine.primary, s), (s, engine.primary))
            if way == "both" or (pair[0] == engine.primary) == (way == "out")]


def ways_within(engine):
    return [(a, b) for a in engine.hosts for b in engine.hosts if a != b]


def replace_primary(engine):
    engine.fail_over()
    engine.come_back()


def skew(dice):
    """Seconds to a minute, one way or the other. A process that starts with a clock that is behind makes scheduled retries
    when they are due by that clock, so the judge has to wait for longer."""
    return dice.choice((-1, 1)) * 10 ** dice.uniform(0, 1.8)


FAULTS = {
    "kill": Fault(processes, lambda w, t, _: w.kill([t]), lambda w, t, _: w.start_again([t]), (0, 3), 4),
    "crash": Fault(hosts, lambda w, t, _: w.kill(all_processes_of(w, t)),
                   lambda w, t, _: w.start_again(all_processes_of(w, t)), (0, 6), 2),
    "pause": Fault(processes, lambda w, t, _: w.pause([t]), lambda w, t, _: w.resume([t]), (0.5, 10), 2),
    "freeze": Fault(hosts, lambda w, t, _: w.pause(all_processes_of(w, t)),
                    lambda w, t, _: w.resume(all_processes_of(w, t)), (0.5, 10)),
    "cut off": Fault(hosts, lambda w, t, _: w.disturb(ways_of(w, t), is_cut=True),
                     lambda w, t, begun: w.restore(begun), (0.5, 12), 2),
    "cut off one way": Fault(directions, lambda w, t, _: w.disturb(ways_of(w, *t), is_cut=True),
                             lambda w, t, begun: w.restore(begun), (0.5, 12), 2),
    "partition": Fault(pairs, lambda w, t, _: w.disturb([t, t[::-1]], is_cut=True),
                  lambda w, t, begun: w.restore(begun), (0.5, 12), 2),
    "partition one way": Fault(ordered_pairs, lambda w, t, _: w.disturb([t], is_cut=True),
                          lambda w, t, begun: w.restore(begun), (0.5, 12), 2),
    "unplug": Fault(hosts_with_links, lambda w, t, _: w.unplug(t), lambda w, t, begun: w.plug(t, begun), (0.5, 12)),
    "slow": Fault(hosts, lambda w, t, dice: w.disturb(
        ways_of(w, t), delay_s=dice.uniform(0.02, 0.4), jitter_s=dice.uniform(0, 0.1)),
        lambda w, t, begun: w.restore(begun), (2, 12)),
    "lossy": Fault(hosts, lambda w, t, dice: w.disturb(ways_of(w, t), loss=dice.uniform(0.02, 0.4)),
                   lambda w, t, begun: w.restore(begun), (2, 12)),
    "clock": Fault(hosts, lambda w, t, dice: w.step_clock(t, skew(dice)),
                   lambda w, t, by_s: w.step_clock(t, -by_s), (1, 20), 2),
    "disk full": Fault(hosts_with_disks, lambda w, t, _: w.fill(t), lambda w, t, _: w.empty(t), (0.5, 10), 2),

    # of replicated stores
    "kill the active": Fault(replicated, lambda w, t, _: w.kill_active(t), lambda w, _, keys: w.start_again(keys),
                             (0, 8), 2),
    "stop the active": Fault(replicated, lambda w, t, _: w.stop_active(t), lambda w, _, keys: w.start_again(keys),
                             (0, 3), 2),
    "handover": Fault(replicated, lambda w, t, dice: w.hand_over(t, dice), lambda w, _, __: None, (0, 0), 2),
    "cut off the active": Fault(replicated_with_ways, lambda w, t, _: w.cut_off_active(*t),
                                lambda w, _, begun: w.restore(begun), (0.5, 12), 3),
    "wipe": Fault(hosts_with_replicas, lambda w, t, _: w.wipe(t),
                  lambda w, t, _: w.start_again(w.cluster.on(t)), (0, 6), 3),
    # of their engine
    "engine: lose the primary": Fault(engines, lambda w, _, __: w.strike_engine(lambda e: e.lose(e.primary)),
                                      lambda w, _, struck: w.heal_engine(struck, replace_primary), (0, 4), 3),
    "engine: restart": Fault(engine_hosts, lambda w, t, _: w.strike_engine(lambda e: e.lose(t)),
                             lambda w, _, struck: w.heal_engine(struck, lambda e: e.come_back()), (0, 4), 2),
    "engine: freeze": Fault(engine_hosts, lambda w, t, _: w.strike_engine(lambda e: e[t].pause()),
                            lambda w, t, struck: w.heal_engine(struck, lambda e: e[t].resume()), (0.5, 8)),
    "engine: lose all": Fault(engines, lambda w, _, __: w.strike_engine(lambda e: e.lose()),
                              lambda w, _, struck: w.heal_engine(struck, lambda e: e.come_back()), (0, 10), 2),
    "engine: cut off": Fault(ways_to_engine, lambda w, t, _: w.disturb(ways_to(w, *t), is_cut=True),
                             lambda w, _, begun: w.restore(begun), (0.5, 12), 3),
    "engine: cut off from": Fault(engine_links, lambda w, t, dice: w.disturb_engine(
        lambda e: ways_to_standbys(e, *t, dice), is_cut=True),
        lambda w, _, begun: w.restore_engine(begun), (0.5, 12), 3),
    "engine: slow": Fault(engines, lambda w, _, dice: w.disturb_engine(
        ways_within, delay_s=dice.uniform(0.01, 0.2), jitter_s=dice.uniform(0, 0.05)),
        lambda w, _, begun: w.restore_engine(begun), (2, 8)),
    "engine: lossy": Fault(engines, lambda w, _, dice: w.disturb_engine(ways_within, loss=dice.uniform(0.02, 0.3)),
                           lambda w, _, begun: w.restore_engine(begun), (2, 8)),
    "engine: clock": Fault(engine_hosts, lambda w, t, dice: w.step_clock(t, skew(dice)),
                           lambda w, t, by_s: w.step_clock(t, -by_s), (1, 20), 2),
}


def schedule(seed, seconds, cluster, table=None, every_s=1.5):
    """The same list for the same seed, time and layout. One in six moments has two or three faults at once."""
    dice = random.Random(seed)
    possible = {name: (f, f.targets(cluster)) for name, f in (table or FAULTS).items() if f.targets(cluster)}
    names, weights = list(possible), [f.weight for f, _ in possible.values()]
    planned, at_s = [], 0.5
    while at_s < seconds:
        for _ in range(dice.choice((1, 1, 1, 1, 1, 3))):
            name, = dice.choices(names, weights)
            fault, targets = possible[name]
            planned.append(Planned(at_s, name, dice.choice(targets), dice.uniform(*fault.lasts_s),
                                   dice.randrange(1 << 32)))
        at_s += dice.expovariate(1 / every_s)
    return planned


class Supervisor:
    """Starts each process that has ended, unless a fault keeps it down, and notes an end that nobody caused."""

    PAUSE_S = 0.3

    def __init__(self, wounds):
        self.wounds = wounds
        self.again = {}   # when to start it
        self.started = collections.Counter()
        self.ended = collections.Counter()  # by themselves, by exit code
        self.unasked = []

    def look(self):
        for name, daemon in self.wounds.cluster.daemons.items():
            if daemon.alive:
                continue
            if not daemon.asked_to_end and name not in self.again:
                self.judge(name, daemon)
                self.again[name] = time.monotonic() + self.PAUSE_S
            if self.wounds.down[name] <= 0 and time.monotonic() >= self.again.get(name, 0):
                self.again.pop(name, None)
                daemon.start(wait=False)
                self.started[name] += 1
                if self.wounds.paused[name] > 0:
                    daemon.pause()

    def judge(self, name, daemon):
        """Without space a process may refuse to start (74). One that is not the owner of its replicated store any more
        ends (75)."""
        host = self.wounds.cluster.host_of(name)
        self.ended[daemon.exit_code] += 1
        legal = [74] if host in self.wounds.space_was_short else []
        if daemon.name in self.wounds.cluster.replicated:
            legal.append(75)
        if daemon.exit_code not in legal:
            self.unasked.append(f"{name} ended by itself with {daemon.exit_code}: {daemon.log()[-800:]}")


def run(planned, wounds, supervisor, table=None, out=sys.stderr):
    """Begin and heal each fault at its time. At the end all is healed."""
    table = table or FAULTS
    began = time.monotonic()
    waiting, healing = collections.deque(planned), []
    while waiting or healing:
        now = time.monotonic() - began
        supervisor.look()
        while waiting and waiting[0].at_s <= now:
            p = waiting.popleft()
            print(f"  {p}", file=out, flush=True)
            state = table[p.name].begin(wounds, p.target, random.Random(p.seed))
            healing.append((p.at_s + p.lasts_s, p, state))
        for due in sorted((h for h in healing if h[0] <= now), key=lambda h: h[0]):
            healing.remove(due)
            table[due[1].name].heal(wounds, due[1].target, due[2])
        time.sleep(0.01)
    while not wounds.is_over():
        supervisor.look()
        time.sleep(0.01)


