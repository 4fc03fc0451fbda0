"""A step's works as tensors, through a decoder with its paged cache.

Guarantee: rows are laid out work by work, tokens before drafts; logits come back work by work: one row for each draft
place and one more where a next token is wanted.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.engine.model.decoder import Decoder, StepInput
from agents.engine.model.ops import Span
from agents.engine.scheduling.block_pool import NULL_BLOCK


@dataclass(frozen=True)
class Rows:
    """Neighbouring tokens of one sequence from `position` on; the last `logits` of them want logits.

    tables: block ids by place in the sequence, one table per cache group.
    """

    tokens: Items[int]
    position: int
    tables: Items[Items[int]]
    logits: int


def padded_rows(count: int) -> int:
    """The row count computed for `count` rows. Few distinct ones: oneDNN prepares each anew, in milliseconds."""
    for largest, unit in ((16, 1), (64, 4), (256, 16)):
        if count <= largest:
            return -(-count // unit) * unit
    return -(-count // 32) * 32


class Runner:
    """A decoder and the cache it fills. The null block takes what padding rows write; nobody reads it."""

    def __init__(self, decoder: Decoder, num_blocks: int, block_size: int) -> None:
        self.decoder = decoder
        self._block_size = block_size
        self._cache = decoder.new_cache(num_blocks + 1, block_size)

    def forward(self, batch: Items[Rows]) -> Tensor:
        """Logits (sum of wanted rows, vocabulary), float32."""
        decoder, size = self.decoder, self._block_size
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        for rows in batch:
            tokens += rows.tokens
            positions += range(rows.position, rows.position + len(rows.tokens))
            wanted += range(len(tokens) - rows.logits, len(tokens))
        spare = padded_rows(len(tokens)) - len(tokens)
        everything = not spare and len(wanted) == len(tokens)
        shape = decoder.attention_shape(size)
        spans = {view: _spans(batch, view.group) for view in decoder.views}
        step = StepInput(
            tokens=torch.tensor(tokens + [0] * spare),
            positions=torch.tensor(positions + [0] * spare),
            slots=tuple(self._slots(batch, group, spare) for group in range(len(batch[0].tables))),
            plans={view: decoder.ops.plan(own, spare, shape, view.window) for view, own in spans.items()},
            logit_rows=None if everything else torch.tensor(wanted, dtype=torch.int64),
        )
        return decoder.forward(step, self._cache)

    def _slots(self, batch: Items[Rows], group: int, spare: int) -> Tensor:
        size = self._block_size
        slots: list[int] = []
        for rows in batch:
            table = rows.tables[group]
            places = range(rows.position, rows.position + len(rows.tokens))
            slots += [table[place // size] * size + place % size for place in places]
        return torch.tensor(slots + [NULL_BLOCK * size] * spare)

    def warm_up(self, most_rows: int = 64) -> None:
        """Compute padding rows of each small row count once, so that no request pays for first-time preparation."""
        for count in sorted({padded_rows(rows) for rows in range(1, most_rows + 1)}):
            self.forward([Rows([0], 0, [[NULL_BLOCK]], 1) for _ in range(count)])


def _spans(batch: Items[Rows], group: int) -> list[Span]:
    spans: list[Span] = []
    row = 0
    for rows in batch:
        spans.append(Span(row, len(rows.tokens), rows.position, rows.tables[group]))
        row += len(rows.tokens)
    return spans
