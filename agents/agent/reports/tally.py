"""What a run of consecutive engine events adds up to, window by window.

Guarantee: each event is counted once, in the `metrics.WINDOW_S` window of its own `time` (event time, never the time
of reading); the position is that of the last event counted, so that a restart which reads on from it counts the rest.
Where coarser windows are asked for, several times as wide, what happened in one is counted in its last `WINDOW_S`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.agent.reports.bucket_counts import BucketCounts
from agents.agent.reports.latency_series import Distribution
from agents.backends.base import Position
from controlplane.contract import metrics
from controlplane.contract.metrics import Metric, MetricKind, cache_class, prompt_bucket
from controlplane.contract.reports import finish_reasons
from controlplane.contract.reports.engine_event import (
    BucketsEvent,
    CountsEvent,
    EngineEvent,
    FinishedEvent,
    FirstTokenEvent,
    GapEvent,
    StepEvent,
    TracedEvent,
)
from controlplane.contract.step_limits import STEP_LIMITS

SeriesKey = tuple[int, str, str, str]
"""(revision, prompt bucket, cache class, tenant); an empty text where a dimension does not apply."""

OTHER_TENANT = "_other"
TENANT_LIMIT = 200
"""Tenants kept apart in one report; the rest are counted together, so that a caller cannot grow the report for ever."""

_FINISHED_METRICS: tuple[tuple[str, Metric], ...] = tuple(
    (metric.short, metric) for metric in (metrics.E2E, metrics.TPOT, *metrics.REQUEST_PARTS, metrics.UNACCOUNTED)
)
_STEP_METRICS: tuple[tuple[str, Metric], ...] = (
    ("schedule", metrics.STEP_SCHEDULE),
    ("forward", metrics.STEP_FORWARD),
    ("sample", metrics.STEP_SAMPLE),
    ("commit", metrics.STEP_COMMIT),
    ("draft", metrics.STEP_DRAFT),
    ("attention", metrics.STEP_ATTENTION),
)
"""Parts that an engine, or a device, may not be able to tell."""

_STEP_WORK: tuple[tuple[str, Metric], ...] = (
    ("flops", metrics.ESTIMATED_FLOPS),
    ("read_bytes", metrics.ESTIMATED_READ_BYTES),
    ("write_bytes", metrics.ESTIMATED_WRITE_BYTES),
)
"""Sums that an engine may not count."""
_TRACED_METRICS: tuple[tuple[str, Metric], ...] = tuple(
    (metric.short, metric)
    for metric in (metrics.E2E, metrics.TPOT, metrics.QUEUE, metrics.PREFILL, metrics.DECODE, metrics.UNACCOUNTED)
)
_FINISHED_FIELDS = FinishedEvent.__required_keys__
KEYS_KEPT = 4096
"""Requests' lengths and tenants whose series are looked up only once."""


@dataclass
class WindowTally:
    """The counts of one window. Sums are keyed by series and the value of `metrics.SUMMED_BY`'s attribute, if any."""

    distributions: dict[SeriesKey, dict[Metric, Distribution]] = field(default_factory=dict)
    buckets: dict[tuple[Metric, SeriesKey], BucketCounts] = field(default_factory=dict)
    sums: dict[tuple[Metric, SeriesKey, str], int] = field(default_factory=dict)
    gauges: dict[tuple[Metric, SeriesKey], float] = field(default_factory=dict)
    unaccounted_s: dict[int, float] = field(default_factory=dict)  # By revision.
    e2e_s: dict[int, float] = field(default_factory=dict)  # By revision.

    def distribution(self, key: SeriesKey, metric: Metric) -> Distribution:
        series = self.distributions.get(key)
        if series is None:
            series = self.distributions[key] = {}
        found = series.get(metric)
        if found is None:
            found = series[metric] = Distribution()
        return found

    def add(self, metric: Metric, key: SeriesKey, amount: int, value: str = "") -> None:
        if amount:
            self.sums[metric, key, value] = self.sums.get((metric, key, value), 0) + amount

    def add_by_position(self, metric: Metric, key: SeriesKey, amount: int, of_place: Sequence[int]) -> None:
        """Draft tokens, of which so many stood at each place. Raises ValueError for more at places than in all."""
        told = of_place[: metrics.MOST_POSITIONS]
        if (rest := amount - sum(told)) < 0:
            raise ValueError(f"{metric.short}: {list(of_place)} at their places, {amount} in all")
        for place, tokens in enumerate(told):
            self.add(metric, key, tokens, str(place))
        self.add(metric, key, rest)


class Tally:
    """One report in the making, opened in report interval number `span` (seconds since the epoch // interval_s)."""

    def __init__(self, span: int, interval_s: float, model: str, window_s: float = metrics.WINDOW_S) -> None:
        """`window_s` is a multiple of `metrics.WINDOW_S`."""
        self._merged = max(round(window_s / metrics.WINDOW_S), 1)
        self.span = span
        self.span_start_s = span * interval_s
        self.model = model
        self.windows: dict[int, WindowTally] = {}  # By window number, seconds since the epoch // WINDOW_S.
        self.finished: list[tuple[Position, FinishedEvent | TracedEvent]] = []
        self.events = 0
        self.missed = 0
        self._boot = ""
        self._seq = -1
        self._tenants: set[str] = set()
        self._keys: dict[tuple[int, int | None, int | None, str], SeriesKey] = {}
        self._newest: tuple[float, WindowTally] = (math.nan, WindowTally())  # Time // WINDOW_S, and its window.
        self._count_by_kind: dict[str, Callable[[WindowTally, EngineEvent], None]] = {
            "step": self._count_step,  # type: ignore[dict-item]
            "first_token": self._count_first_token,  # type: ignore[dict-item]
            "gaps": self._count_gaps,  # type: ignore[dict-item]
            "finished": self._count_finished,  # type: ignore[dict-item]
            "traced": self._count_traced,  # type: ignore[dict-item]
            "buckets": self._count_buckets,  # type: ignore[dict-item]
            "counts": self._count_counts,  # type: ignore[dict-item]
        }

    def count(self, event: EngineEvent, boot: str) -> None:
        """Add one event. Raises KeyError, TypeError or ValueError when it is malformed; the position moves on."""
        self._boot, self._seq = boot, event["seq"]
        place = event["time"] // metrics.WINDOW_S
        last, window = self._newest
        if place != last:
            window = self.windows.setdefault(self._window_of(event["time"]), WindowTally())
            self._newest = place, window
        self._count_by_kind[event["kind"]](window, event)
        self.events += 1

    def count_lost(self, time_s: float, revision: int, requests: Mapping[str, int], read_to: Position) -> None:
        """Add requests that no event tells of, by finish reason; `read_to` is where the events stand."""
        if self._seq < 0:
            self._boot, self._seq = read_to.boot, read_to.seq
        window = self.windows.setdefault(self._window_of(time_s), WindowTally())
        for reason, amount in requests.items():
            window.add(metrics.REQUESTS, (revision, "", "", ""), amount, reason)
        self.events += 1

    @property
    def position(self) -> Position | None:
        """The last event counted; None when there was none."""
        return Position(self._boot, self._seq) if self._seq >= 0 else None

    def unaccounted_share(self) -> float | None:
        """Sum of unaccounted / sum of e2e over all requests counted; None when none finished."""
        e2e_s = sum(sum(window.e2e_s.values()) for window in self.windows.values())
        unaccounted_s = sum(sum(window.unaccounted_s.values()) for window in self.windows.values())
        return unaccounted_s / e2e_s if e2e_s > 0 else None

    @property
    def empty(self) -> bool:
        return self.events == 0 and self.missed == 0

    @property
    def own_window(self) -> int:
        """The window in which the agent speaks of itself."""
        return self._window_of(self.span_start_s)

    def _window_of(self, time_s: float) -> int:
        number = int(time_s // metrics.WINDOW_S)
        return number + self._merged - 1 - number % self._merged

    def _key(self, event: FirstTokenEvent | GapEvent | FinishedEvent) -> SeriesKey:
        known = event["revision"], event["prompt_tokens"], event["cached_tokens"], event.get("tenant", "")
        found = self._keys.get(known)
        if found is None:
            if len(self._keys) >= KEYS_KEPT:
                self._keys.clear()
            found = self._keys[known] = self._new_key(*known)
        return found

    def _new_key(self, revision: int, prompt_tokens: int | None, cached_tokens: int | None, tenant: str) -> SeriesKey:
        if tenant and tenant not in self._tenants:
            if len(self._tenants) >= TENANT_LIMIT:
                tenant = OTHER_TENANT
            else:
                self._tenants.add(tenant)
        if prompt_tokens is None:
            return (revision, "", "", tenant)
        cached = "" if cached_tokens is None else cache_class(cached_tokens, prompt_tokens).value
        return (revision, prompt_bucket(prompt_tokens), cached, tenant)

    def _count_step(self, window: WindowTally, event: StepEvent) -> None:
        key: SeriesKey = (event["revision"], "", "", "")
        series = window.distributions.get(key)
        if series is None:
            series = window.distributions[key] = {}
        for name, metric in _STEP_METRICS:
            seconds = event.get(name)
            if isinstance(seconds, float):
                found = series.get(metric)
                if found is None:
                    found = series[metric] = Distribution()
                found.record(seconds)
        gauges = window.gauges
        gauges[metrics.KV_USAGE, key] = event["kv_usage"]
        gauges[metrics.RUNNING, key] = event["running"]
        gauges[metrics.WAITING, key] = event["waiting"]
        if event["draft_tokens"]:
            drafted, accepted = event.get("drafted_per_position"), event.get("accepted_per_position")
            if drafted is None or accepted is None:
                drafted = accepted = []  # One without the other tells no share.
            window.add_by_position(metrics.DRAFT_TOKENS, key, event["draft_tokens"], drafted)
            window.add_by_position(metrics.ACCEPTED_TOKENS, key, event["accepted_tokens"], accepted)
        window.add(metrics.PREEMPTIONS, key, event["preemptions"])
        for name, metric in _STEP_WORK:
            window.add(metric, key, event.get(name, 0))  # type: ignore[arg-type]
        if (limit := event.get("limit")) is not None:
            window.add(metrics.STEP_LIMIT, key, 1, _step_limit(limit))

    def _count_first_token(self, window: WindowTally, event: FirstTokenEvent) -> None:
        window.distribution(self._key(event), metrics.TTFT).record(event["ttft"])

    def _count_gaps(self, window: WindowTally, event: GapEvent) -> None:
        key = self._key(event)
        window.distribution(key, metrics.ITL).record_all(event["gaps"])
        window.add(metrics.DELIVERED_TOKENS, key, event.get("tokens") or 0)

    def _count_finished(self, window: WindowTally, event: FinishedEvent) -> None:
        if not event.keys() >= _FINISHED_FIELDS:
            raise KeyError(", ".join(sorted(_FINISHED_FIELDS - event.keys())))
        key = self._key(event)
        reason = event["finish_reason"]
        self.finished.append((Position(self._boot, self._seq), event))
        window.add(metrics.REQUESTS, key, 1, reason)
        if reason not in finish_reasons.COMPLETE:
            return
        for name, metric in _FINISHED_METRICS:
            value = event[name]  # type: ignore[literal-required]
            if value is not None:
                window.distribution(key, metric).record(value)
        window.add(metrics.PROMPT_TOKENS, key, event["prompt_tokens"])
        window.add(metrics.OUTPUT_TOKENS, key, event["output_tokens"])
        window.add(metrics.PREFIX_QUERIES, key, event["prompt_tokens"])
        window.add(metrics.PREFIX_HITS, key, event["cached_tokens"])
        revision = event["revision"]
        window.e2e_s[revision] = window.e2e_s.get(revision, 0.0) + event["e2e"]
        window.unaccounted_s[revision] = window.unaccounted_s.get(revision, 0.0) + max(event["unaccounted"], 0.0)

    def _count_traced(self, window: WindowTally, event: TracedEvent) -> None:
        revision, prompt_tokens = event["revision"], event["prompt_tokens"]
        key: SeriesKey = (revision, prompt_bucket(prompt_tokens) if prompt_tokens else "", "", "")
        for name, metric in _TRACED_METRICS:
            value = event[name]  # type: ignore[literal-required]
            if value is not None:
                window.distribution(key, metric).record(value)
        self.finished.append((Position(self._boot, self._seq), event))
        window.e2e_s[revision] = window.e2e_s.get(revision, 0.0) + event["e2e"]
        window.unaccounted_s[revision] = window.unaccounted_s.get(revision, 0.0) + max(event["unaccounted"], 0.0)

    def _count_buckets(self, window: WindowTally, event: BucketsEvent) -> None:
        metric = _metric(event["metric"], MetricKind.HISTOGRAM)
        place = metric, (event["revision"], "", "", "")
        found = window.buckets.get(place)
        if found is None:
            found = BucketCounts(event["bounds"])
        elif found.bounds != tuple(event["bounds"]):
            raise ValueError(f"{metric.short}: other bucket bounds than before in this report")
        found.add(event["counts"], event["total"])
        if found.count:
            window.buckets[place] = found

    def _count_counts(self, window: WindowTally, event: CountsEvent) -> None:
        key: SeriesKey = (event["revision"], "", "", "")
        amounts = [(_metric(name, MetricKind.SUM), "", amount) for name, amount in event["counts"].items()]
        amounts += [(metrics.REQUESTS, reason, amount) for reason, amount in event["requests"].items()]
        steps = event.get("step_limits", {})
        amounts += [(metrics.STEP_LIMIT, _step_limit(limit), amount) for limit, amount in steps.items()]
        if any(amount < 0 for _, _, amount in amounts):
            raise ValueError(f"a count below zero: {amounts!r}")
        for metric, value, amount in amounts:
            window.add(metric, key, amount, value)


def _step_limit(name: str) -> str:
    if name not in STEP_LIMITS:
        raise ValueError(f"limit: {name!r} is none of {', '.join(sorted(STEP_LIMITS))}")
    return name


def _metric(short: str, kind: MetricKind) -> Metric:
    found = metrics.BY_SHORT[short]
    if found.kind is not kind:
        raise ValueError(f"{short}: is a {found.kind}, not a {kind}")
    return found
