"""Keeps a server running: starts the last good configuration, watches it, starts it again when it ends or falls ill.

Guarantee: requests are sent to a server only from when it is healthy, and wait at the proxy from when its process is
seen to have ended. What becomes of it is decided by `Supervision`; here it is carried out.
"""

import asyncio
import logging
import time

from agents.backends.base import EngineUnreachable
from agents.backends.vllm.managed import server_process
from agents.backends.vllm.managed.front_door import FrontDoor
from agents.backends.vllm.managed.server import Server
from agents.backends.vllm.managed.servers import STOP_GRACE_S, Servers, StartFailed
from agents.backends.vllm.managed.supervision import REMEMBERED_S, Act, Patience, Phase, Supervision
from agents.backends.vllm.node_file import NodeFile
from agents.host.backoff import Backoff

log = logging.getLogger(__name__)

TICK_S = 0.2
HEALTH_EVERY_S = 2.0
LONGEST_WAIT_S = 60.0


class Keeper:
    """`busy` is held by whoever starts, stops or changes servers; `doing` says, for people, what change that is."""

    def __init__(self, node: NodeFile, servers: Servers, door: FrontDoor) -> None:
        self._servers = servers
        self._door = door
        self._waits = Backoff(first_s=0.5, limit_s=LONGEST_WAIT_S)
        self._health_seen = 0.0  # Monotonic seconds.
        self._last_words = ""
        self.supervision = Supervision(Patience(node.start_timeout_s, node.unhealthy_s), self._next_wait_s)
        self.busy = asyncio.Lock()
        self.doing = ""

    async def run(self) -> None:
        """For ever."""
        while True:
            server = self._servers.active
            alive = server is not None and server.alive()
            # A server that is slow to say how it is holds up no change: it is asked before the lock is taken.
            healthy = server is not None and alive and await self._is_healthy(server, time.monotonic())
            async with self.busy:
                if server is self._servers.active:
                    await self._tick(server, time.monotonic(), alive=alive, healthy=healthy)
            await asyncio.sleep(TICK_S)

    def serving(self) -> Server:
        """The active server. Raises EngineUnreachable, saying what is being done, while there is none."""
        server = self._servers.active
        if server is None or not server.ready or not server.alive():
            raise EngineUnreachable(self._story(server, time.monotonic()))
        return server

    async def _tick(self, server: Server | None, now: float, *, alive: bool, healthy: bool) -> None:
        was = self.supervision.phase
        act = self.supervision.observe(now, alive=alive, healthy=healthy)
        if server is not None and not alive:
            await self._bury(server)
        if server is not None and act is Act.STOP:
            log.error("vLLM at %s is given up: %s", server.url, (await server.health()).detail)
            await self._door.follow(None)
            await server_process.end(server.record, STOP_GRACE_S)
        if act is Act.START:
            await self._start()
        if server is not None and alive and self.supervision.phase is Phase.SERVING and was is not Phase.SERVING:
            await self._serve(server)

    async def _start(self) -> None:
        await self._door.follow(None)
        try:
            self._servers.active = await self._servers.start(*self._servers.wanted)
        except StartFailed as error:
            self._last_words = str(error)
            log.error("%s", error)

    async def _serve(self, server: Server) -> None:
        """It has come up under supervision."""
        try:
            self._servers.serves(server)
        except OSError as error:
            log.error("that %s serves cannot be written down: %s", server.url, error)
        await self._door.follow(server.url)
        config, revision = self._servers.wanted
        if self._servers.good is None or server.record.id != self._servers.good.active:
            config, revision = server.record.config, server.record.revision
        self._servers.settle(config, revision)
        server.ready, self._last_words = True, ""
        log.info("vLLM serves at %s, process %s, revision %d", server.url, server.record.pid, revision)

    async def _bury(self, server: Server) -> None:
        """Its process has ended by itself."""
        self._last_words = server.said()
        log.error("vLLM at %s has ended; its log says:\n%s", server.url, self._last_words)
        self._servers.active = None
        await self._door.follow(None)
        await self._servers.end(server, 0.0)

    async def _is_healthy(self, server: Server, now: float) -> bool:
        recently = now - self._health_seen < HEALTH_EVERY_S
        if server.ready and recently and self.supervision.phase is Phase.SERVING:
            return True
        self._health_seen = now
        return (await server.health()).healthy

    def _story(self, server: Server | None, now: float) -> str:
        """Why no server serves, and what is being done."""
        supervision = self.supervision
        if self.doing:
            return f"requests wait: {self.doing}"
        if server is not None and server.alive():
            text = f"vLLM starts, for {max(time.time() - server.record.began, 0):.0f} s so far"
        elif wait_s := supervision.next_start_in_s(now):
            text = f"vLLM does not run; it is started in {wait_s:.0f} s"
        else:
            text = "vLLM does not run"
        if deaths := supervision.deaths_within(now):
            text += f"; it ended {deaths} times within {REMEMBERED_S / 60:.0f} min"
        return f"{text}: {self._last_words}" if self._last_words else text

    def _next_wait_s(self, tries: int) -> float:
        if not tries:
            self._waits.reset()
        return self._waits.next_s()
