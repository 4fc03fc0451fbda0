"""Rollouts: how a configuration reaches production, judged on the way."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.knob_schema import SOME_HISTOGRAMS


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
    """What the canary's traffic has shown beside the control's."""

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

    pool: str = Field(description="the pool that shall run it")
    revision: int = Field(description="the revision's number")
    canary_share: float = Field(
        default=0.25, gt=0, le=0.5, description="share of the pool's serving nodes to be the canary, at least one"
    )
    metrics: list[str] = Field(
        default=["ttft", "itl", "e2e"],
        json_schema_extra=SOME_HISTOGRAMS,
        description="histograms to judge by, by their short names",
    )
    tolerance: float = Field(default=0.1, ge=0, le=1, description="relative slowdown that counts as equal")
    alpha: float = Field(
        default=0.01, gt=0, lt=0.5, description="probability of a wrong verdict, over all metrics together"
    )
    min_judge_s: float = Field(
        default=60, ge=5, description="seconds to look at least before the canary counts as good"
    )
    max_judge_s: float = Field(default=1800, ge=10, description="seconds after which the verdict is `inconclusive`")
    apply_timeout_s: float | None = Field(
        default=None,
        ge=5,
        description="seconds for a wave of nodes to confirm the revision; null: by what the change takes there",
    )
    emergency: bool = Field(
        default=False, description="the whole pool at once, without a canary; needs scope admin and a reason"
    )
    start: bool = Field(default=True, description="false: it waits to be started")
    reason: str = Field(default="", max_length=500, description="why, for people")
    study_id: int | None = Field(default=None, description="the study whose winner it is")
    takes_back: int | None = Field(
        default=None, description="the revision in production that this rollout is to undo; null: none"
    )


class Rollout(BaseModel):
    """One rollout: what was asked for, where it is, and on what evidence."""

    id: int = Field(description="the rollout's number")
    phase: RolloutPhase = Field(description="where it is")
    verdict: Verdict | None = Field(
        default=None, description="what the canary's traffic has shown; null until it is known"
    )
    spec: RolloutCreate = Field(description="what was asked for")
    previous_revision: int | None = Field(default=None, description="what the pool ran before; null: nobody had said")
    canary_nodes: list[str] = Field(default=[], description="nodes that get the revision first")
    control_nodes: list[str] = Field(default=[], description="nodes they are compared with")
    evidence: dict[str, Any] = Field(
        default={}, description="by metric: counts, exceedances, log e-values, quantiles of canary and control"
    )
    message: str = Field(default="", description="the newest news in a sentence")
    created_by: str = Field(description="the name of the token that made it")
    created_at: datetime = Field(description="when it was made")
    started_at: datetime | None = Field(default=None, description="when it began")
    judging_since: datetime | None = Field(default=None, description="since when canary and control are compared")
    ended_at: datetime | None = Field(default=None, description="when it ended")
