"""The fleet's hub: wakes the WebSocket of every agent whose desired configuration has changed.

Guarantees: `poke` may be called from any thread, at any time, and is cheap; a change committed by this process is
looked at at once, one committed by another replica within `recheck_s`; the connection of a revoked token is closed
within the same time. Databases are read in worker threads, never on the event loop.
"""

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from typing import Annotated

import anyio
from anyio import CapacityLimiter, to_thread
from fastapi import Depends
from sqlalchemy import event
from sqlmodel import Session, col, select

from controlplane.auth import Principal
from controlplane.auth.tables import TokenRow
from controlplane.auth.token_cache import AuthParts
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet.opamp.left_out import LeftOut
from controlplane.fleet.tables import NodeRow, PoolRow

logger = logging.getLogger(__name__)

WORKERS = 8
"""Threads for OpAMP's database work, apart from those that serve requests."""


@dataclass(eq=False)
class AgentConnection:
    """One WebSocket. `desired` is the mark of the wish that its agent was last answered with."""

    principal: Principal
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    node: str | None = None
    desired: tuple[int, int] | None = None
    ended: bool = False  # The hub wants the connection closed.
    wake: anyio.Event = field(default_factory=anyio.Event)
    # Held from reading the desired state until the answer is sent: an older offer never follows a newer one.
    turn: anyio.Lock = field(default_factory=anyio.Lock)


class FleetHub:
    """One per process. `run` is a task of the service's event loop, and ends by cancellation."""

    def __init__(self, database: Database, *, recheck_s: float = 1.0) -> None:
        self._database = database
        self._recheck_s = recheck_s
        self._connections: set[AgentConnection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked = asyncio.Event()
        self.workers = CapacityLimiter(WORKERS)
        self.left_out = LeftOut()

    @property
    def connections(self) -> int:
        """How many agents hold a WebSocket to this process."""
        return len(self._connections)

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
        connection = AgentConnection(principal)
        self._connections.add(connection)
        return connection

    def leave(self, connection: AgentConnection) -> None:
        self._connections.discard(connection)

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                with anyio.move_on_after(self._recheck_s):
                    await self._poked.wait()
                self._poked.clear()
                try:
                    await self._look()
                except Exception:
                    # The next round tries again; agents keep what they run meanwhile.
                    logger.exception("the fleet hub could not read the desired state")
        finally:
            self._loop = None

    def end_all(self) -> None:
        """Close every WebSocket (the service stops). Call on the event loop."""
        for connection in self._connections:
            self._end(connection)

    async def _look(self) -> None:
        waiting = list(self._connections)
        if not waiting:
            return
        desired, revoked = await to_thread.run_sync(self._read, limiter=self.workers)
        for connection in waiting:
            if connection.principal.token_id in revoked:
                self._end(connection)
            elif connection.node in desired and desired[connection.node] != connection.desired:
                connection.wake.set()

    def _end(self, connection: AgentConnection) -> None:
        connection.ended = True
        connection.wake.set()

    def _read(self) -> tuple[dict[str, tuple[int, int] | None], set[int]]:
        """Marks of what is wanted by node (None: nothing), and the ids of revoked tokens."""
        with self._database.read_session() as session:
            rows = session.exec(
                select(NodeRow.node, NodeRow.override_revision, NodeRow.cache_reset, PoolRow.revision).join(
                    PoolRow, col(PoolRow.name) == NodeRow.pool
                )
            )
            desired = {
                node: None if (number := machine.wanted_revision(override, pool)) is None else (number, resets)
                for node, override, resets, pool in rows
            }
            held = {connection.principal.token_id for connection in list(self._connections)}
            query = select(TokenRow.id).where(col(TokenRow.revoked_at).is_not(None), col(TokenRow.id).in_(held))
            return desired, {number for number in session.exec(query) if number is not None}


@dataclass(frozen=True, kw_only=True)
class FleetParts(AuthParts):
    """What a route is served with that may change what nodes should run."""

    fleet: FleetHub


Fleet = Annotated[FleetParts, Depends(FleetParts.given)]
