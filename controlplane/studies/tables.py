"""Studies and their trials at rest."""

from datetime import datetime
from typing import Any

from sqlalchemy import UniqueConstraint
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime
from controlplane.keys.tables import EncryptedText


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
    online: bool = False  # In production: no worker takes it.
    spec: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    started_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    finished_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    worker: str | None = None
    heard_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    attempt: int = 0  # Claims since a trial of it was last measured.
    active_s: float = 0.0
    trial_node: str | None = None
    progress: str = ""
    workload_summary: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    result: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn(none_as_null=True), nullable=True))
    error: str = ""
    alert_id: int | None = Field(default=None, index=True)
    rollout_id: int | None = None
    default_revision: int | None = None  # The pool's when it was last claimed.


class WorkloadRow(SQLModel, table=True):
    """Traffic that is kept under a name: packed, and what it is like."""

    __tablename__ = "workload"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    format: str
    traffic: str
    figures: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class PromptSetRow(SQLModel, table=True):
    """Prompts that are kept under a name: packed and encrypted, and what they are like. `prompts` is null only until
    the row has a number."""

    __tablename__ = "prompt_set"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    prompts: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    packed_bytes: int
    figures: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class StudyPlanRow(SQLModel, table=True):
    """What all runs of a study have in common; large, so apart from it."""

    __tablename__ = "study_plan"

    study_id: int = Field(primary_key=True, foreign_key="study.id")
    plan: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))


class TrialLeaseRow(SQLModel, table=True):
    """A worker's hold on a trial node. `held_node` is that node while it holds, and null once it has ended.

    Its uniqueness is what gives a node to one worker at a time on every replica. The id is the fencing token: it is
    never given twice.
    """

    __tablename__ = "trial_lease"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    study_id: int = Field(foreign_key="study.id", index=True)
    worker: str
    node: str
    held_node: str | None = Field(default=None, unique=True)
    number: int | None = None
    taken_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    heard_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    ended_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))


class TrialRow(SQLModel, table=True):
    """One trial: what is to be measured, the lease under which it was last taken, and what its worker reported.

    Of a step in production: no lease, and what it moves with the rollout that it is (`step`).
    """

    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("study_id", "number"),)

    id: int | None = Field(default=None, primary_key=True)
    study_id: int = Field(foreign_key="study.id", index=True)
    number: int
    kind: str
    knobs: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    order: dict[str, Any] = Field(sa_column=Column("run_order", JsonColumn, nullable=False))
    lease_id: int | None = Field(default=None, foreign_key="trial_lease.id")
    step: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn(none_as_null=True), nullable=True))
    takings: int = 1
    report: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn(none_as_null=True), nullable=True))
    reported_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
