"""Recognition of reports by (node, stream, ordinal): one that is sent again is counted once, in any order of arrival.

A stream is one process of a sender; its ordinals rise. The node is that of the sender's token, so that nobody else's
reports take places of its streams. Of each stream the newest ordinal is kept, and of it and the REMEMBERED ones below
it a SHORT digest of what the report said, read and written in the same transaction as the data itself.

Guarantee: an ordinal is NEW exactly once. A REPEAT says what the counted one said; one that says something OTHER was
not counted (a copied or restored sender gives an ordinal twice), and is not taken for the one that was, but for one in
65,535 by chance. One that lies further back than is remembered is TOO_OLD: it may have been counted or not, so it is
neither counted nor taken for a repeat. Of several replicas that get the same report at the same moment one finds it
new: the row is locked until its transaction ends.
"""

from collections.abc import Sequence
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from sqlalchemy import Table, bindparam, select
from sqlmodel import Session, SQLModel

from controlplane.contract.reports.packed_report import REMEMBERED
from controlplane.db.binary_transfer import BINARY_ROWS
from controlplane.telemetry.reports.many_rows import set_by_key
from controlplane.telemetry.reports.row_locks import has_locks, make_and_lock
from controlplane.telemetry.tables import StreamRow

SHORT = 2
"""Bytes: with REMEMBERED of them a row stays below the 2,032 from which PostgreSQL keeps a column apart."""
CHUNK = 500
LENGTH = SHORT * (REMEMBERED + 1)
_NOT_SEEN = bytes(SHORT)
_INSTEAD = b"\1" * SHORT
_TABLE: Table = SQLModel.metadata.tables[str(StreamRow.__tablename__)]


class StreamIdentity(NamedTuple):
    """Who a report is, and the digest of what it says. `ordinal` is at least 1 and fits 63 bits.

    node: which the sender's token is bound to; None where it is bound to none.
    """

    stream: bytes
    ordinal: int
    digest: bytes
    node: str | None = None

    @property
    def key(self) -> bytes:
        """The stream, as this sender's own."""
        return blake2b((self.node or "").encode() + self.stream, digest_size=len(self.stream)).digest()

    @property
    def short(self) -> bytes:
        """What is remembered of the digest: never that of nothing seen."""
        short = self.digest[:SHORT]
        return short if short != _NOT_SEEN else _INSTEAD


class Sighting(Enum):
    NEW = "new"  # Never seen: it counts.
    REPEAT = "repeat"  # Counted already.
    OTHER = "other"  # Another one was counted in its place.
    TOO_OLD = "too_old"  # Further back than is remembered: nobody can say.


class Seen(NamedTuple):
    """What is known of a stream: short digests of the ordinals up to `high`, which is 0 before the first one.

    The last SHORT bytes are of `high`, those before of the ordinal before; zero where none was seen.
    """

    high: int = 0
    digests: bytes = b""


class Recognised(NamedTuple):
    """What became of one report, and the newest ordinal of its stream."""

    sighting: Sighting
    high: int


def mark(seen: Seen, ordinal: int, short: bytes) -> tuple[Sighting, Seen]:
    """Note one ordinal (pure)."""
    ahead = ordinal - seen.high
    if ahead > REMEMBERED or not seen.high:
        return Sighting.NEW, Seen(ordinal, short)
    if ahead > 0:
        return Sighting.NEW, Seen(ordinal, (seen.digests + bytes(SHORT * (ahead - 1)) + short)[-LENGTH:])
    if -ahead > REMEMBERED:
        return Sighting.TOO_OLD, seen
    digests = seen.digests.rjust(SHORT * (1 - ahead), b"\0")
    at = len(digests) - SHORT * (1 - ahead)
    found = digests[at : at + SHORT]
    if found == _NOT_SEEN:
        return Sighting.NEW, Seen(seen.high, digests[:at] + short + digests[at + SHORT :])
    return Sighting.REPEAT if found == short else Sighting.OTHER, seen


def recognise(session: Session, reports: Sequence[StreamIdentity], now_ns: int) -> list[Recognised]:
    """What each report is, given those before it in the list too. They are seen from now on, if the caller commits."""
    keys = [report.key for report in reports]
    streams = sorted(set(keys))
    known = {} if has_locks(session) else _look_up(session, streams)
    missing = [stream for stream in streams if stream not in known]
    if missing:
        first = [{"stream": stream, "high": 0, "digests": b"", "heard_ns": now_ns} for stream in missing]
        make_and_lock(session, _TABLE, first)
        known |= _look_up(session, missing)
    found, changed = _marked(reports, keys, known)
    if changed:
        set_by_key(session, _TABLE, [_row(stream, seen, now_ns) for stream, seen in changed.items()])
    return found


def sighted(session: Session, reports: Sequence[StreamIdentity]) -> list[Recognised]:
    """What `recognise` would say now. Nothing is locked or written: by the time it is asked, it may say otherwise."""
    keys = [report.key for report in reports]
    streams = sorted(set(keys))
    return _marked(reports, keys, dict.fromkeys(streams, Seen()) | _look_up(session, streams))[0]


_LOOK_UP = (
    select(_TABLE.c.stream, _TABLE.c.high, _TABLE.c.digests)
    .where(_TABLE.c.stream.in_(bindparam("streams", expanding=True)))
    .execution_options(**BINARY_ROWS)
)


def _marked(
    reports: Sequence[StreamIdentity], keys: Sequence[bytes], known: dict[bytes, Seen]
) -> tuple[list[Recognised], dict[bytes, Seen]]:
    """What each report is; and what is known afterwards of the streams of which one is new. Changes `known`."""
    found = []
    changed: dict[bytes, Seen] = {}
    for report, key in zip(reports, keys, strict=True):
        sighting, seen = mark(known[key], report.ordinal, report.short)
        if sighting is Sighting.NEW:
            known[key] = changed[key] = seen
        found.append(Recognised(sighting, seen.high))
    return found, changed


def _row(stream: bytes, seen: Seen, now_ns: int) -> dict[str, object]:
    return {"stream": stream, "high": seen.high, "digests": seen.digests, "heard_ns": now_ns}


def _look_up(session: Session, streams: Sequence[bytes]) -> dict[bytes, Seen]:
    found: dict[bytes, Seen] = {}
    for start in range(0, len(streams), CHUNK):
        rows = session.execute(_LOOK_UP, {"streams": streams[start : start + CHUNK]})
        for stream, high, digests in rows.all():
            found[bytes(stream)] = Seen(high, bytes(digests))
    return found
