"""What the workers of one study share: its plan, the trial nodes they hold, and the trials they take."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.bodies.studies import RunOrder, StudyState
from controlplane.contract.bodies.workload import LONGEST_TRAFFIC
from controlplane.contract.planning.traffic_mix import LONGEST_MIX
from controlplane.contract.planning.whatif import MOST_MIDDLES

LONGEST_WHY = 500
"""Characters."""


class Remembered(BaseModel):
    """A configuration that an earlier study has found better than its default."""

    study_id: int = Field(description="the study that has found it")
    knobs: dict[str, Any] = Field(description="its winner")


class ForecastAhead(BaseModel):
    """What the pool's twin forecasts of a configuration, before anything was measured."""

    knobs: dict[str, Any] = Field(description="the configuration, whole")
    ratios: dict[str, float] = Field(
        description="by `metric:q`: the logarithm of the forecast over that of the default"
    )


class StudyPlan(BaseModel):
    """`/api/v1/studies/{study_id}/plan`: what all runs of a study have in common, whoever measures them and when.

    The first that is given is kept: a study that goes on with another worker replays the same traffic.
    """

    default: dict[str, Any] = Field(description="knobs of the pool's revision when the study was claimed")
    traffic: str = Field(
        max_length=LONGEST_TRAFFIC,
        description="both slices and the prefixes put into the cache before, packed by the worker that captured",
    )
    mix: str = Field(
        default="",
        max_length=LONGEST_MIX,
        description="what the traffic is like request by request, packed, to tell later whether it has drifted; empty: "
        "too little of it",
    )
    seen: dict[str, Any] = Field(description="what the slice is like that the search replays")
    fresh: dict[str, Any] = Field(description="what the slice is like that finalists alone replay")
    serving: int = Field(ge=1, description="serving nodes whose traffic it is")
    remembered: list[Remembered] = Field(
        default=[], description="what earlier studies of such an engine and such traffic have found better"
    )
    forecasts: list[ForecastAhead] = Field(
        default=[], max_length=MOST_MIDDLES, description="of the pool's twin, which the search begins with; empty: none"
    )
    why_no_forecasts: str = Field(default="", max_length=LONGEST_WHY, description="empty where there are some")
    engine: dict[str, Any] = Field(
        description="what a trial node must have in common with the first: backend, model, version, formats, limits"
    )


class NodeWanted(BaseModel):
    """`POST /api/v1/studies/{study_id}/leases`: hold a trial node for this study."""

    worker: str = Field(min_length=1, max_length=128, description="who is to hold it")
    node: str = Field(min_length=1, max_length=256, description="the trial node")


class TrialLease(BaseModel):
    """A worker's hold on a trial node, and on the trial that it measures there.

    It ends when it is released, or when its worker has been silent for a minute of the service's clock. Whatever a
    worker sends under a lease that has ended is refused with 409: `token` is a fencing token, of which later ones are
    larger.
    """

    token: int = Field(description="the lease's number; later ones are larger")
    study_id: int = Field(description="the study that the node is held for")
    study_state: StudyState = Field(description="where that study is: a worker stops when it has ended")
    worker: str = Field(description="who holds the node")
    node: str = Field(description="the trial node")
    number: int | None = Field(default=None, description="the trial that is measured there; null: none at the moment")
    taken_at: datetime = Field(description="when the node was taken")
    heard_at: datetime = Field(description="when the lease was last renewed")
    ended_at: datetime | None = Field(default=None, description="when it was released or lost; null: it holds")


class TrialWanted(BaseModel):
    """`POST /api/v1/studies/{study_id}/leases/{token}/trial`: measure this trial on the node that is held.

    `number` is the next one, for a new trial, or that of a trial whose worker was lost: that keeps its configuration.
    """

    number: int = Field(ge=0, lt=2**31, description="the trial's number within the study, from 0")
    kind: str = Field(
        default="search", pattern="^(default|search|finalist)$", description="`default`, `search` or `finalist`"
    )
    knobs: dict[str, Any] = Field(description="the configuration to measure")
    order: RunOrder = Field(default=RunOrder(), description="which slice it replays, and its place in the finish")
