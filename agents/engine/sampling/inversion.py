"""Inverting a distribution: the place where its running sum passes a random share of the whole.

Guarantee: a place of weight 0 is never taken; sums are float64, so that the rare tokens of a large vocabulary keep
their share; a row's result does not depend on the rows beside it.
"""

import torch
from torch import Tensor

_CHUNK = 512


def invert(weights: Tensor, draws: Tensor) -> Tensor:
    """weights: (n, count), at least one of each row above 0; draws: (n,) float64 in [0, 1). Places, (n,)."""
    rows, count = weights.shape
    if count <= 2 * _CHUNK:
        return _invert(weights, draws * _total(weights))
    # Two levels: which chunk, then where within it. A running sum over everything costs several times as much.
    spare = -count % _CHUNK
    chunks = torch.nn.functional.pad(weights, (0, spare)) if spare else weights
    chunks = chunks.view(rows, -1, _CHUNK)
    sums = chunks.sum(dim=-1)
    targets = draws * _total(sums)
    chunk = _invert(sums, targets)
    before = sums.double().cumsum(dim=-1).gather(1, chunk.unsqueeze(1)).squeeze(1)
    each = torch.arange(rows, device=weights.device)
    before = before - sums[each, chunk].double()
    return chunk * _CHUNK + _invert(chunks[each, chunk], targets - before)


def _total(weights: Tensor) -> Tensor:
    return weights.double().cumsum(dim=-1)[:, -1]


def _invert(weights: Tensor, targets: Tensor) -> Tensor:
    sums = weights.double().cumsum(dim=-1)
    places = torch.searchsorted(sums, targets.unsqueeze(1), right=True)
    # Rounding can put a target at the very end: the last place that has weight takes it.
    last = torch.searchsorted(sums, sums[:, -1:].contiguous())
    return torch.minimum(places, last).squeeze(1)
