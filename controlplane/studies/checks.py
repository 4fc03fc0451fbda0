"""Whether a wanted study can be queued: its spec, its pool's nodes, and the traffic and prompts that it names."""

from sqlmodel import Session

from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.study_checks import check_spec
from controlplane.fleet import store as fleet
from controlplane.fleet.declared_by_nodes import declared_for
from controlplane.studies.online.live_knobs import bounds_of
from controlplane.studies.prompt_sets import prompt_set_store
from controlplane.studies.workloads.workload_store import check_kept


def check_study(session: Session, spec: StudyCreate) -> None:
    """Raises `BadRequest`, `UnknownKnob` or `KnobOutOfRange` for the first wrong field. A knob that is not the
    contract's may be declared by whatever node there is, since the trial node may be of any pool."""
    named = {*spec.space, *(name for knobs in spec.suggested for name in knobs)}
    check_spec(spec, declared_for(session, named))
    serving = [node for node in fleet.nodes(session, pool=spec.pool) if node.role is NodeRole.SERVING]
    if not serving:
        raise BadRequest(f"pool: {spec.pool!r} has no serving nodes", field="pool")
    if spec.online is not None:
        bounds_of(spec, serving)
    check_kept(session, spec.workload)
    prompt_set_store.check_kept(session, spec.prompts)
