"""A vLLM server that the agent starts, watches, restarts and changes by itself, as a `Backend`.

Guarantees: the last good configuration is what runs, after a crash and after an agent's restart too; a change that does
not come up is taken back (see `changes`). Servers and proxy outlive the agent, unless the node file says otherwise, and
its next start adopts them. While a server is replaced its events are read to their end before the new one's begin.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from agents.backends.base import EngineHealth, EngineUnreachable, Lost, Position
from agents.backends.change_costs import ChangeCosts
from agents.backends.vllm.further_knobs import FURTHER, further_live
from agents.backends.vllm.managed import memory, server_process
from agents.backends.vllm.managed.change_plan import COST_CLASS, Plan, Room, Way, plan, standby_allowed
from agents.backends.vllm.managed.changes import Changes
from agents.backends.vllm.managed.front_door import FrontDoor
from agents.backends.vllm.managed.keeper import Keeper
from agents.backends.vllm.managed.run_folder import choose_run_folder
from agents.backends.vllm.managed.server import Server
from agents.backends.vllm.managed.servers import Servers
from agents.backends.vllm.managed.supervision import Phase
from agents.backends.vllm.managed.variant_sizes import by_format, variant_sizes
from agents.backends.vllm.node_file import NodeFile
from agents.backends.vllm.readback import live_bounds
from controlplane.contract import knobs
from controlplane.contract.bodies.change import restarting
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig
from controlplane.contract.errors import KnobOutOfRange, UnknownKnob
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig, Quantization
from controlplane.contract.planning.memory_estimate import refusal
from controlplane.contract.reports.declared_knobs import Declared, DeclaredKnob, completed
from controlplane.contract.reports.engine_event import EngineEvent, Hello
from controlplane.contract.reports.node_memory import NodeMemory
from controlplane.serving.owned_socket import make_folder

log = logging.getLogger(__name__)

HOUSE_EVERY_S = 0.5
ROOM_EVERY_S = 60.0
FAILED_STARTS_BEFORE_A_WISH = 2
"""After so many starts of the last good configuration that failed, a new wish is tried in its place."""


class ManagedVllm:
    """The server of a node file; its state (records, logs, costs) is in `state_dir`."""

    name = "vllm"

    def __init__(self, node: NodeFile, state_dir: Path) -> None:
        self._node = node
        self._run_dir = choose_run_folder(node.run_dir, state_dir)
        self._servers = Servers(node, state_dir, self._run_dir)
        self._door = FrontDoor(node, self._run_dir, state_dir)
        self._changes = Changes(node, self._servers, self._door)
        self._costs = ChangeCosts(state_dir)
        self._keeper = Keeper(node, self._servers, self._door)
        self._loading = asyncio.Lock()
        self._loaded = False
        self._retiring: set[asyncio.Task[None]] = set()
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._sizes = variant_sizes(node)
        self._room = Room(None, None)
        self._room_seen = float("-inf")  # Monotonic seconds.
        self.url = self._door.url

    async def run(self) -> None:
        """Keep the server, and the proxy before it, running."""
        await self._load()
        for server in list(self._servers.retiring):
            self._retire(server)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keeper.run())
                group.create_task(self._keep_house())
        finally:
            for follower in self._followers.values():
                follower.cancel()

    async def _keep_house(self) -> None:
        """What goes on during a change too. The first look at the servers says where requests go."""
        while True:
            if self._keeper.supervision.phase is not Phase.IDLE:
                await self._door.keep()
            self._servers.trim_logs()
            server_process.reap()
            self._look_after_tasks()
            await asyncio.sleep(HOUSE_EVERY_S)

    def processes(self) -> Sequence[int]:
        """Of the server that serves, and of those whose requests are not at their end yet; not the proxy's."""
        servers = self._servers
        living = [*([servers.active] if servers.active is not None else []), *servers.retiring]
        return [server.record.pid for server in living if server.record.pid is not None]

    async def close(self) -> None:
        """Leave the servers to the next agent, or end them where the node file says so."""
        for task in self._retiring:
            task.cancel()
        servers = self._servers
        everyone = [*servers.retiring, *([servers.active] if servers.active is not None else [])]
        if self._node.stop_with_agent:
            await self._door.close()
            for server in everyone:
                await servers.end(server)
        else:
            for server in everyone:
                await server.close()

    async def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]:
        """The oldest server's that is not at its end; when it has ended the next call tells the one after it."""
        await self._load()
        self._changes.followed = True
        server = self._servers.retiring[0] if self._servers.retiring else self._keeper.serving()
        async with aclosing(server.events(position)) as events:
            async for item in events:
                self._costs.see(item)
                yield item

    async def effective(self) -> EffectiveConfig:
        """Read back from the active server."""
        await self._load()
        server = self._keeper.serving()
        followed = await server.attached.effective() if server.told() is not None else None
        allowed, _ = standby_allowed(self._node.standby, self._memory(server))
        restart = ChangeClass.SWAP if allowed else ChangeClass.RESTART
        found = _effective(self._node, server, followed, restart=restart, costs=self._costs.told())
        return found.model_copy(update={"memory": _with_formats(found, self._sizes)})

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        """Live where the server can, else through a standby or a restart.

        Raises `UnknownKnob` for one that this node does not declare, `KnobOutOfRange` for what it can never run or its
        memory cannot hold, `ChangeFailed` for what did not come up, `EngineUnreachable` while the server is on its way.
        """
        received = time.monotonic()
        await self._load()
        declared = self._declared(ChangeClass.RESTART)
        config = completed(config, declared)
        refuse_undeclared(config, declared)
        if problem := self._node.refusal(config):
            name, why = problem
            raise KnobOutOfRange(f"knobs.{name}: {why}", field=f"knobs.{name}")
        async with self._keeper.busy:
            made = self._plan(config, revision)
            await self._refuse_unfit(made.way, config)
            log.info("revision %d: %s%s", revision, made.way, "".join(f"; {reason}" for reason in made.reasons))
            self._keeper.doing = f"revision {revision} is being put in force ({made.way})"
            try:
                unavailable_s = await self._carry_out(made.way, config, revision)
            finally:
                self._keeper.doing = ""
            if (cost := COST_CLASS.get(made.way)) is not None:
                self._costs.record(cost, revision, time.monotonic() - received, unavailable_s)
            return await self.effective()

    async def reset_cache(self) -> bool:
        """Of the active server, past the proxy."""
        await self._load()
        return await self._keeper.serving().attached.reset_cache()

    async def health(self) -> EngineHealth:
        """Of the active server and the proxy; while there is none, what is being done about it."""
        await self._load()
        try:
            health = await self._keeper.serving().health()
        except EngineUnreachable as error:
            return EngineHealth(False, error.message)
        if self._door.problem:
            return EngineHealth(False, f"the proxy: {self._door.problem}", health.degraded)
        return health

    async def lost(self) -> Lost | None:
        """What the proxy had to refuse or lost with a server, and what the server's queue limits turned away."""
        requests = Counter(await self._door.lost())
        server = self._servers.active
        inside = None if server is None else await server.attached.lost()
        if inside is not None:
            requests.update(inside.requests)
        revision = server.record.revision if inside is None and server is not None else 0
        return Lost(revision if inside is None else inside.revision, requests) if requests.total() else None

    async def _load(self) -> None:
        """Find what an earlier agent left running, once."""
        async with self._loading:
            if self._loaded:
                return
            make_folder(self._run_dir, "run_dir")
            state = await self._door.found()
            await self._servers.adopt(None if state is None else state.target)
            if (server := self._servers.active) is not None:
                server.ready = (await server.health()).healthy
            self._loaded = True

    def _declared(self, restart: ChangeClass) -> dict[str, DeclaredKnob]:
        """Of the node file, and what the plugin moves in the server that runs; all of that while none tells."""
        server = self._servers.active
        told = None if server is None else server.told()
        live = {} if self._node.plugin is False or server is not None else FURTHER
        return declared_of(self._node, live if told is None else further_live(told), restart)

    def _plan(self, config: EngineConfig, revision: int) -> Plan:
        try:
            server = self._keeper.serving()
        except EngineUnreachable:
            if self._keeper.supervision.failed_starts < FAILED_STARTS_BEFORE_A_WISH:
                raise
            return plan(config, revision, None, self._node.standby, self._room)
        made = plan(config, revision, server.running(), self._node.standby, self._room)
        if made.way not in (Way.STANDBY, Way.RESTART):
            return made  # Memory does not matter, and a live change does not wait for its measurement.
        self._room = self._measure(server)
        return plan(config, revision, server.running(), self._node.standby, self._room)

    async def _refuse_unfit(self, way: Way, config: EngineConfig) -> None:
        """A live change stays below what the server was started with, which fits."""
        server = self._servers.active
        if way not in (Way.STANDBY, Way.RESTART) or server is None or not (server.ready and server.alive()):
            return
        found = await self.effective()
        if restarting(found, config.knobs()):
            return  # What these take of the memory nobody knows before.
        against = None if found.memory is None else refusal(found.memory, found.knobs, config.knobs())
        if against is not None:
            field = f"knobs.{against.knob}"
            raise KnobOutOfRange(f"{field}: {against.problem}; {against.mend}", field=field)

    async def _carry_out(self, way: Way, config: EngineConfig, revision: int) -> float:
        """Seconds for which requests had to wait."""
        servers, unavailable_s = self._servers, 0.0
        if way in (Way.STANDBY, Way.RESTART):
            if self._retiring:
                await asyncio.wait(self._retiring)  # Never three servers at once.
            try:
                if way is Way.RESTART:
                    unavailable_s = await self._changes.through_restart(config, revision)
                elif (replaced := await self._changes.through_standby(config, revision)) is not None:
                    self._retire(replaced)
            finally:
                if servers.active is not None and servers.active.ready:
                    self._keeper.supervision.replaced(time.monotonic())
            return unavailable_s
        server = self._keeper.serving()
        if way is Way.LIVE:
            await server.attached.apply(config, revision)
        elif revision != server.record.revision and server.told() is None:
            server.record = server.record.model_copy(update={"revision": revision})
            servers.serves(server)
        servers.settle(config, revision)
        return unavailable_s

    def _retire(self, server: Server) -> None:
        task = asyncio.create_task(self._changes.retire(server))
        self._retiring.add(task)

    def _look_after_tasks(self) -> None:
        """Scrapes and traces of each server are received as long as it is one of ours; what failed is raised here."""
        servers = self._servers
        known = {one.record.id: one for one in (*servers.retiring, *([servers.active] if servers.active else []))}
        for server_id in self._followers.keys() - known.keys():
            self._followers.pop(server_id).cancel()
        for server_id, server in known.items():
            if server.ready and server_id not in self._followers:
                self._followers[server_id] = asyncio.create_task(server.attached.run())
        for task in [task for task in (*self._retiring, *self._followers.values()) if task.done()]:
            self._retiring.discard(task)
            task.result()

    def _memory(self, server: Server) -> Room:
        if (now := time.monotonic()) - self._room_seen >= ROOM_EVERY_S:
            self._room, self._room_seen = self._measure(server), now
        return self._room

    def _measure(self, server: Server) -> Room:
        return memory.room(self._node.standby_needs_bytes, server_process.members(server.record))


def declared_of(node: NodeFile, live: Declared, restart: ChangeClass) -> dict[str, DeclaredKnob]:
    """The node file's word counts for range and start, the plugin's for what is live."""
    own = node.declared(restart)
    moved = {
        name: own.get(name, knob).model_copy(update={"change_class": ChangeClass.LIVE}) for name, knob in live.items()
    }
    return {**own, **moved}


def refuse_undeclared(config: EngineConfig, declared: Declared) -> None:
    """Raises `UnknownKnob`, or `KnobOutOfRange` for a value that is not within what was declared."""
    for name, value in config.knobs().items():
        if name in KNOBS:
            continue
        if name not in declared:
            mend = f"declare it in its node file, [knobs.{name}], or leave it out"
            raise UnknownKnob(f"knobs.{name}: this node declares no such knob; {mend}", field=f"knobs.{name}")
        declared[name].parse(value, f"knobs.{name}")


def _with_formats(found: EffectiveConfig, sizes: dict[Quantization, int]) -> NodeMemory | None:
    """With what its other variants would hold."""
    memory = found.memory
    if memory is None or memory.weights_bytes is None:
        return memory
    runs = str(found.knobs[knobs.QUANTIZATION])
    return memory.model_copy(update={"weights_bytes_by_format": by_format(sizes, runs, memory.weights_bytes)})


def _effective(
    node: NodeFile,
    server: Server,
    followed: EffectiveConfig | None,
    *,
    restart: ChangeClass,
    costs: dict[ChangeClass, ChangeCost],
) -> EffectiveConfig:
    """What a managed server runs and can be given.

    `followed`: what the server tells as one that is merely followed, None without the plugin. `restart` is what a
    change that needs another process costs here: a swap where a standby fits.
    """
    told = server.told()
    live: list[str] = [] if told is None else told["live"]
    most, least = live_bounds(told or {})
    about: dict[str, Any] = {
        "declared": declared_of(node, {} if told is None else further_live(told), restart),
        "change_classes": {name: ChangeClass.LIVE if name in live else restart for name in KNOBS},
        "live_limits": most,
        "live_floors": least,
        "limits": {**node.limits.model_dump(), **({} if node.speculative else {knobs.NUM_SPECULATIVE_TOKENS: 0})},
        "formats": [one.value for one in node.variants],
        "costs": costs,
    }
    if told is None or followed is None:
        source = f"argument of the running vllm serve, process {server.record.pid}"
        there = server.record.declared
        runs = {name: value for name, value in server.record.knobs.items() if name in KNOBS or name in there}
        return EffectiveConfig(
            revision=server.record.revision, knobs=runs, sources=dict.fromkeys(runs, source), **about
        )
    variant = f"variants.{server.record.config.quantization.value} of the node file"
    read = followed.sources.get(knobs.QUANTIZATION, "vLLM model_config.quantization")
    return followed.model_copy(
        update={
            **about,
            "knobs": {**followed.knobs, knobs.QUANTIZATION: told["quantization"]},
            "sources": {**followed.sources, knobs.QUANTIZATION: f"{read}; {variant}"},
        }
    )
