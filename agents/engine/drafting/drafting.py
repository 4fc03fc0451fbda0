"""What every way to draft has in common, and the simplest, prompt lookup.

Every drafter is deterministic given a request's tokens, parameters and seed. Verification therefore samples the
target's own token at each place, with that place's own random number, and keeps drafts as long as they equal it:
rejection sampling with a point-mass proposal (Leviathan et al. 2023, algorithm 1, with q = 1 at the draft: the draft is
kept with probability p(draft), and otherwise a token is drawn from p without it), so that the output's distribution,
and even its text, is the target's.
"""

from collections.abc import Sequence

from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import Work
from agents.engine.speculation.ngram import NgramIndex


class NgramDrafter(Drafter):
    """Drafts by prompt lookup."""

    def reserve(self, request: Request, limit: int) -> int:
        return len(self._lookup(request, limit))

    def propose(self, works: Sequence[Work], spare: int = 0) -> int:
        for work in works:
            if work.draft_count:
                work.drafts = self._lookup(work.request, work.draft_count)
        return 0

    def commit(self, work: Work, accepted: int) -> None:
        """Nothing to keep: the index follows the request's tokens."""

    def _lookup(self, request: Request, limit: int) -> list[int]:
        if request.ngrams is None:
            request.ngrams = NgramIndex()
        return request.ngrams.propose(request.tokens, limit)


def accept(drafts: Sequence[int], sampled: Sequence[int]) -> list[int]:
    """The tokens a step yields. sampled[i] is the target's token at the place of draft i; the last comes after them.

    Drafts are kept while they equal the target's tokens; the first that differs is replaced by the target's and
    ends it.
    """
    assert len(sampled) == len(drafts) + 1
    kept: list[int] = []
    for draft, token in zip(drafts, sampled, strict=False):
        kept.append(token)
        if draft != token:
            return kept
    return [*kept, sampled[-1]]
