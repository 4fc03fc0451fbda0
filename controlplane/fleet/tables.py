"""Tables of the fleet: configuration revisions (immutable), pools, and nodes."""

from datetime import datetime
from typing import Any

from sqlmodel import JSON, BigInteger, Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class RevisionRow(SQLModel, table=True):
    """One full engine configuration. Rows are added, never changed or removed; equal knobs have one row."""

    __tablename__ = "revision"

    number: int | None = Field(default=None, primary_key=True)
    hash: str = Field(unique=True, index=True)
    knobs: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    note: str = ""
    created_by: str
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class PoolRow(SQLModel, table=True):
    """Nodes that serve the same traffic. `revision` is the one in production, null until one is known."""

    __tablename__ = "pool"

    name: str = Field(primary_key=True)
    revision: int | None = Field(default=None, foreign_key="revision.number")
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class NodeRow(SQLModel, table=True):
    """One node, and all that its agent last said of it. `override_revision` beats the pool's revision."""

    __tablename__ = "node"

    node: str = Field(primary_key=True)
    pool: str = Field(index=True, foreign_key="pool.name")
    role: str
    backend: str
    model: str | None = None
    engine_url: str | None = None
    agent_version: str | None = None
    engine_process: str = ""  # "SOURCE:ID", as its agent names it; empty until it has.
    engine_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    override_revision: int | None = Field(default=None, foreign_key="revision.number")
    cache_reset: int = 0  # How many times its prefix cache was to be emptied.
    instance_uid: str | None = Field(default=None, index=True)  # Of the agent process, hexadecimal.
    sequence_num: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    replaced_uid: str | None = None  # Of the agent process before it: one that is heard again is another agent.
    gone: bool = False  # Its agent has said goodbye.
    connected: bool = False
    connection: str | None = None  # The WebSocket that holds the node, null over HTTP.
    last_seen: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    healthy: bool = False
    health_detail: str = ""
    unaccounted_share: float | None = None
    effective: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True), nullable=True))
    config_hash: str = ""  # The last remote configuration hash the agent acknowledged.
    config_status: str
    config_error: str = ""
    claimed_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    claimed_by: str | None = None
    released_until: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    drift_since: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
