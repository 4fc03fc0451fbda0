"""Feeds: one computation for all, ids that grow, nothing twice, an end for everybody."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.errors import BadRequest, Overloaded
from controlplane.telemetry.queries import feeds as module
from controlplane.telemetry.queries.feeds import Failure, Feed, Streams, Update

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
T0 = int(START.timestamp())


class World:
    """Data up to `newest`, the present at `now`, and how often the query was computed."""

    def __init__(self) -> None:
        self.now = START + timedelta(seconds=60)
        self.newest: datetime | None = START + timedelta(seconds=30)
        self.stop = threading.Event()
        self.computed: list[int] = []
        self.errors: list[Exception] = []
        self.streams = Streams(lambda: self.newest, lambda: self.now, self.stop, poll_s=0.001)

    def compute(self, end: datetime) -> str:
        if self.errors:
            raise self.errors.pop()
        number = int(end.timestamp()) - T0
        self.computed.append(number)
        return json.dumps({"end": number})

    def data_until(self, seconds: float) -> None:
        self.newest = START + timedelta(seconds=seconds)


async def take(updates: AsyncIterator[Update | Failure], count: int) -> list[int]:
    """The numbers, counted from START, of the next updates."""
    found = []
    for _ in range(count):
        update = await asyncio.wait_for(anext(updates), 10)
        assert isinstance(update, Update) and json.loads(update.data) == {"end": update.number - T0}
        found.append(update.number - T0)
    return found


@pytest.fixture
def world() -> World:
    return World()


def run(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(act(), 30))


async def begun(world: World, stack: ExitStack, key: str = "q") -> Feed:
    feed = stack.enter_context(world.streams.listen(key, world.compute))
    await world.streams.begin(feed)
    return feed


def test_the_newest_answer_comes_at_once_and_each_later_window_anew(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            updates = world.streams.follow(await begun(world, stack))
            assert await take(updates, 1) == [30]
            world.data_until(35)
            assert await take(updates, 1) == [35]
            world.data_until(45)
            assert await take(updates, 1) == [45]
        assert world.computed == [30, 35, 45]

    run(act)


def test_a_window_that_has_just_ended_is_not_complete(world: World) -> None:
    async def act() -> None:
        world.now = START + timedelta(seconds=42)
        world.data_until(40)  # One node has reported it already, at 42: the others have until 45.
        with ExitStack() as stack:
            updates = world.streams.follow(await begun(world, stack))
            assert await take(updates, 1) == [35]
            world.now += timedelta(seconds=3)
            assert await take(updates, 1) == [40]

    run(act)


def test_listeners_of_one_query_share_its_computation(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            many = [world.streams.follow(await begun(world, stack)) for _ in range(20)]
            assert await asyncio.gather(*(take(one, 1) for one in many)) == [[30]] * 20
            world.data_until(35)
            assert await asyncio.gather(*(take(one, 1) for one in many)) == [[35]] * 20
        assert world.computed == [30, 35]

    run(act)


def test_who_comes_back_is_sent_what_was_missed_once(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            feed = await begun(world, stack)
            assert await take(world.streams.follow(feed, after=T0 + 10), 4) == [15, 20, 25, 30]
            assert await take(world.streams.follow(feed, after=T0 + 20), 2) == [25, 30]
            assert sorted(world.computed) == [15, 20, 25, 30]
            updates = world.streams.follow(feed, after=T0 + 30)
            world.data_until(35)
            assert await take(updates, 1) == [35]

    run(act)


def test_a_long_absence_is_cut_off(world: World) -> None:
    async def act() -> None:
        world.data_until(50)
        with ExitStack() as stack:
            feed = await begun(world, stack)
            found = await take(world.streams.follow(feed, after=T0 - 10_000_000), module.KEPT)
            assert found[-1] == 50 and found == list(range(50 - 5 * (module.KEPT - 1), 51, 5))
            assert len(feed.kept) == module.KEPT

    run(act)


def test_an_id_from_the_future_is_not_believed(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            assert await take(world.streams.follow(await begun(world, stack), after=10**15), 1) == [30]

    run(act)


def test_without_any_data_there_is_an_answer_and_then_silence(world: World) -> None:
    async def act() -> None:
        world.newest = None
        with ExitStack() as stack:
            updates = world.streams.follow(await begun(world, stack))
            assert await take(updates, 1) == [55]
            world.data_until(60)
            world.now += timedelta(seconds=30)
            assert await take(updates, 1) == [60]

    run(act)


def test_a_slow_listener_skips_and_holds_nobody_up(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            feed = await begun(world, stack)
            slow, quick = world.streams.follow(feed), world.streams.follow(feed)
            assert await take(slow, 1) == await take(quick, 1) == [30]
            world.now += timedelta(seconds=1_000)
            for number in range(35, 35 + 5 * (module.KEPT + 10), 5):
                world.data_until(number)
                assert await take(quick, 1) == [number]
            assert (await take(slow, 1))[0] == number - 5 * (module.KEPT - 1)

    run(act)


def test_stopping_ends_every_listener(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            many = [world.streams.follow(await begun(world, stack)) for _ in range(3)]
            for one in many:
                await take(one, 1)
            ends = [asyncio.ensure_future(anext(one, None)) for one in many]
            await asyncio.sleep(0)
            world.stop.set()
            assert await asyncio.wait_for(asyncio.gather(*ends), 10) == [None] * 3

    run(act)


def test_a_stream_ends_after_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        monkeypatch.setattr(module, "LONGEST_S", 0.01)
        with ExitStack() as stack:
            updates = world.streams.follow(await begun(world, stack))
            await take(updates, 1)
            assert await asyncio.wait_for(anext(updates, None), 10) is None

    run(act)


def test_listeners_and_queries_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        monkeypatch.setattr(module, "LISTENERS", 2)
        monkeypatch.setattr(module, "QUERIES", 1)
        with ExitStack() as stack:
            await begun(world, stack)
            with pytest.raises(Overloaded), world.streams.listen("another", world.compute):
                pass
            await begun(world, stack)
            with pytest.raises(Overloaded) as raised, world.streams.listen("q", world.compute):
                pass
            assert raised.value.retry_after_s > 0
        with ExitStack() as stack:
            await begun(world, stack, "another")

    run(act)


def test_a_query_that_was_never_right_is_an_error_at_once(world: World) -> None:
    async def act() -> None:
        world.errors.append(BadRequest("metric: no"))
        with pytest.raises(BadRequest), ExitStack() as stack:
            await begun(world, stack)

    run(act)


def test_a_query_that_outgrows_a_limit_is_told_so_and_ends(world: World) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            updates = world.streams.follow(await begun(world, stack))
            await take(updates, 1)
            error = BadRequest("step: over 20000 groups times steps in one answer")
            world.errors.append(error)
            world.data_until(35)
            failure = await asyncio.wait_for(anext(updates), 10)
            assert isinstance(failure, Failure) and failure.error is error
            assert await asyncio.wait_for(anext(updates, None), 10) is None

    run(act)


def test_other_troubles_are_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        with ExitStack() as stack:
            updates = world.streams.follow(await begun(world, stack))
            await take(updates, 1)
            world.errors.append(OSError("the database is away"))
            world.data_until(35)
            assert await take(updates, 1) == [35]
            assert "streams could not be brought up to date" in caplog.text

    run(act)
