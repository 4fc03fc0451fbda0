"""What traffic a pool's configuration was tuned for: that of the newest study whose rollout was promoted."""

from sqlmodel import Session, col, select

from controlplane.advice.mix_advice import MeasuredTraffic
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.planning.traffic_mix import unpacked_mix
from controlplane.rollouts.tables import RolloutRow
from controlplane.studies.tables import StudyPlanRow, StudyRow


def measured_traffic(session: Session, pool: str) -> MeasuredTraffic | None:
    """None where no study was promoted, or the newest one that was has not kept what its traffic was like."""
    query = (
        select(StudyRow, RolloutRow, StudyPlanRow)
        .join(RolloutRow, col(RolloutRow.id) == col(StudyRow.rollout_id))
        .join(StudyPlanRow, col(StudyPlanRow.study_id) == col(StudyRow.id))
        .where(StudyRow.pool == pool, RolloutRow.phase == RolloutPhase.PROMOTED.value)
        .order_by(col(RolloutRow.ended_at).desc(), col(RolloutRow.id).desc())
        .limit(1)
    )
    found = session.exec(query).first()
    if found is None:
        return None
    study, rollout, plan = found
    mix = unpacked_mix(plan.plan.get("mix", ""))
    if mix is None or rollout.ended_at is None or study.id is None:
        return None
    return MeasuredTraffic(study.id, StudyCreate.model_validate(study.spec), rollout.ended_at, mix)
