"""The control protocol as docs/CONTROL.md describes it, used by a few lines of Python."""

import json
import os
import pathlib
import random
import re
import stat
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import zmq
from rig import ROOT, RigTest, main, wait_for

PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]


def raw(rig, process, question):
    """The reply to these bytes, as JSON."""
    with zmq.Context.instance().socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"ipc://{rig.run_dir}/{process}.control")
        socket.send(question)
        assert socket.poll(30000), f"{process} does not respond to {question}"
        return socket.recv_json()


def asks(process):
    """What this process can be asked, from the declarations."""
    tables = (ROOT / "lib" / "commands").glob("*_commands.c")
    kinds = ("every", process.split("-")[0])
    return {name for table in tables for name, kind in re.findall(
        r'\.name = "(\w+)",\s*\.process = "(\w+)"', table.read_text())
        if kind in kinds}


class Control(RigTest):
    def test_the_documented_lines_ask_every_process(self):
        text = (ROOT / "docs" / "CONTROL.md").read_text()
        script = re.search(r"```python\n(.*?)```", text, re.S).group(1)
        definition = script[:script.index("for dead_letter in")]
        rig = self.rig(console=True).start()
        names = {}
        exec(definition, names)  # what the document says, and nothing else
        ask = names["ask"]
        for process in PROCESSES:
            self.assertEqual(ask(rig.run_dir, process, "ping")["process"],
                             process)
            self.assertEqual(ask(rig.run_dir, process, "status")["kind"],
                             process.split("-")[0])
        self.assertEqual(
            ask(rig.run_dir, "dlqd", "dlq", endpoint="crm")["dead_letters"], [])
        with self.assertRaisesRegex(RuntimeError, "has no request"):
            ask(rig.run_dir, "dlqd", "dlqq")

    def test_unknown_requests_are_refused_with_the_known_ones(self):
        rig = self.rig(console=True).start()
        for process in PROCESSES:
            for question, why in [
                    (b'{"v":2,"ask":"ping"}', "this is control version 1"),
                    (b'{"ask":"ping"}', "this is control version 1"),
                    (b'{"v":1,"ask":"nothing"}', "it has ping status"),
                    (b'{"v":1,"ask":"ping","args":[]}', "a request is"),
                    (b'{"v":1,"ask":"ping","argz":{}}', "a request is"),
                    (b'{"v":1,"ask":"ping","args":{"x":1}}', "it has none"),
                    (b'{"v":1,"ask":"trace","args":{"idd":"x"}}',
                     'no argument "idd"; it has id'),
                    (b'{"v":1,"v":1,"ask":"ping"}', "not a JSON document"),
                    (b"\x00\xff", "not a JSON document"),
                    (b"", "not a JSON document")]:
                reply = raw(rig, process, question)
                self.assertEqual((reply["v"], reply["ok"]), (1, False))
                self.assertIn(why, reply["error"])
            self.assertTrue(raw(rig, process, b'{"v":1,"ask":"ping"}')["ok"])

    def test_only_the_owner_of_run_dir_can_ask(self):
        rig = self.rig(console=True).start()
        mode = stat.S_IMODE(rig.run_dir.stat().st_mode)
        self.assertEqual(mode, 0o700)
        for process in PROCESSES:
            for kind in ["control", "inbox", "metrics"]:
                path = rig.run_dir / f"{process}.{kind}"
                self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0,
                                 path)

    def test_only_the_owner_of_state_dir_can_read_it(self):
        """Also if other users may list state_dir."""
        rig = self.rig(console=True)
        rig.state_dir.mkdir(exist_ok=True)
        rig.state_dir.chmod(0o755)
        rig.start()
        rig.wait_status(rig.accept())
        files = [p for p in rig.state_dir.rglob("*") if p.is_file()]
        for end in ("db", "db-wal", "lock", "inflight"):
            self.assertTrue(any(p.name.endswith("." + end) for p in files), end)
        for path in files:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)

    def test_a_run_dir_that_others_may_write_to_is_refused(self):
        """If others may only list it, the sockets still belong to the owner; if
        others may write to it, no process starts."""
        rig = self.rig()
        rig.run_dir.mkdir()
        for mode in (0o777, 0o770, 0o720):
            rig.run_dir.chmod(mode)
            daemon = rig["dlqd"].start(wait=False)
            self.assertEqual(daemon.wait_exit(), 78)
            self.assertIn(f"run_dir: other users may write to {rig.run_dir} "
                          f"(mode {mode:04o})", daemon.log())
        rig.run_dir.chmod(0o755)
        rig["dlqd"].start()
        for kind in ["control", "inbox", "metrics"]:
            path = rig.run_dir / f"dlqd.{kind}"
            wait_for(path.exists)
            mode = path.stat().st_mode
            self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, kind)

    def test_no_argument_ends_a_process(self):
        """Each request gets each of its arguments with unexpected types and sizes,
        and the process replies."""
        values = ["", "x" * 5000, "\0", "%s%n", "../../x", "evt_" + "0" * 26,
                  -(1 << 63), (1 << 63) - 1, -1, 0, 1 << 53, 1.5e308, True, None,
                  [], ["a", 1, None], {}, {"a": {}}, "9" * 400]
        dice = random.Random(1)
        rig = self.rig(console=True).start()
        rig.wait_status(rig.accept())
        for process in PROCESSES:
            known = {}
            for name in asks(process) - {"backup"}:
                why = raw(rig, process, json.dumps(
                    {"v": 1, "ask": name, "args": {"?": 0}}).encode())["error"]
                known[name] = re.findall(r"[a-z_]+", why.split("; it has ")[1])
            for name, args in sorted(known.items()):
                args = [a for a in args if a != "none"]
                trials = [{a: v} for a in args for v in values] + [
                    {a: dice.choice(values) for a in args if dice.random() < 0.8}
                    for _ in range(20)]
                for trial in trials:
                    question = {"v": 1, "ask": name, "args": trial}
                    self.assertIn("ok", raw(rig, process, json.dumps(
                        question).encode()), (process, question))
            self.assertTrue(rig[process].alive, process)

    def test_a_folder_of_another_user_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a folder to another user")
        for key in ("run_dir", "state_dir"):
            rig = self.rig()
            folder = getattr(rig, key)
            folder.mkdir(mode=0o700, exist_ok=True)
            os.chown(folder, 65534, 65534)
            daemon = rig["dlqd"].start(wait=False)
            self.assertEqual(daemon.wait_exit(), 78)
            self.assertIn(f"{key}: {folder} belongs to user 65534", daemon.log())

    def test_a_lock_that_is_a_link_is_not_followed(self):
        rig = self.rig()
        victim = rig.folder / "victim"
        victim.write_text("keep this")
        rig.state_dir.mkdir(mode=0o700, exist_ok=True)
        (rig.state_dir / "dlqd.lock").symlink_to(victim)
        daemon = rig["dlqd"].start(wait=False)
        self.assertEqual(daemon.wait_exit(), 78)
        self.assertIn("dlqd.lock is a symbolic link", daemon.log())
        self.assertEqual(victim.read_text(), "keep this")

    def test_every_ask_is_documented(self):
        rig = self.rig(console=True).start()
        text = (ROOT / "docs" / "CONTROL.md").read_text()
        documented = set(re.findall(r"^(?:### |\| `)([a-z_]+)", text, re.M))
        for process in PROCESSES:
            known = re.search(r"it has (.*)", raw(
                rig, process, b'{"v":1,"ask":"nothing"}')["error"]).group(1)
            known = known.split()
            if len(known) > 12:
                known.pop()  # the sentence may have been cut
            self.assertEqual(set(known) - documented, set(), process)


main()
