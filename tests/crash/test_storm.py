"""P1, P2, P3: after random kills, stops, lost disks, reloads, backups and restores, each
event is delivered or a dead letter.

Reloads also hit the first 50 ms of a start. A fifth of all events go to an endpoint that
refuses them; the others fail once. Events that were accepted between a backup and its
restore may be lost. The test prints its seed. GRAPNEL_STORM_SEED repeats one;
GRAPNEL_STORM_SECONDS (8, times the cost of sanitizers) makes it longer."""

import collections
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import SLOW, RigTest, main, wait_for
from troubled import troubled

SECONDS = float(os.environ.get("GRAPNEL_STORM_SECONDS", 2.5 * SLOW))
SEED = int(os.environ.get("GRAPNEL_STORM_SEED", random.randrange(1 << 32)))
REFUSED = ["ws-0000", "ws-0001"]  # of ten: their events also go to an endpoint
                                  # that refuses all
RATE = 40 / SLOW                  # events in a second
PAUSE_S = 0.15 * SLOW             # mean time between two acts


class Storm(RigTest):
    def setUp(self):
        print(f"\nGRAPNEL_STORM_SEED={SEED} GRAPNEL_STORM_SECONDS={SECONDS}",
              file=sys.stderr, flush=True)
        self.dice = random.Random(SEED)
        self.rig_ = rig = self.rig(deliverers=2)
        rig.config["retry_policies"][0]["max_attempts"] = 1000
        troubled(rig, REFUSED, ordered="workspace")
        rig.start()
        self.acts = collections.Counter()
        self.backups = []   # (folder, when it was begun)
        self.lost = []      # (from, to): what was accepted then may be lost
        self.due = {}       # who is down: when it starts again
        self.young = {}     # who was just started: when it gets a SIGHUP

    # what is done

    def kill(self, names, how="kill"):
        self.acts[how] += len(names)
        for name in names:
            if how == "stop" and self.rig_[name].alive:
                # One that has only just begun ends by the signal itself.
                self.assertIn(self.rig_[name].stop(), (0, -signal.SIGTERM),
                              name)
            else:
                self.rig_[name].kill()
            self.young.pop(name, None)
            self.due[name] = time.monotonic() + self.dice.uniform(0, 0.3)

    def wipe(self, name):
        self.kill([name], "wipe")
        for path in self.rig_.state_dir.glob(f"{name}.db*"):
            path.unlink()

    def everybody_up(self):
        self.go_on(everything=True)
        for daemon in self.rig_.daemons.values():
            wait_for(daemon.up, what=f"{daemon.name} to be up")

    def backup(self):
        self.everybody_up()
        begun = time.time() * 1000
        folder = self.rig_.folder / f"backup-{len(self.backups)}"
        reply, code = self.rig_.cli("backup", folder)
        self.assertEqual(code, 0, reply)
        self.backups.append((folder, begun))
        self.acts["backup"] += 1

    def restore(self, names=()):
        """Of everything, or of these; from one of the last two backups."""
        folder, begun = self.dice.choice(self.backups[-2:])
        self.kill(names or list(self.rig_.daemons), "killed to restore")
        reply, code = self.rig_.cli("restore", folder, *names)
        self.assertEqual(code, 0, reply)
        now = time.time() * 1000
        if not names or set(names) & {"ingress", "sequencer"}:
            self.lost.append((begun, now))
        self.acts["restore " + ("all" if not names else "some")] += 1

    def act(self):
        names = list(self.rig_.daemons)
        how = self.dice.random()
        if how < 0.30:
            self.kill(self.dice.sample(names, self.dice.choice([1, 1, 2])))
        elif how < 0.36:
            self.kill(names)
        elif how < 0.52:
            self.kill([self.dice.choice(names)], "stop")
        elif how < 0.60:
            self.wipe(self.dice.choice(["deliverer-1", "deliverer-2",
                                        "dlqd"]))
        elif how < 0.76:
            self.reload(self.dice.choice(names))
        elif how < 0.84:
            self.backup()
        elif how < 0.92:
            self.restore()
        else:
            self.restore(self.dice.sample(names, self.dice.choice([1, 2, 3])))

    def reload(self, name):
        if self.rig_[name].alive:
            self.rig_[name].reload()
            self.acts["reload"] += 1

    def go_on(self, everything=False):
        now = time.monotonic()
        for name, daemon in self.rig_.daemons.items():
            self.assertTrue(daemon.alive or name in self.due,
                            f"{name} ended by itself with {daemon.exit_code}")
            if name in self.due and (everything or now >= self.due[name]):
                del self.due[name]
                daemon.start(wait=False)
                if self.dice.random() < 0.3:
                    self.young[name] = now + self.dice.uniform(0, 0.05)
            if name in self.young and now >= self.young[name]:
                del self.young[name]
                self.reload(name)
                self.acts["reload at a start"] += 1

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.go_on()
            time.sleep(0.002)

    # what is judged

    def kept(self, acks, windows):
        """Those that were answered outside of all windows."""
        return [a for a in acks if a.get("status") == 200 and not any(
            begun <= a["responded_ms"] and a["sent_ms"] <= end
            for begun, end in windows)]

    def test_every_event_is_delivered_or_a_dead_letter(self):
        rig, begun = self.rig_, time.monotonic()
        load = rig.load(count=int(RATE * SECONDS), workspaces=10, size=500,
                        rate=max(1, int(RATE)), timeout=5)
        self.run_for(0.5)
        self.backup()
        while time.monotonic() - begun < SECONDS:
            self.run_for(self.dice.expovariate(1 / PAUSE_S))
            self.act()
        self.everybody_up()
        wait_for(lambda: self.go_on() or not load.alive, 120,
                 "the load to end")
        self.everybody_up()
        last = rig.load(count=20, workspaces=10, first=100000)
        last.result()
        rig.settle()
        acks = load.acks() + last.acks()
        self.judge(acks)
        print(f"{dict(self.acts)}; {len(acks)} accepted, "
              f"{len(self.kept(acks, self.lost))} of them not between a backup "
              f"and its restore; {time.monotonic() - begun:.0f} s",
              file=sys.stderr)

    def judge(self, acks):
        rig = self.rig_
        kept = self.kept(acks, self.lost)
        self.assertGreater(len(kept), 20)
        ids = {a["id"] for a in kept}
        for name in ("crm", "audit"):
            self.assertEqual(ids - set(rig.receiver.delivered(f"/{name}")),
                             set(), f"not delivered to {name}")
        rows = rig.rows("sequencer", """
            SELECT e.id, p.name, d.status FROM events e
            JOIN deliveries d ON d.event = e.n
            JOIN endpoints p ON p.id = d.endpoint""")
        self.assertEqual(ids - {r["id"] for r in rows}, set(), "not known")
        self.assertEqual({(r["name"], r["status"]) for r in rows},
                         {("crm", 3), ("audit", 3), ("legal", 4)})
        dead_letters = {r["event_id"] for r in rig.rows(
            "dlqd", "SELECT event_id FROM dead_letters WHERE endpoint = 'legal'")}
        refused = {a["id"] for a in kept if a["workspace"] in REFUSED}
        self.assertEqual(refused - dead_letters, set(), "no dead letter")


if __name__ == "__main__":
    main()
