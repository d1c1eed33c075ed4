"""The judge of the rig finds each kind of error that it is there to find."""

import hashlib
import hmac
import json
import unittest

from checker import check, check_lanes, check_stores

SECRET = "s"


class Request:
    def __init__(self, n, sequence, event=None, space="w", status=200,
                 previous=None, body=None, at_ms=None, series="a",
                 ended_ms=None, sender=None):
        self.n, self.sender = n, sender
        self.id = event or f"evt_{n}"
        self.body = body or body_of(n)
        self.status = status
        self.at_ms = at_ms if at_ms is not None else sequence
        self.ended_ms = ended_ms
        self.headers = {
            "grapnel-sequence": str(sequence), "grapnel-workspace": space,
            "grapnel-series": series,
            "grapnel-previous": str(sequence - 1 if previous is None
                                    else previous)}

    @property
    def delivered(self):
        return self.status == 200

    def __repr__(self):
        return self.id


def body_of(n):
    return json.dumps({"data": {"n": n}}).encode()


def ack(n, status=200, space="w"):
    response = {"status": status, "id": f"evt_{n}"} if status == 200 else \
        {"error": "reset"}
    return {"n": n, "workspace": space, **response,
            "signature": hmac.new(SECRET.encode(), body_of(n),
                                  hashlib.sha256).hexdigest()}


class Checker(unittest.TestCase):
    def judge(self, acks, requests, **how):
        return check(acks, requests, SECRET, **how)

    def assertCaught(self, problem, acks, requests, **how):
        verdict = self.judge(acks, requests, **how)
        self.assertFalse(verdict.ok)
        self.assertIn(problem, verdict.problems, str(verdict))
        with self.assertRaises(AssertionError):
            verdict.require()

    def test_a_correct_run_passes(self):
        acks = [ack(1), ack(2), ack(3, status=None), ack(4, status=None)]
        verdict = self.judge(acks, [
            Request(1, 1, status=503), Request(1, 1), Request(2, 2),
            Request(2, 2), Request(3, 3)])
        verdict.require()
        self.assertEqual(verdict.duplicated, [2])
        self.assertEqual(verdict.recovered, [3])
        self.assertEqual((verdict.attempted, verdict.acknowledged,
                          verdict.delivered), (4, 2, 3))

    def test_a_lost_event_is_lost(self):
        self.assertEqual(
            self.judge([ack(1), ack(2)], [Request(1, 1)]).lost, ["evt_2"])

    def test_a_request_that_was_not_answered_2xx_is_no_delivery(self):
        self.assertEqual(
            self.judge([ack(1)], [Request(1, 1, status=503)]).lost, ["evt_1"])

    def test_a_dead_letter_is_not_lost(self):
        self.judge([ack(1)], [Request(1, 1, status=400)],
                   ended={"evt_1"}).require()

    def test_an_unsent_event_is_unexpected(self):
        verdict = self.judge([ack(1)], [Request(1, 1), Request(9, 2)])
        self.assertEqual(len(verdict.unexpected), 1)
        self.assertFalse(verdict.ok)

    def test_an_event_has_one_id(self):
        self.assertCaught("event with two ids", [ack(1)],
                          [Request(1, 1), Request(1, 1, event="evt_x")])

    def test_an_id_has_one_event(self):
        self.assertCaught("id of two events", [ack(1), ack(2)],
                          [Request(1, 1), Request(2, 2, event="evt_1")])

    def test_the_id_is_that_of_ingress(self):
        self.assertCaught("another id than ingress said", [ack(1)],
                          [Request(1, 1, event="evt_x")])

    def test_an_event_has_one_number(self):
        self.assertCaught("event with two numbers", [ack(1)],
                          [Request(1, 1), Request(1, 2)])

    def test_a_number_has_one_event(self):
        self.assertCaught("number of two events", [ack(1), ack(2)],
                          [Request(1, 1), Request(2, 1)])

    def test_numbers_have_no_gap(self):
        self.assertCaught("gap", [ack(1), ack(2)],
                          [Request(1, 1), Request(2, 3, previous=1)])

    def test_numbers_begin_at_1(self):
        self.assertCaught("gap", [ack(1)], [Request(1, 2)])

    def test_every_workspace_has_its_own_numbers(self):
        self.judge([ack(1, space="a"), ack(2, space="b")],
                   [Request(1, 1, space="a"), Request(2, 1, space="b")]
                   ).require()

    def test_every_series_has_its_own_numbers(self):
        self.judge([ack(1), ack(2)],
                   [Request(1, 1), Request(2, 1, series="b")]).require()

    def test_the_workspace_is_the_event_s(self):
        self.assertCaught("wrong workspace", [ack(1, space="a")],
                          [Request(1, 1, space="b")])

    def test_every_attempt_has_the_same_bytes(self):
        self.assertCaught("event with two bodies", [ack(1)], [
            Request(1, 1), Request(1, 1, body=body_of(1) + b" ")])

    def test_the_bytes_are_those_that_were_sent(self):
        self.assertCaught("not the bytes that were sent in", [ack(1)],
                          [Request(1, 1, body=body_of(1) + b" ")])

    def test_the_data_of_a_producer_is_that_which_was_sent(self):
        sent = {**ack(1), "signature": None, "data": {"n": 1}}
        self.judge([sent], [Request(1, 1)]).require()
        self.assertCaught("not the data that was sent in", [{**sent, "data": {"n": 1, "x": 2}}], [Request(1, 1)])

    def test_previous_is_the_number_before(self):
        self.assertCaught("wrong grapnel-previous", [ack(1), ack(2)],
                          [Request(1, 1), Request(2, 2, previous=0)])

    def test_order_is_checked_where_it_is_promised(self):
        acks = [ack(1), ack(2)]
        requests = [Request(1, 1, at_ms=9), Request(2, 2, at_ms=5)]
        self.judge(acks, requests).require()
        self.assertCaught("out of order", acks, requests, ordered=True)


    # clients that send an event again

    def test_an_event_that_was_sent_again_is_one_event(self):
        acks = [ack(1, status=None), {**ack(1), "id": "evt_second"}, ack(2, status=None), ack(2, status=None)]
        self.judge(acks, [Request(1, 1), Request(2, 2)], repeats=True).require()
        self.assertEqual(self.judge(acks, [Request(2, 1)], repeats=True).lost, [1])
        self.judge(acks, [Request(2, 1)], repeats=True, ended={"evt_second"}).require()
        self.judge(acks, [Request(1, 1, status=400), Request(2, 2)], repeats=True, ended={"evt_1"}).require()

    def test_an_event_that_was_sent_again_has_one_id_and_one_number(self):
        acks = [ack(1, status=None), ack(1)]
        self.assertCaught("event with two ids", acks, [Request(1, 1), Request(1, 2, event="evt_x")], repeats=True)
        self.assertCaught("event with two numbers", acks, [Request(1, 1), Request(1, 2)], repeats=True)

    def test_an_event_that_was_sent_once_has_the_id_that_its_client_was_told(self):
        self.assertCaught("another id than ingress said", [ack(1)],
                          [Request(1, 1, event="evt_x")], repeats=True)


class Lanes(unittest.TestCase):
    def judge(self, requests, **how):
        return check_lanes(requests, lambda r: r.headers["grapnel-workspace"], **how)

    def test_a_correct_run_passes(self):
        self.judge([
            Request(1, 1, at_ms=10, ended_ms=20, status=503), Request(2, 1, at_ms=21, ended_ms=25),
            Request(3, 2, at_ms=25, ended_ms=40), Request(4, 1, space="other", at_ms=30, ended_ms=50)]).require()

    def test_a_repeated_request_after_a_later_event_is_out_of_order(self):
        late = [Request(1, 1, at_ms=10, ended_ms=11), Request(2, 2, at_ms=12, ended_ms=13),
                Request(3, 1, at_ms=14, ended_ms=15)]
        self.assertIn("a request after one with a higher number", self.judge(late).problems)

    def test_two_requests_of_a_lane_at_once_are_found(self):
        problem = "two requests of a lane at once"
        for end in (30, None):
            both = [Request(1, 1, at_ms=10, ended_ms=end, sender="d"), Request(2, 1, at_ms=20, ended_ms=25, sender="e")]
            self.assertIn(problem, self.judge(both).problems)
            self.assertIn(problem, self.judge(both, unseen=lambda r: r.sender == "e").problems)
            self.judge(both, unseen=lambda r: r.sender == "d").require()
        self.judge([Request(1, 1, at_ms=10, ended_ms=30), Request(2, 1, at_ms=20, ended_ms=25)], slack_ms=10).require()

    def test_a_long_request_is_beside_all_that_follow(self):
        verdict = self.judge([Request(1, 1, at_ms=10, ended_ms=100), Request(2, 2, at_ms=20, ended_ms=25),
                              Request(3, 3, at_ms=30, ended_ms=35)])
        self.assertEqual(len(verdict.problems["two requests of a lane at once"]), 2)


class Stores(unittest.TestCase):
    events = [{"id": "evt_1", "workspace": "w", "sequence": 1, "status": "done"},
              {"id": "evt_2", "workspace": "w", "sequence": None,
               "status": "duplicate"}]
    deliveries = [{"event": "evt_1", "endpoint": "e", "status": "delivered"}]

    def assertCaught(self, problem, acks=(), events=events,
                     deliveries=deliveries, dead_letters=None):
        verdict = check_stores(list(acks), events, deliveries, dead_letters)
        self.assertIn(problem, verdict.problems, str(verdict))
        self.assertFalse(verdict.ok)

    def test_a_correct_run_passes(self):
        check_stores([ack(1), ack(2)], self.events, self.deliveries,
                     []).require()

    def test_an_acknowledged_event_must_be_there(self):
        self.assertEqual(
            check_stores([ack(3)], self.events, self.deliveries).lost,
            ["evt_3"])

    def test_all_work_must_have_ended(self):
        self.assertCaught("event that is not over", events=[
            {**self.events[0], "status": "routed"}])
        self.assertCaught("delivery that is not over", deliveries=[
            {**self.deliveries[0], "status": "retrying"}])

    def test_no_row_exists_twice(self):
        self.assertCaught("event stored twice", events=2 * self.events)
        self.assertCaught("delivery stored twice",
                          deliveries=2 * self.deliveries)

    def test_each_number_exists_once(self):
        third = {**self.events[0], "id": "evt_3"}
        self.assertCaught("number of two events",
                          events=[self.events[0], third])
        self.assertCaught("gap", events=[self.events[0],
                                          {**third, "sequence": 3}])

    def test_dead_deliveries_have_dead_letters(self):
        dead = [{**self.deliveries[0], "status": "dead"}]
        self.assertCaught("dead without a dead letter", deliveries=dead, dead_letters=[])
        self.assertCaught("dead letter without a reason", deliveries=dead, dead_letters=[
            {"event_id": "evt_1", "endpoint": "e", "reason": ""}])
        check_stores([], self.events, dead, [
            {"event_id": "evt_1", "endpoint": "e"}]).require()


unittest.main(verbosity=2)
