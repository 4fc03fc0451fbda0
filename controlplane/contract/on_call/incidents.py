"""Incidents as the API shows them: the alerts of one cause, with who looks at it and what was done."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.bodies.alerts import Alert, Severity
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.on_call.attribution import Attribution
from controlplane.contract.row_id import RowId


class IncidentState(StrEnum):
    """Where an incident is in its life."""

    OPEN = "open"  # An alert of it fired, and nobody has said that they look at it.
    ACKNOWLEDGED = "acknowledged"  # Somebody looks at it.
    RESOLVED = "resolved"  # All its alerts have been over for long enough, or somebody has closed it.
    MERGED = "merged"  # It was of the same cause as another incident, which has its alerts now.


class TimelineKind(StrEnum):
    """What an entry of the timeline tells of."""

    ONSET = "onset"  # The condition of an alert began to hold.
    FIRED = "fired"  # An alert fired.
    UPDATED = "updated"  # An open alert grew, spread, or got another likeliest cause.
    SENT = "sent"  # A destination was told.
    NOT_SENT = "not_sent"  # A destination could not be told.
    REMEDY = "remedy"  # What was chosen to be done about an alert.
    CHANGE = "change"  # A rollout or a study that has to do with it went on.
    OPENED = "opened"  # The incident was opened.
    JOINED = "joined"  # A further alert was found to be of the same cause.
    ACKNOWLEDGED = "acknowledged"  # Somebody said that they look at it.
    NOTE = "note"  # Somebody wrote something down.
    CAUSE = "cause"  # Somebody said what the cause was.
    MERGED = "merged"  # It took in another incident, or went into one.
    SPLIT = "split"  # Alerts were found to be of another cause.
    REOPENED = "reopened"  # An alert of it fired again soon after it was resolved.
    OVER = "over"  # An alert was over.
    RESOLVED = "resolved"  # The incident was resolved.


class TimelineEntry(BaseModel):
    """One thing that happened."""

    time: datetime = Field(description="when it happened")
    kind: TimelineKind = Field(description="what kind of thing it was")
    text: str = Field(description="what happened, in a sentence")
    actor: str = Field(default="tailwright", description="who did it; `tailwright` for the service itself")
    subject: str = Field(default="", description="what it was done to, as `alert/3` or `rollout/2`")


class IncidentNote(BaseModel):
    """What a person wrote down."""

    id: int = Field(description="the note's number")
    time: datetime = Field(description="when it was written")
    author: str = Field(description="who wrote it")
    text: str = Field(description="the note")


class Incident(BaseModel):
    """One incident. Its title and its pool are those of the alert that tells most of it."""

    id: int = Field(description="the incident's number")
    state: IncidentState = Field(description="where it is in its life")
    severity: Severity = Field(description="the worst of its alerts'")
    title: str = Field(description="what is wrong in a sentence")
    pool: str = Field(description="the pool it is about; empty where it is of none")
    owner: str | None = Field(description="who looks after what it is about, by the first route that matches")
    route: str | None = Field(description="the name of that route")
    onset_at: datetime = Field(description="when the first of its alerts' conditions began to hold")
    opened_at: datetime = Field(description="when its first alert fired")
    acknowledged_at: datetime | None = Field(default=None, description="when somebody said that they look at it")
    acknowledged_by: str | None = Field(default=None, description="who said so")
    quiet_since: datetime | None = Field(default=None, description="since when none of its alerts fires")
    resolved_at: datetime | None = Field(default=None, description="when it was resolved")
    resolved_by: str | None = Field(default=None, description="who closed it; `tailwright` where its alerts ended")
    merged_into: int | None = Field(default=None, description="the incident that has its alerts now")
    reopened: int = Field(default=0, description="how often it came back after it had been resolved")
    alerts: int = Field(description="how many alerts it has")
    firing: int = Field(description="how many of them fire now")
    silenced: bool = Field(description="whether a silence holds back all of its alerts that fire")
    sources: list[str] = Field(default=[], description="who judges its alerts: `tailwright`, `alertmanager`, `grafana`")


class IncidentAlert(BaseModel):
    """An alert of an incident, and why it is one of it."""

    alert: Alert = Field(description="the alert")
    joined_at: datetime = Field(description="when it became one of it")
    why: str = Field(description="why it is taken to be of the same cause")


class ConfirmedCause(BaseModel):
    """What people found the cause to be."""

    cause: CauseKind = Field(description="its kind; `unknown`: none of those that were named")
    comment: str = Field(default="", description="what they wrote with it")
    by: str = Field(description="who said so")
    at: datetime = Field(description="when they did")


class IncidentDetail(Incident):
    """An incident with all that is known of it."""

    stage: str | None = Field(description="the stage that explains most of the slowdown; null: none stands out")
    causes: list[dict[str, Any]] = Field(
        description="of all its alerts, the likeliest first: `cause`, `message`, `score`, and `alerts` that name it"
    )
    attribution: Attribution | None = Field(
        default=None, description="what moved the quantile, of the first alert that names a place; null: not known"
    )
    confirmed_cause: ConfirmedCause | None = Field(
        default=None, description="what people found the cause to be; null: nobody has said"
    )
    members: list[IncidentAlert] = Field(description="its alerts, the one that tells most first")
    notes: list[IncidentNote] = Field(description="what people wrote, the oldest first")
    timeline: list[TimelineEntry] = Field(description="everything that happened, the oldest first")


class IncidentAcknowledge(BaseModel):
    """That somebody looks at it."""

    comment: str = Field(default="", max_length=500, description="what they are about to do; kept as a note")


class IncidentNoteCreate(BaseModel):
    """Something to be written down."""

    text: str = Field(min_length=1, max_length=4000, description="the note, plain text")


class IncidentMerge(BaseModel):
    """Another incident of the same cause."""

    incident_id: RowId = Field(description="the incident whose alerts are taken in")


class IncidentSplit(BaseModel):
    """Alerts that are of another cause."""

    alert_ids: list[RowId] = Field(min_length=1, max_length=500, description="its alerts that become another incident")
    reason: str = Field(default="", max_length=500, description="why they are of another cause")


class IncidentCause(BaseModel):
    """What the cause was. How likely its kind is named first from then on is learned from this."""

    cause: CauseKind = Field(description="its kind; `unknown`: none of those that were named")
    comment: str = Field(default="", max_length=500, description="what there is to say of it")


class IncidentResolve(BaseModel):
    """Why an incident is closed although not all of its alerts are over."""

    reason: str = Field(min_length=1, max_length=500, description="why it is closed")


class RouteCreate(BaseModel):
    """Who looks after what: the first route that matches an alert's labels, in the order of their positions."""

    name: str = Field(min_length=1, max_length=128, description="what people call the route")
    matchers: dict[str, str] = Field(
        default={}, description="labels and the values an alert must have, all of them; also `rule` and `severity`"
    )
    owner: str = Field(min_length=1, max_length=128, description="the team or person who looks after it")
    group_by: list[str] = Field(
        default=["pool"],
        max_length=10,
        description="labels in which all alerts of one incident agree; none: alerts of different pools may be one",
    )
    position: int = Field(
        default=100, ge=0, le=1_000_000, description="where it stands: the lower goes first, of equal ones the older"
    )


class Route(RouteCreate):
    """A route as it is kept."""

    id: int = Field(description="the route's number")
    created_at: datetime = Field(description="when it was made")
    origin: str | None = Field(default=None, description="the file that made it (`tailwright apply`); null: no file")
