"""Which label sets are still in use: each is marked while points of it come, and forgotten once nothing holds them.

A set's mark is renewed by whoever writes points of it, once it is `RENEWED_AFTER_S` old, in the writing transaction:
not a row for each report, but one for each set twice a day, and not for all at the same moment.

Guarantee: a set goes only when its mark is older than every frame and every pending row that there is, less
`KNOWN_FOR_S`, during which a replica may write points of a set without another look. Its fleet set goes later than it,
and is never gone while a set that belongs to it is there: whoever makes or marks a set holds both rows.
"""

import zlib
from collections.abc import Sequence

from sqlalchemy import Table, delete, or_, select, update
from sqlmodel import Session, SQLModel

from controlplane.contract.retention_defaults import DAY_S, HOUR_S
from controlplane.db.database import Database
from controlplane.telemetry.reports.row_locks import has_locks
from controlplane.telemetry.tables import LabelsRow

NS = 1_000_000_000
RENEWED_AFTER_S = 12 * HOUR_S
KNOWN_FOR_S = DAY_S
"""How long a replica takes a set for marked that it has once seen marked."""
SLACK_S = 2 * DAY_S
"""A set's mark is this much older than all that is kept before it goes: `KNOWN_FOR_S`, and senders' fast clocks."""
CHUNK = 500
ROWS_AT_ONCE = 2_000


def is_old(used_ns: int, now_ns: int) -> bool:
    """Whether a mark is to be renewed."""
    return used_ns <= now_ns - RENEWED_AFTER_S * NS


def until_ns(labels: Sequence[str], now_ns: int) -> int:
    """Until when the sets of a report's table are taken for marked: half to the whole of `RENEWED_AFTER_S`, so that
    not all senders' sets are looked at again in one commit."""
    spread = zlib.crc32(labels[0].encode()) / 2**32 if labels else 0.0
    return now_ns + int(RENEWED_AFTER_S * NS * (0.5 + spread / 2))


def mark(session: Session, ids: Sequence[int], now_ns: int) -> set[int]:
    """Mark these sets as used in the session's transaction; which of them are there still. In the order of their ids,
    so that two who mark some of the same ones wait for each other in one direction only."""
    table = _table()
    wanted = sorted(ids)
    there: set[int] = set()
    for start in range(0, len(wanted), CHUNK):
        query = select(table.c.id).where(table.c.id.in_(wanted[start : start + CHUNK])).order_by(table.c.id)
        if has_locks(session):
            query = query.with_for_update()
        found = session.execute(query).scalars().all()
        there.update(found)
        if found:
            session.execute(update(table).where(table.c.id.in_(found)).values(used_ns=now_ns))
    return there


def forget(database: Database, before_ns: int, *, at_once: int = ROWS_AT_ONCE) -> int:
    """Remove the sets whose marks are older. Returns how many. Sets with `node` go before those that they belong to.

    The newest set stays in any case, and its fleet set: SQLite would give its id to another one.
    """
    table = _table()
    of_nodes = table.c.fleet_id.is_not(None)
    old = or_(of_nodes & (table.c.used_ns < before_ns), table.c.used_ns < before_ns - DAY_S * NS)
    newest = select(table.c.id, table.c.fleet_id).order_by(table.c.id.desc()).limit(1)
    removed = 0
    while True:
        with database.session() as session:
            stays = [number for number in session.execute(newest).first() or () if number is not None]
            query = select(table.c.id).where(old, table.c.id.not_in(stays)).order_by(table.c.id.desc()).limit(at_once)
            if has_locks(session):
                query = query.with_for_update(skip_locked=True)  # Whoever holds one is about to mark it.
            ids = session.execute(query).scalars().all()
            if not ids:
                return removed
            session.execute(delete(table).where(table.c.id.in_(ids)))
            removed += len(ids)


def marks(session: Session, ids: Sequence[int]) -> dict[int, int]:
    """When sets were last marked, of those that are there."""
    table = _table()
    found: dict[int, int] = {}
    for start in range(0, len(ids), CHUNK):
        query = select(table.c.id, table.c.used_ns).where(table.c.id.in_(ids[start : start + CHUNK]))
        found.update({number: used_ns for number, used_ns in session.execute(query).all()})
    return found


def _table() -> Table:
    return SQLModel.metadata.tables[str(LabelsRow.__tablename__)]
