"""Drafts as the twin assumes them are those that were seen."""

from random import Random

import pytest

from tuner.twin.assumed_drafts import Drafts


def test_they_are_offered_as_often_as_they_were() -> None:
    """Drafts of four were there in ten of eighty deliveries."""
    assert Drafts.seen(40, 20, 80, 4).offered == pytest.approx(10 / 80)


@pytest.mark.parametrize("length", [1, 4, 8])
@pytest.mark.parametrize("chance", [0.0, 0.3, 0.8, 1.0])
def test_of_a_draft_as_much_is_kept_as_was(chance: float, length: int) -> None:
    """What is behind a place that was not kept is lost: half of a draft kept is no even chance at each place."""
    random, accepted = Random(7), 0
    for _ in range(20_000):
        accepted += next((place for place in range(length) if random.random() >= chance), length)
    assert Drafts.seen(20_000 * length, accepted, 1e6, length).kept == (pytest.approx(chance, abs=0.01),)


@pytest.mark.parametrize(("deliveries", "length"), [(80, 0), (0, 4), (8, 4)])
def test_where_that_is_not_known_they_are_always_there(deliveries: int, length: int) -> None:
    assert Drafts.seen(40, 20, deliveries, length).offered == 1.0


def test_where_there_were_none_there_are_none() -> None:
    assert Drafts.seen(0, 0, 100, 4) == Drafts()
