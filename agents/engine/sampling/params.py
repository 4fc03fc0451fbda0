"""What a request asks of sampling, and where its random numbers come from.

Guarantee: the random number for an output place depends on the request's seed and that place alone, so that a seeded
request gives the same text whatever else is served, with or without speculation.
"""

import hashlib
from dataclasses import dataclass

_FRACTION_BITS = 53


@dataclass(frozen=True)
class SamplingParams:
    """temperature 0 is greedy; top_k 0 and top_p 1 are off; stop_token_ids end the output and are part of it."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stop_token_ids: frozenset[int] = frozenset()

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


def uniform(seed: int, place: int) -> float:
    """The number in [0, 1) for output place `place` of a request."""
    digest = hashlib.blake2b(f"{seed}:{place}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - _FRACTION_BITS)) / (1 << _FRACTION_BITS)
