"""What a study's runs say of its configurations: how good each is, whether it runs and keeps the limits. Pure.

Guarantee: every run counts, repeats and crashes too; limits are judged by the expected figure, not by a lucky run; a
configuration that crashed says something of those beside it. Each objective, each limit and whether it runs at all
have a surrogate of their own (constrained Bayesian optimisation, Gardner et al. 2014), taken as independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tuner.search.forecasts import Forecasts, Guided
from tuner.search.front import beaten, hypervolume
from tuner.search.objective import Assessment, constraint_value, score
from tuner.search.space import Space
from tuner.search.surrogate import Array, Posterior, Surrogate

TOLD_NOISE = 0.08
"""What one run's figures vary by, before there are repeats: sd of the logarithm, as seen on the embedded engine."""
CRASH_NOISE = 0.3
LIKELY = 0.5
"""What keeps the limits with at least this probability can be fallen back on."""
BREAKS = 0.2
"""A choice that breaks a limit is at least so much worse (log ratio) than the fastest that can be fallen back on."""
TRIFLE = 0.01
"""A smaller gain than this (log ratio) decides nothing."""


@dataclass(frozen=True)
class Belief:
    """About each configuration asked for. `objective`: log ratios to the default; `log_feasible`: log probabilities;
    `also`: the further objectives, as `objective`."""

    objective: Posterior
    log_feasible: Array
    also: Sequence[Posterior] = ()

    @property
    def feasible(self) -> Array:
        """The probability of each to run and to keep every limit."""
        found: Array = np.exp(self.log_feasible)
        return found

    @property
    def otherwise(self) -> float:
        """What a choice comes to that breaks a limit: what runs now goes on (0), or something slower where all that is
        likely to keep the limits is slower than that.
        """
        mean, kept = self.objective.mean, self.feasible >= LIKELY
        return max(0.0, float(mean[kept].min()) + BREAKS if kept.any() else float(mean.max()))

    @property
    def log_worth(self) -> Array:
        """The logarithm of what choosing each is expected to gain on `otherwise`: its gain times the probability of
        getting it. Where none gains anything, the likeliest to keep the limits is worth most.
        """
        found: Array = np.log(np.maximum(self.otherwise - self.objective.mean, TRIFLE)) + self.log_feasible
        return found

    def no_worse(self, bounds: Sequence[float]) -> Belief:
        """The same, where only those count as feasible whose further objectives are within `bounds` (log ratios)."""
        kept = self.log_feasible
        for one, bound in zip(self.also, bounds, strict=True):
            kept = kept + one.log_below(bound)
        return replace(self, log_feasible=kept)

    # -- several objectives --------------------------------------------------------------------------------------

    @property
    def means(self) -> Array:
        """Expected log ratios, configurations x objectives."""
        return np.stack([one.mean for one in (self.objective, *self.also)], axis=1)

    @property
    def front(self) -> NDArray[np.bool_]:
        """Those that likely keep the limits, and that none of these beats in what is expected of them."""
        found, means = self.feasible >= LIKELY, self.means
        found[found] = ~beaten(means[found])
        return found

    @property
    def offered(self) -> NDArray[np.bool_]:
        """Those that likely keep the limits, and that none likely beats: keeps them, too, and is no worse in anything.
        By what is expected alone one that may break a limit, or seems a little better, would take away a sure one."""
        likely = self.log_feasible[:, None]
        for one in (self.objective, *self.also):
            apart = np.hypot(one.sd[:, None], one.sd[None])
            likely = likely + stats.norm.logcdf((one.mean[None] - one.mean[:, None]) / apart)
        found: NDArray[np.bool_] = (self.feasible >= LIKELY) & ~(likely > np.log(LIKELY)).any(axis=0)
        return found

    @property
    def corner(self) -> Array:
        """From where a front is measured: somewhat worse in each objective than the worst on it; without one as bad as
        the worst of all, and no better than what runs now."""
        means, front = self.means, self.front
        found: Array = means[front].max(axis=0) + BREAKS if front.any() else np.maximum(means.max(axis=0), 0.0)
        return found

    def points(self, corner: Array) -> Array:
        """Where each counts, configurations x objectives: nearer to the corner by the chance that it breaks a limit, so
        that what it covers alone is its hypervolume times the probability of keeping them."""
        share = self.feasible[:, None] ** (1.0 / len(corner))
        found: Array = corner - np.maximum(corner - self.means, TRIFLE) * share
        return found

    def covered(self, corner: Array) -> float:
        """What all of them cover together."""
        return hypervolume(self.points(corner), corner)


@dataclass(frozen=True)
class Models:
    """What was learned of a study's runs, for whichever configurations are asked for. `crashes`: None where all ran."""

    objective: Surrogate | Guided
    limits: Sequence[Surrogate | Guided]
    crashes: Surrogate | None
    also: Sequence[Surrogate | Guided] = ()

    def at(self, places: Array) -> Belief:
        """About each of these places."""
        feasible = np.zeros(len(places))
        for one in (*self.limits, *([] if self.crashes is None else [self.crashes])):
            feasible = feasible + one.at(places).log_below()
        return Belief(self.objective.at(places), feasible, [one.at(places) for one in self.also])

    def draw(
        self, places: Array, random: np.random.Generator, *, worse_by: float = 0.0
    ) -> tuple[Array, NDArray[np.bool_]]:
        """One world that may be, at these places together: log ratios to the default, and which keep the limits and are
        in no further objective worse than the first place by more than `worse_by` (a log ratio)."""
        keeps = np.ones(len(places), dtype=bool)
        for one in (*self.limits, *([] if self.crashes is None else [self.crashes])):
            keeps &= one.draw(places, random) <= 0.0
        for one in self.also:
            drawn = one.draw(places, random)
            keeps &= drawn <= drawn[0] + worse_by
        return self.objective.draw(places, random), keeps


def models_of(
    space: Space,
    runs: Sequence[tuple[Mapping[str, Any], Assessment]],
    constraints: Sequence[str],
    default_s: float | None,
    also: Mapping[str, float | None] = MappingProxyType({}),
    forecasts: Forecasts | None = None,
    objective: str = "",
) -> Models | None:
    """`runs`: (configuration, what came of it), repeats apart. `also`: the further objectives, what the default took by
    name. `forecasts`: of limits and objectives by name; `objective`: the first one's. None while nothing was
    measured."""
    measured = [run for run in runs if run[1].objective_s is not None]
    if not measured or not space.values:
        return None
    places = space.places([knobs for knobs, _ in measured])

    def fitted(values: Sequence[float], name: str) -> Surrogate | Guided:
        told, ordered = np.array(values), space.ordered
        if forecasts is None or name not in forecasts:
            return Surrogate(places, told, noise=TOLD_NOISE, ordered=ordered)
        return Guided(places, told, partial(forecasts.at, name), noise=TOLD_NOISE, ordered=ordered)

    limits = []
    for name in constraints:
        values = [constraint_value(found.violations[name]) for _, found in measured if name in found.violations]
        if len(values) == len(measured):
            limits.append(fitted(values, name))
    fell = [1.0 if found.objective_s is None else -1.0 for _, found in runs]
    crashes = None
    if max(fell) > 0:
        tried = space.places([knobs for knobs, _ in runs])
        crashes = Surrogate(tried, np.array(fell), noise=CRASH_NOISE, ordered=space.ordered)
    return Models(
        fitted([score(found.objective_s, default_s) for _, found in measured], objective),
        limits,
        crashes,
        [fitted([score(found.also.get(name), own) for _, found in measured], name) for name, own in also.items()],
    )


def believe(
    space: Space,
    runs: Sequence[tuple[Mapping[str, Any], Assessment]],
    asked: Sequence[Mapping[str, Any]],
    constraints: Sequence[str],
    default_s: float | None,
    also: Mapping[str, float | None] = MappingProxyType({}),
    forecasts: Forecasts | None = None,
    objective: str = "",
) -> Belief | None:
    """About each of those asked for, as `models_of` these runs; None while nothing was measured."""
    models = models_of(space, runs, constraints, default_s, also, forecasts, objective)
    return None if models is None else models.at(space.places(asked))
