"""Rows as others see them: the API's views, and the parts of a node that the decisions need."""

from typing import Any

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeView
from controlplane.fleet import effective, machine
from controlplane.fleet.tables import NodeRow, RevisionRow

AS_IN_THE_ROW = tuple(name for name in NodeView.model_fields if name in NodeRow.model_fields and name != "effective")
"""What of a node is shown as its row has it, or has another meaning there (`view_from`)."""


def effective_of(row: NodeRow) -> EffectiveConfig | None:
    return effective.stored(row.node, row.effective)


def acknowledged_of(row: NodeRow) -> machine.Acknowledged:
    return machine.Acknowledged(row.config_hash, ConfigStatus(row.config_status), row.config_error)


def revision_view(row: RevisionRow) -> Revision:
    return Revision.model_validate(row, from_attributes=True)


def node_view(row: NodeRow, wish: machine.Wish | None) -> NodeView:
    """The row as the API shows it."""
    shown = {name: getattr(row, name) for name in AS_IN_THE_ROW}
    return view_from(shown, row.cache_reset, acknowledged_of(row), effective_of(row), wish)


def view_from(
    shown: dict[str, Any],
    cache_reset: int,
    acknowledged: machine.Acknowledged,
    runs: EffectiveConfig | None,
    wish: machine.Wish | None,
) -> NodeView:
    """shown: `AS_IN_THE_ROW` by name. `config_status` and `config_error` speak of the desired revision."""
    desired = None if wish is None else wish.revision
    offering = machine.must_offer(wish, acknowledged, runs)
    status, error = machine.shown_status(desired, acknowledged, offering)
    shown |= {
        "desired_revision": None if desired is None else desired.number,
        "desired_cache_reset": cache_reset,
        "effective": runs,
        "config_status": status,
        "config_error": error,
        "drift": shown["drift_since"] is not None,
    }
    return NodeView.model_validate(shown)
