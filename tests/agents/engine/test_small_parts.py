"""The engine's small pure parts."""

import subprocess
import sys

import pytest

from agents.engine.core.event_log import EventLog
from agents.engine.request.timing import RequestClock


def test_scheduling_needs_no_torch() -> None:
    code = (
        "import sys, agents.engine.scheduling.scheduler, agents.engine.speculation.ngram;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestEventLog:
    def test_resumes_after_a_number(self) -> None:
        log = EventLog(10)
        for number in range(4):
            log.append({"kind": "step", "time": float(number)})
        assert [event["seq"] for event in log.after(log.resume_point(log.boot, 2))] == [3, 4]

    def test_starts_at_the_oldest_when_the_number_has_left_the_ring(self) -> None:
        log = EventLog(3)
        for number in range(10):
            log.append({"kind": "step", "time": float(number)})
        assert (log.oldest, log.newest) == (8, 10)
        assert [event["seq"] for event in log.after(2)] == [8, 9, 10]

    def test_another_boot_or_a_future_number_starts_at_the_oldest(self) -> None:
        log = EventLog(3)
        log.append({"kind": "step", "time": 0.0})
        assert log.resume_point("other", 1) == log.resume_point(log.boot, 99) == log.resume_point(None, 1) == 0


class TestRequestClock:
    def test_parts_add_up_and_what_no_mark_covers_is_unaccounted(self) -> None:
        clock = RequestClock(arrived=0.0)
        clock.received, clock.tokenize_started, clock.tokenized, clock.submitted = 1.0, 1.5, 2.5, 3.0
        clock.scheduled, clock.first_token, clock.last_token, clock.ended = 5.0, 9.0, 17.0, 20.0
        clock.first_sent = 9.5
        parts = clock.parts()
        assert parts == {
            "e2e": 20.0,
            "receive": 1.0,
            "tokenize": 1.0,
            "queue": 2.0,
            "prefill": 4.0,
            "decode": 8.0,
            "send": 3.0,
            "unaccounted": 1.0,
        }
        assert clock.ttft == 9.5 and clock.tpot(6) == pytest.approx(10.5 / 5)

    def test_an_early_end_lies_in_the_part_it_was_in(self) -> None:
        clock = RequestClock(arrived=0.0)
        clock.received = clock.tokenize_started = clock.tokenized = clock.submitted = 1.0
        clock.ended = 4.0
        assert clock.parts(finished=False)["queue"] == 3.0
        clock.scheduled, clock.first_token, clock.last_token = 2.0, 2.5, 3.0
        parts = clock.parts(finished=False)
        assert (parts["queue"], parts["prefill"], parts["decode"], parts["send"]) == (1.0, 0.5, 1.5, 0.0)
        assert clock.tpot(1) is None
