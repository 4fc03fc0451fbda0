"""Which step of a study in production comes next, and when there is none (pure). The service carries it out.

Guarantees, for whatever comes of the steps:
- a step changes one knob, to a value one step (`next_values`) from what runs, and what runs was proven: it is what the
  pool ran when the study began, or what a step was promoted to;
- a value that was worse, or was stopped, is never tried again, nor any beyond it in its direction;
- no configuration is tried twice;
- there is one step at a time; it ends after `most_steps`, or `most_taken_back` that went back for harm or doubt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    canonical_json,
    largest,
)
from controlplane.contract.planning.online_mode import LEFT, TAKEN_BACK, StepOutcome
from controlplane.studies.online.next_values import Reach, effect, neighbour


@dataclass(frozen=True)
class Direction:
    """A knob, and whether it rises."""

    knob: str
    up: bool


@dataclass(frozen=True)
class Move:
    """One step: from what runs to the value that is tried."""

    knob: str
    before: Any
    value: Any

    @property
    def direction(self) -> Direction:
        return Direction(self.knob, effect(self.knob, self.value) > effect(self.knob, self.before))


@dataclass(frozen=True)
class Taken:
    """A step that has ended."""

    move: Move
    outcome: StepOutcome


@dataclass(frozen=True)
class Bounds:
    """What a study in production is held to. tokens_at_least_seqs: vLLM starts with no fewer tokens than sequences."""

    reach: Mapping[str, Reach]
    step: float
    most_steps: int
    most_taken_back: int
    lasts_s: float
    tokens_at_least_seqs: bool = False


@dataclass(frozen=True)
class Seen:
    """What stands now. Each but the first two: why no step may begin, in words; None: it may for that."""

    under_way: bool
    age_s: float
    moved: str | None = None  # Somebody else has changed what the pool runs.
    incident: str | None = None
    closed: str | None = None
    busy: str | None = None


@dataclass(frozen=True)
class Wait:
    """Nothing is to be done now."""

    why: str


@dataclass(frozen=True)
class TakeBack:
    """The step under way is to go back at once."""

    why: str


@dataclass(frozen=True)
class Over:
    """The study has ended."""

    why: str


@dataclass(frozen=True)
class Walk:
    """A study in production so far. start: all knobs of the pool when it began."""

    start: Mapping[str, Any]
    bounds: Bounds
    taken: Sequence[Taken] = ()

    @property
    def centre(self) -> dict[str, Any]:
        """What the pool runs by it: the start, with each step that was better."""
        better = {one.move.knob: one.move.value for one in self.taken if one.outcome is StepOutcome.BETTER}
        return {**self.start, **better}

    @property
    def taken_back(self) -> int:
        """Steps that went back for harm or doubt."""
        return sum(one.outcome in TAKEN_BACK for one in self.taken)

    def moves(self, first: Sequence[Direction] = ()) -> list[Move]:
        """Every step that may be next, the best first: the way that was better last, then `first`, then the others."""
        last = self.taken[-1] if self.taken else None
        onward = [last.move.direction] if last is not None and last.outcome is StepOutcome.BETTER else []
        others = [Direction(knob, up) for knob in self.bounds.reach for up in (True, False)]
        ways = dict.fromkeys([*onward, *first, *others])
        found = [self._move(way) for way in ways if way.knob in self.bounds.reach]
        return [move for move in found if move is not None and self._may_be_tried(move)]

    def advance(self, seen: Seen) -> Wait | TakeBack | Over | None:
        """What is to be done now; None: a step is to begin."""
        if seen.under_way:
            return TakeBack(seen.incident) if seen.incident is not None else Wait("a step is under way")
        over = self._over(seen)
        if over is not None:
            return Over(over)
        why = seen.incident or seen.closed or seen.busy
        if why is not None:
            return Wait(why)
        return None if self.moves() else Over("nothing is left to try one step from what runs")

    def _over(self, seen: Seen) -> str | None:
        if seen.moved is not None:
            return seen.moved
        if self.taken_back >= self.bounds.most_taken_back:
            return f"{steps_text(self.taken_back)} taken back"
        if len(self.taken) >= self.bounds.most_steps:
            return f"{steps_text(len(self.taken))} taken"
        return f"{seen.age_s:.0f} s are over" if seen.age_s >= self.bounds.lasts_s else None

    def _move(self, way: Direction) -> Move | None:
        runs, reach = self.centre, self.bounds.reach[way.knob]
        value = neighbour(way.knob, runs, reach, self.bounds.step, up=way.up)
        return None if value is None else Move(way.knob, runs[way.knob], value)

    def _may_be_tried(self, move: Move) -> bool:
        knobs = {**self.centre, move.knob: move.value}
        return not self._is_barred(move) and self._fits(knobs) and canonical_json(knobs) not in self._tried()

    def _is_barred(self, move: Move) -> bool:
        to = effect(move.knob, move.value)
        for one in self.taken:
            if one.move.knob != move.knob or one.outcome not in LEFT:
                continue
            bar = effect(move.knob, one.move.value)
            if to >= bar if one.move.direction.up else to <= bar:
                return True
        return False

    def _tried(self) -> set[str]:
        runs = dict(self.start)
        found = {canonical_json(runs)}
        for one in self.taken:
            knobs = {**runs, one.move.knob: one.move.value}
            found.add(canonical_json(knobs))
            runs = knobs if one.outcome is StepOutcome.BETTER else runs
        return found

    def _fits(self, knobs: Mapping[str, Any]) -> bool:
        tokens = int(knobs[MAX_NUM_BATCHED_TOKENS])
        if tokens < 1 + largest(knobs[NUM_SPECULATIVE_TOKENS]):
            return False  # A step cannot verify its drafts.
        return not self.bounds.tokens_at_least_seqs or tokens >= int(knobs[MAX_NUM_SEQS])


def steps_text(number: int) -> str:
    """As in "1 step was", "2 steps were"."""
    return "1 step was" if number == 1 else f"{number} steps were"
