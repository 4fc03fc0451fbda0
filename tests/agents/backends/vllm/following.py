"""What an agent does with a backend's stream, for tests: count it, and take it up again when it breaks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.tally import Tally
from agents.backends.base import EngineUnreachable, Position
from agents.backends.vllm.attached import AttachedVllm
from tests.agents.backends.vllm.conftest import eventually


class Following:
    """Follows `backend` from `position`; what it told is in `items`, what it adds up to in `counted`."""

    def __init__(self, backend: AttachedVllm, position: Position | None = None) -> None:
        self.backend = backend
        self.accumulator = Accumulator(position, 5.0)
        self.hellos: list[Any] = []
        self.items: list[Any] = []
        self._tallies: list[Tally] = []

    async def run(self) -> None:
        while True:
            try:
                async for item in self.backend.events(self.accumulator.read_to):
                    if item["kind"] == "hello":
                        self.hellos.append(item)
                        self.accumulator.hello(item)
                    else:
                        self.items.append(dict(item))
                        self.accumulator.count(item)
            except EngineUnreachable:
                await asyncio.sleep(0.02)

    @property
    def kinds(self) -> list[str]:
        return [item["kind"] for item in self.items]

    def counted(self) -> dict[str, int]:
        """Requests and tokens; and of latencies the number of values, exact ones and those in buckets."""
        self.accumulator.seal()
        self._tallies += self.accumulator.take()
        found: dict[str, int] = {"missed": sum(tally.missed for tally in self._tallies)}
        for window in (window for tally in self._tallies for window in tally.windows.values()):
            for (metric, _, _), amount in window.sums.items():
                found[metric.short] = found.get(metric.short, 0) + amount
            for series in window.distributions.values():
                for metric, distribution in series.items():
                    found[metric.short] = found.get(metric.short, 0) + distribution.count
            for (metric, _), buckets in window.buckets.items():
                found[metric.short] = found.get(metric.short, 0) + buckets.count
        return found

    async def until(self, name: str, amount: int) -> None:
        await eventually(lambda: self.counted().get(name, 0) >= amount)


def followed(
    backend: AttachedVllm, work: Callable[[Following], Awaitable[None]], position: Position | None = None
) -> Following:
    """Follow while `work` does its part."""

    async def run() -> Following:
        following = Following(backend, position)
        tasks = [asyncio.create_task(following.run()), asyncio.create_task(backend.run())]
        try:
            await work(following)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await backend.close()
        return following

    return asyncio.run(run())
