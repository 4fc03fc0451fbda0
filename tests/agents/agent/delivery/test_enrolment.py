"""Enrolment is tried until the service answers, and what it gives is kept for the owner's eyes only."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from typer.testing import CliRunner

from agents.agent.command import app
from agents.agent.delivery import credentials
from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.settings import AgentSettings


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A service that answers each request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_it_tries_until_the_service_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, 503, 401, 200])

    def answer(request: httpx.Request) -> httpx.Response:
        status = next(answers)
        if status is None:
            raise httpx.ConnectError("not there yet")
        body = (
            {"node": "a", "pool": "default", "role": "serving", "token": "secret", "workload_key": "00ff"}
            if status == 200
            else None
        )
        return httpx.Response(status, json=body)

    rest = asyncio.sleep
    monkeypatch.setattr("agents.agent.delivery.enrolment.asyncio.sleep", lambda _: rest(0))

    async def run() -> Credentials:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            settings = AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t")
            return await Enrolment(settings, http).ensure()

    granted = asyncio.run(run())
    assert granted == Credentials("a", "default", "serving", "secret", "00ff")
    assert granted.key_bytes == b"\x00\xff"
    assert "secret" not in repr(granted)
    assert (tmp_path / "credentials.json").stat().st_mode & 0o777 == 0o600
    assert credentials.load(tmp_path, "a") == granted
    assert credentials.load(tmp_path, "another-node") is None


def test_stored_credentials_are_enough(tmp_path: Path) -> None:
    credentials.save(tmp_path, Credentials("a", "default", "serving", "secret", "00ff"))

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
        return httpx.Response(
            200, json={"node": "a", "pool": "default", "role": "serving", "token": f"t{asked}", "workload_key": "00"}
        )

    async def run() -> None:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            enrolment = Enrolment(AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t"), http)
            old = await enrolment.ensure()
            await asyncio.gather(enrolment.renew(old), enrolment.renew(old))
            await enrolment.renew(enrolment.current)

    asyncio.run(run())
    assert asked == 2


def test_another_pool_is_enrolled_for_with_the_nodes_own_token(tmp_path: Path) -> None:
    own = "tailwright_" + "x" * 43
    credentials.save(tmp_path, Credentials("a", "default", "serving", own, "00"))
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        body = {"node": "a", "pool": "batch", "role": "serving", "token": "next", "workload_key": "00"}
        return httpx.Response(200, json=body)

    async def run() -> Credentials:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            settings = AgentSettings(node="a", pool="batch", state_dir=tmp_path, enrolment_token="t")
            return await Enrolment(settings, http).ensure()

    granted = asyncio.run(run())
    assert granted == Credentials("a", "batch", "serving", "next", "00") == credentials.load(tmp_path, "a")
    assert [(body["pool"], body["old_token"]) for body in asked] == [("batch", own)]


@pytest.mark.parametrize("flags", [[], ["--enrolment-token", ""]])
def test_an_agent_without_a_token_ends_with_status_2_and_names_the_option(
    tmp_path: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TAILWRIGHT_ENROLMENT_TOKEN", "TAILWRIGHT_ENROLMENT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    answer = CliRunner().invoke(app, ["--node", "a", "--state-dir", str(tmp_path), *flags])
    told = answer.stderr.strip()
    assert answer.exit_code == 2
    assert (
        told.startswith("tailwright agent: enrolment_token_file: is needed") and "--enrolment-token-file FILE" in told
    )
    assert len(told.splitlines()) == 1


def test_a_token_file_that_is_never_written_is_waited_for_with_a_bound(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    given = ["--enrolment-token-file", str(file), "--enrolment-token-wait-s", "0"]
    answer = CliRunner().invoke(app, ["--node", "a", "--state-dir", str(tmp_path), *given])
    assert answer.exit_code == 2
    assert f"{file} holds no token, after 0 s of waiting (--enrolment-token-wait-s)" in answer.stderr


@pytest.mark.parametrize(
    ("status", "given", "told"),
    [
        (401, "--enrolment-token-file", "enrolment_token_file: the service at {url} does not take the token of {file}"),
        (
            403,
            "--enrolment-token",
            "enrolment_token: the service at {url} does not take the token of --enrolment-token",
        ),
    ],
)
def test_a_token_that_the_service_refuses_ends_with_status_2_and_names_its_file(
    tmp_path: Path, status: int, given: str, told: str
) -> None:
    file = tmp_path / "token"
    file.write_text("of another service\n")
    with answering(status) as url:
        flags = ["--server-url", url, given, str(file), "--enrolment-token-wait-s", "0"]
        answer = CliRunner().invoke(app, ["--node", "a", "--state-dir", str(tmp_path / "state"), *flags])
    assert answer.exit_code == 2
    assert told.format(url=url, file=file) in answer.stderr.splitlines()[-1]
    assert not (tmp_path / "state/credentials.json").exists()


def test_a_refused_token_may_be_put_right_and_a_service_that_is_away_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused for less than the wait, then away for longer, then refused again: each refusal's wait begins anew."""
    now = 1.0
    answers = iter([401, 503, 401, None])

    async def pause(seconds: float) -> None:
        nonlocal now
        now += 59.0

    def answer(request: httpx.Request) -> httpx.Response:
        status = next(answers)
        if status is not None:
            return httpx.Response(status)
        granted = {"node": "a", "pool": "default", "role": "serving", "token": "secret", "workload_key": "00ff"}
        return httpx.Response(200, json=granted)

    monkeypatch.setattr("agents.agent.delivery.enrolment.asyncio.sleep", pause)
    monkeypatch.setattr("agents.agent.delivery.enrolment.time", SimpleNamespace(monotonic=lambda: now))

    async def run() -> Credentials:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            settings = AgentSettings(node="a", state_dir=tmp_path, enrolment_token="t")
            return await Enrolment(settings, http).ensure()

    assert asyncio.run(run()).token == "secret"


def test_a_token_file_may_be_written_while_the_agent_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    rest, pauses = asyncio.sleep, 0

    async def pause(seconds: float) -> None:
        nonlocal pauses
        if threading.current_thread() is not threading.main_thread():
            await rest(seconds)  # A server of other tests.
            return
        pauses += 1
        if pauses == 3:
            file.write_text("t\n")
        await rest(0)

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer t"
        return httpx.Response(
            200, json={"node": "a", "pool": "default", "role": "serving", "token": "secret", "workload_key": "00ff"}
        )

    monkeypatch.setattr("agents.agent.delivery.enrolment.asyncio.sleep", pause)

    async def run() -> Credentials:
        async with httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(answer)) as http:
            settings = AgentSettings(node="a", state_dir=tmp_path, enrolment_token_file=file)
            return await Enrolment(settings, http).ensure()

    assert asyncio.run(run()).token == "secret"
    assert (pauses, sum("waiting for the enrolment token" in record.message for record in caplog.records)) == (3, 1)
