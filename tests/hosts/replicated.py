"""What tests of replicated stores on several hosts have in common: a cluster whose processes are started again when they end."""

import contextlib
import json
import sys

import checker
import faults
from cluster import Cluster, hosts_of
from rig import SLOW, RigTest, wait_for

STORES = ["ingress", "sequencer", "dlqd"]
ENGINE = ["db1", "db2", "db3"]
TAKEOVER_S = 3 if SLOW == 1 else 8


class ReplicatedTest(RigTest):
    def begin(self, takeover_s=TAKEOVER_S, hosts="ab"):
        """Host a has the active processes, all others are standbys that are ready, and host d has the deliverer."""
        return self.begin_with({**{host: STORES for host in hosts}, "d": ["deliverer-1"]}, takeover_s)

    def begin_with(self, layout, takeover_s=TAKEOVER_S, **env):
        """Of a name on several hosts the first one is active, and the others are standbys that are ready. Everything runs but
        deliverers. `env`: of all processes."""
        cluster = Cluster(layout, lambda rig: [rig.endpoint("crm", ordered="workspace")], engine=ENGINE, takeover_s=takeover_s)
        self.addCleanup(self._end, cluster)
        self.wounds = faults.Wounds(cluster)
        self.supervisor = faults.Supervisor(self.wounds)
        for host in cluster.hosts.values():
            host.env.update(env)
        for host, names in layout.items():
            for name in names:
                if name in cluster.replicated and hosts_of(layout, name)[0] != host:
                    wait_for(lambda n=name: cluster.active(n), 60, f"{name} to be active on its first host")
            keys = [key for key in cluster.on(host) if not key.startswith("deliverer")]
            if keys:
                cluster.start(*keys)
        for name in cluster.replicated:
            wait_for(lambda n=name: cluster.is_whole(n), 60, f"the standbys of {name} to be ready")
        return cluster

    def supervised(self, fact, timeout=60, what=None):
        """Waits for it, while processes that end are started again."""
        def look():
            self.supervisor.look()
            return fact()
        return wait_for(look, timeout, what)

    def wait_active(self, cluster, host):
        for name in STORES:
            self.supervised(lambda n=name: (d := cluster.active(n)) and d.rig.name == host, what=f"{name} on {host}")

    def accept(self, cluster, host, body=None):
        """Posts it until the ingress of this host has accepted it, which makes one event; its `n`."""
        body = body or cluster.plane_body()

        def accepted():
            with contextlib.suppress(OSError):
                return cluster.post_to(host, body, timeout=5)[0] == 200
        self.supervised(accepted, what=f"the ingress of {host} to accept an event")
        return json.loads(body)["data"]["n"]

    def judge(self, cluster, sent):
        """Each of these was delivered as one event, in the order of their numbers, which have no gap; and nothing else."""
        def delivered():
            return list(cluster.receiver.delivered("/crm").values())
        wait_for(lambda: {checker.event_number(r) for r in delivered()} >= set(sent), 60, what="deliveries")
        cluster.settle()
        self.assertEqual(sorted(checker.event_number(r) for r in delivered()), sorted(sent))
        self.assertEqual([checker.number(r) for r in delivered()], list(range(1, len(sent) + 1)))
