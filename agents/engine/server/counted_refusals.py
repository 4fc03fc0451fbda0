"""Requests that were refused: counted by limit for /metrics, and told to the event log as lost.

Guarantee: what was turned away at the door, before there was anything to end, is one event of the log with the number
of its answers; what was queued first tells its own end (`Generation.end`), and is only counted by limit here.
"""

import time
from collections import Counter

from agents.engine.core.engine import Engine
from controlplane.contract.errors import TailwrightError
from controlplane.contract.reports import finish_reasons


class Refusals:
    """The event loop's."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, failure: TailwrightError) -> None:
        """Counts failures that say by which limit; others are not refusals."""
        if degraded := failure.detail.get("degraded"):
            self.counts[degraded["reason"]] += 1

    def turned_away(self, failure: TailwrightError, answers: int, engine: Engine) -> None:
        """A request for so many answers got none, by the engine's doing: it has no latency, but it counts."""
        self.note(failure)
        engine.log.append(
            {
                "kind": "counts",
                "time": time.time(),
                "revision": engine.steps.revision,
                "counts": {},
                "requests": {finish_reasons.REFUSED: answers},
            }
        )
