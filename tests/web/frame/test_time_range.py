"""The time of a page: Grafana's words and moments are understood, all else is refused with its field."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from web.frame.time_range import FIRST, LONGEST, MOST_POINTS, OFFERED, STEPS_S, TimeRange, duration, time_range

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2199, 12, 30), timezones=st.just(UTC))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def test_what_is_not_said_is_the_last_quarter_of_an_hour() -> None:
    usual = time_range("", "", NOW)
    assert usual == TimeRange() and usual.is_live and usual.words == "last 15 minutes"
    assert usual.at(NOW) == (NOW - timedelta(minutes=15), NOW)


@pytest.mark.parametrize("word", list(OFFERED))
def test_each_range_that_is_offered_is_one(word: str) -> None:
    found = time_range(word, "now", NOW)
    assert found.words == OFFERED[word] and timedelta() < found.length(NOW) <= LONGEST


@given(st.integers(1, 92 * 86_400), st.sampled_from("smhdw"))
def test_a_relative_range_moves_with_the_clock(count: int, unit: str) -> None:
    length = timedelta(seconds=count * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[unit])
    word = f"now-{count}{unit}"
    if count > 999_999 or length > LONGEST:
        with pytest.raises(BadRequest):
            time_range(word, "", NOW)
        return
    for now in (NOW, NOW + timedelta(hours=1)):
        assert time_range(word, "", NOW).at(now) == (now - length, now)


@given(MOMENTS, st.timedeltas(timedelta(microseconds=1), LONGEST), ZONES)
def test_two_moments_are_the_range_between_them_in_any_zone(start: datetime, length: timedelta, zone: timezone) -> None:
    end = start + length
    if end > datetime(2200, 1, 1, tzinfo=UTC):
        return
    found = time_range(start.astimezone(zone).isoformat(), end.isoformat(), NOW)
    assert found.at(NOW) == (start, end) and not found.is_live
    step_s = found.step_s(NOW)
    assert step_s in STEPS_S and length.total_seconds() / step_s <= MOST_POINTS
    assert step_s == STEPS_S[0] or length.total_seconds() / STEPS_S[STEPS_S.index(step_s) - 1] > MOST_POINTS
    assert found.earlier(timedelta(days=1), NOW) == (start - timedelta(days=1), end - timedelta(days=1))


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [
        ("yesterday", "", "from"),
        ("now-", "", "from"),
        ("now-15", "", "from"),
        ("now-15y", "", "from"),
        ("now+15m", "", "from"),
        ("now-1h ", "", "from"),
        ("now-\N{ARABIC-INDIC DIGIT THREE}hh", "", "from"),
        ("2026-03-01T12:00:00", "now", "from"),
        ("2026-03-01", "now", "from"),
        ("now-1h", "never", "to"),
        ("now-1h", "now-1h", "to"),
        ("now-1h", "now-2h", "to"),
        ("2026-03-01T12:00:00Z", "2026-03-01T11:59:59Z", "to"),
        ("now-93d", "now", "from"),
        ("now-999999w", "now-999998w", "from"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T01:00:00Z", "from"),
        ("1969-12-31T23:59:59Z", "1970-01-01T01:00:00Z", "from"),
        ("2199-12-31T00:00:00Z", "9999-12-31T23:59:59Z", "to"),
    ],
)
def test_what_is_no_range_is_refused_with_its_field(start: str, end: str, field: str) -> None:
    with pytest.raises(BadRequest, match=f"^{field}: ") as refused:
        time_range(start, end, NOW)
    assert refused.value.detail["field"] == field


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_words_are_a_range_after_the_first_moment_or_are_refused(start: str, end: str) -> None:
    try:
        found = time_range(start, end, NOW)
    except BadRequest as refused:
        assert refused.detail["field"] in ("from", "to")
        return
    assert FIRST <= found.at(NOW)[0] < found.at(NOW)[1]


@given(st.integers(0, 10**7), st.sampled_from(["s", "m", "h", "d", "w", "", "y", "S"]))
def test_a_length_of_time_is_read_or_refused_with_its_field(count: int, unit: str) -> None:
    try:
        found = duration(f"{count}{unit}", "compare")
    except BadRequest as refused:
        assert refused.detail["field"] == "compare"
        assert count == 0 or count > 500 or not re.fullmatch("[smhdw]", unit)
    else:
        assert found.total_seconds() == count * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[unit]
