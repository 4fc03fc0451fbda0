"""New tokens for old: a node's agent is given another token over its own OpAMP connection before the old one is stale.

The agent stores the offered token and connects with it; that first use ends the token it replaces. A token that was
offered and never used is replaced by another offer after `OFFERED_AGAIN_S`.

Guarantee: at no moment is the node without a token that it holds and that counts.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.auth import store as tokens
from controlplane.auth.tables import TokenRow
from controlplane.contract.bodies.access import Scope
from controlplane.fleet.tables import NodeRow

OFFERED_AGAIN_S = 3600.0
ROTATED = "token.rotated"


class TokenState(NamedTuple):
    """What of a token says whether anything is to be done: the token that it replaces, and since when there is it."""

    replaces: int | None
    created_at: datetime

    def is_stale(self, days: float, now: datetime) -> bool:
        """Whether it is as old as that."""
        return now - self.created_at >= timedelta(days=days)


def settle(session: Session, principal: Principal, now: datetime) -> None:
    """The principal speaks: where its token replaces another, that one ends."""
    row = session.get(TokenRow, principal.token_id)
    if row is None or row.replaces is None:
        return
    replaced = session.get(TokenRow, row.replaces)
    row.replaces = None
    session.add(row)
    if replaced is not None and replaced.revoked_at is None:
        tokens.end(session, replaced, now)
        message = f"token {replaced.id} of node {row.node} gave way to token {row.id}"
        ledger.append(session, now, ledger.SERVICE, ROTATED, f"token/{row.id}", message, replaced=replaced.id)


def offered(session: Session, principal: Principal, node: NodeRow, days: float, now: datetime) -> str | None:
    """A new token where the principal's own, bound to this node, is older than `days`; None where it is not due."""
    held = session.get(TokenRow, principal.token_id)
    if held is None or held.node != node.node or now - held.created_at < timedelta(days=days):
        return None
    query = select(TokenRow).where(TokenRow.replaces == held.id, col(TokenRow.revoked_at).is_(None))
    for unused in session.exec(query).all():
        if now - unused.created_at < timedelta(seconds=OFFERED_AGAIN_S):
            return None
        tokens.end(session, unused, now)
    _, token = tokens.issue(
        session, name=held.name, scope=Scope.AGENT, now=now, node=held.node, pool=held.pool, replaces=held.id
    )
    return token
