"""What a kind of alert rule is to the evaluator: the seam behind which each kind stands.

A kind's object lives as long as the evaluator, in one thread. In each tick it is asked to `read` in the tick's snapshot
of the database, then, once telemetry has data, to `prepare`, outside of any transaction; then to `judge` each job.

Invariants, which tests/controlplane/alerts/conditions/test_kinds.py holds each kind to:

- Judging writes nothing and leaves the job as it was. All memory is in the state that it returns, which is JSON: what
  the object keeps besides is a cache. The same job judged again, or by an object made anew, finds the same; its figures
  may differ by how old a baseline is.
- Findings are in the order of event time. Their labels say `kind` and `pool`, and whatever else tells one thing from
  another: they are the alert's identity.
- A breach says what is wrong in a sentence, and in its evidence (`error_rate.statement`) how sure that is.
- What cannot be read fails one job, or is None: it is judged when it can be. No reading fails the other kinds.
- A default condition passes `check`; what fails it is a `BadRequest` that names the field.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel
from sqlmodel import Session

from controlplane.alerts.conditions.finding import Finding
from controlplane.alerts.tables import AlertRow, DetectorStateRow
from controlplane.alerts.windows.history import Where
from controlplane.contract.bodies.alerts import AlertRule, AlertState
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.rollouts import Rollout
from controlplane.contract.metrics import NODE, POOL, WINDOW_S
from controlplane.db.database import Database
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import TelemetryReader

C = TypeVar("C", bound=BaseModel)

CATCH_UP_S = 3600.0
"""After a longer absence only so much of what was missed is judged."""


class Scope(StrEnum):
    """What one job is about."""

    POOL = "pool"  # One pool of the rule, by the windows of telemetry that are new.
    FLEET = "fleet"  # All pools of the rule at once, by what is known now, whether or not there is telemetry.


RolloutsWaiting = Callable[[Session], Sequence[Rollout]]
"""Those that wait for somebody."""


@dataclass(frozen=True)
class Sources:
    """Where kinds read. finest_kept_s: how long telemetry keeps windows of `WINDOW_S`; width_s: how wide the windows
    are that it has of the time that is judged (of a past, only wider ones may be left); rollouts: those that wait for
    somebody, None where nobody can tell."""

    database: Database
    telemetry: TelemetryReader
    finest_kept_s: float
    width_s: float = WINDOW_S
    rollouts: RolloutsWaiting | None = None


@dataclass
class Snapshot:
    """What the database said at the start of a tick, and the pools that have anything to judge."""

    rules: list[tuple[AlertRule, int]]
    nodes: list[NodeView]
    states: dict[tuple[int, str], DetectorStateRow]
    alerts: list[AlertRow]
    pools: set[str] = field(default_factory=set)

    @cached_property
    def by_pool(self) -> dict[str, list[NodeView]]:
        found: dict[str, list[NodeView]] = {}
        for node in self.nodes:
            found.setdefault(node.pool, []).append(node)
        return found

    @cached_property
    def serving(self) -> list[NodeView]:
        return [node for node in self.nodes if node.role is NodeRole.SERVING]

    def where(self, pool: str) -> Where:
        """The filter for a pool's serving traffic: trial nodes that share its name are left out."""
        here = self.by_pool.get(pool, [])
        where: dict[str, str | list[str]] = {POOL.label: pool}
        if any(node.role is NodeRole.TRIAL for node in here):
            where[NODE.label] = [node.node for node in here if node.role is NodeRole.SERVING]
        return where


@dataclass(frozen=True)
class Job(Generic[C]):
    """One rule on one of the `pools` pools that it is judged on, as read at the start of a tick."""

    kind: "Kind[C]"
    rule: AlertRule
    version: int
    pool: str
    pools: int
    position: datetime | None
    state: dict[str, Any]
    open_alerts: dict[str, AlertRow]

    @property
    def condition(self) -> C:
        return cast(C, self.rule.condition)

    def since(self, end: datetime) -> datetime:
        """From when on windows are new; at a rule's first tick the last one is."""
        start = self.position or end - timedelta(seconds=WINDOW_S)
        return max(start, end - timedelta(seconds=CATCH_UP_S))

    def alert(self, labels: Mapping[str, str]) -> AlertRow | None:
        """The open alert about this, if there is one."""
        return next((row for row in self.open_alerts.values() if row.labels == labels), None)

    def is_firing(self, labels: Mapping[str, str]) -> bool:
        row = self.alert(labels)
        return row is not None and row.state == AlertState.FIRING.value


@dataclass(frozen=True)
class Findings:
    """What came of one job, and the state after it. entries: for the ledger, about the rule."""

    found: list[Finding]
    state: dict[str, Any] = field(default_factory=dict)
    entries: Sequence[Mapping[str, Any]] = ()


class Look(NamedTuple):
    """What a kind knows of an open alert without asking telemetry: its newest requests, and its reach."""

    recent: Sketch
    reach: frozenset[str]


class Kind(ABC, Generic[C]):
    """See the invariants above. What is not abstract is for the kinds that have a use for it."""

    condition: ClassVar[type[BaseModel]]
    scope: ClassVar[Scope] = Scope.POOL
    threshold_is_limit: ClassVar[bool] = False
    """Whether a finding's threshold is what somebody allowed, not what was normal."""
    dry_run_step_s: ClassVar[float | None] = CATCH_UP_S
    """Over a past it is asked to judge so many seconds at once; None: its past is not kept, so it cannot be tried."""
    seeks_causes: ClassVar[bool] = False
    """Whether a finding without a metric has causes that are worth looking for."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    @classmethod
    def check(cls, condition: C) -> None:
        """Raises `BadRequest` for what the types alone cannot refuse."""
        return

    def read(self, session: Session, conditions: Sequence[C], now: datetime) -> None:
        """Take in what all rules of the kind, those of `conditions`, want of the database."""
        return

    def prepare(self, jobs: Sequence[Job[C]], seen: Snapshot, end: datetime) -> None:
        """Ask telemetry, up to `end`, what many jobs want to know."""
        return

    @abstractmethod
    def judge(self, job: Job[C], seen: Snapshot, end: datetime) -> Findings | None:
        """Findings up to `end`: the end of the newest window, or the present where the scope is the fleet."""

    def forget(self, job: Job[C]) -> None:
        """What was found could not be written: drop what is kept of the job besides its state."""
        return

    def onset(self, job: Job[C], story: Finding, first: datetime, where: Where) -> datetime:
        """When a breach began of which no finding says so; `first`: when it was first seen."""
        return first

    def suspected(self, job: Job[C], labels: Mapping[str, str]) -> frozenset[str]:
        """What else may be in breach when an alert fires, in words: it is told with it."""
        return frozenset()

    def look(self, job: Job[C], labels: Mapping[str, str], end: datetime) -> Look | None:
        """An open alert as it is now; None: nothing is told of this kind's alerts while they are open."""
        return None
