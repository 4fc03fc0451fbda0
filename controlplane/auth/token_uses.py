"""When tokens were last used: remembered as requests come, written down once a minute by the service's background work.

Guarantee: no request waits for it, and a token's row is written at most once in `PERIOD_S`, however often it is used.
What was not written when a process ends is lost.
"""

from datetime import datetime

from controlplane.auth import store
from controlplane.db.database import Database

PERIOD_S = 60.0


class TokenUses:
    """The tokens used since they were last written. Thread-safe: a set's `add` is one step."""

    def __init__(self) -> None:
        self._used: set[int] = set()

    def note(self, token_id: int | None, node: str | None) -> None:
        """A request came with it. A node's own token is not written: when the node was last seen says the same."""
        if node is None and token_id is not None:
            self._used.add(token_id)

    def write(self, database: Database, now: datetime) -> None:
        """Write down what was noted; what cannot be written is kept for the next time."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            with database.session() as session:
                store.note_uses(session, used, now)
        except BaseException:
            self._used |= used
            raise
