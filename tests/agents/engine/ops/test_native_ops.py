"""The native operations are their definitions, and their bits hold still."""

from collections.abc import Iterator

import pytest
import torch

from agents.engine.ops.library import NativeUnavailable
from agents.engine.ops.native_ops import NativeOps
from agents.engine.ops.ops import Span
from agents.engine.ops.ops_choice import native_ops
from tests.agents.engine.ops.ops_conformance import (
    SHAPES,
    OpsBitStability,
    OpsConformance,
    Shape,
    attended,
    attention_case,
    close,
    draw,
    drawn_shape,
)

pytestmark = pytest.mark.slow

FORMATS = [torch.float32, torch.bfloat16, torch.float16]
BLOCK_SIZES = [1, 3, 16, 48, 64]


@pytest.fixture(scope="module")
def ops() -> NativeOps:
    try:
        return native_ops()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def as_many_threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class TestNativeOps(OpsConformance, OpsBitStability):
    """The suite, with the fixture of this module, and bits in the other formats, too."""

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_bits_hold_still_in_half_precision(self, ops: NativeOps, shape: Shape, dtype: torch.dtype) -> None:
        self.compare_pieces(ops, shape, 590, (1, 1, 1, 2, 3, 7, 31, 64, 100), seed=5, dtype=dtype)

    @pytest.mark.parametrize("seed", range(12))
    def test_bits_of_drawn_shapes_hold_still_in_bfloat16(self, ops: NativeOps, seed: int) -> None:
        self.compare_pieces(
            ops, drawn_shape(seed), 60 + 70 * seed, (1, 2, 5, 17, 33, 120), seed=seed, dtype=torch.bfloat16
        )


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("group", range(1, 9))
def test_attention_for_every_group_and_block_size(
    ops: NativeOps, dtype: torch.dtype, block_size: int, group: int
) -> None:
    head_dim = 16 * group
    case = attention_case(2 * group, 2, head_dim, block_size, None, works=[(1, 70), (9, 120), (3, 0)], dtype=dtype)
    found = ops.attend(case.queries, case.pages, ops.plan(case.spans, 0, case.shape, None), head_dim**-0.5)
    assert close(found, attended(case, head_dim**-0.5))


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("window", [None, 600])
@pytest.mark.parametrize("works", [[(1, 2300)], [(1, 40), (1, 1900), (64, 700)]], ids=str)
def test_bits_do_not_depend_on_threads(
    ops: NativeOps, dtype: torch.dtype, window: int | None, works: list[tuple[int, int]]
) -> None:
    """One long row is split over its context when there are threads; many are not."""
    case = attention_case(4, 1, 64, 16, window, works=works, dtype=dtype)
    plan = ops.plan(case.spans, 0, case.shape, window)
    found = []
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        found.append(ops.attend(case.queries, case.pages, plan, 0.125))
    assert all(torch.equal(other, found[0]) for other in found[1:])


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("window", [None, 200])
@pytest.mark.parametrize("head_dim", [40, 64])
def test_a_decoding_row_has_the_bits_of_the_prompt_row(
    ops: NativeOps, dtype: torch.dtype, window: int | None, head_dim: int
) -> None:
    length = 1100
    case = attention_case(6, 2, head_dim, 16, window, works=[(length, 0)], dtype=dtype)
    (span,) = case.spans
    whole = ops.attend(case.queries, case.pages, ops.plan([span], 0, case.shape, window), 0.125)
    for position in (0, 1, 15, 63, 64, 199, 200, 255, 511, 512, 513, 1023, 1024, length - 1):
        alone = Span(0, 1, position, span.table)
        found = ops.attend(
            case.queries[position : position + 1], case.pages, ops.plan([alone], 0, case.shape, window), 0.125
        )
        assert torch.equal(found[0], whole[position]), position


def test_what_a_row_does_not_see_is_not_read(ops: NativeOps) -> None:
    case = attention_case(4, 2, 64, 16, 50)
    pages = case.pages.clone()
    pages[0] = float("nan")
    for span in case.spans:  # Places behind the last position, in blocks that the row does look at.
        past = span.position + span.count
        if past % 16:
            pages[span.table[past // 16], past % 16 :] = float("nan")
    found = ops.attend(case.queries, pages, ops.plan(case.spans, 0, case.shape, 50), 0.125)
    assert close(found, attended(case, 0.125))


def test_queries_may_be_a_view_into_wider_rows(ops: NativeOps) -> None:
    case = attention_case(4, 2, 64, 16, None)
    wide = draw(case.queries.shape[0], 9, 64)
    wide[:, 2:6] = case.queries
    plan = ops.plan(case.spans, 0, case.shape, None)
    assert torch.equal(
        ops.attend(wide[:, 2:6], case.pages, plan, 0.125), ops.attend(case.queries, case.pages, plan, 0.125)
    )


def test_what_the_kernels_cannot_read_is_refused(ops: NativeOps) -> None:
    case = attention_case(4, 2, 64, 16, None, works=[(1, 40)])
    wrong = [Span(0, 1, 40, [1, 2, 999])]
    with pytest.raises(IndexError, match="names a block outside"):
        ops.attend(case.queries, case.pages, ops.plan(wrong, 0, case.shape, None), 0.125)
    with pytest.raises(AssertionError, match="shorter than its positions"):
        ops.plan([Span(0, 1, 40, [1, 2])], 0, case.shape, None)
    qkv, turn = draw(1, 8 * 64), draw(1, 64)
    for slot in (-1, case.pages.shape[0] * 16):
        with pytest.raises(IndexError, match="outside the"):
            ops.rotate_and_store(qkv, None, turn, turn, torch.tensor([slot]), case.pages, 4)
    with pytest.raises(AssertionError):
        ops.gate(draw(4, 64)[:, ::2], "silu")
    with pytest.raises(AssertionError):
        ops.rms_norm(draw(4, 64), draw(64).bfloat16(), 1e-6)


def test_rows_are_alike_with_any_number_of_threads_and_mates(ops: NativeOps) -> None:
    rows, width = 300, 640
    stream, gates, weight = draw(rows, width), draw(rows, 2 * width), draw(width)
    found = []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        found.append((ops.rms_norm(stream, weight, 1e-6), ops.gate(gates, "silu"), ops.gate(gates, "gelu_tanh")))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert torch.equal(ops.rms_norm(stream[7:8], weight, 1e-6), found[0][0][7:8])
    assert torch.equal(ops.gate(gates[7:8], "silu"), found[0][1][7:8])


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_activations_are_right_to_a_few_roundings_over_their_whole_range(ops: NativeOps, activation: str) -> None:
    """Largest relative error 1e-6 where the exact result is not tiny: 8 roundings of float32."""
    numbers = torch.cat((torch.linspace(-30, 30, 60001), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 88.0, 1e30])))
    gates = torch.stack((numbers, torch.ones_like(numbers)), dim=1).flatten(0).view(-1, 2)
    found = ops.gate(gates.contiguous(), activation).flatten().double()
    exact = numbers.double()
    if activation == "silu":
        wanted = exact * torch.sigmoid(exact)
    else:
        wanted = exact * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (exact + 0.044715 * exact**3))
    error = (found - wanted).abs()
    assert (error <= 1e-6 * wanted.abs() + 1e-9).all(), float((error / wanted.abs().clamp_min(1e-3)).max())
    extremes = torch.tensor([[-1e30, 1.0], [float("nan"), 1.0], [-200.0, 1.0]])
    low, nan, small = ops.gate(extremes, activation).flatten().tolist()
    assert abs(low) < 1e-6 and nan != nan and abs(small) < 1e-6


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("width", [1, 5, 16, 63, 2048, 5000])
def test_the_first_of_the_largest(ops: NativeOps, dtype: torch.dtype, width: int) -> None:
    rows = draw(9, width, dtype=dtype)  # Bfloat16 has ties among so many numbers.
    wanted = [row.index(max(row)) for row in rows.tolist()]
    assert ops.largest(rows) == wanted
    wide = draw(9, width + 3, dtype=dtype)
    wide[:, :width] = rows
    assert ops.largest(wide[:, :width]) == wanted


def test_the_largest_of_odd_rows(ops: NativeOps) -> None:
    nan, infinity = float("nan"), float("inf")
    rows = torch.tensor([[-infinity] * 3, [nan, 1.0, 2.0], [nan] * 3, [1.0, infinity, infinity], [-0.0, 0.0, -1.0]])
    assert ops.largest(rows) == [0, 2, 0, 1, 0]
