"""Tokens that are asked for together are looked up together, and each after it was asked for."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from controlplane.serving.joint_lookup import JointLookup


class Table:
    """Answers in capitals, once it is let."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.may_answer = threading.Semaphore(0)

    def look(self, tokens: Sequence[str]) -> dict[str, str]:
        self.asked.append(list(tokens))
        self.begun.release()
        self.may_answer.acquire()
        if "broken" in tokens:
            raise OSError("gone")
        return {token: token.upper() for token in tokens}


def test_those_that_come_during_a_look_share_the_next() -> None:
    table = Table()

    async def run() -> list[str]:
        lookup = JointLookup(table.look)
        first = asyncio.create_task(lookup.find("a"))
        await asyncio.to_thread(table.begun.acquire)
        others = [asyncio.create_task(lookup.find(token)) for token in ("a", "b", "b", "c")]
        await asyncio.sleep(0)
        table.may_answer.release(2)
        return [await task for task in (first, *others)]

    assert asyncio.run(run()) == ["A", "A", "B", "B", "C"]
    assert table.asked == [["a"], ["a", "b", "c"]]


def test_who_hangs_up_takes_nothing_from_the_others() -> None:
    table = Table()

    async def run() -> str:
        lookup = JointLookup(table.look)
        gone, stays = (asyncio.create_task(lookup.find("a")) for _ in range(2))
        await asyncio.to_thread(table.begun.acquire)
        gone.cancel()
        table.may_answer.release()
        return await stays

    assert asyncio.run(run()) == "A"


def test_a_look_that_fails_fails_for_all_of_it_and_the_next_one_works() -> None:
    table = Table()
    table.may_answer.release(2)

    async def run() -> str:
        lookup = JointLookup(table.look)
        failed = await asyncio.gather(lookup.find("broken"), lookup.find("a"), return_exceptions=True)
        assert [type(one) for one in failed] == [OSError, OSError]
        return await lookup.find("a")

    assert asyncio.run(run()) == "A"
    assert len(table.asked) == 2


def test_it_raises_what_the_look_has_raised() -> None:
    table = Table()
    table.may_answer.release()
    with pytest.raises(OSError, match="gone"):
        asyncio.run(JointLookup(table.look).find("broken"))
