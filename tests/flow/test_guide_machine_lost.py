"""P2, P4: the commands of the guide "A machine is lost" work: a machine with a backup loses
its disk, another one continues, and the provider sends the events of the lost time
again."""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide
from rig import BUILD, ROOT, RigTest, main, sign_plane, wait_for

PAGE = ROOT / "docs/guides/machine-lost.md"
SCP = """eval "to=\\${$#}"
while [ "$1" != "${1#-}" ]; do shift; done
exec cp -rp "${1#backups.example.com:}" "${to#backups.example.com:}"
"""


class MachineLost(RigTest):
    def machine(self):
        rig = self.rig()
        self.etc = rig.folder / "etc" / "grapnel"
        self.etc.mkdir(parents=True)
        (self.etc / "secret").write_text(rig.env.pop("PLANE_SECRET"))
        (self.etc / "secret").chmod(0o600)
        rig.config_path = self.etc / "grapnel.yaml"
        rig.config["state_dir"], rig.config["run_dir"] = map(str, (
            rig.state_dir, rig.run_dir))
        rig.config["sources"][0]["secrets"] = ["file:secret"]
        rig.config["endpoints"] = [
            rig.endpoint("crm", workspaces=["ws-1"]),
            rig.endpoint("down", workspaces=["ws-down"]),
            rig.endpoint("legal", workspaces=["ws-legal"])]
        rig.config["retry_policies"][0]["max_attempts"] = 100000
        rig.write_config()
        rig.receiver.rules({"path": "/down", "responses": [{"status": 503}]},
                           {"path": "/legal", "responses": [{"status": 400}]})
        return rig.start()

    def guide(self, rig):
        backups = rig.folder / "backups"
        (rig.folder / "elsewhere" / "grapnel").mkdir(parents=True)
        guide = Guide(PAGE, rig.folder, replace={
            "/usr/local/sbin": str(rig.folder / "sbin"),
            "/etc/cron.d": str(rig.folder / "cron.d"),
            "/var/lib/grapnel": str(rig.state_dir),
            "/etc/grapnel": str(self.etc),
            "/var/backups/grapnel": str(backups),
            "backups.example.com:grapnel": f"{rig.folder}/elsewhere/grapnel",
            " -o grapnel -g grapnel": "",
        }, commands={
            "runuser": 'shift 3; exec "$@"', "chown": "exit 0", "scp": SCP,
            "apt-get": "exit 0", "systemctl": self.systemctl,
        }, env={**rig.env, "GRAPNEL_CONFIG": str(rig.config_path),
                "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        return guide

    def systemctl(self, words):
        verb, unit = words
        self.assertEqual(unit, "grapnel.target")
        if verb == "start":
            self.pipeline.start()
        else:
            self.assertEqual(verb, "stop")
            self.pipeline.stop()
        return 0

    def test_another_machine_continues(self):
        rig = self.pipeline = self.machine()
        guide = self.guide(rig)
        before = [rig.accept(rig.plane_body("ws-1")) for _ in range(3)]
        waits = rig.accept(rig.plane_body("ws-down"))
        dead = rig.accept(rig.plane_body("ws-legal"))
        for event in [*before, waits, dead]:
            rig.receiver.wait(event)
        wait_for(lambda: rig.cli("dlq")[0], what="the dead letter")
        series = rig.receiver.requests(event=before[0])[0].headers["grapnel-series"]
        guide.run("Prepare")
        guide.run("Try a restore")

        sent = []  # after the backup
        for _ in range(4):
            body = rig.plane_body("ws-1")
            sent.append((body, sign_plane(body)))
        lost = [rig.accept(body, headers=headers) for body, headers in sent]
        rig.receiver.wait(lost[-1])
        rig.kill()
        for folder in (rig.state_dir, rig.run_dir, self.etc, rig.folder / "backups"):
            shutil.rmtree(folder)

        rig.receiver.rules({"path": "/legal", "responses": [{"status": 400}]})
        printed = guide.run("On the new machine")
        self.assertIn("copied at", printed)
        guide.finish()
        got = rig.receiver.wait(waits)  # it waited in the backup
        wait_for(lambda: any(r.delivered for r in rig.receiver.requests(event=waits)))
        self.assertEqual([row["event_id"] for row in rig.cli("dlq")[0]], [dead])
        for daemon in rig.daemons.values():
            self.assertIn("this database is a restored copy", daemon.log())
        self.assertTrue(got)

        seen = {r.id for r in rig.receiver.requests("/crm")}
        again = [rig.accept(body, headers=headers) for body, headers in sent]
        for event in again:  # the provider sends the lost time again
            request, = rig.receiver.wait(event)
            self.assertNotIn(event, seen)
            self.assertNotEqual(request.headers["grapnel-series"], series)
        numbers = [int(rig.receiver.requests(event=event)[0]
                       .headers["grapnel-sequence"]) for event in again]
        self.assertEqual(numbers, [4, 5, 6, 7])


main()
