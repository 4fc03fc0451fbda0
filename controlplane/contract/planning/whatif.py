"""What a change would do to a pool: asked, and forecast by the twin. A forecast is never proof."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from controlplane.contract.bodies.knob_schema import VALUES
from controlplane.contract.bodies.studies import Study, TwinBeside
from controlplane.contract.bodies.workload import RequestRecord, Workload
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.metrics import DECODE, PREFILL, QUEUE, RECEIVE, TOKENIZE
from controlplane.contract.share_text import share_text

MOST_REQUESTS = 5000
"""Of a span: a longer one would keep who asks waiting."""


MOST_OTHERS, MOST_MIDDLES = 16, 64
"""Configurations in one question: with intervals, and where the middle of each is enough."""


class ForecastClass(StrEnum):
    """How far a forecast lies from what the twin was fitted to."""

    CALIBRATED = "calibrated"  # Load, batches, contexts and knobs within what the pool has served.
    EXTRAPOLATED = "extrapolated"  # Beyond it: `because` says in what.


HeldTo = Literal["ttft", "tpot", "e2e"]
"""What the twin tells of each request."""
Seconds = Annotated[float, Field(gt=0, le=86400)]


class WhatIfCreate(BaseModel):
    """`POST /api/v1/whatif`: the pool's own traffic of the last `window_s` seconds, changed, on the pool, changed."""

    pool: str = Field(min_length=1, max_length=256, description="the pool whose traffic is replayed in the twin")
    window_s: float = Field(default=600, ge=30, le=86400, description="seconds of the newest traffic to look at")
    load: float = Field(default=1.0, ge=0.05, le=20, description="times as many requests a second")
    prompts: float = Field(default=1.0, ge=0.05, le=20, description="times as many tokens of each prompt")
    outputs: float = Field(default=1.0, ge=0.05, le=20, description="times as many tokens of each answer")
    replicas: int | None = Field(default=None, ge=1, le=256, description="serving nodes; null: as many as there were")
    model_parallel: int = Field(
        default=1,
        ge=1,
        le=64,
        description="times as many devices that each replica's model is split over, layer by layer",
    )
    knobs: dict[str, Any] = Field(
        default={}, json_schema_extra=VALUES, description="knobs that shall differ from what the pool runs"
    )
    good: dict[HeldTo, Seconds] = Field(
        default={},
        description="seconds that a request's own value may be for it to be good: then goodput is forecast, too",
    )
    end: datetime | None = Field(default=None, description="the span's end; null: the newest telemetry")
    others: list[dict[str, Any]] = Field(
        default=[],
        max_length=MOST_MIDDLES,
        json_schema_extra={"items": VALUES},
        description="further configurations to be forecast in place of `knobs`, each as what differs from the pool's; "
        f"{MOST_OTHERS} at most with intervals",
    )
    intervals: bool = Field(
        default=True,
        description="false: of `others` the middle alone, by one run of fewer requests, as is enough to rank them; its "
        "interval then knows the twin's error alone",
    )
    seed: int = Field(default=0, ge=0, lt=2**31, description="of all chances; the same seed forecasts the same")

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        if self.intervals and len(self.others) > MOST_OTHERS:
            raise ValueError(
                f"others: wants {MOST_OTHERS} at most, got {len(self.others)}; with intervals=false {MOST_MIDDLES}"
            )
        return self


class Forecasted(BaseModel):
    """A quantile as forecast, seconds, with the interval that it lies in."""

    value_s: float = Field(description="the middle of the twin's runs, seconds")
    low_s: float = Field(description="the interval's lower end, seconds")
    high_s: float = Field(description="the interval's upper end, seconds")


class GoodRequests(BaseModel):
    """Goodput: requests within all of `good`, of all that come; one that is refused is not."""

    share: float = Field(description="of requests, 0 to 1")
    low: float = Field(description="the interval's lower end, 0 to 1")
    high: float = Field(description="the interval's upper end, 0 to 1")
    per_s: float = Field(description="good requests a second: the share of all that come")


class Scenario(BaseModel):
    """The pool in the twin."""

    knobs: dict[str, Any] = Field(description="what each replica runs")
    replicas: int = Field(description="serving nodes")
    requests: int = Field(description="requests that quantiles are of; those of the warm-up are left out")
    refused: int = Field(description="requests that the queue refused, or that can never fit the KV cache")
    busy: float = Field(description="share of the time in which replicas compute, 0 to 1")
    cached: float = Field(description="share of prompt tokens found in the prefix cache, 0 to 1")
    quantiles: dict[str, Forecasted] = Field(description="by `metric:q`, as in `ttft:0.95`")
    good: GoodRequests | None = Field(default=None, description="goodput; null: the question has no `good`")
    node_hours_per_million: float | None = Field(
        default=None, description="node hours for a million output tokens at this load; null: no tokens"
    )


class ChangeOver(BaseModel):
    """The change itself, begun where most requests come while it lasts: nodes that need a restart (or a swap) have it
    one after the other, and serve again with an empty cache; nodes that are added serve when they have started."""

    change_class: ChangeClass | None = Field(description="what it takes on the hardest node; null: no knob changes")
    seconds: float | None = Field(description="how long it lasts; null: nobody has measured such a change on this pool")
    each_s: float | None = Field(description="of it one node, warm-up included; null: not measured")
    requests: int = Field(default=0, description="that come while it lasts, of those in the span")
    unserved: int = Field(default=0, description="of these: come while no node serves")
    quantiles: dict[str, Forecasted] = Field(default={}, description="of the others, by `metric:q`")


class ForecastUnderWay(BaseModel):
    """What is answered where `wait_s` is over before the forecast is there: who asks the same again waits on for it."""

    elapsed_s: float = Field(description="seconds since it began")
    usual_s: float | None = Field(
        default=None, description="seconds that this pool's last forecasts took; null: none is known"
    )
    limit_s: float = Field(description="seconds after which it is given up")


class OtherForecast(BaseModel):
    """One of the question's `others`."""

    knobs: dict[str, Any] = Field(description="what it changes, as asked")
    refused: str = Field(default="", description="why the twin cannot tell; empty: it does")
    forecast_class: ForecastClass = Field(
        default=ForecastClass.EXTRAPOLATED, description="`calibrated` or `extrapolated`"
    )
    because: list[str] = Field(default=[], description="what lies beyond what the pool has served")
    quantiles: dict[str, Forecasted] = Field(default={}, description="by `metric:q`, as in `ttft:0.95`")


class WhatIf(BaseModel):
    """A forecast: the pool as it is and as it would be, both by the twin, beside what was measured.

    `error`: forecast / measured - 1 of the pool as it is, on the half of the span that the twin was not fitted to.
    Intervals hold the spread of the twin's runs (its fit, how the nodes' pace wanders, and how requests fall to
    replicas), widened by that error.
    """

    asked: WhatIfCreate = Field(description="the question")
    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    revision: int | None = Field(default=None, description="the pool's revision; null: none is in production yet")
    forecast_class: ForecastClass = Field(description="`calibrated` or `extrapolated`")
    because: list[str] = Field(default=[], description="what lies beyond what the pool has served")
    as_is: Scenario = Field(description="the pool and its traffic unchanged")
    changed: Scenario = Field(description="the pool and its traffic as asked")
    change: ChangeOver | None = Field(default=None, description="the way there; null: no node has to change")
    others: list[OtherForecast] = Field(default=[], description="the question's `others`, in their order")
    measured: dict[str, float] = Field(description="seconds by `metric:q`, of the same requests as the error")
    error: dict[str, float] = Field(description="forecast / measured - 1 of the unchanged pool, by `metric:q`")
    good_error: float | None = Field(default=None, description="forecast - measured share of good requests, likewise")
    fit: dict[str, float] = Field(
        description="seconds for one of each term of a step, `pause` between two steps (in `steps` already), "
        "`median_error` of windows, and `wander`: how much slower or faster the nodes may be from one stretch of time "
        "to another (0.1: 10 %)"
    )
    summary: str = Field(description="the forecast in words")


@dataclass(frozen=True)
class ComputedSpan:
    """When a request was computed, seconds since the epoch."""

    scheduled_s: float
    first_token_s: float
    last_token_s: float


def span_of(record: RequestRecord) -> ComputedSpan:
    """By its waterfall; a part that nobody told counts as none."""
    parts = record.parts
    before = sum(parts.get(metric.short, 0.0) for metric in (RECEIVE, TOKENIZE, QUEUE))
    scheduled = record.arrival.timestamp() + before
    first = scheduled + parts.get(PREFILL.short, 0.0)
    return ComputedSpan(scheduled, first, first + parts.get(DECODE.short, 0.0))


def in_windows(start_s: float, end_s: float, width_s: float) -> Iterator[tuple[int, float]]:
    """The windows that a stretch lies in, by their number since the epoch, with how many seconds of it lie there."""
    for number in range(math.floor(start_s / width_s), math.floor(end_s / width_s) + 1):
        inside_s = min(end_s, (number + 1) * width_s) - max(start_s, number * width_s)
        if inside_s > 0.0:
            yield number, inside_s


TwinEngine = Literal["embedded", "vllm"]
"""By a node's backend."""


class StepWindow(BaseModel):
    """All steps of one node in one window of telemetry."""

    node: str
    start_s: float = Field(description="seconds since the epoch")
    width_s: float
    steps: int
    seconds: float = Field(description="of all their parts; vLLM: how long a request was being computed")
    drafted: int = 0
    accepted: int = 0
    deliveries: int = Field(default=0, description="of tokens after a request's first, one a step and request")
    kv_usage: float | None = Field(default=None, description="share of KV blocks held at the window's end, 0 to 1")


class TwinTask(BaseModel):
    """What the service hands to the twin's process. Times of records, windows and workload are on one clock."""

    asked: WhatIfCreate
    engine: TwinEngine = Field(default="embedded", description="whose scheduler its nodes run")
    config: EngineConfig
    revision: int | None = None
    workload: Workload
    records: list[RequestRecord]
    windows: list[StepWindow]
    drafted_at: list[float] = Field(default=[], description="draft tokens by their place, of those that tell theirs")
    accepted_at: list[float] = Field(default=[], description="those of them that were accepted")
    change_class: ChangeClass | None = Field(default=None, description="of the asked knobs, on the hardest node")
    change_s: dict[ChangeClass, float] = Field(default={}, description="the longest that one took on one of its nodes")


def tried_says(told: Sequence[TwinBeside]) -> str:
    """Of each class how many forecasts there are, what they were off by in the middle, and how many held; empty of
    none."""
    known = [one for one in told if one.measured_s > 0]
    parts = [_of("within what the pool had served", [one for one in known if one.calibrated])]
    parts += [_of("beyond it", [one for one in known if not one.calibrated])]
    said = "; ".join(part for part in parts if part)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def last_tried(studies: Sequence[Study], pool: str) -> str:
    """Of the pool's newest study that tells; empty where none does. studies: the newest first."""
    for study in studies:
        if study.spec.pool == pool and study.result is not None and (says := tried_says(study.result.twin)):
            return f"Held against the runs of study {study.id}: {says}"
    return ""


def _of(which: str, told: Sequence[TwinBeside]) -> str:
    if not told:
        return ""
    off = share_text(median(abs(one.value_s / one.measured_s - 1.0) for one in told))
    held = sum(one.low_s <= one.measured_s <= one.high_s for one in told)
    return f"{which} half of {len(told)} forecasts were off by {off} at most, and {held} held what was measured"
