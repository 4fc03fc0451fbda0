"""What is fitted never falls in the load, and the limit that breaks first decides."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.capacity.monotone_fit import MonotoneFit

REPLAYS = st.lists(
    st.tuples(st.floats(0.1, 16.0), st.floats(-3.0, 1.4), st.floats(-3.0, 1.4), st.floats(1.0, 100.0)),
    min_size=1,
    max_size=12,
)


def _fit(replays: list[tuple[float, float, float, float]]) -> MonotoneFit:
    return MonotoneFit.of(
        [load for load, *_ in replays],
        [{"ttft:0.95": ttft, "errors": lost} for _, ttft, lost, _ in replays],
        [weight for *_, weight in replays],
    )


@given(REPLAYS)
def test_the_fit_is_monotone_and_keeps_the_weighted_mean(replays: list[tuple[float, float, float, float]]) -> None:
    fit = _fit(replays)
    ordered = sorted(replays, key=lambda one: one[0])
    for values in fit.excess.values():
        assert (np.diff(values) >= -1e-12).all()
    weights = [weight for *_, weight in ordered]
    told = np.average([one[1] for one in ordered], weights=weights)
    assert np.average(fit.excess["ttft:0.95"], weights=weights) == pytest.approx(told, abs=1e-9)


@given(REPLAYS)
def test_the_crossing_lies_between_the_edges(replays: list[tuple[float, float, float, float]]) -> None:
    fit = _fit(replays)
    low, high = fit.edges
    assert low <= fit.crossing <= high
    assert (low == 0.0) == (fit.kept == 0) and (high == math.inf) == (fit.kept == len(replays))
    assert (fit.broken_first is None) == (high == math.inf)


def test_of_several_limits_the_first_that_breaks_decides() -> None:
    fit = _fit([(1.0, -1.0, -3.0, 1.0), (2.0, -0.5, 0.5, 1.0), (4.0, 1.0, 1.0, 1.0)])
    assert fit.edges == (1.0, 2.0) and fit.broken_first == "errors"
    assert fit.crossing == pytest.approx(2 ** (2 / 3))


def test_a_replay_out_of_order_is_pooled_with_its_neighbour() -> None:
    fit = _fit([(1.0, -1.0, -3.0, 1.0), (2.0, 0.3, -3.0, 1.0), (3.0, -0.5, -3.0, 1.0), (4.0, 1.0, -3.0, 1.0)])
    assert fit.excess["ttft:0.95"].tolist() == pytest.approx([-1.0, -0.1, -0.1, 1.0])
    assert fit.edges == (3.0, 4.0)
