"""Verdicts for others: pass, fail or inconclusive, of a rollout of ours or of two arms that somebody else runs."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field

from controlplane.contract.bodies.knob_schema import LEVELS_BY_HISTOGRAM, SOME_HISTOGRAMS
from controlplane.contract.bodies.rollouts import JUDGED_METRICS, MOST_LIMITS
from controlplane.contract.bodies.slo import Limit, UseCase

MOST_VALUES = 64
"""Of one label of an arm."""


class Outcome(StrEnum):
    """What whoever runs a canary needs to know."""

    PASS = "pass"  # Shown to be better, or not worse by more than the tolerance.
    FAIL = "fail"  # Shown to be worse.
    INCONCLUSIVE = "inconclusive"  # Neither has been shown.


class StratumCounts(BaseModel):
    """Values of one stratum: a prompt bucket and, where senders tell it, a cache class."""

    name: str = Field(description="such as `<=2k hit`; empty: nobody told")
    control: int = Field(description="values of the control that were compared")
    canary: int = Field(description="values of the canary that were compared")


class ArmCounts(BaseModel):
    """Values that were compared."""

    control: int = Field(default=0, description="of the control")
    canary: int = Field(default=0, description="of the canary")


class MetricVerdict(BaseModel):
    """What one metric has shown, by the line of it that leans most to harm."""

    finding: str = Field(description="`worse`, `faster`, `not_worse`, `leaning_worse` or `undecided`")
    by: str = Field(description="`itself before`, `its own history`, or `counts` above the control's quantiles")
    line: str = Field(description="the line that is told: `typical`, a quantile, or a prompt bucket")
    ratio: float | None = Field(description="canary to control; null: not told")
    interval: list[float | None] | None = Field(
        description="low and high of the ratio's confidence sequence, which holds at every look; null in it: beyond "
        "what can be told; null: compared by counts, which have none"
    )
    counts: ArmCounts = Field(description="values that were compared")
    strata: list[StratumCounts] = Field(description="the same by stratum")


class VerdictAnswer(BaseModel):
    """A verdict with what it rests on.

    `ratio`, `interval`, `counts` and `strata` are those of `metric`, the one that leans most to harm.
    """

    verdict: Outcome = Field(description="what to do: go on, take it back, or wait")
    final: bool = Field(description="whether asking again gives the same")
    says: list[str] = Field(description="why, in sentences")
    metric: str | None = Field(default=None, description="the metric that is told; null: none is compared yet")
    line: str | None = Field(default=None, description="its line that is told")
    ratio: float | None = Field(default=None, description="canary to control; null: not told")
    interval: list[float | None] | None = Field(default=None, description="low and high of the ratio, at every look")
    counts: ArmCounts = Field(default=ArmCounts(), description="values of that metric that were compared")
    strata: list[StratumCounts] = Field(default=[], description="the same by stratum")
    metrics: dict[str, MetricVerdict] = Field(default={}, description="what each metric has shown, by short name")
    served: dict[str, Any] = Field(default={}, description="what each arm was offered and lost")
    limits: list[dict[str, Any]] = Field(default=[], description="the evidence of each limit")
    alpha: float | None = Field(default=None, description="probability of a wrong verdict, however often it is asked")
    tolerance: float | None = Field(default=None, description="relative slowdown that counts as equal")
    judged_from: AwareDatetime | None = Field(default=None, description="since when the arms are compared")
    judged_until: AwareDatetime | None = Field(default=None, description="until when they have been compared")
    judged_s: float = Field(default=0.0, description="seconds that were compared")
    needed_s: float | None = Field(
        default=None, description="seconds of the same traffic that a good verdict still needs at least; null: not told"
    )


Values = Annotated[list[str], Field(max_length=MOST_VALUES, description="any of these values; empty: all")]


class ArmAsked(BaseModel):
    """One arm: the requests whose labels have one of these values, for each label that is given."""

    node: list[str] = Field(
        default=[],
        max_length=MOST_VALUES,
        description="nodes, where `*` stands for any text; one that the other arm names too is the control's",
    )
    pool: Values = []
    model: Values = []
    revision: Values = []
    tenant: Values = []
    region: Values = []


class VerdictAsked(BaseModel):
    """Two arms that somebody else runs, to be judged as a canary of ours is.

    Both at the same time; or, with `control_start` and `control_end`, the canary beside the time before. Where both
    arms have served for half an hour before `start`, each is compared with itself.
    """

    control: ArmAsked = Field(description="what the canary is compared with")
    canary: ArmAsked = Field(description="what is judged")
    start: AwareDatetime | None = Field(
        default=None,
        description="when the canary began; null: after its last silence of ten minutes, found in what it reported",
    )
    end: AwareDatetime | None = Field(default=None, description="when it ended; null: it is still under way")
    control_start: AwareDatetime | None = Field(default=None, description="the control is this time before, from here")
    control_end: AwareDatetime | None = Field(default=None, description="... to here")
    settle_s: float = Field(
        default=120, ge=0, le=3600, description="seconds after `start` that are passed over: a new engine warms up"
    )
    metrics: list[str] = Field(
        default=list(JUDGED_METRICS),
        json_schema_extra=SOME_HISTOGRAMS,
        description="histograms to compare, by their short names",
    )
    levels: dict[str, list[float]] = Field(
        default={},
        json_schema_extra=LEVELS_BY_HISTOGRAM,
        description="metric to the control's quantiles at which it is compared, as of a rollout",
    )
    limits: list[Limit] = Field(
        default=[],
        max_length=MOST_LIMITS,
        description="limits that the canary must not break where the control keeps them",
    )
    profile: UseCase | None = Field(default=None, description="a use case whose limits it must not break either")
    tolerance: float = Field(default=0.1, ge=0, le=1, description="relative slowdown that counts as equal")
    alpha: float = Field(
        default=0.01, gt=0, lt=0.5, description="probability of a wrong verdict, over all looks and all claims"
    )
    min_judge_s: float = Field(default=60, ge=5, le=86400, description="seconds to compare at least before it passes")
