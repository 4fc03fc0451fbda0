"""A captured workload: arrivals, lengths and prefix sharing, no text.

The JSON-lines form of one request is Mooncake's ({"timestamp": ms, "input_length", "output_length", "hash_ids"}),
which AIPerf, Dynamo and vLLM's benchmarks read too; here with the block size beside it.
"""

from datetime import datetime

from pydantic import BaseModel, Field


class WorkloadRequest(BaseModel):
    """One request of a workload."""

    timestamp: float = Field(ge=0, description="milliseconds since the workload's start")
    input_length: int = Field(ge=1, description="prompt tokens")
    output_length: int = Field(ge=0, description="output tokens")
    hash_ids: list[int] = Field(default=[], description="one id per full prompt block; equal ids: equal prefix")


class Workload(BaseModel):
    """`GET /api/v1/workload?pool=&start=&end=`: what a pool served in a span of time, ordered by timestamp."""

    pool: str
    start: datetime
    end: datetime
    nodes: int  # Serving nodes that shared this traffic.
    block_size: int = 16
    requests: list[WorkloadRequest]


class RequestRecord(BaseModel):
    """One finished request with its whole waterfall (seconds), as `GET /api/v1/requests` lists it."""

    node: str
    pool: str
    model: str
    revision: int
    request_id: str
    arrival: datetime
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    finish_reason: str
    parts: dict[str, float]  # Short metric name to seconds: e2e, ttft, tpot, receive ... unaccounted.
    trace_id: str = ""  # In hexadecimal.
    batch: dict[str, float] = {}  # What the engine ran beside it (metrics.BATCH_FIGURES), where the sender told.
