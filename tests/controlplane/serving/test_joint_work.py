"""Work that comes at the same time: done once each, joint, by as many workers as there are, whoever leaves."""

import threading
from collections.abc import Sequence
from itertools import chain
from typing import Any

import anyio
import pytest
from anyio import CapacityLimiter

from controlplane.serving.joint_work import JointWork

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Work:
    """Squares numbers once it may; negative ones are an error of their own, 13 is one of all."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.may_go_on = threading.Event()
        self._begun = threading.Semaphore(0)

    def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
        self.calls.append(list(asked))
        self._begun.release()
        assert self.may_go_on.wait(30)
        if 13 in asked:
            raise RuntimeError("13")
        return [ValueError(str(one)) if one < 0 else one * one for one in asked]

    async def begun(self) -> None:
        """Until one more call has begun."""
        assert await anyio.to_thread.run_sync(self._begun.acquire, True, 30)


async def asking(joint: JointWork[int, int], number: int, found: dict[int, Any]) -> None:
    try:
        found[number] = await joint.do(number)
    except (ValueError, RuntimeError) as error:
        found[number] = error


async def settled() -> None:
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_comes_meanwhile_is_done_together(workers: int) -> None:
    work, found = Work(), {}  # type: tuple[Work, dict[int, Any]]
    joint = JointWork(work, CapacityLimiter(8), workers=workers, most=4)
    async with anyio.create_task_group() as tasks:
        for number in range(workers):
            tasks.start_soon(asking, joint, number, found)
            await work.begun()
        for number in range(20, 32):
            tasks.start_soon(asking, joint, number, found)
        await settled()
        assert joint.waiting == 12 and len(work.calls) == workers
        work.may_go_on.set()
    assert found == {number: number**2 for number in [*range(workers), *range(20, 32)]}
    assert sorted(chain.from_iterable(work.calls)) == sorted(found), "each once"
    assert sorted(map(len, work.calls)) == [1] * workers + [4, 4, 4] and joint.waiting == 0


async def test_one_error_is_of_one_alone() -> None:
    work, found = Work(), {}  # type: tuple[Work, dict[int, Any]]
    joint = JointWork(work, CapacityLimiter(8))
    async with anyio.create_task_group() as tasks:
        for number in (0, 1, -2, 3):
            tasks.start_soon(asking, joint, number, found)
        await settled()
        work.may_go_on.set()
    assert isinstance(found.pop(-2), ValueError) and found == {0: 0, 1: 1, 3: 9}


async def test_where_the_work_itself_fails_it_is_tried_without_whoever_asked_first() -> None:
    work, found = Work(), {}  # type: tuple[Work, dict[int, Any]]
    joint = JointWork(work, CapacityLimiter(8))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asking, joint, 0, found)
        await work.begun()
        for number in (13, 2, 3):
            tasks.start_soon(asking, joint, number, found)
        await settled()
        work.may_go_on.set()
    assert isinstance(found.pop(13), RuntimeError) and found == {0: 0, 2: 4, 3: 9}


async def test_whoever_leaves_takes_its_own_along_and_nobody_elses() -> None:
    work, found = Work(), {}  # type: tuple[Work, dict[int, Any]]
    joint = JointWork(work, CapacityLimiter(8))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asking, joint, 0, found)
        await work.begun()
        with anyio.CancelScope() as leaving:
            async with anyio.create_task_group() as some:
                some.start_soon(asking, joint, 1, found)
                await settled()
                tasks.start_soon(asking, joint, 2, found)
                await settled()
                leaving.cancel()
        assert joint.waiting == 1
        work.may_go_on.set()
    assert found == {0: 0, 2: 4} and work.calls == [[0], [2]]


async def test_a_leader_that_leaves_while_no_thread_is_free_leaves_the_others_to_others() -> None:
    work, found, limiter = Work(), {}, CapacityLimiter(1)  # type: tuple[Work, dict[int, Any], CapacityLimiter]
    joint = JointWork(work, limiter)
    work.may_go_on.set()
    async with anyio.create_task_group() as tasks:
        await limiter.acquire_on_behalf_of("somebody")
        with anyio.CancelScope() as leaving:
            async with anyio.create_task_group() as some:
                some.start_soon(asking, joint, 1, found)
                tasks.start_soon(asking, joint, 2, found)
                await settled()
                tasks.start_soon(asking, joint, 3, found)
                await settled()
                leaving.cancel()
        limiter.release_on_behalf_of("somebody")
    assert found == {2: 4, 3: 9} and sorted(chain.from_iterable(work.calls)) == [2, 3]
