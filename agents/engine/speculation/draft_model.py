"""Drafting with a small model of the same vocabulary.

The draft model keeps its own keys and values in the slots of the same blocks as the target's. Each sequence counts how
many of its tokens the draft model has taken in (`draft_computed`); it takes in a prompt beside the target, chunk by
chunk, and what it missed (a cached prefix, steps without speculation) in one go before it drafts. Drafts are its
argmax.

Guarantee: what this proposes changes speed only, never text.
"""

from collections.abc import Sequence as Items

from agents.engine.model.runner import Rows, Runner
from agents.engine.scheduling.scheduler import Work
from agents.engine.scheduling.sequence import Sequence

_ROWS_AT_ONCE = 512


class ModelDrafter:
    """Drafts by running a small model ahead."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def reserve(self, sequence: Sequence, limit: int) -> int:
        return limit

    def propose(self, works: Items[Work]) -> None:
        """Take in every work's tokens, then draft for those that want drafts."""
        drafting = [work for work in works if work.draft_count]
        if not drafting:
            # Without anybody to draft for, prompts are still taken in beside the target, a chunk each step.
            self._take_in([work for work in works if work.count > 1])
            return
        firsts = self._take_in(works)
        for work in drafting:
            work.drafts = [firsts[id(work)]]
        depth = 1
        while going := [work for work in drafting if work.draft_count > depth]:
            batch = [Rows([work.drafts[-1]], work.start + depth, work.sequence.tables, 1) for work in going]
            for work, token in zip(going, self.runner.forward(batch).argmax(dim=-1).tolist(), strict=True):
                work.drafts.append(int(token))
            depth += 1

    def commit(self, work: Work, accepted: int) -> None:
        """Drafts but the last were taken in while drafting; those accepted are part of the sequence now."""
        if work.draft_count:
            work.sequence.draft_computed += min(accepted, work.draft_count - 1)

    def _take_in(self, works: Items[Work]) -> dict[int, int]:
        """Bring the draft cache up to each work's end. Returns the first draft of each that wants some, by id()."""
        firsts: dict[int, int] = {}
        batch: list[tuple[Work, Rows]] = []
        waiting_rows = 0
        for work in works:
            sequence, end = work.sequence, work.start + work.count
            while sequence.draft_computed < end:
                stop = min(end, sequence.draft_computed + _ROWS_AT_ONCE)
                tokens = sequence.tokens[sequence.draft_computed : stop]
                wanted = 1 if stop == end and work.draft_count else 0
                batch.append((work, Rows(tokens, sequence.draft_computed, sequence.tables, wanted)))
                sequence.draft_computed = stop
                waiting_rows += len(tokens)
                if waiting_rows >= _ROWS_AT_ONCE:
                    self._flush(batch, firsts)
                    waiting_rows = 0
        self._flush(batch, firsts)
        return firsts

    def _flush(self, batch: list[tuple[Work, Rows]], firsts: dict[int, int]) -> None:
        if not batch:
            return
        logits = self.runner.forward([rows for _, rows in batch])
        asking = [work for work, rows in batch if rows.logits]
        for work, token in zip(asking, logits.argmax(dim=-1).tolist() if asking else [], strict=True):
            firsts[id(work)] = int(token)
        batch.clear()
