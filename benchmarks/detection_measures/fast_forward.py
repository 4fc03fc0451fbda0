"""The product's detector over weeks: what `Detector.advance` raises tick by tick, at a twentieth of the price.

Ticks that come nowhere near an alarm are passed over, as where a rule is tried over the past (`look_ahead`). A test
holds the two equal.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.worlds import BUCKETS, Chunk
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.regressions.look_ahead import LookAhead
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.material import Tail
from controlplane.alerts.windows.node_levels import NodeLevels
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, PoolRecord
from controlplane.contract.metrics import WINDOW_S

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

WARM_S = 6 * 3600.0
REST_S = 1800.0
"""After an alarm another within this time is the same."""


def windows_of(chunk: Chunk, metric: str, meter: LoadMeter) -> list[Window]:
    """The chunk as the product reads it."""
    begin, counts = chunk.used(metric)
    nodes = _node_levels(chunk, metric)
    cell = chunk.tick * len(BUCKETS) + chunk.bucket
    tokens = np.bincount(cell, weights=chunk.prompts, minlength=chunk.arrived.size * len(BUCKETS))
    tokens = tokens.reshape(-1, len(BUCKETS))
    tails = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    low, high = (counts > 0).argmax(axis=-1), counts.shape[-1] - (counts[..., ::-1] > 0).argmax(axis=-1)
    found = []
    for tick, arrived in enumerate(chunk.arrived):
        start_s = chunk.start_s + tick * WINDOW_S
        held = {}
        for place, name in enumerate(BUCKETS):
            count = int(tails[tick, place, 0])
            if count:
                first = int(low[tick, place])
                held[name] = Tail(begin + first, tails[tick, place, first : high[tick, place]].copy(), count)
        load = meter.push(start_s, {"n": int(arrived)}, {})
        levels = {metric: nodes[tick]} if tick in nodes else {}
        told = {name: float(tokens[tick, place]) for place, name in enumerate(BUCKETS) if tokens[tick, place]}
        found.append(Window(start_s, load, {metric: held} if held else {}, levels, told))
    return found


def _node_levels(chunk: Chunk, metric: str) -> dict[int, NodeLevels]:
    """By tick."""
    places = chunk.places[metric]
    if not places.size:
        return {}
    low, width, nodes = int(places.min()), int(np.ptp(places)) + 1, int(chunk.node.max()) + 1
    cell = chunk.node * len(BUCKETS) + chunk.bucket
    names = [(f"n{node}", bucket) for node in range(nodes) for bucket in BUCKETS]
    order = np.argsort(chunk.tick, kind="stable")
    ends = np.searchsorted(chunk.tick[order], np.arange(chunk.arrived.size + 1))
    found = {}
    for tick, (begin, end) in enumerate(itertools.pairwise(ends)):
        mine = order[begin:end]
        if mine.size:
            flat = np.bincount(cell[mine] * width + places[mine] - low, minlength=len(names) * width)
            counts = flat.reshape(len(names), width)
            some = np.flatnonzero(counts.any(axis=1))
            found[tick] = NodeLevels.of([names[place] for place in some], low, counts[some])
    return found


class Replay:
    """Windows in order; `raised`: the seconds at which the metric came into alarm, judging from `WARM_S` on;
    `raised_by`: for each, the line or the node whose evidence was strongest.

    nearest: how near a line came to an alarm, in nats (0: it was one), among those that look ahead of time.
    records: what the database says from so many seconds on; first_only: no further than the first alarm.
    """

    def __init__(
        self,
        detector: Detector,
        metric: str,
        records: Sequence[tuple[float, PoolRecord]] = (),
        *,
        first_only: bool = False,
    ) -> None:
        self.raised: list[float] = []
        self.raised_by: list[str] = []
        self._look, self._changes_s = LookAhead(detector), [since_s for since_s, _ in records]
        self._records, self._first_only = records, first_only
        self._detector, self._metric = detector, metric
        self._history: list[Window] = []
        self._was_alarmed, self._quiet_until_s = False, 0.0

    def take(self, windows: Sequence[Window]) -> None:
        """More of them."""
        place = len(self._history)
        self._history += windows
        while place < len(self._history) and not self.is_done:
            if self._history[place].start_s < WARM_S:
                place += 1
                continue
            self._advance(place)
            place = self._look.pass_over(self._history, place + 1, self._history, self._record(place), self._changes_s)
        spare = max(0, len(self._history) - round((WARM_S + 3600.0) / WINDOW_S))
        del self._history[:spare]

    @property
    def is_done(self) -> bool:
        return self._first_only and bool(self.raised)

    @property
    def nearest(self) -> float:
        return self._look.nearest

    def _record(self, place: int) -> PoolRecord:
        at_s = self._history[place].start_s
        return next((one for since_s, one in reversed(self._records) if since_s <= at_s), NOTHING_KNOWN)

    def _advance(self, place: int) -> None:
        window = self._history[place]
        self._detector.advance(window, self._history, self._record(place))
        is_alarmed = bool(self._detector.alarmed(self._metric) or self._detector.apart(self._metric))
        if is_alarmed and not self._was_alarmed and window.start_s >= self._quiet_until_s:
            self.raised.append(window.start_s + WINDOW_S)
            self.raised_by.append(self._loudest())
            self._quiet_until_s = window.start_s + REST_S
        self._was_alarmed = is_alarmed

    def _loudest(self) -> str:
        keys = self._detector.alarmed(self._metric)
        if not keys:
            return f"node {self._detector.apart(self._metric)[0]}"
        stream = self._detector.stream(keys[0])
        return f"{keys[0].bucket} {stream.line or 'exceedances'}"


def watch(
    detector: Detector,
    metric: str,
    chunks: Iterable[Chunk],
    records: Sequence[tuple[float, PoolRecord]] = (),
    *,
    first_only: bool = False,
) -> Replay:
    """The chunks, one after the other."""
    replay, meter = Replay(detector, metric, records, first_only=first_only), LoadMeter()
    for chunk in chunks:
        replay.take(windows_of(chunk, metric, meter))
        if replay.is_done:
            break
    return replay
