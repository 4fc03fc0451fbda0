"""One line of a comparison: how it was and wandered before the canary, what it shows since (pure). JSON in and out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from controlplane.evidence import wander
from controlplane.evidence.arm_difference import Offsets
from controlplane.evidence.effect import Rise, Spans, rise, spans_before
from controlplane.evidence.quantile_score import spread_after
from controlplane.evidence.scores import Change
from controlplane.evidence.wander import TAUS_TICKS, Wander
from controlplane.rollouts.judging.interval_history import Moment
from controlplane.rollouts.judging.score_sums import TAIL, Scored, Yardstick, name_of

Floats = NDArray[np.float64]

LEAST_TICKS = 360
"""Of the past in which both arms served: half an hour. A younger one is judged by counts (`evidence_of_metric`)."""
TAIL_HARM = Change(1.5, 0.02)
"""A tail that grew by less than this is tolerated."""
GAINS = (1.1, 1.2, 1.35, 1.7, 2.5)
"""By which a canary may be faster than before."""
HARMS = (1.05, *GAINS)
"""By which it may be slower than is tolerated; beyond it by less than half of the least is never shown."""
TAILS = (Change(1.5, 0.2), Change(2.0, 0.1), Change(3.0, 0.05), Change(4.0, 0.02))
EPISODE_TICKS = 48
"""Waiting comes in episodes: a queue that built up once, on one node, is one event, however many requests stood in it,
and no normal noise. Of what holds waiting, harm has to be shown beside the worst four minutes."""
FAR = 1.25
"""Where the control itself has become slower or faster by this, tails are not compared: what a score beyond the levels
that are shown makes of the nodes' own noise is known near the usual alone, and is much more elsewhere."""
LEANING_PART = 0.5
"""Of the evidence of harm, in nats, from which a line leans to it: no good verdict then."""
FACTORS = tuple(float(factor) for factor in 2.0 ** np.linspace(-4.0, 5.0, 109))
"""By which an effect is told."""
FLOOR_FACTOR, FLOOR_SPAN_TICKS, HALF_HOUR_PART = 0.012, 4320.0, 0.25
"""Drift of hours that is supposed even where a past of six hours shows none; more of a shorter one (decision 49)."""


class Wanted(BaseModel, frozen=True):
    """What is compared. alpha: of this metric, all lines together; guarded: false where its levels alone count;
    fading_ticks: the time constant of what fades after the start; gap_ticks: between the past and the first tick;
    episode_ticks: harm is shown without the worst so many ticks (`EPISODE_TICKS`), 0: with all."""

    levels: list[float]
    shown: list[float]
    tolerance: float
    alpha: float
    concurrent: bool = True
    guarded: bool = True
    fading_ticks: float = 0.0
    gap_ticks: float = 0.0
    episode_ticks: int = 0


class Line(BaseModel):
    """One line. Past: what its strata's offsets are, how it wanders, and its spans; then tick by tick since."""

    name: str
    alpha: float
    tolerated: float  # Of the mean score; and of what harm and gain are looked for:
    harms: list[float]
    gains: list[float]
    spread: float  # Of one request's score, once it is slower by what is tolerated: its variance; 1 before.
    moments: list[list[float]] = []  # Of the scores since: count, sum and sum of squares, by stratum.
    by_factor: list[float] = []  # The mean score after each of `FACTORS`; empty where a line tells no ratio.
    near: tuple[float, float] | None = None  # The control's mean score by rank, within which ticks count; None: all do.
    strata: list[str]
    offsets: dict[str, list[float]]
    wander: list[float]
    edges: list[float]
    means: list[float]
    sampling: list[float]
    value: list[float | None] = []
    variance: list[float] = []
    weight: list[float] = []  # By stratum, so far.
    estimate: float = 0.0
    information: float = 0.0
    sustained: tuple[float, float] | None = None  # The same without the worst episode, where that does not count.
    is_worse: bool = False  # Shown at some look.

    @property
    def rise(self) -> Rise:
        return Rise(self.estimate, self.information)

    def factor(self, score: float) -> float | None:
        """The ratio of latencies that a rise of the mean score stands for; None beyond what can be told."""
        if not self.by_factor or not self.by_factor[0] < score < self.by_factor[-1]:
            return None
        return float(np.interp(score, self.by_factor, FACTORS))

    @property
    def log_worse(self) -> float:
        """ln of the evidence of harm beyond what is tolerated; and so on."""
        shown = self.rise if self.sustained is None else Rise(*self.sustained)
        return shown.log_evidence(self.tolerated, self.harms)

    @property
    def log_faster(self) -> float:
        return self.rise.log_evidence(0.0, self.gains)

    @property
    def log_not_worse(self) -> float:
        return self.rise.log_evidence(self.tolerated, [0.0])

    @property
    def leans(self) -> bool:
        """Whether half of the evidence is there that harm takes, be it of one episode."""
        return self.rise.log_evidence(self.tolerated, self.harms) > LEANING_PART * -math.log(self.alpha)

    @property
    def is_faster(self) -> bool:
        return bool(self.gains) and self.log_faster >= -math.log(self.alpha)

    def is_not_worse(self, alpha: float) -> bool:
        return self.log_not_worse >= -math.log(alpha)

    def take(self, seen: Scored, *, concurrent: bool) -> None:
        """Take the scores of the next ticks."""
        differences = seen.differences(self.name, self.strata, concurrent)
        value, variance = self._offsets.line(differences)
        if self.near is not None:
            control = seen.typical(self.strata)
            value = np.where((control > self.near[0]) & (control < self.near[1]), value, math.nan)
        self.value += [None if math.isnan(one) else round(float(one), 5) for one in value]
        self.variance += [round(float(one), 6) for one in variance]
        fresh = seen.moments(self.name, self.strata)
        self.moments = (fresh + np.array(self.moments) if self.moments else fresh).round(4).tolist()
        self.weight = [a + float(b) for a, b in zip(self.weight, differences.weight.sum(axis=0), strict=True)]

    def look(self, *, gap_ticks: float, fading_ticks: float, episode_ticks: int = 0) -> None:
        """Weigh all ticks so far."""
        values = np.array([math.nan if one is None else one for one in self.value])
        past = Spans(np.array(self.edges), np.array(self.means), np.array(self.sampling))
        sampling = np.array(self.variance) * max(self.spread, self._seen_spread())
        unshared = self._offsets.unshared(np.array(self.weight))

        def since(values: Floats) -> tuple[float, float]:
            noise = Wander(tuple(self.wander))
            found = rise(past, values, sampling, noise, gap=gap_ticks, fading=fading_ticks, offset_variance=unshared)
            return found.estimate, found.information

        self.estimate, self.information = since(values)
        if episode_ticks:
            self.sustained = since(_without_worst(values, episode_ticks))

    def moment(self, after_s: float) -> Moment:
        """The ratio with its interval, as known after so many seconds of judging."""
        low, high = self.rise.interval(self.alpha)
        ratio = self.factor(self.estimate) if self.information else None
        return Moment(after_s=after_s, ratio=ratio, low=self.factor(low), high=self.factor(high))

    def account(self, alpha: float) -> dict[str, Any]:
        """The ratio with its interval, for people; natural logs. alpha: at which *not worse* is shown."""
        now = self.moment(0.0)
        findings = (
            ("worse", self.is_worse),
            ("faster", self.is_faster),
            ("not_worse", self.is_not_worse(alpha)),
            ("leaning_worse", self.leans),
        )
        return {
            "finding": next((name for name, holds in findings if holds), "undecided"),
            "ratio": now.ratio,
            "interval": [now.low, now.high],
            "alpha": self.alpha,
            "worse_beyond": self.factor(self.tolerated),
            "standard_errors": round(self.estimate * math.sqrt(self.information), 2),
            "strata": self.strata,
            "log_e": {"worse": self.log_worse, "not_worse": self.log_not_worse}
            | ({"faster": self.log_faster} if self.gains else {}),
        }

    def _seen_spread(self) -> float:
        """The variance of one request's score since: where everybody has got slower, scores scatter otherwise."""
        if not self.moments:
            return 1.0
        count, total, squares = np.array(self.moments)
        some = count > 1.0
        variance = squares[some] / count[some] - (total[some] / count[some]) ** 2
        return float((variance * count[some]).sum() / count[some].sum()) if some.any() else 1.0

    @property
    def _offsets(self) -> Offsets:
        value, variance, share = np.array([self.offsets[name] for name in self.strata]).T
        return Offsets(value, variance, share)


def _without_worst(values: Floats, ticks: int) -> Floats:
    """The same without the neighbouring ticks, so many, whose sum is highest; nothing where there are no more."""
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
    kept = values.copy()
    worst = int((sums[ticks:] - sums[:-ticks]).argmax()) if values.size > ticks else 0
    kept[worst : worst + ticks] = math.nan
    return kept


def learn_line(
    name: str, strata: Sequence[str], seen: Scored, yardstick: Yardstick, wanted: Wanted, alpha: float
) -> Line | None:
    """None where its past is too young or too thin. alpha: of this line."""
    past = seen.differences(name, strata, wanted.concurrent)
    offsets = Offsets.learn(past)
    values, sampling = offsets.line(past)
    if np.isfinite(values).sum() < LEAST_TICKS:
        return None
    scoring = yardstick.scoring(name)

    def after(change: Change) -> float:
        return float(sum(share * scoring[one].after(change) for share, one in zip(offsets.share, strata, strict=True)))

    by_factor = np.zeros(len(FACTORS))
    for share, one in zip(offsets.share, strata, strict=True):
        by_factor += share * scoring[one].after_all(FACTORS)
    allowed = 1.0 + wanted.tolerance
    most = TAIL_HARM if name == TAIL else Change(allowed)
    tolerated = max(after(most), 0.0)
    spread = float(
        sum(share * spread_after(scoring[one], most) for share, one in zip(offsets.share, strata, strict=True))
    )
    is_beyond = name == TAIL or name in map(name_of, set(wanted.levels) - {0.5, *wanted.shown})
    by_rank = [
        float(sum(share * yardstick.typical[one].after(far) for share, one in zip(offsets.share, strata, strict=True)))
        for far in (Change(1.0 / FAR), Change(FAR))
    ]
    drift = after(TAIL_HARM) if name == TAIL else after(Change(1.1))
    slow = (drift * FLOOR_FACTOR / 0.1) ** 2 * max(1.0, FLOOR_SPAN_TICKS / values.size)
    floors = [0.0] * (len(TAUS_TICKS) - 2) + [HALF_HOUR_PART * slow, slow]
    noise = wander.fit(values, sampling, floors)
    spans = spans_before(values, sampling, noise)
    return Line(
        name=name,
        alpha=alpha,
        tolerated=tolerated,
        harms=[after(change) for change in TAILS] if name == TAIL else [after(Change(allowed * one)) for one in HARMS],
        gains=[] if name == TAIL else [after(Change(1.0 / one)) for one in GAINS],
        spread=max(1.0, spread),
        by_factor=[] if name == TAIL else by_factor.tolist(),
        near=(by_rank[0], by_rank[1]) if is_beyond and wanted.concurrent and not wanted.episode_ticks else None,
        strata=list(strata),
        offsets={
            one: [float(offsets.value[place]), float(offsets.variance[place]), float(offsets.share[place])]
            for place, one in enumerate(strata)
        },
        wander=list(noise.variances),
        edges=spans.edges.tolist(),
        means=spans.means.tolist(),
        sampling=spans.sampling.tolist(),
        weight=[0.0] * len(strata),
    )
