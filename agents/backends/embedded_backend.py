"""The torch engine of this repository as a `Backend`: health over its client port, all else over its control surface.

Guarantee: only reads a bounded ring that the engine fills anyway, in large pieces: the engine never waits for this.
"""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from ssl import SSLContext
from typing import Any

import httpx
import orjson
from pydantic import ValidationError

from agents.backends.base import EngineHealth, EngineUnreachable, Lost, Position
from agents.backends.change_costs import ChangeCosts
from agents.backends.engine_control import EngineControl
from agents.backends.engine_error import reason
from agents.backends.in_flight import InFlight
from controlplane.client import raise_for_error
from controlplane.contract.bodies.change import needed_class
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import QUANTIZATION, ChangeClass, EngineConfig
from controlplane.contract.reports.engine_event import EngineEvent, Hello

log = logging.getLogger(__name__)

APPLY_TIMEOUT_S = 600.0
"""A change of weights drains the running requests first."""
LARGEST_LINE_BYTES = 16 * 2**20


class EmbeddedBackend:
    """One engine that clients reach at `base_url`. `state_dir` keeps what changes have cost; `tls`: whom to trust."""

    name = "embedded"

    def __init__(
        self, base_url: str, control: EngineControl, *, state_dir: Path | None = None, tls: SSLContext | None = None
    ) -> None:
        self.url = base_url
        self._costs = ChangeCosts(state_dir)
        self._in_flight = InFlight()
        # The engine is on this machine: a proxy that the environment names is not for it.
        self._clients = httpx.AsyncClient(base_url=base_url, timeout=5.0, trust_env=False, verify=tls or True)
        self._control = control.client(tls)

    async def run(self) -> None:
        """Nothing to do: the engine is somebody else's process."""

    def processes(self) -> Sequence[int]:
        """Not known: the one that listens."""
        return ()

    async def close(self) -> None:
        await self._clients.aclose()
        await self._control.aclose()

    async def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]:
        """Follow GET /events. Lines that are not JSON objects are logged and passed over."""
        params: dict[str, str | int] = (
            {} if position is None else {"boot": position.boot, "after": max(position.seq, 0)}
        )
        timeout = httpx.Timeout(10.0, read=None)  # An idle engine says nothing.
        try:
            async with self._control.stream("GET", "/events", params=params, timeout=timeout) as answer:
                if answer.status_code != 200:
                    raise EngineUnreachable(f"GET /events answered {answer.status_code}")
                rest = b""
                async for chunk in answer.aiter_raw():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line and (event := _parse(line)) is not None:
                            self._in_flight.see(event)
                            self._costs.see(event)
                            yield event
                    if len(rest) > LARGEST_LINE_BYTES:
                        raise EngineUnreachable(f"GET /events sent a line of more than {LARGEST_LINE_BYTES} bytes")
        except httpx.HTTPError as error:
            self._in_flight.broke()
            raise EngineUnreachable(f"GET /events: {reason(error)}") from error
        raise EngineUnreachable("the engine ended its event stream")

    async def effective(self) -> EffectiveConfig:
        """Read GET /config."""
        found = _effective(await _request(self._control, "GET", "/config"))
        return found.model_copy(update={"costs": self._costs.told()})

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        """PUT /config, then read it back."""
        begun = time.monotonic()
        needed = needed_class(self.name, await self.effective(), config.knobs())
        body = {"knobs": config.knobs(), "revision": revision}
        await _request(self._control, "PUT", "/config", json=body, timeout=APPLY_TIMEOUT_S)
        if needed is not None:
            took_s = time.monotonic() - begun
            # While weights are swapped no new request is begun: one that comes waits for all of it, at the worst.
            self._costs.record(needed, revision, took_s, 0.0 if needed is ChangeClass.LIVE else took_s)
        return await self.effective()

    async def health(self) -> EngineHealth:
        """GET /health: 200 is healthy."""
        try:
            await _request(self._clients, "GET", "/health")
        except TailwrightError as error:
            return EngineHealth(False, error.message)
        return EngineHealth(True)

    async def lost(self) -> Lost | None:
        """The requests that an engine had when it died."""
        return self._in_flight.take_lost()

    async def reset_cache(self) -> bool:
        """POST /cache/reset."""
        await _request(self._control, "POST", "/cache/reset")
        return True


async def _request(http: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
    try:
        answer = await http.request(method, path, **options)
    except httpx.HTTPError as error:
        raise EngineUnreachable(f"{method} {path}: {reason(error)}") from error
    raise_for_error(answer)
    return answer


def _parse(line: bytes) -> Hello | EngineEvent | None:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        log.error("the engine sent a line that is not JSON, passed over: %s", error)
        return None
    return event if isinstance(event, dict) else None  # type: ignore[return-value]


def _effective(answer: httpx.Response) -> EffectiveConfig:
    try:
        told = orjson.loads(answer.content)
        formats = told.pop("capabilities", {}).get(QUANTIZATION, [])
        return EffectiveConfig.model_validate({**told, "formats": formats})
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise EngineUnreachable(f"GET /config is not readable: {error}") from error
    except ValidationError as error:
        raise EngineUnreachable(f"GET /config is not readable: {error.errors()[0]['msg']}") from error
