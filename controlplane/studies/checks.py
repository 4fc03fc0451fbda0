"""Whether a wanted study can be queued: its spec, and its pool's nodes."""

from collections.abc import Sequence

from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.study_checks import check_spec
from controlplane.contract.reports.declared_knobs import DeclaredBySome
from controlplane.studies.online.live_knobs import bounds_of


def knobs_named(spec: StudyCreate) -> set[str]:
    """All knobs that a study names: those that are not the contract's, nodes have to declare."""
    return {*spec.space, *(name for knobs in spec.suggested for name in knobs)}


def check_study(spec: StudyCreate, nodes: Sequence[NodeView], declared: DeclaredBySome) -> None:
    """Raises `BadRequest`, `UnknownKnob` or `KnobOutOfRange` for the first wrong field. `nodes`: those of the pool;
    `declared`: by whatever nodes there are, since the trial node may be of any pool."""
    check_spec(spec, declared)
    serving = [node for node in nodes if node.role is NodeRole.SERVING]
    if not serving:
        raise BadRequest(f"pool: {spec.pool!r} has no serving nodes", field="pool")
    if spec.online is not None:
        bounds_of(spec, serving)
