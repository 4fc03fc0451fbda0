"""The ledger's tables. Rows are only ever added: the database itself refuses to change or remove one."""

from datetime import datetime
from typing import Any

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class LedgerRow(SQLModel, table=True):
    """`id` grows by one from each row to the next; `hash` is of this row and of all before it."""

    __tablename__ = "ledger"

    id: int | None = Field(default=None, primary_key=True)
    time: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))
    actor: str
    kind: str = Field(index=True)
    subject: str = Field(index=True)
    message: str
    evidence: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
    hash: str


class LedgerHeadRow(SQLModel, table=True):
    """The newest row's number and hash, in one row: who locks it may append."""

    __tablename__ = "ledger_head"

    id: int | None = Field(default=None, primary_key=True)
    entry: int
    hash: str
