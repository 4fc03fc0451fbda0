"""Deeds at their moments, by one thread."""

import threading
import time

import pytest

from controlplane.outgoing.deadlines import Deadlines

LONG_S = 3600.0


def test_deeds_are_done_in_the_order_of_their_moments_whenever_they_were_asked_for() -> None:
    done: list[str] = []
    last = threading.Event()
    deadlines, now = Deadlines(), time.monotonic()
    deadlines.at(now + LONG_S, lambda: done.append("never"))
    deadlines.at(now + 0.2, last.set)
    deadlines.at(now + 0.1, lambda: done.append("second"))
    deadlines.at(now - 1.0, lambda: done.append("first"))
    assert last.wait(30) and done == ["first", "second"]


def test_what_is_called_off_is_not_done_and_what_fails_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    last = threading.Event()
    deadlines, now = Deadlines(), time.monotonic()

    def fail() -> None:
        raise RuntimeError("no")

    call_off = deadlines.at(now + 0.3, lambda: done.append("called off"))
    call_off()
    call_off()
    deadlines.at(now, fail)
    deadlines.at(now + 0.4, last.set)
    assert last.wait(30) and done == []
    assert "what was to be done at a deadline failed" in caplog.text


def test_all_share_one_thread() -> None:
    deadlines = Deadlines()
    before = threading.active_count()
    for _ in range(100):
        deadlines.at(time.monotonic() + LONG_S, print)
    assert threading.active_count() == before + 1
