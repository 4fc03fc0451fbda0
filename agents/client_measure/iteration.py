"""`measure`: a clock at any stream of tokens, sync or async.

Guarantee: what the source yields and raises goes through as it is and when it comes; closing closes the source; the
source's other attributes are there too. Exactly one record, `record`, once the stream has ended: by itself, by an
exception, or because it was closed or let go of before its end.
"""

import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from time import perf_counter
from typing import Any, Generic, Self, TypeVar, overload

from agents.client_measure.arrivals import Arrivals
from agents.client_measure.client_record import ClientRecord, Ending
from agents.client_measure.http_exchange import CANCELLING

T = TypeVar("T")
Keep = Callable[[ClientRecord], None]
_OWN = frozenset({"_measurement", "_source"})


class Measurement(Generic[T]):
    """What both kinds of stream share: arrivals, and the one record."""

    __slots__ = ("_arrivals", "_count", "_finish", "_keep", "_labels", "_reason", "_started", "record")

    def __init__(
        self,
        keep: Keep | None,
        labels: tuple[str, str, str],
        began: float | None,
        tokens: Callable[[T], int] | None,
        finish: Callable[[T], str | None] | None,
    ) -> None:
        now = perf_counter()
        self._arrivals = Arrivals(now if began is None else began)
        self._arrivals.ready(now)
        self._started = time.time() - (now - self._arrivals.began)
        self._keep, self._labels, self._count, self._finish = keep, labels, tokens, finish
        self._reason = ""
        self.record: ClientRecord | None = None

    def took(self, asked: float, item: T) -> None:
        now = perf_counter()
        arrivals = self._arrivals
        pieces = 1 if self._count is None else self._count(item)
        if arrivals.first_event is None:
            arrivals.first_event = now
        arrivals.took(asked, now, pieces)
        if self._finish is not None:
            self._reason = self._finish(item) or self._reason

    def end(self, ending: Ending, error: str = "") -> None:
        if self.record is not None:
            return
        arrivals, (request_id, model, operation) = self._arrivals, self._labels
        first = arrivals.first_event
        self.record = ClientRecord(
            request_id=request_id,
            started=self._started,
            ending=ending,
            e2e_s=perf_counter() - arrivals.began,
            model=model,
            operation=operation,
            finish_reason=self._reason,
            error=error,
            ttft_s=arrivals.first_piece_s,
            first_event_s=None if first is None else first - arrivals.began,
            gaps_s=arrivals.gaps(),
            pieces=len(arrivals.pieces),
            held_s=arrivals.held_s,
            behind_s=arrivals.behind_s,
        )
        if self._keep is not None:
            self._keep(self.record)

    def fail(self, error: BaseException) -> None:
        self.end(Ending.CANCELLED if isinstance(error, CANCELLING) else Ending.ERROR, type(error).__name__)


class _Measured(Generic[T]):
    def __init__(self, source: Any, iterator: Any, measurement: Measurement[T]) -> None:
        self._source, self._iterator, self._measurement = source, iterator, measurement

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # Not set yet: a failed construction is being undone.
            raise AttributeError(name)
        return getattr(self._source, name)

    def __del__(self) -> None:
        if "_measurement" in self.__dict__:
            self._measurement.end(Ending.CANCELLED)

    @property
    def record(self) -> ClientRecord | None:
        """None until the stream has ended."""
        return self._measurement.record

    def _holders(self) -> tuple[Any, ...]:
        """What is to be closed, from the inside out."""
        return (self._source,) if self._iterator is self._source else (self._iterator, self._source)


class MeasuredStream(_Measured[T]):
    """A sync stream with a clock at it. Use it in place of the source; as a context manager it closes at the end."""

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        asked = perf_counter()
        try:
            item: T = next(self._iterator)
        except StopIteration:
            self._measurement.end(Ending.COMPLETE)
            raise
        except BaseException as error:
            self._measurement.fail(error)
            raise
        self._measurement.took(asked, item)
        return item

    def close(self) -> None:
        self._measurement.end(Ending.CANCELLED)
        for holder in self._holders():
            close = getattr(holder, "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class MeasuredAsyncStream(_Measured[T]):
    """An async stream with a clock at it."""

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        asked = perf_counter()
        try:
            item: T = await anext(self._iterator)
        except StopAsyncIteration:
            self._measurement.end(Ending.COMPLETE)
            raise
        except BaseException as error:
            self._measurement.fail(error)
            raise
        self._measurement.took(asked, item)
        return item

    async def aclose(self) -> None:
        self._measurement.end(Ending.CANCELLED)
        for holder in self._holders():
            close = getattr(holder, "aclose", None) or getattr(holder, "close", None)
            closing = None if close is None else close()
            if closing is not None:
                await closing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


@overload
def measure(
    source: AsyncIterable[T],
    keep: Keep | None = ...,
    *,
    request_id: str = ...,
    model: str = ...,
    operation: str = ...,
    began: float | None = ...,
    tokens: Callable[[T], int] | None = ...,
    finish: Callable[[T], str | None] | None = ...,
) -> MeasuredAsyncStream[T]: ...


@overload
def measure(
    source: Iterable[T],
    keep: Keep | None = ...,
    *,
    request_id: str = ...,
    model: str = ...,
    operation: str = ...,
    began: float | None = ...,
    tokens: Callable[[T], int] | None = ...,
    finish: Callable[[T], str | None] | None = ...,
) -> MeasuredStream[T]: ...


def measure(
    source: AsyncIterable[T] | Iterable[T],
    keep: Keep | None = None,
    *,
    request_id: str = "",
    model: str = "",
    operation: str = "",
    began: float | None = None,
    tokens: Callable[[T], int] | None = None,
    finish: Callable[[T], str | None] | None = None,
) -> MeasuredAsyncStream[T] | MeasuredStream[T]:
    """`source` with a clock at it.

    keep: takes the record, such as `Recorder.record`. request_id: as the server knows the request; one is made up where
    none is given. began: `time.perf_counter()` at the request's making, where that was before this call. tokens: how
    many an item holds, 0 for one that is no output; without it each item is one. finish: an item's finish reason, if
    it has one.
    """
    labels = (request_id or uuid.uuid4().hex, model, operation)
    measurement: Measurement[T] = Measurement(keep, labels, began, tokens, finish)
    if isinstance(source, AsyncIterable):
        return MeasuredAsyncStream(source, aiter(source), measurement)
    return MeasuredStream(source, iter(source), measurement)
