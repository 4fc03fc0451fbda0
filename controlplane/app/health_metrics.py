"""The service's own health in /metrics: its background work, its database, the fleet and alerts as it knows them.

Guarantee: computed once in a few seconds however often it is scraped; names of nodes, requests or rules are never in
it. What cannot be read is absent, and the mode that says so is 1.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col

from controlplane.alerts.tables import AlertRow
from controlplane.app import allocation
from controlplane.app.background import Background
from controlplane.auth.turned_away import Reason, TurnedAway
from controlplane.contract.bodies.alerts import OURS, AlertState, Severity
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.db.database import Database
from controlplane.db.database_size import database_bytes
from controlplane.db.disk_space import DiskSpace
from controlplane.fleet.tables import NodeRow
from controlplane.keys.key_command import ACTIONS, OUTCOMES, KeyCommand
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.tls import ServerTls
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.queries.exposition import Remembered
from controlplane.telemetry.store import TelemetryStore

logger = logging.getLogger(__name__)

NODE_STATES = ("healthy", "degraded", "unhealthy", "offline")
DEGRADED = "tailwright_degraded"
OPEN = (AlertState.PENDING, AlertState.FIRING)


@dataclass(eq=False)
class ServiceHealth(Remembered):
    """exporters: those that are configured; tls: None without TLS; key_command: None where keys are in clear."""

    database: Database
    background: Background
    exporters: Sequence[Exporter]
    telemetry: TelemetryStore
    disk: DiskSpace
    door: Doorkeeper
    turned_away: TurnedAway
    version: str
    tls: ServerTls | None = None
    key_command: KeyCommand | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def look(self) -> Iterable[Metric]:
        yield _gauge("tailwright_build_info", "1, with the version as a label.", ["version"], [((self.version,), 1.0)])
        yield from _ticks(self.background)
        refused = CounterMetricFamily(
            "tailwright_http_refused", "Connections and requests that were not served, by reason.", labels=["reason"]
        )
        for reason in Refused:
            refused.add_metric([reason.value], self.door.refused[reason])
        yield refused
        turned_away = CounterMetricFamily(
            "tailwright_auth_refused",
            "Requests and log-ins without the token they want, or by a method that there is not, by reason.",
            labels=["reason"],
        )
        for why in Reason:
            turned_away.add_metric([why.value], self.turned_away.counts[why])
        yield turned_away
        if self.key_command is not None:
            asked = CounterMetricFamily(
                "tailwright_key_command",
                "How often the command that wraps keys of secrets was run, by what for and how it ended.",
                labels=["action", "outcome"],
            )
            for action, outcome in product(ACTIONS, OUTCOMES):
                asked.add_metric([action, outcome], self.key_command.counts[action, outcome])
            yield asked
        if self.tls is not None:
            yield from _certificates(self.tls)
        if (heaps := allocation.heaps()) is not None:
            yield _gauge(
                "tailwright_heap_bytes",
                "Bytes of the C library's heaps: used, and free but kept for what comes next.",
                ["state"],
                [(("used",), float(heaps.used)), (("kept",), float(heaps.kept))],
            )
        open_ = float(self.door.open.total())
        yield _gauge("tailwright_http_connections", "HTTP connections that are open.", [], [((), open_)])
        try:
            found = list(self._of_database())
            database_failing = 0.0
        except SQLAlchemyError:
            logger.exception("the database could not be read")
            found, database_failing = [], 1.0
        yield from found
        space = self.disk.look()
        if space is not None:
            yield _gauge(
                "tailwright_disk_free_bytes",
                "Bytes free where the database's file is.",
                [],
                [((), float(space.free_bytes))],
            )
        modes = {
            ("database_unreadable",): database_failing,
            ("telemetry_not_written",): float(not self.telemetry.ready() or bool(self.telemetry.write_fault())),
            ("frames_unavailable",): float(bool(self.telemetry.frames.fault())),
            ("disk_low",): float(space is not None and space.low),
            ("background_task_failing",): float(any(tick.failing for tick in self.background.ticks)),
            **{(f"export_{exporter.name}",): float(bool(exporter.error)) for exporter in self.exporters},
        }
        if self.tls is not None:
            modes["tls_file_unusable",] = float(bool(self.tls.faults))
            modes["revocation_list_ended",] = float(self.tls.list_has_ended)
        yield _gauge(DEGRADED, "1 while the service runs in this reduced way.", ["mode"], modes.items())

    def _of_database(self) -> Iterable[Metric]:
        with self.database.read_session() as session:
            size = database_bytes(session)
            told = col(NodeRow.health_detail) != ""
            nodes = session.execute(
                select(col(NodeRow.role), col(NodeRow.connected), col(NodeRow.healthy), told, func.count()).group_by(
                    col(NodeRow.role), col(NodeRow.connected), col(NodeRow.healthy), told
                )
            ).all()
            alerts = session.execute(
                select(col(AlertRow.state), col(AlertRow.severity), func.count())
                .where(col(AlertRow.source) == OURS, col(AlertRow.state).in_([state.value for state in OPEN]))
                .group_by(col(AlertRow.state), col(AlertRow.severity))
            ).all()
        yield _gauge("tailwright_database_size_bytes", "Bytes of the database.", [], [((), float(size))])
        if self.database.is_sqlite:
            log = Path(f"{self.database.engine.url.database}-wal")
            log_size = float(log.stat().st_size) if log.exists() else 0.0
            yield _gauge(
                "tailwright_database_log_size_bytes", "Bytes of SQLite's write-ahead log.", [], [((), log_size)]
            )
        states: Counter[tuple[str, str]] = Counter()
        for role, connected, healthy, detail, number in nodes:
            states[role, _state(connected, healthy, detail)] += number
        known = [(role.value, state) for role in NodeRole for state in NODE_STATES]
        yield _gauge(
            "tailwright_nodes",
            "Nodes by role and health; degraded: healthy, and something of it cannot be seen or moved.",
            ["role", "state"],
            [(key, float(states[key])) for key in known],
        )
        counts = {(state, severity): float(number) for state, severity, number in alerts}
        every = [(state.value, severity.value) for state in OPEN for severity in Severity]
        yield _gauge(
            "tailwright_alerts",
            "Alerts that are open, by state and severity.",
            ["state", "severity"],
            [(key, counts.get(key, 0.0)) for key in every],
        )


_Values = Iterable[tuple[tuple[str, ...], float]]


def _state(connected: bool, healthy: bool, detail: bool) -> str:
    if not connected:
        return "offline"
    if not healthy:
        return "unhealthy"
    return "degraded" if detail else "healthy"


def _certificates(tls: ServerTls) -> Iterable[Metric]:
    failures = CounterMetricFamily(
        "tailwright_tls_file_failures", "Replaced certificates and lists that could not be used.", labels=["file"]
    )
    ends = tls.ends()
    for file in ends:
        failures.add_metric([file], tls.failures[file])
    yield failures
    yield _gauge(
        "tailwright_tls_certificate_end_timestamp_seconds",
        "When the certificate or the list that is in use ends, since the epoch, by setting.",
        ["file"],
        [((file,), end) for file, end in ends.items()],
    )


def _ticks(background: Background) -> Iterable[Metric]:
    runs = CounterMetricFamily("tailwright_background_runs", "Runs of a background task.", labels=["task"])
    failures = CounterMetricFamily("tailwright_background_failures", "Runs that failed.", labels=["task"])
    failing = GaugeMetricFamily(
        "tailwright_background_failing",
        "1 while the last run has failed, or the present one does not end.",
        labels=["task"],
    )
    running = GaugeMetricFamily(
        "tailwright_background_running_seconds", "How long the present run has been going on.", labels=["task"]
    )
    took = GaugeMetricFamily("tailwright_background_last_duration_seconds", "How long it last took.", labels=["task"])
    ran = GaugeMetricFamily(
        "tailwright_background_last_run_timestamp_seconds", "When its last run began, since the epoch.", labels=["task"]
    )
    for tick in background.ticks:
        runs.add_metric([tick.name], tick.runs)
        failures.add_metric([tick.name], tick.failures)
        failing.add_metric([tick.name], float(tick.failing))
        running.add_metric([tick.name], tick.running_s)
        if tick.last_run is not None:
            took.add_metric([tick.name], tick.last_duration_s)
            ran.add_metric([tick.name], tick.last_run.timestamp())
    return [runs, failures, failing, running, took, ran]


def _gauge(name: str, text: str, labels: list[str], values: _Values) -> GaugeMetricFamily:
    found = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        found.add_metric(key, value)
    return found
