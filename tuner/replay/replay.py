"""Open-loop replay of a workload against an OpenAI-compatible server: arrival times are honoured, whatever the server
does.

Guarantee: a request is sent at its time even when those before it have not ended (a closed loop would hide overload,
"coordinated omission"). How late the generator itself was is part of the result. `max_in_flight` is a safety limit
only; what it kept back is counted, and its waiting counts as latency.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controlplane.contract.bodies.knob_schema import REPLAYED
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.planning.measurement import Measurement
from tuner.replay.completion import RequestTiming, pool_samples, request_body
from tuner.replay.goodput import is_good
from tuner.replay.http_stream import Answer, Target
from tuner.replay.lost_cause import Bound, lost_cause
from tuner.replay.steady_state import found_under_way, settled_after

QUANTILES = (0.5, 0.9, 0.95, 0.99)
_STOP_POLL_S = 0.1
_LOOK_S = 0.5
"""How often is looked whether a bound can still be kept: it takes the time of the requests' own loop."""


class Stopped(Exception):
    """The caller asked the replay to stop before its end."""


def key(metric: str, q: float) -> str:
    """The contract's name of a quantile: "ttft:0.95"."""
    return f"{metric}:{q:g}"


@dataclass
class ReplayResult:
    """All requests of one replay, in the order of their arrival."""

    timings: list[RequestTiming]
    duration_s: float
    cpu_s: float  # Processor time this process spent meanwhile.
    held: int = 0
    cut: int = 0
    lateness_p99_s: float = 0.0
    samples: dict[str, list[float]] = field(default_factory=dict)
    began_s: float = 0.0
    """When what counts began, after the start."""
    lost: Bound | None = None
    """The bound that could not be kept any more, for which it ended early: `timings` are those that were sent."""
    lead_in: int = 0
    """Requests that were sent ahead of `timings` and count nowhere."""
    settled_after: int | None = None
    """As `steady_state.settled_after` has it, of all that were sent. None: of one that ended early, too."""
    drafts: tuple[int, int] | None = None
    """Draft tokens proposed and accepted for all that were sent, where the engine's counters were asked."""

    @property
    def errors(self) -> list[RequestTiming]:
        return [timing for timing in self.timings if not timing.ok]

    def quantile(self, metric: str, q: float) -> float | None:
        """The exact q-quantile (numpy's default, linear) over all samples; None without any."""
        values = self.samples.get(metric)
        return float(np.quantile(values, q)) if values else None

    @property
    def span_s(self) -> float:
        """From the first request's time to the last one's; of requests that came at once how long it all took. Behind
        others sent ahead the time of the first is when the last of those came: a gap belongs to whom it leads to."""
        return max((timing.scheduled_s for timing in self.timings), default=0.0) - self.began_s or self.duration_s

    @property
    def grew(self) -> bool:
        """Whether more and more requests were under way up to its end."""
        return self.settled_after == self.lead_in + len(self.timings)

    def good(self, limits: Sequence[Limit]) -> int:
        """Requests that kept each of `limits`."""
        return sum(is_good(timing, limits) for timing in self.timings)

    def good_tokens(self, limits: Sequence[Limit]) -> int:
        """Output tokens of those requests."""
        return sum(timing.output_tokens for timing in self.timings if is_good(timing, limits))

    def measurement(self, extra: Sequence[tuple[str, float]] = (), good_by: Sequence[Limit] = ()) -> Measurement:
        """The contract's form, with the usual quantiles and those in `extra`. good_by: what makes a request good."""
        wanted = {(metric, q) for metric in REPLAYED for q in QUANTILES} | set(extra)
        quantiles = {
            key(metric, q): value for metric, q in sorted(wanted) if (value := self.quantile(metric, q)) is not None
        }
        tokens = sum(timing.output_tokens for timing in self.timings)
        return Measurement(
            requests=len(self.timings),
            errors=len(self.errors),
            duration_s=self.duration_s,
            quantiles=quantiles,
            output_tokens_per_s=tokens / self.duration_s if self.duration_s > 0 else 0.0,
            good=self.good(good_by) if good_by else None,
            good_tokens=self.good_tokens(good_by) if good_by else None,
            span_s=self.span_s,
            lead_in=self.lead_in,
            settled_after=None if self.grew else self.settled_after,
            grew=self.grew,
            drafted=None if self.drafts is None else self.drafts[0],
            accepted=None if self.drafts is None else self.drafts[1],
        )


async def replay(
    workload: Workload,
    prompts: Sequence[Sequence[int]],
    target: Target,
    *,
    model: str,
    deadline_s: float = 600.0,
    max_in_flight: int = 512,
    stop: threading.Event | None = None,
    bounds: Sequence[Bound] = (),
    lead_in: int = 0,
) -> ReplayResult:
    """Send every request at its time; wait for all, at most until `deadline_s` after the start, or until one of
    `bounds` cannot be kept any more. The first `lead_in` are sent, and count nowhere: they bring the engine to where it
    would be.

    Raises Stopped soon after `stop` is set. Requests in flight are then, as at the deadline, aborted.
    """
    bodies = [
        request_body(model, prompt, request.output_length)
        for request, prompt in zip(workload.requests, prompts, strict=True)
    ]
    room = asyncio.Semaphore(max_in_flight)
    timings = [RequestTiming(index, request.timestamp / 1000.0) for index, request in enumerate(workload.requests)]
    answers = [Answer() for _ in timings]
    cpu_began = time.process_time()
    began = time.perf_counter()

    async def one(index: int) -> None:
        timing = timings[index]
        timing.lateness_s = time.perf_counter() - began - timing.scheduled_s
        if room.locked():
            waited_from = time.perf_counter()
            await room.acquire()
            timing.held_s = time.perf_counter() - waited_from
        else:
            await room.acquire()
        try:
            await target.post(bodies[index], answers[index])
        finally:
            room.release()

    tasks: list[asyncio.Task[None]] = []

    async def send_all() -> None:
        for index, timing in enumerate(timings):
            delay = began + timing.scheduled_s - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            tasks.append(asyncio.create_task(one(index)))
        await asyncio.gather(*tasks)

    sending = asyncio.create_task(send_all())
    lost, look_at = None, began + _LOOK_S
    while not sending.done():
        left = began + deadline_s - time.perf_counter()
        await asyncio.wait({sending}, timeout=max(0.0, min(_STOP_POLL_S, left)))
        stopped = stop is not None and stop.is_set()
        now = time.perf_counter()
        if bounds and not sending.done() and now >= look_at:
            lost, look_at = lost_cause(bounds, timings[lead_in:], answers[lead_in:], now), now + _LOOK_S
        if not sending.done() and (left <= 0 or stopped or lost):
            sending.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(sending, *tasks, return_exceptions=True)
            if stopped:
                raise Stopped("the replay was asked to stop")
    if not sending.cancelled():
        sending.result()
    now = time.perf_counter()
    for timing, answer, request in zip(timings, answers, workload.requests, strict=True):
        _settle(timing, answer, began, now, wanted=max(1, request.output_length))
    began_s = timings[lead_in - 1].scheduled_s if lead_in else 0.0
    settled = None if lost else settled_after(found_under_way(timings))
    timings = [
        timing
        for timing, answer in zip(timings[lead_in:], answers[lead_in:], strict=True)
        if lost is None or answer.sent_at
    ]
    return ReplayResult(
        timings=timings,
        duration_s=now - began - began_s,
        cpu_s=time.process_time() - cpu_began,
        held=sum(timing.held_s > 0 for timing in timings),
        cut=sum(timing.cut for timing in timings),
        lateness_p99_s=float(np.quantile([timing.lateness_s for timing in timings], 0.99)) if timings else 0.0,
        samples=pool_samples(timings),
        began_s=began_s,
        lost=lost,
        lead_in=lead_in,
        settled_after=settled,
    )


def _settle(timing: RequestTiming, answer: Answer, began: float, now: float, *, wanted: int) -> None:
    """Fill in one request's times; one that never got its turn before the deadline waited from its time until now.

    An answer that its server ended before all wanted tokens were there, as at a deadline of its own, is a lost request.
    """
    timing.cut = answer.finished_at == 0.0
    if answer.sent_at:
        timing.fill(answer, now)
        if not timing.error and not timing.cut and (answer.output_tokens or wanted) < wanted:
            timing.error = f"the server ended the answer after {answer.output_tokens} of {wanted} tokens"
    else:
        timing.e2e_s = max(0.0, now - began - timing.scheduled_s)


def run_replay(
    workload: Workload,
    prompts: Sequence[Sequence[int]],
    url: str,
    *,
    model: str,
    deadline_s: float = 600.0,
    max_in_flight: int = 512,
    stop: threading.Event | None = None,
    api_key: str | None = None,
    bounds: Sequence[Bound] = (),
    lead_in: int = 0,
) -> ReplayResult:
    """`replay` from code that is not asynchronous, with connections of its own."""

    async def run() -> ReplayResult:
        target = Target(url, api_key=api_key)
        try:
            return await replay(
                workload,
                prompts,
                target,
                model=model,
                deadline_s=deadline_s,
                max_in_flight=max_in_flight,
                stop=stop,
                bounds=bounds,
                lead_in=lead_in,
            )
        finally:
            target.close()

    return asyncio.run(run())
