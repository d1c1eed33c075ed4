"""Ingress stores a large batch of a producer in pieces: other requests meanwhile, and
interruptions in the middle. P1, P3, P4."""

import json
import pathlib
import select
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from fake_sequencer import FakeSequencer, unpack
from rig import RigTest, http_request, main, wait_for
from steps import Steps

TOKEN, OTHER = "t0ken-of-billing", "t0ken-of-crm"
EVENT = {"type": "invoice.paid", "workspace": "acct_1"}
COUNT = 4000  # several pieces
WATERMARK_REQUEST, WATERMARK = 8, 9


def lines(count=COUNT, first=0, **more):
    return [{**EVENT, "data": n, **more} for n in range(first, first + count)]


def keyed(count=COUNT):
    return [{**EVENT, "data": n, "id": f"k{n}"} for n in range(count)]


class Batch:
    """One that is sent; its response may come later."""

    def __init__(self, rig, events, token=TOKEN):
        body = "".join(json.dumps(e) + "\n" for e in events).encode()
        self.socket = socket.create_connection(("127.0.0.1", rig.ingress_port))
        self.socket.sendall(
            b"POST /v1/events/batch HTTP/1.1\r\nHost: d\r\nConnection: close\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
            % (token.encode(), len(body)) + body)

    def has_response(self):
        return bool(select.select([self.socket], [], [], 0)[0])

    def response(self):
        """(status, headers, one object for each line)"""
        self.socket.settimeout(120)
        text = b""
        while piece := self.socket.recv(1 << 16):
            text += piece
        self.socket.close()
        if not text:
            raise EOFError
        head, _, body = text.partition(b"\r\n\r\n")
        return (int(head.split()[1]), head.decode().lower(),
                [json.loads(x) for x in body.splitlines()])


class Batches(RigTest):
    def pipeline(self, start=None, env=None, **config):
        rig = self.rig({"producers": [
            {"name": "billing", "tokens": [TOKEN]},
            {"name": "crm", "tokens": [OTHER]}], **config})
        self.disk = Steps(rig, **env or {})
        self.addCleanup(self.disk.end)  # else its end would wait, too
        return rig

    def archived(self, rig):
        """What their lines say, in order of arrival."""
        return [json.loads(row["body"])["data"] for row in rig.rows(
            "ingress", "SELECT body FROM archive ORDER BY n")]

    def begun(self, rig, events, token=TOKEN):
        """A batch of which some pieces are stored, and others are not."""
        self.disk.begin()
        batch = Batch(rig, events, token)
        self.addCleanup(batch.socket.close)
        self.disk.until(lambda: self.archived(rig), "a first piece")
        self.disk.held()
        self.assertLess(len(self.archived(rig)), len(events),
                        "all of it was one commit")
        return batch

    def post(self, rig, event, token=OTHER):
        responses = []
        thread = threading.Thread(target=lambda: responses.append(http_request(
            rig.ingress_port, "POST", "/v1/events", json.dumps(event),
            {"Authorization": f"Bearer {token}"}, timeout=120)))
        thread.start()
        self.addCleanup(thread.join)
        return responses

    def test_others_are_stored_between_two_pieces(self):
        rig = self.pipeline()
        batch = self.begun(rig, lines())
        single = self.post(rig, {**EVENT, "data": "single"})
        self.disk.until(lambda: single, "the response to a single event")
        self.assertEqual(single[0][0], 200)
        self.assertFalse(batch.has_response())
        self.assertLess(len(self.archived(rig)), COUNT)
        self.disk.end()
        status, _, results = batch.response()
        self.assertEqual(status, 200)
        self.assertEqual([x["line"] for x in results],
                         list(range(1, COUNT + 1)))
        found = [x for x in self.archived(rig) if x != "single"]
        self.assertEqual(found, list(range(COUNT)))

    def test_batches_of_two_sources_take_turns(self):
        """A second batch of the same source waits for the first."""
        rig = self.pipeline()
        first = self.begun(rig, lines())
        second = Batch(rig, lines(3, first=10_000))
        other = Batch(rig, lines(3, first=20_000), OTHER)
        self.disk.until(other.has_response, "the other source's response")
        self.assertFalse(first.has_response())
        self.assertFalse(second.has_response())
        self.disk.end()
        for batch in (other, first, second):
            self.assertEqual(batch.response()[0], 200)
        found = self.archived(rig)
        self.assertEqual(found[-3:], [10_000, 10_001, 10_002])
        self.assertLess(found.index(20_002), found.index(COUNT - 1))

    def test_a_kill_in_the_middle_leaves_a_prefix_that_a_repeat_completes(self):
        """There was no response; the repeated lines are duplicates."""
        rig = self.pipeline()
        batch = self.begun(rig, keyed())
        rig.kill("ingress")
        self.assertRaises((ConnectionError, EOFError), batch.response)
        found = self.archived(rig)
        self.assertTrue(0 < len(found) < COUNT)
        self.assertEqual(found, list(range(len(found))))
        self.disk.end()
        rig.start()
        status, _, results = Batch(rig, keyed()).response()
        self.assertEqual(status, 200)
        self.assertEqual(len({x["id"] for x in results}), COUNT)
        self.assertEqual(self.archived(rig), list(range(COUNT)))
        rig.settle(timeout=60)
        rig.receiver.wait(count=COUNT)
        self.assertEqual(rig.receiver.stats()["requests"], COUNT)

    def test_a_batch_is_stored_completely_when_its_client_leaves(self):
        rig = self.pipeline()
        batch = self.begun(rig, lines())
        batch.socket.close()
        self.disk.end()
        wait_for(lambda: len(self.archived(rig)) == COUNT)
        wait_for(lambda: rig.ask("ingress", "status")["metrics"][
            "grapnel_ingress_bodies_bytes"] == 0)

    def says_what_is_stored(self, rig, batch):
        """Each line that is called accepted, and no other, is in the archive."""
        status, head, results = batch.response()
        self.assertEqual(status, 207)
        self.assertIn("retry-after: ", head)
        ids = [x["id"] for x in results if "id" in x]
        self.assertTrue(0 < len(ids) < COUNT)
        self.assertEqual([x["event_id"] for x in rig.rows(
            "ingress", "SELECT event_id FROM archive ORDER BY n")], ids)
        for n, x in enumerate(results[len(ids):], len(ids) + 1):
            self.assertEqual(x["error"]["line"], n)
            self.assertEqual(x["error"]["code"], "unavailable")
        return results[-1]["error"]["message"]

    def test_a_stop_in_the_middle_reports_each_stored_line(self):
        """Half of shutdown_grace is for storing."""
        rig = self.pipeline(shutdown_grace="1s")
        batch = self.begun(rig, lines())
        rig["ingress"].signal(signal.SIGTERM)
        rig["ingress"].asked_to_end = True
        # The signal is looked at after a commit.
        self.disk.until(lambda: " stopping" in rig["ingress"].log(),
                        "the stop")
        self.disk.held()
        time.sleep(0.6)
        self.disk.end()
        self.assertIn("shutting down",
                      self.says_what_is_stored(rig, batch))
        self.assertEqual(rig["ingress"].child.wait(30), 0)

    def test_a_disk_stall_in_the_middle_reports_only_stored_lines(self):
        """The events of the last piece may be stored without a response that says so."""
        rig = self.pipeline(env={"GRAPNEL_TEST_STALL_MS": "500"})
        batch = self.begun(rig, lines())
        before = len(self.archived(rig))
        status, _, results = batch.response()  # while it stalls
        self.assertEqual(status, 207)
        self.assertEqual(len([x for x in results if "id" in x]), before)
        self.disk.end()
        wait_for(lambda: len(self.archived(rig)) > before)
        single = self.post(rig, {**EVENT, "data": "single"})
        wait_for(lambda: single)
        self.assertEqual(self.archived(rig)[:before + 1],
                         list(range(before + 1)))

    def test_a_key_used_by_another_request_meanwhile_is_a_duplicate(self):
        """The result is the same as if the batch had arrived later."""
        rig = self.pipeline()
        batch = self.begun(rig, keyed())
        same = self.post(rig, {**EVENT, "data": COUNT - 1,
                               "id": f"k{COUNT - 1}"}, TOKEN)
        other = self.post(rig, {**EVENT, "data": "x", "id": f"k{COUNT - 2}"},
                          TOKEN)
        self.disk.until(lambda: same and other, "both responses")
        ids = [json.loads(x[0][2])["id"] for x in (same, other)]
        self.assertFalse(batch.has_response())
        self.disk.end()
        status, _, results = batch.response()
        self.assertEqual(status, 207)
        self.assertEqual(results[-1]["id"], ids[0])
        self.assertEqual(results[-2]["error"]["code"], "idempotency_key_reused")
        self.assertEqual(results[-2]["error"]["id"], ids[1])
        self.assertEqual(len(self.archived(rig)), COUNT)

    def test_a_begun_batch_is_stored_though_its_producer_is_removed(self):
        """It was judged before the reload; later batches are refused."""
        rig = self.pipeline()
        batch = self.begun(rig, lines())
        del rig.config["producers"][0]
        rig.write_config()
        rig["ingress"].reload()
        self.disk.until(lambda: "reloaded" in rig["ingress"].log(), "a reload")
        self.disk.end()
        self.assertEqual(batch.response()[0], 200)
        self.assertEqual(Batch(rig, lines(2)).response()[0], 401)

    def test_a_batch_that_cannot_begin_in_time_is_refused_completely(self):
        rig = self.pipeline()
        first = self.begun(rig, lines(10_000))
        second = Batch(rig, lines(3))
        while not second.has_response():
            self.assertFalse(first.has_response(), "the disk was too fast")
            time.sleep(1)  # of the five that a request waits
            self.disk.go()
        status, head, results = second.response()
        self.assertEqual(status, 503)
        self.assertIn("retry-after: ", head)
        self.assertEqual(results[0]["error"]["code"], "unavailable")
        self.disk.end()
        self.assertEqual(first.response()[0], 200)
        self.assertEqual(self.archived(rig), list(range(10_000)))

    def test_no_watermark_is_sent_before_a_batch_is_stored(self):
        """P6: all requests received before the watermark request have a lower
        number than the watermark."""
        rig = self.rig({"producers": [{"name": "billing", "tokens": [TOKEN]},
                                      {"name": "crm", "tokens": [OTHER]}]})
        rig.run_dir.mkdir(mode=0o700, exist_ok=True)
        sequencer = FakeSequencer(rig.run_dir, peer="ingress")
        self.addCleanup(sequencer.close)
        self.disk = Steps(rig)
        self.addCleanup(self.disk.end)
        batch = self.begun(rig, lines())
        responses = []

        def turn():
            sequencer.send(WATERMARK_REQUEST, sequencer.epoch, 1000 + turn.asked)
            turn.asked += 1
            while sequencer.pull.poll(0):
                kind, _, _, _, *fields = unpack(sequencer.pull.recv())
                if kind == WATERMARK:
                    responses.append((fields, batch.has_response()))
            return responses

        turn.asked = 0
        behind = Batch(rig, lines(1, first=10_000), OTHER)
        self.disk.until(lambda: turn() or batch.has_response(), "a response")
        self.disk.end()
        wait_for(turn)
        (epoch, stamp, following), _ = responses[0]
        self.assertEqual((epoch, stamp), (sequencer.epoch, 1000))
        self.assertGreater(following, COUNT)
        self.assertEqual(batch.response()[0], 200)
        self.assertEqual(behind.response()[0], 200)


if __name__ == "__main__":
    main()
