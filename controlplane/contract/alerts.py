"""Alert rules, alerts, destinations and silences as the API shows them."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field

from controlplane.contract.remedies import RemedyPolicy, RemedyStep
from controlplane.contract.slo import Limit, UseCase
from controlplane.contract.studies import StudyCreate


class AlertState(StrEnum):
    """Where an alert is in its life."""

    PENDING = "pending"  # The condition holds, not yet for long enough.
    FIRING = "firing"  # Delivered, or being delivered.
    RESOLVED = "resolved"  # The condition has been gone for long enough.


class Severity(StrEnum):
    PAGE = "page"
    TICKET = "ticket"


class AbsoluteCondition(BaseModel):
    """A quantile over `window_s` above its limit for `for_s`. Limits come from `limits`, else from the profile."""

    kind: Literal["absolute"] = "absolute"
    profile: UseCase | None = None
    limits: list[Limit] = []
    window_s: float = Field(default=60, ge=5, le=86400)
    for_s: float = Field(default=15, ge=0, le=86400)
    min_count: int = Field(default=30, ge=1, le=10**9)


class RegressionCondition(BaseModel):
    """Requests slower than their load-binned baseline: tempered exceedance e-process (docs/decisions).

    `false_alarm_every_s` is the wanted mean time between false alarms over all streams of the rule; `tolerance` is the
    relative growth of the exceedance share that is accepted as noise.
    """

    kind: Literal["regression"] = "regression"
    metrics: list[str] = ["ttft", "itl", "e2e"]
    q: list[float] = [0.95, 0.99]
    false_alarm_every_s: float = Field(default=7 * 86400, ge=600, le=3650 * 86400)
    tolerance: float = Field(default=0.05, ge=0, le=1)
    baseline_s: float = Field(default=6 * 3600, ge=30, le=30 * 86400)
    min_baseline_count: int = Field(default=200, ge=20, le=10**9)


class DriftCondition(BaseModel):
    """A node's effective configuration differs from the desired one for `for_s`."""

    kind: Literal["drift"] = "drift"
    for_s: float = Field(default=60, ge=0, le=86400)


class ConfigFailedCondition(BaseModel):
    """A serving node could not bring up a configuration it was given. It fires at once, also when the agent has gone
    back to the previous configuration by itself.

    It lasts until the node runs what it should and either `hold_s` have passed since the failure, or another
    configuration has been applied there.
    """

    kind: Literal["config_failed"] = "config_failed"
    hold_s: float = Field(default=300, ge=0, le=86400)


class TelemetryLostCondition(BaseModel):
    """A serving node's agent dropped reports because its spool was full, or missed events of its engine.

    It fires as soon as a report tells of it, and lasts until nothing was lost for `quiet_s`.
    """

    kind: Literal["telemetry_lost"] = "telemetry_lost"
    quiet_s: float = Field(default=300, ge=0, le=86400)


Condition = AbsoluteCondition | RegressionCondition | DriftCondition | ConfigFailedCondition | TelemetryLostCondition


class Remedy(BaseModel):
    """What the service starts by itself when the rule fires: a study, whose winner becomes a rollout."""

    study: StudyCreate
    policy: RemedyPolicy = RemedyPolicy.PROPOSE
    cooldown_s: float = Field(default=1800, ge=0, le=30 * 86400)


class AlertRuleCreate(BaseModel):
    name: str = Field(min_length=1, max_length=128)
    pool: str | None = None  # Null: every pool.
    condition: Condition = Field(discriminator="kind")
    severity: Severity = Severity.PAGE
    remedy: Remedy | None = None
    enabled: bool = True


class AlertRule(AlertRuleCreate):
    id: int
    created_at: datetime


class StageShift(BaseModel):
    """How one part of the decomposition changed, in seconds of its mean and p99, and its share of the slowdown."""

    stage: str
    before_mean_s: float | None
    during_mean_s: float | None
    before_p99_s: float | None
    during_p99_s: float | None
    share_of_increase: float


class Diagnosis(BaseModel):
    """Which stage, and which cause. `causes` are ordered, the likeliest first, each with its evidence."""

    stage: str | None
    summary: str
    stages: list[StageShift] = []
    causes: list[dict[str, Any]] = []  # {"cause": "config_change" | "load" | "prompt_mix" | ..., "message", ...}


class UpdateKind(StrEnum):
    """How an open alert has changed since it was last told of."""

    GREW = "grew"  # The same metric, clearly slower than when it was told.
    SPREAD = "spread"  # It reached another metric, stage, prompt bucket or node.
    CAUSE = "cause"  # The likeliest cause is another one now.


class AlertUpdate(BaseModel):
    """One change of an open alert that was told, with a delivery of its own."""

    time: datetime
    kinds: list[UpdateKind]
    summary: str
    value: float | None = None  # The observed quantile then, seconds.


class Alert(BaseModel):
    """One alert. `fingerprint` is stable: the same rule and labels always give the same."""

    id: int
    fingerprint: str
    rule_id: int
    rule: str
    state: AlertState
    severity: Severity
    labels: dict[str, str]
    summary: str
    started_at: datetime
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    value: float | None = None  # The observed quantile, seconds.
    threshold: float | None = None  # The limit or the baseline quantile, seconds.
    evidence: dict[str, Any] = {}
    diagnosis: Diagnosis | None = None
    silenced: bool = False
    study_id: int | None = None
    updates: list[AlertUpdate] = []  # Oldest first.
    remedies: list[RemedyStep] = []  # Oldest first.


class DestinationCreate(BaseModel):
    """A webhook. With a secret, deliveries are signed: `Trimtab-Signature: t=UNIX,v1=HEX`, HMAC-SHA256 of "t.body"."""

    name: str = Field(min_length=1, max_length=128)
    url: str = Field(pattern=r"^https?://")
    secret: str | None = None
    enabled: bool = True


class Destination(BaseModel):
    id: int
    name: str
    url: str
    signed: bool
    enabled: bool
    created_at: datetime


class DeliveryState(StrEnum):
    WAITING = "waiting"  # Not yet tried, or to be tried again at next_attempt_at.
    DELIVERED = "delivered"  # Answered 2xx.
    GIVEN_UP = "given_up"  # Out of attempts; counted and shown.


class Delivery(BaseModel):
    id: int
    alert_id: int
    destination_id: int
    state: DeliveryState
    status: str  # The alert state it tells of: firing or resolved.
    attempts: int
    last_error: str | None = None
    next_attempt_at: datetime | None = None
    delivered_at: datetime | None = None


class SilenceCreate(BaseModel):
    """Alerts whose labels all equal `matchers` are not delivered until `ends_at`."""

    matchers: dict[str, str] = Field(min_length=1)
    ends_at: datetime
    comment: str = Field(default="", max_length=500)


class Silence(SilenceCreate):
    id: int
    starts_at: datetime
    created_by: str
    ended_early_at: datetime | None = None
