"""The log's lines about an event: which, in which form, and in which file."""

import json
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, wait_for

EVENT = re.compile(r"[0-9TZ:.-]+ (\w+) ([\w-]+) event=(\S+) (\w+) (.*)")
PAIR = re.compile(r'([a-z0-9_]+)=("(?:[^"\\]|\\.)*"|\S+)')


def lines(daemon, event):
    """{what: {key: value}} of a process's lines about an event."""
    found = {}
    for line in daemon.log().splitlines():
        m = EVENT.match(line)
        if m and m[3] == event:
            found[m[4]] = {"level": m[1], "process": m[2], **{
                key: json.loads(value) if value[0] == '"' else value
                for key, value in PAIR.findall(m[5])}}
    return found


class Log(RigTest):
    STRIPE = {"name": "stripe", "provider": "stripe", "secrets": ["shh"]}

    def test_absent_facts_are_left_out_of_log_lines(self):
        """No status without a response, and no attempt number without an
        attempt."""
        rig = self.rig({"producers": [{"name": "shop", "tokens": ["t0p"]}],
                        "retry_policies": [{
                            "name": "default", "backoff": "fixed",
                            "first_wait": "20ms", "jitter": "none",
                            "max_attempts": 2}]}).start()
        rig.receiver.rules({"path": "/crm", "responses": [{"action": "reset"}]})
        event = rig.accept()
        wait_for(lambda: "finished" in lines(rig["sequencer"], event))
        rig.cli("endpoints", "pause", "crm")
        status, _, response = rig.post(
            json.dumps({"type": "a", "workspace": "w", "data": {},
                        "expires_in": "1ms"}).encode(), path="/v1/events",
            headers={"Authorization": "Bearer t0p"})
        self.assertIn(status, (200, 202), response)
        rig.cli("endpoints", "resume", "crm")
        late = response["id"]
        wait_for(lambda: "finished" in lines(rig["sequencer"], late))
        self.assertEqual(lines(rig["deliverer-1"], late)["dead"]["reason"],
                         "expired")
        for process in rig["sequencer"], rig["deliverer-1"]:
            for event_id in event, late:
                for what, fields in lines(process, event_id).items():
                    with self.subTest((process.name, what)):
                        self.assertNotIn("http_status", fields)
                        self.assertNotEqual(fields.get("attempt"), "0")
        self.assertEqual(lines(rig["deliverer-1"], event)["dead"]["attempt"], "2")

    def test_an_event_has_a_line_when_accepted_and_one_when_finished(self):
        rig = self.rig()
        rig.config["sources"].append(self.STRIPE)
        rig.config["endpoints"].append(rig.endpoint("books"))
        rig.write_config()
        rig.start()
        rig.receiver.rules({"path": "/books", "responses": [
            {"status": 500}, {"status": 400}]})
        body = json.dumps({"id": "evt_theirs", "type": "charge.succeeded",
                           "account": "acct_1", "livemode": True})
        file = rig.folder / "body.json"
        file.write_text(body)
        event = rig.cli("send", "stripe", "--file", file)[0]["id"]
        wait_for(lambda: "finished" in lines(rig["sequencer"], event))
        accepted = lines(rig["ingress"], event)["accepted"]
        self.assertTrue(int(accepted.pop("duration_ms")) >= 0)
        self.assertEqual(accepted, {
            "level": "info", "process": "ingress", "provider_id": "evt_theirs",
            "source": "stripe", "client": "127.0.0.1",
            "body_bytes": str(len(body)), "mode": "live"})
        finished = lines(rig["sequencer"], event)["finished"]
        self.assertTrue(int(finished.pop("duration_ms")) >= 0)
        self.assertEqual(finished, {
            "level": "info", "process": "sequencer", "status": "done",
            "provider_id": "evt_theirs", "source": "stripe",
            "workspace": "acct_1", "type": "charge.succeeded", "sequence": "1",
            "endpoints": "2", "dead": "1", "attempts": "3", "mode": "live"})
        # One key means the same in every process, and a time looks the same.
        times = set()
        for daemon in rig.daemons.values():
            for what, line in lines(daemon, event).items():
                self.assertFalse({"status", "remote", "why", "letter", "life"} &
                                 set(line) - {"status"}, (what, line))
                times |= {v for k, v in line.items() if k.endswith("_at")}
        self.assertTrue(times)
        for at in times:
            self.assertRegex(at, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_the_duration_after_a_requeue_counts_from_the_requeue(self):
        """The time in which the dead letter waited for an operator does not
        count."""
        rig = self.rig()
        rig.step_clock(-6 * 3600)
        rig.start()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        event = rig.accept()
        wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")
        rig.stop()
        rig.step_clock(0)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200}]})
        rig.start()
        dead_letter, = rig.cli("dlq")[0]
        rig.cli("dlq", "retry", dead_letter["id"])
        rig.receiver.wait(event)
        wait_for(lambda: lines(rig["sequencer"], event)["finished"]["dead"] == "0")
        self.assertLess(int(lines(rig["sequencer"], event)["finished"]
                            ["duration_ms"]), 3600_000)

    def test_duplicates_and_unsubscribed_events_have_a_line(self):
        rig = self.rig({"endpoints": []}).start()
        body = rig.plane_body()
        first = rig.post(body)[2]["id"]
        again = rig.post(body)[2]["id"]
        wait_for(lambda: "duplicate" in lines(rig["sequencer"], again))
        self.assertEqual(lines(rig["sequencer"], first)["finished"]["endpoints"],
                         "0")
        line = lines(rig["sequencer"], again)["duplicate"]
        self.assertEqual((line["duplicate_of"], line["source"]),
                         (first, "plane"))
        self.assertNotIn("mode", line)

    def test_repeated_lines_are_counted_and_suppressed(self):
        rig = self.rig().start()
        load = rig.load(count=1500, connections=16)
        load.result()
        rig.settle()
        for name, what in [("ingress", " accepted "), ("sequencer",
                                                      " finished ")]:
            def all_told():
                log = rig[name].log()
                suppressed = sum(int(n) for n in re.findall(
                    r"suppressed lines about events.* info_lines=(\d+)", log))
                return log.count(what) + suppressed >= 1500
            wait_for(all_told, what=f"{name} to account for 1500 lines")
        per_second = {}
        for line in rig["ingress"].log().splitlines():
            if " accepted " in line:
                per_second[line[:19]] = per_second.get(line[:19], 0) + 1
        # A second of the limit is not one of the clock: it may lie in two.
        self.assertLessEqual(max(per_second.values()), 200)
        self.assertLess(sum(per_second.values()), 1500)

    def test_warnings_are_also_in_log_errors(self):
        """All processes write to it; it survives logrotate with SIGHUP, and a
        missing folder ends no process."""
        rig = self.rig({"log": {"errors": "logs/errors.log"}})
        rig.start()
        folder = rig.folder / "logs"
        wait_for(lambda: "log.errors cannot be written" in rig["ingress"].log())
        rig.accept()
        folder.mkdir()
        for daemon in rig.daemons.values():
            daemon.reload()
            wait_for(lambda: "configuration reloaded" in daemon.log())
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 400}]})
        event = rig.accept()
        file = folder / "errors.log"
        wait_for(lambda: f"deliverer-1 event={event} dead" in file.read_text())
        wait_for(lambda: f"sequencer event={event} dead" in file.read_text())
        self.assertNotIn(" info ", file.read_text())
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        # A configuration with errors is no reason to keep the old file.
        rig.write_config("sources: 7\n")
        file.rename(folder / "errors.log.1")
        for daemon in rig.daemons.values():
            os.kill(daemon.pid, signal.SIGHUP)
        wait_for(lambda: file.exists() and all(
            f" {name} the new configuration has errors" in file.read_text()
            for name in rig.daemons))

    def test_level_and_format_change_with_a_reload(self):
        rig = self.rig({"log": {"level": "error"}}).start()
        ingress = rig["ingress"]
        rig.accept()
        self.assertNotIn("accepted", ingress.log())
        rig.config["log"] = {"level": "info", "format": "json"}
        rig.write_config()
        ingress.reload()
        wait_for(lambda: "configuration reloaded" in ingress.log())
        event = rig.accept()
        wait_for(lambda: event in ingress.log())
        line = json.loads(ingress.log().splitlines()[-1])
        self.assertEqual((line["what"], line["event"], line["client"]),
                         ("accepted", event, "127.0.0.1"))


main()
