"""Studies and their trials at rest."""

from datetime import datetime
from typing import Any

from sqlalchemy import UniqueConstraint
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class StudyRow(SQLModel, table=True):
    """One study. `running_pool` is its pool while a worker holds it and null otherwise.

    Its uniqueness is what gives a pool, and so its trial node, to one study at a time on every replica
    (nulls are distinct on SQLite and on PostgreSQL).
    """

    __tablename__ = "study"

    id: int | None = Field(default=None, primary_key=True)
    state: str = Field(index=True)
    pool: str = Field(index=True)
    running_pool: str | None = Field(default=None, unique=True)
    spec: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    started_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    finished_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    worker: str | None = None
    heard_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    attempt: int = 0  # Claims so far; trials of an earlier attempt are kept and not shown.
    trial_node: str | None = None
    progress: str = ""
    workload_summary: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    result: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn(none_as_null=True), nullable=True))
    error: str = ""
    alert_id: int | None = Field(default=None, index=True)
    rollout_id: int | None = None
    default_revision: int | None = None  # The pool's when it was last claimed.


class TrialRow(SQLModel, table=True):
    """One trial as its worker reported it."""

    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("study_id", "attempt", "number"),)

    id: int | None = Field(default=None, primary_key=True)
    study_id: int = Field(foreign_key="study.id", index=True)
    attempt: int
    number: int
    report: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    reported_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
