"""What has to be pushed to connected nodes by itself: read together, and of each only what says whether it is due.

Guarantee: as the answer to a report of the node would say at this moment.
"""

from collections.abc import Sequence
from typing import Any

from sqlmodel import col, select

from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole
from controlplane.db.database import Database
from controlplane.fleet import effective, machine
from controlplane.fleet.node_views import TEXT
from controlplane.fleet.opamp.session import Answer, Terms
from controlplane.fleet.opamp.wire import Reply
from controlplane.fleet.tables import NodeRow
from controlplane.fleet.wishes import Wishes

_READ = (
    *(col(NodeRow.node), col(NodeRow.instance_uid), col(NodeRow.role), col(NodeRow.pool)),
    *(col(NodeRow.override_revision), col(NodeRow.cache_reset)),
    *(col(NodeRow.config_hash), col(NodeRow.config_status), col(NodeRow.config_error), TEXT),
)


def offers(database: Database, nodes: Sequence[str], terms: Terms) -> list[Answer | None]:
    """To each of these nodes; None where it is gone."""
    query: Any = select(*_READ).where(col(NodeRow.node).in_(nodes))  # type: ignore[call-overload]
    with database.read_session() as session:
        wishes = Wishes(session)
        found = {row[0]: _offer(row, wishes, terms) for row in session.execute(query)}
    return [found.get(node) for node in nodes]


def _offer(row: Sequence[Any], wishes: Wishes, terms: Terms) -> Answer | None:
    node, instance_uid, role, pool, override, cache_reset, config_hash, status, error, text = row
    if instance_uid is None:
        return None
    wish = wishes.wanted(NodeRole(role), pool, override, cache_reset)
    acknowledged = machine.Acknowledged(config_hash, ConfigStatus(status), error)
    due = machine.must_offer(wish, acknowledged, effective.stored_text(node, text))
    reply = Reply(instance_uid, offer=wish if due else None, lease_s=terms.lease_s)
    return Answer(reply, node, None if wish is None else wish.mark)
