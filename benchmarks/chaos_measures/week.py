"""A week in compressed time: the product's own store, evaluator and retention, driven by a clock of its own.

One process, no HTTP: reports go to the store's writer as the receiver hands them over, and every periodic deed of the
service is done once a step with the time of the simulation. What is acknowledged is counted beside, by hour, and asked
for again: the count of each hour that must still be there is exact, and nothing older than its age is kept.
"""

import asyncio
import json
import random
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.telemetry_measures.fleet.report_bodies import node_name, pool_name
from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract import metrics
from controlplane.contract.histogram import axis_position
from controlplane.contract.metrics import TTFT, WINDOW_S, MetricKind
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section
from controlplane.telemetry import Question, Span
from controlplane.telemetry.frames.frame_store import ReadPoint
from controlplane.telemetry.journal.writer import Body
from controlplane.telemetry.meters import METRICS
from controlplane.telemetry.otlp.bounds import Sender
from controlplane.telemetry.values.timespan import start_of, to_ns

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
RETENTION_HOURS = {5: 2, 10: 6, 60: 12, 300: 18, 3600: 24}
"""By width of windows in seconds: so short that everything has come and gone within a day and an hour."""
POOLS = 2
VALUES = 20
"""Of each histogram of a report: lognormal, the same distribution all week, so that an alarm is a false one."""
_SHOWN = {metrics.TTFT: 0.2, metrics.ITL: 0.03, metrics.E2E: 2.0, metrics.QUEUE: 0.05}
"""Histograms of a report, with the median in seconds."""
_SIGMA = 0.5
Shown = tuple[tuple[PackedHistogram, ...], tuple[PackedNumber, ...]]
_HOUR_S, _DAY_S = 3600, 86400
_CHECK_HOURS = 6
_VARIANTS = 64


@dataclass(frozen=True)
class Day:
    """At its end. bytes: of the database and its side files; oldest_h: age of the oldest window kept, by width."""

    number: int
    resident_mib: float
    database_mib: float
    rows: dict[str, int]
    oldest_h: dict[int, float]
    alerts: int
    took_s: float


@dataclass
class Outcome:
    nodes: int
    days: int
    interval_s: int
    seed: int
    seconds: float = 0.0
    reports: int = 0
    hours_checked: int = 0
    wrong: list[str] = field(default_factory=list)
    each: list[Day] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        return not self.wrong and not any(self.failures.values())

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


async def run(folder: Path, nodes: int, days: int, interval_s: int, seed: int) -> Outcome:
    """interval_s: of reports and of all periodic deeds, in simulated seconds; divides an hour."""
    outcome = Outcome(nodes, days, interval_s, seed)
    now = [BEGAN]
    hours = RETENTION_HOURS
    settings = ServiceSettings(
        data_dir=folder,
        port=7300,
        log_level="warning",
        retention_hours=hours[3600],
        retention_5s_hours=hours[5],
        retention_10s_hours=hours[10],
        retention_1m_days=hours[60] / 24,
        retention_5m_days=hours[300] / 24,
        retention_1h_days=hours[3600] / 24,
    )
    service = Service.of(create_app(settings, lambda: now[0]))
    service.telemetry.start()
    week = _Week(service, outcome, seed)
    began = day_began = time.monotonic()
    try:
        for step in range(1, days * _DAY_S // interval_s + 1):
            now[0] = BEGAN + timedelta(seconds=step * interval_s)
            await week.report(now[0], step)
            await asyncio.to_thread(week.tick, now[0])
            passed_s = step * interval_s
            if passed_s % (_CHECK_HOURS * _HOUR_S) == 0:
                await asyncio.to_thread(week.check, now[0])
            if passed_s % _DAY_S == 0:
                day = week.day(now[0], passed_s // _DAY_S, time.monotonic() - day_began)
                day_began = time.monotonic()
                progress(f"week: day {day.number}, {day.resident_mib:.0f} MiB, file {day.database_mib:.0f} MiB")
    finally:
        outcome.seconds = time.monotonic() - began
        service.telemetry.close()
        service.deliverer.close()
        service.database.close()
    outcome.failures = {tick.name: tick.failures for tick in service.background.ticks}
    return outcome


class _Week:
    def __init__(self, service: Service, outcome: Outcome, seed: int) -> None:
        self._service, self._outcome = service, outcome
        self._drawn = _drawn(seed)
        self._counted: Counter[int] = Counter()
        """Values of ttft acknowledged, by hour since the epoch."""

    async def report(self, now: datetime, step: int) -> None:
        """One report of each node, of windows spread over the interval that ends now."""
        store = self._service.telemetry
        latest = int(now.timestamp() // WINDOW_S) - 1
        spread = max(1, int(self._outcome.interval_s // WINDOW_S))
        works = []
        for node in range(self._outcome.nodes):
            window = latest - node % spread
            body = _body(node, step, Section(window, *self._drawn[(step * 31 + node) % _VARIANTS]))
            bounds = store.bounds(Sender(node_name(node), pool_name(node % POOLS)), identified=True)
            works.append(store.writer.written(METRICS, Body(body, "", bounds)))
            self._counted[int(start_of(window).timestamp() // _HOUR_S)] += VALUES
        for outcome in await asyncio.gather(*works):
            if outcome.refusals.count or outcome.repeated or not outcome.accepted:
                self._outcome.wrong.append(f"{now}: a report was not taken as new: {outcome.refusals.text()}")
        self._outcome.reports += len(works)

    def tick(self, now: datetime) -> None:
        for tick in self._service.background.ticks:
            tick.run(now)

    def check(self, now: datetime) -> None:
        """Counts of all hours that must be there, and that no level keeps what is older than its age."""
        store, wrong = self._service.telemetry, self._outcome.wrong
        first = max(BEGAN, now - timedelta(hours=RETENTION_HOURS[3600]))
        found: Counter[int] = Counter()
        for series in store.histograms(Question(TTFT.short, Span(first, now), step_s=_HOUR_S)):
            for moment, sketch in series.steps:
                found[int(moment.timestamp() // _HOUR_S)] += sketch.count
        for hour in range(int(first.timestamp() // _HOUR_S), int(now.timestamp() // _HOUR_S)):
            self._outcome.hours_checked += 1
            if found[hour] != self._counted[hour]:
                wrong.append(f"{now}: hour {hour} counts {found[hour]} values, {self._counted[hour]} were acknowledged")
        for width, oldest_h in self._oldest_h(now).items():
            # Whole hours go at a time, ten minutes after their age.
            if oldest_h > RETENTION_HOURS[width] + 1 + 1 / 6:
                wrong.append(f"{now}: windows of {width} s are kept for {oldest_h:.2f} h, not {RETENTION_HOURS[width]}")
            if (now - BEGAN).total_seconds() > (RETENTION_HOURS[width] + 1) * _HOUR_S and oldest_h < RETENTION_HOURS[
                width
            ]:
                wrong.append(f"{now}: windows of {width} s are kept for {oldest_h:.2f} h alone")

    def day(self, now: datetime, number: int, took_s: float) -> Day:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert resident is not None
        files = self._service.settings.data_dir.glob("tailwright.db*")
        alerts = sum(
            row["fired"] for row in self._rows("SELECT count(*) AS fired FROM alert WHERE fired_at IS NOT NULL")
        )
        tables = [str(row["name"]) for row in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: int(self._rows(f'SELECT count(*) AS n FROM "{name}"')[0]["n"]) for name in tables}
        made = Day(
            number,
            int(resident[1]) / 1024,
            sum(path.stat().st_size for path in files) / 2**20,
            {name: count for name, count in rows.items() if count},
            self._oldest_h(now),
            alerts,
            took_s,
        )
        self._outcome.each.append(made)
        return made

    def _oldest_h(self, now: datetime) -> dict[int, float]:
        """Hours since the begin of the oldest window kept, by width."""
        store, found = self._service.telemetry, {}
        with self._service.database.snapshot() as connection:
            point = ReadPoint(connection, store.frames.state(connection))
            for width in RETENTION_HOURS:
                oldest = store.frames.oldest(point, width)
                if oldest is not None:
                    found[width] = (to_ns(now) / 1e9 - oldest * width) / _HOUR_S
        return found

    def _rows(self, query: str) -> list[dict[str, int]]:
        from sqlalchemy import text

        with self._service.database.snapshot() as connection:
            return [dict(row) for row in connection.execute(text(query)).mappings()]


def _drawn(seed: int) -> list[Shown]:
    """Histograms and numbers of `_VARIANTS` different reports."""
    rng = random.Random(seed)
    found: list[Shown] = []
    for _ in range(_VARIANTS):
        histograms = []
        for place, median in enumerate(_SHOWN.values()):
            values = [median * rng.lognormvariate(0, _SIGMA) for _ in range(VALUES)]
            at = Counter(axis_position(value) for value in values)
            low, high = min(at), max(at)
            cells = tuple(at[position] for position in range(low, high + 1))
            histograms.append(PackedHistogram(place, 0, low, cells, 0, sum(values), min(values), max(values)))
        found.append((tuple(histograms), (PackedNumber(len(_SHOWN), 0, float(VALUES)),)))
    return found


def _body(node: int, ordinal: int, section: Section) -> bytes:
    report = PackedReport(
        stream=b"week" + node.to_bytes(12, "little"),
        ordinal=ordinal,
        resource={metrics.NODE.name: node_name(node), metrics.POOL.name: pool_name(node % POOLS)},
        metrics=(*((one.name, MetricKind.HISTOGRAM) for one in _SHOWN), (metrics.REQUESTS.name, MetricKind.SUM)),
        labels=({metrics.MODEL.name: "m", metrics.PROMPT_BUCKET.name: "<=512"},),
        sections=(section,),
    )
    return packed_report.encode(report)


def tell(outcome: Outcome) -> None:
    heading("A week in compressed time")
    note(
        f"{outcome.nodes} nodes, {outcome.days} days, a report of each node and every periodic deed each "
        f"{outcome.interval_s} s of simulated time; {outcome.reports:,} reports in {outcome.seconds:.0f} s, seed "
        f"{outcome.seed}. Kept: {', '.join(f'{width} s for {hours} h' for width, hours in RETENTION_HOURS.items())}."
    )
    table(
        [
            "day",
            "resident MiB",
            "files MiB",
            "rows in all",
            "oldest window, h (5 s, 10 s, 1 min, 5 min, 1 h)",
            "alerts",
            "s",
        ],
        [
            [
                *(str(day.number), f"{day.resident_mib:.0f}", f"{day.database_mib:.1f}", f"{sum(day.rows.values()):,}"),
                ", ".join(f"{age:.1f}" for age in day.oldest_h.values()),
                *(str(day.alerts), f"{day.took_s:.0f}"),
            ]
            for day in outcome.each
        ],
    )
    failed = ", ".join(f"{name}: {count}" for name, count in outcome.failures.items() if count) or "none"
    note(f"{outcome.hours_checked} hours' counts compared, {len(outcome.wrong)} wrong; deeds that failed: {failed}.")
    for one in outcome.wrong[:20]:
        note(f"- {one}")
