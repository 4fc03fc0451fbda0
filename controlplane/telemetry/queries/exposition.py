"""The fleet's gauges (see `fleet_gauges`) in the Prometheus registry, computed when they are scraped.

Guarantee: computed once in `FRESH_S` at most, however often and by however many /metrics is asked for; a failure to
read is shown as such and never as old values.

Other domains may register collectors of their own in `TelemetryStore.meters.registry`: /metrics shows them all.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from controlplane.contract.clock import Clock
from controlplane.contract.errors import TailwrightError
from controlplane.telemetry.queries import fleet_gauges
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.values.timespan import Span

logger = logging.getLogger(__name__)

FRESH_S = 5.0
FAILING = "tailwright_fleet_gauges_failing"


class Remembered(Collector):
    """Families that are collected once in `FRESH_S`. Thread-safe: those who ask meanwhile wait for the same answer."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: list[Metric] = []
        self._known_at: float | None = None

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if self._known_at is None or self._monotonic() - self._known_at >= FRESH_S:
                self._known = list(self.look())
                self._known_at = self._monotonic()
            return self._known

    def look(self) -> Iterable[Metric]:
        """Collect anew."""
        raise NotImplementedError


class FleetQuantiles(Remembered):
    """Quantiles of each pool over the last minute, whole and by part and prompt length; no data, no sample."""

    def __init__(self, reader: TelemetryReader, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(monotonic)
        self._reader = reader
        self._clock = clock

    def look(self) -> Iterable[Metric]:
        end = self._clock()
        failing = GaugeMetricFamily(FAILING, "1 when the fleet's gauges could not be read; they are absent then.")
        try:
            families = fleet_gauges.read(self._reader, Span(end - timedelta(seconds=fleet_gauges.SPAN_S), end))
        except (SQLAlchemyError, TailwrightError):
            logger.exception("the fleet's gauges could not be read")
            failing.add_metric([], 1.0)
            yield failing
            return
        failing.add_metric([], 0.0)
        yield failing
        for family in families:
            yield as_metric(family)


def as_metric(family: fleet_gauges.Family) -> GaugeMetricFamily:
    found = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for values, value in family.samples:
        found.add_metric(values, value)
    return found
