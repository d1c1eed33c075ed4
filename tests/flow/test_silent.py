"""Failures that make no noise: a silent source, a new kind of refused request, another mix of
statuses, and dead letters, with the rules that are built in."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

DAY_MS = 24 * 3600 * 1000
OTHERS = ["dlq-warning", "dlq-critical", "dlq_growth_rate", "dlq_expiring", "webhook_backlog",
          "webhook_delivery_failure_rate", "webhook_retry_failure_rate", "high_e2e_latency",
          "sequence_gaps", "lanes_halted", "endpoint_disabled", "endpoint_held", "endpoint_failing",
          "endpoint_waiting", "high_duplicate_rate", "signature_failures", "process_silent",
          "disk_low", "damaged_data", "standby_not_ready", "standby_behind", "active_alone",
          "log_unreachable", "engine_slow"]


class Silent(RigTest):
    def with_built_in(self, **more):
        rig = self.rig({"alerts": [{"name": n, "when": "dead_letters", "above": 0, "enabled": False}
                                   for n in OTHERS], **more}, console=True)
        rig.config["notifiers"] = [{"name": "ops", "webhook": rig.receiver.url("/ops"),
                                    "allow_private": True}]
        rig.write_config()
        rig.receiver.rules({"path": "/ops", "responses": [{"status": 200}]},
                           {"path": "/crm", "responses": [{"status": 200}]})
        return rig.start()

    def told(self, rig, name):
        """The alerts of this name in what the notifier got, each once."""
        bodies = {r.id: r.json() for r in rig.receiver.requests("/ops") if r.delivered}
        return [a for b in bodies.values() for a in b["alerts"] if a["name"] == name]

    def looks(self, rig, n=4):
        """Some more evaluations, and all that they cause."""
        def seen():
            return rig.rows("console", "SELECT max(seen_ms) AS t FROM learned_sources")[0]["t"]
        for _ in range(n):
            before = seen()
            wait_for(lambda: seen() != before, what="another look at the sources")
        wait_for(lambda: rig.number("grapnel_notifications_waiting") == 0)

    def know(self, rig):
        """The console has seen an event of plane."""
        rig.wait_status(rig.accept())
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_sources WHERE source = 'plane' "
                                  "AND event_ms > 0"))

    def learn(self, rig, per_hour):
        """As if plane had sent so many events an hour for a month."""
        self.know(rig)
        rig["console"].stop()
        rig.change("console", "UPDATE learned_sources SET learned_ms = ?, expected = 0, missing = 0",
                   30.0 * DAY_MS)
        rig.change("console", "INSERT OR REPLACE INTO learned_hours(source, rates) VALUES('plane', ?)",
                   struct.pack("<672f", *[per_hour] * 672))

    def watch(self, rig, days):
        """As if plane had been watched for so long."""
        rig["console"].stop()
        rig.change("console", "UPDATE learned_sources SET learned_ms = ? WHERE source = 'plane'",
                   float(days * DAY_MS))
        rig["console"].start()
        wait_for(lambda: rig.number("grapnel_up", process="ingress"))

    def firing(self, rig, name):
        return [a for a in rig.cli("alerts")[0] if (a["name"], a["state"]) == (name, "firing")]

    # ---- a source ----

    def test_a_silent_source_is_found_over_restarts_and_ends_with_its_next_event(self):
        rig = self.with_built_in()
        self.learn(rig, 36000)
        rig["console"].start()
        # Killed on the way; what is missing so far is on disk.
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_sources WHERE expected > 5"))
        rig["console"].kill()
        [row] = rig.rows("console", "SELECT expected FROM learned_sources WHERE source = 'plane'")
        self.assertGreater(row["expected"], 5)
        rig["console"].start()
        alert, = wait_for(lambda: self.told(rig, "unusual_silence"), timeout=30)
        self.assertEqual((alert["source"], alert["state"], alert["above"]), ("plane", "firing", 20))
        self.assertGreater(alert["value"], 20)
        wait_for(lambda: (rig.number("grapnel_source_missing_events", source="plane") or 0) > 20)
        rig["console"].restart()
        self.looks(rig)
        self.assertEqual(len(self.told(rig, "unusual_silence")), 1)
        listed, = self.firing(rig, "unusual_silence")
        self.assertEqual(listed["subject"], "plane")
        self.assertIn("would usually have sent", listed["summary"])
        rig.accept()
        wait_for(lambda: [a["state"] for a in self.told(rig, "unusual_silence")]
                 == ["firing", "resolved"])

    def test_an_outage_of_ingress_is_not_the_silence_of_a_source(self):
        rig = self.with_built_in()
        self.learn(rig, 360000)
        rig["ingress"].kill()
        rig["console"].start()
        wait_for(lambda: rig.number("grapnel_up", process="sequencer"))
        frames = wait_for(lambda: rig.number("grapnel_console_frames_total"))
        wait_for(lambda: rig.number("grapnel_console_frames_total") > frames + 30)
        [row] = rig.rows("console", "SELECT expected FROM learned_sources WHERE source = 'plane'")
        self.assertEqual(row["expected"], 0)
        self.assertEqual(self.firing(rig, "unusual_silence"), [])
        rig["ingress"].start()
        wait_for(lambda: self.told(rig, "unusual_silence"), timeout=30)

    def test_an_event_that_came_while_the_console_was_down_ends_a_silence(self):
        rig = self.with_built_in()
        self.learn(rig, 36000)
        rig.change("console", "UPDATE learned_sources SET expected = 19")
        rig.wait_status(rig.accept())
        rig["console"].start()
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_sources WHERE source = 'plane' "
                                  "AND longest > 15 AND expected < 15"))

    # ---- refused requests ----

    def refuse(self, rig, **headers):
        rig.post(b"{}", headers={k.replace("_", "-"): v for k, v in headers.items()})

    def test_a_new_kind_of_refused_request_is_reported_once_a_week(self):
        rig = self.with_built_in()
        self.know(rig)
        self.watch(rig, 8)
        self.refuse(rig, X_Plane_Signature="0" * 64)
        wait_for(lambda: self.told(rig, "new_refusal"))
        # The same again is not new; another one is.
        self.refuse(rig, X_Plane_Signature="0" * 64)
        self.looks(rig)
        self.assertEqual(len(self.told(rig, "new_refusal")), 1)
        self.refuse(rig)
        first, second = wait_for(lambda: (t := self.told(rig, "new_refusal")) and len(t) == 2 and t)
        self.assertEqual((first["source"], first["state"]), ("plane", "firing"))
        self.assertIn("signature_mismatch", first["summary"])
        self.assertIn("signature_missing", second["summary"])
        # An hour later it is over; a week later it would be new.
        rig["console"].stop()
        rig.change("console", "UPDATE learned_refusals SET new_ms = new_ms - 3700000")
        rig["console"].start()
        wait_for(lambda: [a["state"] for a in self.told(rig, "new_refusal")][2:] == ["resolved"])
        self.refuse(rig)
        self.looks(rig)
        self.assertEqual(len(self.told(rig, "new_refusal")), 3)
        rig["console"].stop()
        rig.change("console", "UPDATE learned_refusals SET seen_ms = seen_ms - ?", 8 * DAY_MS)
        rig["console"].start()
        wait_for(lambda: rig.number("grapnel_up", process="ingress"))
        self.refuse(rig)
        wait_for(lambda: [a["state"] for a in self.told(rig, "new_refusal")][3:] == ["firing"])

    def test_what_is_usual_for_a_source_is_learned_before_a_refusal_is_new(self):
        rig = self.with_built_in()
        self.know(rig)
        self.watch(rig, 6)
        self.refuse(rig, X_Plane_Signature="0" * 64)
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_refusals WHERE new_ms = 0"))
        self.watch(rig, 8)
        self.refuse(rig, X_Plane_Signature="0" * 64)
        self.looks(rig)
        self.assertEqual(self.told(rig, "new_refusal"), [])
        self.refuse(rig)
        alert, = wait_for(lambda: self.told(rig, "new_refusal"))
        self.assertIn("signature_missing", alert["summary"])
        self.assertNotIn("signature_mismatch", alert["summary"])

    def test_a_source_that_never_worked_has_no_new_refusals(self):
        rig = self.with_built_in()
        wait_for(lambda: rig.number("grapnel_up", process="ingress"))
        self.refuse(rig, X_Plane_Signature="0" * 64)
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_refusals WHERE new_ms = 0"))
        self.know(rig)
        self.watch(rig, 8)
        self.refuse(rig, X_Plane_Signature="0" * 64)
        self.looks(rig)
        self.assertEqual(self.told(rig, "new_refusal"), [])

    # ---- statuses ----

    def test_another_mix_of_statuses_is_reported(self):
        rig = self.with_built_in()
        rig.config["endpoints"][0]["guard"] = False
        rig.write_config()
        rig.cli("reload")
        wait_for(lambda: rig.number("grapnel_up", process="deliverer-1"))
        rig.wait_status(rig.accept())
        wait_for(lambda: rig.rows("console", "SELECT 1 FROM learned_endpoints WHERE endpoint = 'crm'"))
        self.assertEqual(rig.number("grapnel_endpoint_responses_total",
                                    **{"endpoint": "crm", "class": "2xx"}), 1)
        rig["console"].stop()
        past = [[0] * 5, [0] * 5, [10000, 0, 20, 10, 5], [0, 0, .01, .01, 0], [0] * 5]
        rig.change("console", "UPDATE learned_endpoints SET learned_ms = ?, counts = ?", 30.0 * DAY_MS,
                   struct.pack("<25d", *[n for each in past for n in each]))
        rig["console"].start()
        wait_for(lambda: rig.number("grapnel_up", process="deliverer-1"))
        rig.receiver.rules({"path": "/ops", "responses": [{"status": 200}]},
                           {"path": "/crm", "responses": [{"status": 302}]})
        for _ in range(40):
            rig.accept()
        alert, = wait_for(lambda: self.told(rig, "status_mix"), timeout=30)
        self.assertEqual((alert["endpoint"], alert["state"], alert["above"]), ("crm", "firing", 0.05))
        self.assertIn("3xx", alert["summary"])
        self.assertGreater(alert["value"], 0.9)
        rig["console"].kill()
        rig["console"].start()
        self.looks(rig)
        self.assertEqual(len(self.told(rig, "status_mix")), 1)

    # ---- dead letters ----

    def test_dead_letters_make_one_alert_for_an_endpoint_and_hour(self):
        rig = self.with_built_in()
        rig.receiver.rules({"path": "/ops", "responses": [{"status": 200}]},
                           {"path": "/crm", "responses": [{"status": 400}]})
        wait_for(lambda: rig.rows("console", "SELECT value FROM cursors WHERE name = 'deaths'"))
        events = [rig.accept() for _ in range(3)]
        wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] == 3)
        wait_for(lambda: self.told(rig, "dead_letter"))
        events += [rig.accept() for _ in range(3)]
        wait_for(lambda: rig.ask("dlqd", "dlq_stats")["dead"] == 6)

        def held():
            rows = rig.rows("console", "SELECT count FROM dead_letter_holds")
            return rows and rows[0]["count"]
        wait_for(lambda: self.told(rig, "dead_letter")[0]["count"] + held() == 6)
        rig["console"].kill()
        rig["console"].start()
        self.looks(rig) if rig.rows("console", "SELECT 1 FROM learned_sources") else None
        self.assertEqual(len(self.told(rig, "dead_letter")), 1)
        rig["console"].stop()
        rig.change("console", "UPDATE dead_letter_holds SET until_ms = 1")
        rig["console"].start()
        first, second = wait_for(lambda: (t := self.told(rig, "dead_letter")) and len(t) == 2 and t)
        self.assertEqual(first["endpoint"], "crm")
        self.assertEqual(first["count"] + second["count"], 6)
        self.assertEqual(sorted(l["event_id"] for a in (first, second) for l in a["dead_letters"]),
                         sorted(events))
        # Another hour has begun; without dead letters it ends without an alert.
        wait_for(lambda: held() == 0)
        rig["console"].stop()
        rig.change("console", "UPDATE dead_letter_holds SET until_ms = 1")
        rig["console"].start()
        wait_for(lambda: not rig.rows("console", "SELECT 1 FROM dead_letter_holds"))
        self.assertEqual(len(self.told(rig, "dead_letter")), 2)


main()
