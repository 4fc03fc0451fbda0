"""What sampling parameters mean: the whole distribution of one place, written for reading, not for speed.

The sampler is checked against this. Order as in vLLM's v1 sampler: adjustments of the logits (adjustments.py),
temperature, min_p (tokens less likely than min_p times the likeliest go; Nguyen et al. 2024), top_k (the k likeliest
stay), top_p (of these, the smallest set of the likeliest that reaches top_p stays; Holtzman et al. 2019).
"""

import torch
from torch import Tensor

from agents.engine.sampling.adjustments import adjust
from agents.engine.sampling.row import Row


def probabilities(logits: Tensor, row: Row) -> Tensor:
    """logits: (vocabulary,). The chance of each token, (vocabulary,) float64; a greedy row puts all on one."""
    params = row.params
    own = logits.double().clone().unsqueeze(0)
    adjust(own, [row])
    own = own[0]
    if params.greedy:
        chances = torch.zeros_like(own)
        chances[own.argmax()] = 1.0
        return chances
    chances = torch.softmax(own / params.temperature, dim=-1)
    chances[chances < params.min_p * chances.max()] = 0.0
    order = torch.argsort(chances, descending=True, stable=True)
    if params.top_k:
        chances[order[params.top_k :]] = 0.0
    chances = chances / chances.sum()
    if params.top_p < 1.0:
        ordered = chances[order]
        cut = ordered.cumsum(dim=-1) - ordered >= params.top_p
        cut[0] = False
        chances[order[cut]] = 0.0
    return chances / chances.sum()
