"""Sends spooled reports, oldest first, until each is acknowledged.

Guarantees: a report leaves the spool only when /v1/metrics and /v1/traces have both answered 200, or one of them has
refused it for what it is (400, 413, 422 and the like, or a pool that the node has left): then it is set aside with the
reason. 429 and 503 wait at least as long as Retry-After says; 401 and 403 enrol anew; everything else (no connection,
timeouts, other 5xx, a path that is not there) waits and tries again, with doubling waits up to 30 s. A report that
meets internal errors again and again lets the others go first, up to `FURTHEST_AHEAD` of them, so that whoever
recognises repeats by their ordinal need not remember more; one that is never taken while hundreds of later ones are is
set aside.

A report that the service says was not counted under its identity (409: another one has it, or it lies too far back) is
renewed in the spool, and sent again under its new one. Of one that lies too far back this is certain only if this
process made it and this was the first try; any other may have been counted, and is set aside.

What is packed goes packed where the receiver takes it: once an answer of /v1/metrics has said so (`Tailwright-Accept`),
until one refuses it that does not, or answers 415. Else it goes as OTLP. Nothing is assumed of a receiver that has not
answered yet, so the first report after a start is OTLP. OTLP of /v1/metrics carries its identity in the header
`Tailwright-Report`, which other receivers pass over. A body of /v1/traces does not: spans have ids of their own, and it
is not the report that the identity names. Nothing here holds up the reading of events.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from enum import Enum

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.spool import Spool
from agents.agent.delivery.spooled_report import SpooledReport
from agents.agent.reports import otlp_report
from agents.agent.reports.body import Body, BodyUnreadable
from agents.agent.reports.clock_offset import ClockOffset
from agents.host.backoff import Backoff, spread_s
from controlplane.client import raise_for_error
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import OtherContent, TailwrightError, TooOld
from controlplane.contract.metrics import POOL
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import ACCEPT_HEADER, ACCEPT_PACKED, REPORT_HEADER, TIME_HEADER
from controlplane.contract.retry import refuses_body, retry_after_s

log = logging.getLogger(__name__)

METRICS_PATH = "/v1/metrics"
TRACES_PATH = "/v1/traces"
TRIES_BEFORE_YIELDING = 5
FURTHEST_AHEAD = 512
"""Of the oldest report that waits, in ordinals; half of what the service remembers."""
TRIES_BEFORE_SETTING_ASIDE = 20
LONGEST_RETRY_AFTER_S = 300.0


class Outcome(Enum):
    """What became of one try to send a report."""

    ACKNOWLEDGED = "acknowledged"  # Both bodies are durable with the receiver.
    REFUSED = "refused"  # The receiver will never take it.
    AGAIN = "again"  # Not now; the report is not to blame.
    UNCOUNTED = "uncounted"  # Not counted: its identity stands for another report.
    TOO_OLD = "too_old"  # Counted or not: it lies too far back for the receiver to know.
    RENEWED = "renewed"  # It has another identity now, and goes again.
    FAILED = "failed"  # The receiver broke on it; perhaps the report is to blame.


class Shipper:
    """One loop, one report at a time, to one receiver. Call `wake` after a report was spooled.

    Without an `enrolment` the receiver is not the control plane, and gets no token of ours. `clock` is the receiver's.
    """

    def __init__(self, spool: Spool, http: httpx.AsyncClient, enrolment: Enrolment | None) -> None:
        self._spool = spool
        self._http = http
        self._enrolment = enrolment
        self._wake = asyncio.Event()
        self._backoff = Backoff()
        self._failures: dict[int, int] = {}  # Ordinal to internal errors met in a row.
        self._unsure: set[int] = set()  # An answer was lost, so that they may have been counted.
        self._renewed: set[int] = set()
        self._half_done: set[int] = set()  # Metrics acknowledged, traces not yet.
        self._wait_s: float | None = None  # What Retry-After asked for.
        self._takes_packed = False
        self._newest_acknowledged = 0
        self.clock = ClockOffset()
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
        near = [number for number in waiting if number < waiting[0] + FURTHEST_AHEAD]
        ordinal = min(near, key=lambda number: (self._failures.get(number, 0) // TRIES_BEFORE_YIELDING, number))
        report = await asyncio.to_thread(self._spool.read, ordinal)
        if report is None:
            return Outcome.ACKNOWLEDGED
        outcome = Outcome.ACKNOWLEDGED
        if ordinal not in self._half_done:
            outcome = await self._send_metrics(report, ordinal)
        if outcome is Outcome.TOO_OLD:
            sure = self._spool.is_own(report) and ordinal not in self._unsure
            outcome = Outcome.UNCOUNTED if sure else Outcome.REFUSED
        if outcome is Outcome.UNCOUNTED:
            outcome = await self._renew(ordinal)
        if outcome is Outcome.ACKNOWLEDGED and report.traces is not None:
            self._half_done.add(ordinal)
            outcome = self._judge(TRACES_PATH, await self._post(TRACES_PATH, report.traces), ordinal)
        if outcome is Outcome.FAILED:
            outcome = self._failed(ordinal)
        if outcome is Outcome.ACKNOWLEDGED:
            await asyncio.to_thread(self._spool.acknowledge, ordinal)
            self.acknowledged += 1
            self._newest_acknowledged = max(self._newest_acknowledged, ordinal)
            self.last_error = ""
            self._backoff.reset()
        elif outcome is Outcome.REFUSED:
            await asyncio.to_thread(self._spool.refuse, ordinal, self.last_error)
        if outcome in (Outcome.ACKNOWLEDGED, Outcome.REFUSED):
            self._half_done.discard(ordinal)
            self._unsure.discard(ordinal)
            self._renewed.discard(ordinal)
            self._failures.pop(ordinal, None)
        return outcome

    async def _send_metrics(self, report: SpooledReport, ordinal: int) -> Outcome:
        body = report.metrics
        if body.is_packed and self._takes_packed:
            answer = await self._post(METRICS_PATH, body)
            outcome = self._judge(METRICS_PATH, answer, ordinal)
            if answer is None or outcome is not Outcome.REFUSED or _understood(answer):
                return outcome
            log.info("%s takes no packed reports any more: OTLP from here on", self._http.base_url)
            self._takes_packed = False
        if body.is_packed:
            try:
                body = await asyncio.to_thread(_as_otlp, body)
            except (BodyUnreadable, ValueError) as error:
                self._note(f"the report cannot be turned into OTLP: {error}")
                return Outcome.REFUSED
        identity = {} if report.identity is None else {REPORT_HEADER: report.identity}
        answer = await self._post(METRICS_PATH, body, identity)
        if answer is not None and (_takes_packed(answer) or answer.status_code == 200):
            self._takes_packed = _takes_packed(answer)
        return self._judge(METRICS_PATH, answer, ordinal)

    async def _post(self, path: str, body: Body, more: Mapping[str, str] = {}) -> httpx.Response | None:
        """The answer, None where there was none; what it says of credentials and of the clock is seen to."""
        used = None if self._enrolment is None else self._enrolment.current
        own = {} if self._enrolment is None else self._enrolment.headers
        sent_ns, begun_s = time.time_ns(), time.monotonic()
        try:
            answer = await self._http.post(path, content=body.content, headers={**body.headers, **own, **more})
        except httpx.HTTPError as error:
            self._note(f"{path}: {str(error) or type(error).__name__}")
            return None
        now_s = time.monotonic()
        stated = answer.headers.get(TIME_HEADER, "")
        if stated.isascii() and stated.isdigit():
            self.clock.measure(sent_ns, sent_ns + round((now_s - begun_s) * 1e9), int(stated), now_s)
        if answer.status_code in (401, 403) and self._enrolment is not None and not _of_another_pool(answer):
            await self._enrolment.renew(used)
        return answer

    def _judge(self, path: str, answer: httpx.Response | None, ordinal: int) -> Outcome:
        if answer is None or answer.status_code >= 500:
            self._unsure.add(ordinal)
        if answer is None:
            return Outcome.AGAIN
        if answer.status_code == 200:
            self._read_acknowledgement(path, answer, ordinal)
            return Outcome.ACKNOWLEDGED
        self._note(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        if answer.status_code in (429, 503):
            asked_s = retry_after_s(answer.headers.get("Retry-After"), utc_now(), LONGEST_RETRY_AFTER_S)
            self._wait_s = None if asked_s is None else spread_s(asked_s)
            return Outcome.AGAIN
        if _of_another_pool(answer):
            return Outcome.REFUSED
        if refuses_body(answer.status_code):
            return _refusal(answer) if path == METRICS_PATH else Outcome.REFUSED
        return Outcome.FAILED if answer.status_code in (500, 501) else Outcome.AGAIN

    async def _renew(self, ordinal: int) -> Outcome:
        """Give it another identity. Once: whoever refuses that one as well is not asked without end."""
        if ordinal in self._renewed:
            return Outcome.FAILED
        try:
            await asyncio.to_thread(self._spool.renew, ordinal)
        except OSError as error:
            self._note(f"report {ordinal} cannot be renewed: {error}")
            return Outcome.AGAIN
        except BodyUnreadable as error:
            self._note(f"report {ordinal} cannot be renewed: {error}")
            return Outcome.REFUSED
        self._renewed.add(ordinal)
        return Outcome.RENEWED

    def _failed(self, ordinal: int) -> Outcome:
        """The receiver broke on this report once more: to blame is the report if it takes all others."""
        self._failures[ordinal] = self._failures.get(ordinal, 0) + 1
        others = self._newest_acknowledged - ordinal
        if self._failures[ordinal] < TRIES_BEFORE_SETTING_ASIDE or others < FURTHEST_AHEAD // 2:
            return Outcome.FAILED
        self._note(f"never taken, though {others} later ones were: {self.last_error}")
        return Outcome.REFUSED

    def _note(self, error: str) -> None:
        if error != self.last_error:
            log.warning("reports wait in the spool: %s", error)
        self.last_error = error

    def _read_acknowledgement(self, path: str, answer: httpx.Response, ordinal: int) -> None:
        """A 200 is an acknowledgement whatever its body; one that can be read may say what was left out."""
        try:
            if path == METRICS_PATH:
                partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
                rejected = partial.rejected_data_points
            else:
                trace_partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
                rejected, partial = trace_partial.rejected_spans, trace_partial  # type: ignore[assignment]
        except DecodeError:
            return
        if rejected:
            self.points_rejected += rejected
            log.error("report %d, %s: %d entries were rejected: %s", ordinal, path, rejected, partial.error_message)


def _takes_packed(answer: httpx.Response) -> bool:
    return ACCEPT_PACKED in (word.strip() for word in answer.headers.get(ACCEPT_HEADER, "").split(","))


def _refusal(answer: httpx.Response) -> Outcome:
    """What a refusal says of the report: that it was not counted under its identity, or may have been, or neither."""
    try:
        raise_for_error(answer)
    except OtherContent:
        return Outcome.UNCOUNTED
    except TooOld:
        return Outcome.TOO_OLD
    except TailwrightError:
        return Outcome.REFUSED
    return Outcome.REFUSED


def _of_another_pool(answer: httpx.Response) -> bool:
    """Whether a report was made before its node was enrolled in another pool."""
    if answer.status_code != 403:
        return False
    try:
        raise_for_error(answer)
    except TailwrightError as error:
        return error.detail.get("field") == POOL.name
    return False


def _understood(answer: httpx.Response) -> bool:
    """Whether a refusal is about the report: its form is what those refuse who do not say that they take it."""
    return _takes_packed(answer) and answer.status_code != 415


def _as_otlp(body: Body) -> Body:
    return Body.otlp(otlp_report.request_of(packed_report.decode(body.decoded())).SerializeToString())
