"""The greedy token of each row."""

from torch import Tensor

from agents.engine.ops.ops_choice import argmax_rows


def argmax(logits: Tensor) -> list[int]:
    """logits: (n, vocabulary) float32. The place of each row's largest value, the lowest among equals."""
    return argmax_rows(logits)
