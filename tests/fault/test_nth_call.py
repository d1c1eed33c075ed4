"""P1, P2, P3: after a failure of the Nth write, sync, open, accept, connect or malloc, a
process continues or ends with a documented exit code, and no accepted event is lost.

N rises until a run makes fewer calls than that. All of them take an hour, so the test
draws some: GRAPNEL_FAULTS (24) says how many, `all` takes them in order;
GRAPNEL_FAULTS_SEED repeats a draw; GRAPNEL_FAULTS_ONE=ingress:write:28:7 takes one.
Failures of malloc need programs without sanitizers: those of build/dev, if there are."""

import errno
import json
import os
import pathlib
import random
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import rig as rigs
from checker import event_number
from rig import RigTest, main, program, wait_for

COUNT = os.environ.get("GRAPNEL_FAULTS", "24")
ONE = os.environ.get("GRAPNEL_FAULTS_ONE")
SEED = int(os.environ.get("GRAPNEL_FAULTS_SEED", 4711))
PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]
SHORT = 0  # half of the bytes are written
FAULTS = {
    "write": [errno.EIO, errno.ENOSPC, errno.EINTR, SHORT],
    "sync": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "open": [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EINTR],
    "accept": [errno.EMFILE, errno.ENOMEM, errno.ECONNABORTED, errno.EINTR],
    "connect": [errno.ECONNREFUSED, errno.EMFILE, errno.ENETUNREACH],
}
MOST = {"write": 90, "sync": 30, "open": 16, "accept": 4, "connect": 8}
# 69: a socket can't be had; 74: storage. libzmq 4.3.4 ends the process by abort() when
# it can't accept or open a connection for a reason that it does not expect, such as
# EMFILE at an ipc address. It names its source file then. CZMQ does the same when there is
# no memory, or no descriptor, for a socket.
ENDS = {0, 69, 74}
ABORTED = -6
LIBRARY_ENDS = {"accept", "connect", "malloc"}
WHY = re.compile(r"^\S+ error |\(src/\w+\.cpp:\d+\)|src/z\w+\.c:\d+: |out of memory|bad_alloc", re.M)


class NthCall(RigTest):
    def pipeline(self):
        rig = self.rig(console=True)
        rig.config["endpoints"] = [rig.endpoint("crm"), rig.endpoint("legal")]
        rig.write_config()
        rig.receiver.rules(
            {"path": "/crm", "per": "event", "responses": [
                {"status": 503}, {"status": 200}]},
            {"path": "/legal", "responses": [{"status": 400}]})
        self.hit = rig.folder / "hit"
        self.acked = []
        self.deaths = 0
        return rig.start()

    def fault_env(self, rig, call, error, n):
        return {"LD_PRELOAD": program("rig-faults.so"),
                "RIG_FAULT": f"{call}:{error}:{n}",
                "RIG_FAULT_HIT": str(self.hit),
                "RIG_FAULT_FILES": str(rig.state_dir),
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                + ":verify_asan_link_order=0"}

    def post(self, rig, victim, body):
        """Until it gets 200, as a provider does; or the victim is dead."""
        while victim.alive:
            try:
                status, _, response = rig.post(body)
            except OSError:
                status = None
            if status == 200:
                self.acked.append(response["id"])
                return True
            time.sleep(0.02)
        return False

    def is_done(self, rig, numbers):
        """Compares bodies, not ids: a request that was stored and not answered is
        accepted once more, as a duplicate."""
        gone = {event_number(r) for r in rig.receiver.requests("/crm")
                if r.delivered}
        dead_letters = {x["event_id"] for x in rig.facts()[2]}
        dead = {event_number(r) for r in rig.receiver.requests("/legal")
                if r.id in dead_letters}
        return all(n in gone and n in dead for n in numbers)

    def try_one(self, rig, name, call, error, n):
        """true: the call was made so often, and failed."""
        what = f"{name}:{call}:{error}:{n}"
        victim = rig[name]
        said = len(victim.log())
        self.hit.unlink(missing_ok=True)
        victim.stop()
        victim.start(wait=False, env=self.fault_env(rig, call, error, n))
        wait_for(victim.settled, what=what)
        bodies = [rig.plane_body() for _ in range(2)]
        numbers = [json.loads(b)["data"]["n"] for b in bodies]
        while bodies and self.post(rig, victim, bodies[0]):
            bodies.pop(0)
        wait_for(lambda: not victim.alive or self.is_done(rig, numbers), 60,
                 f"{what}: rest")
        code = victim.exit_code if not victim.alive else victim.stop()
        ends = ENDS | ({ABORTED} if call in LIBRARY_ENDS else set())
        self.assertIn(code, ends, f"{what}: {victim.log()[said:][-2000:]}")
        if code:
            self.deaths += 1
            self.assertTrue(self.hit.exists(), f"{what}: ended with {code}")
            if (call, code) != ("malloc", ABORTED):  # it may be too late for words
                self.assertRegex(victim.log()[said:], WHY, f"{what}: no word")
        victim.start()
        for body in bodies:
            self.assertTrue(self.post(rig, victim, body))
        wait_for(lambda: self.is_done(rig, numbers), 60, f"{what}: rest after")
        return self.hit.exists()

    def judge(self, rig):
        rig.settle()
        events, deliveries, dead_letters = rig.facts()
        numbers = [(e["workspace"], e["sequence"]) for e in events
                   if e["sequence"] is not None]
        self.assertEqual(len(numbers), len(set(numbers)))
        known = {e["id"] for e in events}
        self.assertEqual([e for e in self.acked if e not in known], [])
        series = {r.headers["grapnel-series"] for r in rig.receiver.requests()}
        self.assertEqual(len(series), 1, "a fault is not a restore")

    def test_a_failing_call_loses_no_event(self):
        """P1, P2, P3."""
        rig = self.pipeline()
        if ONE:
            name, call, error, n = ONE.split(":")
            self.try_one(rig, name, call, int(error), int(n))
        elif COUNT == "all":
            self.try_all(rig)
        else:
            self.draw(rig, int(COUNT))
        self.judge(rig)

    def try_all(self, rig):
        for name in PROCESSES:
            for call, errors in FAULTS.items():
                for error in errors:
                    n = 1
                    while self.try_one(rig, name, call, error, n):
                        n += 1
                    print(f"{name} {call} {os.strerror(error) if error else 'half'}"
                          f": {n - 1} calls, {self.deaths} ends so far",
                          file=sys.stderr, flush=True)

    def draw(self, rig, count):
        print(f"\nGRAPNEL_FAULTS_SEED={SEED}", file=sys.stderr, flush=True)
        dice = random.Random(SEED)
        hits = 0
        while hits < count:
            call = dice.choice(list(FAULTS))
            n = dice.randint(1, MOST[call])
            hits += self.try_one(rig, dice.choice(PROCESSES), call,
                                 dice.choice(FAULTS[call]), n)
        print(f"{hits} calls failed, {self.deaths} processes ended by it",
              file=sys.stderr)


class Memory(NthCall):
    def setUp(self):
        dev = rigs.BUILD.parent / "dev"
        if not (dev / "bin/rig-faults.so").exists():
            self.skipTest("needs programs without sanitizers: build preset dev")
        self.addCleanup(setattr, rigs, "BUILD", rigs.BUILD)
        rigs.BUILD = dev

    def test_a_failing_allocation_loses_no_event(self):
        """P3: memory that can't be had."""
        print(f"\nGRAPNEL_FAULTS_SEED={SEED}", file=sys.stderr, flush=True)
        rig = self.pipeline()
        dice = random.Random(SEED)
        hits = 0
        while hits < int(COUNT if COUNT != "all" else 500):
            n = int(10 ** dice.uniform(0, 4.5))
            hits += self.try_one(rig, dice.choice(PROCESSES), "malloc",
                                 errno.ENOMEM, n)
        self.judge(rig)


main()
