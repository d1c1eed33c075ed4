"""`grapnel listen` forwards the deliveries of a pull endpoint to a local service, also from a machine
without configuration, and leaves nothing behind."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import RigTest, main, program, wait_for
from terminal import Terminal
from test_api import Api

DAY_S = 24 * 3600


class Listen(RigTest):
    def pull_rig(self, **endpoint):
        rig = self.rig(console=True)
        rig.config["endpoints"] = [{"name": "jobs", "transport": "pull", **endpoint}]
        rig.write_config()
        rig.start()
        made, code = rig.cli("tokens", "create", "laptop", "--role", "operator")
        self.assertEqual(code, 0, made)
        self.token = rig.folder / "laptop" / "token"
        self.token.parent.mkdir()
        self.token.write_text(made["token"] + "\n")
        return rig

    def listen(self, rig, *options, token=True, to="jobs"):
        """As on another machine: without a configuration."""
        child = subprocess.Popen(
            [program("grapnel"), "listen", to, "--console",
             f"http://127.0.0.1:{rig.console_port}",
             *(["--token", f"file:{self.token}"] if token else []), *options],
            cwd=self.token.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("GRAPNEL_")})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def end(self, child):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 0, err)
        return out, err

    def test_each_delivery_is_forwarded_as_a_request_of_grapnel(self):
        rig = self.pull_rig(signing_secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"), "--json")
        bodies = [rig.plane_body() for _ in range(3)]
        events = [rig.accept(b) for b in bodies]
        for event, body in zip(events, bodies):
            got, = rig.receiver.wait(event, path="/local")
            self.assertEqual(got.headers["grapnel-type"], "issue.updated")
            self.assertIn("webhook-signature", got.headers)
            self.assertEqual(got.headers["content-length"], str(len(body)))
            rig.wait_status(event)
        out, _ = self.end(child)
        shown = [json.loads(line) for line in out.splitlines() if line]
        self.assertEqual([(s["event_id"], s["http_status"]) for s in shown],
                         [(e, 200) for e in events])

    def test_failures_are_shown_and_come_again(self):
        rig = self.pull_rig()
        rig.receiver.rules({"path": "/local", "responses": [{"status": 503}, {"status": 200}]})
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"), "--bodies")
        event = rig.accept()
        rig.receiver.wait(event, path="/local", count=2)
        rig.wait_status(event)
        out, err = self.end(child)
        self.assertIn("503", out)
        self.assertIn("attempt 2", out)
        self.assertIn("> webhook-id:", out.lower())
        self.assertIn("Listening", err)

    def test_a_restart_of_the_console_interrupts_it_only(self):
        rig = self.pull_rig()
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"))
        rig.receiver.wait(rig.accept(), path="/local")
        rig["console"].kill()
        self.assertIn("Listening", child.stderr.readline())
        self.assertIn("trying again", child.stderr.readline())
        event = rig.accept()
        rig["console"].start()
        rig.receiver.wait(event, path="/local")
        rig.wait_status(event)
        self.end(child)

    def test_what_it_had_taken_is_given_back_at_once(self):
        rig = self.pull_rig()
        rig.receiver.rules({"path": "/local", "responses": [{"action": "blackhole"}]})
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"))
        event = rig.accept()
        wait_for(lambda: rig.rows("deliverer-1", "SELECT 1 FROM taken WHERE state = 0"))
        rig.receiver.wait(event, path="/local")
        self.end(child)
        self.assertEqual(rig.rows("deliverer-1", "SELECT 1 FROM taken WHERE state = 0"), [])

    def test_what_is_wrong_is_said(self):
        rig = self.pull_rig()
        for options, token, words in [((), False, "a token is needed"),
                                      (("--token", "grp_wrong"), False, "token is unknown")]:
            child = self.listen(rig, *options, token=token)
            _, err = child.communicate(timeout=30)
            self.assertNotEqual(child.returncode, 0)
            self.assertIn(words, err)

    def test_an_endpoint_that_cannot_be_listened_to_ends_it(self):
        """Before it says that it listens. A pull endpoint that changes later does not end it."""
        rig = self.pull_rig()
        rig.config["endpoints"] += [
            rig.endpoint("crm"), {"name": "short", "transport": "pull", "timeout": "10s"}]
        rig.write_config()
        rig["sequencer"].reload()
        for to, code, words in [("crm", 1, "crm is not a pull endpoint"),
                                ("short", 1, "lease: at most"),
                                ("nothing", 1, "nothing"),
                                ("http://localhost:3000", 64,
                                 "did you mean --forward-to http://localhost:3000?")]:
            with self.subTest(to):
                child = self.listen(rig, to=to)
                _, err = child.communicate(timeout=30)
                self.assertEqual(child.returncode, code, err)
                self.assertIn(words, err)
                self.assertNotIn("Listening", err)
                self.assertNotIn("trying again", err)
        child = self.listen(rig, "--forward-to", rig.receiver.url("/local"))
        self.assertIn("Listening to the endpoint jobs", child.stderr.readline())
        rig.cli("endpoints", "pause", "jobs")
        event = rig.accept()
        self.assertIn("trying again", child.stderr.readline())
        rig.cli("endpoints", "resume", "jobs")
        rig.receiver.wait(event, path="/local")
        self.end(child)


class Temporary(Api):
    """`grapnel listen --source S`: the endpoint that it makes, and how that ends."""

    def listen_rig(self, ttl="24h", **config):
        rig = self.api_rig({"temporary_endpoints": {"ttl": ttl, "max": 3}, **config}).start()
        return rig

    def listen(self, rig, *options, to="/local"):
        child = subprocess.Popen(
            [program("grapnel"), "listen", "-c", str(rig.config_path),
             *(["--forward-to", rig.receiver.url(to)] if to else []), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **rig.env}, start_new_session=True)

        def end():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGCONT)
            child.kill()
            child.communicate()
        self.addCleanup(end)
        return child

    def listening(self, rig, *options, **how):
        """The child, and its endpoint, once that has a consumer."""
        before = {e["name"] for e in self.temporary(rig)}
        child = self.listen(rig, *options, **how)
        made = wait_for(lambda: child.poll() is None and
                        [e["name"] for e in self.temporary(rig) if e["name"] not in before],
                        what="a temporary endpoint")
        return child, made[0]

    def make(self, rig, status=200, key=None, **body):
        got, headers, reply = self.call(rig, "POST", "/temporary-endpoints", body,
                                        **({"Idempotency_Key": key} if key else {}))
        self.assertEqual(got, status, reply)
        return (reply, headers) if status != 200 else reply

    def temporary(self, rig):
        return [e for e in rig.ask("sequencer", "endpoints", limit=1000)["endpoints"]
                if e["temporary"] and e["state"] != "removed"]

    def left_by_clients(self, rig):
        """Connections to the console that only the client has closed."""
        rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [row for row in rows
                if int(row[1].split(":")[1], 16) == rig.console_port and row[3] == "08"]

    def states(self, rig, endpoint):
        """How many deliveries of the endpoint have each status."""
        rows = rig.rows("sequencer", "SELECT d.status, count(*) AS n FROM deliveries d, endpoints e "
                        "WHERE e.id = d.endpoint AND e.name = ? GROUP BY 1", endpoint)
        return {r["status"]: r["n"] for r in rows}

    def assert_abandoned(self, rig, endpoint, count):
        """All but `count` deliveries of it were delivered, nothing is a dead letter, and nothing
        was reported."""
        wait_for(lambda: self.states(rig, endpoint).get(5, 0) == count and
                 set(self.states(rig, endpoint)) <= {3, 5}, what=f"{count} to be abandoned, not {self.states(rig, endpoint)}")
        self.assertEqual(rig.rows("sequencer", "SELECT 1 FROM dead_letters"), [])
        self.assertEqual(rig.rows("sequencer", "SELECT 1 FROM events WHERE source = 'grapnel'"), [])
        self.assertEqual(self.temporary(rig), [])

    def test_later_events_are_forwarded_and_ctrl_c_leaves_nothing(self):
        rig = self.listen_rig()
        before = rig.accept()
        rig.wait_status(before)
        shell = Terminal(rig, "listen", "--source", "plane", "--type", "issue.*",
                         "--forward-to", rig.receiver.url("/local"))
        self.addCleanup(shell.close)
        shell.wait("Listening to the temporary endpoint")
        endpoint, = self.temporary(rig)
        self.assertEqual((endpoint["managed_by"], endpoint["settings"]["transport"],
                          endpoint["settings"]["sources"]), ("api", "pull", ["plane"]))
        events = [rig.accept() for _ in range(3)]
        other = rig.accept(rig.plane_body(event="cycle"))
        for event in events:
            got, = rig.receiver.wait(event, path="/local")
            self.assertEqual(got.headers["grapnel-type"], "issue.updated")
            shell.wait(event)
        rig.wait_status(other)
        shown = rig.cli_text("endpoints").stdout
        self.assertIn(f"{endpoint['name']}: temporary", shown)
        self.assertIn(f"Endpoint {endpoint['name']}: temporary", rig.cli_text("status").stdout)
        rig.receiver.rules({"path": "/local", "responses": [{"status": 503}]})
        last = rig.accept()
        shell.wait("503")
        shell.press("\x03")
        self.assertEqual(shell.wait_exit(), 0, shell.raw)
        self.assertEqual(self.temporary(rig), [])
        self.assert_abandoned(rig, endpoint["name"], 1)
        self.assertEqual(sorted(rig.receiver.delivered("/local")), sorted(events))
        delivery, = [d for d in rig.trace(last)["deliveries"] if d["endpoint"] != "crm"]
        self.assertEqual((delivery["status"], delivery["reason"]), ("abandoned", "endpoint_removed"))
        found, _ = rig.cli("deliveries", "--status", "abandoned")
        self.assertEqual([d["event_id"] for d in found], [last])
        audit = [r["command"] for r in rig.ask("sequencer", "audit", limit=100)["audit"]]
        self.assertEqual(audit.count("temporary_create"), 1)
        self.assertEqual(audit.count("temporary_delete"), 1)

    def test_any_end_of_the_command_deletes_its_endpoint(self):
        rig = self.listen_rig()
        for signo in (signal.SIGTERM, signal.SIGHUP):
            child, _ = self.listening(rig, "--source", "plane")
            child.send_signal(signo)
            _, err = child.communicate(timeout=30)
            self.assertEqual(child.returncode, 0, err)
            self.assertEqual(self.temporary(rig), [])
        child, endpoint = self.listening(rig, to=None)
        child.stdout.close()  # as `| head -1`
        rig.accept()
        self.assertEqual(child.wait(timeout=30), 74)
        self.assertEqual(self.temporary(rig), [])
        self.assert_abandoned(rig, endpoint, 0)

    def test_what_is_wrong_is_said_at_once(self):
        rig = self.listen_rig()
        for options, code, words in [
                (("--source", "plan"), 1, 'no source "plan"; the sources and producers are: plane'),
                (("--source", "plane,"), 0, ""),
                (("--type", ""), 1, "types"),
                (("jobs", "--source", "plane"), 64, "leave out jobs")]:
            child = self.listen(rig, *options)
            if not code:
                wait_for(lambda: self.temporary(rig))
                child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=30)
            self.assertEqual(child.returncode, code, err)
            self.assertIn(words, err)
        self.assertEqual(self.temporary(rig), [])

    def test_there_is_a_bound_and_a_key_makes_one(self):
        rig = self.listen_rig()
        made = [self.make(rig, key="k", sources=["plane"]) for _ in range(3)]
        self.assertEqual(len({m["name"] for m in made}), 1)
        self.make(rig)
        last = self.make(rig)
        error, headers = self.make(rig, 429, key="later")
        self.assertIn("temporary_endpoints.max permits 3", error["error"]["message"])
        self.assertEqual(headers["Retry-After"], "10")
        child = self.listen(rig)
        self.assertIn("temporary_endpoints.max", child.communicate(timeout=30)[1])
        self.assertEqual(child.returncode, 1)
        path = f"/temporary-endpoints/{last['name']}"
        self.assertEqual(self.call(rig, "DELETE", path)[0], 428)
        self.assertEqual(self.call(rig, "DELETE", "/temporary-endpoints/crm", If_Match="*")[0], 404)
        self.assertEqual(self.call(rig, "DELETE", path, If_Match="*")[0], 200)
        self.make(rig, key="later")
        rig["sequencer"].kill()
        rig["sequencer"].start()
        self.assertEqual(len(self.temporary(rig)), 3)
        self.make(rig, 429)
        status, _, reply = self.call(rig, "PATCH", f"/endpoints/{made[0]['name']}",
                                     {"transport": "http", "url": "https://example.com"},
                                     If_Match="*")
        self.assertEqual((status, reply["error"]["field"]), (400, "transport"))

    def test_an_operator_makes_one_and_a_viewer_does_not(self):
        rig = self.listen_rig()
        for role, code in (("viewer", 403), ("operator", 200)):
            made, _ = rig.cli("tokens", "create", role, "--role", role)
            status, _, reply = self.call(rig, "POST", "/temporary-endpoints", {},
                                         token=made["token"])
            self.assertEqual(status, code, reply)
        status, _, _ = self.call(rig, "DELETE", f"/temporary-endpoints/{reply['name']}",
                                 token=made["token"], If_Match="*")
        self.assertEqual(status, 200)
        kept = rig.ask("sequencer", "endpoints", limit=1000)["endpoints"]
        self.assertEqual([e["name"] for e in kept], ["crm"])

    def test_a_stopped_command_loses_nothing(self):
        """As a laptop that sleeps, for longer than the lease of what it had taken."""
        rig = self.api_rig()
        rig.step_clock(0)
        rig.start()
        rig.receiver.rules({"path": "/local", "responses": [{"action": "blackhole"}]})
        child, endpoint = self.listening(rig, "--source", "plane")
        taken = rig.accept()
        rig.receiver.wait(taken, path="/local")
        child.send_signal(signal.SIGSTOP)
        rig.receiver.rules({"path": "/local", "responses": [{"status": 200}]})
        waiting = [rig.accept() for _ in range(5)]
        rig["deliverer-1"].kill()
        rig.step_clock(300)
        rig["deliverer-1"].start()
        wait_for(lambda: rig.rows("sequencer", "SELECT 1 FROM attempts WHERE error LIKE '%lease%'"),
                 what="the lease to end")
        child.send_signal(signal.SIGCONT)
        for event in (taken, *waiting):
            rig.wait_status(event, timeout=60)
        self.assertEqual(self.states(rig, endpoint), {3: 6})
        self.assertEqual(sorted(e for e in rig.receiver.delivered("/local")),
                         sorted([taken, *waiting]))

    def test_restarts_interrupt_it_only(self):
        rig = self.listen_rig()
        child, endpoint = self.listening(rig, "--source", "plane")
        for process in ("console", "deliverer-1", "sequencer"):
            rig[process].kill()
            rig[process].start()
            event = rig.accept()
            rig.receiver.wait(event, path="/local", timeout=40)
            rig.wait_status(event)
        self.assertEqual([e["name"] for e in self.temporary(rig)], [endpoint])
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 0, err)
        self.assertEqual(self.temporary(rig), [])

    def test_one_in_use_outlives_its_time_and_one_that_is_not_ends(self):
        rig = self.listen_rig("5s")
        child, used = self.listening(rig, "--source", "plane")
        killed, unused = self.listening(rig, "--source", "plane", to="/killed")
        killed.kill()
        killed.wait()
        wait_for(lambda: not self.left_by_clients(rig), what="the console to notice that")
        child.send_signal(signal.SIGSTOP)
        events = [rig.accept() for _ in range(20)]
        child.send_signal(signal.SIGCONT)
        wait_for(lambda: [e["name"] for e in self.temporary(rig)] == [used], timeout=30,
                 what="only the endpoint in use to be left")
        wait_for(lambda: self.states(rig, unused) == {5: 20}, what="its backlog to be abandoned")
        last = rig.accept()
        for event in (*events, last):
            rig.receiver.wait(event, path="/local", timeout=30)
            rig.wait_status(event)
        self.assertEqual(rig.rows("sequencer", "SELECT 1 FROM dead_letters"), [])
        row, = [r for r in rig.ask("sequencer", "audit", limit=100)["audit"]
                if r["command"] == "temporary_delete"]
        self.assertEqual((row["actor"], row["args"]), ("sequencer", {"name": unused}))
        self.assertEqual(rig.number("grapnel_deliveries_abandoned_total"), 20)
        self.assertEqual(rig.number("grapnel_deliveries_dead_total"), 0)

    def test_kills_while_one_ends_neither_lose_nor_revive_a_delivery(self):
        rig = self.listen_rig()
        endpoint = self.make(rig, sources=["plane"])["name"]
        events = [rig.accept() for _ in range(1500)]
        wait_for(lambda: sum(self.states(rig, endpoint).values()) == 1500)
        self.assertEqual(rig.number("grapnel_deliveries_open", status="waiting"), 0)
        rig.config["temporary_endpoints"]["ttl"] = "5s"
        rig.write_config()
        rig["sequencer"].reload()
        for at_least in (0, 1, 400, 900):
            wait_for(lambda: not self.temporary(rig) and
                     self.states(rig, endpoint).get(5, 0) >= at_least, timeout=30)
            rig["sequencer"].kill()
            rig["sequencer"].start()
        self.assert_abandoned(rig, endpoint, 1500)
        self.assertEqual(self.states(rig, "crm"), {3: 1500})
        self.assertEqual(rig.rows("sequencer", "SELECT 1 FROM managed_endpoints"), [])
        rig.settle()
        for event in (events[0], events[-1]):
            self.assertEqual(rig.trace(event)["status"], "done")

    def test_a_wall_clock_that_jumps_ends_nothing(self):
        rig = self.api_rig()
        rig.step_clock(0)
        rig.start()
        endpoint = self.make(rig)["name"]
        event = rig.accept()
        wait_for(lambda: self.states(rig, endpoint))
        rig.step_clock(3 * DAY_S)
        time.sleep(2)
        rig.stop()
        rig.step_clock(6 * DAY_S)
        rig.start()
        after = rig.accept()
        wait_for(lambda: sum(self.states(rig, endpoint).values()) == 2)
        self.assertEqual([e["name"] for e in self.temporary(rig)], [endpoint])
        self.assertNotIn(5, self.states(rig, endpoint), (event, after))

    def test_a_budget_that_ends_makes_no_dead_letter(self):
        rig = self.listen_rig(retry_policies=[{
            "name": "default", "backoff": "fixed", "first_wait": "20ms", "jitter": "none",
            "max_attempts": 2}], endpoints=[])
        rig.receiver.rules({"path": "/local", "responses": [{"status": 500}]})
        child, endpoint = self.listening(rig, "--source", "plane")
        event = rig.accept()
        wait_for(lambda: self.states(rig, endpoint) == {5: 1})
        delivery, = rig.trace(event)["deliveries"]
        self.assertEqual((delivery["status"], delivery["reason"], len(delivery["attempts"])),
                         ("abandoned", "budget_attempts", 2))
        rig.receiver.rules({"path": "/local", "responses": [{"status": 200}]})
        said = rig.cli_text("resend", event)
        self.assertEqual(said.returncode, 0, said.stderr)
        wait_for(lambda: self.states(rig, endpoint) == {3: 1})
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
        self.assert_abandoned(rig, endpoint, 0)

main(at_once=3)
