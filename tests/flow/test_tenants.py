"""Events of one source or workspace do not affect those of another."""

import hashlib
import hmac
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for  # noqa: E402


def tenant(name, **more):
    """A source whose events say their id, and whose they are."""
    return {"name": name, "provider": "custom", "secrets": [name + " key"],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig",
                       "form": "plain", "encoding": "hex", "signed": "{body}"},
            "id": "json:/id", "type": "const:made", "workspace": "json:/team",
            **more}


class Tenants(RigTest):
    def send(self, rig, source, **body):
        body = json.dumps(body).encode()
        signature = hmac.new(f"{source} key".encode(), body,
                             hashlib.sha256).hexdigest()
        return rig.accept(body, source=source, headers={
            "X-Sig": signature, "Content-Type": "application/json"})


class Keys(Tenants):
    """P7: a key that does not name the source is the source's own all the same."""

    def sources(self, **dedupe):
        rig = self.rig({"sources": [
            tenant(name, dedupe={"ttl": "1h", **dedupe})
            for name in ("anna", "bert")]})
        return rig.start()

    def is_apart(self, rig):
        first = self.send(rig, "anna", id="7", n=1)
        rig.receiver.wait(first)
        other = self.send(rig, "bert", id="7", n=2)
        rig.receiver.wait(other)
        for name, event in [("anna", first), ("bert", other)]:
            again = self.send(rig, name, id="7", n=3)
            trace = rig.wait_status(again, "duplicate")
            self.assertEqual(trace["duplicate_of"], event)

    def test_an_id_of_one_source_suppresses_no_event_of_another(self):
        self.is_apart(self.sources(keys=[["id"]]))

    def test_a_field_of_one_source_suppresses_no_event_of_another(self):
        self.is_apart(self.sources(keys=[["workspace", "json:/id"]]))

    def test_naming_the_source_in_a_key_changes_no_key(self):
        rig = self.sources(keys=[["id"]])
        first = self.send(rig, "anna", id="7")
        rig.receiver.wait(first)
        for source in rig.config["sources"]:
            source["dedupe"]["keys"] = [["source", "id"]]
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        again = self.send(rig, "anna", id="7")
        self.assertEqual(rig.wait_status(again, "duplicate")["duplicate_of"],
                         first)


class OlderStore(Tenants):
    """A store whose keys all sources had in common goes on: it suppresses its own
    source's duplicates and nobody else's."""

    def test_keys_of_an_older_database_count_only_for_their_source(self):
        rig = self.rig({"sources": [
            tenant(name, dedupe={"ttl": "1h", "keys": [["id"]]})
            for name in ("anna", "bert")]}).start()
        first = self.send(rig, "anna", id="7")
        rig.receiver.wait(first)
        rig.settle()
        rig["sequencer"].stop()
        digest = hashlib.sha256(b"id 1:7").digest()
        # Its row was in `keys`, as recent keys are newer than keys that sources have in common.
        row, _, event, received_ms = struct.unpack(
            "<4q", rig.rows("sequencer", "SELECT keys FROM recent_keys")[0]["keys"])
        rig.change("sequencer", "DELETE FROM recent_keys")
        rig.change("sequencer", "UPDATE key_generations SET segmented = 0")
        rig.change("sequencer", "INSERT INTO keys VALUES (?, ?, ?, ?)",
                   row >> 48 << 48 | int.from_bytes(digest[:6], "big"),
                   int.from_bytes(digest[6:12], "big"), event, received_ms)
        rig["sequencer"].start()
        again = self.send(rig, "anna", id="7")
        self.assertEqual(rig.wait_status(again, "duplicate")["duplicate_of"],
                         first)
        rig.receiver.wait(self.send(rig, "bert", id="7"))


class AllowList(Tenants):
    def test_the_default_workspace_needs_permission(self):
        """P2: an event without a workspace is refused with a reason, unless
        `workspaces` has default."""
        rig = self.rig({"sources": [
            tenant("anna", workspaces=["a-*"]),
            tenant("bert", workspaces=["b-*", "default"])]}).start()
        good = self.send(rig, "anna", id="1", team="a-1")
        rig.receiver.wait(good)
        bad = [self.send(rig, "anna", id="2"),
               self.send(rig, "anna", id="3", team="default")]
        for event in bad:
            trace = rig.wait_status(event, "refused")
            self.assertIn("may not send workspace default", trace["reason"])
        dead_letters = wait_for(lambda: len(rig.cli("dlq")[0]) == 2
                           and rig.cli("dlq")[0], what="two dead letters")
        self.assertEqual({m["event_id"] for m in dead_letters}, set(bad))
        for event in [self.send(rig, "bert", id="4"),
                      self.send(rig, "bert", id="5", team="default")]:
            rig.receiver.wait(event)

    def test_a_refused_event_leaves_no_key(self):
        """P2."""
        rig = self.rig({"sources": [tenant("anna", workspaces=["a-*"])]}).start()
        refused = self.send(rig, "anna", id="2")
        rig.wait_status(refused, "refused")
        del rig.config["sources"][0]["workspaces"]
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        rig.receiver.wait(self.send(rig, "anna", id="2"))


if __name__ == "__main__":
    main()
