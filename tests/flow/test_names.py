"""Each id and name finds its event, and an unknown name is an error that names the nearest
one."""

import hashlib
import hmac
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, sign_plane, wait_for


class Unknown(RigTest):
    def test_an_unknown_name_is_an_error_with_the_nearest_name(self):
        """P10: each filter of each list; a pattern, and a name that is known and
        only finds nothing, are not errors."""
        rig = self.rig().start()
        event = rig.accept(rig.plane_body("acme"))
        rig.wait_status(event)
        for args, hint in (
                (("events", "--endpoint", "crn"), "crm"),
                (("events", "--source", "plan"), "plane"),
                (("events", "--workspace", "acne"), "acme"),
                (("events", "--type", "issue.udpated"), "issue.updated"),
                (("events", "--status", "accepted", "--source", "plan"),
                 "plane"),
                (("deliveries", "--endpoint", "crn"), "crm"),
                (("dlq", "--endpoint", "crn"), "crm"),
                (("dlq", "--reason", "regected"), "rejected"),
                (("dlq", "retry", "--all", "--source", "plan"), "plane"),
                (("dlq", "discard", "--all", "--note", "x", "--workspace",
                  "acne"), "acme"),
                (("gaps", "--source", "plan"), "plane"),
                (("rejects", "--source", "plan"), "plane"),
                (("replay", "--since", "1h", "--type", "issue.udpated"),
                 "issue.updated"),
                (("replay", "--since", "1h", "--endpoint", "crn"), "crm")):
            with self.subTest(args):
                said = rig.cli_text(*args)
                self.assertEqual(said.returncode, 1, said)
                self.assertIn(f"did you mean {hint}?", said.stderr)
        for args in (("events", "--endpoint", "no*"),
                     ("dlq", "--endpoint", "crm"),
                     ("dlq", "--workspace", "acme", "--reason", "refused:x"),
                     ("dlq", "retry", "--all"), ("gaps",)):
            with self.subTest(args):
                said = rig.cli_text(*args)
                self.assertEqual((said.returncode, said.stderr), (0, ""))
        for args, hint in ((("events", "--status", "don"), "done"),
                           (("events", "--status", "acepted"), "accepted"),
                           (("deliveries", "--status", "opn"), "open")):
            said = rig.cli_text(*args)
            self.assertEqual(said.returncode, 64, said)
            self.assertIn(f"did you mean {hint}?", said.stderr)
            self.assertIn("buffered" if args[0] == "events" else "in_flight",
                          said.stderr)
        # What was removed from the configuration is still found.
        rig.config["endpoints"] = [rig.endpoint("other")]
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rows, code = rig.cli("deliveries", "--endpoint", "crm")
        self.assertEqual((code, len(rows)), (0, 1))


class Providers(RigTest):
    def delivery(self, rig, delivery, body):
        return rig.accept(body, headers={**sign_plane(body),
                                         "X-Plane-Delivery": delivery})

    def test_the_delivery_id_is_a_reference_and_not_a_key(self):
        """P10, P7: Plane's delivery id finds the event. The same id with another
        body is another event; the same body under another id is a duplicate."""
        rig = self.rig().start()
        body = rig.plane_body()
        first = self.delivery(rig, "d-1", body)
        again = self.delivery(rig, "d-2", body)
        other = self.delivery(rig, "d-1", rig.plane_body())
        rig.wait_status(again, "duplicate")
        rig.wait_status(other)
        rig.wait_status(first)
        trace, code = rig.cli("trace", "d-2")
        self.assertEqual((code, trace["id"], trace["duplicate_of"]),
                         (0, again, first))
        rows, _ = rig.cli("events", "--id", "d-1")
        self.assertEqual([r["id"] for r in rows], [other, first])
        rows, _ = rig.cli("events", "--id", "d-2", "--status", "done")
        self.assertEqual(rows, [])

    def test_a_duplicate_is_named_beside_the_event_with_the_same_id(self):
        rig = self.rig().start()
        body = rig.plane_body()
        first = self.delivery(rig, "d-1", body)
        rig.wait_status(first)
        again = self.delivery(rig, "d-1", body)
        rig.wait_status(again, "duplicate")
        matches, code = rig.cli("trace", "d-1")
        self.assertEqual(code, 1)
        self.assertEqual([(m["id"], m["status"], m["duplicate_of"])
                          for m in matches["matches"]],
                         [(again, "duplicate", first), (first, "done", None)])
        said = rig.cli_text("trace", "d-1")
        self.assertIn(f"duplicate of {first}", said.stdout)
        self.assertEqual([line.split()[0] for line in said.stdout.splitlines()],
                         ["ID", again, first])

    def github(self, rig, delivery, body, source="github", **headers):
        """(status, response) of a request that GitHub's profile verifies."""
        signature = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
        return rig.post(body, source=source, headers={
            "Content-Type": "application/json", "X-GitHub-Event": "push",
            "X-GitHub-Delivery": delivery,
            "X-Hub-Signature-256": "sha256=" + signature, **headers})[::2]

    def sources(self):
        return {"sources": [
            {"name": "plane", "provider": "plane",
             "secrets": ["${PLANE_SECRET}"]},
            {"name": "github", "provider": "github", "secrets": ["s3cret"]},
            {"name": "both", "provider": "github", "secrets": ["s3cret"],
             "id": "json:/n"},
            {"name": "many", "provider": "github", "secrets": ["s3cret"],
             "id": "json:/n", "batch": True}]}

    def names(self, rig, id):
        """What `trace` says, by this name: our id, the provider's two."""
        trace, code = rig.cli("trace", id)
        self.assertEqual(code, 0, trace)
        return trace["id"], trace["provider_id"], trace["delivery_id"]

    def test_an_event_has_both_ids_of_its_provider(self):
        """P10: the event's and the delivery's, each finds it; one that is both
        is shown as both; an event without one shows none."""
        rig = self.rig(self.sources()).start()
        _, response = self.github(rig, "g-1", b'{"n": "e-1"}', "both")
        both = response["id"]
        rig.wait_status(both)
        for id in (both, "e-1", "g-1"):
            self.assertEqual(self.names(rig, id), (both, "e-1", "g-1"))
            said = rig.cli_text("trace", id).stdout
            self.assertIn("its id e-1, delivery g-1", said)
        for id in ("e-1", "g-1"):
            rows, _ = rig.cli("events", "--id", id)
            self.assertEqual([(r["id"], r["provider_id"], r["delivery_id"])
                              for r in rows], [(both, "e-1", "g-1")])
            said = rig.cli_text("events", "--id", id).stdout
            self.assertIn("e-1", said)
            self.assertIn("g-1", said)
        _, response = self.github(rig, "g-2", b'{"n": "e-2"}')
        rig.wait_status(response["id"])
        self.assertEqual(self.names(rig, "g-2"), (response["id"], "g-2", "g-2"))
        rows = rig.rows("sequencer", "SELECT provider_id, delivery_id FROM "
                        "events ORDER BY n")  # not stored twice
        self.assertEqual([tuple(r.values()) for r in rows],
                         [("e-1", "g-1"), ("g-2", "")])
        event = self.delivery(rig, "d-1", rig.plane_body())
        rig.wait_status(event)
        self.assertEqual(self.names(rig, "d-1"), (event, None, "d-1"))

    def test_refused_and_duplicate_events_have_both_ids(self):
        """Also an event whose id cannot be parsed; and a dead letter shows both."""
        rig = self.rig(self.sources())
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        rig.start()
        ids = [self.github(rig, f"g-{i}", body, "both")[1]["id"]
               for i, body in enumerate((b'{"n": "e-1"}', b'{"n": "e-1" }',
                                         b'{"n": {}}', b"{"))]
        for id, status in zip(ids, ("done", "duplicate", "refused", "refused")):
            rig.wait_status(id, status)
        for i, id in enumerate(ids):
            self.assertEqual(self.names(rig, f"g-{i}"),
                             (id, "e-1" if i < 2 else None, f"g-{i}"))
        matches, code = rig.cli("trace", "e-1")
        self.assertEqual((code, [(m["delivery_id"], m["duplicate_of"])
                                 for m in matches["matches"]]),
                         (1, [("g-1", ids[0]), ("g-0", None)]))
        for i in (0, 2):
            dead_letter = wait_for(lambda i=i: rig.cli("dlq", "show", ids[i])[0])
            self.assertEqual((dead_letter["provider_id"], dead_letter["delivery_id"]),
                             ("e-1" if i < 2 else None, f"g-{i}"))
            said = rig.cli_text("dlq", "show", ids[i]).stdout
            self.assertIn(f"delivery g-{i}", said)

    def test_the_delivery_id_of_a_split_request_is_the_request_s(self):
        rig = self.rig(self.sources()).start()
        _, response = self.github(rig, "g-1", b'[{"n": "e-1"}, {"n": "e-2"}]',
                                "many")
        rig.wait_status(response["id"])
        self.assertEqual(self.names(rig, "g-1"), (response["id"], None, "g-1"))
        part = rig.trace("e-2")
        self.assertEqual((part["request"], part["delivery_id"]),
                         (response["id"], None))
        _, response = self.github(rig, "g-2", b'{', "many")
        rig.wait_status(response["id"], "refused")
        self.assertEqual(self.names(rig, "g-2")[0], response["id"])

    def test_a_refused_request_is_found_by_its_delivery_id(self):
        """P10: `trace` shows that the request arrived, and why it was refused."""
        rig = self.rig(self.sources()).start()
        body = b'{"n": "e-1"}'
        status, _ = self.github(rig, "g-1", body,
                                **{"X-Hub-Signature-256": "sha256=" + 64 * "0",
                                   **{f"X-Long-{i}": 400 * "x"
                                      for i in range(6)}})
        self.assertEqual(status, 401)
        self.assertEqual(self.github(rig, "g-2", body, "nobody")[0], 404)
        for restarted in (False, True):
            with self.subTest(restarted=restarted):
                rows, code = rig.cli("rejects", "--id", "g-1")
                self.assertEqual([(r["source"], r["reason"], r["delivery_id"])
                                  for r in rows],
                                 [("github", "signature_mismatch", "g-1")])
                trace, code = rig.cli("trace", "g-1")
                self.assertEqual((code, trace["id"], trace["rejects"]),
                                 (0, "g-1", rows))
                said = rig.cli_text("trace", "g-1")
                self.assertIn("ingress refused", said.stdout)
                self.assertIn(rows[0]["id"], said.stdout)
                self.assertIn("signature_mismatch", said.stdout)
                shown = rig.cli_text("rejects", "show", rows[0]["id"]).stdout
                self.assertIn("g-1", shown)
            rig["ingress"].restart()
        self.assertEqual(rig.cli("rejects", "--id", "g-9"), ([], 0))
        self.assertEqual(rig.cli("trace", "g-9")[1], 1)
        # Of an unknown source the headers that any provider uses count.
        self.assertEqual(rig.cli("rejects", "--id", "g-2")[0][0]["reason"],
                         "source_unknown")
        # It came again, and was accepted.
        _, response = self.github(rig, "g-1", body)
        rig.wait_status(response["id"])
        trace, _ = rig.cli("trace", "g-1")
        self.assertEqual((trace["id"], len(trace["rejects"])),
                         (response["id"], 1))
        self.assertIn("ingress refused 1 request",
                      rig.cli_text("trace", "g-1").stdout)

    def test_events_are_found_while_the_sequencer_is_down(self):
        """P1, P10: what ingress has stored is shown, by our id and the
        provider's; the exit code still says who is missing."""
        rig = self.rig().start()
        rig["sequencer"].kill()
        event = self.delivery(rig, "d-1", rig.plane_body())
        for id in (event, "d-1"):
            trace, code = rig.cli("trace", id)
            self.assertEqual((code, trace["id"], trace["source"],
                              trace["handed_on"]), (69, event, "plane", False))
            said = rig.cli_text("trace", id)
            self.assertIn("not yet processed by the sequencer", said.stdout)
            self.assertIn(event, said.stdout)
        self.assertEqual(rig.cli_text("trace", "d-9").returncode, 69)
        rig.start("sequencer")
        rig.wait_status(event)


class Subscribed(RigTest):
    def test_replay_counts_only_events_that_the_endpoint_gets(self):
        """Filters reduce them further."""
        rig = self.rig()
        rig.config["endpoints"] += [
            rig.endpoint("issues", types=["issue.*"]),
            rig.endpoint("none", types=["nothing.*"]),
            rig.endpoint("urgent", where={"json:/data/priority": ["urgent"]})]
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 400, "times": 1}, {"status": 200}]})
        rig.write_config()
        rig.start()
        issue = rig.accept(rig.plane_body("a"))
        rig.wait_status(issue)
        project = rig.accept(rig.plane_body("b", event="project"))
        rig.wait_status(project)

        def dry(*args):
            response, code = rig.cli("replay", "--since", "1h", "--dry-run",
                                   *args)
            self.assertEqual(code, 0)
            return (response["matched"], response["unsure"],
                    response["skipped"].get("not subscribed", 0))
        self.assertEqual(dry("--endpoint", "issues"), (1, 0, 1))
        self.assertEqual(dry("--endpoint", "none"), (0, 0, 2))
        self.assertEqual(dry("--endpoint", "urgent"), (2, 2, 0))
        self.assertEqual(dry("--type", "project.*"), (1, 0, 0))
        self.assertEqual(dry("--source", "plane", "--limit", "1"), (1, 0, 0))
        self.assertEqual(dry("--reason", "rejected"), (1, 0, 0))
        self.assertEqual(dry("--workspace", "a", "--type", "issue.*"),
                         (1, 0, 0))
        response, _ = rig.cli("replay", "--since", "1h", "--endpoint", "issues")
        self.assertEqual(response["replayed"], 1)
        rig.receiver.wait(issue, count=2, path="/issues")
        response, _ = rig.cli("replay", "--since", "1h", "--reason", "rejected",
                            "--endpoint", "crm")
        rig.receiver.wait(issue, count=2, path="/crm")
        rig.settle()
        self.assertEqual(rig.receiver.requests("/urgent"), [])


main()
