"""Partitions of `telemetry_frame` on PostgreSQL: by resolution, and within each by window.

Guarantee: a frame is never refused for want of a partition: each level has a default one, which takes what lies
outside those that `make_ahead` has made. Dropping a partition frees its space at once, which deleting rows does not.
On SQLite both functions do nothing.
"""

import logging
import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from controlplane.db.database import Database
from controlplane.db.partitions import partition_name

logger = logging.getLogger(__name__)

HOUR_S, DAY_S = 3600, 86_400
TABLE = "telemetry_frame"
SPAN_S = {5: HOUR_S, 10: 6 * HOUR_S, 60: DAY_S, 300: 7 * DAY_S, 3600: 30 * DAY_S}
"""Resolution in seconds to the time that one partition of it holds: some ten of them until they are dropped."""
RESOLUTIONS_S = tuple(SPAN_S)
AHEAD = 2
LOCK_TIMEOUT = "2s"
"""Making or dropping a partition waits for readers; everybody else would queue up behind it for as long."""


def _of_resolution(resolution: int) -> str:
    return partition_name(TABLE, resolution)


def _default(resolution: int) -> str:
    return partition_name(TABLE, resolution, "default")


FIRST: tuple[str, ...] = tuple(
    statement
    for resolution in RESOLUTIONS_S
    for statement in (
        f"CREATE TABLE {_of_resolution(resolution)} PARTITION OF {TABLE} FOR VALUES IN ({resolution}) "
        'PARTITION BY RANGE ("window")',
        f"CREATE TABLE {_default(resolution)} PARTITION OF {_of_resolution(resolution)} DEFAULT",
    )
)
"""Statements that belong to the making of the table."""


@dataclass(frozen=True)
class Partition:
    """Windows first .. last - 1 of a resolution."""

    resolution: int
    first: int
    last: int

    @property
    def name(self) -> str:
        return partition_name(TABLE, self.resolution, self.first, self.last)


def at(resolution: int, window: int) -> Partition:
    """The partition that a window belongs to."""
    windows = SPAN_S[resolution] // resolution
    first = window - window % windows
    return Partition(resolution, first, first + windows)


def make_ahead(database: Database, now: datetime) -> None:
    """Make the partitions of the present and of the spans that follow it. One that cannot be had now is left out."""
    if database.is_sqlite:
        return
    with database.engine.connect() as connection:
        present = {resolution: {one.name for one in _all(connection, resolution)} for resolution in RESOLUTIONS_S}
    for resolution in RESOLUTIONS_S:
        span = SPAN_S[resolution]
        for i in range(AHEAD + 1):
            wanted = at(resolution, int(now.timestamp() + i * span) // resolution)
            if wanted.name not in present[resolution]:
                _make(database, wanted)


def drop_before(database: Database, resolution: int, window: int) -> int:
    """Drop the partitions that end at or before a window; returns how many. One that cannot be had now stays."""
    if database.is_sqlite:
        return 0
    with database.engine.connect() as connection:
        old = [one for one in _all(connection, resolution) if one.last <= window]
    return sum(_alone(database, f"DROP TABLE IF EXISTS {one.name}") for one in old)


def _make(database: Database, wanted: Partition) -> None:
    parent = _of_resolution(wanted.resolution)
    with database.engine.connect() as connection:
        in_default = connection.execute(
            text(f'SELECT 1 FROM {_default(wanted.resolution)} WHERE "window" >= :first AND "window" < :last LIMIT 1'),
            {"first": wanted.first, "last": wanted.last},
        ).scalar()
    if in_default:  # PostgreSQL would refuse it; the default one keeps this span until retention deletes its rows.
        return
    _alone(
        database,
        f"CREATE TABLE IF NOT EXISTS {wanted.name} PARTITION OF {parent} FOR VALUES FROM ({wanted.first}) "
        f"TO ({wanted.last})",
    )


def _alone(database: Database, statement: str) -> bool:
    """One statement in a transaction of its own; False where readers, or another replica, stood in its way."""
    try:
        with database.engine.begin() as connection:
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            connection.execute(text(statement))
    except DBAPIError as error:
        logger.warning("left for the next round: %s: %s", statement, error.orig)
        return False
    return True


def _all(connection: Connection, resolution: int) -> list[Partition]:
    query = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(:parent)")
    names = connection.execute(query, {"parent": _of_resolution(resolution)}).scalars()
    found = (re.fullmatch(rf".*{_of_resolution(resolution)}_(\d+)_(\d+)", name) for name in names)
    return [Partition(resolution, int(match[1]), int(match[2])) for match in found if match]
