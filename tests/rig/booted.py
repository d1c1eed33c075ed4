"""A systemd of its own, started as the first process of a process namespace. Its root is
an overlay of this machine's: what it writes is in memory, and goes with it. Of this
machine's units it starts the journal and nothing else. The network is this machine's.

    machine = booted.Machine()          # unittest.SkipTest: why it can't be done here
    machine.run("systemctl", "start", "grapnel.target")
    machine.close()
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from rig import die_with_parent

SYSTEMD = "/lib/systemd/systemd"

# In new namespaces. $1: an empty folder for all of it.
PREPARE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1"/upper "$1"/work "$1"/root
root=$1/root
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$root"
mount -t proc proc "$root"/proc
mount --bind -o ro "$root"/proc/sys "$root"/proc/sys
mount -o remount,bind,ro "$root"/proc/sys
mount -t sysfs -o ro sysfs "$root"/sys
mount -t cgroup2 cgroup2 "$root"/sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs "$root"/run
mount -t tmpfs -o mode=1777 tmpfs "$root"/tmp
mount -t tmpfs -o mode=755 tmpfs "$root"/dev
mkdir "$root"/dev/pts "$root"/dev/shm
for name in null zero full random urandom tty; do
  touch "$root"/dev/$name
  mount --bind /dev/$name "$root"/dev/$name
done
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root"/dev/pts
ln -s pts/ptmx "$root"/dev/ptmx
# Nothing of this machine starts by itself.
rm -rf "$root"/etc/systemd/system "$root"/var/log/journal
mkdir -p "$root"/etc/systemd/system
for folder in "$root"/lib/systemd/system/*.wants "$root"/usr/local/lib/systemd; do
  rm -rf "$folder"
done
mkdir "$root"/lib/systemd/system/sockets.target.wants
for name in journald journald-dev-log; do
  ln -s ../systemd-$name.socket "$root"/lib/systemd/system/sockets.target.wants/
done
rm -f "$root"/etc/machine-id
echo 0123456789abcdef0123456789abcdef > "$root"/etc/machine-id
cd "$root"
mkdir .before
pivot_root . .before
umount -l /.before
mount --make-rshared / # as at a boot: systemd mounts credentials in a child
exec env -i container=grapnel-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=basic.target --log-target=journal --show-status=no
"""


def own_group():
    """The folder of our cgroup, of the second version; mounted if need be."""
    ours = next((line.split(":", 2)[2] for line in
                 pathlib.Path("/proc/self/cgroup").read_text().splitlines()
                 if line.startswith("0::")), None)
    at = next((line.split()[1] for line in
               pathlib.Path("/proc/mounts").read_text().splitlines()
               if line.split()[2] == "cgroup2"), None)
    if ours is None or at is None:
        raise unittest.SkipTest("no cgroup of version 2 here")
    return pathlib.Path(at + ours)


class Machine:
    def __init__(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can start a systemd of its own")
        if not pathlib.Path(SYSTEMD).exists():
            raise unittest.SkipTest(f"there is no {SYSTEMD}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-boot-"))
        self.log_path = self.folder.with_suffix(".log")
        self.group = own_group() / f"grapnel-test-{os.getpid()}"
        self.child = None
        try:
            self.group.mkdir()
            self.boot()
        except OSError as error:
            self.close()
            raise unittest.SkipTest(f"no cgroup can be made: {error}") from None
        except BaseException:
            self.close()
            raise

    def boot(self):
        join = f"echo $$ > {self.group}/cgroup.procs && exec \"$@\""
        with open(self.log_path, "wb") as log:
            self.child = subprocess.Popen(
                ["sh", "-c", join, "sh", "unshare", "--mount", "--pid", "--fork",
                 "--kill-child", "--cgroup", "--uts", "--ipc",
                 "bash", "-c", PREPARE, "bash", str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=die_with_parent)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.child.poll() is not None:
                said = self.log_path.read_text(errors="replace").strip()
                raise unittest.SkipTest(
                    f"no systemd of our own can be started here: {said[-300:]}")
            if self.is_up():
                return
            time.sleep(0.05)
        raise unittest.SkipTest("systemd did not start within a minute: "
                                + self.log_path.read_text(errors="replace")[-300:])

    def is_up(self):
        try:
            at = pathlib.Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
            self.init = int(at.read_text().split()[0])
            if os.readlink(f"/proc/{self.init}/exe").split("/")[-1] != "systemd":
                return False
        except (OSError, IndexError):
            return False
        return self.run("systemctl", "is-active", "basic.target").returncode == 0

    def command(self, *words):
        return ["nsenter", "-t", str(self.init), "-m", "-p", "-u", "-i", "-C",
                "--", *map(str, words)]

    def run(self, *words, **how):
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=180,
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, **how)

    def path(self, path):
        """A file in there, seen from here."""
        return pathlib.Path(f"/proc/{self.init}/root{path}")

    def close(self):
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)  # --kill-child: and systemd
            self.child.wait()
        for _ in range(100):  # the kernel takes the processes away
            try:
                for group in sorted(self.group.rglob("*"), reverse=True):
                    if group.is_dir():
                        group.rmdir()
                self.group.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log_path.unlink(missing_ok=True)
