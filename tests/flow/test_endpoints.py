"""Endpoints that are paused, disabled or removed, and the output of `grapnel endpoints`."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for


class Endpoints(RigTest):
    def shown(self, rig, name="crm"):
        shown, code = rig.cli("endpoints", name)
        self.assertEqual(code, 0)
        return shown

    def pause(self, rig):
        shown, code = rig.cli("endpoints", "pause", "crm")
        self.assertEqual((code, shown["state"]), (0, "paused"))
        wait_for(lambda: self.shown(rig)["owner"] is None, what="it to be released")

    def test_a_paused_endpoint_is_not_tried(self):
        """New events and scheduled retries wait, also over a restart; after a
        resume all of them are delivered."""
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "50ms",
            "jitter": "none", "max_attempts": 1000, "max_duration": "1h"}]})
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.start()
        events = [rig.accept() for _ in range(20)]
        rig.receiver.wait(count=40)
        self.pause(rig)
        rig.receiver.stats()
        seen = len(rig.receiver.requests())
        events += [rig.accept() for _ in range(10)]
        wait_for(lambda: self.shown(rig)["waiting"] == len(events))
        rig.kill()
        rig.start()
        self.assertEqual(self.shown(rig)["state"], "paused")
        self.assertEqual(self.shown(rig)["waiting"], len(events))
        rig.receiver.stats()
        self.assertEqual(len(rig.receiver.requests()), seen)
        rig.receiver.rules()
        shown, code = rig.cli("endpoints", "resume", "crm")
        self.assertEqual((code, shown["state"]), (0, "active"))
        rig.settle()
        self.assertEqual(set(rig.receiver.delivered("/crm")), set(events))

    def test_pause_and_resume_say_what_they_did(self):
        """Also that there was nothing to resume."""
        rig = self.rig().start()
        for command, said in [
                ("resume", "crm is active: it was not paused, disabled or held"),
                ("pause", "crm is paused: its deliveries wait, and the wait does not count in "
                          "their retry budgets"),
                ("resume", "crm is active: its deliveries are tried again")]:
            done = rig.cli_text("endpoints", command, "crm")
            self.assertEqual((done.returncode, done.stdout), (0, said + "\n"), done.stderr)

    def test_a_pause_does_not_use_the_retry_budget(self):
        """P2: paused for longer than the whole budget, each is tried again, and
        retrying after that: the budget is what it was."""
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "300ms",
            "jitter": "none", "max_duration": "4s"}]})
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.start()
        event = rig.accept()
        rig.receiver.wait(event)
        self.pause(rig)
        began = rig.rows("sequencer", "SELECT since_ms FROM endpoints")
        wait_for(lambda: time.time() * 1000 > began[0]["since_ms"] + 4000)
        tried = len(rig.receiver.requests("/crm", event))
        rig.cli("endpoints", "resume", "crm")
        rig.receiver.wait(event, count=tried + 2)
        rig.receiver.rules()
        rig.settle()
        self.assertIn(event, rig.receiver.delivered("/crm"))
        first, = rig.rows("sequencer", "SELECT d.first_ms, e.received_ms "
                          "FROM deliveries d JOIN events e ON e.n = d.event")
        self.assertLess(first["first_ms"], began[0]["since_ms"], "the true one")

    def logged(self, rig, words):
        """The sequencer's line with these words; it is waited for."""
        def lines():
            return [line for line in rig["sequencer"].log().splitlines()
                    if words in line]
        wait_for(lines, what=f"a line with {words}")
        return lines()[-1]

    def test_the_log_has_a_word_for_why_grants_ended(self):
        """Its deliverer began with an empty database, or is silent."""
        rig = self.rig()
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.config["endpoint_defaults"] = {"timeout": "500ms",
                                           "connect_timeout": "500ms"}
        rig.write_config()
        rig.start()
        rig.wait_status(rig.accept())
        rig.kill("deliverer-1")
        for path in rig.state_dir.glob("deliverer-1.db*"):
            path.unlink()
        rig.start("deliverer-1")
        self.assertRegex(self.logged(rig, "grants ended"),
                         r"endpoints=1 reason=(new_database|no_heartbeat)\b")
        rig.wait_status(rig.accept())
        rig.kill("deliverer-1")
        wait_for(lambda: "reason=no_heartbeat" in self.logged(rig, "grants ended"))

    def test_a_410_disables_the_endpoint(self):
        """P2: that delivery is dead (endpoint_gone); the others wait until the
        endpoint is resumed."""
        rig = self.rig()
        rig.config["endpoints"].append(rig.endpoint("other"))
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 410}, {"status": 200}]})
        rig.start()
        gone = rig.accept()
        wait_for(lambda: self.shown(rig)["state"] == "disabled")
        self.assertIn("410", self.shown(rig)["reason"])
        self.assertIn("reason=endpoint_gone", self.logged(rig, "is disabled"))
        later = [rig.accept() for _ in range(5)]
        for event in [gone, *later]:
            rig.receiver.wait(event, path="/other")
        wait_for(lambda: self.shown(rig)["waiting"] == len(later))
        self.assertEqual(rig.receiver.requests("/crm", later[0]), [])
        dead_letters, _ = rig.cli("dlq")
        self.assertEqual([(x["event_id"], x["reason"]) for x in dead_letters],
                         [(gone, "endpoint_gone")])
        rig["sequencer"].restart()
        self.assertEqual(self.shown(rig)["state"], "disabled")
        self.assertEqual(rig.cli("endpoints", "resume", "crm")[1], 0)
        rig.settle()
        self.assertEqual(set(rig.receiver.delivered("/crm")), set(later))

    def test_continuous_failures_disable_the_endpoint(self):
        """After disable_after, with warnings before; a success begins anew."""
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "50ms",
            "jitter": "none", "max_attempts": 100}]})
        rig.config["endpoints"][0]["disable_after"] = "2s"
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        rig.start()
        first = rig.accept()
        rig.receiver.wait(first, count=3)
        wait_for(lambda: self.shown(rig)["failing_since"])
        rig.receiver.rules()
        rig.wait_status(first)
        self.assertIsNone(self.shown(rig)["failing_since"])
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})

        def disabled():
            rig.accept()
            return self.shown(rig)["state"] == "disabled"
        wait_for(disabled)
        log = rig["sequencer"].log()
        for percent in [50, 70, 90]:
            self.assertIn(f"percent={percent}", log)
        self.assertIn("failed continuously", self.shown(rig)["reason"])
        self.assertIn("reason=failing", self.logged(rig, "is disabled"))
        rig.receiver.rules()
        last = rig.accept()
        rig.cli("endpoints", "resume", "crm")
        rig.settle()
        self.assertIn(last, rig.receiver.delivered("/crm"))

    def test_a_paused_endpoint_does_not_count_as_failing(self):
        """No attempt is made, so neither the metric nor an alert reports it."""
        rig = self.rig({"metrics": {"interval": "200ms"}}, console=True)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        rig.start()
        rig.accept()

        def failing():
            return rig.number("grapnel_endpoint_failing_seconds", endpoint="crm")
        wait_for(failing, what="it to fail")
        rig.cli("endpoints", "pause", "crm")
        wait_for(lambda: failing() == 0, what="the metric to be 0")
        self.assertGreater(self.shown(rig)["failing_seconds"], 0)

    def test_status_and_an_alert_report_deliveries_of_a_paused_endpoint(self):
        """It takes up the disk of everybody, and nothing bounds it: `status` says how
        much, and an alert fires after a day (here: a second)."""
        rig = self.rig({"metrics": {"interval": "200ms"}, "alerts": [
            {"name": "endpoint_waiting", "when": "endpoint_waiting",
             "above": "1s"}]}, console=True).start()

        def firing():
            return [(a["name"], a["subject"]) for a in rig.cli("alerts")[0]
                    if (a["name"], a["state"]) == ("endpoint_waiting", "firing")]
        rig.cli("endpoints", "pause", "crm")
        events = [rig.accept() for _ in range(3)]
        for event in events:
            rig.wait_status(event, "routed")
        sequencer, = (p for p in rig.cli("status")[0]
                      if p["process"] == "sequencer")
        self.assertEqual([(t["endpoint"], t["state"], t["waiting"])
                          for t in sequencer["troubles"]], [("crm", "paused", 3)])
        self.assertRegex(rig.cli_text("status").stdout,
                         r"Endpoint crm: paused since .*; 3 deliveries wait on "
                         r"disk, without a limit")
        wait_for(firing, what="the alert")
        rig.cli("endpoints", "resume", "crm")
        rig.receiver.wait(events[-1])
        wait_for(lambda: not firing(), what="the alert to resolve")

    def test_an_outage_of_grapnel_does_not_count_for_disable_after(self):
        """Only time in which Grapnel could have delivered counts for
        disable_after: not an outage of the deliverer, of the sequencer, or of
        both, nor a suspended machine."""
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "50ms",
            "jitter": "none", "max_attempts": 2}]})
        rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 500}]})
        rig.start()

        def fail():
            rig.wait_status(rig.accept())
            return self.shown(rig)["failing_seconds"]

        def outage():
            end = time.monotonic() + 2
            wait_for(lambda: time.monotonic() > end)
        fail()
        wait_for(lambda: self.shown(rig)["failing_seconds"] > 0,
                 what="time in which it could have delivered")
        for name, processes in {"deliverer": ["deliverer-1"],
                                "sequencer": ["sequencer"],
                                "machine": ["deliverer-1", "sequencer"]}.items():
            with self.subTest(f"{name}: suspended"):
                before = fail()
                for p in processes:
                    rig[p].pause()
                outage()
                for p in processes:
                    rig[p].resume()
                self.assertLess(fail() - before, 1.5)
        with self.subTest("the deliverer is down"):
            before = fail()
            rig.kill("deliverer-1")
            outage()
            rig["deliverer-1"].start()
            self.assertLess(fail() - before, 1.5)
        with self.subTest("both are down for six days"):
            rig.kill()
            rig.change("sequencer", "UPDATE endpoints SET failing_ms = "
                       "failing_ms - 6 * 86400000")
            rig.start()
            fail()
            self.assertEqual(self.shown(rig)["state"], "active")

    def test_endpoints_and_workspaces_are_listed_page_by_page(self):
        rig = self.rig()
        names = ["crm"] + [f"other-{i}" for i in range(4)]
        rig.config["endpoints"] += [rig.endpoint(n) for n in names[1:]]
        rig.write_config()
        rig.start()
        spaces = [f"ws-{i}" for i in range(5)]
        for space in spaces:
            rig.accept(rig.plane_body(space))
        rig.settle()

        def pages(what, key, limit):
            found, after = [], {}
            while True:
                page = rig.ask("sequencer", what, limit=limit, **after)
                self.assertLessEqual(len(page[what]), limit)
                found += [row[key] for row in page[what]]
                if page["next"] is None:
                    return found
                after = {"after": page["next"]}

        for limit in 1, 2, 5, 100:
            with self.subTest(limit=limit):
                self.assertEqual(pages("endpoints", "name", limit), names)
                self.assertEqual(pages("workspaces", "workspace", limit),
                                 spaces)
        shown, code = rig.cli("workspaces", "--limit", "3")
        self.assertEqual((code, [s["workspace"] for s in shown]),
                         (0, spaces[:3]))
        shown, code = rig.cli("workspaces", "ws-3")
        self.assertEqual((code, [s["sequence"] for s in shown]), (0, [1]))
        self.assertEqual(rig.cli("workspaces", "ws-9")[1], 1)
        for what in "endpoints", "workspaces":
            with self.assertRaisesRegex(AssertionError, "next"):
                rig.ask("sequencer", what, after="x")

    def test_endpoints_shows_state_and_figures(self):
        rig = self.rig()
        rig.config["endpoints"].append(rig.endpoint("off", enabled=False))
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400}, {"status": 200}]})
        rig.start()
        dead = rig.accept()
        rig.settle()  # so that it is the first request
        alive = rig.accept(rig.plane_body("ws-2"))
        rig.settle()
        listed, code = rig.cli("endpoints")
        self.assertEqual(code, 0)
        self.assertEqual({e["name"]: e["state"] for e in listed},
                         {"crm": "active", "off": "off"})
        crm = self.shown(rig)
        self.assertEqual((crm["in_flight"], crm["waiting"], crm["retrying"],
                          crm["success_rate"]), (0, 0, 0, 0.5))
        self.assertEqual((crm["owner"], crm["breaker"]),
                         ("deliverer-1", "closed"))
        for what in ["pause", "resume"]:
            self.assertEqual(rig.cli("endpoints", what, "nobody")[1], 1)
        self.assertEqual(rig.cli("endpoints", "nobody")[1], 1)
        self.assertIn("crm", rig.cli_text("endpoints").stdout)
        rig.kill("sequencer")
        self.assertEqual(rig.cli("endpoints")[1], 69)

        rig["sequencer"].start()
        ids = {"dead": dead, "delivered": alive}
        for status, event in ids.items():
            found, code = rig.cli("deliveries", "--status", status)
            self.assertEqual(code, 0)
            self.assertEqual([d["event_id"] for d in found], [event])
        self.assertEqual(rig.cli("deliveries", "--status", "open")[0], [])
        found, _ = rig.cli("deliveries", "--endpoint", "crm", "--source",
                           "plane", "--type", "issue.*", "--since", "1h")
        self.assertEqual([d["event_id"] for d in found],
                         sorted(ids.values(), reverse=True))
        self.assertEqual(rig.cli("deliveries", "--limit", "1")[0], found[:1])
        self.assertEqual(
            rig.cli("deliveries", "--workspace", "ws-2")[0][0]["event_id"], alive)
        self.assertEqual(rig.cli("deliveries", "--status", "no")[1], 64)

    def test_stats_of_an_endpoint(self):
        rig = self.rig({"retry_policies": [{
            "name": "default", "backoff": "fixed", "first_wait": "1h",
            "jitter": "none", "max_attempts": 5}]})
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200}, {"status": 200}, {"status": 400}, {"status": 503}]})
        rig.start()
        empty, code = rig.cli("endpoints", "stats", "crm")
        self.assertEqual((code, empty["attempts"], empty["success_rate"], empty["latency_ms"]),
                         (0, 0, None, {"p50": None, "p95": None, "p99": None}))
        self.assertEqual((empty["oldest_waiting_at"], empty["last_success_at"]), (None, None))
        for status in ["delivered", "delivered", "dead", "retrying"]:
            event = rig.accept()
            wait_for(lambda: rig.trace(event).get("deliveries", [{}])[0].get("status") == status)
        rig.cli("endpoints", "pause", "crm")
        waits = rig.accept()
        wait_for(lambda: self.shown(rig)["waiting"] == 2)
        stats, code = rig.cli("endpoints", "stats", "crm", "--period", "5m")
        self.assertEqual(code, 0)
        self.assertEqual(stats["outcomes"], {"delivered": 2, "retrying": 1, "dead": 1})
        self.assertEqual(stats["statuses"],
                         {"2xx": 2, "3xx": 0, "4xx": 1, "5xx": 1, "none": 0})
        self.assertEqual((stats["attempts"], stats["success_rate"], stats["state"]),
                         (4, 0.5, "paused"))
        self.assertGreater(stats["latency_ms"]["p99"], 0)
        self.assertEqual((stats["waiting"], stats["waiting_more"], stats["in_flight"]),
                         (2, False, 0))
        self.assertEqual((stats["owner"], stats["breaker"], stats["window"]), (None, None, None))
        self.assertEqual(stats["oldest_waiting_at"], rig.trace(event)["received_at"])
        self.assertLess(stats["last_success_at"], stats["last_failure_at"])
        self.assertLess(stats["from"], stats["to"])
        rig.cli("endpoints", "resume", "crm")
        wait_for(lambda: self.shown(rig)["waiting"] == 0, what=f"{waits} to be dispatched")
        wait_for(lambda: self.shown(rig)["owner"])
        stats, code = rig.cli("endpoints", "stats", "crm")
        self.assertEqual((code, stats["owner"], stats["breaker"]), (0, "deliverer-1", "closed"))
        self.assertIn("2xx", rig.cli_text("endpoints", "stats", "crm").stdout)
        # The counts begin again with the sequencer.
        rig["sequencer"].restart()
        again, code = rig.cli("endpoints", "stats", "crm")
        self.assertGreater(again["from"], stats["to"])
        for args, code in [(("nobody",), 1), (("crm", "--period", "2h"), 1),
                           (("crm", "--period", "x"), 64)]:
            self.assertEqual(rig.cli_text("endpoints", "stats", *args).returncode, code, args)

    def test_many_deliveries_are_listed_page_by_page(self):
        rig = self.rig()
        rig.start()
        rig.load(count=1500, workspaces=3).result()
        rig.settle()
        found, code = rig.cli("deliveries", "--limit", "1400")
        self.assertEqual((code, len(found)), (0, 1400))
        self.assertEqual(len({d["event_id"] for d in found}), 1400)

    def test_deliveries_are_found_page_by_page_within_one_event(self):
        """Some events have several deliveries, some none; one endpoint's are dead."""
        rig = self.rig()
        endpoints = {"crm": ["issue", "project"], "other-a": ["project"], "other-b": ["issue"]}
        rig.config["endpoints"] = [rig.endpoint(name, types=[f"{t}.*" for t in types])
                                   for name, types in endpoints.items()]
        rig.write_config()
        rig.receiver.rules({"path": "/other-a", "responses": [{"status": 400}]})
        rig.start()
        sent = []
        for kind in ["project", "issue", "cycle", "project", *["cycle"] * 7, "issue", "project", "project"]:
            workspace = f"ws-{len(sent) % 2}"
            sent.append((rig.accept(rig.plane_body(workspace, event=kind)), kind, workspace))
        rig.settle()
        rows = [(event, name, kind, workspace, "dead" if name == "other-a" else "delivered")
                for event, kind, workspace in reversed(sent)
                for name in reversed(endpoints) if kind in endpoints[name]]

        def pages(**asked):
            found = []
            while True:
                page = rig.ask("sequencer", "deliveries", **asked)
                self.assertLessEqual(len(page["deliveries"]), asked["limit"])
                found += [(d["event_id"], d["endpoint"], d["type"].split(".")[0],
                           d["workspace"], d["status"]) for d in page["deliveries"]]
                if page["next"] is None:
                    return found
                asked["before"] = page["next"]

        for asked, matches in [
                ({}, lambda r: True),
                ({"workspace": "ws-1"}, lambda r: r[3] == "ws-1"),
                ({"endpoint": "crm"}, lambda r: r[1] == "crm"),
                ({"endpoint": "other-*"}, lambda r: r[1] != "crm"),
                ({"endpoint": "crm", "workspace": "ws-0"}, lambda r: r[1] == "crm" and r[3] == "ws-0"),
                ({"status": "dead"}, lambda r: r[4] == "dead"),
                ({"status": "dead", "workspace": "ws-*", "type": "project.*"}, lambda r: r[4] == "dead"),
                ({"status": "delivered", "type": "*project*"},
                 lambda r: r[4] == "delivered" and r[2] == "project")]:
            for limit in 1, 2, 100:
                with self.subTest(limit=limit, **asked):
                    self.assertEqual(pages(limit=limit, **asked), [r for r in rows if matches(r)])

    def put_back(self, rig, kept):
        """All are in the configuration again, and the receiver is well."""
        rig.receiver.rules()
        rig.config["endpoints"] = kept
        rig.write_config()
        rig["sequencer"].reload()
        wait_for(lambda: self.shown(rig)["state"] == "active")

    def test_deliveries_of_a_removed_endpoint_become_dead_letters(self):
        """P2: what waits for it, the scheduled and the paused, becomes dead
        letters: endpoint_removed; there again, it gets what comes then."""
        rig = self.rig()
        rig.config["endpoint_defaults"] = {"ordered": "workspace"}
        rig.config["endpoints"].append(rig.endpoint("other"))
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 503, "headers": {"Retry-After": "3000"}}]})
        rig.start()
        events = [rig.accept(rig.plane_body(f"w{i % 2}")) for i in range(8)]
        for event in events:
            rig.receiver.wait(event, path="/other")
        kept = rig.config["endpoints"]
        rig.config["endpoints"] = kept[1:]
        rig.write_config()
        rig["sequencer"].reload()

        def dead():
            dead_letters, _ = rig.cli("dlq", "--reason", "endpoint_removed")
            return {x["event_id"] for x in dead_letters} == set(events)
        wait_for(dead)
        self.assertEqual(self.shown(rig)["state"], "removed")
        self.put_back(rig, kept)
        last = rig.accept()
        rig.settle()
        self.assertEqual(set(rig.receiver.delivered("/crm")), {last})

    def test_a_removed_endpoint_is_forgotten_with_its_last_event(self):
        """P2: with the last event that it had, not before; of that name there can
        be one again, and one that dlqd still has a dead letter for is there to die of
        it."""
        rig = self.rig()
        rig.config["history"] = {"keep": "1s"}
        rig.config["endpoints"].append(rig.endpoint("other"))
        kept = rig.config["endpoints"]
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 503, "headers": {"Retry-After": "3000"}}]})
        rig.write_config()
        rig.start()
        event = rig.accept()
        wait_for(lambda: rig.receiver.requests("/crm"))
        rig.config["endpoints"] = kept[1:]
        rig.write_config()
        rig["sequencer"].reload()
        dead_letter = wait_for(lambda: rig.cli("dlq")[0], what="its dead letter")[0]
        row = "SELECT id, gone_after FROM endpoints WHERE name = 'crm'"
        self.assertEqual(rig.rows("sequencer", row)[0]["gone_after"], 1)

        rig.forget_dead_letters()  # they keep their events
        wait_for(lambda: not rig.rows("sequencer", "SELECT 1 FROM events"),
                 what="the end of its history")
        told, code = rig.cli("trace", event)  # P10: not as if it were to come
        self.assertEqual((told["status"], code), ("done", 0))
        self.assertIn("history.keep", rig.cli_text("trace", event).stdout)
        rig["sequencer"].kill()
        rig["sequencer"].start()
        wait_for(lambda: not rig.rows("sequencer", row), what="it to go")
        self.assertEqual(rig.cli("endpoints", "crm")[1], 1)
        rig.cli("dlq", "retry", dead_letter["id"])
        wait_for(lambda: rig.rows("sequencer", row), what="it to be back")
        wait_for(lambda: rig.cli("dlq", "show", dead_letter["id"])[0]["state"] ==
                 "dead", what="its second dead letter")
        self.assertEqual(self.shown(rig)["state"], "removed")
        self.put_back(rig, kept)
        last = rig.accept()
        rig.receiver.wait(last, path="/crm")
        rig.receiver.wait(last, path="/other")
        self.assertEqual(rig.rows("sequencer", row)[0]["gone_after"], 0)
        rig.cli("dlq", "retry", dead_letter["id"])
        self.assertIn(event, {r.id for r in rig.receiver.wait(event, 2, "/crm")})


main()
