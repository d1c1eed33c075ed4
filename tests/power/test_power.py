"""P1, P2, P3, P4: power cuts of one process or all under load lose no event that was
answered with 200, and no sequence is given twice.

At each cut the processes end in one moment, and their disk gets a content that it could
have had then (disk.py). The test prints its seed. GRAPNEL_POWER_SEED repeats one;
GRAPNEL_POWER_SECONDS (30) and GRAPNEL_POWER_CUTS (no bound) set the length."""

import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import checker
from disk import Disk
from rig import PLANE_SECRET, RigTest, main, program, wait_for

SECONDS = float(os.environ.get("GRAPNEL_POWER_SECONDS", 30))
CUTS = int(os.environ.get("GRAPNEL_POWER_CUTS", 1 << 30))
SEED = int(os.environ.get("GRAPNEL_POWER_SEED", random.randrange(1 << 32)))
ONE = 0.3         # share of the cuts that one process alone suffers
WORKSPACES = 20
EVENTS = 1 << 30  # the load ends with the cuts
RATE = 400


class Power(RigTest):
    def pipeline(self, **env):
        rig = self.rig()
        journals = rig.folder / "journals"
        journals.mkdir()
        rig.state_dir.mkdir(mode=0o700, exist_ok=True)
        rig.env.update({
            "GRAPNEL_TEST_LEASE_MS": "500",
            "LD_PRELOAD": program("rig-power.so"),
            "RIG_POWER": str(journals), "RIG_POWER_STATE": str(rig.state_dir),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":verify_asan_link_order=0", **env})
        rig.config["endpoint_defaults"] = {"timeout": "1s",
                                           "connect_timeout": "500ms"}
        rig.config["endpoints"] = [
            rig.endpoint("crm"), rig.endpoint("books", ordered="workspace"),
            rig.endpoint("legal", workspaces=["ws-0000"])]
        rig.write_config()
        rig.receiver.rules(
            {"path": "/crm", "per": "event", "responses": [
                {"status": 503}, {"status": 200}]},
            {"path": "/legal", "responses": [{"status": 400}]})
        self.disk = Disk(rig.state_dir, journals)
        return rig.start()

    def cut(self, rig, dice):
        """Returns the name of the one, or "" for all."""
        name = dice.choice(list(rig.daemons)) if dice.random() < ONE else ""
        victims = [rig[name]] if name else list(rig.daemons.values())
        for daemon in victims:
            daemon.asked_to_end = True
            if daemon.alive:
                daemon.child.kill()
        for daemon in victims:
            daemon.kill()
        self.disk.cut(dice, name and name + ".")
        return name

    def suffer(self, rig, dice):
        """Cuts under load, until the time has expired. The load's acknowledgements,
        and how many cuts."""
        load = rig.load(count=EVENTS, workspaces=WORKSPACES, size=500,
                        rate=RATE, timeout=5)
        end, cuts = time.monotonic() + SECONDS, 0
        while time.monotonic() < end and cuts < CUTS:
            time.sleep(dice.uniform(0.05, 1.5))
            self.cut(rig, dice)
            cuts += 1
            # Sometimes the power goes again before all of them are up.
            rig.start() if dice.random() < 0.7 else [
                d.start(wait=False) for d in rig.daemons.values()
                if not d.alive]
        for daemon in rig.daemons.values():
            if not daemon.alive:
                daemon.start(wait=False)
        for daemon in rig.daemons.values():
            wait_for(daemon.up, what=f"{daemon.name} to be up")
        load.stop()
        return load.acks(), cuts

    def test_a_power_cut_loses_no_request_that_was_answered_200(self):
        """P1, P2, P3, P4."""
        print(f"\nGRAPNEL_POWER_SEED={SEED}", file=sys.stderr, flush=True)
        dice = random.Random(SEED)
        rig = self.pipeline()
        acks, cuts = self.suffer(rig, dice)
        rig.settle(90)
        taken = [a for a in acks if a.get("status") == 200]
        print(f"{cuts} power cuts, {len(taken)} events that got 200",
              file=sys.stderr)
        self.assertGreater(len(taken), 50, "too little load")
        events, deliveries, dead_letters = rig.facts()
        checker.check_stores(acks, events, deliveries, dead_letters).require()
        legal = [a for a in acks if a["workspace"] == "ws-0000"]
        for name, asked in {"crm": acks, "books": acks,
                            "legal": legal}.items():
            ended = {x["event_id"] for x in dead_letters if x["endpoint"] == name}
            verdict = checker.check(asked, rig.receiver.requests(f"/{name}"),
                                    PLANE_SECRET, ended=ended,
                                    ordered=name == "books").require()
            print(f"{name}: {verdict}", file=sys.stderr)
        self.assertEqual({(x["endpoint"], x["reason"]) for x in dead_letters},
                         {("legal", "rejected")})
        self.assertEqual(len({r.headers["grapnel-series"]
                              for r in rig.receiver.requests()}), 1)
        for row in rig.cli("status")[0]:
            for link in row["links"]:
                self.assertEqual(
                    (link["lost"], link["set_back"], link["unprocessable"]),
                    (0, 0, 0), (row["process"], link))

    def test_a_disk_that_ignores_syncs_is_detected(self):
        """The negative control: this test can fail."""
        rig = self.pipeline(RIG_POWER_FORGETS="1")
        acked = [rig.accept() for _ in range(20)]
        rig.settle()
        for daemon in rig.daemons.values():
            daemon.kill()
        self.disk.catch_up()
        for file in {id(f): f for f in self.disk.names.values()}.values():
            file.pending.clear()  # the worst case
        self.disk.cut(random.Random(1))
        rig.start()
        known = {e["id"] for e in rig.facts()[0]}
        archived = {r["event_id"] for r in rig.rows(
            "ingress", "SELECT event_id FROM archive")}
        self.assertFalse(known & set(acked) or archived & set(acked),
                         "the lie was not noticed")


main()
