"""Between the engine's stream and the spool: nothing is stored twice, whatever is cancelled or full."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agents.agent.collector import Collector
from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.spool import Spool
from agents.agent.reports.clock_offset import ClockReading
from agents.agent.reports.report import NodeIdentity
from agents.backends.base import EngineUnreachable, Position
from controlplane.contract import metrics
from controlplane.contract.reports import packed_report
from tests.agents.backends.fake_engine import request_events

START = 1_700_000_000.0


class ListBackend:
    """Streams what it was given, then waits."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events_given = events
        self.asked: list[Position | None] = []
        self.done = asyncio.Event()

    async def events(self, position: Position | None) -> AsyncIterator[Any]:
        self.asked.append(position)
        yield {"kind": "hello", "boot": "b", "oldest": 1, "model": "m"}
        after = 0 if position is None else position.seq
        for event in self.events_given:
            if event["seq"] > after:
                yield event
        if len(self.asked) == 1:
            raise EngineUnreachable("the first stream breaks")
        self.done.set()
        await asyncio.Event().wait()


def numbered(count: int) -> list[dict[str, Any]]:
    events = [event for number in range(count) for event in request_events(START + number, number)]
    return [{**event, "seq": seq} for seq, event in enumerate(events, 1)]


def collector(backend: ListBackend, spool: Spool, **more: Any) -> Collector:
    return Collector(
        backend,
        spool,
        NodeIdentity("node-a", "pool-a"),
        Credentials("node-a", "default", "serving", "t", "00"),
        **{
            "interval_s": 5.0,
            "grace_s": 0.5,
            "on_engine": lambda hello: None,
            "on_report": lambda: None,
            "now": lambda: START + 100,
            **more,
        },
    )


def test_a_broken_stream_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    async def run() -> None:
        backend, spool = ListBackend(numbered(12)), Spool(tmp_path, 10**7)
        made = collector(backend, spool)
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)
        await made.flush()
        assert backend.asked == [None, Position("b", 48)]
        assert spool.depth == 3
        assert spool.position == Position("b", 48)
        ended = [event for event in numbered(12) if event["kind"] == "finished"]
        last = [event for event in ended if event["time"] // 5 == ended[-1]["time"] // 5]
        unaccounted_s, e2e_s = (sum(event[part] for event in last) for part in ("unaccounted", "e2e"))
        assert len(last) < len(ended) and made.unaccounted_share == pytest.approx(unaccounted_s / e2e_s)
        reading.cancel()

    asyncio.run(run())


def test_a_write_that_is_cancelled_is_not_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        backend, spool = ListBackend(numbered(3)), Spool(tmp_path, 10**7)
        made = collector(backend, spool)
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)
        entered, go_on = threading.Event(), threading.Event()
        append = spool.append

        def slow(*given: Any) -> int:
            entered.set()
            assert go_on.wait(5)
            return append(*given)

        monkeypatch.setattr(spool, "append", slow)
        made._accumulator.seal()
        writing = asyncio.create_task(made.store())
        await asyncio.to_thread(entered.wait, 5)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        go_on.set()
        await made.flush()
        assert spool.waiting() == [1]
        reading.cancel()

    asyncio.run(run())


def test_a_full_disk_keeps_reports_in_memory_until_it_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        backend, spool = ListBackend(numbered(12)), Spool(tmp_path, 10**7)
        made = collector(backend, spool)
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)

        def full(*_: Any) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(spool, "append", full)
            await made.flush()
            assert "No space left" in made.disk_error
            assert (spool.depth, spool.position) == (0, None)
        assert await made.store()
        assert (spool.depth, spool.position, made.disk_error) == (3, Position("b", 48), "")
        reading.cancel()

    asyncio.run(run())


def test_a_report_that_cannot_be_encoded_does_not_stop_the_others(tmp_path: Path) -> None:
    async def run() -> None:
        events = numbered(12)
        events[18] = {**events[18], "kv_usage": "not a number"}
        events[-1] = {**events[-1], "block_hashes": ["not a number"]}
        backend, spool = ListBackend(events), Spool(tmp_path, 10**7)
        made = collector(backend, spool)
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)
        await made.flush()
        assert (spool.depth, made.dropped) == (2, 1)
        report = spool.read(spool.waiting()[-1])
        assert report is not None
        assert report.traces is not None
        (block,) = ExportTraceServiceRequest.FromString(report.traces.decoded()).resource_spans
        assert len(block.scope_spans[0].spans) == 1
        first = spool.read(1)
        assert first is not None
        told = packed_report.decode(first.metrics.decoded())
        place = told.metrics.index((metrics.SPOOL_DROPPED.name, metrics.SPOOL_DROPPED.kind))
        assert [one.value for section in told.sections for one in section.sums if one.metric == place] == [1.0]
        reading.cancel()

    asyncio.run(run())


def test_each_report_carries_the_clock_and_the_same_table(tmp_path: Path) -> None:
    async def run() -> None:
        backend, spool = ListBackend(numbered(17)), Spool(tmp_path, 10**7)
        made = collector(backend, spool, clock=lambda: ClockReading(0.25, 0.001))
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)
        await made.flush()
        reports = []
        for ordinal in spool.waiting():
            stored = spool.read(ordinal)
            assert stored is not None and stored.metrics.is_packed
            report = packed_report.decode(stored.metrics.decoded())
            assert (report.stream, report.ordinal) == (stored.stream, stored.ordinal)
            reports.append(report)
        assert len(reports) == 4
        for report in reports:
            own = {
                report.metrics[one.metric][0]: one.value
                for one in report.sections[0].gauges
                if report.labels[one.labels] == {}
            }
            assert own == {
                metrics.SPOOL_DEPTH.name: report.ordinal - 1,
                metrics.CLOCK_OFFSET.name: 0.25,
                metrics.CLOCK_OFFSET_ERROR.name: 0.001,
            }
        assert reports[1].metrics == reports[2].metrics == reports[3].metrics
        assert reports[1].labels == reports[2].labels == reports[3].labels
        reading.cancel()

    asyncio.run(run())


def test_windows_may_be_as_wide_as_the_interval(tmp_path: Path) -> None:
    async def run() -> None:
        backend, spool = ListBackend(numbered(12)), Spool(tmp_path, 10**7)
        made = collector(backend, spool, interval_s=10.0, window_s=10.0)
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)
        await made.flush()
        windows = []
        for ordinal in spool.waiting():
            stored = spool.read(ordinal)
            assert stored is not None
            windows.append([section.window for section in packed_report.decode(stored.metrics.decoded()).sections])
        # What happened in ten seconds is told in the second five of them.
        assert windows == [[START // 5 + 1], [START // 5 + 3]]
        reading.cancel()

    asyncio.run(run())


def test_what_the_host_did_goes_with_the_next_report_and_with_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        backend, spool = ListBackend(numbered(12)), Spool(tmp_path, 10**7)
        window = START // 5
        waiting = [{window: {metrics.HOST_STEAL: 0.25}}]
        made = collector(backend, spool, host=lambda: waiting.pop() if waiting else {})
        reading = asyncio.create_task(made.read())
        await asyncio.wait_for(backend.done.wait(), 60)
        await made.flush()
        told = []
        for ordinal in spool.waiting():
            stored = spool.read(ordinal)
            assert stored is not None
            report = packed_report.decode(stored.metrics.decoded())
            told += [
                (ordinal, section.window, one.value)
                for section in report.sections
                for one in section.gauges
                if report.metrics[one.metric][0] == metrics.HOST_STEAL.name
            ]
        assert told == [(1, window, 0.25)]
        reading.cancel()

    asyncio.run(run())
