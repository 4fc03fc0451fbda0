"""Which groups of requests moved a quantile, each with an interval: by their mix, and by what they took (pure).

Guarantee: the mix, the groups' own changes and the rest add up to the shift, but for rounding. Intervals are of a
bootstrap over blocks of time (H. R. Kuensch, Annals of Statistics 17, 1989), and hold at once for groups and mix.
A side of fewer than `LEAST_BLOCKS`, as a slowdown of seconds has, is drawn request by request instead, as Poisson
counts that scatter as much more as the other side's blocks do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.histogram import axis_position
from controlplane.evidence.order_statistics import Estimate
from controlplane.evidence.shifts.mixture import LEAST, slow_levels, slow_means, worths

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_GROUPS = 6
"""Beyond so many the smaller ones are taken together: sets of players double with each."""
LEAST_ABOVE = 15.0
"""A group's own quantile is lowered, down to its median, until so many of its requests lie above it on either side."""
FEWEST = 5
"""Requests by which a group is weighed among the others."""
REPLICATES = 100
LEAST_BLOCKS = 8


@dataclass(frozen=True)
class GroupShift:
    """One group, by its place. `within`: what its own change adds to the shift, seconds. `own` and `others`: by what
    factors its own slow requests' (geometric) mean grew and that of all others', their mix held fixed; `apart`: the one
    by the other, `half_apart` the same of the slower half of the requests. These four are None where it has too few
    requests on either side. own_s, others_s: the seconds that slow requests grew by."""

    place: int
    before_share: float
    during_share: float
    within: Estimate
    own: float | None = None
    others: float | None = None
    apart: Estimate | None = None
    half_apart: Estimate | None = None
    own_s: float = 0.0
    others_s: float = 0.0

    @property
    def is_named(self) -> bool:
        """Whether chance is ruled out that the others got as much slower: of its slow requests, or of its slower half.

        Of a hundred requests the slow ones are a dozen, and how slow these are in the mean is a matter of how many long
        prompts are among them.
        """
        return any(one is not None and one.low > 1.0 for one in (self.apart, self.half_apart))

    @property
    def isolation(self) -> float:
        """0..1: how much of its growth the others do not share, neither as a factor nor in seconds.

        Where all take a tenth of a second more, quick requests get slower by more as a factor, and are no place.
        """
        if self.own is None or self.others is None or self.own <= 1.0 or self.others >= self.own or self.own_s <= 0.0:
            return 0.0
        shared = max(math.log(self.others) / math.log(self.own), self.others_s / self.own_s)
        return min(max(1.0 - shared, 0.0), 1.0)


@dataclass(frozen=True)
class QuantileShift:
    """A quantile before and during, seconds. `rest`: what the groups add that are taken together. `grown`: the group
    whose larger share slowed most requests; `is_mix`: whether chance is ruled out
    that its share is what it was."""

    before: float
    during: float
    mix: Estimate
    groups: Sequence[GroupShift]
    rest: float
    grown: int
    is_mix: bool

    @property
    def shift(self) -> float:
        return self.during - self.before


class _Figures(NamedTuple):
    """Of one pair of sides: the quantile before, the worths (the mix first), and ln own and ln others, float64[levels,
    groups]: of slow requests, and of the slower half."""

    before: float
    worth: Floats
    own: Floats
    others: Floats


def quantile_shift(
    before: Counts, during: Counts, q: float, low: int, seed: int = 0, level: float = 0.95
) -> QuantileShift:
    """before, during: int64[blocks, groups, width], counts by blocks of time; the first column is at place `low` of the
    axis. Raises ValueError where a side has no requests."""
    if not before.any() or not during.any():
        raise ValueError("a quantile of no values")
    used = np.flatnonzero(before.any(axis=(0, 1)) | during.any(axis=(0, 1)))
    first, last = int(used[0]), int(used[-1])
    before, during, low = before[:, :, first : last + 1], during[:, :, first : last + 1], low + first
    chosen = _chosen(before.sum(axis=0), during.sum(axis=0), q)
    left_out = [place for place in range(before.shape[1]) if place not in chosen]
    blocks = [_taken_together(side, chosen, left_out) for side in (before, during)]
    then, now = (side.sum(axis=0) for side in blocks)
    own_q = _own_quantiles(then, now, q)
    levels = np.stack([own_q, np.minimum(own_q, 0.5)])
    exact = _figures(then, now, q, low, levels)
    chance, phi = np.random.default_rng(seed), max(_phi(side, q) for side in blocks)
    drawn = [
        _figures(_drawn(blocks[0], chance, phi), _drawn(blocks[1], chance, phi), q, low, levels)
        for _ in range(REPLICATES)
    ]
    worth_error = np.std([one.worth for one in drawn], axis=0, ddof=1)
    apart_error = _spread(np.array([one.own - one.others for one in drawn]))
    grown_s = _grown_s(then, now, low, own_q)
    freedom = min((len(side) for side in blocks if len(side) >= LEAST_BLOCKS), default=LEAST_BLOCKS) - 1
    at_once, of_either = (
        quantile_of_t(1.0 - (1.0 - level) / 2.0 / looks / (len(chosen) + 1), freedom) for looks in (1, len(levels))
    )
    shares = [side.sum(axis=1) / side.sum() for side in (then, now)]

    def around(i: int) -> Estimate:
        value, wide = float(exact.worth[i]), at_once * float(worth_error[i])
        return Estimate(value, value - wide, value + wide)

    groups = []
    for i, place in enumerate(chosen):
        group = GroupShift(place, float(shares[0][i]), float(shares[1][i]), around(i + 1))
        own, others = exact.own[:, i], exact.others[:, i]
        z = of_either if levels[0, i] > levels[1, i] else at_once
        apart, half_apart = (_apart(*one, z) for one in zip(own - others, apart_error[:, i], strict=True))
        if apart is not None:
            group = replace(group, own=math.exp(own[0]), others=math.exp(others[0]), apart=apart, half_apart=half_apart)
            group = replace(group, own_s=float(grown_s[0][i]), others_s=float(grown_s[1][i]))
        groups.append(group)
    grown = _grown(then, now, shares, exact.before, low, len(chosen))
    return QuantileShift(
        before=exact.before,
        during=exact.before + float(exact.worth.sum()),
        mix=around(0),
        groups=groups,
        rest=float(exact.worth[len(chosen) + 1]) if left_out else 0.0,
        grown=chosen[grown],
        is_mix=bool(exact.worth[0] > 0.0) and _has_grown(then, now, grown, at_once, phi),
    )


def _apart(logarithm: float, error: float, z: float) -> Estimate | None:
    """None where either is not known."""
    if not (math.isfinite(logarithm) and math.isfinite(error)):
        return None
    value, low, high = (math.exp(logarithm + sign * z * error) for sign in (0.0, -1.0, 1.0))
    return Estimate(value, low, high)


def _has_grown(then: Floats, now: Floats, place: int, z: float, phi: float) -> bool:
    """Whether chance is ruled out that a group's share of the requests is what it was."""
    counts = [float(side.sum()) for side in (then, now)]
    shares = [float(side[place].sum()) / count for side, count in zip((then, now), counts, strict=True)]
    both = (shares[0] * counts[0] + shares[1] * counts[1]) / sum(counts)
    error = math.sqrt(phi * both * (1.0 - both) * sum(1.0 / count for count in counts))
    return shares[1] - shares[0] > z * error


def quantile_of_t(p: float, freedom: int) -> float:
    """Of Student's t, by the first terms of its expansion about the normal (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(p)
    first, second = (z**3 + z) / 4.0, (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _spread(drawn: Floats) -> Floats:
    """Standard deviations over the replicates, the first axis; NaN where a tenth of them knows none."""
    known = np.isfinite(drawn)
    enough = known.mean(axis=0) > 0.9
    found = np.full(drawn.shape[1:], np.nan)
    found[enough] = np.nanstd(np.where(known, drawn, np.nan)[:, enough], axis=0, ddof=1)
    return found


def _figures(then: Floats, now: Floats, q: float, low: int, levels: Floats) -> _Figures:
    before, worth = worths(then, now, q, low)
    groups = levels.shape[1]
    others = _each_others(then, now, groups)
    own = [slow_levels(now[:groups], one, low) - slow_levels(then[:groups], one, low) for one in levels]
    rest = [slow_levels(others[1], one, low) - slow_levels(others[0], one, low) for one in levels]
    return _Figures(before, worth, np.stack(own), np.stack(rest))


def _grown_s(then: Floats, now: Floats, low: int, own_q: Floats) -> tuple[Floats, Floats]:
    """By how many seconds slow requests grew, of each group and of all others."""
    others = _each_others(then, now, len(own_q))
    own = [slow_means(side[: len(own_q)], own_q, low) for side in (then, now)]
    rest = [slow_means(side, own_q, low) for side in others]
    return own[1] - own[0], rest[1] - rest[0]


def _each_others(then: Floats, now: Floats, groups: int) -> list[Floats]:
    return [np.stack([_others(side, then, i) for i in range(groups)]) for side in (then, now)]


def _others(side: Floats, then: Floats, place: int) -> Floats:
    """All groups but one, in the mix of before; a group that has no requests now is left out."""
    count, usual = side.sum(axis=1), then.sum(axis=1)
    weight = np.divide(usual, count, out=np.zeros(len(count)), where=(count >= FEWEST) & (usual >= FEWEST))
    weight[place] = 0.0
    found: Floats = weight @ side
    return found


def _own_quantiles(then: Floats, now: Floats, q: float) -> Floats:
    """NaN for a group that has too few requests."""
    count = np.minimum(then.sum(axis=1), now.sum(axis=1))
    with np.errstate(divide="ignore"):
        found = np.minimum(q, np.maximum(1.0 - LEAST_ABOVE / count, 0.5))
    return np.where(count >= LEAST, found, np.nan)


def _chosen(then: Counts, now: Counts, q: float) -> list[int]:
    """Places of the groups that are told by themselves: those that most of the slow requests are of."""
    total = (then.sum(axis=0) + now.sum(axis=0)).cumsum()
    slow = int((total < q * total[-1]).sum())
    weight = (then + now)[:, slow:].sum(axis=1) + 1e-9 * (then + now).sum(axis=1)
    most = sorted(range(len(weight)), key=lambda place: (-weight[place], place))[:MOST_GROUPS]
    return sorted(place for place in most if weight[place] > 0)


def _taken_together(side: Counts, chosen: Sequence[int], left_out: Sequence[int]) -> Floats:
    """float64[blocks, chosen (and one more for those left out), width]."""
    told = side[:, chosen].astype(np.float64)
    if not left_out:
        return told
    rest: Floats = side[:, left_out].sum(axis=1, keepdims=True).astype(np.float64)
    return np.concatenate([told, rest], axis=1)


def _phi(blocks: Floats, q: float) -> float:
    """How much more the share of slow requests scatters between blocks than independent ones would; 1 for a few."""
    if len(blocks) < LEAST_BLOCKS:
        return 1.0
    of_all = blocks.sum(axis=1)
    count, cumulative = of_all.sum(axis=1), of_all.sum(axis=0).cumsum()
    slow = of_all[:, int((cumulative < q * cumulative[-1]).sum()) :].sum(axis=1)
    share = slow.sum() / count.sum()
    expected = float((count * share * (1.0 - share)).sum())
    return max(1.0, float(((slow - count * share) ** 2).sum()) / expected) if expected > 0.0 else 1.0


def _drawn(blocks: Floats, chance: np.random.Generator, phi: float) -> Floats:
    """As many blocks with replacement, added up; once more where those drawn are empty."""
    while True:
        if len(blocks) < LEAST_BLOCKS:
            few: Floats = phi * chance.poisson(blocks.sum(axis=0) / phi)
            if few.any():
                return few
            continue
        times = np.bincount(chance.integers(0, len(blocks), len(blocks)), minlength=len(blocks))
        found: Floats = np.tensordot(times, blocks, axes=1)
        if found.any():
            return found


def _grown(then: Floats, now: Floats, shares: Sequence[Floats], threshold: float, low: int, told: int) -> int:
    """The group of which more requests than before lie above the quantile for its larger share."""
    place = max(axis_position(threshold) - low, 0)
    both = then + now
    above = both[:, place:].sum(axis=1) / np.maximum(both.sum(axis=1), 1.0)
    return int(np.argmax(((shares[1] - shares[0]) * above)[:told]))
