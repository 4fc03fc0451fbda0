"""After a take-back the pool's studies wait until the alert is over, or has had its time."""

import pytest
from sqlmodel import Session

from controlplane.alerts.tables import AlertRow
from controlplane.app.remedies import not_at_rest, try_again
from controlplane.app.remedies.recovering import SETTLE, recovering
from controlplane.contract.bodies.alerts import AlertState
from controlplane.contract.bodies.remedies import RemedyAction
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.bodies.studies import StudyState
from controlplane.db.database import Database
from controlplane.studies import store as studies
from tests.controlplane.app.remedies.world import BAD, Open, World, alert, at, cause

ENDED, SETTLED = 100.0, 100.0 + SETTLE.seconds
"""When the take-back is promoted, and when it is long enough ago."""


class Burning:
    """A pool that a revision made slow; the alert has started a take-back and, for after it, a study."""

    def __init__(self, world: World, number: int = 7) -> None:
        self.world = world
        brought = world.reaches(BAD, 0)
        told = alert(number, cause("config_change", revision=BAD, rollout_id=brought.id))
        self.alert_id = Open(world, told, 60).id
        steps = self._row().remedies
        self.take_back = next(step["rollout_id"] for step in steps if step["action"] == RemedyAction.ROLL_BACK)
        self.study = next(step["study_id"] for step in steps if step["action"] == RemedyAction.STUDY)

    def resolves(self) -> None:
        self._row().state = AlertState.RESOLVED.value
        self.world.session.flush()

    def claimed(self, seconds: float) -> int | None:
        session = self.world.session
        found = studies.claim(session, "w", at(seconds), busy=not_at_rest(session, at(seconds)))
        return None if found is None else found.id

    def progress(self) -> str:
        return studies.get(self.world.session, self.study).progress

    def _row(self) -> AlertRow:
        return self.world.session.get_one(AlertRow, self.alert_id)


@pytest.fixture
def burning(world: World) -> Burning:
    return Burning(world)


def test_the_study_waits_for_the_take_back_and_then_for_the_alert(world: World, burning: Burning) -> None:
    assert burning.claimed(70) is None
    assert burning.progress() == f"waits for the end of rollout {burning.take_back} (canary)"
    world.ends(burning.take_back, RolloutPhase.PROMOTED, ENDED)
    assert burning.claimed(ENDED + 1) is None
    what = f"alert {burning.alert_id}, whose cause rollout {burning.take_back} took back, or for {SETTLE.seconds} s"
    assert burning.progress() == f"waits for the end of {what}"
    burning.resolves()
    assert burning.claimed(ENDED + 2) == burning.study
    assert studies.get(world.session, burning.study).state is StudyState.RUNNING


def test_an_alert_that_the_take_back_does_not_end_holds_its_study_no_longer(world: World, burning: Burning) -> None:
    world.ends(burning.take_back, RolloutPhase.PROMOTED, ENDED)
    assert burning.claimed(SETTLED - 0.1) is None
    assert burning.claimed(SETTLED) == burning.study


def test_a_second_alert_of_the_pool_holds_it_too(world: World, burning: Burning) -> None:
    """It fired while the take-back was under way, so its step says that the other rollout is at it already."""
    named = cause("config_change", revision=BAD, rollout_id=1)
    second = Open(world, alert(8, named, fingerprint="g"), 70)
    world.ends(burning.take_back, RolloutPhase.PROMOTED, ENDED)
    burning.resolves()
    assert list(recovering(world.session, at(ENDED + 1))) == ["p"]
    world.session.get_one(AlertRow, second.id).state = AlertState.RESOLVED.value
    assert recovering(world.session, at(ENDED + 1)) == {}


def test_a_take_back_that_came_to_nothing_holds_nothing(world: World, burning: Burning, database: Database) -> None:
    world.ends(burning.take_back, RolloutPhase.ROLLED_BACK, ENDED)
    world.session.commit()
    try_again(database, world.remedies, at(ENDED + 1))
    with Session(database.engine) as session:
        assert recovering(session, at(ENDED + 1)) == {}
    assert burning.claimed(ENDED + 1) == burning.study


def test_alerts_without_a_take_back_hold_nothing(world: World) -> None:
    Open(world, alert(9, cause("load")), 60)
    assert not_at_rest(world.session, at(61)) == {}
