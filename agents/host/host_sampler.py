"""Measures host and engine, window by window: reads the counters and keeps the last reading to compare with.

Guarantee: never raises for what a machine does not tell; each thing that cannot be measured is said once in the log,
and its figures are absent. The engine is found again when its process is replaced.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from agents.host import control_group, host_memory, listener, pressure, process, processor
from agents.host.boot_clock import since_boot_s
from agents.host.gpu import Gpus
from agents.host.neighbours import Neighbours
from agents.host.process import PROC
from agents.host.snapshot import EngineCounters, Figures, Snapshot, figures

log = logging.getLogger(__name__)

CONTROL_GROUPS = Path("/sys/fs/cgroup")
LOOKS_AT_ONCE = 6
LOOK_EVERY = 12
"""An engine that is not found is looked for in each of the first windows, then in every twelfth: it costs a scan."""


class Sampler:
    """`known`: the engine's first processes where the backend knows them; else the listener of `url` is looked for."""

    def __init__(
        self,
        url: str,
        neighbours: Neighbours,
        *,
        known: Callable[[], Sequence[int]] = tuple,
        gpus: Gpus | None = None,
        proc: Path = PROC,
        control_groups: Path = CONTROL_GROUPS,
        clock: Callable[[], float] = since_boot_s,
    ) -> None:
        self._port = listener.port_of(url)
        self._url = url
        self._neighbours = neighbours
        self._known = known
        self._gpus = gpus
        self._proc = proc
        self._control_groups = control_groups
        self._clock = clock
        self._last: Snapshot | None = None
        self._roots: list[int] = []
        self._starts: dict[int, int] = {}
        self._misses = 0
        self._said: set[str] = set()

    def sample(self) -> Figures:
        """What happened since the call before; empty at the first one. Blocks for some milliseconds."""
        pids = self._engine()
        snapshot = self._snapshot(pids)
        found = {} if self._last is None else figures(self._last, snapshot)
        self._last = snapshot
        if self._gpus is not None:
            found |= self._gpus.sample(frozenset(pids))
        return found

    def _snapshot(self, pids: Sequence[int]) -> Snapshot:
        times = [found for pid in pids if (found := process.read(pid, self._proc)) is not None]
        self._neighbours.tell(found.identity for found in times)
        waits = {
            (found.identity[0], thread): told
            for found in times
            for thread, told in process.waits(found.identity[0], self._proc).items()
        }
        groups = control_group.groups_of(pids[0], self._proc, self._control_groups) if pids else control_group.Groups()
        snapshot = Snapshot(
            at_s=self._clock(),
            pressure=pressure.of_host(self._proc),
            container_pressure=pressure.of_group(groups.pressure),
            processor=processor.read(self._proc),
            memory_available=host_memory.available_share(),
            memory_left=control_group.memory_left(groups),
            throttling=control_group.throttling(groups),
            kills=control_group.kills(groups),
            engine=EngineCounters(
                {found.identity: found.cpu_ticks for found in times},
                {found.identity: found.major_faults for found in times},
                waits,
            )
            if times
            else None,
            fleet=self._neighbours.of_the_fleet(),
        )
        if not snapshot.pressure:
            self._say("the kernel tells no pressure (PSI): not measured")
        if times and not waits:
            self._say("the kernel keeps no schedstat of threads: how long the engine waits for CPUs is not measured")
        return snapshot

    def _engine(self) -> list[int]:
        """The engine's processes; empty when it is not found on this host."""
        roots = list(self._known())
        if not roots:
            if not self._roots or not self._same():
                self._look()
            roots = self._roots
        return process.tree(roots, self._proc)

    def _look(self) -> None:
        self._roots = []
        if self._port is not None and (self._misses < LOOKS_AT_ONCE or self._misses % LOOK_EVERY == 0):
            self._roots = listener.listeners(self._port, self._proc)
        times = [found for pid in self._roots if (found := process.read(pid, self._proc)) is not None]
        self._starts = dict(found.identity for found in times)
        self._misses = 0 if self._roots else self._misses + 1
        if self._misses == LOOKS_AT_ONCE or self._port is None:
            self._say(
                f"no process that this agent may look at listens at {self._url}: the engine's own use of CPU, and"
                " what others use, are not measured"
            )

    def _same(self) -> bool:
        """Whether the engine's first processes are the ones found before."""
        for pid in self._roots:
            found = process.read(pid, self._proc)
            if found is None or found.identity[1] != self._starts.get(pid):
                return False
        return True

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            log.info("host metrics: %s", what)
