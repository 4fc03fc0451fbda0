"""Drafting with a small model of the same vocabulary.

The draft model keeps its own keys and values in the slots of the same blocks as the target's, of one of its cache
groups. Each request counts how many of its tokens the draft model has taken in (`draft_computed`): a prompt beside the
target, piece by piece, and what it missed (a cached prefix, steps without drafts) from what the step's budget leaves, a
few hundred tokens a step over all requests; a request drafts when no more than a few are missing.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from agents.engine.drafting.running_ahead import add_drafts, run_ahead
from agents.engine.model.runner import Rows, Runner
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import Work

MOST_TAKEN_IN = 256
"""Missed tokens taken in per step, over all requests."""
NEAR = 16
"""Missed tokens that a request takes in with its first draft."""

IsWanted = Callable[[Request, int], bool]
"""Whether to take in so many tokens of a request, for drafting to come."""


def _always(request: Request, tokens: int) -> bool:
    return True


class ModelDrafter(Drafter):
    """Drafts by running a small model ahead. group: the cache group of the target whose block table it uses."""

    def __init__(self, runner: Runner, group: int = 0, is_wanted: IsWanted = _always) -> None:
        self.runner, self._group, self._is_wanted = runner, group, is_wanted

    def reserve(self, request: Request, limit: int) -> int:
        return limit if len(request.tokens) - request.draft_computed <= NEAR else 0

    def propose(self, works: Sequence[Work], spare: int = 0) -> int:
        drafting = [work for work in works if work.draft_count]
        batch = [self._first_draft(work) for work in drafting]
        beside, taken_in = self._take_in([work for work in works if not work.draft_count], min(spare, MOST_TAKEN_IN))
        if batch or beside:
            logits = self._forward(batch + beside)
            if drafting:
                add_drafts(drafting, logits)
                run_ahead(drafting, self._forward, self._tables)
        return taken_in

    def commit(self, work: Work, accepted: int) -> None:
        """Drafts but the last were taken in while drafting; those accepted are part of the request now."""
        if work.draft_count:
            work.request.draft_computed += min(accepted, work.draft_count - 1)

    def _first_draft(self, work: Work) -> Rows:
        """What is missing up to the last token, whose logits give the first draft."""
        return self._rows(work, work.start + work.count, 1)

    def _take_in(self, works: Sequence[Work], spare: int) -> tuple[list[Rows], int]:
        """Rows without logits: pieces of prompts that the target computes now, and missed tokens, at most `spare`."""
        batch: list[Rows] = []
        taken_in = 0
        for work in works:
            request, end = work.request, work.start + work.count
            is_beside = request.draft_computed == work.start
            missing = end - request.draft_computed
            if missing <= NEAR and work.samples:
                continue  # It may draft as it is.
            stop = end if is_beside else min(end, request.draft_computed + spare - taken_in)
            if stop > request.draft_computed and self._is_wanted(request, missing):
                taken_in += 0 if is_beside else stop - request.draft_computed
                batch.append(self._rows(work, stop, 0))
        return batch, taken_in

    def _rows(self, work: Work, stop: int, logits: int) -> Rows:
        request, start = work.request, work.request.draft_computed
        request.draft_computed = stop
        return Rows(request.tokens[start:stop], start, self._tables(work), logits)

    def _forward(self, batch: list[Rows]) -> Tensor:
        return self.runner.forward(batch)

    def _tables(self, work: Work) -> Sequence[Sequence[int]]:
        return (work.request.tables[self._group],)
