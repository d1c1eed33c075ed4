"""The console has the metrics of all processes at one address, in a form that Prometheus
and the dashboard can read."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import msgpack
import zmq
from rig import BUILD, ROOT, RigTest, main, wait_for

PROCESSES = {"ingress", "sequencer", "dlqd", "deliverer-1", "deliverer-2",
             "console"}


def names_of(text):
    return set(re.findall(r"^# TYPE (\S+)", text, re.M))


class Metrics(RigTest):
    def whole(self, **how):
        rig = self.rig(console=True, deliverers=2, **how).start()
        wait_for(lambda: all(rig.number("grapnel_up", process=p)
                             for p in PROCESSES), what="all to be heard")
        return rig

    def test_one_address_has_the_metrics_of_all_processes(self):
        rig = self.whole()
        with zmq.Context.instance().socket(zmq.SUB) as sub:
            sub.linger = 0
            sub.connect(rig.publish)
            sub.subscribe(b"")
            heard = set()
            while heard != PROCESSES:
                self.assertTrue(sub.poll(30000), f"only heard {heard}")
                heard.add(msgpack.unpackb(sub.recv())["process"])
            wait_for(lambda: rig.number("grapnel_console_subscribers") == 1)
        # One that comes later is found, one that ends in order is not missed.
        rig.add("deliverer-3").start()
        wait_for(lambda: rig.number("grapnel_up", process="deliverer-3"))
        rig["deliverer-3"].stop()
        for kind in ["metrics", "control"]:
            self.assertFalse((rig.run_dir / f"deliverer-3.{kind}").exists())
        wait_for(lambda: rig.number("grapnel_up", process="deliverer-3") == 0)

    def test_prometheus_can_read_what_the_console_serves(self):
        rig = self.whole()
        rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
            {"status": 503, "times": 1}, {"status": 200}]})
        events = [rig.accept(rig.plane_body("ws-1")) for _ in range(5)]
        for event in events:
            rig.receiver.wait(event, count=2)
        rig.post(b"{}", headers={"X-Plane-Signature": "bad"})
        wait_for(lambda: rig.number("grapnel_end_to_end_seconds_count",
                                    endpoint="crm") == 5)
        wait_for(lambda: rig.number("grapnel_slo_delivery_success_ratio") == 1)
        status, text = rig.console_page("/metrics")
        self.assertEqual(status, 200)
        checked = subprocess.run(["promtool", "check", "metrics"], input=text,
                                 capture_output=True, text=True, timeout=60)
        self.assertEqual((checked.returncode, checked.stderr, checked.stdout),
                         (0, "", ""))
        for name, labels, value in [
                ("grapnel_endpoint_attempts_total",
                 {"endpoint": "crm", "outcome": "delivered"}, 5),
                ("grapnel_endpoint_attempts_total",
                 {"endpoint": "crm", "outcome": "retrying"}, 5),
                ("grapnel_endpoint_retries_total",
                 {"endpoint": "crm", "outcome": "delivered"}, 5),
                ("grapnel_attempt_seconds_count", {"endpoint": "crm"}, 10),
                ("grapnel_end_to_end_seconds_bucket", {"le": "+Inf"}, 5),
                # p99 under 10 ms and p95 under 5 s can be read from these.
                ("grapnel_attempt_seconds_bucket", {"le": "5"}, 10),
                ("grapnel_ingress_backlog_oldest_seconds", {}, 0),
                ("grapnel_ingress_source_accepted_total",
                 {"source": "plane"}, 5),
                ("grapnel_ingress_rejected_total",
                 {"source": "plane"}, 1),
                ("grapnel_deliveries_open", {}, 0),
                ("grapnel_endpoint_mean_retries", {"endpoint": "crm"}, 1),
                ("grapnel_endpoint_breaker_open", {"endpoint": "crm"}, 0),
                ("grapnel_endpoint_retry_success_ratio",
                 {"endpoint": "crm"}, 1)]:
            self.assertEqual(rig.number(name, **labels), value, name)
        self.assertGreater(rig.number("grapnel_commit_seconds_count",
                                      process="ingress"), 0)
        self.assertGreater(rig.number("grapnel_slo_end_to_end_p95_seconds"), 0)
        for name in ["attempt", "end_to_end"]:
            for le in ["0.01", "5"]:
                self.assertIsNotNone(rig.number(
                    f"grapnel_{name}_seconds_bucket", le=le))
        self.dashboard_asks_for_what_is_there(names_of(text))

    def dashboard_asks_for_what_is_there(self, names):
        path = ROOT / "packaging" / "grafana" / "grapnel.json"
        asked = set(re.findall(r"\bgrapnel_[a-z0-9_]+", path.read_text()))
        self.assertGreater(len(asked), 20)
        plain = {re.sub(r"_(bucket|sum|count)$", "", n)
                 if n not in names else n for n in asked}
        documented = set(re.findall(
            r"`(grapnel_\w+)`", (ROOT / "docs" / "METRICS.md").read_text()))
        self.assertEqual(plain - documented, set())
        # The dashboard shows at least these.
        self.assertEqual({
            "grapnel_ingress_accepted_total", "grapnel_ingress_rejected_total",
            "grapnel_ingress_backlog", "grapnel_events_buffered",
            "grapnel_deliveries_open", "grapnel_oldest_open_seconds",
            "grapnel_end_to_end_seconds", "grapnel_attempt_seconds",
            "grapnel_commit_seconds", "grapnel_link_window",
            "grapnel_events_duplicate_total", "grapnel_gaps_open",
            "grapnel_endpoint_retries_total", "grapnel_endpoint_mean_retries",
            "grapnel_endpoint_mean_retry_wait_seconds",
            "grapnel_endpoint_retry_success_ratio",
            "grapnel_endpoint_breaker_open", "grapnel_dlqd_dead_letters_dead",
            "grapnel_slo_delivery_success_ratio",
            "grapnel_slo_end_to_end_p95_seconds",
            "grapnel_slo_end_to_end_p99_seconds",
            "grapnel_slo_dedupe_hit_ratio", "grapnel_alerts_firing",
        } - plain, set())
        json.loads(path.read_text())

    def test_metrics_md_matches_the_programs(self):
        done = subprocess.run([ROOT / "tools" / "docs", "--check"],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, "GRAPNEL_BUILD": str(BUILD)})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_the_documented_subscriber_reads_metrics(self):
        rig = self.whole()
        text = (ROOT / "docs" / "METRICS.md").read_text()
        script = re.search(r"```python\n(.*?)```", text, re.S).group(1)
        self.assertLessEqual(len(script.splitlines()), 10)
        self.assertIn("tcp://127.0.0.1:7464", script)
        script = script.replace("tcp://127.0.0.1:7464", rig.publish)
        child = subprocess.Popen(
            [sys.executable, "-u", "-c", script], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        lines, wanted = [], {"grapnel_ingress_accepted_total",
                             "grapnel_commit_seconds"}

        def read():
            for line in child.stdout:
                lines.append(line)

        threading.Thread(target=read, daemon=True).start()
        wait_for(lambda: all(any(w in line for line in lines) for w in wanted),
                 what=f"{wanted} to be printed")

    def test_grapnel_metrics_needs_no_console(self):
        rig = self.rig({"metrics": {"interval": "100ms"}}).start()
        frames, code = rig.cli("metrics", "--once")
        self.assertEqual(code, 0)
        self.assertEqual({f["process"] for f in frames},
                         {"ingress", "sequencer", "dlqd", "deliverer-1"})
        text = rig.cli_text("metrics", "--once").stdout
        self.assertRegex(text, r"ingress +grapnel_ingress_accepted_total 0\n")
        self.assertRegex(text, r'link_backlog\{peer="sequencer"\} 0\n')
        rig["dlqd"].kill()
        done = rig.cli_text("metrics", "--once")
        self.assertEqual(done.returncode, 69)
        self.assertIn("dlqd", done.stderr)

    def test_a_signal_ends_a_command_that_waits_for_metrics(self):
        rig = self.rig({"metrics": {"interval": "100ms"}}, deliverers=0).start("dlqd")
        for signo in (signal.SIGINT, signal.SIGTERM):
            child = subprocess.Popen(
                [BUILD / "bin" / "grapnel", "-c", rig.config_path, "metrics"],
                stdout=subprocess.PIPE, text=True)
            self.addCleanup(child.kill)
            with child.stdout:
                self.assertIn("dlqd", child.stdout.readline())
                child.send_signal(signo)
                self.assertEqual(child.wait(timeout=30), -signo)

    def test_the_console_exposes_no_secrets(self):
        rig = self.rig({"console": {"tokens": ["a-token"]}}, console=True,
                       deliverers=0).start("console")
        self.assertEqual(rig.console_page("/healthz")[0], 200)
        self.assertEqual(rig.console_page("/metrics")[0], 200)
        self.assertEqual(rig.console_page("/etc/passwd")[0], 404)
        self.assertEqual(rig.console_page("/api/alerts")[0], 401)
        self.assertEqual(rig.console_page("/api/alerts", "a-toke")[0], 401)
        status, text = rig.console_page("/api/alerts", "a-token")
        self.assertEqual((status, json.loads(text)), (200, {"alerts": []}))
        other = self.rig(console=True, deliverers=0).start("console")
        self.assertEqual(other.console_page("/api/alerts", "a-token")[0], 403)

    def test_deliveries_do_not_need_the_console(self):
        rig = self.whole()
        rig["console"].kill()
        event = rig.accept(rig.plane_body("ws-1"))
        rig.receiver.wait(event)
        rig["console"].start()
        event = rig.accept(rig.plane_body("ws-1"))
        rig.receiver.wait(event)
        wait_for(lambda: rig.number(
            "grapnel_deliveries_delivered_total") == 2)


main()
