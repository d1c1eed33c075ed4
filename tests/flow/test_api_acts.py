"""Every act of the management API, made from its OpenAPI document: killed between request and response
and repeated with its key; and every route with a token of each role. A new route without an
example in tests/rig/api_examples.py fails."""

import hashlib
import http.client
import json
import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from api_examples import ACTS, BASE, READS, Pipeline, fill, is_change
from rig import RigTest, main, wait_for

ROLES = ["viewer", "operator", "admin"]
ROUNDS = int(os.environ.get("GRAPNEL_ACT_ROUNDS", 2))
SEED = int(os.environ.get("GRAPNEL_SEED", 1))
MISSING = "add an example of it to tests/rig/api_examples.py"


class Request:
    """One act with its key, sent twice; a process is killed during the first."""

    def __init__(self, pipeline, operation, key):
        self.pipeline, self.operation, self.key = pipeline, operation, key
        self.act = ACTS[operation]
        parameters, self.body = self.act.make(pipeline)
        self.all = {**parameters, **(self.body or {})}
        self.method, self.path = fill(operation, parameters)
        text = f"{self.method} {BASE}{self.path} {key}"
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        self.status = self.first = None  # the first response, if it got one

    def send(self):
        return self.pipeline.call(self.method, self.path, self.body, key=self.key)

    def send_first(self):
        try:
            self.status, _, self.first = self.send()
        except (OSError, http.client.HTTPException):
            pass  # the console was killed

    def stored(self):
        """The stored reply; None: there is none."""
        rows = self.pipeline.rig.rows(self.act.process,
                                      "SELECT reply FROM idempotency WHERE key = ?", self.digest)
        return json.loads(rows[0]["reply"]) if rows else None

    def done(self):
        """How often the command of this act has ended. The end of a job is no act."""
        return self.pipeline.rig.rows(
            self.act.process, "SELECT count(*) AS n FROM audit WHERE command = ? AND outcome <> "
            "'started' AND instr(outcome, 'job_') = 0", self.act.command)[0]["n"]


class Kills(RigTest):
    def test_a_killed_act_is_done_once_or_not_at_all_and_its_key_tells(self):
        pipeline = Pipeline(self)
        changes = {o for o, _ in pipeline.operations() if is_change(o)}
        self.assertEqual(changes - set(ACTS), set(), MISSING)
        self.assertEqual(set(ACTS) - changes, set(), "these routes are gone")
        seed = random.Random(SEED)
        self.told = {True: 0, False: 0}
        self.sent = []
        for n in range(ROUNDS):
            for process in sorted({a.process for a in ACTS.values()}):
                self.round(pipeline, process, [o for o in sorted(ACTS)
                                               if ACTS[o].process == process], n, seed)
            # The console alone: the acts are done, and their responses are lost.
            self.round(pipeline, "console", sorted(ACTS), f"c{n}", seed)
        print(f"\nGRAPNEL_SEED={SEED}: {self.told[True]} acts were done before the kill, "
              f"{self.told[False]} were not", file=sys.stderr)
        self.assertGreater(self.told[True], 0)
        self.assertGreater(self.told[False], 0)
        counted = [r for r in self.sent if r.act.effects]
        for request in counted:
            wait_for(lambda r=request: r.act.effects(pipeline, r.all) >= 1,
                     what=f"the effect of {request.operation}")
        pipeline.event()  # what was sent twice has arrived by now
        for request in counted:
            self.assertEqual(request.act.effects(pipeline, request.all), 1, request.operation)
        self.assertEqual(pipeline.rig.cli("audit", "verify")[1], 0)

    def round(self, pipeline, victim, operations, name, seed):
        requests = [Request(pipeline, operation, f"{victim}-{name}-{i}")
                    for i, operation in enumerate(operations)]
        self.sent += requests
        for request in requests:
            request.before = request.done()
        threads = [threading.Thread(target=r.send_first) for r in requests]
        seed.shuffle(threads)
        for thread in threads:
            thread.start()
            time.sleep(seed.random() * 0.002)
        time.sleep(seed.choice((0, 0, 0.001, 0.003, 0.01, 0.05)))
        pipeline.rig.kill(victim)
        for thread in threads:
            thread.join()
        for request in requests:
            request.was_stored = None
            if request.act.process == victim and request.act.kept:
                request.was_stored = request.stored()
                # The reply, the audit row and the effect are one transaction.
                self.assertEqual(request.done() - request.before,
                                 request.was_stored is not None, request.operation)
                self.told[request.was_stored is not None] += 1
        pipeline.rig.start(victim)
        wait_for(pipeline.rig.console_is_open, what="the console")
        wait_for(lambda: pipeline.call("GET", "/endpoints")[0] == 200, what="the sequencer")
        for request in requests:
            self.repeat(victim, request)

    def repeat(self, victim, request):
        again = wait_for(lambda: (a := request.send())[0] not in (502, 503, 504) and
                         not self.is_in_progress(a) and a,
                         what=f"a response to {request.operation}")
        self.assertIn(again[0], request.act.statuses, (request.operation, again[2]))
        if request.status == 200:
            self.assertEqual(again[0], 200, request.operation)
        if not request.act.kept:
            if request.status == 200:
                self.assertEqual(again[2].get("take"), request.first.get("take"))
            return
        if request.was_stored:
            reply = request.was_stored.get("reply")
            if again[0] == 200 and isinstance(reply, dict):
                for field in set(reply) & set(again[2]):
                    self.assertEqual(again[2][field], reply[field], request.operation)
        elif request.act.process == victim:
            self.assertNotEqual(request.status, 200, request.operation)
        # Once, whether before the kill or now.
        self.assertEqual(request.done() - request.before, 1, request.operation)
        self.assertIsNotNone(request.stored(), request.operation)

    def is_in_progress(self, answer):
        return answer[0] == 409 and answer[2]["error"]["code"] == "in_progress"


class Roles(RigTest):
    def test_each_route_permits_what_its_role_says(self):
        pipeline = Pipeline(self)
        tokens = {role: pipeline.rig.cli("tokens", "create", role, "--role", role)[0]["token"]
                  for role in ROLES}
        tokens["unknown"] = "grp_" + "x" * 43
        walked = 0
        for operation, about in pipeline.operations():
            example = ACTS[operation].make if operation in ACTS else READS.get(operation)
            if is_change(operation) or "{" in operation:
                self.assertIsNotNone(example, f"{operation}: {MISSING}")
            for who in (None, "unknown", *ROLES):
                walked += 1
                with self.subTest(f"{operation} as {who}"):
                    self.walk(pipeline, operation, example, about["x-grapnel-role"], who,
                              tokens.get(who))
        self.assertGreater(walked, 150)

    def walk(self, pipeline, operation, example, role, who, token):
        allowed = who in ROLES and ROLES.index(who) >= ROLES.index(role)
        parameters, body = {}, {} if is_change(operation) else None
        if example and allowed:
            made = example(pipeline)
            parameters, body = made if is_change(operation) else (made, None)
        method, path = fill(operation, parameters)
        # An address with many wrong tokens has to wait, so each of these has another one.
        source = f"127.1.{next(pipeline.count) // 250}.{next(pipeline.count) % 250 + 1}" \
            if who == "unknown" else "127.0.0.1"
        status, _, document = pipeline.call(method, path.replace("{", "").replace("}", ""),
                                            body, token=token, source=source)
        if allowed:
            statuses = ACTS[operation].statuses if operation in ACTS else (200,)
            self.assertIn(status, statuses, document)
        else:
            code = (403, "role") if who in ROLES else (401, "unauthorized")
            self.assertEqual((status, document["error"]["code"]), code)


main()
