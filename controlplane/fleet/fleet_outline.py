"""What a fleet can be filtered by, without a row for each of its nodes.

Guarantee: the same pools, names and revisions that the whole fleet's columns have.
"""

from sqlmodel import Session, col, select

from controlplane.contract.bodies.nodes import MOST_NAMED, FleetOutline, NodeRole
from controlplane.fleet import machine, whole_fleet
from controlplane.fleet.running import RUNS
from controlplane.fleet.tables import NodeRow, PoolRow


def fleet_outline(session: Session, pool: str | None = None) -> FleetOutline:
    """`pool`: whose nodes are named; the first pool's without it."""
    alike = select(NodeRow.pool).add_columns(col(NodeRow.override_revision), *RUNS)
    serving = session.execute(alike.distinct().where(col(NodeRow.role) == NodeRole.SERVING.value)).all()
    promoted = dict(session.exec(select(PoolRow.name, PoolRow.revision)).all())
    pools = sorted({name for name, *_ in serving})
    shown = pool or next(iter(pools), "")
    wanted = {machine.wanted_revision(override, promoted.get(name)) for name, override, *_ in serving}
    running = {whole_fleet.runs(*told)[0] for _, _, *told in serving}
    names = select(NodeRow.node).order_by(col(NodeRow.node)).limit(MOST_NAMED + 1)
    nodes = session.exec(names.where(NodeRow.pool == shown) if shown else names).all()
    return FleetOutline(
        pool=shown,
        pools=pools,
        nodes=list(nodes) if len(nodes) <= MOST_NAMED else [],
        revisions=sorted(number for number in wanted | running if number),
    )
