"""Lives of rollouts: how each is made, what its judge says, what people and nodes do, and the transitions it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from benchmarks.rollout_chaos.scripted_service import Says
from benchmarks.rollout_chaos.striking_database import Move
from controlplane.contract.bodies.rollouts import RolloutPhase as P
from controlplane.contract.bodies.rollouts import Verdict

Deed = Literal["pause", "abort", "cancel", "revert", "retry", "freeze", "lift", "join", "refuse", "away"]
"""Of people, and of the fleet: a node joins; engines refuse the new revision; nodes that were told are cut off."""


GOOD = Says()


@dataclass(frozen=True)
class Scenario:
    """deeds: in order, each once, when the phase is seen. passes: the transitions of its life without a fault."""

    name: str
    passes: tuple[Move, ...]
    nodes: int = 3
    spec: Mapping[str, Any] = field(default_factory=dict)
    says: Says = GOOD
    validates: bool = False
    starts_alone: bool = False
    """It is begun with its proposal, not by another request."""
    deeds: tuple[tuple[P, Deed], ...] = ()
    silent_engine: bool = False


def _chain(*phases: P) -> tuple[Move, ...]:
    return tuple(pairwise(phases))


_WAVE = (P.PROMOTING, P.JUDGING)
_BACK = (P.ROLLING_BACK, P.ROLLED_BACK)
_CANARY = (P.PROPOSED, P.CANARY, P.JUDGING)
_THREE = (*_CANARY, *_WAVE, *_WAVE, P.PROMOTED)
_EMERGENCY: dict[str, Any] = {"emergency": True, "reason": "the old one crashes"}

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("promoted in waves", _chain(*_THREE)),
    Scenario("begun with its proposal", _chain(*_THREE), starts_alone=True),
    Scenario("validated", _chain(P.PROPOSED, P.VALIDATING, *_THREE[1:]), validates=True),
    Scenario(
        "approved and validated",
        _chain(P.AWAITING_APPROVAL, P.VALIDATING, *_THREE[1:]),
        spec={"wants_approval": True},
        validates=True,
    ),
    Scenario("approved", _chain(P.AWAITING_APPROVAL, *_THREE[1:]), spec={"wants_approval": True}),
    Scenario("worse canary", _chain(*_CANARY, *_BACK), says=Says(canary=Verdict.WORSE)),
    Scenario("worse wave", _chain(*_CANARY, *_WAVE, *_BACK), says=Says(wave=Verdict.WORSE)),
    Scenario(
        "soaks",
        _chain(*_CANARY, P.SOAKING, *_WAVE, P.SOAKING, P.PROMOTED),
        nodes=2,
        spec={"soak_s": 10.0},
    ),
    Scenario(
        "worse while it soaks",
        _chain(*_CANARY, P.SOAKING, *_BACK),
        spec={"soak_s": 60.0},
        says=Says(watched=Verdict.WORSE),
    ),
    Scenario("refused by the canary", _chain(P.PROPOSED, P.CANARY, *_BACK), deeds=((P.PROPOSED, "refuse"),)),
    Scenario("refused by a wave", _chain(*_CANARY, P.PROMOTING, *_BACK), deeds=((P.JUDGING, "refuse"),)),
    Scenario("paused as canary", _chain(P.PROPOSED, P.CANARY, P.PAUSED, *_THREE[1:]), deeds=((P.CANARY, "pause"),)),
    Scenario("paused while judged", _chain(*_CANARY, P.PAUSED, *_THREE[2:]), deeds=((P.JUDGING, "pause"),)),
    Scenario(
        "paused while it soaks",
        _chain(*_CANARY, P.SOAKING, P.PAUSED, P.SOAKING, *_WAVE, P.SOAKING, P.PROMOTED),
        nodes=2,
        spec={"soak_s": 10.0},
        deeds=((P.SOAKING, "pause"),),
    ),
    Scenario(
        "paused in a wave",
        _chain(*_CANARY, P.PROMOTING, P.PAUSED, *_WAVE, *_WAVE, P.PROMOTED),
        deeds=((P.PROMOTING, "pause"),),
    ),
    Scenario(
        "stages by share that wait for a person",
        _chain(*_CANARY, P.PAUSED, P.SOAKING, *_WAVE, *_WAVE, P.PROMOTED),
        nodes=4,
        spec={"stages": [{"share": 0.25, "pause": True}, {"share": 0.5}, {"share": 1.0}]},
    ),
    Scenario(
        "held, then aborted",
        _chain(*_CANARY, P.PAUSED, *_BACK),
        says=Says(canary=None),
        deeds=((P.PAUSED, "abort"),),
    ),
    Scenario(
        "undecided",
        _chain(*_CANARY, *_BACK),
        spec={"on_inconclusive": "roll_back"},
        says=Says(canary=None),
    ),
    Scenario("aborted while judged", _chain(*_CANARY, *_BACK), deeds=((P.JUDGING, "abort"),)),
    Scenario("aborted in a wave", _chain(*_CANARY, P.PROMOTING, *_BACK), deeds=((P.PROMOTING, "abort"),)),
    Scenario(
        "way back not confirmed",
        _chain(*_CANARY, P.ROLLING_BACK, P.FAILED),
        says=Says(canary=Verdict.WORSE),
        deeds=((P.JUDGING, "away"),),
    ),
    Scenario("cancelled before it began", _chain(P.PROPOSED, P.CANCELLED), deeds=((P.PROPOSED, "cancel"),)),
    Scenario(
        "cancelled before it was approved",
        _chain(P.AWAITING_APPROVAL, P.CANCELLED),
        spec={"wants_approval": True},
        deeds=((P.AWAITING_APPROVAL, "cancel"),),
    ),
    Scenario(
        "cancelled while validated",
        _chain(P.PROPOSED, P.VALIDATING, P.CANCELLED),
        validates=True,
        silent_engine=True,
        deeds=((P.VALIDATING, "cancel"),),
    ),
    Scenario("never validated", _chain(P.PROPOSED, P.VALIDATING, P.FAILED), validates=True, silent_engine=True),
    Scenario("emergency", _chain(P.PROPOSED, P.PROMOTING, P.PROMOTED), spec=_EMERGENCY),
    Scenario(
        "approved emergency",
        _chain(P.AWAITING_APPROVAL, P.PROMOTING, P.PROMOTED),
        spec=_EMERGENCY | {"wants_approval": True},
    ),
    Scenario(
        "refused emergency",
        _chain(P.PROPOSED, P.PROMOTING, *_BACK),
        spec=_EMERGENCY,
        deeds=((P.PROPOSED, "refuse"),),
    ),
    Scenario("one node", _chain(*_CANARY, P.PROMOTING, P.PROMOTED), nodes=1),
    Scenario(
        "a node joins at the last moment",
        _chain(*_CANARY, P.PROMOTING, *_WAVE, P.PROMOTED),
        nodes=1,
        deeds=((P.PROMOTING, "join"),),
    ),
    Scenario(
        "frozen at the last moment",
        _chain(*_CANARY, P.PROMOTING, P.SOAKING, P.PROMOTED),
        nodes=1,
        deeds=((P.PROMOTING, "freeze"), (P.SOAKING, "lift")),
    ),
    Scenario(
        "reverted",
        _chain(*_CANARY, *_WAVE, P.PROMOTED) + _chain(*_CANARY, P.PROMOTING, P.PROMOTED),
        nodes=2,
        deeds=((P.PROMOTED, "revert"),),
    ),
    Scenario(
        "tried again",
        _chain(*_CANARY, *_BACK) + _chain(*_CANARY, *_BACK),
        says=Says(canary=Verdict.WORSE),
        nodes=2,
        deeds=((P.ROLLED_BACK, "retry"),),
    ),
)
BY_NAME = {one.name: one for one in SCENARIOS}


def passing(move: Move) -> list[Scenario]:
    """The scenarios whose life has this transition."""
    return [one for one in SCENARIOS if move in one.passes]
