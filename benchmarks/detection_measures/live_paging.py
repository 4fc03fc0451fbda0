"""Is a second regression told while a first alert is open? In real time, by a real service and OpenTelemetry's SDK.

    python -m benchmarks.detection_measures.live_paging [--runs 3] [--seed 1]

Two nodes, each a program measured by the SDK alone (exponential histograms, delta, a report each 5 s), serve 1.6
requests a second each to a new installation with its own default rules. From 40 s on the gaps between tokens take three
times as long, from 100 s on first tokens ten times. One row a run: seconds from each change to the first delivery that
names it. Nothing is fast-forwarded: a run takes 200 s, or until both are told.
"""

import argparse
import json
import platform
import shutil
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
from opentelemetry.sdk.resources import Resource

from benchmarks.delivery_measures.killed_service import KilledService
from controlplane.contract import metrics
from controlplane.contract.metrics import WINDOW_S

NODES = ("node-1", "node-2")
EACH_WINDOW, GAPS = 8, 12
"""Requests a node in one window, and gaps between tokens in one request."""
GAPS_SLOW_S, FIRST_SLOW_S, END_S = 40.0, 100.0, 200.0
GAPS_FACTOR, FIRST_FACTOR = 3.0, 10.0


class Program(threading.Thread):
    """One node: requests at random moments of each window, recorded as its own SDK records them."""

    def __init__(self, name: str, url: str, token: str, seed: int, began: float) -> None:
        super().__init__(name=name, daemon=True)
        exporter = OTLPMetricExporter(
            f"{url}/v1/metrics",
            headers={"Authorization": f"Bearer {token}"},
            preferred_temporality={Histogram: AggregationTemporality.DELTA},
            preferred_aggregation={Histogram: ExponentialBucketHistogramAggregation()},
        )
        self._provider = MeterProvider(
            [PeriodicExportingMetricReader(exporter, export_interval_millis=1000 * WINDOW_S)],
            Resource.create({metrics.NODE.name: name, metrics.POOL.name: "main"}),
        )
        meter = self._provider.get_meter("a program")
        self._first = meter.create_histogram(metrics.TTFT.name, unit="s")
        self._gap = meter.create_histogram(metrics.ITL.name, unit="s")
        self._whole = meter.create_histogram(metrics.E2E.name, unit="s")
        self._chance, self._began, self._over = np.random.default_rng(seed), began, threading.Event()

    def run(self) -> None:
        window = 0
        while not self._over.is_set():
            for moment in np.sort(self._chance.uniform(0.0, WINDOW_S, EACH_WINDOW)):
                due = self._began + window * WINDOW_S + float(moment)
                if self._over.wait(max(0.0, due - time.time())):
                    break
                self._record(due - self._began)
            window += 1

    def _record(self, at_s: float) -> None:
        first = 0.15 * self._chance.lognormal(0.0, 0.5) * (FIRST_FACTOR if at_s >= FIRST_SLOW_S else 1.0)
        gaps = 0.01 * self._chance.lognormal(0.0, 0.5, GAPS) * (GAPS_FACTOR if at_s >= GAPS_SLOW_S else 1.0)
        model = {"gen_ai.request.model": "m"}
        self._first.record(first, model)
        for gap in gaps:
            self._gap.record(float(gap), model)
        self._whole.record(first + float(gaps.sum()), model)

    def end(self) -> None:
        self._over.set()
        self.join()
        self._provider.shutdown()


class OnCall:
    """Takes every delivery and notes when it came."""

    def __init__(self) -> None:
        self.took: list[tuple[float, str]] = []
        took = self.took

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                took.append((time.time(), body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/on-call"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def told(took: list[tuple[float, str]], metric: str, since: float) -> tuple[float, str] | None:
    """Seconds from `since` to the first delivery that says this metric got slower, and what it says."""
    for at, body in took:
        for alert in json.loads(body)["alerts"]:
            said = {**alert["labels"], **alert["annotations"]}
            text = f"{said.get('update', '')} {said['summary']}".strip()
            if at >= since and (said.get("metric") == metric or f"{metric} " in text.lower()):
                return at - since, text
    return None


def run(seed: int, folder: Path) -> tuple[str, bool]:
    """One row, and whether first tokens were told while the gaps' alert was open."""
    on_call, service = OnCall(), KilledService(folder, None)
    try:
        service.add_destination("on-call", on_call.url)
        token = (folder / "data" / "admin-token").read_text(encoding="utf-8").strip()
        began = time.time()
        programs = [Program(name, service.url, token, seed + place, began) for place, name in enumerate(NODES)]
        for program in programs:
            program.start()
        while time.time() < began + END_S and not told(on_call.took, "ttft", began + FIRST_SLOW_S):
            time.sleep(0.2)
        for program in programs:
            program.end()
    finally:
        service.stop()
        on_call.close()
    gaps, first = (
        told(on_call.took, name, began + since) for name, since in (("itl", GAPS_SLOW_S), ("ttft", FIRST_SLOW_S))
    )
    seconds = ["never" if found is None else f"{found[0]:.0f} s" for found in (gaps, first)]
    return f"| {seconds[0]} | {seconds[1]} | {first[1] if first else '-'} |", first is not None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seed", type=int, default=1, help="of the first run's requests")
    chosen = options.parse_args()
    print(f"seeds from {chosen.seed}; Python {platform.python_version()}, {platform.machine()}\n")
    print("| run | gaps x3 told after | first tokens x10 told after | in these words |\n|---|---|---|---|", flush=True)
    good = 0
    for number in range(chosen.runs):
        folder = Path(tempfile.mkdtemp(prefix="paging-"))
        row, well = run(chosen.seed + 100 * number, folder)
        good += well
        print(f"| {number + 1} {row}", flush=True)
        shutil.rmtree(folder)
    return 0 if good == chosen.runs else 1


if __name__ == "__main__":
    raise SystemExit(main())
