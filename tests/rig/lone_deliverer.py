"""A test case with one deliverer between a scripted sequencer and the rig's receiver."""

from fake_sequencer import FakeSequencer, config
from rig import SLOW, RigTest

LEASE_MS = 600 * SLOW
G = 7001  # a grant


def event(n):
    return f"evt_{n:026d}"


class DelivererTest(RigTest):
    def setUp(self):
        self.r = self.rig({"shutdown_grace": "1s"})
        self.r.run_dir.mkdir(mode=0o700, exist_ok=True)
        self.r.env["GRAPNEL_TEST_LEASE_MS"] = str(LEASE_MS)
        self.s = FakeSequencer(self.r.run_dir)
        self.addCleanup(self.s.close)
        self.d = self.r["deliverer-1"]
        self.d.start()
        self.s.until(lambda: self.s.heartbeats)

    def config(self, path="/crm", **change):
        return config(path[1:], self.r.receiver.url(path), **change)

    def grant(self, g=G, path="/crm", **change):
        self.s.grant(g, path[1:], self.config(path, **change))
        return g

    def task(self, n, g=G, path="/crm", **how):
        self.s.task(g, path[1:], event(n), **how)

    def ended(self, *numbers, timeout=15):
        """The last result of each, when all have come to an end."""
        def last(n):
            of = self.s.of(event(n))
            return of and of[-1]["outcome"] != "retrying" and of[-1]
        self.s.until(lambda: all(last(n) for n in numbers), timeout * SLOW)
        return [last(n) for n in numbers]

    def requests(self, n=None, path=None, count=0):
        """What the receiver was sent; waits for `count` of them."""
        if count:
            self.r.receiver.wait(n and event(n), count, path)
        return self.r.receiver.requests(path, n and event(n))

    def in_flight(self, count, path="/crm"):
        """Wait until the receiver has so many requests that it has not answered."""
        self.s.until(lambda: self.r.receiver.stats()["paths"].get(path, {}).get(
            "in_flight") == count, 10 * SLOW)

    def rules(self, *responses, path="/crm", per="event"):
        self.r.receiver.rules({"path": path, "per": per, "responses": responses})

    def row(self, sql):
        """The one value that a statement on its database says."""
        (row,) = self.r.rows("deliverer-1", sql)
        (value,) = row.values()
        return value

    def tasks(self):
        return self.row("SELECT count(*) FROM tasks")

    def restart(self):
        """kill -9 and start; waits for its first heartbeat."""
        self.d.kill()
        self.s.run_for(0.05)
        heartbeats = len(self.s.heartbeats)
        self.d.start()
        self.s.until(lambda: len(self.s.heartbeats) > heartbeats, 10 * SLOW)
