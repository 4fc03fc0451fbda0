"""Every weight format: kernel against torch twin, rows by themselves, odd sizes, outliers, and whole models."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from agents.engine.loading.format_quality import Quality, compare, load
from agents.engine.loading.passage import encode
from agents.engine.loading.texts import calibration_texts, held_out_texts
from agents.engine.model.decoder import Decoder
from agents.engine.ops import linear_native
from agents.engine.quantization import activations
from agents.engine.quantization.linear import Linear, build_linear, describe
from agents.engine.text.tokenizer import TextCodec
from controlplane.contract.knobs import Quantization

pytestmark = pytest.mark.slow

BUNDLED = Path(__file__).parents[4] / "agents" / "models" / "tailwright-py-5m"
SIZES = [(96, 64), (130, 100), (33, 37), (64, 640), (5, 2048), (200, 2)]
"""Outputs and inputs: whole tiles and groups, and neither."""
CLOSE = {Quantization.NONE: 0.003, Quantization.INT8: 0.025, Quantization.INT4: 0.13, Quantization.FP8: 0.04}
"""Largest relative error of a product of normal numbers that the format's rounding explains."""
KERNELS = ("int8", "int4", "fp8", "bfloat16")

native = pytest.mark.skipif(
    not all(linear_native.choose(name).native for name in KERNELS), reason="the kernels cannot be built here"
)


def layers(outputs: int, inputs: int, format_: Quantization, dtype: torch.dtype) -> tuple[Linear, Linear, torch.Tensor]:
    """The layer as chosen here, its torch twin, and what exact weights give for the rows of `some_rows`."""
    generator = torch.Generator().manual_seed(outputs * 10_000 + inputs)
    weight = torch.randn(outputs, inputs, generator=generator).to(dtype)
    bias = torch.randn(outputs, generator=generator).to(dtype)
    exact = F.linear(some_rows(inputs, dtype).float(), weight.float(), bias.float())
    return build_linear(weight, bias, format_), build_linear(weight, bias, format_, "torch"), exact


def some_rows(inputs: int, dtype: torch.dtype, count: int = 41) -> torch.Tensor:
    return torch.randn(count, inputs, generator=torch.Generator().manual_seed(inputs)).to(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("format_", Quantization)
def test_a_layer_is_its_twin_and_close_to_exact(
    format_: Quantization, dtype: torch.dtype, size: tuple[int, int]
) -> None:
    layer, twin, exact = layers(*size, format_, dtype)
    rows = some_rows(size[1], dtype)
    found = layer(rows).float()
    assert layer.quantization is twin.quantization is format_
    # Both round the same float32 sum, added in another order, to the dtype: at most a place in its last digit.
    torch.testing.assert_close(found, twin(rows).float(), rtol=2 * torch.finfo(dtype).eps, atol=2e-4)
    assert (found - exact).norm() / exact.norm() < CLOSE[format_]


@pytest.mark.parametrize("format_", Quantization)
def test_a_rows_bits_are_its_own(format_: Quantization) -> None:
    layer, _, _ = layers(130, 640, format_, torch.bfloat16)
    rows = some_rows(640, torch.bfloat16, 100)
    whole = layer(rows)
    if format_ is Quantization.NONE and not linear_native.choose("bfloat16").native:
        pytest.skip("oneDNN gives no such promise for bfloat16")
    for start, count in ((0, 1), (3, 2), (7, 5), (50, 6), (60, 36), (13, 37)):
        assert torch.equal(layer(rows[start : start + count]), whole[start : start + count])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(layer(rows), whole)
    finally:
        torch.set_num_threads(threads)


@native
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("group", [32, 64])
def test_activation_codes_equal_the_twins(group: int, dtype: torch.dtype) -> None:
    rows = some_rows(150, dtype)
    rows[3] = 0
    rows[4, 70:] = 0
    rows[5, 9] = 3e4
    for own, twin in zip(linear_native.quantize_rows(rows, group), activations.quantize_rows(rows, group), strict=True):
        assert torch.equal(own, twin)


@native
def test_integer_sums_are_exact_at_the_extremes() -> None:
    """Codes of 127 everywhere: the largest sums there are, with products that are whole numbers."""
    layer = build_linear(torch.full((64, 128), 127.0), None, Quantization.INT8)
    rows = torch.full((3, 128), 127.0)
    rows[1] = -127.0
    assert layer(rows)[0].eq(127.0 * 127 * 128).all() and layer(rows)[1].eq(-127.0 * 127 * 128).all()


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("format_", [Quantization.INT8, Quantization.INT4, Quantization.FP8])
def test_zeros_stay_zero_and_outliers_stay_apart(format_: Quantization, kernels: str) -> None:
    weight = torch.randn(32, 128, generator=torch.Generator().manual_seed(3))
    weight[5] = 0
    layer = build_linear(weight, None, format_, kernels)
    rows = torch.randn(4, 128, generator=torch.Generator().manual_seed(4))
    rows[2] = 0
    out = layer(rows)
    assert out.isfinite().all() and out[:, 5].abs().max() == 0 and out[2].abs().max() == 0
    rows[1, 0] = 1e4  # Others of its group lose their places; another group's, and other rows, must not.
    changed = layer(rows) - 1e4 * layer(torch.eye(128)[:1])
    assert torch.equal(layer(rows)[3], out[3])
    assert (changed[1] - out[1]).norm() / (1e4 * weight[:, 0].norm()) < CLOSE[format_]


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_what_is_no_number_is_told_in_its_row_alone(wrong: float, kernels: str) -> None:
    layer = build_linear(torch.ones(16, 64), None, Quantization.INT8, kernels)
    rows = torch.ones(3, 64)
    rows[1, 7] = wrong
    out = layer(rows)
    assert out[1].isnan().all() and out[[0, 2]].isfinite().all()


@pytest.fixture(scope="module")
def plain() -> Decoder:
    return load(BUNDLED, Quantization.NONE, torch.bfloat16)


# What was measured less a margin: int8 .981, int4 .937 (.89 without calibration), fp8 .960.
BOUNDS = {Quantization.INT8: (0.96, 0.004), Quantization.INT4: (0.91, 0.02), Quantization.FP8: (0.93, 0.012)}


@pytest.mark.parametrize("format_", BOUNDS)
def test_quality_of_the_bundled_model(
    format_: Quantization, plain: Decoder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILWRIGHT_QUANTIZED_CACHE", str(tmp_path_factory.mktemp("codes")))
    found = measured(plain, load(BUNDLED, format_, torch.bfloat16))
    agreement, divergence = BOUNDS[format_]
    assert found.agreement > agreement and found.divergence < divergence
    if format_ is Quantization.INT4:  # The second time the kept codes are read: the same ones.
        assert measured(plain, load(BUNDLED, format_, torch.bfloat16)) == found


def measured(plain: Decoder, other: Decoder) -> Quality:
    return compare(plain, other, encode(TextCodec(BUNDLED), plain, held_out_texts(), 200))


def test_no_text_is_both_calibration_and_held_out() -> None:
    assert not set(calibration_texts()) & set(held_out_texts())


@pytest.mark.parametrize("quantization", ["int8", "int4", "fp8"])
def test_text_does_not_depend_on_batch_mates(
    model_dir: Path, run: Any, quantization: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILWRIGHT_QUANTIZED_CACHE", str(tmp_path))
    draw = random.Random(1)
    prompts = [[draw.randrange(1, 320) for _ in range(length)] for length in (3, 20, 70)]
    alone = [run(model_dir, [prompt], 16, quantization=quantization)[0] for prompt in prompts]
    together = run(model_dir, prompts, 16, quantization=quantization, prefill_chunk_size=9, num_speculative_tokens=2)
    assert together == alone


def test_what_is_emulated_is_said() -> None:
    cpu = torch.device("cpu")
    assert all("emulated" in describe(cpu, torch.bfloat16, "torch")[name] for name in ("int8", "int4", "fp8"))
    assert "emulated" in describe(cpu, torch.bfloat16)["fp8"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("size", [*SIZES, (256, 512), (4096, 1024)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("format_", Quantization)
def test_the_gpus_product_is_close(format_: Quantization, dtype: torch.dtype, size: tuple[int, int]) -> None:
    outputs, inputs = size
    generator = torch.Generator().manual_seed(1)
    weight, bias = (torch.randn(shape, generator=generator).to(dtype) for shape in (size, (outputs,)))
    layer = build_linear(weight.cuda(), bias.cuda(), format_)
    for count in (1, 20, 300):
        rows = some_rows(inputs, dtype, count)
        rows[0] = 0
        out = layer(rows.cuda())
        exact = F.linear(rows.float(), weight.float(), bias.float())
        assert out.dtype is dtype and torch.equal(out[0].cpu(), bias)
        assert (out.float().cpu() - exact).norm() / exact.norm() < 1.5 * CLOSE[format_]
