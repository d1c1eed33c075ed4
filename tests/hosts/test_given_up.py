"""P5: a request that its deliverer has given up does not arrive when the network is back, behind later ones."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
import checker
from cluster import WORLD, Cluster
from rig import RigTest, main, wait_for

LAYOUT = {"a": ["deliverer-1"], "c": ["ingress-1", "sequencer", "dlqd", "console"]}
CLOSING = ("04", "09", "0B")  # FIN_WAIT1, LAST_ACK, CLOSING: the kernel still sends for a process that closed


class GivenUp(RigTest):
    def begin(self):
        self.cluster = cluster = Cluster(
            LAYOUT, lambda rig: [rig.endpoint("crm", ordered="all", timeout="500ms", connect_timeout="500ms")])
        self.addCleanup(self._end, cluster)
        if not cluster.network.loses_packets:
            self.skipTest("there are no network namespaces here")
        cluster.start()
        self.post()
        cluster.receiver.wait(count=1)  # its connection is kept for the next one
        self.out = cluster.network.way("a", WORLD)
        return cluster

    def post(self):
        self.assertEqual(self.cluster.post_at("c", self.cluster.plane_body()), 200)

    def left_by_closed_sockets(self):
        """Connections of host a to receivers that no process has open and the kernel keeps on serving."""
        lines = self.cluster.network.read("a", "/proc/net/tcp").splitlines()[1:]
        port = f":{self.cluster.receiver.port:04X}"
        return [x for x in lines if x.split()[2].endswith(port) and x.split()[3] in CLOSING]

    def attempts(self):
        return self.cluster.rows("deliverer-1", "SELECT count(*) AS n FROM attempts")[0]["n"]

    def heal_and_judge(self):
        self.out.set()
        self.cluster.settle()
        self.post()
        self.cluster.settle()
        wait_for(lambda: not self.left_by_closed_sockets(), 60, what="the kernel to have nothing more to send")
        requests = self.cluster.receiver.requests("/crm")
        checker.check_lanes(requests, lambda r: "crm", unseen=lambda r: True).require()

    def test_a_request_that_timed_out_during_a_cut_never_arrives(self):
        cluster = self.begin()
        self.out.set(is_cut=True)
        self.post()
        # Its next retransmission is seconds away, longer than the rest takes.
        wait_for(lambda: self.attempts() > 8, what="attempts")
        self.assertEqual(len(cluster.receiver.requests("/crm")), 1)
        self.heal_and_judge()

    def test_a_request_whose_deliverer_died_during_a_cut_is_not_sent_for_longer_than_an_attempt(self):
        cluster = self.begin()
        self.out.set(is_cut=True)
        self.post()
        wait_for(lambda: self.open_requests(), what="the request to be sent")
        cluster["deliverer-1"].kill()
        wait_for(lambda: not self.left_by_closed_sockets(), 60, what="the kernel to give up")
        cluster.start("deliverer-1")
        self.heal_and_judge()

    def open_requests(self):
        """Connections with bytes that the receiver has not acknowledged."""
        lines = self.cluster.network.read("a", "/proc/net/tcp").splitlines()[1:]
        port = f":{self.cluster.receiver.port:04X}"
        return [x for x in lines if x.split()[2].endswith(port) and x.split()[3] == "01"
                and int(x.split()[4].partition(":")[0], 16) > 0]


main()
