"""The phase bar and the buttons of a rollout, for each phase there is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutAction, RolloutCreate, RolloutPhase
from web.rollouts.rollout_steps import Place, buttons_of, steps_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def rollout(phase: RolloutPhase, *, told: int = 1, spec: dict[str, Any] | None = None, **more: Any) -> Rollout:
    nodes = [f"n{place}" for place in range(told)]
    wanted = RolloutCreate(pool="chat", revision=2, **(spec or {}))
    fields = {"previous_revision": 1, "canary_nodes": nodes[:1], "told_nodes": nodes, "judging_since": NOW} | more
    return Rollout(id=1, phase=phase, spec=wanted, created_by="ann", created_at=NOW, **fields)


def bar(one: Rollout) -> str:
    marks = {Place.DONE: "+", Place.NOW: ">", Place.NEXT: " "}
    return ", ".join(f"{marks[step.place]}{step.says}" for step in steps_of(one))


@pytest.mark.parametrize("phase", RolloutPhase)
def test_every_phase_stands_in_its_bar_once(phase: RolloutPhase) -> None:
    places = [step.place for step in steps_of(rollout(phase, resumes=RolloutPhase.JUDGING))]
    assert places.count(Place.NOW) == (0 if phase in ENDED else 1)
    assert places == sorted(places, key=list(Place).index)


def test_bars_of_usual_ways() -> None:
    assert bar(rollout(RolloutPhase.JUDGING)) == "+proposed, +canary, >judging,  promoting,  promoted"
    paused = rollout(RolloutPhase.PAUSED, resumes=RolloutPhase.SOAKING, spec={"soak_s": 60})
    assert bar(paused) == "+proposed, +canary, +judging, >paused,  promoting,  promoted"
    back = rollout(RolloutPhase.ROLLED_BACK, told=3)
    assert bar(back) == "+proposed, +canary, +judging, +promoting, +rolling back, +rolled back"
    emergency = rollout(RolloutPhase.PROMOTING, spec={"emergency": True}, needs_approval=True)
    assert bar(emergency) == "+awaiting approval, >promoting,  promoted"
    found = rollout(RolloutPhase.FAILED, told=0, judging_since=None)
    assert bar(found) == "+proposed, +validating, +failed"


@pytest.mark.parametrize(
    ("phase", "scope", "expected"),
    [
        (RolloutPhase.PROPOSED, Scope.OPERATE, {RolloutAction.START, RolloutAction.CANCEL}),
        (RolloutPhase.VALIDATING, Scope.OPERATE, {RolloutAction.CANCEL}),
        (RolloutPhase.JUDGING, Scope.OPERATE, {RolloutAction.PAUSE, RolloutAction.ABORT}),
        (RolloutPhase.SOAKING, Scope.ADMIN, {RolloutAction.PAUSE, RolloutAction.ABORT}),
        (RolloutPhase.PAUSED, Scope.OPERATE, {RolloutAction.RESUME, RolloutAction.ABORT}),
        (RolloutPhase.ROLLING_BACK, Scope.ADMIN, set()),
        (RolloutPhase.PROMOTED, Scope.OPERATE, {RolloutAction.REVERT}),
        (RolloutPhase.ROLLED_BACK, Scope.OPERATE, {RolloutAction.RETRY}),
        (RolloutPhase.JUDGING, Scope.READ, set()),
    ],
)
def test_a_state_allows_these_buttons(phase: RolloutPhase, scope: Scope, expected: set[RolloutAction]) -> None:
    assert {button.action for button in buttons_of(rollout(phase), scope)} == expected


def test_who_may_approve_is_an_admin_and_nobody_starts_what_waits_for_that() -> None:
    waits = rollout(RolloutPhase.AWAITING_APPROVAL, told=0, needs_approval=True)
    assert {one.action for one in buttons_of(waits, Scope.ADMIN)} == {RolloutAction.APPROVE, RolloutAction.CANCEL}
    assert {one.action for one in buttons_of(waits, Scope.OPERATE)} == {RolloutAction.CANCEL}
