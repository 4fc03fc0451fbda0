"""Recognition of repeated points: a report that is sent again, whole or in other batches, is counted once.

A point is who it is by (resource, metric, attributes, start, end). Per (resource, start, end) one row holds the 64-bit
hashes of the points already counted; it is read and written in the same transaction as the data itself, so that it is
exactly as durable. Two different points of one resource and time span collide with a chance of n**2 / 2**65.
"""

import struct
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update
from sqlmodel import Session, col

from controlplane.telemetry.point import Point
from controlplane.telemetry.tables import SeenRow

Span = tuple[int, int, int]  # end_ns, resource, start_ns
CHUNK = 200


def first_seen(session: Session, points: Sequence[Point]) -> list[bool]:
    """For each point, whether it counts: not seen before, nor earlier in this list. The points are seen from now on."""
    by_span: dict[Span, list[int]] = defaultdict(list)
    for i, point in enumerate(points):
        by_span[point.end_ns, point.resource, point.start_ns].append(i)
    known = _known(session, list(by_span))
    new = [False] * len(points)
    inserts, updates = [], []
    for span, places in by_span.items():
        hashes = known.get(span)
        seen = set() if hashes is None else set(_unpack(hashes))
        fresh: list[int] = []
        for i in places:
            key = points[i].key
            if key not in seen:
                seen.add(key)
                fresh.append(key)
                new[i] = True
        if fresh and hashes is None:
            inserts.append(dict(zip(("end_ns", "resource", "start_ns"), span, strict=True)) | {"hashes": _pack(fresh)})
        elif fresh and hashes is not None:
            updates.append((span, hashes + _pack(fresh)))
    if inserts:
        session.execute(insert(SeenRow), inserts)
    for (end_ns, resource, start_ns), hashes in updates:
        session.execute(
            update(SeenRow)
            .where(col(SeenRow.end_ns) == end_ns, col(SeenRow.resource) == resource, col(SeenRow.start_ns) == start_ns)
            .values(hashes=hashes)
            .execution_options(synchronize_session=False)
        )
    return new


def forget(session: Session, before_ns: int) -> None:
    """Drop what ended before an instant; points that old are no longer accepted."""
    statement = delete(SeenRow).where(col(SeenRow.end_ns) < before_ns)
    session.execute(statement.execution_options(synchronize_session=False))


def _known(session: Session, spans: list[Span]) -> dict[Span, bytes]:
    found: dict[Span, bytes] = {}
    for start in range(0, len(spans), CHUNK):
        part = spans[start : start + CHUNK]
        ends, resources, starts = ({span[i] for span in part} for i in range(3))
        # A superset of the spans when they differ in more than one place: cheap, and the index serves it.
        query = (
            select(col(SeenRow.end_ns), col(SeenRow.resource), col(SeenRow.start_ns), col(SeenRow.hashes))
            .where(
                col(SeenRow.end_ns).in_(ends), col(SeenRow.resource).in_(resources), col(SeenRow.start_ns).in_(starts)
            )
            .with_for_update()
        )
        for end_ns, resource, start_ns, hashes in session.execute(query):
            found[end_ns, resource, start_ns] = hashes
    return found


def _pack(hashes: list[int]) -> bytes:
    return struct.pack(f"<{len(hashes)}q", *hashes)


def _unpack(hashes: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(hashes) // 8}q", hashes)
