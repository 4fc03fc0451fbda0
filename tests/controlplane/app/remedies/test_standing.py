"""What was in production when, and which rollout brought what."""

from datetime import datetime
from typing import Any

import pytest

from controlplane.app.remedies.cause import Cause
from controlplane.app.remedies.standing import brought_by, revision_at
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from tests.controlplane.app.remedies.world import NOW, at


def rollout(number: int, revision: int, started: float | None, ended: float | None, phase: str, **more: Any) -> Rollout:
    spec = RolloutCreate(pool="p", revision=revision, emergency=more.pop("emergency", False))
    times: dict[str, datetime | None] = {
        "started_at": None if started is None else at(started),
        "ended_at": None if ended is None else at(ended),
    }
    return Rollout(id=number, phase=RolloutPhase(phase), spec=spec, created_by="me", created_at=NOW, **times, **more)


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
