import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine_measures.stats import paired_ratio, quantile, summarize

FLOATS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@given(FLOATS, st.floats(0, 1))
def test_quantile_is_numpys(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-9)


@given(FLOATS)
def test_a_summary_orders_its_figures(values: list[float]) -> None:
    found = summarize(values)
    assert found.minimum <= found.low_quartile <= found.median <= found.high_quartile <= found.maximum
    assert found.median == statistics.median(values)
    assert found.count == len(values)
    assert found.iqr == found.high_quartile - found.low_quartile


def test_infinite_values_do_not_become_nan() -> None:
    assert quantile([1.0, math.inf, math.inf], 0.9) == math.inf


def test_nothing_has_no_quantile_and_no_summary() -> None:
    assert math.isnan(quantile([], 0.5))
    with pytest.raises(ValueError, match="nothing was measured"):
        summarize([])
    with pytest.raises(ValueError, match="not between 0 and 1"):
        quantile([1.0], 1.5)


def test_a_paired_ratio_is_taken_round_by_round() -> None:
    # The machine was ten times slower in the second round; the pairs do not see it.
    assert paired_ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]).median == 2.0
    assert paired_ratio([1.0, 2.0, 9.0], [1.0, 1.0, 1.0]).median == 2.0
    with pytest.raises(ValueError, match="2 rounds against 1"):
        paired_ratio([1.0, 2.0], [1.0])
