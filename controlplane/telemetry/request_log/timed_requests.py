"""The log's requests of a span with their parts and their nodes' states: what a slowdown is taken apart by.

Guarantee: a request is here where its value is in the histograms of the span, but for what is beyond the log.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from sqlalchemy import Connection
from sqlmodel import col

from controlplane.telemetry.question import Free, Where
from controlplane.telemetry.reader import CodedStates, TelemetryReader, TimedRequests
from controlplane.telemetry.reports.exemplar import NOT_COUNTED
from controlplane.telemetry.request_log.node_states import node_states
from controlplane.telemetry.request_log.request_columns import RequestColumns, read_columns
from controlplane.telemetry.request_log.request_filter import (
    FACETS,
    TIMED,
    RequestFilter,
    completed_in,
    seconds_of,
    with_labels,
)
from controlplane.telemetry.tables import RequestRow
from controlplane.telemetry.values.timespan import Span

MOST = 20_000
NONE = TimedRequests(0, np.zeros(0, np.int64), {}, {})


def columns_of(connection: Connection, metric: str, span: Span, where: Where) -> RequestColumns | None:
    """None for a metric or a label that no request has."""
    if metric not in TIMED or not set(where) <= set(FACETS):
        return None
    labels: dict[str, Sequence[str]] = {
        label: [value] if isinstance(value, str) else list(value) for label, value in where.items()
    }
    if any(label == "revision" and not value.isdecimal() for label, values in labels.items() for value in values):
        return None
    wanted, dialect = RequestFilter(labels, metric), connection.dialect.name
    conditions = [
        completed_in(metric, span, None, dialect),
        seconds_of(metric, dialect).is_not(None),
        col(RequestRow.finish_reason).not_in(sorted(NOT_COUNTED)),
        *with_labels(wanted),
    ]
    return read_columns(connection, conditions, Free(), with_timings=True, most=MOST)


def with_states(reader: TelemetryReader, found: RequestColumns | None, metric: str, now: datetime) -> TimedRequests:
    if found is None or not len(found):
        return NONE
    order = np.argsort(found.arrival_ns, kind="stable")
    states = node_states(reader, found, metric, now, Free())
    return TimedRequests(
        found.found,
        found.arrival_ns[order],
        {name: values[order] for name, values in found.parts.items()},
        {name: CodedStates(coded.names, coded.codes[order]) for name, coded in states.items()},
    )
