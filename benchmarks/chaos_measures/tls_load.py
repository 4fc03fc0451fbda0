"""A fleet in which each node has a connection of its own, with its own certificate or in clear; as one process:

    python -m benchmarks.chaos_measures.tls_load PLAN.json OUTCOME.json

It connects all nodes, tells so (OUTCOME.ready), and from OUTCOME.go on each node reports once an interval, until PLAN's
time is over. Every second some connections are broken and made anew. Answers other than 200 are counted.
"""

import asyncio
import itertools
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import zstandard

from benchmarks.telemetry_measures.fleet.fleet_plan import go_file, ready_file, stream_of, token_of
from benchmarks.telemetry_measures.fleet.http_connection import Connection, ConnectionLost
from benchmarks.telemetry_measures.fleet.report_bodies import Report, node_name, templates
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports.packed_report import MEDIA_TYPE
from controlplane.serving.tls import client_context

_VARIANTS = 64
_CONNECTING = 16
"""Handshakes under way at once, at the start."""
_ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True)
class TlsPlan:
    """tls: the folder with ca.pem and each node's certificate; None: in clear. renewed_s: most age of a connection."""

    url: str
    nodes: int
    seconds: float
    seed: int
    tls: str | None
    salt: int
    interval_s: float
    renewed_s: float = 600.0


@dataclass
class TlsOutcome:
    """connected_s: until every node had a connection. began, ended: Unix seconds of the reports."""

    connected_s: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    acknowledged: int = 0
    reconnected: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    slowest_s: float = 0.0
    late_s: float = 0.0
    cpu_s: float = 0.0


class TlsFleet:
    def __init__(self, plan: TlsPlan) -> None:
        self._plan, self.outcome = plan, TlsOutcome()
        self._templates = templates(plan.seed, _VARIANTS, packed=True)
        self._zstd = zstandard.ZstdCompressor(level=1)
        self._refused: Counter[str] = Counter()
        self._connections = [Connection(plan.url, self._context(node)) for node in range(plan.nodes)]
        self._ordinals = [0] * plan.nodes
        self._heads = [
            f"POST /v1/metrics HTTP/1.1\r\nAuthorization: Bearer {token_of(plan.seed, node)}\r\n"
            f"Content-Type: {MEDIA_TYPE}\r\nContent-Encoding: zstd\r\n".encode()
            for node in range(plan.nodes)
        ]

    def _context(self, node: int) -> ssl.SSLContext | None:
        if self._plan.tls is None:
            return None
        folder, name = Path(self._plan.tls), node_name(node)
        return client_context(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")

    async def connect(self) -> None:
        """Every node once, with a first report: it brings the names that the service then knows."""
        began = time.monotonic()
        waiting = iter(range(self._plan.nodes))

        async def some() -> None:
            for node in waiting:
                await self._report(node)

        await asyncio.gather(*(some() for _ in range(_CONNECTING)))
        self.outcome.connected_s = time.monotonic() - began
        self.outcome.acknowledged = 0
        self._refused.clear()

    async def keep(self, until: Callable[[], bool]) -> None:
        """Report at the set rate, uncounted: connections that nobody uses would end."""
        await self._paced(until, renew=False)
        self.outcome = TlsOutcome(connected_s=self.outcome.connected_s)
        self._refused.clear()

    async def run(self) -> TlsOutcome:
        cpu, outcome = time.process_time(), self.outcome
        outcome.began = time.time()
        await self._paced(lambda: time.time() - outcome.began >= self._plan.seconds, renew=True)
        outcome.ended, outcome.cpu_s = time.time(), time.process_time() - cpu
        outcome.refused = dict(self._refused)
        return outcome

    async def _paced(self, until: Callable[[], bool], *, renew: bool) -> None:
        plan, began = self._plan, time.time()
        tasks: set[asyncio.Task[None]] = set()
        each_s = plan.interval_s / plan.nodes
        every = max(1, round(plan.renewed_s / plan.interval_s))
        for number in itertools.count():
            due = began + number * each_s
            if due > time.time():
                await asyncio.sleep(max(0.002, due - time.time()))
            if until():
                break
            self.outcome.late_s = max(self.outcome.late_s, time.time() - due)
            node = number % plan.nodes
            if renew and (number // plan.nodes + node) % every == every - 1:
                self._connections[node].close()
                self.outcome.reconnected += 1
            task = asyncio.create_task(self._report(node))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(set(tasks), timeout=_ANSWER_LIMIT_S)

    async def _report(self, node: int) -> None:
        plan = self._plan
        self._ordinals[node] += 1
        window = int(time.time() // WINDOW_S) - 1
        report = Report(node, 0, stream_of(plan.seed, node, plan.salt), self._ordinals[node], window)
        body = self._zstd.compress(self._templates[(node * 7 + self._ordinals[node] * 13) % _VARIANTS].body(report))
        sent = time.monotonic()
        try:
            answer = await self._connections[node].request(self._heads[node], body, _ANSWER_LIMIT_S)
        except ConnectionLost as error:
            self._refused[str(error)[:80]] += 1
            return
        if answer.status == 200:
            self.outcome.acknowledged += 1
            self.outcome.slowest_s = max(self.outcome.slowest_s, time.monotonic() - sent)
        else:
            self._refused[f"{answer.status} {answer.body[:120].decode(errors='replace')}"] += 1


async def _main(plan: TlsPlan, outcome_file: Path) -> None:
    fleet = TlsFleet(plan)
    await fleet.connect()
    ready_file(outcome_file).write_text(json.dumps(fleet.outcome.connected_s), encoding="utf-8")
    await fleet.keep(go_file(outcome_file).exists)
    outcome = await fleet.run()
    part = outcome_file.with_suffix(".part")
    part.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    part.rename(outcome_file)


if __name__ == "__main__":
    asyncio.run(_main(TlsPlan(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), Path(sys.argv[2])))
