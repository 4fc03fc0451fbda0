"""The loads of pools, as the kinds read them that judge waiting and traffic: tables of windows, then `PoolLoad`."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from controlplane.alerts.conditions.kind import Job, Snapshot, Sources
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.return_level import Floats
from controlplane.alerts.windows.window_table import Key, Source, Values, WindowTables
from controlplane.contract.metrics import E2E, OUTPUT_TOKENS, PROMPT_BUCKET, PROMPT_TOKENS, RUNNING, WAITING, WINDOW_S

C = TypeVar("C", bound=BaseModel)


class PoolLoads:
    """For one kind. `cover` before judging; `of` is what a pool's load was up to a time."""

    def __init__(self, sources: Sources) -> None:
        self.step_s = max(WINDOW_S, sources.width_s)
        self._tables = WindowTables(sources.telemetry, sources.width_s)
        self._gauges = [Source(metric.short, self.step_s) for metric in (WAITING, RUNNING)]
        self._tokens = [Source(metric.short, self.step_s, by_node=False) for metric in (PROMPT_TOKENS, OUTPUT_TOKENS)]
        self._served = Source(E2E.short, self.step_s, by=(PROMPT_BUCKET.label,), by_node=False, counted=True)

    def cover(self, jobs: Sequence[Job[C]], seen: Snapshot, end: datetime, back_s: float) -> None:
        """back_s: how far before the first new tick."""
        if not jobs:
            return
        last = self._tick(end)
        first = min(self._tick(job.since(end)) for job in jobs) - math.ceil(back_s / self.step_s)
        sources = [*self._gauges, *self._tokens, self._served]
        self._tables.cover(dict.fromkeys(sources, (first, last)), {job.pool: seen.where(job.pool) for job in jobs})

    def new_ticks(self, job: Job[C], end: datetime) -> range:
        """The ticks that are to be judged, counted from the epoch."""
        return range(self._tick(job.since(end)), self._tick(end))

    def of(self, job: Job[C], seen: Snapshot, last: int, back_s: float) -> PoolLoad | None:
        """Up to tick `last`, from the pool's first known tick on; None where nothing is known."""
        first = last - math.ceil(back_s / self.step_s)
        nodes = _nodes(seen, job.pool)
        waiting, running = (self._of(source, job.pool, nodes, first, last) for source in self._gauges)
        served = self._of(self._served, job.pool, None, first, last)
        tokens = [self._of(source, job.pool, None, first, last) for source in self._tokens]
        size = last - first
        known = [one for group in (waiting, running, served) for one in group.values()]
        seen_at = np.isfinite(np.array(known)).any(axis=0) if known else np.zeros(size, dtype=bool)
        if not seen_at.any():
            return None
        start = int(np.argmax(seen_at))
        return PoolLoad(
            (first + start) * self.step_s,
            self.step_s,
            _added(served, size)[start:],
            sum((_added(one, size) for one in tokens), np.zeros(size))[start:],
            _held(waiting, size)[start:],
            _held(running, size)[start:],
            _told(running, waiting, size)[start:],
            {key[0]: np.nan_to_num(one)[start:] for key, one in served.items()},
        )

    def _of(self, source: Source, pool: str, nodes: Sequence[str] | None, first: int, last: int) -> dict[Key, Floats]:
        found: Mapping[Key, Values] = self._tables.get(source).of(pool, nodes, first, last)
        return {key: values[:, 0] for key, values in found.items()}

    def _tick(self, at: datetime) -> int:
        return math.floor(at.timestamp() / self.step_s)


def _nodes(seen: Snapshot, pool: str) -> Sequence[str] | None:
    nodes = seen.where(pool).get("node")
    return [nodes] if isinstance(nodes, str) else nodes


def _added(series: Mapping[Key, Floats], size: int) -> Floats:
    return np.asarray(np.nansum(np.array([np.zeros(size), *series.values()]), axis=0))


def _held(series: Mapping[Key, Floats], size: int) -> Floats:
    """Gauges of all nodes together; NaN where no node told."""
    if not series:
        return np.full(size, np.nan)
    values = np.array(list(series.values()))
    return np.asarray(np.where(np.isfinite(values).any(axis=0), np.nansum(values, axis=0), np.nan))


def _told(running: Mapping[Key, Floats], waiting: Mapping[Key, Floats], size: int) -> Floats:
    """How many nodes told what runs or waits; one that misses a report counts by its last minute."""
    names = {*running, *waiting}
    nothing = np.full(size, np.nan)
    there = np.zeros(size)
    for name in names:
        known = np.isfinite(running.get(name, nothing)) | np.isfinite(waiting.get(name, nothing))
        there += _lasting(known, 12)
    return there


def _lasting(known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], ticks: int) -> Floats:
    total = np.concatenate([[0], np.cumsum(known)])
    back = np.maximum(np.arange(1, known.size + 1) - ticks, 0)
    return np.asarray(total[1:] - total[back] > 0, dtype=np.float64)
