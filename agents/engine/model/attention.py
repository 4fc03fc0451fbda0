"""Attention of a mixed batch over the paged KV cache.

Guarantee (float32, one thread): what a query row attends to is computed over the same stretch of tokens wherever and
with whomever it is computed, because the stretch's start and padded length depend on the row's own position (and the
layer's window) alone; and every product has at least four rows, below which BLAS uses other kernels. So a row's result
does not depend on chunking, batch-mates or prefix hits.

Rows of equal padded length and count are computed together: gather their blocks, then one scaled dot product with the
query heads of a group folded into the rows (no copy of keys or values per query head). Under a window, only the blocks
from the stretch's start on are gathered; what lies before a row's window is masked like what comes after the row.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.model.ops import AttentionPlan, AttentionShape, Span
from agents.engine.scheduling.block_pool import NULL_BLOCK

_ROW_UNIT = 4
_GATHERED_TOKENS = 16384  # Most tokens gathered at once: keeps the copy inside the caches.
SMALLEST_CLASS = 64


def length_class(length: int) -> int:
    """The padded length for a row that sees `length` tokens: 64, 128, 192, 256, then powers of two and their 1.5 x."""
    if length <= 256:
        return -(-length // SMALLEST_CLASS) * SMALLEST_CLASS
    power: int = 1 << (length - 1).bit_length()
    return power * 3 // 4 if length <= power * 3 // 4 else power


@dataclass(frozen=True)
class Group:
    """B spans of n rows each. rows: (B * n,), blocks: (B * padded / size,), mask: (B, 1, n * g, padded)."""

    size: int
    count: int
    padded: int
    rows: Tensor
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True)
class TorchPlan(AttentionPlan):
    """The groups of a step, and where each row's result lies in their joined output (None: in place already)."""

    groups: tuple[Group, ...]
    order: Tensor | None


def reach(position: int, window: int | None) -> tuple[int, int, int]:
    """What the row at `position` gathers: (first token, padded length, the position from which another answer holds).

    The first token moves in steps of at least 64 tokens, so that the neighbouring rows of a prompt share a gather.
    """
    padded = length_class(position + 1)
    if window is None:
        return 0, padded, padded
    unit = max(SMALLEST_CLASS, 1 << (window // 8).bit_length() - 1 if window >= 8 else 0)
    widest = -(-(window + unit - 1) // unit) * unit
    start = max(0, position - window + 1) // unit * unit
    moves = start + unit + window - 1
    return (start, widest, moves) if padded >= widest else (start, padded, min(padded, moves))


def plan_attention(
    spans: Sequence[Span], spare_rows: int, shape: AttentionShape, window: int | None = None
) -> TorchPlan:
    """Arrange the spans of a step into groups. Spare rows follow them and get any result.

    block_size must divide 64; block 0 stands for padding, and for what slid out of the window.
    """
    group_size = shape.heads // shape.kv_heads
    pieces: dict[tuple[int, int], list[_Piece]] = defaultdict(list)
    for span in spans:
        for piece in _split_by_reach(span, window):
            pieces[piece.padded, _padded_count(piece.count, group_size)].append(piece)
    groups: list[Group] = []
    place_of: dict[int, int] = {}
    place = 0
    for padded, count in sorted(pieces):
        alike = pieces[padded, count]
        most = max(1, _GATHERED_TOKENS // padded)
        for start in range(0, len(alike), most):
            batch = alike[start : start + most]
            groups.append(_group(batch, padded, count, shape, window))
            for piece in batch:
                for offset in range(piece.count):
                    place_of[piece.row + offset] = place + offset
                place += count
    order = [place_of[row] for row in range(len(place_of))] + [0] * spare_rows
    in_place = len(order) == place and order == list(range(place))
    return TorchPlan(tuple(groups), None if in_place else torch.tensor(order, device=shape.device))


def attend(queries: Tensor, cache: Tensor, plan: TorchPlan, scale: float) -> Tensor:
    """queries: (rows, heads, d); cache: (blocks, size, 2, kv heads, d). Returns (rows, heads * d)."""
    heads, head_dim = queries.shape[1:]
    kv_heads = cache.shape[3]
    group_size = heads // kv_heads
    flat = cache.view(cache.shape[0], -1)
    outputs = []
    for group in plan.groups:
        size, count = group.size, group.count
        keys, values = (
            flat.index_select(0, group.blocks)
            .view(size, group.padded, 2, kv_heads, head_dim)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        folded = (
            queries.index_select(0, group.rows)
            .view(size, count, kv_heads, group_size, head_dim)
            .transpose(1, 2)
            .reshape(size, kv_heads, count * group_size, head_dim)
        )
        mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=group.mask, scale=scale)
        mixed = mixed.view(size, kv_heads, count, group_size, head_dim).transpose(1, 2)
        outputs.append(mixed.reshape(size * count, kv_heads * group_size * head_dim))
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return joined if plan.order is None else joined.index_select(0, plan.order)


@dataclass(frozen=True)
class _Piece:
    """Neighbouring rows of a span with one reach: tokens [start, start + padded) of the sequence."""

    row: int
    count: int
    position: int
    table: Sequence[int]
    start: int
    padded: int


def _split_by_reach(span: Span, window: int | None) -> list[_Piece]:
    """Cut where a row's reach changes."""
    pieces, row, position, left = [], span.row, span.position, span.count
    while left:
        start, padded, until = reach(position, window)
        count = min(left, until - position)
        pieces.append(_Piece(row, count, position, span.table, start, padded))
        row, position, left = row + count, position + count, left - count
    return pieces


def _padded_count(count: int, group_size: int) -> int:
    """Rows per span, so that rows times heads is a multiple of four; few distinct values, so that spans group."""
    unit = _ROW_UNIT // math.gcd(_ROW_UNIT, group_size)
    if count <= 32:
        return max(unit, 1 << (count - 1).bit_length())
    return -(-count // 16) * 16


def _group(batch: Sequence[_Piece], padded: int, count: int, shape: AttentionShape, window: int | None) -> Group:
    device, group_size = shape.device, shape.heads // shape.kv_heads
    rows: list[int] = []
    seen: list[int] = []  # By row: its own place among the gathered tokens.
    blocks: list[int] = []
    per_span = padded // shape.block_size
    for piece in batch:
        spare, place = count - piece.count, piece.position - piece.start
        # Spare rows repeat the first row, so that every row has something to attend to.
        rows += [*range(piece.row, piece.row + piece.count), *[piece.row] * spare]
        seen += [*range(place, place + piece.count), *[place] * spare]
        first = piece.start // shape.block_size
        held = piece.table[first : first + per_span]
        blocks += held
        blocks += [NULL_BLOCK] * (per_span - len(held))
    own = torch.tensor(seen, device=device).view(len(batch), count, 1)
    tokens = torch.arange(padded, device=device)
    hidden = tokens > own
    if window is not None:
        hidden |= tokens <= own - window
    mask = torch.zeros(hidden.shape, dtype=shape.dtype, device=device).masked_fill_(hidden, -math.inf)
    if group_size > 1:
        mask = mask.repeat_interleave(group_size, dim=1)
    return Group(
        len(batch),
        count,
        padded,
        torch.tensor(rows, device=device),
        torch.tensor(blocks, device=device),
        mask.unsqueeze(1),
    )
