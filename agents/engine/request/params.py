"""What a request asks of sampling, and where its random numbers come from.

Guarantee: the random number for an output place depends on the request's seed and that place alone, so that a seeded
request gives the same text whatever else is served, with or without speculation.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

_FRACTION_BITS = 53
SEED_BITS = 63


@dataclass(frozen=True)
class SamplingParams:
    """temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off; penalties 0, 0 and 1 change nothing.

    stop_token_ids end the output and are part of it; before min_tokens outputs they cannot come. logprobs and
    prompt_logprobs: how many of the likeliest tokens are told beside the real one at each place; None: nothing is told.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stop_token_ids: frozenset[int] = frozenset()
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @cached_property
    def penalised(self) -> bool:
        """Whether a token's chance depends on the tokens before it."""
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0 or self.repetition_penalty != 1.0

    def adjusts(self, place: int) -> bool:
        """Whether the logits for output place `place` are changed before anything is drawn from them."""
        return self.penalised or bool(self.logit_bias) or place < self.min_tokens


def uniform(seed: int, place: int) -> float:
    """The number in [0, 1) for output place `place` of a request."""
    digest = hashlib.blake2b(f"{seed}:{place}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - _FRACTION_BITS)) / (1 << _FRACTION_BITS)


def seed_of_choice(seed: int, choice: int) -> int:
    """The seed of one of several answers to a prompt; the first has the request's own."""
    if choice == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}/{choice}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - SEED_BITS)
