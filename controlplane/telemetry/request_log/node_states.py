"""What a request's node went through meanwhile, as two more factors: what bound its engine's steps, and its host.

No request tells of these: they are joined from the node's own series, and are the node's, not the request's. Guarantee:
each request is given the state of one window, the one in the middle of what it waited for. How long it waited has no
part in it, for a state that is more often found in more windows would tell long requests from short ones by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from controlplane.contract import metrics
from controlplane.contract.metrics import LIMIT, NODE, STEP_LIMIT, Metric
from controlplane.contract.retention_defaults import LEVELS_S
from controlplane.contract.step_limits import STEP_LIMITS
from controlplane.evidence.host_thresholds import MIN_GROWTH, MIN_STALL_GROWTH
from controlplane.telemetry.question import Cost, Question
from controlplane.telemetry.reader import TelemetryReader, ValueSeries
from controlplane.telemetry.request_log.factors import NOT_TOLD
from controlplane.telemetry.request_log.request_columns import Coded, Codes, Floats, RequestColumns
from controlplane.telemetry.values.timespan import Span, at_ns, to_ns

STEP_LIMIT_FACTOR, HOST_FACTOR = "step_limit", "host_state"
QUIET, BUSY = "quiet", "busy"
MOST_NODES = 256
"""Nodes that are looked up, those with the most requests; of the others' requests nothing is known."""
MOST_CELLS = 100_000
"""Nodes times windows: a longer span is looked at in wider windows."""
UNTIL_FIRST_TOKEN = frozenset(
    one.short for one in (metrics.TTFT, metrics.RECEIVE, metrics.TOKENIZE, metrics.QUEUE, metrics.PREFILL)
)
"""Metrics that are complete with the first token; all others with the request."""


@dataclass(frozen=True)
class Trouble:
    """A share of a host's time from which on it is busy. `container`: told of the engine's own control group; where it
    is known, the host's is not looked at, for that may be another container's alone."""

    host: Metric
    threshold: float
    container: Metric | None = None


TROUBLES = (
    Trouble(metrics.HOST_PRESSURE_CPU, MIN_GROWTH, metrics.CONTAINER_PRESSURE_CPU),
    Trouble(metrics.HOST_PRESSURE_MEMORY, MIN_STALL_GROWTH, metrics.CONTAINER_PRESSURE_MEMORY),
    Trouble(metrics.HOST_PRESSURE_IO, MIN_GROWTH, metrics.CONTAINER_PRESSURE_IO),
    Trouble(metrics.HOST_THROTTLED, MIN_GROWTH),
    Trouble(metrics.HOST_STEAL, MIN_GROWTH),
)


@dataclass(frozen=True)
class Grid:
    """Nodes by windows. `nodes`: their places; `first`: the first window, all are `width_s` wide."""

    nodes: Mapping[str, int]
    first: int
    windows: int
    width_s: int

    @property
    def span(self) -> Span:
        ends = (self.first, self.first + self.windows)
        return Span(*(at_ns(one * self.width_s * 1_000_000_000) for one in ends))

    def filled(self, found: Sequence[ValueSeries]) -> Floats:
        """float64[nodes, windows] of a series for each node; NaN where there is no data."""
        values = np.full((len(self.nodes), self.windows), np.nan)
        for one in found:
            row = self.nodes.get(one.labels.get(NODE.label, ""))
            if row is not None:
                for at, value in one.steps:
                    window = to_ns(at) // (self.width_s * 1_000_000_000) - self.first
                    if 0 <= window < self.windows:
                        values[row, window] = value
        return values


def node_states(
    reader: TelemetryReader, requests: RequestColumns, metric: str, now: datetime, cost: Cost
) -> dict[str, Coded]:
    """Step limit and host state of each request, by the factor's name; without requests none.

    metric: what the requests are told apart by, short name. now: how old windows are decides which are kept.
    """
    if not len(requests):
        return {}
    middle_ns = middles(requests, metric)
    grid = grid_of(requests.labels[NODE.label], middle_ns, now)
    where = {NODE.label: list(grid.nodes)}

    def asked(of: Metric, *by: str) -> list[ValueSeries]:
        return reader.scalars(Question(of.short, grid.span, (NODE.label, *by), where, float(grid.width_s), cost=cost))

    steps = asked(STEP_LIMIT, LIMIT.label)
    limits = {
        limit: grid.filled([one for one in steps if one.labels.get(LIMIT.label) == limit])
        for limit in sorted(STEP_LIMITS)
    }
    troubles = []
    for trouble in TROUBLES:
        told = grid.filled(asked(trouble.host))
        if trouble.container is not None:
            own = grid.filled(asked(trouble.container))
            told = np.where(np.isnan(own), told, own)
        troubles.append((told, trouble.threshold))
    window = middle_ns // (grid.width_s * 1_000_000_000) - grid.first
    node = _rows(requests.labels[NODE.label], grid)
    return {
        STEP_LIMIT_FACTOR: Coded(list(limits), _taken(most_steps(list(limits.values())), node, window)),
        HOST_FACTOR: Coded((QUIET, BUSY), _taken(busy(troubles), node, window)),
    }


def middles(requests: RequestColumns, metric: str) -> Codes:
    """int64[requests], nanoseconds: the middle of the time to first token, or of the whole request."""
    part = metrics.TTFT.short if metric in UNTIL_FIRST_TOKEN else metrics.E2E.short
    lasted_s = np.nan_to_num(requests.parts[part], nan=0.0)
    middle: Codes = requests.arrival_ns + (lasted_s * 0.5e9).astype(np.int64)
    return middle


def grid_of(nodes: Coded, middle_ns: Codes, now: datetime) -> Grid:
    """The nodes with the most requests, in the narrowest windows that are still kept and are not too many."""
    count = np.bincount(nodes.codes[nodes.codes >= 0], minlength=len(nodes.names))
    most = sorted((place for place in range(len(count)) if count[place]), key=lambda place: -count[place])[:MOST_NODES]
    oldest_s = (to_ns(now) - int(middle_ns.min())) / 1e9
    length_s = float(middle_ns.max() - middle_ns.min()) / 1e9
    *narrower, widest = LEVELS_S
    width_s = next(
        (
            width
            for width in narrower
            if oldest_s <= LEVELS_S[width] and (length_s / width + 2) * max(len(most), 1) <= MOST_CELLS
        ),
        widest,
    )
    first, last = (int(end) // (width_s * 1_000_000_000) for end in (middle_ns.min(), middle_ns.max()))
    return Grid({nodes.names[place]: row for row, place in enumerate(most)}, first, last - first + 1, width_s)


def most_steps(limits: Sequence[Floats]) -> Codes:
    """int64[nodes, windows]: the limit that bound the most steps; `NOT_TOLD` where no step was counted."""
    counts = np.nan_to_num(np.stack(limits), nan=0.0)
    found: Codes = np.where(counts.sum(axis=0) > 0.0, counts.argmax(axis=0), NOT_TOLD).astype(np.int64)
    return found


def busy(troubles: Sequence[tuple[Floats, float]]) -> Codes:
    """int64[nodes, windows]: 1 where one of the shares reaches its threshold, 0 where none does that is told."""
    told = np.any([np.isfinite(share) for share, _ in troubles], axis=0)
    over = np.any([np.nan_to_num(share, nan=0.0) >= threshold for share, threshold in troubles], axis=0)
    found: Codes = np.where(told, over, NOT_TOLD).astype(np.int64)
    return found


def _rows(nodes: Coded, grid: Grid) -> Codes:
    """int64[requests]: each one's row of the grid, `NOT_TOLD` where its node is not in it."""
    places = np.array([grid.nodes.get(name, NOT_TOLD) for name in nodes.names], dtype=np.int64)
    found: Codes = np.where(nodes.codes >= 0, places[nodes.codes], NOT_TOLD)
    return found


def _taken(of: Codes, node: Codes, window: Codes) -> Codes:
    found: Codes = np.where(node >= 0, of[node, window], NOT_TOLD)
    return found
