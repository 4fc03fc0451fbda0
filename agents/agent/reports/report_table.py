"""The names in an agent's packed reports: metrics and label sets, each at a place that stays.

Guarantee: within one table a name keeps its place, and the table only grows. So consecutive reports of a steady engine
carry the same table to the byte, whatever happens to be in each of them, and the service reads it once. `RENEWED_AFTER`
reports later a new one is begun, which forgets revisions and tenants that are gone.
"""

from collections.abc import Mapping

from controlplane.contract.metrics import Metric, MetricKind

RENEWED_AFTER = 512


class ReportTable:
    """Call `begin` once before each report."""

    def __init__(self) -> None:
        self._metrics: dict[Metric, int] = {}
        self._labels: dict[tuple[tuple[str, str], ...], int] = {}
        self._reports = 0

    def begin(self) -> None:
        """Another report is being made."""
        if self._reports >= RENEWED_AFTER:
            self._metrics, self._labels, self._reports = {}, {}, 0
        self._reports += 1

    def metric(self, metric: Metric) -> int:
        """Its place."""
        return self._metrics.setdefault(metric, len(self._metrics))

    def labels(self, labels: Mapping[str, str]) -> int:
        """The place of a label set (attribute names on the wire to values); its order counts."""
        return self._labels.setdefault(tuple(labels.items()), len(self._labels))

    @property
    def metrics(self) -> tuple[tuple[str, MetricKind], ...]:
        return tuple((metric.name, metric.kind) for metric in self._metrics)

    @property
    def label_sets(self) -> tuple[dict[str, str], ...]:
        return tuple(dict(labels) for labels in self._labels)
