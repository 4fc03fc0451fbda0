"""Rollouts: how a configuration reaches production, judged on the way."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from controlplane.contract.bodies.knob_schema import LEVELS_BY_HISTOGRAM, ONE_HISTOGRAM_OR_NULL, SOME_HISTOGRAMS, VALUES
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.changes.blast_radius import BlastLimit, BlastRadius
from controlplane.contract.changes.findings import Finding
from controlplane.contract.changes.hooks import HookCall
from controlplane.contract.changes.label_selector import LONGEST_WORD, MOST_VALUES, SelectorText
from controlplane.contract.metrics import E2E, ITL, TPOT, TTFT
from controlplane.contract.reports.node_labels import LONGEST_NAME


class RolloutPhase(StrEnum):
    """Where a rollout is."""

    PROPOSED = "proposed"  # Pending: waits for a person (or its creator) to start it.
    AWAITING_APPROVAL = "awaiting_approval"  # Waits for somebody else than who proposed it.
    VALIDATING = "validating"  # Held against each node before anything moves.
    CANARY = "canary"  # The canary nodes are being given the configuration.
    JUDGING = "judging"  # Those who run it and the rest are compared on live traffic.
    SOAKING = "soaking"  # Judged well, and watched on before the next stage: for its time, or while none may begin.
    PROMOTING = "promoting"  # The next stage's nodes are being given the configuration.
    PAUSED = "paused"  # Waits for a person; nothing moves but a rollback, should harm show.
    ROLLING_BACK = "rolling_back"  # The whole previous revision is being put back.
    PROMOTED = "promoted"  # Ended: the pool runs the new revision.
    ROLLED_BACK = "rolled_back"  # Ended: the pool runs the previous revision.
    FAILED = "failed"  # Ended: no node was told, as validation found why not; or nodes could not be brought to either.
    CANCELLED = "cancelled"  # Ended before it began.


ENDED = frozenset({RolloutPhase.PROMOTED, RolloutPhase.ROLLED_BACK, RolloutPhase.FAILED, RolloutPhase.CANCELLED})
NOT_BEGUN = frozenset({RolloutPhase.PROPOSED, RolloutPhase.AWAITING_APPROVAL})
WAITS_FOR_A_PERSON = frozenset({*NOT_BEGUN, RolloutPhase.PAUSED})
"""All others end in time by themselves."""


class OnInconclusive(StrEnum):
    """What becomes of a canary that shows no harm, and that its traffic has not decided within the longest time."""

    HOLD = "hold"  # It is kept as it is, watched, until a person decides.
    ROLL_BACK = "roll_back"  # The previous revision is put back.


class RolloutAction(StrEnum):
    """What people do with a rollout that is there."""

    START = "start"  # Begin what is proposed.
    APPROVE = "approve"  # Begin what waits for another than who proposed it.
    PAUSE = "pause"  # Tell no more nodes until it is resumed.
    RESUME = "resume"  # Go on where it was paused.
    ABORT = "abort"  # Roll back what is under way.
    CANCEL = "cancel"  # End it before it began; under way, roll it back.
    RETRY = "retry"  # Another rollout of the same.
    REVERT = "revert"  # Another rollout that takes back what this one promoted.


class Verdict(StrEnum):
    """What the canary's traffic has shown beside the control's."""

    BETTER = "better"  # Evidence that the canary is faster.
    NOT_WORSE = "not_worse"  # Evidence that it is not slower by more than the tolerance.
    WORSE = "worse"  # Evidence that it is slower by more than the tolerance.
    INCONCLUSIVE = "inconclusive"  # Not enough evidence within the time allowed.
    UNJUDGED = "unjudged"  # An emergency change that skipped the canary; says so for ever.


MOST_LIMITS = 32
"""That one canary is asked to keep; its pool's own come to them."""
Limits = Annotated[
    list[Limit],
    Field(
        description="limits that the canary must not break where the control keeps them; the pool's absolute alert "
        "rules add theirs"
    ),
]

LabelName = Annotated[str, Field(max_length=LONGEST_NAME)]
WaveOrder = Annotated[list[Annotated[str, Field(min_length=1, max_length=LONGEST_WORD)]], Field(max_length=MOST_VALUES)]


def check_waves(label: str, order: list[str], soak_s: float, pause: bool) -> None:
    """Of a rollout and of a policy. Raises `ValueError` for what is said of the values of no label."""
    if label:
        return
    if order:
        raise ValueError("wave_order: of which label are these values? name it in wave_by")
    if soak_s or pause:
        field = "wave_soak_s" if soak_s else "wave_pause"
        raise ValueError(f"{field}: between the values of which label? name it in wave_by")


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


UNDECIDED = "inconclusive: not enough evidence"
"""How it begins why a canary went back that showed no harm, and that its traffic has not decided in time."""


class Stage(BaseModel):
    """How many of the pool's serving nodes run the revision once a stage is done."""

    share: float = Field(
        ge=0, le=1, description="share of the pool's serving nodes, rounded down; one node more than before at least"
    )
    pause: bool = Field(default=False, description="whether it waits for a person to resume before the next stage")


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

    `canary_selector` and `wave_by` say by labels of nodes which may be the canary, and in which order waves go; in the
    end every node of the pool is told, so that a pool has one revision.

    With `stages` the first is the canary, and each follows when the one before was judged well and has soaked for
    `soak_s`; a stage that would change more than `max_step_share` of the pool at once goes in several waves. Without,
    waves are of `canary_share`. A canary that stays undecided without harm is held for a person (`on_inconclusive`).

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
    limits: Limits = []
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
    stages: list[Stage] = Field(
        default=[],
        max_length=20,
        description="shares of the pool in the order in which they are told, rising, the last 1; none: equal waves",
    )
    max_step_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="the largest share of the pool that is told at once, one node at least; null: as stages say",
    )
    canary_selector: SelectorText = Field(
        default="",
        description="labels of the nodes that may be the canary, as in `region=eu-1, gpu in (H100, H200)`; empty: as "
        "the pool's policy says, else any",
    )
    wave_by: LabelName = Field(
        default="",
        description="a label: no wave mixes nodes of two of its values, and one value's nodes are done before the "
        "next's; empty: as the pool's policy says, else any",
    )
    wave_order: WaveOrder = Field(
        default=[],
        description="values of `wave_by` in the order in which they are done, the canary's first all the same; those "
        "left out come after them by name, nodes without the label last",
    )
    wave_soak_s: float = Field(
        default=0,
        ge=0,
        description="seconds for which the nodes of one value of `wave_by` are watched on, once all were judged well, "
        "before the next value's are told; where `soak_s` is longer, that",
    )
    wave_pause: bool = Field(
        default=False, description="whether a person is waited for between one value of `wave_by` and the next"
    )
    soak_s: float = Field(
        default=0, ge=0, description="seconds for which each stage is watched on after it was judged well"
    )
    on_inconclusive: OnInconclusive | None = Field(
        default=None,
        description="what becomes of a harmless canary that stays undecided; null: as the pool's policy says, else "
        "`hold`, or `roll_back` for what a study or a remedy has proposed (`study_id`, `takes_back`)",
    )
    only_better: bool = Field(
        default=False,
        description="whether a canary that is only not worse goes back, too, where it was not shown to be better "
        "within `max_judge_s`",
    )
    wants_approval: bool = Field(
        default=False, description="whether it begins only when another than who proposed it has approved"
    )
    apply_timeout_s: float | None = Field(
        default=None,
        ge=5,
        description="seconds for a wave of nodes to confirm the revision; null: by what the change takes there",
    )
    max_blast: BlastLimit | None = Field(
        default=None, description="the largest blast radius that it may have: refused when it is larger; null: any"
    )
    emergency: bool = Field(
        default=False, description="the whole pool at once, without a canary; needs scope admin and a reason"
    )
    start: bool = Field(default=True, description="false: it waits to be started")
    reason: str = Field(default="", max_length=500, description="why, for people")
    study_id: int | None = Field(default=None, description="the study whose winner, or step in production, it is")
    study_step: int | None = Field(default=None, description="that step's number; null: it is no step in production")
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

    @model_validator(mode="after")
    def _ordered(self) -> "RolloutCreate":
        check_waves(self.wave_by, self.wave_order, self.wave_soak_s, self.wave_pause)
        return self

    @property
    def longest_judge_s(self) -> float:
        """Seconds after which an undecided canary is inconclusive, however harmless it looks."""
        longest_s = self.max_judge_s * (2.0 if self.takes_back is None else 1.0)
        return max(longest_s if self.extended_judge_s is None else self.extended_judge_s, self.max_judge_s)

    @property
    def holds(self) -> bool:
        """Whether an undecided, harmless canary waits for a person."""
        if self.on_inconclusive is None:
            return self.study_id is None and self.takes_back is None
        return self.on_inconclusive is OnInconclusive.HOLD


class RolloutProposal(RolloutCreate):
    """A wanted rollout of a revision that is there, or of one that is made with it: `knobs` laid over `revision`.

    Both are made, or neither; with `dry_run=true` neither is.
    """

    limits: Annotated[Limits, Field(max_length=MOST_LIMITS)] = []
    knobs: dict[str, Any] = Field(
        default={},
        json_schema_extra=VALUES,
        description="knobs to change, laid over `revision`: what comes of it is the revision that is rolled out; "
        "none: `revision` as it is",
    )

    def of(self, revision: int) -> RolloutCreate:
        """The rollout of the revision that its knobs have made."""
        said = self.model_dump(exclude={"knobs"}, exclude_unset=True)
        return RolloutCreate.model_validate({**said, "revision": revision})


class Compared(BaseModel):
    """One metric whose values above the control's past quantiles `levels` are counted in both arms."""

    metric: str = Field(description="the histogram's short name")
    levels: list[float] = Field(description="the control's quantiles whose values both arms are held against")
    shown: list[float] = Field(
        default=[], description="levels at which the canary has to be shown not worse; at the others harm alone counts"
    )
    beside: list[float] = Field(
        default=[],
        description="quantiles on both sides of an objective's, at which being faster counts as well, and nothing else",
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


class Wave(BaseModel):
    """One step of a rollout: how many nodes run the revision when it is done, and when the next may follow."""

    nodes: int = Field(description="serving nodes of the pool that run the revision after it")
    of: int = Field(description="serving nodes of the pool")
    named: list[str] = Field(default=[], description="nodes that it tells, where they are known")
    group: str = Field(default="", description="the value of `wave_by` that all of its nodes have; empty: none")
    pauses: bool = Field(default=False, description="whether a person is waited for before the next")
    soak_s: float = Field(default=0, description="seconds for which it is watched on after it was judged well")
    says: str = Field(default="", description="the same in words, with the longest time")


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
    step: int = Field(
        default=0, description="rises with each change of phase, wave or message; `ETag` is made of it, for `If-Match`"
    )
    until: datetime | None = Field(
        default=None,
        description="when this phase ends at the latest; null where a person, a hook or a freeze window is waited for",
    )
    next: str = Field(default="", description="what comes next, in a sentence; empty once it has ended")
    resumes: RolloutPhase | None = Field(default=None, description="where a paused one goes on")
    told_nodes: list[str] = Field(default=[], description="nodes that were told to run the revision, the canary first")
    waves: list[Wave] = Field(default=[], description="all waves, the canary first; empty before it has begun")
    hooks: list[HookCall] = Field(default=[], description="the newest call of each hook of its pool")
    held: str | None = Field(
        default=None,
        description="why it waits for somebody: an undecided canary, a stage's pause, a hook that wants it to wait or "
        "does not answer; null: it does not, or a person has paused it",
    )
    held_since: datetime | None = Field(default=None, description="since when it waits for somebody, as `held` says")
    follows: int | None = Field(default=None, description="the rollout that this one retries or reverts")
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


class RolloutForecast(BaseModel):
    """What a request would do (`dry_run=true`): nothing of it was done."""

    rollout: Rollout = Field(description="the rollout as it would be")
    waves: list[Wave] = Field(description="nodes that would be told, wave by wave, as the fleet is now")
    longest_s: float = Field(
        description="seconds from its start after which it is promoted or goes back at the latest, less what people, "
        "hooks and freeze windows take"
    )
    says: list[str] = Field(description="the same in words")
    blast_radius: BlastRadius | None = Field(
        default=None, description="whom it can hurt, as the fleet is now; null: no serving node of its pool may be told"
    )
    findings: list[Finding] = Field(
        default=[], description="what is worth knowing of its nodes, such as a restart: the first twenty"
    )
    more_findings: int = Field(default=0, description="how many there are beyond them")
