"""One hour of a fleet, loaded into the service and into Prometheus: the same values, the raw ones of one metric kept.

Every node has a report each 10 s, loaded through the API with its own time. Nothing repeats: each histogram is drawn by
itself, so that what compresses does so honestly. Prometheus gets the histograms of the one metric that is asked for
(`METRIC`): fewer series than it would hold, which can only help it.
"""

import asyncio
import math
import time
from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from benchmarks.engine_measures.report import progress
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures import classic_buckets, prometheus_server
from benchmarks.telemetry_measures.fleet import report_shape
from benchmarks.telemetry_measures.fleet.fleet_plan import FleetOutcome, FleetPlan, stream_of, token_of
from benchmarks.telemetry_measures.fleet.http_connection import Connection
from benchmarks.telemetry_measures.fleet.report_bodies import PackedTemplate, Report, rows_of
from benchmarks.telemetry_measures.fleet.report_shape import BUCKETS, GAUGES, HISTOGRAMS, Drawn
from benchmarks.telemetry_measures.openmetrics import write_hour
from benchmarks.telemetry_measures.prometheus_server import Prometheus
from benchmarks.telemetry_measures.service import Service, await_folded
from benchmarks.telemetry_measures.session import Session
from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports.packed_report import MEDIA_TYPE

METRIC = metrics.TTFT
NODES, QUICK_NODES = 100, 20
SECONDS, QUICK_SECONDS = 3600, 600
POOLS = 2
INTERVAL_S = 10
_CONNECTIONS = 128
_AGE_S = 120


@dataclass(frozen=True)
class RawValues:
    """Values of `METRIC`, one report after the other; series of interval k: node * len(BUCKETS) + bucket."""

    values: list[NDArray[np.float64]]
    owners: list[NDArray[np.int64]]

    def of(self, first: int, last: int, node: int | None = None, bucket: int | None = None) -> NDArray[np.float64]:
        """Of the intervals [first, last)."""
        found = []
        for values, owners in zip(self.values[first:last], self.owners[first:last], strict=True):
            keep = np.ones(len(values), bool)
            if node is not None:
                keep &= owners // len(BUCKETS) == node
            if bucket is not None:
                keep &= owners % len(BUCKETS) == bucket
            found.append(values[keep])
        return np.concatenate(found)


@dataclass
class LoadedHour:
    """start_s: Unix seconds; intervals of 10 s; histograms: of all metrics, in the service."""

    service: Service
    rival: Prometheus | None
    rival_missing: str
    raw: RawValues
    start_s: int
    intervals: int
    nodes: int
    loading_s: float
    plan: FleetPlan
    outcome: FleetOutcome
    prometheus_bytes: int

    @property
    def end_s(self) -> int:
        return self.start_s + self.intervals * INTERVAL_S

    @property
    def histograms(self) -> int:
        return self.nodes * self.intervals * report_shape.SERIES

    @classmethod
    def load(cls, session: Session) -> "LoadedHour":
        nodes, seconds = (QUICK_NODES, QUICK_SECONDS) if session.settings.quick else (NODES, SECONDS)
        intervals = seconds // INTERVAL_S
        start_s = (math.floor(time.time() - _AGE_S) // 60 * 60) - seconds
        service = Service(session.nursery, "hour", {session.service_core})
        service.without_rules()
        service.give_tokens(session.settings.seed, nodes)
        progress(f"hour: loading {nodes * intervals} reports")
        plan = FleetPlan(urls=(service.url,), nodes=nodes, pools=POOLS, seed=session.settings.seed)
        loader = _Loader(plan, start_s, intervals)
        began = time.monotonic()
        outcome = asyncio.run(loader.run())
        loading_s = time.monotonic() - began
        progress(f"hour: loaded in {loading_s:.0f} s, folded {await_folded([service]):.0f} s later")
        rival, missing, size = None, "", 0
        try:
            data = session.nursery.folder / "prometheus-hour"
            text_file = session.nursery.folder / "hour.openmetrics"
            write_hour(text_file, loader.classic, loader.totals, start_s, INTERVAL_S)
            prometheus_server.load_openmetrics(text_file, data)
            text_file.unlink()
            size = prometheus_server.folder_bytes(data)
            rival = Prometheus(session.nursery, "prometheus-hour", session.service_core, data)
        except WorkerFailed as error:
            missing = str(error)
        raw = RawValues(loader.values, loader.owners)
        return cls(service, rival, missing, raw, start_s, intervals, nodes, loading_s, plan, outcome, size)

    def close(self) -> None:
        if self.rival is not None:
            self.rival.close()
        self.service.close()


class _Loader:
    """Draws interval after interval, and sends each before it draws the next."""

    def __init__(self, plan: FleetPlan, start_s: int, intervals: int) -> None:
        self._plan, self._intervals = plan, intervals
        self._first_window = round(start_s / WINDOW_S)
        self._random = np.random.default_rng([plan.seed, 31])
        self._shape = report_shape.Shape()
        self._factors = np.exp(self._random.normal(scale=report_shape.NODE_SPREAD, size=plan.nodes))
        self._zstd = zstandard.ZstdCompressor(level=1)
        self.values: list[NDArray[np.float64]] = []
        self.owners: list[NDArray[np.int64]] = []
        self.classic: list[NDArray[np.int64]] = []
        self.totals: list[NDArray[np.float64]] = []
        self._counted = np.zeros((plan.nodes, len(HISTOGRAMS)), np.int64)

    async def run(self) -> FleetOutcome:
        connections = [Connection(self._plan.urls[0]) for _ in range(_CONNECTIONS)]
        outcome = FleetOutcome(started_at=time.time())
        for interval in range(self._intervals):
            bodies = self._bodies(interval)
            parts = [range(first, len(bodies), _CONNECTIONS) for first in range(_CONNECTIONS)]
            await asyncio.gather(
                *(
                    self._send(connection, [(node, bodies[node]) for node in part])
                    for connection, part in zip(connections, parts, strict=True)
                )
            )
            outcome.acknowledged += len(bodies)
        for connection in connections:
            connection.close()
        outcome.first_window = self._first_window
        outcome.last_window = self._first_window + round((self._intervals - 1) * INTERVAL_S / WINDOW_S)
        outcome.counted = self._counted.tolist()
        outcome.ended_at = time.time()
        return outcome

    async def _send(self, connection: Connection, bodies: list[tuple[int, bytes]]) -> None:
        for node, body in bodies:
            head = (
                f"POST /v1/metrics HTTP/1.1\r\nAuthorization: Bearer {token_of(self._plan.seed, node)}\r\n"
                f"Content-Type: {MEDIA_TYPE}\r\nContent-Encoding: zstd\r\n"
            )
            answer = await connection.request(head.encode(), body, 60.0)
            if answer.status in (429, 503):
                await asyncio.sleep(float(answer.header("Retry-After") or 0.5))
                answer = await connection.request(head.encode(), body, 60.0)
            if answer.status != 200:
                raise WorkerFailed(f"a report was refused with {answer.status}: {answer.body[:300]!r}")

    def _bodies(self, interval: int) -> list[bytes]:
        nodes, random = self._plan.nodes, self._random
        drawn = self._shape.draw(random, nodes)
        counts = np.zeros((*drawn.counts.shape[:2], AXIS_LENGTH), np.int64)
        counts[:, :, drawn.low : drawn.low + drawn.counts.shape[2]] = drawn.counts
        counts[:, : len(BUCKETS)] = self._asked_metric(nodes).reshape(nodes, len(BUCKETS), AXIS_LENGTH)
        whole = Drawn(0, counts)
        window = self._first_window + round(interval * INTERVAL_S / WINDOW_S)
        bodies = []
        for node in range(nodes):
            rows = rows_of(whole, node, random)
            template = PackedTemplate([rows], random.random(len(GAUGES)))
            self._counted[node] += template.counts
            stream = stream_of(self._plan.seed, node)
            report = Report(node, node % self._plan.pools, stream, interval + 1, window)
            bodies.append(self._zstd.compress(template.body(report)))
        return bodies

    def _asked_metric(self, nodes: int) -> NDArray[np.int64]:
        """Raw values of the first metric: its counts, and what Prometheus sees of them."""
        random, owners = self._random, nodes * len(BUCKETS)
        assert HISTOGRAMS[0] is METRIC
        sizes = np.exp(random.uniform(math.log(report_shape.FEWEST), math.log(report_shape.MOST), owners)).astype(int)
        parts = [
            report_shape.values_of(random, owner % len(BUCKETS), size, self._factors[owner // len(BUCKETS)])
            for owner, size in enumerate(sizes.tolist())
        ]
        values, owner_of = np.concatenate(parts), np.repeat(np.arange(owners), sizes)
        self.values.append(values)
        self.owners.append(owner_of)
        self.classic.append(classic_buckets.of_values(values, owner_of, owners))
        self.totals.append(np.bincount(owner_of, weights=values, minlength=owners).astype(np.float64))
        return report_shape.counts_of_values(values, owner_of, owners)
