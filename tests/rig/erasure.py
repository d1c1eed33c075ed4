"""The job of the sequencer that erases a workspace, for the tests of erasure."""

import contextlib

from rig import wait_for


class Erasure:
    """Beside RigTest."""

    def job(self, rig, job):
        with contextlib.suppress(Exception):
            return rig.ask("sequencer", "job", id=job["id"])
        return {"state": "away"}

    def ended(self, rig, job):
        end = wait_for(lambda: (j := self.job(rig, job))["state"] in ("done", "failed") and j,
                       timeout=60, what="the erasure to end")
        self.assertEqual(end["state"], "done", end)
        return end
