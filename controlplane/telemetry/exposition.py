"""The fleet's latency quantiles as Prometheus gauges, computed when they are scraped.

Other domains may register collectors of their own in `TelemetryStore.meters.registry`: /metrics shows them all.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from controlplane.contract import metrics
from controlplane.contract.clock import Clock
from controlplane.telemetry.reader import TelemetryReader

logger = logging.getLogger(__name__)

SHOWN = (metrics.TTFT, metrics.ITL, metrics.E2E)
QUANTILES = (0.5, 0.95, 0.99)
SPAN_S = 60


class FleetQuantiles(Collector):
    """p50, p95 and p99 of each pool over the last minute; a pool without data has none.

    The label is `q`, not `quantile`: Prometheus keeps that one for summaries.
    """

    def __init__(self, reader: TelemetryReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        end = self._clock()
        start = end - timedelta(seconds=SPAN_S)
        for metric in SHOWN:
            family = GaugeMetricFamily(
                f"trimtab_fleet_{metric.short}_seconds",
                f"{metric.help} Quantile q of the last {SPAN_S} s.",
                labels=["pool", "q"],
            )
            try:
                found = self._reader.histograms(metric.short, start, end, by=[metrics.POOL.label])
            except SQLAlchemyError:
                logger.exception("the fleet's quantiles could not be read")
                found = []
            for series in found:
                for q in QUANTILES:
                    family.add_metric([series.labels[metrics.POOL.label], str(q)], series.total.quantile(q))
            yield family
