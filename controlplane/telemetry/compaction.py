"""Folds sealed windows into frames, and drops what is older than it is to be kept.

Guarantee: a fold is one transaction that writes the merged frames and deletes the pending rows it has read; a reader's
snapshot sees all of it or nothing. Late data is merged into the frame that is there. Of several replicas one folds.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import Delete, Update, delete, func, insert, or_, select, text, update
from sqlmodel import Session, col

from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry import frame, pending, repeat
from controlplane.telemetry.frame import HistogramBlock
from controlplane.telemetry.head import Head
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.pending import Block
from controlplane.telemetry.retention import Retention
from controlplane.telemetry.tables import FrameRow, PendingRow, RequestRow
from controlplane.telemetry.timespan import to_ns, window_at

SEALED_WINDOWS = 3
"""A window is sealed when the newest one is this many ahead (15 s of event time)."""
SEALED_AGE_S = 30
ROWS_AT_ONCE = 500
ROUNDS = 20
PRUNE_EVERY_S = 60
ADVISORY_LOCK = 0x7472696D  # "trim"

FrameKey = tuple[str, MetricKind, int]


def encode(block: Block) -> bytes:
    return frame.encode_histograms(block) if isinstance(block, HistogramBlock) else frame.encode_scalars(block)


def decode(kind: MetricKind, data: bytes) -> Block:
    return frame.decode_histograms(data) if kind is MetricKind.HISTOGRAM else frame.decode_scalars(data)


class Compactor:
    """`tick` is to be called every few seconds, from one thread."""

    def __init__(self, database: Database, head: Head, meters: Meters, retention: Retention) -> None:
        self._database = database
        self._head = head
        self._meters = meters
        self._retention = retention
        self._pruned_at: datetime | None = None

    def tick(self, now: datetime) -> int:
        """Fold what is sealed, then prune. Returns the number of frames written."""
        written = 0
        for _ in range(ROUNDS):  # Short transactions: others write to the same database.
            frames, rows = self._fold(now)
            written += frames
            if rows < ROWS_AT_ONCE:
                break
        if self._pruned_at is None or now - self._pruned_at >= timedelta(seconds=PRUNE_EVERY_S):
            self._prune(now)
            self._pruned_at = now
        return written

    def _fold(self, now: datetime) -> tuple[int, int]:
        with self._database.session() as session:
            if not self._database.is_sqlite and not _only_folder(session):
                return 0, 0
            rows = _sealed(session, now)
            parts: dict[FrameKey, list[Block]] = defaultdict(list)
            for row in self._head.of_rows(session.connection(), rows):
                for (metric, kind), block in row.blocks.items():
                    parts[metric, kind, row.window].append(block)
            _write_frames(session, parts)
            folded = [number for number, _ in rows]
            _do(session, delete(PendingRow).where(col(PendingRow.id).in_(folded)))
        self._head.drop(folded)
        self._meters.frames.inc(len(parts))
        return len(parts), len(rows)

    def _prune(self, now: datetime) -> None:
        limits = self._retention
        with self._database.session() as session:
            _do(session, delete(FrameRow).where(col(FrameRow.window) < window_at(limits.frames_from(now))))
            repeat.forget(session, to_ns(limits.repeats_from(now)))
            oldest_request = to_ns(limits.requests_from(now))
            _do(session, delete(RequestRow).where(col(RequestRow.arrival_ns) < oldest_request))


def _only_folder(session: Session) -> bool:
    statement = text("SELECT pg_try_advisory_xact_lock(:key)")
    return bool(session.execute(statement, {"key": ADVISORY_LOCK}).scalar_one())


def _sealed(session: Session, now: datetime) -> list[tuple[int, int]]:
    """Pending rows (id, window) to fold, a window's rows together as far as they fit."""
    window = col(PendingRow.window)
    # A sender whose clock runs ahead must not seal everybody else's windows at once.
    newest = session.execute(select(func.max(window)).where(window <= window_at(now))).scalar()
    old = col(PendingRow.written_at) <= now - timedelta(seconds=SEALED_AGE_S)
    sealed = old if newest is None else or_(old, window <= newest - SEALED_WINDOWS)
    query = select(col(PendingRow.id), window).where(sealed).order_by(window, col(PendingRow.id)).limit(ROWS_AT_ONCE)
    return [(number, at) for number, at in session.execute(query) if number is not None]


def _write_frames(session: Session, parts: dict[FrameKey, list[Block]]) -> None:
    existing = _existing(session, parts)
    inserts = []
    for key, blocks in parts.items():
        metric, kind, window = key
        if key not in existing:
            data = encode(pending.merge(kind, blocks))
            inserts.append({"metric": metric, "kind": kind.value, "window": window, "version": 1, "frame": data})
            continue
        version, old = existing[key]
        data = encode(pending.merge(kind, [decode(kind, old), *blocks]))
        where = (col(FrameRow.metric) == metric, col(FrameRow.kind) == kind.value, col(FrameRow.window) == window)
        _do(session, update(FrameRow).where(*where).values(version=version + 1, frame=data))
    if inserts:
        session.execute(insert(FrameRow), inserts)


def _existing(session: Session, keys: Iterable[FrameKey]) -> dict[FrameKey, tuple[int, bytes]]:
    by_window: dict[int, set[str]] = defaultdict(set)
    for metric, _, window in keys:
        by_window[window].add(metric)
    found: dict[FrameKey, tuple[int, bytes]] = {}
    columns = (col(FrameRow.metric), col(FrameRow.kind), col(FrameRow.version), col(FrameRow.frame))
    for window, metrics in by_window.items():
        query = select(*columns).where(col(FrameRow.window) == window, col(FrameRow.metric).in_(metrics))
        for metric, kind, version, data in session.execute(query):
            found[metric, MetricKind(kind), window] = (version, data)
    return found


def _do(session: Session, statement: Delete | Update) -> None:
    # No row of these tables is ever held as an object, so there is nothing to bring in step with.
    session.execute(statement.execution_options(synchronize_session=False))
