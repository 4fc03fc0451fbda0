"""The ledger: what happened, newest first."""

from controlplane.client.connection import Connection
from controlplane.contract.bodies.ledger import LedgerEntry


class LedgerCalls(Connection):
    """The ledger is only read."""

    def ledger(self, *, limit: int = 100, kind: str | None = None, subject: str | None = None) -> list[LedgerEntry]:
        """Newest first, at most `limit`."""
        return self._page(LedgerEntry, "/api/v1/ledger", limit=limit, kind=kind, subject=subject).items
