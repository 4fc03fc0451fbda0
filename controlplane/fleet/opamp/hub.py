"""The fleet's hub: wakes the WebSocket of every agent whose desired configuration has changed.

Guarantees: `poke` may be called from any thread, at any time, and is cheap; a change committed by this process is
looked at at once, one committed by another replica within `recheck_s`, or a little later where the fleet is so large
that looking takes its time (`throttling.look_pause_s`); the connection of a token that was revoked or has expired is
closed within the same time. A node has one WebSocket, the newest, whichever replica holds it, and one that has said
nothing yet. Databases are read in worker threads, never on the event loop.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import anyio
from anyio import CapacityLimiter, to_thread
from fastapi import Depends
from sqlalchemy import event
from sqlmodel import Session

from controlplane.auth import Principal
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.errors import Unauthenticated
from controlplane.contract.reports.opamp import LEASE_S, REPLACED_CODE
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet import store as fleet
from controlplane.fleet.enrolling.minute_pace import Pace
from controlplane.fleet.opamp import fleet_reading, throttling
from controlplane.fleet.opamp.contention import Contention
from controlplane.fleet.opamp.fleet_reading import NOWHERE, FleetReading
from controlplane.fleet.opamp.left_out import LeftOut
from controlplane.fleet.opamp.offers import offers
from controlplane.fleet.opamp.quiet_beats import WHOLE_S, Heard, QuietBeats
from controlplane.fleet.opamp.session import Answer, Asked, Terms, answers
from controlplane.fleet.opamp.turnstile import Place, Turnstile
from controlplane.fleet.opamp.wire import AgentReport, Reply
from controlplane.serving.joint_work import JointWork
from controlplane.serving.limits import Doorkeeper, Refused

logger = logging.getLogger(__name__)

EVENTS_A_MINUTE = 10
"""Entries in the ledger that one node may cause by what its agent says; more are counted."""
ENROLMENTS_A_MINUTE = 120
"""By one token from one address."""
WORKERS = 8
"""Threads for OpAMP's database work, apart from those that serve requests."""
FLOOD = 64
"""Agents that wait for an answer or an offer."""
SWEEPS = 10
"""For silent connections, in the time that one may be silent."""


class Close(Enum):
    """Why the service closes a WebSocket: the code (RFC 6455, 7.4; from 4000 on our own) and the reason it is given."""

    GOING_AWAY = 1001, "the service stops, or this token has ended"
    NO_FIRST_MESSAGE = 1008, "no message came in time after the connection was opened"
    IDLE = 1008, "no message for three heartbeats"
    REPLACED = REPLACED_CODE, "a newer connection speaks for this node; two agents want two names"


@dataclass(frozen=True)
class SocketLimits:
    """Seconds until a WebSocket's first message, and between any two; heartbeats: or so many, where they are longer."""

    first_message_s: float = 10.0
    idle_s: float = 90.0
    heartbeats: float = 3.0


@dataclass(eq=False)
class AgentConnection:
    """One WebSocket. `desired` is the mark of the wish that its agent was last answered with."""

    principal: Principal
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    node: str | None = None
    desired: machine.Mark | None = None
    heartbeat_s: int = throttling.OWN_S  # As its agent was last told.
    heard: Heard | None = None  # None: its next report is one for the database.
    sequence_num: int | None = None  # Of the newest report that was taken from it: its row may not have it yet.
    spoke_s: float | None = None  # When its last message came, by the hub's steady clock; None: none has.
    ended: Close | None = None  # The hub wants the connection closed.
    refused: Unauthenticated | None = None  # Why, where its token has ended.
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    # Held from reading the desired state until the answer is sent: an older offer never follows a newer one.
    turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))


class FleetHub:
    """One per process. `run` is a task of the service's event loop, and ends by cancellation."""

    def __init__(
        self,
        database: Database,
        door: Doorkeeper | None = None,
        *,
        limits: SocketLimits | None = None,
        recheck_s: float = 1.0,
        token_days: float = 30.0,
        lease_s: float = LEASE_S,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self.monotonic = monotonic
        self._clock = clock
        self._recheck_s = recheck_s
        self._connections: set[AgentConnection] = set()
        self._holding: dict[str, AgentConnection] = {}  # By node.
        self._silent: dict[
            int | None, AgentConnection
        ] = {}  # By the id of a node's token: those that have said nothing.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked = asyncio.Event()
        self.workers = CapacityLimiter(WORKERS)
        # SQLite has one writer at a time.
        at_a_time = 1 if database.is_sqlite else WORKERS // 2
        self.reports = JointWork(self._answers, self.workers, workers=at_a_time)
        self.offers = JointWork(self._offers, self.workers)
        self.departures = JointWork(self._departures, self.workers)
        self.turnstile = Turnstile(monotonic)
        self.terms = Terms(Pace(EVENTS_A_MINUTE), token_days, lease_s)
        self.enrolments = Pace(ENROLMENTS_A_MINUTE)
        self.left_out = LeftOut(self.terms.events, self.enrolments)
        self.door = door or Doorkeeper()
        self.limits = limits or SocketLimits()
        self.contention = Contention(self.door)
        self.beats = QuietBeats()
        self._whole_s = min(WHOLE_S, token_days * 86400.0)  # A token that is due is not kept waiting for long.
        self._looked_at: datetime | None = None
        self._rows: Sequence[tuple[Any, ...]] = ()  # As the last look has found them.
        self._told = 0  # How often a connection was told something, or began to speak for a node.
        self._settled: int | None = None  # As `_told` was when a look found nothing to do; None: it found something.
        self._swept_s = 0.0

    @property
    def connections(self) -> int:
        """How many agents hold a WebSocket to this process."""
        return len(self._connections)

    def is_flooded(self) -> bool:
        """Whether a wave of agents is being told something, or tells what became of it. Any thread may ask."""
        return self.offers.unanswered + self.reports.unanswered >= FLOOD

    def come(self) -> Place | float:
        """A place for an agent that comes anew, to be waited for, and left once it has been answered; or in how many
        seconds it is to come again, for too many do."""
        found = self.turnstile.come()
        if not isinstance(found, Place):
            self.door.refuse(Refused.OPAMP_BUSY)
        return found

    def new_heartbeat_s(self, connection: AgentConnection) -> int | None:
        """What the agent is to be told of how often it speaks, once; None: nothing new."""
        wanted_s = throttling.heartbeat_s(len(self._connections))
        if wanted_s == connection.heartbeat_s:
            return None
        connection.heartbeat_s = wanted_s
        return wanted_s

    def beat(self, connection: AgentConnection, report: AgentReport) -> Reply | None:
        """The answer to a heartbeat that says nothing new; None: it is for the database."""
        heard, now = connection.heard, self._clock()
        if heard is None or not heard.follows(report, self._looked_at, now, self._whole_s):
            return None
        connection.heard = self.beats.take(connection.id, heard, report, now)
        connection.sequence_num = report.sequence_num
        return Reply(report.instance_uid)

    def poke(self) -> None:
        """Desired state has changed and is committed: look now. Does nothing when the hub does not run."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._poked.set)

    def poke_after_commit(self, session: Session) -> None:
        """Poke once this session's transaction is committed; never when it is rolled back."""

        @event.listens_for(session, "after_commit", once=True)
        def _committed(_: object) -> None:
            self.poke()

    def join(self, principal: Principal) -> AgentConnection:
        """A WebSocket is open. One of the same node's token that has said nothing yet is closed for it."""
        connection = AgentConnection(principal)
        if principal.node is not None:
            if silent := self._silent.pop(principal.token_id, None):
                self._replace(silent)
            self._silent[principal.token_id] = connection
        self._connections.add(connection)
        return connection

    def hold(self, connection: AgentConnection, node: str) -> None:
        """The connection speaks for the node: any other that does is closed."""
        if connection.node == node or connection.ended is not None:
            return
        self._let_go(connection)
        if before := self._holding.get(node):
            self._replace(before)
        connection.node, self._holding[node] = node, connection
        self._told += 1

    def tell(self, connection: AgentConnection, desired: machine.Mark | None) -> None:
        """Its agent is answered with this wish."""
        connection.desired = desired
        self._told += 1

    def leave(self, connection: AgentConnection) -> None:
        self._let_go(connection)
        self._connections.discard(connection)

    def _let_go(self, connection: AgentConnection) -> None:
        token, node = connection.principal.token_id, connection.node
        if self._silent.get(token) is connection:
            del self._silent[token]
        if node is not None and self._holding.get(node) is connection:
            del self._holding[node]

    async def run(self) -> None:
        self._loop, pause_s = asyncio.get_running_loop(), self._recheck_s
        try:
            while True:
                with anyio.move_on_after(pause_s):
                    await self._poked.wait()
                self._poked.clear()
                self._end_silent()
                began_s = self._loop.time()
                try:
                    await self._look()
                except Exception:
                    # The next round tries again; agents keep what they run meanwhile.
                    logger.exception("the fleet hub could not read the desired state")
                pause_s = throttling.look_pause_s(self._recheck_s, self._loop.time() - began_s)
        finally:
            self._loop = None

    def end_all(self) -> None:
        """Close every WebSocket (the service stops). Call on the event loop."""
        self.turnstile.open()
        for connection in self._connections:
            self._end(connection, Close.GOING_AWAY)

    def _end_silent(self) -> None:
        now_s = self.monotonic()
        if now_s - self._swept_s < self.limits.idle_s / SWEEPS:
            return
        self._swept_s = now_s
        for connection in self._connections:
            if connection.spoke_s is None or connection.ended is not None:
                continue
            if now_s - connection.spoke_s > max(self.limits.idle_s, self.limits.heartbeats * connection.heartbeat_s):
                self.door.refuse(Refused.OPAMP_IDLE)
                self._end(connection, Close.IDLE)

    async def _look(self) -> None:
        if not self._connections:
            return
        # The nodes before the read: what they were held by had been committed.
        told, before = self._told, self._rows
        waiting = [(connection, connection.node) for connection in self._connections]
        own = {None, *(connection.id for connection in self._connections)}
        seen = await self._read()
        if self._settled == told and seen.rows == before and not seen.ended:
            return
        nodes = seen.nodes()
        self._settled = told
        for connection, node in waiting:
            if seen.ended and (refused := seen.ended.get(connection.principal.token_id)) is not None:
                connection.refused = refused
                self._end(connection, Close.GOING_AWAY)
            elif node is not None:
                holder, desired = nodes.get(node, NOWHERE)
                if holder != connection.id:
                    self._settled = None
                    connection.heard = None  # Its row no longer says that it is here: its next report is to say so.
                    if holder not in own:
                        self._replace(connection)
                        continue
                if desired != connection.desired and node in nodes:
                    self._settled = None
                    connection.wake.set()

    async def _read(self) -> FleetReading:
        began = self._clock()

        def reading() -> FleetReading:
            with self._database.read_session() as session:
                return fleet_reading.read(session, self._looked_at, self._clock())

        seen = await to_thread.run_sync(reading, limiter=self.workers)
        self._looked_at, self._rows = began, seen.rows
        return seen

    def _answers(self, asked: Sequence[Asked]) -> Sequence[Answer | Exception]:
        return answers(self._database, asked, self.terms)

    def _offers(self, nodes: Sequence[str]) -> Sequence[Answer | None]:
        return offers(self._database, nodes, self.terms)

    def _departures(self, gone: Sequence[AgentConnection]) -> Sequence[None]:
        with self._database.session() as session:
            for connection in sorted(gone, key=lambda one: one.principal.node or ""):
                fleet.disconnect(session, connection.id, connection.principal.node)
        return [None] * len(gone)

    def _replace(self, connection: AgentConnection) -> None:
        if connection.ended is None:
            self.contention.replaced(connection.node)
            self._end(connection, Close.REPLACED)

    def _end(self, connection: AgentConnection, why: Close) -> None:
        connection.ended = connection.ended or why
        connection.wake.set()


@dataclass(frozen=True, kw_only=True)
class FleetParts(AuthParts):
    """What a route is served with that may change what nodes should run."""

    fleet: FleetHub


Fleet = Annotated[FleetParts, Depends(FleetParts.given)]
