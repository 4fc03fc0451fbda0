"""Hooks of rollouts: whom the service asks before a pool is changed, and whom it tells. Wire models.

What is secret in a hook goes in and never comes out. What is called over HTTP is in docs/hooks.md.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field


class HookKind(StrEnum):
    """When a hook is called, in Flagger's words."""

    CONFIRM_START = "confirm-start"  # It is asked before any node is told.
    CONFIRM_PROMOTION = "confirm-promotion"  # It is asked once the canary was judged well, before other nodes are told.
    ROLLBACK = "rollback"  # It is told that a rollout goes back.
    EVENT = "event"  # It is told of every step.

    @property
    def asks(self) -> bool:
        """Whether the rollout waits for its answer."""
        return self in (HookKind.CONFIRM_START, HookKind.CONFIRM_PROMOTION)


class OnSilence(StrEnum):
    """What becomes of a rollout when a hook that is asked has not answered at any attempt."""

    HOLD = "hold"  # It waits, and the hook is asked again each minute.
    PROCEED = "proceed"  # It goes on as if the hook had agreed.
    ROLL_BACK = "roll_back"  # It goes back; where nothing was told yet it ends.


class HookSettings(BaseModel):
    """One hook of a pool. Name and pool are its identity: setting it again replaces it.

    A secret that is kept is not sent: the one that is there stays, while scheme and host of the URL do. With a secret
    each call is signed: `Tailwright-Signature: t=UNIX,v1=HEX`, HMAC-SHA256 of "t.body".
    """

    pool: str = Field(min_length=1, max_length=200, description="the pool whose rollouts it is called for")
    name: str = Field(min_length=1, max_length=128, description="what people call it, once in a pool")
    kind: HookKind = Field(description="when it is called")
    url: str | None = Field(
        default=None, pattern=r"^https?://", max_length=4096, description="where it is; null: with `url_kept`"
    )
    url_kept: bool = Field(default=False, description="whether the URL that is there stays; it must be there")
    secret: str | None = Field(
        default=None,
        max_length=4096,
        json_schema_extra={"minLength": 8},
        description="what calls are signed with; never shown again; null: they are not signed",
    )
    secret_kept: bool = Field(default=False, description="whether the secret that is there stays; it must be there")
    timeout_s: float = Field(default=10, ge=0.5, le=60, description="seconds for the whole of one attempt")
    retries: int = Field(
        default=3, ge=0, le=10, description="attempts after the first, with pauses that double from one second"
    )
    on_silence: OnSilence = Field(
        default=OnSilence.HOLD,
        description="what becomes of the rollout where no attempt was answered; of what is told alone nothing does",
    )


class Hook(BaseModel):
    """A hook as it is kept, without its secrets."""

    id: int = Field(description="the hook's number")
    pool: str = Field(description="the pool whose rollouts it is called for")
    name: str = Field(description="what people call it")
    kind: HookKind = Field(description="when it is called")
    url: str = Field(description="scheme and host of where it is; the rest is a secret, shown as ***")
    signed: bool = Field(description="whether its calls are signed")
    timeout_s: float = Field(description="seconds for the whole of one attempt")
    retries: int = Field(description="attempts after the first")
    on_silence: OnSilence = Field(description="what becomes of the rollout where no attempt was answered")
    origin: str | None = Field(
        default=None, description="the file that made it (`tailwright apply`); null: none, it is set by hand"
    )
    updated_by: str = Field(description="who made it so last")
    updated_at: datetime = Field(description="when")


class HookState(StrEnum):
    """What a hook has answered to one call."""

    WAITING = "waiting"  # It is to be called, or is being called.
    GO = "go"  # It agrees, or has taken what it was told.
    HALT = "halt"  # It wants the rollout to wait, and is asked again each minute.
    SILENT = "silent"  # No attempt was answered.


class HookCall(BaseModel):
    """One call of a hook for a rollout, and what came of it."""

    name: str = Field(description="the hook")
    kind: HookKind = Field(description="when it is called")
    step: int = Field(description="the rollout's `step` that it is called for; an answer counts for it alone")
    state: HookState = Field(description="what it has answered")
    reason: str = Field(default="", description="in its own words, or why there was no answer")
    attempts: int = Field(default=0, description="how often it was called")
    asked_at: datetime = Field(description="since when it is asked")
    answered_at: datetime | None = Field(default=None, description="when it answered last; null: not yet")
