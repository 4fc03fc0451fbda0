"""When a request was queued and computed, and how long two of one engine were there together (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.contract.metrics import DECODE, E2E, PREFILL, QUEUE, RECEIVE, SEND, TOKENIZE


@dataclass(frozen=True)
class EngineTime:
    """Seconds on a clock that both requests share: queued from `queued`, computed in [scheduled, done)."""

    queued: float
    scheduled: float
    done: float


def engine_time(arrival_s: float, parts: Mapping[str, float]) -> EngineTime:
    """Of a request's waterfall. What nobody told counts as nothing: without parts it was computed all the time."""
    queued = arrival_s + parts.get(RECEIVE.short, 0.0) + parts.get(TOKENIZE.short, 0.0)
    scheduled = queued + parts.get(QUEUE.short, 0.0)
    if PREFILL.short in parts and DECODE.short in parts:
        done = scheduled + parts[PREFILL.short] + parts[DECODE.short]
    else:
        done = arrival_s + parts.get(E2E.short, 0.0) - parts.get(SEND.short, 0.0)
    return EngineTime(queued, scheduled, max(done, scheduled))


def overlap_s(one: EngineTime, other: EngineTime) -> float:
    """Seconds in which both were computed."""
    return max(0.0, min(one.done, other.done) - max(one.scheduled, other.scheduled))


def ahead_s(waiting: EngineTime, other: EngineTime) -> float:
    """Seconds in which the other was computed while this one was queued."""
    return max(0.0, min(waiting.scheduled, other.done) - max(waiting.queued, other.scheduled))
