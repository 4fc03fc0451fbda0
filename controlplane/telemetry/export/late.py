"""How many values reached the store after their interval had been sent: they stay here, and that must be seen.

Guarantee: what is counted is exact for histograms that came within `WATCHED_S` of the sending, by this process; it is
a reason for a longer delay, not a ledger.
"""

from collections import Counter, deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from controlplane.contract.metrics import Metric
from controlplane.telemetry.export.interval import Interval
from controlplane.telemetry.export.series import Portion
from controlplane.telemetry.reader import TelemetryReader

WATCHED_S = 600.0


def counts_of(portion: Portion) -> Counter[Metric]:
    """Values in the histograms of a portion."""
    found: Counter[Metric] = Counter()
    for metric, histograms in portion.histograms.items():
        found[metric] += sum(one.total.count for one in histograms)
    return found


class LateWatch:
    """Looks at each interval once more, `WATCHED_S` after it was sent."""

    def __init__(self, reader: TelemetryReader) -> None:
        self._reader = reader
        self._sent: deque[tuple[datetime, Interval, Mapping[Metric, int]]] = deque()

    def sent(self, interval: Interval, counts: Mapping[Metric, int], now: datetime) -> None:
        self._sent.append((now + timedelta(seconds=WATCHED_S), interval, dict(counts)))

    def look(self, now: datetime) -> int:
        """Late values of the intervals whose time has come. A metric that was not there at all is not looked at."""
        late = 0
        while self._sent and self._sent[0][0] <= now:
            _, interval, counts = self._sent.popleft()
            for metric, count in counts.items():
                present = self._reader.histograms(metric.short, interval.start, interval.end)
                late += max(0, sum(one.total.count for one in present) - count)
        return late
