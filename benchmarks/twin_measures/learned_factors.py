"""How the factors of `controlplane/hardware/learned_pace.py` are learned, from rows of a table of measured serving.

Learned by least absolute relative errors, none negative (iteratively reweighted; Lawson and Hanson's solver by scipy):
a table of others has rows that were measured wrong, and squares would follow those. Each factor is drawn towards what
others publish, weakly: where rows tell nothing of it (an engine, a width that none of them has) that is what is left.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from controlplane.hardware.accelerators import ENGINES
from controlplane.hardware.learned_pace import FirstToken, Measured, Pace, first_parts
from controlplane.hardware.steady_batch import Parts, parts_of, room

Array = NDArray[np.float64]

PUBLISHED: Parts = (1.25, 1.25, 2.2, 2.2, 1.25, 10.0, 1.26, 32.0, 32.0, 32.0, 32.0)
"""In the order of `Pace.each`: 0.8 of the bandwidth (aiconfigurator); 0.45 of the products, 32 us a layer, 126 us a
step, 4 us a request and 46 us an output token (BLIS), between which 10 us for a request's step stand;
what a layer with experts launches beside a dense one is drawn to as many again."""
_DRAWN = 0.1
"""How much each of `PUBLISHED` weighs beside a row; found on the table of docs/benchmarks.md."""
_ROUNDS = 40
_SMALLEST = 0.02
"""A relative error below which a row weighs no more for it."""


def learned(rows: Sequence[Measured]) -> Pace:
    """From at least one row."""
    parts = np.array([parts_of(one.deployment, one.load, ENGINES) for one in rows])
    published = np.array(PUBLISHED)
    relative = parts / np.array([one.tpot_s for one in rows])[:, None] * published
    return Pace(tuple(float(one) for one in _times(relative, _DRAWN) * published))


def learned_first(pace: Pace, rows: Sequence[Measured]) -> FirstToken:
    """From those rows that tell a time to first token and had room for all that were under way; drawn nowhere."""
    told = [one for one in rows if one.ttft_s is not None and room(one.deployment, one.load) >= one.load.concurrency]
    relative = np.array([np.array(first_parts(pace, one.deployment, one.load)) / one.ttft_s for one in told])
    prompt, beside, together = _times(relative, 0.0).tolist()
    return FirstToken(prompt, beside, together)


def _times(relative: Array, draw: float) -> Array:
    """Of each column how many times, so that rows come to 1; drawn towards 1 as strongly as `draw` of a row."""
    rows, columns = relative.shape
    weights, times = np.ones(rows), np.ones(columns)
    for _ in range(_ROUNDS):
        drawn = draw * float(np.sqrt(np.mean(weights**2)))
        wanted = np.concatenate([weights, np.full(columns, drawn)])
        times, _ = nnls(np.vstack([relative * weights[:, None], np.eye(columns) * drawn]), wanted)
        weights = 1.0 / np.sqrt(np.maximum(np.abs(relative @ times - 1.0), _SMALLEST))
    return times
