"""The control socket, and the life of the process."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from agents.backends.vllm.proxy.exit_status import ExitStatus
from tests.agents.backends.vllm.proxy.proxy_process import ROOT, ProxyProcess, running_proxy
from tests.agents.backends.vllm.proxy.scripted_server import Exchange, ScriptedServer

pytestmark = pytest.mark.slow


async def call(proxy: ProxyProcess, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    connector = aiohttp.UnixConnector(path=str(proxy.socket_path))
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.request(method, f"http://proxy{path}", data=body) as answer:
            return answer.status, await answer.text()


def test_wrong_input_is_refused_with_the_field_and_the_mend_and_changes_nothing(tmp_path: Path) -> None:
    cases = [
        ("PUT", "/target", b"", 400, "url", "http://127.0.0.1:8001"),
        ("PUT", "/target", b"{", 400, "body", "not JSON"),
        ("PUT", "/target", b'["http://a:1"]', 400, "body", "object is wanted"),
        ("PUT", "/target", b"\xff", 400, "body", "not JSON"),
        ("PUT", "/target", b'{"url": 3}', 400, "url", "got 3"),
        ("PUT", "/target", b'{"url": "ftp://a:1"}', 400, "url", "HTTP or HTTPS"),
        ("PUT", "/target", b'{"url": "http://a:1/v1"}', 400, "url", "must end after the port"),
        ("PUT", "/target", b'{"ulr": "http://a:1"}', 400, "ulr", "did you mean 'url'?"),
        ("PUT", "/target", b" " * 100_000, 413, "body", "more than"),
        ("PUT", "/hold", b'{"hold_s": 3}', 400, "hold_s", "takes no fields"),
        ("POST", "/stop", b"[]", 400, "body", "object is wanted"),
        ("GET", "/target", b"", 405, "method", "use PUT"),
        ("GET", "/nothing", b"", 404, "path", "/state"),
    ]

    async def run() -> None:
        async with running_proxy(tmp_path, "--target", "http://127.0.0.1:9") as proxy:
            before = await proxy.state()
            for method, path, body, status, field, mend in cases:
                got, text = await call(proxy, method, path, body)
                error = json.loads(text)["error"]
                assert (got, error["detail"]["field"]) == (status, field), (path, body)
                assert mend in error["message"]
                assert error["code"]
            assert await proxy.state() == before

    asyncio.run(run())


def test_only_the_owner_can_open_the_socket(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path) as proxy:
            assert stat.S_IMODE(proxy.socket_path.stat().st_mode) == 0o600
            assert stat.S_ISSOCK(proxy.socket_path.stat().st_mode)

    asyncio.run(run())


def test_the_state_tells_what_the_proxy_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path, "--hold-s", "7", "--target", "http://localhost:9/") as proxy:
            state = await proxy.state()
            assert (state.target, state.hold_s, state.host) == ("http://localhost:9", 7.0, "127.0.0.1")
            assert (state.pid, state.port) == (proxy.process.pid, proxy.port)
            assert state.version
            assert (state.requests, state.in_flight, state.held, state.held_since) == (
                0,
                {state.target: 0},
                False,
                None,
            )

    asyncio.run(run())


def test_metrics_are_read_by_a_prometheus_parser(tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    async def hello(exchange: Exchange) -> None:
        await exchange.answer(b"x")

    async def run() -> None:
        async with ScriptedServer(hello) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url, "--body-limit-bytes", "5") as proxy:
                for body in (b"1", b"2", b"too large"):
                    async with session.post(proxy.url, data=body) as answer:
                        await answer.read()
                await proxy.hold()
                status, text = await call(proxy, "GET", "/metrics")
                assert status == 200
                found = {
                    (sample.name.removeprefix("tailwright_vllm_proxy_"), *sample.labels.items()): sample.value
                    for family in text_string_to_metric_families(text)
                    for sample in family.samples
                }
                assert found["requests_total",] == 3
                assert found["failed_total", ("reason", "too_large")] == 1
                assert found["in_flight", ("target", server.url)] == 0
                assert found["held",] == 1
                assert found["held_seconds_total",] > 0

    asyncio.run(run())


@pytest.mark.parametrize("how", ["stop", "SIGTERM"])
def test_stopping_lets_running_requests_end_and_takes_no_new_ones(tmp_path: Path, how: str) -> None:
    gate = asyncio.Event()

    async def gated(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"first ")
        await gate.wait()
        await exchange.chunk(b"last")
        await exchange.end()

    async def run() -> None:
        async with ScriptedServer(gated) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url) as proxy:
                async with session.post(proxy.url, data=b"x") as answer:
                    assert await answer.content.readexactly(6) == b"first "
                    if how == "stop":
                        assert not await proxy.stop(timeout_s=0.0)
                    else:
                        proxy.process.send_signal(signal.SIGTERM)
                    await proxy.until(lambda state: state.stopping)
                    await _refuses_connections(proxy.port)
                    gate.set()
                    assert await answer.read() == b"last"
                assert await proxy.ended() == ExitStatus.ENDED
                assert not proxy.socket_path.exists()
                assert "ended: 1 requests, failed {}" in proxy.log.read_text()

    asyncio.run(run())


async def _refuses_connections(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        writer.close()
        await asyncio.sleep(0.01)
    raise AssertionError("the port still takes connections")


def test_sigterm_has_a_limit(tmp_path: Path) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.closed_by_peer()

    async def run() -> None:
        async with ScriptedServer(endless) as server, aiohttp.ClientSession() as session:
            async with running_proxy(tmp_path, "--target", server.url, "--stop-limit-s", "0.2") as proxy:
                async with session.post(proxy.url, data=b"x") as answer:
                    proxy.process.send_signal(signal.SIGTERM)
                    with pytest.raises(aiohttp.ClientError):
                        await answer.read()
                assert await proxy.ended() == ExitStatus.ENDED

    asyncio.run(run())


def test_who_waits_when_the_proxy_ends_is_told_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path) as proxy, aiohttp.ClientSession() as session:
            waiting = asyncio.create_task(session.post(proxy.url, data=b"x"))
            await proxy.until(lambda state: state.waiting == 1)
            assert await proxy.stop()
            async with await waiting as answer:
                assert answer.status == 503
                assert (await answer.json())["error"]["detail"]["reason"] == "stopping"
            assert await proxy.ended() == ExitStatus.ENDED

    asyncio.run(run())


def test_a_second_proxy_on_one_socket_is_refused_and_the_first_serves_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path) as first:
            second = ProxyProcess(tmp_path)
            assert await second.ended() == ExitStatus.SOCKET_TAKEN
            assert "another process serves" in second.log.read_text()
            assert (await first.state()).pid == first.process.pid

    asyncio.run(run())


def test_the_socket_that_a_killed_proxy_left_is_taken_over(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_proxy(tmp_path) as first:
            first.process.kill()
            first.process.wait()
            assert first.socket_path.exists()
            async with running_proxy(tmp_path) as second:
                assert (await second.state()).pid == second.process.pid

    asyncio.run(run())


def test_a_taken_port_ends_the_start_and_leaves_no_socket(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        proxy = ProxyProcess(tmp_path, "--port", str(port))
        assert proxy.process.wait(60) == ExitStatus.PORT_TAKEN
        assert f"cannot listen on 127.0.0.1:{port}" in proxy.log.read_text()
        assert not proxy.socket_path.exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--port", "70000"], "a port from 0 to 65535"),
        (["--target", "ftp://a:1"], "HTTP or HTTPS"),
        (["--hold-s", "0"], "a number of seconds above 0"),
        (["--hold-s", "nan"], "a number of seconds above 0"),
        (["--body-limit-bytes", "1.5"], "a whole number above 0"),
        (["--control", "/" + "x" * 120], "use a shorter path"),
        (["--control", "/nowhere/at/all/proxy.sock"], "No such file or directory"),
        (["--tls-cert", "cert.pem"], "tls_key: tls_cert and tls_key go together"),
        (["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "tls_cert: cert.pem and key.pem cannot be used"),
        (
            ["--host", "0.0.0.0"],
            "host: 0.0.0.0 is reached from other machines, and tokens and prompts would go in clear",
        ),
        (["--host", "203.0.113.7", "--insecure-http"], "cannot listen on 203.0.113.7"),
    ],
)
def test_a_wrong_option_ends_the_start_with_its_name_and_the_mend(tmp_path: Path, flags: list[str], told: str) -> None:
    proxy = ProxyProcess(tmp_path, *flags)
    assert proxy.process.wait(60) == ExitStatus.BAD_OPTIONS
    assert told in " ".join(proxy.log.read_text().split())


def test_it_ends_with_its_parent_if_asked_to(tmp_path: Path) -> None:
    """The parent is killed, so that only the kernel can tell the proxy."""
    code = (
        "import os, subprocess, sys, time\n"
        "flags = [*sys.argv[1:], '--end-with-parent', str(os.getpid())]\n"
        "subprocess.Popen([sys.executable, '-m', 'agents.backends.vllm.proxy', *flags])\n"
        "time.sleep(600)\n"
    )
    flags = ["--host", "127.0.0.1", "--port", "0", "--control", str(tmp_path / "proxy.sock")]
    parent = subprocess.Popen([sys.executable, "-c", code, *flags], cwd=ROOT, stderr=subprocess.DEVNULL)

    async def run() -> None:
        from agents.backends.vllm.proxy.client import ProxyClient, ProxyUnreachable

        proxy, deadline = ProxyClient(tmp_path / "proxy.sock"), time.monotonic() + 60

        async def answers() -> bool:
            try:
                await proxy.state()
            except ProxyUnreachable:
                return False
            return True

        while not await answers():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        parent.kill()
        while await answers():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)

    try:
        asyncio.run(run())
    finally:
        parent.kill()
        parent.wait()


def test_it_loads_neither_the_agent_nor_what_it_does_not_need() -> None:
    code = "import sys, agents.backends.vllm.proxy.__main__; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = loaded.split()
    tops = {name.partition(".")[0] for name in names}
    assert not tops & {"pydantic", "google", "httpx", "numpy", "torch", "prometheus_client", "opentelemetry"}
    ours = {name for name in names if name.startswith(("agents.", "controlplane."))}
    assert ours <= {name for name in ours if name.startswith("agents.backends.vllm.proxy")} | {
        "agents.backends",
        "agents.backends.vllm",
        "agents.host",
        "agents.host.error_answers",
        "controlplane.terminal",
        "controlplane.terminal.parent_death",
        "controlplane.contract",
        "controlplane.contract.clock",
        "controlplane.contract.errors",
        "controlplane.contract.host_names",
        "controlplane.serving",
        "controlplane.serving.browser_policy",
        "controlplane.serving.limits",
        "controlplane.serving.owned_socket",
        "controlplane.serving.raw_answer",
        "controlplane.serving.tls",
    }
    assert os.path.exists(ROOT / "agents/backends/vllm/proxy/__main__.py")
