"""Recognition of repeated points: a report that is sent again, whole or in other batches, is counted once.

A point is who it is by (resource, metric, attributes, start, end). Per (resource, start, end) one row holds the 64-bit
hashes of the points already counted; it is read and written in the same transaction as the data itself, so that it is
exactly as durable. Two different points of one resource and time span collide with a chance of n**2 / 2**65.

Guarantee: of several replicas that get the same point at the same moment one finds it new: the row is locked until its
transaction ends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Table, select
from sqlmodel import Session, SQLModel

from controlplane.telemetry.reports.many_rows import set_by_key
from controlplane.telemetry.reports.row_locks import has_locks, make_and_lock
from controlplane.telemetry.tables import SeenRow
from controlplane.telemetry.values.columns import Ints, Mask

Span = tuple[int, int, int]
"""end_ns, resource, start_ns: the key of a row."""
CHUNK = 200
_TABLE: Table = SQLModel.metadata.tables[str(SeenRow.__tablename__)]
_KEY = (_TABLE.c.end_ns, _TABLE.c.resource, _TABLE.c.start_ns)


@dataclass(eq=False)
class PointIdentities:
    """Who each row of some `Columns` is: its histograms, then its sums, then its gauges. `key`: metric, attributes."""

    resource: Ints
    start_ns: Ints
    end_ns: Ints
    key: Ints

    def __len__(self) -> int:
        return len(self.key)


def joined(parts: Sequence[PointIdentities]) -> PointIdentities:
    """One list after the other."""
    names = ("resource", "start_ns", "end_ns", "key")
    return PointIdentities(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def first_seen(session: Session, points: PointIdentities) -> Mask:
    """For each point, whether it counts: not seen before, nor earlier in this list. They are seen from now on."""
    new = np.zeros(len(points), bool)
    if not len(points):
        return new
    groups = _by_span(points)
    known = {} if has_locks(session) else _look_up(session, list(groups))
    missing = [span for span in sorted(groups) if span not in known]
    if missing:
        first = [{"end_ns": end, "resource": of, "start_ns": start, "hashes": b""} for end, of, start in missing]
        make_and_lock(session, _TABLE, first)
        known |= _look_up(session, missing)
    changed = []
    for span, places in groups.items():
        keys = points.key[places]
        seen = np.frombuffer(known[span], "<i8")
        _, firsts = np.unique(keys, return_index=True)
        firsts = firsts[~np.isin(keys[firsts], seen)]
        if len(firsts):
            new[places[firsts]] = True
            changed.append(_row(span, known[span] + keys[firsts].astype("<i8").tobytes()))
    if changed:
        set_by_key(session, _TABLE, changed)
    return new


def _row(span: Span, hashes: bytes) -> dict[str, object]:
    return dict(zip(("end_ns", "resource", "start_ns"), span, strict=True)) | {"hashes": hashes}


def _by_span(points: PointIdentities) -> dict[Span, NDArray[np.intp]]:
    """Places of the points of each span, in their order."""
    columns = (points.end_ns, points.resource, points.start_ns)
    order = np.lexsort(columns[::-1])  # Stable.
    ordered = [column[order] for column in columns]
    changes = np.flatnonzero(np.logical_or.reduce([column[1:] != column[:-1] for column in ordered])) + 1
    starts = [0, *changes.tolist()]
    spans = zip(*(column[starts].tolist() for column in ordered), strict=True)
    return dict(zip(spans, np.split(order, changes), strict=True))


def _look_up(session: Session, spans: Sequence[Span]) -> dict[Span, bytes]:
    found: dict[Span, bytes] = {}
    for start in range(0, len(spans), CHUNK):
        part = spans[start : start + CHUNK]
        # A superset of the spans when they differ in more than one place: cheap, and the index serves it.
        values: Iterable[set[int]] = ({span[i] for span in part} for i in range(3))
        chosen = [column.in_(some) for column, some in zip(_KEY, values, strict=True)]
        query = select(*_KEY, _TABLE.c.hashes).where(*chosen)
        for end_ns, resource, start_ns, hashes in session.execute(query).all():
            found[end_ns, resource, start_ns] = bytes(hashes)
    return {span: found[span] for span in spans if span in found}
