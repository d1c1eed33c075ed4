"""Erasure of a workspace reaches the processes on other hosts: nothing of it is left there either."""

import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hosts import HostsTest
from erasure import Erasure  # hosts has put the folder on the path
from rig import main, sign_plane, wait_for

NAME, MARK = "acme-erased", "mark3r-of-acme"


class EraseAcross(Erasure, HostsTest):
    def start(self, console=True):
        """Host b has ingress-2, which accepts the events, and deliverer-2, which delivers them."""
        rig = self.cluster(far=("deliverer-2", "ingress-2"), deliverers=0, console=console)
        self.far.ingress_port = rig.ports.take()
        self.far.configure(self.far.config["cluster"]["peers"], sources=rig.config["sources"],
                           ingress={"listen": f"127.0.0.1:{self.far.ingress_port}"})
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 200, "body": f"{MARK}-response"}]})
        rig.start()
        self.deliverer = self.far.add("deliverer-2").start()
        self.ingress = self.far.add("ingress-2")
        self.ingress.start()
        rig.ingress_port = self.far.ingress_port
        if console:
            wait_for(lambda: all(r["up"] for r in rig.cli("status")[0]), what="the connections")
        for workspace in (NAME, "other"):
            for _ in range(5):
                rig.wait_status(self.post(rig, workspace))
        return rig

    def post(self, rig, workspace, expect=200):
        body = rig.plane_body(workspace=workspace, x=f"{MARK}-{workspace}")
        status, _, reply = rig.post(body, headers=sign_plane(body))
        self.assertEqual(status, expect, reply)
        return reply.get("id")

    def found(self):
        """The files of host b with bytes of the workspace."""
        return sorted((f.name, m) for f in self.far.state_dir.rglob("*") if f.is_file()
                      for m in (NAME.encode(), f"{MARK}-{NAME}".encode()) if m in f.read_bytes())

    def erase(self, rig):
        done = rig.cli_text("workspaces", "erase", NAME, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_nothing_is_left_on_the_other_host_and_its_ingress_refuses_the_workspace(self):
        rig = self.start()
        self.assertTrue(self.found())
        self.assertNotIn("other_hosts", self.ended(rig, self.erase(rig))["result"])
        self.assertEqual(self.found(), [])
        self.post(rig, NAME, expect=410)
        rig.wait_status(self.post(rig, "other"))
        # Both files have the same key and the same erasures.
        near, far = (f.read_text().splitlines() for f in (rig.state_dir / "erasures",
                                                          self.far.state_dir / "erasures"))
        self.assertEqual(near[0], far[0])
        self.assertEqual([line.split()[1] for line in near[1:]], [line.split()[1] for line in far[1:]])
        self.ingress.kill()
        self.ingress.start()
        self.post(rig, NAME, expect=410)

    def test_a_process_elsewhere_that_is_away_delays_it(self):
        rig = self.start()
        self.deliverer.kill()
        job = self.erase(rig)
        wait_for(lambda: "waits for deliverer-2" in (self.job(rig, job).get("last_error") or ""),
                 what="the reason")
        self.assertNotEqual(self.found(), [])
        rig["sequencer"].kill()
        rig["sequencer"].start()
        self.deliverer.start()
        self.ended(rig, job)
        self.assertEqual(self.found(), [])

    def test_a_restored_process_elsewhere_is_erased_again(self):
        rig = self.start()
        self.ingress.stop()
        copy = rig.folder / "copy.db"
        shutil.copyfile(self.far.state_dir / "ingress-2.db", copy)
        self.ingress.start()
        rig.wait_status(self.post(rig, "other"))
        self.ended(rig, self.erase(rig))
        self.ingress.stop()
        for file in self.far.state_dir.glob("ingress-2.db*"):
            file.unlink()
        shutil.copyfile(copy, self.far.state_dir / "ingress-2.db")
        self.assertNotEqual(self.found(), [])
        self.ingress.start()
        rig.wait_status(self.post(rig, "other"))
        wait_for(lambda: not self.found(), timeout=60, what="the second erasure")

    def test_erasures_of_another_sequencer_are_not_replaced(self):
        rig = self.start()
        (self.far.state_dir / "erasures").write_text(
            f"grapnel erasures 1 {'ab' * 32}\n1 {'cd' * 32}\n")
        job = self.erase(rig)
        wait_for(lambda: "by another sequencer" in (self.job(rig, job).get("last_error") or ""),
                 what="the reason")
        (self.far.state_dir / "erasures").unlink()
        self.ended(rig, job)
        self.assertEqual(self.found(), [])

    def test_without_a_console_the_report_names_the_other_hosts(self):
        rig = self.start(console=False)
        end = self.ended(rig, self.erase(rig))
        self.assertIn("console in cluster.peers", end["result"]["other_hosts"])


main()
