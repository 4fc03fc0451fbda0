"""Two agents of one node are counted each time and told once in a while."""

import logging

import pytest

from controlplane.fleet.opamp.contention import FLAPS, QUIET_S, Contention
from controlplane.serving.limits import Doorkeeper, Refused


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_socket_that_is_replaced_now_and_then_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    door, clock = Doorkeeper(), Clock()
    contention = Contention(door, clock)
    for _ in range(10):
        contention.replaced("gpu-1")
        clock.now_s += QUIET_S
    assert door.refused == {Refused.OPAMP_REPLACED: 10}
    assert not caplog.records


def test_flapping_has_one_line_a_node_and_time(caplog: pytest.LogCaptureFixture) -> None:
    door, clock = Doorkeeper(), Clock()
    contention = Contention(door, clock)
    with caplog.at_level(logging.WARNING):
        for node in ("gpu-1", "gpu-2"):
            for _ in range(FLAPS + 20):
                contention.replaced(node)
        assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["gpu-1", "gpu-2"]
        clock.now_s += QUIET_S
        for _ in range(FLAPS):
            contention.replaced("gpu-1")
    assert len(caplog.records) == 3
    assert door.refused[Refused.OPAMP_REPLACED] == 2 * (FLAPS + 20) + FLAPS


def test_an_older_agent_is_told_of_at_once_and_then_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    door = Doorkeeper()
    contention = Contention(door, Clock())
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            contention.refused("gpu-1")
    assert len(caplog.records) == 1 and "more than one agent" in caplog.text
    assert door.refused == {Refused.OPAMP_RIVAL: 50}


def test_a_socket_of_nobody_yet_is_counted_alone(caplog: pytest.LogCaptureFixture) -> None:
    door = Doorkeeper()
    contention = Contention(door, Clock())
    for _ in range(FLAPS + 1):
        contention.replaced(None)
    assert door.refused == {Refused.OPAMP_REPLACED: FLAPS + 1} and not caplog.records
