"""Clients that post signed webhooks and events of a producer at a steady rate, send again what got no 2xx, and remember
exactly what they were told."""

import collections
import contextlib
import hashlib
import hmac
import http.client
import itertools
import json
import random
import threading
import time

from cluster import TOKEN
from rig import PLANE_SECRET, sign_plane

TIMEOUT_S = 4
TRIES = 4
PAUSE_S = 0.5
WORKSPACES = [f"ws-{n}" for n in range(6)]
KEYS = [None, "a", "b"]  # ordering keys of the producer's events


class Clients:
    """Threads that post to `ingresses`, [(address, port)], `rate` events in a second. Each response is a dict in `told`:
    n, workspace, key, signature (the HMAC of a webhook's body) or data (of a producer's event), to (the ingress),
    sent_ms, responded_ms, status and id; or error."""

    def __init__(self, ingresses, seed, rate, threads=8):
        self.ingresses, self.rate, self.threads = ingresses, rate, threads
        self.seed = seed
        self.run_id = f"{seed:x}-{time.time_ns():x}"
        self.counter = itertools.count(1)
        self.told = []
        self.ended = threading.Event()
        self.began = None
        self.running = []

    def start(self):
        self.began = time.monotonic()
        self.running = [threading.Thread(target=self.run, args=(n,), daemon=True) for n in range(self.threads)]
        for thread in self.running:
            thread.start()
        return self

    def run(self, thread):
        dice = random.Random(self.seed * 1000 + thread)
        connections = {}
        due = self.began + dice.uniform(0, self.threads / self.rate)
        while not self.ended.wait(max(0, due - time.monotonic())):
            due = max(due, time.monotonic() - 1) + self.threads / self.rate
            self.post_until_told(dice, connections, *self.event(dice))
        for connection in connections.values():
            connection.close()

    def event(self, dice):
        """(what is remembered of it, path, body, headers)"""
        n, workspace, key = next(self.counter), dice.choice(WORKSPACES), None
        if dice.random() < 0.6:
            path = "/in/plane"
            body = json.dumps({"event": "issue", "action": "update", "webhook_id": self.run_id,
                               "workspace_id": workspace, "data": {"id": f"{self.run_id}-{n}", "n": n, "key": None},
                               "pad": "x" * dice.randrange(2000)}).encode()
            headers = sign_plane(body)
            sent = {"signature": hmac.new(PLANE_SECRET.encode(), body, hashlib.sha256).hexdigest()}
        else:
            key = dice.choice(KEYS)
            data = {"n": n, "key": key, "pad": "x" * dice.randrange(2000)}
            path = "/v1/events"
            body = json.dumps({"id": f"{self.run_id}-{n}", "type": "t", "workspace": workspace, "data": data,
                               **({"ordering_key": key} if key else {})}).encode()
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            sent = {"data": data}
        return {"n": n, "workspace": workspace, "key": key, **sent}, path, body, headers

    def choose(self, dice):
        """The ingress of the next request."""
        return dice.choice(self.ingresses)

    def note(self, to, told):
        """What it responded."""

    def post_until_told(self, dice, connections, about, path, body, headers):
        for _ in range(TRIES):
            to = self.choose(dice)
            told = {**about, "to": to[0], **self.post(connections, to, path, body, headers)}
            self.told.append(told)
            self.note(to, told)
            if told.get("status") == 200 or self.ended.wait(PAUSE_S):
                return

    def post(self, connections, to, path, body, headers):
        sent_ms = time.time() * 1000
        connection = connections.setdefault(to, http.client.HTTPConnection(*to, timeout=TIMEOUT_S))
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            text = response.read()
            said = {"status": response.status}
            with contextlib.suppress(ValueError, TypeError):
                said |= {k: v for k, v in json.loads(text).items() if k in ("id", "error")}
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            said = {"error": type(error).__name__}
        return {"sent_ms": sent_ms, "responded_ms": time.time() * 1000, **said}

    def stop(self):
        self.ended.set()
        for thread in self.running:
            thread.join()
        return self

    def counts(self):
        return collections.Counter(str(t.get("status") or t["error"]) for t in self.told)


class BalancedClients(Clients):
    """Clients of one ingress that has instances on several hosts, behind a load balancer: requests go to one of them for as
    long as it responds 2xx, then to the next one."""

    def __init__(self, *args, **how):
        super().__init__(*args, **how)
        self.at = 0

    def choose(self, dice):
        return self.ingresses[self.at]

    def note(self, to, told):
        if told.get("status") != 200 and to == self.ingresses[self.at]:
            self.at = (self.at + 1) % len(self.ingresses)
