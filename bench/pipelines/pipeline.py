"""What all pipelines of bench/peers share: the rig with the receiver, processes, programs,
and source code.

A pipeline is a class with these members; each object of it is one run in a new folder.

  name           the title of its column
  packages       {program: Debian package}, of what it needs; see require()
  install()      builds or installs what is missing, or exits with a message
  versions()     what was measured, for the first line of the output
  url            where rig-load posts
  load_options   further options of rig-load
  folder         where it stores events
  start()        returns when it accepts events
  processes      set by start(): what it runs, each of them with its children
  close()        stops all and removes the folders
"""
import os
import pathlib
import shutil
import subprocess
import sys

import rig as rigs

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers"


def require(packages):
    """`packages` is {program: Debian package}."""
    for program in packages:
        if not shutil.which(program):
            needed = " ".join(dict.fromkeys(packages.values()))
            sys.exit(f"{program} is missing: apt-get install {needed}")


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout.strip()


class Pipeline:
    load_options = {}

    def __init__(self, in_flight):
        self.rig = rigs.Rig()
        self.in_flight = in_flight

    def part(self, name, *command, **env):
        """Starts a process of this pipeline, with more environment variables."""
        process = rigs.Process(self.rig, name, [str(word) for word in command])
        self.rig.others.append(process)
        return process.spawn({key: str(value) for key, value in env.items()})

    def responds(self, process, port, path):
        """Is `path` served? Fails if the process has ended."""
        assert process.alive, process.log()
        try:
            return rigs.http_request(port, "GET", path)[0] == 200
        except OSError:
            return False

    def close(self):
        self.rig.close()


class FromSource:
    """A peer that is written in Go: builds `programs` {name: package} of its source."""

    def __init__(self, repository, commit, programs):
        self.repository, self.commit, self.programs = repository, commit, programs
        self.folder = PEERS / "src" / repository.rpartition("/")[2]

    def program(self, name):
        return PEERS / "bin" / name

    def build(self):
        if not shutil.which("go"):
            sys.exit("go is missing: install Go 1.21 or newer (golang-go of bookworm-backports), "
                     "which downloads the version that the peer's go.mod names")
        if not self.folder.exists():
            folder = os.path.relpath(self.folder)
            sys.exit(f"{folder} is missing: git clone {self.repository} {folder} && "
                     f"git -C {folder} checkout {self.commit}")
        for name, package in self.programs.items():
            subprocess.run(["go", "build", "-o", self.program(name), package],
                           cwd=self.folder, check=True)

    def version(self):
        return printed("git", "-C", str(self.folder), "describe", "--tags", "--always")
