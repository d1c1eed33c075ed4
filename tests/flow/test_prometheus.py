"""The rules of packaging/prometheus/alerts.yml are valid, fire when they should, use
documented metrics, and link to instructions."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import ROOT, main

RULES = ROOT / "packaging/prometheus/alerts.yml"
UP = 'up{job="grapnel",instance="a"}'
GIB = 1 << 30

# alert: when it fires and when it does not: ({series: values per minute}, after minutes).
# `a+bxn` is promtool's: a, then n times b more.
SEQ, ING = '{process="sequencer"}', '{process="ingress"}'
CASES = {
    "GrapnelConsoleDown": [({UP: "1 0x9"}, 9), ({UP: "1x9"}, 9)],
    "GrapnelProcessDown": [({f"grapnel_up{SEQ}": "1 0x9"}, 9),
                           ({f"grapnel_up{SEQ}": "1x9"}, 9)],
    "GrapnelIngressRefusing": [
        ({f"grapnel_ingress_refused_5xx_total{ING}": "0+3x20"}, 12),
        # a restart
        ({f"grapnel_ingress_refused_5xx_total{ING}": "0x3 9x20"}, 12)],
    "GrapnelSignatureFailures": [
        ({f"grapnel_ingress_responses_signature_mismatch_total{ING}": "0+5x20"}, 15),
        ({f"grapnel_ingress_responses_signature_mismatch_total{ING}": "0+1x20"}, 15)],
    "GrapnelClock": [
        ({f"grapnel_ingress_responses_timestamp_stale_total{ING}": "0+5x20",
          f"grapnel_ingress_requests_total{ING}": "0+10x20"}, 15),
        ({f"grapnel_ingress_responses_timestamp_stale_total{ING}": "0+5x20",
          f"grapnel_ingress_requests_total{ING}": "0+1000x20",
          f"grapnel_start_time_seconds{ING}": "60x20"}, 15)],
    "GrapnelBacklogOld": [
        ({f"grapnel_ingress_backlog_oldest_seconds{ING}": "0+60x20"}, 15),
        ({f"grapnel_ingress_backlog_oldest_seconds{ING}": "120x20"}, 15)],
    "GrapnelDeliveriesOld": [({f"grapnel_oldest_open_seconds{SEQ}": "30000x20"}, 15),
                             ({f"grapnel_oldest_open_seconds{SEQ}": "3600x20"}, 15)],
    "GrapnelGapsOpen": [({f"grapnel_gaps_open{SEQ}": "2x20"}, 15),
                        ({f"grapnel_gaps_open{SEQ}": "2x3 0x17"}, 15)],
    "GrapnelLanesHalted": [({f"grapnel_lanes_halted{SEQ}": "1x20"}, 15),
                           ({f"grapnel_lanes_halted{SEQ}": "0x20"}, 15)],
    "GrapnelDeadLetters": [({'grapnel_dlqd_dead_letters_dead{process="dlqd"}': "1x20"}, 15),
                           ({'grapnel_dlqd_dead_letters_dead{process="dlqd"}': "0x20"}, 15)],
    "GrapnelDeadLettersGrowing": [
        ({'grapnel_dlqd_received_total{process="dlqd"}': "0+1x70"}, 65),
        ({'grapnel_dlqd_received_total{process="dlqd"}': "5x70"}, 65)],
    "GrapnelDeadLettersExpiring": [
        ({'grapnel_dlqd_dead_letters_expiring{process="dlqd"}': "1x20"}, 15),
        ({'grapnel_dlqd_dead_letters_expiring{process="dlqd"}': "0x20"}, 15)],
    "GrapnelEndpointFailing": [
        ({'grapnel_endpoint_failing_seconds{endpoint="crm"}': "4000x20"}, 15),
        ({'grapnel_endpoint_failing_seconds{endpoint="crm"}': "60x20"}, 15)],
    "GrapnelEndpointHeld": [({'grapnel_endpoint_held{endpoint="crm"}': "1x20"}, 15),
                            ({'grapnel_endpoint_held{endpoint="crm"}': "0x20"}, 15)],
    "GrapnelEndpointDisabled": [
        ({'grapnel_endpoint_disabled{endpoint="crm"}': "1x20"}, 15),
        ({'grapnel_endpoint_disabled{endpoint="crm"}': "0x20"}, 15)],
    "GrapnelEndpointWaiting": [
        ({'grapnel_endpoint_waiting_seconds{endpoint="crm"}': "86000+60x20"}, 15),
        ({'grapnel_endpoint_waiting_seconds{endpoint="crm"}': "80000+60x20"}, 15)],
    "GrapnelDiskLow": [({f"grapnel_store_free_bytes{SEQ}": f"{GIB // 2}x20"}, 15),
                       ({f"grapnel_store_free_bytes{SEQ}": f"{2 * GIB}x20"}, 15)],
    "GrapnelDiskFilling": [
        ({f"grapnel_store_free_bytes{SEQ}": f"{15 * GIB}-{20 << 20}x420"}, 410),
        ({f"grapnel_store_free_bytes{SEQ}": f"{15 * GIB}-1000x420"}, 410)],
    "GrapnelDamagedData": [({f"grapnel_damaged_total{SEQ}": "0x5 1x20"}, 15),
                           ({f"grapnel_damaged_total{SEQ}": "1x20"}, 15)],
    "GrapnelMessagesLost": [({f"grapnel_link_lost_total{SEQ}": "0x5 7x20"}, 15),
                            ({f"grapnel_link_lost_total{SEQ}": "7x20"}, 15)],
    "GrapnelNotificationsWaiting": [
        ({'grapnel_notifications_waiting{process="console"}': "3x30"}, 25),
        ({'grapnel_notifications_waiting{process="console"}': "3x5 0x25"}, 25)],
}


def alerts():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def anchors():
    """Of the headings of OPERATIONS.md, as Markdown's readers make them."""
    return {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in (ROOT / "docs/OPERATIONS.md").read_text().splitlines()
            if line.startswith("#")}


class Rules(unittest.TestCase):
    def promtool(self, *words):
        try:
            return subprocess.run(["promtool", *words], capture_output=True, text=True,
                                  timeout=120)
        except FileNotFoundError:
            self.skipTest("promtool is not installed (Debian: prometheus)")

    def test_promtool_accepts_the_rules(self):
        done = self.promtool("check", "rules", str(RULES))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_fires_when_it_should_and_only_then(self):
        self.assertEqual(set(CASES), set(alerts()))
        tests = []
        for name, (fires, is_quiet) in CASES.items():
            for (series, minutes), firing in ((fires, 1), (is_quiet, 0)):
                given = {UP: "1x500", **series}
                tests.append({
                    "interval": "1m",
                    "input_series": [{"series": key, "values": values}
                                     for key, values in given.items()],
                    "promql_expr_test": [{
                        "expr": 'count(ALERTS{alertstate="firing"}) or vector(0)'
                                if not firing else
                                f'count(ALERTS{{alertname="{name}",'
                                'alertstate="firing"})',
                        "eval_time": f"{minutes}m",
                        "exp_samples": [{"labels": "{}", "value": firing}]}]})
        tests.append({  # nothing is scraped at all
            "interval": "1m", "input_series": [],
            "promql_expr_test": [{
                "expr": 'count(ALERTS{alertname="GrapnelConsoleDown",'
                        'alertstate="firing"})',
                "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]}]})
        tests.append({  # what a person reads
            "interval": "1m",
            "input_series": [{"series": UP, "values": "1x20"},
                             {"series": f"grapnel_up{SEQ}", "values": "0x20"}],
            "alert_rule_test": [{
                "alertname": "GrapnelProcessDown", "eval_time": "5m",
                "exp_alerts": [{
                    "exp_labels": {"severity": "page", "process": "sequencer"},
                    "exp_annotations": {
                        **alerts()["GrapnelProcessDown"]["annotations"],
                        "summary": "Grapnel's sequencer is down"}}]}]})
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m",
                            "tests": tests}, file)
            file.flush()
            done = self.promtool("test", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_rules_use_only_documented_metrics(self):
        known = set(re.findall(r"`(grapnel_\w+)`",
                               (ROOT / "docs/METRICS.md").read_text()))
        for name, rule in alerts().items():
            asked = set(re.findall(r"\bgrapnel_\w+", rule["expr"]))
            self.assertLessEqual(asked, known, name)
            self.assertTrue(asked or "up{" in rule["expr"], name)

    def test_each_rule_links_to_its_instructions(self):
        found = anchors()
        for name, rule in alerts().items():
            self.assertIn(rule["labels"]["severity"], ("page", "ticket"), name)
            self.assertEqual(set(rule["annotations"]),
                             {"summary", "description", "runbook"}, name)
            document, _, section = rule["annotations"]["runbook"].partition("#")
            self.assertEqual(document, "docs/OPERATIONS.md", name)
            self.assertIn(section, found, name)


main()
