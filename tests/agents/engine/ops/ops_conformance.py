"""What every implementation of `Ops` must do, against definitions written out in float64.

Use it by a class that inherits `OpsConformance` and `OpsBitStability` and gives the fixture `ops`.
"""

import math
import random
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from agents.engine.ops.ops import AttentionShape, Ops, Span

CPU = torch.device("cpu")
TOLERANCES = {torch.float32: 5e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}
"""Relative to numbers of size 1 and more: some roundings of the format."""

SHAPES = [  # heads, key/value heads, head dimension, block size, window
    (4, 1, 256, 16, None),
    (4, 2, 64, 16, None),
    (4, 2, 64, 16, 50),
    (3, 1, 32, 8, 7),
    (4, 4, 16, 1, None),
    (8, 1, 80, 64, 100),
    (5, 5, 48, 4, 1),
    (14, 2, 128, 16, None),
    (6, 2, 24, 32, 513),
]
WORKS = [(1, 0), (1, 63), (1, 64), (5, 60), (1, 700), (130, 450), (33, 0), (2, 1), (1, 1100)]
"""Rows and first position of each sequence in a mixed step: around the edges of blocks, and long ones."""


@dataclass(frozen=True)
class Case:
    """A step over random pages whose block 0 holds what no row may see."""

    queries: Tensor
    pages: Tensor
    spans: list[Span]
    shape: AttentionShape
    window: int | None


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def attention_case(
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_size: int,
    window: int | None,
    works: list[tuple[int, int]] = WORKS,
    dtype: torch.dtype = torch.float32,
    junk: float = 3e4,
) -> Case:
    """Blocks are dealt at random; those that have left a window are given back."""
    lengths = [-(-(position + count) // block_size) for count, position in works]
    ids = list(range(1, sum(lengths) + 1))
    random.Random(1).shuffle(ids)
    pages = draw(len(ids) + 1, block_size, 2, kv_heads, head_dim, seed=2, dtype=dtype)
    pages[0] = junk
    spans: list[Span] = []
    row = 0
    for (count, position), length in zip(works, lengths, strict=True):
        table = [ids.pop() for _ in range(length)]
        if window is not None:
            released = max(0, position - window + 1) // block_size
            table[:released] = [0] * released
        spans.append(Span(row, count, position, table))
        row += count
    queries = draw(row, heads, head_dim, seed=3, dtype=dtype)
    return Case(queries, pages, spans, AttentionShape(heads, kv_heads, head_dim, block_size, dtype, CPU), window)


def attended(case: Case, scale: float) -> Tensor:
    """The definition: softmax over the keys a row sees, in float64."""
    shape, results = case.shape, []
    group = shape.heads // shape.kv_heads
    for span in case.spans:
        held = case.pages[torch.tensor(span.table)].double().reshape(-1, 2, shape.kv_heads, shape.head_dim)
        keys, values = held.repeat_interleave(group, dim=2).unbind(1)
        queries = case.queries[span.row : span.row + span.count].double()
        places, seen = torch.arange(held.shape[0]), torch.arange(span.position, span.position + span.count).unsqueeze(1)
        hidden = places > seen
        if case.window is not None:
            hidden |= places <= seen - case.window
        weights = (torch.einsum("qhd,khd->hqk", queries, keys) * scale).masked_fill(hidden, -math.inf).softmax(dim=-1)
        results.append(torch.einsum("hqk,khd->qhd", weights, values).flatten(1))
    return torch.cat(results)


def close(found: Tensor, wanted: Tensor) -> bool:
    difference = (found.double() - wanted).abs() / wanted.abs().clamp_min(1.0)
    return bool(difference.max() <= TOLERANCES[found.dtype])


def normed(rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    exact = rows.double()
    return exact / (exact.pow(2).mean(dim=-1, keepdim=True) + epsilon).sqrt() * weight.double()


class OpsConformance:
    @pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
    def dtype(self, request: pytest.FixtureRequest) -> torch.dtype:
        found: torch.dtype = request.param
        return found

    @pytest.mark.parametrize("rows,width", [(1, 256), (5, 72), (3, 640), (40, 16), (2, 9)])
    def test_norms(self, ops: Ops, dtype: torch.dtype, rows: int, width: int) -> None:
        stream, change, weight = draw(rows, width, dtype=dtype), draw(rows, width, seed=1, dtype=dtype), draw(width)
        assert close(ops.rms_norm(stream, weight, 1e-6), normed(stream, weight, 1e-6))
        total = change + stream
        found, found_total = ops.add_rms_norm(change.clone(), stream.clone(), weight, 1e-6)
        assert torch.equal(found_total, total) and found.dtype == dtype
        assert close(found, normed(total, weight, 1e-6))

    def test_a_norm_over_more_axes_is_over_the_last(self, ops: Ops, dtype: torch.dtype) -> None:
        rows, weight = draw(3, 4, 24, dtype=dtype), draw(24)
        assert close(ops.rms_norm(rows, weight, 1e-5), normed(rows, weight, 1e-5))

    @pytest.mark.parametrize("rows,width", [(1, 640), (7, 96), (50, 24), (3, 5)])
    def test_gates(self, ops: Ops, dtype: torch.dtype, rows: int, width: int) -> None:
        gates = draw(rows, 2 * width, dtype=dtype) * 4
        gate, up = gates.double().chunk(2, dim=1)
        assert close(ops.gate(gates, "silu"), gate * gate.sigmoid() * up)
        assert close(ops.gate(gates, "gelu_tanh"), torch.nn.functional.gelu(gate, approximate="tanh") * up)

    @pytest.mark.parametrize("with_norms", [False, True])
    @pytest.mark.parametrize("heads,kv_heads,head_dim", [(4, 1, 256), (4, 2, 64), (3, 3, 16), (8, 2, 80), (2, 1, 24)])
    def test_rotation_and_cache_write(
        self, ops: Ops, dtype: torch.dtype, heads: int, kv_heads: int, head_dim: int, with_norms: bool
    ) -> None:
        rows, size = 6, 4
        qkv = draw(rows, (heads + 2 * kv_heads) * head_dim, dtype=dtype)
        cos, sin = draw(rows, head_dim, seed=1, dtype=dtype), draw(rows, head_dim, seed=2, dtype=dtype)
        norms = (draw(head_dim, seed=3), draw(head_dim, seed=4), 1e-6) if with_norms else None
        slots = torch.tensor([5, 18, 6, 11, 0, 0])  # The last two are padding.
        pages = draw(5, size, 2, kv_heads, head_dim, seed=5, dtype=dtype)
        before = pages.clone()
        queries = ops.rotate_and_store(qkv, norms, cos, sin, slots, pages, heads)

        own_queries, keys, values = qkv.double().view(rows, -1, head_dim).split([heads, kv_heads, kv_heads], dim=1)
        if norms is not None:
            own_queries, keys = normed(own_queries, norms[0], 1e-6), normed(keys, norms[1], 1e-6)

        def turned(part: Tensor) -> Tensor:
            return part * cos.double().unsqueeze(1) + part.roll(head_dim // 2, dims=-1) * sin.double().unsqueeze(1)

        assert queries.shape == (rows, heads, head_dim) and close(queries, turned(own_queries))
        flat, untouched = pages.view(-1, 2, kv_heads, head_dim), before.view(-1, 2, kv_heads, head_dim)
        assert close(flat[slots[:4], 0], turned(keys)[:4])
        assert torch.equal(flat[slots[:4], 1].double(), values[:4])
        others = [slot for slot in range(1, 20) if slot not in slots.tolist()]
        assert torch.equal(flat[others], untouched[others])

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_attention_is_its_definition(
        self, ops: Ops, dtype: torch.dtype, shape: tuple[int, int, int, int, int | None]
    ) -> None:
        case = attention_case(*shape, dtype=dtype)
        plan = ops.plan(case.spans, 3, case.shape, case.window)
        queries = torch.cat((case.queries, draw(3, shape[0], shape[2], dtype=dtype)))
        found = ops.attend(queries, case.pages, plan, shape[2] ** -0.5)
        rows = case.queries.shape[0]
        assert found.shape == (rows + 3, shape[0] * shape[2]) and found.dtype == dtype
        assert close(found[:rows], attended(case, shape[2] ** -0.5))
        assert found[rows:].isfinite().all()

    def test_large_scores_do_not_overflow(self, ops: Ops, dtype: torch.dtype) -> None:
        """Scores of some hundreds: exp would overflow. A rounding of such a score moves its weight by 1e-4."""
        case = attention_case(4, 2, 64, 16, None, works=[(1, 90), (20, 0)], dtype=dtype)
        found = ops.attend(case.queries * 64, case.pages, ops.plan(case.spans, 0, case.shape, None), 0.125)
        loud = Case(case.queries * 64, case.pages, case.spans, case.shape, None)
        assert found.isfinite().all() and (found.double() - attended(loud, 0.125)).abs().max() < 3e-2


Shape = tuple[int, int, int, int, int | None]


def drawn_shape(seed: int) -> Shape:
    """Any shape that a model may have: groups of 1 to 16 heads, odd head counts, windows or none."""
    dice = random.Random(seed)
    kv_heads, group = dice.choice((1, 2, 3, 5)), dice.choice((1, 2, 3, 4, 7, 8, 16))
    window = dice.choice((None, None, dice.randrange(1, 700)))
    return kv_heads * group, kv_heads, 2 * dice.randrange(4, 129), dice.choice((1, 4, 16, 64)), window


class OpsBitStability:
    """In float32, with one thread."""

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_bits_depend_neither_on_chunking_nor_on_batch_mates(self, ops: Ops, shape: Shape) -> None:
        self.compare_pieces(ops, shape, 590, (1, 1, 1, 2, 3, 7, 31, 64, 100), seed=5)

    @pytest.mark.parametrize("seed", range(12))
    def test_bits_of_drawn_shapes_and_lengths(self, ops: Ops, seed: int) -> None:
        dice = random.Random(seed)
        sizes = tuple(dice.randrange(1, dice.choice((4, 40, 200))) for _ in range(9))
        self.compare_pieces(ops, drawn_shape(seed), dice.randrange(60, 900), sizes, seed)

    @staticmethod
    def compare_pieces(
        ops: Ops, shape: Shape, length: int, sizes: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32
    ) -> None:
        """A text's rows computed whole, and in pieces of the given sizes beside two other sequences."""
        whole = attention_case(*shape, works=[(length, 0)], dtype=dtype)
        span, scale = whole.spans[0], shape[2] ** -0.5
        wanted = ops.attend(whole.queries, whole.pages, ops.plan([span], 0, whole.shape, whole.window), scale)
        dice = random.Random(seed)
        # Mates of other sizes each time, one of which may lie in the same stretch or have as many rows.
        crowds = [
            attention_case(*shape, works=works, dtype=dtype) for works in ([(1, 333), (3, 90)], [(1, 1), (40, 7)])
        ]
        # The mates' blocks follow the own ones in the same pages.
        shift = whole.pages.shape[0] - 1
        pages = [torch.cat((whole.pages, mates.pages[1:])) for mates in crowds]
        done = 0
        while done < length:
            count, crowd = min(dice.choice(sizes), length - done), dice.randrange(2)
            mates = crowds[crowd]
            first, second = (
                Span(row, mate.count, mate.position, [block and block + shift for block in mate.table])
                for row, mate in zip((0, 1 + count), mates.spans, strict=True)
            )
            spans = [first, Span(1, count, done, span.table), second]
            queries = torch.cat((mates.queries[:1], whole.queries[done : done + count], mates.queries[1:]))
            found = ops.attend(queries, pages[crowd], ops.plan(spans, 0, whole.shape, whole.window), scale)
            assert torch.equal(found[1 : 1 + count], wanted[done : done + count]), (done, count)
            done += count

    @pytest.mark.parametrize("seed", range(8))
    def test_bits_of_norms_rotations_and_gates(self, ops: Ops, seed: int) -> None:
        dice = random.Random(seed)
        heads, kv_heads, head_dim, size, _ = drawn_shape(seed)
        rows, width, inner = 70, dice.randrange(1, 700), dice.randrange(1, 900)
        stream, change, weight = draw(rows, width), draw(rows, width, seed=1), draw(width)
        qkv, gates = draw(rows, (heads + 2 * kv_heads) * head_dim), draw(rows, 2 * inner) * 4
        cos, sin = draw(rows, head_dim, seed=1), draw(rows, head_dim, seed=2)
        norms = (draw(head_dim, seed=3), draw(head_dim, seed=4), 1e-6) if seed % 2 else None
        slots = torch.tensor(random.Random(seed).sample(range(size, 100 * size), rows))

        def results(own: slice) -> dict[str, Tensor]:
            pages = torch.zeros(100, size, 2, kv_heads, head_dim)
            normed, total = ops.add_rms_norm(change[own].clone(), stream[own].clone(), weight, 1e-6)
            queries = ops.rotate_and_store(qkv[own].clone(), norms, cos[own], sin[own], slots[own], pages, heads)
            stored = pages.view(-1, 2 * kv_heads * head_dim)[slots[own]]
            found = {"norm": ops.rms_norm(stream[own].clone(), weight, 1e-6), "sum": total, "norm of the sum": normed}
            found |= {"queries": queries, "stored": stored}
            return found | {name: ops.gate(gates[own].clone(), name) for name in ("silu", "gelu_tanh")}

        whole = results(slice(0, rows))
        for start, count in ((0, 1), (7, 1), (69, 1), (1, 2), (30, 3), (11, 17), (5, 64)):
            own = slice(start, start + count)
            for name, found in results(own).items():
                assert torch.equal(found, whole[name][own]), (name, start, count)
