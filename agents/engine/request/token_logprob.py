"""What is told of one token when log probabilities are asked for."""

from typing import NamedTuple


class TokenLogprob(NamedTuple):
    """A token at its place: its log probability, its rank (1: the likeliest), and the likeliest ones, best first."""

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]
