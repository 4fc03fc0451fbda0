"""What one pool's latencies were, window by window, kept small: the material of the load-binned baseline.

Guarantee: windows are read from telemetry once each, in order; counts above a bucket edge are exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.material import NOTHING, Material, Tail, filled, instant, read
from controlplane.alerts.windows.node_levels import NodeLevels
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import NODE, POOL, WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import TelemetryReader, Where

__all__ = ["History", "Tail", "Where", "Window", "extend", "instant", "merged"]

READ_AHEAD_S = 300.0
"""So much is asked of telemetry at once: six hours of dense histograms in one answer would not be polite."""


@dataclass(frozen=True)
class Window:
    """`WINDOW_S` of one pool. `tails`: metric (short name) to prompt bucket to histogram; `nodes`: metric to what its
    nodes are compared by; `tokens`: prompt bucket to the prompt tokens of its finished requests. Absent where no data.
    """

    start_s: float
    load: float  # Requests per second and node, smoothed.
    tails: Mapping[str, Mapping[str, Tail]]
    nodes: Mapping[str, NodeLevels] = field(default_factory=dict)
    tokens: Mapping[str, float] = field(default_factory=dict)


def merged(windows: Sequence[Window], metric: str, bucket: str | None = None) -> Sketch:
    """All values of a metric in the windows, of one prompt bucket or (None) of all."""
    counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
    zero, error = 0, RELATIVE_ERROR
    for window in windows:
        for name, tail in window.tails.get(metric, {}).items():
            if bucket is None or name == bucket:
                tail.add_to(counts)
                zero += tail.count - (int(tail.tail[0]) if tail.tail.size else 0)
                error = max(error, tail.relative_error)
    return Sketch(counts=counts, zero_count=zero, relative_error=error)


@dataclass
class History:
    """The windows of one pool from `start_s` to `end_s` (seconds since the epoch, multiples of the window).

    where: the pool's filter, `{"pool": its name}` or with the nodes that count besides. nodes: those that the next
    windows are read of, where they are not all.
    """

    where: Where
    metrics: tuple[str, ...]
    start_s: float
    nodes: Sequence[str] | None = None
    end_s: float = field(init=False)
    windows: list[Window] = field(default_factory=list)
    _meter: LoadMeter = field(default_factory=LoadMeter)

    def __post_init__(self) -> None:
        self.end_s = self.start_s

    def read_on_of(self, nodes: Sequence[str] | None) -> None:
        """The next windows are read of these nodes alone; None: of all that `where` lets in."""
        if nodes is not None and nodes != self.nodes:
            self._meter.keep(nodes)
        self.nodes = nodes

    @property
    def next_where(self) -> Where:
        """The filter of what is to be read next."""
        return self.where if self.nodes is None else {**self.where, NODE.label: list(self.nodes)}

    @property
    def pool(self) -> str:
        return str(self.where[POOL.label])

    def take(self, material: Material, stop_s: float) -> None:
        """Take in what was read of [end_s, stop_s)."""
        for step in range(round((stop_s - self.end_s) / WINDOW_S)):
            at = self.end_s + step * WINDOW_S
            load = self._meter.push(at, material.finished.get(at, {}), material.in_flight.get(at, {}))
            if at in material.tails:
                nodes, tokens = material.nodes.get(at, {}), material.tokens.get(at, {})
                self.windows.append(Window(at, load, material.tails[at], nodes, tokens))
        self.end_s = stop_s

    def forget_before(self, start_s: float) -> None:
        """Drop windows that no baseline needs any more."""
        if start_s > self.start_s:
            self.windows = [window for window in self.windows if window.start_s >= start_s]
            self.start_s = start_s


def extend(telemetry: TelemetryReader, histories: Sequence[History], end_s: float) -> None:
    """Read up to `end_s`: one history, or several of the same metrics that end at one moment and leave out no nodes."""
    first = histories[0]
    where = first.next_where if len(histories) == 1 else {POOL.label: sorted(history.pool for history in histories)}
    # At a start hours are to be read, most of which may be empty: one look at coarse steps tells.
    steps = None
    if end_s - first.end_s > READ_AHEAD_S:
        steps = filled(telemetry, first.metrics, where, first.end_s, end_s, READ_AHEAD_S)
    while first.end_s < end_s:
        stop_s = min(first.end_s + READ_AHEAD_S, end_s)
        within = range(int(first.end_s // READ_AHEAD_S), int(-(-stop_s // READ_AHEAD_S)))
        is_empty = steps is not None and steps.isdisjoint(within)
        found = {} if is_empty else read(telemetry, first.metrics, where, first.end_s, stop_s)
        for history in histories:
            history.take(found.get(history.pool, NOTHING), stop_s)
