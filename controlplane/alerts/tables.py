"""The tables of alerts: rules, alerts, the outbox of deliveries, and what the detectors have learned so far.

`origin`: the file that a thing was made by, where one made it.
A destination's URL and secret are stored encrypted (`controlplane.keys`): the service must call and sign with them.
Alert ids are never used twice, also after a pending alert that came to nothing was removed.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Index
from sqlmodel import Column, Field, SQLModel

from controlplane.contract.bodies.alerts import OURS
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.db.column_types import JsonColumn, UtcDateTime
from controlplane.keys import Place
from controlplane.keys.tables import EncryptedText


class AlertRuleRow(SQLModel, table=True):
    __tablename__ = "alert_rule"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    name: str
    pool: str | None = None
    condition: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    severity: str
    remedy: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn, nullable=True))
    enabled: bool = True
    version: int = 1  # Counts changes; evidence gathered under another version is worth nothing.
    origin: str | None = None
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class AlertRow(SQLModel, table=True):
    """One alert. At most one of a fingerprint is open (pending or firing) at a time.

    One of another system has its name as `source`: no rule judges it, no remedy fits it, and no destination is told.
    """

    __tablename__ = "alert"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(index=True)
    rule_id: int = Field(index=True)
    rule: str
    kind: str
    source: str = OURS
    link: str = ""
    pool: str = Field(index=True)
    state: str = Field(index=True)
    severity: str
    labels: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    summary: str
    started_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    breach_since: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    clear_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    hold_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    fired_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    resolved_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    value: float | None = None
    threshold: float | None = None
    evidence: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    diagnosis: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn, nullable=True))
    silenced: bool = False
    study_id: int | None = None
    updates: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JsonColumn, nullable=False, server_default="[]")
    )
    remedies: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JsonColumn, nullable=False, server_default="[]")
    )


class DestinationRow(SQLModel, table=True):
    """`shown`: of the URL what anybody may see. `url` is null only until the row has a number, within a transaction.

    Below `created_at` stands how it does; only who delivers there writes it. tokens, tokens_at: of its rate's bucket.
    """

    __tablename__ = "destination"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    name: str
    kind: str = DestinationKind.WEBHOOK.value
    shown: str
    url: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    secret: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    callback_secret: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    login: str | None = None
    sender: str | None = None
    recipients: list[str] = Field(
        default_factory=list, sa_column=Column(JsonColumn, nullable=False, server_default="[]")
    )
    per_minute: int | None = None
    title_template: str | None = None
    text_template: str | None = None
    only: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn, nullable=True))
    template_failures: int = 0
    enabled: bool = True
    origin: str | None = None
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    succeeded_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    failures: int = 0
    last_error: str | None = None
    rests_until: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    tokens: float | None = None
    tokens_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))


def place_of(destination_id: int, column: str) -> Place:
    """Of a destination's secret in `column`."""
    return Place("destination", column, destination_id)


class DeliveryRow(SQLModel, table=True):
    """The outbox: written in the transaction that changes the alert, sent afterwards.

    `body` is what will be told, word for word the same at each attempt. Whoever is sending now (the process
    `leased_by`) holds it until `leased_until`: a sender that dies leaves the row to be tried again. `waits_since`: what
    giving up is counted from.
    """

    __tablename__ = "delivery"
    __table_args__ = (
        Index("ix_delivery_due", "destination_id", "state", "attempts", "id"),
        Index("ix_delivery_order", "destination_id", "state", "fingerprint", "id"),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    alert_id: int = Field(index=True)
    destination_id: int
    fingerprint: str = ""
    status: str
    state: str = Field(index=True)
    idempotency_key: str
    body: str
    attempts: int = 0
    last_error: str | None = None
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    waits_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    next_attempt_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    leased_until: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    leased_by: int | None = None
    delivered_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))


class AccountNoticesRow(SQLModel, table=True):
    """The ledger's entry up to which people were told of their accounts, in one row."""

    __tablename__ = "account_notices"

    id: int | None = Field(default=None, primary_key=True)
    entry: int


class SilenceRow(SQLModel, table=True):
    __tablename__ = "silence"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    matchers: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    patterns: dict[str, str] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    comment: str
    created_by: str
    starts_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    ends_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    ended_early_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    origin: str | None = None


class InhibitRuleRow(SQLModel, table=True):
    __tablename__ = "inhibit_rule"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    name: str
    source: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    target: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    equal: list[str] = Field(sa_column=Column(JsonColumn, nullable=False))
    origin: str | None = None
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class DetectorStateRow(SQLModel, table=True):
    """What one rule knows of one pool. `position` is the end of the last window judged: none is judged twice."""

    __tablename__ = "detector_state"

    rule_id: int = Field(primary_key=True)
    pool: str = Field(primary_key=True)
    version: int
    position: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    state: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
