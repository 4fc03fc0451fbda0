"""What is measured before a model guides, where nobody forecasts anything. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.contract.knobs import (
    MAX_NUM_BATCHED_TOKENS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    QUANTIZATION,
    EngineConfig,
    Quantization,
)
from tuner.search.space import Space

SMALL, LARGE = 128, 768
"""Tokens a step: on either side of what engines start with."""
DRAFTS = 2
FEW, MANY = 0.25, 0.75
"""Where in its list the value of a knob lies that has no figure above: few with small steps, many with large ones."""


def first_points(space: Space, default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The engine's own defaults, since production may run far from the good region; then a small and a large step, each
    with what usually helps: few drafts, weights of 8 bits. All else that is searched varies with the step: of what does
    not vary nothing is learned, and small everywhere is where a limit on the time between tokens is kept.
    """
    engine = EngineConfig().knobs()
    start = dict(default) | {name: engine[name] for name in space.values if name in engine}
    helps: dict[str, Any] = {NUM_SPECULATIVE_TOKENS: DRAFTS}
    if Quantization.INT8.value in space.values.get(QUANTIZATION, []):
        helps[QUANTIZATION] = Quantization.INT8.value
    wanted: list[dict[str, Any]] = [
        {},
        {**_others(space, FEW), **helps, MAX_NUM_BATCHED_TOKENS: SMALL, PREFILL_CHUNK_SIZE: 0},
        {**_others(space, MANY), **helps, MAX_NUM_BATCHED_TOKENS: LARGE, PREFILL_CHUNK_SIZE: SMALL},
    ]
    return [
        space.complete(space.chosen(start | {name: value for name, value in point.items() if name in space.values}))
        for point in wanted
    ]


def _others(space: Space, share: float) -> dict[str, Any]:
    """The ordered knobs, each with the value that lies so far along its list."""
    ordered = zip(space.values.items(), space.ordered, strict=True)
    return {name: own[round(share * (len(own) - 1))] for (name, own), has_order in ordered if has_order}
