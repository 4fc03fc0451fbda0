"""Windows from before an accepted change of configuration, as they would have been after it. Pure.

Latencies lie on a logarithmic axis, so a change by a factor is a shift by whole buckets: counts stay exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.alerts.windows.pool_record import Move
from controlplane.contract.histogram import AXIS_LENGTH


def moved(windows: Sequence[Window], metric: str, q: float, moves: Sequence[Move]) -> list[Window]:
    """The windows, one metric's latencies shifted by every later move; those before an unmeasured one are left out."""
    return list(_moved(windows, metric, q, moves))


def _moved(windows: Sequence[Window], metric: str, q: float, moves: Sequence[Move]) -> Iterator[Window]:
    for window in windows:
        shifts = [move.shift(q) for move in moves if window.start_s < move.at_s]
        if None in shifts:
            continue
        total = sum(shift for shift in shifts if shift is not None)
        if total == 0:
            yield window
        else:
            tails = {name: shifted(tail, total) for name, tail in window.tails.get(metric, {}).items()}
            yield replace(window, tails={metric: tails} if tails else {})


def shifted(tail: Tail, buckets: int) -> Tail:
    """The histogram `buckets` further up the axis, or as far as the axis goes."""
    return replace(tail, low=min(max(tail.low + buckets, 0), max(AXIS_LENGTH - tail.tail.size, 0)))
