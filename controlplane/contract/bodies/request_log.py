"""The request log's answers: one request among its neighbours, and counts by label."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from controlplane.contract.bodies.workload import RequestRecord


class FacetValue(BaseModel):
    """One value of a label."""

    value: str = Field(description="the value; empty: requests of which nobody told it")
    requests: int = Field(description="requests that have it, of those looked at")


class Facet(BaseModel):
    """A label with the values that requests have, those with the most requests first."""

    label: str = Field(description="the label, which is also the filter's parameter")
    values: list[FacetValue] = Field(description="at most 50, under every filter but the label's own")
    others: int = Field(description="values beyond these")
    others_requests: int = Field(description="requests that have one of the values beyond")


class RequestFacets(BaseModel):
    """`GET /api/v1/request-facets`: what requests can be told apart by. Above 50,000 requests a uniform sample."""

    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    found: int = Field(description="requests of the span (and the range of seconds), whatever their labels")
    looked_at: int = Field(description="how many of them were counted; fewer than `found`: a uniform sample")
    matching: int = Field(description="how many of those looked at pass every filter")
    facets: list[Facet] = Field(description="one for each label")


class RequestName(BaseModel):
    """What tells one request from another of the same id."""

    node: str = Field(description="the node that served it")
    arrival: datetime = Field(description="when it arrived")


class Peer(BaseModel):
    """Another request that the same node worked on at the same time."""

    request_id: str = Field(description="its id")
    arrival: datetime = Field(description="when it arrived")
    tenant: str = Field(description="whose it is; empty: not told")
    model: str = Field(description="the model that served it")
    prompt_tokens: int = Field(description="tokens of its prompt")
    output_tokens: int = Field(description="tokens generated")
    overlap_s: float = Field(description="seconds in which both were computed: they shared these steps")
    while_queued_s: float = Field(description="seconds in which it was computed while the asked request was queued")
    parts: dict[str, float] = Field(description="its waterfall: seconds by component, e2e, ttft and tpot too")


class TypicalPart(BaseModel):
    """What is usual for one part of a waterfall."""

    median_s: float = Field(description="median, seconds")
    requests: int = Field(description="values behind it")


class Typical(BaseModel):
    """Medians of the pool for prompts of the same bucket, within half an hour before and after the arrival."""

    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    pool: str = Field(description="the pool")
    prompt_bucket: str = Field(description="the bucket of prompt lengths")
    relative_error: float = Field(description="how far off a median may be")
    parts: dict[str, TypicalPart] = Field(description="by component; absent: no value in the span")


class RequestDetail(BaseModel):
    """`GET /api/v1/requests/{request_id}`: one request, who shared the engine with it, and what is usual."""

    request: RequestRecord = Field(description="the newest request of this id, or the one that was asked for")
    source: Literal["log", "exemplars"] = Field(
        description="`log`: of every request, 48 h; `exemplars`: older, kept as one of the slowest of its minute (14 d)"
    )
    prompt_bucket: str = Field(description="its bucket of prompt lengths")
    cache_class: str = Field(description="how much of its prompt the prefix cache held: miss, partial or hit")
    others: list[RequestName] = Field(description="other requests of the same id, at most 20, the newest first")
    peers: list[Peer] = Field(description="those that shared most seconds with it first, at most 50")
    peers_found: int = Field(description="requests of the log that shared some of its time, of those looked at")
    peers_all: bool = Field(
        description="false: the node served too many at that time, or the log does not reach so far back any more"
    )
    typical: Typical = Field(description="what is usual for such a request, to compare its waterfall with")
