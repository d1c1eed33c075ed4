"""What goes wrong at a start or on the command line: one clear sentence and
the right exit code (sysexits.h)."""

import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, program, wait_for

DAEMONS = ["ingress", "sequencer", "dlqd", "deliverer-1"]
USAGE, UNAVAILABLE, STORAGE, CONFIG = 64, 69, 74, 78


class Errors(RigTest):
    def ends(self, rig, name, code):
        """Start it; it must end with this code. Its log."""
        daemon = rig[name].start(wait=False)
        self.assertEqual(daemon.wait_exit(), code, daemon.log())
        self.assertNotIn("stopped", daemon.log())
        return daemon.log()

    def test_a_typo_in_the_configuration(self):
        """Every process and the command line: 78, with file, line, column,
        key path and the near miss."""
        rig = self.rig()
        text = rig.config_path.read_text()
        rig.write_config(text.replace("max_attempts:", "max_atempts:"))
        line = next(i for i, l in enumerate(
            rig.config_path.read_text().splitlines(), 1) if "max_atempts" in l)
        said = [self.ends(rig, name, CONFIG) for name in DAEMONS]
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, CONFIG)
        for log in [*said, done.stderr]:
            self.assertRegex(log, rf"grapnel\.yaml:{line}:\d+: .*max_atempts")
            self.assertIn("max_attempts", log)
        self.assertFalse(rig.state_dir.exists(), "half-configured")

    def test_every_error_in_one_run(self):
        rig = self.rig()
        rig.config["shutdown_grace"] = "5 parsecs"
        rig.config["endpoints"][0]["typs"] = ["issue.*"]
        rig.config["sources"][0]["provider"] = "plain"
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, CONFIG)
        for word in ["shutdown_grace", "typs", "provider"]:
            self.assertRegex(done.stderr, rf"grapnel\.yaml:\d+:\d+: .*{word}")

    def test_a_variable_that_is_not_set(self):
        rig = self.rig()
        rig.config["sources"][0]["secrets"] = ["${NOT_SET_BY_ANYONE}"]
        rig.write_config()
        for name in DAEMONS:
            self.assertIn("NOT_SET_BY_ANYONE", self.ends(rig, name, CONFIG))

    def test_no_configuration_at_all(self):
        rig = self.rig()
        rig.config_path.unlink()
        log = self.ends(rig, "sequencer", CONFIG)
        self.assertIn(str(rig.config_path), log)

    def test_a_port_that_is_taken(self):
        rig = self.rig()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", rig.door_port))
            other.listen()
            log = self.ends(rig, "ingress", UNAVAILABLE)
        self.assertIn(str(rig.door_port), log)

    def test_a_second_instance(self):
        """69 and the other's process id; the first one is not disturbed."""
        rig = self.rig().start()
        for name in DAEMONS:
            with self.subTest(name):
                pid = rig[name].pid
                second = type(rig[name])(rig, name)
                second.log_path = rig.folder / f"{name}-second.log"
                second.start(wait=False)
                self.assertEqual(second.wait_exit(), UNAVAILABLE)
                self.assertIn(str(pid), second.log())
                self.assertIn(f"another {name} runs", second.log())
                self.assertNotIn("Sanitizer", second.log())
        event = rig.accept()
        rig.receiver.wait(event)
        rig.wait_status(event)

    def test_a_state_dir_that_can_not_be(self):
        rig = self.rig()
        rig.state_dir.write_text("a file")
        for name in DAEMONS:
            self.assertIn("state", self.ends(rig, name, CONFIG))

    def test_a_store_that_is_no_store(self):
        """74, which file, and the way out."""
        rig = self.rig()
        rig.state_dir.mkdir()
        for name in DAEMONS:
            with self.subTest(name):
                (rig.state_dir / f"{name}.db").write_bytes(b"nonsense" * 1000)
                log = self.ends(rig, name, STORAGE)
                self.assertIn(f"{name}.db is damaged", log)
                self.assertIn("grapnel backup", log)

    def test_a_name_of_another_kind(self):
        """64, before anything is made: deliverers, the sequencer and the others
        tell from a name what a process is."""
        rig = self.rig()
        for kind in "ingress", "sequencer", "dlqd", "deliverer", "console":
            for name in "sequencer", "ingress-2", f"{kind}2", "eu":
                if name == kind or name.startswith(f"{kind}-"):
                    continue
                with self.subTest(kind=kind, name=name):
                    done = subprocess.run(
                        [program(f"grapnel-{kind}"), "-c", rig.config_path,
                         "-n", name], capture_output=True, text=True,
                        timeout=60, env={**os.environ, **rig.env})
                    self.assertEqual(done.returncode, USAGE, done.stderr)
                    self.assertIn(f"--name {name} is not", done.stderr)
                    self.assertIn(f"{kind}-", done.stderr)
        self.assertFalse(rig.state_dir.exists())

    def test_a_store_of_another_kind(self):
        """74, and the file is as it was."""
        rig = self.rig(console=True).start()
        rig.stop()
        stores = {d: (rig.state_dir / f"{d}.db").read_bytes()
                  for d in rig.daemons}
        for name in rig.daemons:
            for other in stores.keys() - {name}:
                with self.subTest(process=name, file=other):
                    path = rig.state_dir / f"{name}.db"
                    path.write_bytes(stores[other])
                    rig[name].log_path.unlink()
                    log = self.ends(rig, name, STORAGE)
                    self.assertIn("of another kind of process", log)
                    self.assertEqual(path.read_bytes(), stores[other])

    def test_wrong_words(self):
        rig = self.rig()
        for words, hint in {("stauts",): "status",
                            ("dlq", "shwo"): "show",
                            ("events", "--worksapce", "w"): "--workspace",
                            ("trace",): "ID",
                            ("events", "--limit", "many"): "--limit"}.items():
            with self.subTest(words):
                done = rig.cli_text(*words)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn(hint, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_nothing_runs(self):
        """69, naming the process that can't be reached."""
        rig = self.rig()
        event = "evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A"
        for words, name in {("trace", event): "sequencer",
                            ("events",): "sequencer", ("dlq",): "dlqd",
                            ("dlq", "retry", "dlq_x"): "dlqd",
                            ("status",): "ingress", ("reload",): "dlqd",
                            ("backup", "b"): "deliverer-1"}.items():
            with self.subTest(words):
                done = rig.cli_text(*words)
                self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
                self.assertIn(name, done.stderr)

    def test_one_that_was_killed(self):
        """69 also where its socket is left behind."""
        rig = self.rig().start()
        event = rig.accept()
        rig.wait_status(event)
        rig.kill("dlqd")
        done = rig.cli_text("dlq")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("dlqd", done.stderr)
        with self.subTest("the rest of a trace is told all the same"):
            done = rig.cli_text("trace", event)
            self.assertIn("delivered", done.stdout)
            self.assertIn("dlqd", done.stdout + done.stderr)

    def test_the_door_is_shut(self):
        rig = self.rig()
        done = rig.cli_text("send", "plane")
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn(str(rig.door_port), done.stderr)

    def test_send_and_check(self):
        """A good file passes; an event sent by `grapnel send` arrives."""
        rig = self.rig().start()
        self.assertEqual(rig.cli_text("check").returncode, 0)
        done = rig.cli_text("send", "plane", "--type", "issue.created",
                            "--workspace", "acme")
        self.assertEqual(done.returncode, 0, done.stderr)
        request, = rig.receiver.wait()
        self.assertEqual((request.headers["grapnel-type"],
                          request.headers["grapnel-workspace"]),
                         ("issue.created", "acme"))
        wait_for(lambda: rig.cli("trace", request.id)[0]["status"] == "done")

    def test_producers_are_sources_to_check(self):
        """An endpoint that is subscribed to a producer gets its events, and is
        not called one that gets nothing."""
        rig = self.rig()
        rig.config["producers"] = [{"name": "billing", "tokens": ["t1"]},
                                   {"name": "unheard", "tokens": ["t2"]}]
        rig.config["endpoints"] = [
            rig.endpoint("books", sources=["billing"], types=["invoice.*"]),
            rig.endpoint("crm", sources=["plane"])]
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("producer billing → invoice.* → books\n", done.stdout)
        self.assertIn("producer unheard → no endpoint is subscribed",
                      done.stdout)
        self.assertNotIn("no source or producer", done.stdout)
        plan, _ = rig.cli("check")
        billing = next(s for s in plan["sources"] if s["source"] == "billing")
        self.assertEqual((billing["producer"], billing["provider"],
                          billing["wants"][0]["endpoints"]),
                         (True, None, ["books"]))
        done = rig.cli_text("check", "--event", "-", "--source", "billing",
                            stdin="{}")
        self.assertEqual(done.returncode, 64)
        self.assertIn("billing is a producer", done.stderr)

    def test_a_private_address_is_named_before_and_after(self):
        """check warns; the dead letter says which address, and which key."""
        rig = self.rig()
        rig.config["endpoints"] = [
            rig.endpoint("crm", allow_private=False),
            rig.endpoint("books", allow_private=True, ordered="workspace")]
        rig.config["retry_policies"][0].update(max_wait="6h", factor=100)
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no errors, 2 warnings", done.stdout)
        self.assertRegex(done.stderr, r"endpoints\[0\]\.url: warning: 127\.0"
                         r"\.0\.1 is a private address.*allow_private: true")
        self.assertRegex(done.stderr, r"endpoints\[1\]\.name: warning: .*"
                         r"holds back those behind it for up to 1\.0 hours")
        self.assertEqual(len(rig.cli("check")[0]["warnings"]), 2)
        rig.start()
        rig.accept()
        letter, = wait_for(lambda: rig.cli("dlq")[0], what="a dead letter")
        self.assertEqual(letter["reason"], "blocked_address")
        self.assertIn("127.0.0.1 is a private address", letter["last_error"])
        self.assertIn("allow_private", letter["last_error"])

    def test_the_example(self):
        """packaging/example.yaml is right, all of it."""
        example = pathlib.Path(__file__).parents[2] / "packaging/example.yaml"
        rig = self.rig()
        rig.write_config(example.read_text())
        for name in ("ledger.key", "plane.secret", "billing.token",
                     "crm.authorization", "console.token"):
            rig.config_path.with_name(name).write_text(f"{name}\n")
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("source plane → issue.*", done.stdout)


main()
