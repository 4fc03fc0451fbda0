"""The evidence of one metric (pure): counts above edges, prompt bucket by prompt bucket, and what they prove so far.

See `judge` for what is claimed and `exceedance` for the e-values. Everything here is JSON in, JSON out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import BaseModel

from controlplane.contract.bodies.rollouts import LEVELS
from controlplane.contract.histogram import AXIS_LENGTH, BASE, RELATIVE_ERROR
from controlplane.evidence.dispersion import Dispersion
from controlplane.evidence.exceedance import log_e, log_mean_exp, noncentral
from controlplane.evidence.sketch import Sketch

ODDS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Alternatives, as odds ratios, where a stream does not say."""

MIN_EDGE_COUNT = 50
"""Control values that edges need; a prompt bucket with fewer uses those of all buckets together."""

MIN_RATIO_COUNT = 20
"""Gaps of each arm that its tokens per delivery are taken from."""


class Pace(BaseModel, frozen=True):
    """How long is waited for more values, and how soon edges follow the control.

    A prompt bucket's counts are judged when both arms have `full_count` values, or any after `patience_ticks`. Edges
    come from the control's newest windows: at least `edge_windows`, and `edge_count` values, as far as there are any.
    """

    full_count: int
    patience_ticks: int
    edge_windows: int = 12
    edge_count: int = 400


STEADY = Pace(full_count=10, patience_ticks=6)
QUICK = Pace(full_count=4, patience_ticks=2, edge_windows=4, edge_count=60)
"""Where the pool suffers while it is judged: a little power is given for time."""

AT_ONCE = Pace(full_count=1, patience_ticks=1)


@dataclass
class Window:
    """What one tick has of one metric: stratum to values, for each arm. A stratum is a prompt bucket and, where senders
    tell it, a cache class ("<=2k hit")."""

    control: dict[str, Sketch] = field(default_factory=dict)
    canary: dict[str, Sketch] = field(default_factory=dict)
    control_tokens: int = 0  # Of gaps: tokens that the deliveries behind them held; 0 where nobody told.
    canary_tokens: int = 0

    def by_bucket(self) -> "Window":
        """The same with the cache classes of a prompt bucket together."""
        if not any(" " in name for name in (*self.control, *self.canary)):
            return self
        arms = _by_bucket(self.control), _by_bucket(self.canary)
        return Window(*arms, self.control_tokens, self.canary_tokens)


def bucket_of(stratum: str) -> str:
    """The prompt bucket of a stratum."""
    return stratum.partition(" ")[0]


def _by_bucket(arm: Mapping[str, Sketch]) -> dict[str, Sketch]:
    found: dict[str, Sketch] = {}
    for name, sketch in arm.items():
        found.setdefault(bucket_of(name), Sketch()).merge(sketch)
    return found


class Counts(BaseModel):
    """Counts of one prompt bucket, lists by level: control above its edge; canary above it, moved for each claim."""

    n_a: int = 0
    n_b: int = 0
    a: list[int]
    worse: list[int]
    not_worse: list[int]
    faster: list[int]

    @classmethod
    def none(cls, levels: int) -> "Counts":
        zeros = [0] * levels
        return cls(a=list(zeros), worse=list(zeros), not_worse=list(zeros), faster=list(zeros))

    def add(self, other: "Counts") -> None:
        self.n_a += other.n_a
        self.n_b += other.n_b
        for mine, theirs in (
            (self.a, other.a),
            (self.worse, other.worse),
            (self.not_worse, other.not_worse),
            (self.faster, other.faster),
        ):
            for level, count in enumerate(theirs):
                mine[level] += count


class Pending(BaseModel):
    counts: Counts
    ticks: int = 0


class Level(BaseModel):
    """One edge level of one metric: its dispersion and the logs of its three families of processes, by odds ratio."""

    dispersion: Dispersion
    worse: list[float]
    not_worse: list[float]
    faster: list[float]


class Tally(BaseModel):
    """All values of one arm so far, sparse, for the quantiles people read."""

    buckets: dict[int, int] = {}
    zero_count: int = 0
    minimum: float | None = None
    maximum: float | None = None
    relative_error: float = RELATIVE_ERROR

    def add(self, sketch: Sketch) -> None:
        for position in np.flatnonzero(sketch.counts).tolist():
            self.buckets[position] = self.buckets.get(position, 0) + int(sketch.counts[position])
        self.zero_count += sketch.zero_count
        self.relative_error = max(self.relative_error, sketch.relative_error)
        if math.isfinite(sketch.minimum):
            self.minimum = sketch.minimum if self.minimum is None else min(self.minimum, sketch.minimum)
        if math.isfinite(sketch.maximum):
            self.maximum = sketch.maximum if self.maximum is None else max(self.maximum, sketch.maximum)

    @property
    def count(self) -> int:
        return self.zero_count + sum(self.buckets.values())

    def sketch(self) -> Sketch:
        sketch = Sketch(zero_count=self.zero_count, relative_error=self.relative_error)
        for position, count in self.buckets.items():
            sketch.counts[position] = count
        if self.minimum is not None:
            sketch.minimum = self.minimum
        if self.maximum is not None:
            sketch.maximum = self.maximum
        return sketch

    def quantiles(self) -> dict[str, Any]:
        sketch = self.sketch()
        count = sketch.count
        found: dict[str, Any] = {"count": count}
        for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            found[name] = sketch.quantile(q) if count else None
        return found


class Held(BaseModel):
    """Deliveries of one arm, and the tokens they held."""

    gaps: int = 0
    tokens: int = 0

    def add(self, arm: Mapping[str, Sketch], tokens: int) -> None:
        if tokens > 0:
            self.gaps += sum(sketch.count for sketch in arm.values())
            self.tokens += tokens

    @property
    def each(self) -> float:
        """Tokens per delivery, at least one; one while too few are known."""
        return max(1.0, self.tokens / self.gaps) if self.gaps >= MIN_RATIO_COUNT else 1.0


class Stream(BaseModel):
    """The evidence of one metric. `qs`: the quantiles p of the control's newest past at which edges are set.

    `shown`: places of the levels at which NOT_WORSE must be shown, each by itself; the others have `LEANING`.
    `beside`: places of levels at which only being faster counts.
    `per_delivery`: the canary's edges are moved up by what its deliveries held more tokens in earlier windows.
    """

    qs: list[float] = list(LEVELS)
    shown: list[int] = [0, 1]
    beside: list[int] = []
    odds: list[float] = list(ODDS)
    per_delivery: bool = False
    pace: Pace = STEADY
    control_held: Held = Held()
    canary_held: Held = Held()
    levels: list[Level]
    edges: dict[str, list[int]] = {}  # Prompt bucket ("" for all) to axis positions, by level.
    recent: list[dict[str, Tally]] = []  # Windows of the control that edges come from, the newest last.
    pending: dict[str, Pending] = {}
    judged: dict[str, Counts] = {}
    past: list[dict[str, Counts]] = []  # Windows of the node's own history not yet paired, the newest last.
    control: Tally = Tally()
    canary: Tally = Tally()
    is_faster: bool = False
    is_not_worse: bool = False
    is_worse: bool = False

    @classmethod
    def start(
        cls,
        qs: Sequence[float],
        prior_phi: float,
        *,
        shown: Sequence[int] = (),
        beside: Sequence[int] = (),
        odds: Sequence[float] = ODDS,
        per_delivery: bool = False,
        pace: Pace = STEADY,
        caution: float = 0.0,
    ) -> "Stream":
        zeros = [0.0] * len(odds)
        return cls(
            qs=list(qs),
            shown=list(shown),
            beside=list(beside),
            odds=list(odds),
            per_delivery=per_delivery,
            pace=pace,
            levels=[
                Level(
                    dispersion=Dispersion(prior_phi, caution),
                    worse=list(zeros),
                    not_worse=list(zeros),
                    faster=list(zeros),
                )
                for _ in qs
            ],
        )

    # -- counting ----------------------------------------------------------------------------------------------

    def learn_edges(self, windows: Iterable[Mapping[str, Sketch]]) -> None:
        """Add windows of the control whose values are counted already, or never will be: the next is counted at the
        edges of those before it. They follow the control, whose latency may have been another an hour ago, or in the
        first minute of a regression: at an edge that nothing lies above any more nothing can be shown."""
        for window in windows:
            tallies = {bucket: Tally() for bucket, sketch in window.items() if sketch.count}
            for bucket, tally in tallies.items():
                tally.add(window[bucket])
            if tallies:
                self.recent.append(tallies)
        counts = [sum(tally.count for tally in window.values()) for window in self.recent]
        spare = sum(counts) - self.pace.edge_count
        while len(self.recent) > self.pace.edge_windows and spare >= counts[0]:
            spare -= counts.pop(0)
            del self.recent[0]
        sketches = _summed(self.recent)
        merged = Sketch()
        for sketch in sketches.values():
            merged.merge(sketch)
        if merged.count >= MIN_EDGE_COUNT:
            self.edges = {"": _edges(merged, self.qs)} | {
                bucket: _edges(sketch, self.qs) for bucket, sketch in sketches.items() if sketch.count >= MIN_EDGE_COUNT
            }

    @property
    def stretch(self) -> float:
        """By how much a gap of the canary may be longer for the tokens its deliveries hold more; 1 or above."""
        return max(1.0, self.canary_held.each / self.control_held.each) if self.per_delivery else 1.0

    def count(self, window: Window, tolerance: float) -> dict[str, Counts]:
        """What a window has above the edges, by prompt bucket."""
        buckets = (math.log1p(tolerance) + math.log(self.stretch)) / math.log(BASE)
        up, down = math.ceil(buckets - 1e-9), math.floor(buckets + 1e-9)
        found: dict[str, Counts] = {}
        for bucket in sorted(window.control.keys() | window.canary.keys()):
            edges = self.edges.get(bucket, self.edges[""])
            counts = Counts.none(len(edges))
            control, canary = window.control.get(bucket), window.canary.get(bucket)
            if control is not None:
                counts.n_a = control.count
                counts.a = [control.above(edge) for edge in edges]
            if canary is not None:
                counts.n_b = canary.count
                counts.worse = [_above(canary, edge + up) for edge in edges]
                counts.not_worse = [_above(canary, edge + down) for edge in edges]
                counts.faster = [_above(canary, edge) for edge in edges]
            found[bucket] = counts
        return found

    # -- judging -----------------------------------------------------------------------------------------------

    def take(self, counts: Mapping[str, Counts], *, rehearsal: bool = False) -> None:
        """Take one tick's counts. A rehearsal (both arms ran the same) teaches the dispersion and proves nothing."""
        for bucket, arrived in counts.items():
            pending = self.pending.setdefault(bucket, Pending(counts=Counts.none(len(self.levels))))
            pending.counts.add(arrived)
        ready: list[tuple[str, Counts]] = []
        for bucket, pending in list(self.pending.items()):
            pending.ticks += 1
            smaller = min(pending.counts.n_a, pending.counts.n_b)
            if smaller >= self.pace.full_count or (smaller >= 1 and pending.ticks >= self.pace.patience_ticks):
                ready.append((bucket, pending.counts))
                del self.pending[bucket]
        if not ready:
            return
        log_odds = np.log(np.array(self.odds))
        for place, level in enumerate(self.levels):
            phi = level.dispersion.phi
            score = variance = 0.0
            for bucket, found in ready:
                a, n_a, n_b = found.a[place], found.n_a, found.n_b
                before = None if rehearsal else self.judged.get(bucket)
                if rehearsal or before is not None:
                    odds = 1.0 if before is None else _odds(before, place)
                    mean, spread = noncentral(a + found.faster[place], n_a, n_b, odds)
                    score += found.faster[place] - mean
                    variance += spread
                if rehearsal:
                    continue
                for process, k_b, towards in (
                    (level.worse, found.worse[place], log_odds),
                    (level.not_worse, found.not_worse[place], -log_odds),
                    (level.faster, found.faster[place], -log_odds),
                ):
                    for alternative, step in enumerate((log_e(k_b, a + k_b, n_a, n_b, towards) / phi).tolist()):
                        process[alternative] += step
            level.dispersion.add(score, variance)
        if not rehearsal:
            for bucket, found in ready:
                self.judged.setdefault(bucket, Counts.none(len(self.levels))).add(found)

    def pair(self, counts: dict[str, Counts]) -> bool:
        """Put the newest window of the node's own history, used once, beside the canary's; False when none is left."""
        if not self.past:
            return False
        for bucket, past in self.past.pop().items():
            mine = counts.setdefault(bucket, Counts.none(len(self.levels)))
            mine.n_a, mine.a = past.n_a, past.a
        return True

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def relative_error(self) -> float:
        """Of either arm's values: the axis's own, or that of the widest bucket a sender counted them in."""
        return max(self.control.relative_error, self.canary.relative_error)

    def ratio(self, q: float) -> float | None:
        """The canary's quantile to the control's, all values so far; None while one of them has none."""
        control, canary = self.control.sketch(), self.canary.sketch()
        below = control.quantile(q) if control.count and canary.count else 0.0
        return canary.quantile(q) / below if below else None

    @property
    def _own(self) -> list[Level]:
        return [level for place, level in enumerate(self.levels) if place not in self.beside]

    def log_worse(self) -> float:
        return log_mean_exp(np.array([level.worse for level in self._own]))

    def log_faster(self) -> float:
        return log_mean_exp(np.array([level.faster for level in self.levels]))

    def log_not_worse(self) -> float:
        """The least of the levels at which it must be shown; infinite where there is none."""
        return min((log_mean_exp(np.array(self.levels[place].not_worse)) for place in self.shown), default=math.inf)

    def leaning_worse(self) -> float:
        """The largest evidence of harm of any one level."""
        return max(log_mean_exp(np.array(level.worse)) for level in self._own)

    def totals(self) -> Counts:
        """What has been judged, all prompt buckets together."""
        total = Counts.none(len(self.levels))
        for counts in self.judged.values():
            total.add(counts)
        return total

    def seen(self) -> Counts:
        """What has been judged and what is held back."""
        total = self.totals()
        for pending in self.pending.values():
            total.add(pending.counts)
        return total


def _summed(windows: Iterable[Mapping[str, Tally]]) -> dict[str, Sketch]:
    """What the windows counted, by prompt bucket, without their least and greatest values: of no meaning to an edge."""
    places: dict[str, dict[int, int]] = {}
    zeros: dict[str, int] = {}
    for window in windows:
        for bucket, tally in window.items():
            found = places.setdefault(bucket, {})
            for place, count in tally.buckets.items():
                found[place] = found.get(place, 0) + count
            zeros[bucket] = zeros.get(bucket, 0) + tally.zero_count
    sketches = {bucket: Sketch(zero_count=zeros[bucket]) for bucket in places}
    for bucket, found in places.items():
        sketches[bucket].counts[list(found)] = list(found.values())
    return sketches


def _edges(sketch: Sketch, qs: Sequence[float]) -> list[int]:
    """For each level p the lowest axis position with at most (1 - p) of the values above it."""
    above = sketch.count - sketch.zero_count - np.cumsum(sketch.counts)
    return [int(np.argmax(above <= (1.0 - p) * sketch.count)) for p in qs]


def _above(sketch: Sketch, position: int) -> int:
    """As `Sketch.above`; past the axis' end there is nothing."""
    return sketch.above(position) if position < AXIS_LENGTH else 0


def _odds(counts: Counts, level: int) -> float:
    """The odds ratio seen so far, shrunk a little (Haldane and Anscombe's half)."""
    a, b = counts.a[level] + 0.5, counts.faster[level] + 0.5
    return (b / (counts.n_b - b + 1.0)) / (a / (counts.n_a - a + 1.0))
