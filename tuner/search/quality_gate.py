"""The quality gate: how often a quantized model still says the same next token as the unquantized one.

Guarantee: prompts are held-out text that no replay uses; the reference is the same engine without quantization; what
may disagree more often than permitted, by the bound of what was seen and not by its figure alone, makes a configuration
infeasible, however fast it is.

It is looked at after `LOOKS` positions, and no more are asked once the bound lies on one side; that holds over all
looks together (Bonferroni). What is undecided at the last look is not let through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx

from controlplane.client.named_proxy import authorities, unreached
from controlplane.contract.errors import Unavailable
from tuner.search.logprob_drop import DROP

TOP1 = "top1_agreement"
"""Weight-only int8 keeps about 95 %, per-tensor W8A8 and round-to-nearest int4 about 75 %."""
GATES = (TOP1, DROP)
"""What a weight format is held to, as violations name it."""
LOOKS = (80, 160, 320, 480)
"""After so many positions it is looked at; fewer where there is less text."""
_Z = 2.241
"""Of the normal: each look errs with 1.25 % on one side, all four with 5 %."""
PASSAGES, POSITIONS, STEP = 120, 4, 24
TOKENS = PASSAGES * POSITIONS * STEP
"""Of held-out text that all looks want."""


def held_out_prompts(
    tokens: Sequence[int], *, passages: int = PASSAGES, positions: int = POSITIONS, step: int = STEP
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
    engine = httpx.Client(base_url=engine_url, timeout=timeout_s, verify=authorities(engine_url), trust_env=False)
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
                raise Unavailable(f"{engine_url}: no next token for the quality gate: {unreached(error)}") from error

        return list(threads.map(ask, prompts))


def is_unfit(violations: Mapping[str, float]) -> bool:
    """Whether its weight format did not pass."""
    return any(violations.get(name, 0.0) > 0 for name in GATES)


def agreement(reference: Sequence[str], other: Sequence[str]) -> float:
    """The share of positions at which both say the same."""
    if not reference or len(reference) != len(other):
        raise ValueError("the quality gate compares equally many answers, at least one")
    return sum(a == b for a, b in zip(reference, other, strict=True)) / len(reference)


def dealt(prompts: Sequence[list[int]], positions: int = POSITIONS) -> list[list[int]]:
    """The same prompts, passages in another order: the first look is at text from everywhere."""
    passages = [list(prompts[start : start + positions]) for start in range(0, len(prompts), positions)]
    Random(0).shuffle(passages)
    return [prompt for passage in passages for prompt in passage]


@dataclass(frozen=True)
class Agreement:
    """Of `samples` positions the share that agreed, with its Wilson bounds, which hold over all looks."""

    share: float
    samples: int

    @property
    def low(self) -> float:
        return self._centre - self._half

    @property
    def high(self) -> float:
        return self._centre + self._half

    @property
    def told(self) -> dict[str, float]:
        """As a trial reports it."""
        return {TOP1: self.share, f"{TOP1}_low": self.low, f"{TOP1}_high": self.high, "samples": float(self.samples)}

    def violation(self, least: float) -> float:
        """By how much more than permitted it may disagree, relative: 1.0 is twice as often."""
        return (1.0 - self.low) / (1.0 - least) - 1.0

    def decides(self, least: float) -> bool:
        """Whether the bounds lie on one side of what is wanted."""
        return self.low >= least or self.high < least

    @property
    def _centre(self) -> float:
        return (self.share + _Z * _Z / (2 * self.samples)) / (1 + _Z * _Z / self.samples)

    @property
    def _half(self) -> float:
        spread = self.share * (1 - self.share) / self.samples + _Z * _Z / (4 * self.samples * self.samples)
        return _Z * math.sqrt(spread) / (1 + _Z * _Z / self.samples)


def compared(reference: Sequence[str], ask: Callable[[int, int], Sequence[str]], least: float) -> Agreement:
    """Look after look until it is decided. ask: the other's answers to the prompts from the first number up to the
    second (excluded), which come as they are wanted. At least one in `reference`."""
    answers: list[str] = []
    looks = [look for look in LOOKS if look < len(reference)] + [min(len(reference), LOOKS[-1])]
    found = None
    for look in looks:
        answers.extend(ask(len(answers), look))
        found = Agreement(agreement(reference[:look], answers), look)
        if found.decides(least):
            return found
    assert found is not None
    return found
