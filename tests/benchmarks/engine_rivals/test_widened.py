"""A widened model says what the bundled one says, with numbers where it has room for them."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import BUNDLED, EngineOptions
from agents.engine.request.params import SamplingParams
from benchmarks.engine_rivals.widened import widen
from tests.agents.engine.conftest import drive

PROMPTS = [[700 + place * place % 800 for place in range(length)] for length in (3, 40, 90)]


@pytest.mark.slow
@torch.inference_mode()
def test_its_text_is_the_bundled_models(tmp_path: Path) -> None:
    parameters = widen(tmp_path, 512, 1280, 8, 4, 7, torch.float32)
    texts, widths = [], []
    for folder in (BUNDLED, tmp_path):
        engine = StepEngine(EngineOptions(folder, kernels="torch"), EventLog())
        texts.append(drive(engine, PROMPTS, [SamplingParams(12, logprobs=0)] * len(PROMPTS)))
        widths.append(engine.runner.decoder.config.hidden_size)
    assert texts[1] == texts[0] and widths == [256, 512]
    assert 20e6 < parameters < 30e6


def test_what_it_adds_is_mostly_numbers(tmp_path: Path) -> None:
    widen(tmp_path, 512, 1280, 8, 4, 7, torch.float32)
    for layer in range(7):
        gates = load_file(tmp_path / f"model-{layer + 1:03}.safetensors")[f"model.layers.{layer}.mlp.gate_proj.weight"]
        assert gates.shape == (1280, 512) and gates.count_nonzero() >= 0.5 * gates.numel()
