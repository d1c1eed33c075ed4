"""What all pipelines of bench/peers share: the rig with the receiver, processes, programs,
and source code.

A pipeline is a class with these members; each object of it is one run in a new folder.

  name          the title of its column
  install()     of a peer: builds or installs it, or exits and says what is missing
  versions()    of a peer: what is measured
  url           where rig-load posts
  load_options  further options of rig-load
  folder        where it stores events
  start()       returns when it accepts events
  processes     set by start(): what it runs, without their children
  close()       stops all and removes the folders
"""
import pathlib
import re
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


def go_is_new():
    """1.21 or newer, which downloads the version that a module asks for."""
    version = re.match(r"go1\.(\d+)", printed("go", "env", "GOVERSION"))
    return not version or int(version[1]) >= 21


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
        if not shutil.which("go") or not go_is_new():
            sys.exit("go is missing or older than 1.21 (Debian 12 has 1.19): install a newer one, "
                     "which then downloads the version that the peer asks for")
        if not self.folder.exists():
            sys.exit(f"{self.folder} is missing: git clone {self.repository} {self.folder} && "
                     f"git -C {self.folder} checkout {self.commit}")
        commit = printed("git", "-C", str(self.folder), "rev-parse", "HEAD")
        if commit != self.commit:
            print(f"{self.folder} is at {commit}; the figures in bench/README.md are of {self.commit}", flush=True)
        for name, package in self.programs.items():
            done = subprocess.run(["go", "build", "-o", self.program(name), package],
                                  cwd=self.folder)
            if done.returncode:
                sys.exit(f"go build {package} failed in {self.folder}")

    def version(self):
        return printed("git", "-C", str(self.folder), "describe", "--tags", "--always")
