#!/usr/bin/env python3
"""A receiver of Grapnel's deliveries: verifies, stores once, and finds missing events.

    WEBHOOK_SECRETS='whsec_…' receiver.py serve --port 3000 --state receiver.db
    receiver.py missing --state receiver.db --older 3600

Standard library only. docs/RECEIVING.md explains each step.
"""

import argparse
import base64
import contextlib
import hashlib
import hmac
import http.server
import os
import re
import sqlite3
import sys
import threading
import time

TOLERANCE_S = 300          # how far webhook-timestamp may be off
BODY_MAX_BYTES = 1 << 20   # at least ingress.max_body of Grapnel
KEEP_S = 40 * 86400        # longer than Grapnel may send an event again
SCHEMA = """
CREATE TABLE IF NOT EXISTS events (      -- processed events: each id once
  id TEXT PRIMARY KEY, type TEXT, workspace TEXT, body BLOB, received_s INTEGER);
CREATE TABLE IF NOT EXISTS numbers (     -- each number that arrived
  series TEXT, workspace TEXT, sequence INTEGER, previous INTEGER, id TEXT,
  received_s INTEGER, PRIMARY KEY (series, workspace, sequence));
CREATE TABLE IF NOT EXISTS starts (      -- numbers up to `floor` are not checked
  series TEXT, workspace TEXT, floor INTEGER, PRIMARY KEY (series, workspace));
"""
# A number that an event names as its previous one, and that has not arrived. `unsure`: an
# earlier series has this number, so a restored Grapnel may mean that event.
MISSING = """
SELECT n.series, n.workspace, n.previous, min(n.received_s) AS since_s,
       EXISTS (SELECT 1 FROM numbers o WHERE o.workspace = n.workspace
               AND o.sequence = n.previous AND o.series <> n.series) AS unsure
FROM numbers n JOIN starts s USING (series, workspace)
WHERE n.previous > s.floor AND NOT EXISTS (
  SELECT 1 FROM numbers p WHERE p.series = n.series
  AND p.workspace = n.workspace AND p.sequence = n.previous)
GROUP BY n.series, n.workspace, n.previous ORDER BY since_s
"""


class Refused(Exception):
    """The request is not from our Grapnel, or not as it was sent."""


# ---- is the request genuine and complete? ----

def one(headers, name):
    values = [v.strip(" \t") for n, v in headers if n.lower() == name]
    if len(values) != 1:
        raise Refused(f"{len(values)} headers {name}")
    return values[0]


def signed_text(headers, body):
    """The text that grapnel-signature signs: each header that begins with grapnel-,
    known or not. Header values are Latin-1 text, as http.server reads them."""
    lines = ["grapnel-signature v1",
             "webhook-id " + one(headers, "webhook-id"),
             "webhook-timestamp " + one(headers, "webhook-timestamp"),
             "body-sha256 " + hashlib.sha256(body).hexdigest()]
    lines += [name + " " + value for name, value in sorted(
        (n.lower(), v.strip(" \t")) for n, v in headers
        if n.lower().startswith("grapnel-") and n.lower() != "grapnel-signature")]
    return ("\n".join(lines) + "\n").encode("latin-1")


def is_signed(value, text, secrets):
    """One of the secrets made one of the signatures. compare_digest takes the same time
    wherever the first difference is."""
    good = False
    for secret in secrets:
        if not secret.startswith("whsec_"):  # whpk_ is a public key: never HMAC with that
            continue
        key = base64.b64decode(secret.removeprefix("whsec_"))
        want = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest())
        for signature in value.split(" "):
            good |= hmac.compare_digest(signature.encode("latin-1"), b"v1," + want)
    return good


def verify(headers, body, secrets, now_s):
    """Raises Refused, or returns the headers that are signed. `headers`: pairs as received."""
    time_text = one(headers, "webhook-timestamp")
    if not re.fullmatch("[0-9]{1,12}", time_text):
        raise Refused("webhook-timestamp is not a number")
    if abs(now_s - int(time_text)) > TOLERANCE_S:
        raise Refused("webhook-timestamp is too far off")
    content = f"{one(headers, 'webhook-id')}.{time_text}.".encode("latin-1") + body
    if not is_signed(one(headers, "webhook-signature"), content, secrets):
        raise Refused("webhook-signature is wrong")
    if not is_signed(one(headers, "grapnel-signature"), signed_text(headers, body),
                     secrets):
        raise Refused("grapnel-signature is wrong")
    return {n.lower(): v.strip(" \t") for n, v in headers
            if n.lower().startswith("grapnel-") or n.lower() == "webhook-id"}


# ---- process once, detect losses ----

class Store:
    def __init__(self, path):
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(SCHEMA)

    @contextlib.contextmanager
    def transaction(self):
        with self.lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
                self.db.execute("COMMIT")
            except BaseException:
                self.db.execute("ROLLBACK")
                raise

    def take(self, h, body, now_s):
        """Returns the words to log. Number, id and effect are one transaction: after a
        crash all of it is there, or Grapnel sends the event again."""
        with self.transaction() as db:
            notes = self.number(db, h, now_s) if "grapnel-sequence" in h else []
            new = db.execute(
                "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)",
                (h["webhook-id"], h["grapnel-type"], h["grapnel-workspace"], body,
                 now_s)).rowcount
            if new:
                self.process(db, h, body)
        return ["processed" if new else "duplicate", h["webhook-id"], *notes]

    def process(self, db, h, body):
        """Your work, in the same transaction. If it takes long or happens elsewhere, only
        store it here (the row in `events`) and do it later."""

    def number(self, db, h, now_s):
        """Also for a duplicate: a restored Grapnel numbers the same event anew."""
        space = (h["grapnel-series"], h["grapnel-workspace"])
        sequence, previous = int(h["grapnel-sequence"]), int(h["grapnel-previous"])
        notes = [h["grapnel-workspace"], str(sequence)]

        def has(number):
            row = db.execute("SELECT id FROM numbers WHERE series = ? AND workspace = ? "
                             "AND sequence = ?", (*space, number)).fetchone()
            return row and row[0]

        if (has(sequence) or h["webhook-id"]) != h["webhook-id"]:
            notes.append("number-of-another-event")
        floor = db.execute("SELECT floor FROM starts WHERE series = ? AND workspace = ?",
                           space).fetchone()
        if not floor and "grapnel-replay" not in h:
            db.execute("INSERT INTO starts VALUES (?, ?, ?)", (*space, previous))
            notes.append(f"starts-after={previous}")
        elif floor and previous > floor[0] and not has(previous):
            notes.append(f"waits-for={previous}")
        if not has(sequence) and db.execute(
                "SELECT 1 FROM numbers WHERE series = ? AND workspace = ? AND "
                "previous = ?", (*space, sequence)).fetchone():
            notes.append("was-waited-for")
        db.execute("INSERT OR IGNORE INTO numbers VALUES (?, ?, ?, ?, ?, ?)",
                   (*space, sequence, previous, h["webhook-id"], now_s))
        for name in ("gap", "late", "replay"):
            if "grapnel-" + name in h:
                notes.append(f"{name}={h['grapnel-' + name]}")
        return notes

    def missing(self, before_s):
        with self.transaction() as db:
            return [row for row in db.execute(MISSING) if row[3] <= before_s]

    def forget(self, before_s):
        """Deletes older rows. Numbers up to the highest deleted one count as arrived."""
        with self.transaction() as db:
            db.execute("""
                UPDATE starts SET floor = max(floor, ifnull((
                  SELECT max(sequence) FROM numbers n WHERE n.series = starts.series
                  AND n.workspace = starts.workspace AND n.received_s < ?), 0))""",
                       (before_s,))
            db.execute("DELETE FROM numbers WHERE received_s < ?", (before_s,))
            db.execute("DELETE FROM events WHERE received_s < ?", (before_s,))


# ---- HTTP ----

def log(*words):
    print(*(re.sub("[^!-~]", "?", word) for word in words), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Grapnel keeps the connection for the next event
    timeout = 75                   # of a connection that sends nothing: Grapnel's is 60
    store = secrets = None

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > BODY_MAX_BYTES:
            return self.respond(413, close=True)
        body = self.rfile.read(int(length))
        try:
            if len(body) != int(length):
                raise Refused("the body was cut")
            h = verify(self.headers.items(), body, self.secrets, time.time())
            log(*self.store.take(h, body, int(time.time())))
        except Refused as why:
            log("refused", *str(why).split(" "))
            return self.respond(401)
        except Exception as why:  # our failure: Grapnel sends it again
            log("failed", *repr(why).split(" "))
            return self.respond(503)
        self.respond(204)

    do_PUT = do_POST

    def respond(self, status, close=False):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        if close:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def secrets_of(text):
    """With a text, sys.exit() prints it to standard error and ends with 1."""
    secrets = text.split()
    if not secrets:
        sys.exit("WEBHOOK_SECRETS is not set: it is the endpoint's secret, whsec_…")
    for i, secret in enumerate(secrets, 1):
        try:
            good = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except ValueError:
            good = False
        if not good or not secret.startswith("whsec_"):
            sys.exit(f"WEBHOOK_SECRETS: word {i} is not whsec_ and base64")
    return secrets


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["serve", "missing"])
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--state", default="receiver.db")
    parser.add_argument("--older", type=int, default=3600, help="seconds")
    given = parser.parse_args()
    serves = given.what == "serve"
    secrets = serves and secrets_of(os.environ.get("WEBHOOK_SECRETS", ""))
    try:
        store = Store(given.state)
        if serves:
            store.forget(int(time.time()) - KEEP_S)
    except sqlite3.Error as why:
        sys.exit(f"--state {given.state}: {why}")
    if not serves:
        rows = store.missing(int(time.time()) - given.older)
        for series, workspace, number, since_s, unsure in rows:
            log("unsure" if unsure else "missing", workspace, str(number),
                f"series={series}", f"since={since_s}")
        return 1 if any(not row[4] for row in rows) else 0
    Handler.store, Handler.secrets = store, secrets
    try:
        server = Server(("127.0.0.1", given.port), Handler)
    except (OSError, OverflowError) as why:
        sys.exit(f"--port {given.port}: {why}")
    log("listens", str(server.server_address[1]))
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
