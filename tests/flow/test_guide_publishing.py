"""The commands of the guide "Publish events of your own services" work."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide  # noqa: E402
from rig import BUILD, ROOT, RigTest, main  # noqa: E402


class Publishing(RigTest):
    def test_every_command_of_the_guide(self):
        rig = self.rig()
        rig.start()
        guide = Guide(
            ROOT / "docs/guides/publishing.md", rig.folder,
            replace={"/etc/grapnel": str(rig.folder),
                     "/var/lib/grapnel": str(rig.state_dir),
                     "/run/grapnel": str(rig.run_dir),
                     "-g grapnel ": "",
                     "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                     "127.0.0.1:3000": f"127.0.0.1:{rig.receiver.port}"},
            env={"GRAPNEL_CONFIG": str(rig.config_path),
                 "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        guide.run("1. Give the service a token", "2. Publish", "3. Publish many at once")
        requests = rig.receiver.wait(count=4, path="/invoices")
        self.assertEqual(sorted(r.json()["data"]["id"] for r in requests), [7, 8, 9, 10])
        guide.run("Undo")
        guide.finish()


main()
