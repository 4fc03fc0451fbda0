"""How much less sure a quantized model is of held-out text: how far its tokens' mean log-probability drops, nats each.

That is the difference of the cross-entropies on the text, and the logarithm of the perplexities' ratio: 0.05 is 5 %
more perplexity. An agreement of next tokens says little of how sure the model still is; this does.

Guarantee: a passage, not a token, is one sample, for the tokens of a passage are wrong together. The bounds are
Student's, with the skewness taken out by Hall's transformation (On the removal of skewness by transformation, JRSS B
54, 1992): drops have a long tail to the right, which Student's upper bound alone does not cover. All passages are
asked: they cost little, and the first few say nothing of a passage that is very wrong and rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from scipy import special

from controlplane.client.named_proxy import authorities, unreached
from controlplane.contract.errors import Unavailable

DROP = "logprob_drop"
FEWEST = 20
"""With fewer passages there is no bound worth the name."""
LEVEL = 0.05
"""On one side."""


def passage_logprobs(
    engine_url: str, model: str, passages: Sequence[Sequence[int]], *, timeout_s: float = 60.0
) -> list[float]:
    """Of each passage the mean log-probability of its tokens but the first, in nats, by the prompt's own log
    probabilities (`prompt_logprobs` of vLLM's completions, which the embedded engine has too). Raises Unavailable when
    the engine does not give them."""
    engine = httpx.Client(base_url=engine_url, timeout=timeout_s, verify=authorities(engine_url), trust_env=False)
    with engine as http, ThreadPoolExecutor(4) as threads:

        def ask(passage: Sequence[int]) -> float:
            body: dict[str, Any] = {"model": model, "prompt": list(passage), "max_tokens": 1, "temperature": 0.0}
            try:
                answer = http.post("/v1/completions", json=body | {"ignore_eos": True, "prompt_logprobs": 0})
                answer.raise_for_status()
                told = answer.json()["choices"][0]["prompt_logprobs"]
                own = [told[place][str(token)]["logprob"] for place, token in enumerate(passage) if place]
                return math.fsum(own) / len(own)
            except (httpx.HTTPError, LookupError, ValueError, TypeError, ZeroDivisionError) as error:
                raise Unavailable(
                    f"{engine_url}: no log-probabilities of a prompt for the quality gate: {unreached(error)}; "
                    "a study with most_logprob_drop 0 does not ask for them"
                ) from error

        return list(threads.map(ask, passages))


@dataclass(frozen=True)
class LogprobDrop:
    """Over `passages` the mean drop, with its bounds. Nats a token."""

    mean: float
    low: float
    high: float
    passages: int

    @classmethod
    def between(cls, plain: Sequence[float], quantized: Sequence[float]) -> LogprobDrop:
        """Of the two models' means, a passage each, at least two."""
        drops = [own - other for own, other in zip(plain, quantized, strict=True)]
        low, high = bounds(drops)
        return cls(float(np.mean(drops)), low, high, len(drops))

    @property
    def told(self) -> dict[str, float]:
        """As a trial reports it."""
        return {DROP: self.mean, f"{DROP}_low": self.low, f"{DROP}_high": self.high, "passages": float(self.passages)}

    def violation(self, most: float) -> float:
        """By how much more than permitted it may have dropped, relative."""
        return self.high / most - 1.0


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Of the mean, each missed in `LEVEL` of the cases."""
    own = np.asarray(values, dtype=float)
    count, mean, sd = len(own), float(own.mean()), float(own.std(ddof=1))
    if sd == 0.0:
        return mean, mean
    skew = float(np.mean((own - mean) ** 3)) / sd**3
    reach = float(special.stdtrit(count - 1, 1.0 - LEVEL)) / math.sqrt(count)
    return mean - sd * _unskewed(reach, skew, count), mean - sd * _unskewed(-reach, skew, count)


def _unskewed(reach: float, skew: float, count: int) -> float:
    """Hall's transformation, inverted: how far the mean lies from the truth, in standard deviations."""
    if abs(skew) < 1e-6:
        return reach
    return float(3.0 / skew * (np.cbrt(1.0 + skew * (reach - skew / (6.0 * count))) - 1.0))
