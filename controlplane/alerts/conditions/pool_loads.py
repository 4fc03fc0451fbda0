"""The loads of pools, as the kinds read them that judge waiting and traffic.

Guarantee: each tick is read from telemetry once, and what nodes told of it is added up then, so that a tick costs what
is new, not what the past holds. What could not be read is read again at the next tick.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from controlplane.alerts.conditions.kind import Job, Snapshot, Sources
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.return_level import Floats
from controlplane.alerts.windows.window_table import READ_STEPS, Key, Source, Wheres, WindowTables
from controlplane.contract.metrics import E2E, OUTPUT_TOKENS, PROMPT_BUCKET, PROMPT_TOKENS, RUNNING, WAITING, WINDOW_S

C = TypeVar("C", bound=BaseModel)
LASTING = 12
"""A node that misses a report counts as there for so many ticks."""
_NEVER = -(2**60)

Told = dict[str, int]
"""Node to the last tick that it told anything of."""
Series = Mapping[Key, Floats]


@dataclass
class _Past:
    """What is known of a pool: ticks `first` .. `last` - 1. seen: bool[ticks], whether anybody told anything."""

    first: int
    last: int
    load: PoolLoad
    seen: NDArray[np.bool_]
    told: Told = field(default_factory=dict)

    def forget(self, first: int) -> None:
        """What lies before a tick."""
        gone = first - self.first
        if gone > 0:
            self.load, self.seen, self.first = self.load.between(gone, len(self.load)), self.seen[gone:], first


class PoolLoads:
    """For one kind. `cover` before judging; `of` is what a pool's load was up to a time."""

    def __init__(self, sources: Sources) -> None:
        self.step_s = max(WINDOW_S, sources.width_s)
        self._sources = sources
        self._gauges = [Source(metric.short, self.step_s) for metric in (WAITING, RUNNING)]
        self._tokens = [Source(metric.short, self.step_s, by_node=False) for metric in (PROMPT_TOKENS, OUTPUT_TOKENS)]
        self._served = Source(E2E.short, self.step_s, by=(PROMPT_BUCKET.label,), by_node=False, counted=True)
        self._pasts: dict[str, _Past] = {}

    def cover(self, jobs: Sequence[Job[C]], seen: Snapshot, end: datetime, back_s: float) -> None:
        """back_s: how far before the first new tick."""
        wanted = dict.fromkeys(job.pool for job in jobs)
        self._pasts = {pool: past for pool, past in self._pasts.items() if pool in wanted}
        if not jobs:
            return
        last = self._tick(end)
        first = min(self._tick(job.since(end)) for job in jobs) - math.ceil(back_s / self.step_s)
        for pool in wanted:
            past = self._pasts.get(pool)
            if past is None or past.first > first or past.last < first:
                self._pasts[pool] = _Past(first, first, _nothing(first, self.step_s), np.zeros(0, dtype=bool))
            else:
                past.forget(first)
        for known in sorted({past.last for past in self._pasts.values()}):
            pools = [pool for pool, past in self._pasts.items() if past.last == known]
            self._read({pool: seen.where(pool) for pool in pools}, known, last)

    def new_ticks(self, job: Job[C], end: datetime) -> range:
        """The ticks that are to be judged, counted from the epoch."""
        return range(self._tick(job.since(end)), self._tick(end))

    def of(self, job: Job[C], last: int, back_s: float) -> PoolLoad | None:
        """Up to tick `last`, from the pool's first known tick on; None where nothing is known. Raises LookupError where
        telemetry could not be read."""
        past = self._pasts[job.pool]
        if past.last < last:
            raise LookupError(f"the load of pool {job.pool} is known up to {past.load.end_s:.0f} alone")
        start, stop = last - math.ceil(back_s / self.step_s) - past.first, last - past.first
        seen = past.seen[start:stop]
        return past.load.between(start + int(np.argmax(seen)), stop) if seen.any() else None

    def _read(self, wheres: Wheres, first: int, last: int) -> None:
        """Add [first, last) to the pasts of these pools."""
        sources = [*self._gauges, *self._tokens, self._served]
        for start in range(first, last, READ_STEPS):
            stop = min(start + READ_STEPS, last)
            tables = WindowTables(self._sources.telemetry, self._sources.width_s)
            tables.cover(dict.fromkeys(sources, (start, stop)), wheres)
            if not all(source in tables for source in sources):
                return
            for pool, where in wheres.items():
                nodes = where.get("node")
                among = None if nodes is None else frozenset([nodes] if isinstance(nodes, str) else nodes)
                self._take(tables, pool, among, start, stop)

    def _take(self, tables: WindowTables, pool: str, nodes: Collection[str] | None, first: int, last: int) -> None:
        def of(source: Source) -> dict[Key, Floats]:
            found = tables.get(source).of(pool, nodes, first, last)
            return {key: values[:, 0] for key, values in found.items()}

        past, size = self._pasts[pool], last - first
        waiting, running = (of(source) for source in self._gauges)
        served = of(self._served)
        newer = PoolLoad(
            first * self.step_s,
            self.step_s,
            _added(served, size),
            sum((_added(of(source), size) for source in self._tokens), np.zeros(size)),
            _held(waiting, size),
            _held(running, size),
            _there(past.told, [waiting, running], first, size),
            {key[0]: np.nan_to_num(one) for key, one in served.items()},
        )
        known = [np.isfinite(one) for one in (newer.waiting, newer.running, *served.values())]
        past.load, past.last = past.load.followed_by(newer), last
        past.seen = np.concatenate([past.seen, np.any(known, axis=0)])

    def _tick(self, at: datetime) -> int:
        return math.floor(at.timestamp() / self.step_s)


def _nothing(first: int, step_s: float) -> PoolLoad:
    none = np.zeros(0)
    return PoolLoad(first * step_s, step_s, none, none, none, none, none)


def _added(series: Series, size: int) -> Floats:
    return np.asarray(np.nansum(np.array([np.zeros(size), *series.values()]), axis=0))


def _held(series: Series, size: int) -> Floats:
    """Gauges of all nodes together; NaN where no node told."""
    if not series:
        return np.full(size, np.nan)
    values = np.array(list(series.values()))
    return np.asarray(np.where(np.isfinite(values).any(axis=0), np.nansum(values, axis=0), np.nan))


def _there(told: Told, gauges: Sequence[Series], first: int, size: int) -> Floats:
    """How many nodes are there in each tick: they told something in it or in those just before. Notes who told when."""
    ticks = np.arange(first, first + size)
    nodes = [*dict.fromkeys([*told, *(key[0] for series in gauges for key in series)])]
    if not nodes:
        return np.zeros(size)
    nothing = np.full(size, np.nan)
    known = np.any([[np.isfinite(series.get((node,), nothing)) for node in nodes] for series in gauges], axis=0)
    before = np.array([[told.get(node, _NEVER)] for node in nodes])
    newest = np.maximum.accumulate(np.concatenate([before, np.where(known, ticks, _NEVER)], axis=1), axis=1)
    lasting = newest[:, -1] > ticks[-1] + 1 - LASTING
    told.clear()
    told.update({node: int(at) for node, at, lasts in zip(nodes, newest[:, -1], lasting, strict=True) if lasts})
    return np.asarray((newest[:, 1:] > ticks - LASTING).sum(axis=0), dtype=np.float64)
