"""A transport of httpx (or httpx2, which the openai client uses) with a clock at it.

Guarantee: what the transport below yields and raises goes through as it is and when it comes; nothing is read ahead. A
request gets an `X-Request-Id` where it has none; only requests to the addresses in `OPERATIONS` are measured, all
others are handed on untouched. Each exchange is a record of its own, a redirect or a retry too.
"""

import re
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache
from time import perf_counter
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

from agents.client_measure.client_record import ClientRecord
from agents.client_measure.http_exchange import Exchange

T = TypeVar("T")

REQUEST_ID_HEADER = "X-Request-Id"
OPERATIONS: Mapping[str, str] = MappingProxyType({"/chat/completions": "chat", "/completions": "text_completion"})
"""Ends of measured paths to gen_ai.operation.name."""
_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,256})"')


def timed_transport(inner: T, keep: Callable[[ClientRecord], None]) -> T:
    """`inner`, a sync or async transport, with a clock at it; `keep` (a `Recorder.record`) takes the records."""
    return cast(T, TimedTransport(inner, keep))


class TimedTransport:
    """Stands in for `inner`, whose other attributes it has too."""

    def __init__(self, inner: Any, keep: Callable[[ClientRecord], None]) -> None:
        self.inner = inner
        self.keep = keep

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def handle_request(self, request: Any) -> Any:
        exchange = _exchange(request, self.keep)
        if exchange is None:
            return self.inner.handle_request(request)
        told = request.extensions.get("trace")

        def trace(event: str, info: dict[str, Any]) -> None:
            exchange.marks.note(event, perf_counter(), info)
            if told is not None:
                told(event, info)

        request.extensions["trace"] = trace
        try:
            response = self.inner.handle_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            _put_back(request, told)
        return _timed(response, exchange, of_async=False)

    async def handle_async_request(self, request: Any) -> Any:
        exchange = _exchange(request, self.keep)
        if exchange is None:
            return await self.inner.handle_async_request(request)
        told = request.extensions.get("trace")

        async def trace(event: str, info: dict[str, Any]) -> None:
            exchange.marks.note(event, perf_counter(), info)
            if told is not None:
                await told(event, info)

        request.extensions["trace"] = trace
        try:
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            _put_back(request, told)
        return _timed(response, exchange, of_async=True)

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.inner.__exit__(*raised)

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.inner.__aexit__(*raised)


class TimedBytes:
    """A sync body with a clock at it."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    def __iter__(self) -> Iterator[bytes]:
        return _Reads(iter(self._inner), self._exchange)

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._exchange.closed()


class TimedAsyncBytes:
    """An async body with a clock at it."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _AsyncReads(aiter(self._inner), self._exchange)

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._exchange.closed()


class _Reads:
    __slots__ = ("_inner", "_took", "exchange")

    def __init__(self, inner: Iterator[bytes], exchange: Exchange) -> None:
        self._inner, self._took, self.exchange = inner, exchange.took, exchange

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        asked = perf_counter()
        try:
            chunk = next(self._inner)
        except StopIteration:
            self.exchange.finished()
            raise
        except BaseException as error:
            self.exchange.failed(error)
            raise
        self._took(asked, perf_counter(), chunk)
        return chunk


class _AsyncReads:
    __slots__ = ("_inner", "_took", "exchange")

    def __init__(self, inner: AsyncIterator[bytes], exchange: Exchange) -> None:
        self._inner, self._took, self.exchange = inner, exchange.took, exchange

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        asked = perf_counter()
        try:
            chunk = await anext(self._inner)
        except StopAsyncIteration:
            self.exchange.finished()
            raise
        except BaseException as error:
            self.exchange.failed(error)
            raise
        self._took(asked, perf_counter(), chunk)
        return chunk


def _exchange(request: Any, keep: Callable[[ClientRecord], None]) -> Exchange | None:
    """None for a request that is not measured."""
    path = str(request.url.path)
    operation = next((name for end, name in OPERATIONS.items() if path.endswith(end)), None)
    if operation is None or request.method != "POST":
        return None
    request_id = request.headers.get(REQUEST_ID_HEADER)
    if not request_id:
        request_id = request.headers[REQUEST_ID_HEADER] = uuid.uuid4().hex
    return Exchange(
        keep,
        request_id=request_id,
        model=_model(request),
        operation=operation,
        target=request.url.netloc.decode("ascii", "replace"),
    )


def _model(request: Any) -> str:
    """The model asked for; "" where the request's body is not at hand."""
    body = getattr(request, "_content", None)  # `content` raises for a body that is streamed.
    found = _MODEL.search(body) if isinstance(body, bytes) else None
    return found[1].decode("utf-8", "replace") if found else ""


def _put_back(request: Any, told: Any) -> None:
    if told is None:
        request.extensions.pop("trace", None)
    else:
        request.extensions["trace"] = told


def _timed(response: Any, exchange: Exchange, *, of_async: bool) -> Any:
    headers = response.headers
    exchange.answered(
        response.status_code,
        headers.get("content-type", "").lower(),
        headers.get("content-encoding", "").strip().lower(),
    )
    if response.is_closed:  # The transport has read it all already.
        now = perf_counter()
        exchange.took(now, now, response.content)
        exchange.finished()
        return response
    library = type(response).__module__.partition(".")[0]
    response.stream = _stream_class(library, of_async)(response.stream, exchange)
    return response


@cache
def _stream_class(library: str, of_async: bool) -> Callable[[Any, Exchange], Any]:
    """The timed body as a class of the library's own kind, which its client insists on."""
    module = sys.modules[library]
    own, base = (TimedAsyncBytes, module.AsyncByteStream) if of_async else (TimedBytes, module.SyncByteStream)
    made: Callable[[Any, Exchange], Any] = type(own.__name__, (own, base), {})
    return made
