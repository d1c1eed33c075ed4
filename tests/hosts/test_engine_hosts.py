"""The hosts of the engine, which other tests of this folder break, do what those tests need: no acknowledged commit is lost
with a host, and clients find the server that can be written to."""

import pathlib
import subprocess
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "rig")]
from engine import PORT, Engine
from network import make_network
from postgres import prepare, programs
from rig import main, wait_for

HOSTS = ["db1", "db2", "db3"]


class EngineHosts(unittest.TestCase):
    def setUp(self):
        self.network = make_network(["a", "b", *HOSTS, "world"], "world", {host: [PORT] for host in HOSTS})
        self.addCleanup(self.network.close)
        self.engine = Engine(self.network, HOSTS)
        self.addCleanup(self.engine.close)
        self.engine.sql("CREATE TABLE said (n int); GRANT ALL ON said TO grapnel")

    def client(self, host, sql, limit_s=60):
        """What a client on that host is told by the first server that can be written to; None: it got no reply within the
        limit, or there is none. It tries each by itself: libpq gives a list up when a server closes a connection."""
        for server in HOSTS:
            try:
                done = subprocess.run(
                    ["psql", "-X", "-q", "-t", "-A", f"{self.engine.database(host, [server])} connect_timeout=2", "-c", sql],
                    preexec_fn=self.network.enter(host), capture_output=True, text=True, timeout=limit_s)
            except subprocess.TimeoutExpired:
                return None
            if done.returncode == 0:
                return done.stdout
        return None

    def write(self, host, n):
        return self.client(host, f"INSERT INTO said VALUES ({n})") is not None

    def said(self):
        return [int(n) for n in self.engine.sql("SELECT n FROM said ORDER BY n")]

    def test_nothing_acknowledged_is_lost_when_the_primary_is_lost_again_and_again(self):
        told = []
        for n in range(3):
            told += [m for m in range(10 * n, 10 * n + 5) if self.write("a", m)]
            former = self.engine.primary
            self.assertNotEqual(self.engine.fail_over(), former)
            self.assertTrue(self.write("b", 10 * n + 5))
            told.append(10 * n + 5)
            self.engine.come_back(former)
            self.engine.wait_whole()
        self.assertEqual(len(told), 18)
        self.assertEqual(self.said(), told)

    def test_all_of_it_comes_back_after_it_was_lost(self):
        self.assertTrue(self.write("a", 1))
        self.engine.lose()
        self.assertFalse(self.write("a", 2))
        self.engine.come_back()
        self.engine.wait_whole()
        self.assertTrue(self.write("a", 3))
        self.assertEqual(self.said(), [1, 3])

    def test_it_goes_on_without_one_standby_and_acknowledges_nothing_without_both(self):
        one, other = self.engine.standbys
        self.engine.lose(one)
        self.assertTrue(self.write("a", 1))
        self.engine.lose(other)
        self.assertIsNone(self.client("a", "INSERT INTO said VALUES (2)", limit_s=3))
        self.engine.come_back()
        self.engine.wait_whole()
        self.assertTrue(self.write("a", 3))
        self.assertEqual({1, 3} - set(self.said()), set())

    def test_a_host_that_is_cut_off_from_it_gets_no_reply_and_others_do(self):
        for host in HOSTS:
            for pair in (("a", host), (host, "a")):
                self.network.way(*pair).set(is_cut=True)
        self.assertFalse(self.write("a", 1))
        self.assertTrue(self.write("b", 2))
        for host in HOSTS:
            for pair in (("a", host), (host, "a")):
                self.network.way(*pair).set()
        wait_for(lambda: self.write("a", 3), what="the host to reach it again")
        self.assertEqual(self.said(), [2, 3])

    def test_the_clock_of_one_server_is_off(self):
        def now():
            return int(self.engine.sql("SELECT extract(epoch FROM clock_timestamp())::bigint")[0])
        real = now()
        self.assertTrue(self.write("a", 1))
        for by_s in (3600, -3600):
            self.engine[self.engine.primary].step_clock(by_s)
            self.assertAlmostEqual(now() - real, by_s, delta=300)
            self.engine.wait_whole()
            self.assertTrue(self.write("a", by_s))
        self.engine.fail_over()
        self.engine.come_back()
        self.engine.wait_whole()
        self.assertTrue(self.write("a", 2))
        self.assertEqual(self.said(), [-3600, 1, 2, 3600])

    def test_a_primary_that_is_cut_off_from_its_standbys_acknowledges_nothing(self):
        primary = self.engine.primary
        for standby in self.engine.standbys:
            for pair in ((primary, standby), (standby, primary)):
                self.network.way(*pair).set(is_cut=True)
        self.assertIsNone(self.client("a", "INSERT INTO said VALUES (1)", limit_s=3))
        self.engine.fail_over()
        self.assertTrue(self.write("a", 2))
        self.assertEqual(self.said(), [2])


if __name__ == "__main__":
    if programs():
        prepare()
    main(at_once=3)
