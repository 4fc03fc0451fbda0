"""A running vLLM server, followed and tuned where it stands: nothing is started or stopped.

Guarantee: live knobs move through the plugin's scheduler; a knob that only a restart could change is refused by name,
and the configuration in force stays. `effective` says what vLLM runs, knob by knob, and how that is known; a knob that
cannot be read is left out. `EngineHealth.degraded` says what cannot be seen or moved though vLLM serves, and the mend.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx

from agents.backends.base import EngineHealth, EngineUnreachable, Lost, Position
from agents.backends.change_costs import ChangeCosts
from agents.backends.vllm.further_knobs import further_live, further_running, further_wanted, queue_limits_change
from agents.backends.vllm.live_change import obstacles
from agents.backends.vllm.measures import ScrapeMemory, TraceReceiver
from agents.backends.vllm.measures.cache_memory import cache_memory
from agents.backends.vllm.measures.told_memory import told_memory, told_shape
from agents.backends.vllm.plugin_link import PluginLink
from agents.backends.vllm.readback import contradictions, from_scheduler, from_server
from agents.backends.vllm.server_api import ServerApi
from agents.backends.vllm.statistics_stream import NO_FOLDER, Statistics
from agents.backends.vllm.weight_format import format_within
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import QUANTIZATION, ChangeClass, EngineConfig, Quantization, difference
from controlplane.contract.reports import finish_reasons
from controlplane.contract.reports.engine_event import EngineEvent, Hello
from controlplane.contract.reports.node_memory import NodeMemory

log = logging.getLogger(__name__)

TAKE_UP_TIMEOUT_S = 5.0
_CLOCK_STEP_S = 2.0
"""By so much a start time, kept in whole clock ticks since the machine's start, may be off (proc(5))."""


class LimitsNotLive(Exception):
    """No limit can be moved; the message says why."""


class AttachedVllm:
    """The server at `base_url`, whose plugin shares `folder`. `state_dir` keeps what has to outlive the agent.

    `variant`: the weight format that the server was started for; it counts where vLLM's own name of it says no width.
    `flags`: what of declared flags it was started with, beside what its scheduler tells.
    """

    name = "vllm"

    def __init__(
        self,
        base_url: str,
        folder: Path | None,
        *,
        scrape_interval_s: float = 5.0,
        otlp_port: int = 0,
        state_dir: Path | None = None,
        variant: Quantization | None = None,
        flags: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda told: {},
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = base_url
        self._api = ServerApi(base_url, transport)
        self._link = PluginLink(folder) if folder is not None else None
        self._variant = variant
        self._flags = flags
        self._traces = TraceReceiver(otlp_port) if otlp_port else None
        self._statistics = Statistics(
            self._api, self._link, ScrapeMemory(state_dir), self._traces, scrape_interval_s, lambda: self._revision
        )
        self._costs = ChangeCosts(state_dir)
        self._revision = 0  # As last read back.
        self._agreed: tuple[int, dict[str, Any]] | None = None  # Applied without a change: revision and its knobs.
        self._limits_degraded = ""
        self._checked_pid: Any = None
        self._contradiction = ""
        self._cache: NodeMemory | None = None
        self._cache_of: object = None  # The server that it was read of: its process, or when that began.

    async def run(self) -> None:
        """Take vLLM's traces, where a port is set for them."""
        if self._traces is not None:
            await self._traces.run()

    def processes(self) -> Sequence[int]:
        """Not known: the one that listens."""
        return ()

    async def close(self) -> None:
        await self._api.close()

    async def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]:
        """vLLM's statistics as the contract's events, from the best source there is."""
        async with aclosing(self._statistics.events(position)) as events:
            async for item in events:
                self._costs.see(item)
                yield item

    async def effective(self) -> EffectiveConfig:
        """What vLLM's scheduler says it runs, or without the plugin what vLLM says of its configuration."""
        try:
            told = await self._limits()
        except LimitsNotLive as error:
            self._note_limits(str(error))
            found = await self._from_server()
            self._revision = found.revision
            return found
        self._note_limits(await self._contradicted(told))
        return await self._read(told)

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        """Hand the live knobs to the scheduler and wait until it has taken them up.

        Raises `KnobOutOfRange` for a knob outside what the started server can do live, or one that is not live here.
        """
        asked = time.time()
        begun = time.monotonic()
        try:
            told = await self._limits()
        except LimitsNotLive as error:
            return await self._agree(config, revision, str(error))
        assert self._link is not None
        self._check(config, told)
        knobs_before = {name: told["knobs"][name] for name in told["live"]}
        before = (told["revision"], knobs_before, None, further_running(told))
        wanted = config.knobs()
        more = further_wanted(wanted, told, {})
        queue = queue_limits_change(more, told)
        try:
            self._link.write_knobs(revision, {name: wanted[name] for name in told["live"]}, asked, more)
            try:
                told = await self._link.settled(asked, time.time(), TAKE_UP_TIMEOUT_S, queue=queue)
            except EngineUnreachable:
                self._link.write_knobs(*before)
                raise
            if told.get("error"):
                self._link.write_knobs(*before)
                raise KnobOutOfRange(f"vLLM's scheduler refused the knobs: {told['error']}", field="knobs")
        except OSError as error:
            raise EngineUnreachable(f"the knob file cannot be written: {error}") from error
        self._costs.record(ChangeClass.LIVE, revision, time.monotonic() - begun)
        return await self._read(told)

    async def reset_cache(self) -> bool:
        """Only a server in its development mode offers a way."""
        return await self._api.reset_prefix_cache()

    async def lost(self) -> Lost | None:
        """What vLLM's queue limits turned away: the plugin, inside the engine, does not see it."""
        try:
            refused = await self._statistics.rejections()
        except EngineUnreachable:
            return None
        return Lost(self._revision, {finish_reasons.REFUSED: refused}) if refused else None

    async def health(self) -> EngineHealth:
        """GET /health, with what cannot be seen or moved."""
        health = await self._api.health()
        if not health.healthy:
            return health
        told = "; ".join(part for part in (self._statistics.degraded, self._limits_degraded) if part)
        return EngineHealth(True, degraded=told)

    async def _read(self, told: dict[str, Any]) -> EffectiveConfig:
        self._revision = told["revision"]
        await self._read_cache(told.get("pid"))
        found = from_scheduler(told, self._costs.told())
        memory = told_memory(told.get("memory"), self._cache, str(found.knobs[QUANTIZATION]))
        return found.model_copy(update={"memory": memory, "shape": told_shape(told.get("sizes"))})

    async def _read_cache(self, server: object) -> None:
        """Asked of each server once: it stays as it is while the process lives."""
        if server is not None and server == self._cache_of:
            return
        try:
            self._cache = cache_memory((await self._api.reading()).cache_config)
            self._cache_of = server
        except EngineUnreachable:
            self._cache, self._cache_of = None, None

    async def _limits(self) -> dict[str, Any]:
        """What the scheduler of the server that now runs says. Raises LimitsNotLive, or EngineUnreachable."""
        started = None if self._statistics.raw else await self._api.started()
        if self._link is None:
            raise LimitsNotLive(NO_FOLDER)
        oldest = 0.0 if started is None else started - _CLOCK_STEP_S
        if self._link.read_installation().get("time", 0.0) >= oldest and (why := self._link.why_no_limits()):
            raise LimitsNotLive(why)
        try:
            told = self._link.read_effective(oldest)
        except EngineUnreachable as error:
            raise LimitsNotLive(error.message) from error
        if told.get("time", 0.0) < oldest:
            raise LimitsNotLive(f"{self._link.folder} is of an earlier server; start this one with the plugin in it")
        quantization = format_within(told.get("quantization"), self._variant)
        return {**told, "quantization": quantization, **self._flags(told)}

    async def _contradicted(self, told: dict[str, Any]) -> str:
        """Is the folder another server's? Asked once for each scheduler; its word counts all the same."""
        if told.get("pid") != self._checked_pid or self._checked_pid is None:
            try:
                info = await self._api.server_info(None)
            except EngineUnreachable:
                return self._contradiction
            found = contradictions(told, info) if info is not None else []
            self._checked_pid = told.get("pid")
            self._contradiction = f"the folder may be another server's: its scheduler has {found[0]}" if found else ""
        return self._contradiction

    async def _from_server(self) -> EffectiveConfig:
        """Without a scheduler that speaks: GET /server_info, in vLLM's development mode."""
        started = await self._api.started()
        await self._read_cache(started)
        found = from_server(await self._api.server_info(started), 0, self._costs.told())
        found = found.model_copy(update={"memory": self._cache})
        if self._agreed is not None and not difference(self._agreed[1], found.knobs, unreported=True):
            return found.model_copy(update={"revision": self._agreed[0]})
        return found

    async def _agree(self, config: EngineConfig, revision: int, why: str) -> EffectiveConfig:
        """Nothing can be moved: only what runs already can be applied."""
        found = await self._from_server()
        for name, (value, has) in difference(config.knobs(), found.knobs, unreported=True).items():
            runs = f"which runs {has!r}" if name in found.knobs else "and what it runs cannot be read"
            raise KnobOutOfRange(
                f"knobs.{name}: {value!r} needs a restart of vLLM, {runs} ({why}); "
                "install the plugin, or let the agent manage the server",
                field=f"knobs.{name}",
            )
        self._agreed = (revision, config.knobs())
        return await self.effective()

    def _note_limits(self, why: str) -> None:
        text = f"no limit moves live: {why}" if why and why != self._contradiction else why
        if text != self._limits_degraded:
            log.log(logging.WARNING if text else logging.INFO, "vLLM's limits: %s", text or "live")
        self._limits_degraded = text

    def _check(self, config: EngineConfig, told: dict[str, Any]) -> None:
        for name, knob in further_live(told).items():
            if name in config.knobs():
                knob.parse(config.knobs()[name], f"knobs.{name}")
        for obstacle in obstacles(config, told):
            field = f"knobs.{obstacle.knob}"
            mend = "let the agent manage the server"
            if obstacle.maximum is not None:
                mend = "start it with a larger capacity"
            elif obstacle.minimum is not None:
                mend = "choose a larger one"
            bounds = {"maximum": obstacle.maximum, "minimum": obstacle.minimum}
            detail = {name: bound for name, bound in bounds.items() if bound is not None}
            raise KnobOutOfRange(f"{field}: {obstacle.message}; {mend}, or keep the value", field=field, **detail)
