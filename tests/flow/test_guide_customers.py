"""The commands of the guide "Send webhooks to your customers" work."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide  # noqa: E402
from rig import BUILD, ROOT, RigTest, is_signed, main, wait_for  # noqa: E402


class Customers(RigTest):
    def test_every_command_of_the_guide(self):
        rig = self.rig(console=True)
        rig.start()
        guide = Guide(
            ROOT / "docs/guides/customers.md", rig.folder,
            replace={"/etc/grapnel": str(rig.folder),
                     "/var/lib/grapnel": str(rig.state_dir),
                     "/run/grapnel": str(rig.run_dir),
                     "-g grapnel ": "",
                     "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                     "127.0.0.1:8081": f"127.0.0.1:{rig.console_port}",
                     "127.0.0.1:3000": f"127.0.0.1:{rig.receiver.port}"},
            env={"GRAPNEL_CONFIG": str(rig.config_path),
                 "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)

        def paid(number):
            return wait_for(lambda: next(
                (r for r in rig.receiver.requests("/hooks")
                 if r.json().get("data") == {"id": number}), None), what=f"event {number}")

        guide.run("1. Prepare", "2. A token for your backend", "3. A customer adds an endpoint",
                  "4. Test it", "5. Publish")
        old = json.loads((guide.home / "created.json").read_text())["secret"]
        self.assertTrue(is_signed(paid(7), old))
        guide.run("6. Let the customer look", "7. The customer's server was down",
                  "8. The customer changes the secret")
        new = json.loads((guide.home / "rotated.json").read_text())["secret"]
        self.assertNotEqual(old, new)
        self.assertTrue(is_signed(paid(9), old) and is_signed(paid(9), new))
        guide.run("9. A customer leaves", "Undo")
        guide.finish()
        self.assertFalse([r for r in rig.receiver.requests() if b"globex" in r.body],
                         "an event of another customer")


main()
