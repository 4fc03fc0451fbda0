"""What the exporters count, in the service's registry. The names are there also where nothing is exported."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class ExportMeters:
    def __init__(self, registry: CollectorRegistry) -> None:
        label = ["exporter"]
        self.intervals = Counter(
            "tailwright_export_intervals", "Intervals delivered, empty ones included.", label, registry=registry
        )
        self.points = Counter(
            "tailwright_export_points", "Points (samples) that a receiver has acknowledged.", label, registry=registry
        )
        self.points_refused = Counter(
            "tailwright_export_points_refused",
            "Points that a receiver has refused within a request it took (OTLP partial success).",
            label,
            registry=registry,
        )
        self.late = Counter(
            "tailwright_export_values_late",
            "Values that came after their interval had been sent, and were sent apart; a longer delay waits for them.",
            label,
            registry=registry,
        )
        self.failures = Counter(
            "tailwright_export_failures", "Attempts that a receiver did not take.", label, registry=registry
        )
        self.dropped = Counter(
            "tailwright_export_intervals_dropped",
            "Intervals given up: the receiver refused them for good, or they fell behind the longest lag.",
            [*label, "reason"],
            registry=registry,
        )
        self.lag_seconds = Gauge(
            "tailwright_export_lag_seconds",
            "Age of the oldest telemetry that is not delivered yet; the configured delay is in it.",
            label,
            registry=registry,
        )
        self.failing = Gauge(
            "tailwright_export_failing", "1 while the last attempt of an exporter has failed.", label, registry=registry
        )

    def begin(self, exporter: str) -> None:
        """Show an exporter's counters from the start: a rate needs a zero to grow from."""
        for counter in (self.intervals, self.points, self.points_refused, self.late, self.failures):
            counter.labels(exporter)
        for reason in ("lag", "refused"):
            self.dropped.labels(exporter, reason)
        self.lag_seconds.labels(exporter)
        self.failing.labels(exporter)
