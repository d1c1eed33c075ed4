"""The pages System and one process, with their routes: a process that is killed, that hangs and that returns, relays
of an outbox, and who may look."""

import pathlib
import shutil
import sqlite3
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import main, wait_for
from test_pages import TOKEN, PagesTest

TABLE = """
CREATE TABLE webhook_outbox (
  id VARCHAR(36) NOT NULL PRIMARY KEY, target_url VARCHAR(255), payload TEXT,
  status VARCHAR(50) NOT NULL DEFAULT 'NOT_CALLED',
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  last_attempt_at TEXT, next_attempt_at TEXT,
  retry_count INTEGER NOT NULL DEFAULT 0, error_message TEXT);
"""
ROUTES = ["/processes", "/processes/ingress", "/relays"]


class SystemTest(PagesTest):
    def get(self, path, token=TOKEN):
        return self.call("GET", f"/api/v1{path}", Authorization=f"Bearer {token}")

    def processes(self):
        """{name: row} of GET /processes"""
        status, _, page = self.get("/processes")
        self.assertEqual(status, 200, page)
        return {p["process"]: p for p in page["items"]}

    def with_relay(self):
        """A pipeline whose outbox takes rows of a table in a file of SQLite."""
        folder = tempfile.mkdtemp(prefix="gr-relay-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.table = f"{folder}/app.db"
        self.sql(TABLE)
        rig = self.pipeline(outbox=[{"name": "orders", "database": f"sqlite://{self.table}", "poll": "200ms",
                                     "type": "issue.row", "retry_policy": "default"}])
        rig.add("outbox")
        return rig

    def sql(self, text):
        with sqlite3.connect(self.table, timeout=60) as db:
            db.executescript(text)
        db.close()


class Routes(SystemTest):
    """Without a browser."""

    def test_each_process_with_its_database(self):
        rig = self.pipeline()
        self.send(rig, "issue.made")
        rig.settle()
        wal = {name: rig.state_dir / f"{name}.db-wal" for name in ("ingress", "sequencer", "deliverer-1", "dlqd", "console")}
        before = {name: path.stat().st_size for name, path in wal.items()}
        rows = self.processes()
        after = {name: path.stat().st_size for name, path in wal.items()}  # the console writes without events, too
        self.assertEqual(list(rows), list(wal))
        for name, row in rows.items():
            with self.subTest(name):
                self.assertTrue(row["up"] and row["ready"], row)
                self.assertEqual((row["pid"], row["kind"]), (rig[name].child.pid, name.split("-")[0]))
                file = pathlib.Path(row["store"]["path"])
                self.assertEqual(file, rig.state_dir / f"{name}.db")
                self.assertLessEqual(before[name], row["store"]["wal_bytes"])
                self.assertLessEqual(row["store"]["wal_bytes"], after[name])
                self.assertEqual(row["store"]["bytes"] - row["store"]["wal_bytes"], file.stat().st_size)
                self.assertGreater(row["store"]["free_bytes"], 0)
        self.assertGreater(rows["ingress"]["store"]["commit_ms"], 0)  # it has stored the request
        status, _, one = self.get("/processes/deliverer-1")
        self.assertEqual((status, one["process"], {g["endpoint"] for g in one["grants"]}),
                         (200, "deliverer-1", {"crm", "legal", "slow"}))

    def test_a_process_that_is_killed_hangs_and_returns(self):
        rig = self.pipeline()
        self.assertEqual([p["problems"] for p in self.processes().values()], [[]] * 5)
        rig.kill("dlqd")
        rig["deliverer-1"].pause()
        rows = self.processes()
        self.assertEqual([(n, r["up"]) for n, r in rows.items() if not r["up"]],
                         [("deliverer-1", False), ("dlqd", False)])
        self.assertIn("does not run: start it", rows["dlqd"]["problems"][0])
        self.assertIn("does not respond", rows["deliverer-1"]["problems"][0])
        self.assertIsNone(rows["dlqd"]["store"])
        status, _, error = self.get("/processes/dlqd")
        self.assertEqual((status, error["error"]["code"]), (503, "process_unavailable"))
        rig["deliverer-1"].resume()
        rig.start("dlqd")
        wait_for(lambda: all(p["up"] for p in self.processes().values()))
        # One that was stopped in order leaves no socket; it is needed all the same.
        rig["sequencer"].stop()
        self.assertFalse(self.processes()["sequencer"]["up"])

    def test_only_processes_can_be_named(self):
        self.pipeline()
        for name in ("nobody", "..%2Fx", "%2Fetc%2Fpasswd", "ingress.control", "ingress%00"):
            with self.subTest(name):
                self.assertIn(self.get(f"/processes/{name}")[0], (400, 404))

    def test_a_full_disk_is_a_problem(self):
        rig = self.pipeline(alerts=[{"name": "little", "when": "disk_low", "below": "900000GiB"}])
        problem, = self.processes()["ingress"]["problems"]
        self.assertIn("less than the 900000.0 GiB of the alert disk_low", problem)
        rig.config["alerts"] = []
        rig.write_config()
        self.assertEqual(rig.cli("reload")[1], 0)
        self.assertEqual(self.processes()["ingress"]["problems"], [])

    def test_relays_also_of_an_outbox_that_is_down(self):
        rig = self.with_relay()
        row, = self.get("/relays")[2]["items"]
        self.assertEqual((row["process"], row["relay"], row["connected"], row["waiting"]), ("outbox", "orders", False, None))
        self.assertIn("does not run", row["error"])
        self.assertFalse(self.processes()["outbox"]["up"])
        rig.start("outbox")
        self.sql("INSERT INTO webhook_outbox (id, payload) VALUES ('1', '{}')")
        row, = wait_for(lambda: [r for r in self.get("/relays")[2]["items"] if r["taken_per_s"]])
        self.assertTrue(row["connected"])
        rig.receiver.wait(path="/crm")
        rig.kill("outbox")
        self.assertEqual([r["connected"] for r in self.get("/relays")[2]["items"]], [False])

    def test_who_may_look(self):
        rig = self.pipeline()
        viewer, _ = rig.cli("tokens", "create", "v", "--role", "viewer")
        mine, _ = rig.cli("tokens", "create", "m", "--role", "workspace", "--workspace", "acme")
        for route in ROUTES:
            with self.subTest(route):
                self.assertEqual(self.get(route, viewer["token"])[0], 200)
                status, _, error = self.get(route, mine["token"])
                self.assertEqual((status, error["error"]["code"]), (403, "role"))
                self.assertNotIn("sequencer", str(error))
                self.assertEqual(self.call("GET", f"/api/v1{route}")[0], 401)


class Pages(SystemTest):
    def row(self, tab, name):
        return tab.js(f"document.querySelector('tr[data-key=\"{name}\"]')?.innerText") or ""

    def test_a_process_is_shown_down_and_the_page_heals(self):
        rig = self.pipeline()
        tab = self.signed_in("/system")
        tab.sees("5 processes run")
        self.assertEqual(tab.js("document.querySelector('.nav [aria-current]').textContent"), "System")
        for key in "jj":
            tab.key(key)
        rig.kill("dlqd")
        tab.sees("dlqd does not run: start it")
        self.assertIn("down", self.row(tab, "dlqd"))
        self.assertNotIn("down", self.row(tab, "ingress"))
        # The row that was chosen is still, so that the keyboard goes on from it.
        self.assertEqual(tab.js("document.activeElement.dataset.key"), "sequencer")
        rig.start("dlqd")
        tab.sees("5 processes run")
        tab.key("Enter")
        tab.wait("location.pathname === '/system/sequencer'")
        tab.sees("Links to other processes")
        rig.kill("sequencer")
        tab.sees("sequencer does not run")
        rig.start("sequencer")
        tab.sees("Links to other processes")

    def test_relays_and_one_process(self):
        rig = self.with_relay()
        tab = self.signed_in("/system")
        tab.sees("outbox does not run")
        self.assertIn("away", self.row(tab, "outbox orders"))
        rig.start("outbox")
        tab.sees("connected")
        tab.open(self.base + "/system/deliverer-1")
        tab.sees("Endpoints that it owns")
        tab.sees("grapnel_grants_confirmed")
        tab.open(self.base + "/system/nobody")
        tab.sees("There is no such thing")

    def test_a_workspace_sees_none_of_it(self):
        rig = self.pipeline()
        mine, _ = rig.cli("tokens", "create", "m", "--role", "workspace", "--workspace", "acme")
        tab = self.signed_in(token=mine["token"])
        tab.open(self.base + "/system")
        tab.sees("This page needs another role")
        self.assertNotIn("System", tab.js("document.querySelector('.nav').textContent"))
        self.assertNotIn("sequencer", tab.text())


if __name__ == "__main__":
    main(at_once=2)
