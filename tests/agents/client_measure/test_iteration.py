"""Any stream: what goes in comes out, and one record is made of it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.client_measure import ClientRecord, Ending, measure


class Broken(Exception):
    pass


class Source:
    """Yields its items, then ends or raises; notes whether it was closed."""

    def __init__(self, items: list[Any], error: BaseException | None = None) -> None:
        self._items, self._error = iter(items), error
        self.closed = 0
        self.response = "as it was"

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for item in self._items:
            return item
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        self.closed += 1


class AsyncSource(Source):
    __iter__ = None  # type: ignore[assignment]

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.closed += 1


def drain(source: Source, records: list[ClientRecord], **options: Any) -> tuple[list[Any], BaseException | None]:
    """Read to the end, whichever kind it is."""
    found: list[Any] = []

    async def read() -> None:
        stream: Any = measure(source, records.append, **options)
        async for item in stream:
            found.append(item)

    try:
        if isinstance(source, AsyncSource):
            asyncio.run(read())
        else:
            for item in measure(source, records.append, **options):
                found.append(item)
    except (Broken, asyncio.CancelledError) as error:
        return found, error
    return found, None


KINDS = pytest.mark.parametrize("kind", [Source, AsyncSource])


@KINDS
@given(items=st.lists(st.integers()), fails=st.booleans())
def test_what_goes_in_comes_out(kind: type[Source], items: list[int], fails: bool) -> None:
    error = Broken("halfway") if fails else None
    records: list[ClientRecord] = []
    found, raised = drain(kind(items, error), records)
    assert found == items and raised is error
    (record,) = records
    assert record.ending is (Ending.ERROR if fails else Ending.COMPLETE)
    assert record.error == ("Broken" if fails else "")
    assert record.pieces == len(items) and len(record.gaps_s) == max(0, len(items) - 1)
    assert (record.ttft_s is None) == (not items)
    assert record.e2e_s >= (record.ttft_s or 0.0) + sum(record.gaps_s) - 1e-9


@KINDS
def test_a_cancelled_read_is_cancelled_not_failed(kind: type[Source]) -> None:
    records: list[ClientRecord] = []
    _, raised = drain(kind([1], asyncio.CancelledError()), records)
    assert isinstance(raised, asyncio.CancelledError)
    assert [(record.ending, record.pieces) for record in records] == [(Ending.CANCELLED, 1)]


@KINDS
def test_tokens_and_finish_are_asked_of_each_item(kind: type[Source]) -> None:
    items = [{"tokens": 0}, {"tokens": 3}, {"tokens": 2, "finish": "length"}, {"tokens": 0}]
    records: list[ClientRecord] = []
    drain(
        kind(items),
        records,
        tokens=lambda item: item["tokens"],
        finish=lambda item: item.get("finish"),
        request_id="r-1",
        model="m",
        operation="chat",
    )
    (record,) = records
    assert (record.pieces, record.tokens, record.finish_reason) == (5, 5, "length")
    assert (record.request_id, record.model, record.operation) == ("r-1", "m", "chat")
    assert record.first_event_s is not None and record.ttft_s is not None and record.first_event_s < record.ttft_s
    assert record.gaps_s.count(0.0) >= 3, "those that came at once have no time between them"


def test_closing_closes_the_source_and_is_a_cancellation() -> None:
    source, records = Source([1, 2, 3]), list[ClientRecord]()
    with measure(source, records.append) as stream:
        assert next(stream) == 1
        assert not records
    assert source.closed == 1 and stream.record is records[0]
    assert (records[0].ending, records[0].pieces) == (Ending.CANCELLED, 1)
    stream.close()
    assert len(records) == 1


def test_closing_an_async_stream_closes_its_source() -> None:
    async def run() -> tuple[int, list[ClientRecord]]:
        source, records = AsyncSource([1, 2]), list[ClientRecord]()
        async with measure(source, records.append) as stream:
            assert await anext(stream) == 1
        return source.closed, records

    closed, records = asyncio.run(run())
    assert closed == 1 and [record.ending for record in records] == [Ending.CANCELLED]


def test_a_generator_is_closed_and_its_cleanup_runs() -> None:
    cleaned: list[str] = []

    def generate() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            cleaned.append("sync")

    async def agenerate() -> AsyncIterator[int]:
        try:
            for number in range(5):
                yield number
        finally:
            cleaned.append("async")

    async def run() -> None:
        async with measure(agenerate()) as stream:
            await anext(stream)

    with measure(generate()) as stream:
        next(stream)
    asyncio.run(run())
    assert cleaned == ["sync", "async"]


def test_closing_at_the_end_changes_nothing() -> None:
    records: list[ClientRecord] = []
    with measure([1, 2], records.append) as stream:
        assert list(stream) == [1, 2]
    assert [record.ending for record in records] == [Ending.COMPLETE]


def test_a_stream_that_is_let_go_of_is_a_cancellation() -> None:
    records: list[ClientRecord] = []
    for _ in measure(Source([1, 2]), records.append):
        break
    gc.collect()
    assert [record.ending for record in records] == [Ending.CANCELLED]


def test_the_clock_starts_when_the_request_was_made() -> None:
    began = perf_counter() - 5.0
    stream = measure([1], began=began)
    list(stream)
    record = stream.record
    assert record is not None and record.ttft_s is not None and record.ttft_s >= 5.0 and record.e2e_s >= record.ttft_s


def test_other_attributes_are_the_sources() -> None:
    assert measure(Source([])).response == "as it was"
    with pytest.raises(AttributeError):
        _ = measure(Source([])).missing


def test_each_stream_has_an_id() -> None:
    first, second = measure([1]), measure([1])
    assert [*first, *second] == [1, 1]
    assert first.record is not None and second.record is not None
    assert len(first.record.request_id) == 32 and first.record.request_id != second.record.request_id
