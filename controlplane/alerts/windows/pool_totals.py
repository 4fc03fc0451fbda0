"""All values of a metric in a span, by pool: what absolute limits are judged by. For one tick.

Guarantee: each span is read once for all pools that can share the reading; a pool's total is the same as if it had been
read by itself.
"""

import logging
from collections.abc import Mapping
from datetime import datetime

from controlplane.alerts.windows.histories import shareable
from controlplane.alerts.windows.history import Where
from controlplane.contract.metrics import POOL
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader

log = logging.getLogger(__name__)


class PoolTotals:
    def __init__(self, telemetry: TelemetryReader, wheres: Mapping[str, Where]) -> None:
        """wheres: the filter of each pool that may be asked for."""
        self._telemetry = telemetry
        self._wheres = wheres
        self._together = sorted(pool for pool, where in wheres.items() if shareable(where))
        self._read: dict[tuple[str, Span], dict[str, Sketch]] = {}
        self._alone: dict[tuple[str, str, Span], Sketch] = {}

    def of(self, pool: str, metric: str, start: datetime, end: datetime) -> Sketch:
        """Empty where there is no data."""
        span = Span(start, end)
        if pool in self._together and self._read_together(metric, span):
            return self._read[metric, span].get(pool) or Sketch()
        if (pool, metric, span) not in self._alone:
            total = Sketch()
            for series in self._telemetry.histograms(Question(metric, span, where=self._wheres[pool])):
                total.merge(series.total)
            self._alone[pool, metric, span] = total
        return self._alone[pool, metric, span]

    def _read_together(self, metric: str, span: Span) -> bool:
        """False where it fails: then each pool is read by itself, and fails by itself."""
        if (metric, span) not in self._read:
            where = {POOL.label: self._together}
            try:
                found = self._telemetry.histograms(Question(metric, span, (POOL.label,), where))
            except Exception:
                log.exception("%s of %d pools could not be read together", metric, len(self._together))
                self._together = []
                return False
            self._read[metric, span] = {series.labels.get(POOL.label, ""): series.total for series in found}
        return True
