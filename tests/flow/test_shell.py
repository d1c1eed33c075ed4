"""The command line explains itself: --help, manual pages, completion, and errors that name
the nearest word."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import BUILD, ROOT, RigTest, main, program
from terminal import Terminal

DAEMONS = ["ingress", "outbox", "reconcile", "sequencer", "deliverer", "dlqd", "console"]
PACKAGING = ROOT / "packaging"


def said(*words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=120,
                          **how)


class Shell(RigTest):
    def path(self, rig):
        """So that a shell finds our grapnel, and nothing of the user's."""
        folder = rig.folder / "bin"
        folder.mkdir(exist_ok=True)
        link = folder / "grapnel"
        if not link.exists():
            link.symlink_to(program("grapnel"))
        return {**os.environ, "PATH": f"{folder}:/usr/bin:/bin",
                "GRAPNEL_CONFIG": str(rig.config_path), **rig.env,
                "HOME": str(rig.folder), "ZDOTDIR": str(rig.folder)}

    def bash(self, rig, *words):
        """What bash completes, the last word under the cursor."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); _grapnel; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = said("bash", "--norc", "-c", script, "bash",
                    str(PACKAGING / "completion/grapnel.bash"), "grapnel",
                    *words, env=self.path(rig), cwd=rig.folder)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_every_command_and_program_explains_itself(self):
        help_all = said(program("grapnel"), "--help").stdout
        names = re.findall(r"^  ([a-z][a-z-]*)", help_all.split("Examples")[0],
                           re.M)
        self.assertGreater(len(set(names)), 15)
        for name in sorted(set(names)):
            done = said(program("grapnel"), name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"(?s)\nExamples\n.*grapnel {name}")
        for name in DAEMONS:
            done = said(program(f"grapnel-{name}"), "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"\nExamples\n  grapnel-{name} ")
            done = said(program(f"grapnel-{name}"), "--chekc")
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn("did you mean --check?", done.stderr)

    def test_man_pages_are_valid_and_match_help(self):
        pages = sorted((BUILD / "packaging").glob("grapnel*.[158]"))
        self.assertEqual([p.name for p in pages], sorted(
            ["grapnel.1", "grapnel.yaml.5", *(f"grapnel-{n}.8" for n in DAEMONS)]))
        for page in pages:
            with self.subTest(page.name):
                day = re.search(r'"(\d{4}-\d\d-\d\d)"', page.read_text())[1]
                made = said(*([program("grapnel"), "--man", page.stem]
                              if page.suffix == ".5"
                              else [program(page.stem), "--man"]))
                self.assertEqual(made.stdout.replace(
                    re.search(r'"(\d{4}-\d\d-\d\d)"', made.stdout)[1], day, 1),
                    page.read_text())
                self.assertTrue(page.read_text().isascii())
                lint = said("mandoc", "-T", "lint", "-W", "warning", str(page))
                self.assertEqual((lint.returncode, lint.stdout), (0, ""))
        def page(name):
            made = said("mandoc", "-T", "ascii", str(BUILD / "packaging" / name))
            return re.sub(r".\x08", "", made.stdout)
        text = page("grapnel.1")
        for line in ["grapnel dlq retry ID... | --all", "--endpoint E",
                     "grapnel endpoints pause crm", "GRAPNEL_CONFIG",
                     "jq '.[] | select(.up | not)'"]:  # to be copied
            self.assertIn(line, text)
        text = page("grapnel.yaml.5")
        for line in ["  sources[].order", "give_up_after duration",
                     "- {name: plane-recommended"]:
            self.assertIn(line, text)

    def test_each_alert_is_documented(self):
        rig = self.rig()
        names = self.bash(rig, "alerts", "test", "")
        self.assertIn("dlq-critical", names)
        kinds = re.findall(r'"([a-z_0-9]+)", [A-Z]+, "',
                           (ROOT / "lib/settings/alert_kinds.h").read_text())
        self.assertGreater(len(kinds), 15)
        table = (ROOT / "docs/OPERATIONS.md").read_text()
        table = table[table.index("## When an alert comes"):]
        rules = (ROOT / "lib/config/settings_alerts.c").read_text()
        built_in = re.findall(r"when: ([a-z_0-9]+)", rules)
        told = set(re.findall(r"`([a-z_0-9-]+)`", table))
        self.assertEqual(set(names) - told, set())
        self.assertEqual(set(kinds) - set(built_in) - told, set())

    def test_completions_and_man_pages_are_installed(self):
        rig = self.rig()
        done = said("cmake", "--install", str(BUILD), "--prefix",
                    str(rig.folder / "usr"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in ["bin/grapnel", "bin/grapnel-ingress",
                     "share/man/man1/grapnel.1",
                     "share/man/man5/grapnel.yaml.5",
                     "share/man/man8/grapnel-deliverer.8",
                     "share/bash-completion/completions/grapnel",
                     "share/zsh/site-functions/_grapnel",
                     "share/doc/grapnel/examples/grapnel.yaml"]:
            self.assertTrue((rig.folder / "usr" / path).exists(), path)

    def test_bash_completes_words_and_names(self):
        """Words of the command line; names from the running system, or from the
        configuration when no process runs."""
        rig = self.rig()
        self.assertIn("trace", self.bash(rig, "t"))
        self.assertEqual(self.bash(rig, "dlq", "re"), ["retry", "resolve"])
        self.assertEqual(self.bash(rig, "dlq", "--wo"), ["--workspace"])
        self.assertEqual(self.bash(rig, "dlq", "--state", "rec"),
                         ["recovered"])
        self.assertEqual(self.bash(rig, "endpoints", "pause", ""), ["crm"])
        self.assertEqual(self.bash(rig, "retry-plan", "plane-"),
                         ["plane-recommended"])
        self.assertEqual(self.bash(rig, "events", "--source", "=", "p"),
                         ["plane"])
        self.assertEqual(self.bash(rig, "check", "-c", "grap"),
                         ["grapnel.yaml"])
        self.assertEqual(self.bash(rig, "trace", ""), [])
        rig.start()
        # What runs knows what the file does not say any more.
        rig.config["endpoints"].append(rig.endpoint("crm-new"))
        rig.write_config()
        self.assertEqual(self.bash(rig, "endpoints", "pause", ""), ["crm"])
        event = rig.accept(rig.plane_body("acme"))
        rig.wait_status(event)
        self.assertEqual(self.bash(rig, "trace", "evt_"), [event])
        self.assertEqual(self.bash(rig, "workspaces", "a"), ["acme"])
        self.assertEqual(self.bash(rig, "send", ""), ["plane"])
        rig["sequencer"].pause()  # the others know the names, too
        self.assertEqual(self.bash(rig, "endpoints", "pause", "cr"), ["crm"])
        rig["sequencer"].resume()

    def test_zsh_completes_words_and_names(self):
        rig = self.rig()
        env = self.path(rig)
        rig.env = {k: env[k] for k in ("PATH", "HOME", "ZDOTDIR",
                                       "GRAPNEL_CONFIG", "PLANE_SECRET")}
        (rig.folder / ".zshrc").write_text(
            f"fpath=({PACKAGING}/completion $fpath)\n"
            "autoload -U compinit && compinit -u -D\nPROMPT='ready> '\n")
        shell = Terminal(rig, command=["zsh", "-i"])
        self.addCleanup(shell.close)
        shell.wait("^ready>")
        shell.press("grapnel endpoints pau\t")
        shell.wait("grapnel endpoints pause ")
        shell.press("\t")
        shell.wait("grapnel endpoints pause crm")
        shell.press("\x15grapnel dlq re\t\t")
        shell.wait("retry +-- deliver dead letters again")
        shell.press("\x15grapnel events --source=p\t")
        shell.wait("grapnel events --source=plane")
        shell.press("\x15exit\n")
        shell.wait_exit()

    def test_an_error_names_the_nearest_word(self):
        rig = self.rig(console=True).start()
        event = rig.accept()
        rig.wait_status(event)
        for words, hint, code in [
                (["trace", event[:-3]], f"did you mean {event}?", 1),
                (["stauts"], "did you mean status?", 64),
                (["help"], "did you mean --help?", 64),
                (["dlq", "shwo", "x"], "did you mean show?", 64),
                (["endpoints", "puase", "crm"], "did you mean pause?", 64),
                (["gaps", "clsoe", "gap_1", "--note", "x"],
                 "did you mean close?", 64),
                (["events", "--worksapce", "w"], "did you mean --workspace?",
                 64),
                (["endpoints", "cmr"], "did you mean crm?", 1),
                (["endpoints", "pause", "crn"], "did you mean crm?", 1),
                (["endpoints", "test", "crn"], "did you mean crm?", 1),
                (["resend", "evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A", "--endpoint",
                  "cmr"], "did you mean crm?", 1),
                (["send", "plne"], "did you mean plane?", 1),
                (["check", "--provider", "githb"], "did you mean github?", 1),
                (["check", "--event", "/dev/null", "--source", "plan"],
                 "did you mean plane?", 64),
                (["retry-plan", "defualt"], "did you mean default?", 1),
                (["alerts", "test", "dlq-critcal"],
                 "did you mean dlq-critical?", 1),
                (["dlq", "--endpoint", "crn"], "did you mean crm?", 1),
                (["events", "--source", "plnae"], "did you mean plane?", 1)]:
            with self.subTest(words):
                done = rig.cli_text(*words)
                self.assertIn(hint, done.stderr)
                self.assertEqual(done.returncode, code, done.stderr)


main()
