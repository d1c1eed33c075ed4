"""One deliverer alone, between a scripted sequencer and the rig's receiver: its grants, the
outcomes of its attempts, its crashes and stops."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_sequencer import BATCH, config, pack, packed_headers
from lone_deliverer import LEASE_MS, DelivererTest, G, event
from rig import SIGNING_SECRET, SLOW, is_signed, main


class OtherVersions(DelivererTest):
    """A sequencer of another version."""

    WARNING = "a peer runs another version of Grapnel"

    def link(self):
        link, = [link for link in self.r.ask("deliverer-1", "status")["links"]
                 if link["direction"] == "in"]
        return link

    def warnings(self):
        return [line for line in self.r["deliverer-1"].log().splitlines()
                if self.WARNING in line]

    def waits(self, kind, version):
        """P2: a message that only another version understands is not lost: it
        stays with its sender, and is applied when both run the same."""
        self.grant()
        self.task(1)
        self.task(2)
        self.s.written_by(version, 2)
        self.task(3)
        self.ended(1)
        self.s.until(self.warnings)
        resent = self.s.asked_ms
        self.s.until(lambda: self.s.asked_ms > resent + 1)  # it comes again
        link = self.link()
        self.assertEqual((link["done"], link["unprocessable"]), (1, 0), link)
        self.assertEqual(len(self.warnings()), 1)
        self.assertIn(f"peer=sequencer kind={kind} ", self.warnings()[0])
        self.assertIn(f"version={version} known_version=", self.warnings()[0])
        self.s.written_by(2, 2)  # as the same version writes it
        self.s.sent = 1
        self.ended(2, 3)
        self.assertEqual(self.link()["unprocessable"], 0)

    def test_a_message_of_a_newer_version_waits(self):
        self.waits("task", 9)

    def test_a_frame_of_a_newer_version_is_named_once(self):
        for _ in range(3):
            self.s.push.send(pack(BATCH, 77, "sequencer", self.s.inbox, "more"))
            self.s.push.send(pack(99, 1, "sequencer", self.s.inbox))
        self.grant()
        self.task(1)
        self.ended(1)
        said = self.warnings()
        self.assertEqual(len(said), 2, said)
        self.assertIn("kind=batch kind_number=1 version=77 known_version=2", said[0])
        self.assertIn("kind_number=99 version=1 known_version=0", said[1])


class Ends(DelivererTest):
    def test_every_response_has_its_outcome(self):
        cases = {  # response: outcome, reason, attempts
            "200": ({"status": 200}, "delivered", "", 1),
            "299": ({"status": 299}, "delivered", "", 1),
            "301": ({"status": 301, "headers": {"Location": "/x"}}, "dead",
                    "rejected", 1),
            "400": ({"status": 400}, "dead", "rejected", 1),
            "404": ({"status": 404}, "dead", "rejected", 1),
            "410": ({"status": 410}, "dead", "endpoint_gone", 1),
            "429": ({"status": 429}, "dead", "budget_attempts", 3),
            "500": ({"status": 500}, "dead", "budget_attempts", 3),
            "reset": ({"action": "reset"}, "dead", "budget_attempts", 3),
            "close": ({"action": "close"}, "dead", "budget_attempts", 3),
            "cut": ({"action": "cut", "status": 200, "body": "abc"},
                    "delivered", "", 1),
            "cut500": ({"action": "cut", "status": 500, "body": "abc"}, "dead",
                       "budget_attempts", 3),
            "hole": ({"action": "blackhole"}, "dead", "budget_attempts", 3),
            "odd": ({"raw": "SSH-2.0-x\r\n"}, "dead", "budget_attempts", 3),
        }
        self.r.receiver.rules(*({"path": f"/{name}", "responses": [response]}
                                for name, (response, *_) in cases.items()))
        for i, name in enumerate(cases):
            self.grant(100 + i, f"/{name}", max_attempts=3, first_wait_ms=10,
                       timeout_ms=500)
            self.task(i, 100 + i, f"/{name}")
        for (name, case), r in zip(cases.items(), self.ended(*range(len(cases)))):
            with self.subTest(name):
                self.assertEqual((r["outcome"], r["reason"], r["attempts"]),
                                 case[1:], r)
                if r["outcome"] == "dead":
                    self.assertTrue(r["error"])
        self.assertEqual(self.tasks(), 0)

    def test_unreachable_hosts_are_retried(self):
        for i, url in enumerate(["http://127.0.0.1:9/", "http://nothing.invalid/"]):
            self.s.grant(50 + i, f"e{i}", config(f"e{i}", url, max_attempts=1))
            self.s.task(50 + i, f"e{i}", event(i))
        refused, unknown = self.ended(0, 1)
        self.assertEqual(refused["error"], "connection refused")
        self.assertEqual(unknown["error"], "host not found")
        self.assertEqual((refused["sends"], unknown["sends"]), (0, 0))

    def test_p8_private_addresses_are_dead_letters_without_a_request(self):
        port = self.r.receiver.port
        urls = [f"http://{host}:{port}/crm" for host in
                ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0",
                 "017700000001", "[::1]", "[::ffff:127.0.0.1]",
                 "169.254.169.254", "10.0.0.1"]]
        for i, url in enumerate(urls):
            self.s.grant(200 + i, f"e{i}", config(f"e{i}", url, allow_private=0))
            self.s.task(200 + i, f"e{i}", event(i))
        for url, r in zip(urls, self.ended(*range(len(urls)))):
            self.assertEqual((r["outcome"], r["reason"]),
                             ("dead", "blocked_address"), url)
            self.assertEqual(r["sends"], 0)
        self.assertEqual(self.requests(), [])

    def test_p8_a_kept_connection_does_not_lend_its_permission(self):
        self.grant(1)
        self.task(1, 1)
        self.ended(1)
        self.s.grant(2, "crm", self.config(allow_private=0))
        self.task(2, 2)
        self.assertEqual(self.ended(2)[0]["reason"], "blocked_address")
        self.assertEqual(len(self.requests(count=1)), 1)

    def test_retry_after_lengthens_the_wait_once(self):
        self.rules({"status": 503, "headers": {"Retry-After": "1"}},
                   {"status": 503, "times": 2}, {"status": 200})
        self.grant(first_wait_ms=20)
        self.task(1)
        self.assertEqual(self.ended(1)[0]["attempts"], 4)
        at = [r.at_ms for r in self.requests(1, count=4)]
        self.assertGreaterEqual(at[1] - at[0], 990)
        self.assertLess(at[2] - at[1], 900 * SLOW)

    def test_a_request_has_the_documented_headers_and_body(self):
        body = bytes(range(256)) * 20000  # 5 MB, every byte
        self.s.grant(G, "crm", self.config(
            secrets=f"{SIGNING_SECRET} {SIGNING_SECRET}", method="PUT",
            headers=packed_headers([("Authorization", "Bearer x"),
                                    ("X-Empty", ""), ("webhook-id", "forged")])))
        self.task(1, body=body, sequence=9, previous=4, clock="a=1,b=2",
                  series=77, replay=1, attempts=3, headers=[
                      ("Content-Type", "application/x-any"),
                      ("X-Request-Id", "r1"), ("Authorization", "not this"),
                      ("X-Bad", "a\r\nX-Smuggled: 1"), ("Content-Length", "3"),
                      ("grapnel-type", "forged")])
        self.ended(1)
        r, = self.requests(count=1)
        self.assertEqual((r.method, r.body), ("PUT", body))
        self.assertTrue(is_signed(r, SIGNING_SECRET))
        self.assertEqual(len(r.headers["webhook-signature"].split()), 2)
        want = {"content-type": "application/x-any", "x-request-id": "r1",
                "authorization": "Bearer x", "x-empty": "",
                "webhook-id": event(1), "grapnel-source": "plane",
                "grapnel-type": "issue.created", "grapnel-workspace": "ws-1",
                "grapnel-sequence": "9", "grapnel-previous": "4",
                "grapnel-clock": "a=1,b=2", "grapnel-series": "77",
                "grapnel-replay": "1", "grapnel-attempt": "4"}
        self.assertEqual({k: r.headers.get(k) for k in want}, want)
        for name in ("x-bad", "x-smuggled", "expect"):
            self.assertNotIn(name, r.headers)
        names = [k.lower() for k, _ in r.header_list]
        self.assertEqual(len(names), len(set(names)))
        self.assertRegex(r.headers["user-agent"], r"^Grapnel/\d")
        self.assertRegex(r.headers["grapnel-time"], r"^20\d\d-.*\.\d{3}Z$")

    def test_an_empty_body_and_no_content_type(self):
        self.grant()
        self.task(1, body=b"", headers=[("X-A", "1")])
        self.ended(1)
        r, = self.requests(count=1)
        self.assertEqual(r.body, b"")
        self.assertNotIn("content-type", r.headers)

    def test_a_generation_is_judged_by_its_own_budget(self):
        self.rules({"status": 503})
        self.grant(max_attempts=2, first_wait_ms=10)
        self.task(1, attempts=7, base=6)  # one of two is used
        self.task(2, attempts=6, base=6)
        one, two = self.ended(1, 2)
        self.assertEqual((one["attempts"], one["reason"]), (8, "budget_attempts"))
        self.assertEqual((two["attempts"], two["reason"]), (8, "budget_attempts"))
        self.assertEqual(len(self.requests(1, count=1)), 1)

    def test_a_large_response_is_cut_and_counts(self):
        self.rules({"status": 200, "body": "x" * 900000})
        self.r.receiver.rules(
            {"path": "/crm", "responses": [{"status": 200, "body": "x" * 900000}]},
            {"path": "/bad", "responses": [{"status": 400, "body": "y" * 900000}]})
        self.grant()
        self.grant(8, "/bad")
        self.task(1)
        self.task(2, 8, "/bad")
        good, bad = self.ended(1, 2)
        self.assertEqual(good["outcome"], "delivered")
        self.assertEqual(bad["outcome"], "dead")
        self.assertEqual(bad["response"], b"y" * 16384)


class Grants(DelivererTest):
    def test_no_attempt_begins_before_its_grant_is_configured(self):
        self.task(1)
        self.s.answers_unconfigured = False
        self.s.until(lambda: any(G in b[3] for b in self.s.heartbeats), 10 * SLOW)
        self.s.run_for(0.2)
        self.assertEqual(self.requests(), [])
        self.grant()
        self.assertEqual(self.ended(1)[0]["outcome"], "delivered")

    def test_no_attempt_begins_after_the_lease_until_confirmed_again(self):
        self.grant()
        self.task(1)
        self.ended(1)
        self.s.heartbeat_acks = False
        self.s.run_for(LEASE_MS / 1000 * 1.3)
        self.task(2)
        self.s.run_for(0.3)
        self.assertEqual(self.requests(2), [])
        self.s.heartbeat_acks, self.s.answers_unconfigured = True, False
        self.s.run_for(LEASE_MS / 1000)  # a heartbeat_ack alone confirms nothing
        self.assertEqual(self.requests(2), [])
        self.s.answers_unconfigured = True
        self.ended(2)

    def test_an_acknowledgement_of_an_old_heartbeat_or_epoch_is_ignored(self):
        self.s.answers_unconfigured = False
        old = self.s.heartbeats[-1]
        self.s.run_for(LEASE_MS / 1000 * 1.3)
        self.s.grants[G] = ("crm", self.config())
        self.task(1)
        self.s.send_granted(G, old)
        _, epoch, stamp, _ = self.s.heartbeats[-1]
        self.s.send_granted(G, (0, epoch + 1, stamp, ()))
        self.s.send_granted(G, (0, epoch, stamp + 3600000, ()))
        self.s.run_for(0.3)
        self.assertEqual(self.requests(), [])
        self.s.answers_unconfigured = True
        self.ended(1)

    def test_a_frozen_deliverer_begins_no_attempt_when_it_wakes(self):
        self.grant()
        self.task(1)
        self.ended(1)
        self.s.run_for(0.1)
        self.d.pause()
        self.task(2)
        self.s.answers_unconfigured = False  # what waits in its inbox is all it gets
        self.s.run_for(LEASE_MS / 1000 * 1.5)
        self.d.resume()
        self.s.run_for(0.5)
        self.assertEqual(self.requests(2), [])
        self.s.answers_unconfigured = True
        self.ended(2)

    def test_a_revoke_waits_for_requests_in_flight_and_forgets_the_rest(self):
        self.r.receiver.rules(
            {"path": "/crm", "per": "event", "responses": [
                {"status": 200, "delay_ms": 60000}]})
        self.grant(max_in_flight=2, timeout_ms=60000)
        for n in range(6):
            self.task(n)
        self.s.until(lambda: self.s.taken >= 6)
        self.in_flight(2)
        self.s.revoke(G)
        self.s.until(lambda: self.s.taken >= 7, 10 * SLOW)
        self.assertEqual(self.s.released, [])
        self.r.receiver.release()
        self.s.until(lambda: self.s.released, 10 * SLOW)
        self.assertEqual(self.s.released, [G])
        self.assertEqual(sorted(r["outcome"] for r in self.s.results),
                         ["delivered"] * 2)
        self.task(9)  # under a grant that has ended
        self.s.send_granted(G)
        self.s.run_for(0.3)
        self.assertEqual(len(self.requests(count=2)), 2)
        self.assertEqual(self.tasks(), 0)

    def test_scheduled_retries_go_back_with_their_grant(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=600000)
        for n in range(20):
            self.task(n)
        self.s.until(lambda: len(self.s.results) == 20, 10 * SLOW)
        self.assertEqual({r["outcome"] for r in self.s.results}, {"retrying"})
        self.assertEqual(self.tasks(), 20)
        self.s.revoke(G)
        self.s.until(lambda: self.s.released, 10 * SLOW)
        self.s.until(lambda: self.row(
            "SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM grants)")
            == 0)

    def test_an_unknown_revoke_is_answered(self):
        self.s.revoke(4711)
        self.s.until(lambda: self.s.released == [4711], 10 * SLOW)

    def test_tasks_of_a_revoked_grant_are_forgotten_and_released(self):
        self.task(1)
        self.s.until(lambda: self.s.released == [G], 10 * SLOW)
        self.assertEqual(self.requests(), [])
        self.assertEqual(self.s.results, [])

    def test_a_dropped_delivery_is_released(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=600000, max_in_flight=1, timeout_ms=60000)
        self.task(1)
        self.s.until(lambda: self.s.of(event(1)), 10 * SLOW)
        self.s.drop(G, "crm", event(1))   # a retry is scheduled
        self.s.drop(G, "crm", event(99))  # never heard of
        self.s.until(lambda: len(self.s.of(event(1))) == 2 and
                     self.s.of(event(99)), 10 * SLOW)
        for e, attempts in ((event(1), 1), (event(99), 0)):
            r = self.s.of(e)[-1]
            self.assertEqual((r["outcome"], r["attempt_id"], r["attempts"]),
                             ("released", 0, attempts))
        self.rules({"status": 503, "delay_ms": 60000})
        self.task(2)
        self.task(3)
        self.in_flight(1)
        self.s.drop(G, "crm", event(2))   # in flight
        self.s.drop(G, "crm", event(3))   # waiting
        self.ended(3)
        self.r.receiver.release()
        two, three = self.ended(2, 3)
        self.assertEqual((two["outcome"], two["http_status"]), ("released", 503))
        self.assertEqual((three["outcome"], three["attempt_id"]), ("released", 0))
        self.assertEqual(self.requests(3), [])
        self.assertEqual(self.tasks(), 0)

    def test_an_unknown_delivery_is_reported_as_missing(self):
        """P2: one that is in flight, queued or waiting for a retry is known. One
        that has ended is unknown, but its result is earlier in the log."""
        self.r.receiver.rules({"path": "/crm", "responses": [
            {"status": 503, "times": 1}, {"status": 200, "times": 1},
            {"action": "blackhole"}]})
        self.grant(first_wait_ms=600000, max_in_flight=1, timeout_ms=60000)
        for n in range(1, 5):
            self.task(n)
            self.s.until(lambda: len(self.requests()) >= min(n, 3), 10 * SLOW)
        self.s.until(lambda: len(self.s.results) == 2, 10 * SLOW)
        for n in range(1, 5):
            self.s.check(G, "crm", event(n), n)
        self.s.check(G, "crm", event(99), 17)
        self.s.until(lambda: len(self.s.missing) == 2, 10 * SLOW)
        self.s.run_for(0.1)
        self.assertEqual(self.s.missing, [(event(2), 2, 2), (event(99), 17, 2)])
        self.restart()  # rows are known, too
        self.s.check(G, "crm", event(1), 1)
        self.s.check(G, "crm", event(4), 4)
        self.s.check(G, "crm", event(98), 18)
        self.s.until(lambda: len(self.s.missing) == 3, 10 * SLOW)
        self.assertEqual(self.s.missing[-1][:2], (event(98), 18))
        self.d.kill()

    def test_a_hanging_endpoint_does_not_delay_others(self):
        self.r.receiver.rules({"path": "/hole", "responses": [
            {"action": "blackhole"}]})
        self.grant(1, "/hole", timeout_ms=60000, max_in_flight=4)
        self.grant(2, "/crm")
        for n in range(200):
            self.task(n, 1, "/hole")
        for n in range(1000, 1200):
            self.task(n, 2, "/crm")
        began = time.monotonic()
        self.ended(*range(1000, 1200))
        self.assertLess(time.monotonic() - began, 3 * SLOW)
        # All of it is on disk, so the link is not held up.
        self.s.until(lambda: self.s.cursor == 400, 10 * SLOW)
        self.s.run_for(0.1)
        self.assertEqual(len(self.requests(path="/hole")), 4)
        self.d.kill()

    def test_a_task_for_later_waits_on_disk(self):
        self.grant()
        self.task(1, attempts=1, first_ms=1, next_ms=int(time.time() * 1000) + 700)
        self.s.until(lambda: self.s.cursor == 1, 10 * SLOW)
        self.assertEqual(self.row("SELECT retrying FROM tasks"), 1)
        self.assertEqual(self.requests(), [])
        self.ended(1)
        self.assertEqual(
            self.requests(1, count=1)[0].headers["grapnel-attempt"], "2")


class Crashes(DelivererTest):
    def test_p3_p4_tasks_in_flight_and_scheduled_retries_survive_a_crash(self):
        self.r.receiver.rules(
            {"path": "/hole", "per": "event", "responses": [
                {"action": "blackhole"}, {"status": 200}]},
            {"path": "/crm", "per": "event", "responses": [
                {"status": 503}, {"status": 200}]})
        self.grant(1, "/hole", timeout_ms=60000)
        self.grant(2, "/crm", first_wait_ms=1500)
        for n in range(10):
            self.task(n, 1, "/hole")
            self.task(100 + n, 2)
        self.s.until(lambda: len(self.s.results) == 10 and self.s.cursor == 20,
                     10 * SLOW)
        self.restart()
        results = self.ended(*range(10), *range(100, 110))
        self.assertEqual({r["outcome"] for r in results}, {"delivered"})
        self.assertEqual([r["sends"] for r in results], 10 * [2] + 10 * [1],
                         "one was lost in the crash, and one ended")
        for n in range(100, 110):
            first, second = self.requests(n, count=2)
            self.assertEqual(second.headers["grapnel-attempt"], "2")
            self.assertEqual(first.body, second.body)
        self.assertEqual(self.tasks(), 0)

    def test_p5_ended_tasks_do_not_begin_again_after_a_crash(self):
        # The first hangs and holds the cursor; the others end past it.
        self.r.receiver.rules(
            {"path": "/crm", "per": "event", "responses": [{"status": 200}]},
            {"path": "/hole", "responses": [{"action": "blackhole"}]})
        self.grant(1, "/hole", timeout_ms=60000)
        self.grant(2, "/crm")
        for round_ in range(10):
            base = 100 * round_
            self.task(base, 1, "/hole")
            for n in range(base + 1, base + 20):
                self.task(n, 2)
            self.ended(*range(base + 1, base + 20))
            self.restart()
        self.s.run_for(0.3)
        for r in self.s.results:
            self.assertEqual(len(self.s.of(r["event_id"])), 1)
            self.assertEqual(
                len(self.r.receiver.requests("/crm", r["event_id"])), 1)
        self.d.kill()

    def test_p3_each_task_ends_once_though_killed_at_any_time(self):
        self.rules({"status": 503}, {"status": 200}, per="event")
        self.grant(first_wait_ms=30, max_attempts=50)
        total = 0
        for round_ in range(15):
            for _ in range(40):
                total += 1
                self.task(total)
            self.s.run_for(0.01 * (round_ % 7))
            self.restart()
        self.ended(*range(1, total + 1), timeout=30)
        for n in range(1, total + 1):
            of = [r for r in self.s.of(event(n)) if r["outcome"] == "delivered"]
            self.assertGreaterEqual(len(of), 1)
            requests = self.requests(n, count=1)
            self.assertEqual({r.body for r in requests}, {requests[0].body})
        self.assertEqual(self.tasks(), 0)
        self.s.until(lambda: self.s.cursor == total)

    def test_a_start_without_its_sequencer_begins_no_attempt(self):
        self.rules({"status": 503}, {"status": 200})
        self.grant(first_wait_ms=10**7)
        self.task(1)
        self.s.until(lambda: self.s.results and self.s.cursor == 1, 10 * SLOW)
        self.d.kill()
        self.r.change("deliverer-1", "UPDATE tasks SET next_ms = 1")
        before = len(self.requests(1, count=1))
        self.s.heartbeat_acks = False
        self.d.start()
        self.s.run_for(1)
        self.assertEqual(len(self.requests(1, count=1)), before)
        self.s.heartbeat_acks = True
        self.ended(1)

    def test_a_deliverer_s_database_keeps_its_id(self):
        first = self.s.heartbeats[-1]
        self.restart()
        self.assertEqual(self.s.heartbeats[-1][0], first[0])
        self.assertNotEqual(self.s.heartbeats[-1][1], first[1])


class Stops(DelivererTest):
    def stopping(self):
        """SIGTERM, and turn until the deliverer has noticed."""
        self.d.asked_to_end = True
        self.d.signal(signal.SIGTERM)
        self.s.until(lambda: " stopping" in self.d.log(), 10 * SLOW)

    def stop(self):
        """SIGTERM, and turn until it has ended; its exit code."""
        self.stopping()
        return self.stopped()

    def stopped(self):
        self.s.until(lambda: not self.d.alive, 20 * SLOW)
        self.s.run_for(0.05)
        return self.d.exit_code

    def test_a_stop_ends_requests_in_flight_and_releases_grants(self):
        self.rules({"status": 200, "delay_ms": 60000})
        self.grant(max_in_flight=2, timeout_ms=60000)
        for n in range(5):
            self.task(n)
        self.in_flight(2)
        self.stopping()
        self.r.receiver.release()
        self.assertEqual(self.stopped(), 0)
        self.assertEqual(self.s.released, [G])
        self.assertEqual([r["outcome"] for r in self.s.results],
                         ["delivered"] * 2)

    def test_a_stop_aborts_requests_that_exceed_the_grace(self):
        self.r.receiver.rules({"path": "/crm", "responses": [
            {"action": "blackhole"}]})
        self.grant(timeout_ms=60000)
        self.task(1)
        self.in_flight(1)
        began = time.monotonic()
        self.assertEqual(self.stop(), 0)
        self.assertLess(time.monotonic() - began, 4 * SLOW)
        self.assertEqual(self.s.released, [G])
        r, = self.s.of(event(1))
        self.assertEqual((r["outcome"], r["attempts"]), ("released", 1))
        self.assertNotEqual(r["attempt_id"], 0)

    def test_a_stop_ends_without_its_sequencer(self):
        self.grant()
        self.task(1)
        self.ended(1)
        self.d.asked_to_end = True
        self.d.signal(signal.SIGTERM)
        self.assertEqual(self.d.wait_exit(10), 0)
        self.assertEqual(self.row("SELECT state FROM grants"), 2)
        self.d.start()  # what it had to say is in its log
        self.s.until(lambda: self.s.released == [G], 10 * SLOW)

    def test_a_stopping_deliverer_sends_no_heartbeat(self):
        self.r.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 60000}]})
        self.grant(timeout_ms=60000)
        self.task(1)
        self.in_flight(1)
        self.stopping()
        self.s.run_for(0.1)  # a heartbeat from before may be in the pipe
        heartbeats = len(self.s.heartbeats)
        self.s.run_for(LEASE_MS / 1000)
        self.r.receiver.release()
        self.stopped()
        self.assertEqual(len(self.s.heartbeats), heartbeats)


class Many(DelivererTest):
    def test_thousands_of_scheduled_retries_use_no_memory_and_are_in_time(self):
        count = 5000 if SLOW > 1 else 20000
        self.rules({"status": 503}, {"status": 200})
        # No breaker: each fails once, which is no outage.
        self.grant(first_wait_ms=3000 * SLOW, max_in_flight=64, breaker=0)
        self.task(0)
        self.ended(0)
        self.s.parse = False
        before = self.resident()
        for n in range(1, count + 1):
            self.task(n, body=b"x" * 1000)
        self.s.until(lambda: self.s.counted >= 2 * count, 120 * SLOW)
        self.s.until(lambda: self.tasks() == 0, 60 * SLOW)
        if SLOW == 1:  # sanitizers keep what was freed
            self.assertLess(self.resident() - before, 64 * 1024)
        self.assertEqual(len(self.r.receiver.delivered()), count + 1)

    def test_five_thousand_requests_can_be_in_flight(self):
        """To receivers that are slow; and there is space for one more."""
        count = 5000
        self.r.receiver.rules(
            {"path": "/slow", "responses": [
                {"status": 200, "delay_ms": 8000 * SLOW}]},
            {"path": "/crm", "responses": [{"status": 200}]})
        self.grant(1, "/slow", timeout_ms=250000, connect_timeout_ms=100000,
                   max_in_flight=10000)
        self.grant(2, "/crm")
        for n in range(1, count + 1):
            self.task(n, 1, "/slow")
        self.s.until(lambda: self.r.receiver.stats()["paths"].get(
            "/slow", {"in_flight": 0})["in_flight"] == count, 60 * SLOW)
        self.task(9000, 2)
        self.ended(9000)
        self.assertEqual(self.r.ask("deliverer-1", "status")["in_flight"], count)
        self.s.until(lambda: self.s.counted >= count + 1, 60 * SLOW)
        self.assertEqual({r["outcome"] for r in self.s.results}, {"delivered"})

    def test_p9_scheduled_retries_are_found_without_reading_their_rows(self):
        """Tens of thousands that wait, and one that is due: a start delivers
        it; what waits costs no memory."""
        count = 50000
        later = int(time.time() * 1000) + 10**7
        self.grant()
        self.task(0, attempts=1, first_ms=1, next_ms=later)
        self.s.until(lambda: self.tasks() == 1, 10 * SLOW)
        self.d.kill()
        now = int(time.time() * 1000)
        with contextlib.closing(sqlite3.connect(
                self.r.state_dir / "deliverer-1.db")) as db:
            message, last = db.execute("SELECT message, n FROM tasks").fetchone()
            db.executemany(
                "INSERT INTO tasks (n, grant_id, event_id, attempts, first_ms, "
                "next_ms, retrying, message, early_ms) "
                "VALUES (?, ?, ?, 1, 1, ?, 1, ?, ?)",
                ((last + n, G, event(n), now if n == 1 else later + n,
                  message.replace(event(0).encode(), event(n).encode()),
                  10**13)  # was pulled forward once, and failed
                 for n in range(1, count)))
            db.execute("UPDATE tasks SET early_ms = ?", (10**13,))
            db.commit()
        self.d.start()
        self.ended(1)
        status = self.r.ask("deliverer-1", "status")
        self.assertEqual(status["scheduled_retries"], count - 1)
        self.assertEqual(len(self.requests(count=1)), 1)
        if SLOW == 1:
            self.assertLess(self.resident(), 64 * 1024)

    def resident(self):
        status = pathlib.Path(f"/proc/{self.d.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def test_trace_shows_the_attempts_of_a_deliverer(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=600000)
        self.task(1)
        self.s.until(lambda: self.s.results, 10 * SLOW)
        told = self.r.ask("deliverer-1", "trace", id=event(1))
        a, = told["attempts"]
        self.assertEqual((a["endpoint"], a["n"], a["http_status"], a["error"],
                          a["outcome"], a["deliverer"]),
                         ("crm", 1, 503, "responded 503", "retrying", "deliverer-1"))
        w, = told["waiting"]
        self.assertEqual((w["state"], w["attempts"], w["next_attempt_at"]),
                         ("retrying", 1, a["next_attempt_at"]))
        self.assertEqual(self.r.ask("deliverer-1", "trace", id="evt_none"),
                         {"id": "evt_none", "attempts": [], "waiting": []})


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main(at_once=4)
