"""Proof that the database takes a durable write: one row, written again at each look."""

from datetime import datetime

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import UtcDateTime
from controlplane.db.database import Database


class ProbeRow(SQLModel, table=True):
    __tablename__ = "probe"

    id: int | None = Field(default=None, primary_key=True)
    time: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


def prove_write(database: Database, now: datetime) -> None:
    """Commit a write. Raises SQLAlchemy's own error when the database is gone, full, or read-only."""
    with database.session() as session:
        session.merge(ProbeRow(id=1, time=now))
