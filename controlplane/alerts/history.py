"""What one pool's latencies were, window by window, kept small: the material of the load-binned baseline.

Guarantee: windows are read from telemetry once each, in order; counts above a bucket edge are exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.load import LoadMeter
from controlplane.contract.histogram import AXIS_LENGTH, RELATIVE_ERROR
from controlplane.contract.metrics import E2E, NODE, PROMPT_BUCKET, REQUESTS, RUNNING, TTFT, WAITING, WINDOW_S
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.sketch import Sketch

READ_AHEAD_S = 300.0
"""So much is asked of telemetry at once: six hours of dense histograms in one answer would not be polite."""

Where = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class Tail:
    """One histogram as the number of values at or above each bucket. tail: int64[width] from axis position `low` on.

    `relative_error` as in `Sketch`.
    """

    low: int
    tail: NDArray[np.int64]
    count: int
    relative_error: float = RELATIVE_ERROR

    @classmethod
    def of(cls, sketch: Sketch) -> "Tail":
        used = np.flatnonzero(sketch.counts)
        if used.size == 0:
            return cls(0, np.zeros(0, dtype=np.int64), sketch.zero_count, sketch.relative_error)
        low, high = int(used[0]), int(used[-1]) + 1
        tail = np.cumsum(sketch.counts[low:high][::-1])[::-1].copy()
        return cls(low, tail, sketch.zero_count + int(tail[0]), sketch.relative_error)

    def above(self, position: int) -> int:
        """As `Sketch.above`."""
        place = max(position + 1 - self.low, 0)
        return int(self.tail[place]) if place < self.tail.size else 0

    def add_to(self, counts: NDArray[np.int64]) -> None:
        """Add the bucket counts to int64[AXIS_LENGTH]."""
        if self.tail.size:
            part = counts[self.low : self.low + self.tail.size]
            part += self.tail
            part[:-1] -= self.tail[1:]


@dataclass(frozen=True)
class Window:
    """`WINDOW_S` of one pool. `tails`: metric (short name) to prompt bucket to histogram; absent where no data."""

    start_s: float
    load: float  # Requests per second and node, smoothed.
    tails: Mapping[str, Mapping[str, Tail]]


def merged(windows: Sequence[Window], metric: str, bucket: str | None = None) -> Sketch:
    """All values of a metric in the windows, of one prompt bucket or (None) of all."""
    counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
    zero, error = 0, RELATIVE_ERROR
    for window in windows:
        for name, tail in window.tails.get(metric, {}).items():
            if bucket is None or name == bucket:
                tail.add_to(counts)
                zero += tail.count - (int(tail.tail[0]) if tail.tail.size else 0)
                error = max(error, tail.relative_error)
    return Sketch(counts=counts, zero_count=zero, relative_error=error)


@dataclass
class History:
    """The windows of one pool from `start_s` to `end_s` (seconds since the epoch, multiples of the window)."""

    where: Where
    metrics: tuple[str, ...]
    start_s: float
    end_s: float = field(init=False)
    windows: list[Window] = field(default_factory=list)
    _meter: LoadMeter = field(default_factory=LoadMeter)

    def __post_init__(self) -> None:
        self.end_s = self.start_s

    def extend(self, telemetry: TelemetryReader, end_s: float) -> None:
        """Read up to `end_s`."""
        while self.end_s < end_s:
            stop_s = min(self.end_s + READ_AHEAD_S, end_s)
            self._read(telemetry, stop_s)
            self.end_s = stop_s

    def forget_before(self, start_s: float) -> None:
        """Drop windows that no baseline needs any more."""
        if start_s > self.start_s:
            self.windows = [window for window in self.windows if window.start_s >= start_s]
            self.start_s = start_s

    def _read(self, telemetry: TelemetryReader, stop_s: float) -> None:
        start, stop = instant(self.end_s), instant(stop_s)
        tails: dict[float, dict[str, dict[str, Tail]]] = {}
        for metric in self.metrics:
            found = telemetry.histograms(
                metric, start, stop, by=(PROMPT_BUCKET.label,), where=self.where, step_s=WINDOW_S
            )
            for series in found:
                bucket = series.labels.get(PROMPT_BUCKET.label, "")
                for time, sketch in series.steps:
                    tails.setdefault(time.timestamp(), {}).setdefault(metric, {})[bucket] = Tail.of(sketch)
        finished = self._finished(telemetry, start, stop) if tails else {}
        in_flight = self._in_flight(telemetry, start, stop) if tails else {}
        for step in range(round((stop_s - self.end_s) / WINDOW_S)):
            at = self.end_s + step * WINDOW_S
            load = self._meter.push(at, finished.get(at, {}), in_flight.get(at, {}))
            if at in tails:
                self.windows.append(Window(at, load, tails[at]))

    def _finished(self, telemetry: TelemetryReader, start: datetime, stop: datetime) -> dict[float, dict[str, int]]:
        counts: dict[float, dict[str, int]] = {}
        for sums in telemetry.scalars(REQUESTS.short, start, stop, by=(NODE.label,), where=self.where, step_s=WINDOW_S):
            for time, value in sums.steps:
                counts.setdefault(time.timestamp(), {})[sums.labels.get(NODE.label, "")] = round(value)
        # A sender without the counter is counted by its histograms, which are a lot more to read.
        for metric in () if counts else (E2E.short, TTFT.short):
            for series in telemetry.histograms(
                metric, start, stop, by=(NODE.label,), where=self.where, step_s=WINDOW_S
            ):
                for time, sketch in series.steps:
                    counts.setdefault(time.timestamp(), {})[series.labels.get(NODE.label, "")] = sketch.count
            if counts:
                break
        return counts

    def _in_flight(self, telemetry: TelemetryReader, start: datetime, stop: datetime) -> dict[float, dict[str, float]]:
        values: dict[float, dict[str, float]] = {}
        for metric in (RUNNING.short, WAITING.short):
            for series in telemetry.scalars(metric, start, stop, by=(NODE.label,), where=self.where, step_s=WINDOW_S):
                node = series.labels.get(NODE.label, "")
                for time, value in series.steps:
                    at = values.setdefault(time.timestamp(), {})
                    at[node] = at.get(node, 0.0) + value
        return values


def instant(seconds: float) -> datetime:
    """Seconds since the epoch as a datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
