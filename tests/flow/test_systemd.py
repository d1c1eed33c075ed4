"""The installed systemd units are right, and processes work under a real systemd in their
sandbox."""

import base64
import configparser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import booted
from engine_rig import Cluster
from postgres import programs
from rig import BUILD, PLANE_SECRET, ROOT, RigTest, main, wait_for

KINDS = ["ingress", "sequencer", "deliverer", "dlqd", "console"]
UNITS = [f"grapnel-{kind}{'@' * (kind == 'deliverer')}.service" for kind in KINDS]
MOST_EXPOSED = 2.0


def install(prefix, **env):
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix],
                          capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


class Several(dict):
    """A key that a unit says twice has both values."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and isinstance(self.get(key), list):
            value = self[key] + value
        super().__setitem__(key, value)


def parsed(path):
    unit = configparser.ConfigParser(strict=False, interpolation=None,
                                     dict_type=Several, delimiters=("=",))
    unit.optionxform = str
    unit.read(path)
    return unit


class Units(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="gr-units-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        install(cls.prefix)
        cls.folder = cls.prefix / "lib/systemd/system"

    def analyze(self, *words):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze: tools/deps test installs it")
        return subprocess.run(["systemd-analyze", *words], cwd=self.folder,
                              capture_output=True, text=True)

    def test_the_installed_units_are_those_of_the_tree(self):
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         sorted([*UNITS, "grapnel-outbox.service", "grapnel-reconcile.service", "grapnel.target"]))
        for at in ("lib/sysusers.d", "lib/tmpfiles.d"):
            self.assertTrue((self.prefix / at / "grapnel.conf").exists())

    def test_systemd_analyze_verifies_the_units(self):
        done = self.analyze("verify", "--man=no", *UNITS, "grapnel.target")
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_each_unit_has_a_low_exposure_score(self):
        for unit in UNITS:
            done = self.analyze("security", "--offline=true", "--no-pager", unit)
            level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
            self.assertLess(float(level.group(1)), MOST_EXPOSED, done.stdout)

    def test_exit_codes_decide_about_a_restart(self):
        """64 and 78 need a person, as the manual pages say; all others restart."""
        for unit in UNITS:
            service = parsed(self.folder / unit)["Service"]
            self.assertEqual(service["Restart"], "always")
            self.assertEqual(service["RestartPreventExitStatus"].split(), ["64", "78"])
            self.assertEqual(parsed(self.folder / unit)["Unit"]
                             ["StartLimitIntervalSec"], "0")

    def test_units_start_the_installed_programs(self):
        for kind, unit in zip(KINDS, UNITS):
            name = "deliverer-%i" if kind == "deliverer" else kind
            self.assertEqual(parsed(self.folder / unit)["Service"]["ExecStart"],
                             f"{self.prefix}/bin/grapnel-{kind} -n {name}")

    def test_no_unit_requires_another(self):
        for unit in UNITS:
            section = parsed(self.folder / unit)["Unit"]
            for key in ("Requires", "BindsTo", "Requisite"):
                self.assertNotIn(key, section)
            self.assertEqual("grapnel" in section.get("After", ""),
                             "deliverer" in unit)

    def test_the_target_has_all_units(self):
        also = parsed(self.folder / "grapnel.target")["Install"]["Also"].split()
        # The template, whose DefaultInstance is 1: Debian's deb-systemd-helper does not
        # know instances.
        self.assertEqual(sorted(also), sorted(UNITS))


class Booted(RigTest):
    def machine(self):
        machine = booted.Machine()
        self.addCleanup(machine.close)
        root = machine.path("/")
        install("/usr/local", DESTDIR=str(root))
        self.machine = machine
        for tool, conf in [("systemd-sysusers", "sysusers.d"),
                           ("systemd-tmpfiles", "tmpfiles.d")]:
            self.ok(tool, *(["--create"] if "tmpfiles" in tool else []),
                    f"/usr/local/lib/{conf}/grapnel.conf")
        self.rig_ = self.rig({
            "state_dir": "/var/lib/grapnel", "run_dir": "/run/grapnel",
            "log": {"errors": "/var/log/grapnel/errors.log"},
            "sources": [{"name": "plane", "provider": "plane",
                         "secrets": ["file:plane.secret", "${OLD_SECRET}",
                                     "file:${CREDENTIALS_DIRECTORY}/older"]}],
        }, console=True)
        rig = self.rig_
        # By name, so that it is looked up in the sandbox.
        rig.config["endpoints"][0]["url"] = \
            rig.receiver.url("/crm").replace("127.0.0.1", "localhost")
        rig.config["notifiers"] = [
            {"name": "page", "exec": ["/usr/local/bin/page"]},
            {"name": "chat", "webhook": rig.receiver.url("/chat"),
             "allow_private": True}]
        machine.path("/etc/grapnel").mkdir(exist_ok=True)
        machine.path("/etc/grapnel/plane.secret").write_text(PLANE_SECRET)
        self.ok("chown", "grapnel:", "/etc/grapnel/plane.secret")
        self.ok("chmod", "600", "/etc/grapnel/plane.secret")
        # Leaks are looked for with a call that the sandbox does not have.
        machine.path("/etc/grapnel/environment").write_text(
            "OLD_SECRET=0123456789abcdef\nASAN_OPTIONS=detect_leaks=0\n")
        older = machine.path("/etc/grapnel/older.secret")
        older.write_text("fedcba9876543210")
        older.chmod(0o600)  # and root's
        drop_in = machine.path("/etc/systemd/system/grapnel-.service.d")
        drop_in.mkdir()
        (drop_in / "secrets.conf").write_text(
            "[Service]\nLoadCredential=older:/etc/grapnel/older.secret\n")
        page = machine.path("/usr/local/bin/page")
        page.write_text("#!/bin/sh\ncat > /var/lib/grapnel/page.json\n")
        page.chmod(0o755)
        self.configure()
        self.ok("systemctl", "daemon-reload")
        return machine

    def configure(self, **change):
        self.machine.path("/etc/grapnel/grapnel.yaml").write_text(
            yaml.safe_dump({**self.rig_.config, **change}))

    def ok(self, *words):
        done = self.machine.run(*words)
        self.assertEqual(done.returncode, 0,
                         f"{words}: {done.stdout}{done.stderr}{self.journal()}")
        return done.stdout.strip()

    def grapnel(self, *words):
        return self.ok("runuser", "-u", "grapnel", "--", "/usr/local/bin/grapnel",
                       *words)

    def journal(self, *words):
        return self.machine.run("journalctl", "--no-pager", "-o", "cat", "-n", "100",
                                *words).stdout

    def property(self, unit, name):
        return self.ok("systemctl", "show", "-P", name, unit)

    def pid(self, unit):
        return int(self.property(unit, "MainPID"))

    def test_processes_work_in_the_sandbox(self):
        machine = self.machine()
        units = [unit.replace("@", "@1") for unit in UNITS]
        self.ok("systemctl", "enable", "--now", "grapnel.target")
        # Type=notify: it returned when all were ready.
        for unit in units:
            self.assertEqual(self.property(unit, "ActiveState"), "active", unit)
            wait_for(lambda: self.property(unit, "StatusText"), what="a status")
        self.assertIn("accepting events",
                      self.property("grapnel-ingress.service", "StatusText"))
        for unit in units:
            status = machine.path(f"/proc/{self.pid(unit)}/status").read_text()
            self.assertIn("Seccomp:\t2", status)
            self.assertIn("NoNewPrivs:\t1", status)
            self.assertRegex(status, r"CapEff:\t0+\n")
        run = machine.path("/run/grapnel")
        self.assertEqual(run.stat().st_mode & 0o7777, 0o700)

        with self.subTest("an event is delivered"):
            event = self.rig_.accept()
            self.rig_.receiver.wait(event)
        with self.subTest("notifiers"):
            self.grapnel("alerts", "test", "page")
            self.assertIn("alerts", json.loads(
                machine.path("/var/lib/grapnel/page.json").read_text()))
            self.grapnel("alerts", "test", "chat")
            self.rig_.receiver.wait(path="/chat")
        with self.subTest("a backup, a verification"):
            self.grapnel("backup", "/var/backups/grapnel/now")
            names = {p.name for p in
                     machine.path("/var/backups/grapnel/now").iterdir()}
            self.assertLessEqual({"ingress.db", "sequencer.db", "dlqd.db",
                                  "deliverer-1.db", "console.db"}, names)
            self.grapnel("verify")
        with self.subTest("errors are in the file"):
            self.ok("test", "-f", "/var/log/grapnel/errors.log")
        with self.subTest("a reload, and one that is refused"):
            self.ok("systemctl", "reload", *units)
            for unit in units:
                wait_for(lambda: "configuration reloaded" in
                         self.journal("-u", unit), what="a reload")
                wait_for(lambda: self.property(unit, "ActiveState") == "active")
            self.configure(nonsense=True)
            self.machine.run("systemctl", "reload", *units)
            for unit in units:
                wait_for(lambda: "keeps the old one" in self.journal("-u", unit))
                wait_for(lambda: self.property(unit, "ActiveState") == "active")
        with self.subTest("an exit code that no restart mends"):
            self.machine.run("systemctl", "restart", "grapnel-dlqd.service")
            wait_for(lambda: self.property("grapnel-dlqd.service", "ActiveState")
                     == "failed")
            self.assertEqual(self.property("grapnel-dlqd.service",
                                           "ExecMainStatus"), "78")
            self.assertEqual(self.property("grapnel-dlqd.service", "NRestarts"), "0")
            # It took no socket of another with it.
            self.ok("test", "-S", "/run/grapnel/ingress.control")
            self.configure()
            self.ok("systemctl", "start", "grapnel-dlqd.service")
        with self.subTest("one that is killed comes again"):
            before = self.pid("grapnel-sequencer.service")
            os.kill(self.outside(before), 9)
            wait_for(lambda: self.pid("grapnel-sequencer.service")
                     not in (0, before) and self.property(
                         "grapnel-sequencer.service", "ActiveState") == "active",
                     60, "a new sequencer")
            event = self.rig_.accept()
            self.rig_.receiver.wait(event, timeout=60)
        with self.subTest("another deliverer"):
            self.ok("systemctl", "enable", "--now", "grapnel-deliverer@2.service")
            self.assertIn("deliverer-2", self.grapnel("status"))
        with self.subTest("another ingress, as the document has it"):
            text = (ROOT / "docs/OPERATIONS.md").read_text()
            self.ok("sh", "-ec", re.search(
                r"another ingress process \| `(.*?)`, ", text).group(1))
            self.ok("systemctl", "daemon-reload")
            self.ok("systemctl", "enable", "--now", "grapnel-ingress-2.service")
            self.assertIn("ingress-2", self.grapnel("health", "ingress-2"))
            units.append("grapnel-ingress-2.service")
        with self.subTest("a port below 1024, as the document has it"):
            drop_in = machine.path("/etc/systemd/system/grapnel-ingress-2.service.d")
            drop_in.mkdir()
            lines = re.search(r"a port below 1024 \|.*?`(Amb.*?)` and `(Cap.*?)`",
                              text).groups()
            (drop_in / "port.conf").write_text("[Service]\n" + "\n".join(lines))
            self.ok("systemctl", "daemon-reload")
            self.ok("systemctl", "restart", "grapnel-ingress-2.service")
            pid = self.pid("grapnel-ingress-2.service")
            self.assertRegex(machine.path(f"/proc/{pid}/status").read_text(),
                             r"CapEff:\t0+400\n")  # CAP_NET_BIND_SERVICE alone
        with self.subTest("the end"):
            units.append("grapnel-deliverer@2.service")
            self.ok("systemctl", "stop", "grapnel.target")
            for unit in units:
                wait_for(lambda: self.property(unit, "ActiveState") == "inactive",
                         60, f"the end of {unit}")
                self.assertEqual(self.property(unit, "Result"), "success")
                self.assertEqual(self.property(unit, "ExecMainStatus"), "0")

    def outside(self, pid):
        """The number of a process in there, as this machine has it."""
        for path in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                found = re.search(r"NSpid:\t(.*)", path.read_text())
            except OSError:
                continue
            if found and found.group(1).split()[1:] == [str(pid)]:
                return int(path.parts[2])
        raise AssertionError(f"no process {pid}")

    @unittest.skipUnless(programs(), "PostgreSQL is not installed")
    def test_the_network_of_the_document_reaches_a_replication_database(self):
        """The units give the sequencer and dlqd no network; what CLUSTER says gives it to them."""
        engine = Cluster(standbys=1)
        self.addCleanup(engine.close)
        machine = self.machine()
        key = machine.path("/etc/grapnel/replicate.key")
        key.write_text(base64.b64encode(os.urandom(32)).decode())
        self.ok("chown", "grapnel:", "/etc/grapnel/replicate.key")
        self.ok("chmod", "600", "/etc/grapnel/replicate.key")
        self.configure(cluster={"host": "hub-1"},
                       replicate={"database": engine.relay(engine.primary).uri,
                                  "key": "file:replicate.key"})
        apart = "grapnel-sequencer.service", "grapnel-dlqd.service"
        with self.subTest("without it"):
            self.ok("systemctl", "start", *apart)
            for unit in apart:
                wait_for(lambda u=unit: "replication database cannot be reached" in self.journal("-u", u))
            self.ok("systemctl", "stop", *apart)
        text = (ROOT / "docs/CLUSTER.md").read_text()
        commands = re.search(r"```sh\n(for name in sequencer dlqd;.*?)```", text, re.S)
        self.ok("sh", "-ec", commands.group(1))
        for unit in apart:
            done = machine.run("systemd-analyze", "verify", "--man=no", unit)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            self.assertEqual(self.property(unit, "PrivateNetwork"), "no")
            self.assertEqual(self.property(unit, "IPAddressDeny"), "")
            self.assertEqual(set(self.property(unit, "RestrictAddressFamilies").split()),
                             {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"})
        self.grapnel("replicate", "begin")
        self.ok("systemctl", "enable", "--now", "grapnel.target")
        for unit in apart:
            wait_for(lambda u=unit: self.property(u, "StatusText") and
                     "standby" not in self.property(u, "StatusText"), 60, f"{unit} to be active")
        wait_for(lambda: self.machine.run("runuser", "-u", "grapnel", "--", "/usr/local/bin/grapnel",
                                          "status").returncode == 0, 60, "all processes")
        event = self.rig_.accept()
        self.rig_.receiver.wait(event, timeout=60)
        self.ok("systemctl", "stop", "grapnel.target")

    def test_a_hanging_loop_is_killed_and_started_again(self):
        machine = self.machine()
        drop_in = machine.path("/etc/systemd/system/grapnel-.service.d")
        (drop_in / "watchdog.conf").write_text("[Service]\nWatchdogSec=2s\n")
        self.ok("systemctl", "daemon-reload")
        unit = "grapnel-deliverer@1.service"
        self.ok("systemctl", "start", unit)
        self.assertEqual(self.property(unit, "WatchdogUSec"), "2s")
        before = self.pid(unit)
        os.kill(self.outside(before), 19)
        wait_for(lambda: self.pid(unit) not in (0, before) and
                 self.property(unit, "ActiveState") == "active", 60,
                 "another process")
        self.assertIn("watchdog", self.journal("-u", unit, "-t", "systemd").lower())
        self.ok("systemctl", "stop", unit)


main()
