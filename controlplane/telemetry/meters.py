"""The store's own counters, in a registry of their own, so that several services fit in one process."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controlplane.telemetry.values.refusal import Outcome

METRICS, TRACES = "metrics", "traces"
"""The signals, as labels."""


class Meters:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._of_signal: dict[str, tuple[Counter, Counter]] = {}  # Looking a child up costs more than counting.
        self.reports = Counter(
            "tailwright_ingest_reports", "OTLP requests answered, by signal.", ["signal"], registry=self.registry
        )
        self.accepted = Counter(
            "tailwright_ingest_points_accepted",
            "Points and spans counted for the first time.",
            ["signal"],
            registry=self.registry,
        )
        self.repeated = Counter(
            "tailwright_ingest_points_repeated",
            "Points and spans recognised as repeats and not counted again.",
            ["signal"],
            registry=self.registry,
        )
        self.refused = Counter(
            "tailwright_ingest_points_refused",
            "Points and spans refused, by reason.",
            ["signal", "reason"],
            registry=self.registry,
        )
        self.spread = Counter(
            "tailwright_ingest_points_spread",
            "Histogram points kept whose buckets were coarser than the store's.",
            registry=self.registry,
        )
        self.commit_seconds = Histogram(
            "tailwright_ingest_commit_seconds",
            "Duration of group commits, disk included.",
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
        )
        self.commit_failures = Counter(
            "tailwright_ingest_commit_failures", "Reports that could not be written.", registry=self.registry
        )
        self.commit_reports = Histogram(
            "tailwright_ingest_commit_reports",
            "Reports written by one group commit.",
            registry=self.registry,
            buckets=(1, 2, 5, 10, 20, 50, 100, 200),
        )
        self.overloaded = Counter(
            "tailwright_ingest_overloaded", "Reports put off because too many were waiting.", registry=self.registry
        )
        self.resets = Counter(
            "tailwright_ingest_resets", "Running totals that began anew at their sender.", registry=self.registry
        )
        self.conflicts = Counter(
            "tailwright_ingest_reports_conflicting",
            "Reports not counted under their identity: another one has it (other), or it is too far back (too_old).",
            ["reason"],
            registry=self.registry,
        )
        self.frames = Counter("tailwright_frames_written", "Frames written or merged into.", registry=self.registry)
        self.frames_dropped = Counter(
            "tailwright_frames_dropped",
            "Frames dropped because of their age or of the limit on bytes, by their resolution in seconds.",
            ["resolution"],
            registry=self.registry,
        )
        self.label_sets_forgotten = Counter(
            "tailwright_label_sets_forgotten",
            "Label sets removed because nothing that is kept has points of them.",
            registry=self.registry,
        )
        self.frame_bytes = Gauge(
            "tailwright_frame_bytes",
            "Bytes on disk of the frames, or of the database they share.",
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "tailwright_ingest_queue_depth", "Reports that wait to be written.", registry=self.registry
        )
        self.series = Gauge("tailwright_series", "Distinct series known.", registry=self.registry)

    def count(self, signal: str, outcome: Outcome) -> None:
        """One request's outcome."""
        found = self._of_signal.get(signal)
        if found is None:
            found = self._of_signal[signal] = self.reports.labels(signal), self.accepted.labels(signal)
        reports, accepted = found
        reports.inc()
        accepted.inc(outcome.accepted)
        if outcome.repeated:
            self.repeated.labels(signal).inc(outcome.repeated)
        if not outcome.refusals.any:
            return
        self.spread.inc(outcome.refusals.warnings.total())
        for reason, count in outcome.refusals.by_reason.items():
            self.refused.labels(signal, reason.value).inc(count)
