"""Destinations and deliveries: wire models. What is secret in a destination goes in and never comes out."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.row_id import RowId


class DestinationCreate(BaseModel):
    """Where alerts are told. What else than a name it wants depends on its kind (docs/on-call.md, "Destinations").

    A webhook with a secret is signed: `Tailwright-Signature: t=UNIX,v1=HEX`, HMAC-SHA256 of "t.body".
    """

    name: str = Field(min_length=1, max_length=128, description="what people call it")
    kind: DestinationKind = Field(default=DestinationKind.WEBHOOK, description="what is there, and how it is spoken to")
    url: str | None = Field(
        default=None,
        pattern=r"^(https?|smtps?|smtp\+plain)://",
        max_length=4096,
        description="where it is; null: where the kind usually is",
    )
    secret: str | None = Field(
        default=None,
        max_length=4096,
        json_schema_extra={"minLength": 8},
        description="what signs, or what lets in: a signing secret, a token, a key, a password; never shown again",
    )
    login: str | None = Field(default=None, max_length=256, description="whose password the secret is")
    recipients: list[str] = Field(default=[], max_length=50, description="the channel, or the addresses that get it")
    sender: str | None = Field(default=None, max_length=256, description="the address that e-mail comes from")
    callback_secret: str | None = Field(
        default=None,
        max_length=4096,
        json_schema_extra={"minLength": 8},
        description="what acknowledgements that come from there are signed with; never shown again",
    )
    per_minute: int | None = Field(
        default=None, ge=1, le=60_000, description="messages a minute that it gets at most; null: as its kind bears"
    )
    title_template: str | None = Field(
        default=None, max_length=1000, description="its title, in Jinja2 (docs/destinations.md); null: the usual words"
    )
    text_template: str | None = Field(
        default=None, max_length=4000, description="its text, in Jinja2; null: the usual words"
    )
    only: Silenced | None = Field(
        default=None, description="the alerts that are told there, by their labels, also rule and severity; null: all"
    )
    enabled: bool = Field(default=True, description="false: nothing is sent there")


class DestinationReplace(DestinationCreate):
    """What a destination shall be from now on. A secret that is kept is not sent: the one that is there stays.

    A secret stays with its place: with another kind, or another scheme or host, it is given anew.
    """

    url_kept: bool = Field(default=False, description="whether the URL that is there stays; it must be there")
    secret_kept: bool = Field(default=False, description="whether the secret that is there stays; it must be there")
    callback_secret_kept: bool = Field(default=False, description="the same of what acknowledgements are signed with")


class DestinationHealth(BaseModel):
    """How a destination does, by what was sent there."""

    last_success_at: datetime | None = Field(default=None, description="when it last took something; null: never")
    failures_in_row: int = Field(default=0, description="attempts that failed since then")
    last_error: str | None = Field(default=None, description="what came of the last attempt; null when it went well")
    rests_until: datetime | None = Field(default=None, description="after a failure: when it is tried again")
    waiting: int = Field(default=0, description="messages that wait for it")
    dead: int = Field(default=0, description="messages that were given up; they can be replayed")
    template_failures: int = Field(
        default=0, description="messages told in the usual words, for its template could not be rendered"
    )
    held_by_rate_until: datetime | None = Field(
        default=None, description="when its rate lets the next message go; null where the rate holds nothing back"
    )


class Destination(BaseModel):
    """A destination as it is kept, without its secrets."""

    id: int = Field(description="the destination's number")
    name: str = Field(description="what people call it")
    kind: DestinationKind = Field(default=DestinationKind.WEBHOOK, description="what is there")
    url: str = Field(description="scheme and host of where it is; the rest is a secret, shown as ***")
    signed: bool = Field(description="whether it has a secret")
    login: str | None = Field(default=None, description="whose password the secret is")
    recipients: list[str] = Field(default=[], description="the channel, or the addresses that get it")
    sender: str | None = Field(default=None, description="the address that e-mail comes from")
    acknowledges: bool = Field(default=False, description="whether acknowledgements may come from there")
    per_minute: int | None = Field(default=None, description="messages a minute that it gets at most; null: no limit")
    title_template: str | None = Field(default=None, description="its title; null: the usual words")
    text_template: str | None = Field(default=None, description="its text; null: the usual words")
    only: Silenced | None = Field(default=None, description="the alerts that are told there; null: all")
    enabled: bool = Field(description="false: nothing is sent there")
    created_at: datetime = Field(description="when it was made")
    origin: str | None = Field(default=None, description="the file that made it (`tailwright apply`); null: no file")
    health: DestinationHealth = Field(default=DestinationHealth(), description="how it does")

    def unchanged(self) -> DestinationReplace:
        """What leaves it as it is, secrets too: to begin a change with."""
        plain = {name: value for name, value in self if name in DestinationReplace.model_fields and name != "url"}
        return DestinationReplace(
            **plain, url_kept=True, secret_kept=self.signed, callback_secret_kept=self.acknowledges
        )


class DeliveryState(StrEnum):
    """How far a delivery is."""

    WAITING = "waiting"  # Not yet tried, or to be tried again at next_attempt_at.
    DELIVERED = "delivered"  # The receiver has taken it.
    GIVEN_UP = "given_up"  # Refused, or out of time: a dead letter, counted, shown, and to be replayed.


class Delivery(BaseModel):
    """One message to one destination about one alert."""

    id: int = Field(description="the delivery's number; 0 for a test")
    alert_id: int = Field(description="the alert it tells of; 0 for a test, and for a notice about tokens and people")
    destination_id: int = Field(description="where it goes")
    state: DeliveryState = Field(description="how far it is")
    status: str = Field(description="what of the alert it tells: `firing`, `acknowledged` or `resolved`")
    attempts: int = Field(description="how often it was tried")
    last_error: str | None = Field(default=None, description="what came of the last attempt; null when it went well")
    next_attempt_at: datetime | None = Field(default=None, description="when it is tried again; null when it is not")
    delivered_at: datetime | None = Field(default=None, description="when the receiver took it")


class DeadLettersReplay(BaseModel):
    """Which dead letters are sent once more."""

    ids: list[RowId] | None = Field(
        default=None, max_length=10_000, description="the deliveries' numbers; null: all of the destination"
    )


class DeadLettersReplayed(BaseModel):
    """What came of it."""

    replayed: int = Field(description="dead letters that wait again")
    passed_over: int = Field(description="those left as they are: something newer of their alert has arrived since")


class DestinationPreview(BaseModel):
    """What a destination of a kind would be told, with these templates."""

    kind: DestinationKind = Field(default=DestinationKind.WEBHOOK, description="what is there")
    title_template: str | None = Field(default=None, max_length=1000, description="the title; null: the usual words")
    text_template: str | None = Field(default=None, max_length=4000, description="the text; null: the usual words")
    alert_id: int | None = Field(default=None, ge=1, description="the alert it is tried on; null: a made-up one")
    status: Literal["firing", "acknowledged", "resolved"] = Field(default="firing", description="what of it is told")


class DestinationPreviewed(BaseModel):
    """A message as it would be sent, without what is secret in it."""

    title: str = Field(description="in one line")
    text: str = Field(description="the text")
    body: str = Field(description="what goes over the wire, as it is kept until it is sent")
