"""A service's exports bear its name, and it refuses what bears its own, however it comes back to it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.forwarding.otlp_request import Scope
from controlplane.telemetry.forwarding.otlp_sender import OtlpSender
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.instance import HEADER, name_of
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.made_tables import migrate


def test_replicas_have_one_name_and_services_different_ones(any_database: Database, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as replicas:
        names = set(replicas.map(lambda _: name_of(any_database), range(4)))
    assert len(names) == 1
    other = Database(f"sqlite:///{tmp_path / 'other.db'}")
    migrate(other)
    assert name_of(other) not in names
    other.close()


def test_what_comes_back_is_refused_and_what_others_export_is_taken(
    store: TelemetryStore,
    database: Database,
    api: httpx.Client,
    make_report: Any,
    start: datetime,
    clock: Callable[[], datetime],
) -> None:
    report = make_report(start=start)
    report.histogram([0.25])
    assert ingest_metrics(store, report.request).accepted == 1
    meters = ExportMeters(CollectorRegistry())

    def exporter(exported_by: str) -> Exporter:
        sender = OtlpSender(
            store,
            str(api.base_url),
            clock,
            headers={**api.headers, HEADER: exported_by},
            scopes=[Scope.NODE],
            interval_s=60,
            http=api,
        )
        return Exporter(sender, database, meters, delay_s=0, longest_lag_s=3600)

    def count() -> int:
        return sum(
            one.total.count for one in store.histograms(Question("ttft", Span(start, start + timedelta(minutes=5))))
        )

    own = exporter(name_of(database))
    own.tick(start)
    assert own.tick(start + timedelta(seconds=65)) == 1
    assert own.error == "Refused" and count() == 1
    answer = api.post("/v1/metrics", content=b"", headers={HEADER: name_of(database)})
    assert answer.status_code == 400 and "own exports" in answer.json()["error"]["message"]
    assert count() == 1
    foreign = api.post(
        "/v1/metrics",
        content=make_report(node="far", start=start).request.SerializeToString(),
        headers={HEADER: "another", "Content-Type": "application/x-protobuf"},
    )
    assert foreign.status_code == 200
