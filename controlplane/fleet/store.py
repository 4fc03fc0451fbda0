"""The fleet's registry: nodes, pools, and what each node should run. All in the caller's transaction.

Guarantee: whatever changes what a node should run also brings its drift up to date, in the same transaction. The
caller pokes the `FleetHub` after the commit, so that connected agents hear of it at once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, and_, col, or_, select, update

from controlplane import ledger
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import EnrolmentRequest, Scope
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeRole, NodeView, TrialConfig
from controlplane.contract.changes.label_selector import Selector
from controlplane.contract.errors import Conflict, NotFound
from controlplane.contract.reports.declared_knobs import DeclaredBySome, by_some
from controlplane.fleet import machine, node_drift, revisions
from controlplane.fleet.declared_by_nodes import declared_by_nodes
from controlplane.fleet.node_drift import MOST_NAMED
from controlplane.fleet.node_views import columns, node_views
from controlplane.fleet.revisions import revision as revision
from controlplane.fleet.selected_nodes import conditions
from controlplane.fleet.tables import NodeRow, PoolRow
from controlplane.fleet.view import node_view
from controlplane.fleet.wishes import Wishes

HTTP_SILENCE_S = 30.0
"""A node that speaks OpAMP over HTTP is gone after three missed heartbeats of 10 s."""

SOCKET_SILENCE_S = 150.0
"""Over WebSocket the close tells; this only catches what a killed service left behind (heartbeats are up to 50 s)."""


EVERY_NODE = Selector()

# -- reading -----------------------------------------------------------------------------------------------------------


def nodes(
    session: Session,
    *,
    pool: str | None = None,
    role: NodeRole | str | None = None,
    named: str | None = None,
    selector: Selector = EVERY_NODE,
    after: str | None = None,
    limit: int | None = None,
) -> list[NodeView]:
    """Nodes by name, rising; `after` and `limit` page through them. `named`: what the name holds, in any case."""
    query = columns().order_by(col(NodeRow.node))
    if pool is not None:
        query = query.where(col(NodeRow.pool) == pool)
    if role is not None:
        query = query.where(col(NodeRow.role) == NodeRole(role).value)
    if named:
        query = query.where(col(NodeRow.node).icontains(named, autoescape=True))
    query = query.where(*conditions(selector))
    if after is not None:
        query = query.where(col(NodeRow.node) > after)
    if limit is not None:
        query = query.limit(limit)
    return node_views(session, query)


def any_node(session: Session, *, read: bool = False) -> bool:
    """Whether a node is enrolled; `read`: one whose effective configuration was read."""
    query = select(NodeRow.node).limit(1)
    return session.exec(query.where(col(NodeRow.effective).is_not(None)) if read else query).first() is not None


def node(session: Session, name: str) -> NodeView:
    """One node. Raises `NotFound`."""
    row = row_of(session, name)
    return node_view(row, wish_of(session, row))


def row_of(session: Session, name: str) -> NodeRow:
    row = session.get(NodeRow, name)
    if row is None:
        raise NotFound(f"node: no node {name!r}; GET /api/v1/nodes lists them", field="node")
    return row


def _check_known(session: Session, names: Sequence[str]) -> None:
    """Raises `NotFound`."""
    known: set[str] = set()
    for begin in range(0, len(names), MOST_NAMED):
        some = col(NodeRow.node).in_(names[begin : begin + MOST_NAMED])
        known |= set(session.exec(select(NodeRow.node).where(some)))
    for name in names:
        if name not in known:
            row_of(session, name)


def pool_revision(session: Session, pool: str) -> int | None:
    """The revision in production in this pool; None when none is known yet, or when there is no such pool."""
    row = session.get(PoolRow, pool)
    return None if row is None else row.revision


def wish_of(session: Session, row: NodeRow) -> machine.Wish | None:
    """What this node should do."""
    return Wishes(session).of(row)


# -- changing what should run ------------------------------------------------------------------------------------------


def create_revision(
    session: Session, wanted: RevisionCreate, actor: str, now: datetime, declared: DeclaredBySome | None = None
) -> Revision:
    """The revision with these knobs; an equal one is returned as it is."""
    return revisions.find_or_create(session, wanted, actor=actor, now=now, declared=declared)[0]


def set_pool_revision(session: Session, pool: str, number: int, now: datetime) -> None:
    """Make a revision the pool's production one. Raises `NotFound` for an unknown pool or revision."""
    row = session.get(PoolRow, pool, with_for_update=True)
    if row is None:
        raise NotFound(f"pool: no pool {pool!r}; a pool exists once a node has enrolled in it", field="pool")
    revision(session, number)
    row.revision = number
    session.add(row)
    session.flush()
    node_drift.refresh_those(session, col(NodeRow.pool) == pool, now)


def set_override(session: Session, node_names: Sequence[str], number: int | None, now: datetime) -> None:
    """Give nodes a revision of their own (a canary, a trial), or with None the pool's again.

    Raises `NotFound` for an unknown node or revision; then nothing is changed.
    """
    if number is not None:
        revision(session, number)
    _check_known(session, node_names)
    names = sorted(node_names)
    for begin in range(0, len(names), MOST_NAMED):
        some = col(NodeRow.node).in_(names[begin : begin + MOST_NAMED])
        other = col(NodeRow.override_revision).is_distinct_from(number)
        # Locked by rising name, as all do who change several.
        locked = select(NodeRow.node).where(some, other).order_by(col(NodeRow.node)).with_for_update()
        changed = col(NodeRow.node).in_(session.exec(locked).all())
        session.exec(update(NodeRow).where(changed).values(override_revision=number))
        node_drift.refresh_those(session, changed, now)


def ask_cache_reset(session: Session, name: str) -> NodeView:
    """Have a trial node empty its prefix cache once more. Raises `NotFound`, or `Conflict` for a serving node."""
    row = _trial_row(session, name)
    row.cache_reset += 1
    session.add(row)
    session.flush()
    return node(session, name)


def set_trial_config(session: Session, name: str, wanted: TrialConfig, *, actor: str, now: datetime) -> NodeView:
    """Give a trial node a configuration of its own, of the contract's knobs and those that it declares.

    Raises `Conflict` for a serving node: rollouts change those."""
    _trial_row(session, name)
    creation = RevisionCreate(knobs=wanted.knobs, note=f"trial on node {name}")
    number = create_revision(session, creation, actor, now, declared_by_nodes(session, node=name)).number
    set_override(session, [name], number, now)
    message = f"trial node {name} is given revision {number}"
    ledger.append(session, now, actor, "node.trial_config", f"node/{name}", message, revision=number)
    return node(session, name)


def _trial_row(session: Session, name: str) -> NodeRow:
    row = row_of(session, name)
    if row.role != NodeRole.TRIAL.value:
        raise Conflict(
            f"node {name} is a {row.role} node: serving nodes are changed by rollouts (POST /api/v1/rollouts)",
            field="node",
            role=row.role,
        )
    return row


def adopt(session: Session, row: NodeRow, runs: EffectiveConfig | None, now: datetime, wishes: Wishes) -> None:
    """Make what this serving node runs its pool's first revision, when the pool has none yet."""
    if wishes.production(row.pool) is not None:
        return
    if runs is None or not machine.adoptable(NodeRole(row.role), None, runs):
        return
    wishes.pool_changed(row.pool)
    # Only now the lock: two first nodes of a pool may report at the same time, and one of them is adopted.
    pool = session.get_one(PoolRow, row.pool, with_for_update=True, populate_existing=True)
    if pool.revision is not None:
        return
    wanted = RevisionCreate(knobs=machine.known(runs), note=f"adopted from node {row.node}")
    made = create_revision(session, wanted, ledger.SERVICE, now, by_some([runs.declared]))
    pool.revision = made.number
    session.add(pool)
    session.flush()
    message = f"pool {row.pool} starts with revision {made.number}, adopted from node {row.node}"
    evidence = {"revision": made.number, "node": row.node, "knobs": made.knobs.knobs()}
    ledger.append(session, now, ledger.SERVICE, "revision.adopted", f"pool/{row.pool}", message, **evidence)


# -- coming and going --------------------------------------------------------------------------------------------------


def enrol(session: Session, wanted: EnrolmentRequest, *, actor: str, now: datetime, origin: str = "") -> str:
    """Register a node, or register it again; returns its new token. Its older tokens end. `origin`: who asked."""
    again = session.get(NodeRow, wanted.node) is not None
    row = place(session, wanted.node, pool=wanted.pool, role=wanted.role, backend=wanted.backend, now=now)
    row.released_until = row.replaced_uid = None
    tokens.revoke_of_node(session, wanted.node, now)
    _, token = tokens.issue(
        session, name=f"agent {wanted.node}", scope=Scope.AGENT, now=now, node=wanted.node, pool=wanted.pool
    )
    message = f"node {wanted.node} enrolled {'again ' if again else ''}in pool {wanted.pool} as {wanted.role}"
    evidence = {"again": again, "origin": origin, **wanted.model_dump(exclude={"node", "old_token"})}
    ledger.append(session, now, actor, "node.enrolled", f"node/{wanted.node}", message, **evidence)
    return token


def place(session: Session, name: str, *, pool: str, role: str, backend: str, now: datetime) -> NodeRow:
    """The node's row, made where there is none, moved where it has changed its pool or role."""
    _ensure_pool(session, pool, now)
    row = session.get(NodeRow, name)
    if row is None:
        row = NodeRow(
            node=name, pool=pool, role=role, backend=backend, config_status=ConfigStatus.UNSET.value, created_at=now
        )
    elif (row.pool, row.role) != (pool, role):
        message = f"node {name} moved from {row.pool} ({row.role}) to {pool} ({role})"
        ledger.append(session, now, ledger.SERVICE, "node.moved", f"node/{name}", message)
        # An override was given for the old place: in the new one the node follows its pool.
        row.pool, row.role, row.override_revision = pool, role, None
    row.backend = backend
    session.add(row)
    session.flush()
    return row


def _ensure_pool(session: Session, pool: str, now: datetime) -> None:
    if session.get(PoolRow, pool) is not None:
        return
    try:
        with session.begin_nested():
            session.add(PoolRow(name=pool, created_at=now))
    except IntegrityError:
        # Another node of the pool was faster (PostgreSQL only).
        session.get_one(PoolRow, pool)


def remove(session: Session, name: str, *, actor: str, now: datetime) -> None:
    """Forget a node and end its tokens. It may enrol again."""
    row = row_of(session, name)
    tokens.revoke_of_node(session, name, now)
    session.delete(row)
    session.flush()
    ledger.append(session, now, actor, "node.removed", f"node/{name}", f"node {name} removed")


def disconnect(session: Session, connection: str, node: str | None = None) -> None:
    """A WebSocket has closed: its node is gone, unless it has connected elsewhere since. node: whose it was, where that
    is known; all nodes are looked through where it is not."""
    query = select(NodeRow).where(NodeRow.connection == connection)
    for row in session.exec(query if node is None else query.where(NodeRow.node == node)):
        row.connected, row.connection = False, None
        session.add(row)


def expire_silent(session: Session, now: datetime) -> int:
    """Mark nodes that have been silent for too long as not connected; returns how many."""
    seen, over_http = col(NodeRow.last_seen), col(NodeRow.connection).is_(None)
    silent = or_(
        seen.is_(None),
        seen < now - timedelta(seconds=SOCKET_SILENCE_S),
        and_(over_http, seen < now - timedelta(seconds=HTTP_SILENCE_S)),
    )
    rows = session.exec(select(NodeRow).where(col(NodeRow.connected).is_(True), silent)).all()
    for row in rows:
        row.connected, row.connection = False, None
        session.add(row)
    return len(rows)
