"""Sending a file's requests: several at once, nearly in order, for as long as the service wants to wait.

Guarantee: a request is sent only when all but the `2 * MOST_PARALLEL` before it have been answered. The service
remembers a thousand requests behind the newest of a file, so one that it finds too far back has been kept before, and
loading a file again goes on where it ended, without any state of its own.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import orjson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from controlplane.client import Client
from controlplane.command.history.batches import Batch
from controlplane.contract.errors import BadRequest, Conflict, Overloaded, Unavailable
from controlplane.contract.packed_report import REPORT_HEADER

REMEMBERED = 1024
"""Requests behind the newest that the service can still tell apart."""
MOST_PARALLEL = 64
AWAY_S = 300.0
"""How long a service that does not answer is waited for."""
LONGEST_WAIT_S = 10.0


@dataclass
class Totals:
    """What became of a file. `refused`: single points and spans, by the service's own words."""

    requests: int = 0
    messages: int = 0
    known: int = 0  # Requests that the service had kept before, as far as it said so.
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Patience:
    """How a request waits for its next attempt, and what ends all waiting."""

    stopping: threading.Event
    sleep: Callable[[float], object]
    clock: Callable[[], float]


@dataclass(frozen=True)
class Answer:
    """`highest`: the newest request of this file that the service has kept, where it said so."""

    refused: int = 0
    reason: str = ""
    highest: int = 0


def load(
    client: Client,
    batches: Iterable[Batch],
    *,
    parallel: int = 4,
    on_answer: Callable[[Batch], None] = lambda batch: None,
    sleep: Callable[[float], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Totals:
    """Send all. Raises what cannot be mended by trying again; what has been sent by then is kept."""
    stopping = threading.Event()
    patience = Patience(stopping, sleep or stopping.wait, clock)
    assert 1 <= parallel <= MOST_PARALLEL
    totals = Totals()
    skip_to = 0
    waiting: deque[tuple[Batch, Future[Answer]]] = deque()

    def settle() -> None:
        nonlocal skip_to
        batch, future = waiting.popleft()
        answer = future.result()
        totals.requests += 1
        totals.messages += batch.messages
        totals.refused += answer.refused
        if answer.reason:
            totals.reasons[answer.reason] += 1
        if answer.highest:
            totals.known += 1
            skip_to = max(skip_to, answer.highest - REMEMBERED)
        on_answer(batch)

    with ThreadPoolExecutor(parallel, thread_name_prefix="load") as threads:
        try:
            for batch in batches:
                while len(waiting) >= 2 * parallel:
                    settle()
                if batch.number <= skip_to:
                    totals.requests += 1
                    totals.messages += batch.messages
                    totals.known += 1
                    on_answer(batch)
                    continue
                waiting.append((batch, threads.submit(_send, client, batch, patience)))
                if batch.number == 1:
                    settle()  # The first answer says whether the file is known, before the others are sent for nothing.
            while waiting:
                settle()
        finally:
            stopping.set()  # Nobody waits for the answers of the others any more, however long they would still try.
            for _, future in waiting:
                future.cancel()
    return totals


def _send(client: Client, batch: Batch, patience: Patience) -> Answer:
    give_up_at = patience.clock() + AWAY_S
    wait_s = 0.2
    while True:
        try:
            return _refused(batch, client.send_report(batch.path, batch.body, batch.headers))
        except Overloaded as full:
            if patience.stopping.is_set():
                raise
            patience.sleep(full.retry_after_s)
            give_up_at = patience.clock() + AWAY_S
        except (httpx.TransportError, Unavailable):
            if patience.stopping.is_set() or patience.clock() > give_up_at:
                raise
            patience.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        except Conflict as error:
            if error.detail.get("field") != REPORT_HEADER:
                raise
            return Answer(highest=int(error.detail.get("highest", batch.number)))
        except BadRequest as error:
            if "rejected" not in error.detail:
                raise BadRequest(f"{batch.place}: {error.message}", **error.detail) from error
            return Answer(refused=int(error.detail["rejected"]), reason=error.message)


def _refused(batch: Batch, answer: httpx.Response) -> Answer:
    """What `partial_success` tells."""
    if answer.headers.get("Content-Type", "").startswith("application/json"):
        told = orjson.loads(answer.content).get("partialSuccess", {})
        count = int(told.get("rejectedDataPoints", 0)) + int(told.get("rejectedSpans", 0))
        return Answer(refused=count, reason=told.get("errorMessage", ""))
    if batch.path == "/v1/traces":
        spans = ExportTraceServiceResponse.FromString(answer.content).partial_success
        return Answer(refused=spans.rejected_spans, reason=spans.error_message)
    points = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    return Answer(refused=points.rejected_data_points, reason=points.error_message)
