"""A fleet's reports as one process: `python -m benchmarks.telemetry_measures.fleet.simulated_fleet PLAN OUTCOME`.

Guarantee: a report is sent, byte for byte the same, until it is acknowledged or refused for good; what was acknowledged
is counted exactly. The load is open: a report is due when it is due, however slow the answers are. All bodies are made
first; then the file OUTCOME.ready appears, and the load begins when somebody makes OUTCOME.go.
"""

import asyncio
import gzip
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

from benchmarks.telemetry_measures.fleet.fleet_plan import (
    FleetOutcome,
    FleetPlan,
    go_file,
    ready_file,
    stream_of,
    token_of,
)
from benchmarks.telemetry_measures.fleet.http_connection import Answer, Connection, ConnectionLost
from benchmarks.telemetry_measures.fleet.report_bodies import Report, pool_name, templates
from benchmarks.telemetry_measures.fleet.report_shape import HISTOGRAMS
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports.packed_report import MEDIA_TYPE

ANSWER_LIMIT_S = 60.0
DRAIN_S = 120.0
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_POLL_S = 0.002


@dataclass(frozen=True)
class Due:
    """One report, the place of its template, and when it is due (Unix seconds)."""

    report: Report
    template: int
    at: float


class SimulatedFleet:
    def __init__(self, plan: FleetPlan) -> None:
        self._plan = plan
        self._zstd = zstandard.ZstdCompressor(level=1)
        self._templates = templates(
            plan.seed, plan.variants, packed=plan.form == "packed", sections=plan.sections, spacing=plan.spacing
        )
        media = MEDIA_TYPE if plan.form == "packed" else "application/x-protobuf"
        packing = "" if plan.encoding == "identity" else f"Content-Encoding: {plan.encoding}\r\n"
        self._heads = [
            f"POST /v1/metrics HTTP/1.1\r\nAuthorization: Bearer {token_of(plan.seed, node)}\r\n"
            f"Content-Type: {media}\r\n{packing}".encode()
            for node in range(plan.nodes)
        ]
        self._order = np.random.default_rng([plan.seed, 3]).permutation(plan.nodes).tolist()
        self._streams = [stream_of(plan.seed, node, plan.stream_salt) for node in range(plan.nodes)]
        self._idle = [
            deque(Connection(url) for _ in range(max(1, plan.connections // len(plan.urls)))) for url in plan.urls
        ]
        self._waiting: list[deque[Due]] = [deque() for _ in plan.urls]
        self._tasks: set[asyncio.Task[None]] = set()
        self._room: asyncio.Semaphore | None = None
        self._ended = asyncio.Event()
        self._counted = np.zeros((plan.nodes, len(HISTOGRAMS)), np.int64)
        self._due_s: list[float] = []
        self._sent_s: list[float] = []
        self._acknowledged_at: Counter[int] = Counter()
        self._slowest_s: dict[int, float] = {}
        self._refused: Counter[str] = Counter()
        self._bytes = 0
        self.outcome = FleetOutcome()

    async def run(self) -> FleetOutcome:
        plan, outcome = self._plan, self.outcome
        began_cpu = time.process_time()
        outcome.started_at = time.time()
        windows: set[int] = set()
        if plan.history_start is not None:
            self._room = asyncio.Semaphore(2 * plan.connections)
        for due in self._paced() if plan.history_start is None else self._history():
            if due.at > time.time():
                # A little late together is cheaper than each on its own.
                await asyncio.sleep(max(_POLL_S, due.at - time.time()))
            if plan.limit_s and time.time() - outcome.started_at > plan.limit_s:
                break
            windows.add(due.report.window)
            outcome.scheduled += 1
            if self._room is not None:
                await self._room.acquire()
            self._offer(due)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._drained(), DRAIN_S)
        outcome.ended_at = time.time()
        outcome.given_up += len(self._tasks) + sum(map(len, self._waiting))
        outcome.refused = dict(self._refused)
        outcome.due_ms, outcome.sent_ms = _milliseconds(self._due_s), _milliseconds(self._sent_s)
        length = int(max(self._acknowledged_at, default=-1)) + 1
        outcome.acknowledged_each_s = [self._acknowledged_at[second] for second in range(length)]
        outcome.slowest_ms_each_s = [round(1000 * self._slowest_s.get(second, 0.0), 1) for second in range(length)]
        outcome.counted = self._counted.tolist()
        outcome.first_window, outcome.last_window = min(windows), max(windows) + (plan.sections - 1) * plan.spacing
        outcome.body_bytes = self._bytes / max(1, outcome.acknowledged)
        outcome.cpu_s = time.process_time() - began_cpu
        return outcome

    def _paced(self) -> Iterator[Due]:
        plan = self._plan
        began = self.outcome.started_at
        for number in range(round(plan.seconds / plan.interval_s * plan.nodes)):
            at = began + number * plan.interval_s / plan.nodes
            # The last whole window before it is due.
            yield self._due(number, int(at // WINDOW_S) - 1, at)

    def _history(self) -> Iterator[Due]:
        plan = self._plan
        assert plan.history_start is not None
        for number in range(plan.reports_each * plan.nodes):
            window = plan.history_start + number // plan.nodes * plan.sections * plan.spacing
            yield self._due(number, window, 0.0)

    def _due(self, number: int, window: int, at: float) -> Due:
        plan = self._plan
        node = self._order[number % plan.nodes]
        report = Report(node, node % plan.pools, self._streams[node], number // plan.nodes + 1, window)
        return Due(report, (node * 7 + number // plan.nodes * 13) % len(self._templates), at)

    def _offer(self, due: Due) -> None:
        server = due.report.node % len(self._idle)
        self._waiting[server].append(due)
        self._serve(server)

    def _serve(self, server: int) -> None:
        idle, waiting = self._idle[server], self._waiting[server]
        while idle and waiting:
            task = asyncio.create_task(self._deliver(server, idle.popleft(), waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._room is not None:
            self._room.release()
        self._ended.set()
        if (error := task.exception()) is not None:
            raise error

    async def _drained(self) -> None:
        while self._tasks:
            self._ended.clear()
            await self._ended.wait()

    async def _deliver(self, server: int, connection: Connection, due: Due) -> None:
        template = self._templates[due.template]
        body = template.body(due.report)
        if self._plan.encoding == "zstd":
            body = self._zstd.compress(body)
        elif self._plan.encoding == "gzip":
            body = gzip.compress(body, compresslevel=1, mtime=0)
        sent = time.time()
        while True:
            try:
                answer = await connection.request(self._heads[due.report.node], body, ANSWER_LIMIT_S)
            except ConnectionLost:
                self.outcome.lost_connections += 1
                await asyncio.sleep(0.1)
                continue
            if answer.status == 200:
                self._acknowledge(due, template.counts, sent, len(body), answer)
                break
            self._refused[str(answer.status)] += 1
            self.outcome.first_refusal = self.outcome.first_refusal or answer.body.decode(errors="replace")[:300]
            if answer.status not in _RETRIED:
                self.outcome.given_up += 1
                break
            await asyncio.sleep(float(answer.header("Retry-After") or 0.5))
        self._idle[server].append(connection)
        self._serve(server)

    def _acknowledge(self, due: Due, counts: NDArray[np.int64], sent: float, size: int, answer: Answer) -> None:
        now = time.time()
        outcome = self.outcome
        outcome.acknowledged += 1
        outcome.first_answer_body = outcome.first_answer_body or answer.body.decode(errors="replace")[:300]
        self._counted[due.report.node] += counts
        self._bytes += size
        self._sent_s.append(now - sent)
        waited = now - (due.at or sent)
        self._due_s.append(waited)
        second = int(now - outcome.started_at)
        self._acknowledged_at[second] += 1
        self._slowest_s[second] = max(waited, self._slowest_s.get(second, 0.0))


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    found = np.quantile(np.array(seconds), [0.5, 0.99, 1.0]) * 1000
    return dict(zip(("p50", "p99", "max"), found.tolist(), strict=True))


def main(plan_file: Path, outcome_file: Path) -> None:
    plan = FleetPlan.load(plan_file)
    if plan.core is not None:
        os.sched_setaffinity(0, {plan.core})
    assert plan.pools <= 10, pool_name(plan.pools)
    fleet = SimulatedFleet(plan)
    ready_file(outcome_file).touch()
    while not go_file(outcome_file).exists():
        time.sleep(_POLL_S)
    asyncio.run(fleet.run()).save(outcome_file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
