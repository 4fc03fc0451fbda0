"""Folds sealed windows into frames, and builds the coarser levels.

Guarantee: a fold is one transaction that writes the merged frames and deletes the pending rows it has read; a reader's
snapshot sees all of it or nothing. What is in it is computed before, while others write. Late data is merged into the
frames that are there, at every level that is built already, so that every level is exact at all times. Of several
replicas one folds; if two ever did, one of them would find the other's number taken and change nothing.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, or_, select
from sqlmodel import col

from controlplane.db.database import Database
from controlplane.telemetry.folding import retention
from controlplane.telemetry.folding.fold_turn import FoldTurn
from controlplane.telemetry.folding.head import Head
from controlplane.telemetry.folding.retention import Retention
from controlplane.telemetry.frames import frame, rollup
from controlplane.telemetry.frames.block import Block, merge
from controlplane.telemetry.frames.frame_store import Fold, Frame, FrameKey, FrameStore, ReadPoint
from controlplane.telemetry.frames.gather import BlocksOf, fleet_blocks, node_blocks
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.tables import PendingRow
from controlplane.telemetry.values.columns import Columns, Ids, concatenate
from controlplane.telemetry.values.levels import BASE_S, COARSER, FINER_OF, FoldState, Level, window_of
from controlplane.telemetry.values.timespan import window_at

logger = logging.getLogger(__name__)

SEALED_WINDOWS = 3
"""A window is sealed when the newest one is this many ahead (15 s of event time)."""
SEALED_AGE_S = 30
FIRST_COARSER = COARSER[0]
BYTES_AT_ONCE = 64 << 20
ROWS_AT_ONCE = 5_000
ROUNDS = 20
PRUNE_EVERY_S = 60


class Sealed(NamedTuple):
    """Pending rows to fold, whether there are more, and the base window that is not sealed yet."""

    rows: list[int]
    more: bool
    boundary: int


class Compactor:
    """`tick` is to be called every few seconds."""

    def __init__(
        self,
        database: Database,
        frames: FrameStore,
        head: Head,
        names: Names,
        meters: Meters,
        limits: Retention,
        note_backlog: Callable[[int], None],
        turn: FoldTurn,
    ) -> None:
        """note_backlog: is told how many bytes wait to be folded, after each round of folds."""
        self._database = database
        self._frames = frames
        self._head = head
        self._names = names
        self._meters = meters
        self._retention = limits
        self._note_backlog = note_backlog
        self._pruned_at: datetime | None = None
        self._sweeps = retention.sweeps()
        self._turn = turn

    def tick(self, now: datetime) -> int:
        """Fold what is sealed, build what is due, then prune. Returns the number of frames written."""
        with self._turn.take() as mine:
            return self._all(now) if mine else 0

    def _all(self, now: datetime) -> int:
        written = 0
        for _ in range(ROUNDS):  # Short transactions: others write to the same database.
            frames, more = self._fold(now)
            written += frames
            if not more:
                break
        with self._database.snapshot() as connection:
            self._note_backlog(backlog(connection))
        for resolution in COARSER[1:]:
            written += self._build(resolution)
        if self._pruned_at is None or now - self._pruned_at >= timedelta(seconds=PRUNE_EVERY_S):
            self._frames.make_room(now)
            retention.prune(self._database, self._frames, self._retention, self._meters, now, self._sweeps)
            self.know_names()
            self._pruned_at = now
        return written

    def know_names(self) -> None:
        """What other replicas have made counts towards the limits of names, and what is gone does not."""
        before_ns = retention.labels_used_before(self._database, self._frames)
        with self._database.read_session() as session:
            self._names.load(session.connection())
            self._names.forget(session, before_ns)

    def _fold(self, now: datetime) -> tuple[int, bool]:
        """One fold of the finest level and the next: frames written, and whether there is more to fold."""
        with self._database.snapshot() as connection:
            sealed = _sealed(connection, now)
            moment = ReadPoint(connection, self._state(connection, sealed, now))
            points = self._points(connection, sealed.rows)
            fresh = points.blocks()
            coarser = _coarser(fresh)
            level = moment.state.levels[FIRST_COARSER]
            # Not before all that is sealed is in: a window would be built, and merged into again at once.
            due = level.built_to if sealed.more else max(level.built_to, window_of(sealed.boundary, FIRST_COARSER))
            state = moment.state.next(Level(FIRST_COARSER, level.kept_from, due))
            base = _merged(self._frames, moment, BASE_S, fresh)
            frames = [Frame(key, frame.encode(block)) for key, block in base.items()]
            if _has_frames(self._frames, moment, level.built_to, due):
                frames += rollup.build(self._frames, moment, FIRST_COARSER, level.built_to, due, base)
            else:
                now_due = {key: block for key, block in coarser.items() if level.built_to <= key.window < due}
                frames += [Frame(key, frame.encode(block)) for key, block in now_due.items()]
            for resolution in COARSER:
                late = _late(moment.state.levels[resolution], coarser)
                merged = _merged(self._frames, moment, resolution, late)
                frames += [Frame(key, frame.encode(block)) for key, block in merged.items()]
        if not sealed.rows and due == level.built_to:
            return 0, False
        return self._write(Fold(state, frames, sealed.rows)), sealed.more

    def _state(self, connection: Connection, sealed: Sealed, now: datetime) -> FoldState:
        """What a fold goes by: nothing is written that retention would drop at once (history that is loaded)."""
        state = self._frames.state(connection)
        if not state.number:
            state = FoldState.first_at(sealed.boundary * BASE_S)
        return state.having(*retention.aged(state, self._retention, now))

    def _build(self, resolution: int) -> int:
        """Build what is due of a level, from the finer one."""
        with self._database.snapshot() as connection:
            moment = ReadPoint(connection, self._frames.state(connection))
            level, finer = moment.state.levels[resolution], moment.state.levels[FINER_OF[resolution]]
            due = finer.built_to * finer.resolution // resolution
            if due <= level.built_to:
                return 0
            frames = list(rollup.build(self._frames, moment, resolution, level.built_to, due))
            state = moment.state.next(Level(resolution, level.kept_from, due))
        return self._write(Fold(state, frames))

    def _write(self, fold: Fold) -> int:
        self._frames.prepare(fold)
        with self._database.session() as session:
            if not self._frames.commit(session, fold):
                logger.info("fold %d was another's", fold.number)
                session.rollback()
                return 0
            for start in range(0, len(fold.folded), ROWS_AT_ONCE):
                statement = delete(PendingRow).where(col(PendingRow.id).in_(fold.folded[start : start + ROWS_AT_ONCE]))
                session.execute(statement.execution_options(synchronize_session=False))
        self._head.drop(list(fold.folded))
        self._meters.frames.inc(len(fold.frames))
        return len(fold.frames)

    def _points(self, connection: Connection, rows: Sequence[int]) -> "_Points":
        """The points of pending rows."""
        found = list(self._head.of_rows(connection, rows))

        def blocks_of(labels: Ids) -> Ids:
            return self._names.blocks(connection, labels)

        columns = [row.columns for row in found] or [Columns.empty()]
        return _Points(concatenate(columns), concatenate([row.fleet for row in found] or columns), blocks_of)


def backlog(connection: Connection) -> int:
    """Bytes of points that wait to be folded."""
    return int(connection.execute(select(func.sum(func.length(col(PendingRow.points))))).scalar() or 0)


def _sealed(connection: Connection, now: datetime) -> Sealed:
    """What to fold, oldest windows first. The boundary is also one of the first coarser level, so that its windows
    come whole out of one fold."""
    window = col(PendingRow.last_window)
    present = window_at(now)
    # A sender whose clock runs ahead must not seal everybody else's windows at once.
    newest = connection.execute(select(func.max(window)).where(window <= present)).scalar()
    aged = present - SEALED_AGE_S // BASE_S
    boundary = aged if newest is None else max(aged, newest - SEALED_WINDOWS + 1)
    boundary -= boundary % (FIRST_COARSER // BASE_S)
    old = col(PendingRow.written_at) <= now - timedelta(seconds=SEALED_AGE_S)
    query = (
        select(col(PendingRow.id), func.length(col(PendingRow.points)))
        .where(or_(old, window < boundary))
        .order_by(window, col(PendingRow.id))
        .limit(ROWS_AT_ONCE + 1)
    )
    rows: list[int] = []
    size = 0
    for number, length in connection.execute(query):
        if rows and (size + length > BYTES_AT_ONCE or len(rows) == ROWS_AT_ONCE):
            return Sealed(rows, True, boundary)
        rows.append(number)
        size += length
    return Sealed(rows, False, boundary)


class _Points(NamedTuple):
    """What is folded: each node's points, and the fleet's."""

    nodes: Columns
    fleet: Columns
    blocks_of: BlocksOf

    def blocks(self) -> dict[FrameKey, Block]:
        """As blocks of the finest level."""
        return {**dict(node_blocks(self.nodes, self.blocks_of)), **dict(fleet_blocks(self.fleet))}


def _coarser(fresh: Mapping[FrameKey, Block]) -> dict[FrameKey, Block]:
    """Blocks of the finest level as blocks of the next."""
    parts: dict[FrameKey, list[Block]] = defaultdict(list)
    for key, block in fresh.items():
        window = key.window * BASE_S // FIRST_COARSER
        parts[FrameKey(FIRST_COARSER, key.metric, key.block, window)].append(block)
    return {key: merge(blocks) for key, blocks in parts.items()}


def _has_frames(frames: FrameStore, moment: ReadPoint, first: int, last: int) -> bool:
    """Whether the finest level has frames within windows first .. last - 1 of the next one already."""
    ratio = FIRST_COARSER // BASE_S
    newest = frames.newest(moment, BASE_S, last * ratio - 1) if first < last else None
    return newest is not None and newest >= first * ratio


def _merged(
    frames: FrameStore, moment: ReadPoint, resolution: int, fresh: Mapping[FrameKey, Block]
) -> dict[FrameKey, Block]:
    """Fresh blocks with what there is already, as far as the level keeps their windows."""
    kept_from = moment.state.levels[resolution].kept_from
    parts: dict[FrameKey, list[Block]] = defaultdict(list)
    for key, block in fresh.items():
        window = key.window * key.resolution // resolution
        if window >= kept_from:
            parts[key._replace(resolution=resolution, window=window)].append(block)
    for found, data in frames.find(moment, parts).items():
        parts[found].insert(0, frame.decode(data))
    return {key: merge(blocks) for key, blocks in parts.items()}


def _late(level: Level, fresh: Mapping[FrameKey, Block]) -> dict[FrameKey, Block]:
    """Those blocks whose windows of a level are built already."""
    return {
        key: block for key, block in fresh.items() if key.window * key.resolution // level.resolution < level.built_to
    }
