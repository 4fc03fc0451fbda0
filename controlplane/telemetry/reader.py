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
from controlplane.evidence.sketch import Sketch


@dataclass
class SketchSeries:
    """One group of a histogram query. `steps` (ascending, only steps that have data) when a step was asked for."""

    labels: dict[str, str]
    total: Sketch
    steps: list[tuple[datetime, Sketch]] = field(default_factory=list)


@dataclass
class ValueSeries:
    """One group of a scalar query: the sum over the range, or a gauge's last value (averaged over merged series)."""

    labels: dict[str, str]
    value: float
    steps: list[tuple[datetime, float]] = field(default_factory=list)


class TelemetryReader(Protocol):
    def histograms(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Mapping[str, str | Sequence[str]] = {},
        step_s: float | None = None,
    ) -> list[SketchSeries]:
        """Merged sketches of a metric (short name) grouped by labels; a `where` list means any of its values."""

    def counts(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Mapping[str, str | Sequence[str]] = {},
        step_s: float | None = None,
    ) -> list[ValueSeries]:
        """How many values a histogram's sketches hold, grouped by labels: by node it is far less than the sketches."""

    def scalars(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        *,
        by: Sequence[str] = (),
        where: Mapping[str, str | Sequence[str]] = {},
        step_s: float | None = None,
    ) -> list[ValueSeries]:
        """Gauges and sums, grouped by labels."""

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
