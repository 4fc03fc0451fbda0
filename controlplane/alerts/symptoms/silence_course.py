"""Nodes that have stopped reporting. Pure but for its tables.

Guarantee: a node that the fleet no longer knows, or that does not serve, is not missed; one with an open alert stays
silent until it is heard, however long that takes. Senders outside the fleet are missed while they are remembered.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from controlplane.alerts.symptoms.expressions import Silence
from controlplane.alerts.symptoms.symptom_course import Course, Evidence, Scene
from controlplane.alerts.windows.window_table import Source, Values
from controlplane.contract.metrics import NODE

STEP_S = 60.0


def sources_of(silence: Silence) -> list[Source]:
    return [Source(silence.metric, STEP_S)]


def courses(silence: Silence, limit: float, scene: Scene) -> Iterator[Course]:
    (source,) = sources_of(silence)
    columns = scene.columns(STEP_S, silence.remembered_s)
    series = {key[0]: one[:, 0] for key, one in scene.tables.get(source).of(scene.pool, scene.nodes, *columns).items()}
    missed = {node: np.full(columns[1] - columns[0], np.nan) for node in scene.open_nodes if node not in series}
    for node, values in sorted({**series, **missed}.items()):
        if node in scene.enrolled or not scene.enrolled:
            yield _course(limit, scene, node, values, columns[0])


def _course(limit: float, scene: Scene, node: str, values: Values, first: int) -> Course:
    """A step's own end is when it was last heard of."""
    heard = np.where(np.isfinite(values), (np.arange(len(values)) + first + 1) * STEP_S, -np.inf)
    latest = np.maximum.accumulate(heard)
    ends = np.asarray(scene.ends, np.float64)
    last_heard = latest[np.round(ends / STEP_S).astype(np.int64) - first - 1]
    known = np.isfinite(last_heard)
    silent_s = np.where(known, ends - last_heard, 0.0)
    since = scene.open_nodes.get(node)
    if since is not None and node in scene.enrolled:
        silent_s = np.where(known, silent_s, np.maximum(ends - since, limit))
        known = np.ones_like(known)
    breach = known & (silent_s >= limit)
    return Course({NODE.label: node}, silent_s, breach, known & ~breach, partial(_evidence, scene, node, silent_s))


def _evidence(scene: Scene, node: str, silent_s: Values, at: int) -> Evidence:
    view = scene.enrolled.get(node)
    return {
        "silent_s": round(float(silent_s[at])),
        **({} if view is None else {"connected": view.connected, "health_detail": view.health_detail}),
        "error_rate": {"statement": "nothing came: no statistics, no chance involved"},
    }
