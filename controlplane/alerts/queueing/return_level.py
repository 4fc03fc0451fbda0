"""What a series reaches by its own bursts alone, once in a given time: Gumbel's return level of its past's peaks.

The highest value of each block of a series whose tail falls off exponentially follows Gumbel's law (Gumbel 1958,
"Statistics of Extremes"), whose scale the past shows. The level is never under a multiple of the highest peak seen:
peaks of some hours that drift are no sample of a month. A young past is trusted less.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SCALE_ERROR = 1.3
"""The standard error of Gumbel's scale by moments is about 1.1 / sqrt(blocks) of it: one of them, and a little."""
EULER = 0.5772
LEAST_BLOCKS = 0.5
"""A past shorter than this part of a block says nothing."""


@dataclass(frozen=True)
class Manner:
    """How a series is judged. block_s: seconds of a block; the level is at least `floor`, and at least `seen` times the
    highest peak; `young` / sqrt(blocks) is added to that."""

    block_s: float
    floor: float
    seen: float
    young: float


@dataclass(frozen=True)
class ReturnLevel:
    """level: in the series' unit; scale: Gumbel's; highest: the highest value seen; span_s: of the past."""

    level: float
    scale: float
    highest: float
    span_s: float


def return_level(values: Floats, step_s: float, every_s: float, manner: Manner) -> ReturnLevel | None:
    """Of a past (NaN where nothing is known); every_s: it is reached once in so long, on average."""
    known = values[np.isfinite(values)]
    span_s = known.size * step_s
    blocks = span_s / manner.block_s
    if blocks < LEAST_BLOCKS:
        return None
    starts = np.arange(0, known.size, max(1, round(manner.block_s / step_s)))
    peaks = np.maximum.reduceat(known, starts)
    highest = float(peaks.max())
    scale = float(peaks.std(ddof=1)) * math.sqrt(6.0) / math.pi if peaks.size > 1 else 0.0
    mode = float(peaks.mean()) - EULER * scale
    sure = scale * (1.0 + SCALE_ERROR / math.sqrt(blocks))
    gumbel = mode + sure * math.log(max(every_s / manner.block_s, 1.0))
    seen = (manner.seen + manner.young / math.sqrt(blocks)) * highest
    return ReturnLevel(max(gumbel, seen, manner.floor), scale, highest, span_s)
