"""What others run, each as one number a tick: it alarms where the number reaches a threshold, the rival's only knob.

A rival is a pure function of the pool's histograms: `usual`, int64[axis], of the six hours before this chunk, and
`recent`, int64[past + ticks, axis], the last `PAST_TICKS` before the chunk and the chunk itself, on any part of the
axis that holds them all. It answers float64[ticks]. As published each has a threshold of its own (`PUBLISHED`);
`equal_terms.py` finds the one at which it is as quiet as the product.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import BASE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rival = Callable[[Ints, Ints, int], Floats]

PAST_TICKS = 4320
MINUTE, FIVE_MINUTES, HALF_HOUR, HOUR, SIX_HOURS = 12, 60, 360, 720, 4320


def p99_rule(usual: Ints, recent: Ints, ticks: int) -> Floats:
    """`p99[5m] / p99 of the six hours before`, the least of five minutes: Prometheus' `expr > 1.2` with `for: 5m`."""
    kept = recent[-(ticks + 2 * FIVE_MINUTES) :]
    factor = BASE ** (_place(_rolling(kept, FIVE_MINUTES), 0.99) - _place(usual[None, :], 0.99))
    return _least(factor, FIVE_MINUTES)[-ticks:]


def burn_rates(usual: Ints, recent: Ints, ticks: int) -> Floats:
    """Google, "The Site Reliability Workbook" (2018), chapter 5: an hour and 5 minutes at 14.4, or 6 h and 30 min at 6.

    The objective: 99 % of requests under what was the p99 before.
    """
    edge = math.ceil(float(_place(usual[None, :], 0.99)[0]))
    pairs = np.stack([recent.sum(axis=1), recent[:, edge + 1 :].sum(axis=1)], axis=1).astype(np.float64)

    def burnt(window: int) -> Floats:
        sums = _rolling(pairs, window)[-ticks:]
        return np.asarray(sums[:, 1] / np.maximum(sums[:, 0], 1.0) / 0.01)

    fast, slow = np.minimum(burnt(HOUR), burnt(FIVE_MINUTES)), np.minimum(burnt(SIX_HOURS), burnt(HALF_HOUR))
    return np.maximum(fast / 14.4, slow / 6.0)


def distribution_band(usual: Ints, recent: Ints, ticks: int) -> Floats:
    """Lindon, Sanden, Shirikian, "Rapid Regression Detection in Software Deployments through Sequential Testing" (KDD
    2022): how far the newer distribution lies beyond the older one, in widths of their time-uniform bands; begun anew
    each quarter of an hour."""
    older = np.cumsum(usual) / usual.sum()
    found = np.zeros(ticks)
    fresh = recent[-ticks:]
    for begin in range(0, ticks, 3 * FIVE_MINUTES):
        part = np.cumsum(np.cumsum(fresh[begin : begin + 3 * FIVE_MINUTES], axis=0), axis=1)
        count = np.maximum(part[:, -1:], 1)
        width = _band(count[:, 0]) + _band(np.array([usual.sum()]))
        found[begin : begin + part.shape[0]] = (older - part / count).max(axis=1) / width
    return found


def mann_whitney(usual: Ints, recent: Ints, ticks: int) -> Floats:
    """Kayenta (Netflix and Google, 2018), `MannWhitneyClassifier`: ten minutes' p95s against those of the hour before.

    Each minute: the lower end of the 98 % interval of the shift (Hodges and Lehmann), as a share of the level.
    """
    kept = recent[-(math.ceil(ticks / MINUTE) * MINUTE + 70 * MINUTE) :]
    points = BASE ** _place(kept.reshape(-1, MINUTE, kept.shape[1]).sum(axis=1), 0.95)
    found = []
    for end in range(70, points.size):
        older, newer = points[end - 70 : end - 10], points[end - 10 : end]
        apart = np.sort((newer[:, None] - older[None, :]).ravel())
        spread = math.sqrt(10 * 60 * 71 / 12.0)
        found.append(apart[max(0, int(300 - 2.326 * spread))] / older.mean())
    return np.repeat([0.0, *found], MINUTE)[:ticks]


def windowed_gaussian(usual: Ints, recent: Ints, ticks: int) -> Floats:
    """Lavin and Ahmad, "Evaluating Real-time Anomaly Detection Algorithms: the Numenta Anomaly Benchmark" (2015): the
    z-score of a tick's mean log latency among those of the last six hours."""
    counts = recent.sum(axis=1)
    logs = (recent @ np.arange(recent.shape[1])) / np.maximum(counts, 1)
    known = np.where(counts > 0, logs, np.median(logs[counts > 0]))
    sums = np.concatenate([[[0.0, 0.0]], np.cumsum(np.stack([known, known**2], axis=1), axis=0)])
    window = known.size - ticks
    before = np.arange(window, known.size)
    mean, square = (sums[before] - sums[before - window]).T / window
    return np.asarray((known[window:] - mean) / np.sqrt(np.maximum(square - mean**2, 1e-12)))


RIVALS: dict[str, Rival] = {
    "p99 rule": p99_rule,
    "burn rates": burn_rates,
    "KDD 2022 band": distribution_band,
    "Kayenta": mann_whitney,
    "windowed Gaussian": windowed_gaussian,
}
PUBLISHED = {"p99 rule": 1.2, "burn rates": 1.0, "KDD 2022 band": 1.0, "Kayenta": 0.25, "windowed Gaussian": 4.0}


def _band(count: Ints) -> Floats:
    """Half the width at error 0.01: u_n of theorem 2 of the paper."""
    n = np.maximum(count.astype(np.float64), 3.0)
    return np.asarray(0.85 * np.sqrt((np.log(np.log(math.e * n)) + 0.8 * math.log(1612.0 / 0.005)) / n))


def _place(counts: Ints | Floats, q: float) -> Floats:
    """Where on the axis the quantile of each row lies; nan of an empty row."""
    below = np.cumsum(counts, axis=1)
    whole = below[:, -1:]
    place = (below >= q * whole).argmax(axis=1)
    rows = np.arange(place.size)
    inside = np.maximum(counts[rows, place], 1)
    part = 1.0 - (below[rows, place] - q * whole[:, 0]) / inside
    return np.where(whole[:, 0] > 0, place + part, math.nan)


def _rolling(rows: Ints | Floats, window: int) -> Floats:
    """Sums over the last `window` rows, or as many as there are."""
    sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    ends = np.arange(1, rows.shape[0] + 1)
    return np.asarray(sums[ends] - sums[np.maximum(ends - window, 0)])


def _least(values: Floats, window: int) -> Floats:
    """The least of the last `window`; nan where any is not known."""
    padded = np.concatenate([np.full(window - 1, math.nan), values])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, window).min(axis=1))
