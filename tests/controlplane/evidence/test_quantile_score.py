"""The score of a quantile: how many lie above it, with the variance that a slowdown gives it."""

import numpy as np
import pytest

from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.evidence.quantile_score import above, spread_after
from controlplane.evidence.scores import Change

COUNTS = np.zeros(AXIS_LENGTH, dtype=np.int64)
PLACES = np.clip(np.random.default_rng(1).normal(500, 20, size=50_000), 0, AXIS_LENGTH - 1).astype(np.int64)
np.add.at(COUNTS, PLACES, 1)


@pytest.mark.parametrize("q", [0.9, 0.95, 0.99])
def test_of_the_usual_requests_it_has_mean_zero_and_variance_one(q: float) -> None:
    found = above(COUNTS, q)
    assert COUNTS @ found.table / COUNTS.sum() == pytest.approx(0.0, abs=0.02)
    assert found.shares @ found.table**2 == pytest.approx(1.0)
    assert found.table[0] < 0.0 < found.table[-1]


def test_it_jumps_at_the_quantile_within_a_tenth() -> None:
    table = above(COUNTS, 0.9).table
    middle = (table[0] + table[-1]) / 2.0
    assert abs(int(np.searchsorted(table, middle)) - np.quantile(PLACES, 0.9)) < 4


def test_after_a_slowdown_more_lie_above_and_scatter_more() -> None:
    found = above(COUNTS, 0.99)
    assert found.after(Change(1.2)) > found.after(Change(1.1)) > 0.0
    assert spread_after(found, Change(1.0)) == pytest.approx(1.0, abs=1e-6)
    assert spread_after(found, Change(1.2)) > 1.5


def test_requests_that_do_not_differ_have_a_score_all_the_same() -> None:
    flat = np.zeros(AXIS_LENGTH, dtype=np.int64)
    flat[500] = 1000
    assert above(flat, 0.9).after(Change(1.5)) > 0.0
