"""What is wrong in reports is counted each time and said once."""

import logging

import pytest

from controlplane.fleet.enrolling.minute_pace import Pace
from controlplane.fleet.opamp.left_out import LeftOut


def test_the_same_problem_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    events, enrolments = Pace(2), Pace(1)
    left_out = LeftOut(events, enrolments)
    with caplog.at_level(logging.WARNING):
        for problems in (("a",), ("a",), ("a", "b"), (), ("a",)):
            left_out.note("n", problems)
    assert [record.args for record in caplog.records] == [("n", "a"), ("n", "a; b"), ("n", "a")]
    for _ in range(4):
        events.allows("n")
        enrolments.allows("token")
    assert [sample.value for metric in left_out.collect() for sample in metric.samples] == [5, 2, 3]
