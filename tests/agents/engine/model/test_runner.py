"""A runner's choices: whose block tables its layers use, how deep it goes, and what it tells of its time."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.engine.model.config import ModelConfig, read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner
from agents.engine.scheduling.cache_groups import CacheGroup
from controlplane.contract.knobs import Quantization

TOKENS = [(5 * place * place + 7 * place + 2) % 320 for place in range(150)]
SHAPES = ["grouped_tied", "qwen2_sliding", "gemma3"]


def _load(folder: Path, config: ModelConfig | None = None, max_positions: int | None = None) -> Decoder:
    config = config or read_model_config(folder)
    return Decoder.load(folder, config, Quantization.NONE, torch.float32, max_positions=max_positions)


def _tables(count: int) -> list[list[int]]:
    return [list(range(1 + 10 * group, 11 + 10 * group)) for group in range(count)]


@torch.inference_mode()
def _logits(runner: Runner, groups: int, depth: int | None = None) -> torch.Tensor:
    pieces = [(0, 70), (70, 71), (71, 150)]
    return torch.cat(
        [
            runner.forward([Rows(TOKENS[start:stop], start, _tables(groups), stop - start)], depth)
            for start, stop in pieces
        ]
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_all_layers_may_share_one_table(model_dirs: dict[str, Path], shape: str) -> None:
    decoder = _load(model_dirs[shape])
    groups = len(decoder.config.cache_groups())
    whole = CacheGroup(tuple(range(decoder.config.num_hidden_layers)))
    alone = Runner(decoder, 10, 16, (whole,))
    assert torch.equal(_logits(alone, 1), _logits(Runner(decoder, 10 * groups, 16), groups))
    # Further tables, of a model with more groups, are not looked at.
    assert torch.equal(_logits(alone, 3), _logits(alone, 1))


@pytest.mark.parametrize("shape", SHAPES)
def test_an_early_exit_is_the_model_cut_short(model_dirs: dict[str, Path], shape: str) -> None:
    config = read_model_config(model_dirs[shape])
    groups = len(config.cache_groups())
    runner = Runner(_load(model_dirs[shape]), 10 * groups, 16)
    for depth in range(1, config.num_hidden_layers + 1):
        cut = replace(config, num_hidden_layers=depth, windows=config.windows[:depth])
        whole = CacheGroup(tuple(range(depth)))
        wanted = _logits(Runner(_load(model_dirs[shape], cut), 10, 16, (whole,)), 1)
        assert torch.equal(_logits(runner, groups, depth), wanted)


def test_attention_is_timed_apart(model_dir: Path) -> None:
    runner = Runner(_load(model_dir), 10, 16)
    assert runner.last_attention_s is None
    began = time.perf_counter()
    _logits(runner, 1)
    spent = time.perf_counter() - began
    assert runner.last_attention_s is not None and 0 < runner.last_attention_s < spent


def test_rotary_tables_are_as_long_as_the_longest_sequence(model_dir: Path) -> None:
    short, whole = _load(model_dir, max_positions=150), _load(model_dir)
    assert (short.max_positions, whole.max_positions) == (150, 512)
    assert _load(model_dir, max_positions=10**6).max_positions == 512
    assert torch.equal(_logits(Runner(short, 10, 16), 1), _logits(Runner(whole, 10, 16), 1))
