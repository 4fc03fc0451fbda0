"""The canary's judge (pure): is the canary slower than the control, surely not slower, or faster?

What it compares, at which quantiles and against which limits, is the rollout's plan (`plan`). Beside it the share of
requests served is judged at once (`served`), and each limit is watched (`limit_watch`); harm in either is WORSE.

Guarantees, for whatever number of looks and at whatever moment one stops (Ville's inequality on e-processes):
- WORSE is said of a canary that is slower by no more than the tolerance with probability at most `alpha`, all metrics
  together with limits and served share (each is held to alpha / m: Bonferroni, for metrics are correlated and their
  e-values are not multiplied).
- NOT_WORSE is said of a canary that is slower by the tolerance or more, at one of the levels where the plan wants it
  shown (the median and p90 of a metric, or the objective's quantile), with probability at most `alpha`: all must be
  shown, each at alpha (an intersection-union test). The tail beyond is too rare to prove at every traffic; there,
  evidence of harm holds the verdict back (`LEANING`).
- BETTER: at most `alpha` of canaries that are not faster in any metric are called faster (Bonferroni again). An
  objective's canary is faster at its quantile or beside it (`levels_beside`); where it is beside it, its own quantile
  leans to not worse (`LEANING`): a gain at the quartile never hides a loss at the median.
The guarantees are exact for independent requests and as good as the estimated dispersion `phi` for others. They are of
raw timings: of values that a sender counted in wider buckets than the tolerance, NOT_WORSE is never said, and the
evidence says why.

Gaps between deliveries are not time per token: with drafts a step is longer and delivers several tokens. They are
compared at the tail alone, and a gap of the canary may be longer by what its deliveries held more tokens, as known from
earlier windows (`Stream.stretch`): a stall is harm, a longer step that gives more is not.

What is counted: at edges at the quantiles p of the control's newest past (one set per prompt bucket), how many values
of each arm lie above. The canary's edge is moved up by the tolerance, rounded to whole buckets against the verdict: up
for WORSE, down for NOT_WORSE; not moved for "faster".

What is combined, and why it stays an e-process:
- over ticks and prompt buckets, within one (metric, p, r): logs are added. Given the margins, the counts of separate
  requests are independent, so products of their e-values are e-values (see `exceedance`).
- over p and the odds ratios r: the mean of the processes, for nested edges count the same requests twice.
- over metrics: nothing but the bounds above.
A bucket's counts are held back until both arms have some; when they are judged depends on the numbers of requests only,
never on their latencies, so the margins stay ancillary.

Where half an hour before the canary is known in both arms, a metric is judged by `past_comparison` instead: each node
against itself, as noise over time and between nodes is fitted to that past. What holds waiting (ttft, e2e) is then
held for harm alone where a stage without waiting can be compared in its place, and not where there is no `headroom`.

With one serving node there is no concurrent control: each window of the canary is then paired with one window of the
node's own history, the newest first and each used once. Load that changed meanwhile is not cancelled; the evidence says
`"control": "before"`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from controlplane.contract.bodies.rollouts import Compared, JudgingPlan, Verdict
from controlplane.contract.histogram import RELATIVE_ERROR, error_text, is_coarse, upper_edge
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.share_text import share_text
from controlplane.evidence.exceedance import log_mean_exp
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import EPISODE_TICKS, Wanted
from controlplane.rollouts.judging.evidence_of_metric import QUICK, STEADY, Level, Pace, Stream, Window
from controlplane.rollouts.judging.headroom import METRICS as ROOM_METRICS
from controlplane.rollouts.judging.headroom import Room
from controlplane.rollouts.judging.judging_plan import WAITING
from controlplane.rollouts.judging.limit_watch import LimitWatch
from controlplane.rollouts.judging.past_comparison import Comparison
from controlplane.rollouts.judging.served import Outcomes, ServedShare

LEANING = math.log(3.0)
"""No good verdict while any level's evidence of harm is above this: a tail that looks worse is waited for."""

PRIOR_PHI = {"itl": 20.0}
"""Dispersion assumed before it has been seen: the gaps of one request share its steps."""
DEFAULT_PRIOR_PHI = 1.5

LEAST_TICKS, LEAST_FADING_TICKS = 6, 12
"""Ticks before a comparison is called worse; after a restart, whose slow start has to fade first."""

Control = Literal["concurrent", "before"]


class Judge(BaseModel):
    """The whole judging of one rollout. JSON in, JSON out (`model_dump_json`), so that a restart continues it."""

    alpha: float
    tolerance: float
    control: Control
    plan: JudgingPlan
    harm_part: float = 1.0
    fading_ticks: float = 0.0
    streams: dict[str, Stream]
    comparisons: dict[str, Comparison] = {}  # Of metrics whose past is known; they have no stream.
    room: Room = Room()
    served: ServedShare = Field(default_factory=ServedShare.start)
    limits: list[LimitWatch] = []
    ticks: int = 0  # Windows judged.

    @classmethod
    def start(
        cls,
        plan: JudgingPlan,
        *,
        control: Control,
        quick: bool = False,
        harm_part: float = 1.0,
        fading_ticks: float = 0.0,
    ) -> "Judge":
        """`quick`: for a take-back. Counts are held back for less, at the price of a little power. `fading_ticks`: the
        time constant of a slow start, where the change has restarted the engine. `harm_part`: of alpha, for WORSE: a
        rollout that is judged several times is called worse with probability alpha in all.
        """
        pace = QUICK if quick else STEADY
        return cls(
            alpha=plan.alpha,
            tolerance=plan.tolerance,
            control=control,
            plan=plan,
            harm_part=harm_part,
            fading_ticks=fading_ticks,
            streams={one.metric: _stream(one, pace) for one in plan.compared},
            limits=[LimitWatch.start(limit, _prior_phi(limit.metric), pace) for limit in plan.limits],
        )

    @property
    def metrics(self) -> list[str]:
        """Those whose windows it wants to be fed."""
        compared = [one.metric for one in self.plan.compared]
        return list(dict.fromkeys([*compared, *(watch.limit.metric for watch in self.limits)]))

    @property
    def reads(self) -> list[str]:
        """Those, and what it takes beside them where senders tell it: stages without waiting, and who waits."""
        room = ROOM_METRICS if set(self.metrics) & set(WAITING) else ()
        return list(dict.fromkeys([*self.metrics, *(one.metric for one in self.plan.stages), *room]))

    @property
    def bound(self) -> float:
        """ln(m / alpha), m: the metrics, the limits and the served share; alpha at its part for harm."""
        watched = len(self.streams) + len(self.comparisons) + len(self.limits) + 1
        return math.log(watched / (self.alpha * self.harm_part))

    @property
    def _concurrent(self) -> bool:
        return self.control == "concurrent"

    def rehearse(
        self, history: Mapping[str, Sequence[Window]], outcomes: Sequence[Outcomes] = (), *, gap_ticks: float = 0.0
    ) -> None:
        """Learn from before the canary, when both arms ran the same configuration. `gap_ticks`: from its end to the
        first window judged.

        With a concurrent control a window's arms are those of the judging; without one, only `Window.control` is set.
        """
        self.served.rehearse(outcomes, concurrent=self._concurrent)
        self._compare(history, gap_ticks)
        for metric, strata in history.items():
            windows = [window.by_bucket() for window in strata]
            pairs = list(windows)
            if not self._concurrent:
                half = len(windows) // 2
                pairs = [Window(a.control, b.control) for a, b in zip(windows[:half], windows[half:], strict=False)]
            for watch in self.limits:
                if watch.limit.metric == metric:
                    watch.rehearse(windows, pairs, concurrent=self._concurrent)
            if metric in self.streams:
                self._rehearse(self.streams[metric], windows, pairs)

    def compare_known_pasts_alone(self) -> None:
        """Compare no latency of which the past is not known: where all nodes run the revision, what came of load would
        else be said of it."""
        self.streams = {}

    def _compare(self, history: Mapping[str, Sequence[Window]], gap_ticks: float) -> None:
        """Compare node by node what has a past long enough."""
        alpha = self.alpha * self.harm_part / (len(self.plan.compared) + len(self.plan.stages) + len(self.limits) + 1)
        for one in (*self.plan.compared, *self.plan.stages):
            windows = history.get(one.metric, ())
            if one.per_delivery or any(is_coarse(_error(window)) for window in windows):
                continue  # Gaps depend on what they held; of wide buckets ranks say nothing.
            wanted = Wanted(
                levels=one.levels,
                shown=one.shown,
                tolerance=self.tolerance,
                alpha=alpha,
                concurrent=self._concurrent,
                guarded=len(self.plan.compared) > 1 or len(one.levels) > 1,
                fading_ticks=self.fading_ticks,
                gap_ticks=gap_ticks,
                episode_ticks=EPISODE_TICKS if one.metric in WAITING else 0,
            )
            past = windows if self._concurrent else [Window({}, window.control) for window in windows]
            found = Comparison.of(past, wanted)
            if found is not None:
                self.comparisons[one.metric] = found
                self.streams.pop(one.metric, None)
        if any(stage.metric in self.comparisons for stage in self.plan.stages):
            for metric in WAITING:
                if metric in self.comparisons:
                    self.comparisons[metric].for_harm_alone()
        length = max((len(windows) for windows in history.values()), default=0)
        self.room.learn(
            [
                {metric: windows[place] for metric, windows in history.items() if place < len(windows)}
                for place in range(length)
            ]
        )

    def _rehearse(self, stream: Stream, windows: Sequence[Window], pairs: Sequence[Window]) -> None:
        if self._concurrent:
            stream.learn_edges(window.control for window in windows)
            if not stream.edges:
                # The canary's nodes ran the same then: what they had does as well for edges.
                stream.learn_edges(window.canary for window in windows)
        else:  # All of the history as one window: it is counted now, and edges stay.
            stream.learn_edges([_together(window.control for window in windows)])
        for window in windows:
            stream.control_held.add(window.control, window.control_tokens)
        if not stream.edges:
            return
        if not self._concurrent:
            stream.past = [stream.count(window, self.tolerance) for window in windows]
        for window in pairs:
            stream.take(stream.count(window, self.tolerance), rehearsal=True)
        stream.pending = {}

    def feed(self, windows: Mapping[str, Window], outcomes: Outcomes | None = None) -> None:
        """Judge one tick; metrics without a window in it had no data."""
        self.ticks += 1
        has_room = self.room.feed(windows)
        for metric, comparison in self.comparisons.items():
            comparison.feed(windows.get(metric, Window()), judged=has_room or metric not in WAITING)
        for metric, strata in windows.items():
            window = strata.by_bucket()
            if metric in self.streams:
                self._feed(self.streams[metric], window)
            for watch in self.limits:
                if watch.limit.metric == metric:
                    watch.feed(window, concurrent=self._concurrent)
        if outcomes is not None:
            self.served.feed(outcomes, concurrent=self._concurrent, bound=self.bound)
        for stream in self.streams.values():
            stream.is_worse = stream.is_worse or stream.log_worse() >= self.bound
            stream.is_faster = stream.is_faster or stream.log_faster() >= self.bound
            stream.is_not_worse = stream.is_not_worse or stream.log_not_worse() >= -math.log(self.alpha)
        for watch in self.limits:
            watch.settle(self.bound)

    def _feed(self, stream: Stream, window: Window) -> None:
        for arm, tally in ((window.control, stream.control), (window.canary, stream.canary)):
            for sketch in arm.values():
                tally.add(sketch)
        known = bool(stream.canary_held.gaps) or not window.canary_tokens
        counts = stream.count(window, self.tolerance) if stream.edges and known else None
        if stream.per_delivery:  # Only now: what a window is counted by must not depend on it.
            stream.control_held.add(window.control, window.control_tokens)
            stream.canary_held.add(window.canary, window.canary_tokens)
        had_edges = bool(stream.edges)
        if self._concurrent or not had_edges:
            # Only now, and not judged where it gives the first edges: they must not depend on what they count.
            stream.learn_edges([window.control])
        if had_edges and counts is not None and (self._concurrent or stream.pair(counts)):
            stream.take(counts)

    def look(self) -> None:
        """Weigh what the comparisons have been fed; what was shown at one look stays shown."""
        for comparison in self.comparisons.values():
            comparison.settle(self.alpha, may_be_worse=self.ticks >= self._least_ticks)

    @property
    def _least_ticks(self) -> int:
        return LEAST_FADING_TICKS if self.fading_ticks else LEAST_TICKS

    def verdict(self) -> Verdict | None:
        """WORSE, BETTER or NOT_WORSE once the evidence suffices, None before. Of comparisons as of the last `look`."""
        watched = [*self.streams.values(), self.served.stream]
        compared = list(self.comparisons.values())
        watched += [watch.stream for watch in self.limits]
        if any(stream.is_worse for stream in watched) or any(one.is_worse for one in compared):
            return Verdict.WORSE
        if not self.harmless or self.held_back():
            return None
        if any(map(_is_better, self.streams.values())) or any(one.is_faster for one in compared):
            return Verdict.BETTER
        shown = [stream for stream in self.streams.values() if stream.shown]
        if not shown and not any(one.wanted.shown for one in compared):
            return None
        if all(stream.is_not_worse and not self._blind(stream) for stream in shown) and all(
            one.is_not_worse for one in compared if one.wanted.shown
        ):
            return Verdict.NOT_WORSE
        return None

    @property
    def harmless(self) -> bool:
        """Whether nothing leans to harm."""
        watched = [*self.streams.values(), self.served.stream]
        return (
            all(stream.leaning_worse() <= LEANING for stream in watched)
            and all(watch.log_worse() <= LEANING for watch in self.limits)
            and not any(one.is_worse or one.leaning() for one in self.comparisons.values())
        )

    def held_back(self) -> list[str]:
        """Why no good verdict is given, whatever was shown."""
        return self.room.holds_back() if self.comparisons else []

    @property
    def compares(self) -> bool:
        """Whether it compares any latency at all."""
        return bool(self.streams or self.comparisons)

    def needed_s(self) -> float | None:
        """Seconds of the same traffic still needed to show *not worse*; None where they cannot be told."""
        found = [one.needed_ticks(self.alpha) for one in self.comparisons.values() if one.wanted.shown]
        if not found or any(stream.shown for stream in self.streams.values()) or not all(map(math.isfinite, found)):
            return None
        return WINDOW_S * max(found)

    def _blind(self, stream: Stream) -> bool:
        """Whether a slowdown beyond the tolerance could hide inside one of the sender's own buckets."""
        return is_coarse(stream.relative_error) and stream.relative_error > self.tolerance

    def evidence(self) -> dict[str, Any]:
        """The account of it for the API and the ledger; natural logs, seconds."""
        return {
            "control": self.control,
            "alpha": self.alpha,
            "alpha_for_harm": self.alpha * self.harm_part,
            "tolerance": self.tolerance,
            "windows": self.ticks,
            "log_bounds": {"worse": self.bound, "faster": self.bound, "not_worse": -math.log(self.alpha)},
            "metrics": {name: self._account(stream) for name, stream in self.streams.items()}
            | {name: one.evidence(self.alpha) for name, one in self.comparisons.items()},
            **self._waits_for(),
            "limits": [watch.evidence() for watch in self.limits],
            "served": self.served.evidence(),
        }

    def _waits_for(self) -> dict[str, Any]:
        """What stands between a metric's evidence and a verdict, where comparisons tell it."""
        if not self.comparisons:
            return {}
        return {
            "needed_s": self.needed_s(),
            "leaning_to_harm": {name: found for name, one in self.comparisons.items() if (found := one.leaning())},
            "held_back": self.held_back(),
            "slow_start_fades_over_s": WINDOW_S * self.fading_ticks or None,
        }

    def _account(self, stream: Stream) -> dict[str, Any]:
        total = stream.totals()
        findings = (
            ("worse", stream.is_worse),
            ("faster", stream.is_faster),
            ("not_worse", bool(stream.shown) and stream.is_not_worse and not self._blind(stream)),
            ("leaning_worse", stream.leaning_worse() > LEANING),
        )
        return (
            self._accuracy(stream)
            | _deliveries(stream)
            | {
                "finding": next((name for name, holds in findings if holds), "undecided"),
                "control": stream.control.quantiles(),
                "canary": stream.canary.quantiles(),
                "judged": {"control": total.n_a, "canary": total.n_b},
                "strata": {bucket: [counts.n_a, counts.n_b] for bucket, counts in stream.judged.items()},
                "exceedances": [
                    {
                        "q": q,
                        "ratio": stream.ratio(q),
                        "control": total.a[place],
                        "canary": total.faster[place],
                        "canary_beyond_tolerance": total.worse[place],
                        "phi": stream.levels[place].dispersion.phi,
                        "log_e": _log_e(stream.levels[place], is_beside=place in stream.beside),
                    }
                    for place, q in enumerate(stream.qs)
                ],
                "log_e": {
                    "worse": stream.log_worse(),
                    "not_worse": stream.log_not_worse() if stream.shown else None,
                    "faster": stream.log_faster(),
                },
                "edges_s": {
                    bucket or "all": [upper_edge(position) for position in edges]
                    for bucket, edges in stream.edges.items()
                },
            }
        )

    def _accuracy(self, stream: Stream) -> dict[str, Any]:
        if not is_coarse(stream.relative_error):
            return {}
        says = "counts between the bounds are interpolated"
        if self._blind(stream):
            says = (
                f"a slowdown beyond the tolerance of {share_text(self.tolerance)} could hide inside a bucket, "
                "so this metric cannot show that the canary is not worse"
            )
        error = stream.relative_error
        return {"accuracy": {"relative_error": round(error, 4), "statement": f"{error_text(error)}; {says}"}}


def _stream(compared: Compared, pace: Pace) -> Stream:
    qs = sorted([*compared.levels, *compared.beside])
    return Stream.start(
        qs,
        _prior_phi(compared.metric),
        shown=[qs.index(level) for level in compared.shown],
        beside=[qs.index(level) for level in compared.beside],
        per_delivery=compared.per_delivery,
        pace=pace,
    )


def _is_better(stream: Stream) -> bool:
    return stream.is_faster and (not stream.beside or stream.log_not_worse() >= LEANING)


def _log_e(level: Level, *, is_beside: bool) -> dict[str, float]:
    faster = {"faster": log_mean_exp(np.array(level.faster))}
    if is_beside:
        return faster
    worse, not_worse = (log_mean_exp(np.array(one)) for one in (level.worse, level.not_worse))
    return {"worse": worse, "not_worse": not_worse, **faster}


def _prior_phi(metric: str) -> float:
    return PRIOR_PHI.get(metric, DEFAULT_PRIOR_PHI)


def _error(window: Window) -> float:
    sketches = (*window.control.values(), *window.canary.values())
    return max((sketch.relative_error for sketch in sketches), default=RELATIVE_ERROR)


def _together(arms: Iterable[Mapping[str, Sketch]]) -> dict[str, Sketch]:
    total: dict[str, Sketch] = {}
    for arm in arms:
        for bucket, sketch in arm.items():
            total.setdefault(bucket, Sketch()).merge(sketch)
    return total


def _deliveries(stream: Stream) -> dict[str, Any]:
    """Tokens per delivery, where gaps are compared and a sender told of them."""
    if not stream.per_delivery or not stream.canary_held.gaps:
        return {}
    control, canary = stream.control_held.each, stream.canary_held.each
    return {"tokens_per_delivery": {"control": round(control, 4), "canary": round(canary, 4)}}
