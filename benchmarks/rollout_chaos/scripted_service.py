"""One process of the service, as far as rollouts go: the controller, and the agents' exchanges. Verdicts are scripted.

It is dropped without any cleanup when it dies; a new one over the same database goes on.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from benchmarks.rollout_chaos.leased_node import POOL
from controlplane.auth import Principal
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.rollouts import RolloutPhase, Verdict
from controlplane.contract.metrics import WINDOW_S
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet import store as fleet
from controlplane.fleet.enrolling.minute_pace import Pace
from controlplane.fleet.opamp import wire
from controlplane.fleet.opamp.hub import EVENTS_A_MINUTE
from controlplane.fleet.opamp.session import Answer, Asked, Came, Terms, answer, offers
from controlplane.rollouts.controller import RolloutController, _Judged, _Snapshot
from controlplane.rollouts.judging.arms import window_ceiling, window_floor
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.rollouts.machine import LAG_S, SETTLE_S
from controlplane.rollouts.tables import RolloutRow
from controlplane.rollouts.view import state_of
from controlplane.telemetry import TelemetryReader

LEASE_S = 100.0
"""Longer than it takes until a silent connection counts as gone, as the real one is."""
TOKEN_DAYS = 30.0


@dataclass(frozen=True)
class Says:
    """What the judge says of the canary, of each wave after it, and of what is watched after it was judged well."""

    canary: Verdict | None = Verdict.NOT_WORSE
    wave: Verdict | None = Verdict.NOT_WORSE
    watched: Verdict | None = Verdict.NOT_WORSE

    def of(self, row: RolloutRow) -> Verdict | None:
        watched = RolloutPhase.SOAKING.value in (row.phase, row.resumes)
        return self.watched if watched else self.wave if state_of(row).is_wave else self.canary


class ScriptedController(RolloutController):
    """The product's but for the judge's verdict: it counts each window that closes, and says what was given."""

    def __init__(self, database: Database, says: Says, poke: Callable[[], None]) -> None:
        super().__init__(database, cast("TelemetryReader", None), poke)  # No telemetry is read.
        self._says = says

    def _judge(self, seen: _Snapshot, now: datetime) -> _Judged | None:
        row = seen.row
        first = first_window(row)
        start, end = row.judged_until or first, window_floor(now - timedelta(seconds=LAG_S))
        if end <= start:
            return None
        plan = plan_of(state_of(row).spec)
        assert plan is not None  # An emergency is not judged.
        judge = Judge.start(plan, control="concurrent") if row.judge is None else Judge.model_validate(row.judge)
        judge.ticks += round((end - start).total_seconds() / WINDOW_S)
        said = self._says.of(row)
        evidence: dict[str, Any] = {
            "verdict": None if said is None else said.value,
            "harmless": said is not Verdict.WORSE,
            "judged_s": (end - first).total_seconds(),
        }
        return _Judged(judge, end, evidence)


def first_window(row: RolloutRow) -> datetime:
    """The start of the first telemetry window that is judged."""
    assert row.judging_since is not None
    return window_ceiling(row.judging_since + timedelta(seconds=SETTLE_S))


class ScriptedService:
    """`tick` is what it does by itself, `exchange` an agent's message, `push` what a connected agent is sent unasked.

    seconds: of the run, which paces what nodes may cause in the ledger; wall: its wall clock.
    """

    def __init__(
        self, database: Database, says: Says, wall: Callable[[], datetime], seconds: Callable[[], float]
    ) -> None:
        self.database = database
        self._wall = wall
        self._terms = Terms(Pace(EVENTS_A_MINUTE, seconds), TOKEN_DAYS, LEASE_S)
        self._controller = ScriptedController(database, says, lambda: None)
        self._told: dict[str, machine.Mark | None] = {}
        self._connections: dict[str, str | None] = {}

    def tick(self) -> None:
        self._controller.tick(self._wall())

    def look_for_silence(self) -> None:
        with self.database.session() as session:
            fleet.expire_silent(session, self._wall())

    def connect(self, node: str, connection: str | None) -> None:
        """connection: the WebSocket's name; None: over HTTP."""
        self._connections[node] = connection
        self._told.pop(node, None)

    def disconnect(self, node: str, *, seen: bool) -> None:
        connection = self._connections.pop(node, None)
        if seen and connection is not None:
            with self.database.session() as session:
                fleet.disconnect(session, connection)

    def redeliver(self, node: str, message: bytes) -> None:
        """A message that was on the way for long, or comes once more; nobody hears the answer."""
        answer(self.database, Asked(_principal(node), wire.parse(message), self._wall(), Came()), self._terms)

    def exchange(self, node: str, message: bytes) -> tuple[bytes, bool]:
        """The answer, and whether what was said was taken in."""
        report = wire.parse(message)
        asked = Asked(_principal(node), report, self._wall(), Came(self._connections.get(node)))
        try:
            answered = answer(self.database, asked, self._terms)
        except Exception:
            logging.getLogger(__name__).debug("a report of %s was not stored", node, exc_info=True)
            failed = wire.Reply(report.instance_uid, error="not stored, try again", retry_after_s=5.0)
            answered = Answer(failed)
        if answered.node is not None:
            self._told[node] = answered.desired
        return wire.encode(answered.reply).SerializeToString(), answered.node is not None

    def push(self, node: str) -> bytes | None:
        """What has to be sent to a connected agent whose configuration has changed; None: nothing."""
        if node not in self._told or self._connections.get(node) is None:
            return None  # It polls, or has said nothing yet.
        pushed = offers(self.database, [node], self._terms)[0]
        if pushed is None or pushed.desired == self._told[node]:
            return None
        self._told[node] = pushed.desired
        if pushed.reply.offer is None:
            return None
        return bytes(wire.encode(pushed.reply).SerializeToString())


def _principal(node: str) -> Principal:
    return Principal(f"agent {node}", Scope.AGENT, 0, node=node, pool=POOL)
