"""Event types: the catalogue, and the check of producers' events against its schemas."""

import contextlib
import json
import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, wait_for

TOKEN = "producers-token"
PAID = {"type": "object", "required": ["amount"],
        "properties": {"amount": {"type": "integer", "minimum": 1},
                       "lines": {"type": "array", "items": {
                           "$ref": "#/$defs/line"}}},
        "$defs": {"line": {"type": "object", "additionalProperties": False,
                           "properties": {"sku": {"type": "string",
                                                  "maxLength": 4}}}}}


class Types(RigTest):
    def with_types(self, console=True, **producer):
        producer = {"name": "shop", "tokens": [TOKEN], "check_schema": True,
                    **producer}
        rig = self.rig({"producers": [producer]}, console=console)
        rig.start()
        if console:
            made, code = rig.cli("tokens", "create", "t", "--role", "operator")
            self.assertEqual(code, 0, made)
            rig.token = made["token"]
        return rig

    def api(self, rig, method, path, body=None, **headers):
        """(status, headers, document)"""
        send = {"Authorization": f"Bearer {rig.token}", **headers}
        if body is not None:
            send["Content-Type"] = "application/json"
            body = json.dumps(body).encode()
        status, answered, text = http_request(
            rig.console_port, method, f"/api/v1{path}", body, send)
        return status, {k.lower(): v for k, v in answered.items()}, json.loads(text)

    def publish(self, rig, data, type="invoice.paid", **more):
        body = json.dumps({"type": type, "workspace": "acme", "data": data,
                           **more}).encode()
        return rig.post(body, path="/v1/events", headers={
            "Authorization": f"Bearer {TOKEN}"})

    def wait_checked(self, rig, status=422, **how):
        """Until ingress has the catalogue."""
        how = {"data": {}, **how}
        return wait_for(lambda: (
            (said := self.publish(rig, how["data"],
                                  how.get("type", "invoice.paid")))[0]
            == status and said), what=f"a {status}")

    def test_the_catalogue_over_http(self):
        rig = self.with_types()
        status, head, made = self.api(rig, "POST", "/event-types", {
            "name": "invoice.paid", "description": "money arrived",
            "example": {"amount": 5}, "schema": PAID})
        self.assertEqual(status, 200, made)
        self.assertEqual((made["name"], made["schema"], made["example"]),
                         ("invoice.paid", PAID, {"amount": 5}))
        self.assertEqual(head["etag"], f'"{made["version"]}"')
        self.assertEqual(self.api(rig, "GET", "/event-types/invoice.paid")[2],
                         made)
        _, _, listed = self.api(rig, "GET", "/event-types?limit=1")
        self.assertEqual([(t["name"], t["has_schema"]) for t in listed["items"]],
                         [("invoice.paid", True)])
        again = self.api(rig, "GET", "/event-types?limit=1&cursor="
                         + listed["next_cursor"])[2]
        self.assertEqual(again, {"items": [], "next_cursor": None})
        with self.subTest("it exists already"):
            self.assertEqual(self.api(rig, "POST", "/event-types",
                                      {"name": "invoice.paid"})[0], 409)
        path = "/event-types/invoice.paid"
        with self.subTest("a change needs the version"):
            self.assertEqual(self.api(rig, "PATCH", path,
                                      {"description": "x"})[0], 428)
            status, _, changed = self.api(
                rig, "PATCH", path, {"description": "x", "example": None},
                **{"If-Match": head["etag"]})
            self.assertEqual(status, 200, changed)
            self.assertEqual((changed["description"], changed["example"],
                              changed["schema"]), ("x", None, PAID))
            self.assertGreater(changed["version"], made["version"])
            status, _, error = self.api(rig, "PATCH", path, {"description": "y"},
                                        **{"If-Match": head["etag"]})
            self.assertEqual((status, error["error"]["code"]), (412, "changed"))
            self.assertEqual(self.api(rig, "DELETE", path)[0], 428)
            self.assertEqual(self.api(rig, "DELETE", path,
                                      **{"If-Match": head["etag"]})[0], 412)
            self.assertEqual(self.api(rig, "DELETE", path,
                                      **{"If-Match": "*"})[0], 200)
            self.assertEqual(self.api(rig, "GET", path)[0], 404)
            self.assertEqual(self.api(rig, "PATCH", path, {},
                                      **{"If-Match": "*"})[0], 404)
        for name, body in {
                "a keyword that is not checked": {
                    "schema": {"contentEncoding": "base64"}},
                "a pattern that is not supported": {
                    "schema": {"pattern": "^(?!a)"}},
                "a $ref outside": {"schema": {"$ref": "https://example.com"}},
                "not a schema": {"schema": {"type": "money"}},
                "an example that does not fit": {
                    "schema": PAID, "example": {"amount": 0}}}.items():
            with self.subTest(name):
                status, _, error = self.api(rig, "POST", "/event-types",
                                            {"name": "bad", **body})
                self.assertEqual(status, 400, error)
                self.assertEqual(error["error"]["field"], list(body)[-1])
        with self.subTest("a viewer reads only"):
            made, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
            rig.token = made["token"]
            self.assertEqual(self.api(rig, "POST", "/event-types",
                                      {"name": "a"})[0], 403)
            self.assertEqual(self.api(rig, "GET", "/event-types")[0], 200)

    def make(self, rig, name="invoice.paid", schema=PAID):
        rig.ask("sequencer", "event_type_create", name=name, schema=schema)

    def test_a_refused_event_names_the_path_and_the_rule(self):
        """And `rejects` keeps it; what fits is delivered."""
        rig = self.with_types(console=False)
        self.make(rig)
        self.wait_checked(rig)
        for data, path, rule in (
                ({}, "/data", "required"),
                ([], "/data", "type"),
                ({"amount": 0}, "/data/amount", "minimum"),
                ({"amount": 1.5}, "/data/amount", "type"),
                ({"amount": 1, "lines": [{"sku": "a"}, {"sku": "abcde"}]},
                 "/data/lines/1/sku", "maxLength"),
                ({"amount": 1, "lines": [{"a/b~": 1}]},
                 "/data/lines/0/a~1b~0", "additionalProperties")):
            with self.subTest(data=data):
                status, _, said = self.publish(rig, data)
                self.assertEqual(status, 422, said)
                error = said["error"]
                self.assertEqual(
                    (error["code"], error["field"], error["path"], error["rule"]),
                    ("schema_mismatch", "data", path, rule))
        reject = rig.cli("rejects", "--source", "shop")[0][0]
        self.assertEqual(reject["reason"], "schema_mismatch")
        status, _, said = self.publish(rig, {"amount": 1e3})
        self.assertEqual(status, 200, said)
        rig.receiver.wait(said["id"])
        with self.subTest("a type without an entry passes"):
            self.assertEqual(self.publish(rig, 7, type="other")[0], 200)
        with self.subTest("each line of a batch"):
            lines = "\n".join(json.dumps(
                {"type": "invoice.paid", "workspace": "acme", "data": d})
                for d in ({"amount": 1}, {"amount": -1}))
            status, _, said = rig.post(
                lines.encode(), path="/v1/events/batch",
                headers={"Authorization": f"Bearer {TOKEN}"})
            self.assertEqual(status, 207, said)
            _, refused = map(json.loads, said.decode().splitlines())
            self.assertEqual(refused["error"]["path"], "/data/amount")

    def test_unknown_types_and_producers_that_do_not_ask(self):
        rig = self.with_types(console=False, unknown_types="refuse",
                              check_schema=False)
        rig.config["producers"].append({"name": "free", "tokens": ["free"]})
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        self.make(rig)
        status, _, said = self.wait_checked(rig, type="other")
        self.assertEqual((said["error"]["code"], said["error"]["path"]),
                         ("type_unknown", "/type"))
        self.wait_checked(rig, status=200, data={"amount": -1})
        body = json.dumps({"type": "other", "workspace": "w", "data": 1}).encode()
        self.assertEqual(rig.post(body, path="/v1/events", headers={
            "Authorization": "Bearer free"})[0], 200)

    def test_the_copy_outlives_the_sequencer_restarts_and_restores(self):
        """Several ingresses have the same one; before the first copy it is a 503."""
        rig = self.rig({"producers": [{"name": "shop", "tokens": [TOKEN],
                                       "check_schema": True}]})
        rig.start("ingress")
        status, head, said = self.publish(rig, {"amount": -1})
        self.assertEqual((status, said["error"]["code"]), (503, "unavailable"))
        self.assertIn("retry-after", {k.lower() for k in head})
        rig.start()
        self.make(rig)
        self.wait_checked(rig)
        rig["sequencer"].kill()
        rig["ingress"].kill()
        rig.start("ingress")
        self.assertEqual(self.publish(rig, {"amount": -1})[0], 422)
        self.assertEqual(self.publish(rig, {"amount": 1})[0], 200)
        rig.start("sequencer")
        with self.subTest("after a restore both have the older one"):
            backup = rig.folder / f"backup-{uuid.uuid4()}"
            self.assertEqual(rig.cli("backup", backup)[1], 0)
            rig.ask("sequencer", "event_type_change", name="invoice.paid",
                    schema={"type": "string"})
            self.wait_checked(rig, status=200, data="text")
            ingress_now = rig.state_dir / "ingress.db"
            rig.stop()
            kept = {p.name: p.read_bytes()
                    for p in rig.state_dir.glob("ingress.db*")}
            self.assertEqual(rig.cli_text("restore", backup).returncode, 0)
            with contextlib.suppress(FileNotFoundError):
                ingress_now.with_name("ingress.db-wal").unlink()
            for name, content in kept.items():  # ingress alone is not restored
                (rig.state_dir / name).write_bytes(content)
            rig.start()
            self.wait_checked(rig, data="text")
            self.assertEqual(self.publish(rig, {"amount": 1})[0], 200)

    def test_a_hostile_schema_takes_bounded_time(self):
        """Thirty levels of two branches would be a thousand million checks."""
        rig = self.with_types(console=False)
        defs = {f"n{i}": {"anyOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 2}
                for i in range(30)}
        defs["n30"] = {"type": "string"}
        self.make(rig, schema={"$ref": "#/$defs/n0", "$defs": defs})
        _, _, said = self.wait_checked(rig)
        self.assertEqual(said["error"]["rule"], "steps")
        self.assertEqual(self.publish(rig, "text")[0], 200)
        with self.subTest("a cycle"):
            with self.assertRaises(AssertionError):
                self.make(rig, name="c", schema={"$ref": "#"})
        with self.subTest("a pattern for which a backtracking matcher takes years"):
            self.make(rig, name="p", schema={"pattern": "^(a|a?)+$"})
            self.wait_checked(rig, type="p", data="b")
            self.assertEqual(self.publish(rig, "a" * 10_000, type="p")[0], 200)
            _, _, said = self.publish(rig, "a" * 10_000 + "b", type="p")
            self.assertEqual(said["error"]["rule"], "pattern")

    def test_the_command_line(self):
        rig = self.with_types(console=False)
        schema, example = rig.folder / "s.json", rig.folder / "e.json"
        schema.write_text(json.dumps(PAID))
        example.write_text('{"amount": 5}')
        with self.subTest("add, show, list"):
            made, code = rig.cli("types", "set", "invoice.paid", "--schema", schema,
                                 "--example", example, "--description", "m\u00f6ney")
            self.assertEqual((code, made["schema"], made["example"]),
                             (0, PAID, {"amount": 5}))
            self.assertEqual(rig.cli("types", "show", "invoice.paid"), (made, 0))
            self.assertIn('"minimum": 1',
                          rig.cli_text("types", "show", "invoice.paid").stdout)
            self.assertEqual([(t["name"], t["has_schema"])
                              for t in rig.cli("types")[0]],
                             [("invoice.paid", True)])
            self.wait_checked(rig)
        with self.subTest("a change keeps what is not given; an empty text removes"):
            changed, _ = rig.cli("types", "set", "invoice.paid", "--example", "",
                                 "--description", "x")
            self.assertEqual((changed["description"], changed["example"],
                              changed["schema"]), ("x", None, PAID))
            self.assertEqual(rig.cli("types", "set", "invoice.paid", "--if-version",
                                     made["version"], "--description", "y")[1], 1)
        for name, text, words, said in (
                ("not JSON", "{", ("--schema", "w.json"), "w.json:1:"),
                ("a wrong pattern", '{"properties": {"a": {"pattern": "a(?=b)"}}}',
                 ("--schema", "w.json"),
                 "invoice.paid: schema: /properties/a/pattern character 2:"),
                ("an example that does not fit", "7", ("--example", "w.json"),
                 "invoice.paid: example:"),
                ("no such file", "", ("--schema", "none.json"), "none.json"),
                ("not a version", "", ("--if-version", "x"), "--if-version")):
            with self.subTest(name):
                (rig.folder / "w.json").write_text(text)
                done = rig.cli_text("types", "set", "invoice.paid", *words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)
                self.assertEqual(rig.cli("types", "show", "invoice.paid")[0],
                                 changed)
        with self.subTest("delete"):
            self.assertEqual(rig.cli("types", "delete", "invoice.paid"),
                             ({"name": "invoice.paid"}, 0))
            for words in (("show",), ("delete",), ("set", "--if-version", "7")):
                self.assertEqual(rig.cli("types", words[0], "invoice.paid",
                                         *words[1:])[1], 1)
            self.assertEqual(rig.cli("types"), ([], 0))

    def test_export_and_import(self):
        """The catalogue as a file: what differs is changed, and nothing else."""
        rig = self.with_types(console=False)
        self.make(rig)
        rig.ask("sequencer", "event_type_create", name="a", description="d",
                example=[1.5, None])
        file, whole = rig.folder / "types.json", rig.cli("types", "export")[0]
        self.assertEqual(whole, [
            {"name": "a", "description": "d", "example": [1.5, None]},
            {"name": "invoice.paid", "schema": PAID}])

        def imported(types, *words):
            file.write_text(json.dumps(types))
            said, code = rig.cli("types", "import", file, *words)
            return {t["name"]: t["result"] for t in said or []}, code

        before = rig.cli("types")[0]
        self.assertEqual(imported(whole), ({"a": "same", "invoice.paid": "same"}, 0))
        self.assertEqual(rig.cli("types")[0], before)
        self.assertEqual(
            imported([{"name": "a", "schema": True}, {"name": "b"}]),
            ({"a": "changed", "b": "added"}, 0))
        self.assertEqual(rig.cli("types", "export")[0],
                         [{"name": "a", "schema": True}, {"name": "b"}, whole[1]])
        with self.subTest("one is refused, the others are not"):
            self.assertEqual(
                imported([{"name": "a", "schema": {"type": "money"}}, {"name": "c"}]),
                ({"a": None, "c": "added"}, 1))
        with self.subTest("a wrong file changes nothing"):
            before = rig.cli("types")[0]
            for wrong in ({"name": "x"}, [{"name": "x"}, {"name": "x"}],
                          [{"name": "x"}, {"nam": "y"}], [{"name": "x"}, 7],
                          [{"name": "x"}, {"name": "y\0z"}]):
                self.assertEqual(imported(wrong, "--delete-others"), ({}, 1))
            self.assertEqual(rig.cli("types")[0], before)
        with self.subTest("what the file lacks is deleted on request"):
            self.assertEqual(
                imported(whole, "--delete-others"),
                ({"a": "changed", "invoice.paid": "same", "b": "deleted",
                  "c": "deleted"}, 0))
            self.assertEqual(rig.cli("types", "export")[0], whole)
        with self.subTest("the sequencer is away"):
            rig.stop()
            self.assertEqual(imported(whole)[1], 69)
            self.assertEqual(rig.cli("types", "export"), (None, 69))


main()
