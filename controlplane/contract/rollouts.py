"""Rollouts: how a configuration reaches production, judged on the way."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field, model_validator

from controlplane.contract.metrics import E2E, ITL, TPOT, TTFT
from controlplane.contract.slo import Limit, UseCase


class RolloutPhase(StrEnum):
    """Where a rollout is."""

    PROPOSED = "proposed"  # Waits for a person (or its creator) to start it.
    CANARY = "canary"  # The canary nodes are being given the configuration.
    JUDGING = "judging"  # Canary and control are compared on live traffic.
    PROMOTING = "promoting"  # The rest of the pool is being given the configuration.
    ROLLING_BACK = "rolling_back"  # The whole previous revision is being put back.
    PROMOTED = "promoted"  # Ended: the pool runs the new revision.
    ROLLED_BACK = "rolled_back"  # Ended: the pool runs the previous revision.
    FAILED = "failed"  # Ended: nodes could not be brought to either; a person has to look.
    CANCELLED = "cancelled"  # Ended before it began.


ENDED = frozenset({RolloutPhase.PROMOTED, RolloutPhase.ROLLED_BACK, RolloutPhase.FAILED, RolloutPhase.CANCELLED})


class Verdict(StrEnum):
    BETTER = "better"  # Evidence that the canary is faster.
    NOT_WORSE = "not_worse"  # Evidence that it is not slower by more than the tolerance.
    WORSE = "worse"  # Evidence that it is slower by more than the tolerance.
    INCONCLUSIVE = "inconclusive"  # Not enough evidence within the time allowed.
    UNJUDGED = "unjudged"  # An emergency change that skipped the canary; says so for ever.


JUDGED_METRICS: tuple[str, ...] = (TTFT.short, TPOT.short, E2E.short, ITL.short)
"""Compared where a rollout does not say."""

LEVELS: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99)
"""Quantiles of the control at which a metric is compared."""

TAIL_LEVELS: tuple[float, ...] = (0.99,)
"""The same for gaps between deliveries: a step with drafts is longer and delivers more, so only stalls count."""

TAKE_BACK_MIN_JUDGE_S, TAKE_BACK_MAX_JUDGE_S = 15.0, 300.0
"""The bad side of a take-back is the control, and the pool suffers while it is judged."""


def default_levels(metric: str) -> list[float]:
    return list(TAIL_LEVELS if metric == ITL.short else LEVELS)


class RolloutCreate(BaseModel):
    """A wanted rollout of `revision` to `pool`.

    `emergency` gives it to the whole pool at once, without a canary: it needs scope admin and a reason, and its
    verdict is "unjudged". Metrics are judged together at error rate `alpha`. `tolerance` is the relative slowdown that
    counts as equal: to show an equal canary "not worse" takes about 4,000 requests at 0.1, 1,600 at 0.2, 800 at 0.3
    (docs/benchmarks.md), so small pools want a larger one.

    What is judged is told before it starts (`Rollout.plan`). The share of requests served is always judged. With an
    `objective`, as the rollout of a study's winner has, only that quantile is compared; else each of `metrics`, at
    its `levels` of the control. `limits`, and those of `profile`, must not be broken by the canary where the control
    keeps them; a rollout that names neither is given those of the pool's absolute alert rules.

    `takes_back` is the revision this rollout takes back; `revision` is then the target served before it. It is judged
    as any other, but sooner: `min_judge_s` becomes 15 s and `max_judge_s` 300 s where they are not given.

    A wave of nodes that has not confirmed the revision after `apply_timeout_s` is taken back. Left null it becomes
    120 s where all nodes change live, and where one needs a swap or a restart ten minutes, or four times what such a
    change has cost there if that is more; the rollout shows what it became.

    `takes_back` names the revision that is the cause of an alert: the rollout is of what served before it, judged like
    any other, and begins only while that revision is still the pool's own.
    """

    pool: str
    revision: int
    canary_share: float = Field(default=0.25, gt=0, le=0.5)  # Of the pool's serving nodes, at least one.
    metrics: list[str] = list(JUDGED_METRICS)
    levels: dict[str, list[float]] = {}  # Metric to quantiles; left out: all of LEVELS, for itl its tail alone.
    objective: str | None = None
    objective_q: float = Field(default=0.95, gt=0, lt=1)
    limits: list[Limit] = []
    profile: UseCase | None = None
    tolerance: float = Field(default=0.1, ge=0, le=1)
    alpha: float = Field(default=0.01, gt=0, lt=0.5)
    min_judge_s: float = Field(default=60, ge=5)
    max_judge_s: float = Field(default=1800, ge=10)
    apply_timeout_s: float | None = Field(default=None, ge=5)  # Null: by what the change needs on the pool's nodes.
    emergency: bool = False
    start: bool = True
    reason: str = Field(default="", max_length=500)
    study_id: int | None = None
    takes_back: int | None = None  # The revision in production that this rollout is to undo.

    @model_validator(mode="after")
    def _soon(self) -> "RolloutCreate":
        if self.takes_back is not None:
            if "min_judge_s" not in self.model_fields_set:
                self.min_judge_s = TAKE_BACK_MIN_JUDGE_S
            if "max_judge_s" not in self.model_fields_set:
                self.max_judge_s = max(TAKE_BACK_MAX_JUDGE_S, self.min_judge_s)
        return self


class Compared(BaseModel):
    """One metric whose values above the control's past quantiles `levels` are counted in both arms.

    `shown`: the levels at which NOT_WORSE has to be shown; at the others evidence of harm alone counts. `per_delivery`:
    a gap may be longer by as many tokens as the canary's deliveries hold more of (see `delivered_tokens`).
    """

    metric: str
    levels: list[float]
    shown: list[float] = []
    per_delivery: bool = False


class JudgingPlan(BaseModel):
    """What a rollout is judged by, told before it starts. `says` is the same in words."""

    compared: list[Compared]
    limits: list[Limit] = []
    tolerance: float
    alpha: float
    says: list[str] = []


class Rollout(BaseModel):
    id: int
    phase: RolloutPhase
    verdict: Verdict | None = None
    spec: RolloutCreate
    previous_revision: int | None = None
    canary_nodes: list[str] = []
    control_nodes: list[str] = []
    plan: JudgingPlan | None = None  # None: an emergency, which nobody judges.
    evidence: dict[str, Any] = {}  # Per metric: counts, exceedances, log e-values, quantiles of both arms.
    message: str = ""
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    judging_since: datetime | None = None
    ended_at: datetime | None = None
