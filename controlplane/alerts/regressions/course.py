"""How a metric has done over hours, tick by tick, against what is usual: the judgement of an old enough baseline.

A course watches one stream (the requests of one prompt bucket, or of all) as two lines: its mean score by place (all of
them got slower), and another: of all requests, by tail (some got a lot slower); of a bucket, by place against the other
buckets, in which common noise cancels. How each line wanders by itself is fitted to its past; whether it has risen is
asked of it anew at each tick (`shift_scan`). Nothing is remembered but the series itself.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.regressions.baseline import FLEET
from controlplane.alerts.regressions.mean_score import MeanScore
from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import ScoredEach, Usual, Yardstick
from controlplane.alerts.windows.history import Window
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.replayed_rate import ReplayedRate, replayed_rate
from controlplane.evidence.scores import Change, Scoring
from controlplane.evidence.shift_scan import HINT, Scan, Sums, hint_each, total
from controlplane.evidence.wander import TAUS_TICKS, Earlier, Seen, differences, wander_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MATURE_S = 3600.0
"""A younger baseline has not shown how latency wanders."""
TOO_FEW_TICKS = 60
LEAST_SHARE, MOST_SHARE = 0.02, 0.9
"""A bucket with a smaller share of the requests is too thin to be watched by itself; one with a larger is the fleet."""
RISES = tuple(Change(factor) for factor in (1.05, 1.1, 1.2, 1.35, 1.7, 2.5))
RISE_WEIGHTS = (0.15, 0.2, 0.35, 0.2, 0.05, 0.05)
"""A large rise shows within a tick or two whatever its weight; what small ones have less costs them minutes."""
TAILS = (Change(1.5, 0.2), Change(2.0, 0.1), Change(4.0, 0.02))
TAIL_WEIGHTS = (1 / 3,) * len(TAILS)
"""None that moves the mean score further: of so skewed a score three slow requests of one tick would then say much."""
TOLERATED, TOLERATED_TAIL = Change(1.0), Change(1.5, 0.02)
FACTORS = tuple(float(factor) for factor in 2.0 ** np.linspace(-1.0, 4.0, 61))
"""By which an effect is told."""
MOST_COMMON = 1.5
"""So far a shift of all may be noise that they share: what it makes of the tail is taken off, and no more than that."""
WANDERED = 1.1
"""So far shifts of all are in what is learnt of the tail's noise; where all shift further its scores vary by more."""
FLOOR_FACTOR, FLOOR_SPAN_S = 0.012, 6 * 3600.0
"""So much drift of hours is supposed even where a baseline of six hours shows none; more of a shorter one."""
HALF_HOUR_PART = 0.25
"""Of the floor's variance, for what drifts within half an hour."""

PLACE, TAIL, APART = "place", "tail", "apart"
"""The lines."""


class Shown(NamedTuple):
    """The evidence of one line.

    log_evidence: ln of it, over all onsets; gain: ln of the likeliest rise's likelihood ratio alone, which began at
    `onset_s` and is of `rise` as a mean score.
    """

    line: str
    log_evidence: float
    gain: float
    onset_s: float
    rise: float


def strongest(lines: Sequence[Shown | None]) -> Shown | None:
    """The likeliest of several, with the mean of their evidence: so many chances are paid for."""
    shown = [one for one in lines if one is not None]
    if not shown:
        return None
    best = max(shown, key=lambda one: one.log_evidence)
    mean = sum(math.exp(one.log_evidence - best.log_evidence) for one in shown) / len(lines)
    return best._replace(log_evidence=best.log_evidence + math.log(mean))


class Effect(NamedTuple):
    """By what factor latencies have grown, and its interval at 95 %."""

    factor: float
    low: float
    high: float


@dataclass(frozen=True)
class Sought:
    """What a line looks for. rises, tolerated: of its values; weights: of the rises; drift: what is supposed of hours;
    by_factor: the value after each of `FACTORS`, of a line that tells a factor; by_pairs: of its caution, see
    `wander_of`; skewness: of one request's score, where it counts."""

    name: str
    rises: Sequence[float]
    weights: Sequence[float]
    tolerated: float
    drift: float
    by_factor: Sequence[float] = ()
    by_pairs: bool = False
    skewness: float = 0.0


@dataclass(frozen=True)
class Wanted(Sought):
    """A line of mean scores, and which."""

    mean: MeanScore = field(default_factory=MeanScore)


S = TypeVar("S", bound=Sought)


@dataclass
class Line(Generic[S]):
    """One series of values. usual: how many of its ticks it was learnt from; seen: how they differ, by scale."""

    wanted: S
    usual: int
    scan: Scan
    sums: Sums
    seen: Sequence[Seen] = ()

    def shown(self, start_s: float, width_s: float, since_s: float) -> Shown | None:
        """Of rises that began at `since_s` or later; None where there is none. Asked where there is a hint of one."""
        ticks = self.sums.ticks
        parts = self._parts(self.sums, np.array([ticks]))[0]
        begun_s = start_s + width_s * (ticks - self.scan.edges[self.scan.onsets])
        parts = parts[begun_s >= since_s]
        if not parts.size:
            return None
        onset, rise = np.unravel_index(int(parts.argmax()), parts.shape)
        top = float(parts[onset, rise])
        summed = top + math.log(float(np.exp(parts - top).sum()))
        place = int(np.flatnonzero(begun_s >= since_s)[onset])
        gain = top - float(self.scan.log_gaps[place]) - math.log(self.wanted.weights[int(rise)])
        return Shown(self.wanted.name, summed, gain, float(begun_s[place]), self.wanted.rises[int(rise)])

    def evidence(self, sums: Sums, ends: Ints, least_hint: float = HINT) -> Floats:
        """ln of what the line shows after each of so many ticks of a series, float64[ends].

        0 where there is no sign of a rise: none that `Scan.hints` sees at so many standard deviations.
        """
        found = np.zeros(ends.size)
        hinted = self.scan.hints(sums, ends, least_hint)
        if hinted.any():
            found[hinted] = total(self._parts(sums, ends[hinted]))
        return found

    def _parts(self, sums: Sums, ends: Ints) -> Floats:
        wanted = self.wanted
        return self.scan.parts(sums, ends, wanted.rises, wanted.weights, wanted.tolerated, wanted.skewness)

    def effect(self, since: int) -> Effect | None:
        """Of the newest ticks, so many; None of a line by tail, which does not tell a factor."""
        if not self.wanted.by_factor:
            return None
        rise, width = self.scan.rise(self.sums, since)
        found = np.interp([rise, rise - width, rise + width], self.wanted.by_factor, FACTORS)
        return Effect(*(float(one) for one in found))

    def replayed(self, width_s: float, log_threshold: float) -> ReplayedRate:
        """Over the later two thirds of what it was learnt from: each tick with what was before it."""
        ends = np.arange(self.usual // 3, self.usual + 1)
        return replayed_rate(self.evidence(self.sums, ends), width_s, log_threshold)


def hints_of(lines: Iterable[Line[S]]) -> list[bool]:
    """Of each whether there is a sign of a rise that is worth a look."""
    return hint_each([(line.scan, line.sums) for line in lines])


@dataclass
class Course:
    """The lines of one stream from `start_s` on, a tick each `width_s`; `take` what comes."""

    start_s: float
    width_s: float
    lines: dict[str, Line[Wanted]]
    yardstick: Yardstick = field(repr=False)

    def take(self, window: Window, *, judged: bool = True, mixed: bool = False) -> None:
        """judged: whether the window says anything; ticks between that are missing say nothing. mixed: whether the
        pool went over to what was accepted as slower, so that it says nothing of the tail."""
        place = self._tick(window.start_s)
        scored = self.yardstick.score(window) if judged else {}
        for line in self.lines.values():
            while line.sums.ticks < place:
                line.sums.push(math.nan, 1.0)
            if line.sums.ticks == place:
                line.sums.push(*line.wanted.mean.of({} if mixed and line.wanted.name == TAIL else scored))

    def shown(self, since_s: float) -> dict[str, Shown | None]:
        """What each line shows now, of rises since then; None where it shows nothing."""
        hinted = hints_of(self.lines.values())
        return {
            name: line.shown(self.start_s, self.width_s, since_s) if hint else None
            for (name, line), hint in zip(self.lines.items(), hinted, strict=True)
        }

    def back(self, line: str, onset_s: float, rise: float) -> float:
        """ln of the evidence that a line which rose is back; 0 where it is not watched any more."""
        known = self.lines.get(line)
        if known is None:
            return 0.0
        return known.scan.back(known.sums, known.sums.ticks - self._tick(onset_s), rise)

    def effect(self, line: str, onset_s: float) -> Effect | None:
        """By what factor latencies have grown since then, as a line shows it."""
        known = self.lines.get(line)
        return None if known is None else known.effect(known.sums.ticks - self._tick(onset_s))

    def replayed(self, line: str, log_threshold: float) -> ReplayedRate | None:
        """How often the line would have alarmed over its own past; None where it is not watched any more."""
        known = self.lines.get(line)
        return None if known is None else known.replayed(self.width_s, log_threshold)

    def _tick(self, at_s: float) -> int:
        return round((at_s - self.start_s) / self.width_s)


@dataclass(frozen=True)
class Past:
    """Windows in order, with their scores by prompt bucket. `usual_until_s`: what the yardstick and the wandering are
    learnt from ends there."""

    yardstick: Yardstick
    windows: Sequence[Window]
    usual_until_s: float
    scored: Mapping[str, ScoredEach]

    @classmethod
    def of(cls, yardstick: Yardstick, stack: Stack, usual_until_s: float) -> "Past":
        return cls(yardstick, stack.windows, usual_until_s, yardstick.score_each(stack))


def course(
    past: Past,
    bucket: str,
    is_closed: Callable[[Floats], Flags | bool],
    before: Mapping[str, Sequence[Earlier]] = {},
    is_mixed: Callable[[Floats], Flags | bool] = lambda starts: False,
) -> Course | None:
    """Of one stream; None where its past is too young or too thin. is_closed: of seconds, which of them say nothing;
    before: by line, how it wandered longer ago; is_mixed: of seconds, in which of them the pool went over."""
    if len(past.windows) < TOO_FEW_TICKS:
        return None
    starts = np.array([window.start_s for window in past.windows])
    start_s, width_s = float(starts[0]), max(WINDOW_S, float(np.diff(starts).min()))
    places = np.round((starts - start_s) / width_s).astype(int)
    is_open = np.broadcast_to(np.logical_not(is_closed(starts)), starts.shape)
    ticks = int(places[-1]) + 1
    scored = {name: _on_ticks(one, places[is_open], is_open, ticks) for name, one in past.scored.items()}
    mixed = np.zeros(ticks, dtype=bool)
    mixed[places] = is_mixed(starts)
    usual = max(0, round((past.usual_until_s - start_s) / width_s))
    span_s = min(past.usual_until_s - start_s, FLOOR_SPAN_S)
    lines = {}
    for wanted in _wanted(past.yardstick.usual, bucket):
        values, sampling = wanted.mean.of_each(scored, ticks)
        if wanted.name == TAIL:
            values = np.where(mixed, math.nan, values)
        if np.isfinite(values[:usual]).sum() >= TOO_FEW_TICKS:
            lines[wanted.name] = line_of(wanted, values, sampling, usual, span_s, before.get(wanted.name, ()))
    return Course(start_s, width_s, lines, past.yardstick) if lines else None


def _on_ticks(one: ScoredEach, places: Ints, kept: Flags, ticks: int) -> ScoredEach:
    found = np.zeros((4, ticks))
    found[:, places] = np.stack([one.count, one.location, one.tail, one.variance])[:, kept]
    return ScoredEach(*found)


def line_of(
    wanted: S, values: Floats, sampling: Floats, usual: int, span_s: float, before: Sequence[Earlier] = ()
) -> Line[S]:
    """The line of a series, float64[ticks]; its first `usual` ticks, over so many seconds, tell how it wanders, with
    what is known of `before`."""
    slow = wanted.drift**2 * FLOOR_SPAN_S / span_s
    floors = [0.0] * (len(TAUS_TICKS) - 2) + [HALF_HOUR_PART * slow, slow]
    known = np.isfinite(values[:usual])
    seen = differences(values[:usual], sampling[:usual])
    noise = wander_of(seen, floors, before, by_pairs=wanted.by_pairs)
    level = float(np.average(values[:usual][known], weights=1.0 / (sampling[:usual][known] + noise.tick)))
    return Line(wanted, usual, Scan.of(noise, usual), Sums.of(values, sampling, noise, level), seen)


def _wanted(usual: Mapping[str, Usual], bucket: str) -> list[Wanted]:
    """The lines of a stream; none where nothing is usual, as of a metric that is always 0."""
    if not usual:
        return []
    if bucket == FLEET:
        among, only = list(usual.values()), None
    elif bucket in usual and usual[bucket].share >= LEAST_SHARE:
        among, only = [usual[bucket]], bucket
    else:
        return []

    def after(of: Callable[[Usual], Scoring], change: Change) -> float:
        return sum(one.share * of(one).after(change) for one in among) / sum(one.share for one in among)

    rises, tolerated = [after(_by_place, one) for one in RISES], max(after(_by_place, TOLERATED), 0.0)
    by_factor = [after(_by_place, Change(factor)) for factor in FACTORS]
    # What drifts by so much moves the mean score as a small rise does, in proportion.
    drift = FLOOR_FACTOR / 0.1 * after(_by_place, Change(1.1))
    found = [Wanted(PLACE, rises, RISE_WEIGHTS, tolerated, drift, by_factor, only is None, mean=MeanScore(only))]
    if only is None:
        tails, no_tail = [after(_by_tail, one) for one in TAILS], max(after(_by_tail, TOLERATED_TAIL), 0.0)
        drift = FLOOR_FACTOR / 0.1 * tails[0]
        common = [factor for factor in FACTORS if factor <= MOST_COMMON]
        spread = np.sum([one.share * one.tail.variance_after((WANDERED, *common)) for one in among], axis=0)
        more = np.maximum(spread[1:] / max(float(spread[0]), 1e-12), 1.0).tolist()
        explained = [after(_by_tail, Change(factor)) for factor in common]
        # A tick that is further off is no noise: of its tail no more is taken off, and its scores count in full.
        shifted = by_factor[: len(common) + 1], [*explained, explained[-1]], [*more, 1.0]
        skewness = sum(one.share * one.tail.skewness for one in among) / sum(one.share for one in among)
        mean = MeanScore(by_tail=True, shifted=shifted)
        found.append(Wanted(TAIL, tails, TAIL_WEIGHTS, no_tail, drift, skewness=skewness, mean=mean))
    elif usual[only].share <= MOST_SHARE:
        found.append(Wanted(APART, rises, RISE_WEIGHTS, tolerated, drift, by_factor, mean=MeanScore(only, apart=True)))
    return found


def _by_place(usual: Usual) -> Scoring:
    return usual.location


def _by_tail(usual: Usual) -> Scoring:
    return usual.tail
