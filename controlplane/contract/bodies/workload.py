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

    pool: str = Field(description="the pool that served it")
    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    nodes: int = Field(description="serving nodes that shared this traffic")
    block_size: int = Field(default=16, description="tokens of a prompt block")
    requests: list[WorkloadRequest] = Field(description="the requests, by arrival")


class RequestRecord(BaseModel):
    """One finished request with its whole waterfall (seconds), as `GET /api/v1/requests` lists it."""

    node: str = Field(description="the node that served it")
    pool: str = Field(description="the pool that served it")
    model: str = Field(description="the model that served it")
    revision: int = Field(description="the configuration revision that served it")
    request_id: str = Field(description="its id")
    arrival: datetime = Field(description="when it arrived")
    prompt_tokens: int = Field(description="tokens of its prompt")
    cached_tokens: int = Field(description="tokens of its prompt found in the prefix cache")
    output_tokens: int = Field(description="tokens generated")
    finish_reason: str = Field(description="why it ended")
    tenant: str = Field(default="", description="whose request it is; empty: not told")
    region: str = Field(default="", description="the node's region; empty: not told")
    parts: dict[str, float] = Field(description="its waterfall: seconds by component, e2e, ttft and tpot too")
    trace_id: str = Field(default="", description="its trace, hexadecimal; empty: not told")
    batch: dict[str, float] = Field(default={}, description="what the engine ran beside it, where the sender told")
