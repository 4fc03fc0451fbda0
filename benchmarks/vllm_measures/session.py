"""What the sections work with: the settings, the texts, the control plane, and the one attached server they share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engine_measures.report import progress
from benchmarks.engine_measures.texts import Texts
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures.plane import Plane, attached, is_up
from benchmarks.vllm_measures.processes import Child, Nursery
from benchmarks.vllm_measures.vllm_server import Recipe, VllmServer

NODE = "attached"


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    python: str
    model: Path
    rounds: int
    threads: int
    seed: int
    quick: bool

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.python, self.model, self.threads)


@dataclass
class Attached:
    """A server with the plugin and drafts, an agent attached to it, and the node's name at the control plane."""

    server: VllmServer
    agent: Child
    node: str = NODE


@dataclass
class Session:
    settings: Settings
    nursery: Nursery
    texts: Texts
    _plane: Plane | None = None
    _attached: Attached | None = None
    _servers: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def plane(self) -> Plane:
        """Started when it is first wanted."""
        if self._plane is None:
            self._plane = Plane(self.nursery)
        return self._plane

    def server(self, name: str, *, tailwright: bool, drafts: bool) -> VllmServer:
        """Begin to start one; its healthy state has to be waited for."""
        self._servers += 1
        return VllmServer(
            self.nursery, self.settings.recipe, f"{self._servers}-{name}", tailwright=tailwright, drafts=drafts
        )

    @property
    def attached(self) -> Attached:
        """The shared server and its agent, started when first wanted, and again when one of them has died."""
        found = self._attached
        if found is not None and found.server.child.is_alive and found.agent.is_alive:
            return found
        self.close_attached()
        progress("starting the attached server")
        server = self.server("attached", tailwright=True, drafts=True)
        plane = self.plane
        server.wait_healthy()
        node = f"{NODE}-{self._servers}"
        agent = plane.agent(node, attached(server.url, server.share))
        self._attached = Attached(server, agent, node)
        plane.await_node(node, agent, is_up)
        return self._attached

    def close_attached(self) -> None:
        """Give its memory and cores back."""
        if (found := self._attached) is not None:
            self._attached = None
            for child in (found.agent, found.server.child):
                self.nursery.stop(child)

    def stop(self, *children: Child) -> None:
        for child in children:
            self.nursery.stop(child)


Measure = Callable[[Session], None]
__all__ = ["Attached", "Measure", "Session", "Settings", "WorkerFailed"]
