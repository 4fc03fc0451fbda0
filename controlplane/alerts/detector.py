"""All streams of one regression rule on one pool: which baseline each tick is compared with, and who is in alarm.

Guarantees: a baseline holds only windows before the tick it judges, with a gap between, none of a span in which an
alarm was open, and none since evidence began to gather; while an alarm is open it stays as it was.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.alerts.baseline import FLEET, Baseline, build_each
from controlplane.alerts.history import Window
from controlplane.alerts.regression import Exceedances, Stream, observe
from controlplane.contract.alerts import RegressionCondition
from controlplane.contract.metrics import WINDOW_S

GUARD_SHARE, GUARD_MIN_S, GUARD_MAX_S = 1 / 6, 40.0, 300.0
REFRESH_SHARE, REFRESH_MIN_S, REFRESH_MAX_S = 1 / 20, 5.0, 300.0
SUSPICION = 1 / 4
"""From this part of the alarm's log threshold on, the suspected span is kept out of the baseline."""
SURGE_REST_S = 60.0
"""After a load beyond the baseline nothing is judged for so long: the queue it left is not the engine's fault."""
SURGE_LEARN_S = 600.0
"""A load that stays so long is the new normal: the baseline takes it in, so that it can be judged again."""
QUIET_S = 600.0
"""After so long without traffic the evidence is stale: a later slowdown has to be shown anew."""

Span = tuple[float, float]


@dataclass
class Detector:
    """Judges windows in order. `streams` is the whole memory of the evidence; the baselines are rebuilt at need."""

    condition: RegressionCondition
    pools: int = 1
    streams: dict[str, Stream] = field(default_factory=dict)
    surge_since_s: float = 0.0
    surge_until_s: float = 0.0
    last_start_s: float = -math.inf
    baselines: dict[str, Baseline] = field(default_factory=dict)
    _built_s: float = -math.inf
    _built_for: tuple[Span, ...] = ()

    def state(self) -> dict[str, Any]:
        return {
            "streams": {key: stream.dump() for key, stream in self.streams.items()},
            "surge_since_s": self.surge_since_s,
            "surge_until_s": self.surge_until_s,
            "last_start_s": self.last_start_s if math.isfinite(self.last_start_s) else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.streams = {key: Stream.load(value) for key, value in state.get("streams", {}).items()}
        self.surge_since_s = float(state.get("surge_since_s", 0.0))
        self.surge_until_s = float(state.get("surge_until_s", 0.0))
        last_s = state.get("last_start_s")
        self.last_start_s = -math.inf if last_s is None else float(last_s)

    @property
    def stream_count(self) -> int:
        """Over all pools of the rule, supposing that they are alike."""
        return max(1, self.pools * sum(len(baseline.phi) for baseline in self.baselines.values()))

    @property
    def log_threshold(self) -> float:
        """ln(A + 1), A = wanted ticks between false alarms times the number of streams."""
        return math.log1p(self.condition.false_alarm_every_s / WINDOW_S * self.stream_count)

    def alarmed(self, metric: str) -> list[str]:
        """The keys of the metric's streams in alarm, strongest evidence first."""
        keys = [key for key, stream in self.streams.items() if stream.alarmed and key.split("|")[0] == metric]
        return sorted(keys, key=lambda key: (-self.streams[key].slow_above, key))

    def advance(self, window: Window, history: Sequence[Window], closed: Sequence[Span]) -> None:
        """Judge one window. `history`: windows in order, `window` among or after them; `closed`: spans of alarms."""
        if window.start_s - self.last_start_s > QUIET_S:
            self.streams.clear()
        self.last_start_s = window.start_s
        if not self.baselines or not self._holds_through_surge(window.start_s):
            self._refresh(window.start_s, history, tuple(closed))
        if not self.baselines:
            return
        if window.load > max(baseline.load_limit for baseline in self.baselines.values()):
            if window.start_s >= self.surge_until_s:
                self.surge_since_s = window.start_s
            self.surge_until_s = window.start_s + SURGE_REST_S
        if window.start_s < self.surge_until_s:
            return
        log_threshold = self.log_threshold
        for name, baseline in self.baselines.items():
            strata = self._strata(window, baseline)
            for bucket, cell in strata.items():
                key = f"{name}|{bucket}"
                observe(self._stream(key), window.start_s, [cell], baseline.phi[bucket], log_threshold)
            if strata:
                observe(
                    self._stream(f"{name}|{FLEET}"),
                    window.start_s,
                    list(strata.values()),
                    baseline.phi[FLEET],
                    log_threshold,
                )

    def _holds_through_surge(self, at_s: float) -> bool:
        """Whether the baseline stays as it is: what a surge hides from judgement must not pass for normal meanwhile."""
        return at_s < self.surge_until_s and at_s - self.surge_since_s < SURGE_LEARN_S

    def _stream(self, key: str) -> Stream:
        return self.streams.setdefault(key, Stream())

    def _strata(self, window: Window, baseline: Baseline) -> dict[str, Exceedances]:
        strata = {}
        for bucket, tail in window.tails.get(baseline.metric, {}).items():
            null = baseline.null_share(bucket, window.load, self.condition.tolerance)
            if null is not None and tail.count:
                above = tail.above(baseline.buckets[bucket].edge)
                strata[bucket] = Exceedances(tail.count, above, null)
        return strata

    def _refresh(self, at_s: float, history: Sequence[Window], closed: tuple[Span, ...]) -> None:
        first_s = history[0].start_s if history else at_s
        span_s = min(at_s - first_s, self.condition.baseline_s)
        due_s = min(max(span_s * REFRESH_SHARE, REFRESH_MIN_S), REFRESH_MAX_S)
        if at_s - self._built_s < due_s and closed == self._built_for:
            return
        if self._built_s > 0 and any(stream.alarmed for stream in self.streams.values()) and self.baselines:
            return
        end_s = at_s - min(max(span_s * GUARD_SHARE, GUARD_MIN_S), GUARD_MAX_S)
        end_s = min([end_s, *self._suspected(), *(begin for begin, end in closed if end == math.inf)])
        windows = _between(history, end_s - self.condition.baseline_s, end_s)
        windows = [window for window in windows if not _inside(window.start_s, closed)]
        self._built_s, self._built_for = at_s, closed
        for metric in self.condition.metrics:
            for q, built in build_each(windows, metric, self.condition.q, self.condition.min_baseline_count).items():
                self.baselines[f"{metric}|{q:g}"] = built

    def _suspected(self) -> list[float]:
        limit = SUSPICION * self.log_threshold
        found = []
        for stream in self.streams.values():
            onset = stream.onset_s if stream.alarmed else stream.suspected_since_s
            if onset is not None and (stream.alarmed or max(stream.gain) >= limit):
                found.append(onset)
        return found


def _between(history: Sequence[Window], start_s: float, end_s: float) -> Sequence[Window]:
    starts = [window.start_s for window in history]
    return history[bisect_left(starts, start_s) : bisect_left(starts, end_s)]


def _inside(at_s: float, spans: Sequence[Span]) -> bool:
    return any(begin <= at_s < end for begin, end in spans)
