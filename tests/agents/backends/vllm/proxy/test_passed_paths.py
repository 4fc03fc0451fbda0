"""What clients reach through the proxy, and what they do not, however it is spelled."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from agents.backends.vllm.proxy.passed_paths import passes
from tests.agents.backends.vllm.proxy.proxy_process import ProxyProcess
from tests.agents.backends.vllm.proxy.scripted_server import Exchange, ScriptedServer


@pytest.mark.parametrize(
    "target",
    [
        "/v1/completions",
        "/v1/models?x=/sleep",
        "/v2/rerank",
        "/tokenize",
        "/health",
        "/metrics",
        "/v1/responses/a/cancel",
    ],
)
def test_the_serving_api_passes(target: str) -> None:
    assert passes(target)


@pytest.mark.parametrize(
    "target",
    [
        *("/sleep", "/collective_rpc", "/reset_prefix_cache", "/server_info", "/docs", "/", "/v1", "/health/x"),
        *("/v1/load_lora_adapter", "/v1/%6coad_lora_adapter", "/v1/unload_lora_adapter?a=b"),
        *("/v1/../sleep", "/v1/%2e%2e/sleep", "/v1//load_lora_adapter", "//v1/models", "/V1/models"),
    ],
)
def test_management_does_not(target: str) -> None:
    assert not passes(target)


def test_a_path_that_is_named_passes() -> None:
    assert passes("/v1/load_lora_adapter?x=1", ["/v1/load_lora_adapter"])
    assert passes("/sleep", ["/sleep"]) and not passes("/sleep/x", ["/sleep"])


def test_a_refused_path_or_name_reaches_no_server_and_is_counted(tmp_path: Path) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.answer(b"served")

    async def run() -> None:
        async with ScriptedServer(answer) as server, aiohttp.ClientSession() as session:
            proxy = ProxyProcess(tmp_path, "--target", server.url, "--allowed-hosts", "models.example")
            try:
                await proxy.listening()
                for path, host, status in (
                    ("/v1/models", "models.example", 200),
                    ("/sleep", "models.example", 404),
                    ("/v1/models", "evil.example", 421),
                ):
                    async with session.get(f"{proxy.url}{path}", headers={"Host": host}) as told:
                        assert told.status == status, (path, host)
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                writer.write(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 400"), "HTTP/1.1 names its host"
                writer.close()
                state = await proxy.state()
                assert (state.failed["not_served"], state.refused["malformed"]) == (2, 1)
                assert [one.path for one in server.asked] == ["/v1/models"]
            finally:
                proxy.process.kill()
                proxy.process.wait()

    asyncio.run(run())
