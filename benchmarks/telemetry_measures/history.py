"""A day of a fleet loaded with its own times from a file, by `tailwright load`: slices of it, and what they come to."""

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.telemetry_measures.fleet.report_bodies import Report, Template, pool_name, templates
from benchmarks.telemetry_measures.fleet.report_shape import HISTOGRAMS, SERIES
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.session import Session
from controlplane.contract import metrics
from controlplane.contract.metrics import WINDOW_S
from controlplane.telemetry.values.timespan import start_of

NODES, QUICK_NODES = 1000, 50
REPORTS, QUICK_REPORTS = 60, 20
"""Reports of each node in a slice."""
DAY_S, FINEST_KEPT_S = 86_400, 8 * 3600
POINTS_S = (60, 10)
OLD_H, NEW_H = (20, 22), (1, 3)
"""How many hours ago the slices ended, of each of `POINTS_S`: before the finest level is kept, and since."""
VARIANTS = 96
LIMIT_S = 1800.0


@dataclass(frozen=True)
class Slice:
    """Some minutes of a fleet's history: a report of each node each `point_s`. age_s: how long ago they ended."""

    point_s: int
    age_s: float
    nodes: int
    reports: int

    @property
    def first_window(self) -> int:
        end = int((time.time() - self.age_s) // 3600 * 3600 // WINDOW_S)
        return end - round(self.reports * self.point_s / WINDOW_S)


@dataclass(frozen=True)
class Loaded:
    """Seconds and CPU seconds; `values`: those of ttft, in the file and counted afterwards."""

    wall_s: float
    service_s: float
    loader_s: float
    file_bytes: int
    database_bytes: int
    values: tuple[int, int]


def measure(session: Session) -> None:
    heading("Loading history")
    nodes, reports = (QUICK_NODES, QUICK_REPORTS) if session.settings.quick else (NODES, REPORTS)
    made = templates(session.settings.seed, VARIANTS, packed=True)
    service = Service(session.nursery, "history", session.cores)
    rows = []
    days = []
    try:
        for point_s, old_h, new_h in zip(POINTS_S, OLD_H, NEW_H, strict=True):
            old, new = (_load(session, service, made, Slice(point_s, h * 3600, nodes, reports)) for h in (old_h, new_h))
            for age_h, found in ((old_h, old), (new_h, new)):
                rows.append(_row(f"{point_s} s, {age_h} h old", found, nodes * reports))
                if found.values[0] != found.values[1]:
                    session.failures.append(f"history: {found.values[0]} values in the file, {found.values[1]} counted")
            per_s = [found.wall_s / (reports * point_s) for found in (old, new)]
            day_s = (per_s[0] * (DAY_S - FINEST_KEPT_S) + per_s[1] * FINEST_KEPT_S) * NODES / nodes
            days.append(f"A day of 1,000 nodes, a point each {point_s} s: {day_s / 60:.1f} minutes (extrapolated).")
        memory = service.memory_bytes()[1]
    finally:
        service.close()
    note(
        f"`tailwright load` of one file of {nodes} nodes' packed reports ({SERIES} histograms and 40 gauges each) in "
        f"the order of time, {reports} reports of each node; service and loader on two cores. The service held "
        f"{memory / 1e6:.0f} MB at most."
    )
    columns = [
        "",
        "s",
        "histograms/s",
        "CPU ms a report: service",
        "loader",
        "file, B",
        "database, B a report",
        "exact",
    ]
    table(columns, rows)
    for day in days:
        note(f"- {day}")


def _row(name: str, found: Loaded, reports: int) -> list[str]:
    return [
        name,
        f"{found.wall_s:.1f}",
        f"{SERIES * reports / found.wall_s:,.0f}",
        figure(1000 * found.service_s / reports),
        figure(1000 * found.loader_s / reports),
        f"{found.file_bytes / reports:.0f}",
        f"{found.database_bytes / reports:.0f}",
        "yes" if found.values[0] == found.values[1] else "NO",
    ]


def _load(session: Session, service: Service, made: list[Template], part: Slice) -> Loaded:
    first = part.first_window
    file = session.nursery.folder / f"history-{part.point_s}-{part.age_s:.0f}.packed"
    values = _write(file, made, part, first)
    progress(f"history: {part.nodes} nodes, {part.reports} points of {part.point_s} s, {file.stat().st_size >> 20} MiB")
    command = [sys.executable, "-m", "controlplane.command.main", "load", str(file), "--server", service.url]
    command += ["--token-file", str(service.data / "admin-token")]
    service_s, loader_s, size = service.child.cpu_s(), _children_s(), service.database_bytes()
    began = time.monotonic()
    subprocess.run(command, check=True, timeout=LIMIT_S, stderr=subprocess.DEVNULL)
    wall_s = time.monotonic() - began
    found = Loaded(
        wall_s,
        service.child.cpu_s() - service_s,
        _children_s() - loader_s,
        file.stat().st_size,
        service.database_bytes() - size,
        (values, _counted(service, first, part)),
    )
    file.unlink()
    progress(f"history: {found.wall_s:.1f} s, CPU {found.service_s:.1f} s and {found.loader_s:.1f} s")
    return found


def _write(file: Path, made: list[Template], part: Slice, first: int) -> int:
    """The file; how many values of ttft it holds."""
    values = 0
    place = HISTOGRAMS.index(metrics.TTFT)
    spacing = round(part.point_s / WINDOW_S)
    with file.open("wb") as out:
        for number in range(part.reports):
            for node in range(part.nodes):
                template = made[(number * 7 + node) % len(made)]
                window = first + (number + 1) * spacing - 1
                body = template.body(Report(node, node, b"-" * 16, number + 1, window))
                out.write(len(body).to_bytes(4, "big"))
                out.write(body)
                values += int(template.counts[place])
    return values


def _counted(service: Service, first: int, part: Slice) -> int:
    start = start_of(first)
    end = start + timedelta(seconds=part.reports * part.point_s)
    found = 0
    for pool in range(10):
        answer = service.client.quantiles("ttft", (0.5,), start=start, end=end, by=("node",), pool=pool_name(pool))
        found += sum(series.count for series in answer.series)
    return found


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
