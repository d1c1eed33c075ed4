"""A deliverer isolates tasks that crash it, and keeps lanes in order when its lease
expires. P3, P5."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import SLOW, main
from test_deliverer import LEASE_MS, DelivererTest, event

POISON = 66


class CareTest(DelivererTest):
    def path(self, name):
        return self.r.receiver.stats()["paths"].get(
            name, {"requests": 0, "max_in_flight": 0})

    def came(self, name, count):
        self.s.until(lambda: self.path(name)["requests"] >= count, 20 * SLOW)

    def until_dead(self, n, path, most):
        """kill -9 whenever this one's request has come; how often, until it is
        dead."""
        for crashes in range(1, most + 1):
            self.came(path, crashes)
            self.restart()
            self.s.until(lambda: self.path(path)["requests"] > crashes or
                         self.s.of(event(n)), 20 * SLOW)
            if self.s.of(event(n)):
                return crashes
        self.fail(f"not dead after {most} crashes")


class Crashing(CareTest):
    def test_p3_a_task_that_crashes_its_deliverer_twice_is_a_dead_letter(self):
        self.r.receiver.rules(
            {"path": "/poison", "responses": [{"action": "blackhole"}]},
            {"path": "/hole", "per": "event", "responses": [
                {"action": "blackhole"}, {"status": 200}]})
        self.grant(1, "/poison", timeout_ms=60000)
        self.grant(2, "/hole", timeout_ms=60000)
        for n in range(1, 9):
            self.task(n, 2, "/hole")
        self.came("/hole", 8)
        self.task(POISON, 1, "/poison")
        crashes = self.until_dead(POISON, "/poison", 10)
        self.assertGreaterEqual(crashes, 3)  # in company, and twice alone
        dead, = self.s.of(event(POISON))
        self.assertEqual((dead["outcome"], dead["reason"]),
                         ("dead", "crashed_deliverer"))
        self.assertTrue(dead["error"])
        self.assertEqual({r["outcome"] for r in self.ended(*range(1, 9))},
                         {"delivered"})
        self.assertEqual(self.tasks(), 0)
        self.restart()  # it has ended: nothing is known of it any more
        self.task(9, 2, "/hole")
        self.came("/hole", 17)
        self.assertEqual(len(self.s.of(event(POISON))), 1)

    def test_p3_a_scheduled_retry_that_crashes_its_deliverer_is_a_dead_letter(self):
        self.r.receiver.rules({"path": "/poison", "per": "all", "responses": [
            {"status": 503}, {"action": "blackhole"}]})
        self.grant(1, "/poison", timeout_ms=60000, first_wait_ms=100)
        self.task(POISON, 1, "/poison")
        self.came("/poison", 2)
        self.s.until(lambda: self.s.results, 20 * SLOW)
        self.s.results.clear()  # a retry is scheduled
        crashes = 1
        while not self.s.results and crashes < 10:
            self.restart()
            crashes += 1
            self.s.until(lambda: self.path("/poison")["requests"] > crashes or
                         self.s.results, 20 * SLOW)
        dead, = self.s.results
        self.assertEqual((dead["reason"], dead["attempts"]),
                         ("crashed_deliverer", 2))
        self.assertEqual(self.tasks(), 0)

    def test_p3_the_file_of_0_2_0_is_read_under_its_old_name(self):
        self.r.receiver.rules({"path": "/poison", "responses": [
            {"action": "blackhole"}]})
        self.grant(1, "/poison", timeout_ms=60000)
        self.task(POISON, 1, "/poison")
        crashes = 0
        while not self.s.results and crashes < 10:
            crashes += 1
            self.came("/poison", crashes)
            self.d.kill()
            (self.r.state_dir / "deliverer-1.inflight").rename(
                self.r.state_dir / "deliverer-1.flying")
            self.d.start()
            self.s.until(lambda: self.path("/poison")["requests"] > crashes or
                         self.s.results, 20 * SLOW)
        dead, = self.s.results
        self.assertEqual(dead["reason"], "crashed_deliverer")
        self.assertFalse((self.r.state_dir / "deliverer-1.flying").exists())

    def test_tasks_in_flight_at_a_crash_are_tried_one_by_one(self):
        self.r.receiver.rules({"path": "/hole", "per": "event", "responses": [
            {"action": "blackhole"}, {"status": 200, "delay_ms": 20}]})
        self.grant(1, "/hole", timeout_ms=60000, max_in_flight=32)
        for n in range(32):
            self.task(n, 1, "/hole")
        self.came("/hole", 32)
        self.assertEqual(self.path("/hole")["max_in_flight"], 32)
        self.d.kill()
        self.r.receiver.reset()
        self.r.receiver.rules({"path": "/hole", "responses": [
            {"status": 200, "delay_ms": 20}]})
        self.d.start()
        self.ended(*range(32))
        # One each 100 ms at the least: a few, on the slowest of machines.
        self.assertLessEqual(self.path("/hole")["max_in_flight"], 4)

    def test_tasks_of_an_ended_grant_do_not_delay_others(self):
        self.r.receiver.rules({"path": "/hole", "responses": [
            {"action": "blackhole"}]})
        self.grant(1, "/hole", timeout_ms=60000)
        self.grant(2)
        for n in range(10):
            self.task(n, 1, "/hole")
        self.came("/hole", 10)
        self.d.kill()
        del self.s.grants[1]  # ended meanwhile
        self.d.start()
        self.task(100, 2)
        self.ended(100)
        self.assertEqual(self.path("/hole")["requests"], 10)

    def test_slow_quarantined_tasks_delay_others_only_briefly(self):
        self.r.receiver.rules({"path": "/hole", "responses": [
            {"action": "blackhole"}]})
        self.grant(1, "/hole", timeout_ms=300000)
        self.grant(2)
        for n in range(20):
            self.task(n, 1, "/hole")
        self.came("/hole", 20)
        self.d.kill()
        self.d.start()
        self.task(100, 2)
        self.ended(100)  # long before any of those ends
        self.came("/hole", 40)


class Lanes(CareTest):
    def test_p5_a_lane_s_request_is_aborted_when_the_lease_expires(self):
        self.r.receiver.rules({"path": "/*", "responses": [
            {"action": "blackhole"}]})
        self.grant(1, "/lane", timeout_ms=60000, ordered=1)
        self.grant(2, "/crm", timeout_ms=60000)
        self.task(1, 1, "/lane")
        self.task(2, 2)
        self.came("/lane", 1)
        self.came("/crm", 1)
        self.s.heartbeat_acks = False
        self.s.until(lambda: self.s.of(event(1)), 30 * SLOW)
        r, = self.s.of(event(1))
        self.assertEqual((r["outcome"], r["attempts"]), ("released", 1))
        self.assertIn("lease", r["error"])
        self.s.run_for(LEASE_MS / 1000)
        self.assertEqual(self.s.of(event(2)), [])
        self.assertEqual(self.path("/lane")["requests"], 1)
        self.d.kill()

    def test_p5_never_two_of_one_lane_at_once(self):
        self.r.receiver.rules({"path": "/*", "responses": [
            {"status": 200, "delay_ms": 30}]})
        self.grant(1, "/lanes", ordered=1)
        self.grant(2, "/all", ordered=2)
        for n in range(10):
            self.task(n, 1, "/lanes")
            self.task(100 + n, 2, "/all", workspace=f"ws-{n}")
        self.ended(*range(10), *range(100, 110))
        self.assertEqual(self.path("/lanes")["max_in_flight"], 1)
        self.assertEqual(self.path("/all")["max_in_flight"], 1)

    def test_lanes_do_not_slow_each_other(self):
        self.r.receiver.rules({"path": "/*", "responses": [
            {"status": 200, "delay_ms": 300}]})
        self.grant(1, "/lanes", ordered=1, max_in_flight=20)
        for n in range(20):
            self.task(n, 1, "/lanes", workspace=f"ws-{n}")
        self.ended(*range(20))
        self.assertGreater(self.path("/lanes")["max_in_flight"], 10)


main(at_once=3)
