"""How long things are kept, and therefore how old a report may be.

Each level of the store has an age of its own; beside it all telemetry may be held to a number of bytes. Whole hours go
at a time, the oldest first, and never what a coarser level is still to be built of.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Self

from sqlalchemy import Table, func, select
from sqlmodel import SQLModel, col

from controlplane.contract.retention_defaults import DAY_S, HOUR_S, LEVELS_S
from controlplane.db.database import Database
from controlplane.telemetry.folding.forgetting import Sweep, drop_older
from controlplane.telemetry.frames.frame_store import Fold, FrameStore, ReadPoint
from controlplane.telemetry.journal import exemplar_store, label_use
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.tables import CumulativeRow, PendingRow, RequestRow, SeenRow, StreamRow
from controlplane.telemetry.values.levels import FoldState, Level, prunable_to
from controlplane.telemetry.values.timespan import EPOCH, to_ns

logger = logging.getLogger(__name__)

REPEATS_S = 2.0 * DAY_S
REQUESTS_S = 2.0 * DAY_S
SLACK_S = 600.0
"""What recognises repeats outlives the oldest acceptable point by this much, so that none is ever accepted twice."""


@dataclass(frozen=True)
class Retention:
    """Seconds of event time. A report older than `accepted_from` is refused: its repeat could not be recognised."""

    levels_s: Mapping[int, float] = field(default_factory=lambda: dict(LEVELS_S))
    repeats_s: float = REPEATS_S
    requests_s: float = REQUESTS_S
    max_bytes: int | None = None

    def at_most(self, seconds: float) -> Self:
        """The same, and nothing for longer than that. What recognises repeats stays: nobody else sees it."""
        levels_s = {resolution: min(kept_s, seconds) for resolution, kept_s in self.levels_s.items()}
        return replace(self, levels_s=levels_s, requests_s=min(self.requests_s, seconds))

    @property
    def longest_s(self) -> float:
        return max(self.levels_s.values())

    def kept_from(self, now: datetime, resolution: int) -> int:
        """The oldest window of a level that its age lets be."""
        oldest = (now - timedelta(seconds=self.levels_s[resolution] + SLACK_S) - EPOCH).total_seconds()
        return max(0, int(oldest // HOUR_S) * HOUR_S // resolution)

    def repeats_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.repeats_s + SLACK_S)

    def identities_from(self, now: datetime) -> datetime:
        """Streams and running totals of senders that have been silent since then are forgotten."""
        return now - timedelta(seconds=self.longest_s + SLACK_S)

    def requests_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.requests_s + SLACK_S)

    def accepted_from(self, now: datetime, *, identified: bool = False) -> datetime:
        """How old a point may be. `identified`: its report carries an identity that is remembered for as long."""
        return now - timedelta(seconds=self.longest_s if identified else min(self.longest_s, self.repeats_s))

    def requests_accepted_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.requests_s)


def aged(state: FoldState, retention: Retention, now: datetime) -> list[Level]:
    """Levels whose age lets less be than their state says."""
    return [
        Level(level.resolution, wanted, level.built_to)
        for level in state.levels.values()
        if (wanted := min(retention.kept_from(now, level.resolution), prunable_to(state, level.resolution)))
        > level.kept_from
    ]


def sweeps() -> list[Sweep]:
    """Of senders' streams and running totals, for `prune`: whoever calls it keeps them."""
    timed = ((StreamRow, "heard_ns"), (CumulativeRow, "time_ns"))
    return [Sweep(_table(row), time) for row, time in timed]


def prune(
    database: Database,
    frames: FrameStore,
    retention: Retention,
    meters: Meters,
    now: datetime,
    sweeps: Iterable[Sweep],
) -> None:
    """Drop what is too old, and the oldest of what is too much. For the one who folds, between two folds."""
    _forget(database, sweeps, retention, now)
    state = _state(database, frames)
    _keep_less(database, frames, state, aged(state, retention, now))
    _drop(database, frames, meters)
    size = frames.size_bytes()
    while retention.max_bytes is not None and size > retention.max_bytes:
        state = _state(database, frames)
        oldest = _oldest_hour(database, frames, state)
        if oldest is None:
            logger.warning(
                "telemetry takes %d bytes, over the limit of %d, and nothing may go", size, retention.max_bytes
            )
            break
        logger.warning(
            "telemetry takes %d bytes, over the limit of %d: what the %d s level has before %s goes",
            size,
            retention.max_bytes,
            oldest.resolution,
            EPOCH + timedelta(seconds=oldest.kept_from * oldest.resolution),
        )
        _keep_less(database, frames, state, [oldest])
        _drop(database, frames, meters)
        before, size = size, frames.size_bytes()
        if size >= before:
            break  # Where deleting frees a file's pages late (PostgreSQL), the next round sees whether more must go.
    meters.frame_bytes.set(size)
    meters.label_sets_forgotten.inc(label_use.forget(database, labels_used_before(database, frames)))


def labels_used_before(database: Database, frames: FrameStore) -> int:
    """Label sets whose marks are older are in no frame that anybody reads, and in nothing that waits to be folded
    (nanoseconds since the epoch; below all marks where nothing is known to be gone)."""
    with database.snapshot() as connection:
        state = frames.state(connection)
        waiting = connection.execute(select(func.min(col(PendingRow.written_at)))).scalar()
    kept = min((level.kept_from * level.resolution for level in state.levels.values()), default=0)
    oldest = kept if waiting is None else min(kept, int(waiting.timestamp()))
    return (oldest - label_use.SLACK_S) * label_use.NS


def _forget(database: Database, sweeps: Iterable[Sweep], retention: Retention, now: datetime) -> None:
    """Drop what repeats are recognised by, of what is too old to be accepted, and requests and exemplars."""
    drop_older(database, _table(SeenRow), "end_ns", to_ns(retention.repeats_from(now)))
    drop_older(database, _table(RequestRow), "arrival_ns", to_ns(retention.requests_from(now)))
    for sweep in sweeps:
        sweep.step(database, to_ns(retention.identities_from(now)))
    with database.session() as session:
        exemplar_store.drop(session, now)


def _state(database: Database, frames: FrameStore) -> FoldState:
    with database.snapshot() as connection:
        return frames.state(connection)


def _keep_less(database: Database, frames: FrameStore, state: FoldState, levels: list[Level]) -> None:
    """From now on nobody reads what these levels no longer keep."""
    if not levels:
        return
    fold = Fold(state.next(*levels), [])
    frames.prepare(fold)
    with database.session() as session:
        if not frames.commit(session, fold):
            session.rollback()


def _drop(database: Database, frames: FrameStore, meters: Meters) -> None:
    """Remove what no level keeps. A reader of an older snapshot has its own view of it."""
    with database.snapshot() as connection:
        moment = ReadPoint(connection, frames.state(connection))
        old = [
            level
            for level in moment.state.levels.values()
            if (oldest := frames.oldest(moment, level.resolution)) is not None and oldest < level.kept_from
        ]
    for level in old:
        dropped = frames.drop(level.resolution, level.kept_from)
        meters.frames_dropped.labels(str(level.resolution)).inc(dropped)


def _oldest_hour(database: Database, frames: FrameStore, state: FoldState) -> Level | None:
    """The finest level that has an hour to lose, without its oldest one."""
    with database.snapshot() as connection:
        for level in state.levels.values():
            oldest = frames.oldest(ReadPoint(connection, state), level.resolution)
            if oldest is None:
                continue
            after = (oldest * level.resolution // HOUR_S + 1) * HOUR_S // level.resolution
            if after <= prunable_to(state, level.resolution):
                return Level(level.resolution, after, level.built_to)
    return None


def _table(of: type[SQLModel]) -> Table:
    return SQLModel.metadata.tables[str(of.__tablename__)]
