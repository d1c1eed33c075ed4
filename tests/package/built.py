"""The package of this source tree, as tools/package builds it, for several tests."""

import fcntl
import hashlib
import pathlib
import shutil
import subprocess

from roots import ROOT, run

MADE = ROOT / "build" / "package"


def sources():
    """Paths, below ROOT, of the files that a package is built from."""
    listed = run("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z",
                 "--cached", "--others", "--exclude-standard")
    return [path for path in listed.split("\0") if path and (ROOT / path).is_file()]


def package():
    """(path of grapnel_….deb, of grapnel-dbgsym_….deb), built if sources are newer."""
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build" / "package.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max((ROOT / path).stat().st_mtime for path in sources()
                     if not path.startswith("tests/"))
        found = sorted(MADE.glob("*.deb"))
        if len(found) != 2 or min(p.stat().st_mtime for p in found) <= newest:
            run(ROOT / "tools" / "package")
            found = sorted(MADE.glob("*.deb"))
    symbols, programs = found
    return programs, symbols


def copy_sources(to):
    for path in sources():
        target = pathlib.Path(to, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)


def of_version(deb, version, folder, change=None):
    """The same package under another version, with change(folder) applied."""
    unpacked = folder / f"unpacked-{version}"
    run("dpkg-deb", "-R", deb, unpacked)
    control = unpacked / "DEBIAN" / "control"
    lines = [f"Version: {version}" if line.startswith("Version: ") else line
             for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    if change:
        change(unpacked)
        files = sorted(path for path in unpacked.rglob("*") if path.is_file()
                       and not path.is_relative_to(unpacked / "DEBIAN"))
        (unpacked / "DEBIAN" / "md5sums").write_text("".join(
            f"{hashlib.md5(path.read_bytes()).hexdigest()}  "
            f"{path.relative_to(unpacked)}\n" for path in files))
    path = folder / f"grapnel_{version}.deb"
    run("dpkg-deb", "--root-owner-group", "-Znone", "-b", unpacked, path)
    return path
