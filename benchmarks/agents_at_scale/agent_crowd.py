"""Thousands of simulated agents on one event loop, in a thread of this process; and what they were told."""

import asyncio
import logging
import random
import re
import resource
import shutil
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import uvloop

from agents.agent.agent import agent_version
from benchmarks.agents_at_scale.simulated_agent import SimulatedAgent, settings_of
from benchmarks.engine_measures.report import progress
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures.fleet.fleet_plan import token_of
from benchmarks.telemetry_measures.fleet.report_bodies import node_name
from benchmarks.telemetry_measures.service import Service

POOL = "main"
CONNECTING = 32
"""Agents that are let in at once when the crowd comes; later they come as they please."""
LIMIT_S = 900.0
_TICK_S = 0.05
_MEMORY = Path("/dev/shm")
_DESCRIPTORS_EACH, _DESCRIPTORS_MORE = 1.5, 1000
"""Of each of the two processes: a WebSocket, and for some a connection for polls after a kill."""


class TooFewDescriptors(Exception):
    """The limit of open files is too low for so many agents."""


def allow_descriptors(agents: int) -> None:
    """Raise this process's limit, and so its children's, as far as it may go. Raises `TooFewDescriptors`."""
    needed = int(agents * _DESCRIPTORS_EACH) + _DESCRIPTORS_MORE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise TooFewDescriptors(
                f"{agents:,} agents want {needed:,} open files in the service and as many here, the limit is {hard:,}: "
                f"run `ulimit -Hn {needed}` as root first, or give fewer --agents"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Refusals(logging.Handler):
    """Counts what the agents' OpAMP client logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.told: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        text = re.sub(r"\('127\.0\.0\.1', \d+\)", "", record.getMessage())
        self.told[text[:100]] += 1


class Crowd:
    """Agents `sim-00000` and on, each with its token in the service's database. A context manager."""

    def __init__(self, service: Service, agents: int, seed: int) -> None:
        self._stack = ExitStack()
        self._service, self._count, self._seed = service, agents, seed
        self.agents: list[SimulatedAgent] = []
        self.known = 0
        self.refusals = Refusals()
        # All of them share a core here, which each has to itself elsewhere: the loop that costs the least.
        self._loop = uvloop.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> Self:
        random.seed(self._seed)  # The agents' backoff asks the module.
        self._service.give_tokens(self._seed, self._count)
        made = tempfile.mkdtemp(prefix="tailwright-crowd-", dir=_MEMORY if _MEMORY.is_dir() else None)
        self._stack.callback(shutil.rmtree, made, ignore_errors=True)
        trust = ssl.create_default_context()
        self.agents = [
            SimulatedAgent(
                settings_of(node_name(number), POOL, self._service.url, Path(made)),
                token_of(self._seed, number),
                agent_version(),
                trust,
                self._count_known,
            )
            for number in range(self._count)
        ]
        self._listen()
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        self._stack.callback(self._end, thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self) -> float:
        """Let all come that have not, a few at once; seconds until each was answered. Raises `WorkerFailed`."""
        began = time.monotonic()
        if not self._tasks:
            self._ask(self._come())
        self.wait(lambda: self.known == self._count, "all agents are known")
        return time.monotonic() - began

    def await_again(self) -> None:
        """Nobody is known any more: the service is gone."""
        self.known = 0
        for agent in self.agents:
            agent.await_again()

    def follow(self, revision: int) -> None:
        for agent in self.agents:
            agent.follow(revision)

    def sent(self) -> int:
        """Messages so far."""
        return sum(agent.client.sent for agent in self.agents)

    def over(self, transport: str) -> int:
        """Agents that speak so: "websocket", or "http"."""
        return sum(agent.client.transport == transport for agent in self.agents)

    def wait(self, done: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
        """Raises `WorkerFailed`."""
        if not self.within(done, limit_s):
            raise WorkerFailed(f"not so after {limit_s:g} s: {what} ({self.known} of {self._count} are known)")

    def within(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Whether it came to be so in that time."""
        until, told = time.monotonic() + limit_s, time.monotonic()
        while not done():
            now = time.monotonic()
            if now >= until:
                return False
            if now - told > 10:
                progress(f"{self.known:,} of {self._count:,} are known")
                told = now
            time.sleep(_TICK_S)
        return True

    # -- inside --------------------------------------------------------------------------------------------------------

    def _count_known(self) -> None:
        self.known += 1

    def _listen(self) -> None:
        logger = logging.getLogger("agents.agent.control.opamp_client")
        before = logger.level, logger.propagate
        logger.addHandler(self.refusals)
        logger.setLevel(logging.INFO)
        logger.propagate = False

        def undo() -> None:
            logger.removeHandler(self.refusals)
            logger.setLevel(before[0])
            logger.propagate = before[1]

        self._stack.callback(undo)

    def _ask(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    async def _come(self) -> None:
        for number, agent in enumerate(self.agents):
            while number - self.known >= CONNECTING:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            self._tasks.append(asyncio.create_task(agent.run()))
        self._tasks.append(asyncio.create_task(self._look()))

    async def _look(self) -> None:
        """Each agent looks at its engine once in its interval, all of them spread over it."""
        began = time.monotonic()
        interval_s = self.agents[0].settings.watch_interval_s
        looked = 0
        while True:
            due = int((time.monotonic() - began) / interval_s * self._count)
            for place in range(looked, due):
                self.agents[place % self._count].look()
            looked = due
            await asyncio.sleep(_TICK_S)

    def _end(self, thread: threading.Thread) -> None:
        self._ask(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
        self._loop.close()

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
