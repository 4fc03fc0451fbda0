"""A service's telemetry store and evaluator, told by the agents' own code what a simulated pool does."""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from sqlalchemy import event
from sqlmodel import SQLModel

import controlplane.alerts.tables
import controlplane.auth.tables
import controlplane.fleet.tables
import controlplane.inbound.tables
import controlplane.ledger.tables
import controlplane.telemetry.tables  # noqa: F401
from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.report import AgentCounts, NodeIdentity, packed
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.request_spans import encode_spans
from benchmarks.attribution_measures.simulated_pool import NODES, Node, World
from controlplane.alerts import store as alert_store
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.alerts.rules.defaults import ensure_default_rules
from controlplane.contract.bodies.alerts import AbsoluteCondition, Alert, AlertRuleCreate
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.channels.inbound import EventCreate
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.db import Database
from controlplane.inbound.store import post_event
from controlplane.telemetry.journal.writer import Body
from controlplane.telemetry.meters import METRICS
from controlplane.telemetry.otlp.bounds import ANYONE
from controlplane.telemetry.store import TelemetryStore

POOL, MODEL = "main", "m"
WORKLOAD_KEY = bytes(32)
StartNode = Callable[[str, np.random.Generator, float], Node]


def slo_rule(limit_s: float) -> AlertRuleCreate:
    """More of what is slow by nature is no regression: it pages where an objective is missed."""
    limits = [Limit(metric="ttft", q=0.95, limit_s=limit_s)]
    return AlertRuleCreate(name="TTFT objective", condition=AbsoluteCondition(limits=limits))


def simulated_node(name: str, chance: np.random.Generator, now_s: float) -> Node:
    node = Node(name, chance)
    node.free = [now_s] * len(node.free)
    return node


@dataclass(frozen=True)
class Nodes:
    """Who serves. limit_s: of TTFT p95, the objective."""

    names: Sequence[str] = NODES
    start: StartNode = simulated_node
    limit_s: float = 0.2


SIMULATED_NODES = Nodes()
START = datetime(2030, 1, 7, 10, 0, tzinfo=UTC)


class Teller:
    """One node and its agent: from events to the bodies of reports."""

    def __init__(self, node: Node, chance: np.random.Generator, pool: str = POOL) -> None:
        self.node = node
        self.identity = NodeIdentity(node.name, pool)
        self.stream = chance.bytes(packed_report.STREAM_BYTES)
        self.accumulator = Accumulator(None, WINDOW_S)
        self.accumulator.hello({"kind": "hello", "boot": self.stream.hex(), "oldest": 1, "model": MODEL})
        self.table, self.ordinal = ReportTable(), 0

    def window(self, start: float, world: World, arrivals: Iterable[float]) -> list[tuple[bytes, bytes]]:
        """Packed reports and spans of one window."""
        for told in self.node.window(start, world, arrivals):
            self.accumulator.count(told)  # type: ignore[arg-type]
        self.accumulator.seal()
        counts, bodies = AgentCounts(host={int(start // WINDOW_S): self.node.host(world)}), []
        for tally in self.accumulator.take():
            self.ordinal += 1
            report = packed(tally, self.identity, self.stream, self.ordinal, counts, self.table)
            bodies.append((packed_report.encode(report), encode_spans(tally, self.identity, WORKLOAD_KEY)))
        return bodies


class ToldService:
    """A database in a folder, at a moment of event time that `serve` moves on."""

    def __init__(self, folder: Path, seed: int, now: float, nodes: Nodes = SIMULATED_NODES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.now_s = now
        self.database = Database(f"sqlite:///{folder / 'tailwright.db'}")
        # A power cut would lose nothing that matters here.
        event.listen(self.database.engine, "connect", lambda made, _: made.execute("PRAGMA synchronous=OFF"))
        SQLModel.metadata.create_all(self.database.engine)
        self.store = TelemetryStore(self.database, self.now)
        self.store.start()
        self.evaluator = AlertEvaluator(self.database, self.store)
        self.chance = np.random.default_rng(seed)
        self.dealt = 0
        chances = self.chance.spawn(len(nodes.names))
        self.tellers = [
            Teller(nodes.start(name, chance, now), chance) for name, chance in zip(nodes.names, chances, strict=True)
        ]
        with self.database.session() as session:
            if ensure_default_rules(session, self.now()):
                alert_store.create_rule(session, slo_rule(nodes.limit_s), self.now())

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, UTC)

    def close(self) -> None:
        self.store.close()
        self.database.close()

    def post_mark(self, lag_s: float) -> None:
        """Others say that they did something so long ago."""
        wanted = EventCreate(kind="deploy", subject="gateway", time=self.now() - timedelta(seconds=lag_s))
        with self.database.session() as session:
            post_event(session, wanted, actor="ci", now=self.now())

    def serve(self, world: World, windows: int, *, judge: bool) -> None:
        for _ in range(windows):
            count = int(self.chance.poisson(world.rate * WINDOW_S))
            arrivals = np.sort(self.now_s + WINDOW_S * self.chance.random(count))
            nodes = len(self.tellers)
            dealt = [arrivals[(place - self.dealt) % nodes :: nodes].tolist() for place in range(nodes)]
            for teller, mine in zip(self.tellers, dealt, strict=True):
                teller.node.expect(self.now_s, world, mine)
            bodies = []
            for teller, mine in zip(self.tellers, dealt, strict=True):
                bodies += teller.window(self.now_s, world, mine)
            self.dealt += count
            self.now_s += WINDOW_S
            asyncio.run(self._ingest(bodies))
            if judge:
                self.store.tick(self.now())
                self.evaluator.tick(self.now())

    async def _ingest(self, bodies: list[tuple[bytes, bytes]]) -> None:
        bounds = self.store.bounds(ANYONE, identified=True)
        written = [self.store.writer.written(METRICS, Body(report, "", bounds)) for report, _ in bodies]
        spans = [self.store.intake.traces(one, "", PROTOBUF, ANYONE) for _, one in bodies if one]
        for outcome in await asyncio.gather(*written, *spans):
            assert outcome.accepted and not outcome.refusals.count, (outcome, outcome.refusals.messages)

    def alerts(self) -> list[Alert]:
        """Those that have fired, the oldest first."""
        with self.database.read_session() as session:
            found = alert_store.alerts(session, before_id=None, limit=100)
        return sorted((alert for alert in found if alert.fired_at is not None), key=lambda alert: alert.id)


def copied(past: Path, folder: Path) -> None:
    """A service's database, of one that is closed."""
    folder.mkdir(parents=True)
    shutil.copy(past / "tailwright.db", folder / "tailwright.db")
