"""A reader that is no store: what an export says must not depend on how telemetry is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pytest

from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import ZERO_THRESHOLD_S, axis_position
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.reader import SketchSeries, ValueSeries


def sketch_of(values: Sequence[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        if value <= ZERO_THRESHOLD_S:
            sketch.zero_count += 1
        else:
            sketch.counts[axis_position(value)] += 1
    sketch.total = float(np.sum(values)) if len(values) else 0.0
    sketch.minimum, sketch.maximum = (min(values), max(values)) if len(values) else (np.inf, -np.inf)
    return sketch


@dataclass
class FakeReader:
    """Measurements in lists; answers as `TelemetryReader` says. most_rows: refuses more groups times steps."""

    measured: list[tuple[str, datetime, dict[str, str], float]] = field(default_factory=list)
    finished: list[RequestRecord] = field(default_factory=list)
    most_rows: int = 1000
    asked: int = 0

    def add(self, metric: str, time: datetime, value: float, **labels: str) -> None:
        self.measured.append((metric, time, labels, value))

    def _groups(
        self,
        metric: str,
        start: datetime,
        end: datetime,
        by: Sequence[str],
        where: Mapping[str, str | Sequence[str]],
        step_s: float | None,
    ) -> dict[tuple[str, ...], dict[datetime, list[float]]]:
        self.asked += 1
        found: dict[tuple[str, ...], dict[datetime, list[float]]] = {}
        for name, time, labels, value in self.measured:
            if name != metric or not start <= time < end:
                continue
            if any(
                labels.get(label, "") not in ([values] if isinstance(values, str) else values)
                for label, values in where.items()
            ):
                continue
            step = start
            if step_s is not None:
                step = datetime.fromtimestamp(time.timestamp() // step_s * step_s, tz=time.tzinfo)
            key = tuple(labels.get(label, "") for label in by)
            found.setdefault(key, {}).setdefault(step, []).append(value)
        if sum(len(steps) for steps in found.values()) > self.most_rows:
            raise BadRequest("step: too many", field="step")
        return dict(sorted(found.items()))

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
        series = []
        for key, steps in self._groups(metric, start, end, by, where, step_s).items():
            total = sketch_of([value for values in steps.values() for value in values])
            cut = [] if step_s is None else [(time, sketch_of(values)) for time, values in sorted(steps.items())]
            series.append(SketchSeries(dict(zip(by, key, strict=True)), total, cut))
        return series

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
        series = []
        for key, steps in self._groups(metric, start, end, by, where, step_s).items():
            total = sum(value for values in steps.values() for value in values)
            cut = [] if step_s is None else [(time, sum(values)) for time, values in sorted(steps.items())]
            series.append(ValueSeries(dict(zip(by, key, strict=True)), total, cut))
        return series

    def latest(self) -> datetime | None:
        return max((time for _, time, _, _ in self.measured), default=None)

    def workload(self, pool: str, start: datetime, end: datetime) -> Workload:
        raise NotImplementedError

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
        assert order == "newest"
        self.asked += 1
        found = [one for one in self.finished if start <= one.arrival < end]
        found = [one for one in found if pool in (None, one.pool) and node in (None, one.node)]
        return sorted(found, key=lambda one: (one.arrival, one.request_id), reverse=True)[:limit]


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture(scope="session")
def make_reader() -> Callable[..., FakeReader]:
    return FakeReader


@pytest.fixture
def make_sketch() -> Callable[[Sequence[float]], Sketch]:
    return sketch_of
