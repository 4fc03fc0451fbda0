"""Totals of speculation since the engine started."""

from dataclasses import dataclass, field


@dataclass
class SpeculationStats:
    """Written by the stepping thread; whoever else reads it gets totals that are at most one step old."""

    drafts: int = 0  # Drafts verified, each of one or more tokens.
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    """Entry i: in how many drafts token i was kept."""
    taken_in_tokens: int = 0
    """Tokens that the drafter took in because it had missed them."""

    def count(self, drafted: int, accepted: int) -> None:
        """A draft was verified."""
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        self.accepted_per_position += [0] * (drafted - len(self.accepted_per_position))
        for place in range(accepted):
            self.accepted_per_position[place] += 1
