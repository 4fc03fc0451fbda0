"""The choice alone, over every kind of standing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.app.remedies.cause import likeliest, slowdown
from controlplane.app.remedies.choice import Choice, CreateRollout, CreateStudy, StartRollout
from controlplane.app.remedies.choose import choose
from controlplane.app.remedies.standing import Deed, Standing
from controlplane.contract.bodies.alerts import Remedy
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.bodies.remedies import RemedyAction, RemedyPolicy, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from controlplane.rollouts.store import Outline
from tests.controlplane.app.remedies.world import NOW, alert, at, cause, rule

AUTOMATIC = Remedy(study=StudyCreate(pool="p"), policy=RemedyPolicy.AUTOMATIC)
PHASES = list(RolloutPhase)


def rollout(number: int, revision: int, phase: RolloutPhase = RolloutPhase.PROMOTED, **more: Any) -> Outline:
    spec = {key: more.pop(key) for key in ("takes_back", "study_id", "emergency") if key in more}
    ended = NOW if phase in ENDED else None
    fields: dict[str, Any] = {"previous_revision": 1, "started_at": NOW, "ended_at": ended, **more}
    wanted = RolloutCreate(pool="p", revision=revision, **spec)
    return Outline(id=number, phase=phase, spec=wanted, **fields)


def study(state: StudyState, alert_id: int | None = 1) -> Study:
    spec = StudyCreate(pool="p")
    return Study(id=5, state=state, spec=spec, created_by="me", created_at=NOW, started_at=NOW, alert_id=alert_id)


def chosen(first: dict[str, Any], seen: Standing, remedy: Remedy | None = AUTOMATIC, **more: Any) -> list[Choice]:
    told = alert(7, first, **more)
    return choose(told, rule(remedy), likeliest(told), seen, at(60))


def what(choices: list[Choice]) -> list[tuple[str, str]]:
    return [(choice.step.action.value, choice.step.state.value) for choice in choices]


BAD = cause("config_change", revision=2, rollout_id=3)
STANDING = Standing("p", revision=2, brought_by=rollout(3, 2))


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (CauseKind.CONFIG_CHANGE, RemedyAction.ROLL_BACK),
        (CauseKind.LOAD, RemedyAction.ADMISSION),
        (CauseKind.HOST, RemedyAction.DRAIN),
        (CauseKind.ONE_NODE, RemedyAction.DRAIN),
        (CauseKind.PROMPT_MIX, RemedyAction.STUDY),
        (CauseKind.CACHE_MISS, RemedyAction.STUDY),
        (CauseKind.ANSWER_MIX, RemedyAction.STUDY),
        (CauseKind.PREEMPTION, RemedyAction.STUDY),
        (CauseKind.KV_PRESSURE, RemedyAction.STUDY),
        (CauseKind.ACCEPTANCE, RemedyAction.STUDY),
        (CauseKind.TENANT_MIX, RemedyAction.ADMISSION),
        (CauseKind.ONE_GROUP, RemedyAction.STUDY),
        (CauseKind.UNKNOWN, RemedyAction.STUDY),
    ],
)
def test_each_kind_of_cause_has_its_remedy(kind: CauseKind, action: RemedyAction) -> None:
    first = cause(kind.value, revision=2, node="a")
    choices = chosen(first, STANDING)
    assert choices[0].step.action is action and first["message"] in choices[0].step.why
    assert choices[0].step.cause == kind.value


def test_every_kind_of_cause_is_in_the_table_above_or_below() -> None:
    assert len(CauseKind) == 14


def test_what_others_did_is_theirs_to_take_back() -> None:
    assert not chosen(cause("change_event"), STANDING)


def test_only_the_likeliest_cause_counts() -> None:
    told = alert(7, cause("load"))
    assert told.diagnosis is not None
    told.diagnosis.causes.append(BAD)
    assert what(choose(told, rule(AUTOMATIC), likeliest(told), STANDING, at(60))) == [("admission", "offered")]


def test_without_a_study_tuning_causes_have_no_step() -> None:
    assert chosen(cause("unknown"), STANDING, Remedy()) == [] == chosen(cause("unknown"), STANDING, None)


@pytest.mark.parametrize(("earlier", "starts"), [(None, False), (2.0, False), (1.34, False), (1.33, True)])
def test_one_and_a_half_times_as_bad_is_clearly_worse(earlier: float | None, starts: bool) -> None:
    """The alert is twice its threshold now."""
    deed = Deed(NOW, "p", "prefill", 2, "unknown", slowdown=earlier, study_id=4)
    (choice,) = chosen(cause("unknown"), Standing("p", 2, deeds=(deed,)))
    assert (choice.deed is not None) is starts


def test_the_newest_of_several_counts_for_the_cooldown() -> None:
    deeds = tuple(Deed(at(second), "p", "prefill", 2, "unknown", 2.0, 4) for second in (0, 50, 10))
    (choice,) = chosen(cause("unknown"), Standing("p", 2, deeds=deeds))
    assert choice.step.until == at(50 + 1800)


def test_slowdown() -> None:
    assert slowdown(alert(1)) == 2.0 and slowdown(alert(1, threshold=None)) is None is slowdown(alert(1, value=None))


rollouts_seen = st.builds(
    lambda number, revision, phase, back, verdict, study_id: rollout(
        number, revision, phase, takes_back=back, verdict=verdict, study_id=study_id
    ),
    st.integers(4, 9),
    st.integers(1, 3),
    st.sampled_from(PHASES),
    st.sampled_from([None, 2]),
    st.sampled_from([None, *Verdict]),
    st.sampled_from([None, 1]),
)
standings = st.builds(
    Standing,
    pool=st.just("p"),
    revision=st.sampled_from([None, 1, 2, 3]),
    under_way=st.none() | rollouts_seen.filter(lambda one: one.phase not in ENDED),
    brought_by=st.none()
    | st.builds(
        lambda previous, back, verdict: rollout(
            3, 2, previous_revision=previous, takes_back=back, verdict=verdict, study_id=1
        ),
        st.sampled_from([None, 1, 3]),
        st.sampled_from([None, 1]),
        st.sampled_from([None, *Verdict]),
    ),
    take_backs=st.lists(st.sampled_from(PHASES).map(lambda phase: rollout(8, 1, phase, takes_back=2)), max_size=2).map(
        tuple
    ),
    study=st.none()
    | st.builds(study, st.sampled_from([StudyState.QUEUED, StudyState.RUNNING]), st.sampled_from([None, 1])),
    study_revision=st.sampled_from([None, 1, 2]),
)
remedies = st.none() | st.builds(
    Remedy, study=st.none() | st.just(StudyCreate(pool="p")), policy=st.sampled_from(RemedyPolicy)
)


@given(standings, remedies, st.sampled_from([0.5, 0.95]))
def test_a_take_back_moves_only_what_may_be_moved(seen: Standing, remedy: Remedy | None, score: float) -> None:
    choices = chosen({**BAD, "score": score}, seen, remedy)
    moved = [choice for choice in choices if isinstance(choice.deed, CreateRollout | StartRollout)]
    for choice in moved:
        assert remedy is not None and seen.revision == 2 and seen.under_way is None
        assert seen.brought_by is not None and choice.step.back_to == seen.brought_by.previous_revision
        if choice.step.state is RemedyState.STARTED:
            assert remedy.policy is RemedyPolicy.AUTOMATIC and score == 0.95
        if isinstance(choice.deed, CreateRollout):
            spec = choice.deed.spec
            assert (spec.takes_back, spec.revision, spec.emergency) == (2, choice.step.back_to, False)
            assert spec.start is (choice.step.state is RemedyState.STARTED)
    studies = [choice.deed for choice in choices if isinstance(choice.deed, CreateStudy)]
    assert len(moved) <= 1 and len(studies) <= 1
    if studies:
        assert remedy is not None and remedy.study is not None
        assert seen.study is None or (seen.study.alert_id == 1 and studies[0].instead_of == seen.study.id)


@given(standings, remedies, st.sampled_from(["config_change", "load", "host", "unknown"]))
def test_what_stands_on_the_alert_is_not_chosen_again(seen: Standing, remedy: Remedy | None, kind: str) -> None:
    first = cause(kind, revision=2, node="a")
    steps: list[RemedyStep] = [choice.step for choice in chosen(first, seen, remedy) if choice.deed is None]
    again = chosen(first, seen, remedy, remedies=steps)
    assert [choice for choice in again if choice.deed is None] == []
