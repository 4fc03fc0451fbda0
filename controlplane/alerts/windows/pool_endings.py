"""How requests ended, by pool and window: what rules on lost requests are judged by. For one tick.

Guarantee: each span is read once for all pools that can share the reading.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.alerts.windows.histories import shareable
from controlplane.alerts.windows.history import Where
from controlplane.contract.metrics import FINISH_REASON, POOL, REQUESTS, WINDOW_S
from controlplane.contract.reports.finish_reasons import CLIENT, FAILED
from controlplane.telemetry import Question, Span, TelemetryReader, ValueSeries


@dataclass(frozen=True)
class Ended:
    """The requests of one window that ended; lost: finish reason to how many."""

    start_s: float
    count: int
    lost: Mapping[str, int] = field(default_factory=dict)

    @property
    def lost_count(self) -> int:
        return sum(self.lost.values())


class PoolEndings:
    def __init__(self, telemetry: TelemetryReader, wheres: Mapping[str, Where]) -> None:
        """wheres: the filter of each pool that may be asked for."""
        self._telemetry = telemetry
        self._wheres = wheres
        self._together = sorted(pool for pool, where in wheres.items() if shareable(where))
        self._read: dict[Span, list[ValueSeries]] = {}

    def of(self, pool: str, start: datetime, end: datetime) -> list[Ended]:
        """The windows of [start, end) in which requests ended, in order."""
        if pool not in self._together:
            return _windows(self._ask(Span(start, end), self._wheres[pool]))
        span = Span(start, end)
        if span not in self._read:
            self._read[span] = self._ask(span, {POOL.label: self._together})
        return _windows(series for series in self._read[span] if series.labels.get(POOL.label) == pool)

    def before(self, pool: str, start: datetime, end: datetime) -> tuple[int, int]:
        """Of [start, end): requests that ended, and how many were lost."""
        count = lost = 0
        for series in self._ask(Span(start, end), self._wheres[pool], step_s=None):
            reason = series.labels.get(FINISH_REASON.label, "")
            count += 0 if reason in CLIENT else round(series.value)
            lost += round(series.value) if reason in FAILED else 0
        return count, lost

    def _ask(self, span: Span, where: Where, step_s: float | None = WINDOW_S) -> list[ValueSeries]:
        by = (POOL.label, FINISH_REASON.label)
        return self._telemetry.scalars(Question(REQUESTS.short, span, by, where, step_s))


def _windows(found: Iterable[ValueSeries]) -> list[Ended]:
    counts: dict[float, int] = {}
    lost: dict[float, dict[str, int]] = {}
    for series in found:
        reason = series.labels.get(FINISH_REASON.label, "")
        for time, value in series.steps:
            start_s, number = time.timestamp(), round(value)
            if reason in CLIENT or number <= 0:
                continue
            counts[start_s] = counts.get(start_s, 0) + number
            if reason in FAILED:
                reasons = lost.setdefault(start_s, {})
                reasons[reason] = reasons.get(reason, 0) + number
    return [Ended(start_s, count, lost.get(start_s, {})) for start_s, count in sorted(counts.items())]
