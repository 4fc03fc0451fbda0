"""A closed loop of clients against a completions server, timed from outside. Standard library alone, as the load
generator whose requests it sends.

    python -m benchmarks.vllm_measures.traffic.load < PLAN > RESULT

PLAN: {"host", "port", "model", "timeout_s", "clients", "think_s", "seed", "prompts": [{"prompt": [ids], "max_tokens"},
...], "total": requests to send, or null}. Each client sends a request, waits for its end, thinks (exponential, mean
think_s), and takes the next prompt of the list, which begins anew at its end. It ends after `total` requests, or at
SIGTERM: then what runs is waited for and nothing new is sent.

RESULT: {"requests": [{"index" of the prompt, "sent_s", "ended_s" since the start, "ttft_s", "e2e_s", "tokens", "text",
"error"}], "wall_s": until the last request ended, "began": Unix seconds, "cpu_s"}.
"""

import asyncio
import json
import random
import signal
import sys
import time
from typing import Any

from benchmarks.engine_rivals.load_generator import Story, send


class Loop:
    """The clients of one plan."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._sent = 0
        self._stopping = asyncio.Event()
        self._random = random.Random(plan["seed"])
        self._told: list[dict[str, Any]] = []
        self._began = time.perf_counter()

    async def run(self) -> dict[str, Any]:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stopping.set)
        began = time.time()
        self._began = time.perf_counter()
        await asyncio.gather(*(self._client() for _ in range(self._plan["clients"])))
        wall_s = max((one["ended_s"] for one in self._told), default=0.0)
        return {"requests": self._told, "wall_s": wall_s, "began": began, "cpu_s": time.process_time()}

    async def _client(self) -> None:
        think_s = self._plan["think_s"]
        while (index := self._next()) is not None:
            asked = self._plan["prompts"][index]
            now = time.perf_counter() - self._began
            story = await send(self._plan, {**asked, "at_s": now}, self._began)
            self._told.append(_told(index, story, time.perf_counter() - self._began))
            if think_s and not self._stopping.is_set():
                await self._pause(self._random.expovariate(1.0 / think_s))

    def _next(self) -> int | None:
        total = self._plan["total"]
        if self._stopping.is_set() or (total is not None and self._sent >= total):
            return None
        self._sent += 1
        return (self._sent - 1) % len(self._plan["prompts"])

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


def _told(index: int, story: Story, ended_s: float) -> dict[str, Any]:
    marks = story.marks
    return {
        "index": index,
        "sent_s": story.sent,
        "ended_s": ended_s,
        "ttft_s": marks[0] - story.planned if marks else None,
        "e2e_s": marks[-1] - story.planned if marks else None,
        "tokens": story.completion_tokens or 0,
        "text": "".join(story.pieces),
        "error": story.error,
    }


if __name__ == "__main__":
    plan = json.load(sys.stdin)
    json.dump(asyncio.run(Loop(plan).run()), sys.stdout)
