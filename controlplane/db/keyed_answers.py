"""Idempotency keys: a request that is sent again with the same `Idempotency-Key` is answered as before, and done once.

Guarantee: within a day the same key of the same holder gets the same answer, also when both are asked at the same time
in two replicas: the later waits for the earlier. What was refused is not kept: its key may be used again.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from sqlalchemy.exc import IntegrityError
from sqlmodel import Column, Field, Session, SQLModel, col, delete

from controlplane.contract.errors import Conflict
from controlplane.db.column_types import JsonColumn, UtcDateTime

KEPT = timedelta(days=1)
PRINTABLE = r"^[\x21-\x7e]+$"
HEADER = "Idempotency-Key"

Key = Annotated[
    str | None,
    Header(
        alias=HEADER,
        min_length=1,
        max_length=128,
        pattern=PRINTABLE,
        description="of one request; sent again with it within a day, it is answered as before and done once",
    ),
]
M = TypeVar("M", bound=BaseModel)


class KeyedAnswerRow(SQLModel, table=True):
    """What a request with an `Idempotency-Key` was answered. `answer` is empty only within its own transaction."""

    __tablename__ = "keyed_answer"

    holder: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    fingerprint: str
    answer: dict[str, Any] = Field(sa_column=Column(JsonColumn, nullable=False))
    made_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


@dataclass(frozen=True)
class KeyedRequest:
    """One request: its method and path, and the key that it was sent with."""

    where: str
    key: str | None = None

    def answer(
        self, session: Session, holder: str, now: datetime, act: Callable[[], M], model: type[M], *, says: str = ""
    ) -> M:
        """What `act` answers, once. says: what else tells this request from another of the same key. Raises `Conflict`
        where the key was used for another."""
        if self.key is None:
            return act()
        session.exec(delete(KeyedAnswerRow).where(col(KeyedAnswerRow.made_at) < now - KEPT))
        fingerprint = hashlib.sha256(f"{self.where}\n{says}".encode()).hexdigest()
        row = KeyedAnswerRow(holder=holder, key=self.key, fingerprint=fingerprint, answer={}, made_at=now)
        earlier = session.get(KeyedAnswerRow, (holder, self.key)) or _taken(session, row)
        if earlier is not None:
            if earlier.fingerprint != fingerprint:
                raise Conflict(f"{HEADER}: was used for another request within a day", field=HEADER)
            return model.model_validate(earlier.answer)
        made = act()
        row.answer = made.model_dump(mode="json")
        session.add(row)
        return made


def _taken(session: Session, row: KeyedAnswerRow) -> KeyedAnswerRow | None:
    """The row of the same request that another replica has just answered; None where the key is ours from now on. The
    key is unique: its insertion waits for the other's transaction."""
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        return session.get_one(KeyedAnswerRow, (row.holder, row.key))
    return None


def _given(request: Request, key: Key = None) -> KeyedRequest:
    return KeyedRequest(f"{request.method} {request.url.path}", key)


Keyed = Annotated[KeyedRequest, Depends(_given)]
