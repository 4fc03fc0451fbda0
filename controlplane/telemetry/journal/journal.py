"""What one commit writes: the points and records of several reports, each counted once.

Guarantee: recognition of repeats, names, running totals, pending points, request records and exemplars are one
transaction, the caller's; nothing of it is visible, in the database or in memory, unless that transaction commits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from sqlalchemy import Table as SqlTable
from sqlalchemy import insert
from sqlmodel import Session, SQLModel

from controlplane.contract.errors import Conflict, OtherContent, TooOld
from controlplane.contract.reports.packed_report import REMEMBERED, REPORT_HEADER
from controlplane.telemetry.journal import cumulative_store, pending, record_rows
from controlplane.telemetry.journal.names import REFUSED, Learnt, Names, Resolved
from controlplane.telemetry.reports import packed, repeat, stream_identity
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.repeat import PointIdentities
from controlplane.telemetry.reports.stream_identity import Recognised, Sighting, StreamIdentity
from controlplane.telemetry.values import batch
from controlplane.telemetry.values.batch import Batch
from controlplane.telemetry.values.columns import Columns, Mask, Table, concatenate
from controlplane.telemetry.values.refusal import Reason
from controlplane.telemetry.values.timespan import to_ns

__all__ = ["Entry", "Prepared", "Written", "prepare", "with_ids", "write"]

_PENDING: SqlTable = SQLModel.metadata.tables["telemetry_pending"]


@dataclass(eq=False)
class Prepared:
    """Entries, the rows of the packed ones, and how many points of each say nothing. Owners are places of entries."""

    entries: Sequence[Entry]
    packed: Batch
    silent: Sequence[int]


@dataclass(eq=False)
class Written:
    """What a commit adds to memory once it has succeeded."""

    names: Learnt = field(default_factory=Learnt)
    points: int = 0
    nbytes: int = 0
    records: int = 0
    resets: int = 0
    conflicts: list[Sighting] = field(default_factory=list)


def prepare(entries: Sequence[Entry]) -> Prepared:
    """What needs no database, to be done before the transaction begins, so that it is short."""
    for entry in entries:
        entry.begin()
    silent = [entry.silent for entry in entries]
    owned = [(place, entry, entry.packed) for place, entry in enumerate(entries) if entry.packed is not None]
    found = packed.read(
        [body for _, _, body in owned], [entry.bounds for _, entry, _ in owned], [entry.late for _, entry, _ in owned]
    )
    for (place, _, _), count in zip(owned, found.silent.tolist(), strict=True):
        silent[place] += count
    return Prepared(entries, found.batch.owned_by(np.array([place for place, _, _ in owned], np.int32)), silent)


def write(session: Session, prepared: Prepared, names: Names, now: datetime) -> Written:
    """Add the entries in the session's transaction. One that is refused as a whole gets an `error`."""
    entries = prepared.entries
    written = Written()
    counted = _recognise(session, prepared, now, written)
    parts = [
        _packed(prepared, counted),
        batch.join(_points(session, entries, counted)),
        batch.join(_totals(session, entries, counted, written)),
    ]
    parts = [part for part in parts if len(part.owners)]
    resolution = names.resolve(session, [table for part in parts for table in part.tables], now)
    written.names = resolution.learnt
    columns, done = [], 0
    for part in parts:
        resolved = resolution.of[done : done + len(part.tables)]
        done += len(part.tables)
        columns.append(with_ids(part, resolved, entries, names))
    if columns:
        _write_pending(session, concatenate(columns), now, written)
    written.records = record_rows.write(session, [entry for place, entry in enumerate(entries) if counted[place]])
    return written


def _recognise(session: Session, prepared: Prepared, now: datetime, written: Written) -> Mask:
    """Which entries count, as far as they are recognised as a whole."""
    entries = prepared.entries
    counted = np.ones(len(entries), bool)
    streams = ((place, entry, entry.stream) for place, entry in enumerate(entries))
    known = {place: stream for place, entry, stream in streams if stream is not None and not entry.refused_as_a_whole}
    if known:
        found = stream_identity.recognise(session, list(known.values()), to_ns(now))
        for (place, identity), recognised in zip(known.items(), found, strict=True):
            counted[place] = recognised.sighting is Sighting.NEW
            entries[place].error = conflict_of(identity, recognised)
            if entries[place].error is not None:
                written.conflicts.append(recognised.sighting)
    for entry, silent, counts in zip(entries, prepared.silent, counted.tolist(), strict=True):
        if counts:
            entry.accepted += silent
        else:
            entry.repeated += silent + len(entry.columns) + len(entry.cumulative) + len(entry.records)
    return counted


def conflict_of(identity: StreamIdentity, recognised: Recognised) -> Conflict | None:
    """Why a report was neither counted nor taken for a repeat; None where it was."""
    if recognised.sighting is Sighting.OTHER:
        return OtherContent(
            f"report {identity.ordinal} of this stream was counted with other content, and this one was not: its "
            "sender was copied or restored; send it in a new stream",
            field=REPORT_HEADER,
            highest=recognised.high,
        )
    if recognised.sighting is not Sighting.TOO_OLD:
        return None
    return TooOld(
        f"report {identity.ordinal} is more than {REMEMBERED} behind the newest of its stream, {recognised.high}: "
        "whether it was counted is not known any more; send it in a new stream if it was not",
        field=REPORT_HEADER,
        highest=recognised.high,
    )


def _packed(prepared: Prepared, counted: Mask) -> Batch:
    """The rows of packed reports that are no repeats."""
    rows = prepared.packed
    if counted.all():
        return rows
    counts = counted[rows.owners]
    for entry, repeated in zip(prepared.entries, rows.counts(len(counted), ~counts), strict=True):
        entry.repeated += repeated
    return rows.select(counts)


def _points(session: Session, entries: Sequence[Entry], counted: Mask) -> list[tuple[int, Table, Columns]]:
    """The rows of all other entries that count; those without a stream are recognised point by point."""
    rows = {place: entry.columns for place, entry in enumerate(entries) if counted[place] and len(entry.columns)}
    by_point = {}
    for place in rows:
        identity = entries[place].identity
        if isinstance(identity, PointIdentities):
            by_point[place] = identity
    if by_point:
        new = repeat.first_seen(session, repeat.joined(list(by_point.values())))
        ends = np.cumsum([len(rows[place]) for place in by_point])
        for place, keep in zip(by_point, np.split(new, ends[:-1]), strict=True):
            if not keep.all():
                entries[place].repeated += int((~keep).sum())
                rows[place] = batch.select(rows[place], keep)
    return [(place, entries[place].table, columns) for place, columns in rows.items()]


def _totals(
    session: Session, entries: Sequence[Entry], counted: Mask, written: Written
) -> list[tuple[int, Table, Columns]]:
    """What running totals have grown by."""
    owned = [(place, entry) for place, entry in enumerate(entries) if entry.cumulative and counted[place]]
    grown = cumulative_store.advance(session, [entry for _, entry in owned])
    for (_, entry), found in zip(owned, grown, strict=True):
        entry.repeated += found.repeated
        entry.accepted += found.counted - len(found.columns)  # Its rows are accepted once they have their ids.
        written.resets += found.resets
    return [
        (place, entry.table, found.columns) for (place, entry), found in zip(owned, grown, strict=True) if found.columns
    ]


def with_ids(part: Batch, resolved: Sequence[Resolved], entries: Sequence[Entry], names: Names) -> Columns:
    """Places in tables to the store's ids; rows whose names got none are refused."""
    metric = np.concatenate([one.metric for one in resolved])
    labels = np.concatenate([one.labels for one in resolved])
    columns = part.columns
    if (metric == REFUSED).any() or (labels == REFUSED).any():
        rows = (columns.histograms, columns.sums, columns.gauges)
        of_metric = np.concatenate([kind.metric for kind in rows])
        of_labels = np.concatenate([kind.labels for kind in rows])
        keep = (metric[of_metric] != REFUSED) & (labels[of_labels] != REFUSED)
        said: dict[tuple[int, int], str] = {}
        for i in np.flatnonzero(~keep).tolist():
            places = int(of_metric[i]), int(of_labels[i])
            if places not in said:
                said[places] = _why(part.tables, resolved, *places, names)
            entries[part.owners[i]].late.add(Reason.SERIES, said[places])
        part = part.select(keep)
        columns = part.columns
    for entry, accepted in zip(entries, part.counts(len(entries)), strict=True):
        entry.accepted += accepted
    return batch.renumbered(columns, metric, labels)


def _why(tables: Sequence[Table], resolved: Sequence[Resolved], metric: int, labels: int, names: Names) -> str:
    """Why a row got no id, given its places in all tables, one after the other."""
    for table, found in zip(tables, resolved, strict=True):
        if metric < len(table.metrics):
            return names.why_refused(table, found, metric, labels)
        metric, labels = metric - len(table.metrics), labels - len(table.labels)
    raise AssertionError("a place beyond all tables")


def _write_pending(session: Session, columns: Columns, now: datetime, written: Written) -> None:
    if not len(columns):
        return
    points = pending.encode(columns)
    windows = np.concatenate([rows.window for rows in (columns.histograms, columns.sums, columns.gauges)])
    row = {
        "first_window": int(windows.min()),
        "last_window": int(windows.max()),
        "written_at": now,
        "points": points,
    }
    session.execute(insert(_PENDING), [row])
    written.points, written.nbytes = len(columns), len(points)
