"""Enrolment is tried until the service answers, and what it gives is kept for the owner's eyes only."""

import asyncio
from pathlib import Path

import httpx
import pytest

from agents import credentials
from agents.credentials import Credentials
from agents.enrolment import Enrolment
from agents.settings import AgentSettings


def test_it_tries_until_the_service_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, 503, 401, 200])

    def answer(request: httpx.Request) -> httpx.Response:
        status = next(answers)
        if status is None:
            raise httpx.ConnectError("not there yet")
        body = {"node": "a", "token": "secret", "workload_key": "00ff"} if status == 200 else None
        return httpx.Response(status, json=body)

    rest = asyncio.sleep
    monkeypatch.setattr("agents.enrolment.asyncio.sleep", lambda _: rest(0))

    async def run() -> Credentials:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            settings = AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t")
            return await Enrolment(settings, http).ensure()

    granted = asyncio.run(run())
    assert granted == Credentials("a", "secret", "00ff")
    assert granted.key_bytes == b"\x00\xff"
    assert "secret" not in repr(granted)
    assert (tmp_path / "credentials.json").stat().st_mode & 0o777 == 0o600
    assert credentials.load(tmp_path, "a") == granted
    assert credentials.load(tmp_path, "another-node") is None


def test_stored_credentials_are_enough(tmp_path: Path) -> None:
    credentials.save(tmp_path, Credentials("a", "secret", "00ff"))

    async def run() -> Credentials:
        async with httpx.AsyncClient(base_url="http://127.0.0.1:9") as http:
            return await Enrolment(AgentSettings(node="a", state_dir=tmp_path), http).ensure()

    assert asyncio.run(run()).token == "secret"


def test_damaged_credentials_are_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text("{}")
    assert credentials.load(tmp_path, "a") is None


def test_a_token_that_was_renewed_meanwhile_is_not_renewed_again(tmp_path: Path) -> None:
    asked = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(200, json={"node": "a", "token": f"t{asked}", "workload_key": "00"})

    async def run() -> None:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            enrolment = Enrolment(AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t"), http)
            old = await enrolment.ensure()
            await asyncio.gather(enrolment.renew(old), enrolment.renew(old))
            await enrolment.renew(enrolment.current)

    asyncio.run(run())
    assert asked == 2
