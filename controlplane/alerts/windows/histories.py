"""The histories of all pools that a regression rule looks at.

Guarantee: pools whose filters allow it are read together, in one read a metric however many they are; one that lags
behind, or whose nodes are told apart, is read by itself. Where reading together fails each is tried alone, so that no
pool's failure costs another its history.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from controlplane.alerts.windows.history import READ_AHEAD_S, History, Where, extend
from controlplane.contract.metrics import POOL, PROMPT_BUCKETS, WINDOW_S
from controlplane.telemetry import TelemetryReader

log = logging.getLogger(__name__)

SKETCHES_AT_ONCE = 2_500
"""Of one metric in one answer: 8 kB each."""
MISSING_S = 3600.0
"""A history that begins so much later than what is wanted and readable is read anew."""


class Wanted(NamedTuple):
    """A pool's filter, the metrics (short names), and from when on (seconds since the epoch) its windows are wanted and
    can be read.

    nodes: whose windows are to be read from now on, what is read already staying as it is; None: all of the filter's.
    """

    where: Where
    metrics: tuple[str, ...]
    first_s: float
    readable_s: float
    nodes: Sequence[str] | None = None


class Histories:
    """`extend` at each tick."""

    def __init__(self, telemetry: TelemetryReader) -> None:
        self._telemetry = telemetry
        self._of: dict[str, History] = {}

    def get(self, pool: str) -> History | None:
        """None when there is none, or when telemetry could not be read."""
        return self._of.get(pool)

    def extend(self, wanted: Mapping[str, Wanted], end_s: float) -> None:
        """Bring the histories of these pools up to `end_s`."""
        for pool, one in wanted.items():
            known = self._of.get(pool)
            if (
                known is None
                or (known.where, known.metrics) != (one.where, one.metrics)
                or one.readable_s < known.start_s - MISSING_S
            ):
                self._of[pool] = History(one.where, one.metrics, one.readable_s)
            self._of[pool].read_on_of(one.nodes)
        for group in _groups([self._of[pool] for pool in sorted(wanted)], end_s):
            self._extend(group, end_s)
        for pool, one in wanted.items():
            if pool in self._of:
                self._of[pool].forget_before(one.first_s)

    def _extend(self, group: Sequence[History], end_s: float) -> None:
        try:
            extend(self._telemetry, group, end_s)
        except Exception:
            if len(group) > 1:
                log.warning("telemetry of %d pools could not be read together, each is tried alone", len(group))
                for history in group:
                    self._extend([history], end_s)
                return
            del self._of[group[0].pool]
            log.exception("telemetry of pool %r could not be read", group[0].pool)


def shareable(where: Where) -> bool:
    """Whether a pool may be read together with others: all of its nodes count."""
    return set(where) == {POOL.label}


def _groups(histories: Sequence[History], end_s: float) -> Iterator[list[History]]:
    """Those that are behind, together where they may be: of the same metrics up to now."""
    ends: dict[tuple[float, tuple[str, ...]], list[History]] = {}
    for history in histories:
        if history.end_s >= end_s:
            continue
        if history.nodes is None and shareable(history.where):
            ends.setdefault((history.end_s, history.metrics), []).append(history)
        else:
            yield [history]
    for (at_s, _), behind in ends.items():
        windows = math.ceil(min(end_s - at_s, READ_AHEAD_S) / WINDOW_S)
        most = max(1, SKETCHES_AT_ONCE // (windows * len(PROMPT_BUCKETS)))
        for start in range(0, len(behind), most):
            yield behind[start : start + most]
