#!/usr/bin/python3
"""Makes tests/golden/stores/VERSION.tar.xz: what a machine with this version of Grapnel had
on its disk when its power failed. See README.md here.

    GRAPNEL_BUILD=build/release tests/golden/stores/make.py 0.2.0

Content in every state: delivered events, deliveries that are in flight, wait for a retry
(one with a retry policy of its own) and wait behind another one in their lane, dead letters (one retried and dead again, one
resolved), an event that is held because numbers are missing, duplicates, idempotency keys,
refused requests, a token, audit rows, and requests that the sequencer had not taken. Beside the databases, with
their logs as kill -9 left them: the configuration, and facts.json, which says what is there.
"""

import contextlib
import hashlib
import hmac
import json
import pathlib
import shutil
import sqlite3
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "rig"))
from rig import PLANE_SECRET, Rig, http_request, sign_plane, wait_for  # noqa: E402

KEY, TOKEN = "ledger key", "t0ken-of-billing"
PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]


def ledger_headers(body):
    return {"X-Sig": hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest(),
            "Content-Type": "application/json"}


def ledger_body(seq):
    return json.dumps({"id": f"entry-{seq}", "type": "entry.made", "team": "books",
                       "seq": seq}).encode()


def publish(rig, key, n, **more):
    """The id that an event of a producer has."""
    body = json.dumps({"type": "invoice.paid", "workspace": "acct_1",
                       "data": {"n": n}, **more}).encode()
    status, _, text = http_request(rig.ingress_port, "POST", "/v1/events", body, {
        "Authorization": f"Bearer {TOKEN}", "Idempotency-Key": key})
    assert status == 200, text
    return json.loads(text)["id"]


def configure(rig):
    rig.config["sources"].append({
        "name": "ledger", "provider": "custom", "secrets": [KEY],
        "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "form": "plain",
                   "encoding": "hex", "signed": "{body}"},
        "id": "json:/id", "type": "json:/type", "workspace": "json:/team",
        "order": {"by": "sequence", "sequence": "json:/seq", "start": 1,
                  "give_up_after": "1h"}})
    rig.config["producers"] = [{"name": "billing", "tokens": [TOKEN]}]
    rig.config["retry_policies"].append({
        "name": "patient", "backoff": "fixed", "first_wait": "5m",
        "jitter": "none", "max_attempts": 12, "max_duration": "24h",
        "retry_on": ["network", "5xx"], "respect_retry_after": True})
    rig.config["endpoints"] = [
        rig.endpoint("crm", workspaces=["ws-1", "books", "acct_1"]),
        rig.endpoint("down", workspaces=["ws-down"], retry_policy="patient"),
        rig.endpoint("lane", workspaces=["ws-lane"], retry_policy="patient",
                     ordered="workspace"),
        rig.endpoint("slow", workspaces=["ws-slow"], timeout="60s"),
        rig.endpoint("refuse", workspaces=["ws-refused"])]
    rig.write_config()
    rig.receiver.rules(
        {"path": "/down", "responses": [{"status": 503}]},
        {"path": "/lane", "responses": [{"status": 503}]},
        {"path": "/slow", "responses": [{"action": "blackhole"}]},
        {"path": "/refuse", "responses": [{"status": 400, "body": "never"}]})


def dead(rig, event):
    def found():
        rows, code = rig.cli("dlq")
        return code == 0 and next((r for r in rows if r["event_id"] == event and
                                   r["state"] == "dead"), None)
    return wait_for(found, what=f"the dead letter of {event}")["id"]


def fill(rig):
    """Brings it into every state; the facts."""
    facts = {"delivered": [], "waiting": {}, "dead": {}, "resolved": [],
             "untaken": []}

    def accepted(workspace, **more):
        return rig.accept(rig.plane_body(workspace), **more)

    body = rig.plane_body("ws-1")
    headers = sign_plane(body)
    first = rig.accept(body, headers=headers)
    facts["delivered"] = [first] + [accepted("ws-1") for _ in range(4)]
    for event in facts["delivered"]:
        rig.receiver.wait(event)
    facts["twice"] = {"body": body.decode(), "headers": headers, "id": first}
    assert rig.accept(body, headers=headers) != first
    facts["published"] = {"key": "inv-7", "n": 7, "id": publish(rig, "inv-7", 7)}
    rig.receiver.wait(facts["published"]["id"])
    facts["delivered"].append(facts["published"]["id"])
    for _ in range(2):  # refused
        status, _, _ = rig.post(rig.plane_body(), headers={
            **sign_plane(rig.plane_body()), "X-Plane-Signature": "0" * 64})
        assert status == 401
    facts["rejects"] = 2
    wait_for(lambda: rig.rows("ingress", "SELECT count(*) AS n FROM rejects")[0]["n"]
             == 2, what="the refused requests to be stored")
    for seq in (1, 3):
        body = ledger_body(seq)
        facts[f"ledger-{seq}"] = rig.accept(body, source="ledger",
                                            headers=ledger_headers(body))
    rig.receiver.wait(facts["ledger-1"])
    rig.wait_status(facts["ledger-3"], "buffered")
    refused = [accepted("ws-refused") for _ in range(3)]
    dead_letters = {event: dead(rig, event) for event in refused}
    rig.cli("dlq", "retry", dead_letters[refused[1]])
    rig.receiver.wait(refused[1], count=2)
    dead(rig, refused[1])
    _, code = rig.cli("dlq", "resolve", dead_letters[refused[2]], "--note", "by hand")
    assert code == 0
    facts["dead"] = {event: dead_letters[event] for event in refused[:2]}
    facts["resolved"] = [dead_letters[refused[2]]]
    made, code = rig.cli("tokens", "create", "ops", "--role", "operator")
    assert code == 0
    facts["token"] = {"id": made["id"], "text": made["token"]}
    facts["acts"] = {"dlqd": ["dlq_resolve", "dlq_retry"], "sequencer": ["token_create"]}
    for workspace, count in (("down", 2), ("lane", 3), ("slow", 2)):
        for _ in range(count):
            facts["waiting"][accepted(f"ws-{workspace}")] = workspace
    chosen = publish(rig, "inv-8", 8, workspace="ws-down", max_attempts=7)
    facts["chosen"] = {chosen: 7}
    facts["waiting"][chosen] = "down"
    rig.receiver.wait(path="/down", count=3)
    rig.receiver.wait(path="/lane")
    rig.receiver.wait(path="/slow", count=2)
    last = rig.receiver.requests(event=facts["delivered"][4])[-1]
    facts["series"] = last.headers["grapnel-series"]
    facts["number"] = int(last.headers["grapnel-sequence"])
    wait_for(lambda: rig.rows("sequencer", "SELECT count(*) AS n FROM deliveries "
                              "WHERE status = 2")[0]["n"] == 4,
             what="the scheduled retries")
    rig.kill("sequencer")
    facts["untaken"] = [accepted("ws-1") for _ in range(3)]
    rig.kill()
    return facts


def forget_the_file(path, to):
    """A copy that a process takes for its own file, in any place, and with its log: the
    rows that say which file it is are removed, in the log."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
        for table in tables & {"file_origin", "file_start"}:
            db.execute(f"DELETE FROM {table}")
        for suffix in ("", "-wal"):
            if pathlib.Path(f"{path}{suffix}").exists():
                shutil.copy(f"{path}{suffix}", f"{to}{suffix}")


def main():
    version, = sys.argv[1:]
    rig = Rig(console=True)
    try:
        configure(rig)
        rig.start()
        facts = fill(rig)
        out = rig.folder / "golden"
        out.mkdir()
        for name in PROCESSES:
            path = rig.state_dir / f"{name}.db"
            forget_the_file(path, out / path.name)
            for beside in rig.state_dir.glob(f"{name}.flying"):
                shutil.copy(beside, out)
        facts["schema_versions"] = {
            name: rig.rows(name, "PRAGMA user_version")[0]["user_version"]
            for name in PROCESSES}
        (out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
        text = rig.config_path.read_text()
        for port, name in ((rig.receiver.port, "RECEIVER"), (rig.ingress_port, "INGRESS"),
                           (rig.console_port, "CONSOLE"),
                           (rig.publish.rsplit(":", 1)[1], "PUBLISH")):
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:@{name}@")
        (out / "grapnel.yaml").write_text(text)
        with tarfile.open(HERE / f"{version}.tar.xz", "w:xz") as archive:
            for path in sorted(out.iterdir()):
                archive.add(path, path.name)
        print(HERE / f"{version}.tar.xz", (HERE / f"{version}.tar.xz").stat().st_size)
    except BaseException:
        rig.dump(lines=40)
        raise
    finally:
        rig.close()


if __name__ == "__main__":
    main()
