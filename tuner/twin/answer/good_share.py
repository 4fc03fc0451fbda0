"""Which requests were good, and how many a pool serves: goodput, of a forecast and of what was measured. Pure.

As studies count it (`tuner/replay/goodput.py`): by each request's own values; one that is refused is not good, and one
of a single token has no time per output token to be held to.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.metrics import E2E
from controlplane.contract.planning.whatif import GoodRequests, HeldTo
from tuner.twin.pool_run import Floats

TIMES = 2.0
"""Of the error, to either side."""


def share_of(values: Mapping[str, Floats], limits: Mapping[HeldTo, float]) -> float:
    """values: seconds by metric, NaN where there is none; limits: seconds. NaN of no request."""
    good: NDArray[np.bool_] = ~np.isnan(values[E2E.short])
    for metric, limit_s in limits.items():
        good &= np.isnan(values[metric]) | (values[metric] <= limit_s)
    return float(good.mean()) if good.size else float("nan")


def measured_values(records: Sequence[RequestRecord], metrics: Sequence[str]) -> dict[str, Floats]:
    """In the form of a run's."""
    return {name: np.array([one.parts.get(name, np.nan) for one in records], float) for name in metrics}


def good_requests(shares: Sequence[float], error: float, per_s: float) -> GoodRequests:
    """shares: of the twin's runs; error: of the share, where the truth was known; per_s: all requests a second."""
    off = TIMES * abs(error)
    low, middle, high = max(0.0, min(shares) - off), float(np.median(shares)), min(1.0, max(shares) + off)
    return GoodRequests(share=middle, low=low, high=high, per_s=middle * per_s)
