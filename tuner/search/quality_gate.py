"""The quality gate: how often a quantized model still says the same next token as the unquantized one.

Guarantee: prompts are held-out text that no replay uses; the reference is the same engine without quantization; a
share of agreement below `bound` makes a configuration infeasible, however fast it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from controlplane.client.named_proxy import authorities
from controlplane.contract.errors import Unavailable

TOP1 = "top1_agreement"
BOUND = 0.9
"""Least share of agreement. Weight-only int8 keeps about 95 %, per-tensor W8A8 and round-to-nearest int4 about 75 %."""


def held_out_prompts(
    tokens: Sequence[int], *, passages: int = 20, positions: int = 4, step: int = 24
) -> list[list[int]]:
    """`passages` pieces of text, each asked at `positions` lengths: `step`, 2 * `step`, ... tokens."""
    length = positions * step
    stride = max(length, len(tokens) // max(1, passages))
    starts = range(0, max(0, len(tokens) - length + 1), stride)
    return [
        list(tokens[start : start + step * position])
        for start in list(starts)[:passages]
        for position in range(1, positions + 1)
    ]


def next_tokens(
    engine_url: str, model: str, prompts: Sequence[Sequence[int]], *, token_ids: bool = False, timeout_s: float = 30.0
) -> list[str]:
    """The engine's greedy next token after each prompt, as text. Raises Unavailable when it does not answer.

    `token_ids`: ask for its number, as vLLM gives it with `return_token_ids`. Texts are equal for different tokens that
    each hold a part of one character.
    """
    engine = httpx.Client(base_url=engine_url, timeout=timeout_s, verify=authorities(), trust_env=False)
    with engine as http, ThreadPoolExecutor(4) as threads:

        def ask(prompt: Sequence[int]) -> str:
            body: dict[str, Any] = {"model": model, "prompt": list(prompt), "max_tokens": 1}
            body |= {"temperature": 0.0, "ignore_eos": True}
            if token_ids:
                body["return_token_ids"] = True
            try:
                answer = http.post("/v1/completions", json=body)
                answer.raise_for_status()
                choice = answer.json()["choices"][0]
                told = choice.get("token_ids") if token_ids else None
                return str(told[0]) if told else str(choice["text"])
            except (httpx.HTTPError, KeyError, IndexError, ValueError, TypeError) as error:
                raise Unavailable(f"{engine_url}: no next token for the quality gate: {error!r}") from error

        return list(threads.map(ask, prompts))


def agreement(reference: Sequence[str], other: Sequence[str]) -> float:
    """The share of positions at which both say the same."""
    if not reference or len(reference) != len(other):
        raise ValueError("the quality gate compares equally many answers, at least one")
    return sum(a == b for a, b in zip(reference, other, strict=True)) / len(reference)


def report(share: float, samples: int) -> dict[str, float]:
    """What a trial reports: the share, its Wilson 95 % bounds, and the number of positions."""
    z = 1.96
    centre = (share + z * z / (2 * samples)) / (1 + z * z / samples)
    half = z * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples)) / (1 + z * z / samples)
    return {TOP1: share, f"{TOP1}_low": centre - half, f"{TOP1}_high": centre + half, "samples": float(samples)}


def violation(share: float, bound: float = BOUND) -> float:
    """Excess of disagreement over what the bound permits, relative: 1.0 when it disagrees twice as often."""
    return (1.0 - share) / (1.0 - bound) - 1.0
