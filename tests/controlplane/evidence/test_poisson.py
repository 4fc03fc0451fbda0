"""The interval of a Poisson mean is Garwood's, and holds the mean as often as it says."""

import pytest
from scipy import stats

from controlplane.evidence.poisson import interval, upper


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_is_exact(count: int, level: float) -> None:
    outside = (1.0 - level) / 2.0
    low = stats.chi2.ppf(outside, 2 * count) / 2.0 if count else 0.0
    high = stats.chi2.ppf(1.0 - outside, 2 * count + 2) / 2.0
    assert interval(count, level) == pytest.approx((low, high), rel=1e-6)
    assert upper(count, level) == pytest.approx(stats.chi2.ppf(level, 2 * count + 2) / 2.0, rel=1e-6)


def test_nothing_seen_is_the_rule_of_three() -> None:
    assert upper(0) == pytest.approx(3.0, abs=0.01)
