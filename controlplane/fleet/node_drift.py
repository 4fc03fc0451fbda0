"""Since when nodes run something else than they should, brought up to date where what they should run has changed."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement
from sqlalchemy.orm.attributes import set_attribute
from sqlmodel import Session, col, select, update

from controlplane.contract.bodies.nodes import EffectiveConfig, NodeRole
from controlplane.fleet import machine
from controlplane.fleet.running import RUNS, running
from controlplane.fleet.tables import NodeRow
from controlplane.fleet.wishes import Wishes

MOST_NAMED = 5_000
"""Names in one statement: databases take some ten thousands."""


def refresh(row: NodeRow, wish: machine.Wish | None, runs: EffectiveConfig | None, now: datetime) -> None:
    """Set or clear a row's `drift_since` by what its node should run and what it last said it runs."""
    drifts = machine.drifts(wish, runs)
    if drifts != (row.drift_since is not None):
        set_attribute(row, "drift_since", now if drifts else None)  # Without what SQLModel adds to it.


def refresh_those(session: Session, those: ColumnElement[bool], now: datetime) -> None:
    """As `refresh`, of all nodes of which this is so, without reading each whole."""
    of = NodeRow
    wanted = select(of.node, of.pool, of.role).add_columns(col(of.override_revision), col(of.cache_reset))
    query = wanted.add_columns(col(of.drift_since), *RUNS).where(those)
    # By rising name, as all lock them who change several: nobody waits for another in a circle.
    query = query.order_by(col(of.node)).with_for_update()
    wishes = Wishes(session)
    known: dict[tuple[machine.Mark | None, tuple[str | None, ...]], bool] = {}  # Most nodes of a pool are alike.
    begins: list[str] = []
    ends: list[str] = []
    for node, pool, role, override, cache_reset, since, *told in session.execute(query):
        mark = wishes.mark(NodeRole(role), pool, override, cache_reset)
        key = mark, tuple(told)
        if key not in known:
            known[key] = mark is not None and machine.drifts(wishes.of_mark(mark), running(*told))
        drifts = known[key]
        if drifts and since is None:
            begins.append(node)
        elif not drifts and since is not None:
            ends.append(node)
    _write(session, begins, now)
    _write(session, ends, None)


def _write(session: Session, nodes: Sequence[str], since: datetime | None) -> None:
    for place in range(0, len(nodes), MOST_NAMED):
        some = col(NodeRow.node).in_(nodes[place : place + MOST_NAMED])
        session.exec(update(NodeRow).where(some).values(drift_since=since))
