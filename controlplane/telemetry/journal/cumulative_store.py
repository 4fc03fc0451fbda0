"""The newest point of each running total, read and written in the transaction of what it has grown by.

Guarantee: of several replicas that get the same point at the same moment one counts it: the row is locked until its
transaction ends.
"""

from collections.abc import Sequence

from sqlalchemy import Table, select
from sqlmodel import Session, SQLModel

from controlplane.telemetry.reports.cumulative_rows import CumulativeRows, advance_all, time_of
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.many_rows import set_by_key
from controlplane.telemetry.reports.row_locks import has_locks, make_and_lock
from controlplane.telemetry.tables import CumulativeRow

CHUNK = 500
_TABLE: Table = SQLModel.metadata.tables[str(CumulativeRow.__tablename__)]


def advance(session: Session, entries: Sequence[Entry]) -> list[CumulativeRows]:
    """What the running totals of each entry have grown by, in the order of the entries."""
    keys = sorted({point.key for entry in entries for point in entry.cumulative})
    if not keys:
        return [CumulativeRows() for _ in entries]
    known = {} if has_locks(session) else _look_up(session, keys)
    missing = [key for key in keys if key not in known]
    if missing:
        make_and_lock(session, _TABLE, [{"key": key, "state": b"", "time_ns": 0} for key in missing])
        known |= _look_up(session, missing)
    states = {key: state for key, state in known.items() if state}
    found = [advance_all(entry.cumulative, states, entry.kept_from_ns, entry.late) for entry in entries]
    changed = {key: state for rows in found for key, state in rows.changed.items()}
    if changed:
        rows = [{"key": key, "state": state, "time_ns": time_of(state)} for key, state in changed.items()]
        set_by_key(session, _TABLE, rows)
    return found


def _look_up(session: Session, keys: Sequence[int]) -> dict[int, bytes]:
    """States by key; b"" where a row holds none yet."""
    found: dict[int, bytes] = {}
    for start in range(0, len(keys), CHUNK):
        chosen = _TABLE.c.key.in_(keys[start : start + CHUNK])
        query = select(_TABLE.c.key, _TABLE.c.state).where(chosen)
        found.update({key: bytes(state) for key, state in session.execute(query).all()})
    return found
