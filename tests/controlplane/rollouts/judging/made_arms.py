"""Windows of a control and a canary that have a past, made at random."""

from collections.abc import Callable

import numpy as np

from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import Wanted
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.past_comparison import Comparison

MakeSketch = Callable[..., Sketch]
ALPHA = 0.01
WANTED = Wanted(levels=[0.5, 0.9, 0.99], shown=[0.5, 0.9], tolerance=0.1, alpha=ALPHA)
PAST_TICKS = 400


class Arms:
    """Windows of two strata; the canary's node is `node` as slow as the others, always."""

    def __init__(self, make: MakeSketch, seed: int = 1, *, node: float = 1.0) -> None:
        self.make, self.random, self.node = make, np.random.default_rng(seed), node

    def arm(self, requests: int, factor: float, *, tail: float = 1.0, long: float = 1.0, hits: float = 0.5) -> dict:
        found = {}
        for bucket, scale in (("<=128", 0.1), ("<=2k", 0.6)):
            slower = factor * (long if bucket == "<=2k" else 1.0)
            for name, share, part in (("miss", 1.0 - hits, 1.0), ("hit", hits, 0.3)):
                values = scale * part * slower * np.exp(0.4 * self.random.normal(size=round(requests * share / 2)))
                values[self.random.random(values.size) < 0.09] *= tail
                found[f"{bucket} {name}"] = self.make(values)
        return found

    def window(self, factor: float = 1.0, *, hits: float = 0.5, tail: float = 1.0, long: float = 1.0) -> Window:
        return Window(self.arm(80, 1.0), self.arm(20, self.node * factor, tail=tail, long=long, hits=hits))

    def learnt(self, wanted: Wanted = WANTED) -> Comparison:
        found = Comparison.of([self.window() for _ in range(PAST_TICKS)], wanted)
        assert found is not None
        return found
