"""P9: retries after an endpoint or Grapnel itself was down are due early and sent at a
bounded, growing rate."""

import contextlib
import pathlib
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import SLOW, main
from test_deliverer import DelivererTest as Base, event

LONG_MS = 60000  # a wait that no test here lives to see the end of


class RecoverTest(Base):
    def metric(self, name):
        return self.r.ask("deliverer-1", "status")["metrics"][name]

    def state(self, g="crm"):
        return next((x for x in self.r.ask("deliverer-1", "status")["grants"]
                     if x["endpoint"] == g), {"breaker": "closed"})

    def scheduled(self, count):
        self.s.until(lambda: self.metric("grapnel_scheduled_retries") >= count, 20 * SLOW)

    def most_in(self, seconds, requests):
        at = sorted(r.at_ms for r in requests)
        return max(sum(a <= b < a + 1000 * seconds for b in at) for a in at)


class Breaker(RecoverTest):
    def test_p9_a_failing_endpoint_gets_one_probe_at_a_time(self):
        self.rules({"status": 503, "delay_ms": 20})
        self.grant(first_wait_ms=LONG_MS, max_in_flight=8)
        for n in range(200):
            self.task(n)
        self.s.until(lambda: self.state()["breaker"] != "closed", 20 * SLOW)
        self.s.until(lambda: self.metric("grapnel_in_flight") == 0, 20 * SLOW)
        self.r.receiver.reset()
        self.rules({"status": 503, "delay_ms": 20})

        def crm():
            return self.r.receiver.stats()["paths"].get("/crm")
        self.s.until(crm, 20 * SLOW)  # a probe
        self.s.run_for(0.5)
        crm = crm()
        self.assertEqual(crm["max_in_flight"], 1)
        self.assertLess(crm["requests"], 5)
        self.assertEqual(self.metric("grapnel_breaker_opened_total"), 1)
        self.assertEqual(self.metric("grapnel_breakers_open"), 1)

    def test_p9_a_recovery_makes_scheduled_retries_due(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=LONG_MS, max_in_flight=16)
        for n in range(1, 17):
            self.task(n)
        self.scheduled(16)
        self.assertNotEqual(self.state()["breaker"], "closed")
        self.rules({"status": 200})
        self.task(100)  # the next attempt is the probe
        self.ended(*range(1, 17), 100, timeout=60)
        self.assertEqual(self.state()["breaker"], "closed")
        self.assertEqual(self.metric("grapnel_breakers_open"), 0)
        self.assertEqual(self.metric("grapnel_pulled_forward_total"), 16)
        self.assertEqual(self.tasks(), 0)
        for n in range(1, 17):  # early, and counted
            self.assertEqual([r.headers["grapnel-attempt"]
                              for r in self.requests(n, count=2)],
                             ["1", "2"])

    def down(self, count, **change):
        """Wait until the breaker is open and `count` deliveries wait for a retry."""
        self.rules({"status": 503})
        self.grant(first_wait_ms=LONG_MS, max_in_flight=16, **change)
        for n in range(1, count + 1):
            self.task(n)
        self.s.until(lambda: self.state()["breaker"] != "closed", 20 * SLOW)

    def test_p9_a_status_about_the_event_closes_the_breaker(self):
        """A 422 in response to the probe: the endpoint works again, so the other
        deliveries are tried, and not one each second."""
        self.down(40)
        self.rules({"status": 422})
        self.task(100)
        self.ended(*range(1, 41), 100, timeout=25)
        self.assertEqual(self.state()["breaker"], "closed")

    def test_p2_held_time_does_not_use_a_retry_budget(self):
        """Held for an hour: a retry from before has the budget that it had."""
        self.rules({"status": 503})
        self.s.health = (1, 0, 0, 0)
        self.grant(first_wait_ms=500, max_attempts=1000, max_duration_ms=60000)
        self.task(1)
        self.scheduled(1)
        self.d.kill()
        hour = 3600000
        with contextlib.closing(sqlite3.connect(
                self.r.state_dir / "deliverer-1.db")) as db, db:
            db.execute("UPDATE tasks SET first_ms = first_ms - ?", (hour,))
        self.s.health = (1, 0, 0, hour)
        started_ms = int(time.time() * 1000)
        self.r["deliverer-1"].start()

        def tried():
            return [r["outcome"] for r in self.s.of(event(1))
                    if r["at_ms"] >= started_ms]
        self.s.until(tried, 20 * SLOW)
        self.assertEqual(tried()[0], "retrying")

    def test_p9_a_recovery_after_a_restart_makes_scheduled_retries_due(self):
        """Retries are on disk, the breaker's state is not: the first success counts
        as the recovery."""
        self.rules({"status": 503})
        self.grant(first_wait_ms=LONG_MS, max_in_flight=16)
        for n in range(1, 17):
            self.task(n)
        self.scheduled(16)
        self.restart()
        self.scheduled(16)
        self.task(100)  # not well yet
        self.scheduled(17)
        self.rules({"status": 200})
        self.task(101)
        self.ended(*range(1, 17), 100, 101, timeout=60)
        self.assertEqual(self.metric("grapnel_pulled_forward_total"), 17)

    def test_p9_a_recovery_respects_retry_after(self):
        self.rules({"status": 503, "headers": {"Retry-After": "50"}})
        self.grant(first_wait_ms=LONG_MS)
        self.task(1)
        self.scheduled(1)
        self.rules({"status": 503})
        for n in range(2, 12):
            self.task(n)
        self.s.until(lambda: self.state()["breaker"] != "closed", 20 * SLOW)
        self.rules({"status": 200})
        self.task(100)
        self.ended(*range(2, 12), 100, timeout=30)
        self.s.run_for(0.3)
        self.assertEqual(len(self.requests(1)), 1)
        self.assertEqual(self.metric("grapnel_scheduled_retries"), 1)

    def test_p9_a_failing_delivery_is_not_made_due_twice_in_a_row(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=LONG_MS, max_in_flight=30)
        for n in range(1, 31):
            self.task(n)
        self.scheduled(30)
        self.rules({"status": 200}, {"status": 503}, per="all")
        self.task(100)  # well; and then nothing is
        self.s.until(lambda: self.metric("grapnel_breaker_opened_total") == 2,
                     20 * SLOW)
        self.scheduled(30)
        self.r.receiver.stats()  # what it holds back is written out
        twice = [n for n in range(1, 31) if len(self.requests(n)) == 2]
        self.assertGreaterEqual(len(twice), 1)
        self.assertLess(len(twice), 30)
        self.rules({"status": 200})
        self.task(200)
        self.ended(200, *(n for n in range(1, 31) if n not in twice), timeout=30)
        self.s.run_for(0.3)
        self.assertEqual(self.metric("grapnel_scheduled_retries"), len(twice))

    def test_without_a_breaker_each_retry_keeps_its_time(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=LONG_MS, breaker=0)
        for n in range(100):
            self.task(n)
        self.scheduled(100)
        self.rules({"status": 200})
        self.task(200)
        self.ended(200)
        self.s.run_for(0.3)
        self.assertEqual(self.metric("grapnel_scheduled_retries"), 100)
        self.assertEqual(self.state()["breaker"], "closed")

    def test_a_lone_delivery_keeps_its_schedule(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=200, max_attempts=12)
        self.task(1)
        r, = self.ended(1, timeout=30)
        self.assertEqual((r["attempts"], r["reason"]), (12, "budget_attempts"))
        at = [x.at_ms for x in self.requests(1, count=12)]
        for a, b in zip(at, at[1:]):
            self.assertGreaterEqual(b - a, 199)

    def test_p2_a_budget_ends_though_the_breaker_is_open(self):
        self.rules({"status": 503})
        self.grant(first_wait_ms=20, max_attempts=3)
        for n in range(60):
            self.task(n)
        for r in self.ended(*range(60), timeout=60):
            self.assertEqual((r["attempts"], r["reason"]),
                             (3, "budget_attempts"))
        self.assertEqual(len(self.requests(count=180)), 180)


class Rate(RecoverTest):
    def away_when_due(self, count, late_ms):
        """Retries that were all due at one moment, so long ago, when the
        deliverer was down; it still is."""
        self.rules({"status": 503})
        self.grant(first_wait_ms=LONG_MS, max_in_flight=count, breaker=0)
        for n in range(count):
            self.task(n)
        self.scheduled(count)
        self.d.kill()
        self.r.change("deliverer-1", "UPDATE tasks SET next_ms = ?",
                      int(time.time() * 1000) - late_ms)

    def test_p9_rate_limit_holds_during_a_recovery(self):
        self.grant(rate_count=50, rate_per_ms=1000, max_in_flight=16)
        for n in range(120):
            self.task(n)
        self.ended(*range(120), timeout=30)
        requests = self.requests(count=120)
        self.assertLessEqual(self.most_in(1, requests), 54)
        spent = requests[-1].at_ms - requests[0].at_ms
        self.assertGreaterEqual(spent, 1000 * (120 - 3) / 50 - 100)

    def test_p9_retries_after_an_outage_of_grapnel_are_spread(self):
        self.away_when_due(200, 3000)
        self.rules({"status": 200})
        self.d.start()
        self.ended(*range(200), timeout=30)
        again = [r for r in self.requests(count=400)
                 if r.headers["grapnel-attempt"] == "2"]
        self.assertEqual(len(again), 200)
        # 100 a second at first, and double that a second later.
        self.assertLessEqual(self.most_in(0.5, again[:100]), 90)

    def test_new_events_do_not_wait_for_late_retries(self):
        self.away_when_due(300, 10000)
        self.rules({"status": 200})
        self.d.start()

        def waits(n):  # as far as it was said
            said = self.s.of(event(n))
            return not said or said[-1]["outcome"] == "retrying"
        self.s.until(lambda: not waits(0) or len(self.s.results) > 300,
                     20 * SLOW)
        for n in range(1000, 1100):
            self.task(n)
        self.ended(*range(1000, 1100))
        self.assertTrue(any(map(waits, range(300))))
        self.ended(*range(300), timeout=60)


main(at_once=3)
