"""The list of rollouts: cut by pool, state and time in its address, with how each went."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.errors import BadRequest
from tests.web.part_html import NOW, part_html
from web.rollouts.rollouts_list import LIST, STATES, took


def rollout(number: int, phase: RolloutPhase, pool: str = "chat", lasted_s: float | None = None) -> Rollout:
    start = NOW - timedelta(hours=3)
    return Rollout(
        id=number,
        phase=phase,
        spec=RolloutCreate(pool=pool, revision=2),
        message=f"message {number}",
        created_by="ann",
        created_at=start,
        started_at=start,
        ended_at=None if lasted_s is None else start + timedelta(seconds=lasted_s),
    )


FOUND = [
    rollout(5, RolloutPhase.PAUSED),
    rollout(4, RolloutPhase.JUDGING, "code"),
    rollout(3, RolloutPhase.PROMOTED, lasted_s=600),
    rollout(2, RolloutPhase.ROLLED_BACK, "code", lasted_s=90),
    rollout(1, RolloutPhase.CANCELLED, lasted_s=1),
]


class Service:
    def __init__(self, scope: Scope = Scope.READ) -> None:
        self.scope = scope

    def rollouts(self) -> list[Rollout]:
        return FOUND

    def own_session(self) -> Any:
        return self


def listed(**params: str) -> list[int]:
    text = part_html(LIST, "rollouts", Service(), **params)
    return [one.id for one in FOUND if f'data-key="rollout-{one.id}"' in text]


@pytest.mark.parametrize(
    ("params", "numbers"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"state": "waiting"}, [5]),
        ({"state": "under_way"}, [4]),
        ({"state": "promoted"}, [3]),
        ({"state": "went_back", "pool": "code"}, [2]),
        ({"state": "went_back", "pool": "chat"}, []),
        ({"pool": "chat"}, [5, 3, 1]),
        ({"from": "now-1h"}, [5, 4]),
    ],
)
def test_it_is_cut_as_the_address_says(params: dict[str, str], numbers: list[int]) -> None:
    assert listed(**params) == numbers


def test_each_rollout_is_of_one_state_and_a_state_that_there_is_not_is_refused() -> None:
    for phase in RolloutPhase:
        assert sum(is_of(rollout(1, phase)) for name, (_, is_of) in STATES.items() if name) == 1
    with pytest.raises(BadRequest, match="waiting"):
        listed(state="lost")


def test_each_state_is_a_link_with_its_count_that_keeps_the_rest_of_the_address() -> None:
    text = part_html(LIST, "rollouts", Service(), pool="code", state="promoted")
    assert '<a href="?state=went_back&amp;pool=code">Went back <span class="when">1</span></a>' in text
    assert 'aria-current="true">Promoted <span class="when">0</span>' in text
    assert "No rollout is like that." in text and '<a href="?">All rollouts</a>' in text


def test_who_may_propose_is_led_to_the_editor() -> None:
    assert "/rollouts/new" not in part_html(LIST, "rollouts", Service())
    assert 'href="/rollouts/new?pool=chat"' in part_html(LIST, "rollouts", Service(Scope.OPERATE), pool="chat")


@pytest.mark.parametrize(("lasted_s", "words"), [(90, "90.0 s"), (600, "10 min"), (9000, "2.5 h"), (None, "")])
def test_how_long_it_took_is_told_of_what_has_ended(lasted_s: float | None, words: str) -> None:
    assert took(rollout(1, RolloutPhase.PROMOTED, lasted_s=lasted_s)) == words
