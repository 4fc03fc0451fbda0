"""Gauges against their limits: in what share of a node's windows did all terms hold. Pure but for its tables."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from controlplane.alerts.symptoms.expressions import Level, Levels
from controlplane.alerts.symptoms.symptom_course import Course, Evidence, Flags, Scene, beyond
from controlplane.alerts.windows.window_table import Source, Values
from controlplane.contract.metrics import NODE, WINDOW_S
from controlplane.contract.share_text import share_text

EASED = 0.5
"""Over when the eased terms held in less than this part of the windows that were wanted."""


def sources_of(levels: Levels) -> list[Source]:
    return [Source(term.metric, WINDOW_S) for term in levels.terms]


def courses(levels: Levels, limit: float, resolve_at: float, scene: Scene) -> Iterator[Course]:
    """One for each node that measures all of it."""
    first, last = scene.columns(WINDOW_S, levels.window_s)
    found = [scene.tables.get(source).of(scene.pool, scene.nodes, first, last) for source in sources_of(levels)]
    for (node,) in sorted(set.intersection(*(set(one) for one in found))):
        yield _course(levels, limit, resolve_at, scene, node, [one[node,][:, 0] for one in found])


def _course(levels: Levels, limit: float, resolve_at: float, scene: Scene, node: str, measured: list[Values]) -> Course:
    there = np.logical_and.reduce([np.isfinite(values) for values in measured])
    windows = scene.sums(there.astype(np.float64), WINDOW_S, levels.window_s)
    held = _share(levels, limit, scene, measured, there, windows)
    eased = _share(levels, limit * resolve_at, scene, measured, there, windows)
    known = windows >= levels.min_windows
    breach = known & (held >= levels.held)
    calm = known & ~breach & (eased < EASED * levels.held)
    means = [scene.sums(np.where(there, values, 0.0), WINDOW_S, levels.window_s) for values in measured]
    return Course({NODE.label: node}, held, breach, calm, partial(_evidence, levels, windows, held, means))


def _share(levels: Levels, limit: float, scene: Scene, measured: list[Values], there: Flags, windows: Values) -> Values:
    limits = [limit, *(term.limit for term in levels.terms[1:])]
    holds = there.copy()
    for term, values, at in zip(levels.terms, measured, limits, strict=True):
        holds &= beyond(term, _read(term, values), at)
    sums = scene.sums(holds.astype(np.float64), WINDOW_S, levels.window_s)
    return np.asarray(sums / np.maximum(windows, 1.0), np.float64)


def _read(term: Level, values: Values) -> Values:
    if term.bits:
        return np.asarray((np.nan_to_num(values).astype(np.int64) & term.bits) != 0, np.float64)
    return np.asarray(np.abs(values) if term.magnitude else values, np.float64)


def _evidence(levels: Levels, windows: Values, held: Values, sums: list[Values], at: int) -> Evidence:
    count = max(windows[at], 1.0)
    return {
        "windows": round(windows[at]),
        "held_in": round(held[at] * windows[at]),
        "means": {term.metric: round(one[at] / count, 6) for term, one in zip(levels.terms, sums, strict=True)},
        "error_rate": {
            "statement": (
                f"measured, no chance involved: so in {round(held[at] * windows[at])} of {round(windows[at])} windows "
                f"of {WINDOW_S:g} s, wanted were {share_text(levels.held)}"
            )
        },
    }
