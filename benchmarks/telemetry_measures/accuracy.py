"""How far quantiles are from those of the raw values: the service's, and Prometheus's beside them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.engine_measures.report import heading, note, table
from benchmarks.engine_measures.stats import quantile
from benchmarks.telemetry_measures import hour_queries
from benchmarks.telemetry_measures.accounting import balance
from benchmarks.telemetry_measures.fleet.report_bodies import node_name
from benchmarks.telemetry_measures.fleet.report_shape import BUCKETS
from benchmarks.telemetry_measures.loaded_hour import INTERVAL_S, METRIC, LoadedHour
from benchmarks.telemetry_measures.session import Session, verdict

GOAL, TYPICAL = 0.022, 0.003
_STRETCH = 30
"""Intervals of a node's stretch: five minutes."""


@dataclass(frozen=True)
class Told:
    """One quantile, three times; seconds."""

    kind: str
    exact: float
    ours: float
    theirs: float


def measure(session: Session) -> None:
    heading("Accuracy of p99 against the exact raw values")
    hour = session.hour
    found = [*_fleet(hour), *_by_bucket(hour), *_by_node(hour, 3 if session.settings.quick else 12), *_steps(hour)]
    note(
        f"Exact: numpy's quantile of all raw values of {METRIC.name} (lognormal with a second mode, "
        f"{hour.nodes} nodes, {sum(map(len, hour.raw.values)):,} values). Relative errors of the answers of "
        "GET /api/v1/quantiles, and of histogram_quantile over prometheus_client's 15 default buckets."
    )
    rows, worst, typical = [], 0.0, []
    for kind in dict.fromkeys(one.kind for one in found):
        ours = [_error(one.ours, one.exact) for one in found if one.kind == kind]
        theirs = [_error(one.theirs, one.exact) for one in found if one.kind == kind]
        worst = max(worst, *ours)
        typical += ours
        rows.append([kind, str(len(ours)), *map(_percent, _pair(ours)), *map(_percent, _pair(theirs))])
    table(["p99 of", "quantiles", "Tailwright, median", "largest", "Prometheus, median", "largest"], rows)
    middle = quantile(typical, 0.5)
    note(
        f"Largest error {_percent(worst)}, goal {_percent(GOAL)}: **{verdict(worst <= GOAL)}**; typical (median of "
        f"all) {_percent(middle)}, goal {_percent(TYPICAL)}: **{verdict(middle <= TYPICAL)}**."
    )
    told = balance(hour.service.client, hour.plan, hour.outcome)
    note(f"Every node and metric: {told.told}.")
    if not told.exact:
        session.failures.append("accuracy: counts differ from what was acknowledged")


def _fleet(hour: LoadedHour) -> Iterator[Told]:
    theirs = _theirs(hour, hour.start_s, hour.end_s)
    exact = float(np.quantile(hour.raw.of(0, hour.intervals), hour_queries.Q))
    yield Told(
        "the fleet, all of it", exact, hour_queries.ours(hour, hour.start_s, hour.end_s)[""], theirs.get("", math.nan)
    )


def _by_bucket(hour: LoadedHour) -> Iterator[Told]:
    ours = hour_queries.ours(hour, hour.start_s, hour.end_s, by="prompt_bucket")
    theirs = _theirs(hour, hour.start_s, hour.end_s, by="tailwright_prompt_bucket")
    for place, bucket in enumerate(BUCKETS):
        exact = float(np.quantile(hour.raw.of(0, hour.intervals, bucket=place), hour_queries.Q))
        yield Told("a prompt bucket, all of it", exact, ours.get(bucket, math.nan), theirs.get(bucket, math.nan))


def _by_node(hour: LoadedHour, stretches: int) -> Iterator[Told]:
    for first in range(0, min(stretches * _STRETCH, hour.intervals - _STRETCH + 1), _STRETCH):
        start, end = hour.start_s + first * INTERVAL_S, hour.start_s + (first + _STRETCH) * INTERVAL_S
        ours = hour_queries.ours(hour, start, end, by="node")
        theirs = _theirs(hour, start, end, by="node")
        values = hour.raw.of(first, first + _STRETCH)
        owners = np.concatenate(hour.raw.owners[first : first + _STRETCH]) // len(BUCKETS)
        order = np.argsort(owners, kind="stable")
        parts = np.split(values[order], np.cumsum(np.bincount(owners, minlength=hour.nodes))[:-1])
        for node, part in enumerate(parts):
            name = node_name(node)
            exact = float(np.quantile(part, hour_queries.Q))
            yield Told("a node over 5 min", exact, ours.get(name, math.nan), theirs.get(name, math.nan))


def _steps(hour: LoadedHour) -> Iterator[Told]:
    ours = hour_queries.our_series(hour, hour.start_s, hour.end_s)
    theirs = hour_queries.their_series(hour, hour.start_s, hour.end_s) if hour.rival else []
    theirs = theirs if len(theirs) == hour.intervals else [math.nan] * hour.intervals
    for interval, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        exact = float(np.quantile(hour.raw.values[interval], hour_queries.Q))
        yield Told("the fleet in a step of 10 s", exact, our, their)


def _theirs(hour: LoadedHour, start: float, end: float, by: str = "") -> dict[str, float]:
    return hour_queries.theirs(hour, start, end, by) if hour.rival else {}


def _error(told: float, exact: float) -> float:
    return abs(told - exact) / exact


def _pair(errors: list[float]) -> tuple[float, float]:
    known = [error for error in errors if error == error]
    return quantile(known, 0.5), max(known, default=math.nan)


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.2f} %"
