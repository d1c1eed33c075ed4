"""Traces: each attempt sends the trace of its event (W3C Trace Context) and a span of its own."""

import contextlib
import http.client
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main, sign_plane

TOKEN = "t0ken-of-billing"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CAME = f"00-{TRACE}-00f067aa0ba902b7-00"
FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])")


class TraceContext(RigTest):
    def pipeline(self, *endpoints, **config):
        rig = self.rig({"producers": [{"name": "billing", "tokens": [TOKEN]}], **config})
        rig.config["endpoints"] = [rig.endpoint(name, **more) for name, more in endpoints]
        rig.write_config()
        return rig.start()

    def accept(self, rig, *more, body=None):
        """The event of a request with these headers."""
        body = body or rig.plane_body()
        c = http.client.HTTPConnection("127.0.0.1", rig.ingress_port, timeout=30)
        with contextlib.closing(c):
            c.putrequest("POST", "/in/plane")
            for name, value in [*sign_plane(body).items(), ("Content-Length", len(body)), *more]:
                c.putheader(name, value)
            c.endheaders(body)
            response = c.getresponse()
            text = response.read()
        self.assertEqual(response.status, 200, text)
        return json.loads(text)["id"]

    def sent(self, request):
        """(trace id, span id, flags) that a request brought."""
        values = [v for k, v in request.header_list if k.lower() == "traceparent"]
        self.assertEqual(len(values), 1, request.header_list)
        found = FORM.fullmatch(values[0])
        self.assertTrue(found, values)
        return found.groups()

    def attempts(self, rig, event, path, count=1):
        return [self.sent(r) for r in rig.receiver.wait(event, count, path)]

    def shown(self, rig, event, n, endpoint):
        """The header as `grapnel show --attempt` shows it, and the span of `trace`."""
        found, code = rig.cli("show", event, "--attempt", n, "--endpoint", endpoint)
        self.assertEqual(code, 0, found)
        headers = {k.lower(): v for k, v in found[0]["request"]["headers"]}
        return headers.get("traceparent"), found[0]["span_id"]

    def test_a_trace_is_made_and_each_attempt_has_its_span(self):
        rig = self.pipeline(("crm", {}), ("shop", {}))
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}, {"status": 200}]})
        event, other = self.accept(rig), self.accept(rig)
        crm = self.attempts(rig, event, "/crm", 2) + self.attempts(rig, event, "/shop")
        rig.wait_status(event)
        rig.wait_status(other)
        self.assertEqual(len({t for t, _, _ in crm}), 1, crm)
        self.assertEqual(len({s for _, s, _ in crm}), 3, crm)
        self.assertEqual({f for _, _, f in crm}, {"01"})
        trace = rig.trace(event)
        self.assertEqual((trace["trace_id"], trace["traceparent"]), (crm[0][0], None))
        self.assertNotEqual(rig.trace(other)["trace_id"], trace["trace_id"])
        self.assertIn(f"  trace      {crm[0][0]}\n", rig.cli_text("trace", event).stdout)
        for n, path, sent in ((1, "crm", crm[0]), (2, "crm", crm[1]), (1, "shop", crm[2])):
            self.assertEqual(self.shown(rig, event, n, path),
                             (f"00-{sent[0]}-{sent[1]}-{sent[2]}", sent[1]))
        # Nothing is stored of it.
        self.assertEqual(rig.rows("sequencer", "SELECT traceparent FROM events WHERE id = ?",
                                  event), [{"traceparent": None}])

    def test_a_received_trace_goes_on(self):
        """To each endpoint as much of it as `trace_context` says; forward_headers add nothing."""
        own = "00-11111111111111111111111111111111-2222222222222222-01"
        names = ["traceparent", "TraceState"]
        rig = self.pipeline(("all", {"forward_headers": names}),
                            ("half", {"trace_context": "traceparent"}),
                            ("none", {"trace_context": "none", "forward_headers": names}),
                            ("own", {"headers": {"Traceparent": own}}))
        event = self.accept(rig, ("Traceparent", CAME), ("tracestate", "a=1 , b=2"),
                            ("tracestate", "c=3"))
        spans = set()
        for name, state in (("all", "a=1,b=2,c=3"), ("half", None)):
            trace, span, flags = self.attempts(rig, event, f"/{name}")[0]
            [request] = rig.receiver.wait(event, path=f"/{name}")
            self.assertEqual((trace, flags), (TRACE, "00"))
            self.assertEqual(request.headers.get("tracestate"), state)
            self.assertEqual([k.lower() for k, _ in request.header_list].count("tracestate"),
                             1 if state else 0)
            spans.add(span)
        self.assertEqual(len(spans - {CAME[36:52]}), 2)
        [request] = rig.receiver.wait(event, path="/none")
        self.assertFalse({"traceparent", "tracestate"} & set(request.headers))
        [request] = rig.receiver.wait(event, path="/own")
        self.assertEqual([v for k, v in request.header_list if k.lower() == "traceparent"], [own])
        self.assertNotIn("tracestate", request.headers)
        trace = rig.wait_status(event)
        self.assertEqual((trace["trace_id"], trace["traceparent"]), (TRACE, CAME))
        self.assertIn(f"  trace      {TRACE}, of its request\n",
                      rig.cli_text("trace", event).stdout)
        header, span = self.shown(rig, event, 1, "all")
        self.assertEqual(header, f"00-{TRACE}-{span}-00")
        self.assertEqual(self.shown(rig, event, 1, "none")[0], None)

    def test_an_invalid_one_is_ignored(self):
        """The request is accepted, and gets a trace of its own without the tracestate."""
        rig = self.pipeline(("crm", {}))
        for wrong in ([CAME.upper()], [CAME + "-x"], ["ff" + CAME[2:]], [CAME, CAME],
                      [f"00-{32 * '0'}-00f067aa0ba902b7-01"], ["\x80" + CAME], [""]):
            event = self.accept(rig, *(("traceparent", w.encode("latin-1")) for w in wrong),
                                ("tracestate", "a=1"))
            [(trace, _, flags)] = self.attempts(rig, event, "/crm")
            [request] = rig.receiver.wait(event)
            self.assertEqual((trace == TRACE, flags, request.headers.get("tracestate")),
                             (False, "01", None), wrong)
            self.assertEqual(rig.wait_status(event)["trace_id"], trace)
        # A bad tracestate is left out alone.
        event = self.accept(rig, ("traceparent", CAME), ("tracestate", "a=1,A=2"))
        self.assertEqual(self.attempts(rig, event, "/crm")[0][0], TRACE)
        self.assertNotIn("tracestate", rig.receiver.wait(event)[0].headers)

    def test_events_of_a_producer_and_duplicates(self):
        rig = self.pipeline(("crm", {}))
        auth = {"Authorization": f"Bearer {TOKEN}", "traceparent": CAME, "tracestate": "a=1"}
        one = json.dumps({"type": "t", "workspace": "w", "data": 1}).encode()
        status, _, reply = rig.post(one, path="/v1/events", headers=auth)
        self.assertEqual(status, 200, reply)
        status, _, batch = rig.post(one + b"\n" + one, path="/v1/events/batch", headers=auth)
        self.assertEqual(status, 200, batch)
        events = [reply["id"], *(json.loads(line)["id"] for line in batch.splitlines())]
        sent = [self.attempts(rig, event, "/crm")[0] for event in events]
        self.assertEqual({t for t, _, _ in sent}, {TRACE})
        self.assertEqual(len({s for _, s, _ in sent}), 3)
        self.assertEqual(rig.receiver.wait(events[2])[0].headers["tracestate"], "a=1")
        # The same delivery of a provider with another trace is a duplicate all the same.
        body = rig.plane_body()
        first = self.accept(rig, ("traceparent", CAME), body=body)
        again = self.accept(rig, ("traceparent", CAME.replace("4b", "5b")), body=body)
        rig.wait_status(first)
        self.assertEqual(rig.wait_status(again, "duplicate")["duplicate_of"], first)

    def test_a_repeated_attempt_has_the_same_span(self):
        """The deliverer is killed while an attempt is in flight, and makes it again; then an
        operator sends the event again."""
        rig = self.pipeline(("crm", {"timeout": "60s"}))
        rig.receiver.rules({"path": "/crm", "responses": [
            {"status": 200, "delay_ms": 60000}, {"status": 200}]})
        event = self.accept(rig, ("traceparent", CAME))
        first = self.attempts(rig, event, "/crm")
        rig.kill("deliverer-1", "sequencer")
        rig.start("sequencer", "deliverer-1")
        both = self.attempts(rig, event, "/crm", 2)
        self.assertEqual(both, 2 * first)
        rig.wait_status(event)
        self.assertEqual(rig.cli("resend", event)[1], 0)
        third = self.attempts(rig, event, "/crm", 3)[2]
        self.assertEqual(third[0], TRACE)
        self.assertNotEqual(third[1], first[0][1])


if __name__ == "__main__":
    main()
