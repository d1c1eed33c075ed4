"""Every curl command of docs/API.md is run as it is written, by bash, and gets the response that it
is an example of."""

import base64
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "rig"))
from rig import RigTest, http_request, main, wait_for

# These need a state that this pipeline does not have; the response says so.
ELSEWHERE = {"/release": (409, "refused"), "/gaps/gap_12/close": (404, "not_found"),
             "/alerts/pager/test": (404, "not_found"), "/retry": (409, "refused"),
             "/abandon": (409, "refused"), "/resolve": (409, "refused"),
             "/discard": (409, "refused"), "/cancel": (409, "refused"),
             "/pull/jobs/retry": (409, "refused"),
             "/pull/jobs/dead": (409, "refused")}


def examples():
    page = (ROOT / "docs" / "API.md").read_text()
    for block in re.findall(r"```sh\n(.*?)```", page, re.S):
        for command in block.replace("\\\n", " ").splitlines():
            if command.startswith("curl "):
                yield command


class Examples(RigTest):
    def test_every_curl_command_works(self):
        rig = self.rig({"secrets_key": base64.b64encode(bytes(32)).decode()}, console=True)
        rig.config["endpoints"].append(rig.endpoint("legal", guard=False))
        rig.config["endpoints"].append({"name": "jobs", "transport": "pull",
                                        "workspaces": ["jobs"]})
        rig.write_config()
        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        rig.start()
        rig.cli("evidence", "key")
        event = rig.accept(rig.plane_body(workspace="acme"))
        rig.settle()
        managed = rig.ask("sequencer", "endpoint_create", url="https://example.com/")
        temporary = rig.ask("sequencer", "temporary_create", types=["none"])
        made, code = rig.cli("tokens", "create", "examples", "--role", "admin")
        self.assertEqual(code, 0, made)
        other, _ = rig.cli("tokens", "create", "goes", "--role", "viewer")
        mine, _ = rig.cli("tokens", "create", "acme-1", "--role", "workspace", "--workspace",
                          "acme")
        rig.post(b"{}", headers={"X-Plane-Signature": "wrong"})
        dead_letter, = rig.ask("dlqd", "dlq")["dead_letters"]
        reject, *_ = rig.ask("ingress", "rejects")["rejects"]
        job = rig.ask("dlqd", "dlq_bulk", action="retry", dry_run=True)
        wait_for(lambda: rig.ask("dlqd", "job", id=job["id"])["state"] == "done")
        rig.wait_status(rig.accept(rig.plane_body(workspace="leaving")))
        env = {"PATH": "/usr/bin:/bin", "TOKEN": made["token"], "event": event,
               "api": f"http://127.0.0.1:{rig.console_port}/api/v1",
               "auth": f"Authorization: Bearer {made['token']}",
               "mine": f"Authorization: Bearer {mine['token']}",
               "json": "Content-Type: application/json",
               "source": "plane", "dead_letter": dead_letter["id"], "reject": reject["id"],
               "token_id": other["id"], "job": job["id"],
               "managed": managed["name"], "temporary": temporary["name"], "leaving": "leaving",
               **self.take(rig, made["token"])}
        count = 0
        for command in examples():
            with self.subTest(command):
                count += 1
                self.run_one(rig, command, env)
        self.assertGreater(count, 25)

    def take(self, rig, token):
        """A take of the pull endpoint, and the event that is in it."""
        event = rig.accept(rig.plane_body(workspace="jobs"))

        def taken():
            status, _, text = http_request(
                rig.console_port, "POST", "/api/v1/pull/jobs/take", b'{"wait": "5s"}',
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
            return status == 200 and json.loads(text)["take"]
        return {"take": wait_for(taken), "taken": event}

    def run_one(self, rig, command, env):
        done = subprocess.run(
            ["bash", "-c", command.replace("curl ", "curl -w '\\n%{http_code}' ", 1)],
            env=env, cwd=rig.folder, text=True, capture_output=True, timeout=60,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        body, _, status = done.stdout.rpartition("\n")
        if status == "200":
            return
        wanted = [v for k, v in ELSEWHERE.items()
                  if re.search(rf"{re.escape(k)}(\s|$)", command)]
        error = json.loads(body)["error"]
        self.assertIn((int(status), error["code"]), wanted, error)


main()
