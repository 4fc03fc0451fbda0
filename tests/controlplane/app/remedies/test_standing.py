"""What was in production when, and which rollout brought what."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import event

from controlplane.app.remedies.cause import Cause
from controlplane.app.remedies.standing import Standings, brought_by, revision_at
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.rollouts.store import Outline
from tests.controlplane.app.remedies.world import BAD, GOOD, NOW, World, alert, at


def rollout(number: int, revision: int, started: float | None, ended: float | None, phase: str, **more: Any) -> Outline:
    spec = RolloutCreate(pool="p", revision=revision, emergency=more.pop("emergency", False))
    times: dict[str, datetime | None] = {
        "started_at": None if started is None else at(started),
        "ended_at": None if ended is None else at(ended),
    }
    return Outline(id=number, phase=RolloutPhase(phase), spec=spec, **times, **more)


NEWEST_FIRST = [
    rollout(5, 9, None, None, "proposed"),
    rollout(4, 4, 300, 302, "promoted", previous_revision=3, emergency=True),
    rollout(3, 8, 200, 250, "rolled_back", previous_revision=3),
    rollout(2, 3, 100, 160, "promoted", previous_revision=2),
    rollout(1, 4, 10, 90, "rolled_back", previous_revision=2),
]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(5, 2), (120, 2), (159, 2), (160, 3), (240, 3), (299, 3), (300, 4), (900, 4)]
)
def test_an_emergency_counts_from_its_start_and_a_judged_rollout_from_its_end(seconds: float, expected: int) -> None:
    assert revision_at(NEWEST_FIRST, at(seconds), 4) == expected


def test_without_rollouts_it_is_what_is_in_production_now() -> None:
    assert revision_at([], NOW, 7) == 7 and revision_at(NEWEST_FIRST[:1], NOW, None) is None


def test_the_rollout_that_the_diagnosis_names_else_the_newest_that_began() -> None:
    def found(revision: int | None, named: int | None = None) -> int | None:
        one = brought_by(NEWEST_FIRST, Cause("config_change", revision=revision, rollout_id=named))
        return None if one is None else one.id

    assert (found(4), found(4, 1), found(4, 2), found(9), found(None)) == (4, 1, 4, None, None)


def test_what_a_thousand_alerts_wait_for_reads_nothing_that_grows_with_the_pool(world: World) -> None:
    """The nodes and the evidence of a pool's rollouts are as large as the pool; each alert that fires looks at them
    while all others wait to write."""
    brought = [world.reaches(revision, seconds) for seconds, revision in enumerate((BAD, GOOD, BAD))]
    world.session.flush()
    statements: list[str] = []
    event.listen(world.session.get_bind(), "before_cursor_execute", lambda *told: statements.append(told[2]))
    seen = Standings(world.session, at(60)).of(alert(7, None), None, Cause("config_change", revision=BAD))
    assert seen.brought_by is not None and seen.brought_by.id == brought[-1].id
    assert (seen.revision, seen.under_way, seen.brought_by.previous_revision) == (BAD, None, GOOD)
    assert not [one for one in statements if "evidence" in one or "told_nodes" in one], statements
    statements.clear()
    other = Standings(world.session, at(60)).of(alert(8, None), None, Cause("node"))
    assert (other.revision, other.brought_by) == (BAD, None)
    assert len([one for one in statements if "FROM rollout" in one]) == 1, "whether one is under way"
