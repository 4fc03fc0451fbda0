"""A running vLLM server, followed and tuned where it stands: nothing is started or stopped.

Guarantee: live knobs move through the plugin's scheduler; a knob that only a restart could change is refused by name,
and the configuration in force stays. `effective` says what vLLM runs, knob by knob, and how that is known.
"""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from agents.backend import EngineHealth, EngineUnreachable, Position
from agents.vllm_backend.change import obstacles, running
from agents.vllm_backend.plugin_link import PluginLink
from controlplane.contract import knobs
from controlplane.contract.engine_event import EngineEvent, Hello
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.nodes import EffectiveConfig

TAKE_UP_TIMEOUT_S = 5.0
_SOURCES = {
    knobs.MAX_NUM_BATCHED_TOKENS: "vLLM scheduler: max_num_scheduled_tokens",
    knobs.PREFILL_CHUNK_SIZE: "vLLM scheduler: scheduler_config.long_prefill_token_threshold",
    knobs.MAX_NUM_SEQS: "vLLM scheduler: max_num_active_reqs",
    knobs.NUM_SPECULATIVE_TOKENS: "vLLM scheduler: draft length by batch size",
    knobs.QUANTIZATION: "vLLM model_config.quantization",
}


class AttachedVllm:
    """The server at `base_url`, whose plugin shares `folder`."""

    name = "vllm"

    def __init__(
        self,
        base_url: str,
        folder: Path | None,
        *,
        scrape_interval_s: float = 5.0,
        otlp_port: int = 0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        assert folder is not None, "attaching without the plugin"
        self.url = base_url
        self._http = httpx.AsyncClient(base_url=base_url, timeout=10.0, trust_env=False, transport=transport)
        self._link = PluginLink(folder)

    async def run(self) -> None:
        """Nothing to do yet."""

    async def close(self) -> None:
        await self._http.aclose()

    def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]:
        """The plugin's raw statistics as the contract's events."""
        return self._link.events(position)

    async def effective(self) -> EffectiveConfig:
        """What the plugin's scheduler says it runs."""
        told = self._link.read_effective()
        live = told.get("live", [])
        sources = {
            name: source if name in live or name == knobs.QUANTIZATION else f"{source} (fixed at start)"
            for name, source in _SOURCES.items()
        }
        return EffectiveConfig(revision=told["revision"], knobs=running(told), sources=sources)

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        """Hand the live knobs to the scheduler and wait until it has taken them up.

        Raises `KnobOutOfRange` for a knob above the started capacity, or one that is not live here.
        """
        told = self._link.read_effective()
        self._check(config, told)
        before = (told["revision"], {name: told["knobs"][name] for name in told["live"]})
        asked_at = time.time()
        wanted = config.knobs()
        try:
            self._link.write_knobs(revision, {name: wanted[name] for name in told["live"]})
            told = await self._link.settled(asked_at, TAKE_UP_TIMEOUT_S)
        except OSError as error:
            raise EngineUnreachable(f"the knob file cannot be written: {error}") from error
        if told.get("error"):
            self._link.write_knobs(*before)
            raise KnobOutOfRange(f"vLLM's scheduler refused the knobs: {told['error']}", field="knobs")
        return await self.effective()

    async def health(self) -> EngineHealth:
        """GET /health: 200 is healthy."""
        try:
            answer = await self._http.get("/health", timeout=5.0)
        except httpx.HTTPError as error:
            return EngineHealth(False, f"GET /health: {str(error) or type(error).__name__}")
        if answer.status_code != 200:
            return EngineHealth(False, f"GET /health answered {answer.status_code}")
        return EngineHealth(True)

    def _check(self, config: EngineConfig, told: dict[str, Any]) -> None:
        for obstacle in obstacles(config, told):
            field = f"knobs.{obstacle.knob}"
            mend = "start it with a larger capacity" if obstacle.maximum else "let the agent manage the server"
            detail = {} if obstacle.maximum is None else {"maximum": obstacle.maximum}
            raise KnobOutOfRange(f"{field}: {obstacle.message}; {mend}, or keep the value", field=field, **detail)
