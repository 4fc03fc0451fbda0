"""What a recorder has counted, for a program that reads it itself.

Guarantee: quantiles carry the error of `controlplane.contract.histogram` and no other; what was never seen is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.agent.reports.latency_series import Distribution
from agents.client_measure.record_tally import Window, merge
from controlplane.contract import histogram
from controlplane.contract.metrics import Metric


@dataclass(frozen=True)
class Snapshot:
    """Of everything since the recorder was made. ended: requests by (model, finish reason, or how they ended)."""

    window: Window
    dropped: int
    """Reports that were dropped unsent."""

    @property
    def ended(self) -> Mapping[tuple[str, str], int]:
        return self.window.ended

    @property
    def requests(self) -> int:
        return sum(self.window.ended.values())

    def distribution(self, metric: Metric, model: str | None = None) -> Distribution:
        """Of one model, or of all; empty where nothing was seen."""
        found = Distribution()
        for name, series in self.window.series.items():
            if metric in series and model in (None, name):
                merge(found, series[metric])
        return found

    def count(self, metric: Metric, model: str | None = None) -> int:
        return self.distribution(metric, model).count

    def quantile(self, metric: Metric, q: float, model: str | None = None) -> float | None:
        """In seconds. Raises ValueError for a q outside 0..1."""
        found = self.distribution(metric, model)
        if not found.count:
            return None
        counts = [0] * histogram.AXIS_LENGTH
        for index, count in found.buckets.items():
            position = min(max(index, histogram.AXIS_MIN), histogram.AXIS_MAX) - histogram.AXIS_MIN
            counts[position] += count
        return histogram.quantile(counts, q, zero_count=found.zero_count, minimum=found.minimum, maximum=found.maximum)
