"""Logits to tokens.

Guarantee: greedy rows are the argmax (the lowest id among equals); sampled rows follow softmax(logits / temperature)
cut to the top_k most likely and then to the smallest set that reaches top_p. A row's token depends on its logits and
its own random number alone.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.engine.sampling.params import SamplingParams, uniform


def sample(logits: Tensor, rows: Sequence[tuple[SamplingParams, int]]) -> list[int]:
    """logits: (n, vocabulary) float32; rows: the parameters and output place of each. Returns n tokens."""
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    drawn = [index for index, (params, _) in enumerate(rows) if not params.greedy]
    if not drawn:
        return tokens
    plain = [index for index in drawn if not _is_cut(rows[index][0])]
    cut = [index for index in drawn if _is_cut(rows[index][0])]
    for group, draw in ((plain, _draw_plain), (cut, _draw_cut)):
        if group:
            picked = draw(logits[group], [rows[index] for index in group])
            for index, token in zip(group, picked, strict=True):
                tokens[index] = token
    return tokens


def _is_cut(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1.0


def _probabilities(logits: Tensor, rows: Sequence[tuple[SamplingParams, int]]) -> Tensor:
    temperatures = torch.tensor([params.temperature for params, _ in rows], dtype=torch.float64)
    return torch.softmax(logits.double() / temperatures.unsqueeze(1), dim=-1)


def _draw_plain(logits: Tensor, rows: Sequence[tuple[SamplingParams, int]]) -> list[int]:
    return _invert(_probabilities(logits, rows), rows)


def _draw_cut(logits: Tensor, rows: Sequence[tuple[SamplingParams, int]]) -> list[int]:
    vocabulary = logits.shape[-1]
    widest = max(params.top_k if 0 < params.top_k < vocabulary else vocabulary for params, _ in rows)
    ordered, ids = torch.topk(_probabilities(logits, rows), widest, dim=-1)
    tops = torch.tensor([params.top_k or vocabulary for params, _ in rows])
    ordered = ordered.masked_fill(torch.arange(widest) >= tops.unsqueeze(1), 0.0)
    ordered = ordered / ordered.sum(dim=-1, keepdim=True)
    shares = torch.tensor([params.top_p for params, _ in rows], dtype=torch.float64)
    # A token stays when those before it do not yet reach top_p; so at least the first stays.
    ordered = ordered.masked_fill((ordered.cumsum(dim=-1) - ordered) >= shares.unsqueeze(1), 0.0)
    picked = torch.tensor(_invert(ordered, rows))
    return [int(token) for token in ids.gather(1, picked.unsqueeze(1)).squeeze(1).tolist()]


def _invert(weights: Tensor, rows: Sequence[tuple[SamplingParams, int]]) -> list[int]:
    """The place where the running sum first exceeds the row's random share of the whole."""
    sums = weights.cumsum(dim=-1)
    draws = torch.tensor([uniform(params.seed, place) for params, place in rows], dtype=torch.float64)
    places = torch.searchsorted(sums, (draws * sums[:, -1]).unsqueeze(1), right=True).squeeze(1)
    return [int(place) for place in places.clamp_max(weights.shape[-1] - 1).tolist()]
