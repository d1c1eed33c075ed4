"""Providers that list their events, as Stripe, GitHub, Omise and a made-up one do, for tests of `reconcile`.

    provider = FakeProvider()
    provider.events.append(provider.stripe_event("evt_1"))
    provider.respond = lambda path, query: (429, {"Retry-After": "2"}, b"")   # None: as usual

Each request is in `requests` as (path, query, headers). Local HTTP, no TLS."""

import http.server
import json
import threading
import time
import urllib.parse


class FakeProvider:
    def __init__(self, token="sk_test"):
        self.token, self.events, self.requests = token, [], []
        self.respond = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.handle(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def handle(self, request):
        parts = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.requests.append((parts.path, query, dict(request.headers)))
        answer = self.respond(parts.path, query) if self.respond else None
        if answer is None:
            answer = self.usual(parts.path, query, request.headers)
        status, headers, body = answer
        try:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            pass

    def usual(self, path, query, headers):
        if path.startswith("/v1/events"):
            if headers.get("Authorization") != f"Bearer {self.token}":
                return 401, {}, b'{"error": {}}'
            return self.stripe(query)
        if path.startswith("/repos/"):
            if headers.get("Authorization") != f"Bearer {self.token}":
                return 401, {}, b"{}"
            return self.github(path, query)
        if path == "/events":
            return self.omise(query)
        return 404, {}, b"{}"

    # Stripe

    @staticmethod
    def stripe_event(id, created=None, **more):
        return {"id": id, "object": "event", "type": "charge.succeeded", "livemode": False,
                "created": int(time.time()) if created is None else created,
                "data": {"object": {"id": f"ch_{id}", "amount": 1250, "rate": 1.10}}, **more}

    def stripe(self, query):
        """Newest first."""
        limit = int(query.get("limit", 10))
        found = [e for e in reversed(self.events)
                 if int(query.get("created[gte]", 0)) <= e["created"] <= int(query.get("created[lte]", 1 << 40))]
        after = query.get("starting_after")
        if after:
            ids = [e["id"] for e in found]
            if after not in ids:
                return 400, {}, b'{"error": {"code": "resource_missing"}}'
            found = found[ids.index(after) + 1:]
        return 200, {}, json.dumps({"object": "list", "url": "/v1/events", "data": found[:limit],
                                    "has_more": len(found) > limit}).encode()

    # GitHub: an event is {"guid", "id", "delivered_at", "event", "headers", "payload"}

    def github(self, path, query):
        listed = sorted(self.events, key=lambda e: -e["id"])
        number = path.rsplit("/", 1)[1]
        if number != "deliveries":
            for e in listed:
                if str(e["id"]) == number:
                    return 200, {}, json.dumps({
                        "id": e["id"], "guid": e["guid"], "status": "OK",
                        "request": {"headers": e["headers"], "payload": e["payload"]},
                        "response": {"headers": {}, "payload": None}}).encode()
            return 404, {}, b"{}"
        limit = int(query.get("per_page", 30))
        if "cursor" in query:
            listed = [e for e in listed if e["id"] < int(query["cursor"])]
        page = listed[:limit]
        headers = {}
        if len(listed) > limit:
            headers["Link"] = (f'<{self.url}{path}?per_page={limit}&cursor={page[-1]["id"]}>; rel="next", '
                               f'<{self.url}{path}?per_page={limit}>; rel="first"')
        return 200, headers, json.dumps([
            {k: e[k] for k in ("id", "guid", "delivered_at", "event")} | {"status_code": 500, "redelivery": False}
            for e in page]).encode()

    # Omise: oldest first, by offset

    def omise(self, query):
        found = [e for e in self.events if query["from"] <= e["created_at"] <= query["to"]]
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 20))
        return 200, {}, json.dumps({"object": "list", "offset": offset, "limit": limit, "total": len(found),
                                    "data": found[offset:offset + limit]}).encode()
