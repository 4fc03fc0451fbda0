"""Our own ways to compute a plain layer, at sizes that fill no tile: close to exact, each row's bits its own."""

import pytest
import torch
from torch import Tensor

from agents.engine.quantization.plain import PlainLinear
from agents.engine.quantization.plain_choice import candidates

OURS = [
    pytest.param(dtype, candidate.build, id=f"{candidate.name}-{str(dtype).removeprefix('torch.')}")
    for dtype in (torch.float32, torch.bfloat16, torch.float16)
    for candidate in candidates(dtype, "auto")
    if candidate.is_ours
]
"""On a processor with AMX its kernel is among them."""
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""Relative to the largest number of the result; of the format that is wider, rows' or weights'."""
SIZES = [(1, 1), (37, 200), (64, 32), (65, 31), (63, 33), (300, 97), (128, 1024), (40, 5_000)]
COUNTS = (1, 2, 15, 16, 17, 31, 32, 33, 49, 64, 70)


def draw(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@pytest.mark.parametrize(("dtype", "build"), OURS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]} x {size[1]}")
@pytest.mark.parametrize("with_bias", [False, True])
def test_every_size_is_close_to_exact_and_no_row_sees_another(
    dtype: torch.dtype, build: type[PlainLinear], size: tuple[int, int], with_bias: bool
) -> None:
    outputs, inputs = size
    weight = draw(outputs, inputs, dtype=dtype)
    bias = draw(outputs, dtype=dtype) if with_bias else None
    layer = build(weight, bias)  # type: ignore[call-arg]
    rows = draw(COUNTS[-1] + 3, inputs, dtype=dtype)
    whole = layer(rows)
    exact = rows.double() @ weight.double().T + (0 if bias is None else bias.double())
    assert whole.dtype is dtype and whole.shape == exact.shape
    assert (whole.double() - exact).abs().max() <= ROUNDING[dtype] * exact.abs().max()
    for count in COUNTS:
        assert torch.equal(layer(rows[3 : 3 + count].clone()), whole[3 : 3 + count]), count


@pytest.mark.parametrize(("dtype", "build"), OURS)
def test_the_number_of_threads_changes_no_bit(dtype: torch.dtype, build: type[PlainLinear]) -> None:
    layer = build(draw(300, 200, dtype=dtype), None)  # type: ignore[call-arg]
    rows = draw(40, 200, dtype=dtype)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(layer(rows))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize(("dtype", "build"), OURS)
@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_of_another_format_come_back_in_theirs(
    dtype: torch.dtype, build: type[PlainLinear], other: torch.dtype
) -> None:
    weight, rows = draw(70, 200, dtype=dtype), draw(20, 200, dtype=other)
    out = build(weight, None)(rows)  # type: ignore[call-arg]
    exact = rows.double() @ weight.double().T
    # bfloat16 kernels round their rows to bfloat16 first.
    rounding = 2 * max(ROUNDING[dtype], ROUNDING[other])
    assert out.dtype is other and (out.double() - exact).abs().max() <= rounding * exact.abs().max()
