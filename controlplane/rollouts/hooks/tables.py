"""Hooks and their calls at rest."""

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import UtcDateTime
from controlplane.keys import Place
from controlplane.keys.tables import EncryptedText


class RolloutHookRow(SQLModel, table=True):
    """One hook of a pool. `shown`: of its URL what anybody may see. `url` is null only until the row has a number."""

    __tablename__ = "rollout_hook"
    __table_args__ = (UniqueConstraint("pool", "name"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    pool: str
    name: str
    kind: str
    shown: str
    url: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    secret: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    timeout_s: float
    retries: int
    on_silence: str
    origin: str | None = None  # The file that made it.
    updated_by: str
    updated_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class RolloutHookCallRow(SQLModel, table=True):
    """One call of a hook, written in the transaction that wants it (a transactional outbox), made afterwards.

    `step` is the rollout's as it was wanted: an answer counts for it alone. `next_attempt_at` is null where nothing is
    called any more. Whoever calls now (the process `leased_by`) holds it until `leased_until`. `failures`: attempts
    without an answer, in a row. `body` is empty once it has been taken.
    """

    __tablename__ = "rollout_hook_call"
    __table_args__ = (UniqueConstraint("rollout_id", "hook_id", "step"),)

    id: int | None = Field(default=None, primary_key=True)
    rollout_id: int = Field(index=True)
    hook_id: int
    step: int
    name: str
    kind: str
    state: str
    reason: str = ""
    attempts: int = 0
    failures: int = 0
    body: str
    asked_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    answered_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    next_attempt_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True, index=True))
    leased_until: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    leased_by: int | None = None


def place_of(hook_id: int, column: str) -> Place:
    """Of a hook's secret in `column`."""
    return Place("rollout_hook", column, hook_id)
