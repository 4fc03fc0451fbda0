"""Reads what an attribution is made of: histograms by each label, and single requests with their parts. Reads only."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.diagnosis.shift_parts import Grouped, ReadShift
from controlplane.alerts.windows.history import Where
from controlplane.contract.histogram import AXIS_LENGTH, axis_position
from controlplane.contract.metrics import (
    CACHE_CLASS,
    NODE,
    PROMPT_BUCKET,
    REQUEST_PARTS,
    REVISION,
    TENANT,
    TTFT,
    UNACCOUNTED,
    WINDOW_S,
)
from controlplane.evidence.shifts.tail_parts import Timed
from controlplane.telemetry import Question, Span, TelemetryReader, TimedRequests

LABELS = tuple(one.label for one in (NODE, PROMPT_BUCKET, CACHE_CLASS, TENANT, REVISION))
BLOCKS = 12
"""Blocks of time, on each side, by which intervals are known."""
MOST_VALUES = 32
"""Of a label, those with the most slow requests; the others are told together."""
OF_TTFT = ("receive", "tokenize", "queue", "prefill")
OF_E2E = tuple(part.short for part in (*REQUEST_PARTS, UNACCOUNTED))
Counts = NDArray[np.int64]


def read_shift(
    telemetry: TelemetryReader, where: Where, metric: str, q: float, before: Span, during: Span
) -> ReadShift:
    """Of the metric's requests that `where` lets in."""
    grouped = [_by_label(telemetry, where, metric, label, before, during) for label in LABELS if label not in where]
    requests = [telemetry.timed_requests(metric, span, where) for span in (before, during)]
    grouped += [_by_state(state, metric, requests, before, during) for state in ("step_limit", "host_state")]
    stages = OF_TTFT if metric == TTFT.short else OF_E2E if metric == "e2e" else ()
    timed = [_timed(one, metric, stages) if stages else None for one in requests]
    question = Question(metric, Span(before.start, during.end), where=where, step_s=WINDOW_S)
    steps = [step for series in telemetry.histograms(question) for step in series.steps]
    usual = sum(time < during.start for time, _ in steps)
    return ReadShift(
        metric=metric,
        q=q,
        grouped=[one for one in grouped if one is not None],
        stages=stages,
        before_requests=timed[0],
        during_requests=timed[1],
        tick_times=[time for time, _ in steps],
        ticks=[sketch for _, sketch in steps],
        usual=usual,
    )


def _by_label(
    telemetry: TelemetryReader, where: Where, metric: str, label: str, before: Span, during: Span
) -> Grouped | None:
    sides = []
    for span in (before, during):
        # Steps are whole windows; a side that is shorter than its blocks has fewer of them.
        step_s = WINDOW_S * max(round(span.seconds / BLOCKS / WINDOW_S), 1)
        (found,) = telemetry.sketches([Question(metric, span, (label,), where, step_s)])
        sides.append((found, _blocks(found.times)))
    names = sorted({labels.get(label, "") for found, _ in sides for labels in found.labels})
    if len(names) < 2:
        return None
    places = {name: place for place, name in enumerate(names)}
    counts = []
    for found, (blocks, of_row) in sides:
        made = np.zeros((blocks, len(names), AXIS_LENGTH), np.int64)
        table = found.by_step
        for number, labels in enumerate(found.labels):
            for row in range(found.starts[number], found.starts[number + 1]):
                made[of_row[row], places[labels.get(label, "")], table.low : table.low + table.counts.shape[1]] += (
                    table.counts[row]
                )
        counts.append(made)
    return _reduced(Grouped(label, [name or NOT_TOLD for name in names], counts[0], counts[1]))


NOT_TOLD = "not told"


def _blocks(times: Sequence[datetime]) -> tuple[int, list[int]]:
    """How many distinct times, and of each row its place among them."""
    order = {time: place for place, time in enumerate(sorted(set(times)))}
    return len(order), [order[time] for time in times]


def _reduced(found: Grouped) -> Grouped:
    """The values that most of the slowest tenth are of, and all others as one that has no name."""
    if len(found.values) <= MOST_VALUES:
        return found
    both = found.before.sum(axis=0) + found.during.sum(axis=0)
    cumulative = both.sum(axis=0).cumsum()
    weight = both[:, int((cumulative < 0.9 * cumulative[-1]).sum()) :].sum(axis=1)
    most = sorted(np.argsort(-weight, kind="stable")[:MOST_VALUES].tolist())
    rest = [place for place in range(len(found.values)) if place not in most]
    sides = [
        np.concatenate([side[:, most], side[:, rest].sum(axis=1, keepdims=True)], axis=1)
        for side in (found.before, found.during)
    ]
    return Grouped(found.label, [*(found.values[place] for place in most), ""], sides[0], sides[1])


def _by_state(state: str, metric: str, requests: Sequence[TimedRequests], before: Span, during: Span) -> Grouped | None:
    names = sorted({name for one in requests if state in one.states for name in one.states[state].names})
    if len(names) < 2:
        return None
    counts = [_of_state(one, state, metric, names) for one in requests]
    if sum(bool(counts[0][:, place].any() or counts[1][:, place].any()) for place in range(len(names))) < 2:
        return None
    return Grouped(state, names, counts[0], counts[1])


def _of_state(one: TimedRequests, state: str, metric: str, names: Sequence[str]) -> Counts:
    """Blocks of equal numbers of requests, in the order of time."""
    made = np.zeros((BLOCKS, len(names), AXIS_LENGTH), np.int64)
    if state not in one.states or metric not in one.parts:
        return made
    coded, values = one.states[state], one.parts[metric]
    known = np.flatnonzero((coded.codes >= 0) & np.isfinite(values) & (values > 0.0))
    place = np.array([names.index(name) for name in coded.names], np.int64)[coded.codes[known]]
    position = np.array([axis_position(float(value)) for value in values[known]], np.int64)
    block = np.arange(len(known)) * BLOCKS // max(len(known), 1)
    np.add.at(made, (block, place, position), 1)
    return made


def _timed(one: TimedRequests, metric: str, stages: Sequence[str]) -> Timed | None:
    """Requests of which all but little is told: a part that a request lacks took no time."""
    total = one.parts.get(metric)
    if total is None:
        return None
    known = np.isfinite(total)
    nothing = np.full(len(total), np.nan)
    parts = np.stack([np.nan_to_num(one.parts.get(stage, nothing)[known]) for stage in stages], axis=1)
    if not parts.any():
        return None
    return Timed(total[known], parts)
