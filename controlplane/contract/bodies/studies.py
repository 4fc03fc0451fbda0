"""Tuning studies: what to search, under which constraint, on which workload; and what came of it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from controlplane.contract.bodies.knob_schema import (
    COST,
    GOODPUT,
    GOODPUT_TOKENS,
    MAX_LOAD,
    NAMES,
    OF_LIMITS,
    OF_LOADS,
    ONE_OBJECTIVE,
)
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.planning.draft_acceptance import DraftAcceptance
from controlplane.contract.planning.measurement import Carries, Measurement
from controlplane.contract.planning.online_mode import LASTS_S, OnlineMode, OnlineStep


class StudyState(StrEnum):
    """Where a study is in its life."""

    QUEUED = "queued"  # Waits for a worker.
    RUNNING = "running"  # A worker holds its lease and reports trials.
    FINISHED = "finished"  # Has a result, which may be "not better".
    FAILED = "failed"  # The worker said why.
    CANCELLED = "cancelled"


class TrialState(StrEnum):
    """How far a trial is, and whether it could be measured."""

    RUNNING = "running"  # A worker holds it and measures it.
    WAITING = "waiting"  # Its worker was lost: the next one measures it.
    COMPLETE = "complete"  # Measured; `feasible` says whether the constraints held.
    FAILED = "failed"  # The configuration could not be applied or crashed; kept as infeasible.


MEASURED = frozenset({TrialState.COMPLETE, TrialState.FAILED})
"""What a report may say."""


FINALIST = "finalist"
"""The kind of a trial that measures again what the search has found: it is no trial of the search."""
STEP = "step"
"""The kind of a trial that is a step in production."""

_BOUNDS = {"minimum": {"type": "integer"}, "maximum": {"type": "integer"}}
_ONE_FORM: dict[str, Any] = {
    "anyOf": [
        {"required": [*_BOUNDS], "properties": {**_BOUNDS, "choices": {"type": "null"}}},
        {
            "required": ["choices"],
            "properties": {"choices": {"type": "array"}},
            "not": {"required": [*_BOUNDS], "properties": _BOUNDS},
        },
    ]
}
"""What `KnobRange._one_form` checks, as JSON Schema."""


AIMS = {
    GOODPUT: "time per good request",
    GOODPUT_TOKENS: "time per good token",
    MAX_LOAD: "time per request at the largest load",
    COST: "node time per 1,000 tokens",
}
"""What is made less, where that is no histogram's quantile."""
MOST_OBJECTIVES = 3


class KnobRange(BaseModel):
    """The values a study may try for one knob: either bounds (log: on a logarithmic scale) or choices."""

    model_config = ConfigDict(json_schema_extra=_ONE_FORM)

    minimum: int | float | None = Field(
        default=None, allow_inf_nan=False, description="the smallest value, with `maximum`"
    )
    maximum: int | float | None = Field(
        default=None, allow_inf_nan=False, description="the largest value, with `minimum`"
    )
    log: bool = Field(default=False, description="search on a logarithmic scale")
    choices: list[Any] | None = Field(default=None, description="the values themselves, instead of bounds")

    @model_validator(mode="after")
    def _one_form(self) -> "KnobRange":
        bounds = self.minimum is not None and self.maximum is not None
        if bounds == (self.choices is not None):
            raise ValueError("give either minimum and maximum, or choices")
        return self


class Objective(BaseModel):
    """What a study makes less, in seconds: a histogram's quantile, or one of `AIMS`."""

    objective: str = Field(
        json_schema_extra=ONE_OBJECTIVE, description="a histogram by its short name, or what else can be an objective"
    )
    objective_q: float = Field(default=0.95, gt=0, lt=1, description="the quantile of a histogram; of no other")

    @property
    def name(self) -> str:
        """By which figures are told: "ttft:0.95", "goodput"."""
        return self.objective if self.objective in AIMS else f"{self.objective}:{self.objective_q:g}"

    @property
    def aim(self) -> str:
        """In words: "ttft p95"."""
        return AIMS.get(self.objective, f"{self.objective} p{100 * self.objective_q:.6g}")


class StudyCreate(BaseModel):
    """A wanted study. Objective: minimise `objective` at `objective_q`, where `constraints` must hold; or `goodput`,
    the requests a second that keep each of `constraints`, which the winner shall then serve more of (`goodput_tokens`:
    their output tokens). A request keeps a limit where its own value does (of `itl`, which has many values, their
    quantile `q`); one that is lost keeps none. Or `max_load`, the largest load at which each of `constraints` holds,
    which is sought by several replays a trial; `cost` is what 1,000 output tokens cost there.
    With `online` there is no trial node: live knobs move in production, step by step.

    The workload is what the pool served in the last `workload_s` seconds (captured when the study is claimed), or the
    one that `workload` names.
    """

    pool: str = Field(description="the pool whose traffic is replayed")
    objective: str = Field(
        default="e2e",
        json_schema_extra=ONE_OBJECTIVE,
        description="the histogram to make faster, by its short name, as a replay's client sees it; or `goodput`, "
        "`goodput_tokens`, `max_load` or `cost`",
    )
    objective_q: float = Field(
        default=0.95, gt=0, lt=1, description="the quantile of a histogram, within 0 and 1; other objectives have none"
    )
    also: list[Objective] = Field(
        default=[],
        max_length=MOST_OBJECTIVES - 1,
        description="further objectives: the search seeks all that cannot be had better in one without being worse in "
        "another (`result.front`), and of these the winner by `objective`",
    )
    also_tolerance: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="share by which a winner may be worse than the default in any of `also`, by the upper bound of "
        "what was seen",
    )
    node_hour_price: float | None = Field(
        default=None, gt=0, le=1e6, description="what a node costs an hour, in `currency`; null: costs are node seconds"
    )
    currency: str = Field(
        default="", max_length=16, pattern=r"^\w*$", description="of `node_hour_price`, such as EUR; empty: none"
    )
    constraints: list[Limit] = Field(
        default=[],
        description="limits that a winner must hold; with `goodput` and `goodput_tokens` those that make a request "
        "good, with `max_load` and `cost` those that a load must keep, one at least",
    )
    max_lost_share: float = Field(
        default=0.02, gt=0, lt=1, description="share of requests that a winner may lose: refused, failed or cut short"
    )
    least_agreement: float = Field(
        default=0.9,
        gt=0,
        lt=1,
        description="share of next tokens that a quantized model must have in common with the unquantized one, by the "
        "lower bound of what was seen",
    )
    most_logprob_drop: float = Field(
        default=0.05,
        ge=0,
        le=100,
        description="nats a token by which the log-probability of held-out text may drop in a quantized model, by the "
        "upper bound of what was seen: 0.05 is 5 % more perplexity; 0: it is not asked",
    )
    evaluation: str = Field(
        default="",
        max_length=64,
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="an evaluation command's name, as the worker was started with it (`--evaluation NAME=COMMAND`): it "
        "scores the default and a better winner, beside `max_duration_s`; empty: none",
    )
    evaluation_margin: float = Field(
        default=0.01, ge=0, description="by how much the winner's score may be below the default's, in its own unit"
    )
    suggested: list[dict[str, Any]] = Field(
        default=[],
        max_length=32,
        description="configurations to measure first, best first; knobs left out stay as the pool runs them",
    )
    space: dict[str, KnobRange] = Field(
        default={}, json_schema_extra=NAMES, description="knob to the values to try; empty: the tuner's own four knobs"
    )
    workload: str = Field(
        default="",
        max_length=96,
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._:@-]*)?$",
        description="what is replayed as if the pool had served it: a kept workload's name, or a profile at requests a "
        "second (`profile:chat@4`; chat, rag, code, agents); empty: what the pool served",
    )
    prompts: str = Field(
        default="",
        max_length=64,
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="a kept prompt set's name: its text is replayed in place of the bundled one, chosen by the lengths "
        "of the traffic; empty: the bundled one, with the prefixes that the traffic shared",
    )
    workload_s: float = Field(
        default=300, ge=10, le=86400, description="seconds of the pool's newest traffic to replay"
    )
    load: float = Field(
        default=1.0,
        ge=0.1,
        le=20,
        description="times the rate at which that traffic came: a winner for a busier day is sought above 1",
    )
    max_trials: int = Field(default=12, ge=3, le=1000, description="configurations to try at most")
    max_duration_s: float = Field(
        default=600,
        ge=10,
        le=7 * 86400,
        description="seconds to take at most, changes of configuration included; left out with `online`: a day",
    )
    trial_requests: int = Field(default=40, ge=5, le=100000, description="requests replayed for a trial at most")
    load_replays: int = Field(
        default=7,
        ge=4,
        le=32,
        description="replays of a trial at most, each at another load, where an objective is `max_load` or `cost`",
    )
    finalists: int = Field(
        default=3, ge=1, le=8, description="configurations that run heats on fresh traffic for the last place"
    )
    finalist_repeats: int = Field(
        default=3,
        ge=2,
        le=20,
        description="pairs of winner and default that time is kept for; up to twelve while there is time and doubt",
    )
    seed: int = Field(default=0, description="of the search; the same seed proposes the same")
    propose_rollout: bool = Field(default=True, description="whether a better winner becomes a rollout that waits")
    auto_start_rollout: bool = Field(default=False, description="whether that rollout begins at once")
    rollout: dict[str, Any] = Field(
        default={}, description="fields of the rollout that shall differ from their defaults"
    )
    online: OnlineMode | None = Field(
        default=None,
        description="careful tuning in production, for a pool without a spare replica; null: trials on a trial node",
    )
    reason: str = Field(default="", description="why, for people")

    @model_validator(mode="after")
    def _lasts(self) -> "StudyCreate":
        if self.online is not None and "max_duration_s" not in self.model_fields_set:
            self.max_duration_s = LASTS_S
        return self

    @property
    def aim(self) -> str:
        """What it makes less, in words: "e2e p95"; all objectives are seconds."""
        return self.objectives[0].aim

    @property
    def objectives(self) -> list[Objective]:
        """That by which the winner is chosen, then `also`."""
        return [Objective(objective=self.objective, objective_q=self.objective_q), *self.also]

    def seeks(self, *objectives: str) -> bool:
        """Whether one of its objectives is among these."""
        return any(one.objective in objectives for one in self.objectives)

    @property
    def held(self) -> list[Limit]:
        """The constraints that are limits of quantiles, beside the objective."""
        return [] if self.objective in OF_LIMITS else self.constraints

    @property
    def replays(self) -> int:
        """Of one trial, at most."""
        return self.load_replays if self.seeks(*OF_LOADS) else 1


class RunOrder(BaseModel):
    """Which slice of the traffic a run replays, and its place in the finish."""

    heat: int | None = Field(default=None, ge=0, description="the finish's heat or pair; null: the search's slice")
    pair: int | None = Field(default=None, ge=0, description="of the winner and the default; null: no pair")
    pairs: int | None = Field(default=None, ge=1, description="how many there are at most, as it was fixed before them")
    design: str = Field(default="", max_length=32, description="of the pairs: `interleaved` or `blocks`")
    arm: str = Field(default="", max_length=32, description="of the pair: `default` or `winner`")


class TrialReport(BaseModel):
    """What the worker reports of one trial. `violations`: "metric:q" to relative excess over the limit (<= 0: held)."""

    number: int = Field(ge=0, description="the trial's number within the study, from 0")
    kind: str = Field(
        default="search", pattern="^(default|search|finalist)$", description="`default`, `search` or `finalist`"
    )
    knobs: dict[str, Any] = Field(description="the configuration that was tried")
    state: TrialState = Field(description="whether it could be measured: `complete` or `failed`")
    feasible: bool = Field(default=False, description="whether all constraints held")
    objective_s: float | None = Field(default=None, description="the objective's quantile, seconds")
    also_s: dict[str, float] = Field(
        default={}, description="the further objectives, seconds by name, as in `tpot:0.5` and `goodput`"
    )
    violations: dict[str, float] = Field(
        default={}, description="relative excess over each limit by `metric:q`; 0 or less: held"
    )
    measurement: Measurement | None = Field(default=None, description="what was measured")
    quality: dict[str, float] = Field(
        default={}, description="how far a lossy configuration is from the exact one, by measure"
    )
    change_s: float | None = Field(
        default=None, description="seconds that bringing the node to these knobs took; no part of the measurement"
    )
    took_s: float | None = Field(
        default=None, description="seconds the whole run took, dear changes and questions of quality apart"
    )
    samples: dict[str, list[float]] = Field(
        default={},
        description="seconds by metric, each value: of a winner's pairs, whose limits are judged together",
    )
    ended_early: str = Field(
        default="",
        description="why not all requests were replayed: a quantile could no longer come near a limit or the best so "
        "far; what was measured is of those that were. Empty: all were",
    )
    error: str = Field(default="", description="why it failed")


class Trial(TrialReport):
    """A trial as it is kept, also while it is measured; its `samples` are shown only where they are asked for."""

    id: int = Field(description="the trial's number in the service")
    study_id: int = Field(description="the study it belongs to")
    kind: str = Field(
        default="search",
        pattern="^(default|search|finalist|step)$",
        description="`default`, `search`, `finalist` or, in production, `step`",
    )
    state: TrialState = Field(description="how far it is, and whether it could be measured")
    step: OnlineStep | None = Field(default=None, description="what it moved in production; null: it was replayed")
    order: RunOrder = Field(default=RunOrder(), description="which slice it replays, and its place in the finish")
    worker: str | None = Field(default=None, description="who measures it, or has measured it; null: not told")
    node: str | None = Field(default=None, description="the trial node it is measured on; null: not told")
    takings: int = Field(default=1, description="how many workers have begun it; more than one: some were lost")
    reported_at: datetime | None = Field(default=None, description="when it was reported; null: it is not measured yet")


class StudyVerdict(StrEnum):
    """Whether the improvement is certain."""

    BETTER = "better"  # The interval of the improvement lies above zero.
    NOT_BETTER = "not_better"  # It does not; the honest answer is to keep what runs.


class RandomSearch(BaseModel):
    """What random search would have found in the time of the search, as believed after all of the study's trials."""

    trials: int = Field(description="configurations that it would have measured")
    improvement: float = Field(description="1 - its winner / default of the objective, on average")
    low: float = Field(description="the improvement that it exceeds in nine of ten cases")
    high: float = Field(description="the improvement that it stays below in nine of ten cases")
    own: float | None = Field(
        default=None,
        description="that of the study's own winner, by the same belief: `improvement` was measured on fresh traffic",
    )


class EvaluationScore(BaseModel):
    """What the user's own evaluation command said of one configuration."""

    score: float = Field(description="its score; higher is better")
    standard_error: float | None = Field(default=None, description="of the score; null: the command has told none")
    took_s: float = Field(description="seconds it took")


class Evaluation(BaseModel):
    """The default and the winner, each evaluated by the same command. Without both scores the winner does not count as
    better."""

    name: str = Field(description="of the command, as the worker knows it")
    margin: float = Field(description="by how much the winner's score may be below the default's")
    default: EvaluationScore | None = Field(default=None, description="the default's; null: `error` says why")
    winner: EvaluationScore | None = Field(default=None, description="the winner's; null: `error` says why")
    drop: float | None = Field(default=None, description="the default's score less the winner's")
    drop_high: float | None = Field(
        default=None,
        description="the drop's upper bound, one-sided 95 %, by the standard errors that were told; without one the "
        "drop itself",
    )
    held: bool = Field(default=False, description="whether `drop_high` is within the margin")
    error: str = Field(default="", description="why there is no score")


class TokenCost(BaseModel):
    """What 1,000 output tokens cost at the largest load within the limits, in node seconds, with its 95 % interval."""

    node_s: float = Field(description="node seconds for 1,000 output tokens")
    low_s: float = Field(description="the interval's lower end; 0: no load was shown to be too much")
    high_s: float | None = Field(description="the interval's upper end; null: even the least load may be too much")


class Costs(BaseModel):
    """Costs of the default and the winner, and what the difference comes to at the pool's traffic, were its nodes used
    up to the largest load with both."""

    default: TokenCost = Field(description="the default's")
    winner: TokenCost | None = Field(default=None, description="the winner's")
    tokens_per_day: float | None = Field(
        default=None, description="output tokens a day of the pool's captured traffic; null: not told"
    )
    saved_node_h: float | None = Field(default=None, description="node hours a day that the winner saves")
    saved_interval: tuple[float, float] | None = Field(default=None, description="its 95 % interval, by the pairs")


class AlsoFound(Objective):
    """A further objective of the winner and the default, over their pairs."""

    default_s: float = Field(description="the default's mean, seconds")
    winner_s: float = Field(description="the winner's mean, seconds")
    improvement: float = Field(description="1 - winner / default, over the pairs")
    interval: tuple[float, float] | None = Field(description="its 95 % interval; null: of a single pair there is none")
    worse_at_most: float | None = Field(
        description="upper bound, one-sided 90 %, of winner / default - 1; null: of a single pair there is none"
    )
    held: bool = Field(description="whether that is within the study's `also_tolerance`")


class FrontValue(BaseModel):
    """An objective of a configuration, as it is believed after all trials of the search, and its 95 % interval."""

    value_s: float = Field(description="seconds")
    low_s: float = Field(description="the interval's lower end, seconds")
    high_s: float = Field(description="the interval's upper end, seconds")


class FrontMember(BaseModel):
    """A configuration that likely keeps the limits and than which none such was found that is better in one objective
    and worse in none."""

    number: int = Field(description="its first trial")
    runs: int = Field(description="runs of the search it was measured in")
    knobs: dict[str, Any] = Field(description="the configuration")
    values: dict[str, FrontValue] = Field(description="by the objective's name, `objective` first")
    keeps_limits: float = Field(description="the probability that it keeps the limits")


class TwinBeside(BaseModel):
    """A quantile of a trial as the twin forecasts it of the pool's telemetry from before the study, with its interval,
    and as it was measured."""

    number: int = Field(description="the trial")
    name: str = Field(description="the quantile, as in `ttft:0.95`")
    value_s: float = Field(description="as forecast, seconds")
    low_s: float = Field(description="the forecast's lower end, seconds")
    high_s: float = Field(description="the forecast's upper end, seconds")
    measured_s: float = Field(description="as measured, seconds")
    calibrated: bool = Field(description="whether it lies within what the pool has served; false: `because` says why")
    because: list[str] = Field(default=[], description="in what it goes beyond that")


class StudyResult(BaseModel):
    """Winner and default (the pool's revision when the study was claimed), re-measured at the end.

    `design` says in which order: interleaved, or in blocks where each change between the two costs too much time.
    `change_s` is what the change from the default to the winner is expected to take on a node. `improvement` is
    1 - winner/default of the objective; `interval` its 95 % interval over the repeats.
    """

    verdict: StudyVerdict = Field(description="whether the improvement is certain")
    winner: dict[str, Any] | None = Field(
        default=None, description="knobs of the best configuration; null: none was feasible"
    )
    default: dict[str, Any] = Field(description="knobs of the pool's revision when the study was claimed")
    winner_objective_s: float | None = Field(default=None, description="the winner's objective, seconds")
    default_objective_s: float | None = Field(default=None, description="the default's objective, seconds")
    winner_carries: Carries | None = Field(
        default=None, description="the largest load of the winner, where the study seeks that"
    )
    default_carries: Carries | None = Field(default=None, description="that of the default")
    costs: Costs | None = Field(
        default=None, description="what output tokens cost, where an objective is `cost` or a price was given"
    )
    also: list[AlsoFound] = Field(default=[], description="the further objectives, where both were measured again")
    front: list[FrontMember] = Field(
        default=[],
        description="of several objectives: the configurations to choose among, the first objective's best first",
    )
    improvement: float | None = Field(default=None, description="1 - winner / default of the objective")
    interval: tuple[float, float] | None = Field(
        default=None, description="the improvement's 95 % interval over the repeats"
    )
    repeats: int = Field(default=0, description="how often both were measured again")
    design: str = Field(
        default="interleaved", description="`interleaved`, or `blocks` where going back and forth costs too much time"
    )
    change_s: float | None = Field(
        default=None, description="seconds that the change to the winner is expected to take on a node"
    )
    payback_s: float | None = Field(
        default=None,
        description="seconds of serving after which the pool has saved what the study spent; null: not better",
    )
    default_revision: int | None = Field(
        default=None, description="the default's revision, as it was when the study was claimed"
    )
    summary: str = Field(description="the result in a sentence")
    quality: dict[str, float] = Field(
        default={},
        description="how far the winner's weight format is from the unquantized model, by measure, as its trials tell "
        "it; empty: it is not quantized, or was not asked",
    )
    evaluation: Evaluation | None = Field(
        default=None, description="what the study's own evaluation said; null: none was asked for, or nothing is better"
    )
    acceptance: DraftAcceptance | None = Field(
        default=None,
        description="draft tokens accepted in the replays and in production; null: too few, or the engine tells none",
    )
    random_search: RandomSearch | None = Field(
        default=None,
        description="what random search would have found in the same time, to hold the improvement against; null: "
        "nothing could be told of it",
    )
    twin: list[TwinBeside] = Field(
        default=[],
        description="the search's runs as the twin forecasts them, beside what was measured; empty: it could not",
    )
    importances: dict[str, float] = Field(
        default={}, description="how much of the differences each knob explains, 0 to 1"
    )


class Study(BaseModel):
    """One study: what was asked for, how far it is, and its result."""

    id: int = Field(description="the study's number")
    state: StudyState = Field(description="where it is in its life")
    spec: StudyCreate = Field(description="what was asked for")
    created_by: str = Field(description="the name of the token that made it, or `tailwright`")
    created_at: datetime = Field(description="when it was made")
    started_at: datetime | None = Field(default=None, description="when the first worker took it")
    finished_at: datetime | None = Field(default=None, description="when it ended")
    worker: str | None = Field(default=None, description="the worker that holds it; null: none, or it is `online`")
    trial_node: str | None = Field(default=None, description="the node that its worker's trials run on")
    active_s: float = Field(default=0.0, description="seconds that a worker has been at it; waits are no part of it")
    progress: str = Field(default="", description="how far it is, for people")
    trials_done: int = Field(
        default=0, description="trials of the search so far, the default's with them; at most `spec.max_trials`"
    )
    finalist_runs: int = Field(
        default=0, description="runs of the re-measurement, which count towards no limit of the search"
    )
    workload_summary: dict[str, Any] = Field(default={}, description="what the replayed traffic is like")
    result: StudyResult | None = Field(default=None, description="winner and default; null until it has finished")
    error: str = Field(default="", description="why it failed")
    alert_id: int | None = Field(default=None, description="the alert that started it")
    rollout_id: int | None = Field(default=None, description="the rollout made of its winner")
    default_revision: int | None = Field(
        default=None, description="the pool's revision when it was claimed: what the winner is measured against"
    )
    pool_revision: int | None = Field(default=None, description="the pool's revision now")


class StudyClaim(BaseModel):
    """`POST /api/v1/studies/claim`: take the oldest queued study, if any (204 when none).

    A study whose pool has a rollout under way, or an alert that a take-back has ended the cause of just now, and one
    that names an evaluation which this worker does not have, stays queued, and its `progress` says what it waits for.
    """

    worker: str = Field(
        min_length=1, max_length=128, description="the worker's name; its later reports must carry the same"
    )
    evaluations: list[Annotated[str, Field(max_length=64)]] | None = Field(
        default=None,
        max_length=1000,
        description="names of the evaluation commands that it was started with: it is given no study that names "
        "another; null: any study",
    )


class StudyHeartbeat(BaseModel):
    """A worker's sign of life: it holds the study for another while."""

    worker: str = Field(description="the name it claimed the study by")
    progress: str = Field(default="", description="how far it is, for people")
    trial_node: str | None = Field(default=None, description="the node that trials run on; null: as before")
    workload_summary: dict[str, Any] | None = Field(
        default=None, description="what the replayed traffic is like; null: as before"
    )


class StudyFinish(BaseModel):
    """Exactly one of result and error; `rollout_id` is the rollout the worker proposed for a better winner."""

    worker: str = Field(description="the name it claimed the study by")
    result: StudyResult | None = Field(default=None, description="what came of it; without an error")
    error: str = Field(default="", description="why it failed; without a result")
    rollout_id: int | None = Field(default=None, description="the rollout that the worker has proposed for the winner")
