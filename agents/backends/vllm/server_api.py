"""What a vLLM server tells over HTTP. Whatever goes wrong there is `EngineUnreachable`, with what was asked."""

import json
import re
import time
from typing import Any

import httpx

from agents.backends.base import EngineHealth, EngineUnreachable
from agents.backends.engine_error import reason
from agents.backends.vllm.measures.scrape_reading import Reading, parse
from agents.backends.vllm.measures.vllm_metric_names import START_TIME

SERVER_INFO = "/server_info"
_START = re.compile(rf"^{START_TIME} ([0-9.e+]+)$", re.MULTILINE)


class ServerApi:
    """The server at `base_url`."""

    def __init__(self, base_url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # The server is on this machine: a proxy that the environment names is not for it.
        self._http = httpx.AsyncClient(base_url=base_url, timeout=10.0, trust_env=False, transport=transport)
        self._info: tuple[float, dict[str, Any] | None] | None = None

    async def close(self) -> None:
        await self._http.aclose()

    async def health(self) -> EngineHealth:
        """GET /health: 200 is healthy."""
        try:
            answer = await self._http.get("/health", timeout=5.0)
        except httpx.HTTPError as error:
            return EngineHealth(False, f"GET /health: {reason(error)}")
        if answer.status_code != 200:
            return EngineHealth(False, f"GET /health answered {answer.status_code}")
        return EngineHealth(True)

    async def reading(self) -> Reading:
        """GET /metrics. Raises EngineUnreachable."""
        answer = await self._get("/metrics")
        if answer.status_code != 200:
            raise EngineUnreachable(f"GET /metrics answered {answer.status_code}; is engine_url that of a vLLM server?")
        try:
            return parse(answer.text, time.time())
        except ValueError as error:
            raise EngineUnreachable(
                f"GET /metrics is not what vLLM tells: {error}; is engine_url right, "
                "or was vLLM started with --disable-log-stats?"
            ) from error

    async def started(self) -> float | None:
        """When the server's process began, Unix seconds; None where it does not say. Raises EngineUnreachable."""
        found = _START.search((await self._get("/metrics")).text)
        return None if found is None else float(found[1])

    async def version(self) -> str | None:
        """ "vllm 0.32.0" by GET /version; None where it does not tell."""
        try:
            told = (await self._get("/version")).json()["version"]
        except (EngineUnreachable, ValueError, KeyError, TypeError):
            return None
        return f"vllm {told}" if isinstance(told, str) else None

    async def server_info(self, started: float | None) -> dict[str, Any] | None:
        """vLLM's whole configuration, None where it does not tell it (VLLM_SERVER_DEV_MODE=1 makes it tell).

        It stays as it is while the process lives, so it is asked for once for each start time.
        """
        if started is not None and self._info is not None and self._info[0] == started:
            return self._info[1]
        answer = await self._get(SERVER_INFO, params={"config_format": "json"})
        found = _config(answer)
        if started is not None:
            self._info = (started, found)
        return found

    async def reset_prefix_cache(self) -> bool:
        """POST /reset_prefix_cache, which only a server in its development mode has. Raises EngineUnreachable."""
        try:
            return (await self._http.post("/reset_prefix_cache")).is_success
        except httpx.HTTPError as error:
            raise EngineUnreachable(f"POST /reset_prefix_cache: {reason(error)}") from error

    async def _get(self, path: str, **options: Any) -> httpx.Response:
        try:
            return await self._http.get(path, **options)
        except httpx.HTTPError as error:
            raise EngineUnreachable(f"GET {path}: {reason(error)}") from error


def _config(answer: httpx.Response) -> dict[str, Any] | None:
    if answer.status_code != 200:
        return None
    try:
        found = json.loads(answer.content)["vllm_config"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None
