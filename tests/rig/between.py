"""A proxy between Grapnel and a receiver, which repeats, loses, delays and changes requests."""

import contextlib
import http.client
import http.server
import threading


class Between:
    """Takes Grapnel's requests and passes them on, as `rule` says: a function of the
    headers (pairs) and the body that returns a status."""

    def __init__(self, to):
        between, self.to = self, to
        self.rule = self.forward
        self.seen = []  # (headers, body)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = [(n, v) for n, v in self.headers.items()
                           if n.lower() not in ("host", "content-length")]
                between.seen.append((headers, body))
                try:
                    status = between.rule(headers, body)
                except OSError:
                    status = 502  # the receiver is down
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/hooks"

    def forward(self, headers, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.to, timeout=60)
        with contextlib.closing(connection):
            connection.putrequest("POST", "/hooks", skip_accept_encoding=True)
            for name, value in [*headers, ("Content-Length", str(len(body)))]:
                connection.putheader(name, value)
            connection.endheaders(body)
            return connection.getresponse().status

    def request(self, event):
        """The first of this event."""
        return next((h, b) for h, b in self.seen if value(h, "webhook-id") == event)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def value(headers, name):
    return next((v for n, v in headers if n.lower() == name), None)
