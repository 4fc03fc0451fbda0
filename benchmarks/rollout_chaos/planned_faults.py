"""What is injected in a run, and at which transition: drawn from the seed and the run's number alone."""

import random
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from benchmarks.rollout_chaos.life_scenarios import SCENARIOS, Scenario, passing
from benchmarks.rollout_chaos.scripted_service import LEASE_S
from benchmarks.rollout_chaos.striking_database import Move
from controlplane.rollouts.machine import TRANSITIONS


class Kind(StrEnum):
    """Of fault, as the table names it."""

    BEFORE = "dies before the commit"
    AFTER = "dies after it"
    AMIDST = "dies amidst its effects"
    TWO = "two replicas at once"
    HELD = "another replica held still before its write"
    CUT_BEFORE = "node cut off before it is told"
    CUT_DURING = "while it is told"
    CUT_AFTER = "after it has told of it"
    CLOCK = "clock jumps"
    REFUSED = "commit refused"
    LATE = "late and repeated reports"


@dataclass
class Fault:
    """At the `nth` time that the transition is met. done: it was injected."""

    kind: Kind
    move: Move
    nth: int = 1
    done: bool = False

    def __str__(self) -> str:
        times = f" (time {self.nth})" if self.nth > 1 else ""
        return f"{self.kind.value} at {self.move[0].value} -> {self.move[1].value}{times}"


@dataclass(frozen=True)
class Plan:
    """One run. `chance` draws the rest: which node, for how long, how far the clock jumps."""

    seed: int
    number: int
    scenario: Scenario
    faults: tuple[Fault, ...]
    chance: random.Random

    def __str__(self) -> str:
        faults = "; ".join(map(str, self.faults)) or "no fault"
        return f"{self.seed}:{self.number}: {self.scenario.name}; {faults}"


DOWN_S = (0.0, 10.0, 30.0, LEASE_S + 30.0)
AWAY_S = (10.0, 40.0, LEASE_S - 5.0, LEASE_S + 25.0, LEASE_S + 25.0, LEASE_S + 120.0)
JUMPS_S = (-600.0, -30.0, 30.0, 600.0, 7200.0)


@cache
def moves() -> tuple[Move, ...]:
    """Every transition of the machine."""
    return tuple((before, after) for before, onward in TRANSITIONS.items() for after in sorted(onward))


@cache
def pairs() -> tuple[tuple[Move, Kind], ...]:
    """Every transition that some scenario has, with each kind of fault."""
    return tuple((move, kind) for move in moves() if passing(move) for kind in Kind)


def plan_of(seed: int, number: int) -> Plan:
    """The first runs have every pair once, those after them one to three faults at random."""
    chance = random.Random(f"rollout chaos {seed} {number}")
    if number < len(pairs()):
        move, kind = pairs()[number]
        return Plan(seed, number, chance.choice(passing(move)), (Fault(kind, move),), chance)
    scenario = chance.choice(SCENARIOS)
    faults = []
    for _ in range(chance.choice((1, 1, 2, 2, 3))):
        move = chance.choice(scenario.passes)
        faults.append(Fault(chance.choice(list(Kind)), move, chance.randint(1, scenario.passes.count(move))))
    return Plan(seed, number, scenario, tuple(faults), chance)


def quiet_plan(scenario: Scenario) -> Plan:
    """The scenario's life without a fault."""
    return Plan(0, 0, scenario, (), random.Random(0))
