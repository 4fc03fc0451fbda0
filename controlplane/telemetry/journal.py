"""What one commit writes: the points and records of several requests, each counted once.

Guarantee: recognition of repeats, series ids, pending points and request records are one transaction, the caller's;
nothing of it is visible, in the database or in memory, unless that transaction commits.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import insert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from controlplane.telemetry import pending, repeat
from controlplane.telemetry.point import Point
from controlplane.telemetry.records import Record
from controlplane.telemetry.series import Key, SeriesIndex
from controlplane.telemetry.tables import PendingRow, RequestRow

INSERT_CHUNK = 200


@dataclass
class Entry:
    """One request's data. The second part is filled in by `write`."""

    points: Sequence[Point] = ()
    records: Sequence[Record] = ()

    accepted: int = 0
    repeated: int = 0
    without_series: int = 0


@dataclass
class Written:
    """What a commit adds to memory once it has succeeded."""

    series: dict[Key, int] = field(default_factory=dict)
    points: int = 0
    records: int = 0


def write(session: Session, entries: Sequence[Entry], index: SeriesIndex, now: datetime) -> Written:
    """Add the entries in the session's transaction."""
    for entry in entries:
        entry.accepted = entry.repeated = entry.without_series = 0
    written = Written()
    _write_points(session, entries, index, now, written)
    _write_records(session, entries, written)
    return written


def _write_points(
    session: Session, entries: Sequence[Entry], index: SeriesIndex, now: datetime, written: Written
) -> None:
    owned = [(entry, point) for entry in entries for point in entry.points]
    if not owned:
        return
    written.series = index.intern(session, ((point.metric, point.labels) for _, point in owned))
    kept = []
    for entry, point in owned:
        if (point.metric, point.labels) in written.series:
            kept.append((entry, point))
        else:
            entry.without_series += 1
    by_window: dict[int, list[tuple[int, Point]]] = defaultdict(list)
    new = repeat.first_seen(session, [point for _, point in kept])
    for (entry, point), is_new in zip(kept, new, strict=True):
        if is_new:
            entry.accepted += 1
            by_window[point.window].append((written.series[point.metric, point.labels], point))
        else:
            entry.repeated += 1
    if by_window:
        rows = [
            {"window": window, "written_at": now, "points": pending.encode(points)}
            for window, points in by_window.items()
        ]
        session.execute(insert(PendingRow), rows)
        written.points = sum(map(len, by_window.values()))


def _write_records(session: Session, entries: Sequence[Entry], written: Written) -> None:
    owned = [(entry, record) for entry in entries for record in entry.records]
    make_insert = sqlite_insert if session.get_bind().dialect.name == "sqlite" else postgresql_insert
    for start in range(0, len(owned), INSERT_CHUNK):
        part = owned[start : start + INSERT_CHUNK]
        statement = (
            make_insert(RequestRow)
            .values([record._asdict() for _, record in part])
            .on_conflict_do_nothing()
            .returning(col(RequestRow.node), col(RequestRow.request_id), col(RequestRow.arrival_ns))
        )
        inserted = {(node, request, arrival) for node, request, arrival in session.execute(statement)}
        for entry, record in part:
            identity = (record.node, record.request_id, record.arrival_ns)
            if identity in inserted:
                inserted.remove(identity)  # A second one within this commit is a repeat as well.
                entry.accepted += 1
                written.records += 1
            else:
                entry.repeated += 1
