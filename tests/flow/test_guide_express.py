"""The commands of the guide "From Express to Grapnel, in stages" work, with a real
Node.js."""

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide  # noqa: E402
from rig import BUILD, ROOT, RigTest, main  # noqa: E402

NODE = shutil.which("node", path="/usr/bin:/bin")


@unittest.skipUnless(NODE, "Node.js is not installed (tools/deps test)")
class Express(RigTest):
    def end_application(self, rig):
        """What a guide that failed left running."""
        with contextlib.suppress(OSError):
            pid = int((rig.folder / "shop" / "app.pid").read_text())
            os.kill(pid, signal.SIGKILL)

    def test_every_command_of_the_guide(self):
        rig = self.rig()
        self.addCleanup(self.end_application, rig)
        rig.start()
        port = rig.ports.take()
        guide = Guide(
            ROOT / "docs/guides/express.md", rig.folder,
            replace={"/etc/grapnel": str(rig.folder),
                     "/srv/shop": str(rig.folder / "shop"),
                     "/var/lib/grapnel": str(rig.state_dir),
                     "/run/grapnel": str(rig.run_dir),
                     "-g grapnel ": "",
                     "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                     "127.0.0.1:3000": f"127.0.0.1:{port}",
                     "listen(3000": f"listen({port}",
                     # Three events must arrive within it, also on a busy machine.
                     "window: 2s": "window: 6s"},
            env={"GRAPNEL_CONFIG": str(rig.config_path),
                 "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        guide.run(timeout=100)
        guide.finish()


main()
