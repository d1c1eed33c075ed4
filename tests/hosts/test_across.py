"""`grapnel` and the console reach the processes on other hosts: status, traces, metrics, changes; only a console's key
may ask."""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hosts import CONTROL_PORT, HostsTest
from rig import main, wait_for

import msgpack
import zmq
from zmq.utils import z85

QUICK_S = 2  # a host that is known to be away is named in milliseconds; the rest is for a slow machine
TOKEN = "operator-of-the-test-0123456789abcdef"


class Across(HostsTest):
    def start(self, **how):
        """All processes with a console on host a, and deliverer-2, the only one, on host b."""
        rig = self.cluster(deliverers=0, console=True, **how)
        rig.start()
        self.deliverer = self.far.add("deliverer-2").start()
        wait_for(lambda: self.row(rig)["up"], what="the connection")
        return rig

    def row(self, rig, name="deliverer-2"):
        """The console may not have looked for it yet."""
        return wait_for(lambda: next((r for r in rig.cli("status")[0]
                                      if r["process"] == name), None),
                        what=f"a row of {name}")

    def key_of(self, rig, name):
        return (z85.encode(bytes.fromhex(self.keys[name])),
                self.secret(rig, name).encode())

    def ask(self, rig, name, request, timeout_s=30):
        """The reply to a request at deliverer-2's control port with the key of `name`; None: there is none."""
        dealer = zmq.Context.instance().socket(zmq.DEALER)
        self.addCleanup(dealer.close, 0)
        dealer.curve_publickey, dealer.curve_secretkey = self.key_of(rig, name)
        dealer.curve_serverkey = z85.encode(bytes.fromhex(self.keys["deliverer-2"]))
        dealer.rcvtimeo = int(timeout_s * 1000)
        dealer.connect(f"tcp://{self.seat['deliverer-2']}:{CONTROL_PORT}")
        dealer.send_multipart([b"1", b"", json.dumps(request).encode()])
        try:
            number, empty, text = dealer.recv_multipart()
        except zmq.Again:
            return None
        self.assertEqual((number, empty), (b"1", b""))
        return json.loads(text)

    # keys

    def test_the_keys_of_both_ends_change_without_a_stop(self):
        rig = self.start()
        names = ("deliverer-2", "console", "sequencer")
        old = {name: self.keys[name] for name in names}
        new = {name: self.key(rig, name, "new-keys") for name in names}
        processes = {"deliverer-2": self.deliverer, "console": rig["console"], "sequencer": rig["sequencer"]}

        def reload(process):
            before = process.log().count("configuration reloaded")
            process.reload()
            wait_for(lambda: process.log().count("configuration reloaded") > before, what="the reload")

        def list_keys(keys):
            for host in (rig, self.far):
                for peer in host.config["cluster"]["peers"]:
                    peer["key"] = keys[peer["name"]]
                host.write_config()
            for process in processes.values():
                reload(process)
            wait_for(lambda: self.row(rig)["up"], 20, what="the connection")

        list_keys({name: [old[name], new[name]] for name in names})
        for name, process in processes.items():
            for file in (f"{name}.cert", f"{name}.cert_secret"):
                (rig.folder / "new-keys" / file).replace(rig.folder / "keys" / file)
            reload(process)
            self.assertIn("this process has a new key", process.log())
            wait_for(lambda: self.row(rig)["up"], 20, what="the connection")
        # A connection with the other key that is refused again and again does not look like the end of this one.
        told = rig["console"].log().count("the connection to a process on another host ended")
        rig.receiver.wait(rig.accept(), timeout=20)
        self.assertTrue(all(self.row(rig)["up"] for _ in range(10)))
        self.assertEqual(rig["console"].log().count("the connection to a process on another host ended"), told)
        list_keys(new)
        rig.receiver.wait(rig.accept(), timeout=20)

    # what is seen

    def test_status_trace_health_and_metrics_include_the_other_host(self):
        rig = self.start()
        event = rig.accept()
        rig.receiver.wait(event)
        rig.wait_status(event)
        row = self.row(rig)
        self.assertEqual(row["pid"], self.deliverer.pid)
        self.assertEqual(row["kind"], "deliverer")
        trace = rig.cli("trace", event)[0]
        self.assertEqual(trace["unreachable"], [])
        # Only the deliverer has the response.
        attempt = trace["deliveries"][0]["attempts"][0]
        self.assertEqual(attempt["response"]["http_version"], "1.1")
        self.assertEqual(rig.cli("health", "deliverer-2")[1], 0)
        rows, _ = rig.cli("metrics", "--once")
        self.assertIn("deliverer-2", json.dumps(rows))
        wait_for(lambda: 'process="deliverer-2"' in rig.console_page("/metrics")[1],
                 what="the numbers of the other host for Prometheus")
        token = rig.cli("tokens", "create", "grafana", "--role", "viewer")[0]["token"]
        listed = json.loads(rig.console_page("/api/v1/processes", token)[1])["items"]
        hosts = {row["process"]: row["host"] for row in listed}
        self.assertIsNone(hosts["sequencer"])
        self.assertEqual(hosts["deliverer-2"], self.row(rig)["host"])

    def test_a_reload_reaches_the_other_host_and_leaves_an_audit_row_there(self):
        rig = self.start()
        rows, code = rig.cli("reload")
        self.assertEqual(code, 0)
        self.assertIn("deliverer-2", json.dumps(rows))
        wait_for(lambda: "configuration reloaded" in self.deliverer.log(),
                 what="the reload on host b")
        audit = rig.cli("audit")[0]
        self.assertTrue([r for r in audit if r["process"] == "deliverer-2"
                         and r["command"] == "reload"])

    def test_nothing_of_it_that_crosses_is_readable(self):
        rig = self.cluster(deliverers=0, console=True)
        self.network.set(record=True)
        rig.start()
        self.far.add("deliverer-2").start()
        wait_for(lambda: self.row(rig)["up"], what="the connection")
        event = rig.accept()
        rig.receiver.wait(event)
        rig.wait_status(event)
        self.assertIn("deliverer-2", json.dumps(rig.cli("trace", event)[0]))
        wait_for(lambda: 'process="deliverer-2"' in rig.console_page("/metrics")[1],
                 what="metrics")
        seen = b"".join(bytes(r.seen) for r in self.network.relays
                        if r.to[1] == CONTROL_PORT)
        self.assertGreater(len(seen), 5000)
        for word in (event.encode(), b"deliverer-2", b"grapnel_", b'"ask"',
                     b"status", b"/crm"):
            self.assertNotIn(word, seen)

    def test_a_backup_leaves_the_other_host_to_that_host(self):
        rig = self.start()
        done = rig.cli_text("backup", str(rig.folder / "copies"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("deliverer-2 is on another host", done.stderr)
        self.assertIn("sequencer", done.stdout)
        self.assertFalse((rig.folder / "copies" / "deliverer-2.db").exists())

    def test_a_reload_of_the_console_removes_and_adds_a_process(self):
        rig = self.start()
        peers = rig.config["cluster"]["peers"]
        rig.config["cluster"]["peers"] = [p for p in peers if p["name"] != "deliverer-2"]
        rig.write_config()
        rig["console"].reload()
        left = [rig.run_dir / f"deliverer-2.{kind}"
                for kind in ("control", "metrics", "host")]
        wait_for(lambda: not any(path.exists() for path in left),
                 what="its sockets to be removed")
        self.assertNotIn("deliverer-2", json.dumps(rig.cli("status")[0]))
        rig.config["cluster"]["peers"] = peers
        rig.write_config()
        rig["console"].reload()
        wait_for(lambda: all(path.exists() for path in left), what="its sockets")
        wait_for(lambda: self.row(rig)["up"], what="the connection")

    # a host that is away

    def test_a_process_that_ended_is_named_with_its_address_and_without_a_wait(self):
        rig = self.start()
        self.deliverer.kill()
        address = f"{self.ways['deliverer-2']}:{CONTROL_PORT}"
        wait_for(lambda: not self.row(rig)["up"], what="its end to be noticed")
        begun = time.monotonic()
        self.assertIn(f"no connection to tcp://{address}", self.row(rig)["error"])
        self.assertLess(time.monotonic() - begun, QUICK_S)
        done = rig.cli_text("health", "deliverer-2")
        self.assertEqual(done.returncode, 69)
        self.assertIn(address, done.stderr)
        self.assertTrue(self.row(rig, "sequencer")["up"])
        self.deliverer.start()
        wait_for(lambda: self.row(rig)["up"], what="the new connection")

    def test_a_cut_ends_waiting_requests_and_the_next_ones_end_at_once(self):
        rig = self.start()
        self.network.set(is_cut=True)
        begun = time.monotonic()
        row = self.row(rig)  # nobody knows yet
        self.assertFalse(row["up"])
        self.assertLess(time.monotonic() - begun, 4)
        self.assertIn("before the reply", row["error"])
        begun = time.monotonic()
        self.assertIn("no connection to", self.row(rig)["error"])
        self.assertLess(time.monotonic() - begun, QUICK_S)
        self.network.set(is_cut=False)
        wait_for(lambda: self.row(rig)["up"], what="the new connection")

    def test_without_the_console_the_other_host_is_named(self):
        rig = self.start()
        for end in (rig["console"].kill, rig["console"].stop):
            end()
            row = self.row(rig)
            self.assertFalse(row["up"])
            self.assertIn(f"on another host, {self.ways['deliverer-2']}", row["error"])
            self.assertIn("the console, which connects to it, is not running",
                          row["error"])
            rig["console"].start()
            wait_for(lambda: self.row(rig)["up"], what="the connection")

    # keys

    def test_only_the_key_of_a_console_may_ask(self):
        rig = self.start()
        ping = {"v": 1, "ask": "ping"}
        self.assertEqual(self.ask(rig, "console", ping)["reply"]["process"],
                         "deliverer-2")
        self.assertIsNone(self.ask(rig, "sequencer", ping, timeout_s=2))
        wait_for(lambda: "a control request was refused" in self.deliverer.log(),
                 what="the refusal in the log")
        self.assertEqual(self.ask(rig, "console", ping)["reply"]["process"],
                         "deliverer-2")

    def test_a_console_that_a_reload_removes_gets_nothing_more(self):
        rig = self.start()
        wait_for(lambda: 'process="deliverer-2"' in rig.console_page("/metrics")[1],
                 what="metrics")
        self.far.config["cluster"]["peers"].pop()
        self.far.write_config()
        self.deliverer.reload()
        wait_for(lambda: "a control request was refused" in self.deliverer.log(),
                 what="the refusal in the log")
        self.assertFalse(self.row(rig)["up"])
        # Beside heartbeats of the connection nothing comes any more: a frame of metrics has more than 1000 bytes.
        before = self.control_relay().carried
        time.sleep(2)  # as long as 20 frames take
        self.assertLess(self.control_relay().carried - before, 20000)

    def control_relay(self):
        return next(r for r in self.network.relays
                    if r.to == (self.seat["deliverer-2"], CONTROL_PORT))

    def test_the_key_of_a_console_sends_nothing_else(self):
        rig = self.start()
        push = zmq.Context.instance().socket(zmq.PUSH)
        self.addCleanup(push.close, 0)
        push.curve_publickey, push.curve_secretkey = self.key_of(rig, "console")
        push.curve_serverkey = z85.encode(bytes.fromhex(self.keys["deliverer-2"]))
        push.connect(f"tcp://{self.seat['deliverer-2']}:7470")
        hello = 1
        push.send(msgpack.packb([hello, 1, "console", "peer://console.inbox"]))
        wait_for(lambda: "a frame was refused" in self.deliverer.log(),
                 what="the refusal in the log")

    def test_a_process_elsewhere_publishes_no_metrics_of_others(self):
        """What a stolen deliverer's key could try."""
        rig = self.cluster(deliverers=0, console=True)
        router = zmq.Context.instance().socket(zmq.ROUTER)
        self.addCleanup(router.close, 0)
        router.curve_server = True
        router.curve_publickey, router.curve_secretkey = self.key_of(rig, "deliverer-2")
        router.rcvtimeo = 30000
        router.bind(f"tcp://{self.seat['deliverer-2']}:{CONTROL_PORT}")
        rig.start()
        console, word = router.recv_multipart()
        self.assertEqual(word, b"metrics")

        def publish():  # again and again, as metrics are: a subscriber may join late
            for name in ("sequencer", "deliverer-2"):
                router.send_multipart([console, b"metrics", msgpack.packb({
                    "v": 1, "process": name, "kind": "deliverer", "epoch": 7,
                    "started_ms": 1, "time_ms": int(time.time() * 1000),
                    "metrics": {f"grapnel_forged_by_{name[:9]}": 1}, "series": [],
                    "about": {f"grapnel_forged_by_{name[:9]}": ["gauge", "", ""]}})])
            return "grapnel_forged_by_deliverer" in rig.console_page("/metrics")[1]

        wait_for(publish, what="its own numbers")
        self.assertNotIn("grapnel_forged_by_sequencer",
                         rig.console_page("/metrics")[1])
        self.assertIn("metrics were dropped", rig["console"].log())


main()
