"""The fleet's nodes as rules see them.

Guarantee: whatever a rule looks at is as it stands in the session's snapshot. The rest of a view (when a node was last
heard of, its health) may be older: heartbeats change it all the time, and a view is made anew only when there is a
reason to.
"""

from typing import Any

from sqlmodel import Session, col, select

from controlplane.contract.bodies.nodes import NodeView
from controlplane.db.raw_rows import raw_rows
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow, PoolRow

FEW = 32
"""So many changed nodes are looked up one by one; of more, all are read."""
_LOOKED_AT = (
    select(
        *map(
            col,
            (
                NodeRow.node,
                NodeRow.pool,
                NodeRow.role,
                NodeRow.override_revision,
                NodeRow.connected,
                NodeRow.effective,
                NodeRow.config_hash,
                NodeRow.config_status,
                NodeRow.config_error,
                NodeRow.drift_since,
                NodeRow.claimed_at,
            ),
        )
    )
    # Heard from since it was claimed: of heartbeats this one alone makes a difference.
    .add_columns(col(NodeRow.last_seen) >= col(NodeRow.claimed_at))
    .order_by(col(NodeRow.node))
)
_POOL = 1


class WatchedNodes:
    """For one thread."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Any, ...]] = {}
        self._views: dict[str, NodeView] = {}
        self._read: object = None  # What they are of.

    def read(self, session: Session) -> list[NodeView]:
        """All nodes, by name."""
        revisions = dict(session.exec(select(PoolRow.name, PoolRow.revision)).all())
        connection = session.connection()
        rows = raw_rows(connection, _LOOKED_AT)
        if (rows, revisions) == self._read:
            return list(self._views.values())
        self._read = rows, revisions
        seen = {row[0]: (*row, revisions.get(row[_POOL])) for row in rows}
        changed = [name for name, state in seen.items() if self._seen.get(name) != state]
        if len(changed) > FEW:
            views = {view.node: view for view in fleet.nodes(session)}
        else:
            views = self._views | {name: fleet.node(session, name) for name in changed}
        self._views = {name: views[name] for name in seen}
        self._seen = seen
        return list(self._views.values())
