"""Group commit: nobody is told of success before the disk has it, and one bad report never costs another."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sqlalchemy import event, func, select
from sqlalchemy.exc import OperationalError
from sqlmodel import col

from controlplane.contract.errors import BadRequest, Conflict, Overloaded, TooLarge, Unavailable, Unsupported
from controlplane.contract.reports.packed_report import PackedReport, encode
from controlplane.db.database import Database
from controlplane.telemetry.journal import journal
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.journal.writer import Body, Writer
from controlplane.telemetry.meters import Meters
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.tables import PendingRow
from tests.controlplane.telemetry.ingesting import settled, submitted
from tests.controlplane.telemetry.packed_reports import BOUNDS, NOW, report
from tests.made_tables import migrate

LIMIT_S = 60.0


def make(database: Database, **limits: Any) -> Writer:
    return Writer(database, Names(), lambda: NOW, Meters(), **limits)


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    found = make(database, linger_s=0.0)
    found.start()
    yield found
    found.close()


class Gate:
    """Holds the writer's commits up until it is opened; counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.opened = threading.Semaphore(0), threading.Event()
        self.sizes: list[int] = []
        write = journal.write

        def held(session: Any, prepared: journal.Prepared, *given: Any) -> journal.Written:
            self.sizes.append(len(prepared.entries))
            self.entered.release()
            assert self.opened.wait(LIMIT_S)
            return write(session, prepared, *given)

        monkeypatch.setattr(journal, "write", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def send(writer: Writer, given: PackedReport, encoding: str = "zstd") -> "Future[Entry]":
    body = encode(given)
    return send_body(writer, zstandard.compress(body) if encoding == "zstd" else body, encoding)


def send_body(writer: Writer, body: bytes, encoding: str) -> "Future[Entry]":
    return submitted(lambda: writer.submit(Body(body, encoding, BOUNDS)))


def pending_rows(database: Database) -> int:
    with database.session() as session:
        return int(session.execute(select(func.count()).select_from(PendingRow)).scalar_one())


def test_what_waits_goes_into_one_commit_and_is_answered_after_it(
    writer: Writer, gate: Gate, database: Database
) -> None:
    futures = [send(writer, report(1))]
    assert gate.entered.acquire(timeout=LIMIT_S)
    futures += [send(writer, report(ordinal), "") for ordinal in range(2, 12)]
    assert writer.depth == 10
    assert not any(future.done() for future in futures)
    gate.opened.set()
    assert [future.result(LIMIT_S).accepted for future in futures] == [12] * 11
    assert gate.sizes == [1, 10] and pending_rows(database) == 2


def test_no_future_is_done_before_the_commit(writer: Writer, database: Database) -> None:
    seen, handed = [], threading.Event()

    def committing(_: Any) -> None:
        assert handed.wait(LIMIT_S)  # The writer may be there before `send` has returned.
        settled()
        seen.append(future.done())

    event.listen(database.engine, "commit", committing)
    future = send(writer, report(1))
    handed.set()
    future.result(LIMIT_S)
    assert seen == [False]


def test_a_body_that_cannot_be_read_costs_nobody_else(writer: Writer, gate: Gate) -> None:
    first = send(writer, report(1))
    assert gate.entered.acquire(timeout=LIMIT_S)
    bad = [
        send_body(writer, b"no zstd", "zstd"),
        send_body(writer, b"no report", ""),
        send_body(writer, encode(report(2)), "snappy"),
        send_body(writer, zstandard.compress(bytes(64 << 20)), "zstd"),
    ]
    good = send(writer, report(2))
    gate.opened.set()
    assert first.result(LIMIT_S).accepted == good.result(LIMIT_S).accepted == 12
    errors = [type(future.exception(LIMIT_S)) for future in bad]
    assert errors == [BadRequest, BadRequest, Unsupported, TooLarge]


def test_a_report_too_far_back_is_told_so(writer: Writer) -> None:
    assert send(writer, report(5000)).result(LIMIT_S).accepted == 12
    error = send(writer, report(5)).exception(LIMIT_S)
    assert isinstance(error, Conflict) and error.detail["highest"] == 5000


@pytest.mark.parametrize("error", [ValueError("poison"), OperationalError("poison", {}, Exception())])
def test_an_entry_that_cannot_be_written_fails_alone(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.CRITICAL)
    gate = Gate(monkeypatch)
    held = journal.write

    def poisoned(session: Any, prepared: journal.Prepared, *given: Any) -> journal.Written:
        written = held(session, prepared, *given)
        if any(entry.stream is not None and entry.stream.ordinal == 3 for entry in prepared.entries):
            raise error  # After everything was written, so that a rollback must undo it.
        return written

    monkeypatch.setattr(journal, "write", poisoned)
    futures = [send(writer, report(1))]
    assert gate.entered.acquire(timeout=LIMIT_S)
    futures += [send(writer, report(ordinal)) for ordinal in (2, 3, 4)]
    gate.opened.set()
    failed = futures.pop(2).exception(LIMIT_S)
    assert isinstance(failed, Unavailable) if isinstance(error, OperationalError) else failed is error
    assert [(f.result(LIMIT_S).accepted, f.result().repeated) for f in futures] == [(12, 0)] * 3
    monkeypatch.undo()
    assert send(writer, report(3)).result(LIMIT_S).accepted == 12


def test_a_passing_trouble_of_the_database_is_tried_again(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    write, failures = journal.write, iter([True, True])

    def troubled(*given: Any) -> journal.Written:
        if next(failures, False):
            raise OperationalError("deadlock", {}, Exception())
        return write(*given)

    monkeypatch.setattr(journal, "write", troubled)
    assert send(writer, report(1)).result(LIMIT_S).accepted == 12


@pytest.mark.parametrize("limits", [{"queue_limit": 3}, {"queue_bytes": 3 * len(encode(report(10)))}])
def test_beyond_its_bounds_it_says_so_and_recovers(database: Database, gate: Gate, limits: dict[str, int]) -> None:
    writer = make(database, **limits)
    writer.start()
    try:
        futures = [send(writer, report(10), "")]
        assert gate.entered.acquire(timeout=LIMIT_S)
        futures += [send(writer, report(ordinal), "") for ordinal in (11, 12, 13)]
        with pytest.raises(Overloaded) as caught:
            send(writer, report(14), "")
        assert caught.value.retry_after_s > 0
        gate.opened.set()
        assert [future.result(LIMIT_S).accepted for future in futures] == [12] * 4
        assert send(writer, report(14), "").result(LIMIT_S).accepted == 12
    finally:
        writer.close()


def test_what_waits_to_be_folded_is_bounded_too(database: Database) -> None:
    writer = make(database, backlog_bytes=1000, linger_s=0.0)
    writer.start()
    try:
        for ordinal in (1, 2):  # Nobody has said that anything is ever folded.
            assert send(writer, report(ordinal)).result(LIMIT_S).accepted == 12
        writer.note_backlog(900)
        assert send(writer, report(3)).result(LIMIT_S).accepted == 12
        with pytest.raises(Overloaded, match="wait to be folded"):
            send(writer, report(4))
        writer.note_backlog(0)
        assert send(writer, report(4)).result(LIMIT_S).accepted == 12
    finally:
        writer.close()


def test_closing_writes_what_waits_and_then_takes_nothing(database: Database, gate: Gate) -> None:
    writer = make(database)
    with pytest.raises(Unavailable):
        send(writer, report(1))
    writer.start()
    futures = [send(writer, report(ordinal)) for ordinal in (1, 2, 3)]
    closer = threading.Thread(target=writer.close)
    closer.start()
    gate.opened.set()
    closer.join(LIMIT_S)
    assert not writer.alive and [future.result(LIMIT_S).accepted for future in futures] == [12] * 3
    with pytest.raises(Unavailable):
        send(writer, report(4))


def test_reports_of_one_node_come_out_in_the_order_they_came_in(writer: Writer, gate: Gate) -> None:
    """Of one report sent twice the first counts, in one commit as in two."""
    futures = [send(writer, report(1))]
    assert gate.entered.acquire(timeout=LIMIT_S)
    futures += [send(writer, report(ordinal)) for ordinal in (1, 2, 2, 1)]
    gate.opened.set()
    assert [(f.result(LIMIT_S).accepted, f.result().repeated) for f in futures] == [
        (12, 0), (0, 12), (12, 0), (0, 12), (0, 12),
    ]  # fmt: skip


def test_coroutines_are_woken_once_for_a_commit(writer: Writer, gate: Gate) -> None:
    async def several() -> None:
        loop = asyncio.get_running_loop()
        wakes = []
        real = loop.call_soon_threadsafe

        def counted(callback: Any, *given: Any, **named: Any) -> Any:
            wakes.append(callback)
            return real(callback, *given, **named)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        first = writer.submit(Body(encode(report(1)), "", BOUNDS))
        await asyncio.to_thread(gate.entered.acquire, timeout=LIMIT_S)
        wakes.clear()
        rest = [writer.submit(Body(encode(report(ordinal)), "", BOUNDS)) for ordinal in (2, 3, 4)]
        entry = writer.submit(Entry(silent=1))
        hung_up = writer.submit(Body(encode(report(5)), "", BOUNDS))
        hung_up.cancel()
        bad = writer.submit(Body(b"", "", BOUNDS))
        gate.opened.set()
        done = await asyncio.wait_for(asyncio.gather(first, *rest, entry), LIMIT_S)
        assert [one.accepted for one in done] == [12, 12, 12, 12, 1]
        with pytest.raises(BadRequest):
            await bad
        assert len(wakes) == 3  # The first commit, the body that could not be read, the second commit.

    asyncio.run(several())
    assert send(writer, report(5)).result(LIMIT_S).repeated == 12  # It was written, though nobody waited any more.


def test_a_loop_that_has_ended_does_not_stop_the_writer(writer: Writer, gate: Gate) -> None:
    async def leave() -> None:
        writer.submit(Body(encode(report(1)), "", BOUNDS))

    asyncio.run(leave())
    gate.opened.set()
    assert send(writer, report(1)).result(LIMIT_S).repeated == 12


def test_two_replicas_that_get_the_same_reports_count_each_once(any_database: Database) -> None:
    replicas = [make(any_database), make(any_database)]
    for one in replicas:
        one.start()
    try:
        futures = [[send(one, report(ordinal)) for ordinal in range(1, 40)] for one in replicas]
        pairs = [[future.result(LIMIT_S) for future in pair] for pair in zip(*futures, strict=True)]
        assert [sum(entry.accepted for entry in pair) for pair in pairs] == [12] * 39
        assert [sum(entry.repeated for entry in pair) for pair in pairs] == [12] * 39
    finally:
        for one in replicas:
            one.close()
    with any_database.session() as session:
        assert session.execute(select(func.min(col(PendingRow.id)))).scalar_one() >= 1


def test_a_full_disk_is_called_so_and_its_trace_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite's own limit on its file, at its present size: the next page is refused as by a full disk."""
    database = Database(f"sqlite:///{tmp_path / 'full.db'}")
    migrate(database)
    pages = [0]

    def limit(connection: Any, *_: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0] or 1 << 30}")

    event.listen(database.engine, "checkout", limit)
    writer = make(database, linger_s=0.0)
    writer.start()
    assert send(writer, report(1)).result(LIMIT_S) and writer.fault.name() == ""
    pages[0] = 1
    for ordinal in range(2, 400):
        future = send(writer, report(ordinal, label_sets=20, seed=ordinal))
        if future.exception(LIMIT_S):
            break
    for ordinal in (1000, 1001):
        with pytest.raises(Unavailable, match="could not be written: the disk is full; send it again"):
            send(writer, report(ordinal, label_sets=20, seed=ordinal)).result(LIMIT_S)
    assert writer.fault.name() == "the disk is full"
    assert sum(record.message == "a report could not be written" for record in caplog.records) == 1
    pages[0] = 0
    assert send(writer, report(1002, label_sets=20, seed=1002)).result(LIMIT_S)
    assert writer.fault.name() == ""
    writer.close()
    database.close()
