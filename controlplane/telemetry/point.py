"""A measurement in the store's own form."""

from typing import Any, NamedTuple

from controlplane.contract.metrics import WINDOW_S, MetricKind

WINDOW_NS = int(WINDOW_S * 1_000_000_000)


class Point(NamedTuple):
    """One point, checked and ready to be written.

    kind, metric (name on the wire), labels (canonical JSON); window: the one its last instant lies in, counted from the
    epoch; resource, start_ns, end_ns, key: who it is, for recognising repeats. values: of a histogram
    [low, counts, zero, total, minimum, maximum, error], of a number [value, time_ns].
    """

    kind: MetricKind
    metric: str
    labels: str
    window: int
    resource: int
    start_ns: int
    end_ns: int
    key: int
    values: list[Any]


def window_of(end_ns: int) -> int:
    """The window of a time span that ends at `end_ns` (spans exclude their start and include their end, as in OTLP)."""
    return (end_ns - 1) // WINDOW_NS
