"""Looks of several streams: one drawing for all who may share it, and each one's own where it is."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controlplane.contract.bodies.access import Scope
from web.frame.look import Look
from web.frame.shared_looks import KEPT_S, SharedLooks, Sight

SIGHT = Sight("now", "pools", "?pool=chat", Scope.READ, 0)


class Drawn:
    """Draws the number of the drawing, when it is let go on."""

    def __init__(self, own: bool = False) -> None:
        self.own, self.count, self.go_on = own, 0, asyncio.Event()

    async def __call__(self) -> Look:
        self.count += 1
        number = self.count
        await self.go_on.wait()
        return Look(str(number), own=self.own)


async def begun(*looks: Any) -> list[asyncio.Task[Look]]:
    """Those looks, each waiting for its answer."""
    tasks = [asyncio.ensure_future(one) for one in looks]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def markup_of(drawing: Drawn, asked: Callable[[SharedLooks], list[Any]]) -> list[str | None]:
    """What all who ask at once are shown."""

    async def run() -> list[str | None]:
        tasks = await begun(*asked(SharedLooks()))
        drawing.go_on.set()
        return [(await one).markup for one in tasks]

    return asyncio.run(run())


def test_those_who_ask_at_once_share_one_drawing() -> None:
    drawing = Drawn()
    assert markup_of(drawing, lambda looks: [looks.look(SIGHT, drawing) for _ in range(5)]) == ["1"] * 5


@pytest.mark.parametrize(
    "other",
    [
        replace(SIGHT, page="explore"),
        replace(SIGHT, part="recent"),
        replace(SIGHT, address="?pool=code"),
        replace(SIGHT, scope=Scope.ADMIN),
        replace(SIGHT, changes=1),
    ],
)
def test_another_sight_is_another_drawing(other: Sight) -> None:
    drawing = Drawn()
    assert markup_of(drawing, lambda looks: [looks.look(one, drawing) for one in (SIGHT, other, SIGHT)]) == [
        *("1", "2", "1")
    ]


def test_what_is_a_sessions_own_is_shown_to_nobody_else() -> None:
    drawing = Drawn(own=True)
    shown = markup_of(drawing, lambda looks: [looks.look(SIGHT, drawing) for _ in range(3)])
    assert shown[0] == "1" and sorted(str(one) for one in shown) == ["1", "2", "3"]

    async def later() -> None:
        looks = SharedLooks()
        drawing.go_on.set()
        await looks.look(SIGHT, drawing)
        assert (await looks.look(SIGHT, drawing)).markup == str(drawing.count) == "5"

    asyncio.run(later())


def test_a_drawing_is_shown_for_a_moment_and_no_longer() -> None:
    now_s = 0.0
    drawing = Drawn()

    async def shown() -> list[str | None]:
        nonlocal now_s
        drawing.go_on.set()
        looks, found = SharedLooks(lambda: now_s), []
        for wait_s in (0.0, KEPT_S - 0.01, 0.02):
            now_s += wait_s
            found.append((await looks.look(SIGHT, drawing)).markup)
        return found

    assert asyncio.run(shown()) == ["1", "1", "2"]


def test_who_leaves_takes_it_from_nobody() -> None:
    drawing = Drawn()

    async def left() -> str | None:
        looks = SharedLooks()
        first, second = await begun(looks.look(SIGHT, drawing), looks.look(SIGHT, drawing))
        first.cancel()
        await begun()
        drawing.go_on.set()
        return (await second).markup

    assert asyncio.run(left()) == "1" and drawing.count == 1


def test_a_drawing_that_fails_is_every_waiters_and_leaves_the_way_free() -> None:
    async def fails() -> Look:
        raise RuntimeError("cut off")

    async def run() -> str | None:
        looks = SharedLooks()
        found = await asyncio.gather(*(looks.look(SIGHT, fails) for _ in range(2)), return_exceptions=True)
        assert [type(one) for one in found] == [RuntimeError] * 2
        after = Drawn()
        after.go_on.set()
        return (await looks.look(SIGHT, after)).markup

    assert asyncio.run(run()) == "1"
