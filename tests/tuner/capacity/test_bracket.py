"""Loads are doubled, halved and then narrowed around the crossing, within the bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.capacity.bracket import LEAST, MOST, NARROW, NEAR, first_load, next_load
from tuner.capacity.monotone_fit import MonotoneFit


def _loads(true: float, replays: int, start: float = 1.0) -> list[float]:
    """What is replayed where the limit is exceeded from `true` on, by as much as the load exceeds that."""
    loads: list[float] = [start]
    while len(loads) < replays:
        excess = [{"ttft:0.95": min(max((load / true) - 1.0, -3.0), 1.4)} for load in loads]
        found = next_load(MonotoneFit.of(loads, excess, [1.0] * len(loads)))
        if found is None:
            break
        loads.append(found)
    return loads


@given(st.floats(LEAST * 1.05, MOST * 0.95), st.integers(8, 16))
def test_every_crossing_within_the_bounds_is_closed_in_on(true: float, replays: int) -> None:
    loads = _loads(true, replays)
    below, above = max(load for load in loads if load <= true), min(load for load in loads if load > true)
    assert above / below <= NARROW
    assert all(LEAST / NEAR <= load <= MOST * NEAR for load in loads)


def test_it_doubles_until_a_limit_breaks_and_halves_where_the_first_load_breaks_one() -> None:
    assert _loads(5.0, 4) == [1.0, 2.0, 4.0, 8.0]
    assert _loads(0.3, 3) == [1.0, 0.5, 0.25]
    assert _loads(5.0, 5)[-1] == pytest.approx(32**0.5)


@pytest.mark.parametrize(("true", "loads"), [(100.0, [1.0, 2.0, 4.0, 8.0, 16.0]), (0.01, [1.0, 0.5, 0.25, 0.125])])
def test_at_a_bound_it_ends(true: float, loads: list[float]) -> None:
    assert _loads(true, 20) == loads


def test_heats_begin_apart_and_within_a_factor_of_two() -> None:
    begins = [first_load(heat) for heat in range(20)]
    assert first_load(None) == 1.0 and all(2**-0.5 <= begin < 2**0.5 for begin in begins)
    assert len({round(begin, 2) for begin in begins}) == 20
