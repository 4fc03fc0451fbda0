"""The limit of information: how soon a fault could be told at all, at one false alarm in so long a time.

A detector that raises one false alarm in A ticks needs, in the mean, ln A nats of evidence (Lorden, "Procedures for
reacting to a change in distribution", 1971). Two limits follow, each for who knows beforehand what the fault will be:

- by the requests alone: ln A over the rate of requests times the nats that one of them holds, the divergence of the
  histogram after the fault from that before, by prompt bucket, with the mix held fixed;
- with the noise that all requests of a moment share (`Shape`): the time after which a rise of all holds ln A nats, the
  noise's covariance known, and as much of the past as one likes. It is higher, often by far: what all requests share
  does not average out.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.worlds import Fault, Shape
from controlplane.contract.histogram import SCALE
from controlplane.contract.metrics import WINDOW_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 3.0
"""Buckets (7 %) over which a histogram of a few hours is smoothed."""
PAST = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192])
LONGEST_S = 86400.0


def nats_wanted(false_alarm_every_s: float) -> float:
    return math.log(false_alarm_every_s / WINDOW_S)


def nats_a_request(usual: Ints, bottoms: Sequence[int], fault: Fault, nodes: int) -> float:
    """usual: int64[buckets, axis], what was served without the fault; bottoms: the fewest tokens of each bucket."""
    kernel = np.exp(-0.5 * (np.arange(-12, 13) / SMOOTHING) ** 2)
    total = 0.0
    for counts, bottom in zip(usual, bottoms, strict=True):
        if not counts.sum() or bottom < fault.least_prompt:
            continue
        before = np.convolve(counts, kernel / kernel.sum(), mode="same") + 1e-9
        places = np.arange(before.size)
        moved = np.interp(places - math.log2(fault.factor) * 2**SCALE, places, before)
        share = fault.share / (1.0 if fault.node is None else nodes)
        after = (1.0 - share) * before + share * moved
        before, after = before / before.sum(), after / after.sum()
        total += float(counts.sum()) * float((after * np.log(after / before)).sum())
    return total / float(usual.sum())


def by_requests_s(nats: float, rate: float, wanted: float) -> float:
    """Seconds until requests of so many nats each hold what is wanted."""
    return wanted / (nats * rate)


def with_common_noise_s(shape: Shape, factor: float, spread: float, wanted: float) -> float:
    """Seconds until a rise of all by `factor` holds what is wanted; infinite beyond a day.

    spread: sd of one request's log latency, beyond what is common.
    """
    kinds = [(shape.fast_sd, shape.fast_tau_s), *shape.slow]
    low, high = 1, round(LONGEST_S / WINDOW_S)
    if _nats(kinds, math.log(factor), spread**2 / (shape.rate * WINDOW_S), high) < wanted:
        return math.inf
    while low < high:
        middle = (low + high) // 2
        if _nats(kinds, math.log(factor), spread**2 / (shape.rate * WINDOW_S), middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low * WINDOW_S


def _nats(kinds: Sequence[tuple[float, float]], rise: float, sampling: float, ticks: int) -> float:
    """What so many ticks after a rise show of it, given the ticks before: spans grow with their distance from it."""
    after = np.array(sorted({round(ticks * part) for part in np.linspace(0.0, 1.0, 25) ** 2}))
    edges = np.concatenate([-PAST[:0:-1], after]).astype(np.float64)
    total = np.diag(sampling / np.diff(edges)) + 100.0  # The level itself is unknown.
    for sd, tau_s in kinds:
        x = np.diff(edges) * WINDOW_S / tau_s
        ends = edges * WINDOW_S / tau_s
        shrunk = -np.expm1(-x) / x
        gap = np.maximum.outer(ends[:-1], ends[:-1]) - np.minimum.outer(ends[1:], ends[1:])
        shared = np.exp(-np.abs(gap)) * np.outer(shrunk, shrunk)
        np.fill_diagonal(shared, 2.0 * (x + np.expm1(-x)) / x**2)
        total = total + sd**2 * shared
    risen = (edges[:-1] >= 0).astype(np.float64) * rise
    return float(risen @ np.linalg.solve(total, risen)) / 2.0
