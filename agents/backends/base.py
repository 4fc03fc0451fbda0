"""The seam between the agent and an engine, whatever the engine is."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.errors import Unavailable
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.engine_event import EngineEvent, Hello


class EngineUnreachable(Unavailable):
    """The engine does not answer: it is starting, gone, or stuck. Always worth another try."""

    code = "engine_unreachable"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in an engine's stream of events: all up to `seq` of the process `boot` are behind it."""

    boot: str
    seq: int


@dataclass(frozen=True)
class Lost:
    """Requests that the server lost and no event tells of, by finish reason, under the revision in force."""

    revision: int
    requests: Mapping[str, int]


@dataclass(frozen=True)
class EngineHealth:
    """`detail` says why when not healthy. `degraded`: what of the engine cannot be seen or moved although it serves."""

    healthy: bool
    detail: str = ""
    degraded: str = ""


class Backend(Protocol):
    """One engine beside this agent.

    Invariants of every implementation:
    - `events` starts with a `Hello`; then sequence numbers rise strictly within one boot, and every event is above the
      position asked for, unless the boot differs: then the engine's oldest event comes first. The iterator raises
      `EngineUnreachable` when the stream breaks or ends; it never ends quietly.
    - `effective` reads the engine back. It never repeats what `apply` was given.
    - `apply` returns what the engine runs after the change. When it raises (a named error of the contract, or
      `EngineUnreachable`), the configuration that was in force before is in force still, unless the engine itself died.
      One `apply` at a time; the caller sees to it.
    - `health` never raises: an engine that does not answer is an unhealthy one.
    - `run` does what the backend has to do by itself (watch a process it started, receive traces) for as long as the
      agent runs; it is cancelled at the end. A backend without such work returns at once.
    - `lost` tells of requests that ended where no event of the engine could tell of it (at the door before it, or with
      its process), each once, from this process's first look on. It never raises.
    - `processes` names the engine's first processes on this host, where the backend knows them; empty where it does
      not, and then the listener of `url` is the engine.
    - `reset_cache` empties the prefix cache and says so; False says that the engine offers no way to. It raises
      `EngineUnreachable`.
    - Nothing here slows the engine: a backend that falls behind misses events, it never makes the engine wait.

    `url` is where clients reach the engine.
    """

    name: str
    url: str

    async def run(self) -> None: ...

    def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]: ...

    async def effective(self) -> EffectiveConfig: ...

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig: ...

    async def reset_cache(self) -> bool: ...

    async def health(self) -> EngineHealth: ...

    async def lost(self) -> Lost | None: ...

    def processes(self) -> Sequence[int]: ...

    async def close(self) -> None: ...
