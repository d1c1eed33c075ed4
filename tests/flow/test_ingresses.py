"""Several ingress processes share one port and one sequencer. P1, P2, P3."""

import contextlib
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for


class Ingresses(RigTest):
    def two(self):
        rig = self.rig({"sources": [
            {"name": "plane", "provider": "plane",
             "secrets": ["${PLANE_SECRET}"], "dedupe": "none"}]})
        rig.daemons["ingress-1"] = rig.daemons.pop("ingress")
        rig.daemons["ingress-1"].name = "ingress-1"
        rig.add("ingress-2")
        return rig

    def kept(self, rig, name):
        return rig.rows(name, "SELECT count(*) AS n FROM archive")[0]["n"]

    def test_two_ingresses_accept_events_though_one_is_killed(self):
        rig = self.two()
        rig.start()
        load = rig.load(count=6000, connections=32)
        wait_for(lambda: self.kept(rig, "ingress-1") > 50 and
                 self.kept(rig, "ingress-2") > 50,
                 what="both to have taken some")
        rig["ingress-1"].kill()
        # The first load may have ended by now, if this test was slow to look.
        before = self.kept(rig, "ingress-2")
        more = rig.load(count=1000, connections=32)
        wait_for(lambda: self.kept(rig, "ingress-2") > before + 100,
                 what="the other to go on alone")
        rig["ingress-1"].start()
        load.result()
        more.result()
        # What got 200 by either is at the receiver.
        accepted = {a["id"] for a in load.acks() + more.acks() if a.get("id")}
        wait_for(lambda: accepted <= set(rig.receiver.delivered("/crm")),
                 60, "every accepted event to be delivered")
        # A machine that is slow may have made them 408 or 503.
        document, code = rig.cli("rejects", "--limit", "1000")
        self.assertEqual(code, 0)
        self.assertEqual([r for r in document if r["status"] not in (408, 503)],
                         [])

    def test_a_trace_finds_the_ingress_that_accepted_the_event(self):
        rig = self.two()
        rig.start()
        for event in [rig.accept() for _ in range(8)]:
            rig.wait_status(event)
            what = {t["process"] for t in rig.trace(event)["timeline"]}
            self.assertEqual(len(what & {"ingress-1", "ingress-2"}), 1)

    def test_rejects_lists_the_requests_of_all_ingresses(self):
        rig = self.two()
        rig.start("ingress-1", "ingress-2")
        for _ in range(24):
            self.assertEqual(rig.post(b"{}", headers={})[0], 401)
        document, code = rig.cli("rejects")
        self.assertEqual(code, 0)
        self.assertEqual(len(document), 24)
        self.assertEqual({r["process"] for r in document},
                         {"ingress-1", "ingress-2"})
        self.assertEqual([r["at"] for r in document],
                         sorted((r["at"] for r in document), reverse=True))
        self.assertEqual(len(rig.cli("rejects", "--limit", "5")[0]), 5)
        rig["ingress-2"].kill()
        self.assertEqual(rig.cli("rejects")[1], 69)  # it would look whole

    def test_a_port_of_another_program_is_an_error(self):
        for options in [(), (socket.SO_REUSEPORT,)]:
            with self.subTest(options=options), \
                    contextlib.closing(socket.socket()) as taken:
                rig = self.rig()
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                for option in options:
                    taken.setsockopt(socket.SOL_SOCKET, option, 1)
                taken.bind(("127.0.0.1", rig.ingress_port))
                taken.listen()
                rig["ingress"].spawn()
                self.assertEqual(rig["ingress"].wait_exit(), 69)
                self.assertIn("is in use by another program",
                              rig["ingress"].log())


if __name__ == "__main__":
    main()
