"""Studies and trials as the API shows them."""

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyResult, Trial
from controlplane.studies.tables import StudyRow, TrialRow


def study_view(row: StudyRow, *, runs: int, finalist_runs: int, pool_revision: int | None) -> Study:
    """runs: those of the present attempt, finalists among them."""
    return Study(
        **row.model_dump(exclude={"spec", "result", "running_pool", "heard_at", "attempt", "pool"}),
        spec=StudyCreate.model_validate(row.spec),
        trials_done=runs - finalist_runs,
        finalist_runs=finalist_runs,
        pool_revision=pool_revision,
        result=None if row.result is None else StudyResult.model_validate(row.result),
    )


def trial_view(row: TrialRow) -> Trial:
    return Trial.model_validate({**row.report, "id": row.id, "study_id": row.study_id, "reported_at": row.reported_at})
