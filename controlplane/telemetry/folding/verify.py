"""Looks at everything that is stored, and tells what is not as it must be. Changes nothing.

Checked: the database file itself (SQLite); that every pending row and every frame decodes, checksum included, and
speaks of known metrics and label sets; that frames lie within what their level keeps; that each level is the sum of the
finer one, and the fleet's frames that of the nodes'; that what recognises repeats is consistent in itself. All in one
snapshot: a running service neither disturbs it nor is disturbed.
"""

from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, select
from sqlmodel import col

from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry.folding import verify_frames
from controlplane.telemetry.folding.store_finding import Findings
from controlplane.telemetry.folding.verify_frames import Known
from controlplane.telemetry.frames.frame_store import FrameStore, ReadPoint
from controlplane.telemetry.journal import pending
from controlplane.telemetry.reports.stream_identity import LENGTH, SHORT
from controlplane.telemetry.tables import LabelsRow, MetricRow, PendingRow, SeenRow, StreamRow
from controlplane.telemetry.values.columns import Columns, HistogramRows, NumberRows

ROWS_AT_ONCE = 200


@dataclass
class Report:
    """What was looked at, and what was found."""

    findings: Findings = field(default_factory=Findings)
    frames: int = 0
    pending: int = 0
    repeats: int = 0

    @property
    def sound(self) -> bool:
        return not self.findings.all


def verify(database: Database, frames: FrameStore) -> Report:
    report = Report()
    with database.snapshot() as connection:
        if database.is_sqlite:
            for line in connection.exec_driver_sql("PRAGMA quick_check").scalars():
                if line != "ok":
                    report.findings.add(str(database.engine.url.database), str(line))
        known = _known(connection)
        _check_pending(connection, known, report)
        _check_repeats(connection, report)
        moment = ReadPoint(connection, frames.state(connection))
        report.frames = verify_frames.check(moment, frames, known, report.findings)
    return report


def _known(connection: Connection) -> Known:
    metrics = connection.execute(select(col(MetricRow.id), col(MetricRow.kind)))
    query = select(col(LabelsRow.id), col(LabelsRow.fleet_id), col(LabelsRow.block)).order_by(col(LabelsRow.id))
    rows = [(number, number if fleet is None else fleet, block) for number, fleet, block in connection.execute(query)]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Known({number: MetricKind(kind) for number, kind in metrics if number is not None}, *columns.T)


def _check_pending(connection: Connection, known: Known, report: Report) -> None:
    query = select(
        col(PendingRow.id), col(PendingRow.first_window), col(PendingRow.last_window), col(PendingRow.points)
    ).execution_options(yield_per=ROWS_AT_ONCE)
    for number, first, last, points in connection.execute(query):
        report.pending += 1
        place = f"pending row {number}"
        try:
            columns = pending.decode(bytes(points))
        except pending.Damaged as damaged:
            report.findings.add(place, str(damaged))
            continue
        for problem in _problems(columns, first, last, known):
            report.findings.add(place, problem)


def _problems(columns: Columns, first: int, last: int, known: Known) -> list[str]:
    problems = []
    parts: list[tuple[HistogramRows | NumberRows, MetricKind]] = [
        (columns.histograms, MetricKind.HISTOGRAM),
        (columns.sums, MetricKind.SUM),
        (columns.gauges, MetricKind.GAUGE),
    ]
    for rows, kind in parts:
        if not len(rows):
            continue
        if rows.window.min() < first or rows.window.max() > last:
            problems.append(f"{kind.value}s of other windows than {first} to {last}")
        problems += known.problems(kind, np.unique(rows.metric).tolist(), rows.labels)
    histograms = columns.histograms
    if histograms.width.sum() != len(histograms.cells):
        problems.append(f"{len(histograms.cells)} buckets, the widths say {histograms.width.sum()}")
    if len(histograms) and int((histograms.low + histograms.width).max()) > AXIS_LENGTH:
        problems.append("buckets beyond the end of the axis")
    return problems


def _check_repeats(connection: Connection, report: Report) -> None:
    seen = select(col(SeenRow.end_ns), col(SeenRow.resource), col(SeenRow.start_ns), col(SeenRow.hashes))
    for end_ns, resource, start_ns, hashes in connection.execute(seen.execution_options(yield_per=ROWS_AT_ONCE)):
        report.repeats += 1
        place = f"seen points of {start_ns} to {end_ns} ns, resource {resource}"
        if len(hashes) % 8:
            report.findings.add(place, f"{len(hashes)} bytes are no list of 64-bit hashes")
        elif len(np.unique(np.frombuffer(hashes, "<i8"))) != len(hashes) // 8:
            report.findings.add(place, "a point is in it twice")
    streams = select(col(StreamRow.stream), col(StreamRow.high), col(StreamRow.digests))
    for stream, high, digests in connection.execute(streams.execution_options(yield_per=ROWS_AT_ONCE)):
        report.repeats += 1
        newest = digests[-SHORT:]
        if high < 1 or len(digests) % SHORT or len(digests) > min(LENGTH, SHORT * high) or not any(newest):
            report.findings.add(
                f"stream {bytes(stream).hex()}", f"{len(digests)} bytes do not tell of reports up to {high}"
            )
