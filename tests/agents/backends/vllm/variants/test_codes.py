"""A code times its scale is within half a step of the weight."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agents.backends.vllm.variants import codes

GROUP = 32


def weights(seed: int, outputs: int, groups: int, spread: float) -> Tensor:
    """Weights of very different sizes from output to output, one output all zero."""
    drawn = torch.Generator().manual_seed(seed)
    sizes = torch.exp(spread * torch.randn(outputs, 1, generator=drawn))
    made = torch.randn(outputs, groups * GROUP, generator=drawn) * sizes
    made[0] = 0
    return made


CASES = given(
    seed=st.integers(0, 10_000), outputs=st.integers(1, 9), groups=st.integers(1, 4), spread=st.floats(0.0, 3.0)
)


def unpacked(packed: Tensor) -> Tensor:
    """The 4-bit codes, signed."""
    places = [((packed >> (4 * place)) & 15) - codes.INT4_OFFSET for place in range(codes.CODES_PER_WORD)]
    return torch.stack(places, dim=-1).flatten(1)


@CASES
@settings(max_examples=30, deadline=None)
def test_int8(seed: int, outputs: int, groups: int, spread: float) -> None:
    weight = weights(seed, outputs, groups, spread)
    made = codes.int8(weight)
    assert made["weight"].dtype is torch.int8 and made["weight_scale"].shape == (outputs, 1)
    error = (made["weight"].float() * made["weight_scale"] - weight).abs()
    assert bool((error <= 0.5 * made["weight_scale"] * (1 + 1e-5)).all())
    assert bool((made["weight"][0] == 0).all())


@CASES
@settings(max_examples=30, deadline=None)
def test_int4(seed: int, outputs: int, groups: int, spread: float) -> None:
    weight = weights(seed, outputs, groups, spread)
    made = codes.int4(weight, GROUP)
    assert made["weight_packed"].dtype is torch.int32
    assert made["weight_packed"].shape == (outputs, groups * GROUP // 8)
    assert made["weight_shape"].tolist() == list(weight.shape)
    scale = made["weight_scale"].repeat_interleave(GROUP, dim=1)
    error = (unpacked(made["weight_packed"]).float() * scale - weight).abs()
    assert bool((error <= 0.5 * scale * (1 + 1e-5)).all())


def test_int4_of_a_bfloat16_weight_counts_with_the_scale_that_is_stored() -> None:
    weight = weights(3, 8, 2, 1.0).bfloat16()
    made = codes.int4(weight, GROUP)
    assert made["weight_scale"].dtype is torch.bfloat16
    scale = made["weight_scale"].float().repeat_interleave(GROUP, dim=1)
    error = (unpacked(made["weight_packed"]).float() * scale - weight.float()).abs()
    assert bool((error <= 0.5 * scale * (1 + 1e-5)).all())


@CASES
@settings(max_examples=30, deadline=None)
def test_fp8(seed: int, outputs: int, groups: int, spread: float) -> None:
    weight = weights(seed, outputs, groups, spread)
    made = codes.fp8(weight)
    assert made["weight"].dtype is torch.float8_e4m3fn
    error = (made["weight"].float() * made["weight_scale"] - weight).abs()
    # Three bits behind the point: half a step is a sixteenth of the power of two below; 2 ** -10 where it ends.
    bound = torch.maximum(weight.abs() / 16, made["weight_scale"] * 2**-10)
    assert bool((error <= bound * (1 + 1e-5)).all())


def test_the_lowest_bits_hold_the_first_code() -> None:
    weight = torch.tensor([[7.0, 1.0, 2.0, 3.0, -7.0, 0.0, -1.0, 4.0]])
    packed = int(codes.int4(weight, 8)["weight_packed"][0, 0])
    assert [((packed >> (4 * place)) & 15) - 8 for place in range(8)] == [7, 1, 2, 3, -7, 0, -1, 4]


@pytest.mark.parametrize("encode", [codes.int8, codes.fp8, lambda weight: codes.int4(weight, 8)])
def test_the_same_weight_gives_the_same_codes(encode: object) -> None:
    weight = weights(4, 4, 1, 1.0)
    assert callable(encode)
    first, again = encode(weight), encode(weight.clone())
    assert all(bool((first[name].float() == again[name].float()).all()) for name in first)
