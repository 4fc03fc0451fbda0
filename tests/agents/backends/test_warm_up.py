"""A warm-up is found where steps were slow, and nowhere else."""

from collections.abc import Iterator
from typing import Any

import pytest

from agents.backends.warm_up import Warmed, WarmUp
from tests.agents.backends.steps_made import REVISION, steps


def watch(events: Iterator[dict[str, Any]]) -> list[Warmed]:
    warm_up = WarmUp()
    warm_up.begin(1000.0, REVISION)
    return [found for event in events if (found := warm_up.see(event)) is not None]


@pytest.mark.parametrize("seed", range(20))
def test_a_change_that_slows_nothing_has_none(seed: int) -> None:
    (found,) = watch(steps(lambda t: 1.0, seed=seed))
    assert found == Warmed(0.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_twice_as_slow_for_ten_seconds(seed: int) -> None:
    (found,) = watch(steps(lambda t: 2.0 if 0 <= t < 10 else 1.0, seed=seed))
    assert found.warm_up_s == 10.0
    assert found.lost_s == pytest.approx(5.0, rel=0.15), "half of what it could have done"


def test_a_slow_minute_later_is_none() -> None:
    (found,) = watch(steps(lambda t: 3.0 if 20 <= t < 24 else 1.0))
    assert found.warm_up_s == 0.0


def test_more_work_is_no_slowness() -> None:
    quiet, busy = steps(lambda t: 1.0, running=1), steps(lambda t: 1.5, running=30)
    mixed = [a if a["time"] < 1030 and i % 2 else b for i, (a, b) in enumerate(zip(quiet, busy, strict=True))]
    (found,) = watch(iter(mixed))
    assert found.warm_up_s == 0.0


def test_an_idle_engine_tells_nothing() -> None:
    assert watch(steps(lambda t: 2.0, every_s=10.0)) == []
    warm_up = WarmUp()
    assert not [found for event in steps(lambda t: 1.0) if (found := warm_up.see(event))], "nothing was changed"


def test_the_newest_change_is_watched() -> None:
    warm_up = WarmUp()
    warm_up.begin(900.0, REVISION)
    warm_up.begin(1000.0, REVISION)
    found = [found for event in steps(lambda t: 2.0 if t < 4 else 1.0) if (found := warm_up.see(event))]
    assert [one.warm_up_s for one in found] == [4.0]


def test_steps_of_another_revision_are_a_retiring_server_s() -> None:
    warm_up = WarmUp()
    warm_up.begin(1000.0, REVISION + 1)
    assert not [found for event in steps(lambda t: 2.0) if (found := warm_up.see(event))]
