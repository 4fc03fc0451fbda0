"""Rivals of the judge, each a statistic a minute of time to first token: the larger, the worse the canary looks.

Each is rolled back by the first minute above a threshold, which is set on trials of equal canaries of their own so that
as many of those are rolled back as is asked for.

- Kayenta: Mann-Whitney's test on the minutes' p95 so far, -log10 of the one-sided p-value, from the fifth minute on.
- Flagger: the least ratio of p99 of the last three minutes.
- KDD band: the time-uniform band on two distributions (Lindon et al., KDD 2022): sup(F_a - F_b) over its width.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from benchmarks.rollout_measures.canary_pool import Requests

Floats = NDArray[np.float64]
Minutes = Sequence[tuple[Floats, Floats]]
"""Values of control and canary, minute by minute."""


def minutes_of(seen: Sequence[Requests], canary: Sequence[int]) -> list[tuple[Floats, Floats]]:
    at = np.concatenate([one.at for one in seen])
    node = np.concatenate([one.node for one in seen])
    ttft = np.concatenate([one.prefill + one.queue for one in seen])
    minute = ((at - at[0]) // 60.0).astype(np.int64)
    mine = np.isin(node, canary)
    return [(ttft[(minute == one) & ~mine], ttft[(minute == one) & mine]) for one in range(int(minute.max()))]


def kayenta(minutes: Minutes) -> list[float]:
    points = [tuple(float(np.quantile(arm, 0.95)) for arm in arms) for arms in minutes]
    found = []
    for count in range(1, len(points) + 1):
        control, canary = zip(*points[:count], strict=True)
        p = mannwhitneyu(canary, control, alternative="greater").pvalue if count >= 5 else 1.0
        found.append(-math.log10(max(float(p), 1e-300)))
    return found


def flagger(minutes: Minutes) -> list[float]:
    ratios = [float(np.quantile(canary, 0.99) / np.quantile(control, 0.99)) for control, canary in minutes]
    return [min(ratios[max(0, place - 2) : place + 1]) if place >= 2 else 0.0 for place in range(len(ratios))]


def band(minutes: Minutes) -> list[float]:
    found = []
    for count in range(1, len(minutes) + 1):
        arms = [np.sort(np.concatenate([one[arm] for one in minutes[:count]])) for arm in (0, 1)]
        grid = arms[1]
        control, canary = (np.searchsorted(arm, grid, side="right") / arm.size for arm in arms)
        found.append(float((control - canary).max()) / sum(_width(arm.size) for arm in arms))
    return found


def _width(count: int) -> float:
    return 0.85 * math.sqrt((math.log(math.log(math.e * count)) + 0.8 * math.log(1612 / 0.005)) / count)


RIVALS = {"Kayenta": kayenta, "Flagger": flagger, "KDD band": band}
