"""Requests that died with their engine, and those that only a connection lost sight of."""

from typing import Any

import pytest

from agents.backends.base import Lost
from agents.backends.in_flight import InFlight


def hello(boot: str) -> dict[str, Any]:
    return {"kind": "hello", "boot": boot}


def step(running: int, waiting: int) -> dict[str, Any]:
    return {"kind": "step", "running": running, "waiting": waiting, "revision": 4}


@pytest.mark.parametrize(
    ("torn", "boot", "lost"),
    [
        (True, "two", Lost(4, {"disconnect": 4})),
        (True, "one", None),  # The engine lived on.
        (False, "two", None),  # It had ended its stream in order.
    ],
)
def test_what_an_engine_had_when_it_died(torn: bool, boot: str, lost: Lost | None) -> None:
    flight = InFlight()
    for item in (hello("one"), step(3, 2), {"kind": "finished"}):
        flight.see(item)
    if torn:
        flight.broke()
        flight.broke()  # Nobody answers yet.
    assert flight.take_lost() is None
    flight.see(hello(boot))
    assert flight.take_lost() == lost
    assert flight.take_lost() is None


def test_an_idle_engine_loses_nobody() -> None:
    flight = InFlight()
    for item in (hello("one"), step(1, 0), {"kind": "finished"}):
        flight.see(item)
    flight.broke()
    flight.see(hello("two"))
    assert flight.take_lost() is None
