"""Views of many nodes, read as columns: a third of the work of reading each row whole.

Guarantee: as `node_view` of each row. What is remembered follows from a text alone, and that text is what this
transaction has read: a view is as new as that, whoever has changed the node.
"""

from typing import Any

from sqlalchemy import Select, String, cast
from sqlmodel import Session, col, select

from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole, NodeView
from controlplane.fleet import effective, machine
from controlplane.fleet.tables import NodeRow
from controlplane.fleet.view import AS_IN_THE_ROW, view_from
from controlplane.fleet.wishes import Wishes

TEXT = cast(col(NodeRow.effective), String)
"""What a node has reported that it runs, as JSON: `effective.stored_text` reads it."""
_OF_THE_ROW = tuple(col(getattr(NodeRow, name)) for name in AS_IN_THE_ROW)
_MORE = (col(NodeRow.override_revision), col(NodeRow.cache_reset), col(NodeRow.config_hash), TEXT)


def columns() -> Select[Any]:
    """Of all nodes; to be narrowed, and given to `node_views`."""
    return select(*_OF_THE_ROW, *_MORE)  # type: ignore[call-overload, no-any-return]


def node_views(session: Session, query: Select[Any]) -> list[NodeView]:
    """In the query's order."""
    wishes = Wishes(session)
    count = len(AS_IN_THE_ROW)
    found = []
    for row in session.execute(query):
        shown = dict(zip(AS_IN_THE_ROW, row[:count], strict=True))
        override, cache_reset, config_hash, text = row[count:]
        acknowledged = machine.Acknowledged(config_hash, ConfigStatus(shown["config_status"]), shown["config_error"])
        runs = effective.stored_text(shown["node"], text)
        wish = wishes.wanted(NodeRole(shown["role"]), shown["pool"], override, cache_reset)
        found.append(view_from(shown, cache_reset, acknowledged, runs, wish))
    return found
