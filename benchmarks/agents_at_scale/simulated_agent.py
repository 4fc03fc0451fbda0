"""An agent without its process: the product's own OpAMP client, applier and messages over an engine in memory.

What is left out is what a process has beside these: an engine, reports, the look at the host. The engine takes every
configuration at once; the look at it, each `watch_interval_s` in a real agent, is the crowd's to call (`look`).
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from agents.agent.control.applier import Applier
from agents.agent.control.opamp_client import OpampClient
from agents.agent.control.opamp_messages import NodeSnapshot
from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.settings import AgentSettings
from agents.backends.base import EngineHealth
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from tests.agents.instant_engine import InstantEngine

_HEALTHY = EngineHealth(True)


class GivenToken(Enrolment):
    """The enrolment of a node that has its token already."""

    def __init__(self, settings: AgentSettings, http: httpx.AsyncClient, token: str) -> None:
        super().__init__(settings, http)
        self.current = Credentials(settings.node, settings.pool, settings.role, token, "")


class CountedClient(OpampClient):
    """The agent's own client, and what went out and came in. began_s: when the connection in use was asked for;
    outstanding: messages of it that were not answered yet."""

    sent = 0
    outstanding = 0
    began_s = 0.0
    on_sent: Callable[[], None]
    on_taken: Callable[[], None]

    @property
    def told_s(self) -> float:
        """The interval of its heartbeats, as the service has told it."""
        return self._heartbeat_s

    async def _over_websocket(self) -> None:
        self._begin()
        await super()._over_websocket()

    async def _over_http(self) -> None:
        self._begin()
        await super()._over_http()

    def _begin(self) -> None:
        self.began_s, self.outstanding = time.monotonic(), 0

    def _next_message(self) -> bytes:
        message = super()._next_message()
        self.sent += 1
        self.outstanding += 1
        self.on_sent()
        return message

    def _take(self, content: bytes) -> None:
        super()._take(content)
        self.outstanding = max(0, self.outstanding - 1)  # A configuration that is pushed answers nothing.
        self.on_taken()


@dataclass
class Followed:
    """A revision's way to one agent, on the clock of `time.monotonic`. applied_s: its engine runs it; in_force_s: the
    service has answered, and so committed, that it does."""

    revision: int
    offered_s: float | None = None
    applied_s: float | None = None
    said: bool = False
    in_force_s: float | None = None


class SimulatedAgent:
    """`on_known` is called at the first answer of each service that was waited for (`await_again`)."""

    def __init__(
        self, settings: AgentSettings, token: str, version: str, trust: ssl.SSLContext, on_known: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.engine = InstantEngine()
        self._version, self._started_ns = version, time.time_ns()
        self._on_known = on_known
        self._since_s, self.known_s = 0.0, None  # type: tuple[float, float | None]
        self.followed = Followed(0)
        self._http = httpx.AsyncClient(base_url=settings.server_url, timeout=10.0, verify=trust, trust_env=False)
        settings.state_dir.mkdir()
        self.applier = Applier(self.engine, settings.state_dir, self._publish)
        self.client = CountedClient(
            settings.server_url,
            self._http,
            GivenToken(settings, self._http, token),
            self._snapshot,
            self._offered,
            on_heard=self._heard,
            quiet_s=lambda: self.applier.quiet_s,
            heartbeat_s=settings.heartbeat_s,
        )
        self.client.on_sent, self.client.on_taken = self._sent, self._taken

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.applier.run())
                group.create_task(self.client.run())
        finally:
            await self._http.aclose()

    def look(self) -> None:
        """At the engine, as a real agent does every so often."""
        self.client.changed()

    def await_again(self) -> None:
        """It is known from now on only once a connection that it has yet to open was answered."""
        self._since_s, self.known_s = time.monotonic(), None

    def follow(self, revision: int) -> None:
        self.followed = Followed(revision)

    def runs(self, revision: int) -> bool:
        """And has told so."""
        return self.engine.current.revision == revision and not self.client.outstanding

    # -- inside --------------------------------------------------------------------------------------------------------

    def _publish(self, runs: EffectiveConfig | None) -> None:
        followed = self.followed
        if runs is not None and runs.revision == followed.revision and followed.applied_s is None:
            followed.applied_s = time.monotonic()
        self.client.changed()

    def _offered(self, offer_hash: bytes, body: bytes) -> None:
        followed = self.followed
        if _revision_in(offer_hash) == followed.revision and followed.offered_s is None:
            followed.offered_s = time.monotonic()
        self.applier.offer(offer_hash, body)

    def _sent(self) -> None:
        outcome = self.applier.outcome
        if outcome.status is ConfigStatus.APPLIED and _revision_in(outcome.offer_hash) == self.followed.revision:
            self.followed.said = True

    def _taken(self) -> None:
        followed = self.followed
        if followed.said and followed.in_force_s is None and not self.client.outstanding:
            followed.in_force_s = time.monotonic()

    def _heard(self) -> None:
        self.applier.heard()
        if self.known_s is None and self.client.began_s >= self._since_s:
            self.known_s = time.monotonic()
            self._on_known()

    def _snapshot(self) -> NodeSnapshot:
        settings = self.settings
        return NodeSnapshot(
            node=settings.node,
            pool=settings.pool,
            role=settings.role,
            backend=settings.backend,
            engine_url=self.engine.url,
            version=self._version,
            started_ns=self._started_ns,
            engine=_HEALTHY,
            spool=_HEALTHY,
            spool_status="0 reports waiting",
            outcome=self.applier.outcome,
            cache_reset=self.applier.cache_reset,
            effective=self.engine.current,
        )


def _revision_in(offer_hash: bytes) -> int:
    number = offer_hash.partition(b":")[0]
    return int(number) if number.isdigit() else -1


def settings_of(node: str, pool: str, server_url: str, folder: Path) -> AgentSettings:
    """A real agent's, but for these."""
    return AgentSettings(node=node, pool=pool, server_url=server_url, state_dir=folder / node)
