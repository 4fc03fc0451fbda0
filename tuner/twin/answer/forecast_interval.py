"""The interval of a forecast quantile: what its runs differ by, and what earlier ones were off by. Pure.

Both are ways to be wrong that know nothing of each other, so that their squares add up, on either side.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from controlplane.contract.planning.whatif import Forecasted
from tuner.twin.answer.forecast_error import key
from tuner.twin.pool_run import PoolRun

TIMES = 2.0
"""Standard deviations of the error to either side; of a metric's few quantiles together, for one alone is as often too
small as too large."""


def interval(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float]:
    """Low end, middle, high end. values: of the twin's runs, above 0; errors: forecast / measured - 1 of the metric's
    quantiles, where the truth was known. Off by e means that the truth is the forecast over 1 + e, or, to be
    even-handed, as far on the other side."""
    middle = median(values)
    off = TIMES * math.sqrt(sum(math.log1p(abs(one)) ** 2 for one in errors) / max(1, len(errors)))
    low, high = math.log(middle / min(values)), math.log(max(values) / middle)
    return middle * math.exp(-math.hypot(low, off)), middle, middle * math.exp(math.hypot(high, off))


def of_metric(error: Mapping[str, float], metric: str) -> list[float]:
    """The errors of this metric's quantiles, of all by `metric:q`."""
    return [one for name, one in error.items() if name.split(":")[0] == metric]


def quantiles_of(
    runs: Sequence[PoolRun],
    wanted: Sequence[tuple[str, float]],
    error: Mapping[str, float],
    since_s: float,
    until_s: float = math.inf,
) -> dict[str, Forecasted]:
    """Of requests that came meanwhile, those that there are. wanted: (metric, q); error: by `metric:q`."""
    found = {}
    for metric, q in wanted:
        values = [value for run in runs if (value := run.quantile(metric, q, since_s, until_s)) is not None]
        if values:
            low, middle, high = interval(values, of_metric(error, metric))
            found[key(metric, q)] = Forecasted(value_s=middle, low_s=low, high_s=high)
    return found
