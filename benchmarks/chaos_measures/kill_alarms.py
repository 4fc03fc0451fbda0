"""Is an alarm lost? A pool that is slow until its alert has been delivered, then fast until that is told, and so on.

The truth is the generator's own: each slow spell must bring one delivery "firing" and, after it, one "resolved", within
`LIMIT_S` of the service being left alone. In the end each alert that the service says has fired must have been heard.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from benchmarks.telemetry_measures.service import Service
from controlplane.contract import metrics
from controlplane.contract.bodies.alerts import AbsoluteCondition, Alert, AlertRuleCreate
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.histogram import AXIS_MIN, SCALE, axis_position

POOL = "alarm"
LIMIT_S = 240.0
_EVERY_S = 0.5
_LIMIT_TTFT_S, _SLOW_S, _FAST_S = 0.05, 0.4, 0.01
_ANSWER_LIMIT_S = 5.0


@dataclass
class Heard:
    """What the receiver was told. deliveries: by alert and status, how often."""

    deliveries: dict[tuple[int, str], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, body: dict[str, Any]) -> None:
        key = (int(body["tailwright"]["id"]), str(body["status"]))
        with self.lock:
            self.deliveries[key] = self.deliveries.get(key, 0) + 1

    def count(self, status: str) -> int:
        """Different alerts told of with this status."""
        with self.lock:
            return sum(told == status for _, told in self.deliveries)


class Alarms:
    """`close` ends the spell under way first: the last alarm is waited for, too."""

    def __init__(self, service: Service) -> None:
        self.heard, self.spells, self.lost = Heard(), 0, list[str]()
        self._service = service
        self._stop = threading.Event()
        self._receiver = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.heard))
        threading.Thread(target=self._receiver.serve_forever, daemon=True).start()
        port = self._receiver.server_address[1]
        service.client.create_destination(DestinationCreate(name="chaos", url=f"http://127.0.0.1:{port}/"))
        condition = AbsoluteCondition(
            limits=[Limit(metric="ttft", q=0.5, limit_s=_LIMIT_TTFT_S)], window_s=10, for_s=0, min_count=1
        )
        service.client.create_alert_rule(AlertRuleCreate(name="chaos", pool=POOL, condition=condition))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2 * LIMIT_S)
        self._receiver.shutdown()
        self._receiver.server_close()

    def check(self, alerts: Iterable[Alert]) -> list[str]:
        """Alerts that the service has, and nobody heard of. `close` first."""
        wanted = [(alert.id, "firing") for alert in alerts if alert.fired_at is not None]
        wanted += [(alert.id, "resolved") for alert in alerts if alert.resolved_at is not None and alert.fired_at]
        return [
            f"alert {number}: {status} was never delivered"
            for number, status in set(wanted) - set(self.heard.deliveries)
        ]

    def _run(self) -> None:
        with httpx.Client(timeout=_ANSWER_LIMIT_S) as http:
            while not self._stop.is_set():
                for status, seconds in (("firing", _SLOW_S), ("resolved", _FAST_S)):
                    before, began = self.heard.count(status), time.monotonic()
                    while self.heard.count(status) == before:
                        if time.monotonic() - began > LIMIT_S:
                            self.lost.append(f"spell {self.spells}: no {status} after {LIMIT_S:g} s")
                            break
                        self._send(http, seconds)
                        time.sleep(_EVERY_S)
                self.spells += 1

    def _send(self, http: httpx.Client, seconds: float) -> None:
        headers = {"Authorization": f"Bearer {self._service.token}", "Content-Type": "application/x-protobuf"}
        with contextlib.suppress(httpx.HTTPError):  # Killed, or held: the next one comes in a moment.
            http.post(f"{self._service.url}/v1/metrics", content=_report(seconds), headers=headers)


def _report(seconds: float) -> bytes:
    now_ns = time.time_ns()
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for name, value in ((metrics.NODE.name, "alarm-0"), (metrics.POOL.name, POOL)):
        resource.resource.attributes.add(key=name).value.string_value = value
    histogram = resource.scope_metrics.add().metrics.add(name=metrics.TTFT.name, unit="s").exponential_histogram
    histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_DELTA
    point = histogram.data_points.add(count=20, sum=20 * seconds, min=seconds, max=seconds, scale=SCALE)
    point.start_time_unix_nano, point.time_unix_nano = now_ns - 10**8, now_ns
    point.positive.offset = axis_position(seconds) + AXIS_MIN
    point.positive.bucket_counts.append(20)
    return request.SerializeToString()


def _handler(heard: Heard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.note(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    return Handler
