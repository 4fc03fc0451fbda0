"""The local proxy as this agent uses it: where clients come, and to which server their requests go.

Guarantee: what was last wanted (a target, or that requests wait) is put in force again when a proxy that died was
replaced. Its errors never stop a server's supervision: they are logged and told in `problem`.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from agents.backends.vllm.node_file import NodeFile
from agents.backends.vllm.proxy.client import ProxyClient, ProxyUnreachable
from agents.backends.vllm.proxy.launch import ensure_proxy
from agents.backends.vllm.proxy.state import ProxyState
from agents.backends.vllm.proxy.switchboard import Failure
from controlplane.contract.errors import TailwrightError
from controlplane.contract.reports import finish_reasons

log = logging.getLogger(__name__)

FINISH_REASONS: dict[str, str] = {
    **dict.fromkeys(
        (Failure.HELD, Failure.NO_TARGET, Failure.NOT_TAKEN, Failure.NO_ROOM, Failure.STOPPING), finish_reasons.REFUSED
    ),
    **dict.fromkeys((Failure.LOST, Failure.BROKEN), finish_reasons.DISCONNECT),
}
"""The proxy's failures that are lost requests; a body that is too large, stalled or malformed, or a path that is not
served, is its client's doing."""


class FrontDoor:
    """`url` is what clients are told."""

    def __init__(self, node: NodeFile, run_dir: Path, state_dir: Path) -> None:
        self._node = node
        self._socket = run_dir / "proxy.sock"
        self._log = state_dir / "proxy.log"
        self._client = ProxyClient(self._socket)
        self._target: str | None = None
        self._keeping = asyncio.Lock()
        self._counted: tuple[int, dict[str, int]] | None = None  # The proxy's process, and what it had failed.
        self._tls = node.tls
        self.url = f"{'http' if self._tls is None else 'https'}://{node.host}:{node.port}"
        self.problem = ""

    async def open(self) -> ProxyState:
        """Adopt the proxy that runs, or start one. Raises an error of the contract."""
        node = self._node
        with contextlib.suppress(ProxyUnreachable):
            state = await self._client.state()
            trusted = str(node.server_ca_file or "")
            wanted = (node.host, node.port, self._tls is not None, trusted)
            if (state.host, state.port, state.tls, state.target_ca_file) == wanted:
                return state
            log.warning("the proxy moves from %s:%d to %s", state.host, state.port, self.url)
            await self._client.stop(node.drain_timeout_s)
        self._client = await ensure_proxy(
            node.host,
            node.port,
            self._socket,
            self._log,
            node.hold_s,
            allowed_hosts=node.allowed_hosts,
            pass_paths=node.pass_paths,
            tls=self._tls,
            target_ca_file=node.server_ca_file,
            insecure_http=node.insecure_http,
            end_with_parent=node.stop_with_agent,
        )
        return await self._client.state()

    async def found(self) -> ProxyState | None:
        """What the proxy that an earlier agent started says, which is then kept so; None when none runs."""
        try:
            state = await self._client.state()
        except TailwrightError:
            return None
        if not state.held:
            self._target = state.target
        if state.hold_s != self._node.hold_s:
            log.warning("the proxy that runs lets requests wait %g s; hold_s counts when it is replaced", state.hold_s)
        return state

    async def follow(self, url: str | None) -> None:
        """From now on requests go to `url`; None: they wait."""
        self._target = url
        await self.keep()

    async def keep(self) -> None:
        """Put in force what is wanted; starts the proxy where it is gone."""
        async with self._keeping:
            try:
                await self._keep()
            except TailwrightError as error:
                if error.message != self.problem:
                    log.error("the proxy: %s", error.message)
                self.problem = error.message
            else:
                self.problem = ""

    async def _keep(self) -> None:
        state = await self.open()
        if self._target is None:
            if not state.held:
                await self._client.hold()
        elif state.held or state.target != self._target:
            await self._client.switch(self._target)

    async def drained(self, url: str, timeout_s: float) -> bool:
        """Whether no request is with `url` any more; a proxy that cannot be asked has none to wait for."""
        try:
            return await self._client.drained(url, timeout_s)
        except TailwrightError as error:
            log.warning("whether %s is drained cannot be known: %s", url, error.message)
            return True

    async def lost(self) -> dict[str, int]:
        """Requests that the proxy failed since the last call, by finish reason; those of clients' faults are not lost.

        A proxy started anew counts from 0, one first seen from what it has counted so far.
        """
        try:
            state = await self._client.state()
        except TailwrightError:
            return {}
        before = self._counted
        self._counted = (state.pid, dict(state.failed))
        if before is None:
            return {}
        known = before[1] if before[0] == state.pid else {}
        found: dict[str, int] = {}
        for failure, count in state.failed.items():
            reason, grown = FINISH_REASONS.get(failure), count - known.get(failure, 0)
            if reason is not None and grown > 0:
                found[reason] = found.get(reason, 0) + grown
        return found

    async def close(self) -> None:
        """End the proxy, after the requests that run."""
        try:
            await self._client.stop(self._node.drain_timeout_s)
        except TailwrightError as error:
            log.info("the proxy was not there to be ended: %s", error.message)
