"""Recognition of reports by (stream, ordinal): one that is sent again is counted once, in any order of arrival.

A stream is the life of one sender's spool; its reports count from 1. Of each stream the newest ordinal is kept, and a
bit for each of the REMEMBERED ones below it, read and written in the same transaction as the data itself.

Guarantee: an ordinal is NEW exactly once. One that lies further back than is remembered is TOO_OLD: it may have been
counted or not, so it is neither counted nor taken for a repeat. Of several replicas that get the same report at the
same moment one finds it new: the row is locked until its transaction ends.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from sqlalchemy import Table, bindparam, select
from sqlmodel import Session, SQLModel

from controlplane.db.binary_transfer import BINARY_ROWS
from controlplane.telemetry.reports.many_rows import set_by_key
from controlplane.telemetry.reports.row_locks import has_locks, make_and_lock
from controlplane.telemetry.tables import StreamRow

REMEMBERED = 1024
CHUNK = 500
_MASK = (1 << REMEMBERED) - 1
_TABLE: Table = SQLModel.metadata.tables[str(StreamRow.__tablename__)]


class StreamIdentity(NamedTuple):
    """Who a report is. `ordinal` is at least 1 and fits 63 bits."""

    stream: bytes
    ordinal: int


class Sighting(Enum):
    NEW = "new"  # Never seen: it counts.
    REPEAT = "repeat"  # Counted already.
    TOO_OLD = "too_old"  # Further back than is remembered: nobody can say.


class Seen(NamedTuple):
    """What is known of a stream. Bit i of `below` stands for ordinal high - 1 - i; high is 0 before the first one."""

    high: int = 0
    below: int = 0


class Recognised(NamedTuple):
    """What became of one report, and the newest ordinal of its stream."""

    sighting: Sighting
    high: int


def mark(seen: Seen, ordinal: int) -> tuple[Sighting, Seen]:
    """Note one ordinal (pure)."""
    ahead = ordinal - seen.high
    if ahead > REMEMBERED or not seen.high:
        return Sighting.NEW, Seen(ordinal)
    if ahead > 0:
        return Sighting.NEW, Seen(ordinal, ((seen.below << 1 | 1) << (ahead - 1)) & _MASK)
    if ahead == 0:
        return Sighting.REPEAT, seen
    if -ahead > REMEMBERED:
        return Sighting.TOO_OLD, seen
    bit = 1 << (-ahead - 1)
    if seen.below & bit:
        return Sighting.REPEAT, seen
    return Sighting.NEW, Seen(seen.high, seen.below | bit)


def recognise(session: Session, reports: Sequence[StreamIdentity], now_ns: int) -> list[Recognised]:
    """What each report is, given those before it in the list too. They are seen from now on, if the caller commits."""
    streams = sorted({report.stream for report in reports})
    known = {} if has_locks(session) else _look_up(session, streams)
    missing = [stream for stream in streams if stream not in known]
    if missing:
        first = [{"stream": stream, "high": 0, "below": b"", "heard_ns": now_ns} for stream in missing]
        make_and_lock(session, _TABLE, first)
        known |= _look_up(session, missing)
    found, changed = _marked(reports, known)
    if changed:
        set_by_key(session, _TABLE, [_row(stream, seen, now_ns) for stream, seen in changed.items()])
    return found


def sighted(session: Session, reports: Sequence[StreamIdentity]) -> list[Recognised]:
    """What `recognise` would say now. Nothing is locked or written: by the time it is asked, it may say otherwise."""
    streams = sorted({report.stream for report in reports})
    return _marked(reports, dict.fromkeys(streams, Seen()) | _look_up(session, streams))[0]


_LOOK_UP = (
    select(_TABLE.c.stream, _TABLE.c.high, _TABLE.c.below)
    .where(_TABLE.c.stream.in_(bindparam("streams", expanding=True)))
    .execution_options(**BINARY_ROWS)
)


def _marked(reports: Sequence[StreamIdentity], known: dict[bytes, Seen]) -> tuple[list[Recognised], dict[bytes, Seen]]:
    """What each report is; and what is known afterwards of the streams of which one is new. Changes `known`."""
    found = []
    changed: dict[bytes, Seen] = {}
    for report in reports:
        sighting, seen = mark(known[report.stream], report.ordinal)
        if sighting is Sighting.NEW:
            known[report.stream] = changed[report.stream] = seen
        found.append(Recognised(sighting, seen.high))
    return found, changed


def _row(stream: bytes, seen: Seen, now_ns: int) -> dict[str, object]:
    below = seen.below.to_bytes((seen.below.bit_length() + 7) // 8, "little")
    return {"stream": stream, "high": seen.high, "below": below, "heard_ns": now_ns}


def _look_up(session: Session, streams: Sequence[bytes]) -> dict[bytes, Seen]:
    found: dict[bytes, Seen] = {}
    for start in range(0, len(streams), CHUNK):
        rows = session.execute(_LOOK_UP, {"streams": streams[start : start + CHUNK]})
        for stream, high, below in rows.all():
            found[bytes(stream)] = Seen(high, int.from_bytes(below, "little"))
    return found
