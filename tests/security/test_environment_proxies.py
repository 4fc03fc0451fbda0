"""HTTP_PROXY reads no token: neither a person's, nor a node's (finding M10). A proxy that was named is used."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.agents.agent.fake_service import FakeService
from tests.agents.served_app import ServedApp
from tests.processes import free_port, wait_for

TOKEN = "tailwright_" + "t" * 43
ELSEWHERE = "127.1"
"""This machine, by a name that no program takes for it without asking the resolver."""
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WS_PROXY", "WSS_PROXY")


class Listener:
    """A proxy, or a service: `heard` has each request's line and whether it brought a token."""

    def __init__(self) -> None:
        heard = self.heard = list[tuple[str, bool]]()

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                heard.append((self.requestline, "Authorization" in self.headers))
                self.send_error(403)

            do_GET = do_POST = do_CONNECT = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def proxy() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


def environment(proxy: Listener, **more: str) -> dict[str, str]:
    """As it is on a machine whose owner has set a proxy for something else."""
    url = f"http://127.0.0.1:{proxy.port}"
    around = {key: value for key, value in os.environ.items() if key.lower() != "no_proxy"}
    return {**around, **{key: url for name in NAMES for key in (name, name.lower())}, **more}


def tailwright(*words: str, env: dict[str, str], home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "controlplane.command.main", *words]
    return subprocess.run(command, env={**env, "HOME": str(home)}, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", ELSEWHERE])
def test_a_persons_token_goes_to_the_service_alone(proxy: Listener, tmp_path: Path, host: str) -> None:
    with Listener() as service:
        server = f"http://{host}:{service.port}"
        ended = tailwright("status", "--server", server, "--token", TOKEN, env=environment(proxy), home=tmp_path)
    assert ended.returncode == 1
    assert proxy.heard == []
    assert service.heard and all(token for _, token in service.heard)


@pytest.mark.slow
def test_a_proxy_that_was_named_is_gone_by_but_not_to_this_machine(proxy: Listener, tmp_path: Path) -> None:
    named = environment(proxy, TAILWRIGHT_PROXY=f"http://127.0.0.1:{proxy.port}")
    with Listener() as service:
        for host in ("127.0.0.1", ELSEWHERE):
            server = f"http://{host}:{service.port}"
            tailwright("status", "--server", server, "--token", TOKEN, env=named, home=tmp_path)
        assert len(service.heard) == 1
    assert [line.split()[1].startswith(f"http://{ELSEWHERE}:") for line, _ in proxy.heard] == [True]


@pytest.mark.slow
def test_what_is_no_proxy_is_named_without_its_password(proxy: Listener, tmp_path: Path) -> None:
    ended = tailwright("--proxy", "socks5://me:hush@there:1", "status", env=environment(proxy), home=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "proxy: wants http://HOST:PORT or https://HOST:PORT, got 'socks5://there:1'\n"


@contextmanager
def agent(server: str, proxy: Listener, folder: Path, *more: str) -> Iterator[None]:
    words = ["agent", "--node", "n-1", "--server-url", server, "--engine-url", f"http://127.0.0.1:{free_port()}"]
    words += ["--state-dir", str(folder / "state"), "--enrolment-token", "enrol-me", "--no-host-metrics", *more]
    command = [sys.executable, "-m", "controlplane.command.main", *words]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment(proxy), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_nodes_token_goes_to_the_service_alone(proxy: Listener, tmp_path: Path) -> None:
    service = FakeService()
    with ServedApp(service.app) as served, agent(f"http://{ELSEWHERE}:{served.port}", proxy, tmp_path):
        wait_for("the agent's WebSocket", lambda: "websocket" in service.transports)
    assert len(service.enrolments) == 1
    assert proxy.heard == []


@pytest.mark.slow
def test_an_agent_goes_by_the_proxy_that_it_was_told(proxy: Listener, tmp_path: Path) -> None:
    server = f"http://{ELSEWHERE}:{free_port()}"
    with agent(server, proxy, tmp_path, "--proxy", f"http://127.0.0.1:{proxy.port}"):
        wait_for("the proxy", lambda: proxy.heard)
    assert proxy.heard[0][0].startswith(f"POST {server}/api/v1/enrol ")
