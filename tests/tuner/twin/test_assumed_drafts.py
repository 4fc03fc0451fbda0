"""Drafts as the twin assumes them are those that were seen."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.twin.assumed_drafts import LEAST_REACHED, Drafts

EVEN = Drafts(0.8, (0.5,))


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


def test_each_place_is_kept_as_often_as_it_was_where_all_before_it_were() -> None:
    """Half of the drafts were of two tokens: their third place is nobody's."""
    found = EVEN.at_places([1000, 1000, 500], [800, 400, 100])
    assert found == Drafts(0.8, (pytest.approx(0.8), pytest.approx(0.5), pytest.approx(0.5)), by_place=True)


def test_a_place_that_hardly_any_draft_came_to_goes_as_the_one_before() -> None:
    found = EVEN.at_places([1000, 1000, 1000], [800, LEAST_REACHED - 1, 0])
    assert len(found.kept) == 2, "29 came to the third"
    assert EVEN.at_places([LEAST_REACHED - 1], [9]) == EVEN == EVEN.at_places([], [])


def test_a_place_that_is_never_kept_is_the_last() -> None:
    assert EVEN.at_places([1000, 1000, 1000], [800, 0, 0]).kept == (0.8, 0.0)


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_the_shares_that_drafts_were_drawn_by_are_found_again(shares: list[float], seed: int) -> None:
    """Of drafts of many lengths, whose length has nothing to do with what is kept."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, len(shares) + 1, size=20_000)
    kept = (chance.random((20_000, len(shares))) < shares).cumprod(axis=1).sum(axis=1)
    drafted = [float((lengths > place).sum()) for place in range(len(shares))]
    accepted = [float((np.minimum(kept, lengths) > place).sum()) for place in range(len(shares))]
    for place, found in enumerate(EVEN.at_places(drafted, accepted).kept):
        came = drafted[place] * np.prod(shares[:place])
        assert found == pytest.approx(shares[place], abs=6 * (1 / came) ** 0.5)
