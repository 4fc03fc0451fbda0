"""A whole rollout through the real telemetry store: reports in, verdict out."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import controlplane.telemetry.tables
from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.histogram import AXIS_MIN, SCALE
from controlplane.contract.metrics import BY_SHORT, LABEL_OF
from controlplane.db.database import Database
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts import store
from controlplane.rollouts.controller import RolloutController
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.made_tables import create_tables

assert controlplane.telemetry.tables
ATTRIBUTE_OF = {label: name for name, label in LABEL_OF.items()}
DELTA = 1


class Bridge:
    """Sends what the simulated nodes report to the store, as OTLP."""

    def __init__(self, target: TelemetryStore) -> None:
        self.target = target

    def add(self, metric: str, time: datetime, value: Any, **labels: str) -> None:
        if isinstance(value, Sketch):
            self._add_sketch(metric, time, value, labels)
        elif value:
            request, added, point = self._point(metric, labels)
            added.sum.aggregation_temporality, added.sum.is_monotonic = DELTA, True
            self._send(request, added.sum.data_points.add(as_int=round(value)), time, point)

    def _add_sketch(self, metric: str, time: datetime, sketch: Sketch, labels: dict[str, str]) -> None:
        if sketch.count == 0:
            return
        request, added, point = self._point(metric, labels)
        histogram = added.exponential_histogram
        histogram.aggregation_temporality = DELTA
        used = np.flatnonzero(sketch.counts)
        values = histogram.data_points.add(count=sketch.count, sum=1.0, min=sketch.minimum, max=sketch.maximum)
        values.scale = SCALE
        values.positive.offset = int(used[0]) + AXIS_MIN
        values.positive.bucket_counts.extend(sketch.counts[used[0] : used[-1] + 1].tolist())
        self._send(request, values, time, point)

    def _point(self, metric: str, labels: dict[str, str]) -> tuple[Any, Any, dict[str, str]]:
        request = ExportMetricsServiceRequest()
        resource = request.resource_metrics.add()
        for label in ("node", "pool"):
            resource.resource.attributes.add(key=ATTRIBUTE_OF[label]).value.string_value = labels[label]
        added = resource.scope_metrics.add().metrics.add(name=BY_SHORT[metric].name, unit=BY_SHORT[metric].unit)
        return request, added, {label: value for label, value in labels.items() if label not in ("node", "pool")}

    def _send(self, request: Any, point: Any, time: datetime, labels: dict[str, str]) -> None:
        point.start_time_unix_nano = int(time.timestamp() * 1e9)
        point.time_unix_nano = int((time + timedelta(seconds=5)).timestamp() * 1e9)
        for label, value in labels.items():
            attribute = point.attributes.add(key=ATTRIBUTE_OF[label]).value
            if label == "revision":
                attribute.int_value = int(value)
            else:
                attribute.string_value = value
        assert ingest_metrics(self.target, request).accepted == 1


@pytest.fixture
def kept(database: Database, fleet: Any, start: datetime) -> Iterator[TelemetryStore]:
    create_tables(database)
    made = TelemetryStore(database, lambda: start + timedelta(hours=1))
    made.start()
    fleet.telemetry = Bridge(made)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "verdict", "phase"),
    [
        (5.0, 1.0, Verdict.BETTER, RolloutPhase.PROMOTED),
        (1.0, 2.0, Verdict.WORSE, RolloutPhase.ROLLED_BACK),
    ],
)
def test_reports_in_verdict_out(
    fleet: Any, kept: TelemetryStore, start: datetime, old: float, new: float, verdict: Verdict, phase: RolloutPhase
) -> None:
    fleet.add("a", "b")
    before, after = fleet.revision(16), fleet.revision(64)
    fleet.factor = {before: old, after: new}
    fleet.put_in_production(before)
    now = start
    for _ in range(18):
        fleet.serve(now, tokens=10)
        now += timedelta(seconds=5)
    with fleet.database.session() as session:
        spec = RolloutCreate(pool="chat", revision=after, min_judge_s=30, max_judge_s=300)
        rollout = store.create(session, spec, actor="ann", now=now)
    for _ in range(60):
        fleet.apply()
        fleet.serve(now, tokens=10)
        now += timedelta(seconds=5)
        RolloutController(fleet.database, kept, lambda: None).tick(now)
        kept.tick(now)
        with fleet.database.session() as session:
            rollout = store.get(session, rollout.id)
        if rollout.phase in ENDED:
            break
    assert (rollout.phase, rollout.verdict) == (phase, verdict), rollout.message
    assert rollout.evidence["metrics"]["itl"]["canary"]["count"] > 0
    assert rollout.evidence["served"]["canary"]["offered"] > 0
