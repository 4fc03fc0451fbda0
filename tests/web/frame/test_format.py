"""How values are written: units, absent values, ages."""

from datetime import UTC, datetime, timedelta

import pytest

from web.frame.format import ago, knob, percent, pretty, seconds


def test_absent_is_never_zero() -> None:
    assert percent(None) == "–"
    assert seconds(None) == "–" and seconds(0.0) == "0 µs"


def test_ages_use_their_largest_unit() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ages = [ago(now - timedelta(seconds=s), now) for s in (5, 120, 7200, 200000)]
    assert ages == ["5 s ago", "2 min ago", "2 h ago", "2 d ago"]
    assert ago(None) == "never"


def test_schedules_and_evidence_are_readable() -> None:
    assert knob([[4, 2], [16, 1]]) == "≤4: 2, ≤16: 1"
    assert '"x": 0.1235' in pretty({"x": 0.123456789})


@pytest.mark.parametrize("value", [["int8"], [], [[1]], [[1, 2, 3]], {"a": 1}, None, float("inf"), [None], "x"])
def test_a_knob_of_any_kind_is_written(value: object) -> None:
    assert isinstance(knob(value), str)
