"""What is found by which name, and what is said of a name that there is not."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, sign_plane


class Unknown(RigTest):
    def test_an_unknown_name_is_an_error_with_the_nearest(self):
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

    def test_of_two_with_one_id_the_duplicate_is_named(self):
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

    def test_while_the_sequencer_is_down(self):
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
            self.assertIn("not yet taken by the sequencer", said.stdout)
            self.assertIn(event, said.stdout)
        self.assertEqual(rig.cli_text("trace", "d-9").returncode, 69)
        rig.start("sequencer")
        rig.wait_status(event)


class Subscribed(RigTest):
    def test_replay_counts_what_the_endpoint_is_subscribed_to(self):
        """Only events that it would get are counted and sent; filters narrow."""
        rig = self.rig()
        rig.config["endpoints"] += [
            rig.endpoint("issues", types=["issue.*"]),
            rig.endpoint("none", types=["nothing.*"]),
            rig.endpoint("urgent", where={"json:/data/priority": ["urgent"]})]
        rig.receiver.rules({"path": "/crm", "answers": [
            {"status": 400, "times": 1}, {"status": 200}]})
        rig.write_config()
        rig.start()
        issue = rig.accept(rig.plane_body("a"))
        rig.wait_status(issue)
        project = rig.accept(rig.plane_body("b", event="project"))
        rig.wait_status(project)

        def dry(*args):
            answer, code = rig.cli("replay", "--since", "1h", "--dry-run",
                                   *args)
            self.assertEqual(code, 0)
            return (answer["matched"], answer["unsure"],
                    answer["skipped"].get("not subscribed", 0))
        self.assertEqual(dry("--endpoint", "issues"), (1, 0, 1))
        self.assertEqual(dry("--endpoint", "none"), (0, 0, 2))
        self.assertEqual(dry("--endpoint", "urgent"), (2, 2, 0))
        self.assertEqual(dry("--type", "project.*"), (1, 0, 0))
        self.assertEqual(dry("--source", "plane", "--limit", "1"), (1, 0, 0))
        self.assertEqual(dry("--reason", "rejected"), (1, 0, 0))
        self.assertEqual(dry("--workspace", "a", "--type", "issue.*"),
                         (1, 0, 0))
        answer, _ = rig.cli("replay", "--since", "1h", "--endpoint", "issues")
        self.assertEqual(answer["replayed"], 1)
        rig.receiver.wait(issue, count=2, path="/issues")
        answer, _ = rig.cli("replay", "--since", "1h", "--reason", "rejected",
                            "--endpoint", "crm")
        rig.receiver.wait(issue, count=2, path="/crm")
        rig.settle()
        self.assertEqual(rig.receiver.requests("/urgent"), [])


main()
