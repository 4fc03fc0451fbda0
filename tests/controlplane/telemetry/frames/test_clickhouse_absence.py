"""ClickHouse away at the start, or for a while: reports are taken in, the service says so, and all is folded."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from controlplane.contract.clock import utc_now
from controlplane.contract.errors import Unavailable
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames.clickhouse import ClickHouse
from controlplane.telemetry.frames.clickhouse_absence import LateClickHouse
from controlplane.telemetry.frames.clickhouse_frames import SCHEMA, ClickHouseFrames
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import PendingRow
from tests.controlplane.telemetry.frames.embedded_clickhouse import EmbeddedClickHouse, served
from tests.controlplane.telemetry.ingesting import ingest_metrics
from tests.peers import service
from tests.processes import wait_for


class Sometimes(ClickHouse):
    """Answers, while it is not `away`."""

    def __init__(self, behind: ClickHouse | None = None) -> None:
        self.behind = behind
        self.away = True
        self.asked: list[str] = []

    def ask(self, statement: str, body: bytes | None = None) -> bytes:
        self.asked.append(statement)
        if self.away:
            raise Unavailable("ClickHouse: away")
        return b"" if self.behind is None else self.behind.ask(statement, body)


def test_the_schema_goes_first_and_only_until_it_is_there() -> None:
    clickhouse = Sometimes()
    late = LateClickHouse(clickhouse, ["CREATE"])
    assert late.fault == ""
    for _ in range(2):
        with pytest.raises(Unavailable):
            late.ask("SELECT")
    assert clickhouse.asked == ["CREATE", "CREATE"] and late.fault == "ClickHouse: away"
    clickhouse.away = False
    late.ask("SELECT")
    late.ask("INSERT", b"rows")
    assert clickhouse.asked[2:] == ["CREATE", "SELECT", "INSERT"] and late.fault == ""


@pytest.fixture
def given(
    database: Database, clock: Any, empty_clickhouse: EmbeddedClickHouse
) -> Iterator[tuple[TelemetryStore, Sometimes]]:
    clickhouse = Sometimes(empty_clickhouse)
    store = TelemetryStore(database, clock, frames=ClickHouseFrames(database, clickhouse))
    store.start()
    yield store, clickhouse
    store.close()


def test_what_was_taken_in_meanwhile_is_folded_once_when_it_is_back(
    given: tuple[TelemetryStore, Sometimes], database: Database, clock: Any, make_report: Any, start: datetime
) -> None:
    store, clickhouse = given
    assert store.ready() and store.frames.fault()

    def take_in(first: int, last: int) -> None:
        for second in range(first, last, 5):
            report = make_report(start=start + timedelta(seconds=second))
            report.histogram([0.1, 0.2])
            assert ingest_metrics(store, report.request).accepted == 1

    def count() -> int:
        return sum(
            one.total.count for one in store.histograms(Question("ttft", Span(start, start + timedelta(minutes=10))))
        )

    take_in(0, 120)
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.tick(clock())
    clickhouse.away = False
    store.tick(clock())
    assert store.frames.fault() == "" and count() == 48
    clickhouse.away = True
    take_in(120, 240)
    clock.advance(3600)
    with pytest.raises(Unavailable):
        store.tick(clock())
    clickhouse.away = False
    store.tick(clock())
    with database.read_session() as session:
        assert session.exec(select(PendingRow.id)).all() == []
    assert count() == 96
    assert verify(database, store.frames).findings.all == []


def test_a_whole_service_starts_without_it_and_says_so(
    empty_clickhouse: EmbeddedClickHouse, tmp_path: Path, make_report: Any
) -> None:
    with served(empty_clickhouse) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
    with service(tmp_path, clickhouse_url=url) as running:
        ready = running.http.get("/readyz")
        assert ready.status_code == 200 and "frames_unavailable" in ready.json()["degraded"]
        assert 'tailwright_degraded{mode="frames_unavailable"} 1.0' in running.http.get("/metrics").text
        begin = datetime.fromtimestamp(utc_now().timestamp() // 60 * 60 - 300, tz=utc_now().tzinfo)
        report = make_report(start=begin)
        report.histogram([0.25] * 7)
        headers = {"Content-Type": "application/x-protobuf"}
        sent = running.http.post("/v1/metrics", content=report.request.SerializeToString(), headers=headers)
        assert sent.status_code == 200
        asked = {"metric": "ttft", "start": begin.isoformat()}
        away = running.http.get("/api/v1/quantiles", params=asked)
        assert away.status_code == 503 and away.json()["error"]["code"] == "unavailable"
        with served(empty_clickhouse, port):

            def rows() -> int:
                ((found,),) = empty_clickhouse.rows("SELECT count() FROM tailwright_frame", ("UInt64",))
                return int(found)

            empty_clickhouse.execute(SCHEMA)  # For the look below; it bears repeating.
            wait_for("the report is folded", rows)
            assert "frames_unavailable" not in running.http.get("/readyz").json()["degraded"]
            (series,) = running.http.get("/api/v1/quantiles", params=asked).json()["series"]
            assert series["count"] == 7
