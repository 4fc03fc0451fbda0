"""What records add up to: by window for reports, and in all for whoever asks.

Guarantee: each record counts once, in the window in which it ended; a window that was taken is in the totals already.
Latencies of requests that did not complete are not counted, as the server does not count its own; how they ended is.
"""

from agents.agent.reports.latency_series import Distribution
from agents.client_measure.client_record import ClientRecord, Ending
from agents.client_measure.join import NetworkTime
from controlplane.contract import metrics
from controlplane.contract.metrics import Metric

Series = dict[str, dict[Metric, Distribution]]
"""By model."""
Ended = dict[tuple[str, str], int]
"""Requests by model and reason: the finish reason of one that completed, else how it ended."""

MODEL_LIMIT = 100
"""Models kept apart; the rest are counted together, so that nobody's spelling grows the reports for ever."""
OTHER_MODEL = "_other"
UNSAID = "unsaid"
"""The reason of a complete answer that told none."""


class Window:
    """The counts of one window, or of all."""

    __slots__ = ("ended", "series")

    def __init__(self) -> None:
        self.series: Series = {}
        self.ended: Ended = {}

    def distribution(self, model: str, metric: Metric) -> Distribution:
        series = self.series.setdefault(model, {})
        found = series.get(metric)
        if found is None:
            found = series[metric] = Distribution()
        return found

    def merge(self, other: "Window") -> None:
        for model, series in other.series.items():
            for metric, distribution in series.items():
                merge(self.distribution(model, metric), distribution)
        for key, count in other.ended.items():
            self.ended[key] = self.ended.get(key, 0) + count


class Tally:
    """Windows not taken yet, by number (seconds since the epoch // WINDOW_S), and the totals of those that were."""

    def __init__(self) -> None:
        self.windows: dict[int, Window] = {}
        self._totals = Window()
        self._models: set[str] = set()

    def count(self, record: ClientRecord) -> None:
        window, model = self._window(record.started + record.e2e_s), self._model(record.model)
        complete = record.ending is Ending.COMPLETE
        reason = (record.finish_reason or UNSAID) if complete else record.ending.value
        window.ended[model, reason] = window.ended.get((model, reason), 0) + 1
        for metric, seconds in ((metrics.CLIENT_CONNECT, record.connect_s), (metrics.CLIENT_TLS, record.tls_s)):
            if seconds is not None:
                window.distribution(model, metric).record(seconds)
        if not complete:
            return
        window.distribution(model, metrics.CLIENT_E2E).record(record.e2e_s)
        for metric, seconds in ((metrics.CLIENT_TTFT, record.ttft_s), (metrics.CLIENT_TPOT, record.tpot_s)):
            if seconds is not None:
                window.distribution(model, metric).record(seconds)
        if record.gaps_s:
            window.distribution(model, metrics.CLIENT_ITL).record_all(record.gaps_s)

    def count_network(self, time: NetworkTime) -> None:
        window, model = self._window(time.ended), self._model(time.model)
        window.distribution(model, metrics.CLIENT_NETWORK).record(time.network_s)
        if time.network_ttft_s is not None:
            window.distribution(model, metrics.CLIENT_NETWORK_TTFT).record(time.network_ttft_s)

    def take(self) -> dict[int, Window]:
        """The windows counted since the last call, which are the caller's now."""
        taken, self.windows = self.windows, {}
        for window in taken.values():
            self._totals.merge(window)
        return taken

    def totals(self) -> Window:
        """All that was ever counted, a copy."""
        found = Window()
        for window in (self._totals, *self.windows.values()):
            found.merge(window)
        return found

    def _window(self, at_s: float) -> Window:
        number = int(at_s // metrics.WINDOW_S)
        found = self.windows.get(number)
        if found is None:
            found = self.windows[number] = Window()
        return found

    def _model(self, model: str) -> str:
        if model not in self._models:
            if len(self._models) >= MODEL_LIMIT:
                return OTHER_MODEL
            self._models.add(model)
        return model


def merge(into: Distribution, other: Distribution) -> None:
    """Add `other`'s values: exact, as the axis is one."""
    for index, count in other.buckets.items():
        into.buckets[index] = into.buckets.get(index, 0) + count
    into.zero_count += other.zero_count
    into.count += other.count
    into.total += other.total
    into.minimum = min(into.minimum, other.minimum)
    into.maximum = max(into.maximum, other.maximum)
