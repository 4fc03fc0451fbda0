"""In half precision the logits are as close to float32's as those of transformers, for every architecture."""

from pathlib import Path

import pytest
import torch
import transformers

from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner
from agents.engine.ops.ops_choice import choose_ops
from controlplane.contract.knobs import Quantization

TOKENS = [(7 * place * place + 3 * place + 1) % 320 for place in range(400)]
CASES = [
    (shape, dtype)
    for shape in ("grouped_tied", "qwen2_sliding", "qwen3", "gemma3")
    for dtype in (torch.bfloat16, torch.float16)
    if (shape, dtype) != ("gemma3", torch.float16)
]


def _divergence(exact: torch.Tensor, logits: torch.Tensor) -> float:
    """Mean KL divergence in nats of a row."""
    wanted, found = exact.double().log_softmax(-1), logits.double().log_softmax(-1)
    return (wanted.exp() * (wanted - found)).sum(-1).mean().item()


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_as_close_to_float32_as_transformers(
    model_dirs: dict[str, Path], shape: str, dtype: torch.dtype, kernels: str
) -> None:
    folder, cpu = model_dirs[shape], torch.device("cpu")
    config = read_model_config(folder)
    decoder = Decoder.load(folder, config, Quantization.NONE, dtype, choose_ops(cpu, dtype, kernels).ops)
    groups = len(config.cache_groups())
    runner = Runner(decoder, 26 * groups, 16)
    tables = [list(range(1 + 26 * group, 27 + 26 * group)) for group in range(groups)]
    with torch.inference_mode():
        exact, theirs = (
            transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=own)(torch.tensor([TOKENS])).logits[0]
            for own in (torch.float32, dtype)
        )
        pieces = [
            Rows(TOKENS[start : start + 70], start, tables, len(TOKENS[start : start + 70]))
            for start in range(0, 400, 70)
        ]
        ours = torch.cat([runner.forward([rows]) for rows in pieces])
    assert ours.dtype is torch.float32
    own, other = _divergence(exact, ours), _divergence(exact, theirs)
    assert 0 < own <= 1.5 * other < 0.2, f"KL {own:.2e}, transformers' {other:.2e}"


def test_float16_text_is_served(model_dir: Path, run: object) -> None:
    outputs = run(model_dir, [TOKENS[:40], TOKENS[5:90]], 12, options={"dtype": "float16"})  # type: ignore[operator]
    assert [len(output) for output in outputs] == [12, 12]
