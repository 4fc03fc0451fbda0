"""Attention over pages against the plain formula, for full and windowed layers and every choice of torch's kernel."""

import random
from dataclasses import replace

import pytest
import torch

from agents.engine.ops import attention
from agents.engine.ops.attention import TorchPlan, length_class, reach
from agents.engine.ops.ops import AttentionShape, Span
from agents.engine.ops.torch_ops import SDPA_KERNELS, TorchOps

HEADS, KV_HEADS, DIM, SIZE, BLOCKS = 4, 2, 8, 16, 64
SHAPE = AttentionShape(HEADS, KV_HEADS, DIM, SIZE, torch.float32, torch.device("cpu"))
WINDOWS = [None, 1, 8, 24, 64, 100, 512]


def _expected(
    query: torch.Tensor, pages: torch.Tensor, table: list[int], position: int, window: int | None
) -> torch.Tensor:
    """One row's attention, head by head, from the definition."""
    first = 0 if window is None else max(0, position - window + 1)
    seen = torch.stack([pages[table[place // SIZE], place % SIZE] for place in range(first, position + 1)])
    keys, values = (part.repeat_interleave(HEADS // KV_HEADS, dim=1) for part in seen.unbind(1))
    weights = torch.softmax(torch.einsum("hd,thd->ht", query, keys) * DIM**-0.5, dim=-1)
    return torch.einsum("ht,thd->hd", weights, values).flatten()


@pytest.mark.parametrize("sdpa", SDPA_KERNELS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("batched", ["alike", "few", "few, and small"])
def test_rows_see_what_they_should(
    window: int | None, sdpa: str, batched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if batched != "alike":  # As on a GPU.
        monkeypatch.setattr(attention, "alike", attention.few)
    if batched == "few, and small":
        monkeypatch.setattr(attention, "_GATHERED_ON_GPU", 800)
    draw = random.Random(0)
    torch.manual_seed(0)
    pages = torch.randn(BLOCKS, SIZE, 2, KV_HEADS, DIM)
    spans, row = [], 0
    for position, count in ((0, 1), (700, 1), (63, 70), (300, 130), (15, 2), (90, 1), (260, 1)):
        table = [draw.randrange(1, BLOCKS) for _ in range(-(-(position + count) // SIZE))]
        if window is not None:  # What slid out of the window of the span's first row is not there any more.
            gone = max(0, position - window + 1) // SIZE
            table[:gone] = [0] * gone
        spans.append(Span(row, count, position, table))
        row += count
    queries = torch.randn(row + 3, HEADS, DIM)
    ops = TorchOps(sdpa)
    results = ops.attend(queries, pages, ops.plan(spans, 3, SHAPE, window), DIM**-0.5)
    assert results.shape == (row + 3, HEADS * DIM) and results.isfinite().all()
    for span in spans:
        for offset in range(span.count):
            wanted = _expected(queries[span.row + offset], pages, list(span.table), span.position + offset, window)
            torch.testing.assert_close(results[span.row + offset], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS)
def test_what_a_row_gathers_covers_its_window_and_little_more(window: int | None) -> None:
    for position in range(3000):
        start, padded, until = reach(position, window)
        first = 0 if window is None else max(0, position - window + 1)
        assert start <= first and position < start + padded and start % 64 == padded % 64 == 0
        assert until > position and reach(until - 1, window)[:2] == (start, padded)
        if window is not None:
            assert padded <= window + 2 * max(64, window // 8)


def test_length_classes_grow_and_hold_their_length() -> None:
    classes = [length_class(length) for length in range(1, 5000)]
    assert classes == sorted(classes)
    assert all(padded >= length and padded % 64 == 0 for length, padded in enumerate(classes, 1))
    assert len(set(classes)) < 16


def test_a_gpus_decodes_are_one_batch() -> None:
    spans = [Span(row, 1, position, range(1, 60)) for row, position in enumerate((3, 70, 200, 500, 130))]
    plans = [TorchOps().plan(spans, 0, replace(SHAPE, device=torch.device(device)), None) for device in ("cpu", "meta")]
    padded = [[group.padded for group in plan.groups] for plan in plans if isinstance(plan, TorchPlan)]
    assert padded == [[64, 128, 192, 256, 512], [512]]
