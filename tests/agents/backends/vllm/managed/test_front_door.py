"""What the proxy failed, told once, by what it means for the request."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agents.backends.vllm.managed.front_door import FrontDoor
from agents.backends.vllm.node_file import load_node_file
from agents.backends.vllm.proxy.client import ProxyUnreachable
from agents.backends.vllm.proxy.state import ProxyState
from tests.agents.backends.vllm.managed.managed_node import Node

STATE = ProxyState(
    target=None, held=False, waiting=0, waiting_bytes=0, in_flight={}, requests=0, resent=0, failed={}, left=0,
    refused={},
    held_since=None, held_seconds_total=0.0, hold_s=1.0, stopping=False, host="h", port=1, pid=5, version="v",
)  # fmt: skip


class Told:
    """A proxy's control socket that says what a test wants; None: nobody answers."""

    def __init__(self) -> None:
        self.failed: dict[str, int] | None = {}
        self.pid = 5

    async def state(self) -> ProxyState:
        if self.failed is None:
            raise ProxyUnreachable("gone")
        return dataclasses.replace(STATE, failed=dict(self.failed), pid=self.pid)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = FrontDoor(load_node_file(Node(tmp_path).file), tmp_path, tmp_path)
    monkeypatch.setattr(made, "_client", Told())
    return made


def test_each_failure_is_told_once_as_what_it_was(door: Any) -> None:
    told = door._client
    told.failed = {"held": 7}
    assert asyncio.run(door.lost()) == {}, "what was counted before this agent looked is not told now"
    told.failed = {"held": 8, "no_room": 2, "lost": 1, "broken": 3, "too_large": 9, "stalled": 9, "malformed": 9}
    assert asyncio.run(door.lost()) == {"refused": 3, "disconnect": 4}
    assert asyncio.run(door.lost()) == {}


def test_a_proxy_that_was_started_anew_counts_from_nothing(door: Any) -> None:
    told = door._client
    told.failed = {"held": 7}
    asyncio.run(door.lost())
    told.failed = None
    assert asyncio.run(door.lost()) == {}
    told.failed, told.pid = {"held": 2}, 6
    assert asyncio.run(door.lost()) == {"refused": 2}
