"""A fault lasts as long as there is reason to believe in it, and no longer."""

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from controlplane.telemetry.journal.write_fault import QUIET_S, ROOM_BYTES, WriteFault

MB = 1 << 20


class World:
    """The disk and the time as a test sets them."""

    def __init__(self, free_bytes: int | None = 0) -> None:
        self.free_bytes = free_bytes
        self.now_s = 0.0
        self.fault = WriteFault(lambda: self.free_bytes, lambda: self.now_s)


class Full(Exception):
    sqlite_errorname = "SQLITE_FULL"


def error(driver: Any = None) -> OperationalError:
    return OperationalError("INSERT", {}, driver or Full())


def test_without_a_failure_there_is_none() -> None:
    assert World().fault.name() == ""


def test_it_is_news_once_and_ends_with_a_commit_of_its_size() -> None:
    world = World()
    assert [world.fault.failed(error(), 1000) for _ in range(2)] == [True, False]
    assert world.fault.failed(error(Exception()), 1000)
    world.fault.failed(error(), 1000)
    world.fault.went_well(499)
    assert world.fault.name() == "the disk is full"
    world.fault.went_well(500)
    assert world.fault.name() == ""


def test_it_ends_at_once_when_there_is_room() -> None:
    world = World(free_bytes=4096)
    world.fault.failed(error(), 1000)
    world.free_bytes = 4095 + ROOM_BYTES
    assert world.fault.name()
    world.free_bytes += 1
    assert world.fault.name() == ""


def test_a_large_commit_wants_more_room() -> None:
    world = World()
    world.fault.failed(error(), 10 * MB)
    world.free_bytes = 39 * MB
    assert world.fault.name()
    world.free_bytes = 40 * MB
    assert world.fault.name() == ""


@pytest.mark.parametrize(("free_bytes", "lasts"), [(0, True), (ROOM_BYTES - 1, True), (100 * MB, False), (None, False)])
def test_where_nobody_tries_it_lasts_only_while_the_disk_is_seen_to_be_full(
    free_bytes: int | None, lasts: bool
) -> None:
    world = World(free_bytes)
    world.fault.failed(error(), 1000)
    world.now_s = QUIET_S
    assert world.fault.name()
    world.now_s = QUIET_S + 1
    assert bool(world.fault.name()) is lasts


def test_a_database_that_was_away_is_tried_again_after_a_while() -> None:
    world = World(free_bytes=0)
    world.fault.failed(error(Exception("connection refused")), 1000)
    assert world.fault.name() == "OperationalError"
    world.now_s = QUIET_S + 1
    assert world.fault.name() == ""
