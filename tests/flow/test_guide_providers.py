"""The commands of the guide "Stripe, GitHub and Plane in ten minutes" work."""

import contextlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide  # noqa: E402
from rig import BUILD, ROOT, RigTest, main  # noqa: E402


class Providers(RigTest):
    def end_receiver(self, rig):
        """What a guide that failed left running."""
        with contextlib.suppress(OSError):
            pid = int((rig.folder / "receiver.pid").read_text())
            os.kill(pid, signal.SIGKILL)

    def test_every_command_of_the_guide(self):
        rig = self.rig()
        self.addCleanup(self.end_receiver, rig)
        rig.start()
        guide = Guide(
            ROOT / "docs/guides/providers.md", rig.folder,
            replace={"/etc/grapnel": str(rig.folder),
                     "/var/lib/grapnel": str(rig.state_dir),
                     "/run/grapnel": str(rig.run_dir),
                     "-g grapnel ": "",
                     "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                     "127.0.0.1:3000": f"127.0.0.1:{(port := rig.ports.take())}",
                     '("127.0.0.1", 3000)': f'("127.0.0.1", {port})'},
            env={"GRAPNEL_CONFIG": str(rig.config_path),
                 "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        guide.run()
        guide.finish()


main()
