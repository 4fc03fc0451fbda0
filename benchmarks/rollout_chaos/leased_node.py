"""A node: an engine that takes what it is given at once, a machine with a clock, and the agent's own control code.

Applier, lease, its file and the OpAMP client are the agent's; only the wire between client and service is in memory.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import httpx

from agents.agent.control.applier import Applier
from agents.agent.control.opamp_client import OpampClient
from agents.agent.control.opamp_messages import NodeSnapshot
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.settings import AgentSettings
from agents.backends.base import EngineHealth
from agents.host.boot_clock import BootTime
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.opamp import LEASE_ENDED
from tests.agents.instant_engine import InstantEngine

POOL = "chat"
KEPT_MESSAGES = 12


class RefusingEngine(InstantEngine):
    """Takes no revision that it `refuses`; one that `tells` nothing does not say what it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[int] = set()
        self.tells = True

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        if revision in self.refuses:
            raise Conflict("out of memory")
        return await super().apply(config, revision)


class Line(OpampClient):
    """The agent's OpAMP client, its messages handed over by whoever plays the wire."""

    def opened(self) -> None:
        """A connection has been made anew: the first message says all."""
        self._full = True
        self._changed.set()

    @property
    def has_news(self) -> bool:
        return self._changed.is_set()

    def message(self) -> bytes:
        return self._next_message()

    def take(self, content: bytes) -> None:
        self._take(content)
        if self._pause_s:  # What was said was not taken in, and a part that is sent once is lost.
            self._pause_s, self._full = 0.0, True


@dataclass
class Cut:
    """From when until when a node hears nothing, in seconds of the run, and what becomes of its process meanwhile."""

    until_s: float
    starts_s: float | None = None  # Its agent is killed, and started again then.
    reboots: bool = False  # With its machine.


class LeasedNode:
    """`start` and `kill` are its agent's process; `passes` moves the machine's clock."""

    def __init__(self, name: str, folder: Path, http: httpx.AsyncClient) -> None:
        self.name = name
        self.engine = RefusingEngine()
        self.sent: deque[bytes] = deque(maxlen=KEPT_MESSAGES)
        self.cut: Cut | None = None
        self.was_cut = False
        self.heard_s = 0.0
        """When it was last answered by a service that had taken in what it said, in seconds of the run."""
        self.spoke_s = 0.0
        self.linked = False
        self._folder, self._http = folder, http
        self._boots, self._at_s = 0, 500.0
        self._task: asyncio.Task[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def dead(self) -> bool:
        return self._task is None

    @property
    def runs(self) -> int:
        return self.engine.current.revision

    @property
    def left(self) -> bool:
        """Whether its agent says that it has gone back by itself."""
        return not self.dead and self.applier.outcome.error.startswith(LEASE_ENDED)

    def start(self) -> None:
        self.applier = Applier(self.engine, self._folder, self._publish, clock=self._now, look_s=0.0)
        settings = AgentSettings(node=self.name, pool=POOL, state_dir=self._folder)
        enrolment = Enrolment(settings, self._http)
        self.line = Line(
            settings.server_url,
            self._http,
            enrolment,
            self._snapshot,
            self.applier.offer,
            on_heard=self.applier.heard,
        )
        self._task = asyncio.get_running_loop().create_task(self.applier.run())
        self.applier.engine_seen(f"engine of boot {self._boots}")

    def kill(self) -> None:
        """As by kill -9: what is not on the disk is gone."""
        if self._task is not None:
            self._task.cancel()
        self._task, self.linked = None, False

    def reboot(self) -> None:
        """Of the machine, while its agent is dead: the engine has forgotten, and the clock is another."""
        self._boots, self._at_s = self._boots + 1, 5.0
        self.engine.restart()

    def passes(self, seconds: float) -> None:
        self._at_s += seconds

    def _now(self) -> BootTime:
        return BootTime(f"boot-{self._boots}", self._at_s)

    def _publish(self, _: EffectiveConfig | None) -> None:
        self.line.changed()

    def _snapshot(self) -> NodeSnapshot:
        return NodeSnapshot(
            node=self.name,
            pool=POOL,
            role="serving",
            backend="embedded",
            engine_url=self.engine.url,
            version="0",
            started_ns=1,
            engine=EngineHealth(True),
            spool=EngineHealth(True),
            outcome=self.applier.outcome,
            effective=self.engine.current if self.engine.tells else None,
            cache_reset=self.applier.cache_reset,
        )
