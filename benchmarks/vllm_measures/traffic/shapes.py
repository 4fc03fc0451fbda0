"""Which requests the sections send: seeded lengths within the servers' limits. Pure."""

import random

from benchmarks.engine_measures.traffic import mixture

LONGEST_PROMPT, LONGEST_OUTPUT = 800, 96


def mixed(seed: str, count: int) -> list[tuple[int, int]]:
    """(prompt tokens, new tokens): three quarters short, a quarter long (the mixture of the engine's served load)."""
    return [
        (min(shape.prompt_tokens, LONGEST_PROMPT), min(shape.max_tokens, LONGEST_OUTPUT))
        for shape in mixture(seed, count)
    ]


def even(seed: str, count: int, new_tokens: int) -> list[tuple[int, int]]:
    """Short prompts of 24 to 96 tokens, the same output length each: a load that is mostly decoding."""
    rng = random.Random(seed)
    return [(rng.randint(24, 96), new_tokens) for _ in range(count)]
