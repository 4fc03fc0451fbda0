"""How far each exporter has come, and the name that exports go out under."""

from datetime import datetime

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import UtcDateTime


class ExportRow(SQLModel, table=True):
    """One exporter. Everything before `position` has been delivered, or given up and counted.

    `next_attempt_at` is also the lease of the replica that is sending now: one that dies leaves the interval to be sent
    again. `attempts` counts those at the present position.
    """

    __tablename__ = "telemetry_export"

    name: str = Field(primary_key=True)
    position: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    attempts: int = 0
    next_attempt_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))


class InstanceRow(SQLModel, table=True):
    """One row, with id 1: a random name for the service, all replicas on this database together. Never changed."""

    __tablename__ = "telemetry_instance"

    id: int | None = Field(default=None, primary_key=True)
    name: str
