"""Attention of a mixed batch over the paged KV cache.

Guarantee (float32, one thread of any processor; a GPU promises nothing): a row's result has the same bits with whomever
and in whatever pieces it is computed. It does not lean on what a BLAS does from one size to the next: libraries take
other kernels, and so other orders of addition, by the number of rows (Intel's MKL on AVX512 below some tens of rows, on
AVX2 and SSE at others). It holds because whatever a library may go by is a function of the row's own position and the
model's shape:
- the product's shape: a tile of `TILE_ROWS` query rows over a padded stretch of tokens; start and length of the stretch
  depend on the position (and the layer's window) alone;
- the row's place in the tile: its position modulo the positions that a tile holds; places without a row of this step
  are filled with one that is;
- alignment: tiles and stretches begin at whole cache lines.

The query heads of a group are folded into the rows (no copy of keys or values per query head). A prompt's piece
gathers its blocks once for all its tiles; decoding rows with stretches of one length are computed together, on a GPU
those of any length. Under a window, only the blocks from the stretch's start on are gathered; what lies before a row's
window is masked like what comes after it.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.ops.indices import indices
from agents.engine.ops.ops import AttentionPlan, AttentionShape, Span
from agents.engine.scheduling.block_pool import NULL_BLOCK

TILE_ROWS = 16
"""Query rows, times heads of a group, that one product computes: enough for a BLAS to be quick, few enough that
decoding does not pay for them. A multiple of the 16 floats of a cache line, for alignment."""
_GATHERED_TOKENS = 16384  # Most tokens gathered at once: keeps the copy inside the caches.
_GATHERED_ON_GPU = 65536
SMALLEST_CLASS = 64


def length_class(length: int) -> int:
    """The padded length for a row that sees `length` tokens: 64, 128, 192, 256, then powers of two and their 1.5 x."""
    if length <= 256:
        return -(-length // SMALLEST_CLASS) * SMALLEST_CLASS
    power: int = 1 << (length - 1).bit_length()
    return power * 3 // 4 if length <= power * 3 // 4 else power


@dataclass(frozen=True)
class Group:
    """B tiles over S gathered stretches, S = B or S = 1. rows: (B * positions of a tile,), blocks: (S * padded / block
    size,), mask: (B, 1, rows of a tile, padded)."""

    tiles: int
    stretches: int
    padded: int
    rows: Tensor
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True)
class TorchPlan(AttentionPlan):
    """The groups of a step, and where each row's result lies in their joined output (None: in place already)."""

    groups: tuple[Group, ...]
    order: Tensor | None


def tile_of(group_size: int) -> tuple[int, int]:
    """(positions that a tile holds, its rows) where so many query heads share a key head."""
    positions = max(1, TILE_ROWS // group_size)
    return positions, -(-positions * group_size // TILE_ROWS) * TILE_ROWS


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
    per_tile = tile_of(shape.heads // shape.kv_heads)[0]
    single: list[_Piece] = []
    batches: list[list[_Piece]] = []
    for span in spans:
        for piece in _split_by_reach(span, window):
            if piece.tiles(per_tile) == 1:
                single.append(piece)
            else:
                batches.append([piece])
    batches += (alike if shape.device.type == "cpu" else few)(single)
    groups: list[Group] = []
    place_of: dict[int, int] = {}
    place = 0
    for batch in batches:
        groups.append(_group(batch, shape, window))
        for piece in batch:
            for offset in range(piece.count):
                place_of[piece.row + offset] = place + piece.position % per_tile + offset
            place += piece.tiles(per_tile) * per_tile
    order = [place_of[row] for row in range(len(place_of))] + [0] * spare_rows
    in_place = len(order) == place and order == list(range(place))
    return TorchPlan(tuple(groups), None if in_place else indices(order, shape.device))


def attend(queries: Tensor, cache: Tensor, plan: TorchPlan, scale: float) -> Tensor:
    """queries: (rows, heads, d); cache: (blocks, size, 2, kv heads, d). Returns (rows, heads * d)."""
    heads, head_dim = queries.shape[1:]
    kv_heads = cache.shape[3]
    group_size = heads // kv_heads
    flat = cache.view(cache.shape[0], -1)
    outputs = []
    positions, tile_rows = tile_of(group_size)
    used = positions * group_size
    for group in plan.groups:
        tiles = group.tiles
        gathered = flat.index_select(0, group.blocks).view(group.stretches, group.padded, 2, kv_heads, head_dim)
        keys, values = gathered.permute(2, 0, 3, 1, 4).expand(2, tiles, -1, -1, -1).unbind(0)
        folded = (
            queries.index_select(0, group.rows)
            .view(tiles, positions, kv_heads, group_size, head_dim)
            .transpose(1, 2)
            .reshape(tiles, kv_heads, used, head_dim)
        )
        if used < tile_rows:
            folded = F.pad(folded, (0, 0, 0, tile_rows - used))
        mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=group.mask, scale=scale)[:, :, :used]
        mixed = mixed.view(tiles, kv_heads, positions, group_size, head_dim).transpose(1, 2)
        outputs.append(mixed.reshape(tiles * positions, kv_heads * group_size * head_dim))
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

    def tiles(self, positions: int) -> int:
        """Tiles of so many positions that its rows lie in."""
        return (self.position + self.count - 1) // positions - self.position // positions + 1


def _split_by_reach(span: Span, window: int | None) -> list[_Piece]:
    """Cut where a row's reach changes."""
    pieces, row, position, left = [], span.row, span.position, span.count
    while left:
        start, padded, until = reach(position, window)
        count = min(left, until - position)
        pieces.append(_Piece(row, count, position, span.table, start, padded))
        row, position, left = row + count, position + count, left - count
    return pieces


def alike(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Batches of pieces of one padded length, none with more tokens than a processor's caches hold."""
    batches: list[list[_Piece]] = []
    by_length: dict[int, list[_Piece]] = defaultdict(list)
    for piece in pieces:
        by_length[piece.padded].append(piece)
    for padded, same in sorted(by_length.items()):
        most = max(1, _GATHERED_TOKENS // padded)
        batches += [same[start : start + most] for start in range(0, len(same), most)]
    return batches


def few(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Few batches, each padded to its first piece's length, the longest: a GPU spends less on tokens that are gathered
    and hidden than on further launches."""
    batches: list[list[_Piece]] = []
    for piece in sorted(pieces, key=lambda piece: -piece.padded):
        if not batches or (len(batches[-1]) + 1) * batches[-1][0].padded > _GATHERED_ON_GPU:
            batches.append([])
        batches[-1].append(piece)
    return batches


def _group(batch: Sequence[_Piece], shape: AttentionShape, window: int | None) -> Group:
    """Pieces of one tile each, or one piece of many."""
    device, group_size, padded = shape.device, shape.heads // shape.kv_heads, batch[0].padded
    positions, tile_rows = tile_of(group_size)
    rows: list[int] = []
    seen: list[int] = []  # By row: its own place among the gathered tokens.
    blocks: list[int] = []
    per_stretch = padded // shape.block_size
    for piece in batch:
        place, before = piece.position - piece.start, piece.position % positions
        after = piece.tiles(positions) * positions - before - piece.count
        # Places of no row repeat a row's: each has something to attend to.
        rows += [*[piece.row] * before, *range(piece.row, piece.row + piece.count), *[piece.row] * after]
        seen += [*[place] * before, *range(place, place + piece.count), *[place] * after]
        first = piece.start // shape.block_size
        held = piece.table[first : first + per_stretch]
        blocks += held
        blocks += [NULL_BLOCK] * (per_stretch - len(held))
    tiles = len(rows) // positions
    own = indices(seen, device).view(tiles, positions, 1)
    tokens = torch.arange(padded, device=device)
    hidden = tokens > own
    if window is not None:
        hidden |= tokens <= own - window
    mask = torch.zeros((tiles, 1, tile_rows, padded), dtype=shape.dtype, device=device)
    used = positions * group_size
    mask[:, 0, :used].masked_fill_(hidden.repeat_interleave(group_size, dim=1), -math.inf)
    return Group(tiles, len(batch), padded, indices(rows, device), indices(blocks, device), mask)
