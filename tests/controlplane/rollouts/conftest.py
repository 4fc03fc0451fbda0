"""A pool of simulated nodes in the real registry, whose telemetry stays in memory."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlmodel import Session, col, select

import controlplane.fleet.tables
import controlplane.keys.tables
import controlplane.ledger.tables
import controlplane.rollouts.hooks.tables
import controlplane.rollouts.policies.tables
import controlplane.rollouts.tables  # noqa: F401
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, NodeView
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MAX, AXIS_MIN
from controlplane.db.database import Database
from controlplane.evidence.sketch import Sketch
from controlplane.fleet import store as fleet_store
from controlplane.fleet.tables import NodeRow
from controlplane.rollouts.controller import RolloutController
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.made_tables import create_tables

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


def sketch_of(values: "np.ndarray[Any, np.dtype[np.float64]]") -> Sketch:
    """Values in seconds on the contract's axis."""
    sketch = Sketch()
    if len(values):
        index = np.clip(np.ceil(np.log2(values) * 32).astype(int) - 1, AXIS_MIN, AXIS_MAX) - AXIS_MIN
        sketch.counts = np.bincount(index, minlength=AXIS_LENGTH).astype(np.int64)
        sketch.minimum, sketch.maximum = float(values.min()), float(values.max())
    return sketch


class Fleet:
    """Nodes that do what the registry wants of them, unless told to be broken, and that report latencies."""

    def __init__(self, database: Database, telemetry: FakeReader, seed: int = 0) -> None:
        self.database = database
        self.telemetry = telemetry
        self.rng = np.random.default_rng(seed)
        self.stuck: set[str] = set()  # Acknowledge nothing and change nothing.
        self.echoing: set[str] = set()  # Acknowledge as applied, and change nothing.
        self.failing: set[str] = set()  # Say that they could not apply it.
        self.factor: dict[int, float] = {}  # Revision to how much slower it is.
        self.node_factor: dict[str, float] = {}  # Node to how much slower it is, whatever it runs.
        self.error_share: dict[int, float] = {}
        self.lost_slowest: dict[
            int, tuple[str, float]
        ] = {}  # Revision to how it loses its slowest requests, and which.
        self.numbers: dict[int, int] = {}
        self.declared: dict[str, Any] = {}  # Knobs that every node declares, as it tells them.

    def add(self, *names: str, pool: str = "chat", role: str = "serving") -> None:
        with self.database.session() as session:
            for name in names:
                row = fleet_store.place(session, name, pool=pool, role=role, backend="embedded", now=START)
                row.connected = row.healthy = True
                session.add(row)

    def revision(self, max_num_seqs: int) -> int:
        """The number of a revision with this setting."""
        with self.database.session() as session:
            wanted = RevisionCreate(knobs={"max_num_seqs": max_num_seqs})
            return fleet_store.create_revision(session, wanted, "test", START).number

    def put_in_production(self, number: int, pool: str = "chat") -> None:
        with self.database.session() as session:
            fleet_store.set_pool_revision(session, pool, number, START)
        self.apply()

    def apply(self) -> None:
        """Let every connected node do what it should."""
        with self.database.session() as session:
            for view in fleet_store.nodes(session):
                row = session.get_one(NodeRow, view.node)
                wish = fleet_store.wish_of(session, row)
                if not row.connected or wish is None or row.node in self.stuck:
                    continue
                revision = wish.revision
                row.config_hash = wish.hash
                failing = row.node in self.failing and revision.number != 1
                row.config_status = (ConfigStatus.FAILED if failing else ConfigStatus.APPLIED).value
                row.config_error = "out of memory" if failing else ""
                if not failing and row.node not in self.echoing:
                    about = {"declared": self.declared} if self.declared else {}
                    runs = revision.knobs.knobs()
                    row.effective = {"revision": revision.number, "knobs": runs, "sources": {}, **about}
                session.add(row)

    def change(self, node: str, **values: Any) -> None:
        with self.database.session() as session:
            row = session.get_one(NodeRow, node)
            for name, value in values.items():
                setattr(row, name, value)
            session.add(row)

    def views(self, pool: str = "chat") -> list[NodeView]:
        with self.database.session() as session:
            return fleet_store.nodes(session, pool=pool)

    def running(self) -> dict[str, int]:
        return {view.node: view.effective.revision for view in self.views() if view.effective is not None}

    def production(self, pool: str = "chat") -> int | None:
        with self.database.session() as session:
            return fleet_store.pool_revision(session, pool)

    def serve(
        self,
        time: datetime,
        *,
        rate: float = 3.0,
        tokens: int = 20,
        labelled: bool = True,
        views: Sequence[NodeView] | None = None,
    ) -> None:
        """One window of traffic: request latencies are lognormal, times the factor of the revision that runs.

        views: the nodes, where the caller knows that nothing of them has changed.
        """
        for view in self.views() if views is None else views:
            if not view.connected or view.role != "serving" or view.effective is None:
                continue
            node, revision = view.node, view.effective.revision
            requests = int(self.rng.poisson(rate * 5))
            factor = self.factor.get(revision, 1.0) * self.node_factor.get(node, 1.0)
            labels = {"node": node, "pool": "chat", "prompt_bucket": "<=128"}
            if labelled:
                labels["revision"] = str(revision)
            draw = self.rng.normal
            base = factor * np.exp(0.5 * draw(size=requests))
            reason, share = self.lost_slowest.get(revision, ("error", 0.0))
            lost = int(self.rng.binomial(requests, share))
            base, requests = np.sort(base)[: requests - lost], requests - lost
            self.telemetry.add("requests", time, lost, **labels, finish_reason=reason)
            for metric, scale in (("ttft", 0.1), ("e2e", 1.0), ("tpot", 0.02)):
                self.telemetry.add(metric, time, sketch_of(scale * base), **labels)
            slow = np.repeat(np.exp(0.2 * draw(size=requests)), tokens)
            gaps = 0.02 * factor * slow * np.exp(0.3 * draw(size=requests * tokens))
            self.telemetry.add("itl", time, sketch_of(gaps), **labels)
            self.telemetry.add("delivered_tokens", time, requests * tokens, **labels)
            failed = int(self.rng.binomial(requests, self.error_share.get(revision, 0.0)))
            self.telemetry.add("requests", time, requests - failed, **labels, finish_reason="stop")
            self.telemetry.add("requests", time, failed, **labels, finish_reason="error")


@pytest.fixture
def start() -> datetime:
    return START


@pytest.fixture
def make_sketch() -> Callable[..., Sketch]:
    return sketch_of


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """SQLite, or what an indirect parameter says: "postgresql" gives a schema of its own where there is a server."""
    if getattr(request, "param", "sqlite") == "sqlite":
        found = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    else:
        found = Database(request.getfixturevalue("postgres_schema_url"))
    create_tables(found)
    yield found
    found.close()


@pytest.fixture
def telemetry() -> FakeReader:
    return FakeReader()


@pytest.fixture
def fleet(database: Database, telemetry: FakeReader) -> Fleet:
    return Fleet(database, telemetry)


@pytest.fixture
def tick(database: Database, telemetry: FakeReader) -> Callable[[datetime], None]:
    """The controller's, by a new one each time."""
    return lambda now: RolloutController(database, telemetry, lambda: None).tick(now)


@pytest.fixture
def ledger_kinds(database: Database) -> Callable[[], list[str]]:
    """The kinds of all ledger entries about rollouts, oldest first."""

    def read() -> list[str]:
        from controlplane.ledger.tables import LedgerRow

        with Session(database.engine) as session:
            query = select(LedgerRow.kind).where(col(LedgerRow.kind).startswith("rollout.")).order_by(col(LedgerRow.id))
            return list(session.exec(query))

    return read


@pytest.fixture
def ledger(database: Database) -> Callable[[], list[Any]]:
    """All ledger entries about rollouts, oldest first."""

    def read() -> list[Any]:
        from controlplane.ledger.tables import LedgerRow

        with Session(database.engine) as session:
            query = select(LedgerRow).where(col(LedgerRow.kind).startswith("rollout.")).order_by(col(LedgerRow.id))
            return list(session.exec(query))

    return read
