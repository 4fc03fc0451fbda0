"""One HTTP exchange under way, from the request's making to its record.

Guarantee: exactly one record, however the exchange ends; after that, further calls do nothing.
"""

import asyncio
import time
from collections.abc import Callable
from time import perf_counter

from agents.client_measure.answer import Scanner, scanner_of
from agents.client_measure.arrivals import Arrivals
from agents.client_measure.client_record import ClientRecord, Ending
from agents.client_measure.connection_waits import ConnectionMarks

INCOMPLETE = "incomplete"
"""The error of an event stream that stopped without saying that it had ended."""
TOLD = "told"
"""The error of an answer that told of one after it had begun."""
_FIRST_ERROR_STATUS = 400
CANCELLING = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""What a consumer that goes away raises: not the server's fault, nor the network's."""


class Exchange:
    """Call `answered`, `took` for each read, then one of `finished`, `failed` and `closed`."""

    __slots__ = ("_arrivals", "_done_at", "_keep", "_labels", "_scanner", "_settled", "_started", "_status", "marks")

    def __init__(
        self, keep: Callable[[ClientRecord], None], *, request_id: str, model: str, operation: str, target: str
    ) -> None:
        began = perf_counter()
        self._started = time.time()
        self._keep = keep
        self._labels = (request_id, model, operation, target)
        self._arrivals = Arrivals(began)
        self._scanner: Scanner | None = None
        self._status: int | None = None
        self._done_at: float | None = None
        self._settled = False
        self.marks = ConnectionMarks(began)

    def answered(self, status: int, content_type: str, content_encoding: str) -> None:
        """The answer's head has come."""
        self._status = status
        self._scanner = scanner_of(content_type, content_encoding)
        self._arrivals.ready(perf_counter())

    def took(self, asked: float, now: float, chunk: bytes) -> None:
        """A read of the answer's body: when it was wanted, when it came, and what."""
        scanner, arrivals = self._scanner, self._arrivals
        assert scanner is not None
        arrivals.took(asked, now, scanner.feed(chunk))
        if arrivals.first_event is None and scanner.begun:
            arrivals.first_event = now
        if scanner.done and self._done_at is None:
            self._done_at = now

    def finished(self) -> None:
        """The body has been read to its end."""
        self._settle(perf_counter(), Ending.COMPLETE, "")

    def failed(self, error: BaseException) -> None:
        ending = Ending.CANCELLED if isinstance(error, CANCELLING) else Ending.ERROR
        self._settle(perf_counter(), ending, type(error).__name__)

    def closed(self) -> None:
        """The answer was closed; before its end, unless it had said [DONE]."""
        done = self._done_at is not None
        self._settle(perf_counter(), Ending.COMPLETE if done else Ending.CANCELLED, "")

    def _settle(self, now: float, ending: Ending, error: str) -> None:
        if self._settled:
            return
        self._settled = True
        arrivals, marks = self._arrivals, self.marks
        reason, tokens, told_error = ("", None, False) if self._scanner is None else self._scanner.outcome()
        if self._status is not None and self._status >= _FIRST_ERROR_STATUS:
            ending, error = Ending.ERROR, str(self._status)
        elif ending is not Ending.ERROR and told_error:
            ending, error = Ending.ERROR, TOLD
        elif ending is Ending.COMPLETE and arrivals.first_event is not None and self._done_at is None and not reason:
            ending, error = Ending.ERROR, INCOMPLETE
        request_id, model, operation, target = self._labels
        first, ended = arrivals.first_event, now if self._done_at is None else self._done_at
        self._keep(
            ClientRecord(
                request_id=request_id,
                started=self._started,
                ending=ending,
                e2e_s=ended - arrivals.began,
                model=model,
                operation=operation,
                target=target,
                status=self._status,
                finish_reason=reason,
                error=error,
                ttft_s=arrivals.first_piece_s,
                first_event_s=None if first is None else first - arrivals.began,
                gaps_s=arrivals.gaps(),
                pieces=len(arrivals.pieces),
                output_tokens=tokens,
                pool_s=marks.pool_s,
                connect_s=marks.connect_s,
                lookup_s=marks.lookup_s,
                tls_s=marks.tls_s,
                send_s=marks.send_s,
                first_byte_s=marks.first_byte_s,
                reused=marks.reused,
                held_s=arrivals.held_s,
                behind_s=arrivals.behind_s,
            )
        )
