"""Tuning studies: what to search, under which constraint, on which workload; and what came of it."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field, model_validator

from controlplane.contract.slo import Limit


class StudyState(StrEnum):
    """Where a study is in its life."""

    QUEUED = "queued"  # Waits for a worker.
    RUNNING = "running"  # A worker holds its lease and reports trials.
    FINISHED = "finished"  # Has a result, which may be "not better".
    FAILED = "failed"  # The worker said why.
    CANCELLED = "cancelled"


class TrialState(StrEnum):
    COMPLETE = "complete"  # Measured; `feasible` says whether the constraints held.
    FAILED = "failed"  # The configuration could not be applied or crashed; kept as infeasible.


FINALIST = "finalist"
"""The kind of a trial that measures again what the search has found: it is no trial of the search."""


class KnobRange(BaseModel):
    """The values a study may try for one knob: either bounds (log: on a logarithmic scale) or choices."""

    minimum: int | None = None
    maximum: int | None = None
    log: bool = False
    choices: list[Any] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "KnobRange":
        bounds = self.minimum is not None and self.maximum is not None
        if bounds == (self.choices is not None):
            raise ValueError("give either minimum and maximum, or choices")
        return self


class StudyCreate(BaseModel):
    """A wanted study. Objective: minimise `objective.metric` at `objective.q`; `constraints` are SLO limits.

    The workload is what the pool served in the last `workload_s` seconds (captured when the study is claimed).
    """

    pool: str
    objective: str = "e2e"
    objective_q: float = Field(default=0.95, gt=0, lt=1)
    constraints: list[Limit] = []
    space: dict[str, KnobRange] = {}  # Knob to range; empty: the tuner's default space of the four knobs.
    workload_s: float = Field(default=300, ge=10, le=86400)
    max_trials: int = Field(default=12, ge=3, le=1000)
    max_duration_s: float = Field(default=600, ge=10, le=7 * 86400)
    trial_requests: int = Field(default=40, ge=5, le=100000)  # Requests replayed per trial, at most.
    finalist_repeats: int = Field(default=3, ge=2, le=20)
    seed: int = 0
    propose_rollout: bool = True
    auto_start_rollout: bool = False
    rollout: dict[str, Any] = {}  # Overrides of RolloutCreate for the proposed rollout.
    reason: str = ""


class Measurement(BaseModel):
    """One replay under one configuration. Quantiles in seconds, keyed "metric:q" as in "ttft:0.95"."""

    requests: int
    errors: int
    duration_s: float
    quantiles: dict[str, float]
    output_tokens_per_s: float


class TrialReport(BaseModel):
    """What the worker reports of one trial. `violations`: "metric:q" to relative excess over the limit (<= 0: held)."""

    number: int = Field(ge=0)
    kind: str = Field(default="search", pattern="^(default|search|finalist)$")
    knobs: dict[str, Any]
    state: TrialState
    feasible: bool = False
    objective_s: float | None = None
    violations: dict[str, float] = {}
    measurement: Measurement | None = None
    quality: dict[str, float] = {}
    change_s: float | None = None  # What bringing the node to these knobs took; no part of the measurement.
    error: str = ""


class Trial(TrialReport):
    id: int
    study_id: int
    reported_at: datetime


class StudyVerdict(StrEnum):
    BETTER = "better"  # The interval of the improvement lies above zero.
    NOT_BETTER = "not_better"  # It does not; the honest answer is to keep what runs.


class StudyResult(BaseModel):
    """Winner and default (the pool's revision when the study was claimed), re-measured at the end.

    `design` says in which order: interleaved, or in blocks where each change between the two costs too much time.
    `change_s` is what the change from the default to the winner is expected to take on a node. `improvement` is
    1 - winner/default of the objective; `interval` its 95 % interval over the repeats.
    """

    verdict: StudyVerdict
    winner: dict[str, Any] | None = None
    default: dict[str, Any]
    winner_objective_s: float | None = None
    default_objective_s: float | None = None
    improvement: float | None = None
    interval: tuple[float, float] | None = None
    repeats: int = 0
    design: str = "interleaved"
    change_s: float | None = None
    default_revision: int | None = None
    summary: str
    importances: dict[str, float] = {}


class Study(BaseModel):
    id: int
    state: StudyState
    spec: StudyCreate
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str | None = None
    trial_node: str | None = None
    progress: str = ""
    trials_done: int = 0  # Of the search, the default's with them; at most `spec.max_trials`.
    finalist_runs: int = 0  # Runs of the re-measurement, which count towards no limit of the search.
    workload_summary: dict[str, Any] = {}
    result: StudyResult | None = None
    error: str = ""
    alert_id: int | None = None
    rollout_id: int | None = None
    default_revision: int | None = None  # The pool's when it was claimed: what the winner is measured against.
    pool_revision: int | None = None  # The pool's now.


class StudyClaim(BaseModel):
    """`POST /api/v1/studies/claim`: take the oldest queued study, if any (204 when none).

    A study whose pool has a rollout under way stays queued, and its `progress` says what it waits for.
    """

    worker: str = Field(min_length=1, max_length=128)


class StudyHeartbeat(BaseModel):
    worker: str
    progress: str = ""
    trial_node: str | None = None
    workload_summary: dict[str, Any] | None = None


class StudyFinish(BaseModel):
    """Exactly one of result and error; `rollout_id` is the rollout the worker proposed for a better winner."""

    worker: str
    result: StudyResult | None = None
    error: str = ""
    rollout_id: int | None = None
