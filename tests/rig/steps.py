"""A disk that an ingress's commits wait for: each until the test lets it go on."""

import os
import pathlib
import time

from rig import SLOW, program, wait_for


class Steps:
    """`with Steps(rig) as disk:` starts the ingress; its commits go on freely until
    disk.begin()."""

    def __init__(self, rig, **env):
        self.rig = rig
        self.folder = pathlib.Path(rig.folder, "disk")
        self.folder.mkdir(exist_ok=True)
        rig["ingress"].start(env={
            "LD_PRELOAD": program("rig-slowdisk.so"),
            "RIG_DISK": str(self.folder),
            # The sanitizer's library asks to be first, which is not needed.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":verify_asan_link_order=0",
            # A commit that waits for the test is not a disk that stalls.
            "GRAPNEL_TEST_STALL_MS": "60000", **env})

    def begin(self):
        (self.folder / "step").touch()

    def end(self):
        (self.folder / "step").unlink(missing_ok=True)

    def is_held(self):
        return (self.folder / "held").exists()

    def held(self):
        """A commit is under way, and waits."""
        wait_for(self.is_held, what="a commit to begin")

    def go(self):
        """One commit goes on, or a checkpoint that waits beside it."""
        self.held()
        (self.folder / "go").touch()
        wait_for(lambda: not (self.folder / "go").exists())

    def until(self, fact, what):
        """One commit after the other, until this is so."""
        end = time.monotonic() + 30 * SLOW
        while not (value := fact()):
            if self.is_held():
                self.go()
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}")
            time.sleep(0.005)
        return value
