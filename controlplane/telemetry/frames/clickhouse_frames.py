"""Frames in ClickHouse, for fleets whose frames outgrow one machine's database.

The pending rows, the names and the state of the folds stay in the service's own database, whose transaction decides
whether a fold has happened. Rows here carry the number of the fold that wrote them and are never changed: of each key a
reader takes the newest one up to the fold that its moment knows. So a fold that was prepared and never committed is not
seen; its number comes again, and preparing it anew removes what it left.

Guarantee: as `FrameStore`. Superseded rows are removed once no reader's moment can be so old. ClickHouse may be away,
from the start or later: reports are taken in all the same, and their points wait in the pending rows until it is back.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection
from sqlmodel import Session

from controlplane.db.database import Database
from controlplane.telemetry.frames.clickhouse import ClickHouse
from controlplane.telemetry.frames.clickhouse_absence import LateClickHouse
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.frames.gather import FLEET
from controlplane.telemetry.frames.sql_frames import SqlFrames
from controlplane.telemetry.values.levels import FoldState

TABLE = "tailwright_frame"
COLUMNS = ("resolution", "metric", "block", "window", "fold", "frame")
TYPES = ("UInt16", "Int32", "Int32", "Int64", "UInt64", "String")
KEYS_AT_ONCE = 2_000
READERS_KEEP = 60
"""Folds that a reader's moment may be behind before what they replaced is removed: minutes; a query takes seconds."""
DAY_S = 86_400
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    resolution UInt16, metric Int32, block Int32, window Int64, fold UInt64, frame String CODEC(NONE)
) ENGINE = MergeTree
PARTITION BY (
    resolution, intDiv(window * resolution, {DAY_S} * if(resolution <= 10, 1, if(resolution <= 300, 14, 366)))
)
ORDER BY (resolution, metric, block, window, fold)
"""
_SYNC = "SETTINGS lightweight_deletes_sync = 2"


class ClickHouseFrames(FrameStore):
    def __init__(self, database: Database, clickhouse: ClickHouse) -> None:
        self._folds = SqlFrames(database)
        self._database = database
        self.clickhouse = LateClickHouse(clickhouse, [SCHEMA])
        self._cleaned_to = 0

    def state(self, connection: Connection) -> FoldState:
        return self._folds.state(connection)

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
        chosen = "" if blocks is None else f"AND block IN ({_numbers(blocks)})"
        if not fleet:
            chosen += f" AND block > {FLEET:d}"
        if blocks is not None and not blocks:
            return
        query = (
            f"SELECT block, window, frame FROM {TABLE} WHERE resolution = {resolution:d} AND metric = {metric:d} "
            f"AND window >= {first:d} AND window < {last:d} {chosen} AND fold <= {moment.state.number:d} "
            "ORDER BY block, window, fold DESC LIMIT 1 BY block, window"
        )
        for block, window, data in self.clickhouse.rows(query, ("Int32", "Int64", "String")):
            yield Frame(FrameKey(resolution, metric, block, window), data)

    def find(self, moment: ReadPoint, keys: Collection[FrameKey]) -> dict[FrameKey, bytes]:
        found = {}
        wanted = sorted(keys)
        for start in range(0, len(wanted), KEYS_AT_ONCE):
            chosen = ",".join(f"({_numbers(key)})" for key in wanted[start : start + KEYS_AT_ONCE])
            query = (
                f"SELECT resolution, metric, block, window, frame FROM {TABLE} "
                f"WHERE (resolution, metric, block, window) IN ({chosen}) AND fold <= {moment.state.number:d} "
                "ORDER BY resolution, metric, block, window, fold DESC LIMIT 1 BY resolution, metric, block, window"
            )
            for *key, data in self.clickhouse.rows(query, (*TYPES[:4], "String")):
                found[FrameKey(*key)] = data
        return found

    def metrics(self, moment: ReadPoint, resolution: int, first: int, last: int) -> list[int]:
        query = (
            f"SELECT DISTINCT metric FROM {TABLE} WHERE resolution = {resolution:d} AND window >= {first:d} "
            f"AND window < {last:d} AND fold <= {moment.state.number:d} ORDER BY metric"
        )
        return [metric for (metric,) in self.clickhouse.rows(query, ("Int32",))]

    def newest(self, moment: ReadPoint, resolution: int, last: int) -> int | None:
        return self._extreme(moment, "max", f"resolution = {resolution:d} AND window <= {last:d}")

    def oldest(self, moment: ReadPoint, resolution: int) -> int | None:
        return self._extreme(moment, "min", f"resolution = {resolution:d}")

    def prepare(self, fold: Fold) -> None:
        with self._database.engine.connect() as connection:
            if self.state(connection).number != fold.number - 1:
                return  # Another's fold was first: nothing of it may be touched, and this one will not commit.
        # What an attempt has left behind; after the database was restored from an older copy, all that it never knew.
        ((left,),) = self.clickhouse.rows(f"SELECT count() FROM {TABLE} WHERE fold >= {fold.number:d}", ("UInt64",))
        if left:
            self.clickhouse.execute(f"DELETE FROM {TABLE} WHERE fold >= {fold.number:d} {_SYNC}")
        if fold.frames:
            rows = ((*key, fold.number, data) for key, data in fold.frames)
            self.clickhouse.insert(TABLE, COLUMNS, TYPES, rows)

    def commit(self, session: Session, fold: Fold) -> bool:
        return self._folds.commit(session, replace(fold, frames=()))

    def drop(self, resolution: int, before: int) -> int:
        whole = f"SELECT _partition_id, count() FROM {TABLE} WHERE resolution = {resolution:d} GROUP BY _partition_id"
        dropped = 0
        for partition, count in list(
            self.clickhouse.rows(f"{whole} HAVING max(window) < {before:d}", ("String", "UInt64"))
        ):
            self.clickhouse.execute(f"ALTER TABLE {TABLE} DROP PARTITION ID '{partition.decode()}'")
            dropped += count
        rest = f"resolution = {resolution:d} AND window < {before:d}"
        ((count,),) = self.clickhouse.rows(f"SELECT count() FROM {TABLE} WHERE {rest}", ("UInt64",))
        if count:
            self.clickhouse.execute(f"DELETE FROM {TABLE} WHERE {rest} {_SYNC}")
        return dropped + int(count)

    def make_room(self, now: datetime) -> None:
        """Remove what newer folds have replaced."""
        self.clickhouse.make()
        with self._database.engine.connect() as connection:
            settled = self.state(connection).number - READERS_KEEP
        if settled <= self._cleaned_to:
            return
        key = "resolution, metric, block, window"
        touched = f"SELECT {key} FROM {TABLE} WHERE fold > {self._cleaned_to:d} AND fold <= {settled:d}"
        replaced = (
            f"SELECT {key}, arrayJoin(arrayPopBack(arraySort(groupArray(fold)))) FROM {TABLE} "
            f"WHERE fold <= {settled:d} AND ({key}) IN ({touched}) GROUP BY {key} HAVING count() > 1"
        )
        rows = list(self.clickhouse.rows(replaced, TYPES[:5]))
        for start in range(0, len(rows), KEYS_AT_ONCE):
            chosen = ",".join(f"({_numbers(row)})" for row in rows[start : start + KEYS_AT_ONCE])
            self.clickhouse.execute(f"DELETE FROM {TABLE} WHERE ({key}, fold) IN ({chosen}) {_SYNC}")
        self._cleaned_to = settled

    def size_bytes(self) -> int:
        of_table = f"table = '{TABLE}' AND database = currentDatabase()"
        query = f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND {of_table}"
        ((size,),) = self.clickhouse.rows(query, ("UInt64",))
        return int(size)

    def fault(self) -> str:
        return self.clickhouse.fault

    def _extreme(self, moment: ReadPoint, function: str, where: str) -> int | None:
        query = f"SELECT count(), {function}(window) FROM {TABLE} WHERE {where} AND fold <= {moment.state.number:d}"
        ((count, window),) = self.clickhouse.rows(query, ("UInt64", "Int64"))
        return int(window) if count else None


def _numbers(values: Collection[int]) -> str:
    return ",".join(f"{value:d}" for value in values)
