"""All programs have one version number, and `status` names processes of another version."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import ROOT, RigTest, main, program, wait_for

VERSION = re.search(r"project\(grapnel VERSION (\S+)",
                    (ROOT / "CMakeLists.txt").read_text()).group(1)
KINDS = ["ingress", "sequencer", "deliverer", "dlqd", "console"]
OLDER = "0.1.9"


def older(rig, kind):
    """The program as an earlier version was: the same but for its number."""
    path = rig.folder / f"older-{kind}"
    text = pathlib.Path(program(f"grapnel-{kind}")).read_bytes()
    numbered = VERSION.encode() + b"\0"
    assert numbered in text and len(OLDER) == len(VERSION)
    path.write_bytes(text.replace(numbered, OLDER.encode() + b"\0"))
    path.chmod(0o755)
    return str(path)


class Versions(RigTest):
    def test_all_programs_have_the_same_version(self):
        for name in ["grapnel", *(f"grapnel-{kind}" for kind in KINDS)]:
            said = subprocess.run([program(name), "--version"], text=True,
                                  capture_output=True, check=True).stdout
            self.assertEqual(said, f"{name} {VERSION}\n")

    def test_version_needs_no_configuration(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("GRAPNEL_")}
        env["GRAPNEL_CONFIG"] = "/nowhere/grapnel.yaml"
        done = subprocess.run([program("grapnel"), "version"], env=env, text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith(f"grapnel {VERSION}\n"), done.stdout)
        self.assertIn("--run-dir DIR", done.stdout)

    def test_status_is_silent_when_all_versions_agree(self):
        rig = self.rig(console=True).start()
        said, code = rig.cli("version")
        self.assertEqual((said["version"], said["mixed"], code), (VERSION, False, 0))
        self.assertEqual({(p["process"], p["version"]) for p in said["processes"]},
                         {(name, VERSION) for name in rig.daemons})
        self.assertNotIn("Mixed", rig.cli_text("version").stdout)
        self.assertNotIn("Mixed", rig.cli_text("status").stdout)

    def test_status_names_a_process_that_was_not_restarted(self):
        rig = self.rig()
        rig["sequencer"].program = older(rig, "sequencer")
        rig.start()
        rig["dlqd"].stop()
        said, code = rig.cli("version")
        self.assertEqual((said["mixed"], code), (True, 0))
        versions = {p["process"]: p["version"] for p in said["processes"]}
        self.assertEqual(versions, {"ingress": VERSION, "sequencer": OLDER,
                                    "deliverer-1": VERSION, "dlqd": None})
        for command in ("version", "status"):
            text = rig.cli_text(command).stdout
            self.assertIn(f"Mixed versions: this command is {VERSION}, but sequencer "
                          f"runs {OLDER}. Restart it with the installed version.", text)
        rig["sequencer"].program = None
        rig["sequencer"].restart()
        rig.start("dlqd")
        wait_for(lambda: not rig.cli("version")[0]["mixed"], what="one version")


main()
