"""Changes that need another vLLM process: through a standby, or by a restart.

Guarantee: either the wanted configuration is in force on a server that came up and answered, or `ChangeFailed` is
raised and the previous one is: with a standby it was never away, after a restart it has been started again (or, where
even that fails, goes on being started by the supervision). Requests wait at the proxy while no server runs; none is
refused as long as that takes less than `hold_s`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from agents.backends.vllm.managed.front_door import FrontDoor
from agents.backends.vllm.managed.server import Server
from agents.backends.vllm.managed.servers import Servers, StartFailed
from agents.backends.vllm.node_file import NodeFile
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import EngineConfig

log = logging.getLogger(__name__)

QUIET_S = 0.4
"""The plugin hands its events over within milliseconds: a stream silent for so long has been read to its end."""
_READ_OUT_WITHIN_S = 5.0
_DRAIN_POLL_S = 0.05
_POLL_S = 0.2


class ChangeFailed(Conflict):
    """A server with the wanted configuration did not come up; the previous one is in force, or coming back."""

    code = "change_failed"


class Changes:
    """`followed`: does somebody read the servers' events?"""

    def __init__(self, node: NodeFile, servers: Servers, door: FrontDoor) -> None:
        self._node = node
        self._servers = servers
        self._door = door
        self.followed = False

    async def through_standby(self, config: EngineConfig, revision: int) -> Server | None:
        """A second server comes up and takes the place of the active one, which is returned: it has to be retired."""
        servers, old = self._servers, self._servers.active
        standby: Server | None = None
        try:
            standby = await servers.start(config, revision)
            async with self._requests_wait_if_it_dies(old):
                await servers.come_up(standby)
            servers.serves(standby)
        except (StartFailed, OSError) as error:
            if standby is not None:
                await servers.end(standby, 0.0)
            raise ChangeFailed(self._taken_back(revision, "is in force still", error)) from error
        except BaseException:
            if standby is not None:
                servers.kill_now(standby)
            raise
        await self._take_over(standby, config, revision)
        if old is not None:
            servers.retiring.append(old)
        return old

    async def through_restart(self, config: EngineConfig, revision: int) -> float:
        """Drain, stop, start. Returns for how many seconds requests had to wait."""
        servers, old = self._servers, self._servers.active
        held_at = time.monotonic()
        await self._door.follow(None)
        if old is not None:
            if not await drain(old, self._door, self._node.drain_timeout_s, followed=self.followed):
                log.warning("requests that were not done within %g s are cut off", self._node.drain_timeout_s)
            servers.active = None
            await servers.end(old)
        try:
            await self._replace(config, revision)
        except StartFailed as error:
            back = await self._bring_back()
            raise ChangeFailed(self._taken_back(revision, back, error)) from error
        return time.monotonic() - held_at

    async def retire(self, server: Server) -> None:
        """Let a replaced server end its requests, then stop it."""
        if not await drain(server, self._door, self._node.drain_timeout_s, followed=self.followed):
            log.warning("%s: requests that were not done in time are cut off", server.url)
        await self._servers.end(server)
        self._servers.retiring.remove(server)
        log.info("vLLM at %s has been replaced and is stopped", server.url)

    async def _replace(self, config: EngineConfig, revision: int) -> None:
        """Start a server where none runs, and hand it the requests. Raises StartFailed."""
        servers = self._servers
        server = await servers.start(config, revision)
        servers.active = server
        try:
            await servers.come_up(server)
            servers.serves(server)
        except (StartFailed, OSError) as error:
            servers.active = None
            await servers.end(server, 0.0)
            raise StartFailed(str(error)) from error
        await self._take_over(server, config, revision)

    async def _bring_back(self) -> str:
        config, revision = self._servers.wanted
        try:
            await self._replace(config, revision)
        except StartFailed as error:
            log.error("the previous configuration does not come up either: %s", error)
            return "does not come up at once either and is tried again"
        return "is in force again"

    async def _take_over(self, server: Server, config: EngineConfig, revision: int) -> None:
        await self._door.follow(server.url)
        self._servers.active = server
        self._servers.settle(config, revision)
        server.ready = True

    @contextlib.asynccontextmanager
    async def _requests_wait_if_it_dies(self, server: Server | None) -> AsyncIterator[None]:
        async def watch() -> None:
            while server is not None:
                if not server.alive():
                    return await self._door.follow(None)
                await asyncio.sleep(_POLL_S)

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()

    def _taken_back(self, revision: int, previous: str, error: Exception) -> str:
        return f"revision {revision} was taken back, revision {self._servers.wanted[1]} {previous}: {error}"


async def drain(server: Server, door: FrontDoor, timeout_s: float, *, followed: bool) -> bool:
    """Wait until no request is on it, at most `timeout_s`; then, where somebody follows its events, until all are read.

    False: time is up and requests are on it still.
    """
    deadline = time.monotonic() + timeout_s
    idle = await door.drained(server.url, timeout_s)
    while idle and server.alive() and (left := await server.busy()):
        if time.monotonic() >= deadline:
            log.warning("%s still has %d requests", server.url, left)
            idle = False
        await asyncio.sleep(_DRAIN_POLL_S)
    if followed:
        await _read_out(server)
    return idle


async def _read_out(server: Server) -> None:
    deadline = time.monotonic() + _READ_OUT_WITHIN_S
    while server.alive() and time.monotonic() < deadline:
        if server.readers and time.monotonic() - server.last_event >= QUIET_S:
            return
        await asyncio.sleep(_DRAIN_POLL_S)
