"""The tables of what others send: callbacks that were taken (against replays), alerts of other systems, and marks."""

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class CallbackRow(SQLModel, table=True):
    """A signed callback that was taken: the same signature is never taken again within the window of its time."""

    __tablename__ = "callback_taken"

    digest: str = Field(primary_key=True)
    taken_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))


class InboundAlertRow(SQLModel, table=True):
    """An alert of another system, as it told of it last: a row a life, from firing to its end.

    taken_at, received_at: when it was heard of first, and last. alert_id: the alert that stands for it here; null where
    it was over before it was heard of.
    """

    __tablename__ = "inbound_alert"
    __table_args__ = (UniqueConstraint("source", "fingerprint", "starts_at"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    source: str
    fingerprint: str
    status: str = Field(index=True)
    labels: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    annotations: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    link: str = ""
    starts_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    ends_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    taken_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))
    received_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    sent_by: str
    alert_id: int | None = None


class EventRow(SQLModel, table=True):
    """What others did, such as a deploy: a mark on the charts."""

    __tablename__ = "event"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    kind: str
    subject: str
    time: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))
    labels: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    link: str | None = None
    posted_by: str
    received_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
