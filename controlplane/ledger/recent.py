"""What a reader that asks again and again knows of the ledger's last while: each entry is read once."""

from collections import deque
from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session, col, select

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.ledger.tables import LedgerRow


class Recent:
    """Entries of exactly one kind. Of one thread.

    Entries become visible in the order of their numbers, without a gap (`sealing`): what is above the last number that
    was seen is what is new. To be asked in a session that has appended nothing, for what it appends may be rolled back.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: deque[LedgerEntry] = deque()
        self._from: datetime | None = None
        self._last_id = 0

    def since(self, session: Session, start: datetime) -> Sequence[LedgerEntry]:
        """All from `start` on, oldest first."""
        if self._from is None or start < self._from:
            self._known.clear()
            self._last_id = 0
        query = select(LedgerRow).where(
            LedgerRow.kind == self._kind, col(LedgerRow.id) > self._last_id, col(LedgerRow.time) >= start
        )
        for row in session.exec(query.order_by(col(LedgerRow.id))):
            self._known.append(LedgerEntry.model_validate(row, from_attributes=True))
            self._last_id = self._known[-1].id
        while self._known and self._known[0].time < start:
            self._known.popleft()
        self._from = start
        return [entry for entry in self._known if entry.time >= start]
