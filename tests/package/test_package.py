"""The Debian package: lintian, installation, start, upgrade, removal and purge in a fresh
root."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import booted
import roots
from built import copy_sources, of_version, package
from rig import RigTest, SIGNING_SECRET, http_request, main, wait_for

KINDS = ["ingress", "sequencer", "deliverer", "dlqd", "console"]
UNITS = ["grapnel-ingress.service", "grapnel-sequencer.service",
         "grapnel-deliverer@1.service", "grapnel-dlqd.service",
         "grapnel-console.service"]
CONFIG = "/etc/grapnel/grapnel.yaml"
SUITES = os.environ.get("GRAPNEL_SUITES", roots.SUITE).split()
# What stays after a purge (docs/OPERATIONS.md, Debian package), below /.
KEPT = ["/etc/grapnel", "/var/backups/grapnel", "/var/lib/grapnel"]


def setUpModule():
    roots.require()


class Processes:
    """One of each process in a root, started as the units start them."""

    def __init__(self, test, root, port):
        self.test, self.root, self.port = test, root, port
        self.children = {}

    def start(self):
        run_dir = self.root / "/run/grapnel"
        if not run_dir.exists():  # RuntimeDirectory= of the units
            self.root.run("install", "-d", "-m", "0700", "-o", "grapnel", "-g",
                          "grapnel", "/run/grapnel")
        for kind in KINDS:
            name = "deliverer-1" if kind == "deliverer" else kind
            self.children[name] = subprocess.Popen(
                self.root.command(f"/usr/bin/grapnel-{kind}", "-n", name,
                                  user="grapnel"),
                env=self.root.environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=self.test.log)
            self.test.addCleanup(self.end, self.children[name])
        wait_for(self.ready, 30, "the processes to be ready")

    def end(self, child):
        child.kill()
        child.wait()

    def ready(self):
        for name, child in self.children.items():
            self.test.assertIsNone(child.poll(), f"{name} ended")
        with contextlib.suppress(OSError):
            return http_request(self.port, "GET", "/readyz")[0] == 200 and \
                subprocess.run(self.root.command("grapnel", "status"),
                               env=self.root.environment(),
                               capture_output=True).returncode == 0
        return False

    def stop(self):
        for child in self.children.values():
            child.terminate()
        codes = {name: child.wait(60) for name, child in self.children.items()}
        self.children = {}
        self.test.assertEqual(set(codes.values()) - {0}, set(), codes)


class Package(RigTest):
    def test_lintian_finds_neither_errors_nor_warnings(self):
        for deb in package():
            found = subprocess.run(
                ["lintian", "--allow-root", "--fail-on", "error,warning", deb],
                capture_output=True, text=True)
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
            self.assertNotRegex(found.stdout, "(?m)^[EW]:")

    def test_the_package_is_installed_upgraded_and_purged(self):
        for suite in SUITES:
            with self.subTest(suite=suite):
                self.generation(suite)

    def generation(self, suite):
        rig = self.rig()
        self.log = self.enterContext(open(rig.folder / "processes.log", "ab"))
        self.addCleanup(self.show_log, rig.folder / "processes.log")
        try:
            root = self.enterContext(roots.DebianRoot(suite))
        except LookupError as error:
            self.skipTest(f"{suite}: {error}")
        deb = package()[0] if suite == roots.SUITE else self.built_in(suite, rig.folder)
        older = of_version(deb, "0.0.9-1", rig.folder, self.another_default)
        ports = {8080: rig.ingress_port, 8081: rig.ports.take(), 7464: rig.ports.take()}

        root.install(older)
        self.check_installed(root)
        self.use_ports(root, ports)
        port = rig.ingress_port
        processes = Processes(self, root, port)
        processes.start()  # with a configuration in which nothing is said yet
        self.assertEqual(http_request(port, "GET", "/healthz")[0], 200)
        self.assertEqual(http_request(port, "POST", "/in/github", b"{}")[0], 404)
        processes.stop()

        self.edit(root, rig.receiver.url("/hooks"))
        processes.start()
        first = self.send(root)
        rig.receiver.wait(first, path="/hooks")
        rig.receiver.rules({"path": "/hooks", "responses": [{"status": 503}]})
        second = self.send(root)
        rig.receiver.wait(second)
        edited = (root / CONFIG).read_text()

        root.install(deb, "-o", "Dpkg::Options::=--force-confold")
        self.assertEqual((root / CONFIG).read_text(), edited)
        self.assertTrue((root / f"{CONFIG}.dpkg-dist").exists())
        self.assertNotIn("0.0.9", root.run("dpkg-query", "-W", "grapnel"))
        processes.stop()  # systemd would have restarted them
        rig.receiver.rules({"path": "/hooks", "responses": [{"status": 200}]})
        processes.start()
        subprocess.run(root.command("grapnel", "retry", second),
                       env=root.environment())  # it fails if the delivery was due first
        wait_for(lambda: second in rig.receiver.delivered("/hooks"), 30,
                 "the event from before the upgrade")
        self.assertIn("delivered", root.run("grapnel", "trace", first))
        processes.stop()

        self.check_removed(root, deb)

    def show_log(self, path):
        if self._failed():
            print(path.read_text(), file=sys.stderr)

    def another_default(self, unpacked):
        """The older version's configuration file said something else."""
        with open(unpacked / CONFIG.lstrip("/"), "a") as config:
            config.write("# An older default.\n")

    def check_installed(self, root):
        user = root.run("getent", "passwd", "grapnel")
        self.assertIn("/var/lib/grapnel", user)
        self.assertIn("nologin", user)
        for path, expected in [("/var/lib/grapnel", "700 grapnel grapnel"),
                               ("/var/backups/grapnel", "700 grapnel grapnel"),
                               ("/etc/grapnel/secrets", "750 root grapnel"),
                               (CONFIG, "644 root root")]:
            self.assertEqual(root.run("stat", "-c", "%a %U %G", path).strip(),
                             expected, path)
        self.assertEqual(root.run("dpkg", "--verify", "grapnel"), "")
        root.run("grapnel", "check")
        wants = root / "/etc/systemd/system/grapnel.target.wants"
        self.assertEqual(
            {path.name for path in wants.iterdir()},
            {"grapnel-deliverer@1.service",
             *(f"grapnel-{kind}.service" for kind in KINDS if kind != "deliverer")})
        self.assertTrue(
            (root / "/etc/systemd/system/multi-user.target.wants/grapnel.target")
            .is_symlink())

    def use_ports(self, root, ports):
        """Ports that no other test uses, instead of the installed ones."""
        text = (root / CONFIG).read_text()
        for installed, free in ports.items():
            text = text.replace(f":{installed}", f":{free}")
        (root / CONFIG).write_text(text)

    def edit(self, root, url):
        """What the file's own comments ask for, for an application on this machine."""
        for name, secret in [("github", "a-secret"), ("app", SIGNING_SECRET)]:
            (root / f"/etc/grapnel/secrets/{name}").write_text(secret)
            root.run("chgrp", "grapnel", f"/etc/grapnel/secrets/{name}")
            root.run("chmod", "0640", f"/etc/grapnel/secrets/{name}")
        text = (root / CONFIG).read_text()
        for block in ("sources", "endpoints"):
            start = text.index(f"# {block}:\n")
            end = text.index("\n\n", start)
            lines = text[start:end].split("\n")
            text = text[:start] + "\n".join(
                line.removeprefix("# ") for line in lines) + text[end:]
        text = text.replace("http://127.0.0.1:3000/hooks", url)
        self.assertIn(url, text)
        (root / CONFIG).write_text(text)
        self.assertIn("no errors", root.run("grapnel", "check"))

    def send(self, root):
        said = root.run("grapnel", "send", "github", "--json")
        return re.search(r"evt_[0-9A-Za-z_-]+", said)[0]

    def check_removed(self, root, deb):
        root.run("install", "-d", "-o", "grapnel", "/var/log/grapnel")  # LogsDirectory=
        root.run("apt-get", "remove", "-y", "-q", "grapnel")
        self.assertFalse((root / "/usr/bin/grapnel").exists())
        self.assertTrue((root / CONFIG).exists())
        self.assertTrue((root / "/var/lib/grapnel/sequencer.db").exists())
        root.run("apt-get", "purge", "-y", "-q", "grapnel")
        self.assertFalse((root / CONFIG).exists())
        self.assertTrue((root / "/var/lib/grapnel/sequencer.db").exists())
        (root / "/var/backups/grapnel").mkdir(exist_ok=True)
        left = [path for path in root.named("grapnel")
                if not path.startswith("/run/")]
        self.assertEqual(left, KEPT)
        # The files of the user, deleted by hand as documented; then nothing is left.
        for path in KEPT:
            shutil.rmtree(root / path)
        root.run("dpkg", "-i", f"/tmp/{deb.name}")
        root.run("dpkg", "--purge", "grapnel")
        self.assertEqual([path for path in root.named("grapnel")
                          if not path.startswith("/run/")], [])

    def built_in(self, suite, folder):
        """The package of another release, built there by tools/package."""
        with roots.DebianRoot(suite) as root:
            copy_sources(root / "/src")
            root.run("sh", "-c", "cd /src && tools/package", SOURCE_DATE_EPOCH="0")
            made, = (root / "/src/build/package").glob("grapnel_*.deb")
            kept = folder / made.name
            shutil.copyfile(made, kept)
            return kept


class Booted(RigTest):
    """With a systemd, of the test's own: what installation, upgrade and removal start
    and stop."""

    def ok(self, *words):
        done = self.machine.run(*words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def dpkg(self, *words):
        return self.ok("dpkg", "--force-confold", *words)

    def pids(self):
        """{unit: pid} of those that run."""
        pids = {unit: self.ok("systemctl", "show", "-P", "MainPID", unit).strip()
                for unit in UNITS}
        return {unit: pid for unit, pid in pids.items() if pid != "0"}

    def test_processes_start_restart_and_stop_with_the_package(self):
        self.machine = booted.Machine()
        self.addCleanup(self.machine.close)
        rig = self.rig()
        deb = package()[0]
        older = of_version(deb, "0.0.9-1", rig.folder)
        for path in (deb, older):
            shutil.copyfile(path, self.machine.path("/tmp") / path.name)
        self.machine.path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)
        config = self.machine.path("/etc/grapnel")
        config.mkdir()
        (config / "grapnel.yaml").write_text(
            f"state_dir: /var/lib/grapnel\nrun_dir: /run/grapnel\n"
            f"ingress: {{listen: '127.0.0.1:{rig.ingress_port}'}}\n"
            f"console: {{listen: '127.0.0.1:{rig.ports.take()}'}}\n"
            f"metrics: {{publish: 'tcp://127.0.0.1:{rig.ports.take()}'}}\n")

        self.dpkg("-i", f"/tmp/{older.name}")
        first = self.pids()
        self.assertEqual(set(first), set(UNITS))
        self.assertEqual(http_request(rig.ingress_port, "GET", "/healthz")[0], 200)
        self.dpkg("-i", f"/tmp/{deb.name}")
        second = self.pids()
        self.assertEqual(set(second), set(UNITS))
        self.assertFalse(set(first.values()) & set(second.values()))

        self.ok("systemctl", "disable", "--now", "grapnel-console.service")
        self.dpkg("-i", f"/tmp/{deb.name}")  # what is disabled stays so
        self.assertEqual(set(self.pids()), set(UNITS) - {"grapnel-console.service"})

        self.dpkg("--remove", "grapnel")
        self.assertEqual(self.pids(), {})
        self.dpkg("--purge", "grapnel")
        self.assertEqual(
            [*self.machine.path("/etc/systemd/system").rglob("*grapnel*")], [])


main()
