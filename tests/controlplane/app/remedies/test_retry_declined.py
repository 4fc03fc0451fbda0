"""A declined remedy is chosen again once what forbade it has ended."""

from collections import Counter

import pytest
from sqlalchemy import event
from sqlmodel import select

from controlplane.alerts.tables import AlertRow
from controlplane.app.remedies import try_again
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.db.database import Database
from controlplane.rollouts import store as rollouts
from controlplane.studies import store as studies
from tests.controlplane.app.remedies.world import BAD, OTHER, Open, World, alert, at, cause

BACK, TUNE = RemedyAction.ROLL_BACK, RemedyAction.STUDY
STARTED, DECLINED = RemedyState.STARTED, RemedyState.DECLINED


def test_the_end_of_another_rollout_frees_the_take_back(world: World, database: Database) -> None:
    brought = world.reaches(BAD, 0)
    other = rollouts.create(world.session, RolloutCreate(pool="p", revision=OTHER), actor="me", now=at(30))
    fired = Open(world, alert(7, cause("config_change", revision=BAD, rollout_id=brought.id)), 60)
    assert fired.steps(database, at(65)) == [(BACK, DECLINED)]
    world.ends(other.id, RolloutPhase.ROLLED_BACK, 70)
    assert fired.steps(database, at(75)) == [(BACK, DECLINED), (BACK, STARTED), (TUNE, STARTED)]
    assert world.remedies.take_news()
    assert len(fired.steps(database, at(80))) == 3


def test_a_canary_that_its_judge_rolls_back_leaves_nothing_to_take_back(world: World, database: Database) -> None:
    canary = rollouts.create(world.session, RolloutCreate(pool="p", revision=BAD), actor="me", now=at(0))
    fired = Open(world, alert(7, cause("config_change", revision=BAD, rollout_id=canary.id)), 60)
    world.ends(canary.id, RolloutPhase.ROLLED_BACK, 70)
    assert fired.steps(database, at(75)) == [(BACK, DECLINED)] * 2
    assert fired.steps(database, at(80)) == [(BACK, DECLINED)] * 2


def test_the_end_of_the_cooldown_frees_the_study(world: World, database: Database) -> None:
    first = Open(world, alert(1, cause("prompt_mix")), 0)
    assert first.steps(database, at(5)) == [(TUNE, STARTED)]
    study = studies.active(world.session, "p")
    assert study is not None
    studies.cancel(world.session, study.id, actor="me", now=at(10))
    second = Open(world, alert(2, cause("prompt_mix")), 20)
    assert second.steps(database, at(599)) == [(TUNE, DECLINED)]
    assert second.steps(database, at(600)) == [(TUNE, DECLINED), (TUNE, STARTED)]


def test_an_alert_that_has_resolved_is_left_alone(world: World, database: Database) -> None:
    brought = world.reaches(BAD, 0)
    other = rollouts.create(world.session, RolloutCreate(pool="p", revision=OTHER), actor="me", now=at(30))
    fired = Open(world, alert(7, cause("config_change", revision=BAD, rollout_id=brought.id)), 60)
    world.ends(other.id, RolloutPhase.ROLLED_BACK, 70)
    row = world.session.exec(select(AlertRow)).one()
    row.state = "resolved"
    world.session.add(row)
    assert fired.steps(database, at(75)) == [(BACK, DECLINED)]


@pytest.mark.slow
def test_what_still_cannot_be_done_is_read_once_for_all_and_written_for_none(world: World, database: Database) -> None:
    brought = world.reaches(BAD, 0)
    rollouts.create(world.session, RolloutCreate(pool="p", revision=OTHER), actor="me", now=at(30))
    asked: Counter[str] = Counter()
    event.listen(database.engine, "before_cursor_execute", lambda *seen: asked.update([seen[2].split()[0]]))

    def asked_for(numbers: range) -> dict[str, int]:
        for number in numbers:
            told = alert(number, cause("config_change", revision=BAD, rollout_id=brought.id), fingerprint=f"f{number}")
            Open(world, told, 60)
        asked.clear()
        try_again(database, world.remedies, at(65))
        return dict(asked)

    few, many = asked_for(range(1, 4)), asked_for(range(4, 34))
    assert few == many and not {"INSERT", "UPDATE", "DELETE"} & set(many)


def test_an_alert_that_cannot_be_read_stops_no_other(
    world: World, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    brought = world.reaches(BAD, 0)
    other = rollouts.create(world.session, RolloutCreate(pool="p", revision=OTHER), actor="me", now=at(30))
    named = cause("config_change", revision=BAD, rollout_id=brought.id)
    broken, well = Open(world, alert(7, named), 60), Open(world, alert(8, named, fingerprint="g"), 60)
    world.ends(other.id, RolloutPhase.ROLLED_BACK, 70)
    world.session.get_one(AlertRow, broken.id).severity = "loud"
    assert (BACK, STARTED) in well.steps(database, at(75))
    assert f"the remedies of alert {broken.id} could not be chosen again" in caplog.text
