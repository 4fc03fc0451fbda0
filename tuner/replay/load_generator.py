"""Endless open-loop traffic over several servers, round-robin, with a rate that may change while it runs.

Guarantee: the same seed gives the same requests in the same order, whatever the rate; a request is sent at its time
whatever the servers do, except above `max_in_flight`, and what that refused is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tuner.replay.completion import RequestTiming, pool_samples, request_body
from tuner.replay.http_stream import Answer, Target
from tuner.workload.generate import Arrival, Shape, arrivals
from tuner.workload.prompt import PromptMaker

RING = 2000
_RECENT_S = 30.0
_LOOK_S = 0.2
_MOST_BLOCKS = 200_000


class Traffic:
    """One generator. `rate` (requests per second, mean over all targets) and `paused` may be set at any time."""

    def __init__(
        self,
        targets: Sequence[str],
        *,
        model: str,
        corpus: Sequence[int],
        shape: Shape,
        rate: float,
        seed: int = 0,
        max_in_flight: int = 256,
        deadline_s: float = 120.0,
        api_key: str | None = None,
    ) -> None:
        self.rate = rate
        self.paused = False
        self.counts: Counter[str] = Counter(sent=0, finished=0, failed=0, refused=0)
        self.by_target: Counter[str] = Counter()
        self.recent: deque[tuple[float, RequestTiming]] = deque(maxlen=RING)
        self.in_flight = 0
        self.last_error = ""
        self._targets = [Target(url, api_key=api_key) for url in targets]
        self._model = model
        self._arrivals = arrivals(shape, seed)
        self._maker = PromptMaker(corpus, block_size=shape.block_size, salt=seed)
        self._max_in_flight = max_in_flight
        self._deadline_s = deadline_s
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self, *, drain_s: float = 10.0) -> None:
        """Send until `stop`, then wait for what is in flight, at most `drain_s`."""
        turn = itertools.cycle(self._targets)
        due = time.perf_counter()
        for index, arrival in enumerate(self._arrivals):
            due = await self._until(due, arrival.gap)
            if self._stopping.is_set():
                break
            # Of several that are due at once none has begun yet: its task counts, not what it has sent.
            if len(self._tasks) >= self._max_in_flight:
                self.counts["refused"] += 1
                next(turn)
                continue
            self._start(index, arrival, next(turn), due)
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=drain_s)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        for target in self._targets:
            target.close()

    async def _until(self, due: float, gap: float) -> float:
        """Wait `gap` mean gaps, at the rate in force at each moment; returns when the request was due."""
        left = gap
        while not self._stopping.is_set():
            rate = 0.0 if self.paused else max(0.0, self.rate)
            now = time.perf_counter()
            wait = _LOOK_S if rate <= 0 else min(_LOOK_S, due + left / rate - now)
            if wait > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), wait)
            now = time.perf_counter()
            if rate <= 0:
                due = now
            elif due + left / rate <= now:
                return due + left / rate
            else:
                # What has passed of the gap stays passed, at the rate that was in force; then look at the rate again.
                left -= (now - due) * rate
                due = now
        return due

    def _start(self, index: int, arrival: Arrival, target: Target, due: float) -> None:
        timing = RequestTiming(index, due, lateness_s=time.perf_counter() - due, target=target.url)
        task = asyncio.create_task(self._one(timing, arrival, target))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, timing: RequestTiming, arrival: Arrival, target: Target) -> None:
        if self._maker.blocks > _MOST_BLOCKS:
            self._maker.forget()
        prompt = self._maker.prompt(arrival.hash_ids, arrival.input_length, unique=timing.index)
        body = request_body(self._model, prompt, arrival.output_length)
        answer = Answer()
        self.counts["sent"] += 1
        self.by_target[target.url] += 1
        self.in_flight += 1
        try:
            async with asyncio.timeout(self._deadline_s):
                await target.post(body, answer)
        except TimeoutError:
            answer.error = f"no answer within {self._deadline_s:g} s"
        finally:
            self.in_flight -= 1
        timing.fill(answer, time.perf_counter())
        self.counts["finished" if timing.ok else "failed"] += 1
        self.last_error = timing.error or self.last_error
        self.recent.append((time.perf_counter(), timing))

    def recent_errors(self) -> list[str]:
        """Of the last `RING` requests, why each failed one did."""
        return [timing.error for _, timing in self.recent if timing.error]

    def progress(self, over_s: float = _RECENT_S) -> dict[str, Any]:
        """Counters, and client-side quantiles in seconds over the last `over_s` (of the last `RING` requests)."""
        since = time.perf_counter() - over_s
        timings = [timing for at, timing in self.recent if at >= since]
        samples = pool_samples(timings)
        report: dict[str, Any] = {
            "time": round(time.time(), 3),
            "rate": 0.0 if self.paused else self.rate,
            **self.counts,
            "in_flight": self.in_flight,
            "by_target": dict(self.by_target),
            "cpu_s": round(time.process_time(), 3),
        }
        for metric, q in (("ttft", 0.5), ("ttft", 0.95), ("ttft", 0.99), ("itl", 0.99), ("e2e", 0.95)):
            if samples.get(metric):
                report[f"{metric}_p{round(q * 100)}_s"] = round(float(np.quantile(samples[metric], q)), 4)
        if timings:
            report["late_p99_s"] = round(float(np.quantile([timing.lateness_s for timing in timings], 0.99)), 4)
        if self.last_error:
            report["last_error"] = self.last_error
        return report

    def control(self, wanted: dict[str, Any]) -> None:
        """Take over what a control file says; anything else in it is left alone."""
        self.rate = float(wanted.get("rate", self.rate))
        self.paused = bool(wanted.get("paused", self.paused))
