"""An installation is complete and works from its prefix, under the installed supervisor
configuration."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import BUILD, ROOT, RigTest, main, processes_of, wait_for

KINDS = ["ingress", "sequencer", "deliverer", "dlqd", "console"]


class Install(RigTest):
    def install(self, rig):
        prefix = rig.folder / "prefix"
        done = subprocess.run(
            ["cmake", "--install", BUILD, "--prefix", prefix],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return prefix

    def test_grapnel_runs_from_a_fresh_prefix(self):
        rig = self.rig(console=True)
        prefix = self.install(rig)
        man = prefix / "share" / "man"
        for page in ["man1/grapnel.1", "man5/grapnel.yaml.5",
                     *(f"man8/grapnel-{kind}.8" for kind in KINDS)]:
            self.assertIn(".TH", (man / page).read_text())
        config = prefix / "share/grapnel/supervisord/grapnel.conf"
        self.assertEqual(
            config.read_text(),
            (ROOT / "packaging/supervisord/grapnel.conf").read_text())

        self.assertEqual(
            (prefix / "share/grapnel/prometheus/alerts.yml").read_text(),
            (ROOT / "packaging/prometheus/alerts.yml").read_text())

        rig.run_dir.mkdir(mode=0o700)
        logs = rig.folder / "logs"
        logs.mkdir()
        env = {**os.environ, **rig.env, "GRAPNEL_BIN": str(prefix / "bin"),
               "GRAPNEL_CONFIG": str(rig.config_path),
               "GRAPNEL_RUN_DIR": str(rig.run_dir),
               "GRAPNEL_LOG_DIR": str(logs), "GRAPNEL_STOP_SECONDS": "60",
               "GRAPNEL_MORE_PROGRAMS": ""}

        def run(*command):
            return subprocess.run(command, env=env, capture_output=True,
                                  text=True, cwd="/")

        def grapnel(*words):
            return run(prefix / "bin/grapnel", *words)

        done = run("/usr/bin/supervisord", "-c", config)
        self.addCleanup(shutil.rmtree, logs, ignore_errors=True)
        try:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            wait_for(lambda: grapnel("status").returncode == 0 and
                     rig.ingress_is_ready(), 30, "the installed pipeline")
            said = grapnel("send", "plane", "--json")
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            rig.receiver.wait(path="/crm")
            up = {row["process"] for row in
                  json.loads(grapnel("status", "--json").stdout)}
            self.assertEqual(up, {"ingress", "sequencer", "deliverer-1", "dlqd",
                                  "console"})
        finally:
            run("/usr/bin/supervisorctl", "-c", config, "shutdown")
            wait_for(lambda: not processes_of(prefix), 60, "its end")
        text = (logs / "supervisord.log").read_text()
        ends = [line.split("stopped: ")[1].split(" ")[0]
                for line in text.splitlines() if "stopped: " in line]
        self.assertEqual(ends, ["ingress", "deliverer-1", "sequencer", "dlqd",
                                "console"])
        self.assertEqual(text.count("(exit status 0)"), 5, text)

    def test_tools_up_builds_everything_that_is_installed(self):
        """By the targets that it names: no page or program may be missing."""
        up = (ROOT / "tools" / "up").read_text()
        targets = up.split("--target ")[1].split(")")[0].replace("\\", "").split()
        built = subprocess.run(
            ["ninja", "-C", BUILD, "-t", "commands", *targets],
            capture_output=True, text=True, check=True).stdout
        script = (BUILD / "cmake_install.cmake").read_text() + \
            (BUILD / "packaging" / "cmake_install.cmake").read_text()
        wanted = [word for word in script.split('"')
                  if word.startswith(f"{BUILD.resolve()}/") and
                  "$" not in word and not word.endswith((".txt", ".cmake"))]
        self.assertIn(str(BUILD.resolve() / "bin" / "grapnel"), wanted)
        for path in wanted:
            self.assertTrue(path in built or f" -o {os.path.relpath(path, BUILD)} "
                            in built, path)


main()
