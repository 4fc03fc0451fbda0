"""What nodes should run, for many nodes of one transaction: each pool and each revision is read once."""

from sqlmodel import Session

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.fleet import machine
from controlplane.fleet.revisions import revision
from controlplane.fleet.tables import NodeRow, PoolRow


class Wishes:
    """Of one session. Whoever changes a pool's revision meanwhile says so (`pool_changed`)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pools: dict[str, int | None] = {}
        self._revisions: dict[int, Revision] = {}
        self._marked: dict[machine.Mark, machine.Wish] = {}  # Most nodes of a pool want the same.

    def of(self, row: NodeRow) -> machine.Wish | None:
        """None: it should run what it likes."""
        return self.wanted(NodeRole(row.role), row.pool, row.override_revision, row.cache_reset)

    def wanted(self, role: NodeRole, pool: str, override: int | None, cache_reset: int) -> machine.Wish | None:
        """As `of`."""
        mark = self.mark(role, pool, override, cache_reset)
        return None if mark is None else self.of_mark(mark)

    def mark(self, role: NodeRole, pool: str, override: int | None, cache_reset: int) -> machine.Mark | None:
        return machine.mark(role, override, self.production(pool), cache_reset)

    def of_mark(self, mark: machine.Mark) -> machine.Wish:
        if mark not in self._marked:
            promoted = None if mark.promoted is None else self._revision(mark.promoted)
            self._marked[mark] = machine.Wish(self._revision(mark.revision), mark.cache_reset, promoted)
        return self._marked[mark]

    def production(self, pool: str) -> int | None:
        """The revision in production in this pool; None when none is known yet, or when there is no such pool."""
        if pool not in self._pools:
            row = self._session.get(PoolRow, pool)
            self._pools[pool] = None if row is None else row.revision
        return self._pools[pool]

    def pool_changed(self, pool: str) -> None:
        self._pools.pop(pool, None)

    def _revision(self, number: int) -> Revision:
        if number not in self._revisions:
            self._revisions[number] = revision(self._session, number)
        return self._revisions[number]
