"""A selector as conditions of the database: the nodes that `Selector.matches` lets in, without reading others."""

from typing import Any

from sqlalchemy import ColumnElement, String, type_coerce
from sqlmodel import col, or_

from controlplane.contract.changes.label_selector import Operator, Requirement, Selector
from controlplane.contract.reports.node_labels import SAID_BY_NODE
from controlplane.fleet.tables import NodeRow


def conditions(selector: Selector) -> list[ColumnElement[bool]]:
    """All of which a node's row has to meet: one a requirement, none for a selector that matches every node."""
    return [_condition(one) for one in selector.requirements]


def _condition(wanted: Requirement) -> ColumnElement[bool]:
    value = _value_of(wanted.name)
    match wanted.operator:
        case Operator.IN:
            return value.in_(wanted.values)
        case Operator.NOT_IN:
            return or_(value.is_(None), value.not_in(wanted.values))
        case Operator.EXISTS:
            return value.is_not(None)
        case Operator.ABSENT:
            return value.is_(None)


def _value_of(name: str) -> ColumnElement[Any]:
    """NULL where the node has no such label. A name holds no quote, so that none can end a path early."""
    if name in SAID_BY_NODE:
        return type_coerce(getattr(NodeRow, name), String)
    return col(NodeRow.labels)[name].as_string()  # type: ignore[no-any-return]
