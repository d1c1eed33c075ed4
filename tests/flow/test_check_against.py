"""`grapnel check --against`: archived events through another configuration, compared with what happened."""

import hashlib
import hmac
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, sign_plane, wait_for

KEY = "ledger key"
TOKEN = "a-token-of-the-billing-1"


def ledger(**more):
    return {"name": "ledger", "provider": "custom", "secrets": [KEY],
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "form": "plain",
                       "encoding": "hex", "signed": "{ts}.{body}",
                       "time": {"from": "header:X-Time"}},
            "clock_skew": "1s", "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
            "dedupe": {"keys": [["id"]]}, **more}


def states(**more):
    return ledger(name="cards", states={
        "object": "json:/object", "state": "json:/state", "initial": ["new"],
        "moves": ["new>paid", "paid>closed"], **more})


class Against(RigTest):
    def pipeline(self):
        rig = self.rig({"sources": [
            {"name": "plane", "provider": "plane", "secrets": ["${PLANE_SECRET}"]},
            ledger(order={"by": "sequence", "sequence": "json:/seq", "give_up_after": "1h"}),
            states()],
            "producers": [{"name": "billing", "tokens": [TOKEN]}]})
        rig.config["endpoints"].append(rig.endpoint("books", sources=["ledger", "billing"],
                                                    types=["entry.*"]))
        rig.config["endpoints"].append(rig.endpoint("off", enabled=False))
        rig.config["endpoints"].append(rig.endpoint("teams"))
        rig.config["routes"] = [{"endpoints": ["teams"], "where": {"json:/team": "red"}}]
        rig.write_config()
        return rig.start()

    def send(self, rig, source, **body):
        text = json.dumps({"type": "entry.made", "team": "red", **body}).encode()
        at = str(int(time.time()))
        sig = hmac.new(KEY.encode(), f"{at}.".encode() + text, hashlib.sha256).hexdigest()
        return rig.accept(text, source=source, headers={"X-Sig": sig, "X-Time": at})

    def publish(self, rig, **body):
        return rig.accept(json.dumps({"type": "entry.paid", "workspace": "w", "data": {}, **body})
                          .encode(), path="/v1/events",
                          headers={"Authorization": f"Bearer {TOKEN}"})

    def fill(self, rig):
        """One event of each kind; {name: id}."""
        made = {"plane": rig.accept(rig.plane_body("ws-1"))}
        body = rig.plane_body("ws-2")
        headers = sign_plane(body)
        made["first"] = rig.accept(body, headers=headers)
        made["again"] = rig.accept(body, headers=headers)
        for name, seq, id_ in [("one", 1, "a"), ("two", 2, "b"), ("late", 1, "c"), ("held", 9, "d")]:
            made[name] = self.send(rig, "ledger", seq=seq, id=id_)
        made["unreadable"] = self.send(rig, "ledger", seq="x", id="e")
        for name, state in [("new", "new"), ("closed", "closed"), ("paid", "paid")]:
            made[name] = self.send(rig, "cards", id=name, object="o", state=state)
        made["blue"] = self.send(rig, "cards", id="blue", object="p", state="new", team="blue")
        made["published"] = self.publish(rig, id="key-1")
        made["only"] = self.publish(rig, endpoints=["crm"], type="other")
        for name, status in [("again", "duplicate"), ("held", "buffered"), ("closed", "ignored"),
                             ("unreadable", "refused")]:
            rig.wait_status(made[name], status)
        for name in set(made) - {"again", "held", "closed", "unreadable"}:
            rig.wait_status(made[name])
        return made

    def check(self, rig, *args, code=0, env=None):
        document, exit_code = rig.cli("check", "--against", "1h", "--examples", "50", *args, env=env)
        self.assertEqual(exit_code, code, document)
        return document

    def differences(self, rig, change, *args):
        """{(kind, source or endpoint): ids} of the file after a change, which is undone."""
        before = rig.config_path.read_text()
        config = json.loads(json.dumps(rig.config))
        change(config)
        rig.write_config(json.dumps(config))
        document, code = rig.cli("check", "--against", "1h", "--examples", "50", *args)
        rig.config_path.write_text(before)
        found = {(d["kind"], d.get("endpoint") or d["source"]): [e["id"] for e in d["examples"]]
                 for d in document["differences"]}
        self.assertEqual(code, 1 if found else 0, document)
        self.assertEqual([d["count"] for d in document["differences"]],
                         [len(ids) for ids in found.values()])
        return found

    def test_an_unchanged_file_makes_no_difference_and_each_change_its_own(self):
        rig = self.pipeline()
        made = self.fill(rig)
        # What an operator has sent again does not count.
        self.assertEqual(rig.cli("resend", made["published"], "--endpoint", "teams")[1], 0)
        wait_for(lambda: len(rig.receiver.requests("/teams")) == 6)
        before = len(rig.receiver.requests())
        # Judged at the time of receipt: these timestamps are too old by now.
        wait_for(lambda: time.time() > self.received(rig, made["only"]) + 2)
        document = self.check(rig)
        self.assertEqual((document["differences"], document["unverified"]), ([], []))
        # Nobody knows yet where the buffered event goes.
        self.assertEqual([(u["why"].split(",")[0], u["count"]) for u in document["unjudged"]],
                         [("only where it goes", 1)])
        self.assertEqual(document["judged"], len(made))
        self.assertIn("no difference from what happened, as far as it was compared\n",
                      rig.cli_text("check", "--against", "1h").stdout)
        plane, ledger_, cards = range(3)

        def source(i, **keys):
            return lambda c: c["sources"][i].update(keys)

        def endpoint(i, **keys):
            return lambda c: c["endpoints"][i].update(keys)
        routed = [made[n] for n in ("one", "two", "late")]
        cases = [
            (endpoint(1, types=["other"]),
             {("not_routed", "books"): [*routed, made["published"]]}),
            (lambda c: c["endpoints"].append(rig.endpoint("fresh", sources=["plane"])),
             {("routed", "fresh"): [made["plane"], made["first"]]}),
            (lambda c: c["endpoints"].pop(1),
             {("not_routed", "books"): [*routed, made["published"]]}),
            (endpoint(2, enabled=True, sources=["cards"], workspaces=["blue"]),
             {("routed", "off"): [made["blue"]]}),
            (lambda c: c["routes"][0].update(where={"json:/team": "blue"}),
             {("routed", "teams"): [made["blue"]],
              ("not_routed", "teams"): [*routed, made["new"], made["paid"]]}),
            (source(plane, dedupe="none"), {("not_duplicate", "plane"): [made["again"]]}),
            (source(ledger_, dedupe={"keys": [["json:/team"]]}),
             {("duplicate", "ledger"): [made[n] for n in ("two", "late", "held")]}),
            (source(ledger_, order={"by": "arrival"}),
             {("order", "ledger"): [made[n] for n in ("one", "two", "late", "held")],
              ("not_refused", "ledger"): [made["unreadable"]]}),
            (source(cards, states={**rig.config["sources"][cards]["states"],
                                   "moves": ["new>closed", "closed>paid"]}),
             {("not_ignored", "cards"): [made["closed"]]}),
            (source(cards, type="const:card"),
             {("type", "cards"): [made[n] for n in ("new", "closed", "paid", "blue")]}),
            (source(cards, workspaces=["red"]), {("refused", "cards"): [made["blue"]]}),
            (source(cards, secrets=["another key"]),
             {("rejected", "cards"): [made[n] for n in ("new", "closed", "paid", "blue")]}),
            (lambda c: c["sources"].pop(plane),
             {("rejected", "plane"): [made[n] for n in ("plane", "first", "again")]}),
            (lambda c: c["producers"][0].update(types=["entry.*"]),
             {("rejected", "billing"): [made["only"]]}),
        ]
        for i, (change, expected) in enumerate(cases):
            with self.subTest(case=i):
                self.assertEqual(self.differences(rig, change), expected)
        self.assertEqual(len(rig.receiver.requests()), before)
        # A secret that this shell does not have: only signatures are left out.
        del rig.env["PLANE_SECRET"]
        document = self.check(rig)
        self.assertEqual([(u["source"], u["count"]) for u in document["unverified"]], [("plane", 3)])
        # While the processes are down, and not without their databases.
        rig.stop()
        self.assertEqual(self.check(rig)["judged"], len(made))
        (rig.state_dir / "sequencer.db").rename(rig.state_dir / "away")
        done = rig.cli_text("check", "--against", "1h")
        self.assertEqual((done.returncode, done.stdout), (74, ""), done.stderr)

    def received(self, rig, event):
        return rig.rows("sequencer", "SELECT received_ms FROM events WHERE id = ?",
                        event)[0]["received_ms"] / 1000

    def test_requests_of_several_events_and_two_archives(self):
        rig = self.rig({"sources": [ledger(batch=True)]})
        rig.start()
        text = json.dumps([{"id": f"i{n}", "type": "t", "team": "a"} for n in (1, 2, 1)]).encode()
        at = str(int(time.time()))
        sig = hmac.new(KEY.encode(), f"{at}.".encode() + text, hashlib.sha256).hexdigest()
        event = rig.accept(text, source="ledger", headers={"X-Sig": sig, "X-Time": at})
        wait_for(lambda: len(rig.trace(event)["events"]) == 3)
        self.assertEqual(self.check(rig)["differences"], [])
        found = self.differences(rig, lambda c: c["sources"][0].update(batch=False))
        self.assertEqual(found, {("split", "ledger"): [event]})
        found = self.differences(rig, lambda c: c["sources"][0].update(dedupe="none"))
        self.assertEqual([k for k in found], [("not_duplicate", "ledger")])
        # A period that begins after all of them.
        document, code = rig.cli("check", "--against", "2036-01-01")
        self.assertEqual((document["judged"], code), (0, 69))
        done = rig.cli_text("check", "--against", "2036-01-01")
        self.assertEqual(done.returncode, 69)
        self.assertIn("nothing was compared", done.stdout)
        self.assertNotIn("no difference", done.stdout)
        self.assertEqual(rig.cli("workspaces", "erase", "a")[1], 0)
        wait_for(lambda: all(j["state"] == "done" for j in rig.cli("jobs")[0]))
        self.assertEqual(self.check(rig, code=69)["differences"], [])


if __name__ == "__main__":
    main()
