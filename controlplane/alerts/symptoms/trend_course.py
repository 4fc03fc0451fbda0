"""A gauge that moves steadily towards its end: Mann and Kendall's test, and Theil and Sen's slope. Pure but for tables.

Guarantee: a jump is no trend, and neither is a level that rests: the test asks how often later windows lie below
earlier ones, whatever by (H. B. Mann, Econometrica 13, 1945; P. K. Sen, J. Am. Stat. Assoc. 63, 1968).
"""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from controlplane.alerts.symptoms.expressions import Trend
from controlplane.alerts.symptoms.symptom_course import Course, Evidence, Scene
from controlplane.alerts.windows.window_table import Source, Values
from controlplane.contract.metrics import NODE

ENOUGH = 2 / 3
"""Of a window's steps so many must be measured."""


def sources_of(trend: Trend) -> list[Source]:
    return [Source(trend.metric, trend.step_s)]


def courses(trend: Trend, limit: float, resolve_at: float, scene: Scene) -> Iterator[Course]:
    (source,) = sources_of(trend)
    series = scene.tables.get(source).of(scene.pool, scene.nodes, *scene.columns(trend.step_s, trend.window_s))
    for (node,), values in sorted(series.items(), key=lambda item: item[0]):
        yield _course(trend, limit, resolve_at, scene, node, values[:, 0])


def _course(trend: Trend, limit: float, resolve_at: float, scene: Scene, node: str, values: Values) -> Course:
    width, stride = round(trend.window_s / trend.step_s), round(scene.every_s / trend.step_s)
    cuts = [values[at * stride : at * stride + width] for at in range(len(scene.ends))]
    known = np.array([np.isfinite(cut).mean() >= ENOUGH for cut in cuts])
    zs, left, levels = (np.zeros(len(cuts)) for _ in range(3))
    for at in np.flatnonzero(known):
        zs[at], slope = falling(cuts[at])
        levels[at] = float(np.nanmedian(cuts[at][-3:])) if np.isfinite(cuts[at][-3:]).any() else math.nan
        left[at] = (levels[at] - trend.limit) / -slope * trend.step_s if slope < 0.0 else math.inf
    breach = known & (zs <= -trend.min_z) & (left < limit)
    calm = known & ~breach & ((zs > -trend.min_z) | (left > limit * resolve_at))
    return Course({NODE.label: node}, left, breach, calm, partial(_evidence, trend, zs, left, levels))


def falling(values: Values) -> tuple[float, float]:
    """Mann and Kendall's z (below 0 where it falls) and Theil and Sen's slope a step; NaN are left out."""
    at = np.flatnonzero(np.isfinite(values))
    rows, columns = np.triu_indices(len(at), 1)
    if not len(rows):
        return 0.0, 0.0
    differences = values[at[columns]] - values[at[rows]]
    score, n = float(np.sign(differences).sum()), len(at)
    spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18.0)
    slope = float(np.median(differences / (at[columns] - at[rows])))
    return (score - math.copysign(1.0, score)) / spread if score else 0.0, slope


def _evidence(trend: Trend, zs: Values, left: Values, levels: Values, at: int) -> Evidence:
    return {
        trend.metric: round(float(levels[at]), 4),
        "z": round(float(zs[at]), 2),
        "left_s": round(float(left[at])),
        "error_rate": {
            "statement": (
                f"Mann and Kendall's z is {zs[at]:.1f} over {trend.window_s / 3600:g} h; of independent values it "
                f"would be below -{trend.min_z:g} with a probability of {0.5 * math.erfc(trend.min_z / 2**0.5):.1g}"
            )
        },
    }
