"""Errors at a start and on the command line: one clear sentence and the right exit code
(sysexits.h)."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, http_request, main, program, wait_for

DAEMONS = ["ingress", "sequencer", "dlqd", "deliverer-1"]
USAGE, UNAVAILABLE, STORAGE, CONFIG = 64, 69, 74, 78


class Errors(RigTest):
    def ends(self, rig, name, code):
        """Start it; it must end with this code. Its log."""
        daemon = rig[name].start(wait=False)
        self.assertEqual(daemon.wait_exit(), code, daemon.log())
        self.assertNotIn("stopped", daemon.log())
        return daemon.log()

    def test_a_typo_is_reported_with_its_place_and_the_nearest_key(self):
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

    def test_all_errors_are_reported_in_one_run(self):
        rig = self.rig()
        rig.config["shutdown_grace"] = "5 parsecs"
        rig.config["endpoints"][0]["typs"] = ["issue.*"]
        rig.config["sources"][0]["provider"] = "plain"
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, CONFIG)
        for word in ["shutdown_grace", "typs", "provider"]:
            self.assertRegex(done.stderr, rf"grapnel\.yaml:\d+:\d+: .*{word}")

    def test_an_argument_that_is_not_utf8_is_refused_not_left_out(self):
        """A name or id that no request can contain: 64, and nothing is done or
        listed without it."""
        rig = self.rig().start()
        bad = "cr\udcff"
        for words in [["endpoints", bad], ["endpoints", "pause", bad],
                      ["workspaces", bad], ["dlq", "retry", bad],
                      ["dlq", "retry", "dlq_1", "--to", bad],
                      ["dlq", "discard", bad, "--note", "x"],
                      ["dlq", "discard", "--all", "--note", bad],
                      ["gaps", "close", "gap_1", "--note", bad],
                      ["retry", "evt_1", "--endpoint", bad],
                      ["events", "--type", bad]]:
            with self.subTest(words=[w.replace(bad, "BAD") for w in words]):
                done = rig.cli_text(*words)
                self.assertIn("is not UTF-8\n", done.stderr)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""))

    def test_an_unset_variable_is_an_error(self):
        rig = self.rig()
        rig.config["sources"][0]["secrets"] = ["${NOT_SET_BY_ANYONE}"]
        rig.write_config()
        for name in DAEMONS:
            self.assertIn("NOT_SET_BY_ANYONE", self.ends(rig, name, CONFIG))

    def test_a_missing_configuration_is_an_error(self):
        rig = self.rig()
        rig.config_path.unlink()
        log = self.ends(rig, "sequencer", CONFIG)
        self.assertIn(str(rig.config_path), log)

    def test_an_unnamed_configuration_in_this_folder_is_mentioned(self):
        """A grapnel.yaml in the current folder is not read, but the error says
        that it is there and how to name it."""
        default = pathlib.Path("/etc/grapnel/grapnel.yaml")
        if default.exists():
            self.skipTest(f"{default} exists on this machine")
        rig = self.rig()
        empty = rig.folder / "empty"
        empty.mkdir()
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("GRAPNEL_")}
        for line in ("grapnel check", "grapnel status", "grapnel retry-plan x",
                     "grapnel-sequencer", "grapnel-ingress --check"):
            name, *args = line.split()
            for folder in (rig.folder, empty):
                with self.subTest(line, folder=folder.name):
                    done = subprocess.run([program(name), *args], cwd=folder,
                                          env=env, capture_output=True,
                                          text=True, timeout=60)
                    self.assertEqual(done.returncode, CONFIG, done.stderr)
                    self.assertIn(str(default), done.stderr)
                    said = "GRAPNEL_CONFIG=" + (
                        "FILE" if folder == empty else str(rig.config_path))
                    self.assertEqual(done.stderr.count(said), 1, done.stderr)
        with self.subTest("a file that is named, and missing"):
            done = rig.run(program("grapnel"), "check", "-c", "none.yaml")
            self.assertIn("none.yaml: cannot read the file", done.stderr)
            self.assertNotIn("There is a grapnel.yaml here", done.stderr)

    def test_a_taken_port_is_an_error(self):
        rig = self.rig()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", rig.ingress_port))
            other.listen()
            log = self.ends(rig, "ingress", UNAVAILABLE)
        self.assertIn(str(rig.ingress_port), log)

    def test_a_second_instance_ends_with_the_first_one_s_pid(self):
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
                self.assertIn(f"another {name} is running", second.log())
                self.assertNotIn("Sanitizer", second.log())
        event = rig.accept()
        rig.receiver.wait(event)
        rig.wait_status(event)

    def test_an_unusable_state_dir_is_an_error(self):
        rig = self.rig()
        rig.state_dir.write_text("a file")
        for name in DAEMONS:
            self.assertIn("state", self.ends(rig, name, CONFIG))

    def test_check_finds_the_folders_that_end_each_start(self):
        """check and a start say the same, and check creates nothing."""
        rig = self.rig()
        a_file, link = rig.folder / "a-file", rig.folder / "a-link"
        a_file.write_text("")
        link.symlink_to(rig.folder / "nothing")
        for key in "state_dir", "run_dir":
            for path, said in {a_file: f"{a_file} is not a folder",
                               link: f"{link} is a symbolic link to something that does not",
                               "/dev/null/x": "cannot create /dev/null/x: Not a directory"}.items():
                with self.subTest(key=key, path=path):
                    usual = rig.config[key]
                    rig.config[key] = str(path)
                    rig.write_config()
                    done = rig.cli_text("check")
                    self.assertEqual(done.returncode, CONFIG, done.stdout)
                    self.assertRegex(done.stderr, f"^{key}: .*{re.escape(said)}")
                    self.assertNotIn("no errors", done.stdout)
                    self.assertIn(done.stderr.strip(), self.ends(rig, "sequencer", CONFIG))
                    rig.config[key] = usual
        rig.config["state_dir"] = str(rig.folder / "no" / "x")  # it may be there on another machine
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("state_dir: on this machine no process can create", done.stderr)

    def test_a_file_that_is_not_a_database_is_an_error(self):
        """74, which file, and the way out."""
        rig = self.rig()
        rig.state_dir.mkdir()
        for name in DAEMONS:
            with self.subTest(name):
                (rig.state_dir / f"{name}.db").write_bytes(b"nonsense" * 1000)
                log = self.ends(rig, name, STORAGE)
                self.assertIn(f"{name}.db is damaged", log)
                self.assertIn("grapnel backup", log)

    def test_a_name_of_another_kind_of_process_is_refused(self):
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

    def test_a_database_of_another_kind_of_process_is_refused(self):
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

    def test_unknown_words_are_usage_errors(self):
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

    def test_an_error_of_a_process_names_the_option(self):
        rig = self.rig(console=True).start()
        for words in ("tokens", "create", "a", "--role", "boss"), ("console", "link", "--role", "boss"):
            with self.subTest(words):
                done = rig.cli_text(*words)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, '^(grapnel: )?--role: "boss" is unknown')

    def test_verify_says_which_process_is_unknown(self):
        """Also if it checks the databases of others."""
        rig = self.rig().start()
        for words, code, said in [
                (("sequencer", "nope"), USAGE, "nope is not the name of a process"),
                (("sequencer", "deliverer-9"), 1, "deliverer-9 is not among the processes"),
                (("--offline", rig.state_dir, "nope"), 1, f"there is no nope.db in {rig.state_dir}")]:
            with self.subTest(words):
                done = rig.cli_text("verify", *map(str, words))
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertIn(said, done.stderr)
                self.assertNotIn("there is no database to verify", done.stderr)
                if code == 1 and words[0] == "sequencer":
                    self.assertRegex(done.stdout, "sequencer +ok")

    def test_help_lists_the_exit_codes(self):
        done = self.rig().cli_text("--help")
        self.assertIn("Exit codes: 0 done, 1 ", done.stdout)

    def test_a_command_names_the_process_that_does_not_run(self):
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
                self.assertIn("--run-dir", done.stderr)

    @unittest.skipIf(os.geteuid(), "only root can run a program as another user")
    def test_a_run_dir_of_another_user_is_not_reported_as_down(self):
        """The command cannot know what runs there."""
        rig = self.rig().start()
        rig.folder.chmod(0o755)
        for words, said in {("status",): "unknown", ("events",): "sequencer"}.items():
            with self.subTest(words):
                done = subprocess.run(
                    [program("grapnel"), *words, "--run-dir", rig.run_dir],
                    user=65534, group=65534, cwd="/", stdin=subprocess.DEVNULL,
                    capture_output=True, text=True)
                self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
                self.assertIn(said, done.stdout + done.stderr)
                self.assertIn("Run this command as root", done.stderr)
                self.assertNotIn(" down ", done.stdout)
                self.assertNotIn("Start the processes", done.stderr)

    def test_a_killed_process_is_reported_as_not_running(self):
        """69, also if its socket file exists."""
        rig = self.rig().start()
        event = rig.accept()
        rig.wait_status(event)
        rig.kill("dlqd")
        done = rig.cli_text("dlq")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("dlqd", done.stderr)
        with self.subTest("the others show that it is the right run_dir"):
            done = rig.cli_text("status")
            self.assertEqual(done.returncode, UNAVAILABLE)
            self.assertIn("dlqd (not running). The other processes respond",
                          done.stderr)
            self.assertNotIn("--run-dir", done.stderr)
        with self.subTest("the rest of a trace is told all the same"):
            done = rig.cli_text("trace", event)
            self.assertIn("delivered", done.stdout)
            self.assertIn("dlqd", done.stdout + done.stderr)

    def test_a_process_that_hangs_is_reported_as_silent(self):
        """It runs: the advice is its log and a restart, not a start."""
        rig = self.rig().start()
        rig["dlqd"].pause()
        rig["ingress"].stop()
        for word in "status", "dlq":
            with self.subTest(word):
                done = rig.cli_text(word)
                self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
                self.assertRegex(done.stderr, "dlqd runs, but it .*: look at its log; if "
                                              "it stays so, restart it")
                self.assertNotIn("Start the processes", done.stderr)
                if word == "status":
                    self.assertRegex(done.stdout, r"dlqd +silent")
                    self.assertRegex(done.stdout, r"ingress +down")
                    self.assertIn("ingress (not running). The other processes run. Start "
                                  "it", done.stderr)
        rows = {r["process"]: r for r in json.loads(rig.cli_text("status", "--json").stdout)}
        self.assertEqual([(rows[p]["up"], rows[p]["runs"], rows[p]["silent"])
                          for p in ("dlqd", "ingress")],
                         [(False, True, True), (False, False, False)])
        rig["dlqd"].resume()

    def test_send_names_an_ingress_that_is_down(self):
        rig = self.rig()
        done = rig.cli_text("send", "plane")
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn(str(rig.ingress_port), done.stderr)

    def test_check_accepts_a_good_file_and_send_delivers(self):
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

    def test_check_treats_producers_as_sources(self):
        """An endpoint that is subscribed to a producer gets its events, and check
        does not warn of it."""
        rig = self.rig()
        rig.config["producers"] = [{"name": "billing", "tokens": ["t0ken-of-billing"]},
                                   {"name": "unheard", "tokens": ["t0ken-of-unheard"]}]
        rig.config["endpoints"] = [
            rig.endpoint("books", sources=["billing"], types=["invoice.*"]),
            rig.endpoint("crm", sources=["plane"])]
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("producer billing → invoice.* → books\n", done.stdout)
        self.assertIn("producer unheard → no endpoint is subscribed",
                      done.stdout)
        self.assertNotIn("no source, producer or relay", done.stdout)
        plan, _ = rig.cli("check")
        billing = next(s for s in plan["sources"] if s["source"] == "billing")
        self.assertEqual((billing["producer"], billing["provider"],
                          billing["subscriptions"][0]["endpoints"]),
                         (True, None, ["books"]))

    def test_check_treats_relays_as_sources(self):
        """The rows of a relay say type and workspace, so it may send any."""
        rig = self.rig()
        rig.config["outbox"] = [
            {"name": "shop", "database": "postgresql://grapnel@/shop?host=/run/postgresql",
             "columns": {"type": "event_type", "workspace": "workspace"}}]
        rig.config["endpoints"] = [
            rig.endpoint("acme", sources=["shop"], types=["order.*"], workspaces=["acme"]),
            rig.endpoint("crm", sources=["plane"])]
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("relay shop → order.* of workspaces acme → acme\n", done.stdout)
        self.assertNotIn("no source, producer or relay", done.stdout)
        plan, _ = rig.cli("check")
        self.assertEqual([(s["source"], s["kind"], s["producer"]) for s in plan["sources"]],
                         [("plane", "source", False), ("shop", "relay", False)])

    def test_check_warns_of_subscriptions_that_cannot_match(self):
        """It compares a producer's types and workspaces with subscriptions, and
        warns on both sides."""
        rig = self.rig()
        rig.config["producers"] = [
            {"name": "billing", "tokens": ["t0ken-of-billing"],
             "types": ["invoice.*", "refund.*"], "workspaces": ["eu-*"]},
            {"name": "unheard", "tokens": ["t0ken-of-unheard"], "types": ["x.*"]}]
        rig.config["endpoints"] = [
            rig.endpoint("books", sources=["billing"],
                         types=["invoice.paid", "invoce.void"]),
            rig.endpoint("us", sources=["billing"], types=["invoice.*"],
                         workspaces=["us-*"]),
            rig.endpoint("crm", sources=["plane"])]
        rig.config["routes"] = [
            {"sources": ["billing"], "types": ["order.*"],
             "endpoints": ["books"]}]
        rig.write_config()
        done = rig.cli_text("check")
        self.assertEqual(done.returncode, 0, done.stderr)
        places = [re.search(r":\d+:\d+: (\S+): warning: (.*)", line).groups()
                  for line in done.stderr.splitlines()]
        self.assertEqual([key for key, _ in places], [
            "endpoints[0].types[1]", "endpoints[1].workspaces[0]",
            "producers[0].types[1]", "producers[1].name",
            "routes[0].types[0]"], done.stderr)  # in the order of the file
        self.assertIn("invoce.void", places[0][1])
        self.assertIn("no endpoint is subscribed to refund.*", places[2][1])
        self.assertIn("5 warnings", done.stdout)
        self.assertIn("producer billing → invoice.paid, invoce.void → books\n",
                      done.stdout)
        self.assertIn("endpoint us: no source, producer or relay sends what it is "
                      "subscribed to\n", done.stdout)
        with self.subTest("what meets is not warned of"):
            rig.config["producers"] = [
                {"name": "billing", "tokens": ["t0ken-of-billing"], "types": ["*.paid"],
                 "workspaces": ["*-1"]}]
            rig.config["endpoints"] = [
                rig.endpoint("books", types=["invoice.*"], workspaces=["eu-*"],
                             sources=["*"]),
                rig.endpoint("crm", sources=["plane"])]
            del rig.config["routes"]
            rig.write_config()
            self.assertEqual(rig.cli_text("check").stderr, "")

    def test_check_event_predicts_the_response_to_a_producer(self):
        """check --event shows the response of /v1/events and the endpoints that get
        the event."""
        rig = self.rig()
        rig.config["producers"] = [
            {"name": "billing", "tokens": ["token-one"], "types": ["invoice.*"],
             "workspaces": ["acme"]}]
        rig.config["endpoints"] = [
            rig.endpoint("books", types=["invoice.*"],
                         where={"json:/data/total": {"at_least": 10}}),
            rig.endpoint("crm", sources=["plane"]),
            rig.endpoint("audit", sources=["billing"])]
        rig.write_config()
        rig.start()

        def check(event, *args):
            return rig.cli_text("check", "--event", "-", "--source", "billing",
                                *args, stdin=json.dumps(event))

        def publish(event):
            return http_request(
                rig.ingress_port, "POST", "/v1/events", json.dumps(event).encode(),
                {"Authorization": "Bearer token-one"})
        good = {"type": "invoice.paid", "workspace": "acme",
                "data": {"total": 12}, "id": "i-7"}
        said = check(good)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("producer billing → invoice.paid → books, audit\n",
                      said.stdout)
        response = json.loads(check(good, "--json").stdout)
        status, _, accepted = publish(good)
        self.assertEqual(status, 200, accepted)
        accepted = json.loads(accepted)
        self.assertEqual(
            (response["producer"], response["type"], response["workspace"],
             response["event_id"], response["refused"], response["endpoints"]),
            (True, "invoice.paid", "acme", accepted["id"], None,
             ["books", "audit"]))
        self.assertIn("crm: no, not subscribed to source billing", said.stdout)
        trace = rig.wait_status(accepted["id"])
        self.assertEqual({d["endpoint"] for d in trace["deliveries"]},
                         {"books", "audit"})
        self.assertIn("crm: no, the event is for other endpoints", check(
            {**good, "endpoints": ["books"]}).stdout)
        for wrong, status, words in (
                ({**good, "type": "user.new"}, 403, "type"),
                ({**good, "workspace": "other"}, 403, "workspace"),
                ({**good, "endpoints": ["nobody"]}, 400, "nobody"),
                ({**good, "dta": 1}, 400, "dta"),
                ([good], 400, "object")):
            with self.subTest(words):
                said = check(wrong)
                self.assertEqual(said.returncode, 1, said.stdout)
                self.assertIn(f"refused with {status}", said.stdout)
                self.assertIn(words, said.stdout)
                self.assertEqual(publish(wrong)[0], status)
        with self.subTest("a header names the type of a source's event only"):
            said = check(good, "--type", "invoice.paid")
            self.assertEqual(said.returncode, 64)
            self.assertIn("--type", said.stderr)

    def test_an_unusable_log_errors_file_is_an_error(self):
        rig = self.rig()
        folder = rig.folder / "logs"

        def warned(path, *words):
            rig.config["log"] = {"errors": str(path)}
            rig.write_config()
            said = rig.cli_text("check")
            self.assertEqual(said.returncode, 0, said.stderr)
            line, = said.stderr.splitlines()
            self.assertIn(": log.errors: warning: ", line)
            for word in words:
                self.assertIn(word, line)

        def good(path):
            rig.config["log"] = {"errors": str(path)}
            rig.write_config()
            self.assertEqual(rig.cli_text("check").stderr, "")
            self.assertFalse(pathlib.Path(path).exists())
        warned("logs/errors.log", str(folder), "No such file or directory",
               "mkdir")
        folder.mkdir()
        good("logs/errors.log")
        warned("logs", "directory")
        warned(rig.config_path.name, "grapnel.yaml", "configuration")
        rig.state_dir.mkdir(exist_ok=True)
        warned(rig.state_dir / "sequencer.db", "state_dir")
        good("logs/errors.log")
        with self.subTest("as another user"):
            rig.folder.chmod(0o755)
            folder.chmod(0o500)
            self.addCleanup(folder.chmod, 0o700)
            said = subprocess.run(
                [program("grapnel"), "check", "-c", str(rig.config_path)],
                user=65534 if not os.geteuid() else None, cwd="/",
                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                env={**os.environ, **rig.env})
            self.assertIn("log.errors: warning: ", said.stderr)
            self.assertIn("Permission denied", said.stderr)

    def test_the_example_configuration_is_valid(self):
        """All of packaging/example.yaml."""
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
