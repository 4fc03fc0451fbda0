"""A pool of two nodes that reports a made series to the real store, and the evaluator over it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric
from opentelemetry.proto.metrics.v1.metrics_pb2 import ScopeMetrics

import controlplane.telemetry.tables
from controlplane.alerts import store as alert_store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRuleCreate,
    AlertState,
    Condition,
    Severity,
    SymptomCondition,
)
from controlplane.contract.histogram import AXIS_MIN, SCALE
from controlplane.contract.metrics import BY_SHORT, LABEL_OF, MetricKind
from controlplane.db import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.alerts.symptoms.series import Series, Window
from tests.controlplane.telemetry.fake_reader import axis_positions
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.made_tables import create_tables

assert controlplane.telemetry.tables
DELTA = 1
START = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
ATTRIBUTE_OF = {label: name for name, label in LABEL_OF.items()}
TICK_S = 30.0
FOLD_S = 150.0
"""A round that is asked by rules is not about folding: what is asked comes from frames and from the newest windows."""


class MadeFleet:
    """The store with pool `main`, one rule, and the evaluator; time is `now`."""

    def __init__(self, database: Database) -> None:
        self.database, self.now = database, START
        create_tables(database)
        self.store = TelemetryStore(database, lambda: self.now)
        self.store.start()
        self.evaluator = AlertEvaluator(database, self.store)

    def watch(self, name: str, series: Series) -> None:
        """A symptom's rule, and the nodes that its series is of."""
        self.make_rule(SymptomCondition(symptom=name), Severity.PAGE)
        with self.database.session() as session:
            for node in "ab":
                enrolment = EnrolmentRequest(node=node, pool="main", backend="vllm")
                fleet.enrol(session, enrolment, actor="t", now=self.now)
                row = session.get(NodeRow, node)
                assert row is not None
                knobs = {"quantization": "int8" if node in series.quantized else "none"}
                row.effective = {"revision": 1, "knobs": knobs}
                session.add(row)

    def make_rule(self, condition: Condition, severity: Severity) -> None:
        wanted = AlertRuleCreate(name=condition.kind, condition=condition, severity=severity)
        with self.database.session() as session:
            alert_store.create_rule(session, wanted, self.now)

    def serve(self, series: Series, seconds: float, *, wrong: bool, until: AlertState | None = None) -> None:
        """The series in the next `seconds`, or until the alert is so; reports and ticks come in every `TICK_S`."""
        window, began = series.wrong if wrong else series.healthy, self.now
        while (self.now - began).total_seconds() < seconds:
            report = ExportMetricsServiceRequest()
            for _ in range(round(max(TICK_S, series.step_s) / series.step_s)):
                _add(report, window, (self.now - began).total_seconds(), self.now)
                self.now += timedelta(seconds=series.step_s)
            if report.resource_metrics:
                ingest_metrics(self.store, report)
            if (self.now - START) % timedelta(seconds=FOLD_S) < timedelta(seconds=max(TICK_S, series.step_s)):
                self.store.tick(self.now)
            self.evaluator.tick(self.now)
            if until is not None and [one.state for one in self.alerts()] == [until]:
                return

    def alerts(self) -> list[Alert]:
        with self.database.session() as session:
            return alert_store.alerts(session, before_id=None, limit=10)


def _add(report: ExportMetricsServiceRequest, window: Window, t: float, start: datetime) -> None:
    """One window of both nodes."""
    metrics: dict[tuple[str, str], OtlpMetric] = {}
    scopes: dict[str, ScopeMetrics] = {}
    for node, short, value, labels in window(t):
        scope = scopes[node] if node in scopes else scopes.setdefault(node, _scope(report, node))
        if (node, short) not in metrics:
            metrics[node, short] = scope.metrics.add(name=BY_SHORT[short].name, unit=BY_SHORT[short].unit)
        point = _point(metrics[node, short], short, value)
        point.start_time_unix_nano = int(start.timestamp() * 1e9)
        point.time_unix_nano = int((start + timedelta(seconds=5)).timestamp() * 1e9)
        for label, text in labels.items():
            point.attributes.add(key=ATTRIBUTE_OF[label]).value.string_value = text


def _scope(report: ExportMetricsServiceRequest, node: str) -> ScopeMetrics:
    resource = report.resource_metrics.add()
    for name, value in (("service.instance.id", node), ("tailwright.pool", "main")):
        resource.resource.attributes.add(key=name).value.string_value = value
    return resource.scope_metrics.add()


def _point(metric: OtlpMetric, short: str, value: Any) -> Any:
    kind = BY_SHORT[short].kind
    if kind is MetricKind.GAUGE:
        return metric.gauge.data_points.add(as_double=value)
    if kind is MetricKind.SUM:
        metric.sum.aggregation_temporality, metric.sum.is_monotonic = DELTA, True
        return metric.sum.data_points.add(as_double=value)
    metric.exponential_histogram.aggregation_temporality = DELTA
    drawn = np.asarray(value)
    places = axis_positions(drawn)
    point = metric.exponential_histogram.data_points.add(
        count=len(drawn), sum=float(drawn.sum()), min=float(drawn.min()), max=float(drawn.max()), scale=SCALE
    )
    point.positive.offset = int(places.min()) + AXIS_MIN
    point.positive.bucket_counts.extend(np.bincount(places - places.min()).tolist())
    return point
