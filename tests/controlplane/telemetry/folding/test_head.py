"""The head reads what its snapshot has, and sums the nodes."""

from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, select
from sqlmodel import col

from controlplane.contract import metrics
from controlplane.contract.metrics import MetricKind
from controlplane.contract.reports.packed_report import PackedNumber, Section, encode
from controlplane.db.database import Database
from controlplane.telemetry.folding.head import Head, PendingColumns
from controlplane.telemetry.frames.fleet_columns import summed
from controlplane.telemetry.journal import journal
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.reports import packed
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.packed_table import PackedTables
from controlplane.telemetry.tables import PendingRow
from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows
from tests.controlplane.telemetry.packed_reports import BOUNDS, NOW, SUM_PLACE, WINDOW, histogram, report


def write(database: Database, names: Names, windows: list[int], ordinal: int) -> int:
    """One commit of two nodes' reports; returns its row's id."""
    entries = []
    for node in ("a", "b"):
        sections = [
            Section(window, (histogram([0.1, 0.2]), histogram([0.4], labels=1)), (PackedNumber(SUM_PLACE, 0, 3.0),))
            for window in windows
        ]
        given = report(ordinal, stream=node.encode() * 16, node=node, sections=sections)
        entries.append(Entry(packed=packed.split(encode(given), PackedTables()), bounds=BOUNDS))
    prepared = journal.prepare(entries)
    with database.session() as session:
        written = journal.write(session, prepared, names, NOW)
        number = session.execute(select(col(PendingRow.id)).order_by(col(PendingRow.id).desc()).limit(1)).scalar_one()
    names.learn(written.names)
    assert number is not None
    return number


def rows(head: Head, connection: Connection, first: int, last: int) -> list[PendingColumns]:
    return list(head.of_rows(connection, head.ids(connection, first, last)))


def test_reads_the_rows_that_touch_a_span_of_windows(any_database: Database) -> None:
    names = Names()
    head = Head(names)
    old = write(any_database, names, [WINDOW - 20], 1)
    wide = write(any_database, names, [WINDOW - 20, WINDOW], 2)
    new = write(any_database, names, [WINDOW], 3)

    def read(first: int, last: int) -> list[int]:
        with any_database.snapshot() as connection:
            return [row.id for row in rows(head, connection, first, last)]

    for _ in range(2):  # From the database, then from memory.
        assert read(WINDOW - 20, WINDOW - 19) == [old, wide]
        assert read(WINDOW - 10, WINDOW - 5) == [wide]
        assert read(WINDOW, WINDOW + 1) == [wide, new]
        assert read(WINDOW + 1, WINDOW + 5) == []


def test_the_nodes_are_summed(any_database: Database) -> None:
    names = Names()
    write(any_database, names, [WINDOW], 1)
    with any_database.snapshot() as connection:
        (row,) = rows(Head(names), connection, WINDOW, WINDOW + 1)
        labels = names.labels(connection, row.fleet.histograms.labels.tolist())
    fleet = row.fleet.histograms
    assert len(row.columns.histograms) == 4 and len(fleet) == 2 and len(row.fleet.gauges) == 0
    assert all("node" not in one for one in labels.values()) and len(labels) == 2
    cells = np.split(fleet.cells, np.cumsum(fleet.width)[:-1])
    assert sorted(zip((int(c.sum()) for c in cells), fleet.total.tolist(), fleet.maximum.tolist(), strict=True)) == [
        (2, 0.8, 0.4),
        (4, 0.6000000000000001, 0.2),
    ]
    assert row.fleet.sums.value.tolist() == [6.0]
    assert row.fleet.sums.metric[0] == names.metric_id(metrics.OUTPUT_TOKENS.name, MetricKind.SUM)


def test_a_row_that_was_folded_is_in_older_snapshots_only(any_database: Database) -> None:
    names = Names()
    head = Head(names)
    number = write(any_database, names, [WINDOW], 1)
    with any_database.snapshot() as before:
        assert [row.id for row in rows(head, before, WINDOW, WINDOW + 1)] == [number]
        with any_database.session() as session:
            session.execute(delete(PendingRow).where(col(PendingRow.id) == number))
        head.drop([number])
        assert [row.id for row in rows(head, before, WINDOW, WINDOW + 1)] == [number]
        with any_database.snapshot() as after:
            assert rows(head, after, WINDOW, WINDOW + 1) == []
            head.drop([number])
            assert list(head.of_rows(after, [number])) == []


def test_what_a_reader_of_an_older_snapshot_brings_back_is_forgotten(any_database: Database) -> None:
    names = Names()
    head = Head(names)
    folded, waits = (write(any_database, names, [WINDOW], ordinal) for ordinal in (1, 2))
    with any_database.snapshot() as before:
        assert [row.id for row in head.of_rows(before, [folded, waits])] == [folded, waits]
        with any_database.session() as session:
            session.execute(delete(PendingRow).where(col(PendingRow.id) == folded))
        head.drop([folded])
        assert len(list(head.of_rows(before, [folded]))) == 1
    assert set(head._cache) == {folded, waits}
    with any_database.snapshot() as after:
        waiting = head.waiting(after)
    head.keep(waiting)
    assert waiting == {waits} == set(head._cache)


def test_memory_is_bounded(any_database: Database) -> None:
    names = Names()
    numbers = [write(any_database, names, [WINDOW], ordinal) for ordinal in range(1, 6)]
    with any_database.snapshot() as connection:
        (one,) = Head(names).of_rows(connection, numbers[:1])
        head = Head(names, cached_bytes=2 * one.nbytes)

        def ids(rows: Any) -> list[int]:
            return [row.id for row in rows]

        for _ in range(2):
            assert ids(head.of_rows(connection, numbers)) == numbers
        kept: PendingColumns = next(head.of_rows(connection, numbers[-1:]))
        assert next(head.of_rows(connection, numbers[-1:])) is kept
        (first,) = head.of_rows(connection, numbers[:1])
        assert first is not next(Head(names).of_rows(connection, numbers[:1]))


def test_summing_is_exact_whatever_the_rows() -> None:
    rng = np.random.default_rng(3)
    n = 200
    width = rng.integers(0, 60, n).astype(np.int32)
    rows = HistogramRows(
        rng.integers(0, 2, n), rng.integers(0, 3, n).astype(np.int32), np.arange(n, dtype=np.int32),
        rng.integers(0, 900, n).astype(np.int32), width, rng.integers(0, 2**40, int(width.sum()), np.uint64),
        rng.integers(0, 9, n), rng.random(n), rng.random(n), rng.random(n), rng.random(n),
    )  # fmt: skip
    fleet = rng.integers(0, 4, n).astype(np.int32)
    found = summed(Columns(rows, NumberRows.empty(), NumberRows.empty()), fleet, np.zeros(0, np.int32)).histograms

    def spelled(histograms: HistogramRows, labels: Any) -> dict[Any, Any]:
        sums: dict[Any, Any] = {}
        ends = np.cumsum(histograms.width)
        for i in range(len(histograms)):
            key = (int(histograms.window[i]), int(histograms.metric[i]), int(labels[i]))
            dense, zero = sums.setdefault(key, (np.zeros(1000, np.uint64), []))
            at = int(histograms.low[i])
            dense[at : at + histograms.width[i]] += histograms.cells[ends[i] - histograms.width[i] : ends[i]]
            zero.append(int(histograms.zero[i]))
        return {key: (dense.tolist(), sum(zero)) for key, (dense, zero) in sums.items()}

    assert spelled(found, found.labels) == spelled(rows, fleet)
    assert len(found) == len(spelled(rows, fleet))
    assert found.minimum.min() == rows.minimum.min() and found.maximum.max() == rows.maximum.max()
