"""A sparkline: one line so small that it stands in a sentence, with its last value and where it usually is.

Pure. Guarantee: its axis begins at zero, so that a line twice as high is twice the value; what it shows is also said.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from web.drawing.axes import Axis
from web.drawing.curves import Points, path
from web.frame.format import seconds

WIDTH, HEIGHT, MARGIN = 120.0, 28.0, 3.0
"""In pixels. The margin has room for the dot at the line's end."""


@dataclass(frozen=True)
class Baseline:
    """Where a value usually is, in seconds: between `low` and `high`, `middle` as a rule."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Dot:
    """The last value, in pixels. `beyond`: it is above the baseline, and has another shape."""

    x: float
    y: float
    beyond: bool


@dataclass(frozen=True)
class Band:
    """The baseline, in pixels from the top."""

    y: float
    height: float


@dataclass(frozen=True)
class Sparkline:
    """All that the template writes. `dot` and `band` are None where there is no value and no baseline."""

    path: str
    dot: Dot | None
    band: Band | None
    sentence: str


def sparkline(
    name: str, points: Points, start_s: float, end_s: float, step_s: float, baseline: Baseline | None = None
) -> Sparkline:
    """Of `points` (seconds since 1970, seconds of latency) from `start_s` to `end_s`; a gap of the data is one here."""
    highest = max([value for _, value in points] + ([baseline.high] if baseline else []), default=0.0)
    across = Axis(start_s, end_s, MARGIN, WIDTH - 2 * MARGIN)
    up = Axis(0.0, highest or 1.0, HEIGHT - MARGIN, 2 * MARGIN - HEIGHT)
    dot = None
    if points:
        time, last = points[-1]
        dot = Dot(across.at(time), up.at(last), baseline is not None and last > baseline.high)
    band = None if baseline is None else Band(up.at(baseline.high), up.at(baseline.low) - up.at(baseline.high))
    return Sparkline(path(points, across, up, step_s), dot, band, _sentence(name, points, baseline))


def _sentence(name: str, points: Sequence[tuple[float, float]], baseline: Baseline | None) -> str:
    """Such as "p99 1.65 s, was 1.20 s"."""
    if not points:
        return f"{name}: no data"
    now = f"{name} {seconds(points[-1][1])}"
    return now if baseline is None else f"{now}, was {seconds(baseline.middle)}"
