"""Exact values from traces and buckets from /metrics of the same requests, each request counted once. Pure.

vLLM's histograms count every request; a trace tells one request's values exactly, some seconds later. So the growth of
the histograms that traces tell too is held back for a while; a traced value is taken out of it and counted exactly;
what is left when its time is over was never traced, and is counted in its bucket.

Guarantee: of every metric, traced values counted plus bucket counts handed out add up to what vLLM's histogram grew by,
whatever order they come in and whether a trace is late, lost or was never sent. Trace values win where both are there
in time; one that comes too late for that is passed over, as it was counted in its bucket.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from agents.backends.vllm.measures.growth import Buckets

HELD_S = 20.0
"""How long a bucket count waits for its trace. OpenTelemetry's batches leave each 5 s (BatchSpanProcessor)."""


@dataclass
class _Held:
    """Growth that a reading at `time` told."""

    time: float
    buckets: dict[str, Buckets]


class TracedMerge:
    """`read_at`: time of the last reading; traced values up to it are in the growth told so far."""

    def __init__(self, read_at: float) -> None:
        self.read_at = read_at
        self._held: deque[_Held] = deque()
        self._ahead: dict[str, list[float]] = {}

    def grown(self, time_s: float, buckets: Mapping[str, Buckets]) -> None:
        """A reading told this growth. Values that were counted ahead of it are taken out."""
        kept = {short: Buckets(one.bounds, list(one.counts), one.total) for short, one in buckets.items()}
        held = _Held(time_s, kept)
        for short, values in self._ahead.items():
            values[:] = [value for value in values if not _take(held, short, value)]
        if any(one.count for one in kept.values()):
            self._held.append(held)
        self.read_at = time_s

    def forget_ahead(self) -> None:
        """The server was restarted: what it counted after its last reading is in no reading to come."""
        self._ahead.clear()

    def count(self, short: str, value: float, at: float) -> bool:
        """Does this traced value, observed by vLLM at `at`, count? False: it is in a bucket that was handed out."""
        if any(_take(held, short, value) for held in self._held):
            return True
        if at <= self.read_at:
            return False
        self._ahead.setdefault(short, []).append(value)
        return True

    def due(self, now_s: float, held_s: float) -> list[tuple[str, Buckets]]:
        """What has waited `held_s` without a trace; it is handed out once."""
        found: dict[tuple[str, tuple[float, ...]], Buckets] = {}
        while self._held and self._held[0].time <= now_s - held_s:
            for short, one in self._held.popleft().buckets.items():
                if one.count == 0:
                    continue
                known = found.setdefault((short, one.bounds), Buckets(one.bounds, [0] * len(one.counts), 0.0))
                known.counts = [a + b for a, b in zip(known.counts, one.counts, strict=True)]
                known.total += one.total
        return [(short, _within(one)) for (short, _), one in found.items()]

    def state(self) -> dict[str, Any]:
        """As JSON has it; `restored` makes it again."""
        held = [
            [one.time, {short: [list(b.bounds), b.counts, b.total] for short, b in one.buckets.items() if b.count}]
            for one in self._held
        ]
        return deepcopy({"read_at": self.read_at, "held": held, "ahead": self._ahead})

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "TracedMerge":
        """Raises KeyError, TypeError or ValueError when it is no state."""
        made = cls(float(state["read_at"]))
        for time_s, buckets in state["held"]:
            kept = {
                short: Buckets(tuple(bounds), list(counts), total) for short, (bounds, counts, total) in buckets.items()
            }
            made._held.append(_Held(float(time_s), kept))
        made._ahead = {short: [float(value) for value in values] for short, values in state["ahead"].items()}
        return made


def _take(held: _Held, short: str, value: float) -> bool:
    one = held.buckets.get(short)
    if one is None:
        return False
    place = bisect_left(one.bounds, value)
    if one.counts[place] == 0:
        return False
    one.counts[place] -= 1
    one.total -= value
    return True


def _within(one: Buckets) -> Buckets:
    """The sum within what the buckets allow: a value may have been taken out in place of another of its bucket."""
    one.total = max(one.total, sum(count * edge for count, edge in zip(one.counts, (0.0, *one.bounds), strict=True)))
    if one.counts[-1] == 0:
        one.total = min(one.total, sum(count * edge for count, edge in zip(one.counts, one.bounds, strict=False)))
    return one
