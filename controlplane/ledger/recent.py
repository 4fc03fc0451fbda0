"""What a reader that asks again and again knows of the ledger's last while: each entry is read once."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from sqlmodel import Session, col, select

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.ledger.tables import LedgerRow

T = TypeVar("T")


class _Known(NamedTuple, Generic[T]):
    at: datetime
    found: T


class Recent(Generic[T]):
    """What `read` makes of each entry of exactly one kind. Of one thread.

    Entries become visible in the order of their numbers, without a gap (`sealing`): what is above the last number that
    was seen is what is new. To be asked in a session that has appended nothing, for what it appends may be rolled back.
    """

    def __init__(self, kind: str, read: Callable[[LedgerEntry], T]) -> None:
        self._kind, self._read = kind, read
        self._known: deque[_Known[T]] = deque()
        self._from: datetime | None = None
        self._last_id = 0

    def since(self, session: Session, start: datetime) -> list[T]:
        """All from `start` on, oldest first."""
        if self._from is None or start < self._from:
            self._known.clear()
            self._last_id = 0
        query = select(LedgerRow).where(
            LedgerRow.kind == self._kind, col(LedgerRow.id) > self._last_id, col(LedgerRow.time) >= start
        )
        for row in session.exec(query.order_by(col(LedgerRow.id))):
            entry = LedgerEntry.model_validate(row, from_attributes=True)
            self._known.append(_Known(entry.time, self._read(entry)))
            self._last_id = entry.id
        while self._known and self._known[0].at < start:
            self._known.popleft()
        self._from = start
        return [one.found for one in self._known if one.at >= start]
