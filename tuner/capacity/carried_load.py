"""From replays at several loads to the largest load within the limits, with its interval. Pure.

Guarantee: the same replays give the same figures (the bootstrap is seeded). The interval holds what replays of this
traffic with its gaps in any order would say: requests are drawn anew in blocks of neighbours, since one that waits has
neighbours that wait (circular block bootstrap, Politis and Romano 1992), replays are weighed anew (Bayesian bootstrap,
Rubin 1981), and the crossing may lie anywhere between the two loads that it was found between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.planning.measurement import CarriedLoad, Carries, LoadReplay
from tuner.capacity.bracket import LEAST
from tuner.capacity.monotone_fit import Floats, MonotoneFit
from tuner.replay.completion import RequestTiming
from tuner.replay.replay import key
from tuner.search.objective import ERRORS

RESAMPLES = 199
CONFIDENCE = 0.95
_LEAST_EXCESS, _MOST_EXCESS = math.log(0.05), math.log(4.0)
"""Farther from a limit than that tells nothing of where it is crossed."""


@dataclass(frozen=True)
class Kept:
    """What a load must keep."""

    limits: Sequence[Limit]
    max_lost_share: float


class Replayed:
    """One replay. `load`: times that of the slice; `timings`: in the order of arrival, at least one."""

    def __init__(self, load: float, timings: Sequence[RequestTiming], kept: Kept, *, ended_early: bool = False) -> None:
        self.load, self.requests, self.ended_early = load, len(timings), ended_early
        self._kept = kept
        self._lost = np.asarray([bool(timing.error) for timing in timings])
        told = [timing.samples() for timing in timings]
        self._values = {
            metric: _Ragged([one.get(metric, ()) for one in told]) for metric in {one.metric for one in kept.limits}
        }

    def excess(self, rows: np.ndarray | None = None) -> dict[str, float]:
        """The logarithm of measured / limit, by limit. `rows`: of these requests, as often as each is named."""
        rows = np.arange(self.requests) if rows is None else rows
        found = {ERRORS: _log(float(self._lost[rows].mean()) / self._kept.max_lost_share)}
        for limit in self._kept.limits:
            values = self._values[limit.metric].of(rows)
            name = key(limit.metric, limit.q)
            if len(values):
                own = _log(float(np.quantile(values, limit.q)) / limit.limit_s)
            else:  # Of answers without such a value nothing can be too long; of no answer at all anything is.
                own = _MOST_EXCESS if self._lost[rows].all() else _LEAST_EXCESS
            found[name] = max(own, found.get(name, -math.inf))
        return found


def fit_of(replays: Sequence[Replayed]) -> MonotoneFit:
    """At least one replay."""
    return MonotoneFit.of(
        [one.load for one in replays], [one.excess() for one in replays], [one.requests for one in replays]
    )


def carried_load(
    replays: Sequence[Replayed], *, times: float, rate_per_s: float, seed: int, tokens_per_request: float | None = None
) -> CarriedLoad:
    """`times`: the load of the slice, in times of the captured one; `rate_per_s`: the requests of the slice a second;
    `tokens_per_request`: output tokens of these. At least one replay.
    """
    fit = fit_of(replays)
    low, high = _interval(replays, seed)
    at_least = fit.crossing == math.inf
    load = float(fit.loads[-1]) if at_least else fit.crossing
    return CarriedLoad(
        load=load * times,
        low=min(low, load) * times,
        high=None if at_least or high == math.inf else max(high, load) * times,
        at_least=at_least,
        limit=fit.broken_first,
        request_s=1.0 / (rate_per_s * counted(load)),
        tokens_per_request=tokens_per_request,
        replays=[
            LoadReplay(
                load=one.load * times,
                requests=one.requests,
                violations={name: round(math.expm1(value), 6) for name, value in one.excess().items()},
                ended_early=one.ended_early,
            )
            for one in replays
        ],
    )


def counted(load: float) -> float:
    """A load as it is compared: where even the least that is tried breaks a limit, half of that."""
    return load or LEAST / 2.0


def over_runs(runs: Sequence[Carries], times: float) -> Carries | None:
    """Several runs of one configuration as one: the geometric mean and Student's interval of it; None of no run.
    `times`: as for `carried_load`."""
    if len(runs) < 2:
        return runs[0] if runs else None
    logs = np.log([times * counted(one.load / times) for one in runs])
    mean, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(len(runs))
    half = float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, len(runs) - 1)) * error
    if not any(one.load for one in runs):
        return runs[0]
    at_least = any(one.at_least for one in runs)
    return Carries(
        load=math.exp(mean),
        low=math.exp(mean - half),
        high=None if at_least else math.exp(mean + half),
        at_least=at_least,
    )


def _interval(replays: Sequence[Replayed], seed: int) -> tuple[float, float]:
    random = np.random.default_rng(seed)
    loads = [one.load for one in replays]
    found = []
    for _ in range(RESAMPLES):
        excess = [one.excess(_blocks(one.requests, random)) for one in replays]
        weights = random.exponential(size=len(replays)) * [one.requests for one in replays]
        low, high = MonotoneFit.of(loads, excess, weights.tolist()).edges
        within = low > 0.0 and high < math.inf
        found.append(low * (high / low) ** random.random() if within else high if low else 0.0)
    found.sort()
    outside = round((1.0 - CONFIDENCE) / 2.0 * (RESAMPLES + 1))
    return found[outside - 1], found[-outside]


def _blocks(requests: int, random: np.random.Generator) -> np.ndarray:
    """As many requests, drawn in blocks of as many as there are blocks; the last is followed by the first."""
    length = max(1, round(math.sqrt(requests)))
    begins = random.integers(0, requests, size=-(-requests // length))
    drawn: np.ndarray = (begins[:, None] + np.arange(length)).ravel()[:requests] % requests
    return drawn


def _log(ratio: float) -> float:
    return min(max(math.log(ratio) if ratio > 0 else -math.inf, _LEAST_EXCESS), _MOST_EXCESS)


class _Ragged:
    """Some values of each request, one after another."""

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        self._lengths = np.asarray([len(own) for own in values], dtype=int)
        self._begins = np.cumsum(self._lengths) - self._lengths
        self._values: Floats = np.asarray([value for own in values for value in own], dtype=float)

    def of(self, rows: np.ndarray) -> Floats:
        lengths = self._lengths[rows]
        ends = np.cumsum(lengths)
        places = np.repeat(self._begins[rows] - (ends - lengths), lengths) + np.arange(int(lengths.sum()))
        found: Floats = self._values[places]
        return found


def largest_kept(replays: Sequence[Replayed], found: CarriedLoad, times: float) -> int:
    """The place of the replay that shows the configuration at the load it carries: the largest that is not above it;
    without one the smallest."""
    loads: Mapping[int, float] = {place: one.load * times for place, one in enumerate(replays)}
    kept = [place for place, load in loads.items() if load <= found.load * (1 + 1e-9)]
    return max(kept, key=loads.__getitem__) if kept else min(loads, key=loads.__getitem__)
