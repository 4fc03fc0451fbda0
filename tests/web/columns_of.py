"""Nodes as the columns that the service answers the whole fleet in, for pages that are drawn without a service."""

from collections.abc import Sequence

from controlplane.contract.bodies.nodes import ConfigStatus, FleetColumns, NodeView, state_of


def columns_of(nodes: Sequence[NodeView]) -> FleetColumns:
    """By name, rising. Equal knobs have equal hashes."""
    ordered = sorted(nodes, key=lambda node: node.node)
    same = (
        "node",
        "pool",
        "role",
        "backend",
        "model",
        "desired_revision",
        "drift_since",
        "unaccounted_share",
        "last_seen",
    )
    columns = {name: [getattr(node, name) for node in ordered] for name in same}
    effective = [node.effective for node in ordered]
    label_sets: list[dict[str, str]] = []
    for node in ordered:
        if node.labels not in label_sets:
            label_sets.append(node.labels)
    return FleetColumns.model_validate(
        columns
        | {
            "state": [state_of(node.connected, node.healthy, node.health_detail) for node in ordered],
            "config_failed": [node.config_status is ConfigStatus.FAILED for node in ordered],
            "revision": [None if runs is None else runs.revision for runs in effective],
            "labels": [label_sets.index(node.labels) for node in ordered],
            "label_sets": label_sets,
            "config_hash": ["" if runs is None else str(sorted(runs.knobs.items())) for runs in effective],
        }
    )
