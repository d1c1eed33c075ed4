"""The stores of earlier versions, from tests/golden/stores, put under a rig."""

import json
import re
import tarfile
import time

from rig import ROOT

STORES = ROOT / "tests" / "golden" / "stores"


def versions():
    return sorted(path.name.removesuffix(".tar.xz") for path in STORES.glob("*.tar.xz"))


def set_clock(rig, version):
    """A minute after the power failed, however old the file is: keys, budgets and what is
    kept end by the clock. Before the rig is started."""
    with tarfile.open(STORES / f"{version}.tar.xz") as archive:
        failed = archive.getmember("sequencer.db-wal").mtime
    rig.step_clock(failed + 60 - time.time())


def unpack(rig, version):
    """The databases of `version` as a power cut left them, in the state_dir of a rig that is
    not started, with the configuration of that machine; its facts.json."""
    rig.state_dir.mkdir(mode=0o700, exist_ok=True)
    with tarfile.open(STORES / f"{version}.tar.xz") as archive:
        names = archive.getnames()
        for name in names:
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z-]+)+", name), name
            into = rig.folder if name in ("grapnel.yaml", "facts.json") else rig.state_dir
            (into / name).write_bytes(archive.extractfile(name).read())
            (into / name).chmod(0o600)
    text = (rig.folder / "grapnel.yaml").read_text()
    for name, port in (("RECEIVER", rig.receiver.port), ("INGRESS", rig.ingress_port),
                       ("CONSOLE", rig.console_port),
                       ("PUBLISH", rig.publish.rsplit(":", 1)[1])):
        text = text.replace(f"@{name}@", str(port))
    rig.config_path.write_text(text)
    return json.loads((rig.folder / "facts.json").read_text())
