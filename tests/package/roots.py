"""Roots of Debian and Ubuntu for tests of packages and containers.

mmdebstrap makes them from the mirror that this machine's apt uses; they are kept for a
day in build/roots. A test unpacks one into memory, in mount and process namespaces of
its own, so nothing of it is left when the test ends, however it ends.
"""

import ctypes
import fcntl
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "roots"
SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
KEYRINGS = {"noble": "/usr/share/keyrings/ubuntu-archive-keyring.gpg"}
CLONE_NEWNS = 0x20000
# Settings of this machine's apt that reaching its mirror may need.
APT_OPTIONS = ["Acquire::http::Proxy", "Acquire::https::Proxy",
               "Acquire::Check-Valid-Until", "Acquire::Check-Date"]


def run(*command, **how):
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, **how)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: exit "
                             f"{done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def own_mounts():
    """From here on this process has mounts of its own. Returns why not, if so."""
    if os.getuid() != 0:
        return "only root can make a Debian root; run the test as root"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    try:
        run("mount", "--make-rprivate", "/")
    except AssertionError as error:
        return str(error)
    return None


def require():
    """Skips the test's file, with the reason, where no root can be made."""
    why = own_mounts()
    if not why and not shutil.which("mmdebstrap"):
        why = "mmdebstrap is not installed (tools/deps test installs it)"
    if not why:
        try:
            mirror(SUITE)
        except LookupError as error:
            why = str(error)
    if why:
        print(f"skipped: {why}", file=sys.stderr)
        raise unittest.SkipTest(why)


def mirror(suite):
    """The address of the archive that holds this suite."""
    given = os.environ.get(f"GRAPNEL_MIRROR_{suite}")
    if given:
        return given
    if suite in KEYRINGS and suite != SUITE:
        raise LookupError(f"set GRAPNEL_MIRROR_{suite} to an archive that has {suite}")
    lines = run("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)",
                "Created-By: Packages").splitlines()
    for line in lines:
        release, address = line.split(" ", 1)
        if release == SUITE:
            return address
    raise LookupError(f"this machine's apt has no mirror of {SUITE}")


def archive(suite):
    """The path of a minimal root of this suite, as a tar file."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{suite}.tar"
    with open(KEPT / f"{suite}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and time.time() - path.stat().st_mtime < 86400:
            return path
        keyring = KEYRINGS.get(suite)
        if keyring and not os.path.exists(keyring):
            raise LookupError(f"{keyring} is missing: install ubuntu-keyring")
        options = [f"--aptopt={line.rstrip(';')}" for line in
                   run("apt-config", "dump", *APT_OPTIONS).splitlines()
                   if not line.endswith('"";')]
        with Memory() as made:  # dpkg waits for the disk after every package
            run("mmdebstrap", "--variant=apt", "--skip=cleanup/apt/lists",
                *([f"--keyring={keyring}"] if keyring else []), *options,
                "--components=main,universe" if keyring else "--components=main",
                suite, made.path / "root.tar", mirror(suite),
                env={**os.environ, "TMPDIR": str(made.path)})
            part = path.with_suffix(".part")
            shutil.copyfile(made.path / "root.tar", part)
            part.rename(path)
    return path


class Memory:
    """A folder in memory, below build/roots."""

    def __init__(self):
        KEPT.mkdir(parents=True, exist_ok=True)
        # Several processes mount here, each sees only its own.
        self.path = KEPT / "memory" / str(os.getpid()) / os.urandom(4).hex()

    def __enter__(self):
        self.path.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", self.path)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--recursive", "--lazy", self.path], check=False)
        self.path.rmdir()
        for folder in (self.path.parent, self.path.parent.parent):
            try:
                folder.rmdir()
            except OSError:
                pass  # another test's


class DebianRoot(Memory):
    """A minimal root, unpacked. Its processes are in the network of this machine."""

    def __init__(self, suite=SUITE, tar=None):
        super().__init__()
        self.suite, self.tar = suite, tar

    def __enter__(self):
        tar = self.tar or archive(self.suite)
        super().__enter__()
        run("tar", "-C", self.path, "--numeric-owner", "-xpf", tar)
        for folder in ("proc", "sys", "dev"):
            (self.path / folder).mkdir(exist_ok=True)
        run("mount", "-t", "proc", "proc", self.path / "proc")
        run("mount", "--rbind", "/dev", self.path / "dev")
        shutil.copyfile("/etc/resolv.conf", self.path / "etc/resolv.conf")
        return self

    def __truediv__(self, path):
        return self.path / path.lstrip("/")

    def command(self, *words, user=None):
        # It dies with its parent; set after the change of user, which would clear it.
        how = ["setpriv", "--reuid", user, "--regid", user, "--init-groups",
               "--pdeathsig", "KILL"] if user else []
        return ["chroot", str(self.path), *how, *map(str, words)]

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
        return {**kept, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **more}

    def run(self, *words, user=None, **env):
        return run(*self.command(*words, user=user), env=self.environment(**env))

    def install(self, deb, *options):
        """By apt, with its dependencies."""
        shutil.copyfile(deb, self / "/tmp" / deb.name)
        return self.run("apt-get", "install", "-y", "-q", "--no-install-recommends",
                        *options, f"/tmp/{deb.name}")

    def named(self, word):
        """Paths of files with this word in their name."""
        found = run("find", self.path, "-xdev", "-name", f"*{word}*",
                    "-not", "-path", f"{self.path}/tmp/*", "-not", "-path",
                    f"{self.path}/var/lib/apt/*")
        return sorted(line.removeprefix(str(self.path)) for line in found.splitlines())
