"""What nodes report: taken in, kept, and answered for. Here stands all of it that alerts and rollouts may see."""

from controlplane.telemetry.question import Question, Where
from controlplane.telemetry.reader import SketchSeries, TelemetryReader, TimedRequests, ValueSeries
from controlplane.telemetry.values.timespan import Span

__all__ = ["Question", "SketchSeries", "Span", "TelemetryReader", "TimedRequests", "ValueSeries", "Where"]
