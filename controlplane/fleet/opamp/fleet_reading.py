"""What the database says of the whole fleet: who holds each node, and what it is to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlmodel import Session, col, select

from controlplane.auth import store as tokens
from controlplane.auth.tables import TokenRow
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import TokenExpired, Unauthenticated
from controlplane.db.raw_rows import raw_rows
from controlplane.fleet import machine
from controlplane.fleet.tables import NodeRow, PoolRow

TOKENS_ENDED_S = 60.0
"""How long before the last look a token's end may lie that it did not see: replicas' clocks differ."""
_NODES = (
    select(NodeRow.node, NodeRow.connection, NodeRow.role)
    .add_columns(col(NodeRow.override_revision), col(PoolRow.revision), col(NodeRow.cache_reset))
    .join(PoolRow, col(PoolRow.name) == NodeRow.pool)
)


class Found(NamedTuple):
    """The WebSocket that holds a node (None: none, or over HTTP), and the mark of its wish (None: there is none)."""

    connection: str | None
    desired: machine.Mark | None


NOWHERE = Found(None, None)


@dataclass(frozen=True)
class FleetReading:
    """rows: of nodes, as they were read; ended: why tokens that have ended are refused, by their ids."""

    rows: Sequence[tuple[Any, ...]]
    ended: dict[int | None, Unauthenticated]

    def nodes(self) -> dict[str, Found]:
        """By name."""
        marks: dict[tuple[Any, ...], machine.Mark | None] = {}
        found = {}
        for node, holder, *wanted in self.rows:
            key = tuple(wanted)  # Most nodes of a pool want the same.
            if key not in marks:
                role, override, pool, resets = key
                marks[key] = machine.mark(NodeRole(role), override, pool, resets)
            found[node] = Found(holder, marks[key])
        return found


def read(session: Session, looked_at: datetime | None, now: datetime) -> FleetReading:
    """looked_at: of tokens only those are told that have ended since about then; None: all."""
    rows = raw_rows(session.connection(), _NODES)
    ended = select(TokenRow).where(~tokens.lives(now))
    if looked_at is not None:
        since = looked_at - timedelta(seconds=TOKENS_ENDED_S)
        ended = ended.where((col(TokenRow.revoked_at) >= since) | (col(TokenRow.expires_at) >= since))
    return FleetReading(rows, {row.id: _refusal(row) for row in session.exec(ended)})


def _refusal(ended: TokenRow) -> Unauthenticated:
    return TokenExpired("this token has expired") if ended.revoked_at is None else Unauthenticated("it is revoked")
