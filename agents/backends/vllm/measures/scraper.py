"""Turns readings of /metrics, and traces where vLLM sends them, into the contract's numbered events. No I/O.

Guarantee: numbers rise by one within a course (`boot`); a server that started anew begins another course. Whatever
vLLM's counters and histograms grew by is told once, over failed readings, restarts of the server and of the agent.
What was counted before the first reading ever, and in a pause of over `LONGEST_GAP_S`, is left out: it would show old
latencies as present ones.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agents.backends.base import Position
from agents.backends.vllm.measures.growth import Buckets, continued, growth, restarted
from agents.backends.vllm.measures.merge import HELD_S, TracedMerge
from agents.backends.vllm.measures.scrape_memory import Point, ScrapeMemory
from agents.backends.vllm.measures.scrape_reading import Reading
from agents.backends.vllm.measures.traced_request import TracedRequest
from controlplane.contract import metrics
from controlplane.contract.reports.engine_event import EngineEvent, Hello

log = logging.getLogger(__name__)

BOOT_PREFIX = "scrape-"
LONGEST_GAP_S = 300.0
EARLY_S = 1.0
"""So much too early at most a process tells that it began: Linux says the machine's own start in whole seconds. Nobody
serves so soon after it."""
TRACED_METRICS = frozenset(
    one.short for one in (metrics.TTFT, metrics.E2E, metrics.TPOT, metrics.QUEUE, metrics.PREFILL, metrics.DECODE)
)
"""Those that a trace tells too."""


def is_scraped(position: Position) -> bool:
    """Was this position reached by reading /metrics?"""
    return position.boot.startswith(BOOT_PREFIX)


class Scraper:
    """One server's course of readings. `begin`, then `read` and `traced` in any order."""

    def __init__(self, memory: ScrapeMemory, new_boot: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
        self._memory = memory
        self._new_boot = new_boot
        self._boot = ""
        self._seq = 0
        self._before: Reading | None = None
        self._merge = TracedMerge(0.0)

    @property
    def position(self) -> Position:
        """Behind all that was told."""
        return Position(self._boot, self._seq)

    def counted_until(self, position: Position) -> float:
        """Until when vLLM's statistics were counted at a scraped position, Unix seconds; now, if that is forgotten."""
        if position == self.position and self._before is not None:
            return self._before.time
        point = self._memory.find(position)
        return time.time() if point is None else point.reading.time

    def begin(self, position: Position | None, now: Reading, counted_until: float | None) -> Hello:
        """Go on from a position. `counted_until`: until when this server's statistics were counted in another way."""
        if position is None or position != self.position:
            point = self._memory.resume(position) if position is not None else None
            if point is not None:
                self._boot, self._seq, self._before = point.boot, point.seq, point.reading
                self._merge = TracedMerge.restored(point.merge)
            else:
                self._boot, self._seq = BOOT_PREFIX + self._new_boot(), 0
                self._before = _first(now, counted_until)
                self._merge = TracedMerge(now.time if self._before is None else self._before.time)
        if self._before is not None and now.time - self._before.time > LONGEST_GAP_S:
            left_out = growth(self._before, now).requests
            log.warning("vLLM's metrics were not read for %.0f s: %s requests are not counted",
                        now.time - self._before.time, sum(left_out.values()))  # fmt: skip
            self._before = now
            self._merge = TracedMerge(now.time)
        return self._hello(now)

    def read(self, now: Reading, revision: int, *, tracing: bool) -> list[Hello | EngineEvent]:
        """What this reading tells. `tracing`: traces come too, so what they tell waits for them a while."""
        told: list[Hello | EngineEvent] = []
        before = self._before
        if before is not None and restarted(before, now):
            told += self._numbered(_buckets(now.time, revision, self._merge.due(now.time, 0.0)))
            self._merge.forget_ahead()
            self._boot, self._seq = BOOT_PREFIX + self._new_boot(), 0
            told.append(self._hello(now))
        grown = growth(before, now)
        self._before = now if before is None else continued(before, now)
        both = {short: one for short, one in grown.buckets.items() if short in TRACED_METRICS}
        self._merge.grown(now.time, both)
        buckets = [(short, one) for short, one in grown.buckets.items() if short not in both]
        buckets += self._merge.due(now.time, HELD_S if tracing else 0.0)
        head = {"time": now.time, "revision": revision}
        made = list(_buckets(now.time, revision, buckets))
        if grown.counts or grown.requests:
            made.append({"kind": "counts", **head, "counts": grown.counts, "requests": grown.requests})
        if now.gauges.keys() >= {"running", "waiting", "kv_usage"}:
            made.append({"kind": "step", **head, **_present(now.gauges)})
        told += self._numbered(made)
        self._keep()
        return told

    def traced(self, requests: Iterable[TracedRequest], revision: int) -> list[EngineEvent]:
        """What these requests' traces tell, as far as it was not told from /metrics."""
        made = []
        for request in sorted(requests, key=lambda one: one.end):
            made += list(_exact(request, revision, self._merge))
        told = self._numbered(made)
        self._keep()
        return told

    def _hello(self, now: Reading) -> Hello:
        hello: Hello = {"kind": "hello", "boot": self._boot, "oldest": self._seq + 1, "model": now.model}
        if now.started is not None:
            hello["process"] = f"started:{now.started:.0f}"
        return hello

    def _numbered(self, made: Iterable[dict[str, Any]]) -> list[EngineEvent]:
        told: list[EngineEvent] = []
        for event in made:
            self._seq += 1
            told.append({**event, "seq": self._seq})  # type: ignore[arg-type]
        return told

    def _keep(self) -> None:
        if self._before is not None:
            self._memory.keep(Point(self._boot, self._seq, self._before, self._merge.state()))


def _first(now: Reading, counted_until: float | None) -> Reading | None:
    """The reading to start from: None, so that all counts, when the server is younger than what was counted."""
    young = counted_until is not None and now.started is not None and now.started > counted_until - EARLY_S
    return None if young and now.time - (counted_until or 0.0) <= LONGEST_GAP_S else now


def _present(gauges: dict[str, float]) -> dict[str, Any]:
    """A step event for what is present now. What grew is in the counts."""
    return {
        "running": round(gauges["running"]),
        "waiting": round(gauges["waiting"]),
        "kv_usage": gauges["kv_usage"],
        "batched_tokens": 0,
        "draft_tokens": 0,
        "accepted_tokens": 0,
        "preemptions": 0,
    }


def _buckets(time_s: float, revision: int, buckets: Iterable[tuple[str, Buckets]]) -> Iterator[dict[str, Any]]:
    for short, one in buckets:
        yield {
            "kind": "buckets",
            "time": time_s,
            "revision": revision,
            "metric": short,
            "bounds": list(one.bounds),
            "counts": one.counts,
            "total": one.total,
        }


def _exact(request: TracedRequest, revision: int, merge: TracedMerge) -> Iterator[dict[str, Any]]:
    head = {"revision": revision, "prompt_tokens": request.prompt_tokens}
    if request.ttft is not None and merge.count(metrics.TTFT.short, request.ttft, request.first_token):
        made = {"kind": "first_token", "time": request.first_token, "ttft": request.ttft, "cached_tokens": None}
        yield {**made, **head, "prompt_tokens": request.prompt_tokens or None}
    if not merge.count(metrics.E2E.short, request.e2e, request.end):
        return
    observed = {short: value for short, value in request.observed().items() if short != metrics.E2E.short}
    counts = {short for short, value in observed.items() if merge.count(short, value, request.end)}
    known = [value for value in (request.queue, request.prefill, request.decode) if value is not None]
    yield {
        "kind": "traced",
        "time": request.end,
        **head,
        "request_id": request.request_id,
        "arrival": request.arrival,
        "output_tokens": request.output_tokens,
        "e2e": request.e2e,
        "ttft": request.ttft,
        "tpot": request.tpot if metrics.TPOT.short in counts else None,
        "queue": request.queue if metrics.QUEUE.short in counts else None,
        "prefill": request.prefill if metrics.PREFILL.short in counts else None,
        "decode": request.decode if metrics.DECODE.short in counts else None,
        "unaccounted": request.e2e - sum(known),
    }
