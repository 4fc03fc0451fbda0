"""One vLLM server that the agent started: is it alive, well, busy; what it runs; its events.

Guarantee: nothing that a dead server left behind is believed: what it told counts only while its process lives.
"""

import logging
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx

from agents.backends.base import EngineHealth, EngineUnreachable, Position
from agents.backends.vllm.attached import AttachedVllm
from agents.backends.vllm.further_knobs import further_live
from agents.backends.vllm.managed import server_log, server_process
from agents.backends.vllm.managed.change_plan import Running
from agents.backends.vllm.managed.command_line import SERVER_HOST
from agents.backends.vllm.managed.kept_servers import ServerRecord
from agents.backends.vllm.managed.log_lines import telling_lines
from agents.backends.vllm.measures.scraper import is_scraped
from agents.backends.vllm.plugin_link import PluginLink
from agents.backends.vllm.weight_format import format_within
from controlplane.contract.reports.engine_event import EngineEvent, Hello
from controlplane.serving.tls import client_context

log = logging.getLogger(__name__)

WARM_UP_REQUESTS = 3
_WARM_UP_TIMEOUT_S = 120.0
_BUSY = ("vllm:num_requests_running", "vllm:num_requests_waiting")


class Server:
    """`attached` is the same server as one merely followed: what is live goes through it."""

    def __init__(self, record: ServerRecord) -> None:
        self.record = record
        self.url = f"{'http' if record.ca_file is None else 'https'}://{SERVER_HOST}:{record.port}"
        trusted = True if record.ca_file is None else client_context(record.ca_file, field="server_ca_file")
        folder = record.folder if record.plugin else None
        self.attached = AttachedVllm(
            self.url,
            folder,
            state_dir=record.folder,
            variant=record.config.quantization,
            flags=self._flags,
            transport=httpx.AsyncHTTPTransport(verify=trusted),
        )
        self.link = PluginLink(record.folder)
        self.ready = False  # It came up, and serves.
        self.outdated = False  # The node file has changed since it was started.
        self.readers = 0
        self.last_event = 0.0  # Monotonic seconds.
        self._http = httpx.AsyncClient(base_url=self.url, timeout=10.0, trust_env=False, verify=trusted)

    def alive(self) -> bool:
        return server_process.is_alive(self.record)

    def told(self) -> dict[str, Any] | None:
        """What its scheduler says it runs; None when the plugin does not speak."""
        if not self.record.plugin or not self.alive():
            return None
        try:
            told = self.link.read_effective()
        except EngineUnreachable:
            return None
        quantization = format_within(told.get("quantization"), self.record.config.quantization)
        return {**told, "quantization": quantization, **self._flags(told)}

    def _flags(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """`flags`: what it runs of the knobs that the node file declared; `flag_sources`: how that is known."""
        flags: dict[str, Any] = {}
        sources: dict[str, str] = {}
        read, live = told.get("arguments", {}), further_live(told)
        for name, argument in self.record.declared.items():
            given = self.record.knobs[name]
            if name in live:
                continue
            flags[name], sources[name] = given, f"argument of the running vllm serve, process {self.record.pid}"
            if argument in read and not isinstance(given, str):
                flags[name] = float(read[argument]) if isinstance(given, float) else read[argument]
                sources[name] = f"vLLM's configuration: {argument}"
        return {"flags": flags, "flag_sources": sources}

    def running(self) -> Running:
        """What it runs, for a plan."""
        return Running(self.record.config, self.record.revision, self.told())

    async def health(self) -> EngineHealth:
        """Process and GET /health. What its plugin does not show is `degraded`."""
        if not self.alive():
            return EngineHealth(False, "vLLM's process has ended")
        health = await self.attached.health()
        if not health.healthy:
            return health
        degraded = [health.degraded]
        if self.told() is None:
            missing = "the plugin does not speak" if self.record.plugin else "the plugin is not in vLLM's environment"
            degraded.append(f"{missing}: every knob needs a restart")
        if self.outdated:
            degraded.append("the node file has changed since vLLM was started; the next restart takes it up")
        return EngineHealth(True, health.detail, "; ".join(filter(None, degraded)))

    async def warm_up(self, model: str) -> None:
        """A few short requests: it truly generates, and its first clients do not wait for what is done only once.

        Raises EngineUnreachable when it does not answer, or with an error of its own (5xx). A refusal (4xx, such as of
        a model that does not generate) is no failure.
        """
        body = {"model": model, "prompt": "Hello", "max_tokens": 4, "temperature": 0}
        for _ in range(WARM_UP_REQUESTS):
            try:
                answer = await self._http.post("/v1/completions", json=body, timeout=_WARM_UP_TIMEOUT_S)
            except httpx.HTTPError as error:
                raise EngineUnreachable(
                    f"no answer to a first request: {str(error) or type(error).__name__}"
                ) from error
            if answer.status_code >= 500:
                raise EngineUnreachable(f"a first request was answered with {answer.status_code}: {answer.text[:200]}")
            if answer.status_code != 200:
                log.info("warm-up: %s answered %d", self.url, answer.status_code)

    async def busy(self) -> int:
        """Requests it has, running or waiting, also those that came past the proxy; 0 when it does not say."""
        try:
            text = (await self._http.get("/metrics")).text
        except httpx.HTTPError:
            return 0
        found = [line.rpartition(" ")[2] for line in text.splitlines() if line.partition("{")[0] in _BUSY]
        try:
            return sum(int(float(value)) for value in found)
        except ValueError:
            return 0

    async def events(self, position: Position | None) -> AsyncGenerator[Hello | EngineEvent]:
        """Its stream, numbered from the first event after its warm-up: what the agent itself asked is not traffic."""
        boot = self.record.stream_boot
        if boot and (position is None or not (position.boot.startswith(boot) or is_scraped(position))):
            position = Position(f"{boot}+{self.record.first_events}", 0)
        self.readers += 1
        self.last_event = time.monotonic()
        try:
            async for item in self.stream(position):
                self.last_event = time.monotonic()
                yield item
        finally:
            self.readers -= 1

    async def stream(self, position: Position | None) -> AsyncGenerator[Hello | EngineEvent]:
        """Its stream as it is."""
        async for item in self.attached.events(position):
            yield item

    def said(self) -> str:
        """The telling lines of its log."""
        return telling_lines(server_log.tail(self.record.log))

    async def close(self) -> None:
        await self._http.aclose()
        await self.attached.close()
