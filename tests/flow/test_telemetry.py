"""Traces and metrics by OTLP/HTTP: what is sent has the form of the public .proto files in JSON, the OpenTelemetry
Collector understands all of it, and a receiver that is down, slow or wrong changes nothing but what is counted.
`tools/deps test` builds the Collector; without it, its tests are skipped."""

import collections
import contextlib
import http.server
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import Process, RigTest, main, sign_plane, wait_for

COLLECTOR = pathlib.Path(__file__).parents[2] / "build" / "collector" / "collector"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"

# The messages of trace.proto, metrics.proto, common.proto and resource.proto that Grapnel sends. A
# list means `repeated`, a name another message; each other value is the JSON form of a type.
MESSAGES = {
    "ExportTraceServiceRequest": {"resourceSpans": ["ResourceSpans"]},
    "ResourceSpans": {"resource": "Resource", "scopeSpans": ["ScopeSpans"], "schemaUrl": "string"},
    "ScopeSpans": {"scope": "InstrumentationScope", "spans": ["Span"], "schemaUrl": "string"},
    "Span": {"traceId": "id16", "spanId": "id8", "traceState": "string", "parentSpanId": "id8",
             "flags": "fixed32", "name": "string", "kind": "enum5", "startTimeUnixNano": "fixed64",
             "endTimeUnixNano": "fixed64", "attributes": ["KeyValue"], "status": "Status"},
    "Status": {"message": "string", "code": "enum2"},
    "Resource": {"attributes": ["KeyValue"]},
    "InstrumentationScope": {"name": "string", "version": "string"},
    "KeyValue": {"key": "string", "value": "AnyValue"},
    "AnyValue": {"stringValue": "string", "intValue": "int64", "boolValue": "bool",
                 "doubleValue": "double"},
    "ExportMetricsServiceRequest": {"resourceMetrics": ["ResourceMetrics"]},
    "ResourceMetrics": {"resource": "Resource", "scopeMetrics": ["ScopeMetrics"]},
    "ScopeMetrics": {"scope": "InstrumentationScope", "metrics": ["Metric"]},
    "Metric": {"name": "string", "description": "string", "unit": "string", "gauge": "Gauge",
               "sum": "Sum", "histogram": "Histogram"},
    "Gauge": {"dataPoints": ["NumberDataPoint"]},
    "Sum": {"dataPoints": ["NumberDataPoint"], "aggregationTemporality": "enum2",
            "isMonotonic": "bool"},
    "Histogram": {"dataPoints": ["HistogramDataPoint"], "aggregationTemporality": "enum2"},
    "NumberDataPoint": {"attributes": ["KeyValue"], "startTimeUnixNano": "fixed64",
                        "timeUnixNano": "fixed64", "asDouble": "double", "asInt": "int64"},
    "HistogramDataPoint": {"attributes": ["KeyValue"], "startTimeUnixNano": "fixed64",
                           "timeUnixNano": "fixed64", "count": "fixed64", "sum": "double",
                           "bucketCounts": ["fixed64"], "explicitBounds": ["double"]},
}
# Of a `oneof` exactly one is set.
ONE_OF = {"AnyValue": set(MESSAGES["AnyValue"]), "Metric": {"gauge", "sum", "histogram"},
          "NumberDataPoint": {"asDouble", "asInt"}}
REQUIRED = {"Span": {"traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"},
            "Sum": {"aggregationTemporality"}, "Histogram": {"aggregationTemporality"},
            "NumberDataPoint": {"timeUnixNano"}, "HistogramDataPoint": {"timeUnixNano", "count"},
            "KeyValue": {"key", "value"}, "Metric": {"name"}}


def is_number_text(value, low, high):
    return (isinstance(value, str) and str(int(value)) == value and low <= int(value) <= high)


def is_id(value, n):
    return (isinstance(value, str) and len(value) == 2 * n and value != 2 * n * "0"
            and bytes.fromhex(value).hex() == value)


TYPES = {
    "string": lambda v: isinstance(v, str),
    "bool": lambda v: isinstance(v, bool),
    "double": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "fixed32": lambda v: isinstance(v, int) and 0 <= v < 1 << 32,
    "fixed64": lambda v: is_number_text(v, 0, (1 << 64) - 1),
    "int64": lambda v: is_number_text(v, -(1 << 63), (1 << 63) - 1),
    "enum2": lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 2,
    "enum5": lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 5,
    "id16": lambda v: is_id(v, 16),
    "id8": lambda v: is_id(v, 8),
}


def check(kind, value, path="$"):
    """Fails if it is not this message or type, with every field known."""
    if isinstance(kind, list):
        assert isinstance(value, list), f"{path}: not a list"
        for i, item in enumerate(value):
            check(kind[0], item, f"{path}[{i}]")
    elif kind in TYPES:
        assert TYPES[kind](value), f"{path}: {value!r} is not {kind}"
    else:
        assert isinstance(value, dict), f"{path}: not a {kind}"
        for key, item in value.items():
            assert key in MESSAGES[kind], f"{path}: {kind} has no {key}"
            check(MESSAGES[kind][key], item, f"{path}.{key}")
        missing = REQUIRED.get(kind, set()) - set(value)
        assert not missing, f"{path}: {kind} lacks {missing}"
        if kind in ONE_OF:
            assert len(ONE_OF[kind] & set(value)) == 1, f"{path}: {value} is not one of {kind}"
        if kind == "HistogramDataPoint":
            assert len(value["bucketCounts"]) == len(value["explicitBounds"]) + 1, path
            assert sum(map(int, value["bucketCounts"])) == int(value["count"]), path
            assert sorted(value["explicitBounds"]) == value["explicitBounds"], path


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


class Collector:
    """A receiver of OTLP/HTTP that responds as it is told, and decodes strictly what it accepts."""

    def __init__(self, certificate=None):
        self.requests, self.wrong, self.responses = [], [], collections.deque()
        self.held, self.down = threading.Event(), False
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.down:  # on a connection that was kept
                    self.close_connection = True
                    return
                status, headers, reply = collector.take(self.path, dict(self.headers), body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply)))
                with contextlib.suppress(OSError):  # the client has gone
                    self.end_headers()
                    self.wfile.write(reply)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.down = True
        self.held.set()
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, headers, body):
        kind = {"/v1/traces": "ExportTraceServiceRequest",
                "/v1/metrics": "ExportMetricsServiceRequest"}.get(path)
        try:
            assert kind, path
            assert headers.get("Content-Type") == "application/json", headers
            document = json.loads(body)
            check(kind, document)
        except (AssertionError, ValueError, KeyError) as e:
            self.wrong.append(f"{e}: {body[:500]}")
            return 400, {}, b"{}"
        response = self.responses.popleft() if kind.startswith("ExportTrace") and \
            self.responses else (200, {}, b"{}")
        if response == "hold":
            self.held.wait()
            response = (200, {}, b"{}")
        self.requests.append((path, headers, document, response[0]))
        return response

    def spans(self, event=None):
        """Those that were accepted, by (name, endpoint, attempt)."""
        found = [s for _, _, d, status in list(self.requests) if status == 200
                 for r in d.get("resourceSpans", []) for scope in r["scopeSpans"]
                 for s in scope["spans"]]
        return [s for s in found if event in (None, attributes(s)["grapnel.event.id"])]

    def metrics(self):
        """Name to the latest metric."""
        return {m["name"]: m for _, _, d, _ in list(self.requests)
                for r in d.get("resourceMetrics", []) for scope in r["scopeMetrics"]
                for m in scope["metrics"]}


class RealCollector(Process):
    """The OpenTelemetry Collector (rig/collector); it has understood what it printed."""

    def __init__(self, rig):
        self.port = rig.ports.take()
        config = rig.folder / "collector.yaml"
        both = {"receivers": ["otlp"], "exporters": ["lines"]}
        config.write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}},
            "exporters": {"lines": {}}, "service": {"pipelines": {"traces": both, "metrics": both}}}))
        super().__init__(rig, "collector", [str(COLLECTOR), "--config", f"file:{config}"])
        self.output = rig.folder / "collector.out"
        with self.output.open("w") as stdout:
            self.spawn(stdout=stdout)
        wait_for(self.is_ready, timeout=60, what="the Collector")

    def post(self, path, document):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(document).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status

    def is_ready(self):
        try:
            return self.post("/v1/traces", {}) == 200
        except OSError:
            return False

    def documents(self):
        lines = self.output.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


def said(document):
    """What it says, without members that have their default: the Collector leaves them out."""
    if isinstance(document, dict):
        return {k: v for k, v in ((k, said(v)) for k, v in document.items())
                if v not in ({}, [], "") and (k, v) != ("count", "0")}
    return [said(v) for v in document] if isinstance(document, list) else document


def differences(a, b, path="$"):
    """Where two documents differ: the first would be too long to read."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for k in a.keys() | b.keys() for d in differences(a.get(k), b.get(k), f"{path}.{k}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{path}[{i}]")]
    return [] if a == b else [f"{path}: {str(a)[:200]} and {str(b)[:200]}"]


class Export(RigTest):
    def pipeline(self, collector, scheme="http", **telemetry):
        rig = self.rig(console=True)
        self.addCleanup(collector.close)
        rig.config["metrics"]["interval"] = "200ms"
        rig.config["telemetry"] = {
            "url": f"{scheme}://127.0.0.1:{collector.port}/", "interval": "200ms", **telemetry}
        rig.write_config()
        rig.start()
        self.addCleanup(lambda: self.assertEqual(collector.wrong, []))
        # The feed begins after its first request: what came before is not exported.
        wait_for(lambda: self.exported(rig, collector), timeout=30, what="the first spans")
        return rig

    def exported(self, rig, collector):
        event = self.accept(rig, f"00-{TRACE}-{SPAN}-01")
        rig.wait_status(event)
        try:
            wait_for(lambda: collector.spans(event), timeout=2)
        except Exception:  # noqa: the next event may be exported
            return False
        return True

    def accept(self, rig, traceparent=None):
        body = rig.plane_body()
        headers = sign_plane(body) | ({"traceparent": traceparent} if traceparent else {})
        return rig.accept(body, headers=headers)

    def number(self, rig, name):
        return rig.number(f"grapnel_telemetry_{name}") or 0


@unittest.skipUnless(COLLECTOR.exists(), "the OpenTelemetry Collector is not in build/collector: "
                     "`tools/deps test` builds it with Go 1.25 and the Go module proxy")
class OpenTelemetry(Export):
    def spans(self, real, event):
        return [s for d in real.documents() for r in d.get("resourceSpans", []) for scope in r["scopeSpans"]
                for s in scope["spans"] if attributes(s).get("grapnel.event.id") == event]

    def metrics(self, real):
        """Name to the latest metric."""
        return {m["name"]: m for d in real.documents() for r in d.get("resourceMetrics", [])
                for scope in r["scopeMetrics"] for m in scope["metrics"]}

    def point(self, metric, **labels):
        [kind] = {"sum", "gauge", "histogram"} & set(metric)
        for point in metric[kind]["dataPoints"]:
            if labels.items() <= attributes(point).items():
                return point
        return None

    def test_the_collector_has_what_happened(self):
        rig = self.rig(console=True)
        real = RealCollector(rig)
        self.addCleanup(real.kill)
        rig.config["metrics"]["interval"] = "200ms"
        rig.config["telemetry"] = {"url": f"http://127.0.0.1:{real.port}", "interval": "200ms",
                                   "service": "hooks"}
        rig.write_config()
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}, {"status": 200}]})
        rig.start()
        count = [0]

        def exported():  # the feed begins after its first request
            event = self.accept(rig, f"00-{TRACE}-{SPAN}-01")
            count[0] += 1
            rig.wait_status(event)
            try:
                return wait_for(lambda: len(self.spans(real, event)) >= 4, timeout=2) and event
            except Exception:  # noqa: the next event may be exported
                return None
        wait_for(exported, timeout=60, what="the spans of an event at the Collector")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}, {"status": 200}]})
        event = self.accept(rig, f"00-{TRACE}-{SPAN}-01")
        count[0] += 1
        rig.wait_status(event)
        sent = [r.headers["traceparent"] for r in rig.receiver.wait(event, 2)]
        spans = wait_for(lambda: len(found := self.spans(real, event)) == 5 and found, what="five spans")
        attempts = sorted((s for s in spans if s["name"] == "attempt"), key=lambda s: attributes(s)["grapnel.attempt"])
        self.assertEqual([f"00-{s['traceId']}-{s['spanId']}-01" for s in attempts], sent)
        [receive] = [s for s in spans if s["name"] == "receive"]
        self.assertEqual((receive["parentSpanId"], receive["kind"]), (SPAN, 2))
        self.assertEqual([s["status"]["code"] for s in attempts], [2, 1])
        # Counters and histograms grow by what happens; units are those of OpenTelemetry.
        def exported_at(n):
            """The exported values when the console has heard of n events."""
            wait_for(lambda: rig.number("grapnel_ingress_source_accepted_total", source="plane") == n
                     and rig.number("grapnel_end_to_end_seconds_count") == n, what=f"{n} events in the metrics")
            heard = time.time_ns()

            def newer():
                metrics = self.metrics(real)
                number = self.point(metrics["grapnel_ingress_source_accepted_total"], source="plane")
                return int(number["timeUnixNano"]) > heard and (
                    metrics, number, self.point(metrics["grapnel_end_to_end_seconds"]))
            return wait_for(newer, what="newer metrics at the Collector")
        _, number, whole = exported_at(count[0])
        for _ in range(3):
            rig.wait_status(self.accept(rig))
        metrics, more, wider = exported_at(count[0] + 3)
        self.assertEqual(more["asDouble"] - number["asDouble"], 3)
        self.assertEqual(int(wider["count"]) - int(whole["count"]), 3)
        self.assertGreater(wider["sum"], whole["sum"])
        self.assertEqual(sum(map(int, wider["bucketCounts"])), int(wider["count"]))
        self.assertEqual(attributes(more)["process"], "ingress")
        self.assertEqual(more["startTimeUnixNano"], number["startTimeUnixNano"])
        self.assertLess(int(more["startTimeUnixNano"]), int(more["timeUnixNano"]))
        accepted, latency = (metrics[n] for n in ("grapnel_ingress_source_accepted_total", "grapnel_end_to_end_seconds"))
        self.assertEqual((accepted["unit"], accepted["sum"]["aggregationTemporality"],
                          accepted["sum"]["isMonotonic"]), ("{events}", 2, True))
        self.assertEqual((latency["unit"], latency["histogram"]["aggregationTemporality"]), ("s", 2))
        self.assertEqual({m["unit"] for m in metrics.values() if m["name"].endswith("_bytes")}, {"By"})
        for metric in metrics.values():
            self.assertRegex(metric.get("unit", "{none}"), r"^(s|By|%|\{[!-z|~]+\})$", metric["name"])
        [resource] = {json.dumps(r["resource"]) for d in real.documents()
                      for r in d.get("resourceMetrics", []) + d.get("resourceSpans", [])}
        resource = attributes(json.loads(resource))
        self.assertEqual((resource["service.name"], resource["service.instance.id"], bool(resource["service.version"])),
                         ("hooks", socket.gethostname(), True))
        self.assertEqual(self.number(rig, "requests_failed_total"), 0)
        self.assertEqual(self.number(rig, "spans_dropped_total"), 0)
        self.assertNotIn('"level":"error"', real.log())

    def test_the_collector_loses_and_changes_nothing(self):
        """It ignores members that it does not know, so what it prints is compared with what was sent."""
        collector = Collector()
        rig = self.pipeline(collector)
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503, "body": "\u00fc"}, {"status": 400}]})
        event = self.accept(rig)
        wait_for(lambda: any(attributes(s).get("grapnel.outcome") == "dead" for s in collector.spans(event)))
        wait_for(collector.metrics)
        real = RealCollector(rig)
        self.addCleanup(real.kill)
        for path, _, document, _ in list(collector.requests):
            before = len(real.documents())
            self.assertEqual(real.post(path, document), 200)
            [understood] = wait_for(lambda: real.documents()[before:])
            self.assertEqual(differences(said(understood), said(document)), [])


class Telemetry(Export):
    def test_an_event_is_a_trace(self):
        collector = Collector()
        rig = self.pipeline(collector, headers={"X-Api": "k"})
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}, {"status": 200}]})
        event = self.accept(rig, f"00-{TRACE}-{SPAN}-01")
        rig.wait_status(event)
        sent = [r.headers["traceparent"] for r in rig.receiver.wait(event, 2)]
        wait_for(lambda: len(collector.spans(event)) >= 5, what="five spans")
        spans = {}
        for span in collector.spans(event):
            spans.setdefault(span["name"], []).append(span)
        self.assertEqual({n: len(s) for n, s in spans.items()},
                         {"receive": 1, "sequence": 1, "deliver": 1, "attempt": 2})
        [receive], [sequence], [deliver] = spans["receive"], spans["sequence"], spans["deliver"]
        attempts = sorted(spans["attempt"], key=lambda s: attributes(s)["grapnel.attempt"])
        self.assertEqual({s["traceId"] for s in collector.spans(event)}, {TRACE})
        self.assertEqual(receive["parentSpanId"], SPAN)
        self.assertEqual((sequence["parentSpanId"], deliver["parentSpanId"]),
                         (receive["spanId"], receive["spanId"]))
        self.assertEqual({a["parentSpanId"] for a in attempts}, {deliver["spanId"]})
        self.assertEqual([f"00-{TRACE}-{a['spanId']}-01" for a in attempts], sent)
        self.assertEqual(len({s["spanId"] for s in collector.spans(event)}), 5)
        for span in collector.spans(event):
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        first, second = (attributes(a) for a in attempts)
        self.assertEqual((first["http.response.status_code"], first["grapnel.outcome"],
                          attempts[0]["status"]["code"]), ("503", "retrying", 2))
        self.assertEqual((second["http.response.status_code"], second["grapnel.endpoint"],
                          attempts[1]["status"]), ("200", "crm", {"code": 1}))
        self.assertEqual(attributes(deliver)["grapnel.attempts"], "2")
        self.assertEqual(attributes(sequence)["grapnel.source"], "plane")
        _, headers, document, _ = next(r for r in collector.requests if r[0] == "/v1/traces")
        self.assertEqual(headers["X-Api"], "k")
        self.assertIn({"key": "service.name", "value": {"stringValue": "grapnel"}},
                      document["resourceSpans"][0]["resource"]["attributes"])
        # Without a traceparent the trace is made.
        event = self.accept(rig)
        made = rig.wait_status(event)["trace_id"]
        wait_for(lambda: len(collector.spans(event)) == 4)
        self.assertEqual({s["traceId"] for s in collector.spans(event)}, {made})
        self.assertNotIn("parentSpanId", next(s for s in collector.spans(event)
                                              if s["name"] == "receive"))
        # Metrics
        def accepted():
            metric = collector.metrics().get("grapnel_ingress_accepted_total")
            return metric and any(p["asDouble"] >= 1 for p in metric["sum"]["dataPoints"])
        wait_for(accepted, what="the metric of ingress")
        metrics = collector.metrics()
        total = metrics["grapnel_ingress_accepted_total"]["sum"]
        self.assertEqual((total["aggregationTemporality"], total["isMonotonic"]), (2, True))
        self.assertTrue(any("histogram" in m for m in metrics.values()))
        self.assertTrue(any("gauge" in m for m in metrics.values()))
        self.assertGreater(wait_for(lambda: self.number(rig, "points_sent_total")), 0)

    def test_the_parent_and_the_ratio_decide(self):
        collector = Collector()
        rig = self.pipeline(collector, sample=0, metrics=False)
        made, unsampled = self.accept(rig), self.accept(rig, f"00-{TRACE}-{SPAN}-00")
        sampled = self.accept(rig, f"00-{TRACE}-{SPAN}-01")
        for event in (made, unsampled, sampled):
            rig.wait_status(event)
        wait_for(lambda: len(collector.spans(sampled)) == 4)
        self.assertEqual((collector.spans(made), collector.spans(unsampled)), ([], []))
        self.assertEqual(collector.metrics(), {})

    def test_a_receiver_that_fails_changes_nothing(self):
        """It responds 429 and 503, is slow, refuses, rejects a part, and is down: events are
        delivered meanwhile; what may pass is sent again, the rest is counted."""
        collector = Collector()
        rig = self.pipeline(collector, metrics=False, timeout="1s")
        before = self.number(rig, "spans_dropped_total")
        collector.responses.extend([(429, {"Retry-After": "1"}, b""), (503, {}, b"x" * 100)])
        event = self.accept(rig)
        rig.wait_status(event)
        wait_for(lambda: len(collector.spans(event)) == 4, what="the batch to be sent again")
        self.assertEqual([s for *_, s in collector.requests if s != 200], [429, 503])
        collector.responses.append("hold")
        event = self.accept(rig)
        rig.wait_status(event)
        wait_for(lambda: len(collector.spans(event)) == 4, what="the batch after the timeout")
        collector.held.set()
        self.assertEqual(self.number(rig, "spans_dropped_total"), before)
        collector.responses.append((400, {}, b"{}"))
        event = self.accept(rig)
        rig.wait_status(event)
        wait_for(lambda: self.number(rig, "spans_dropped_total") > before, what="dropped spans")
        refused = self.number(rig, "spans_dropped_total")
        collector.responses.append((200, {}, b'{"partialSuccess":{"rejectedSpans":"1"}}'))
        event = self.accept(rig)
        rig.wait_status(event)
        wait_for(lambda: self.number(rig, "spans_dropped_total") > refused, what="a rejected one")
        # Down: deliveries go on, and spans wait.
        collector.close()
        events = [self.accept(rig) for _ in range(20)]
        for event in events:
            rig.wait_status(event)
        wait_for(lambda: self.number(rig, "spans_waiting") >= 20, what="waiting spans")
        self.assertGreater(self.number(rig, "requests_failed_total"), 3)
        rig["console"].stop()
        self.assertEqual(rig["console"].exit_code, 0)

    def test_the_certificate_is_verified(self):
        rig = self.rig(console=True)
        folder, pem = rig.folder, rig.folder / "both.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", folder / "key", "-out", folder / "certificate"], check=True,
                       capture_output=True)
        pem.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
        collector = Collector(pem)
        self.addCleanup(collector.close)
        rig.config["telemetry"] = {"url": f"https://127.0.0.1:{collector.port}",
                                   "interval": "200ms"}
        rig.write_config()
        rig.start()
        wait_for(lambda: self.number(rig, "requests_failed_total") > 0, timeout=30)
        self.assertEqual(collector.requests, [])
        rig.config["telemetry"]["ca"] = f"file:{folder / 'certificate'}"
        rig.write_config()
        rig["console"].reload()
        wait_for(lambda: collector.metrics(), timeout=30, what="metrics over TLS")


if __name__ == "__main__":
    main()
