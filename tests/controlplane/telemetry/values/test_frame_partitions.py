"""PostgreSQL: frames go into the partition of their time, into the default one for want of it, and leave with it."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, text
from sqlmodel import SQLModel

from controlplane.app.tables import all_tables
from controlplane.db.database import Database
from controlplane.telemetry.values import frame_partitions
from controlplane.telemetry.values.frame_partitions import RESOLUTIONS_S, SPAN_S, drop_before, make_ahead
from tests.made_tables import create_tables

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def postgres(postgres_schema_url: str) -> Database:
    found = Database(postgres_schema_url)
    create_tables(found, all_tables())
    return found


def put(database: Database, resolution: int, time: datetime) -> int:
    """A frame of that time; returns its window."""
    window = int(time.timestamp()) // resolution
    row = {"resolution": resolution, "metric": 1, "block": 0, "window": window, "version": 1, "frame": b"x"}
    with database.session() as session:
        session.execute(insert(SQLModel.metadata.tables["telemetry_frame"]), [row])
    return window


def where(database: Database) -> dict[int, str]:
    """The partition of each frame, by window."""
    with database.engine.connect() as connection:
        rows = connection.execute(text('SELECT "window", tableoid::regclass::text FROM telemetry_frame'))
        return {window: name for window, name in rows}


@pytest.mark.parametrize("resolution", RESOLUTIONS_S)
def test_made_ahead_and_dropped_whole(postgres: Database, resolution: int) -> None:
    make_ahead(postgres, NOW)
    make_ahead(postgres, NOW)
    span = timedelta(seconds=SPAN_S[resolution])
    windows = [put(postgres, resolution, NOW + i * span) for i in range(3)]
    far = put(postgres, resolution, NOW + 50 * span)
    names = where(postgres)
    for window in windows:
        partition = frame_partitions.at(resolution, window)
        assert partition.first <= window < partition.last and names[window] == partition.name
    assert names[far] == f"telemetry_frame_partition_{resolution}_default"
    second = frame_partitions.at(resolution, windows[1])
    assert drop_before(postgres, resolution, second.last - 1) == 1
    assert set(where(postgres)) == {*windows[1:], far}
    assert drop_before(postgres, resolution, second.last) == 1
    assert drop_before(postgres, resolution, second.last) == 0
    assert set(where(postgres)) == {windows[2], far}
    postgres.close()


def test_a_span_whose_frames_are_in_the_default_one_stays_there(postgres: Database) -> None:
    before = put(postgres, 60, NOW)
    make_ahead(postgres, NOW)
    after = put(postgres, 60, NOW + timedelta(seconds=60))
    assert where(postgres) == dict.fromkeys((before, after), "telemetry_frame_partition_60_default")
    later = put(postgres, 60, NOW + timedelta(seconds=SPAN_S[60]))
    assert where(postgres)[later] == frame_partitions.at(60, later).name
    postgres.close()


def test_readers_that_stand_in_the_way_only_put_it_off(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_partitions, "LOCK_TIMEOUT", "50ms")
    make_ahead(postgres, NOW)
    window = put(postgres, 10, NOW)
    partition = frame_partitions.at(10, window)
    with postgres.engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM telemetry_frame"))
        assert drop_before(postgres, 10, partition.last) == 0
        make_ahead(postgres, NOW + timedelta(days=400))
        assert put(postgres, 10, NOW + timedelta(days=400)) in where(postgres)
    assert drop_before(postgres, 10, partition.last) == 1
    make_ahead(postgres, NOW + timedelta(days=800))
    late = put(postgres, 10, NOW + timedelta(days=800))
    assert where(postgres)[late] == frame_partitions.at(10, late).name
    postgres.close()


def test_on_sqlite_there_is_nothing_to_do(database: Database) -> None:
    make_ahead(database, NOW)
    assert drop_before(database, 10, 1 << 40) == 0
