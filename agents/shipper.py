"""Sends spooled reports, oldest first, until each is acknowledged.

Guarantees: a report leaves the spool only when /v1/metrics and /v1/traces have both answered 200, or one of them has
refused it for what it is (400, 413, 415, 422 and the like): then it is set aside with the reason. 429 and 503 wait as
long as Retry-After says; 401 and 403 enrol anew; everything else (no connection, timeouts, other 5xx, a path that is
not there) waits and tries again, with doubling waits up to 30 s. A report that meets internal errors again and again
lets the others go first. Nothing here holds up the reading of events.
"""

import asyncio
import logging
from enum import Enum

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agents.backoff import Backoff, retry_after_s
from agents.enrolment import Enrolment
from agents.spool import Spool

log = logging.getLogger(__name__)

METRICS_PATH = "/v1/metrics"
TRACES_PATH = "/v1/traces"
TRIES_BEFORE_YIELDING = 5
LONGEST_RETRY_AFTER_S = 300.0
_NOT_ABOUT_THE_REPORT = frozenset({401, 403, 404, 405, 407, 408, 421, 425, 429})


class Outcome(Enum):
    """What became of one try to send a report."""

    ACKNOWLEDGED = "acknowledged"  # Both bodies are durable with the receiver.
    REFUSED = "refused"  # The receiver will never take it.
    AGAIN = "again"  # Not now; the report is not to blame.
    FAILED = "failed"  # The receiver broke on it; perhaps the report is to blame.


class Shipper:
    """One loop, one report at a time. Call `wake` after a report was spooled."""

    def __init__(self, spool: Spool, http: httpx.AsyncClient, enrolment: Enrolment) -> None:
        self._spool = spool
        self._http = http
        self._enrolment = enrolment
        self._wake = asyncio.Event()
        self._backoff = Backoff()
        self._failures: dict[int, int] = {}  # Ordinal to internal errors met in a row.
        self._half_done: set[int] = set()  # Metrics acknowledged, traces not yet.
        self._wait_s: float | None = None  # What Retry-After asked for.
        self.acknowledged = 0
        self.points_rejected = 0
        self.last_error = ""

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Send for ever."""
        while True:
            self._wake.clear()
            if not self._spool.waiting():
                await self._wake.wait()
            if await self.send_one() in (Outcome.AGAIN, Outcome.FAILED):
                wait_s, self._wait_s = self._wait_s, None
                await asyncio.sleep(self._backoff.next_s() if wait_s is None else wait_s)

    async def send_one(self) -> Outcome:
        """Try to send the first report in line, and settle it in the spool."""
        waiting = self._spool.waiting()
        if not waiting:
            return Outcome.ACKNOWLEDGED
        ordinal = min(waiting, key=lambda number: (self._failures.get(number, 0) // TRIES_BEFORE_YIELDING, number))
        report = await asyncio.to_thread(self._spool.read, ordinal)
        if report is None:
            return Outcome.ACKNOWLEDGED
        outcome = Outcome.ACKNOWLEDGED
        if ordinal not in self._half_done:
            outcome = await self._post(METRICS_PATH, report.metrics, ordinal)
        if outcome is Outcome.ACKNOWLEDGED and report.traces:
            self._half_done.add(ordinal)
            outcome = await self._post(TRACES_PATH, report.traces, ordinal)
        if outcome is Outcome.ACKNOWLEDGED:
            await asyncio.to_thread(self._spool.acknowledge, ordinal)
            self.acknowledged += 1
            self.last_error = ""
            self._backoff.reset()
        elif outcome is Outcome.REFUSED:
            await asyncio.to_thread(self._spool.refuse, ordinal, self.last_error)
        elif outcome is Outcome.FAILED:
            self._failures[ordinal] = self._failures.get(ordinal, 0) + 1
        if outcome in (Outcome.ACKNOWLEDGED, Outcome.REFUSED):
            self._half_done.discard(ordinal)
            self._failures.pop(ordinal, None)
        return outcome

    async def _post(self, path: str, body: bytes, ordinal: int) -> Outcome:
        used = self._enrolment.current
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", **self._enrolment.headers}
        try:
            answer = await self._http.post(path, content=body, headers=headers)
        except httpx.HTTPError as error:
            self._note(f"{path}: {str(error) or type(error).__name__}")
            return Outcome.AGAIN
        if answer.status_code == 200:
            self._read_acknowledgement(path, answer.content, ordinal)
            return Outcome.ACKNOWLEDGED
        self._note(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        if answer.status_code in (401, 403):
            await self._enrolment.renew(used)
            return Outcome.AGAIN
        if answer.status_code in (429, 503):
            asked_s = retry_after_s(answer.headers.get("Retry-After"))
            self._wait_s = None if asked_s is None else min(asked_s, LONGEST_RETRY_AFTER_S)
            return Outcome.AGAIN
        if 400 <= answer.status_code < 500 and answer.status_code not in _NOT_ABOUT_THE_REPORT:
            return Outcome.REFUSED
        return Outcome.FAILED if answer.status_code in (500, 501) else Outcome.AGAIN

    def _note(self, error: str) -> None:
        if error != self.last_error:
            log.warning("reports wait in the spool: %s", error)
        self.last_error = error

    def _read_acknowledgement(self, path: str, content: bytes, ordinal: int) -> None:
        try:
            if path == METRICS_PATH:
                partial = ExportMetricsServiceResponse.FromString(content).partial_success
                rejected = partial.rejected_data_points
            else:
                trace_partial = ExportTraceServiceResponse.FromString(content).partial_success
                rejected, partial = trace_partial.rejected_spans, trace_partial  # type: ignore[assignment]
        except DecodeError:
            return  # A 200 is an acknowledgement whatever its body.
        if rejected:
            self.points_rejected += rejected
            log.error("report %d, %s: %d entries were rejected: %s", ordinal, path, rejected, partial.error_message)
