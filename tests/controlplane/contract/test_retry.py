"""Retry-After in both its forms, and whatever else a sender puts there."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.retry import LONGEST_S, doubling_s, retry_after_s

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Tue, 01 Jan 2030 12:00:30 GMT", 30.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0.0),
        ("Tue, 01 Jan 2030 14:00:30 +0200", 30.0),
        ("Wed, 02 Jan 2030 12:00:00 GMT", LONGEST_S),
        ("9" * 400, LONGEST_S),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-5", None),
        ("٣", None),
        ("1e3", None),
    ],
)
def test_seconds_or_a_date(header: str | None, wanted: float | None) -> None:
    assert retry_after_s(header, NOW) == wanted


def test_the_longest_wait_is_the_callers() -> None:
    assert retry_after_s("900", NOW, 300.0) == 300.0


def test_pauses_double_up_to_five_minutes() -> None:
    assert [doubling_s(n) for n in (1, 2, 3, 9, 10, 5000)] == [1, 2, 4, 256, 300, 300]


DATE_LIKE = st.text("0123456789 :,+-.GMTJanTue/()", max_size=40)


@given(st.text() | DATE_LIKE)
def test_nothing_makes_it_raise(header: str) -> None:
    wait_s = retry_after_s(header, NOW)
    assert wait_s is None or 0 <= wait_s <= LONGEST_S
