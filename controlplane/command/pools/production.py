"""What a pool serves with: its serving nodes, and the revision that they should run."""

from collections.abc import Iterable

from controlplane.contract.bodies.nodes import NodeRole, NodeView


def serving(nodes: Iterable[NodeView], pool: str) -> list[NodeView]:
    """A trial node's configuration is an experiment."""
    return [node for node in nodes if node.pool == pool and node.role is NodeRole.SERVING]


def production_revision(nodes: Iterable[NodeView], pool: str) -> int | None:
    """None where no serving node was told one."""
    return next((node.desired_revision for node in serving(nodes, pool) if node.desired_revision), None)
