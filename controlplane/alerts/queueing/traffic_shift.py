"""How a pool's traffic differs from its past: the rate of requests, and how long their prompts are.

Both are series for a `LevelWatch`. What another mix does to a quantile by itself, every prompt bucket as slow as
before, is the mixture of the buckets' past at today's shares.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from controlplane.alerts.queueing.level_watch import Rises, Series
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.contract.metrics import PROMPT_BUCKETS
from controlplane.evidence.sketch import Sketch

MIX_S = 300.0
LOAD_RISES = Rises((0.35, 0.6, 1.2, 2.5), 0.2)
"""Of the rate, as parts of the usual one: what is under a fifth more is no surge."""
MIX_RISES = Rises((0.15, 0.3, 0.6, 1.2), 0.08)
"""Of the mean prompt bucket, in standard deviations of a request's."""
QS = (0.5, 0.95, 0.99)
REFERENCE_SHARE = 0.75
"""The oldest part of what is known is what the newest is compared with."""


def load_series(load: PoolLoad) -> Series:
    """Requests that came in each tick."""
    return Series(load.start_s, load.step_s, load.arrived, np.ones(len(load)))


def mix_series(load: PoolLoad) -> Series:
    """Of the requests served: the place of their prompt bucket, from short to long."""
    places = {name: float(place) for place, name in enumerate(PROMPT_BUCKETS)}
    known = [(places[name], one) for name, one in load.by_bucket.items() if name in places]
    nothing = np.zeros(len(load))
    total = sum((place * one for place, one in known), nothing)
    squares = sum((place**2 * one for place, one in known), nothing)
    return Series(load.start_s, load.step_s, total, sum((one for _, one in known), nothing), squares)


def shares(load: PoolLoad, ticks: slice) -> dict[str, float]:
    """Of the requests served in these ticks, by prompt bucket; empty where there are none."""
    counts = {name: float(one[ticks].sum()) for name, one in load.by_bucket.items() if name}
    whole = sum(counts.values())
    return {name: one / whole for name, one in counts.items()} if whole else {}


def usual_shares(load: PoolLoad) -> dict[str, float]:
    return shares(load, slice(0, max(1, int(REFERENCE_SHARE * len(load)))))


class ByMix(NamedTuple):
    """A quantile of the past, and what it would be with the buckets' shares of now, seconds."""

    q: float
    before_s: float
    now_s: float


def by_mix_alone(past: Mapping[str, Sketch], now: Mapping[str, float]) -> ByMix | None:
    """The quantile of `QS` that grows most; None where nothing is known.

    A bucket that the past does not know counts for nothing: nobody knows how slow it was.
    """
    counted = {name: one.counts.astype(np.float64) for name, one in past.items() if one.counts.sum() and name}
    if not counted:
        return None
    then = Sketch(counts=np.asarray(sum(counted.values())).astype(np.int64))
    scaled = [now.get(name, 0.0) * one / one.sum() for name, one in counted.items()]
    mixed = np.asarray(sum(scaled))
    if not mixed.sum():
        return None
    remade = Sketch(counts=np.rint(mixed / mixed.sum() * 1e7).astype(np.int64))
    found = [ByMix(q, then.quantile(q), remade.quantile(q)) for q in QS]
    return max(found, key=lambda one: one.now_s / one.before_s)
