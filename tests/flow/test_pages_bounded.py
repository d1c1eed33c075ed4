"""However long the history is, a page reads a bounded part of it: what each process reads from its database is counted
while Chromium shows each page over a million events. bench/pages measures the times."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import history
from browser import Browser, chromium
from rig import main

EVENTS, DEAD_LETTERS = 1_000_000, 100_000
READ_MAX = 6 * 1024 * 1024  # of one page; what it needs is 1 to 3 MB


def read_bytes(rig):
    """{process: bytes} that were read so far, also from the cache of the system."""
    out = {}
    for name, daemon in rig.daemons.items():
        text = pathlib.Path(f"/proc/{daemon.child.pid}/io").read_text()
        out[name] = int(dict(line.split(": ") for line in text.splitlines())["rchar"])
    return out


@unittest.skipUnless(chromium(), "chromium is not installed: tools/deps test")
class Bounded(unittest.TestCase):
    def test_no_page_reads_the_whole_history(self):
        rig = history.pipeline(EVENTS, DEAD_LETTERS)
        self.addCleanup(rig.close)
        self.addCleanup(rig.kill)
        # What a search without an index would read.
        for name in ("sequencer", "ingress", "dlqd"):
            self.assertGreater(os.stat(rig.state_dir / f"{name}.db").st_size, 4 * READ_MAX, name)
        with Browser() as browser:
            tab = history.signed_in(browser, f"http://127.0.0.1:{rig.console_port}")
            pages = history.pages(EVENTS, DEAD_LETTERS)
            for path, ready in pages.items():
                before = read_bytes(rig)
                history.shown_ms(tab, path, ready)
                after = read_bytes(rig)
                with self.subTest(path):
                    read = {n: after[n] - before[n] for n in after}
                    self.assertLess(sum(read.values()), READ_MAX, read)
            self.assertEqual(tab.problems, [])


if __name__ == "__main__":
    main()
