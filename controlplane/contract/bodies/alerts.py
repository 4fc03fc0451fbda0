"""Alert rules, alerts, destinations and silences as the API shows them."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field

from controlplane.contract.bodies.knob_schema import SOME_HISTOGRAMS
from controlplane.contract.bodies.remedies import RemedyPolicy, RemedyStep
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.on_call.attribution import Attribution

OURS = "tailwright"
"""The source of alerts that this service judged itself."""


class AlertState(StrEnum):
    """Where an alert is in its life."""

    PENDING = "pending"  # The condition holds, not yet for long enough.
    FIRING = "firing"  # Delivered, or being delivered.
    RESOLVED = "resolved"  # The condition has been gone for long enough.


class Severity(StrEnum):
    """How urgent an alert is: `page` wakes somebody, `ticket` waits for the morning."""

    PAGE = "page"
    TICKET = "ticket"


class AbsoluteCondition(BaseModel):
    """A quantile over `window_s` above its limit for `for_s`. Limits come from `limits`, else from the profile."""

    kind: Literal["absolute"] = Field(default="absolute", description="a quantile over its limit")
    profile: UseCase | None = Field(default=None, description="the use case whose limits apply where `limits` is empty")
    limits: list[Limit] = Field(default=[], description="the limits that must hold; they go before the profile's")
    window_s: float = Field(
        default=60, ge=5, le=86400, description="seconds of telemetry that the quantile is taken over"
    )
    for_s: float = Field(
        default=15, ge=0, le=86400, description="seconds that the limit must be exceeded before the alert fires"
    )
    min_count: int = Field(default=30, ge=1, le=10**9, description="requests that the window must hold to be judged")


class RegressionCondition(BaseModel):
    """Requests slower than their load-binned baseline: tempered exceedance e-process (docs/decisions).

    `false_alarm_every_s` is the wanted mean time between false alarms over all streams of the rule; `tolerance` is the
    relative growth of the exceedance share that is accepted as noise.

    Without `metrics` what the service does is judged, freed of waiting: prefill, itl, tokenize, send and unaccounted,
    and tpot where drafts are proposed: a gap between deliveries does not tell how many tokens they hold.
    In a pool whose senders do not tell a request's stages ttft, itl and e2e stand in. Waiting is `saturation`'s.
    """

    kind: Literal["regression"] = Field(default="regression", description="slower than a baseline of equal load")
    metrics: list[str] = Field(
        default=[],
        json_schema_extra={**SOME_HISTOGRAMS, "minItems": 0},
        description="histograms to watch, by their short names; empty: the stages that are no waiting, or, in a pool "
        "that does not tell them, ttft, itl and e2e",
    )
    q: list[float] = Field(
        default=[0.95, 0.99],
        json_schema_extra={
            "items": {"type": "number", "minimum": 0.5, "exclusiveMaximum": 1},
            "minItems": 1,
            "uniqueItems": True,
        },
        description="quantiles to watch, 0.5 to below 1",
    )
    false_alarm_every_s: float = Field(
        default=28 * 86400,
        ge=600,
        le=3650 * 86400,
        description="wanted mean seconds between two false alarms of the whole rule",
    )
    tolerance: float = Field(
        default=0.05, ge=0, le=1, description="relative growth of the share of slow requests that counts as noise"
    )
    baseline_s: float = Field(
        default=6 * 3600, ge=30, le=30 * 86400, description="seconds of the past that the baseline is learnt from"
    )
    min_baseline_count: int = Field(
        default=200, ge=20, le=10**9, description="requests that a baseline must hold before anything is judged by it"
    )


class DriftCondition(BaseModel):
    """A node's effective configuration differs from the desired one for `for_s`."""

    kind: Literal["drift"] = Field(default="drift", description="a node does not run what it should")
    for_s: float = Field(default=60, ge=0, le=86400, description="seconds that it must differ before the alert fires")


class ConfigFailedCondition(BaseModel):
    """A serving node could not bring up a configuration it was given. It fires at once, also when the agent has gone
    back to the previous configuration by itself.

    It lasts until the node runs what it should and either `hold_s` have passed since the failure, or another
    configuration has been applied there.
    """

    kind: Literal["config_failed"] = Field(
        default="config_failed", description="a node could not bring up a configuration"
    )
    hold_s: float = Field(
        default=300, ge=0, le=86400, description="seconds that the alert lasts at least after the failure"
    )


class NodeClaimedCondition(BaseModel):
    """Two agents claim one node: while it is heard from, another one enrols under its name or speaks with its token."""

    kind: Literal["node_claimed"] = Field(default="node_claimed", description="two agents claim one node")
    hold_s: float = Field(
        default=600, ge=60, le=86400, description="seconds that the alert lasts at least after the last claim"
    )


class RolloutWaitsCondition(BaseModel):
    """A rollout waits for somebody: it is held undecided, at a stage's pause or by a hook, or wants an approval."""

    kind: Literal["rollout_waits"] = Field(default="rollout_waits", description="a rollout waits for somebody")
    after_s: float = Field(
        default=60, ge=0, le=7 * 86400, description="seconds that it has waited before anybody is told"
    )


class TelemetryLostCondition(BaseModel):
    """A serving node's agent dropped reports because its spool was full, or missed events of its engine.

    It fires as soon as a report tells of it, and lasts until nothing was lost for `quiet_s`.
    """

    kind: Literal["telemetry_lost"] = Field(
        default="telemetry_lost", description="an agent dropped reports, or missed events"
    )
    quiet_s: float = Field(default=300, ge=0, le=86400, description="seconds without a loss after which the alert ends")


class RequestsFailedCondition(BaseModel):
    """More requests than normal are lost: failed, timed out, shed, refused, or cut off by the server.

    Normal is what the pool's own past shows (`baseline_s`), at least `allowed_share` and at most a tenth; a client that
    goes away counts neither way. `false_alarm_every_s` is as for a regression, over all pools of the rule.
    """

    kind: Literal["requests_failed"] = Field(
        default="requests_failed", description="a larger share of requests than normal is lost"
    )
    allowed_share: float = Field(
        default=0.01, gt=0, le=0.1, description="share of requests that may be lost whatever the pool's past shows"
    )
    false_alarm_every_s: float = Field(
        default=7 * 86400,
        ge=600,
        le=3650 * 86400,
        description="wanted mean seconds between two false alarms of the whole rule",
    )
    baseline_s: float = Field(
        default=6 * 3600, ge=600, le=30 * 86400, description="seconds of the past that tell what is normal"
    )


class BurnRateCondition(BaseModel):
    """An SLO's error budget is used up too fast, by multi-window, multi-burn-rate (Google, "The Site Reliability
    Workbook", 2018, chapter 5).

    An objective is a `Limit`: the share `q` of requests must stay at or below `limit_s`, so the budget is 1 - q. A rule
    of severity `page` fires at 14.4 times the even rate over 1 h and 5 min, or 6 times over 6 h and 30 min; a `ticket`
    at 3 times over 1 d and 2 h, or 1 time over 3 d and 6 h. These are for a period of 30 days; windows scale with it.
    """

    kind: Literal["burn_rate"] = Field(default="burn_rate", description="an SLO's budget is used up too fast")
    profile: UseCase | None = Field(
        default=None, description="the use case whose limits apply where `objectives` is empty"
    )
    objectives: list[Limit] = Field(default=[], description="what is promised; they go before the profile's")
    period_s: float = Field(
        default=30 * 86400, ge=86400, le=90 * 86400, description="seconds that the promise is made over"
    )
    min_count: int = Field(
        default=100, ge=1, le=10**9, description="requests that the longer window must hold to be judged"
    )


class SaturationCondition(BaseModel):
    """Requests wait longer than the pool's own bursts ever make them: more arrives than is served.

    A rule of severity `page` pages where an objective is broken, or breaks within `horizon_s` at the slope at which
    waiting grows; before that, and where no objective is known, it makes a ticket. Objectives are the profile's;
    without one, those of the pool's `absolute` and `burn_rate` rules. `false_alarm_every_s` is as for a regression.
    """

    kind: Literal["saturation"] = Field(default="saturation", description="requests wait: more arrives than is served")
    profile: UseCase | None = Field(
        default=None, description="the use case whose limits are the objectives; null: those of the pool's other rules"
    )
    horizon_s: float = Field(
        default=900, ge=0, le=86400, description="seconds within which an objective must break for a page"
    )
    false_alarm_every_s: float = Field(
        default=28 * 86400,
        ge=600,
        le=3650 * 86400,
        description="wanted mean seconds between two false alarms of the whole rule",
    )
    baseline_s: float = Field(
        default=6 * 3600, ge=600, le=7 * 86400, description="seconds of the past that usual waiting is learnt from"
    )


class TrafficChangedCondition(BaseModel):
    """More load than the pool's past has seen, or another mix of prompt lengths, that users feel: told as such, so that
    nobody looks for a fault in the service. `false_alarm_every_s` is as for a regression.
    """

    kind: Literal["traffic_changed"] = Field(
        default="traffic_changed", description="a surge of load, or another mix of prompts, that users feel"
    )
    false_alarm_every_s: float = Field(
        default=28 * 86400,
        ge=600,
        le=3650 * 86400,
        description="wanted mean seconds between two false alarms of the whole rule",
    )
    baseline_s: float = Field(
        default=6 * 3600, ge=600, le=7 * 86400, description="seconds of the past that usual traffic is learnt from"
    )


class SymptomCondition(BaseModel):
    """A symptom of the catalogue (`GET /api/v1/symptoms`, docs/runbooks): what commonly goes wrong, by its own
    expression. The catalogue says what is measured, over how long, and when it is called over."""

    kind: Literal["symptom"] = Field(default="symptom", description="a symptom of the catalogue")
    symptom: str = Field(min_length=1, max_length=64, description="its id, as `GET /api/v1/symptoms` lists it")
    threshold: float | None = Field(
        default=None,
        ge=-1e12,
        le=1e12,
        description="replaces the catalogue's limit, in the same unit; null: as the catalogue has it",
    )
    for_s: float | None = Field(
        default=None,
        ge=0,
        le=86400,
        description="seconds that it must last before the alert fires; null: as the catalogue has it",
    )


Condition = (
    AbsoluteCondition
    | RegressionCondition
    | RequestsFailedCondition
    | DriftCondition
    | ConfigFailedCondition
    | NodeClaimedCondition
    | RolloutWaitsCondition
    | TelemetryLostCondition
    | BurnRateCondition
    | SaturationCondition
    | TrafficChangedCondition
    | SymptomCondition
)


class Remedy(BaseModel):
    """What the service does by itself when the rule fires; which of it depends on the cause (docs/on-call.md).

    A revision that is the cause is taken back by a judged rollout, as `policy` says; `rollout` overrides fields of that
    rollout (`RolloutCreate`). `study` is for what is left to tuning, and follows a take-back. None begins again for the
    same cause (pool, stage, revision in production, kind) within `cooldown_s`, unless the regression is clearly worse.
    """

    study: StudyCreate | None = Field(
        default=None, description="the study to start for what is left to tuning; null: none"
    )
    policy: RemedyPolicy = Field(
        default=RemedyPolicy.PROPOSE,
        description="whether a bad revision is taken back at once, or a person starts that rollout",
    )
    rollout: dict[str, Any] = Field(
        default={},
        description="fields of the rollout that takes a revision back which shall differ from their defaults",
    )
    cooldown_s: float = Field(
        default=1800, ge=0, le=30 * 86400, description="seconds in which no remedy begins again for the same cause"
    )


class AlertRuleCreate(BaseModel):
    """A wanted alert rule: what to watch, and what to do when it fires."""

    name: str = Field(min_length=1, max_length=128, description="what people call the rule")
    pool: str | None = Field(default=None, description="the pool it watches; null: every pool")
    condition: Condition = Field(
        discriminator="kind", description="what makes it fire; `kind` says which of the forms it has"
    )
    severity: Severity | None = Field(
        default=None,
        description="`page` wakes somebody, `ticket` waits for the morning; null: as the catalogue has the symptom, "
        "`page` for every other kind",
    )
    remedy: Remedy | None = Field(
        default=None, description="what the service starts by itself when it fires; null: nothing"
    )
    enabled: bool = Field(default=True, description="false: the rule is kept and not judged")


class AlertRule(AlertRuleCreate):
    """An alert rule as it is kept."""

    severity: Severity = Field(
        default=Severity.PAGE, description="`page` wakes somebody, `ticket` waits for the morning"
    )
    id: int = Field(description="the rule's number")
    created_at: datetime = Field(description="when it was made")
    origin: str | None = Field(default=None, description="the file that made it (`tailwright apply`); null: no file")


class StageShift(BaseModel):
    """How one part of the decomposition changed, in seconds of its mean and p99, and its share of the slowdown."""

    stage: str = Field(description="the part of a request's time, e.g. `queue` or `prefill`")
    before_mean_s: float | None = Field(description="its mean before the alert, seconds; null: not measured")
    during_mean_s: float | None = Field(description="its mean during the alert, seconds; null: not measured")
    before_p99_s: float | None = Field(description="its p99 before the alert, seconds; null: not measured")
    during_p99_s: float | None = Field(description="its p99 during the alert, seconds; null: not measured")
    share_of_increase: float = Field(description="its share of the whole slowdown; 1 is all of it")


class Diagnosis(BaseModel):
    """Which stage, and which cause. `causes` are ordered, the likeliest first, each with its evidence."""

    stage: str | None = Field(description="the stage that explains most of the slowdown; null: none stands out")
    summary: str = Field(description="stage and likeliest cause in a sentence")
    stages: list[StageShift] = Field(default=[], description="how each stage changed, the largest share first")
    causes: list[dict[str, Any]] = Field(
        default=[],
        description="the likeliest first: `cause` (such as `config_change` or `load`), `message`, evidence",
    )
    attribution: Attribution | None = Field(
        default=None, description="what moved the quantile, each part with an interval; null: not known"
    )


class UpdateKind(StrEnum):
    """How an open alert has changed since it was last told of."""

    GREW = "grew"  # The same metric, clearly slower than when it was told.
    SPREAD = "spread"  # It reached another metric, stage, prompt bucket or node.
    CAUSE = "cause"  # The likeliest cause is another one now.


class AlertUpdate(BaseModel):
    """One change of an open alert that was told, with a delivery of its own."""

    time: datetime = Field(description="when it was told")
    kinds: list[UpdateKind] = Field(description="what had changed")
    summary: str = Field(description="the change in a sentence")
    value: float | None = Field(default=None, description="the observed quantile then, seconds")


class Alert(BaseModel):
    """One alert. `fingerprint` is stable: the same rule and labels always give the same."""

    id: int = Field(description="the alert's number")
    fingerprint: str = Field(description="the same for the same rule and labels, at all times")
    rule_id: int = Field(description="the number of its rule; 0 where another system judges it")
    rule: str = Field(description="the name of its rule")
    source: str = Field(default=OURS, description="who judges it: `tailwright`, or `alertmanager` or `grafana`")
    link: str = Field(default="", description="where another system shows it; empty for one of our own")
    state: AlertState = Field(description="where it is in its life")
    severity: Severity = Field(description="its rule's severity")
    labels: dict[str, str] = Field(description="what it is about: pool, metric, node ...; silences match them")
    summary: str = Field(description="what is wrong in a sentence")
    started_at: datetime = Field(description="when its condition began to hold")
    fired_at: datetime | None = Field(default=None, description="when it fired; null while pending")
    resolved_at: datetime | None = Field(default=None, description="when it ended; null while it lasts")
    value: float | None = Field(default=None, description="the observed quantile, seconds; null for kinds without one")
    threshold: float | None = Field(
        default=None, description="the limit, or the baseline's quantile, seconds; null for kinds without one"
    )
    evidence: dict[str, Any] = Field(default={}, description="the figures it was judged by")
    diagnosis: Diagnosis | None = Field(
        default=None, description="which stage and which cause; null until it has been looked for"
    )
    silenced: bool = Field(default=False, description="whether a silence or an inhibit rule holds back its news now")
    held_by: str | None = Field(default=None, description="which one does, in words; null: none, or it is over")
    study_id: int | None = Field(default=None, description="the study that its remedy started")
    updates: list[AlertUpdate] = Field(default=[], description="what changed while it was open, the oldest first")
    remedies: list[RemedyStep] = Field(default=[], description="what was chosen, and why, the oldest first")


class Silenced(BaseModel):
    """Alerts that have all of these labels; one that lacks a label is not among them. One at least must be given."""

    matchers: dict[str, str] = Field(
        default={}, description="labels and the values they must have, all of them; also `rule` and `severity`"
    )
    patterns: dict[str, str] = Field(
        default={},
        max_length=10,
        description="labels and the regular expressions that their whole values must match: literals, `.`, `[a-z]`, "
        "`\\d \\w \\s`, groups, `|` and `* + ? {n,m}`, at most 200 characters",
    )


class SilenceCreate(Silenced):
    """Alerts that match are not delivered until `ends_at`."""

    ends_at: datetime = Field(description="until when")
    comment: str = Field(min_length=1, max_length=500, description="why")


class Silence(SilenceCreate):
    """A silence as it is kept."""

    id: int = Field(description="the silence's number")
    starts_at: datetime = Field(description="since when")
    created_by: str = Field(description="the name of the token that made it")
    ended_early_at: datetime | None = Field(default=None, description="when somebody ended it; null when nobody did")
    origin: str | None = Field(default=None, description="the file that made it (`tailwright apply`); null: no file")


class SymptomView(BaseModel):
    """One symptom: what it means, when it fires, and what to do. A rule watches for it by its `id`."""

    id: str = Field(description="what a rule's condition names as `symptom`")
    title: str = Field(description="what people call it")
    meaning: str = Field(description="what it means, in a sentence")
    severity: Severity = Field(description="how urgent it usually is")
    default: bool = Field(description="whether a new installation watches for it")
    why_default: str = Field(description="why it does, or does not")
    limit: float | None = Field(
        description="the limit that a rule's `threshold` replaces; null: judged by a kind of rule of its own"
    )
    judged_by: str = Field(description="what is measured, and when it fires")
    look_at: list[str] = Field(description="what else to look at")
    remedy: str = Field(description="what to do first")
    runbook: str = Field(description="what to do then")


class SymptomList(BaseModel):
    """`GET /api/v1/symptoms`."""

    items: list[SymptomView] = Field(description="in the catalogue's order")


class DryRunCreate(BaseModel):
    """`POST /api/v1/alert-rules:dry-run`: a rule as it would be made, and the past that it is tried over."""

    rule: AlertRuleCreate = Field(description="the rule, as it would be made; nothing is kept of it")
    window_s: float = Field(
        default=7 * 86400, ge=600, le=31 * 86400, description="seconds of the past that it is tried over"
    )
    end: datetime | None = Field(default=None, description="where that past ends; null: now")


class WouldHaveFired(BaseModel):
    """One time that the rule would have fired."""

    labels: dict[str, str] = Field(description="what the alert would have been about")
    started_at: datetime = Field(description="when its condition began to hold")
    fired_at: datetime = Field(description="when it would have fired, by the time of the data")
    resolved_at: datetime | None = Field(default=None, description="when it would have ended; null: it lasts")
    lasted_s: float = Field(description="seconds from firing to its end, or to the end of the past that was tried")
    summary: str = Field(description="what the alert would have said")


class DryRun(BaseModel):
    """What a rule would have done. `fired` counts all; `times` holds the first of them, the oldest first."""

    start: datetime = Field(description="from when on it was tried")
    end: datetime = Field(description="up to when")
    judged_to: datetime = Field(description="how far it came; before `end` where the time for trying was used up")
    width_s: float = Field(description="seconds of the windows that telemetry still keeps of that past")
    pools: list[str] = Field(description="the pools that it was tried on")
    fired: int = Field(description="how many times it would have fired")
    a_week: float = Field(description="how many times a week that is, of the time since there has been traffic")
    firing_s: float = Field(description="seconds in which at least one of its alerts would have been firing")
    times: list[WouldHaveFired] = Field(description="each time, the oldest first, at most 200")
    notes: list[str] = Field(default=[], description="what of the past was not kept or not there, and what that means")


class InhibitRuleCreate(BaseModel):
    """While an alert of `source` fires, those of `target` are not delivered: they say the same."""

    name: str = Field(min_length=1, max_length=128, description="what people call the rule")
    source: Silenced = Field(description="the alerts that say enough")
    target: Silenced = Field(description="the alerts that are held back meanwhile")
    equal: list[str] = Field(default=["pool"], max_length=10, description="labels in which both agree")


class InhibitRule(InhibitRuleCreate):
    """An inhibit rule as it is kept."""

    id: int = Field(description="the rule's number")
    created_at: datetime = Field(description="when it was made")
    origin: str | None = Field(default=None, description="the file that made it (`tailwright apply`); null: no file")
