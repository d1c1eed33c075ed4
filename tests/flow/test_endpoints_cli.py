"""`grapnel endpoints create`, `change`, `rotate`, `delete`, `export` and `import`: endpoints that are
made at run time, from the command line."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import RigTest, main
from test_managed_endpoints import KEY, signed_by

SOME_ID = "ep_01JD3S6Q8W0N8M7V1T2X3Y4Z5A"


class EndpointsTest(RigTest):
    def managed_rig(self, **how):
        return self.rig({"secrets_key": KEY, "endpoints": []}, **how)

    def grapnel(self, rig, *args, stdin=None, code=0):
        """(stdout, stderr) of `grapnel endpoints ARGS`."""
        done = rig.cli_text("endpoints", *args, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def delivered_with(self, rig, path):
        """The request to this path of a new event."""
        event = rig.accept(rig.plane_body("acme"))
        rig.settle()
        request, = rig.receiver.requests(path, event)
        return request


class Life(EndpointsTest):
    def test_create_change_rotate_delete(self):
        rig = self.managed_rig().start()
        out, err = self.grapnel(rig, "create", rig.receiver.url("/hook"), "--workspace", "acme",
                                "--type", "issue.*,cycle.*", "--description", "Acme, billing",
                                "--settings", "-", stdin='{"allow_private": true}')
        name, secret = out.split()
        self.assertIn("shown only once", err)
        self.assertTrue(signed_by(self.delivered_with(rig, "/hook"), secret))
        rig.accept(rig.plane_body("other"))
        rig.settle()
        self.assertEqual(len(rig.receiver.requests("/hook")), 1)
        shown, _ = self.grapnel(rig, name)
        for line in ("description: Acme, billing", "workspace: acme",
                     f"url: {rig.receiver.url('/hook')}", "managed_by: api", "version: 1"):
            self.assertIn(line + "\n", shown)
        self.assertNotIn(secret, shown)
        self.assertEqual(rig.cli("endpoints", name)[0]["settings"]["types"],
                         ["issue.*", "cycle.*"])

        patch = json.dumps({"url": rig.receiver.url("/moved"), "types": None})
        out, _ = self.grapnel(rig, "change", name, "--settings", "-", "--if-version", "1",
                              stdin=patch)
        self.assertIn("version 2", out)
        self.assertTrue(signed_by(self.delivered_with(rig, "/moved"), secret))
        _, err = self.grapnel(rig, "change", name, "--settings", "-", "--if-version", "1",
                              stdin=patch, code=1)
        self.assertIn("it has version 2 now", err)

        out, err = self.grapnel(rig, "rotate", name, "--overlap", "1h")
        self.assertIn("Until", err)
        request = self.delivered_with(rig, "/moved")
        self.assertTrue(signed_by(request, out.strip()))
        self.assertTrue(signed_by(request, secret))

        tested, code = rig.cli("endpoints", "test", name)
        self.assertEqual((code, tested["verdict"]), (0, "delivered"))
        request, = rig.receiver.wait(tested["event_id"])
        self.assertTrue(signed_by(request, out.strip()))

        _, err = self.grapnel(rig, "delete", name, "--if-version", "1", code=1)
        self.assertIn("it has version", err)
        out, _ = self.grapnel(rig, "delete", name)
        self.assertIn("is deleted", out)
        self.assertEqual(json.loads(self.grapnel(rig, "export")[0]), [])
        count = len(rig.receiver.requests())
        rig.accept(rig.plane_body("acme"))
        rig.settle()
        self.assertEqual(len(rig.receiver.requests()), count)
        self.grapnel(rig, "test", name, code=1)

    def test_a_private_address_is_warned_of(self):
        rig = self.managed_rig(deliverers=0).start()
        out, err = self.grapnel(rig, "create", "http://127.0.0.1:9/")
        self.assertIn("warning: 127.0.0.1 is a private address", err)
        name = out.split()[0]
        _, err = self.grapnel(rig, "change", name, "--settings", "-", stdin='{"timeout": "9s"}')
        self.assertIn("warning: 127.0.0.1 is a private address", err)
        _, err = self.grapnel(rig, "change", name, "--settings", "-",
                              stdin='{"allow_private": true}')
        self.assertNotIn("warning", err)

    def test_an_export_with_secrets_signs_the_same_elsewhere(self):
        rig = self.managed_rig().start()
        made = json.loads(self.grapnel(rig, "create", rig.receiver.url("/hook"), "--json",
                                       "--description", "Acme's", "--settings", "-",
                                       stdin='{"allow_private": true}')[0])
        settings = {"allow_private": True, "url": rig.receiver.url("/other?token=of-the-url"), "types": ["cycle.*"],
                    "headers": {"x-key": "of-the-header"}}
        second, _ = self.grapnel(rig, "create", "--settings", "-", stdin=json.dumps(settings))
        second, second_secret = second.split()

        masked, _ = self.grapnel(rig, "export")
        for secret in (made["secret"], second_secret, "of-the-url", "of-the-header"):
            self.assertNotIn(secret, masked)
        whole, _ = self.grapnel(rig, "export", "--secrets")
        rig.stop()

        with self.subTest("with secrets"):
            other = self.managed_rig().start()
            out, err = self.grapnel(other, "import", "-", stdin=whole)
            self.assertEqual(out.split(), [made["name"], second])
            self.assertIn("2 of 2", err)
            self.assertEqual(json.loads(self.grapnel(other, "export", "--secrets")[0]),
                             json.loads(whole))
            self.assertEqual(other.cli("endpoints", made["name"])[0]["description"], "Acme's")
            event = other.accept()
            other.settle()
            request, = rig.receiver.wait(event)
            self.assertTrue(signed_by(request, made["secret"]))

            out, err = self.grapnel(other, "import", "-", stdin=whole, code=1)
            self.assertEqual(out, "")
            self.assertIn(f"item 1 ({made['name']}): {made['name']} exists", err)
            self.assertIn("0 of 2", err)
            other.stop()

        with self.subTest("without secrets"):
            other = self.managed_rig(deliverers=0).start()
            out, err = self.grapnel(other, "import", "-", stdin=masked, code=1)
            name, secret = out.split()
            self.assertEqual(name, made["name"])
            self.assertNotEqual(secret, made["secret"])
            self.assertIn("shown only once", err)
            self.assertIn(f"item 2 ({second}): settings.url", err)


class Wrong(EndpointsTest):
    def test_wrong_files(self):
        rig = self.managed_rig(deliverers=0).start("sequencer")
        url = "https://example.com/hook"
        self.assertEqual(json.loads(self.grapnel(rig, "export")[0]), [])
        self.grapnel(rig, "create", code=64)
        self.grapnel(rig, "change", SOME_ID, code=64)
        self.grapnel(rig, "delete", SOME_ID, "--if-version", "0", code=64)
        self.grapnel(rig, "create", "--settings", "missing.json", code=1)
        for text, says in (("{", "-:1:1: is not JSON"), ("[]", "is not a JSON object"),
                           ('{"id": "x"}', '"id" is not a setting'),
                           ('{"timeout": "9h"}', "timeout: "),
                           ('{"url": "a", "url": "b"}', "is not JSON"),
                           (json.dumps({"url": "h" * 1000 * 1000}), "larger than 256 KiB"),
                           (" " * 1100 * 1000, "more than")):
            with self.subTest(text[:40]):
                _, err = self.grapnel(rig, "create", *([url] if "9h" in text else []),
                                      "--settings", "-", stdin=text, code=1)
                self.assertIn(says, err)
        _, err = self.grapnel(rig, "change", SOME_ID, "--settings", "-", stdin="{}", code=1)
        self.assertIn("there is no endpoint " + SOME_ID, err)
        self.assertEqual(json.loads(self.grapnel(rig, "export")[0]), [])

    def test_a_wrong_item_does_not_stop_the_others(self):
        rig = self.managed_rig(deliverers=0).start("sequencer")
        settings = {"url": "https://example.com/hook"}
        items = [{"id": SOME_ID[:-1] + "0", "settings": {**settings, "timeout": "9h"}},
                 {"id": "crm", "settings": settings},
                 {"settings": settings},
                 {"id": SOME_ID, "settings": settings, "more": 1},
                 {"id": SOME_ID, "settings": []},
                 {"id": SOME_ID, "settings": {**settings, "name": "x"}},
                 7,
                 {"id": SOME_ID, "description": "x" * 2000 * 1000, "settings": settings},
                 {"id": SOME_ID, "description": None, "settings": settings}]
        done = rig.cli_text("endpoints", "import", "-", "--json", stdin=json.dumps(items))
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual([r["item"] for r in rows if not r["made"]], [1, 2, 3, 4, 5, 6, 7, 8])
        self.assertIn("timeout: ", rows[0]["error"])
        self.assertEqual((rows[8]["id"], rows[8]["error"]), (SOME_ID, None))
        self.assertRegex(rows[8]["secret"], "^whsec_")
        for n in range(1, 9):
            self.assertIn(f"-: item {n}", done.stderr)
        for text in ("{}", "[", ""):
            self.grapnel(rig, "import", "-", stdin=text, code=1)
        self.assertEqual([e["id"] for e in json.loads(self.grapnel(rig, "export")[0])],
                         [SOME_ID])

    def test_without_a_sequencer_the_import_ends(self):
        rig = self.managed_rig(deliverers=0)
        items = [{"id": SOME_ID, "settings": {"url": "https://example.com/"}}] * 2
        _, err = self.grapnel(rig, "import", "-", stdin=json.dumps(items), code=69)
        self.assertIn("item 1 was not made", err)
        self.assertNotIn("item 2", err)
        self.assertEqual(self.grapnel(rig, "export", code=69)[0], "")


if __name__ == "__main__":
    main()
