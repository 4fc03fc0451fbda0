"""A counter and a log of what was wrong in agents' reports, once for each change of what is wrong with a node's.

Guarantee: an agent that says the same wrong thing for ever costs one line, and is counted each time.
"""

import logging
from collections.abc import Iterable, Sequence

from cachetools import LRUCache
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from controlplane.fleet.enrolling.minute_pace import Pace

logger = logging.getLogger(__name__)

NODES_REMEMBERED = 4096


class LeftOut(Collector):
    """Of one process; called on its event loop."""

    def __init__(self, events: Pace, enrolments: Pace) -> None:
        self._count = 0
        self._events, self._enrolments = events, enrolments
        self._said: LRUCache[str, Sequence[str]] = LRUCache(NODES_REMEMBERED)

    def note(self, node: str, problems: Sequence[str]) -> None:
        """`problems` of one report: what of it was not taken; none: it was whole."""
        self._count += len(problems)
        before = self._said.pop(node, ())
        if not problems:
            return
        self._said[node] = problems
        if problems != before:
            logger.warning("node %s: parts of its report were left out: %s", node, "; ".join(problems))

    def collect(self) -> Iterable[CounterMetricFamily]:
        yield CounterMetricFamily(
            "tailwright_opamp_parts_left_out", "Parts of agents' reports that were wrong and left out.", self._count
        )
        yield CounterMetricFamily(
            "tailwright_opamp_events_left_out",
            "What agents said of configurations, too often in a minute for the ledger.",
            self._events.left_out,
        )
        yield CounterMetricFamily(
            "tailwright_enrolments_put_off", "Enrolments, too many in a minute by one token.", self._enrolments.left_out
        )
