"""Packed reports (`controlplane.contract.reports.packed_report`) to columns: many reports at once, in a few numpy
operations.

Guarantee: a body whose layout is broken is a `BadRequest`, before anything of it is used. A row that cannot be kept is
refused by itself, with a message that names its metric; all others of its report are kept. What is kept is what the
contract's own `decode` reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.errors import BadRequest
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.metrics import WINDOW_NS
from controlplane.contract.reports.packed_report import CELLS, HEADER, MAGIC, SECTION, digest_of
from controlplane.telemetry.otlp.bounds import Bounds, check_origin, check_times
from controlplane.telemetry.reports import packed_checks
from controlplane.telemetry.reports.packed_checks import Places
from controlplane.telemetry.reports.packed_table import NO_TABLE, PackedTable, PackedTables
from controlplane.telemetry.reports.stream_identity import StreamIdentity
from controlplane.telemetry.values.batch import Batch
from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows
from controlplane.telemetry.values.refusal import Refusals, Refused

_HISTOGRAM = ("<u2", "<u2", "<u2", "<u2", "<u8", "<f8", "<f8", "<f8")
_NUMBER = ("<u2", "<u2", "<f8")
_HISTOGRAM_SIZES = tuple(np.dtype(dtype).itemsize for dtype in _HISTOGRAM)
_NUMBER_SIZES = tuple(np.dtype(dtype).itemsize for dtype in _NUMBER)
_HISTOGRAM_BYTES, _NUMBER_BYTES = sum(_HISTOGRAM_SIZES), sum(_NUMBER_SIZES)
_CELL = {size: np.dtype(f"<u{size}") for size in CELLS}
SECTIONS_AT_MOST = 4096
ROWS_AT_MOST = 50_000
TABLE_BYTES_AT_MOST = 1 << 20
"""The writer reads every sender's reports: one of them must not keep it from the others for long."""


class PackedSection(NamedTuple):
    """Counts, and where the columns begin in the body."""

    window: int
    histograms: int
    sums: int
    gauges: int
    cells: int
    cell_bytes: int
    at: int

    @property
    def rows(self) -> int:
        return self.histograms + self.sums + self.gauges


@dataclass(frozen=True, eq=False)
class Packed:
    """A body whose layout holds, and how many rows it has. They are not checked yet."""

    identity: StreamIdentity
    table: PackedTable
    sections: Sequence[PackedSection]
    body: bytes
    rows: int


@dataclass(eq=False)
class Read:
    """What of several reports can be kept; `silent`: rows of each report that count nothing."""

    batch: Batch
    silent: NDArray[np.int64]


def split(body: bytes, tables: PackedTables, node: str | None = None) -> Packed:
    """Check the layout of a plain body, of a sender bound to `node`. Raises `BadRequest`."""
    if len(body) < HEADER.size or body[: len(MAGIC)] != MAGIC:
        raise BadRequest(f"body: does not begin with a header and {MAGIC!r}: no packed report", field="body")
    _, stream, ordinal, table_length, count = HEADER.unpack_from(body)
    if not 0 < ordinal < 1 << 63:
        raise BadRequest(f"body: ordinal is {ordinal}, must be a positive int64", field="body")
    at = HEADER.size + table_length
    if at + count * SECTION.size > len(body):
        raise BadRequest(f"body: cut off: {len(body)} bytes, a table of {table_length}, {count} sections", field="body")
    if count > SECTIONS_AT_MOST or table_length > TABLE_BYTES_AT_MOST:
        raise BadRequest(
            f"body: {count} sections and a table of {table_length} bytes; at most {SECTIONS_AT_MOST} and "
            f"{TABLE_BYTES_AT_MOST}: send smaller reports",
            field="body",
        )
    table = tables.read(body[HEADER.size : at])
    sections = []
    rows = 0
    for _ in range(count):
        if at + SECTION.size > len(body):
            raise BadRequest("body: section: cut off", field="body")
        section = PackedSection(*(*SECTION.unpack_from(body, at), at + SECTION.size))
        if section.cell_bytes not in CELLS:
            raise BadRequest(f"body: section: {section.cell_bytes} bytes a cell; one of {[*CELLS]}", field="body")
        histograms = section.histograms * _HISTOGRAM_BYTES + section.cells * section.cell_bytes
        at = section.at + histograms + (section.sums + section.gauges) * _NUMBER_BYTES
        if at > len(body):
            raise BadRequest(f"body: section: cut off, {at} bytes are stated and {len(body)} are there", field="body")
        _check_widths(body, section)
        sections.append(section)
        rows += section.rows
    if at != len(body):
        raise BadRequest(f"body: {len(body) - at} bytes are left over after the last section", field="body")
    if rows > ROWS_AT_MOST:
        raise BadRequest(f"body: {rows} points, at most {ROWS_AT_MOST}: send smaller reports", field="body")
    return Packed(StreamIdentity(stream, ordinal, digest_of(body), node), table, sections, body, rows)


def read(reports: Sequence[Packed], bounds: Sequence[Bounds], refusals: Sequence[Refusals]) -> Read:
    """The rows of all reports that can be kept; their owners are the reports' places. What cannot be is refused."""
    columns = _Joined()
    tables = []
    for owner, (report, limits, refused) in enumerate(zip(reports, bounds, refusals, strict=True)):
        if _whole_is_refused(report, limits, refused):
            tables.append(NO_TABLE)
            continue
        tables.append(report.table)
        for section in report.sections:
            try:
                if section.rows:
                    end_ns = (section.window + 1) * WINDOW_NS
                    check_times(f"window {section.window}", end_ns, end_ns, limits)
                    columns.add(owner, report.body, section)
            except Refused as problem:
                refused.add(problem.reason, problem.message, section.rows)
    places = Places(tables)
    silent = np.zeros(len(reports), np.int64)
    histograms, of_histograms = columns.histograms(places, refusals, silent)
    sums, of_sums = columns.numbers(1, places, refusals)
    gauges, of_gauges = columns.numbers(2, places, refusals)
    owners = np.concatenate([of_histograms, of_sums, of_gauges])
    return Read(Batch(Columns(histograms, sums, gauges), [table.table for table in tables], owners), silent)


def _whole_is_refused(report: Packed, bounds: Bounds, refusals: Refusals) -> bool:
    problem = report.table.problem
    if problem is None:
        try:
            check_origin(report.table.origin, bounds)
        except Refused as refused:
            problem = refused.problem
    if problem is None:
        return False
    refusals.add(problem.reason, problem.message, report.rows)
    return True


def _check_widths(body: bytes, section: PackedSection) -> None:
    width = np.frombuffer(body, "<u2", section.histograms, section.at + 6 * section.histograms)
    total = int(np.add.reduce(width, dtype=np.int64))
    if total != section.cells:
        raise BadRequest(f"body: section: widths add up to {total}, there are {section.cells} cells", field="body")


@dataclass(eq=False)
class _Joined:
    """The sections' columns, each as one list of pieces of the bodies."""

    owners: list[int] = field(default_factory=list)
    sections: list[PackedSection] = field(default_factory=list)
    pieces: tuple[list[list[bytes]], ...] = field(
        default_factory=lambda: ([[] for _ in _HISTOGRAM], [[] for _ in _NUMBER], [[] for _ in _NUMBER])
    )
    cells: list[NDArray[Any]] = field(default_factory=list)

    def add(self, owner: int, body: bytes, section: PackedSection) -> None:
        self.owners.append(owner)
        self.sections.append(section)
        at = self._cut(0, body, section.at, _HISTOGRAM_SIZES, section.histograms)
        self.cells.append(np.frombuffer(body, _CELL[section.cell_bytes], section.cells, at))
        at += section.cells * section.cell_bytes
        at = self._cut(1, body, at, _NUMBER_SIZES, section.sums)
        self._cut(2, body, at, _NUMBER_SIZES, section.gauges)

    def _cut(self, kind: int, body: bytes, at: int, sizes: Sequence[int], count: int) -> int:
        """Add the columns that begin at a place of the body; where they end."""
        if count:
            for size, column in zip(sizes, self.pieces[kind], strict=True):
                end = at + size * count
                column.append(body[at:end])
                at = end
        return at

    def histograms(
        self, places: Places, refusals: Sequence[Refusals], silent: NDArray[np.int64]
    ) -> tuple[HistogramRows, NDArray[np.int32]]:
        owner, window = self._of_rows([section.histograms for section in self.sections])
        columns = zip(_HISTOGRAM, self.pieces[0], strict=True)
        metric, labels, low, width, zero, total, minimum, maximum = (
            np.frombuffer(b"".join(pieces), dtype) for dtype, pieces in columns
        )
        found = places.find(owner, metric, labels)
        rows = HistogramRows(
            window,
            found.metric,
            found.labels,
            low.astype(np.int32),
            width.astype(np.int32),
            np.concatenate(self.cells) if self.cells else np.zeros(0, np.uint8),
            zero,
            total,
            minimum,
            maximum,
            np.full(len(owner), RELATIVE_ERROR),
        )
        keep = packed_checks.histograms(rows, owner, found, places, refusals, silent)
        if not keep.all():
            rows, owner = rows.select(keep), owner[keep]
        rows.zero = rows.zero.astype(np.int64)
        return rows, owner

    def numbers(self, kind: int, places: Places, refusals: Sequence[Refusals]) -> tuple[NumberRows, NDArray[np.int32]]:
        owner, window = self._of_rows([section[1 + kind] for section in self.sections])
        columns = zip(_NUMBER, self.pieces[kind], strict=True)
        metric, labels, value = (np.frombuffer(b"".join(pieces), dtype) for dtype, pieces in columns)
        found = places.find(owner, metric, labels)
        rows = NumberRows(window, found.metric, found.labels, value, (window + 1) * WINDOW_NS)
        keep = packed_checks.numbers(rows, kind, owner, found, places, refusals)
        return (rows, owner) if keep.all() else (rows.select(keep), owner[keep])

    def _of_rows(self, counts: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Owner and window of each row."""
        owners = np.array(self.owners, np.int32)
        windows = np.array([section.window for section in self.sections], np.int64)
        return np.repeat(owners, counts), np.repeat(windows, counts)
