"""Whether a wanted study can be queued: its spec, and its pool's nodes."""

from collections.abc import Sequence

from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.study_checks import check_spec


def check_study(spec: StudyCreate, nodes: Sequence[NodeView]) -> None:
    """Raises `BadRequest`, `UnknownKnob` or `KnobOutOfRange` for the first wrong field. `nodes`: those of the pool."""
    check_spec(spec)
    if not any(node.role is NodeRole.SERVING for node in nodes):
        raise BadRequest(f"pool: {spec.pool!r} has no serving nodes", field="pool")
