"""An engine in memory that runs what it is given at once: a `Backend` that serves nobody."""

from collections.abc import AsyncIterator, Sequence

from agents.backends.base import EngineHealth, EngineUnreachable, Lost, Position
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.engine_event import EngineEvent, Hello


class InstantEngine:
    """`current` is what it runs."""

    name = "instant"
    url = "http://127.0.0.1:7400"

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """It has forgotten what it was given."""
        self.current = EffectiveConfig(revision=0, knobs=EngineConfig().knobs())

    async def run(self) -> None:
        return None

    def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]:
        raise EngineUnreachable("an engine in memory serves nobody")

    async def effective(self) -> EffectiveConfig:
        return self.current

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        self.current = EffectiveConfig(revision=revision, knobs=config.knobs())
        return self.current

    async def reset_cache(self) -> bool:
        return True

    async def health(self) -> EngineHealth:
        return EngineHealth(True)

    async def lost(self) -> Lost | None:
        return None

    def processes(self) -> Sequence[int]:
        return ()

    async def close(self) -> None:
        return None
