"""Rows as others see them: the API's views, and the parts of a node that the decisions need."""

from typing import Any

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeView
from controlplane.fleet import effective, machine
from controlplane.fleet.tables import NodeRow, RevisionRow

_AS_IN_THE_ROW = tuple(name for name in NodeView.model_fields if name in NodeRow.model_fields)


def effective_of(row: NodeRow) -> EffectiveConfig | None:
    return effective.stored(row.node, row.effective)


def acknowledged_of(row: NodeRow) -> machine.Acknowledged:
    return machine.Acknowledged(row.config_hash, ConfigStatus(row.config_status), row.config_error)


def revision_view(row: RevisionRow) -> Revision:
    return Revision.model_validate(row, from_attributes=True)


def node_view(row: NodeRow, wish: machine.Wish | None) -> NodeView:
    """The row as the API shows it; `config_status` and `config_error` speak of the desired revision."""
    runs, acknowledged = effective_of(row), acknowledged_of(row)
    desired = None if wish is None else wish.revision
    offering = machine.must_offer(wish, acknowledged, runs)
    status, error = machine.shown_status(desired, acknowledged, offering)
    shown: dict[str, Any] = {name: getattr(row, name) for name in _AS_IN_THE_ROW}
    shown |= {
        "desired_revision": None if desired is None else desired.number,
        "desired_cache_reset": row.cache_reset,
        "effective": runs,
        "config_status": status,
        "config_error": error,
        "drift": row.drift_since is not None,
    }
    return NodeView.model_validate(shown)
