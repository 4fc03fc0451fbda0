"""Frames in the service's own database: SQLite, or PostgreSQL with a partition for each level and span of time.

Guarantee: as `FrameStore`; what a fold replaces, the state and the deletion of pending rows are one transaction. On
SQLite the new frames of a large fold are written ahead of it (`frames_ahead`): a snapshot of the database is a
`ReadPoint` by itself, and shows of them what its number says.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from controlplane.db.binary_transfer import BINARY_ROWS
from controlplane.db.database import Database
from controlplane.db.driver_statement import DriverStatement
from controlplane.telemetry.frames import frames_ahead
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.frames.frames_ahead import ONE, FramesAhead
from controlplane.telemetry.frames.gather import FLEET
from controlplane.telemetry.tables import FoldRow, FrameRow
from controlplane.telemetry.values import frame_partitions
from controlplane.telemetry.values.levels import FoldState

FRAMES_AT_ONCE = 500
KEYS_AT_ONCE = 200
WINDOWS_AT_ONCE = 500
_COPY = 'COPY telemetry_frame (resolution, metric, block, "window", version, frame) FROM STDIN (FORMAT BINARY)'
_COPIED = ("int4", "int4", "int4", "int8", "int4", "bytea")
NO_METRIC = -1
"""Below every metric's id."""
_BLOCKS = text(
    """WITH RECURSIVE found(block) AS (
    SELECT min(block) FROM telemetry_frame
    WHERE resolution = :resolution AND metric = :metric AND block >= :least
    UNION ALL
    SELECT (SELECT min(one.block) FROM telemetry_frame AS one
            WHERE one.resolution = :resolution AND one.metric = :metric AND one.block > found.block)
    FROM found WHERE found.block IS NOT NULL)
    SELECT block FROM found WHERE block IS NOT NULL"""
)
"""A metric's blocks at a level: from one to the next along the primary key."""
_KEY = (FrameRow.resolution, FrameRow.metric, FrameRow.block, FrameRow.window)


class SqlFrames(FrameStore):
    def __init__(self, database: Database, sleep: Callable[[float], object] = time.sleep) -> None:
        self._database = database
        self._sleep = sleep
        make_insert = sqlite_insert if database.is_sqlite else postgresql_insert
        upsert = make_insert(FrameRow)
        write = upsert.on_conflict_do_update(
            index_elements=["resolution", "metric", "block", "window"],
            set_={"version": upsert.excluded.version, "frame": upsert.excluded.frame},
        )
        # Written by the driver itself: thousands of rows at a time, whose types need no conversion.
        self._write = write.compile(dialect=database.engine.dialect)
        self._first = make_insert(FoldRow).on_conflict_do_nothing()
        self._ahead = FramesAhead(database, self._insert, sleep)
        window, block = col(FrameRow.window), col(FrameRow.block)
        self._read_all = (
            select(block, window, col(FrameRow.frame))
            .where(col(FrameRow.resolution) == bindparam("resolution"), col(FrameRow.metric) == bindparam("metric"))
            .where(window >= bindparam("first"), window < bindparam("last"))
            .where(col(FrameRow.version) <= bindparam("number"), block >= bindparam("least"))
            .order_by(block, window)
            .execution_options(yield_per=FRAMES_AT_ONCE, **BINARY_ROWS)
        )
        self._read_blocks = self._read_all.where(block.in_(bindparam("blocks", expanding=True)))
        # The fleet's, and a small fleet's nodes: most queries.
        self._read_block = DriverStatement(self._read_all.where(block == bindparam("block")), **BINARY_ROWS)
        self._blocks = DriverStatement(_BLOCKS)
        self._known_blocks: dict[tuple[int, int, int], tuple[int, Sequence[int]]] = {}
        self._state = DriverStatement(select(col(FoldRow.number), col(FoldRow.levels)))
        metric = col(FrameRow.metric)
        self._next_metric = select(func.min(metric)).where(
            col(FrameRow.resolution) == bindparam("resolution"), metric > bindparam("after")
        )
        self._has_window = (
            select(col(FrameRow.version))
            .where(col(FrameRow.resolution) == bindparam("resolution"), col(FrameRow.window) == bindparam("at"))
            .limit(1)
        )

    def state(self, connection: Connection) -> FoldState:
        row = self._state.run(connection, {}).one_or_none()
        if row is None:
            return FoldState.first()
        number, levels = row
        return FoldState.load(number, levels)

    def read(
        self,
        moment: ReadPoint,
        resolution: int,
        metric: int,
        blocks: Collection[int] | None,
        first: int,
        last: int,
        *,
        fleet: bool = True,
    ) -> Iterator[Frame]:
        given = {"resolution": resolution, "metric": metric, "first": first, "last": last}
        given |= {"number": moment.state.number, "least": FLEET if fleet else FLEET + 1}
        connection = moment.connection
        if blocks is None and self._database.is_sqlite:
            # Without statistics SQLite would rather walk all metrics of the windows than a metric's blocks.
            blocks = self._blocks_of(connection, given)
        found: Iterable[Any]
        if blocks is None:
            found = connection.execute(self._read_all, given)
        elif len(blocks) == 1:
            found = self._read_block.run(connection, {**given, "block": next(iter(blocks))})
        else:
            found = connection.execute(self._read_blocks, {**given, "blocks": sorted(blocks)})
        for number, at, data in found:
            yield Frame(FrameKey(resolution, metric, number, at), bytes(data))

    def find(self, moment: ReadPoint, keys: Collection[FrameKey]) -> dict[FrameKey, bytes]:
        found = {}
        there = self._windows_with_frames(moment.connection, keys)
        # Most folds are the first of their windows, however many frames they write: one look-up a window tells.
        wanted = sorted(key for key in keys if (key.resolution, key.window) in there)
        for start in range(0, len(wanted), KEYS_AT_ONCE):
            chosen = tuple_(*map(col, _KEY)).in_(wanted[start : start + KEYS_AT_ONCE])
            known = col(FrameRow.version) <= moment.state.number
            query = select(*map(col, _KEY), col(FrameRow.frame)).where(chosen, known).execution_options(**BINARY_ROWS)
            for *key, data in moment.connection.execute(query):
                found[FrameKey(*key)] = data
        return found

    def metrics(self, moment: ReadPoint, resolution: int, first: int, last: int) -> list[int]:
        # From one to the next along the primary key: far fewer steps than there are frames in the windows.
        found: list[int] = []
        while True:
            given = {"resolution": resolution, "after": found[-1] if found else NO_METRIC}
            metric = moment.connection.execute(self._next_metric, given).scalar()
            if metric is None:
                return found
            found.append(metric)

    def newest(self, moment: ReadPoint, resolution: int, last: int) -> int | None:
        window = col(FrameRow.window)
        return self._extreme(moment, select(window).where(window <= last).order_by(window.desc()), resolution)

    def oldest(self, moment: ReadPoint, resolution: int) -> int | None:
        window = col(FrameRow.window)
        return self._extreme(moment, select(window).order_by(window), resolution)

    def prepare(self, fold: Fold) -> None:
        """On SQLite, a large fold's new frames; all others the transaction writes."""
        if not self._database.is_sqlite:
            return
        if fold.number == 1:
            with self._database.session() as session:
                self._make_first(session)
        self._ahead.write(fold)

    def commit(self, session: Session, fold: Fold) -> bool:
        if fold.number == 1:
            self._make_first(session)
        levels, begun = fold.state.dump(), self._ahead.begun(fold)
        if begun is not None:
            if not frames_ahead.counted(session, begun.number + 1, levels):
                return False
            self._insert(session, [one for one in fold.frames if one.key not in begun.written], begun.number + 1)
            return True
        take = frames_ahead.take_number if self._database.is_sqlite else frames_ahead.counted
        if not take(session, fold.number, levels):
            return False
        self._insert(session, fold.frames, fold.number)
        return True

    def drop(self, resolution: int, before: int) -> int:
        dropped = frame_partitions.drop_before(self._database, resolution, before)
        window = col(FrameRow.window)
        old = select(window).where(col(FrameRow.resolution) == resolution, window < before)
        while True:
            with self._database.read_session() as session:
                windows = session.execute(old.distinct().order_by(window).limit(WINDOWS_AT_ONCE)).scalars().all()
            for at in windows:
                # Each in a transaction of its own: whoever writes reports meanwhile waits for one of them only.
                began = time.monotonic()
                with self._database.session() as session:
                    statement = delete(FrameRow).where(col(FrameRow.resolution) == resolution, window == at)
                    dropped += session.connection().execute(statement).rowcount
                if self._database.is_sqlite:
                    self._sleep(time.monotonic() - began)  # Who waits for the lock there asks at intervals only.
            if len(windows) < WINDOWS_AT_ONCE:
                return dropped

    def make_room(self, now: datetime) -> None:
        frame_partitions.make_ahead(self._database, now)

    def size_bytes(self) -> int:
        with self._database.engine.connect() as connection:
            if self._database.is_sqlite:
                pages, free, size = (
                    int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
                    for name in ("page_count", "freelist_count", "page_size")
                )
                return (pages - free) * size
            query = text(
                "SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_partition_tree('telemetry_frame')"
            )
            return int(connection.execute(query).scalar() or 0)

    def _blocks_of(self, connection: Connection, given: Mapping[str, int]) -> Sequence[int]:
        """The blocks of a metric at a level, and maybe others: the same from one fold to the next."""
        key = given["resolution"], given["metric"], given["least"]
        number, blocks = self._known_blocks.get(key, (-1, ()))
        if number != given["number"]:
            blocks = self._blocks.run(connection, given).scalars().all()
            self._known_blocks[key] = given["number"], blocks
        return blocks

    def _make_first(self, session: Session) -> None:
        session.execute(self._first, {"id": ONE, "number": 0, "levels": FoldState.first().dump()})

    def _insert(self, session: Session, frames: Sequence[Frame], version: int) -> None:
        if not self._database.is_sqlite:
            # Nobody adds frames meanwhile: the fold's number is taken, and locked.
            there = self._windows_with_frames(session.connection(), [frame.key for frame in frames])
            new = [frame for frame in frames if (frame.key.resolution, frame.key.window) not in there]
            if new:
                _copy(session.connection(), new, version)
            frames = [frame for frame in frames if (frame.key.resolution, frame.key.window) in there]
        if not frames:
            return
        given: Any
        if self._write.positiontup is None:
            given = [{**key._asdict(), "version": version, "frame": data} for key, data in frames]
        else:
            assert self._write.positiontup == [*FrameKey._fields, "version", "frame"]
            given = [(*key, version, data) for key, data in frames]
        session.connection().exec_driver_sql(str(self._write), given)

    def _windows_with_frames(self, connection: Connection, keys: Collection[FrameKey]) -> set[tuple[int, int]]:
        """(resolution, window) of those of the keys' windows that have frames."""
        return {
            (resolution, at)
            for resolution, at in {(key.resolution, key.window) for key in keys}
            if connection.execute(self._has_window, {"resolution": resolution, "at": at}).scalar() is not None
        }

    def _extreme(self, moment: ReadPoint, query: Select[Any], resolution: int) -> int | None:
        there = query.where(col(FrameRow.resolution) == resolution, col(FrameRow.version) <= moment.state.number)
        found = moment.connection.execute(there.limit(1)).scalar()
        return None if found is None else int(found)


def _copy(connection: Connection, frames: Iterable[Frame], version: int) -> None:
    """New frames by COPY: two thirds of what PostgreSQL spends on an INSERT of each, a quarter of what the client does.
    As an INSERT, it fails on a frame that is there already."""
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor, cursor.copy(_COPY) as rows:
        rows.set_types(_COPIED)
        for key, data in frames:
            rows.write_row((*key, version, data))
