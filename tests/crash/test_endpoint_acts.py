"""P2, P3: whatever people do with endpoints at run time and whatever is killed meanwhile, the
endpoints that deliver are those that the API reports, with the settings that it reports.

The test prints its seed. GRAPNEL_SEED repeats one; GRAPNEL_ACT_ROUNDS (4) makes it longer."""

import base64
import contextlib
import http.client
import os
import pathlib
import random
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "flow"))
from rig import main, wait_for  # noqa: E402
from test_api import Api  # noqa: E402

SEED = int(os.environ.get("GRAPNEL_SEED", random.randrange(1 << 32)))
ROUNDS = int(os.environ.get("GRAPNEL_ACT_ROUNDS", 4))
ACTS_PER_ROUND = 12
WORKSPACES = ["acme", "globex"]
VICTIMS = ["sequencer", "deliverer-1", "console"]


class EndpointActs(Api):
    def test_the_endpoints_that_deliver_are_those_that_the_api_reports(self):
        print(f"\nGRAPNEL_SEED={SEED} GRAPNEL_ACT_ROUNDS={ROUNDS}", file=sys.stderr, flush=True)
        self.dice = random.Random(SEED)
        self.made = 0     # how many URLs there were
        self.kills = 0
        self.owner = {}   # path at the receiver: the endpoint's id, for ever
        self.due = []     # (event, ids of the endpoints that are to get it)
        self.rig_ = rig = self.api_rig(
            {"secrets_key": base64.b64encode(bytes(32)).decode(), "endpoints": []}).start()
        for _ in range(ROUNDS):
            for _ in range(ACTS_PER_ROUND):
                self.act()
            self.check()
        self.assertGreater(self.kills, 0)
        for e in self.reported():
            if e["state"] == "paused":
                self.done("POST", f"/endpoints/{e['name']}/resume", {})
        wait_for(lambda: {e["state"] for e in self.reported()} <= {"active"})
        rig.settle()
        alive = {e["name"] for e in self.reported()}
        got = {}
        for request in rig.receiver.requests():
            got.setdefault(request.id, set()).add(self.owner[request.path])
        for event, due in self.due:
            self.assertEqual(got.get(event, set()) & alive, due & alive, event)
            self.assertLessEqual(got.get(event, set()), due, event)

    # acts

    def path(self):
        self.made += 1
        return f"/hook/{self.made}"

    def settings(self, path):
        return {"url": self.rig_.receiver.url(path), "allow_private": True}

    def act(self):
        """One act, with a kill in the middle or not, repeated until it has a response."""
        present = self.reported()
        what = self.dice.choice(["create", "change", "pause", "resume", "rotate", "delete"])
        if not present or (what == "create" and len(present) < 6):
            path = self.path()
            made = self.done("POST", "/endpoints", {
                **self.settings(path), "workspaces": [self.dice.choice(WORKSPACES)]})
            self.owner[path] = made["name"]
            return
        name = self.dice.choice(present)["name"]
        if what == "change":
            path = self.path()
            self.owner[path] = name
            self.done("PATCH", f"/endpoints/{name}", self.settings(path), If_Match="*")
        elif what == "delete":
            self.done("DELETE", f"/endpoints/{name}", If_Match="*")
        elif what == "rotate":
            self.done("POST", f"/endpoints/{name}/rotate-secret", {"overlap": "1h"})
        else:
            self.done("POST", f"/endpoints/{name}/{'pause' if what == 'pause' else 'resume'}", {})

    def done(self, method, path, body=None, **headers):
        """The response to an act that takes effect once."""
        if method == "POST":
            headers["Idempotency_Key"] = f"key-{self.dice.getrandbits(64)}"
        request = (self.rig_, method, path) + (() if body is None else (body,))
        sender = threading.Thread(target=self.attempt, args=(request, headers))
        sender.start()
        if self.dice.random() < 0.4:
            victim = self.dice.choice(VICTIMS)
            time.sleep(self.dice.random() * 0.01)
            self.rig_.kill(victim)
            self.kills += 1
            sender.join()
            self.rig_.start(victim)
        sender.join()
        return wait_for(lambda: self.attempt(request, headers), what=f"{method} {path}")

    def attempt(self, request, headers):
        """The document of a response; None: there is none yet."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, _, document = self.call(*request, **headers)
            # An endpoint that was deleted by the first request is not found by its repeat.
            if status == 200 or (request[1] == "DELETE" and status == 404):
                return document
            self.assertIn(status, (409, 502, 503, 504), document)
        return None

    # what is true

    def reported(self):
        """The endpoints that the API reports, without those that were deleted."""
        def ask():
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _, document = self.call(self.rig_, "GET", "/endpoints?limit=1000")
                return [e for e in document["items"] if e["state"] != "removed"] \
                    if status == 200 else None
            return None
        return wait_for(lambda: (a := ask()) is not None and (a,), what="the API")[0]

    def check(self):
        """An event of each workspace arrives at the active endpoints of the report, at their
        present URLs, and at no other."""
        rig = self.rig_
        present = [self.get(rig, f"/endpoints/{e['name']}") for e in self.reported()]
        for workspace in WORKSPACES:
            event = rig.accept(rig.plane_body(workspace=workspace))
            mine = [e for e in present if e["settings"]["workspaces"] == [workspace]]
            self.due.append((event, {e["name"] for e in mine}))
            paths = {urllib.parse.urlsplit(e["settings"]["url"]).path
                     for e in mine if e["state"] == "active"}
            wait_for(lambda: {r.path for r in rig.receiver.requests(event=event)} >= paths,
                     what=f"{event} of {workspace} at {sorted(paths)}")
            self.assertEqual({r.path for r in rig.receiver.requests(event=event)}, paths)


if __name__ == "__main__":
    main()
