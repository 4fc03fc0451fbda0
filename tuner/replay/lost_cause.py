"""Runs that can no longer be of use: a quantile that will be above its bound whatever the rest of the run brings. Pure.

Guarantee: exact, no matter of chance. Of n values the q-quantile is above a bound for certain when so many of them are
that too few are left to hold it down; a request under way has waited at least as long as it has. Requests that are lost
are no values, and fewer values want fewer above it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.contract.metrics import E2E, TTFT
from tuner.replay.completion import RequestTiming
from tuner.replay.http_stream import Answer

WATCHED = (TTFT.short, E2E.short)
"""Metrics of which a request under way tells something: one value a request, that grows while it waits."""


@dataclass(frozen=True)
class Bound:
    """A run is of use where the quantile `q` of `metric` comes to `at_most_s` seconds. metric: one of `WATCHED`."""

    metric: str
    q: float
    at_most_s: float


def above_wanted(requests: int, q: float) -> int:
    """How many of so many values have to be above a bound for their q-quantile (numpy's, linear) to be above it."""
    return requests - math.floor((requests - 1) * q)


def lost_cause(
    bounds: Sequence[Bound], timings: Sequence[RequestTiming], answers: Sequence[Answer], now: float
) -> Bound | None:
    """The first bound that cannot be kept any more. timings, answers: of all requests of the run, those to come too;
    now: by the clock of the answers."""
    for bound in bounds:
        above = sum(
            least_s(bound.metric, timing, answer, now) > bound.at_most_s
            for timing, answer in zip(timings, answers, strict=True)
        )
        if timings and above >= above_wanted(len(timings), bound.q):
            return bound
    return None


def least_s(metric: str, timing: RequestTiming, answer: Answer, now: float) -> float:
    """What a request's value is at least, seconds; 0 of one that was not sent yet, or is lost."""
    if not answer.sent_at or answer.error:
        return 0.0
    until = answer.finished_at or now
    if metric == TTFT.short and answer.events:
        until = answer.events[0]
    return timing.held_s + until - answer.sent_at
