"""A page's own parameters: what is said is read, what is wrong is refused by its name, what is not is the usual."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from web.frame.own_parameters import MOST_S, one_of, seconds_of
from web.frame.selection import Selection, selection_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def selected(**params: str) -> Selection:
    return selection_of(params, NOW)


def test_a_word_is_one_of_those_offered_or_the_usual() -> None:
    assert one_of(selected(order="slowest"), "order", ("newest", "slowest"), "newest") == "slowest"
    assert one_of(selected(), "order", ("newest", "slowest"), "newest") == "newest"
    assert one_of(selected(), "state", ("healthy",), "") == ""
    with pytest.raises(BadRequest, match="order: 'best' is none of newest, slowest") as refused:
        one_of(selected(order="best"), "order", {"newest": 1, "slowest": 2}, "newest")
    assert refused.value.detail["field"] == "order"


@given(st.floats(0, MOST_S, exclude_max=True))
def test_a_number_of_seconds_is_read(value: float) -> None:
    assert seconds_of(selected(min=repr(value)), "min") == value
    assert seconds_of(selected(), "min") is None


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", "1e9", "1s"])
def test_what_is_no_number_of_seconds_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^max: wants a number of seconds") as refused:
        seconds_of(selected(max=text), "max")
    assert refused.value.detail["field"] == "max"
