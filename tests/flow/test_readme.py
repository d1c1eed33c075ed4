"""The commands of "The first event with the package" of README.md work, with the package's
configuration."""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide  # noqa: E402
from rig import BUILD, ROOT, RigTest, main, processes_of, wait_for  # noqa: E402


class Readme(RigTest):
    def end_receiver(self, rig):
        for line in processes_of(rig.folder):
            if "receiver.py" in line:
                os.kill(int(line.split()[0]), signal.SIGTERM)
        wait_for(lambda: not any("receiver.py" in p for p in processes_of(rig.folder)))

    def test_every_command_of_the_first_event(self):
        rig = self.rig()
        port = rig.ports.take()
        (rig.folder / "secrets").mkdir()
        publish, console = rig.ports.take(), rig.ports.take()
        replace = {"/etc/grapnel": str(rig.folder),
                   "-g grapnel ": "",
                   "127.0.0.1:3000": f"127.0.0.1:{port}",
                   "--port 3000": f"--port {port}",
                   "/tmp/receiver.db": f"{rig.folder}/receiver.db",
                   "examples/receiver": f"{ROOT}/examples/receiver"}
        installed = (ROOT / "packaging/debian/grapnel.yaml").read_text()
        for old, new in {"/var/lib/grapnel": str(rig.state_dir),
                         "/run/grapnel": str(rig.run_dir),
                         "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                         "127.0.0.1:8081": f"127.0.0.1:{console}",
                         "127.0.0.1:7464": f"127.0.0.1:{publish}"}.items():
            self.assertIn(old, installed)
            installed = installed.replace(old, new)
        rig.write_config(installed)
        rig.start()
        guide = Guide(ROOT / "README.md", rig.folder, replace=replace,
                      env={"GRAPNEL_CONFIG": str(rig.config_path),
                           "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        try:
            guide.run("The first event with the package")
            event = wait_for(lambda: rig.cli("events")[0])[0]
            rig.wait_status(event["id"], "done")
            self.assertEqual(rig.trace(event["id"])["deliveries"][0]["status"],
                             "delivered")
        finally:
            self.end_receiver(rig)


main()
