"""Durations, times and windows."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import WINDOW_NS
from controlplane.telemetry.values import timespan

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("2d", 172800), ("15", 15), ("1.5h", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert timespan.parse_duration(text, "window") == seconds


@pytest.mark.parametrize("text", ["", "m", "-5m", "5 m", "5y", "١s", "0", "1e3", "9" * 60, "401d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        timespan.parse_duration(text, "step")
    assert caught.value.detail == {"field": "step"} and caught.value.message.startswith("step: ")


@pytest.mark.parametrize(
    ("text", "hour"),
    [("2026-03-01T12:00:00Z", 12), ("2026-03-01T12:00:00+02:00", 10), ("2026-03-01T12:00:00 02:00", 10)],
)
def test_times(text: str, hour: int) -> None:
    assert timespan.parse_time(text, "start") == datetime(2026, 3, 1, hour, tzinfo=UTC)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "1969-12-31T00:00:00Z"])
def test_times_beyond_64_bits_of_nanoseconds(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        timespan.parse_time(text, "end")
    assert caught.value.detail == {"field": "end"}


def test_spans() -> None:
    minute = timedelta(minutes=1)
    start = (NOW - 10 * minute).isoformat()
    assert timespan.resolve(NOW, None, None, None) == timespan.Span(NOW - 5 * minute, NOW)
    assert timespan.resolve(NOW, "1m", None, None) == timespan.Span(NOW - minute, NOW)
    assert timespan.resolve(NOW, None, start, None) == timespan.Span(NOW - 10 * minute, NOW)
    assert timespan.resolve(NOW, "1m", start, None) == timespan.Span(NOW - 10 * minute, NOW - 9 * minute)
    assert timespan.resolve(NOW, "1m", None, start) == timespan.Span(NOW - 11 * minute, NOW - 10 * minute)


def test_a_window_belongs_to_a_span_when_its_start_does() -> None:
    first, last = timespan.windows_in(NOW, NOW + timedelta(seconds=10))
    assert last - first == 2 and timespan.start_of(first) == NOW
    assert timespan.windows_in(NOW + timedelta(microseconds=1), NOW + timedelta(seconds=5)) == (first + 1, first + 1)
    assert timespan.windows_in(NOW, NOW + timedelta(microseconds=1)) == (first, first + 1)
    assert timespan.window_at(NOW) == first and timespan.window_at(NOW - timedelta(microseconds=1)) == first - 1


def test_a_report_lies_in_the_window_that_it_ends() -> None:
    assert timespan.window_of(7 * WINDOW_NS) == 6 and timespan.window_of(7 * WINDOW_NS + 1) == 7
    assert timespan.at_ns(timespan.to_ns(NOW)) == NOW
