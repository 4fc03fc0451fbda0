"""An error of our own in a part: counted each time, logged once an hour with its trace."""

import logging

import pytest

from web.frame.broken_parts import AGAIN_S, BrokenParts


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - with its trace.
        return caught


def test_it_is_counted_each_time_and_logged_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []
    now_s = 0.0
    broken = BrokenParts(counted.append, lambda: now_s)

    def logged() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            broken.note("now/pools", raised(KeyError("p99")))
        assert logged() == ["the part now/pools cannot be drawn"] and "KeyError: 'p99'" in caplog.text
        broken.note("now/pools", raised(ZeroDivisionError()))
        broken.note("now/recent", raised(KeyError("p99")))
        assert len(logged()) == 3
        now_s = AGAIN_S + 1
        broken.note("now/pools", raised(KeyError("p99")))
        assert len(logged()) == 4
    assert counted == ["now/pools"] * 4 + ["now/recent", "now/pools"]
