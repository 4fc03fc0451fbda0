"""The tables of incidents: their rows, whose alerts they are, notes, and routes.

An alert is of one incident at most: its number is the key.
"""

from datetime import datetime

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class IncidentRow(SQLModel, table=True):
    """`group_key`: the labels' values in which its alerts agree, by `route_id`'s route."""

    __tablename__ = "incident"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    state: str = Field(index=True)
    severity: str
    title: str
    pool: str = Field(index=True)
    owner: str | None = None
    route: str | None = None
    route_id: int | None = None
    group_key: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    onset_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    opened_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    acknowledged_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    acknowledged_by: str | None = None
    quiet_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    resolved_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    resolved_by: str | None = None
    merged_into: int | None = Field(default=None, index=True)
    reopened: int = 0


class IncidentAlertRow(SQLModel, table=True):
    __tablename__ = "incident_alert"

    alert_id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    incident_id: int = Field(index=True)
    joined_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    why: str


class IncidentNoteRow(SQLModel, table=True):
    """`key`: the Idempotency-Key that it was written with; a note written twice with one is there once."""

    __tablename__ = "incident_note"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    incident_id: int = Field(index=True)
    time: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    author: str
    text: str
    key: str | None = None


class RouteRow(SQLModel, table=True):
    __tablename__ = "incident_route"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    name: str
    matchers: dict[str, str] = Field(sa_column=Column(JsonColumn, nullable=False))
    owner: str
    group_by: list[str] = Field(sa_column=Column(JsonColumn, nullable=False))
    position: int = 100
    origin: str | None = None
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
