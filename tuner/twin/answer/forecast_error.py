"""The twin's error: of requests that its fit did not see, beside what was measured of them. Pure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.metrics import E2E, TPOT, TTFT
from tuner.twin.answer.good_share import measured_values, share_of
from tuner.twin.known_pool import Known
from tuner.twin.pool_run import PoolRun

WANTED: Sequence[tuple[str, float]] = [
    *((TTFT.short, q) for q in (0.5, 0.95, 0.99)),
    *((metric.short, q) for metric in (TPOT, E2E) for q in (0.5, 0.95)),
]


def key(metric: str, q: float) -> str:
    """The contract's name of a quantile: "ttft:0.95"."""
    return f"{metric}:{q:g}"


def error_of(known: Known, run: PoolRun) -> tuple[dict[str, float], dict[str, float]]:
    """Forecast / measured - 1 of what came in the second half, and what was measured of it."""
    half_s, late = known.half_s, _late(known, run)
    measured, error = {}, {}
    for metric, q in WANTED:
        real = [
            one.parts[metric]
            for one in known.records
            if half_s <= known.at_s(one) < known.until_s
            and metric in one.parts
            and (metric != TPOT.short or one.output_tokens > 1)
        ]
        twin = run.values[metric][late]
        twin = twin[~np.isnan(twin)]
        if real and twin.size and (value := float(np.quantile(real, q))) > 0.0:
            measured[key(metric, q)] = value
            error[key(metric, q)] = float(np.quantile(twin, q)) / value - 1.0
    return error, measured


def _late(known: Known, run: PoolRun) -> NDArray[np.bool_]:
    """Which of its requests came in the second half."""
    return (run.at_s >= known.half_s) & (run.at_s < known.until_s)


def good_error_of(known: Known, run: PoolRun) -> float:
    """Forecast - measured share of good requests in the second half."""
    limits, late = known.task.asked.good, _late(known, run)
    records = [one for one in known.records if known.half_s <= known.at_s(one) < known.until_s]
    told = share_of({metric: values[late] for metric, values in run.values.items()}, limits)
    return told - share_of(measured_values(records, [*run.values]), limits)
