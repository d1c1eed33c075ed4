"""The same commit gives the same bytes, wherever and whenever it is built."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from built import copy_sources, package
from rig import ROOT, main
from roots import run

# With it whole packages are compared: it takes a second build of everything.
WHOLE = os.environ.get("GRAPNEL_WHOLE")


def epoch():
    """As tools/package takes it from the commit; a copy of the sources has no commit."""
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "log", "-1",
                           "--format=%ct"], capture_output=True, text=True)
    return done.stdout.strip() or str(int((ROOT / "CMakeLists.txt").stat().st_mtime))


class Reproducible(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gr-another-place-")
        self.addCleanup(folder.cleanup)
        self.copy = pathlib.Path(folder.name, "a", "longer", "path")
        copy_sources(self.copy)
        for path in self.copy.rglob("*"):  # all files are from another time
            os.utime(path, (1700000000, 1700000000))

    def build(self, *target):
        env = {**os.environ, "SOURCE_DATE_EPOCH": epoch(), "TZ": "Asia/Tokyo",
               "LANG": "C", "CCACHE_DISABLE": "1"}
        made = subprocess.run([self.copy / "tools" / "package", *target], env=env,
                              capture_output=True, text=True, umask=0o027)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        return [self.copy / line for line in made.stdout.split()]

    def test_a_program_has_the_same_bytes_in_another_place(self):
        name = "grapnel-dlqd"
        program, = self.build(name)
        with tempfile.TemporaryDirectory() as unpacked:
            run("dpkg-deb", "-x", package()[0], unpacked)
            self.assertEqual(self.build_id(program),
                             self.build_id(f"{unpacked}/usr/bin/{name}"))

    def build_id(self, program):
        """The linker's hash of all that it wrote, symbols with their paths included."""
        return re.search("Build ID: ([0-9a-f]{40})", run("readelf", "-n", program))[1]

    def test_files_of_the_package_have_the_time_of_the_commit(self):
        for deb in package():
            members = run("ar", "tv", deb, env={**os.environ, "TZ": "UTC0"})
            date = run("date", "-u", "-d", f"@{epoch()}", "+%b %e %H:%M %Y").strip()
            self.assertEqual(members.count(date), 3, members)
            listed = run("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | '
                         "tar -t -v --full-time --numeric-owner", deb,
                         env={**os.environ, "TZ": "UTC0"})
            date = run("date", "-u", "-d", f"@{epoch()}", "+%F %T").strip()
            for line in listed.splitlines():
                self.assertIn(" 0/0 ", line)
                self.assertIn(date, line)

    @unittest.skipUnless(WHOLE, "GRAPNEL_WHOLE=1 compares whole packages")
    def test_packages_have_the_same_bytes(self):
        for here, there in zip(sorted(package()), sorted(self.build())):
            self.assertEqual(here.name, there.name)
            self.assertTrue(here.read_bytes() == there.read_bytes(),
                            f"{here.name} has other bytes")


main()
