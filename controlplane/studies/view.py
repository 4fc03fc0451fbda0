"""Studies and trials as the API shows them."""

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyResult, Trial, TrialState
from controlplane.contract.bodies.workload import KeptPromptSet, KeptWorkload
from controlplane.studies.tables import PromptSetRow, StudyRow, TrialLeaseRow, TrialRow, WorkloadRow


def study_view(row: StudyRow, *, runs: int, finalist_runs: int, pool_revision: int | None) -> Study:
    """runs: those that were measured, finalists among them."""
    return Study(
        **row.model_dump(exclude={"spec", "result", "running_pool", "heard_at", "attempt", "pool", "online"}),
        spec=StudyCreate.model_validate(row.spec),
        trials_done=runs - finalist_runs,
        finalist_runs=finalist_runs,
        pool_revision=pool_revision,
        result=None if row.result is None else StudyResult.model_validate(row.result),
    )


def trial_view(row: TrialRow, lease: TrialLeaseRow | None, *, samples: bool = False) -> Trial:
    """`lease`: the one it was last taken under; None of a step in production."""
    told = dict(row.report or {"number": row.number, "kind": row.kind, "knobs": row.knobs, "state": _state(row, lease)})
    if not samples:
        told.pop("samples", None)
    return Trial.model_validate(
        {
            **told,
            "id": row.id,
            "study_id": row.study_id,
            "order": row.order,
            "step": row.step,
            "worker": None if lease is None else lease.worker,
            "node": None if lease is None else lease.node,
            "takings": row.takings,
            "reported_at": row.reported_at,
        }
    )


def workload_view(row: WorkloadRow) -> KeptWorkload:
    return KeptWorkload.model_validate({**row.model_dump(exclude={"traffic"}), "packed_bytes": len(row.traffic)})


def prompt_set_view(row: PromptSetRow) -> KeptPromptSet:
    return KeptPromptSet.model_validate(row.model_dump(exclude={"prompts"}))


def _state(row: TrialRow, lease: TrialLeaseRow | None) -> TrialState:
    """Of one that was not measured yet."""
    if lease is None:
        return TrialState.RUNNING
    held = lease.held_node is not None and lease.number == row.number
    return TrialState.RUNNING if held else TrialState.WAITING
