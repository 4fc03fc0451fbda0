"""An engine's steps around a change, with warm-ups as a test wants them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from agents.backends.warm_up import WATCH_S

BEGUN, REVISION = 1000.0, 7
"""When the change came into force, in Unix seconds, and what then runs."""


def steps(
    slowness: Callable[[float], float], *, every_s: float = 0.1, seed: int = 1, running: int = 4
) -> Iterator[dict[str, Any]]:
    """Steps of many sizes, costs scattered by a tenth, `slowness(t)` times as dear `t` seconds after the change."""
    chance, now = random.Random(seed), -5.0
    while now < WATCH_S + 1:
        tokens = chance.choice([4, 4, 4, 300])
        seconds = (0.01 + tokens * 1e-4) * chance.lognormvariate(0, 0.1) * slowness(now)
        parts = {"schedule": 0.1 * seconds, "forward": 0.9 * seconds, "attention": 0.2 * seconds}
        told = {"time": BEGUN + now, "revision": REVISION, "batched_tokens": tokens, "running": running}
        yield {"kind": "step", **told, **parts}
        now += every_s
