"""The ledger's table. Rows are only ever added."""

from datetime import datetime
from typing import Any

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime


class LedgerRow(SQLModel, table=True):
    __tablename__ = "ledger"

    id: int | None = Field(default=None, primary_key=True)
    time: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))
    actor: str
    kind: str = Field(index=True)
    subject: str = Field(index=True)
    message: str
    evidence: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JsonColumn, nullable=False))
