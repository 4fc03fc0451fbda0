"""The agent's side of the proxy's control socket."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import aiohttp

from agents.backends.vllm.proxy.state import ProxyState
from agents.backends.vllm.proxy.target import target_url
from controlplane.contract.errors import BadRequest, TailwrightError, Unavailable

POLL_S: Final = 0.05
ANSWER_LIMIT_S: Final = 10.0


class ProxyUnreachable(Unavailable):
    """Nothing answers on the control socket, or what answers is no proxy. `detail.socket` names it."""

    code = "proxy_unreachable"


class ProxyRefused(TailwrightError):
    """The proxy answered with an error; the message is its own, after the socket's name."""

    status = 502
    code = "proxy_refused"


class ProxyClient:
    """One proxy by its control socket. Holds no connection between calls, so nothing has to be closed.

    Every method raises `ProxyUnreachable` or `ProxyRefused`, both naming the socket; `switch` also `BadRequest` for a
    URL that cannot be a target.
    """

    def __init__(self, socket_path: Path | str) -> None:
        self.socket_path = Path(socket_path)

    async def state(self) -> ProxyState:
        return self._parsed(await self._ask("GET", "/state"))

    async def switch(self, url: str) -> ProxyState:
        """New requests go to `url` from now on, the waiting ones too, and a hold is over. Running ones stay."""
        return self._parsed(await self._ask("PUT", "/target", {"url": target_url(url)}))

    async def hold(self) -> ProxyState:
        """New requests wait from now on, until the next `switch`. Running ones stay."""
        return self._parsed(await self._ask("PUT", "/hold", {}))

    async def drained(self, url: str, timeout_s: float) -> bool:
        """Whether, within `timeout_s`, a moment came at which no request was with `url`.

        Without a switch or hold before it, the next request may go there at once.
        """
        wanted, deadline = target_url(url), time.monotonic() + timeout_s
        while (await self.state()).in_flight.get(wanted, 0):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def stop(self, timeout_s: float | None = 30.0) -> bool:
        """End the proxy gracefully: it takes no new requests and ends after the running ones.

        True when it was gone within `timeout_s` (None: wait for ever). False leaves it ending.
        """
        await self._ask("POST", "/stop", {})
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                await self.state()
            except ProxyUnreachable:
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            await asyncio.sleep(POLL_S)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        where = f"the proxy's control socket {self.socket_path}"
        limit = aiohttp.ClientTimeout(total=ANSWER_LIMIT_S)
        try:
            connector = aiohttp.UnixConnector(path=str(self.socket_path))
            async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
                async with session.request(method, f"http://proxy{path}", json=body) as answer:
                    told = await answer.json(content_type=None)
                    status = answer.status
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise ProxyUnreachable(f"{where} does not answer: {why}", socket=str(self.socket_path)) from error
        if status >= 400:
            said = told.get("error", {}) if isinstance(told, dict) else {}
            message = said.get("message", f"status {status}")
            raise ProxyRefused(f"{where}: {message}", socket=str(self.socket_path), status=status, said=said)
        return told

    def _parsed(self, told: Any) -> ProxyState:
        try:
            return ProxyState.parse(told)
        except BadRequest as error:
            message = f"the proxy's control socket {self.socket_path}: {error.message}"
            raise ProxyUnreachable(message, socket=str(self.socket_path)) from error
