"""A sound store has no findings; planted damage is found, and named by its place."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import orjson
import pytest
from sqlalchemy import Connection, delete, select, update
from sqlmodel import col

from controlplane.contract import metrics
from controlplane.db.database import Database
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import HistogramBlock
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.tables import FoldRow, FrameRow, LabelsRow, PendingRow, SeenRow, StreamRow
from tests.controlplane.telemetry.ingesting import ingest_metrics

Damage = Callable[[Connection], object]


@pytest.fixture
def filled(store: TelemetryStore, clock: Any, make_report: Any, start: datetime) -> TelemetryStore:
    """Two nodes over two minutes, folded and built up to 5 minutes, and some that are not folded yet."""

    def send(seconds: int) -> None:
        for node in ("a", "b"):
            report = make_report(node=node, start=start + timedelta(seconds=seconds))
            report.histogram([0.1, 0.2 + seconds / 100], model="m")
            report.number(metrics.OUTPUT_TOKENS.name, 7)
            report.number(metrics.KV_USAGE.name, 0.5, kind="gauge")
            ingest_metrics(store, report.request)

    for seconds in range(0, 120, 5):
        send(seconds)
    clock.advance(60)
    store.tick(clock())
    send(600)
    return store


def findings(store: TelemetryStore, database: Database) -> list[str]:
    return [str(finding) for finding in verify(database, store.frames).findings.all]


def spoil(database: Database, damage: Damage) -> None:
    with database.session() as session:
        damage(session.connection())


def of(resolution: int, block: int, metric: int = 1) -> tuple[Any, ...]:
    return (col(FrameRow.resolution) == resolution, col(FrameRow.block) == block, col(FrameRow.metric) == metric)


def changed(resolution: int, block: int, change: Callable[[HistogramBlock], None]) -> Damage:
    """The first frame of a level, decoded, changed and encoded again: its checksum is right."""

    def act(connection: Connection) -> None:
        where = of(resolution, block)
        window, data = connection.execute(
            select(col(FrameRow.window), col(FrameRow.frame)).where(*where).order_by(col(FrameRow.window))
        ).first() or (0, b"")
        found = frame.decode(data)
        assert isinstance(found, HistogramBlock)
        change(found)
        again = update(FrameRow).where(*where, col(FrameRow.window) == window).values(frame=frame.encode(found))
        connection.execute(again)

    return act


def more_counts(block: HistogramBlock) -> None:
    block.counts = block.counts + np.uint8(1)


def another_sum(block: HistogramBlock) -> None:
    block.total = block.total * 1.001


def another_set(block: HistogramBlock) -> None:
    block.labels = block.labels + np.int32(1_000)


@pytest.mark.slow
def test_a_sound_store_has_no_findings(filled: TelemetryStore, database: Database) -> None:
    report = verify(database, filled.frames)
    assert report.findings.all == [] and report.sound
    assert report.frames > 100 and report.pending == 2 and report.repeats == 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "place", "problem"),
    [
        (changed(5, 0, more_counts), "5 s at 2026-03-01T12:00:00Z, fleet", "other counts than the sum of its nodes'"),
        (changed(10, 0, more_counts), "10 s at 2026-03-01T12:00:00Z, block 0", "other counts than the sum of its 5 s"),
        (changed(60, 0, another_sum), "60 s at 2026-03-01T12:00:00Z, block 0", "another sum than the sum of its 10 s"),
        (changed(60, -1, more_counts), "60 s at 2026-03-01T12:00:00Z, fleet", "other counts"),
        (changed(5, 0, another_set), "5 s at 2026-03-01T12:00:00Z, block 0", "is not known"),
        (
            lambda c: c.execute(update(FrameRow).where(*of(5, 0)).values(frame=b"\0" * 60)),
            "5 s at 2026-03-01T12:00:00Z, block 0",
            "damaged",
        ),
        (
            lambda c: c.execute(delete(FrameRow).where(*of(60, 0))),
            "60 s at 2026-03-01T12:00:00Z, block 0",
            "is missing, the sum of its 10 s frames is not",
        ),
        (
            lambda c: c.execute(update(FrameRow).where(*of(10, 0)).values(metric=99)),
            "metric 99, 10 s",
            "metric 99 is not known, not histogram",
        ),
        (lambda c: c.execute(update(PendingRow).values(points=b"TTP1 and so on")), "pending row", "pending row"),
        (lambda c: c.execute(update(PendingRow).values(last_window=1)), "pending row", "other windows"),
        (lambda c: c.execute(delete(LabelsRow).where(col(LabelsRow.id) > 2)), "pending row", "is not known"),
        (lambda c: c.execute(update(SeenRow).values(hashes=b"12345")), "seen points", "no list of 64-bit hashes"),
        (lambda c: c.execute(update(SeenRow).values(hashes=b"12345678" * 2)), "seen points", "twice"),
    ],
)
def test_damage_is_found(filled: TelemetryStore, database: Database, damage: Damage, place: str, problem: str) -> None:
    spoil(database, damage)
    found = findings(filled, database)
    assert any(place in one and problem in one for one in found), found


@pytest.mark.slow
def test_a_stream_that_counts_what_was_never_sent(filled: TelemetryStore, database: Database) -> None:
    with database.session() as session:
        session.add(StreamRow(stream=bytes(16), high=3, digests=b"\0\0" * 2 + b"ab", heard_ns=1))
        session.add(StreamRow(stream=bytes([1] * 16), high=3, digests=b"ab" * 4, heard_ns=1))
    assert findings(filled, database) == [f"stream {'01' * 16}: 8 bytes do not tell of reports up to 3"]


@pytest.mark.slow
def test_frames_beyond_what_is_built(filled: TelemetryStore, database: Database) -> None:
    with database.session() as session:
        levels = orjson.loads(session.execute(select(col(FoldRow.levels))).scalar_one())
    levels["60"][1] = 1
    spoil(database, lambda c: c.execute(update(FoldRow).values(levels=orjson.dumps(levels).decode())))
    assert any(
        "60 s at 2026-03-01T12:01:00Z" in one and "beyond what is built" in one for one in findings(filled, database)
    )
