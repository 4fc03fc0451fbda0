"""Onwards to a real receiver: another Tailwright ends with the same quantiles, also when everything is sent twice."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from sqlmodel import delete

from controlplane.contract import metrics
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.forwarding.late import WATCHED_S
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.forwarding.otlp_request import Scope
from controlplane.telemetry.forwarding.otlp_sender import OtlpSender
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.values.export_tables import ExportRow
from controlplane.telemetry.values.interval import floor
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.peers import Service, service

pytestmark = pytest.mark.slow

Q = (0.0, 0.01, 0.5, 0.95, 0.99, 0.999, 1.0)


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """The receiver is a whole service that goes by the wall clock."""
    return utc_now


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("receiver")) as running:
        yield running


@pytest.fixture
def minute() -> datetime:
    """The beginning of a minute that is over."""
    return floor(utc_now(), 60) - timedelta(minutes=3)


def fill(store: TelemetryStore, make_report: Any, minute: datetime, pool: str) -> None:
    """Two minutes of two nodes, each with metrics of every kind."""
    rng = np.random.default_rng(5)
    for step in range(0, 120, 5):
        for node in (f"{pool}-a", f"{pool}-b"):
            report = make_report(node=node, pool=pool, start=minute + timedelta(seconds=step))
            for bucket in ("<=128", "<=2k"):
                report.histogram(rng.lognormal(-1, 1, 40).tolist(), model="m", prompt_bucket=bucket)
            report.histogram(rng.lognormal(-3, 1, 40).tolist(), name=metrics.QUEUE.name, model="m")
            report.number(metrics.OUTPUT_TOKENS.name, 7.0, model="m")
            report.number(metrics.KV_USAGE.name, step / 120, kind="gauge")
            outcome = ingest_metrics(store, report.request)
            assert not outcome.refusals.count, outcome.refusals.text()


def exporter_of(store: TelemetryStore, database: Database, receiver: Service, scope: Scope) -> Exporter:
    sender = OtlpSender(
        store,
        receiver.url,
        utc_now,
        headers={"Authorization": f"Bearer {receiver.token}"},
        scopes=[scope],
        interval_s=60,
    )
    return Exporter(sender, database, ExportMeters(CollectorRegistry()), delay_s=0, longest_lag_s=3600)


@pytest.mark.parametrize("scope", list(Scope))
def test_the_receiver_ends_with_equal_quantiles(
    store: TelemetryStore,
    database: Database,
    receiver: Service,
    make_report: Any,
    minute: datetime,
    scope: Scope,
) -> None:
    pool = f"to-{scope.value}"
    fill(store, make_report, minute, pool)
    exporter = exporter_of(store, database, receiver, scope)
    assert exporter.tick(minute) == 0, "the first tick marks where to begin"
    assert exporter.tick(minute + timedelta(seconds=125)) == 2
    assert exporter.error == ""
    by = ["model", "prompt_bucket"] + (["node"] if scope is Scope.NODE else [])
    span = {"start": minute - timedelta(seconds=5), "end": minute + timedelta(seconds=125)}
    for _ in range(2):
        for metric in ("ttft", "queue"):
            theirs = receiver.http.get(
                "/api/v1/quantiles",
                params={
                    "metric": metric,
                    "q": ",".join(map(str, Q)),
                    "by": ",".join(by),
                    "pool": pool,
                    **{name: time.isoformat() for name, time in span.items()},
                },
            ).json()["series"]
            ours = store.histograms(Question(metric, Span(span["start"], span["end"]), by=by, where={"pool": pool}))
            assert [one["labels"] for one in theirs] == [one.labels for one in ours] and ours
            for their, our in zip(theirs, ours, strict=True):
                assert their["count"] == our.total.count
                assert their["mean"] == pytest.approx(our.total.mean, rel=1e-12)
                # Counts and buckets are equal; extremes are kept rounded by a millionth once a window is folded.
                assert list(their["quantiles"].values()) == pytest.approx([our.total.quantile(q) for q in Q], rel=1e-6)
        tokens = receiver.http.get(
            "/api/v1/scalars",
            params={"metric": "output_tokens", "pool": pool, **{name: time.isoformat() for name, time in span.items()}},
        ).json()
        assert tokens["series"][0]["value"] == 24 * 2 * 7.0
        # Once more from the beginning: the receiver knows every point by its start and end.
        with database.session() as session:
            session.execute(delete(ExportRow))
        again = exporter_of(store, database, receiver, scope)
        again.tick(minute)
        assert again.tick(minute + timedelta(seconds=125)) == 2


def test_a_wrong_token_gives_nothing_up(
    store: TelemetryStore, database: Database, receiver: Service, make_report: Any, minute: datetime
) -> None:
    fill(store, make_report, minute, "late")
    wrong = OtlpSender(
        store, receiver.url, utc_now, headers={"Authorization": "Bearer no"}, scopes=[Scope.NODE], interval_s=60
    )
    exporter = Exporter(wrong, database, ExportMeters(CollectorRegistry()), delay_s=0, longest_lag_s=3600)
    exporter.tick(minute)
    assert exporter.tick(minute + timedelta(seconds=65)) == 0
    assert exporter.error == "HTTP 401"
    right = exporter_of(store, database, receiver, Scope.NODE)
    assert right.tick(minute + timedelta(seconds=125)) == 2
    found = receiver.http.get(
        "/api/v1/quantiles", params={"metric": "ttft", "pool": "late", "start": minute.isoformat()}
    ).json()["series"]
    assert found[0]["count"] == 24 * 2 * 2 * 40


def test_a_whole_service_exports_by_its_settings_and_says_when_it_cannot(
    receiver: Service, tmp_path: Path, make_report: Any, wait_for: Callable[..., object]
) -> None:
    settings = {
        "export_otlp_headers": {"Authorization": f"Bearer {receiver.token}"},
        "export_otlp_interval_s": 5,
        "export_delay_s": 0,
    }
    with service(tmp_path / "sender", export_otlp_url=receiver.url, **settings) as sender:
        stop_at = utc_now() + timedelta(seconds=60)

        def arrived() -> bool:
            # A fresh report each time: only windows after the exporter's first tick are sent.
            now = utc_now()
            assert now < stop_at
            report = make_report(node="whole", pool="whole", start=floor(now, 5) - timedelta(seconds=5))
            report.histogram([0.25])
            body = report.request.SerializeToString()
            sent = sender.http.post("/v1/metrics", content=body, headers={"Content-Type": "application/x-protobuf"})
            assert sent.status_code == 200
            found = receiver.http.get("/api/v1/quantiles", params={"metric": "ttft", "pool": "whole"}).json()
            return bool(found["series"])

        wait_for("the receiver has the sender's report", arrived, 60)
        exports = sender.http.get("/readyz").json()["exports"]
        assert exports["otlp"]["failing"] is False
        assert 'tailwright_export_failing{exporter="otlp"} 0.0' in sender.http.get("/metrics").text
    with service(tmp_path / "lost", export_otlp_url="http://127.0.0.1:9", **settings) as lost:

        def degraded() -> bool:
            now = utc_now()
            report = make_report(node="a", pool="a", start=floor(now, 5) - timedelta(seconds=5))
            report.histogram([0.25])
            lost.http.post(
                "/v1/metrics",
                content=report.request.SerializeToString(),
                headers={"Content-Type": "application/x-protobuf"},
            )
            answer: httpx.Response = lost.http.get("/readyz")
            assert answer.status_code == 200, "an export that fails does not stop reports"
            return bool(answer.json()["degraded"] == ["export_otlp"])

        wait_for("the service says that its export fails", degraded, 60)
        assert lost.http.get("/readyz").json()["exports"]["otlp"]["last_error"] == "ConnectError"


@pytest.mark.parametrize("scopes", [[Scope.NODE], [Scope.FLEET]])
def test_what_comes_late_arrives_too_and_everything_counts_once(
    store: TelemetryStore,
    database: Database,
    receiver: Service,
    make_report: Any,
    minute: datetime,
    scopes: list[Scope],
) -> None:
    pool = f"afterwards-{scopes[0].value}"
    fill(store, make_report, minute, pool)
    now = utc_now()
    clock = [now]
    sender = OtlpSender(
        store,
        receiver.url,
        lambda: clock[0],
        headers={"Authorization": f"Bearer {receiver.token}"},
        scopes=scopes,
        interval_s=60,
    )
    interval, following = (Span(minute + timedelta(minutes=n), minute + timedelta(minutes=n + 1)) for n in (0, 1))
    sender.send(interval)
    for node in (f"{pool}-a", f"{pool}-new"):
        report = make_report(node=node, pool=pool, start=minute + timedelta(seconds=20), seconds=4.0)
        report.histogram([0.001, 0.5, 90.0], model="m", prompt_bucket="<=2k")
        report.histogram([0.25], name=metrics.QUEUE.name, model="m", prompt_bucket="<=2k")
        report.number(metrics.OUTPUT_TOKENS.name, 1000.0, model="m")
        assert ingest_metrics(store, report.request).accepted == 3
    clock[0] = now + timedelta(seconds=WATCHED_S)
    sent = sender.send(following)
    assert sent.late == 2 * (3 + 1) and not sent.refused
    clock[0] = now + timedelta(seconds=3 * WATCHED_S)
    assert sender.send(following).late == 0
    sender.close()
    by = ["model", "prompt_bucket"] + (["node"] if scopes == [Scope.NODE] else [])
    span = {"start": minute.isoformat(), "end": (minute + timedelta(seconds=120)).isoformat()}
    for metric in ("ttft", "queue"):
        theirs = receiver.http.get(
            "/api/v1/quantiles",
            params={"metric": metric, "q": ",".join(map(str, Q)), "by": ",".join(by), "pool": pool, **span},
        ).json()["series"]
        ours = store.histograms(
            Question(metric, Span(minute, minute + timedelta(seconds=120)), by=by, where={"pool": pool})
        )
        assert [(one["labels"], one["count"]) for one in theirs] == [(one.labels, one.total.count) for one in ours]
        for their, our in zip(theirs, ours, strict=True):
            assert their["mean"] == pytest.approx(our.total.mean, rel=1e-12)
            assert list(their["quantiles"].values()) == pytest.approx([our.total.quantile(q) for q in Q], rel=1e-6)
    tokens = receiver.http.get("/api/v1/scalars", params={"metric": "output_tokens", "pool": pool, **span}).json()
    assert tokens["series"][0]["value"] == 24 * 2 * 7.0 + 2 * 1000.0
