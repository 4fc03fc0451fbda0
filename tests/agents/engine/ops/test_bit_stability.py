"""A row's logits have the same bits however its tokens were computed: the ground under every equality of text."""

import random
from pathlib import Path

import pytest
import torch

from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner, padded_rows
from agents.engine.ops.ops_choice import choose_ops
from agents.engine.scheduling.block_pool import NULL_BLOCK
from controlplane.contract.knobs import Quantization

LENGTH = 330
SIZE = 16


CASES = [
    ("grouped_tied", Quantization.NONE),
    ("grouped_tied", Quantization.INT8),
    ("qwen2_sliding", Quantization.NONE),
    ("qwen3", Quantization.NONE),
    ("gemma3", Quantization.NONE),
]


@pytest.fixture(scope="module", params=["auto", "torch"])
def kernels(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}, {case[1].value}")
def decoder(model_dirs: dict[str, Path], kernels: str, request: pytest.FixtureRequest) -> Decoder:
    shape, quantization = request.param
    ops = choose_ops(torch.device("cpu"), torch.float32, kernels).ops
    return Decoder.load(model_dirs[shape], read_model_config(model_dirs[shape]), quantization, torch.float32, ops)


@torch.inference_mode()
def _in_pieces(decoder: Decoder, tokens: list[int], pieces: list[int], mate: list[int] | None = None) -> torch.Tensor:
    """All logits of `tokens`, computed in pieces of the given sizes, a batch-mate decoding beside them.

    Blocks that slid out of a group's window are given up, as the KV cache does.
    """
    groups = decoder.config.cache_groups()
    runner = Runner(decoder, 60 * len(groups), SIZE)
    own = [list(range(1 + 60 * group, 31 + 60 * group)) for group in range(len(groups))]
    others = [list(range(31 + 60 * group, 61 + 60 * group)) for group in range(len(groups))]
    if mate:
        runner.forward([Rows(mate, 0, others, 1)])
    logits, done = [], 0
    for number, size in enumerate(pieces):
        size = min(size, len(tokens) - done)
        if not size:
            break
        for group, table in zip(groups, own, strict=True):
            if group.window is not None:
                past = max(0, done - group.window + 1) // SIZE
                table[:past] = [NULL_BLOCK] * past
        rows = [Rows(tokens[done : done + size], done, own, size)]
        if mate:
            rows.insert(number % 2, Rows([5], len(mate) + number, others, 0))
        logits.append(runner.forward(rows))
        done += size
    return torch.cat(logits)


@pytest.mark.parametrize("seed", range(3))
def test_logits_do_not_depend_on_chunking_or_batch_mates(decoder: Decoder, seed: int) -> None:
    draw = random.Random(seed)
    tokens = [draw.randrange(1, 320) for _ in range(LENGTH)]
    whole = _in_pieces(decoder, tokens, [LENGTH])
    sizes = [draw.choice((1, 1, 2, 3, 5, 8, 31, 64, 100)) for _ in range(LENGTH)]
    assert torch.equal(_in_pieces(decoder, tokens, sizes), whole)
    mate = [draw.randrange(1, 320) for _ in range(draw.randrange(1, 90))]
    assert torch.equal(_in_pieces(decoder, tokens, sizes, mate), whole)


def test_padded_rows_are_few_and_waste_little() -> None:
    padded = [padded_rows(count) for count in range(1, 2049)]
    assert all(have >= count for count, have in enumerate(padded, 1))
    assert all(have <= 1.25 * count for count, have in enumerate(padded, 1))
    assert len(set(padded[:512])) < 50
