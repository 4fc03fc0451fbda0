"""What a step is to compute."""

from dataclasses import dataclass, field
from functools import cached_property

from agents.engine.scheduling.request import Request
from controlplane.contract.step_limits import StepLimit


@dataclass(slots=True)
class Work:
    """One request's part of a step: tokens [start, start + count), then its drafts (filled by the drafter)."""

    request: Request
    start: int
    count: int
    draft_count: int = 0
    drafts: list[int] = field(default_factory=list)

    @property
    def samples(self) -> bool:
        """Whether it reaches the request's end, so that a next token comes out."""
        return self.start + self.count == len(self.request.tokens)


@dataclass(frozen=True)
class StepPlan:
    """budget: tokens that the step may compute. preemptions: requests that were set back for it. limit: what kept it
    from computing more."""

    works: list[Work]
    budget: int
    preemptions: int
    limit: StepLimit

    @cached_property
    def batched_tokens(self) -> int:
        """Tokens that the model computes, drafts included."""
        return sum([work.count + work.draft_count for work in self.works])

    @property
    def prompt_tokens(self) -> int:
        return sum(work.count for work in self.works if work.count > 1)

    @property
    def decodes(self) -> int:
        return sum(work.count == 1 for work in self.works)
