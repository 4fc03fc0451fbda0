"""The served load's requests: a seeded mixture of short and long prompts with Poisson arrivals, or a recorded trace.

Guarantee: one seed and round give one sequence of lengths and unit-rate arrivals, whatever the rate; a higher rate only
presses them together, so that contestants and rates meet the same traffic.
"""

import csv
import random
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_LONG_SHARE = 0.25
_SHORT_PROMPT, _LONG_PROMPT, _OUTPUT = (64, 0.5), (400, 0.3), (32, 0.5)
"""Median and sigma of lognormal lengths, tokens."""
_BOUNDS = {"prompt": (16, 1200), "output": (8, 96)}


@dataclass(frozen=True)
class Shape:
    """One request: when (in mean gaps since the start), and how long."""

    at: float
    prompt_tokens: int
    max_tokens: int


def mixture(seed: str, count: int) -> list[Shape]:
    rng = random.Random(seed)
    shapes = []
    at = 0.0
    for _ in range(count):
        at += rng.expovariate(1.0)
        prompt = _LONG_PROMPT if rng.random() < _LONG_SHARE else _SHORT_PROMPT
        shapes.append(Shape(at, _length(rng, prompt, "prompt"), _length(rng, _OUTPUT, "output")))
    return shapes


def _length(rng: random.Random, median_sigma: tuple[float, float], kind: str) -> int:
    low, high = _BOUNDS[kind]
    return max(low, min(high, round(median_sigma[0] * rng.lognormvariate(0.0, median_sigma[1]))))


def recorded(path: Path, seed: str, count: int) -> list[Shape]:
    """A stretch of an Azure LLM inference trace (columns TIMESTAMP, ContextTokens, GeneratedTokens; Patel et al. 2024),
    its gaps scaled to a mean of one, its lengths cut to the mixture's bounds."""
    with path.open(encoding="utf-8", newline="") as opened:
        rows = [
            (datetime.fromisoformat(row["TIMESTAMP"][:26]), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
            for row in csv.DictReader(opened)
        ]
    if len(rows) < count + 1:
        raise ValueError(f"{path}: {len(rows)} requests, but {count + 1} are wanted")
    start = random.Random(seed).randrange(len(rows) - count)
    stretch = rows[start : start + count + 1]
    mean_s = (stretch[-1][0] - stretch[0][0]).total_seconds() / count
    return [
        Shape((at - stretch[0][0]).total_seconds() / mean_s, _cut(prompt, "prompt"), _cut(output, "output"))
        for at, prompt, output in stretch[1:]
    ]


def _cut(tokens: int, kind: str) -> int:
    low, high = _BOUNDS[kind]
    return max(low, min(high, tokens))
