"""Policies, freeze windows and pins at rest."""

from datetime import datetime
from typing import Any

from sqlalchemy import UniqueConstraint
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class RolloutPolicyRow(SQLModel, table=True):
    """One pool's policy."""

    __tablename__ = "rollout_policy"

    id: int | None = Field(default=None, primary_key=True)
    pool: str = Field(unique=True)
    policy: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    updated_by: str
    updated_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class FreezeRow(SQLModel, table=True):
    """One window in which no stage begins."""

    __tablename__ = "rollout_freeze"

    id: int | None = Field(default=None, primary_key=True)
    pool: str | None = None
    starts_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    ends_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))
    reason: str
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class PinRow(SQLModel, table=True):
    """One node or pool that keeps its revision. `place` is its node, or "" for the pool: it is there once."""

    __tablename__ = "rollout_pin"
    __table_args__ = (UniqueConstraint("pool", "place"),)

    id: int | None = Field(default=None, primary_key=True)
    pool: str
    place: str = ""
    revision: int
    reason: str
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
