"""Finished requests by their id, on every database, and over HTTP."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
from sqlalchemy import event

from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_traces


def test_one_request_is_found_by_exactly_its_id(
    any_store: TelemetryStore, make_spans: Callable[..., Any], start: datetime
) -> None:
    span = {"start": start, "end": start + timedelta(minutes=1)}
    assert any_store.requests(**span, request_id="r-7") == []
    for place, node in enumerate(("c", "a", "b")):
        arrival = start + timedelta(seconds=place)
        ids = [f"r-{10 * place + number}" for number in range(10)]
        ingest_traces(any_store, make_spans(node, [{"id": one, "arrival": arrival} for one in [*ids, "shared"]]))

    def found(**wanted: Any) -> list[tuple[str, str]]:
        return [(one.node, one.request_id) for one in any_store.requests(**span, **wanted)]

    assert found(request_id="r-17") == [("a", "r-17")]
    assert found(request_id="r-1") == [("c", "r-1")]
    assert found(request_id="r-99") == found(request_id="") == found(request_id="R-17") == []
    assert found(request_id="shared") == [("b", "shared"), ("a", "shared"), ("c", "shared")]
    assert found(request_id="shared", node="a") == [("a", "shared")]
    assert found(request_id="shared", pool="other") == []


def test_an_id_is_looked_up_in_an_index(database: Database, store: TelemetryStore, start: datetime) -> None:
    asked: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    store.requests(start=start, end=start + timedelta(days=2), request_id="r-7")
    event.remove(database.engine, "before_cursor_execute", note)
    statement, parameters = next(one for one in asked if "telemetry_request" in one[0])
    with database.engine.connect() as connection:
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    assert any("ix_telemetry_request_identity (node=? AND request_id=?" in step for step in plan), plan


def test_the_filter_over_http(api: httpx.Client, make_spans: Callable[..., Any], start: datetime) -> None:
    spans = make_spans("a", [{"id": one, "arrival": start} for one in ("x", "x/1 é", "xx")])
    sent = api.post("/v1/traces", content=spans.SerializeToString(), headers={"Content-Type": "application/x-protobuf"})
    assert sent.status_code == 200
    for wanted in ("x", "x/1 é"):
        page = api.get("/api/v1/requests", params={"request_id": wanted, "window": "48h"}).json()
        assert [one["request_id"] for one in page["items"]] == [wanted] and page["next"] is None
    described = {
        one["name"] for one in api.get("/openapi.json").json()["paths"]["/api/v1/requests"]["get"]["parameters"]
    }
    assert "request_id" in described
