"""Rollouts: how a configuration reaches production, judged on the way."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


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


class RolloutCreate(BaseModel):
    """A wanted rollout of `revision` to `pool`.

    `emergency` gives it to the whole pool at once, without a canary: it needs scope admin and a reason, and its
    verdict is "unjudged". Metrics are judged together at error rate `alpha`. `tolerance` is the relative slowdown that
    counts as equal: to show an equal canary "not worse" takes about 4,000 requests at 0.1, 1,600 at 0.2, 800 at 0.3
    (docs/benchmarks.md), so small pools want a larger one.

    A wave of nodes that has not confirmed the revision after `apply_timeout_s` is taken back. Left null it becomes
    120 s where all nodes change live, and where one needs a swap or a restart ten minutes, or four times what such a
    change has cost there if that is more; the rollout shows what it became.

    `takes_back` names the revision that is the cause of an alert: the rollout is of what served before it, judged like
    any other, and begins only while that revision is still the pool's own.
    """

    pool: str
    revision: int
    canary_share: float = Field(default=0.25, gt=0, le=0.5)  # Of the pool's serving nodes, at least one.
    metrics: list[str] = ["ttft", "itl", "e2e"]
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


class Rollout(BaseModel):
    id: int
    phase: RolloutPhase
    verdict: Verdict | None = None
    spec: RolloutCreate
    previous_revision: int | None = None
    canary_nodes: list[str] = []
    control_nodes: list[str] = []
    evidence: dict[str, Any] = {}  # Per metric: counts, exceedances, log e-values, quantiles of both arms.
    message: str = ""
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    judging_since: datetime | None = None
    ended_at: datetime | None = None
