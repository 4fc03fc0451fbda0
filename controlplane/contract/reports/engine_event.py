"""What an engine tells the agent beside it, as newline-delimited JSON over local HTTP.

`GET /events?boot=B&after=N` on the engine streams events with sequence numbers above N from a bounded ring and
then follows. The first line is a `Hello`. When `boot` is not the engine's own, or N is older than the ring, the stream
starts at the ring's oldest event and the agent counts the gap as missed. The engine never waits for a reader.
Durations are seconds from one monotonic clock; `time` is seconds since the Unix epoch on the server's clock.
"""

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict


class Hello(TypedDict):
    kind: Literal["hello"]
    boot: str  # Identity of this engine process.
    oldest: int  # Lowest sequence number still in the ring.
    model: str
    process: NotRequired[str]  # Which process serves, as "SOURCE:ID"; those of one source differ after a restart.
    version: NotRequired[str]  # Of the engine, with its name: "vllm 0.32.0".


class StepEvent(TypedDict):
    """One engine step."""

    kind: Literal["step"]
    seq: int
    time: float
    revision: int  # Configuration revision in force during the step, 0 when none was ever assigned.
    schedule: NotRequired[float]  # The parts of a step are left out by engines that cannot tell them.
    draft: NotRequired[float]  # Proposing drafts.
    forward: NotRequired[float]
    attention: NotRequired[float | None]  # Within forward; None where it cannot be had.
    sample: NotRequired[float]
    commit: NotRequired[float]
    running: int
    waiting: int
    kv_usage: float  # 0..1
    batched_tokens: int
    draft_tokens: int
    accepted_tokens: int
    drafted_per_position: NotRequired[list[int]]  # Entry i: draft tokens at place i; both are left out where not told.
    accepted_per_position: NotRequired[list[int]]
    preemptions: int
    limit: NotRequired[str]  # What bound it, a value of `step_limits.StepLimit`; left out where it is not told.
    flops: NotRequired[int]  # By the model's sizes, of one GPU; the three are left out where they are not counted.
    read_bytes: NotRequired[int]
    write_bytes: NotRequired[int]


class FirstTokenEvent(TypedDict):
    """The first token of a request has been sent."""

    kind: Literal["first_token"]
    seq: int
    time: float
    revision: int
    prompt_tokens: int | None  # None where the engine does not say; so too below.
    cached_tokens: int | None
    ttft: float
    tenant: NotRequired[str]


class GapEvent(TypedDict):
    """Gaps between the deliveries of one request since its last such event (batched, at most about 250 ms old).

    A delivery is what one engine step gave the request: one token, or several where drafts were accepted.
    """

    kind: Literal["gaps"]
    seq: int
    time: float
    revision: int
    prompt_tokens: int | None
    cached_tokens: int | None
    gaps: Sequence[float]
    tokens: NotRequired[int | None]  # Held by the deliveries that ended these gaps; None or absent: not told.
    tenant: NotRequired[str]


class FinishedEvent(TypedDict):
    """A request has ended, by itself or otherwise. Parts add up: e2e = sum of parts + unaccounted."""

    kind: Literal["finished"]
    seq: int
    time: float
    revision: int
    request_id: str
    finish_reason: str  # One of `finish_reasons`.
    arrival: float  # Unix seconds at which the request arrived.
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    block_size: int
    block_hashes: list[int]  # Chained 64-bit hashes of full prompt blocks; the agent re-keys them.
    e2e: float
    ttft: float | None
    tpot: float | None
    receive: float
    tokenize: float
    queue: float
    prefill: float
    decode: float
    send: float
    unaccounted: float
    tenant: NotRequired[str]
    batch: NotRequired[dict[str, float]]  # metrics.BATCH_FIGURES and their peaks; the agent adds it from the steps.


class BucketsEvent(TypedDict):
    """What an engine's own histogram counted since its last such event, where raw values cannot be had."""

    kind: Literal["buckets"]
    seq: int
    time: float
    revision: int
    metric: str  # Short name of a histogram of the contract, such as "ttft".
    bounds: list[float]  # Upper bounds in seconds, ascending, without the infinite one.
    counts: list[int]  # One more than the bounds: the last counts what lies above them.
    total: float  # Sum of the values, exact.


class CountsEvent(TypedDict):
    """What an engine's own counters grew by since its last such event, where single requests or steps are not seen."""

    kind: Literal["counts"]
    seq: int
    time: float
    revision: int
    counts: dict[str, int]  # Short name of a sum of the contract, such as "output_tokens", to its growth.
    requests: dict[str, int]  # Finish reason to requests finished.
    step_limits: NotRequired[dict[str, int]]  # Values of `step_limits.StepLimit` to the steps that each bound.


class TracedEvent(TypedDict):
    """A request that has ended, known by its trace alone, which does not tell how. Its latencies count; the request
    itself and its tokens are counted by a `CountsEvent`. A part that is None is not told, or is in a `BucketsEvent`.
    """

    kind: Literal["traced"]
    seq: int
    time: float
    revision: int
    request_id: str
    arrival: float  # Unix seconds.
    prompt_tokens: int
    output_tokens: int
    e2e: float
    ttft: float | None
    tpot: float | None
    queue: float | None
    prefill: float | None
    decode: float | None
    unaccounted: float
    batch: NotRequired[dict[str, float]]  # As in a `FinishedEvent`.


EngineEvent = StepEvent | FirstTokenEvent | GapEvent | FinishedEvent | BucketsEvent | CountsEvent | TracedEvent
