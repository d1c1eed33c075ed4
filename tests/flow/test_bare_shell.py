"""Commands from a shell without secrets, as cron and `ssh host grapnel status` have, and
with errors in the configuration."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import PLANE_SECRET, RigTest, main, program, wait_for

# An unset variable, an unknown key, a value of the wrong type, and, at the end,
# something that is not YAML.
FAULTS = """
console:
  tokens: ["${GRT_NOT_SET}"]
routes: 7
no_such_key: 1
notifiers: [{name: ops, webhook: "http://x
"""


class BareShell(RigTest):
    def pipeline(self):
        """One that runs, with an event and a dead letter, beside a file that
        got worse since."""
        rig = self.rig({"metrics": {"interval": "200ms"}}, console=True)
        rig.config["endpoints"].append(rig.endpoint("books"))
        rig.write_config()
        rig.receiver.rules({"path": "/books", "responses": [{"status": 400}]})
        rig.start()
        event = rig.accept()
        rig.wait_status(event)
        wait_for(lambda: rig.cli("dlq")[0], what="a dead letter")
        rig.good = rig.config_path.read_text()
        rig.config_path.write_text(rig.good + FAULTS)
        del rig.env["PLANE_SECRET"]
        return rig, event

    def works(self, rig, *args, code=0, **how):
        with self.subTest(" ".join(args)):
            said = rig.cli_text(*args, **how)
            self.assertEqual(said.returncode, code, said.stderr)
            return said

    def test_commands_need_only_run_dir(self):
        """P10: commands that ask running processes need no secret, and ignore
        errors elsewhere in the file."""
        rig, event = self.pipeline()
        dead_letter, = rig.cli("dlq")[0]
        for line in ("status", "events", "deliveries", "endpoints", "gaps",
                     "endpoints crm", "workspaces", "dlq", "dlq stats",
                     f"dlq show {dead_letter['id']}", "rejects", "rejects --source -",
                     "alerts", "alerts --limit 3", "metrics --once",
                     "top --once", f"trace {event}", "events --source plane",
                     "deliveries --endpoint crm", "endpoints pause crm",
                     "endpoints resume crm", f"resend {event} --endpoint crm",
                     "replay --since 1h --endpoint crm --dry-run",
                     "dlq retry --all --endpoint books", "backup copy"):
            self.works(rig, *line.split())
        with self.subTest("a slip in a name is still pointed out"):
            for line in (f"resend {event} --endpoint cmr",
                         "replay --since 1h --endpoint cmr",
                         "dlq retry --all --to cmr"):
                said = self.works(rig, *line.split(), code=1)
                self.assertIn("did you mean crm?", said.stderr)
            said = self.works(rig, "rejects", "--source", "plan", code=1)
            self.assertIn("did you mean plane?", said.stderr)
        with self.subTest("completion"):
            for where in (("-c", str(rig.config_path)),
                          ("--run-dir", str(rig.run_dir))):
                self.assertIn("crm", self.words(*where, "endpoints", "c"))

    @staticmethod
    def words(*words):
        return subprocess.run([program("grapnel"), "--complete", *words],
                              capture_output=True, text=True, check=True,
                              timeout=60).stdout

    def test_run_dir_is_looked_up_in_a_fixed_order(self):
        """--run-dir, then the file named with -c, then $GRAPNEL_RUN_DIR, then
        the default file."""
        import os
        rig, _ = self.pipeline()
        none = str(rig.folder / "none.yaml")

        def run(*args, **env):
            clean = {k: v for k, v in os.environ.items()
                     if not k.startswith("GRAPNEL_")}
            return subprocess.run([program("grapnel"), "workspaces", *args],
                                  env={**clean, **env}, capture_output=True,
                                  text=True, timeout=60)
        here, away = str(rig.run_dir), str(rig.folder / "away")
        for args, env, code in (
                (["--run-dir", here], {}, 0),
                (["--run-dir", here, "-c", none], {"GRAPNEL_RUN_DIR": away}, 0),
                (["-c", str(rig.config_path)], {"GRAPNEL_RUN_DIR": away}, 0),
                ([], {"GRAPNEL_RUN_DIR": here, "GRAPNEL_CONFIG": none}, 0),
                ([], {"GRAPNEL_CONFIG": str(rig.config_path)}, 0),
                ([], {"GRAPNEL_RUN_DIR": away}, 69),
                (["-c", none], {"GRAPNEL_RUN_DIR": here}, 78)):
            with self.subTest(args=args, env=env):
                done = run(*args, **env)
                self.assertEqual(done.returncode, code, done.stderr)
        with self.subTest("where it is looked for is said"):
            self.assertIn(away, run(GRAPNEL_RUN_DIR=away).stderr)
            self.assertIn("--run-dir", run("-c", none).stderr)
        with self.subTest("run_dir itself is wrong"):
            rig.config_path.write_text("run_dir: '${GRT_NOT_SET}'\n")
            said = run("-c", str(rig.config_path))
            self.assertEqual(said.returncode, 78)
            self.assertIn("GRT_NOT_SET is not set", said.stderr)
            self.assertIn("--run-dir", said.stderr)

    def test_commands_with_secrets_need_only_their_own(self):
        """send reads sources, endpoints test reads endpoints, retry-plan reads
        policies; each reports what it lacks."""
        rig, _ = self.pipeline()
        secret = {"PLANE_SECRET": PLANE_SECRET}
        self.works(rig, "retry-plan", "default")
        self.works(rig, "endpoints", "test", "crm")
        self.works(rig, "send", "plane", env=secret)
        said = self.works(rig, "send", "plane", code=78)
        self.assertIn("PLANE_SECRET is not set", said.stderr)
        self.assertIn("send needs `sources`", said.stderr)
        said = self.works(rig, "send", "plain", code=1, env=secret)
        self.assertIn("did you mean plane?", said.stderr)
        rig.config_path.write_text(rig.good.replace(
            "endpoints:", "endpoints:\n- {name: x, url: '${GRT_URL}'}", 1))
        said = self.works(rig, "endpoints", "test", "crm", code=78)
        self.assertIn("GRT_URL is not set", said.stderr)
        self.assertIn("endpoints test needs `endpoints`", said.stderr)
        said = self.works(rig, "check", code=78, env=secret)
        self.assertIn("GRT_URL is not set", said.stderr)


main()
