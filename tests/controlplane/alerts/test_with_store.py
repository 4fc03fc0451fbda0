"""The evaluator through the real telemetry store: reports in, an alert out."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import controlplane.telemetry.tables
from controlplane.alerts import store as alert_store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.contract.bodies.alerts import AlertRuleCreate, RegressionCondition
from controlplane.contract.histogram import AXIS_MIN, SCALE
from controlplane.contract.metrics import BY_SHORT, LABEL_OF
from controlplane.db import Database
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.made_tables import create_tables

assert controlplane.telemetry.tables
DELTA = 1
ATTRIBUTE_OF = {label: name for name, label in LABEL_OF.items()}


@pytest.fixture
def store(database: Database, plant: Any) -> Iterator[TelemetryStore]:
    create_tables(database)
    made = TelemetryStore(database, lambda: plant.now)
    made.start()
    yield made
    made.close()


def report(plant: Any, start: datetime) -> ExportMetricsServiceRequest:
    """What the plant served in the window that began at `start`, as OTLP."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for name, value in (("service.instance.id", plant.node), ("tailwright.pool", plant.pool)):
        resource.resource.attributes.add(key=name).value.string_value = value
    scope = resource.scope_metrics.add()
    for short, rows in plant.telemetry.points.items():
        histogram = scope.metrics.add(name=BY_SHORT[short].name, unit="s").exponential_histogram
        histogram.aggregation_temporality = DELTA
        for time, labels, sketch in rows:
            if time != start:
                continue
            used = np.flatnonzero(sketch.counts)
            point = histogram.data_points.add(
                start_time_unix_nano=int(time.timestamp() * 1e9),
                time_unix_nano=int((time + timedelta(seconds=5)).timestamp() * 1e9),
                count=sketch.count,
                sum=sketch.total,
                min=sketch.minimum,
                max=sketch.maximum,
                scale=SCALE,
            )
            point.positive.offset = int(used[0]) + AXIS_MIN
            point.positive.bucket_counts.extend(sketch.counts[used[0] : used[-1] + 1].tolist())
            for label, value in labels.items():
                if label in ("node", "pool"):
                    continue
                attribute = point.attributes.add(key=ATTRIBUTE_OF[label]).value
                if label == "revision":
                    attribute.int_value = int(value)
                else:
                    attribute.string_value = value
    return request


@pytest.mark.slow
def test_reports_in_alert_out(database: Database, store: TelemetryStore, plant: Any) -> None:
    with database.session() as session:
        alert_store.create_rule(session, AlertRuleCreate(name="r", condition=RegressionCondition()), plant.now)
    evaluator = AlertEvaluator(database, store)
    for window in range(26):
        slow = window >= 20
        start = plant.now
        plant.serve(5, prefill=9.0 if slow else 1.0, revision=2 if slow else 1)
        assert ingest_metrics(store, report(plant, start)).accepted > 0
        store.tick(plant.now)
        evaluator.tick(plant.now)
    with database.session() as session:
        found = alert_store.alerts(session, before_id=None, limit=10)
    assert [alert.labels["metric"] for alert in found] == ["prefill"]
    diagnosis = found[0].diagnosis
    assert diagnosis is not None and diagnosis.stage == "prefill"
    assert diagnosis.causes[0]["cause"] == "config_change" and diagnosis.causes[0]["revision"] == 2
    assert found[0].started_at == datetime(2030, 1, 1, 12, 1, 40, tzinfo=UTC)
