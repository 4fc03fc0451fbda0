"""Frames in the service's own database: SQLite, or PostgreSQL with a partition for each level and span of time.

Guarantee: as `FrameStore`; frames, state and the deletion of pending rows are one transaction, so that a snapshot of
the database is a `Moment` by itself.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from controlplane.db.database import Database
from controlplane.telemetry import frame_partitions
from controlplane.telemetry.frame_store import Fold, Frame, FrameKey, FrameStore, Moment
from controlplane.telemetry.levels import FoldState
from controlplane.telemetry.tables import FoldRow, FrameRow

FRAMES_AT_ONCE = 500
KEYS_AT_ONCE = 200
WINDOWS_AT_ONCE = 500
NO_METRIC = -1
"""Below every metric's id."""
ONE = 1
"""The id of the only row of `telemetry_fold`."""
_KEY = (FrameRow.resolution, FrameRow.metric, FrameRow.block, FrameRow.window)


class SqlFrames(FrameStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        make_insert = sqlite_insert if database.is_sqlite else postgresql_insert
        upsert = make_insert(FrameRow)
        write = upsert.on_conflict_do_update(
            index_elements=["resolution", "metric", "block", "window"],
            set_={"version": upsert.excluded.version, "frame": upsert.excluded.frame},
        )
        # Written by the driver itself: thousands of rows at a time, whose types need no conversion.
        self._write = write.compile(dialect=database.engine.dialect)
        self._first = make_insert(FoldRow).on_conflict_do_nothing()
        window, block = col(FrameRow.window), col(FrameRow.block)
        self._read_all = (
            select(block, window, col(FrameRow.frame))
            .where(col(FrameRow.resolution) == bindparam("resolution"), col(FrameRow.metric) == bindparam("metric"))
            .where(window >= bindparam("first"), window < bindparam("last"))
            .order_by(block, window)
            .execution_options(yield_per=FRAMES_AT_ONCE)
        )
        self._read_blocks = self._read_all.where(block.in_(bindparam("blocks", expanding=True)))
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
        row = connection.execute(select(col(FoldRow.number), col(FoldRow.levels))).one_or_none()
        return FoldState.first() if row is None else FoldState.load(*row)

    def read(
        self, moment: Moment, resolution: int, metric: int, blocks: Collection[int] | None, first: int, last: int
    ) -> Iterator[Frame]:
        given = {"resolution": resolution, "metric": metric, "first": first, "last": last}
        if blocks is None:
            found = moment.connection.execute(self._read_all, given)
        else:
            found = moment.connection.execute(self._read_blocks, {**given, "blocks": sorted(blocks)})
        for number, at, data in found:
            yield Frame(FrameKey(resolution, metric, number, at), data)

    def find(self, moment: Moment, keys: Collection[FrameKey]) -> dict[FrameKey, bytes]:
        found = {}
        wanted = sorted(self._in_windows_with_frames(moment, keys))
        for start in range(0, len(wanted), KEYS_AT_ONCE):
            chosen = tuple_(*map(col, _KEY)).in_(wanted[start : start + KEYS_AT_ONCE])
            for *key, data in moment.connection.execute(select(*map(col, _KEY), col(FrameRow.frame)).where(chosen)):
                found[FrameKey(*key)] = data
        return found

    def metrics(self, moment: Moment, resolution: int, first: int, last: int) -> list[int]:
        # From one to the next along the primary key: far fewer steps than there are frames in the windows.
        found: list[int] = []
        while True:
            given = {"resolution": resolution, "after": found[-1] if found else NO_METRIC}
            metric = moment.connection.execute(self._next_metric, given).scalar()
            if metric is None:
                return found
            found.append(metric)

    def newest(self, moment: Moment, resolution: int, last: int) -> int | None:
        window = col(FrameRow.window)
        return self._extreme(moment, select(func.max(window)).where(window <= last), resolution)

    def oldest(self, moment: Moment, resolution: int) -> int | None:
        return self._extreme(moment, select(func.min(col(FrameRow.window))), resolution)

    def prepare(self, fold: Fold) -> None:
        """Nothing: the transaction writes it all."""

    def commit(self, session: Session, fold: Fold) -> bool:
        if fold.number == 1:
            session.execute(self._first, {"id": ONE, "number": 0, "levels": FoldState.first().dump()})
        mine = (
            update(FoldRow)
            .where(col(FoldRow.id) == ONE, col(FoldRow.number) == fold.number - 1)
            .values(number=fold.number, levels=fold.state.dump())
            .execution_options(synchronize_session=False)
        )
        if session.connection().execute(mine).rowcount != 1:
            return False
        if fold.frames:
            session.connection().exec_driver_sql(str(self._write), self._rows(fold))
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
                with self._database.session() as session:
                    statement = delete(FrameRow).where(col(FrameRow.resolution) == resolution, window == at)
                    dropped += session.connection().execute(statement).rowcount
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

    def _rows(self, fold: Fold) -> Any:
        """The rows of a fold as the driver wants them."""
        rows = [{**key._asdict(), "version": fold.number, "frame": data} for key, data in fold.frames]
        order = self._write.positiontup
        return rows if order is None else [tuple(row[name] for name in order) for row in rows]

    def _in_windows_with_frames(self, moment: Moment, keys: Collection[FrameKey]) -> list[FrameKey]:
        """Most folds are the first of their windows, however many frames they write: one look-up a window tells."""
        there = {
            (resolution, at)
            for resolution, at in {(key.resolution, key.window) for key in keys}
            if moment.connection.execute(self._has_window, {"resolution": resolution, "at": at}).scalar() is not None
        }
        return [key for key in keys if (key.resolution, key.window) in there]

    def _extreme(self, moment: Moment, query: Select[Any], resolution: int) -> int | None:
        found = moment.connection.execute(query.where(col(FrameRow.resolution) == resolution)).scalar()
        return None if found is None else int(found)
