"""A step's works as tensors, through a decoder with its paged cache.

Guarantee: rows are laid out work by work, tokens before drafts; logits come back work by work: one row for each draft
place and one more where a next token is wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agents.engine.model.cache_pages import allocate_pages
from agents.engine.model.decoder import Decoder, StepInput
from agents.engine.ops.indices import indices
from agents.engine.ops.ops import Span
from agents.engine.quantization.linear import LEAST_ROWS_ELSEWHERE
from agents.engine.scheduling.block_pool import NULL_BLOCK
from agents.engine.scheduling.cache_groups import CacheGroup


@dataclass(frozen=True)
class Rows:
    """Neighbouring tokens of one sequence from `position` on; the last `logits` of them want logits.

    tables: block ids by place in the sequence, one table per cache group.
    """

    tokens: Sequence[int]
    position: int
    tables: Sequence[Sequence[int]]
    logits: int


def padded_rows(count: int) -> int:
    """The row count computed for `count` rows. Few distinct ones: oneDNN prepares each anew, in milliseconds."""
    for largest, unit in ((16, 1), (64, 4), (256, 16)):
        if count <= largest:
            return -(-count // unit) * unit
    return -(-count // 32) * 32


class Runner:
    """A decoder and the cache it fills. The null block takes what padding rows write; nobody reads it.

    groups: whose tables the layers use; None: the model's own. A draft model that lives in another model's blocks puts
    all its layers into one group.
    """

    def __init__(
        self, decoder: Decoder, num_blocks: int, block_size: int, groups: Sequence[CacheGroup] | None = None
    ) -> None:
        self.decoder = decoder
        self._block_size = block_size
        self._least_rows = 1 if decoder.device.type == "cpu" else LEAST_ROWS_ELSEWHERE
        self._pages = allocate_pages(
            decoder.config,
            decoder.config.cache_groups() if groups is None else groups,
            num_blocks + 1,
            block_size,
            decoder.dtype,
            decoder.device,
        )

    @property
    def cache_bytes(self) -> int:
        """Of its pages, the null block's among them."""
        return sum(page.nbytes for page in self._pages.tensors)

    @property
    def last_attention_s(self) -> float | None:
        """Seconds of the last forward pass in attention; None where it is not measured (any device but the CPU)."""
        return self.decoder.last_attention_s

    def forward(self, batch: Sequence[Rows], depth: int | None = None) -> Tensor:
        """Logits (sum of wanted rows, vocabulary), float32. depth: stop after so many layers and go to the head
        (early exit: keys and values of the later layers stay unwritten); None: all of them."""
        decoder, pages = self.decoder, self._pages
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        for rows in batch:
            tokens += rows.tokens
            positions += range(rows.position, rows.position + len(rows.tokens))
            wanted += range(len(tokens) - rows.logits, len(tokens))
        spare = max(self._least_rows, padded_rows(len(tokens))) - len(tokens)
        everything = not spare and len(wanted) == len(tokens)
        shape = decoder.attention_shape(self._block_size)
        spans = [_spans(batch, group) for group in range(pages.num_groups)]
        step = StepInput(
            tokens=self._tensor(tokens + [0] * spare),
            positions=self._tensor(positions + [0] * spare),
            slots=tuple(self._slots(batch, group, spare) for group in range(pages.num_groups)),
            plans={
                view: decoder.ops.plan(spans[view.group], spare, shape, view.window) for view in pages.distinct_views
            },
            logit_rows=None if everything else self._tensor(wanted),
            depth=depth,
        )
        return decoder.forward(step, pages)

    def _tensor(self, values: list[int]) -> Tensor:
        return indices(values, self.decoder.device)

    def _slots(self, batch: Sequence[Rows], group: int, spare: int) -> Tensor:
        size = self._block_size
        slots: list[int] = []
        for rows in batch:
            table = rows.tables[group]
            places = range(rows.position, rows.position + len(rows.tokens))
            slots += [table[place // size] * size + place % size for place in places]
        return self._tensor(slots + [NULL_BLOCK * size] * spare)

    def warm_up(self, most_rows: int = 64) -> None:
        """Compute padding rows of each small row count once, so that no request pays for first-time preparation."""
        for count in sorted({padded_rows(rows) for rows in range(1, most_rows + 1)}):
            self.forward([Rows([0], 0, [[NULL_BLOCK]] * self._pages.num_groups, 1) for _ in range(count)])


def _spans(batch: Sequence[Rows], group: int) -> list[Span]:
    spans: list[Span] = []
    row = 0
    for rows in batch:
        spans.append(Span(row, len(rows.tokens), rows.position, rows.tables[group]))
        row += len(rows.tokens)
    return spans
