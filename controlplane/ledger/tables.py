"""The ledger's tables. Rows are only ever added: the database itself refuses to change or remove one.

The oldest leave it by `archiving` alone, which takes that refusal away and restores it in one transaction.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import DDL, event
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import JsonColumn, UtcDateTime
from controlplane.ledger.chain import START


class LedgerRow(SQLModel, table=True):
    """`id` grows by one from each row to the next; `hash` is of this row and of all before it."""

    __tablename__ = "ledger"

    id: int | None = Field(default=None, primary_key=True)
    time: datetime = Field(sa_column=Column(UtcDateTime, nullable=False, index=True))
    actor: str = Field(index=True)
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


class LedgerAnchorRow(SQLModel, table=True):
    """The last row that an archive holds, in one row: what the first row in the table follows.

    `signature` is by the service's own key: who can write to the database alone cannot put the anchor elsewhere.
    """

    __tablename__ = "ledger_anchor"

    id: int | None = Field(default=None, primary_key=True)
    entry: int
    hash: str
    signature: str


_ANCHOR = f"INSERT INTO ledger_anchor (id, entry, hash, signature) VALUES (1, {START.id}, '{START.hash}', '')"
_BEGIN = f"INSERT INTO ledger_head (id, entry, hash) VALUES (1, {START.id}, '{START.hash}')"
# As the first migration does; the library has no annotation on it.
event.listen(SQLModel.metadata.tables["ledger_head"], "after_create", DDL(_BEGIN))  # type: ignore[no-untyped-call]
event.listen(SQLModel.metadata.tables["ledger_anchor"], "after_create", DDL(_ANCHOR))  # type: ignore[no-untyped-call]
