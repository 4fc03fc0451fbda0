"""What the two arms of a canary did, read from telemetry, window by window. Reads, decides nothing."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from controlplane.contract.metrics import (
    FINISH_REASON,
    NODE,
    PROMPT_BUCKET,
    REQUESTS,
    REVISION,
    WINDOW_S,
)
from controlplane.rollouts.judge import ErrorWindow
from controlplane.rollouts.stream import Window
from controlplane.telemetry.reader import TelemetryReader
from controlplane.telemetry.sketch import Sketch

FAILED = "error"
"""The finish reason of a request that the engine failed; an abort is its client's doing."""


@dataclass(frozen=True)
class Arm:
    """Some nodes while they run one revision. `labels`: the values of the label `revision` that this shows under."""

    nodes: tuple[str, ...]
    labels: frozenset[str]


@dataclass
class Tick:
    """One telemetry window of both arms."""

    windows: dict[str, Window] = field(default_factory=dict)  # By metric.
    errors: ErrorWindow | None = None


def window_floor(time: datetime) -> datetime:
    """The start of the telemetry window that `time` lies in."""
    return datetime.fromtimestamp(math.floor(time.timestamp() / WINDOW_S) * WINDOW_S, UTC)


def window_ceiling(time: datetime) -> datetime:
    """The first start of a telemetry window at or after `time`."""
    floor = window_floor(time)
    return floor if floor == time else floor + timedelta(seconds=WINDOW_S)


def ticks(
    telemetry: TelemetryReader,
    metrics: Sequence[str],
    control: Arm,
    canary: Arm,
    start: datetime,
    end: datetime,
) -> list[tuple[datetime, Tick]]:
    """The windows in [start, end) in which at least one arm has data, in order of time."""
    found: dict[datetime, Tick] = {}
    for metric in metrics:
        for arm, is_canary in ((control, False), (canary, True)):
            for time, bucket, sketch in _sketches(telemetry, metric, arm, start, end):
                window = found.setdefault(time, Tick()).windows.setdefault(metric, Window())
                side = window.canary if is_canary else window.control
                side.setdefault(bucket, Sketch()).merge(sketch)
    for arm, is_canary in ((control, False), (canary, True)):
        for time, finished, failed in _finished(telemetry, arm, start, end):
            tick = found.setdefault(time, Tick())
            tick.errors = tick.errors or ErrorWindow()
            if is_canary:
                tick.errors.canary += finished
                tick.errors.canary_errors += failed
            else:
                tick.errors.control += finished
                tick.errors.control_errors += failed
    return sorted(found.items(), key=lambda item: item[0])


def _sketches(
    telemetry: TelemetryReader, metric: str, arm: Arm, start: datetime, end: datetime
) -> list[tuple[datetime, str, Sketch]]:
    if not arm.nodes:
        return []
    answer = telemetry.histograms(
        metric, start, end, by=(REVISION.label, PROMPT_BUCKET.label), where={NODE.label: arm.nodes}, step_s=WINDOW_S
    )
    return [
        (time, series.labels.get(PROMPT_BUCKET.label, ""), sketch)
        for series in answer
        if _belongs(series.labels, arm.labels)
        for time, sketch in series.steps
    ]


def _finished(telemetry: TelemetryReader, arm: Arm, start: datetime, end: datetime) -> list[tuple[datetime, int, int]]:
    if not arm.nodes:
        return []
    answer = telemetry.scalars(
        REQUESTS.short,
        start,
        end,
        by=(REVISION.label, FINISH_REASON.label),
        where={NODE.label: arm.nodes},
        step_s=WINDOW_S,
    )
    return [
        (time, round(value), round(value) if series.labels.get(FINISH_REASON.label) == FAILED else 0)
        for series in answer
        if _belongs(series.labels, arm.labels)
        for time, value in series.steps
    ]


def _belongs(found: dict[str, str], wanted: Collection[str]) -> bool:
    # A sender that does not label its revisions is told apart by its nodes and by time alone.
    return found.get(REVISION.label, "") in wanted
