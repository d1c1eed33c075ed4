"""The engine of replication for tests: a PostgreSQL primary, its synchronous standbys, and a relay in front of it.

    with Cluster(standbys=2) as cluster:
        relay = cluster.relay(cluster.primary)
        engine = cluster.engine(relay.uri)     # rig-engine: our code, called by Python
        engine.begin_history()
        relay.lose_commit()
        assert engine.beat(...)["result"] == "UNKNOWN"

The servers sync (fsync is on). A machine is a server: kill() is the loss of its power, pause() stops all of its processes.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading
import time

import rig
from postgres import Postgres
from rig import SLOW, program, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
DDL = ROOT / "lib/replication/engine_postgres.sql"
HISTORY = "a1" * 16
ZEROS = "00" * 32


class Server(Postgres):
    """One machine of the engine."""

    options = {"fsync": "on", "wal_keep_size": "64MB"}

    def start(self, **options):
        return super().start(**{**self.options, **options})

    def uri_as(self, role):
        return f"postgresql://{role}@/postgres?host={self.folder}"

    def processes(self):
        """The server's own process first."""
        found = [self.child.pid]
        for pid in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = pathlib.Path("/proc", pid, "stat").read_text()
                if int(stat.rpartition(")")[2].split()[1]) == self.child.pid:
                    found.append(int(pid))
        return found

    def signal(self, signo):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signo)

    def pause(self):
        self.signal(signal.SIGSTOP)
        self.signal(signal.SIGSTOP)  # what it had forked meanwhile

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """As if its power failed, except that its disk keeps what was written: no process of it does anything more."""
        if self.child and self.child.poll() is None:
            self.pause()
            self.signal(signal.SIGKILL)
        super().kill()

    def close(self):
        if self.child and self.child.poll() is None:
            self.kill()
        super().close()

    def promote(self):
        assert self.sql("SELECT pg_promote(true, 60)") == ["t"]

    def received(self):
        """How much of the primary's log this standby has, in bytes."""
        return int(self.sql("SELECT coalesce(pg_wal_lsn_diff("
                            "pg_last_wal_receive_lsn(), '0/0'), 0)::bigint")[0])

    def set(self, **settings):
        """Changes settings of the running server, as an administrator does."""
        for name, value in settings.items():
            self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")
        for name, value in settings.items():
            wait_for(lambda n=name, v=value: self.sql(f"SHOW {n}") == [v],
                     what=f"{name} = {value}")

    def waits_for_a_standby(self):
        """A COMMIT of our role waits."""
        return self.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'grapnel' "
                        "AND wait_event = 'SyncRep'")


class Link:
    """One connection that a relay carries."""

    def __init__(self, relay, near):
        self.relay, self.near = relay, near
        self.far = socket.socket(socket.AF_UNIX)
        self.far.connect(relay.to)
        self.held = None  # bytes of the client that the server has not got
        self.outlives = False  # the server keeps its connection when the client closes
        self.replies = 0  # ReadyForQuery of the server
        for pump in (self.forth, self.back):
            threading.Thread(target=pump, daemon=True).start()

    def close(self):
        for s in (self.near, self.far):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def forth(self):
        with contextlib.suppress(OSError):
            while data := self.near.recv(1 << 16):
                self.relay.wait()
                with self.relay.lock:
                    if self.held is not None:
                        self.held += data
                        continue
                self.far.sendall(data)
        if not self.outlives:
            self.close()

    def back(self):
        buffer = b""
        with contextlib.suppress(OSError):
            while data := self.far.recv(1 << 16):
                buffer += data
                while len(buffer) >= 5:
                    size = 1 + struct.unpack(">I", buffer[1:5])[0]
                    if len(buffer) < size:
                        break
                    message, buffer = buffer[:size], buffer[size:]
                    self.relay.wait()
                    if not self.relay.passes(message):
                        self.close()
                        return
                    with contextlib.suppress(OSError):  # the client may have left
                        self.near.sendall(message)
                    self.replies += message[:1] == b"Z"
        self.close()


class Relay:
    """A port of this machine that leads to a server. It knows the messages of the protocol, so the client must not use TLS."""

    def __init__(self, server):
        self.to = f"{server.folder}/.s.PGSQL.5432"
        self.links, self.lock = [], threading.Lock()
        self.delay_s = 0  # of each message of the server, and of each piece of the client
        self.open = threading.Event()
        self.open.set()
        self.to_lose, self.lost = 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    @property
    def uri(self):
        return (f"postgresql://grapnel@127.0.0.1:{self.port}/postgres"
                "?sslmode=disable&gssencmode=disable")

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    link = Link(self, near)
                except OSError:
                    near.close()
                    continue
                self.links.append(link)

    def wait(self):
        if self.delay_s:
            time.sleep(self.delay_s)
        self.open.wait()

    def passes(self, message):
        if message[:1] == b"C" and message[5:] == b"COMMIT\0":
            with self.lock:
                if self.to_lose:
                    self.to_lose -= 1
                    self.lost += 1
                    return False
        return True

    def lose_commit(self, count=1):
        """The next replies to COMMIT do not arrive: the server has committed, and the client loses its connection."""
        with self.lock:
            self.to_lose = count

    def cut(self):
        """Nothing passes, and the connections stay open, as when a cable is pulled."""
        self.open.clear()

    def heal(self):
        self.open.set()

    def hold(self):
        """Keeps what clients that are connected now send from now on; new connections pass."""
        with self.lock:
            for link in self.links:
                link.held, link.outlives = b"", True

    def deliver(self):
        """The server gets what was kept, although the client may be gone; returns when it has replied."""
        with self.lock:
            late = [link for link in self.links if link.held]
        for link in late:
            before = link.replies
            with self.lock:
                link.far.sendall(link.held)
                link.held = None
            wait_for(lambda k=link, n=before: k.replies > n, what="a late reply")
        return len(late)

    def close(self):
        self.open.set()
        self.listener.close()
        for link in self.links:
            link.close()


class Engine:
    """rig-engine: each method is a call, and returns what it printed."""

    def __init__(self, uri, process="sequencer", host="a", hold_ms=4000, accept_weak=False):
        self.child = subprocess.Popen(
            [program("rig-engine"), uri, process, host, str(hold_ms),
             str(int(accept_weak))], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, preexec_fn=rig.die_with_parent)

    def send(self, call, **values):
        self.child.stdin.write(json.dumps({"call": call, "history": HISTORY, **values}) + "\n")
        self.child.stdin.flush()

    def receive(self):
        line = self.child.stdout.readline()
        assert line, f"rig-engine ended with {self.child.wait()}"
        return json.loads(line)

    def call(self, name, **values):
        self.send(name, **values)
        return self.receive()

    def __getattr__(self, name):
        return lambda **values: self.call(name, **values)

    def close(self):
        self.child.stdin.close()
        code = self.child.wait(60 * SLOW)
        self.child.stdout.close()
        assert code == 0, f"rig-engine ended with {code}"


def chain(n):
    """A chain for tests: each turn has another."""
    return f"{n:064x}"


class Active:
    """A holder of the store with its position, as the protocol has it: it repeats a turn of unknown outcome."""

    def __init__(self, engine, holder="0a" * 16):
        self.engine, self.holder = engine, holder
        self.history, self.n, self.epoch, self.beat_count = HISTORY, 0, 0, None
        self.schema = 1

    @property
    def at(self):
        return {"history": self.history, "epoch": self.epoch, "holder": self.holder,
                "n": self.n, "chain": chain(self.n), "schema": self.schema}

    def begin(self):
        """Makes the history, and takes over."""
        assert self.engine.begin_history(n=0, chain=ZEROS, schema=1)["result"] == "DONE"
        return self.take_over()

    def take_over(self):
        seen = self.follow()
        said = self.engine.take_over(**{**seen, "me": self.holder})
        assert said["result"] == "DONE", said
        self.epoch, self.n = said["epoch"], seen["n"]
        return self

    def follow(self, n=None, max_bytes=0):
        n = self.n if n is None else n
        said = self.engine.follow(n=n, chain=chain(n), max_bytes=max_bytes)
        assert said["result"] == "DONE", said
        del said["us"]
        return said

    def send_append(self, *parts):
        self.engine.send("append", **self.at, next=chain(self.n + 1), parts=parts or [100])

    def append(self, *parts):
        """One attempt."""
        self.send_append(*parts)
        said = self.engine.receive()
        if said["result"] == "DONE":
            self.n += 1
            self.beat_count = said["beat"]
        return said

    def beat(self):
        said = self.engine.beat(**self.at)
        if said["result"] == "DONE":
            self.beat_count = said["beat"]
        return said

    def release(self, heir=""):
        return self.engine.release(**self.at, beat=self.beat_count, heir=heir)


class Cluster:
    """A primary and its synchronous standbys, s1 and s2, with the tables."""

    def __init__(self, standbys=1, names="ANY 1 (*)", **options):
        self.things = contextlib.ExitStack()
        self.primary = self.keep(Server()).start(**options)
        self.primary.sql("SET client_min_messages = warning")
        self.primary.sql(DDL.read_text())
        self.standbys = []
        if standbys:  # read again when they are there; they copy it
            self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        for _ in range(standbys):
            self.add_standby()
        if standbys:
            self.primary.sql("SELECT pg_reload_conf()")
            self.wait_synchronous()
            self.primary.sql("CHECKPOINT")  # then commits wait (engine_check.c)

    def keep(self, thing):
        self.things.callback(thing.close)
        return thing

    def add_standby(self):
        """Of the primary of now."""
        standby = self.keep(Server(copy_of=self.primary))
        self.standbys.append(standby)
        return standby.start(cluster_name=f"s{len(self.standbys)}")

    def wait_synchronous(self):
        """Commits can be acknowledged."""
        wait_for(lambda: self.primary.sql(
            "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') LIMIT 1"),
            30, what="a synchronous standby")

    def fail_over(self):
        """The primary is lost. The standby that has the most becomes the primary, and the other one its standby; if there is no
        other one, it gets a new one."""
        self.primary.kill()
        best = max(self.standbys, key=Server.received)
        self.standbys.remove(best)
        best.promote()
        self.primary = best
        for standby in self.standbys:
            standby.restart(primary_conninfo=f"user=app host={best.folder}",
                            cluster_name="s9")
        if not self.standbys:
            self.add_standby()
        self.wait_synchronous()
        return best

    def relay(self, server):
        return self.keep(Relay(server))

    def engine(self, uri=None, **options):
        return self.keep(Engine(uri or self.primary.uri_as("grapnel"), **options))

    def close(self):
        self.things.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
