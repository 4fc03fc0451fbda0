"""Which study the story waits for."""

from datetime import UTC, datetime

from agents.demo.improvement import study_of
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep


def _step(action: RemedyAction, state: RemedyState, study_id: int | None) -> RemedyStep:
    return RemedyStep(
        time=datetime(2030, 1, 1, tzinfo=UTC),
        action=action,
        state=state,
        cause="config_change",
        why="",
        study_id=study_id,
    )


def test_of_two_alerts_at_once_the_one_is_served_by_the_others_study() -> None:
    back = _step(RemedyAction.ROLL_BACK, RemedyState.STARTED, None)
    own = _step(RemedyAction.STUDY, RemedyState.STARTED, 1)
    others = _step(RemedyAction.STUDY, RemedyState.DECLINED, 2)
    cooldown = _step(RemedyAction.STUDY, RemedyState.DECLINED, None)
    offered = _step(RemedyAction.STUDY, RemedyState.OFFERED, None)
    assert study_of([back, own]) == 1
    assert study_of([back, others, back]) == 2
    assert study_of([back, cooldown, own, cooldown]) == 1
    assert study_of([back, cooldown, offered]) is None and study_of([]) is None
