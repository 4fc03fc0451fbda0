"""How a node gets into the fleet, and who may take a node's name. All in the caller's transaction.

A node that is heard from keeps its name: who enrols under it shows the node's own token, or is an administrator, or
comes after one has released the name (`release`). Anyone else is told 409, and the node says who tried (`claimed_at`).
A node that has said goodbye, or was silent for `SILENT_S`, may be taken by whoever holds an enrolment token that allows
it.

Guarantee: a claim is on record before it is refused.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session

from controlplane import ledger
from controlplane.auth import Principal, enrolment_rules
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import EnrolmentRequest, Scope
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.errors import NodeIsLive
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow

SILENT_S = 30.0
RELEASED_FOR_S = 600.0
CLAIM_TOLD_EVERY_S = 60.0
CLAIMED = "node.claimed"
"""The ledger's kind of a claim; a claim that goes on has one entry in `CLAIM_TOLD_EVERY_S`."""


@dataclass(frozen=True)
class Outcome:
    """The node's new token, or why it got none, which is to be raised once the transaction is committed."""

    token: str = ""
    refused: NodeIsLive | None = None


def enrol(session: Session, wanted: EnrolmentRequest, principal: Principal, *, origin: str, now: datetime) -> Outcome:
    """Register a node, or register it again; its older tokens end. `origin`: where the request came from.

    Raises `Forbidden` for what the token's rules do not allow. That its time is not over the guard has seen.
    """
    row = session.get(NodeRow, wanted.node)
    if row is not None and is_live(row, now) and not _may_take(session, row, wanted, principal, now):
        claim(session, row, f"an agent at {origin}, with token {principal.name!r}", now)
        return Outcome(refused=_refusal(row.node))
    if principal.scope is Scope.ENROL and principal.token_id is not None:
        enrolment_rules.use(session, principal.token_id, wanted)
    token = fleet.enrol(session, wanted, actor=principal.actor, now=now, origin=origin)
    return Outcome(token)


def is_live(row: NodeRow, now: datetime) -> bool:
    """Whether the node is heard from, as far as is known."""
    if row.gone:
        return False
    return row.connected or (row.last_seen is not None and now - row.last_seen < timedelta(seconds=SILENT_S))


def claim(session: Session, row: NodeRow, by: str, now: datetime) -> None:
    """Somebody else claims the node's name."""
    told = row.claimed_at is not None and now - row.claimed_at < timedelta(seconds=CLAIM_TOLD_EVERY_S)
    if not told or row.claimed_by != by:
        message = f"two agents claim node {row.node}: the one that is heard from, and {by}"
        ledger.append(session, now, ledger.SERVICE, CLAIMED, f"node/{row.node}", message, claimed_by=by)
    row.claimed_at, row.claimed_by = now, by
    session.add(row)
    session.flush()


def release(session: Session, name: str, *, actor: ledger.Actor, now: datetime) -> NodeView:
    """Let another agent take this node's name, for `RELEASED_FOR_S` or until one has. Raises `NotFound`."""
    row = fleet.row_of(session, name)
    row.released_until = now + timedelta(seconds=RELEASED_FOR_S)
    session.add(row)
    session.flush()
    message = f"node {name} may be enrolled by another agent until {row.released_until:%H:%M:%S} UTC"
    ledger.append(session, now, actor, "node.released", f"node/{name}", message)
    return fleet.node(session, name)


def _may_take(session: Session, row: NodeRow, wanted: EnrolmentRequest, principal: Principal, now: datetime) -> bool:
    released = row.released_until is not None and now <= row.released_until
    own = wanted.old_token is not None and tokens.is_of_node(session, row.node, wanted.old_token)
    return principal.scope is Scope.ADMIN or released or own


def _refusal(node: str) -> NodeIsLive:
    return NodeIsLive(
        f"node: {node!r} is heard from, and this is not its agent: give this one another name (--node), or stop the "
        f"other one and wait {SILENT_S:.0f} s, or have an administrator release the name "
        f"(POST /api/v1/nodes/{node}/release)",
        field="node",
        node=node,
    )
