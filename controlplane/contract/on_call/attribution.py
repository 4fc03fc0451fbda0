"""What moved a quantile: by stage, by place, since when, after which event, as a diagnosis tells it."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from controlplane.contract.bodies.explanation import Bounded


class HowMoved(StrEnum):
    """What changed about a group of requests."""

    WITHIN = "within"  # Its requests took longer.
    MIX = "mix"  # There were more of them among all requests.


class StageOfShift(BaseModel):
    """What one stage adds to the slowest requests, seconds."""

    stage: str = Field(description="the part of a request's time; `rest`: what the others leave")
    before_s: float = Field(description="its mean over the slowest requests before")
    during_s: float = Field(description="its mean over the slowest requests during")
    grown_s: Bounded = Field(description="during less before; the stages' add up to the growth of the tail's mean")
    share: float = Field(description="`grown_s` by the growth of the tail's mean")


class PlaceOfShift(BaseModel):
    """What one group of requests (a node, a prompt bucket ...) adds to the shift of the quantile."""

    label: str = Field(description="what the requests are grouped by: a label, `step_limit` or `host_state`")
    value: str = Field(description="the group; of a change of the mix that whose larger share slowed most requests")
    how: HowMoved = Field(description="whether its requests took longer, or there were more of them")
    share: float = Field(description="its part of the shift; mix and groups of one label add up to 1")
    moved_s: Bounded = Field(description="its part of the shift, seconds")
    before: float = Field(description="its share of the requests before")
    during: float = Field(description="its share of the requests during")
    own_factor: float | None = Field(
        default=None,
        description="by what factor its slow requests took longer; null: too few requests, or a change of the mix",
    )
    others_factor: float | None = Field(
        default=None, description="by what factor that of all others grew, their mix held fixed"
    )
    named: bool = Field(
        description="whether chance is ruled out, and it explains four tenths of the shift that others do not share"
    )


class ChangedAt(BaseModel):
    """Since when it is slower, as its own requests tell: 95 %."""

    at: datetime = Field(description="the likeliest moment")
    low: datetime = Field(description="not before")
    high: datetime = Field(description="not after")


class EventBefore(BaseModel):
    """What the ledger tells of last before the change."""

    time: datetime = Field(description="when it happened")
    kind: str = Field(description="the entry's kind")
    subject: str = Field(description="what it is about, e.g. `rollout/3`")
    message: str = Field(description="the entry's words")
    lag_s: float = Field(description="seconds from it to the likeliest moment of the change; negative: within doubt")


class Attribution(BaseModel):
    """How much of a quantile's shift each stage and each group of requests explains, with intervals of 95 %."""

    metric: str = Field(description="short name of the metric")
    q: float = Field(description="the quantile; lower than the alert's while it has too few requests")
    before_s: float = Field(description="the quantile before, seconds")
    during_s: float = Field(description="the quantile during, seconds")
    effect: Bounded | None = Field(
        default=None,
        description="by what factor the quantile grew; its interval holds at every look at once; null: too few",
    )
    tail_q: float | None = Field(
        default=None, description="stages are of the requests at and above this quantile; null: of means"
    )
    stages: list[StageOfShift] = Field(default=[], description="the largest first; empty where the log has too few")
    places: list[PlaceOfShift] = Field(default=[], description="named ones first, then the largest")
    place: PlaceOfShift | None = Field(default=None, description="the place that is named first; null: all of the pool")
    since: ChangedAt | None = Field(default=None, description="since when; null: not known")
    after: EventBefore | None = Field(default=None, description="after which event; null: none fits")
