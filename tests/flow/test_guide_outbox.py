"""The commands of the guides "From your transaction to your customer's server" and "Move an
existing outbox" work, with a PostgreSQL server of their own. P2."""

import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide
from postgres import Postgres, programs
from rig import BUILD, ROOT, SIGNING_SECRET, RigTest, is_signed, main, program, wait_for


@unittest.skipUnless(programs(), "PostgreSQL is not installed")
class Outbox(RigTest):
    def setUp(self):
        self.pg = Postgres()
        self.addCleanup(self.pg.close)
        self.pg.start()
        self.services = []

    def guide(self, name, **replace):
        """A running pipeline without outbox, whose database the guide makes."""
        rig = self.pipeline = self.rig()
        rig.start()
        guide = Guide(
            ROOT / "docs/guides" / name, rig.folder,
            replace={"/etc/grapnel": str(rig.folder),
                     "/var/lib/grapnel": str(rig.state_dir),
                     "/run/grapnel": str(rig.run_dir),
                     "/var/run/postgresql": str(self.pg.folder),
                     "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                     "127.0.0.1:3000": f"127.0.0.1:{rig.receiver.port}",
                     **replace},
            commands={"systemctl": self.systemctl, "runuser": 'shift 3; exec "$@"'},
            env={"GRAPNEL_CONFIG": str(rig.config_path), "PGHOST": str(self.pg.folder),
                 "PGUSER": "app", "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        return guide

    def systemctl(self, words):
        rig, unit = self.pipeline, words[-1]
        if unit == "grapnel-outbox" and words[0] in ("enable", "start"):
            if "outbox" not in rig.daemons:
                rig.add("outbox")
            rig["outbox"].start()
        elif words == ["restart", "grapnel-outbox"]:
            rig["outbox"].stop()
            rig["outbox"].start()
        elif unit == "grapnel-outbox":
            return rig["outbox"].stop()
        else:
            self.services.append(words)
        return 0

    def bodies(self):
        self.pipeline.settle()
        return [r.body.decode() for r in self.pipeline.receiver.requests("/hooks")]

    def test_from_the_transaction_to_the_server(self):
        guide = self.guide("outbox.md", **{"-g grapnel ": ""})
        rig = self.pipeline
        guide.run("1. The database of the application", "2. Configure the relay", "3. Start",
                  "4. One transaction", "6. Look")
        request, = rig.receiver.requests("/hooks")
        self.assertEqual(request.body.decode(), '{"customer": "acme", "total": 4200}')
        self.assertTrue(is_signed(request, (rig.folder / "secrets/acme").read_text().strip()))
        rig.receiver.rules({"path": "/hooks", "responses": [{"status": 503}]})
        guide.run("7. The customer's server is down")
        rig.receiver.rules()
        guide.run("It works again", "8. Send it again")
        first = wait_for(lambda: [r for r in rig.receiver.requests("/hooks")
                                  if b"4200" in r.body][1:])
        self.assertEqual([r.id for r in first], [request.id])
        self.shown_settings_are_valid(guide)
        guide.run("Undo")
        guide.finish()

    def shown_settings_are_valid(self, guide):
        """Those that the guide shows, and does not write."""
        rig, shown = self.pipeline, self.pipeline.folder / "shown.yaml"
        for name in ("customers", "db"):
            (rig.folder / "secrets" / name).write_text(SIGNING_SECRET)
        blocks = [b for b in guide.blocks if b.language == "yaml" and not b.says]
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            shown.write_text(f"state_dir: {rig.state_dir}\nrun_dir: {rig.run_dir}\n"
                             f"ingress: {{listen: 127.0.0.1:{rig.ingress_port}}}\n"
                             + guide.text(block.text))
            done = rig.run(program("grapnel"), "check", "-c", shown)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_existing_outbox_is_moved(self):
        """Rows in every state are there before: only those are sent that the old worker had not
        sent, and the one that it may have sent."""
        guide = self.guide("outbox-existing.md")
        guide.run("Three tables", "1. Configure", "2. Prepare, while the old worker runs",
                  "3. Stop the old worker")
        self.assertEqual(self.services, [["stop", "shop-worker"], ["stop", "debezium"]])
        self.assertEqual(self.bodies(), [])
        guide.run("4. Start", "5. Look")
        self.assertEqual(sorted(self.bodies()), [
            "new", "waits", '{"n": 4}', '{"n": 5}', '{"n": 6}', '{"order": 7}', '{"order": 8}',
            '{"paid": 7}'])
        self.assertLess(self.bodies().index('{"order": 7}'), self.bodies().index('{"paid": 7}'))
        guide.run("Back")
        guide.finish()

    def test_after_a_restore(self):
        """The statement in OPERATIONS brings a table and Grapnel together that are of different
        times."""
        text = (ROOT / "docs/OPERATIONS.md").read_text()
        again, = re.findall(r"```sql\n(UPDATE webhook_outbox [^`]*)```", text)
        self.pg.make_table()
        rig = self.rig({"outbox": [{"name": "shop", "database": self.pg.uri}]})
        rig.add("outbox")
        rig.receiver.rules({"path": "/crm", "responses": [{"status": 503}]})
        rig.start()
        self.pg.insert(1, 1)
        first = rig.receiver.wait()[0].id
        wait_for(lambda: self.pg.sql("SELECT error_message FROM webhook_outbox") != [""])
        rig.stop()  # Grapnel loses what it took
        shutil.rmtree(rig.state_dir)
        rig.receiver.rules()
        rig.start()
        rig.settle()
        self.assertEqual(self.pg.statuses(), {"PENDING_RETRY": 1})
        self.pg.sql(again)
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 1})

        self.pg.sql("UPDATE webhook_outbox SET status = 'PENDING_RETRY'")  # the table is older
        rig.settle()
        self.assertEqual(self.pg.statuses(), {"PENDING_RETRY": 1})
        before = len(rig.receiver.requests(event=first))
        self.pg.sql(again)
        rig.receiver.wait(event=first, count=before + 1)
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 1})

        rig.cli("endpoints", "pause", "crm")  # an event that is still open
        self.pg.insert(2, 2)
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 1, "PENDING_RETRY": 1})
        self.pg.sql(again)
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 1, "PENDING_RETRY": 1})
        rig.cli("endpoints", "resume", "crm")
        wait_for(lambda: self.pg.statuses() == {"SUCCESS": 2})
        rig.settle()
        self.assertEqual([r.body for r in rig.receiver.requests() if r.id != first],
                         [b'{"n": 2}'])


main()
