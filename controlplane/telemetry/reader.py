"""What alerts and rollouts may ask of telemetry: the seam between the store and those who judge by it.

Invariants of every implementation: event time counts; windows are `metrics.WINDOW_S` wide and start at its multiples;
a window belongs to [start, end) when its own start does; absent data is absent (no series, no step), never zero; what
has been acknowledged to a sender is visible to the next query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.metrics import MetricKind
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.question import Question, Where
from controlplane.telemetry.values.catalogue import MetricRef
from controlplane.telemetry.values.columns import Floats, Ints
from controlplane.telemetry.values.sketch_table import SketchTable
from controlplane.telemetry.values.timespan import Span


@dataclass
class SketchSeries:
    """One group of a histogram query. `steps` (ascending, only steps that have data) when a step was asked for."""

    labels: dict[str, str]
    total: Sketch
    steps: list[tuple[datetime, Sketch]] = field(default_factory=list)


@dataclass(frozen=True)
class SketchGroups:
    """The groups that have data, in the order of their labels: a row of `totals` each.

    With a step, group i has the rows starts[i] .. starts[i + 1] - 1 of `by_step`, which begin at `times`, ascending.
    """

    labels: Sequence[dict[str, str]]
    totals: SketchTable
    times: Sequence[datetime]
    by_step: SketchTable
    starts: Sequence[int]

    def series(self) -> list[SketchSeries]:
        """The same as sketches."""
        steps = list(zip(self.times, self.by_step.sketches(), strict=True))
        return [
            SketchSeries(labels, total, steps[start:end])
            for labels, total, start, end in zip(
                self.labels, self.totals.sketches(), self.starts, self.starts[1:], strict=False
            )
        ]


@dataclass
class ValueSeries:
    """One group of a scalar query: the sum over the range, or a gauge's last value (averaged over merged series)."""

    labels: dict[str, str]
    value: float
    steps: list[tuple[datetime, float]] = field(default_factory=list)


@dataclass(frozen=True)
class CodedStates:
    """One state of each request: codes int64[requests], places in `names`; negative where it is not known."""

    names: Sequence[str]
    codes: Ints


@dataclass(frozen=True)
class TimedRequests:
    """Requests of the log in the order in which they arrived. parts: by short name, float64[requests], seconds, NaN
    where nobody told. states: of each one's node meanwhile, `step_limit` and `host_state`, as
    `GET /api/v1/explain` has them.

    found: so many there were; where they are more than are here, each is here with the same chance.
    """

    found: int
    arrival_ns: Ints
    parts: Mapping[str, Floats]
    states: Mapping[str, CodedStates]


class TelemetryReader(Protocol):
    """Each question is answered from one snapshot; all raise `BadRequest` for a metric that is not of their kind."""

    def find(self, metric: str) -> MetricRef:
        """The metric behind a name. Raises `BadRequest` with the nearest valid one."""

    def histograms(self, question: Question) -> list[SketchSeries]:
        """Merged sketches of a metric."""

    def sketches(self, questions: Sequence[Question]) -> list[SketchGroups]:
        """`histograms` of several questions, all of one snapshot, as tables."""

    def counts(self, question: Question) -> list[ValueSeries]:
        """How many values a histogram's sketches hold: by node it is far less than the sketches."""

    def scalars(self, question: Question) -> list[ValueSeries]:
        """Gauges and sums."""

    def scalars_of_kind(self, question: Question) -> tuple[MetricKind, list[ValueSeries]]:
        """`scalars`, with what the metric is: for a sender's own metric, what was found."""

    def timed_requests(self, metric: str, span: Span, where: Where) -> TimedRequests:
        """Finished requests of the log whose value of the metric was complete in the span; none for what times no
        request, or where no request has a label of `where`."""

    def latest(self) -> datetime | None:
        """End of the newest window that has data; evaluation runs a little behind it, so that late reports count."""

    def workload(self, pool: str, start: datetime, end: datetime) -> Workload:
        """The requests that arrived at a pool's serving nodes in [start, end)."""

    def requests(
        self,
        *,
        start: datetime,
        end: datetime,
        pool: str | None = None,
        node: str | None = None,
        order: str = "newest",
        limit: int = 50,
    ) -> list[RequestRecord]:
        """Finished requests with their waterfalls; `order` is "newest" or "slowest"."""
