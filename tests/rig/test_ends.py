"""The rig's receiver and load generator, connected directly."""

import concurrent.futures
import json
import socket
import time

from checker import check
from rig import (PLANE_SECRET, RigTest, http_request, is_signed, main, merged,
                 sign_plane, wait_for)


class Ends(RigTest):
    def setUp(self):
        self.receiver = self.rig().receiver
        self.rig_ = self.receiver.rig

    def post(self, path="/x", body=b"{}", headers=None):
        return http_request(self.receiver.port, "POST", path, body, headers)

    def statuses(self, count, **how):
        return [self.post(**how)[0] for _ in range(count)]

    def test_without_a_rule_each_response_is_2xx(self):
        self.assertEqual(self.post()[0], 200)

    def test_a_request_is_recorded_as_received(self):
        body = bytes(range(256))
        self.post("/a?b=c", body, {"Webhook-Id": "evt_1", "X-Two": "caf\xe9 \""})
        request, = self.receiver.wait("evt_1")
        self.assertEqual(request.body, body)
        self.assertEqual(request.path, "/a?b=c")
        self.assertEqual(request.headers["x-two"], "caf\xe9 \"")
        self.assertIn(("Webhook-Id", "evt_1"), request.header_list)
        self.assertEqual(request.status, 200)
        self.assertLess(abs(request.at_ms / 1000 - time.time()), 60)

    def test_responses_of_a_rule_are_used_in_order(self):
        self.receiver.rules({"path": "/x", "responses": [
            {"status": 503, "times": 2, "headers": {"Retry-After": "1"}},
            {"status": 400}, {"status": 200, "body": "ok"}]})
        self.assertEqual(self.statuses(5), [503, 503, 400, 200, 200])
        self.assertEqual(self.post()[2], b"ok")
        self.assertEqual(self.statuses(1, path="/y"), [200])

    def test_each_event_has_responses_of_its_own(self):
        self.receiver.rules({"path": "/*", "per": "event", "responses": [
            {"status": 503}, {"status": 200}]})
        for event in "ab":
            how = {"headers": {"webhook-id": event}}
            self.assertEqual(self.statuses(3, **how), [503, 200, 200])

    def test_the_receiver_can_be_slow(self):
        self.receiver.rules({"path": "/x", "responses": [{"delay_ms": 300}]})
        begun = time.monotonic()
        self.assertEqual(self.post()[0], 200)
        self.assertGreaterEqual(time.monotonic() - begun, 0.3)

    def test_the_receiver_releases_delayed_responses(self):
        self.receiver.rules({"path": "/x", "responses": [{"delay_ms": 60000}]})
        with concurrent.futures.ThreadPoolExecutor() as pool:
            response = pool.submit(self.post)
            self.receiver.wait()
            self.receiver.release()
            self.assertEqual(response.result(timeout=10)[0], 200)

    def test_the_receiver_can_hang_up(self):
        for action, error in {"close": OSError, "reset": OSError,
                              "cut": Exception}.items():
            with self.subTest(action):
                self.receiver.rules({"path": "/x", "responses": [
                    {"action": action, "body": "not all of it"}]})
                with self.assertRaises(error):
                    self.post()
        self.assertEqual(
            self.receiver.stats()["paths"]["/x"]["statuses"],
            {"close": 1, "reset": 1, "cut": 1})

    def test_the_receiver_can_stay_silent(self):
        self.receiver.rules({"path": "/x", "responses": [{"action": "blackhole"}]})
        with self.assertRaises(TimeoutError):
            http_request(self.receiver.port, "POST", "/x", b"", timeout=0.2)
        wait_for(lambda: self.receiver.stats()["paths"]["/x"]["in_flight"] == 0)

    def test_the_receiver_can_send_malformed_responses(self):
        self.receiver.rules({"path": "/x", "responses": [{"raw": "SSH-2.0\r\n"}]})
        with self.assertRaises(Exception):
            self.post()

    def test_a_wrong_rule_is_refused_with_a_reason(self):
        for rules in [b"{", b"{}", b'[{"path":"/x","responses":[]}]',
                      b'[{"path":"/x","responses":[{"stauts":1}]}]']:
            status, _, reason = http_request(
                self.receiver.port, "POST", "/_rig/rules", rules)
            self.assertEqual(status, 400)
            self.assertTrue(reason)

    def test_pipelined_requests_are_answered_in_order(self):
        self.receiver.rules(
            {"path": "/slow", "responses": [{"delay_ms": 100, "body": "1"}]},
            {"path": "/fast", "responses": [{"body": "2", "close": True}]})
        with socket.create_connection(("127.0.0.1", self.receiver.port)) as s:
            for path in ["slow", "fast"]:
                s.sendall(f"POST /{path} HTTP/1.1\r\nHost: x\r\n"
                          "Content-Length: 2\r\n\r\n{}".encode())
            response = b"".join(iter(lambda: s.recv(4096), b""))
        self.assertEqual([part[:1] for part in response.split(b"\r\n\r\n")[1:]],
                         [b"1", b"2"])

    def test_memory_of_requests_is_bounded(self):
        other = self.rig_.another_receiver("small")
        other.stop()
        other.command += ["--keep", "3"]
        other.start()
        for n in range(5):
            http_request(other.port, "POST", f"/{n}", b"")
        response = other.ask("GET", "/_rig/requests?since=0")
        self.assertEqual((response["first"], response["last"]), (3, 5))
        self.assertEqual([r["path"] for r in response["requests"]],
                         ["/2", "/3", "/4"])
        self.assertEqual(
            len(other.ask("GET", "/_rig/requests?since=3&limit=1")["requests"]),
            1)
        other.reset()
        self.assertEqual(other.ask("GET", "/_rig/requests")["requests"], [])

    def load(self, **options):
        return self.rig_.load(**{
            "target": self.receiver.url("/in/plane"), "connections": 8,
            "workspaces": 5, **options})

    def test_a_load_is_signed_unique_and_recorded(self):
        load = self.load(count=500, size=700)
        summary = load.result()
        self.assertEqual(summary["counts"], {"200": 500})
        requests = self.receiver.wait(count=500)
        self.assertEqual(len({r.body for r in requests}), 500)
        self.assertEqual({len(r.body) for r in requests[:5]}, {700})
        for request in requests[:20]:
            signature = request.headers["x-plane-signature"]
            self.assertEqual(
                signature, sign_plane(request.body)["X-Plane-Signature"])
        acks = load.acks()
        self.assertEqual({a["n"] for a in acks}, set(range(1, 501)))
        self.assertEqual({a["workspace"] for a in acks},
                         {f"ws-{w:04}" for w in range(5)})
        verdict = check(acks, requests, PLANE_SECRET)
        self.assertEqual((verdict.lost, verdict.unexpected), ([], []))
        self.assertIn("no sequence", verdict.problems)

    def test_a_load_keeps_its_rate(self):
        summary = self.load(seconds=2, rate=200).result()
        self.assertAlmostEqual(summary["responded"], 400, delta=20)

    def test_a_load_survives_a_receiver_that_hangs_up(self):
        self.receiver.rules({"path": "*", "responses": [
            {"action": "reset", "times": 50}, {"action": "close", "times": 50},
            {"status": 503, "times": 50}, {"status": 200}]})
        load = self.load(count=300)
        counts = load.result()["counts"]
        self.assertEqual(counts["503"], 50)
        self.assertEqual(counts["reset"] + counts["closed"], 100)
        self.assertEqual(sum("error" in a for a in load.acks()), 100)

    def test_a_load_waits_for_an_ingress_that_is_down(self):
        other = self.rig_.another_receiver("late")
        other.stop()
        load = self.load(count=50, target=other.url("/in/plane"))
        wait_for(lambda: "no connection" in load.log())
        other.start()
        summary = load.result()
        self.assertEqual(summary["counts"], {"200": 50})
        self.assertGreater(summary["unconnected"], 0)

    def test_a_load_gives_up_on_a_missing_response(self):
        self.receiver.rules({"path": "*", "responses": [
            {"action": "blackhole"}, {"status": 200}]})
        counts = self.load(count=20, timeout=0.3).result()["counts"]
        self.assertEqual(counts, {"200": 19, "timeout": 1})


class Helpers(RigTest):
    def test_configuration_overrides_the_default(self):
        self.assertEqual(merged({"a": {"b": 1, "c": 2}, "d": 3},
                                {"a": {"b": 4}, "d": None}),
                         {"a": {"b": 4, "c": 2}})

    def test_wrong_standard_webhooks_signatures_are_refused(self):
        class Request:  # the SDKs' test vector
            body = b'{"test": 2432232314}'
            headers = {
                "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "webhook-timestamp": "1614265330",
                "webhook-signature":
                    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        self.assertTrue(is_signed(Request, secret))
        Request.body = json.dumps({"test": 1}).encode()
        self.assertFalse(is_signed(Request, secret))


main()
