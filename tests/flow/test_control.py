"""The control protocol, by a few lines of Python: as docs/CONTROL.md has them."""

import pathlib
import re
import stat
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import zmq
from rig import ROOT, RigTest, main

PROCESSES = ["ingress", "sequencer", "deliverer-1", "dlqd", "console"]


def raw(rig, process, question):
    """The answer to these bytes, as JSON."""
    with zmq.Context.instance().socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"ipc://{rig.run_dir}/{process}.control")
        socket.send(question)
        assert socket.poll(30000), f"{process} does not answer {question}"
        return socket.recv_json()


class Control(RigTest):
    def test_the_documented_lines_ask_every_process(self):
        text = (ROOT / "docs" / "CONTROL.md").read_text()
        script = re.search(r"```python\n(.*?)```", text, re.S).group(1)
        definition = script[:script.index("for letter in")]
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
            ask(rig.run_dir, "dlqd", "dlq", endpoint="crm")["letters"], [])
        with self.assertRaisesRegex(RuntimeError, "does not know"):
            ask(rig.run_dir, "dlqd", "dlqq")

    def test_what_is_not_understood_is_refused_with_what_is_known(self):
        rig = self.rig(console=True).start()
        for process in PROCESSES:
            for question, why in [
                    (b'{"v":2,"ask":"ping"}', "this is control version 1"),
                    (b'{"ask":"ping"}', "this is control version 1"),
                    (b'{"v":1,"ask":"nothing"}', "it knows ping status"),
                    (b'{"v":1,"ask":"ping","args":[]}', "a request is"),
                    (b'{"v":1,"ask":"ping","argz":{}}', "a request is"),
                    (b'{"v":1,"ask":"ping","args":{"x":1}}', "it has none"),
                    (b'{"v":1,"ask":"trace","args":{"idd":"x"}}',
                     'no argument "idd"; it has id'),
                    (b'{"v":1,"v":1,"ask":"ping"}', "not a JSON document"),
                    (b"\x00\xff", "not a JSON document"),
                    (b"", "not a JSON document")]:
                answer = raw(rig, process, question)
                self.assertEqual((answer["v"], answer["ok"]), (1, False))
                self.assertIn(why, answer["error"])
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

    def test_a_run_dir_that_was_there(self):
        """Open to be looked into: the sockets are the owner's all the same. Open
        to be written to: anybody could put a socket of his in their place."""
        rig = self.rig()
        rig.run_dir.mkdir()
        rig.run_dir.chmod(0o777)
        daemon = rig["dlqd"].start(wait=False)
        self.assertEqual(daemon.wait_exit(), 78)
        self.assertRegex(daemon.log(), "run_dir: others may write to .*chmod")
        rig.run_dir.chmod(0o755)
        rig["dlqd"].start()
        for kind in ["control", "inbox", "metrics"]:
            mode = (rig.run_dir / f"dlqd.{kind}").stat().st_mode
            self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, kind)

    def test_every_ask_is_documented(self):
        rig = self.rig(console=True).start()
        text = (ROOT / "docs" / "CONTROL.md").read_text()
        documented = set(re.findall(r"^\|[^|]*\|", text, re.M))
        documented = set(re.findall(r"`([a-z_]+)`", " ".join(documented)))
        for process in PROCESSES:
            known = re.search(r"it knows (.*)", raw(
                rig, process, b'{"v":1,"ask":"nothing"}')["error"]).group(1)
            known = known.split()
            if len(known) > 12:
                known.pop()  # the sentence may have been cut
            self.assertEqual(set(known) - documented, set(), process)


main()
