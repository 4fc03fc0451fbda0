"""A request's cumulative points to rows, given what is remembered of their series.

Guarantee: a series' state moves on only where its point was counted (or says that nothing was added): what is refused
here is in the difference of the series' next point. The caller writes rows and `changed` states in one transaction.
"""

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.otlp import raw_point
from controlplane.telemetry.otlp.histogram_point import on_axis
from controlplane.telemetry.otlp.raw_point import RawNumber, RawPoint
from controlplane.telemetry.reports.column_builder import ColumnBuilder
from controlplane.telemetry.reports.cumulative import advance
from controlplane.telemetry.values.columns import Columns
from controlplane.telemetry.values.refusal import Refusals, Refused

time_of = raw_point.time_of
"""When the point of a state was taken. A state may be forgotten only when that is older than what is accepted."""


@dataclass(frozen=True, slots=True)
class CumulativePoint:
    """key: of the series (resource, scope, metric, attributes, kind of data), 64 bits; metric, labels: places in the
    report's table; name: the metric's, for messages."""

    key: int
    metric: int
    labels: int
    name: str
    point: RawPoint


@dataclass
class CumulativeRows:
    """columns: what was added, in the report's local numbers; changed: states to be written, by series key."""

    columns: Columns = field(default_factory=Columns.empty)
    changed: dict[int, bytes] = field(default_factory=dict)
    counted: int = 0
    repeated: int = 0
    resets: int = 0


def advance_all(
    points: Sequence[CumulativePoint],
    states: MutableMapping[int, bytes],
    kept_from_ns: int,
    refusals: Refusals,
) -> CumulativeRows:
    """All points of a report, each series' in the order of time. `states` is brought up to date in place.

    kept_from_ns: where a series is new, what it has counted since an earlier start than this is not counted.
    """
    builder = ColumnBuilder()
    found = CumulativeRows()
    for one in sorted(points, key=lambda one: one.point.time_ns):
        try:
            advanced = advance(states.get(one.key), one.point, kept_from_ns)
            if advanced.delta is not None:
                _add(builder, one, advanced.delta, refusals)
        except Refused as refused:
            refusals.add(refused.reason, _named(one.name, refused.message))
            continue
        if advanced.repeated:
            found.repeated += 1
            continue
        states[one.key] = found.changed[one.key] = advanced.state
        found.counted += 1
        found.resets += advanced.was_reset
    found.columns = builder.columns()
    return found


def _add(builder: ColumnBuilder, one: CumulativePoint, delta: RawPoint, refusals: Refusals) -> None:
    identity = (0, delta.start_ns, delta.time_ns, one.key)
    if isinstance(delta, RawNumber):
        builder.number(MetricKind.SUM, one.metric, one.labels, float(delta.value), identity)
    else:
        builder.histogram(one.metric, one.labels, on_axis(one.name, delta, refusals), identity)


def _named(name: str, message: str) -> str:
    return message if message.startswith(name) else f"{name}: {message}"
