"""The load-binned baseline: what share of requests lies above the edge of a past quantile, at a load like today's.

Per prompt bucket the edge is where the metric's p-quantile lay over the baseline's span, moved up by `MARGIN_BUCKETS`
of the histogram axis, more for a young baseline: growth of less than 4.4 % is never a regression. Counts above it
are exact.

Guarantees: the share returned is an upper confidence bound (Wilson's score bound on a sample shrunk by the tempering
factor), wider the shorter the history; a load that the baseline has not seen is not judged (None), never guessed.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.stacked_tails import Stack, StackedTails
from controlplane.alerts.windows.load import load_bin
from controlplane.contract.histogram import SCALE, axis_position, upper_edge
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.binomial import Z_95, Z_99, wilson_upper
from controlplane.evidence.dispersion import dispersion_of
from controlplane.evidence.sketch import Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MARGIN_BUCKETS = 2
YOUNG_MARGIN_BUCKETS = 18
GROSS_MARGIN_BUCKETS = 2**SCALE
"""Twice: at the median less would take what all requests have in common for a regression."""
YOUNG_S = 600.0
"""A baseline of ten minutes or less has not shown how latency wanders: only growth by half again counts as a
regression. From then on the margin shrinks as the span grows, to `MARGIN_BUCKETS` after three hours."""
MIN_BUCKET_COUNT = 30
"""A prompt bucket with fewer requests in the baseline is left out: nothing is known of it."""
ENOUGH_EXCEEDANCES = 10.0
"""A load bin expected to hold fewer (tempered) exceedances than this is filled up from its neighbours."""
LOAD_REACH = 1.25
"""Loads above the highest one seen by more than this are outside the baseline."""
SHARE_FLOOR = 0.25
"""The null share is at least this part of 1 - q, so that a bucket edge just above a tight distribution is no cliff."""
FLEET = "*"
"""The name of the stream over all prompt buckets."""


@dataclass(frozen=True)
class Cell:
    """Of `count` requests, `above` lay above the edge."""

    count: int
    above: int


@dataclass(frozen=True)
class BucketBaseline:
    """One prompt bucket: its edge (position on the axis) and its cells by load bin."""

    edge: int
    cells: dict[int, Cell]
    total: Cell


@dataclass(frozen=True)
class Baseline:
    """`quantile_s` is the plain quantile over all buckets; `phi` the tempering by stream (a bucket, or `FLEET`)."""

    metric: str
    q: float
    buckets: dict[str, BucketBaseline]
    phi: dict[str, float]
    quantile_s: float
    start_s: float
    end_s: float
    highest_load: float

    @property
    def count(self) -> int:
        return sum(bucket.total.count for bucket in self.buckets.values())

    @cached_property
    def load_limit(self) -> float:
        """Loads above this are not judged: nothing like them has been seen."""
        return load_reach(self.end_s - self.start_s + WINDOW_S) * self.highest_load

    def null_share(self, bucket: str, load: float, tolerance: float) -> float | None:
        """The largest exceedance share that still counts as normal for this bucket at this load, or None."""
        known = self.buckets.get(bucket)
        if known is None or load > self.load_limit:
            return None
        phi, wanted = self.phi.get(bucket, 1.0), 1.0 - self.q
        here = load_bin(load)
        count = above = used = 0
        # Nearest bins first; of two equally near the busier, which errs towards silence.
        for name in sorted(known.cells, key=lambda other: (abs(other - here), -other)):
            if count * wanted / phi >= ENOUGH_EXCEEDANCES:
                break
            count += known.cells[name].count
            above += known.cells[name].above
            used += 1
        # Where neighbouring bins had to help the bound is one of 99 %.
        alone = here in known.cells and used == 1
        bound = wilson_upper(above / phi, count / phi, Z_95 if alone else Z_99)
        return min((1.0 + tolerance) * max(bound, SHARE_FLOOR * wanted), 0.9)


def build_each(
    stack: Stack, qs: Sequence[float], min_count: int, *, settled_s: float = math.inf, gross: Collection[float] = ()
) -> dict[float, Baseline]:
    """The baselines of one metric by quantile; none where the windows hold fewer than `min_count` values.

    settled_s: for how long what is normal has been so; gross: the quantiles at which growth to twice counts alone.
    """
    stack = stack.among(stack.has_any)
    spans = stack.windows
    sketches = {name: one.merged for name, one in stack.buckets.items()}
    whole = Sketch()
    for sketch in sketches.values():
        whole.merge(sketch)
    if not spans or whole.count < min_count:
        return {}
    margin = margin_buckets(min(spans[-1].start_s - spans[0].start_s + WINDOW_S, settled_s))
    bins = np.array([load_bin(window.load) for window in spans])
    found = {}
    for q in qs:
        edges = {
            name: axis_position(sketch.quantile(q)) + (GROSS_MARGIN_BUCKETS if q in gross else margin)
            for name, sketch in sketches.items()
            if sketch.count >= MIN_BUCKET_COUNT
        }
        if edges:
            strata = {name: _Stratum.of(stack.buckets[name], edge, bins) for name, edge in edges.items()}
            found[q] = _baseline(stack, q, strata, whole.quantile(q))
    return found


@dataclass(frozen=True)
class _Stratum:
    """One prompt bucket: what it came to by load bin (all of `cells`, in order), and in each window.

    places: int64[n], the windows that have it; score, variance: float64[n], of the exceedances against the bin's share.
    """

    known: BucketBaseline
    places: Ints
    score: Floats
    variance: Floats

    @classmethod
    def of(cls, stack: StackedTails, edge: int, bins: Ints) -> "_Stratum":
        above = stack.above(edge)
        names, at = np.unique(bins[stack.places], return_inverse=True)
        counts = np.bincount(at, weights=stack.counts)
        aboves = np.bincount(at, weights=above)
        cells = {
            int(name): Cell(round(count), round(slow)) for name, count, slow in zip(names, counts, aboves, strict=True)
        }
        share = (aboves / np.maximum(counts, 1.0))[at]
        expected = stack.counts * share
        known = BucketBaseline(edge, cells, Cell(int(stack.counts.sum()), int(above.sum())))
        return cls(known, stack.places, above - expected, expected * (1.0 - share))


def _baseline(stack: Stack, q: float, strata: Mapping[str, _Stratum], quantile_s: float) -> Baseline:
    spans = stack.windows
    phi = {name: _phi(len(spans), [one]) for name, one in strata.items()}
    phi[FLEET] = _phi(len(spans), list(strata.values()))
    return Baseline(
        stack.metric,
        q,
        {name: one.known for name, one in strata.items()},
        phi,
        quantile_s,
        spans[0].start_s,
        spans[-1].start_s,
        max(window.load for window in spans),
    )


def load_reach(span_s: float) -> float:
    """How far above its highest load a baseline still judges.

    The highest load of a minute or two understates what bursty traffic does by itself, and a pool that is taken for
    overloaded is not judged at all: a young baseline reaches further (1.9 times at 75 s, `LOAD_REACH` from 10 min on).
    Its wider margin (`margin_buckets`) pays for that.
    """
    return LOAD_REACH * math.pow(max(1.0, YOUNG_S / span_s), 0.2)


def margin_buckets(span_s: float) -> int:
    """How far the edge is moved up, by the baseline's span."""
    return max(MARGIN_BUCKETS, round(YOUNG_MARGIN_BUCKETS * math.pow(min(1.0, YOUNG_S / max(span_s, WINDOW_S)), 0.75)))


def _phi(windows: int, strata: Sequence[_Stratum]) -> float:
    """The dispersion of the exceedances of one stream or several, against each load's own share."""
    score, variance, has_any = np.zeros(windows), np.zeros(windows), np.zeros(windows, dtype=bool)
    for one in strata:
        score[one.places] += one.score
        variance[one.places] += one.variance
        has_any[one.places] = True
    fitted = len({name for one in strata for name in one.known.cells})
    return dispersion_of(score[has_any], variance[has_any], fitted)


def threshold_s(bucket: BucketBaseline) -> float:
    """The latency above which a request of this bucket counts as slow."""
    return upper_edge(bucket.edge)
