"""Reload, stop and start of a pipeline under load."""

import itertools
import json
import os
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import PLANE_SECRET, RigTest, main, program, sign_plane, wait_for


class Reload(RigTest):
    def reload(self, rig):
        rig.write_config()
        rows, code = rig.cli("reload")
        self.assertEqual((code, {r["process"] for r in rows if r["ok"]}),
                         (0, set(rig.daemons)), rows)

    def test_a_new_endpoint_gets_new_events(self):
        rig = self.rig().start()
        before = rig.accept()
        rig.wait_status(before)
        rig.config["endpoints"].append(rig.endpoint("audit"))
        self.reload(rig)
        after = rig.accept()
        rig.receiver.wait(after, path="/audit")
        rig.receiver.wait(after, path="/crm")
        rig.settle()
        self.assertEqual(rig.receiver.requests("/audit", before), [])

    def test_a_changed_url_applies_to_waiting_deliveries(self):
        """P2: a scheduled retry is made at the new URL, with its attempts counted
        on."""
        rig = self.rig()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.config["retry_policies"][0].update(max_attempts=10000)
        rig.write_config()
        rig.start()
        event = rig.accept()
        rig.receiver.wait(event, 2)
        rig.config["endpoints"][0]["url"] = rig.receiver.url("/moved")
        rig.write_config()
        for daemon in rig.daemons.values():  # as the supervisor's SIGHUP
            daemon.reload()
        moved, = rig.receiver.wait(event, path="/moved")
        self.assertGreaterEqual(int(moved.headers["grapnel-attempt"]), 3)
        rig.wait_status(event)
        later = rig.accept()
        rig.receiver.wait(later, path="/moved")
        self.assertEqual(rig.receiver.requests("/crm", later), [])

    def test_deliveries_of_a_removed_endpoint_become_dead_letters(self):
        """P2: what waits for an endpoint that is removed becomes a dead letter,
        endpoint_removed; once it is back a retry delivers it."""
        rig = self.rig()
        rig.config["endpoints"].append(rig.endpoint("gone"))
        rig.config["retry_policies"][0].update(max_attempts=10000)
        rig.write_config()
        rig.receiver.rules({"path": "/gone", "responses": [{"status": 503}]})
        rig.start()
        events = {rig.accept() for _ in range(20)}
        wait_for(lambda: {r.id for r in rig.receiver.requests("/gone")}
                 == events, what="a try of each")
        endpoint = rig.config["endpoints"].pop()
        self.reload(rig)
        dead_letters = wait_for(lambda: len(rig.cli("dlq")[0]) == 20
                           and rig.cli("dlq")[0], what="20 letters")
        self.assertEqual({x["reason"] for x in dead_letters}, {"endpoint_removed"})
        self.assertEqual({x["event_id"] for x in dead_letters}, events)
        self.assertGreaterEqual(min(x["attempts"] for x in dead_letters), 1)
        rig.settle()
        with self.subTest("back again"):
            rig.receiver.rules({"path": "/gone", "responses": [{"status": 200}]})
            rig.config["endpoints"].append(endpoint)
            self.reload(rig)
            _, code = rig.cli("dlq", "retry", *(x["id"] for x in dead_letters))
            self.assertEqual(code, 0)
            wait_for(lambda: set(rig.receiver.delivered("/gone")) == events,
                     what="all delivered")
            rig.settle()
            states = {x["state"] for x in rig.cli("dlq", "--state", "all")[0]}
            self.assertEqual(states, {"recovered"})

    def test_a_bad_configuration_is_refused_and_the_old_one_stays(self):
        rig = self.rig().start()
        good = rig.config_path.read_text()
        rig.write_config(good.replace("max_attempts", "max_atempts"))
        with self.subTest("the command line says what is wrong: 78"):
            said = rig.cli_text("reload")
            self.assertEqual(said.returncode, 78)
            self.assertIn("max_atempts", said.stderr)
        for daemon in rig.daemons.values():
            daemon.reload()
        for daemon in rig.daemons.values():
            wait_for(lambda: "keeps the old one" in daemon.log(),
                     what=f"{daemon.name} to say so")
            self.assertIn("max_atempts", daemon.log())
        event = rig.accept()
        rig.receiver.wait(event)

    def rows(self, rig, *args, **how):
        rows, code = rig.cli(*args, **how)
        return {r["process"]: r for r in rows}, code

    def test_a_reload_reports_changed_keys_and_those_that_need_a_restart(self):
        """Keys, not values: a changed secret is reported without its value."""
        rig = self.rig()
        (rig.folder / "secret").write_text("plane_wh_1\n")
        rig.config["sources"][0]["secrets"] = ["file:secret"]
        rig.config["producers"] = [{"name": "billing", "tokens": ["token-one"]}]
        rig.write_config()
        rig.start()
        with self.subTest("nothing"):
            rows, code = self.rows(rig, "reload")
            self.assertEqual((code, {(*r["changed"], *r["restart"])
                                     for r in rows.values()}), (0, {()}))
        rig.config["endpoints"][0].update(timeout="3s",
                                          headers={"X-A": "hidden-1"})
        rig.config["endpoints"].insert(0, rig.endpoint("books"))
        rig.config["producers"][0]["tokens"] = ["token-two"]
        rig.config["metrics"] = {"interval": "1s"}
        listen = rig.config["ingress"]["listen"]
        rig.config["ingress"]["listen"] = "127.0.0.1:1"
        rig.write_config()
        (rig.folder / "secret").write_text("plane_wh_2\n")
        changed = {"endpoints.crm.timeout", "endpoints.crm.headers",
                   "endpoints.books added", "producers.billing.tokens",
                   "sources.plane.secrets"}
        for command in (("check", "--running"), ("reload",), ("reload",)):
            rows, code = self.rows(rig, *command)
            self.assertEqual((code, set(rows)), (0, set(rig.daemons)))
            for name, row in rows.items():
                with self.subTest(command, process=name):
                    self.assertEqual(set(row["changed"]), changed)
                    self.assertEqual(
                        row["restart"], ["ingress.listen", "metrics.interval"]
                        if name == "ingress" else ["metrics.interval"])
            if command == ("reload",):
                changed = set()  # a second one only says what still waits
        with self.subTest("ingress is where it was"):
            rig.receiver.wait(self.accept(rig, "plane_wh_2"))
        with self.subTest("for people"):
            said = rig.cli_text("reload")
            self.assertIn("needs a restart for ingress.listen", said.stdout)
            for secret in ("hidden-1", "token-two", "plane_wh_2"):
                self.assertNotIn(secret, said.stdout + said.stderr)
        with self.subTest("taken back: no restart is needed"):
            rig.config["ingress"]["listen"] = listen
            del rig.config["metrics"]
            rig.write_config()
            rows, _ = self.rows(rig, "reload")
            self.assertEqual([r["restart"] for r in rows.values()],
                             [[]] * len(rows))

    def accept(self, rig, secret):
        body = rig.plane_body()
        status, _, response = rig.post(
            body, headers=sign_plane(body, secret))
        self.assertEqual(status, 200, response)
        return response["id"]

    def test_a_changed_run_dir_waits_for_a_restart(self):
        """After a reload a process still uses the sockets of its start, and removes
        these at its end."""
        rig = self.rig().start()
        rig.config["run_dir"] = "elsewhere"
        rig.write_config()
        rows, code = self.rows(rig, "reload", "--run-dir", rig.run_dir)
        self.assertEqual((code, rows["dlqd"]["restart"]), (0, ["run_dir"]))
        self.assertEqual(rig["dlqd"].stop(), 0)
        self.assertFalse((rig.run_dir / "dlqd.control").exists())

    def test_a_variable_that_the_processes_lack_is_reported(self):
        """A shell that has it sees no error; the processes keep the environment
        of their start and say so, by name; a file needs no restart."""
        rig = self.rig().start()
        rig.config["sources"].append({"name": "new", "provider": "plane",
                                      "secrets": ["${GRT_FRESH}"]})
        rig.write_config()
        shell = {"GRT_FRESH": "plane_wh_9"}
        said = rig.cli_text("check", env=shell)
        self.assertEqual(said.returncode, 0)
        self.assertIn("GRT_FRESH", said.stdout)
        for command in (("check", "--running"), ("reload",)):
            with self.subTest(command):
                said = rig.cli_text(*command, env=shell)
                self.assertEqual(said.returncode, 78)
                self.assertIn("GRT_FRESH is not set in the environment of "
                              "ingress, sequencer, deliverer-1, dlqd",
                              said.stderr)
                self.assertIn("file:", said.stderr)
                rows, code = self.rows(rig, *command, env=shell)
                self.assertEqual(code, 78)
                self.assertEqual([r["unset"] for r in rows.values()],
                                 [["GRT_FRESH"]] * 4)
                self.assertFalse(any(r["reloaded"] for r in rows.values()))
        (rig.folder / "fresh").write_text("plane_wh_9\n")
        rig.config["sources"][1]["secrets"] = ["file:fresh"]
        self.reload(rig)
        body = rig.plane_body()
        self.assertEqual(rig.post(body, source="new", headers=sign_plane(
            body, "plane_wh_9"))[0], 200)

    def test_a_secret_file_that_every_user_may_read_is_a_warning(self):
        """The pipeline continues. A certificate is not a secret."""
        rig = self.rig()
        secret = rig.folder / "plane.secret"
        secret.write_text(PLANE_SECRET)
        rig.config["sources"][0]["secrets"] = [f"file:{secret}"]
        rig.config["endpoints"].append({
            "name": "far", "url": "https://far.example", "types": ["none.*"],
            "tls": {"ca": "file:ca.pem"}})
        ca = rig.folder / "ca.pem"
        done = rig.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
                       "-keyout", os.devnull, "-subj", "/CN=ca", "-out", ca)
        self.assertEqual(done.returncode, 0, done.stderr)
        ca.chmod(0o644)
        rig.write_config()
        for mode, warns in ((0o600, False), (0o640, False), (0o644, True),
                            (0o602, True)):
            with self.subTest(mode=oct(mode)):
                secret.chmod(mode)
                said = rig.cli_text("check")
                self.assertEqual(said.returncode, 0, said.stderr)
                warnings = [l for l in said.stderr.splitlines() if "warning" in l]
                self.assertEqual(len(warnings), warns, said.stderr)
                for line in warnings:
                    self.assertRegex(line, rf"grapnel\.yaml:\d+:\d+: sources\[0\]"
                                     rf"\.secrets.*{mode:04o}.*chmod o-rwx {secret}")
        rig.start()
        self.assertIn("the configuration has warnings", rig["sequencer"].log())
        self.assertIn("warnings=1", rig["sequencer"].log())
        rig.receiver.wait(rig.accept())

    def test_warnings_and_errors_are_the_same_lines_in_all_places(self):
        """check, check --running, reload, and the start of a process: warnings
        too, each line with the whole path, line, column and key."""
        rig = self.rig().start()
        rig.config["endpoints"][0]["allow_private"] = False
        rig.write_config()
        warning = (f"{rig.config_path.resolve()}:")
        relative = [program("grapnel"), "check", "-c", rig.config_path.name]
        check = rig.run(*relative)
        line, = check.stderr.splitlines()
        self.assertRegex(line, rf"^{re.escape(warning)}\d+:\d+: endpoints\[0\]"
                         r"\.url: warning: 127\.0\.0\.1 is a private address")
        for command in (("check", "--running"), ("reload",)):
            with self.subTest(command):
                said = rig.cli_text(*command)
                self.assertEqual((said.returncode, said.stderr),
                                 (0, check.stderr))
                rows, _ = self.rows(rig, *command)
                self.assertEqual([r["warnings"] for r in rows.values()],
                                 [[line]] * len(rows))
        with self.subTest("a SIGHUP logs their number"):
            rig["dlqd"].reload()
            wait_for(lambda: "warnings=1" in rig["dlqd"].log())
        rig.config["endpoints"][0].update(allow_private=True, max_in_flight=0)
        rig.config["sources"].append(rig.config["sources"][0])
        rig.write_config()
        check = rig.run(*relative)
        self.assertEqual(check.returncode, 78)
        self.assertEqual([error.count(str(rig.config_path.resolve()))
                          for error in check.stderr.splitlines()], [2, 1])
        self.assertRegex(check.stderr, r"another source has this name "
                         rf"\({re.escape(warning)}\d+:\d+\)")
        with self.subTest("reload"):
            self.assertTrue(rig.cli_text("reload").stderr.startswith(
                check.stderr))
        with self.subTest("the start of a process"):
            start = rig.run(program("grapnel-dlqd"), "-c",
                            rig.config_path.name)
            self.assertEqual((start.returncode, start.stderr),
                             (78, check.stderr))

    def test_a_header_may_be_in_a_file(self):
        rig = self.rig()
        (rig.folder / "auth").write_text("Bearer one\n")
        rig.config["endpoints"][0]["headers"] = {"Authorization": "file:auth"}
        rig.write_config()
        rig.start()
        request, = rig.receiver.wait(rig.accept())
        self.assertEqual(request.headers["authorization"], "Bearer one")
        (rig.folder / "auth").write_text("Bearer two\n")
        rows, _ = self.rows(rig, "reload")
        self.assertEqual(rows["sequencer"]["changed"],
                         ["endpoints.crm.headers"])
        request, = rig.receiver.wait(rig.accept())
        self.assertEqual(request.headers["authorization"], "Bearer two")

    def test_all_processes_reload_or_none(self):
        """One process lacks a variable: the others keep their configuration as
        well."""
        rig = self.rig()
        rig.start("ingress", "sequencer", "deliverer-1")
        rig["dlqd"].start(env={**os.environ, **rig.env, "GRT_ONLY": "x"})
        rig.config["producers"] = [{"name": "p", "tokens": ["${GRT_ONLY}"]}]
        rig.write_config()
        rows, code = self.rows(rig, "reload")
        self.assertEqual((code, [n for n, r in rows.items() if r["ok"]]),
                         (78, ["dlqd"]))
        self.assertNotIn("configuration reloaded", rig["dlqd"].log())
        said = rig.cli_text("reload")
        self.assertIn("(in ingress, sequencer, deliverer-1)", said.stderr)
        self.assertIn("nothing was reloaded", said.stderr)

    def test_log_level_and_format_are_reloaded(self):
        rig = self.rig({"log": {"level": "warn"}}).start()
        self.assertNotIn("ready", rig["dlqd"].log())
        rig.config["log"] = {"level": "info", "format": "json"}
        self.reload(rig)
        line = rig["dlqd"].log().splitlines()[-1]
        self.assertEqual(json.loads(line)["what"], "configuration reloaded")
        rig.config["log"] = {"level": "error"}
        self.reload(rig)
        self.assertEqual(rig["dlqd"].log().splitlines()[-1], line)

    def test_no_error_is_cut_or_mangled(self):
        """Long ones, many, and with dead letters that are not ASCII: whole in the
        reload's output, and each in a line of the log."""
        rig = self.rig().start()
        rig.config["endpoints"] += [
            {"name": f"e{i}", "url": f"ftp://{'ä' * 150}.example/{i}"}
            for i in range(30)]
        rig.config["routes"] = [{"endpoints": ["größe-" + "x" * 20]}]
        rig.write_config()
        errors = rig.cli_text("check").stderr.strip().splitlines()
        self.assertGreater(len(errors), 30)
        said = rig.cli_text("reload")
        self.assertEqual(said.returncode, 78)
        for error in errors:
            self.assertIn(error + "\n", said.stderr)
        rig["dlqd"].reload()
        wait_for(lambda: rig["dlqd"].log().count("the configuration has an error")
                 == len(errors), what="a line for each")
        for error in errors:
            self.assertIn(error.replace('"', '\\"'), rig["dlqd"].log())

    def test_a_sighup_during_a_start_is_a_reload(self):
        """The configuration is a pipe, which shows when and how often it is
        read."""
        rig = self.rig()
        text = rig.config_path.read_text()
        rig.config_path.unlink()
        os.mkfifo(rig.config_path)
        dlqd = rig["dlqd"].start(wait=False)
        with open(rig.config_path, "w") as config:  # it is reading
            dlqd.reload()
            config.write(text)
        wait_for(dlqd.up, what="the start")
        with open(rig.config_path, "w") as config:  # it reads again
            config.write(text)
        wait_for(lambda: "configuration reloaded" in dlqd.log(),
                 what="a reload")

    def test_a_sighup_at_any_moment_of_a_start_ends_no_process(self):
        """P3: also before the program's first instruction."""
        rig = self.rig(console=True)
        for wait_ms in (0, 3, 10, 25):
            for daemon in rig.daemons.values():
                daemon.start(wait=False)
            time.sleep(wait_ms / 1000)
            for daemon in rig.daemons.values():
                daemon.reload()
            for daemon in rig.daemons.values():
                wait_for(daemon.up, what=f"{daemon.name} to be up")
                wait_for(lambda: "configuration reloaded" in daemon.log(),
                         what=f"a reload of {daemon.name}")
                daemon.kill()
                daemon.log_path.unlink()

    def test_reloads_under_load_lose_no_event(self):
        """P2, P4: twenty reloads, each with another address, while it runs."""
        rig = self.rig(deliverers=2).start()
        load = rig.load(count=1000, workspaces=10, rate=100)
        for i in range(20):
            rig.config["endpoints"][0]["url"] = rig.receiver.url(f"/crm?{i}")
            self.reload(rig)
        load.result()
        rig.settle()
        self.assertGreater(len({r.path for r in rig.receiver.requests()}), 5)
        # Every path is the one endpoint's: so the judge sees them.
        for request in rig.receiver.requests():
            request.path = "/crm"
        rig.judge(load)


class Stop(RigTest):
    def slow(self, grace):
        rig = self.rig({"shutdown_grace": grace})
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 200, "delay_ms": 1500}, {"status": 200}]})
        return rig.start()

    def test_a_stop_waits_for_attempts_in_flight(self):
        """P4: no event is sent twice."""
        rig = self.slow("20s")
        event = rig.accept()
        rig.receiver.wait(event)
        self.assertEqual(set(rig.stop().values()), {0})
        rig.start()
        rig.wait_status(event)
        rig.settle()
        self.assertEqual(len(rig.receiver.requests(event=event)), 1)

    def test_attempts_that_a_stop_aborts_are_made_again(self):
        """P3, P4: a stop during slow deliveries exits with 0, and the work
        continues after the start."""
        rig = self.slow("100ms")
        events = {rig.accept() for _ in range(10)}
        wait_for(lambda: {r.id for r in rig.receiver.requests()} == events,
                 what="all of them to be in flight")
        self.assertEqual(set(rig.stop().values()), {0})
        rig.start()
        for event in events:
            self.assertEqual(rig.wait_status(event)["deliveries"][0]["status"],
                             "delivered")
        rig.settle()
        self.assertEqual(rig.cli("dlq", "--state", "all")[0], [])

    def test_stopping_all_at_once_under_load_loses_no_event(self):
        """P1, P2: SIGTERM to all processes at the same moment, three times."""
        rig = self.rig(deliverers=2).start()
        load = rig.load(count=1500, workspaces=10, rate=1000)
        for _ in range(3):
            rig.receiver.wait(count=len(rig.receiver.requests()) + 100)
            for daemon in rig.daemons.values():
                daemon.asked_to_end = True
                daemon.signal(15)
            for daemon in rig.daemons.values():
                self.assertEqual(daemon.wait_exit(), 0, daemon.name)
            rig.start()
        load.result()
        rig.judge(load)

    def test_an_idle_pipeline_stops_in_any_order(self):
        rig = self.rig().start()
        event = rig.accept()
        rig.wait_status(event)
        for name in ["sequencer", "dlqd", "ingress", "deliverer-1"]:
            self.assertEqual(rig[name].stop(), 0, name)


class Start(RigTest):
    def test_processes_start_in_any_order(self):
        """P3: each process waits for its peers; none ends because another is
        late. The first event comes as soon as ingress accepts events."""
        rig = self.rig()
        names = list(rig.daemons)
        events = []
        for order in itertools.permutations(names):
            event = None
            for name in order:
                rig[name].start()
                if rig.daemons["ingress"].alive and event is None:
                    event = rig.accept()
            events.append(event)
            rig.receiver.wait(event)
            rig.kill()
        rig.start().settle()
        sequences = {e: rig.receiver.requests(event=e)[0].headers[
            "grapnel-sequence"] for e in events}
        self.assertEqual(list(sequences.values()),
                         [str(n) for n in range(1, len(events) + 1)])

    def test_events_wait_for_a_deliverer(self):
        """P2: events are accepted without a deliverer, and delivered when one
        starts."""
        rig = self.rig()
        rig.start("ingress", "sequencer", "dlqd")
        events = {rig.accept() for _ in range(20)}
        for event in events:
            trace = rig.wait_status(event, "routed")
            self.assertEqual(trace["deliveries"][0]["status"], "waiting")
        self.assertEqual(rig.receiver.requests(), [])
        rig.start()
        wait_for(lambda: set(rig.receiver.delivered()) == events,
                 what="all to be delivered")

    def test_events_wait_for_the_sequencer(self):
        """P1, P2: ingress accepts events while all other processes are down."""
        rig = self.rig()
        rig.start("ingress")
        load = rig.load(count=1000, workspaces=10)
        self.assertEqual(load.result()["counts"], {"200": 1000})
        rig.start()
        rig.judge(load)

    def test_a_deleted_run_dir_is_made_again(self):
        """P1: processes that run go on, and those that start again find them."""
        rig = self.rig(console=True).start()
        rig.wait_status(rig.accept())
        shutil.rmtree(rig.run_dir)
        for daemon in rig.daemons.values():
            wait_for(lambda: "they are bound again" in daemon.log(), what=f"{daemon.name} to see it")
        status = rig.cli_text("status")
        self.assertEqual((status.returncode, status.stderr), (0, ""), status.stdout)
        rig["sequencer"].stop()
        self.assertFalse((rig.run_dir / "sequencer.control").exists(), "one that stopped in order leaves none")
        rig["sequencer"].start()
        rig.wait_status(rig.accept())
        rig["ingress"].stop()
        rig["ingress"].start()
        rig.wait_status(rig.accept())


main()
