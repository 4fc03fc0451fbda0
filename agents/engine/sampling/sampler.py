"""Logits to tokens.

Guarantee: greedy rows are the argmax (the lowest id among equals); sampled rows follow `distribution.probabilities`,
which is the definition. A row's token depends on its logits, its parameters and its own random number alone, down to
the last bit: no operation here lets rows of a batch mix, and which operations a row gets depends on its own
parameters.

Cost: greedy rows pay an argmax and nothing for the sampled rows beside them; with top_k nothing is computed over the
vocabulary but the k largest; without it one softmax is.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.engine.request.params import uniform
from agents.engine.sampling.adjustments import adjust
from agents.engine.sampling.greedy import argmax
from agents.engine.sampling.inversion import invert
from agents.engine.sampling.row import Row

_NUCLEUS_WIDTHS = (256, 4096)
"""How many of the likeliest tokens are sorted before all are, where top_p decides: enough nearly always."""


def sample(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    """logits: (n, vocabulary) float32, left as they are; one row for each. Returns n tokens."""
    adjusted = [index for index, row in enumerate(rows) if row.params.adjusts(row.place)]
    if not adjusted:
        return _pick(logits, rows)
    chosen = set(adjusted)
    plain = [index for index in range(len(rows)) if index not in chosen]
    own_rows = [rows[index] for index in adjusted]
    own = logits[adjusted]
    adjust(own, own_rows)
    tokens = dict(zip(adjusted, _pick(own, own_rows), strict=True))
    if plain:
        tokens |= zip(plain, _pick(logits[plain], [rows[index] for index in plain]), strict=True)
    return [tokens[index] for index in range(len(rows))]


def _pick(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    """Group the rows by what they need, and do each group at once."""
    groups: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(_kind(row, logits.shape[-1]), []).append(index)
    if len(groups) == 1:
        return _pick_kind(next(iter(groups)), logits, rows)
    tokens = [0] * len(rows)
    for kind, group in groups.items():
        picked = _pick_kind(kind, logits[group], [rows[index] for index in group])
        for index, token in zip(group, picked, strict=True):
            tokens[index] = token
    return tokens


_GREEDY, _WHOLE, _NUCLEUS = 0, -1, -2  # Above 0: the top_k that rows share.


def _kind(row: Row, vocabulary: int) -> int:
    params = row.params
    if params.greedy:
        return _GREEDY
    if 0 < params.top_k < vocabulary:
        return params.top_k
    return _NUCLEUS if params.top_p < 1.0 else _WHOLE


def _pick_kind(kind: int, logits: Tensor, rows: Sequence[Row]) -> list[int]:
    if kind == _GREEDY:
        return argmax(logits)
    temperatures = _column(logits, [row.params.temperature for row in rows])
    if kind == _WHOLE:
        picked = _draw_whole(logits / temperatures, rows)
    elif kind == _NUCLEUS:
        picked = _draw_nucleus(logits / temperatures, rows)
    else:
        values, ids = torch.topk(logits, kind, dim=-1)
        picked = _draw_sorted(torch.softmax(values / temperatures, dim=-1), ids, rows)
    tokens: list[int] = picked.tolist()
    return tokens


def _draw_whole(scaled: Tensor, rows: Sequence[Row]) -> Tensor:
    weights = torch.softmax(scaled, dim=-1)
    if any(row.params.min_p > 0 for row in rows):
        least = weights.amax(dim=-1, keepdim=True) * _column(weights, [row.params.min_p for row in rows])
        weights = weights.masked_fill_(weights < least, 0.0)
    return invert(weights, _draws(scaled, rows))


def _draw_nucleus(scaled: Tensor, rows: Sequence[Row]) -> Tensor:
    """Row by row: how many tokens have to be sorted is each row's own affair."""
    return torch.cat([_draw_one_nucleus(own, [row]) for own, row in zip(scaled.unsqueeze(1), rows, strict=True)])


def _draw_one_nucleus(scaled: Tensor, row: Sequence[Row]) -> Tensor:
    params = row[0].params
    weights = torch.softmax(scaled, dim=-1)
    for width in _NUCLEUS_WIDTHS:
        if width >= weights.shape[-1]:
            break
        ordered, ids = torch.topk(weights, width, dim=-1)
        if float(ordered[0, -1]) < params.min_p * float(ordered[0, 0]):
            return _draw_sorted(ordered, ids, row)
        if params.min_p == 0.0 and float(ordered.double().cumsum(dim=-1)[0, -1]) >= params.top_p:
            return _draw_sorted(ordered, ids, row, wholes=1.0)
    ordered, ids = torch.sort(weights, dim=-1, descending=True, stable=True)
    return _draw_sorted(ordered, ids, row)


def _draw_sorted(ordered: Tensor, ids: Tensor, rows: Sequence[Row], wholes: float | None = None) -> Tensor:
    """Draw from weights in falling order, cut by min_p and then by top_p of `wholes` (None: of their sum)."""
    params = [row.params for row in rows]
    if any(own.min_p > 0 for own in params):
        ordered = ordered.masked_fill(ordered < ordered[:, :1] * _column(ordered, [own.min_p for own in params]), 0.0)
    if any(own.top_p < 1.0 for own in params):
        sums = ordered.double().cumsum(dim=-1)
        shares = torch.tensor([own.top_p for own in params], dtype=torch.float64, device=ordered.device).unsqueeze(1)
        limits = shares * (sums[:, -1:] if wholes is None else wholes)
        # A token stays when those before it do not yet reach top_p; so at least the first stays.
        cut = (sums - ordered >= limits) & (shares < 1.0)
        cut[:, 0] = False
        ordered = ordered.masked_fill(cut, 0.0)
    places = invert(ordered, _draws(ordered, rows))
    return ids.gather(1, places.unsqueeze(1)).squeeze(1)


def _column(like: Tensor, values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=like.device).unsqueeze(1)


def _draws(like: Tensor, rows: Sequence[Row]) -> Tensor:
    values = [uniform(row.params.seed, row.place) for row in rows]
    return torch.tensor(values, dtype=torch.float64, device=like.device)
