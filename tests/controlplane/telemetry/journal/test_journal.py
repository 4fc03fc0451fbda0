"""One commit: everything counted once, and what is not kept said of the right report."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlmodel import SQLModel, col

from controlplane.contract import metrics
from controlplane.contract.errors import OtherContent, TooOld
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import PackedNumber, PackedReport, Section, encode
from controlplane.db.database import Database
from controlplane.telemetry.folding.forgetting import drop_older
from controlplane.telemetry.folding.retention import sweeps
from controlplane.telemetry.journal import journal, pending
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.otlp.bounds import Sender
from controlplane.telemetry.otlp.raw_point import RawNumber
from controlplane.telemetry.reports import packed
from controlplane.telemetry.reports.column_builder import ColumnBuilder
from controlplane.telemetry.reports.cumulative_rows import CumulativePoint
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.packed_table import PackedTables
from controlplane.telemetry.reports.records import Record
from controlplane.telemetry.reports.stream_identity import Sighting, StreamIdentity
from controlplane.telemetry.tables import CumulativeRow, PendingRow, RequestRow, SeenRow, StreamRow
from controlplane.telemetry.values.columns import Table
from controlplane.telemetry.values.refusal import Reason
from tests.controlplane.telemetry.packed_reports import BOUNDS, NOW, NOW_NS, STREAM, WINDOW, histogram, report

WINDOW_NS = 5 * 10**9
REQUESTS = (metrics.REQUESTS.name, MetricKind.SUM)
GOOD = histogram([0.1, 0.2])


def packed_entry(given: PackedReport, bounds: Any = BOUNDS) -> Entry:
    return Entry(packed=packed.split(encode(given), PackedTables()), bounds=bounds)


def sums(*values: float, node: str = "n1", identity: StreamIdentity | None = None, first: int = 0) -> Entry:
    """Points of a sum, one window each, as OTLP reports are extracted."""
    builder = ColumnBuilder()
    for i, value in enumerate(values, first):
        end_ns = NOW_NS + i * WINDOW_NS
        builder.number(MetricKind.SUM, 0, 0, value, (1, end_ns - WINDOW_NS, end_ns, i))
    known = builder.identities() if identity is None else identity
    return Entry(table=Table((REQUESTS,), (f'{{"node":"{node}"}}',)), columns=builder.columns(), identity=known)


def write(database: Database, names: Names, *entries: Entry) -> journal.Written:
    prepared = journal.prepare(entries)
    with database.session() as session:
        written = journal.write(session, prepared, names, NOW)
    names.learn(written.names)
    for entry in entries:
        entry.settle()
    return written


def totals(database: Database) -> dict[tuple[str, str], float]:
    """By metric and labels: the sum of all values of sums, and the number of values of histograms."""
    names, found = Names(), {}
    with database.snapshot() as connection:
        names.load(connection)
        by_id = {names.metric_id(*key): key[0] for key in names.metrics()}
        for points in connection.execute(select(col(PendingRow.points))).scalars():
            columns = pending.decode(points)
            rows, ends = columns.histograms, np.cumsum(columns.histograms.width)
            values = [int(rows.zero[i] + rows.cells[ends[i] - rows.width[i] : ends[i]].sum()) for i in range(len(rows))]
            listed = [*zip(rows.metric, rows.labels, values, strict=True)]
            listed += [*zip(columns.sums.metric, columns.sums.labels, columns.sums.value, strict=True)]
            for metric, labels, value in listed:
                text = str(names.labels(connection, [int(labels)])[int(labels)].get("node"))
                key = (by_id[int(metric)], text)
                found[key] = found.get(key, 0.0) + float(value)
    return found


def rows(database: Database, table: type[SQLModel]) -> int:
    with database.session() as session:
        return int(session.execute(select(func.count()).select_from(table)).scalar_one())


def outcomes(entries: Iterable[Entry]) -> list[tuple[int, int, int]]:
    return [(entry.accepted, entry.repeated, entry.refusals.count) for entry in entries]


def test_a_commit_is_one_row_of_all_its_reports(any_database: Database) -> None:
    names = Names()
    entries = [
        packed_entry(report(1, sections=[Section(WINDOW - 7, (GOOD,))])),
        sums(1.0, 2.0),
        packed_entry(report(1, stream=b"t" * 16, node="n2", sections=[Section(WINDOW, (GOOD, GOOD))])),
        Entry(silent=4),
    ]
    written = write(any_database, names, *entries)
    assert (written.points, outcomes(entries)) == (5, [(1, 0, 0), (2, 0, 0), (2, 0, 0), (4, 0, 0)])
    assert (written.records, written.resets, written.conflicts) == (0, 0, [])
    ttft = metrics.TTFT.name
    assert totals(any_database) == {(ttft, "n1"): 2.0, (ttft, "n2"): 4.0, (REQUESTS[0], "n1"): 3.0}
    with any_database.session() as session:
        spans = session.execute(select(col(PendingRow.first_window), col(PendingRow.last_window))).all()
    assert [tuple(span) for span in spans] == [(WINDOW - 7, WINDOW + 1)]


def test_a_stream_says_who_a_report_is_whatever_form_it_comes_in(any_database: Database) -> None:
    names = Names()
    one = report(5, sections=[Section(WINDOW, (GOOD, replace(GOOD, total=-1.0)), (), ())])
    first, again = packed_entry(one), packed_entry(one)
    digest = packed_report.digest_of(packed_report.encode(one))
    as_otlp = sums(1.0, identity=StreamIdentity(STREAM, 5, digest))
    write(any_database, names, first, again, as_otlp)
    assert outcomes([first, again, as_otlp]) == [(1, 0, 1), (0, 1, 1), (0, 1, 0)]
    later = packed_entry(one)
    new = sums(1.0, identity=StreamIdentity(STREAM, 4, digest))
    write(any_database, names, later, new)
    assert outcomes([later, new]) == [(0, 1, 1), (1, 0, 0)]
    assert totals(any_database) == {(metrics.TTFT.name, "n1"): 2.0, (REQUESTS[0], "n1"): 1.0}


def test_a_report_with_anothers_identity_is_an_error_of_its_own(any_database: Database) -> None:
    names = Names()
    first, other = packed_entry(report(5)), packed_entry(report(5, sections=[Section(WINDOW, (GOOD,))]))
    again = packed_entry(report(5))
    written = write(any_database, names, first, other, again)
    assert isinstance(other.error, OtherContent) and other.error.detail == {"field": "Tailwright-Report", "highest": 5}
    assert first.error is None is again.error and written.conflicts == [Sighting.OTHER]
    assert other.accepted == 0 and again.repeated > 0


def test_a_report_too_far_back_is_an_error_of_its_own(any_database: Database) -> None:
    names = Names()
    entries = [packed_entry(report(ordinal)) for ordinal in (5000, 3000, 4999)]
    write(any_database, names, *entries)
    assert [entry.accepted > 0 for entry in entries] == [True, False, True]
    error = entries[1].error
    assert isinstance(error, TooOld) and error.detail == {"field": "Tailwright-Report", "highest": 5000}
    assert entries[0].error is None is entries[2].error


def test_a_report_that_is_refused_whole_does_not_take_its_place_in_the_stream(any_database: Database) -> None:
    names = Names()
    stranger = packed_entry(report(9), bounds=replace(BOUNDS, sender=Sender("n2")))
    write(any_database, names, stranger)
    assert stranger.refusals.by_reason == {Reason.NODE: 12} and stranger.accepted == 0
    assert len(names) == 0 and rows(any_database, PendingRow) == 0
    own = packed_entry(report(9))
    write(any_database, names, own)
    assert own.accepted == 12


def test_points_are_counted_once_in_any_batches(any_database: Database) -> None:
    names = Names()
    entries = [sums(1.0, 2.0), sums(1.0, 2.0, 4.0)]
    write(any_database, names, *entries)
    assert outcomes(entries) == [(2, 0, 0), (1, 2, 0)]
    mixed = [sums(4.0, 8.0, first=2), packed_entry(report(1))]
    write(any_database, names, *mixed)
    assert outcomes(mixed) == [(1, 1, 0), (12, 0, 0)]
    assert totals(any_database)[REQUESTS[0], "n1"] == 15.0


def test_what_finds_no_room_is_refused_row_by_row(any_database: Database) -> None:
    names = Names(max_label_sets=2, max_own_metrics=1)
    own = [("tailwright.a", MetricKind.GAUGE), ("tailwright.b", MetricKind.GAUGE)]
    gauges = tuple(PackedNumber(i, 0, 1.0) for i in (0, 1, 1))
    entries = [
        packed_entry(replace(report(1, label_sets=1, sections=[Section(WINDOW, (), (), gauges)]), metrics=tuple(own))),
        sums(1.0),
        sums(1.0, node="n2", first=5),
    ]
    write(any_database, names, *entries)
    assert outcomes(entries) == [(1, 0, 2), (1, 0, 0), (0, 0, 1)]
    assert (
        entries[0].refusals.by_reason == {Reason.SERIES: 2}
        and "tailwright.b: over 1 metric" in entries[0].refusals.text()
    )
    assert entries[2].refusals.text() == "over 2 distinct label sets; take labels with fewer values"


def test_a_second_attempt_says_nothing_twice(any_database: Database) -> None:
    entry = packed_entry(report(1, sections=[Section(WINDOW, (GOOD, replace(GOOD, total=-1.0)))]))
    for _ in range(2):
        journal.prepare([entry])
    write(any_database, Names(), entry)
    entry.settle()
    assert outcomes([entry]) == [(1, 0, 1)]


def total(value: float, seconds: int, key: int = 1) -> Entry:
    """A running total as of some seconds after the beginning."""
    point = RawNumber(time_ns=NOW_NS + seconds * 10**9, start_ns=NOW_NS, value=value)
    return Entry(
        table=Table((REQUESTS,), ('{"node":"n1"}',)),
        cumulative=[CumulativePoint(key, 0, 0, REQUESTS[0], point)],
    )


def test_running_totals_count_what_they_have_grown_by(any_database: Database) -> None:
    names = Names()
    write(any_database, names, total(10, 5), total(13, 10), total(13, 10))
    again, next_one = total(13, 10), total(20, 15)
    write(any_database, names, again, next_one)
    assert outcomes([again, next_one]) == [(0, 1, 0), (1, 0, 0)]
    assert totals(any_database) == {(REQUESTS[0], "n1"): 20.0}
    assert rows(any_database, CumulativeRow) == 1
    assert write(any_database, names, total(2, 20)).resets == 1, "it has begun anew"


def record(i: int, node: str = "n1") -> Record:
    return Record(node, "chat", "m", 1, f"r{i}", NOW_NS + i, 1.0, 10, 0, 5, "stop", 16, b"{}", b"")


def test_records_are_counted_once(any_database: Database) -> None:
    names = Names()
    entries = [Entry(records=[record(1), record(2), record(1)]), Entry(records=[record(2), record(1, "n2")])]
    written = write(any_database, names, *entries)
    assert (written.records, outcomes(entries)) == (3, [(2, 1, 0), (1, 1, 0)])
    again = Entry(records=[record(i) for i in range(1, 700)])
    write(any_database, names, again)
    assert outcomes([again]) == [(697, 2, 0)] and rows(any_database, RequestRow) == 700


def test_what_repeats_are_recognised_by_is_forgotten_in_time(any_database: Database) -> None:
    names = Names()
    write(any_database, names, sums(1.0, 2.0), packed_entry(report(1)), total(10, 5))

    def forget(points_before_ns: int, states_before_ns: int) -> None:
        drop_older(any_database, SQLModel.metadata.tables["telemetry_seen"], "end_ns", points_before_ns)
        for sweep in sweeps():
            sweep.step(any_database, states_before_ns)

    forget(points_before_ns=NOW_NS + WINDOW_NS, states_before_ns=NOW_NS)
    assert [rows(any_database, table) for table in (SeenRow, StreamRow, CumulativeRow)] == [1, 1, 1]
    forget(points_before_ns=NOW_NS + 10**12, states_before_ns=NOW_NS + 10**12)
    assert [rows(any_database, table) for table in (SeenRow, StreamRow, CumulativeRow)] == [0, 0, 0]


def test_a_repeat_by_its_name_counts_all_that_it_holds(database: Database) -> None:
    names, name = Names(), StreamIdentity(b"s" * 16, 1, b"digested")
    for outcome in ((3, 0, 0), (0, 3, 0)):
        entry = Entry(identity=name, records=[record(1), record(2)], silent=1)
        written = write(database, names, entry)
        assert outcomes([entry]) == [outcome]
        assert (written.points, written.nbytes) == (0, 0), "records are no points"
