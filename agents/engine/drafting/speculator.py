"""A drafter under the hand of the gate, and what came of its drafts.

It is the drafter that the scheduler sees. Guarantee: with the gate on or off, drafts are what the drafter proposes, cut
to a shorter length or left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.engine.drafting.draft_model import ModelDrafter
from agents.engine.drafting.early_exit import EarlyExitDrafter
from agents.engine.options import SpeculativeMethod
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import Work
from agents.engine.speculation.gate import Gate, Track


@dataclass
class SpeculationStats:
    """Totals since the engine started. Whoever reads them beside the stepping thread is at most one step behind."""

    drafts: int = 0  # Drafts verified, each of one or more tokens.
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    """Entry i: in how many drafts token i was kept."""

    def count(self, drafted: int, accepted: int) -> None:
        """A draft was verified."""
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        self.accepted_per_position += [0] * (drafted - len(self.accepted_per_position))
        for place in range(accepted):
            self.accepted_per_position[place] += 1


class Speculator(Drafter):
    """One for an engine; `begin` and `end` frame a step in which drafting is allowed. gate None: always as asked."""

    def __init__(self, drafter: Drafter, gate: Gate | None) -> None:
        self.drafter, self.gate = drafter, gate
        self.stats = SpeculationStats()
        self._taken_in = 0

    def capabilities(self) -> dict[str, Any]:
        """What runs, for the effective configuration."""
        exit_layer = {"early_exit_layer": self.drafter.depth} if isinstance(self.drafter, EarlyExitDrafter) else {}
        return {
            "speculative_method": str(method_of(self.drafter)),
            "speculation_gate": self.gate is not None,
        } | exit_layer

    def begin(self, requests: int, limit: int) -> None:
        """A step begins, with so many running requests and this draft length by the knob."""
        self._taken_in = 0
        if self.gate is not None:
            self.gate.begin(requests, limit)

    def reserve(self, request: Request, limit: int) -> int:
        gate = self.gate
        if gate is None:
            return self.drafter.reserve(request, limit)
        track = track_of(request)
        if not gate.is_open(track, request.num_outputs) or not (most := self.drafter.reserve(request, limit)):
            return 0
        return min(most, gate.allow(track, request.num_outputs))

    def propose(self, works: Sequence[Work], spare: int) -> int:
        self._taken_in = self.drafter.propose(works, spare)
        return self._taken_in

    def commit(self, work: Work, accepted: int) -> None:
        self.drafter.commit(work, accepted)
        if work.drafts:
            self.stats.count(len(work.drafts), accepted)
            if self.gate is not None:
                self.gate.outcome(track_of(work.request), len(work.drafts), accepted)

    def end(self, works: Sequence[Work], parts: Mapping[str, float]) -> None:
        """The step's parts in seconds. What drafting is worth is learned from steps of decodes alone."""
        if self.gate is not None and all(work.count == 1 for work in works):
            draft_s = parts["draft"]
            drafts = [len(work.drafts) for work in works]
            self.gate.observe(sum(parts.values()) - draft_s, draft_s, drafts, self._taken_in)

    def finished(self, request: Request) -> None:
        """A request ended by itself."""
        if self.gate is not None:
            self.gate.finished(request.num_outputs)

    def is_wanted(self, request: Request, tokens: int) -> bool:
        """Whether it pays that the drafter takes in so many tokens of a request."""
        if self.gate is None:
            return True
        track, outputs = track_of(request), request.num_outputs
        if outputs and self.gate.is_shut(track, outputs):
            return False
        return self.gate.is_worth_taking_in(track, tokens, request.params.max_tokens - outputs)


def method_of(drafter: Drafter) -> SpeculativeMethod:
    if isinstance(drafter, EarlyExitDrafter):
        return SpeculativeMethod.EARLY_EXIT
    return SpeculativeMethod.DRAFT_MODEL if isinstance(drafter, ModelDrafter) else SpeculativeMethod.NGRAM


def track_of(request: Request) -> Track:
    if request.track is None:
        request.track = Track()
    return request.track
