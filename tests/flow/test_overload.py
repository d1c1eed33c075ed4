"""With more events than can be delivered, results go before events, a stopped deliverer
gets only its window, and every ready connection is served."""

import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, sign_plane, wait_for  # noqa: E402

FLOOD = 2500
IN_FLIGHT = 120


class Overload(RigTest):
    def finished(self, rig):
        return rig.rows("deliverer-1",
                        "SELECT count(*) AS n FROM attempts")[0]["n"]

    def test_results_are_applied_before_earlier_events(self):
        rig = self.rig({"log": {"level": "debug"}})
        rig.config["endpoints"] = [rig.endpoint("crm", max_in_flight=IN_FLIGHT)]
        rig.write_config()
        rig.start()
        # The deliverer hears where to send results with its first one.
        for _ in range(2):
            rig.wait_status(rig.accept(rig.plane_body("ws-1")))
        before = self.finished(rig)
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 1000 + 15 * n} for n in range(IN_FLIGHT)]})
        waiting = [rig.accept(rig.plane_body("ws-1")) for _ in range(IN_FLIGHT)]
        wait_for(lambda: rig.receiver.stats()["paths"]["/crm"]["in_flight"]
                 == IN_FLIGHT, what="all requests to be in flight")
        rig["sequencer"].pause()
        rig.load(count=FLOOD, workspaces=5, size=300).result()
        # One by one, so each result is a frame of its own.
        wait_for(lambda: self.finished(rig) >= before + IN_FLIGHT,
                 what="all results to be on their way")
        from_here = len(rig["sequencer"].log())
        rig.receiver.rules()
        rig["sequencer"].resume()
        wait_for(lambda: rig["sequencer"].log()[from_here:].count(" routed ")
                 >= FLOOD, 60, "all events to be routed")
        lines = rig["sequencer"].log()[from_here:].splitlines()
        last = max(i for i, line in enumerate(lines) if " delivered " in line
                   and any(event in line for event in waiting))
        routed = sum(" routed " in line for line in lines[:last])
        # A turn may have been under way, with events, before the results came.
        self.assertLess(routed, 3 * 128, "events were applied before results")
        rig.settle()

    def test_a_stopped_deliverer_gets_at_most_its_window(self):
        rig = self.rig()
        rig.config["endpoints"] = [rig.endpoint("crm", max_in_flight=10)]
        rig.write_config()
        rig.start()
        rig.wait_status(rig.accept())  # it has the endpoint
        rig["deliverer-1"].pause()
        rig.load(count=600, workspaces=5, size=300).result()

        def taken():
            metrics = rig.ask("sequencer", "status")["metrics"]
            return (metrics["grapnel_events_taken_total"] == 601
                    and metrics["grapnel_deliveries_out"])
        self.assertEqual(wait_for(taken), 10 + 256)
        rig["deliverer-1"].resume()
        rig.settle()

    def test_all_connections_that_are_ready_at_once_are_served(self):
        """libmicrohttpd asks epoll for 128 events at a time, and in a thread of its
        own sleeps when it got exactly as many. Ours asks without waiting."""
        rig = self.rig(deliverers=0)
        rig.start("ingress")
        body = rig.plane_body()
        head = "".join(f"{k}: {v}\r\n" for k, v in sign_plane(body).items())
        request = (f"POST /in/plane HTTP/1.1\r\nHost: x\r\n{head}"
                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        clients = []
        for count in (127, 128, 129, 256):
            while len(clients) < count:
                clients.append(socket.create_connection(
                    ("127.0.0.1", rig.ingress_port), timeout=60))
                self.respond(clients[-1], request)
            rig["ingress"].pause()
            for client in clients:
                client.sendall(request)
            rig["ingress"].resume()
            for client in clients:
                self.respond(client)
        for client in clients:
            client.close()

    def respond(self, client, request=b""):
        client.sendall(request)
        self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))


main()
