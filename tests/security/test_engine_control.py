"""Whoever can send a prompt cannot change the engine: its control is apart, on a real engine process (SEC H1)."""

import asyncio
import contextlib
import os
import signal
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from agents.backends.base import EngineUnreachable
from agents.backends.embedded_backend import EmbeddedBackend
from agents.backends.engine_control import EngineControl
from agents.host.engine_socket import engine_socket
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from tests.processes import free_ports, wait_for

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "agents/models/tailwright-py-5m"
CONTROL = [("GET", "/config"), ("PUT", "/config"), ("POST", "/cache/reset"), ("GET", "/events")]
JSON_TYPE = {"Content-Type": "application/json"}


@contextlib.contextmanager
def engine(
    runtime: Path, *options: str, trusted: ssl.SSLContext | None = None
) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes], int]]:
    """A client of a new engine, its process and a further free port. trusted: whom the client believes, by https."""
    port, other = free_ports(2)
    command = ["-m", "agents.engine", "--model", str(MODEL), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *command, *(option.format(other=other) for option in options)],
        cwd=ROOT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
    )
    try:
        url = f"{'http' if trusted is None else 'https'}://127.0.0.1:{port}"
        with httpx.Client(base_url=url, trust_env=False, timeout=20, verify=trusted or True) as client:
            wait_for("the engine serves", lambda: process.poll() is not None or client.get("/health").is_success)
            assert process.poll() is None
            yield client, process, other
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    return folder


def by_socket(path: Path) -> httpx.Client:
    return httpx.Client(base_url="http://engine", transport=httpx.HTTPTransport(uds=str(path)), timeout=20)


@pytest.mark.slow
def test_control_is_on_a_socket_of_the_owners_alone_and_nowhere_else(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with engine(runtime) as (client, process, _):
        for method, path in CONTROL:
            assert client.request(method, path, json={"knobs": {"max_num_seqs": 1}}).status_code == 404, path
        path = engine_socket(client.base_url.port or 0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_uid == os.getuid()
        with by_socket(path) as control:
            assert control.put("/config", json={"knobs": {"max_num_seqs": 7}}).json()["knobs"]["max_num_seqs"] == 7
            assert control.post("/cache/reset").is_success
            with control.stream("GET", "/events") as events:
                assert b'"hello"' in next(events.iter_raw())
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0, "who follows the events does not hold up the end"
        assert not path.exists()


@pytest.mark.slow
def test_a_control_port_wants_its_token(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-the-control-port\n")
    flags = ("--control-port", "{other}", "--control-token-file", str(tmp_path / "token"))
    with engine(runtime, *flags) as (client, _, port):
        url = f"http://127.0.0.1:{port}"
        for method, path in CONTROL:
            assert client.request(method, path, json={}).status_code == 404
            for header in ("", "Bearer a", "Bearer a-token", "Basic a-token-of-the-control-port"):
                refused = httpx.request(method, url + path, json={}, headers={"Authorization": header})
                assert refused.status_code == 401, (path, header)
        allowed = {"Authorization": "Bearer a-token-of-the-control-port"}
        assert httpx.get(f"{url}/config", headers=allowed).is_success


@pytest.mark.slow
def test_a_control_port_has_the_certificate_of_the_engine(runtime: Path, tmp_path: Path) -> None:
    authority, other, now = Authority(tmp_path / "tls"), Authority(tmp_path / "other"), datetime.now(UTC)
    for one in (authority, other):
        one.init(now)
    authority.issue_server("engine", ["127.0.0.1"], now)
    (tmp_path / "token").write_text("a-token-of-the-control-port\n")
    flags = ("--control-port", "{other}", "--control-token-file", str(tmp_path / "token"))
    secured = [
        f"--tls-{kind}={authority.folder / name}" for kind, name in (("cert", "engine.pem"), ("key", "engine.key"))
    ]

    async def asked(ca: Authority, port: int) -> EffectiveConfig:
        url, trusted = f"https://127.0.0.1:{port}", client_context(ca.folder / "ca.pem")
        backend = EmbeddedBackend(url, EngineControl.at(url, tmp_path / "token"), tls=trusted)
        try:
            return await backend.effective()
        finally:
            await backend.close()

    with engine(runtime, *flags, *secured, trusted=client_context(authority.folder / "ca.pem")) as (_, _, port):
        assert asyncio.run(asked(authority, port)).knobs
        with pytest.raises(EngineUnreachable, match="engine_ca_file"):
            asyncio.run(asked(other, port))
        with pytest.raises(httpx.TransportError):
            httpx.get(
                f"http://127.0.0.1:{port}/config", headers={"Authorization": "Bearer a-token-of-the-control-port"}
            )


@pytest.mark.slow
def test_a_web_page_reaches_nothing(runtime: Path, tmp_path: Path) -> None:
    """A page of another origin sends plain text without leave; a name that was made to resolve here is not ours."""
    (tmp_path / "keys").write_text("first-key\nsecond-key\n")
    with engine(runtime, "--api-key-file", str(tmp_path / "keys"), "--allowed-hosts", "engine.example") as (client, *_):
        body, key = {"prompt": "a", "max_tokens": 1}, {"Authorization": "Bearer second-key"}
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/models"):
            for wrong in ({}, {"Authorization": "Bearer third-key"}, {"Authorization": "second-key"}):
                refused = client.request("GET" if path.endswith("models") else "POST", path, json=body, headers=wrong)
                assert refused.status_code == 401 and refused.json()["error"]["code"] == "unauthenticated"
        assert client.post("/v1/completions", json=body, headers=key).is_success
        plain = client.post(
            "/v1/completions", content=b'{"prompt": "a"}', headers={**key, "Content-Type": "text/plain"}
        )
        assert plain.status_code == 415
        for name, status in (
            ("evil.example", 421),
            ("evil.example:80", 421),
            ("engine.example:9", 200),
            ("[::1]:1", 200),
        ):
            assert client.post("/v1/completions", json=body, headers={**key, "Host": name}).status_code == status, name
        assert client.get("/metrics", headers={"Host": "evil.example"}).status_code == 421
        metrics = client.get("/metrics").text
        assert 'reason="host"} 3.0' in metrics and 'reason="api_key"} 9.0' in metrics
        (tmp_path / "keys").write_text("third-key-instead\n")
        assert client.post("/v1/completions", json=body, headers=key).status_code == 401, "a key is taken back at once"


@pytest.mark.slow
def test_a_planted_folder_is_not_used(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-m", "agents.engine", "--model", str(MODEL), "--port", str(free_ports(1)[0])],
        cwd=ROOT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(planted)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "control_socket" in done.stderr and "not this user's alone" in done.stderr
