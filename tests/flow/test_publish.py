"""Producers publish by POST /v1/events and /v1/events/batch. P1, P2, P4 (idempotency keys),
P7 (permissions)."""

import contextlib
import json
import pathlib
import socket
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import ROOT, RigTest, http_request, is_signed, main, wait_for

TOKEN = "t0ken-of-billing"
EVENT = {"type": "invoice.paid", "workspace": "acct_1", "data": {"n": 1.10}}


class Publishing(RigTest):
    def pipeline(self, **more):
        config = {"producers": [
            {"name": "billing", "tokens": ["an-older-one", TOKEN],
             "workspaces": ["acct_*"], "types": ["invoice.*"], **more},
            {"name": "crm-app", "tokens": ["t0ken-of-crm"]}]}
        return self.rig(config)

    def post(self, rig, body, path="/v1/events", token=TOKEN, **headers):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        status, answered, text = http_request(
            rig.ingress_port, "POST", path, body, headers)
        return status, answered, text.decode()

    def test_an_endpoint_gets_a_published_event_as_our_object(self):
        rig = self.pipeline()
        rig.start()
        body = ('{"type":"invoice.paid", "workspace":"acct_1", '
                '"data": {"n": 1.10, "big": 12345678901234567890123}}')
        status, _, text = self.post(rig, body, X_Request_Id="7")
        self.assertEqual(status, 200, text)
        event = json.loads(text)
        self.assertEqual(event["status"], "accepted")
        self.assertRegex(event["id"], r"^evt_[0-9A-Z]{26}$")
        got = rig.receiver.wait(event["id"])[0]
        self.assertTrue(is_signed(got))
        self.assertEqual(got.headers["content-type"], "application/json")
        self.assertEqual(got.headers["grapnel-source"], "billing")
        self.assertEqual(got.headers["grapnel-type"], "invoice.paid")
        self.assertEqual(got.headers["grapnel-workspace"], "acct_1")
        self.assertNotIn("authorization", got.headers)
        text = got.body.decode()
        self.assertEqual(list(json.loads(text)),
                         ["id", "type", "workspace", "timestamp", "data"])
        self.assertEqual(json.loads(text)["id"], event["id"])
        self.assertRegex(json.loads(text)["timestamp"],
                         r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        # Numbers are handed on as they were written.
        self.assertTrue(text.endswith(
            '"data":{"n": 1.10, "big": 12345678901234567890123}}'), text)

    def test_the_producer_is_removed(self):
        """What it published is sent again as it was, also that of a batch."""
        rig = self.pipeline()
        rig.start()
        event = json.loads(self.post(rig, EVENT)[2])["id"]
        line = self.batch(rig, [EVENT])[1][0]["id"]
        sent = {e: rig.receiver.wait(e)[0].body for e in (event, line)}
        del rig.config["producers"][0]
        rig.write_config()
        done = rig.cli_text("reload")
        self.assertEqual(done.returncode, 0, done.stderr)
        for e, body in sent.items():
            done = rig.cli_text("resend", e)
            self.assertEqual(done.returncode, 0, done.stderr)
            again = rig.receiver.wait(e, count=2)[1]
            self.assertEqual((again.body, again.headers["content-type"]),
                             (body, "application/json"))

    def test_no_token_is_stored(self):
        rig = self.pipeline()
        rig.start()
        self.post(rig, EVENT)
        self.post(rig, EVENT, token="a-token-of-nobody")
        wait_for(lambda: rig.receiver.stats()["requests"] == 1)
        rig.ask("ingress", "rejects")  # what was refused is written
        rig.stop()
        for path in [*rig.state_dir.iterdir(), *rig.folder.glob("*.log")]:
            content = path.read_bytes()
            self.assertNotIn(TOKEN.encode(), content, path)
            self.assertNotIn(b"a-token-of-nobody", content, path)

    def test_a_duplicate_has_the_same_id_and_is_one_event(self):
        rig = self.pipeline()
        rig.start()
        ids = set()
        for _ in range(3):
            status, _, text = self.post(rig, EVENT, Idempotency_Key="order-7")
            self.assertEqual(status, 200, text)
            ids.add(json.loads(text)["id"])
        status, _, text = self.post(rig, {**EVENT, "id": "order-7"})
        ids.add(json.loads(text)["id"])
        self.assertEqual(len(ids), 1)
        rig.kill("ingress")
        rig.start()
        _, _, text = self.post(rig, EVENT, Idempotency_Key="order-7")
        ids.add(json.loads(text)["id"])
        self.assertEqual(len(ids), 1)
        # The same key of another producer is another event, as is no key.
        for text in [
                self.post(rig, EVENT, token="t0ken-of-crm",
                          Idempotency_Key="order-7")[2],
                self.post(rig, EVENT)[2]]:
            ids.add(json.loads(text)["id"])
        self.assertEqual(len(ids), 3)
        for event in ids:
            rig.receiver.wait(event)
        self.assertEqual(rig.receiver.stats()["requests"], 3)
        found, _ = rig.cli("trace", "order-7")
        self.assertEqual(len(found["matches"]), 2, found)

    def reused(self, rig, body, first, **more):
        """`body` is refused, and the response names the event `first`."""
        status, _, text = self.post(rig, body, **more)
        self.assertEqual(status, 422, text)
        error = json.loads(text)["error"]
        self.assertEqual((error["code"], error["id"]),
                         ("idempotency_key_reused", first))

    def test_a_key_used_again_for_another_event_is_refused(self):
        rig = self.pipeline()
        rig.start()
        key = {"Idempotency_Key": "order-7"}
        first = json.loads(self.post(rig, EVENT, **key)[2])["id"]
        other = {**EVENT, "data": {"n": 2}}
        self.reused(rig, other, first, **key)
        self.reused(rig, {**other, "id": "order-7"}, first)
        self.reused(rig, {**EVENT, "type": "invoice.sent"}, first, **key)
        # What is written differently, and means the same, is a duplicate.
        spaced = json.dumps({"data": {"n": 1.10}, "id": "order-7", **EVENT},
                            indent=2)
        status, _, text = self.post(rig, spaced)
        self.assertEqual((status, json.loads(text)["id"]), (200, first))
        rig.ask("ingress", "rejects")  # what was refused is written
        rig["ingress"].restart()
        self.reused(rig, other, first, **key)
        rejects = rig.ask("ingress", "rejects", source="billing")["rejects"]
        self.assertEqual([(r["reason"], r["status"]) for r in rejects],
                         [("idempotency_key_reused", 422)] * 4)
        metrics = rig.ask("ingress", "status")["metrics"]
        self.assertEqual(metrics[
            "grapnel_ingress_responses_idempotency_key_reused_total"], 1)
        rig.receiver.wait(first)
        self.assertEqual(rig.receiver.stats()["requests"], 1)

    def test_two_bodies_with_one_key_in_one_commit_are_told_apart(self):
        """The first may be in the same commit, or in the same batch."""
        rig = self.pipeline()
        rig.start("ingress")
        other = {**EVENT, "data": {"n": 2}, "id": "k"}
        status, lines = self.batch(rig, [{**EVENT, "id": "k"}, other,
                                         {**EVENT, "id": "k"}])
        self.assertEqual(status, 207)
        first = lines[0]["id"]
        self.assertEqual(lines[2]["id"], first)
        self.assertEqual(
            {k: lines[1]["error"][k] for k in ("code", "line", "id")},
            {"code": "idempotency_key_reused", "line": 2, "id": first})
        status, lines = self.batch(rig, [other])
        self.assertEqual((status, lines[0]["error"]["id"]), (400, first))
        rejects = rig.ask("ingress", "rejects", source="billing")["rejects"]
        self.assertEqual(sorted(r["reason"] for r in rejects),
                         ["batch_refused"] + 2 * ["idempotency_key_reused"])

    def test_a_reused_key_at_another_ingress_is_refused_by_the_sequencer(self):
        """The other ingress cannot know the key; the refusal is recorded."""
        rig = self.pipeline()
        rig.add("ingress-2")
        rig.start("ingress")
        key = {"Idempotency_Key": "order-7"}
        first = json.loads(self.post(rig, EVENT, **key)[2])["id"]
        rig["ingress"].stop()
        rig.start("ingress-2")
        other = {**EVENT, "data": {"n": 2}}
        self.assertEqual(json.loads(self.post(rig, other, **key)[2])["id"],
                         first)
        self.post(rig, other, **key)
        rig["ingress-2"].stop()
        rig.start("ingress", "sequencer")
        wait_for(lambda: rig.ask("sequencer", "events")["events"])
        rig.start()
        refused = wait_for(lambda: rig.cli("events", "--status", "refused")[0])
        self.assertEqual(len(refused), 1)
        self.assertEqual(refused[0]["duplicate_of"], first)
        self.assertIn("idempotency_key_reused", refused[0]["reason"])
        rig.receiver.wait(first)
        dead_letter = wait_for(lambda: rig.cli("dlq")[0])[0]
        self.assertEqual(dead_letter["event_id"], refused[0]["id"])
        # An operator may deliver it all the same.
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        got = rig.receiver.wait(refused[0]["id"])[0]
        self.assertEqual(json.loads(got.body)["data"], {"n": 2})

    def test_ids_ascend_after_a_restart_despite_keyed_ids(self):
        rig = self.pipeline()
        rig.start("ingress")
        first = json.loads(self.post(rig, EVENT)[2])["id"]
        self.post(rig, {**EVENT, "id": "k"})
        rig["ingress"].restart()
        second = json.loads(self.post(rig, EVENT)[2])["id"]
        self.assertLess(first, second)
        self.assertLess(second, "evt_8")

    def as_before(self, path):
        """The same rows in a file as the first four steps made it."""
        new = path.rename(path.with_suffix(".new"))
        with contextlib.closing(sqlite3.connect(path)) as db:
            for step in ("ingress/upgrade/01-store", "proto/upgrade/hop",
                         "ingress/upgrade/03-rejects", "ingress/upgrade/04-replays"):
                db.executescript((ROOT / f"{step}.sql").read_text())
            db.execute("ATTACH ? AS new", (str(new),))
            for table, in db.execute("SELECT name FROM main.sqlite_master "
                                     "WHERE type = 'table'").fetchall():
                columns = [row[1] for row in db.execute(
                    f"PRAGMA main.table_info({table})")]
                now = table.replace("hop_", "link_").replace("_runs", "_epochs")
                select = ", ".join({"run": "epoch", "act": "action_id"}.get(c, c)
                                   for c in columns)
                db.execute(f"INSERT INTO main.{table} SELECT {select} FROM new.{now}")
            db.commit()
            db.execute("PRAGMA user_version = 4")

    def test_ids_of_an_older_database_are_found(self):
        """P7, P10: a duplicate of a key responds to the same id, and each event is
        found, after the index of all ids went (ingress/upgrade/05-ids.sql)."""
        rig = self.pipeline()
        rig.start("ingress")
        keys = [{"Idempotency_Key": f"order-{n}"} if n % 3 else {}
                for n in range(200)]
        ids = [json.loads(self.post(rig, EVENT, **key)[2])["id"]
               for key in keys]
        rig["ingress"].stop()
        self.as_before(rig.state_dir / "ingress.db")
        rig.start("ingress")
        for event, key in zip(ids, keys):
            self.assertEqual(rig.ask("ingress", "trace", id=event)["id"], event)
            if key:
                self.assertEqual(
                    json.loads(self.post(rig, EVENT, **key)[2])["id"], event)
                self.reused(rig, {**EVENT, "data": 2}, event, **key)
        rows, = rig.rows("ingress", "SELECT count(*) AS n FROM archive")
        self.assertEqual(rows["n"], len(ids))
        self.assertGreater(json.loads(self.post(rig, EVENT)[2])["id"],
                           max(x for x in ids if x < "evt_8"))

    def test_producers_are_refused_outside_their_permissions(self):
        rig = self.pipeline()
        rig.start("ingress")
        for body, more, status, code, field in [
                (EVENT, {"token": None}, 401, "unauthorized", None),
                (EVENT, {"token": "another"}, 401, "unauthorized", None),
                (EVENT, {"token": TOKEN + "x"}, 401, "unauthorized", None),
                ({**EVENT, "workspace": "other"}, {}, 403, "forbidden",
                 "workspace"),
                ({**EVENT, "type": "issue.paid"}, {}, 403, "forbidden",
                 "type"),
                ({**EVENT, "endpoints": ["nobody"]}, {}, 400, "bad_request",
                 "endpoints"),
                ("{", {}, 400, "bad_request", None),
                ({"type": "invoice.paid", "workspace": "acct_1"}, {}, 400,
                 "bad_request", "data"),
                ({**EVENT, "id": "a"}, {"Idempotency_Key": "b"}, 400,
                 "bad_request", "id")]:
            with self.subTest(body=body, more=more):
                got, _, text = self.post(rig, body, **more)
                error = json.loads(text)["error"]
                self.assertEqual((got, error["code"], error.get("field")),
                                 (status, code, field), text)
        self.assertEqual(http_request(rig.ingress_port, "GET", "/v1/events")[0],
                         405)

    def test_send_explains_how_a_producer_publishes(self):
        done = self.pipeline().cli_text("send", "billing")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\n  curl .*Bearer.* http://\S+/v1/events")

    def test_publishing_without_producers_is_forbidden(self):
        rig = self.rig()
        rig.start("ingress")
        status, _, text = self.post(rig, EVENT)
        self.assertEqual(status, 403)
        self.assertIn("no producers", text)

    def batch(self, rig, lines, **more):
        text = "\n".join(x if isinstance(x, str) else json.dumps(x)
                         for x in lines) + "\n"
        status, headers, text = self.post(rig, text, "/v1/events/batch", **more)
        return status, [json.loads(line) for line in text.splitlines()]

    def test_a_batch_has_a_response_line_for_each_line(self):
        rig = self.pipeline()
        rig.start()
        status, lines = self.batch(rig, [EVENT, EVENT, {**EVENT, "id": "k"}])
        self.assertEqual(status, 200)
        self.assertEqual([x["line"] for x in lines], [1, 2, 3])
        for line in lines:
            rig.receiver.wait(line["id"])
        status, lines = self.batch(
            rig, [EVENT, "nonsense", "", {**EVENT, "type": 5},
                  {**EVENT, "workspace": "w"}, {**EVENT, "id": "k"}])
        self.assertEqual(status, 207)
        self.assertEqual([x["line"] if "line" in x else x["error"]["line"]
                          for x in lines], [1, 2, 4, 5, 6])
        self.assertEqual([x.get("error", {}).get("field") for x in lines],
                         [None, None, "type", "workspace", None])
        self.assertEqual([x.get("error", {}).get("code") for x in lines],
                         [None, "bad_request", "bad_request", "forbidden",
                          None])
        rig.receiver.wait(lines[0]["id"])
        status, lines = self.batch(rig, ["nonsense", "{}"])
        self.assertEqual(status, 400)
        self.assertEqual(len(lines), 2)
        self.assertEqual(rig.receiver.stats()["requests"], 4)

    def test_a_batch_has_at_most_ten_thousand_lines(self):
        rig = self.pipeline()
        rig.config["ingress"]["max_body"] = "4MiB"
        rig.write_config()
        rig.start("ingress")
        status, lines = self.batch(rig, [EVENT] * 10000)
        self.assertEqual(status, 200)
        self.assertEqual(len({x["id"] for x in lines}), 10000)
        self.assertEqual(self.archived(rig), 10000)
        self.assertEqual(self.batch(rig, [EVENT] * 10001)[0], 400)

    def test_unread_responses_leave_no_memory_behind(self):
        """A line of three bytes has a response of a hundred bytes."""
        rig = self.pipeline()
        rig.start("ingress")
        body = b"{}\n" * 10000
        crowd = []
        for _ in range(10):
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", rig.ingress_port))
            s.sendall(b"POST /v1/events/batch HTTP/1.1\r\nHost: d\r\n"
                      b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
                      % (TOKEN.encode(), len(body)) + body)
            crowd.append(s)
        self.assertEqual(self.post(rig, EVENT)[0], 200)
        for s in crowd:
            s.close()
        wait_for(lambda: self.held(rig) == 0)

    def held(self, rig):
        return rig.ask("ingress", "status")["metrics"][
            "grapnel_ingress_bodies_bytes"]

    def test_an_event_goes_only_to_the_endpoints_that_it_names(self):
        rig = self.pipeline()
        rig.config["endpoints"].append(rig.endpoint("erp"))
        rig.write_config()
        rig.start()
        both = json.loads(self.post(rig, EVENT)[2])["id"]
        erp = json.loads(self.post(rig, {**EVENT, "endpoints": ["erp"]})[2])
        rig.receiver.wait(both, 2)
        rig.receiver.wait(erp["id"], path="/erp")
        last = json.loads(self.post(rig, EVENT)[2])["id"]
        rig.receiver.wait(last, 2)
        self.assertEqual([r.path for r in rig.receiver.requests()
                          if r.id == erp["id"]], ["/erp"])

    def test_an_expired_event_is_not_tried(self):
        rig = self.pipeline()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.start()
        _, _, text = self.post(rig, {**EVENT, "expires_in": "300ms"})
        event = json.loads(text)["id"]
        dead_letter = wait_for(lambda: [x for x in rig.cli("dlq")[0]
                                   if x["event_id"] == event])[0]
        self.assertEqual(dead_letter["reason"], "expired")
        self.assertEqual(rig.trace(event)["status"], "expired")
        self.assertEqual([e["id"] for e in rig.cli(
            "events", "--status", "expired", "--endpoint", "crm")[0]], [event])
        for other in [("--status", "done"), ("--endpoint", "no-one")]:
            self.assertEqual(rig.cli("events", *other)[0], [])
        # An endpoint is subscribed to it all the same.
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        self.assertEqual(rig.cli("dlq", "retry", dead_letter["id"])[1], 0)
        wait_for(lambda: event in rig.receiver.delivered())

    def test_an_event_that_expires_while_waiting_is_a_dead_letter(self):
        rig = self.pipeline()
        rig.start("ingress")
        _, _, text = self.post(rig, {**EVENT, "expires_in": "1ms"})
        event = json.loads(text)["id"]
        rig.start()
        dead_letter = wait_for(lambda: [x for x in rig.cli("dlq")[0]
                                   if x["event_id"] == event])[0]
        self.assertEqual(dead_letter["reason"], "expired")
        self.assertEqual(rig.receiver.stats()["requests"], 0)

    def test_a_producer_is_limited_to_its_rate(self):
        rig = self.pipeline(rate_limit="5/h")
        rig.start("ingress")
        responses = [self.post(rig, EVENT) for _ in range(7)]
        self.assertEqual([a[0] for a in responses], [200] * 5 + [429] * 2)
        self.assertIn("Retry-After", responses[-1][1])
        self.assertEqual(self.post(rig, EVENT, token="t0ken-of-crm")[0], 200)

    def archived(self, rig):
        return rig.rows("ingress", "SELECT count(*) AS n FROM archive")[0]["n"]

    def test_a_batch_counts_as_its_events(self):
        """It is accepted or refused as a whole, and Retry-After says when it
        fits."""
        rig = self.pipeline(rate_limit="100/h")
        rig.start("ingress")
        self.assertEqual(self.batch(rig, [EVENT] * 60)[0], 200)
        body = "\n".join(json.dumps(EVENT) for _ in range(60))
        status, headers, text = self.post(rig, body, "/v1/events/batch")
        self.assertEqual(status, 429, text)
        # 20 of 60 do not fit; 36 s each.
        self.assertIn(int(headers["Retry-After"]), range(600, 721))
        self.assertEqual(json.loads(text)["error"]["code"], "rate_limited")
        self.assertEqual(self.archived(rig), 60)
        self.assertEqual(self.batch(rig, [EVENT] * 40)[0], 200)
        self.assertEqual(self.post(rig, EVENT)[0], 429)

    def test_a_batch_above_the_limit_needs_the_whole_burst(self):
        rig = self.pipeline(rate_limit="100/h")
        rig.start("ingress")
        self.assertEqual(self.batch(rig, [EVENT] * 300)[0], 200)
        status, headers, _ = self.post(rig, EVENT)
        self.assertEqual(status, 429)
        self.assertGreater(int(headers["Retry-After"]), 3600)

    def bytes_of(self, rig, process):
        return sum(path.stat().st_size for path in
                   rig.state_dir.glob(f"{process}.db*"))

    def test_the_head_of_a_batch_is_stored_once(self):
        """Not with each of its lines: 1000 lines of 100 bytes below 12 KiB."""
        rig = self.pipeline()
        rig.start()
        head = {f"X_Head_{i}": "h" * 1000 for i in range(12)}
        body = "\n".join(json.dumps({**EVENT, "data": i}) for i in range(1000))
        before = {p: self.bytes_of(rig, p) for p in ("ingress", "sequencer")}
        status, _, text = self.post(rig, body, "/v1/events/batch", **head)
        self.assertEqual(status, 200, text)
        ids = [json.loads(line)["id"] for line in text.splitlines()]
        rig.settle()
        for process, were in before.items():
            self.assertLess(self.bytes_of(rig, process) - were, 6 << 20, process)
        rig.kill("ingress")
        rig.start()
        for event in (ids[0], ids[500], ids[-1]):
            shown = json.dumps(rig.cli("show", event, "--json")[0])
            self.assertIn("h" * 1000, shown)
            self.assertIn("X-Head-11", shown)


if __name__ == "__main__":
    main()
