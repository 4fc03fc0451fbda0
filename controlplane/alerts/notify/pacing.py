"""When a letter is tried again, and how long a destination rests after it failed. Pure but for the dice it is given.

A letter's own pauses double up to five minutes, a destination's rests only up to half a minute: one message that a
receiver chokes on holds nobody up, and a receiver that was away for long is noticed soon when it is back.
"""

from collections.abc import Callable

from controlplane.contract.retry import doubling_s

Dice = Callable[[], float]
"""Gives a number from 0 to below 1."""

JITTER = 0.25
"""Pauses are longer by up to this share: whoever failed together does not come back together."""
LONGEST_REST_S = 30.0
OUTAGE = 3
"""Failures in a row after which a destination rests: one that fails now and then is not slowed down. After as many, one
success lets everything that waits go at once, whatever its own pause."""


def letter_pause_s(attempts: int, retry_after_s: float | None, dice: Dice) -> float:
    """After so many attempts; never shorter than the receiver asked for."""
    return max(doubling_s(attempts), retry_after_s or 0.0) * (1.0 + JITTER * dice())


def rest_s(failures: int, retry_after_s: float | None, dice: Dice) -> float:
    """After so many failures in a row of a destination; 0 where it goes on with another letter."""
    own = 0.0 if failures < OUTAGE else doubling_s(failures - OUTAGE + 1, longest_s=LONGEST_REST_S)
    return max(own, retry_after_s or 0.0) * (1.0 + JITTER * dice())
