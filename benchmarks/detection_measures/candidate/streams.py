"""The candidate's streams of one metric: all requests by place and by tail, and each prompt bucket against the others.

Common noise cancels in the last kind, so that it speaks first where only some prompts got slower.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection_measures.candidate import scores, wander
from benchmarks.detection_measures.candidate.scores import Change, Scoring
from benchmarks.detection_measures.candidate.shift_scan import Scan, Sums, total

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RISES = tuple(Change(factor) for factor in (1.1, 1.2, 1.35, 1.7, 2.5))
TAILS = (Change(1.5, 0.2), Change(2.0, 0.1), Change(3.0, 0.05), Change(4.0, 0.02))
TOLERATED = Change(1.02)
TOLERATED_TAIL = Change(1.5, 0.02)
SLOW_FLOOR = Change(1.012)
"""So much drift of an hour and more is supposed even where the baseline shows none."""
LEAST_COUNT = 30
LEAST_SHARE, MOST_SHARE = 0.02, 0.9
TOO_FEW_TICKS = 60


@dataclass(frozen=True)
class Series:
    """values: float64[ticks], mean scores, nan where there was nothing; sampling: the variance of each."""

    values: Floats
    sampling: Floats


def evidence(past: Ints, now: Ints) -> dict[str, Floats]:
    """ln of the evidence at each tick of `now`, by stream. past, now: int64[ticks, buckets, axis]."""
    usual = past.sum(axis=0)
    whole = np.concatenate([past, now])
    return {
        **_of_kind("place", scores.location, RISES, TOLERATED, usual, whole, past.shape[0]),
        **_of_kind("tail", scores.tail, TAILS, TOLERATED_TAIL, usual, whole, past.shape[0]),
    }


def _of_kind(
    kind: str,
    scoring: Callable[[Ints], Scoring],
    changes: Sequence[Change],
    tolerated: Change,
    usual: Ints,
    whole: Ints,
    past_ticks: int,
) -> dict[str, Floats]:
    known: dict[int, Scoring] = {
        bucket: scoring(usual[bucket]) for bucket in range(len(usual)) if usual[bucket].sum() >= LEAST_COUNT
    }
    shares = {bucket: usual[bucket].sum() / usual.sum() for bucket in known}
    found = {}
    for name, buckets, series in _series(kind, known, shares, whole):
        weight = np.array([shares[bucket] for bucket in buckets])
        weight /= weight.sum()

        def after(change: Change, buckets: Sequence[int] = buckets, weight: Floats = weight) -> float:
            return float(weight @ np.array([known[bucket].after(change) for bucket in buckets]))

        floor = after(SLOW_FLOOR) ** 2 if kind == "place" else 0.0
        found[name] = _evidence(series, past_ticks, [after(one) for one in changes], max(after(tolerated), 0.0), floor)
    return found


def _series(
    kind: str, known: Mapping[int, Scoring], shares: Mapping[int, float], whole: Ints
) -> Iterator[tuple[str, Sequence[int], Series]]:
    scored = {bucket: whole[:, bucket] @ one.table for bucket, one in known.items()}
    counted = {bucket: whole[:, bucket].sum(axis=1) for bucket in known}
    score, count = sum(scored.values()), sum(counted.values())
    with np.errstate(divide="ignore", invalid="ignore"):
        yield (
            f"{kind}, all",
            list(known),
            Series(np.where(count > 0, score / count, np.nan), 1.0 / np.maximum(count, 1)),
        )
        for bucket in known if kind == "place" else ():
            if not LEAST_SHARE <= shares[bucket] <= MOST_SHARE:
                continue
            mine, others = counted[bucket], count - counted[bucket]
            apart = scored[bucket] / mine - (score - scored[bucket]) / others
            both = (mine > 0) & (others > 0)
            spread = 1.0 / np.maximum(mine, 1) + 1.0 / np.maximum(others, 1)
            yield f"{kind}, bucket {bucket}", [bucket], Series(np.where(both, apart, np.nan), spread)


def _evidence(series: Series, past: int, rises: Sequence[float], tolerated: float, floor: float) -> Floats:
    values, sampling = series.values[:past], series.sampling[:past]
    known = np.isfinite(values)
    nothing = np.full(series.values.size - past, -np.inf)
    if known.sum() < TOO_FEW_TICKS:
        return nothing
    noise = wander.fit(values, sampling, [0.0, 0.0, 0.0, 0.0, 0.0, 0.25 * floor, floor])
    level = float(np.average(values[known], weights=1.0 / (sampling[known] + noise.tick)))
    sums = Sums.of(series.values, series.sampling, noise, level)
    ends = np.arange(past + 1, series.values.size + 1)
    return total(Scan.of(noise, past).parts(sums, ends, rises, tolerated))
