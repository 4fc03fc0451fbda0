"""Which kernel timings choose."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.ops.preference import MARGIN, ranked, relative_times

OURS = {1: 10.0, 4: 11.0, 16: 20.0, 64: 60.0, 192: 150.0}


def scaled(*factors: float) -> dict[int, float]:
    return {rows: taken * factor for (rows, taken), factor in zip(OURS.items(), factors, strict=True)}


def test_tiles_that_are_quicker_at_many_rows_outweigh_a_little_at_few() -> None:
    """A processor with AMX: a third slower at one row, four times as fast at a prompt's piece."""
    assert ranked({"ours": OURS, "tiles": scaled(1.3, 1.0, 0.7, 0.5, 0.25)}) == ["tiles", "ours"]


def test_what_is_slower_at_few_rows_and_no_quicker_at_many_is_left() -> None:
    assert ranked({"ours": OURS, "packed": scaled(1.6, 1.5, 1.4, 1.1, 0.98)}) == ["ours", "packed"]


def test_within_the_noise_the_incumbent_stays() -> None:
    near = {"ours": OURS, "other": scaled(*[1 - MARGIN / 2] * 5)}
    assert ranked(near)[0] == "ours"
    assert ranked(near | {"other": scaled(*[1 - 2 * MARGIN] * 5)})[0] == "other"


def test_what_was_not_timed_comes_last() -> None:
    assert ranked({"ours": OURS, "absent": {}, "slow": scaled(*[9.0] * 5)}) == ["ours", "slow", "absent"]
    assert relative_times({"ours": OURS, "absent": {}})["absent"] == math.inf


@given(st.lists(st.lists(st.floats(1e-6, 1e3), min_size=5, max_size=5), min_size=1, max_size=4), st.floats(1e-3, 1e3))
def test_only_proportions_count_and_nothing_is_lost(times: list[list[float]], pace: float) -> None:
    seconds = {str(place): dict(zip(OURS, own, strict=True)) for place, own in enumerate(times)}
    found = relative_times(seconds)
    paced = relative_times({name: {rows: taken * pace for rows, taken in own.items()} for name, own in seconds.items()})
    assert paced == pytest.approx(found, rel=1e-6)
    assert sorted(ranked(seconds)) == sorted(seconds) and found["0"] == pytest.approx(1.0)
    assert found[ranked(seconds)[0]] <= 1.0
