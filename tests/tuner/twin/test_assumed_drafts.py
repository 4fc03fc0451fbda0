"""Drafts as the twin assumes them are those that were seen."""

import pytest

from tuner.twin.assumed_drafts import Drafts


def test_they_are_offered_as_often_as_they_were() -> None:
    """A hundred tokens, twenty of which drafts gave, came in eighty deliveries; drafts of four were there in ten."""
    assert Drafts.seen(40, 20, 100, 4) == Drafts(pytest.approx(10 / 80), (0.5,))


@pytest.mark.parametrize(("decoded", "length"), [(100, 0), (20, 4), (30, 4)])
def test_where_that_is_not_known_they_are_always_there(decoded: int, length: int) -> None:
    assert Drafts.seen(40, 20, decoded, length) == Drafts(1.0, (0.5,))


def test_where_there_were_none_there_are_none() -> None:
    assert Drafts.seen(0, 0, 100, 4) == Drafts()
