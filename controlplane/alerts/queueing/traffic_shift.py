"""How a pool's traffic differs from its past: the load of a minute, and how far the mix of prompts has moved.

Both are series, to be judged by what they reach by bursts alone (`peak_watch`). What another mix does to a quantile by
itself, every prompt bucket as slow as before, is the mixture of the buckets' past at today's shares.
"""

from collections.abc import Mapping

import numpy as np

from controlplane.alerts.queueing.pool_load import PoolLoad, trailing
from controlplane.alerts.queueing.return_level import Floats, Manner
from controlplane.contract.metrics import PROMPT_BUCKETS
from controlplane.evidence.sketch import Sketch

LOAD_S, MIX_S = 60.0, 300.0
LOAD_MANNER = Manner(block_s=300.0, floor=0.0, seen=1.25, young=0.5)
"""Requests a second: a surge is at least a quarter above everything seen."""
MIX_MANNER = Manner(block_s=MIX_S, floor=0.05, seen=1.5, young=0.5)
"""Share of the requests: one in twenty has to be of another length."""
LEAST_MIX = 60.0
"""A mix of fewer requests says nothing."""
REFERENCE_SHARE = 0.75
"""The oldest part of what is known is what the newest is compared with."""
SMALL = 1e-9


def load_series(load: PoolLoad) -> Floats:
    """Requests that came a second, over the newest minute at each tick; NaN before the first minute is over."""
    width = load.ticks_of(LOAD_S)
    found = trailing(load.arrived, width) / load.step_s
    found[: width - 1] = np.nan
    return found


def shares(load: PoolLoad, ticks: slice) -> dict[str, float]:
    """Of the requests served in these ticks, by prompt bucket; empty where there are none."""
    counts = {name: float(one[ticks].sum()) for name, one in load.by_bucket.items() if name}
    whole = sum(counts.values())
    return {name: one / whole for name, one in counts.items()} if whole else {}


def usual_shares(load: PoolLoad) -> dict[str, float]:
    return shares(load, slice(0, max(1, int(REFERENCE_SHARE * len(load)))))


def mix_series(load: PoolLoad) -> Floats:
    """By what share of requests the newest five minutes are longer than the past: the total variation distance at each
    tick, 0 where prompts are no longer than they were; NaN where too few requests tell."""
    usual, width = usual_shares(load), load.ticks_of(MIX_S)
    names = [name for name in PROMPT_BUCKETS if name in load.by_bucket]
    if len(names) < 2 or not usual:
        return np.full(len(load), np.nan)
    counts = np.array([trailing(load.by_bucket[name], width) * width for name in names])
    whole = counts.sum(axis=0)
    reference = np.array([usual.get(name, 0.0) for name in names])[:, None]
    moved = counts / np.maximum(whole, SMALL) - reference
    longer = np.arange(len(names)) @ moved > 0.0
    found = np.where(longer, np.abs(moved).sum(axis=0) / 2.0, 0.0)
    found[whole < LEAST_MIX] = np.nan
    found[: width - 1] = np.nan
    return np.asarray(found)


def by_mix_alone(past: Mapping[str, Sketch], now: Mapping[str, float], q: float) -> tuple[float, float] | None:
    """A quantile of the past, and what it would be with the buckets' shares of now; None where nothing is known.

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
    return then.quantile(q), remade.quantile(q)
