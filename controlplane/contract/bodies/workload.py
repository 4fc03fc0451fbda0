"""A captured workload: arrivals, lengths and prefix sharing, no text.

The JSON-lines form of one request is Mooncake's ({"timestamp": ms, "input_length", "output_length", "hash_ids"}),
which AIPerf, Dynamo and vLLM's benchmarks read too; here with the block size beside it.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

LONGEST_TRAFFIC = 900_000
"""Characters of packed traffic; a body of the API has 1 MiB at most."""
WORKLOAD_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class WorkloadRequest(BaseModel):
    """One request of a workload."""

    timestamp: float = Field(ge=0, le=1e14, description="milliseconds since the workload's start")
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


class TrafficFigures(BaseModel):
    """What traffic is like."""

    requests: int = Field(description="how many")
    span_s: float = Field(description="seconds from the first arrival to the last")
    rate_per_s: float = Field(description="requests a second")
    arrival_cv: float = Field(description="coefficient of variation of the gaps between arrivals; 1: Poisson")
    input_tokens: dict[str, int] = Field(description="prompt tokens: `p50`, `p95`, `p99`")
    output_tokens: dict[str, int] = Field(description="output tokens: `p50`, `p95`, `p99`")
    output_tokens_per_s: float = Field(default=0.0, description="output tokens a second; 0: not told")
    prefix_share: float = Field(description="share of prompt tokens in blocks that an earlier request had, too")


class WorkloadFormat(StrEnum):
    """What a file of traffic was read as."""

    MOONCAKE = "mooncake"  # JSON lines: timestamp in milliseconds, lengths, hashes of blocks.
    AZURE = "azure"  # The CSV of the Azure LLM inference trace 2023.
    OWN = "own"  # JSON of `GET /api/v1/workload`.
    GUIDELLM = "guidellm"  # A report (benchmarks.json), or a trace of GuideLLM in seconds.
    AIPERF = "aiperf"  # The records of a run (profile_export.jsonl), or a trace with sessions.


class WorkloadCreate(BaseModel):
    """`POST /api/v1/workloads`: traffic to keep under a name, for studies that name it."""

    name: str = Field(pattern=WORKLOAD_NAME, description="letters, digits, `.`, `_` and `-`; at most 64")
    format: WorkloadFormat = Field(default=WorkloadFormat.OWN, description="what the file was read as")
    traffic: str = Field(
        min_length=1,
        max_length=LONGEST_TRAFFIC,
        description="one workload, packed: base64 of deflated JSON (RFC 1950) `[{about, requests}]`, of each request "
        "`[milliseconds, prompt tokens, output tokens, steps of block numbers]`",
    )


class KeptWorkload(BaseModel):
    """Traffic that the service keeps under a name."""

    id: int = Field(description="its number")
    name: str = Field(description="what studies call it")
    format: WorkloadFormat = Field(description="what its file was read as")
    created_by: str = Field(description="the name of the token that added it")
    created_at: datetime = Field(description="when it was added")
    packed_bytes: int = Field(description="bytes that it takes in the service")
    figures: TrafficFigures = Field(description="what it is like")


class KeptTraffic(BaseModel):
    """`GET /api/v1/workloads/{name}/traffic`: a kept workload's requests."""

    name: str = Field(description="what studies call it")
    traffic: str = Field(description="packed, as it was added")


class PromptSetCreate(BaseModel):
    """`POST /api/v1/prompt-sets`: prompts to keep under a name, for studies to replay."""

    name: str = Field(pattern=WORKLOAD_NAME, description="letters, digits, `.`, `_` and `-`; at most 64")
    prompts: str = Field(
        min_length=1,
        max_length=LONGEST_TRAFFIC,
        description="packed: base64 of deflated JSON (RFC 1950), a list of `[text, most tokens of its answer or null]`",
    )


class PromptFigures(BaseModel):
    """What prompts are like."""

    prompts: int = Field(description="how many")
    characters: dict[str, int] = Field(description="of a prompt: `p50`, `p95`, `p99`")
    with_max_tokens: int = Field(description="how many say how many tokens their answer may have")


class KeptPromptSet(BaseModel):
    """Prompts that the service keeps under a name, without them."""

    id: int = Field(description="its number, which no other set is ever given")
    name: str = Field(description="what studies call it")
    created_by: str = Field(description="the name of the token that added it")
    created_at: datetime = Field(description="when it was added")
    packed_bytes: int = Field(description="bytes that it takes when it is packed")
    figures: PromptFigures = Field(description="what it is like")


class PromptSetText(BaseModel):
    """`GET /api/v1/prompt-sets/{name}/text`: the prompts themselves."""

    id: int = Field(description="the set's number")
    prompts: str = Field(description="packed, as they were added")


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
