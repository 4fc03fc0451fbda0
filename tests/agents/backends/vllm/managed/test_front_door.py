"""What the proxy failed, told once, by what it means for the request."""

import asyncio
import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.backends.vllm.managed.front_door import FrontDoor
from agents.backends.vllm.node_file import load_node_file
from agents.backends.vllm.proxy.client import ProxyUnreachable
from agents.backends.vllm.proxy.state import ProxyState
from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from tests.agents.backends.vllm.managed.managed_node import Node
from tests.processes import free_port

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


@pytest.mark.slow
def test_a_proxy_in_clear_gives_way_to_one_with_a_certificate(tmp_path: Path) -> None:
    authority, now = Authority(tmp_path / "tls"), datetime.now(UTC)
    authority.init(now)
    authority.issue_server("proxy", ["127.0.0.1"], now)
    plain = load_node_file(Node(tmp_path).file).model_copy(update={"port": free_port(), "drain_timeout_s": 5.0})
    files = {name: authority.folder / f"proxy.{kind}" for name, kind in (("tls_cert", "pem"), ("tls_key", "key"))}
    secured = plain.model_copy(update=files)

    async def run() -> None:
        before = await FrontDoor(plain, tmp_path, tmp_path).open()
        door = FrontDoor(secured, tmp_path, tmp_path)
        try:
            state = await door.open()
            assert (before.tls, state.tls, state.port) == (False, True, before.port)
            assert door.url == f"https://127.0.0.1:{state.port}"
            trusting = client_context(authority.folder / "ca.pem")
            async with httpx.AsyncClient(verify=trusting, trust_env=False) as client:
                assert (await client.get(f"{door.url}/not-passed")).status_code == 404
                with pytest.raises(httpx.TransportError):
                    await client.get(f"http://127.0.0.1:{state.port}/not-passed")
            assert (await door.open()).pid == state.pid, "one that is as it should be stays"
            believing = secured.model_copy(update={"server_ca_file": authority.folder / "ca.pem"})
            door = FrontDoor(believing, tmp_path, tmp_path)
            state, before = await door.open(), state
            assert (state.target_ca_file, state.pid == before.pid) == (str(authority.folder / "ca.pem"), False)
            assert (await door.open()).pid == state.pid
        finally:
            await door.close()

    asyncio.run(run())
