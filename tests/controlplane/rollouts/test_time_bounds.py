"""How long each phase may take, and all of them: what time has to do with the phase, and what has no bound."""

import pytest

from controlplane.contract.bodies.rollouts import OnInconclusive, RolloutCreate, RolloutPhase, Stage
from controlplane.rollouts.decision import State
from controlplane.rollouts.outlook import waves_of
from controlplane.rollouts.patience import LIVE_TIMEOUT_S
from controlplane.rollouts.stages import Groups, alike
from controlplane.rollouts.time_bounds import longest_s, phase_bound_s, waits_for_people

SPEC = RolloutCreate(
    pool="chat",
    revision=2,
    apply_timeout_s=40,
    min_judge_s=30,
    max_judge_s=300,
    extended_judge_s=900,
    soak_s=60,
    wave_by="region",
    wave_soak_s=600,
    canary_share=0.25,
)
REGIONS = Groups((("eu", 2), ("us", 2)))


def state(phase: RolloutPhase, told: int = 1, **said: object) -> State:
    nodes = tuple(f"gpu-{number}" for number in range(told))
    return State(phase, SPEC.model_copy(update=said), canary_nodes=nodes[:1], told_nodes=nodes)


@pytest.mark.parametrize(
    "phase",
    [RolloutPhase.VALIDATING, RolloutPhase.CANARY, RolloutPhase.PROMOTING, RolloutPhase.ROLLING_BACK],
)
def test_what_is_being_applied_has_the_rollouts_own_time_or_that_of_live_changes(phase: RolloutPhase) -> None:
    assert phase_bound_s(state(phase), alike(4)) == 40
    assert phase_bound_s(state(phase, apply_timeout_s=None), alike(4)) == LIVE_TIMEOUT_S


def test_the_canary_may_be_judged_for_longer_than_a_wave_and_none_for_less_than_it_must() -> None:
    judging = RolloutPhase.JUDGING
    assert phase_bound_s(state(judging), alike(4)) == 900
    assert phase_bound_s(state(judging, told=2), alike(4)) == 300
    assert phase_bound_s(state(judging, told=2, min_judge_s=400.0), alike(4)) == 400


def test_a_group_that_is_done_is_watched_for_longer_where_another_follows() -> None:
    soaking = RolloutPhase.SOAKING
    assert [phase_bound_s(state(soaking, told=told), REGIONS) for told in (1, 2, 3, 4)] == [60, 600, 60, 60]


@pytest.mark.parametrize("phase", [RolloutPhase.PROPOSED, RolloutPhase.PAUSED, RolloutPhase.PROMOTED])
def test_what_waits_for_a_person_or_has_ended_has_no_bound(phase: RolloutPhase) -> None:
    assert phase_bound_s(state(phase), alike(4)) is None


def test_all_of_it_is_the_sum_of_its_waves_and_an_emergency_is_applied_at_once() -> None:
    waves = waves_of(SPEC, alike(4))
    assert len(waves) == 4
    assert longest_s(SPEC, waves) == (40 + 900 + 60) + 3 * (40 + 300 + 60)
    assert longest_s(SPEC.model_copy(update={"emergency": True}), waves) == 40


def test_people_are_waited_for_where_a_stage_or_an_undecided_canary_asks_for_one() -> None:
    paused = SPEC.model_copy(update={"stages": [Stage(share=0.5, pause=True), Stage(share=1)]})
    goes_back = SPEC.model_copy(update={"on_inconclusive": OnInconclusive.ROLL_BACK})
    assert not waits_for_people(goes_back, waves_of(goes_back, alike(4)))
    assert waits_for_people(SPEC, waves_of(SPEC, alike(4))), "an undecided canary is held, unless somebody says else"
    by_stages = paused.model_copy(update={"on_inconclusive": OnInconclusive.ROLL_BACK})
    assert waits_for_people(by_stages, waves_of(by_stages, alike(4)))
    at_once = paused.model_copy(update={"emergency": True})
    assert not waits_for_people(at_once, waves_of(at_once, alike(4)))
