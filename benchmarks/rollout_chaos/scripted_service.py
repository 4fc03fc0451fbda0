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
from controlplane.fleet.opamp import fleet_reading, wire
from controlplane.fleet.opamp.hub import EVENTS_A_MINUTE
from controlplane.fleet.opamp.offers import offers
from controlplane.fleet.opamp.quiet_beats import Heard, QuietBeats, heard_of
from controlplane.fleet.opamp.session import Answer, Asked, Came, Terms, answer
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


@dataclass
class Socket:
    """A node's connection as the hub holds it. name: the WebSocket's; None: it polls."""

    name: str | None
    desired: machine.Mark | None = None  # What its agent was last answered with.
    spoken: bool = False
    heard: Heard | None = None
    sequence_num: int | None = None


@dataclass(frozen=True)
class Exchanged:
    """The answer; whether what was said was taken in, and whether from memory (decision 84)."""

    content: bytes
    taken_in: bool
    quiet: bool = False


class ScriptedService:
    """`tick` is what it does by itself, `exchange` an agent's message, `push` what a connected agent is sent unasked;
    `look` is the hub's, without which no heartbeat is answered from memory.

    seconds: of the run, which paces what nodes may cause in the ledger; wall: its wall clock.
    """

    def __init__(
        self, database: Database, says: Says, wall: Callable[[], datetime], seconds: Callable[[], float]
    ) -> None:
        self.database = database
        self._wall = wall
        self._terms = Terms(Pace(EVENTS_A_MINUTE, seconds), TOKEN_DAYS, LEASE_S)
        self._controller = ScriptedController(database, says, lambda: None)
        self._sockets: dict[str, Socket] = {}
        self._beats = QuietBeats()
        self._looked_at: datetime | None = None

    def tick(self) -> None:
        self._controller.tick(self._wall())

    def look_for_silence(self) -> None:
        self._beats.write(self.database)
        with self.database.session() as session:
            fleet.expire_silent(session, self._wall())

    def connect(self, node: str, connection: str | None) -> None:
        """connection: the WebSocket's name; None: over HTTP."""
        self._sockets[node] = Socket(connection)

    def disconnect(self, node: str, *, seen: bool) -> None:
        socket = self._sockets.pop(node, None)
        if seen and socket is not None and socket.name is not None:
            with self.database.session() as session:
                fleet.disconnect(session, socket.name)

    def redeliver(self, node: str, message: bytes) -> None:
        """A message that was on the way for long, or comes once more; nobody hears the answer."""
        answer(self.database, Asked(_principal(node), wire.parse(message), self._wall(), Came()), self._terms)

    def look(self) -> None:
        """What each node is to run, and who holds it."""
        began = self._wall()
        with self.database.read_session() as session:
            nodes = fleet_reading.read(session, self._looked_at, began).nodes()
        self._looked_at = began
        for node, socket in self._sockets.items():
            if nodes.get(node, fleet_reading.NOWHERE).connection != socket.name:
                socket.heard = None

    def exchange(self, node: str, message: bytes) -> Exchanged:
        """What the service makes of a message that comes by the node's connection."""
        report, socket, now = wire.parse(message), self._sockets[node], self._wall()
        heard, socket.heard = socket.heard, None
        if socket.name is not None and heard is not None and heard.follows(report, self._looked_at, now):
            socket.heard = self._beats.take(socket.name, heard, report, now)
            socket.sequence_num = report.sequence_num
            return Exchanged(_encoded(wire.Reply(report.instance_uid)), taken_in=True, quiet=True)
        asked = Asked(_principal(node), report, now, Came(socket.name, sequence_num=socket.sequence_num))
        try:
            answered = answer(self.database, asked, self._terms)
        except Exception:
            logging.getLogger(__name__).debug("a report of %s was not stored", node, exc_info=True)
            failed = wire.Reply(report.instance_uid, error="not stored, try again", retry_after_s=5.0)
            answered = Answer(failed)
        if answered.node is not None:
            socket.desired, socket.spoken = answered.desired, True
            socket.sequence_num = report.sequence_num
            socket.heard = heard_of(node, report, answered.reply, heard, now)
        return Exchanged(_encoded(answered.reply), answered.node is not None)

    def push(self, node: str) -> bytes | None:
        """What has to be sent to a connected agent whose configuration has changed; None: nothing."""
        socket = self._sockets.get(node)
        if socket is None or socket.name is None or not socket.spoken:
            return None  # It polls, or has said nothing yet.
        pushed = offers(self.database, [node], self._terms)[0]
        if pushed is None or pushed.desired == socket.desired:
            return None
        socket.desired = pushed.desired
        if pushed.reply.offer is None:
            return None
        socket.heard = None  # What the agent makes of it is news.
        return _encoded(pushed.reply)


def _encoded(reply: wire.Reply) -> bytes:
    return bytes(wire.encode(reply).SerializeToString())


def _principal(node: str) -> Principal:
    return Principal(f"agent {node}", Scope.AGENT, 0, node=node, pool=POOL)
