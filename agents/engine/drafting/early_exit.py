"""Drafting with the target's own first layers: their output goes straight to the final norm and the head (Elhoushi et
al. 2024, "LayerSkip", self-speculative decoding; here with weights that were not trained for it).

It has no cache of its own: the first layers' keys and values of a token are the same whether later layers follow, so a
draft writes them where verification will write them again, in blocks that the request holds. A draft costs its share
of the layers and the whole head, which is why it loses on small models with a large vocabulary.
"""

from collections.abc import Sequence

from torch import Tensor

from agents.engine.drafting.running_ahead import add_drafts, run_ahead
from agents.engine.model.runner import Rows, Runner
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.step_plan import Work


class EarlyExitDrafter(Drafter):
    """Drafts with the first `depth` layers of the target's runner. Keeps nothing between steps."""

    def __init__(self, runner: Runner, depth: int) -> None:
        self._runner, self.depth = runner, depth

    def reserve(self, request: Request, limit: int) -> int:
        return limit

    def propose(self, works: Sequence[Work], spare: int = 0) -> int:
        drafting = [work for work in works if work.draft_count]
        if drafting:
            add_drafts(drafting, self._forward([_last_token(work) for work in drafting]))
            run_ahead(drafting, self._forward, _tables)
        return 0

    def commit(self, work: Work, accepted: int) -> None:
        """Nothing to keep: what drafting wrote, verification has written again."""

    def _forward(self, batch: list[Rows]) -> Tensor:
        return self._runner.forward(batch, depth=self.depth)


def default_depth(layers: int) -> int:
    """A third of the layers, at least one."""
    return max(1, layers // 3)


def _tables(work: Work) -> Sequence[Sequence[int]]:
    return work.request.tables


def _last_token(work: Work) -> Rows:
    assert work.count == 1, "only decodes draft"
    return Rows([work.request.tokens[work.start]], work.start, work.request.tables, 1)
