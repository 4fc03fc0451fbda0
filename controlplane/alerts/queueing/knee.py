"""The knee: the highest sustained load at which requests hardly waited, as far as a pool's past shows it.

A lower bound of what the pool can serve: it may never have been asked for more. Load in tokens a second where the pool
tells tokens, else in requests.
"""

from dataclasses import dataclass

import numpy as np

from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.alerts.queueing.return_level import Floats

SUSTAINED_S = 300.0
HARDLY_S = 0.25
"""A load at which requests wait for less than this on average is below the knee."""


@dataclass(frozen=True)
class Usual:
    """Of a pool's past: the knee, and what the load was like there and then. Per second, over all nodes.

    knee_tokens: 0 where nobody tells tokens; knee_requests: the same in requests; nodes: at the knee; requests,
    tokens_each: of the whole past on average; at_knee: whether waiting was seen above it, so that it is no mere bound.
    """

    knee_tokens: float
    knee_requests: float
    nodes: float
    requests: float
    tokens_each: float
    at_knee: bool


def usual(load: PoolLoad, past: slice) -> Usual | None:
    """None of a past in which nothing was served."""
    served, wait = load.served[past], np.nan_to_num(load.wait_s[past])
    if not served.sum():
        return None
    width = min(load.ticks_of(SUSTAINED_S), served.size)
    requests = _means(served, width) / load.step_s
    tokens, waits, nodes = (
        _means(load.tokens[past], width) / load.step_s,
        _means(wait, width),
        _means(load.nodes[past], width),
    )
    calm = waits <= HARDLY_S
    if not calm.any():  # A pool that always has a queue serves all it can.
        calm = np.ones_like(calm)
    best = int(np.argmax(np.where(calm, requests, -1.0)))
    return Usual(
        knee_tokens=float(tokens[best]),
        knee_requests=float(requests[best]),
        nodes=float(nodes[best]),
        requests=float(served.mean()) / load.step_s,
        tokens_each=load.tokens_each(past),
        at_knee=bool((~calm & (requests >= requests[best])).any()),
    )


def _means(values: Floats, width: int) -> Floats:
    """Of each run of so many ticks."""
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
    return np.asarray((total[width:] - total[:-width]) / width)
