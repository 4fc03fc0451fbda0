"""A row's logits have the same bits however its tokens were computed: the ground under every equality of text."""

import random
from pathlib import Path

import pytest
import torch

from agents.engine.model.attention import length_class
from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner, padded_rows
from controlplane.contract.knobs import Quantization

LENGTH = 330


@pytest.fixture(scope="module", params=[Quantization.NONE, Quantization.INT8])
def decoder(model_dir: Path, request: pytest.FixtureRequest) -> Decoder:
    return Decoder.load(model_dir, read_model_config(model_dir), request.param, torch.float32)


@torch.inference_mode()
def _in_pieces(decoder: Decoder, tokens: list[int], pieces: list[int], mate: list[int] | None = None) -> torch.Tensor:
    """All logits of `tokens`, computed in pieces of the given sizes, a batch-mate decoding beside them."""
    runner = Runner(decoder, 80, 16)
    own, others = [list(range(1, 31))], [list(range(31, 61))]
    if mate:
        runner.forward([Rows(mate, 0, others, 1)])
    logits, done = [], 0
    for number, size in enumerate(pieces):
        size = min(size, len(tokens) - done)
        if not size:
            break
        rows = [Rows(tokens[done : done + size], done, own, size)]
        if mate:
            rows.insert(number % 2, Rows([5], len(mate) + number, others, 0))
        logits.append(runner.forward(rows))
        done += size
    return torch.cat(logits)


@pytest.mark.parametrize("seed", range(4))
def test_logits_do_not_depend_on_chunking_or_batch_mates(decoder: Decoder, seed: int) -> None:
    draw = random.Random(seed)
    tokens = [draw.randrange(1, 320) for _ in range(LENGTH)]
    whole = _in_pieces(decoder, tokens, [LENGTH])
    sizes = [draw.choice((1, 1, 2, 3, 5, 8, 31, 64, 100)) for _ in range(LENGTH)]
    assert torch.equal(_in_pieces(decoder, tokens, sizes), whole)
    mate = [draw.randrange(1, 320) for _ in range(draw.randrange(1, 90))]
    assert torch.equal(_in_pieces(decoder, tokens, sizes, mate), whole)


def test_length_classes_grow_and_hold_their_length() -> None:
    classes = [length_class(length) for length in range(1, 5000)]
    assert classes == sorted(classes)
    assert all(padded >= length and padded % 64 == 0 for length, padded in enumerate(classes, 1))
    assert len(set(classes)) < 16


def test_padded_rows_are_few_and_waste_little() -> None:
    padded = [padded_rows(count) for count in range(1, 2049)]
    assert all(have >= count for count, have in enumerate(padded, 1))
    assert all(have <= 1.25 * count for count, have in enumerate(padded, 1))
    assert len(set(padded[:512])) < 50
