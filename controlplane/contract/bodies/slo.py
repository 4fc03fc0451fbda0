"""Service level objectives by use case: limits on tail quantiles, in seconds."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, Field

from controlplane.contract.bodies.knob_schema import ONE_HISTOGRAM


class Limit(BaseModel):
    """`metric` (a histogram's short name) at quantile `q` must stay at or below `limit_s`."""

    metric: str = Field(json_schema_extra=ONE_HISTOGRAM, description="a histogram's short name, e.g. `ttft`")
    q: float = Field(gt=0, lt=1, description="the quantile, within 0 and 1")
    limit_s: float = Field(gt=0, le=86400, description="seconds that the quantile must not exceed")


class UseCase(StrEnum):
    """Starting points, to be overridden by a team's own limits. The figures are common industry targets:
    a reader waits about a second for a first word and reads 10 to 20 words a second."""

    CHAT = "chat"  # Somebody reads along.
    CODE_COMPLETION = "code_completion"  # Somebody waits in the middle of typing.
    AGENT = "agent"  # Tools in a loop; end to end counts.
    BATCH = "batch"  # Throughput first.


PROFILES: dict[UseCase, tuple[Limit, ...]] = {
    UseCase.CHAT: (Limit(metric="ttft", q=0.95, limit_s=1.0), Limit(metric="itl", q=0.99, limit_s=0.2)),
    UseCase.CODE_COMPLETION: (Limit(metric="ttft", q=0.95, limit_s=0.3), Limit(metric="e2e", q=0.99, limit_s=2.0)),
    UseCase.AGENT: (Limit(metric="ttft", q=0.95, limit_s=2.0), Limit(metric="e2e", q=0.99, limit_s=30.0)),
    UseCase.BATCH: (Limit(metric="e2e", q=0.99, limit_s=300.0),),
}


def limits_of(use_case: UseCase | None, own: Sequence[Limit]) -> list[Limit]:
    """A team's own limits, then those of the use case that they say nothing else of."""
    told = {(limit.metric, limit.q) for limit in own}
    usual = () if use_case is None else PROFILES[use_case]
    return [*own, *(limit for limit in usual if (limit.metric, limit.q) not in told)]
