"""Rollouts at rest."""

from datetime import datetime
from typing import Any

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class RolloutRow(SQLModel, table=True):
    """One rollout. `active_pool` is its pool while it is under way and null otherwise.

    Its uniqueness gives a pool to one rollout at a time on every replica (nulls are distinct on SQLite and on
    PostgreSQL). `version` rises with every write: a controller that read an older one writes nothing.
    """

    __tablename__ = "rollout"

    id: int | None = Field(default=None, primary_key=True)
    version: int = 0
    phase: str = Field(index=True)
    verdict: str | None = None
    pool: str = Field(index=True)
    active_pool: str | None = Field(default=None, unique=True)
    spec: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    previous_revision: int | None = None
    canary_nodes: list[str] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    control_nodes: list[str] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    told_nodes: list[str] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    control_labels: list[str] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    node_groups: dict[str, str] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    evidence: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    message: str = ""
    created_by: str
    proposer: dict[str, Any] | None = Field(
        default=None, sa_column=Column(JsonColumn(none_as_null=True), nullable=True)
    )
    needs_approval: bool = False
    approved_by: str | None = None
    approved_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    started_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    step_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    judging_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    judged_until: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    judge: dict[str, Any] | None = Field(default=None, sa_column=Column(JsonColumn(none_as_null=True), nullable=True))
    lost_since: dict[str, str] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    away_s: float = 0.0  # Of this phase or wave, the time in which no controller was there.
    watched_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    ended_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    step: int = 0  # Rises with each decision that is carried out; what an ETag is made of.
    resumes: str | None = None  # The phase to which a paused one returns.
    follows: int | None = None  # The rollout that this one retries or reverts.
