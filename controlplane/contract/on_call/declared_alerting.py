"""Alerting and hooks of rollouts as files declare them: the whole of what they want, and what that changes.

A thing's identity is its name, of a hook with its pool; a silence has none, and is known by the labels and patterns it
matches.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from controlplane.contract.bodies.alerts import AlertRuleCreate, InhibitRuleCreate, SilenceCreate
from controlplane.contract.changes.hooks import HookSettings
from controlplane.contract.channels.destinations import DestinationReplace
from controlplane.contract.on_call.incidents import RouteCreate

MOST = 1_000
"""Things of one kind in one request."""

ORIGIN = Field(min_length=1, max_length=256, description="the file it stands in, as `alerting/chat.toml`")


class DeclaredKind(StrEnum):
    """What can be declared; a file's tables have these names."""

    ALERT_RULE = "alert_rule"  # What is watched.
    ROUTE = "route"  # Who looks after what.
    INHIBIT_RULE = "inhibit_rule"  # What is not told while something else is.
    SILENCE = "silence"  # What is not told for a while.
    DESTINATION = "destination"  # Where alerts are told.
    HOOK = "hook"  # Whom a pool's rollouts ask and tell.


class DeclaredRule(AlertRuleCreate):
    """An alert rule in a file."""

    origin: str = ORIGIN


class DeclaredRoute(RouteCreate):
    """A route in a file."""

    origin: str = ORIGIN


class DeclaredInhibitRule(InhibitRuleCreate):
    """An inhibit rule in a file."""

    origin: str = ORIGIN


class DeclaredSilence(SilenceCreate):
    """A silence in a file. One whose time has passed need not be there."""

    origin: str = ORIGIN


class DeclaredDestination(DestinationReplace):
    """A destination in a file."""

    origin: str = ORIGIN


class DeclaredHook(HookSettings):
    """A hook of a pool's rollouts in the pool's file."""

    origin: str = ORIGIN


class AlertingSet(BaseModel):
    """`PUT /api/v1/alerting`: all that some files declare but for what pools run. Applied whole, or not at all."""

    alert_rules: list[DeclaredRule] = Field(default=[], max_length=MOST, description="the rules wanted")
    routes: list[DeclaredRoute] = Field(default=[], max_length=MOST, description="the routes wanted")
    inhibit_rules: list[DeclaredInhibitRule] = Field(
        default=[], max_length=MOST, description="the inhibit rules wanted"
    )
    silences: list[DeclaredSilence] = Field(default=[], max_length=MOST, description="the silences wanted")
    destinations: list[DeclaredDestination] = Field(default=[], max_length=MOST, description="the destinations wanted")
    hooks: list[DeclaredHook] = Field(default=[], max_length=MOST, description="the hooks of pools' rollouts wanted")
    origins: list[str] = Field(
        default=[],
        max_length=MOST,
        description="the files that were read: what one of them made before, and none has now, is told of, and removed "
        "with `prune`; a name that ends with / is a folder, whose files count although they are gone",
    )
    prune: bool = Field(default=False, description="whether what the files made before and lack now is removed")
    dry_run: bool = Field(default=False, description="true: say what would be changed, and change nothing")


class DeclaredAction(StrEnum):
    """What is done with one thing."""

    CREATE = "create"  # It is not there yet.
    CHANGE = "change"  # It is there, and differs.
    REMOVE = "remove"  # One of the files made it, and none has it now.
    UNCHANGED = "unchanged"  # It is there as the files want it.
    LEAVE = "leave"  # It would be removed with `prune`.
    OVER = "over"  # A silence whose time has passed.


class FieldChange(BaseModel):
    """One field that differs. Of a secret both values are shown as ***."""

    field: str = Field(description="its name, as `condition.window_s`")
    old: Any = Field(default=None, description="what is there; null: nothing")
    new: Any = Field(default=None, description="what is wanted; null: nothing")


class DeclaredStep(BaseModel):
    """What is done, or would be, with one thing."""

    kind: DeclaredKind = Field(description="what it is")
    name: str = Field(description="its name, of a hook after its pool; of a silence what it matches")
    id: int | None = Field(default=None, description="its number; null where it is not there yet")
    origin: str | None = Field(description="the file it stands in, or stood in")
    action: DeclaredAction = Field(description="what is done with it")
    changes: list[FieldChange] = Field(default=[], description="what differs, field by field")


class AlertingChanges(BaseModel):
    """What a declared set changes, or would: each thing that the files have or had, in the order of the request."""

    dry_run: bool = Field(description="whether nothing was changed")
    changed: bool = Field(description="whether anything differs from what the files want")
    steps: list[DeclaredStep] = Field(description="what is done with each thing")
    others: int = Field(description="things that were made otherwise, or by other files: they are left alone")
