"""What the two arms of a canary did, read from telemetry, window by window. Reads, decides nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from controlplane.contract.metrics import (
    CACHE_CLASS,
    DELIVERED_TOKENS,
    FINISH_REASON,
    ITL,
    NODE,
    PROMPT_BUCKET,
    REQUESTS,
    REVISION,
    WINDOW_S,
)
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.served import Outcomes
from controlplane.telemetry import Question, Span, TelemetryReader

READ_S = 900.0
"""Read of the store at once."""


@dataclass(frozen=True)
class Arm:
    """Some nodes while they run one revision. `labels`: the values of the label `revision` that this shows under; None:
    whatever they run. `where`: what other labels must be.

    `unlabelled_from`: what a sender reports without a revision counts from here on; None: at any time.
    """

    nodes: tuple[str, ...]
    labels: frozenset[str] | None
    unlabelled_from: datetime | None = None
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """What is asked of telemetry; the revision is looked at afterwards."""
        return {**self.where, NODE.label: self.nodes}


@dataclass
class Tick:
    """One telemetry window of both arms."""

    windows: dict[str, Window] = field(default_factory=dict)  # By metric.
    outcomes: Outcomes | None = None


def window_floor(time: datetime) -> datetime:
    """The start of the telemetry window that `time` lies in."""
    return datetime.fromtimestamp(math.floor(time.timestamp() / WINDOW_S) * WINDOW_S, UTC)


def window_ceiling(time: datetime) -> datetime:
    """The first start of a telemetry window at or after `time`."""
    floor = window_floor(time)
    return floor if floor == time else floor + timedelta(seconds=WINDOW_S)


def ticks(
    telemetry: TelemetryReader, metrics: Sequence[str], control: Arm, canary: Arm, span: Span
) -> list[tuple[datetime, Tick]]:
    """The windows in a span in which at least one arm has data, in order of time."""
    found: dict[datetime, Tick] = {}
    for metric in metrics:
        for arm, is_canary in ((control, False), (canary, True)):
            for time, bucket, sketch in _sketches(telemetry, metric, arm, span):
                window = found.setdefault(time, Tick()).windows.setdefault(metric, Window())
                side = window.canary if is_canary else window.control
                side.setdefault(bucket, Sketch()).merge(sketch)
    for arm, is_canary in ((control, False), (canary, True)):
        for time, labels, value in _sums(telemetry, REQUESTS.short, FINISH_REASON.label, arm, span):
            tick = found.setdefault(time, Tick())
            tick.outcomes = tick.outcomes or Outcomes()
            tick.outcomes.add(labels.get(FINISH_REASON.label, ""), value, is_canary=is_canary)
    if ITL.short in metrics:
        for arm, is_canary in ((control, False), (canary, True)):
            for time, _, tokens in _sums(telemetry, DELIVERED_TOKENS.short, PROMPT_BUCKET.label, arm, span):
                window = found.setdefault(time, Tick()).windows.setdefault(ITL.short, Window())
                if is_canary:
                    window.canary_tokens += tokens
                else:
                    window.control_tokens += tokens
    return sorted(found.items(), key=lambda item: item[0])


def every_tick(telemetry: TelemetryReader, metrics: Sequence[str], control: Arm, canary: Arm, span: Span) -> list[Tick]:
    """Every window of a span, read a part at a time."""
    found: list[Tick] = []
    start = span.start
    while start < span.end:
        part = Span(start, min(span.end, start + timedelta(seconds=READ_S)))
        found += contiguous(ticks(telemetry, metrics, control, canary, part), part)
        start = part.end
    return found


def contiguous(found: Sequence[tuple[datetime, Tick]], span: Span) -> list[Tick]:
    """Every window of a span in order; one without data is empty. span: from a window's start to another's."""
    by_time = dict(found)
    count = round((span.end - span.start).total_seconds() / WINDOW_S)
    times = [span.start + timedelta(seconds=WINDOW_S * place) for place in range(count)]
    return [by_time.get(time) or Tick() for time in times]


def _sketches(telemetry: TelemetryReader, metric: str, arm: Arm, span: Span) -> list[tuple[datetime, str, Sketch]]:
    if not arm.nodes:
        return []
    by = (REVISION.label, PROMPT_BUCKET.label, CACHE_CLASS.label)
    question = Question(metric, span, by, arm.filters, WINDOW_S)
    return [
        (time, _stratum(series.labels), sketch)
        for series in telemetry.histograms(question)
        for time, sketch in series.steps
        if _belongs(series.labels, time, arm)
    ]


def _stratum(labels: Mapping[str, str]) -> str:
    """See `Window`."""
    return f"{labels.get(PROMPT_BUCKET.label, '')} {labels.get(CACHE_CLASS.label, '')}".rstrip()


def _sums(
    telemetry: TelemetryReader, metric: str, label: str, arm: Arm, span: Span
) -> list[tuple[datetime, dict[str, str], int]]:
    """What an arm's nodes counted, with the value of `label`."""
    if not arm.nodes:
        return []
    question = Question(metric, span, (REVISION.label, label), arm.filters, WINDOW_S)
    return [
        (time, series.labels, round(value))
        for series in telemetry.scalars(question)
        for time, value in series.steps
        if _belongs(series.labels, time, arm)
    ]


def _belongs(found: dict[str, str], time: datetime, arm: Arm) -> bool:
    # A sender that does not label its revisions is told apart by its nodes and by time alone.
    revision = found.get(REVISION.label, "")
    if arm.labels is not None and revision not in arm.labels:
        return False
    return bool(revision) or arm.unlabelled_from is None or time >= arm.unlabelled_from
