"""Sending the requests of files: several at once, nearly in order, for as long as the service wants to wait.

Guarantee: the service remembers `REMEMBERED` batches behind the newest of a file, and no batch is sent before all but
`UNDER_WAY` before it have been answered. So one that the service finds too far back has been kept before, and loading a
file again goes on where it ended, without any state of its own.
"""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import orjson
import zstandard
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from controlplane.client import Client
from controlplane.command.load.batches import Batch
from controlplane.command.load.upload_requests import BUNDLE_PARTS, Request, requests
from controlplane.contract.errors import BadRequest, Conflict, OtherContent, Overloaded, Unavailable
from controlplane.contract.reports.packed_report import REMEMBERED, REPORT_HEADER

MOST_PARALLEL = 64
UNDER_WAY = REMEMBERED - BUNDLE_PARTS
AWAY_S = 300.0
"""How long a service that does not answer is waited for."""
LONGEST_WAIT_S = 10.0
MOST_SHRUNK = 100
"""Times. Reports that are alike shrink more than that, and go as they are: of the service what grows to 200 times what
was sent is taken for a decompression bomb (`content_encoding.LIMIT_RATIO`)."""


@dataclass
class Totals:
    """What became of a file. `refused`: single points and spans, by the service's own words; where several files went
    in one bundle, they count for the first of them."""

    batches: int = 0
    messages: int = 0
    known: int = 0  # Batches that the service had kept before, as far as it said so.
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
    """`highest`: the newest batch that the service has kept, of the files (by stream) of which it said so."""

    refused: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    highest: Mapping[bytes, int] = field(default_factory=dict)


def load(
    client: Client,
    batches: Iterable[Batch],
    *,
    parallel: int = 4,
    on_answer: Callable[[Batch], None] = lambda batch: None,
    sleep: Callable[[float], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[bytes, Totals]:
    """Send all; what became of each file, by its stream. Raises what cannot be mended by trying again; what has been
    sent by then is kept."""
    stopping = threading.Event()
    assert 1 <= parallel <= MOST_PARALLEL
    under_way = _UnderWay(on_answer)
    patience = Patience(stopping, sleep or stopping.wait, clock)
    with ThreadPoolExecutor(parallel, thread_name_prefix="load") as threads:
        try:
            for request in requests(under_way.unknown(batches)):
                under_way.make_room(2 * parallel, UNDER_WAY)
                under_way.add(request, threads.submit(_send, client, request, patience))
                if any(batch.number == 1 for batch in request.batches):
                    # The first answer says whether a file is known, before all others are sent for nothing.
                    under_way.make_room(1, 0)
            under_way.make_room(1, 0)
        finally:
            stopping.set()  # Nobody waits for the answers of the others any more, however long they would still try.
            under_way.cancel()
    return under_way.totals


class _UnderWay:
    """Requests that were sent and not answered, and what is known of the files."""

    def __init__(self, on_answer: Callable[[Batch], None]) -> None:
        self.totals: dict[bytes, Totals] = defaultdict(Totals)
        self._on_answer = on_answer
        self._waiting: deque[tuple[Request, Future[Answer]]] = deque()
        self._batches = 0
        self._known_to: dict[bytes, int] = {}

    def unknown(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Those that the service may not have kept yet."""
        for batch in batches:
            if batch.number <= self._known_to.get(batch.stream, 0):
                self._count(batch, known=True)
            else:
                yield batch

    def make_room(self, requests: int, batches: int) -> None:
        """Wait until fewer requests and at most so many batches are under way."""
        while self._waiting and (len(self._waiting) >= requests or self._batches > batches):
            self._settle()

    def add(self, request: Request, answer: "Future[Answer]") -> None:
        self._waiting.append((request, answer))
        self._batches += len(request.batches)

    def cancel(self) -> None:
        for _, future in self._waiting:
            future.cancel()

    def _settle(self) -> None:
        request, future = self._waiting.popleft()
        self._batches -= len(request.batches)
        answer = future.result()
        for stream, highest in answer.highest.items():
            self._known_to[stream] = max(self._known_to.get(stream, 0), highest - REMEMBERED)
        of_first = self.totals[request.batches[0].stream]
        of_first.refused += answer.refused
        of_first.reasons.update(answer.reasons)
        for batch in request.batches:
            self._count(batch, known=batch.number <= answer.highest.get(batch.stream, 0))

    def _count(self, batch: Batch, *, known: bool) -> None:
        totals = self.totals[batch.stream]
        totals.batches += 1
        totals.messages += batch.messages
        totals.known += known
        self._on_answer(batch)


def bundled(request: Request) -> tuple[bytes, dict[str, str]]:
    """A bundle's body, compressed where the service takes it so, and its headers."""
    plain = b"".join(batch.body for batch in request.batches)
    headers = {"Content-Type": request.batches[0].headers["Content-Type"]}
    packed = zstandard.ZstdCompressor(level=1).compress(plain)
    if len(plain) > MOST_SHRUNK * len(packed):
        return plain, headers
    return packed, headers | {"Content-Encoding": "zstd"}


def _send(client: Client, request: Request, patience: Patience) -> Answer:
    first = request.batches[0]
    body, headers = bundled(request) if request.is_bundle else (first.body, first.headers)
    give_up_at = patience.clock() + AWAY_S
    wait_s = 0.2
    while True:
        try:
            answer = client.send_report(first.path, body, headers)
            return _of_bundle(answer) if request.is_bundle else _of_batch(first, answer)
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
        except OtherContent as error:
            raise OtherContent(f"{first.place}: {error.message}", **error.detail) from error
        except Conflict as error:
            if error.detail.get("field") != REPORT_HEADER:
                raise
            return Answer(highest={first.stream: int(error.detail.get("highest", first.number))})
        except BadRequest as error:
            if "rejected" not in error.detail:
                raise BadRequest(f"{first.place}: {error.message}", **error.detail) from error
            return Answer(int(error.detail["rejected"]), {error.message: 1})


def _of_bundle(answer: httpx.Response) -> Answer:
    told = orjson.loads(answer.content)
    highest = {bytes.fromhex(stream): int(number) for stream, number in told["highest"].items()}
    return Answer(int(told["refused"]), told["reasons"], highest)


def _of_batch(batch: Batch, answer: httpx.Response) -> Answer:
    """What `partial_success` tells."""
    if answer.headers.get("Content-Type", "").startswith("application/json"):
        told = orjson.loads(answer.content).get("partialSuccess", {})
        count = int(told.get("rejectedDataPoints", 0)) + int(told.get("rejectedSpans", 0))
        return _refused(count, told.get("errorMessage", ""))
    if batch.path == "/v1/traces":
        spans = ExportTraceServiceResponse.FromString(answer.content).partial_success
        return _refused(spans.rejected_spans, spans.error_message)
    points = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    return _refused(points.rejected_data_points, points.error_message)


def _refused(count: int, reason: str) -> Answer:
    return Answer(count, {reason: 1} if reason else {})
