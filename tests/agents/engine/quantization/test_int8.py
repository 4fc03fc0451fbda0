"""Int8 weights: close to float32, and a request's result its own."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner
from agents.engine.quantization.linear import Int8Linear, build_linear, check_supported
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import Quantization

BUNDLED = Path(__file__).parents[4] / "agents" / "models" / "trimtab-py-5m"


def test_a_layer_is_close_to_float32() -> None:
    torch.manual_seed(0)
    weight, bias, rows = torch.randn(96, 64), torch.randn(96), torch.randn(10, 64)
    exact = F.linear(rows, weight, bias)
    error = (Int8Linear(weight, bias)(rows) - exact).norm() / exact.norm()
    assert error < 0.02


def test_a_zero_channel_stays_zero() -> None:
    weight = torch.zeros(32, 64)
    weight[1:] = 1.0
    assert Int8Linear(weight, None)(torch.ones(2, 64))[:, 0].abs().max() == 0


@torch.inference_mode()
def test_most_next_tokens_agree_with_float32() -> None:
    from agents.engine.server.tokenizer import TextCodec

    tokens = TextCodec(BUNDLED).encode(Path(random.__file__).read_text())[:256]
    config = read_model_config(BUNDLED)
    tops = []
    for quantization in (Quantization.NONE, Quantization.INT8):
        runner = Runner(Decoder.load(BUNDLED, config, quantization, torch.float32), 20, 16)
        tops.append(runner.forward([Rows(tokens, 0, [list(range(1, 17))], len(tokens))]).argmax(dim=-1))
    assert (tops[0] == tops[1]).float().mean() > 0.93


def test_text_does_not_depend_on_batch_mates(model_dir: Path, run: Any) -> None:
    draw = random.Random(1)
    prompts = [[draw.randrange(1, 320) for _ in range(length)] for length in (3, 20, 70)]
    alone = [run(model_dir, [prompt], 16, quantization="int8")[0] for prompt in prompts]
    assert run(model_dir, prompts, 16, quantization="int8", prefill_chunk_size=9, num_speculative_tokens=2) == alone


@pytest.mark.parametrize("quantization", [Quantization.INT4, Quantization.FP8])
def test_formats_that_are_not_run_are_refused_by_name(quantization: Quantization) -> None:
    with pytest.raises(KnobOutOfRange, match=quantization.value) as refused:
        check_supported(quantization)
    assert refused.value.detail["field"] == "quantization"


def test_plain_layers_equal_the_plain_product() -> None:
    torch.manual_seed(1)
    weight, rows = torch.randn(48, 2048), torch.randn(3, 2048)
    layer = build_linear(weight, None)
    torch.testing.assert_close(layer(rows), F.linear(rows, weight), rtol=1e-4, atol=1e-4)
    assert torch.equal(layer(rows[:1]), layer(rows)[:1])
