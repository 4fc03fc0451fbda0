"""Rollouts: how a configuration reaches production, judged on the way."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field, model_validator

from controlplane.contract.bodies.knob_schema import LEVELS_BY_HISTOGRAM, ONE_HISTOGRAM_OR_NULL, SOME_HISTOGRAMS
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.metrics import E2E, ITL, TPOT, TTFT


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


JUDGED_METRICS: tuple[str, ...] = (TTFT.short, TPOT.short, E2E.short, ITL.short)
"""Compared where a rollout does not say."""

LEVELS: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99)
"""Quantiles of the control at which a metric is compared."""

TAIL_LEVELS: tuple[float, ...] = (0.99,)
"""The same for gaps between deliveries: a step with drafts is longer and delivers more, so only stalls count."""

TAKE_BACK_MIN_JUDGE_S, TAKE_BACK_MAX_JUDGE_S, TAKE_BACK_WAVE_JUDGE_S = 15.0, 300.0, 60.0
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
    keeps them; the pool's absolute alert rules add theirs, for quantiles that the rollout does not limit itself.

    A canary that shows no harm is judged beyond `max_judge_s`, up to `extended_judge_s`, where its evidence would
    suffice by then. Each wave of nodes after it is judged too (`wave_judge_s`): all nodes that run the revision beside
    the rest, the last wave beside the time before. Harm takes all of them back.

    `takes_back` is the revision this rollout takes back; `revision` is then the target served before it. It is judged
    as any other, but sooner: `min_judge_s` becomes 15 s and `max_judge_s` 300 s where they are not given. It begins
    only while the revision that it takes back is still the pool's own.

    A wave of nodes that has not confirmed the revision after `apply_timeout_s` is taken back. Left null it becomes
    120 s where all nodes change live, and where one needs a swap or a restart ten minutes, or four times what such a
    change has cost there if that is more; the rollout shows what it became.
    """

    pool: str = Field(description="the pool that shall run it")
    revision: int = Field(description="the revision's number")
    canary_share: float = Field(
        default=0.25, gt=0, le=0.5, description="share of the pool's serving nodes to be the canary, at least one"
    )
    metrics: list[str] = Field(
        default=list(JUDGED_METRICS),
        json_schema_extra=SOME_HISTOGRAMS,
        description="histograms to compare, by their short names; with an `objective` none but it",
    )
    levels: dict[str, list[float]] = Field(
        default={},
        json_schema_extra=LEVELS_BY_HISTOGRAM,
        description="metric to the control's quantiles at which it is compared; one left out: 0.5, 0.9, 0.95 and 0.99, "
        "`itl` at 0.99 alone",
    )
    objective: str | None = Field(
        default=None,
        json_schema_extra=ONE_HISTOGRAM_OR_NULL,
        description="the histogram whose `objective_q` alone is compared; null: all of `metrics`",
    )
    objective_q: float = Field(default=0.95, gt=0, lt=1, description="the objective's quantile, within 0 and 1")
    limits: list[Limit] = Field(
        default=[],
        description="limits that the canary must not break where the control keeps them; the pool's absolute alert "
        "rules add theirs",
    )
    profile: UseCase | None = Field(
        default=None, description="a use case whose limits the canary must not break either; null: none"
    )
    tolerance: float = Field(default=0.1, ge=0, le=1, description="relative slowdown that counts as equal")
    alpha: float = Field(
        default=0.01, gt=0, lt=0.5, description="probability of a wrong verdict, over all claims together"
    )
    min_judge_s: float = Field(
        default=60,
        ge=5,
        description="seconds to look at least before the canary counts as good; left out with `takes_back`: 15",
    )
    max_judge_s: float = Field(
        default=1800,
        ge=10,
        description="seconds after which the verdict is `inconclusive`; left out with `takes_back`: 300",
    )
    extended_judge_s: float | None = Field(
        default=None,
        ge=10,
        description="seconds to which judging is extended where the canary shows no harm and more of the same would "
        "decide; null: twice `max_judge_s`, with `takes_back` no longer than it",
    )
    wave_judge_s: float = Field(
        default=300,
        ge=5,
        description="seconds for which each wave after the canary is watched at most before the next; left out with "
        "`takes_back`: 60",
    )
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

    @model_validator(mode="after")
    def _soon(self) -> "RolloutCreate":
        if self.takes_back is not None:
            if "min_judge_s" not in self.model_fields_set:
                self.min_judge_s = TAKE_BACK_MIN_JUDGE_S
            if "max_judge_s" not in self.model_fields_set:
                self.max_judge_s = max(TAKE_BACK_MAX_JUDGE_S, self.min_judge_s)
            if "wave_judge_s" not in self.model_fields_set:
                self.wave_judge_s = TAKE_BACK_WAVE_JUDGE_S
        return self

    @property
    def longest_judge_s(self) -> float:
        """Seconds after which an undecided canary is inconclusive, however harmless it looks."""
        longest_s = self.max_judge_s * (2.0 if self.takes_back is None else 1.0)
        return max(longest_s if self.extended_judge_s is None else self.extended_judge_s, self.max_judge_s)


class Compared(BaseModel):
    """One metric whose values above the control's past quantiles `levels` are counted in both arms."""

    metric: str = Field(description="the histogram's short name")
    levels: list[float] = Field(description="the control's quantiles whose values both arms are held against")
    shown: list[float] = Field(
        default=[], description="levels at which the canary has to be shown not worse; at the others harm alone counts"
    )
    per_delivery: bool = Field(
        default=False, description="whether a gap may be longer by as many tokens as the canary's deliveries hold more"
    )


class JudgingPlan(BaseModel):
    """What a rollout is judged by, told before it starts."""

    compared: list[Compared] = Field(description="metrics compared with the control")
    stages: list[Compared] = Field(
        default=[],
        description="stages without waiting, compared beside them where senders tell them and the nodes' past is known",
    )
    limits: list[Limit] = Field(
        default=[], description="limits that the canary must not break where the control keeps them"
    )
    tolerance: float = Field(description="relative slowdown that counts as equal")
    alpha: float = Field(description="probability of a wrong verdict, over all claims together, waves too")
    says: list[str] = Field(default=[], description="the whole plan in words")


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
    plan: JudgingPlan | None = Field(
        default=None, description="what it is judged by, told before it starts; null: an emergency, which nobody judges"
    )
    evidence: dict[str, Any] = Field(
        default={},
        description="what each arm was offered and lost (`served`), by limit and by metric: counts, exceedances, log "
        "e-values, quantiles of canary and control; at the end what each node ran (`nodes_at_end`)",
    )
    message: str = Field(default="", description="the newest news in a sentence")
    created_by: str = Field(description="the name of the token or person that made it")
    needs_approval: bool = Field(
        default=False,
        description="whether it begins only when another admin approves: an emergency, where two are asked",
    )
    approved_by: str | None = Field(default=None, description="the name of the token or person that approved it")
    approved_at: datetime | None = Field(default=None, description="when it was approved")
    created_at: datetime = Field(description="when it was made")
    started_at: datetime | None = Field(default=None, description="when it began")
    judging_since: datetime | None = Field(default=None, description="since when canary and control are compared")
    ended_at: datetime | None = Field(default=None, description="when it ended")
