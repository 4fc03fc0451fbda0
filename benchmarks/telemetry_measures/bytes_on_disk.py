"""Bytes of a histogram on disk, once the hour is folded and the log is checkpointed; Prometheus's blocks beside it."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_measures.report import figure, heading, note, table
from benchmarks.telemetry_measures.fleet.report_bodies import occupancy
from benchmarks.telemetry_measures.fleet.report_shape import BUCKETS, GAUGES, SERIES
from benchmarks.telemetry_measures.loaded_hour import LoadedHour
from benchmarks.telemetry_measures.service import await_folded
from benchmarks.telemetry_measures.session import Session, verdict

GOAL = 60.0
ASKED_S = 10


@dataclass(frozen=True)
class Level:
    """Payload bytes of one resolution: of histogram frames by node, of the fleet's own rows, and of gauges and sums."""

    resolution_s: int
    by_node: int
    fleet: int
    numbers: int


@dataclass(frozen=True)
class Stored:
    levels: list[Level]
    frames_bytes: int
    table_bytes: int
    file_bytes: int

    @property
    def overhead(self) -> float:
        """Pages of the frame table over the frames in them: what the file adds to each byte."""
        return self.table_bytes / max(1, self.frames_bytes)


def measure(session: Session) -> None:
    heading("Bytes of a histogram on disk")
    hour = session.hour
    await_folded([hour.service])
    hour.service.stop()
    stored = read(hour.service.data / "tailwright.db")
    hour.service.start()
    values, occupied, width = occupancy(session.settings.seed)
    rows = []
    asked = float("nan")
    for level in stored.levels:
        windows = max(1.0, hour.intervals * 10 / max(level.resolution_s, 10))
        histograms = hour.nodes * SERIES * windows
        each = [part * stored.overhead / histograms for part in (level.by_node, level.fleet)]
        if level.resolution_s == ASKED_S:
            asked = sum(each)
        numbers = level.numbers * stored.overhead / (hour.nodes * len(GAUGES) * windows)
        rows.append([f"{level.resolution_s} s", f"{histograms:,.0f}", *map(figure, (*each, sum(each), numbers))])
    note(
        f"{hour.nodes} nodes in {hour.plan.pools} pools, each with 60 histograms and 40 gauges each 10 s, "
        f"{hour.intervals * 10 // 60} minutes, "
        f"all folded, log checkpointed. A histogram holds {values:.0f} values in {occupied:.0f} occupied buckets that "
        f"span {width:.0f}, and sum, minimum and maximum. Bytes are those of the frames times what the database's "
        f"pages add to them ({stored.overhead:.3f})."
    )
    table(
        ["resolution", "histograms", "bytes each, by node", "fleet's own rows", "together", "bytes a gauge"],
        rows,
    )
    if hour.rival is not None:
        theirs = _rival_bytes(hour)
        note(f"- Prometheus, 15 classic buckets, sum and count, compacted blocks: {figure(theirs)} bytes a histogram.")
    else:
        note(f"- Prometheus: not measured: {hour.rival_missing.splitlines()[0]}")
    whole = stored.file_bytes / (hour.histograms)
    note(f"- The whole database file, every level, gauges and all else: {figure(whole)} bytes a histogram reported.")
    note(
        f"At {ASKED_S} s, sum, minimum and maximum included: {figure(asked)} bytes; goal {GOAL:g}: "
        f"**{verdict(asked <= GOAL)}**."
    )


def _rival_bytes(hour: LoadedHour) -> float:
    return hour.prometheus_bytes / (hour.nodes * len(BUCKETS) * hour.intervals)


def read(file: Path) -> Stored:
    """Of a database that nobody has open. The log is checkpointed into it first."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        kinds = (
            "SELECT f.resolution, "
            "sum(CASE WHEN m.kind = 'histogram' AND f.block >= 0 THEN length(f.frame) ELSE 0 END), "
            "sum(CASE WHEN m.kind = 'histogram' AND f.block < 0 THEN length(f.frame) ELSE 0 END), "
            "sum(CASE WHEN m.kind <> 'histogram' THEN length(f.frame) ELSE 0 END) "
            "FROM telemetry_frame f JOIN telemetry_metric m ON m.id = f.metric GROUP BY 1 ORDER BY 1"
        )
        levels = [Level(*row) for row in connection.execute(kinds)]
        frames = connection.execute("SELECT coalesce(sum(length(frame)), 0) FROM telemetry_frame").fetchone()[0]
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        try:
            size = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'telemetry_frame'").fetchone()[0]
        except sqlite3.OperationalError:
            # A build of SQLite without dbstat: the whole file, which is a little more than the table.
            size = page * pages
    return Stored(levels, frames, size, file.stat().st_size)
