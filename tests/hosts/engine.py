"""The engine of replication on hosts of its own: a PostgreSQL server on each, a primary and synchronous standbys of it, which
reach each other over the network of the test only.

    engine = Engine(network, ["db1", "db2", "db3"])
    engine.database("a")      # the connection string for a process on host a
    engine.lose(engine.primary)
    engine.fail_over()        # a standby that has every acknowledged commit becomes the primary
    engine.come_back("db1")   # the former primary, as a standby with a new copy

The test itself asks by a Unix socket, so sql() works while a host is cut off. Servers run as an unprivileged user in the
namespace of their host, sync their files, and lose nothing that they have synced when they are killed."""

import concurrent.futures
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import rig
from engine_rig import DDL, Server
from rig import wait_for, write_clock

PORT = 5432


class Machine(Server):
    """The server of one host. `follows`: the host of its primary; None: it is the primary."""

    def __init__(self, network, host):
        self.network, self.host, self.follows = network, host, None
        super().__init__()
        self.clock = self.folder / "clock"
        self.step_clock(0)
        self.env = {**os.environ, "RIG_CLOCK": str(self.clock), "LD_PRELOAD": rig.program("rig-clock.so")}
        with open(self.data / "pg_hba.conf", "a", encoding="utf-8") as rules:
            rules.write("host all all all trust\nhost replication all all trust\n")

    def prepare_child(self):
        rig.die_with_parent()
        self.network.enter(self.host)()

    def step_clock(self, by_s):
        """Its wall clock is off by so much from now on."""
        write_clock(self.clock, by_s)

    def copy(self, primary):
        """Its disk is replaced by a copy of that server, which it follows from now on."""
        shutil.rmtree(self.data)
        self.make_data(copy_of=primary)
        self.follows = primary.host

    def start(self, **options):
        where = {"listen_addresses": self.network.address(self.host), "port": PORT, "cluster_name": self.host}
        if self.follows:
            where["primary_conninfo"] = (f"user=app host={self.network.address(self.follows, self.host)} "
                                         f"port={PORT} connect_timeout=2 application_name={self.host}")
        return super().start(**where, **options)

    @property
    def runs(self):
        return self.child is not None and self.child.poll() is None

    def is_in_recovery(self):
        return self.sql("SELECT pg_is_in_recovery()") == ["t"]


class Engine:
    """`hosts`: names of the network's; the first one begins as the primary."""

    def __init__(self, network, hosts):
        self.network, self.machines = network, {}
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        try:
            for host in hosts:
                self.machines[host] = Machine(network, host)
            self.primary, *standbys = hosts
            first = self.machines[self.primary].start()
            first.sql("SET client_min_messages = warning")
            first.sql(DDL.read_text())
            first.sql("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")  # the copies have it, too
            for host in standbys:
                self.machines[host].copy(first)
                self.machines[host].start()
            first.sql("SELECT pg_reload_conf()")
            self.wait_whole()
            first.sql("CHECKPOINT")  # then commits wait (lib/replication/engine_check.c)
        except BaseException:
            self.close()
            raise

    @property
    def hosts(self):
        return list(self.machines)

    @property
    def standbys(self):
        return [host for host in self.machines if host != self.primary]

    def __getitem__(self, host):
        return self.machines[host]

    def sql(self, text):
        """Asks the primary."""
        return self.machines[self.primary].sql(text)

    def database(self, seen_from, hosts=None):
        """For a client there. Without TLS, which the networks of tests do not need. `hosts`: else all."""
        addresses = ",".join(self.network.address(host, seen_from) for host in hosts or self.machines)
        return (f"host={addresses} port={PORT} dbname=postgres user=grapnel target_session_attrs=read-write "
                "sslmode=disable gssencmode=disable")

    def uri(self):
        """Of the primary, for the test itself."""
        return self.machines[self.primary].uri_as("grapnel")

    def ports(self):
        return {host: [PORT] for host in self.machines}

    def is_whole(self):
        """All servers run, and each standby follows the primary synchronously."""
        return all(m.runs for m in self.machines.values()) and self.sql(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
        ) == [str(len(self.machines) - 1)]

    def wait_whole(self):
        wait_for(self.is_whole, 60, "each standby of the engine to be synchronous")

    # what happens to machines

    def lose(self, *hosts):
        """Kills these servers, all if none is named; their disks stay."""
        for host in hosts or self.machines:
            self.machines[host].kill()

    def come_back(self, *hosts):
        """Starts those of these servers (all if none is named) that do not run, with the disks that they have, and a former
        primary as a standby with a new copy."""
        asked = [h for h in hosts or self.machines if not self.machines[h].runs]
        for host in sorted(asked, key=lambda h: h != self.primary):
            machine = self.machines[host]
            if host != self.primary and machine.follows is None:
                machine.copy(self.machines[self.primary])
            elif host != self.primary:
                machine.follows = self.primary
            machine.wait_gone()
            machine.start()
        if self.machines[self.primary].runs:
            self.wait_following(asked)

    def wait_following(self, hosts):
        """Standbys that have connected know all that their disks have, which fail_over() compares."""
        for host in hosts:
            if host != self.primary:
                wait_for(lambda h=host: self.machines[h].sql(
                    "SELECT 1 FROM pg_stat_wal_receiver WHERE status = 'streaming'"), 60,
                    f"{host} to follow {self.primary}")

    def fail_over(self):
        """The primary, which is killed unless it is lost already, is replaced by the standby that has the most, as one of
        them has each acknowledged commit. So all standbys must run."""
        former = self.primary
        standbys = [self.machines[h] for h in self.standbys]
        assert all(m.runs for m in standbys), "a standby that does not run may be the only one with an acknowledged commit"
        self.lose(former)
        best = max(standbys, key=Server.received)
        best.promote()
        best.follows, self.primary = None, best.host
        for machine in standbys:
            if machine is not best:
                machine.kill()
        self.come_back(*(m.host for m in standbys))
        return best.host

    def later(self, work):
        """Calls it in a thread, which lives as long as the servers that it starts: they would end with it. A future."""
        return self.worker.submit(work)

    def close(self):
        self.worker.shutdown(cancel_futures=True)
        for machine in self.machines.values():
            machine.close()
