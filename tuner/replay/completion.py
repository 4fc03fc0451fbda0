"""What is asked of a server, and what one request saw of it from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from controlplane.contract.metrics import E2E, ITL, TPOT, TTFT
from tuner.replay.http_stream import Answer


def request_body(model: str, prompt: Sequence[int], output_length: int, extra: dict[str, Any] | None = None) -> bytes:
    """A streamed, greedy completion of exactly `output_length` tokens (at least one)."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": max(1, output_length),
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return orjson.dumps(body | (extra or {}))


@dataclass(slots=True)
class RequestTiming:
    """One request as its client saw it. Durations in seconds; the clock starts when the request is sent.

    `lateness_s`: sent after its time by so much, the generator's own fault. `held_s`: kept back by the safety limit on
    concurrency; it counts into ttft and e2e, or an overloaded server would look fast. `cut`: stopped by the replay's
    deadline, its times are lower bounds. `gaps_s`: between pieces of output, which with speculation hold several
    tokens.
    """

    index: int
    scheduled_s: float
    lateness_s: float = 0.0
    held_s: float = 0.0
    connect_s: float = 0.0
    ttft_s: float | None = None
    e2e_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    output_tokens: int = 0
    cut: bool = False
    error: str = ""
    target: str = ""

    @property
    def ok(self) -> bool:
        return not self.error

    def fill(self, answer: Answer, now: float) -> None:
        """Takes over what `answer` holds; `now` is when an unfinished one was given up."""
        finished = answer.finished_at or now
        self.connect_s = answer.connect_s
        self.e2e_s = self.held_s + finished - answer.sent_at
        events = answer.events
        if events:
            self.ttft_s = self.held_s + events[0] - answer.sent_at
            self.gaps_s = [later - earlier for earlier, later in pairwise(events)]
        self.output_tokens = len(events) if answer.output_tokens is None else answer.output_tokens
        self.error = answer.error
        if not self.error and not self.cut and not events:
            self.error = "the answer held no tokens"

    def samples(self) -> dict[str, list[float]]:
        """By metric short name. A cut request without a first token counts its waiting so far as its ttft."""
        if self.error:
            return {}
        found = {E2E.short: [self.e2e_s], ITL.short: self.gaps_s}
        first = self.e2e_s if self.ttft_s is None else self.ttft_s
        found[TTFT.short] = [first]
        if self.output_tokens > 1 and self.ttft_s is not None:
            found[TPOT.short] = [(self.e2e_s - self.ttft_s) / (self.output_tokens - 1)]
        return found


def pool_samples(timings: Sequence[RequestTiming]) -> dict[str, list[float]]:
    """All samples of all requests, by metric short name."""
    pooled: dict[str, list[float]] = {}
    for timing in timings:
        for metric, values in timing.samples().items():
            pooled.setdefault(metric, []).extend(values)
    return pooled
