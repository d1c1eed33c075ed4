"""GET /series: the values for charts of a running pipeline, and what ends or restarts of the console leave."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import ROOT, RigTest, http_request, main, wait_for

import json

TOKEN = "an-admin-token-of-the-file"


class Series(RigTest):
    def get(self, rig, query, expected=200):
        status, _, text = http_request(rig.console_port, "GET", f"/api/v1/series?{query}", headers={
            "Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(status, expected, text)
        return json.loads(text)

    def known(self, rig, name):
        """The values of a series that are known."""
        series, = self.get(rig, f"names={name}&step=10")["series"]
        return [v for v in series["values"] if v is not None]

    def test_values_come_and_survive_restarts_and_a_damaged_file(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True).start()
        self.assertEqual(self.known(rig, "delivered"), [])
        for _ in range(20):
            rig.accept()
        rig.settle()
        wait_for(lambda: self.known(rig, "dead_letters"), timeout=30)
        self.assertIn(0, self.known(rig, "dead_letters"))
        names = {s["name"] for s in self.get(rig, "names=*")["series"]}
        self.assertLessEqual({"backlog", "in_flight", "store_bytes:ingress"}, names)
        rig["console"].stop()
        file = rig.folder / "state" / "console.series"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        rig["console"].start()
        self.assertIn(0, self.known(rig, "dead_letters"))
        rig["console"].kill()
        file.write_bytes(b"grapnel series file 1\n" + b"\xff" * 100_000)
        rig["console"].start()
        self.assertEqual(self.known(rig, "dead_letters"), [])
        rig["console"].kill()
        file.unlink()
        file.mkdir()
        rig["console"].start()
        self.assertIn("cannot be stored", rig["console"].log())
        self.assertEqual(self.known(rig, "dead_letters"), [])

    def test_requests_are_checked(self):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True,
                       deliverers=0).start("console")
        for query in ("", "names=", "names=nothing", "names=accepted&step=5", "names=accepted&step=x",
                      "names=accepted&from=20h&step=10", "names=accepted&to=40d",
                      "names=accepted&from=2100-01-01", "names=" + "accepted," * 60,
                      "names=endpoint_p95", "names=accepted:crm", "names=" + "x" * 500):
            with self.subTest(query[:60]):
                error = self.get(rig, query, 400)["error"]
                self.assertEqual(error["code"], "invalid_argument")
                self.assertIn(error["field"], ("names", "from", "to", "step"))
        for query, step, count in [("names=accepted", 10, 361), ("names=accepted&from=23h", 120, 691),
                                   ("names=accepted&from=30d", 3900, 666),
                                   ("names=accepted&from=20d&to=19d&step=60", 300, 289),
                                   ("names=accepted&from=10m&step=15", 20, 31)]:
            with self.subTest(query):
                reply = self.get(rig, query)
                self.assertEqual(reply["step"], step)
                self.assertAlmostEqual(len(reply["series"][0]["values"]), count, delta=1)

    def test_every_kind_is_documented_and_made_of_a_documented_metric(self):
        kinds = re.findall(r'K\(\w+, "(\w+)", "(\w*)"',
                           (ROOT / "lib/commands/series_kinds.h").read_text())
        self.assertGreater(len(kinds), 20)
        page = (ROOT / "docs/API.md").read_text()
        for name, subject in kinds:
            self.assertIn(f"| `{name}{':' if subject else ''}{subject.upper()}` |", page)
        metrics = (ROOT / "docs/METRICS.md").read_text()
        code = (ROOT / "console/series/series_store.c").read_text()
        for metric in re.findall(r'"(grapnel_\w+)"', code):
            self.assertIn(f"`{metric}`", metrics)


main(at_once=3)
