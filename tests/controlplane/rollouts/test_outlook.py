"""What a rollout is about to do, as its page, the command and its confirmation say it."""

from datetime import UTC, datetime

import pytest

from controlplane.contract.bodies.rollouts import ENDED, OnInconclusive, RolloutCreate, RolloutPhase, Stage
from controlplane.contract.changes.hooks import HookCall, HookKind, HookState
from controlplane.rollouts.decision import State
from controlplane.rollouts.interventions import PAUSED_BY
from controlplane.rollouts.outlook import held_by, next_of, sentences, waves_of
from controlplane.rollouts.stages import Groups, alike

SPEC = RolloutCreate(
    pool="chat", revision=2, apply_timeout_s=60, max_judge_s=240, extended_judge_s=240, soak_s=0, canary_share=0.25
)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
NODES = ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]


def state(phase: RolloutPhase, told: int = 1, message: str = "", **said: object) -> State:
    nodes = tuple(NODES[:told])
    spec = SPEC.model_copy(update=said)
    return State(phase, spec, previous_revision=1, canary_nodes=nodes[:1], told_nodes=nodes, message=message)


def test_each_wave_says_how_many_nodes_which_and_what_follows() -> None:
    spec = SPEC.model_copy(update={"soak_s": 90.0, "stages": [Stage(share=0.5, pause=True), Stage(share=1)]})
    canary, rest = waves_of(spec, alike(4), NODES)
    assert (canary.named, rest.named) == (NODES[:2], NODES[2:])
    assert canary.says == "2 of 4 nodes as the canary, then judged; watched on for 90.0 s; then a person resumes"
    assert rest.says == "4 of 4 nodes, then judged; watched on for 90.0 s"


def test_waves_by_a_label_name_its_value_and_those_without() -> None:
    spec = SPEC.model_copy(update={"wave_by": "region", "wave_pause": True, "canary_share": 0.5})
    first, second = waves_of(spec, Groups((("eu", 2), ("", 2))))
    assert first.says.startswith("2 of 4 nodes (region eu) as the canary") and first.pauses
    assert second.says.startswith("4 of 4 nodes (without a label region)") and not second.pauses


def test_an_emergency_is_one_wave_that_nobody_judges() -> None:
    (wave,) = waves_of(SPEC.model_copy(update={"emergency": True, "soak_s": 90.0}), alike(4), NODES)
    assert wave.says == "4 of 4 nodes at once, unjudged" and wave.soak_s == 0.0


def test_of_no_nodes_there_is_no_wave() -> None:
    assert waves_of(SPEC, alike(0)) == []


def test_the_forecast_ends_with_the_longest_time_and_says_where_people_are_waited_for() -> None:
    waves = waves_of(SPEC, alike(4))
    *each, longest, people = sentences(SPEC, waves)
    assert [one[:2] for one in each] == ["1.", "2.", "3.", "4."]
    assert longest == "it is promoted or goes back within 1200 s of its start"
    assert "as long as they take" in people
    alone = SPEC.model_copy(update={"on_inconclusive": OnInconclusive.ROLL_BACK})
    assert sentences(alone, waves) == [*each, longest]


def test_what_it_waits_for_is_said_unless_a_person_has_paused_it() -> None:
    paused = RolloutPhase.PAUSED
    assert held_by(state(paused, message="the canary is undecided"), []) == "the canary is undecided"
    assert held_by(state(paused, message=f"{PAUSED_BY} ada"), []) is None
    assert held_by(state(RolloutPhase.JUDGING), []) is None
    calls = [
        HookCall(name=name, kind=HookKind.CONFIRM_PROMOTION, step=1, state=said, reason=why, asked_at=NOW)
        for name, said, why in (("cab", HookState.HALT, "friday"), ("qa", HookState.WAITING, ""))
    ]
    assert held_by(state(RolloutPhase.JUDGING), calls) == "hook cab wants it to wait: friday"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (state(RolloutPhase.PROPOSED), "somebody starts it"),
        (state(RolloutPhase.AWAITING_APPROVAL), "another than who proposed it approves, or cancels it"),
        (state(RolloutPhase.VALIDATING), "the canary is told; what is found against it ends the rollout"),
        (state(RolloutPhase.CANARY), "the canary is judged on live traffic"),
        (state(RolloutPhase.PROMOTING), "these nodes are judged on live traffic"),
        (state(RolloutPhase.PROMOTING, emergency=True), "it has ended once every connected node runs it"),
        (state(RolloutPhase.JUDGING), "judged well, one more node is told; undecided, it is held for a person"),
        (
            state(RolloutPhase.JUDGING, only_better=True, on_inconclusive=OnInconclusive.ROLL_BACK),
            "judged better, one more node is told; undecided, it goes back",
        ),
        (
            state(RolloutPhase.JUDGING, told=2, canary_share=0.5),
            "judged well, 2 more nodes are told; harm takes all of them back",
        ),
        (state(RolloutPhase.SOAKING, told=4), "the pool's revision changes; harm takes all of them back"),
        (state(RolloutPhase.PAUSED), "a person resumes or aborts it; harm takes it back by itself"),
        (state(RolloutPhase.ROLLING_BACK), "it has ended once every node that was told runs revision 1 again"),
    ],
)
def test_what_comes_next(asked: State, says: str) -> None:
    assert next_of(asked, alike(4)) == says
    assert next_of(asked, alike(4), ["cab"]) == f"it goes on once cab agrees; {says}"
    assert next_of(asked, alike(4), ["cab", "qa"]) == f"it goes on once cab and qa agree; {says}"


def test_nothing_comes_after_its_end() -> None:
    assert {next_of(state(phase), alike(4)) for phase in ENDED} == {""}
