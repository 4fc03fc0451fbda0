"""When what is pending is folded: sealed by newer windows or by age, in pieces, and always all of it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlmodel import col, func, select

from controlplane.contract import metrics
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding import compaction
from controlplane.telemetry.folding.compaction import FIRST_COARSER, backlog
from controlplane.telemetry.queries.unfolded import RUN
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import PendingRow
from controlplane.telemetry.values.levels import BASE_S, COARSER, FINER_OF
from tests.controlplane.telemetry.ingesting import ingest_metrics

Send = Callable[..., None]


@pytest.fixture
def send(store: TelemetryStore, make_report: Callable[..., Any], start: datetime) -> Send:
    def sent(seconds: float, values: int = 1) -> None:
        report = make_report(start=start + timedelta(seconds=seconds))
        report.histogram([0.1] * values, model="m")
        assert ingest_metrics(store, report.request).accepted == 1

    return sent


def pending(database: Database) -> int:
    with database.read_session() as session:
        return session.exec(select(func.count()).select_from(PendingRow)).one()


def values(store: TelemetryStore, start: datetime) -> int:
    found = store.histograms(Question(metrics.TTFT.short, Span(start - timedelta(hours=1), start + timedelta(hours=2))))
    return sum(series.total.count for series in found)


def test_windows_wait_for_three_newer_ones_and_then_go_by_whole_coarser_windows(
    store: TelemetryStore, database: Database, clock: Any, send: Send, start: datetime
) -> None:
    clock.now = start + timedelta(seconds=FIRST_COARSER)
    for seconds in range(0, FIRST_COARSER, BASE_S):
        send(seconds)
    kept = FIRST_COARSER // BASE_S
    assert store.tick(clock()) == 0 and pending(database) == kept, "the newest coarser window is still open"
    send(FIRST_COARSER)
    assert store.tick(clock()) == 0, "nor is it sealed by one newer window"
    clock.advance(BASE_S)
    send(FIRST_COARSER + BASE_S)
    assert store.tick(clock()) == 0, "nor by two"
    clock.advance(BASE_S)
    send(FIRST_COARSER + 2 * BASE_S)
    assert store.tick(clock()) > 0
    assert pending(database) == 3, "what came of the next coarser window waits"
    assert values(store, start) == kept + 3


def test_what_was_written_long_enough_ago_is_folded_though_nothing_newer_came(
    store: TelemetryStore, database: Database, clock: Any, send: Send, start: datetime
) -> None:
    clock.now = start + timedelta(seconds=1)
    send(0)
    clock.advance(29)
    assert store.tick(clock()) == 0 and pending(database) == 1
    clock.advance(1)
    assert store.tick(clock()) > 0 and pending(database) == 0
    assert store.tick(clock()) == 0, "there is nothing more"
    assert values(store, start) == 1


@pytest.mark.parametrize("limit", ["ROWS_AT_ONCE", "BYTES_AT_ONCE"])
def test_a_large_backlog_is_folded_in_pieces_and_whole(
    store: TelemetryStore, database: Database, send: Send, start: datetime, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for seconds in range(0, 50, BASE_S):
        send(seconds, values=3)
    with database.read_session() as session:
        size = session.exec(select(func.sum(func.length(col(PendingRow.points))))).one()
    with database.snapshot() as connection:
        assert backlog(connection) == size > 0
    monkeypatch.setattr(compaction, limit, 2 if limit == "ROWS_AT_ONCE" else size // 4)
    monkeypatch.setattr(compaction, "ROUNDS", 1)
    left = []
    while pending(database):
        assert store.tick(start + timedelta(hours=1)) > 0
        left.append(pending(database))
    assert left == sorted(left, reverse=True) and 4 <= len(left) <= 6
    with database.snapshot() as connection:
        assert backlog(connection) == 0
    assert values(store, start) == 30
    for resolution in COARSER:
        assert by_level(store, start, resolution) == 30, "each level holds the sum of the finer one"


def test_what_was_folded_a_piece_ago_is_in_the_coarser_windows_that_are_built_later(
    store: TelemetryStore, database: Database, send: Send, start: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(0)
    assert store.tick(start + timedelta(seconds=60)) > 0, "from here on windows are built that have frames already"
    for seconds in range(100, 150, BASE_S):
        send(seconds, values=3)
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(compaction, "ROUNDS", 1)
    while pending(database):
        store.tick(start + timedelta(hours=1))
    assert [by_level(store, start, resolution) for resolution in COARSER] == [31] * len(COARSER)


def by_level(store: TelemetryStore, start: datetime, resolution: int) -> int:
    """How many values a level tells of, once all of them are built."""
    store.tick(start + timedelta(hours=2))
    hour = start.replace(minute=0, second=0, microsecond=0)
    span = Span(hour, hour + timedelta(hours=1))
    found = store.histograms(Question(metrics.TTFT.short, span, step_s=resolution))
    return sum(sketch.count for series in found for _, sketch in series.steps)


def test_every_level_is_built_as_far_as_the_finer_one(
    store: TelemetryStore, database: Database, clock: Any, send: Send, start: datetime
) -> None:
    clock.now = start + timedelta(seconds=5)
    send(0)
    for hours in (1, 3):
        clock.now = start + timedelta(hours=hours)
        store.tick(clock())
        with database.snapshot() as connection:
            levels = store.frames.state(connection).levels
        for resolution in COARSER[1:]:
            finer = levels[FINER_OF[resolution]]
            assert levels[resolution].built_to == finer.built_to * finer.resolution // resolution
    assert levels[COARSER[-1]].built_to * COARSER[-1] >= (start + timedelta(hours=2)).timestamp()


def test_one_row_larger_than_a_piece_is_folded_too(
    store: TelemetryStore, database: Database, send: Send, start: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "BYTES_AT_ONCE", 1)
    send(0)
    send(5)
    store.tick(start + timedelta(hours=1))
    assert pending(database) == 0 and values(store, start) == 2


@pytest.mark.parametrize("folds", ["this replica", "another replica"])
def test_of_what_was_folded_memory_holds_nothing(
    store: TelemetryStore, database: Database, clock: Any, send: Send, start: datetime, folds: str
) -> None:
    clock.now = start + timedelta(seconds=RUN * BASE_S)
    for number in range(RUN + 1):
        send(number * BASE_S)
    assert values(store, start) == RUN + 1
    assert len(store._head._cache) == RUN + 1 and store._fleet_runs._runs
    clock.advance(3600)
    if folds == "this replica":
        store.tick(clock())
    else:
        TelemetryStore(database, clock).tick(clock())
        assert store._fleet_runs._runs
        store.follow(clock())
    assert pending(database) == 0
    assert not store._head._cache and not store._fleet_runs._runs
    assert values(store, start) == RUN + 1
