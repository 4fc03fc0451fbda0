"""Trust between machines: a real service with TLS and its CA's clients, and who is not let in (SEC H5)."""

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from controlplane.client import Client
from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from tests.processes import free_port, wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TAILWRIGHT = [sys.executable, "-m", "controlplane.command.main"]


@contextlib.contextmanager
def process(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A `tailwright` command that is ended afterwards."""
    with log.open("wb") as output:
        started = subprocess.Popen([*TAILWRIGHT, *words], cwd=ROOT, stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


class Secured:
    """A running service with TLS. `folder` holds its CA's certificates and its data."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.log = folder, folder / "data", folder / "up.log"
        self.port = free_port()
        self.url = f"https://localhost:{self.port}"
        self.ca = Authority(folder / "tls")
        now = datetime.now(UTC)
        self.ca.init(now)
        self.ca.issue_server("service", ["localhost", "127.0.0.1"], now)
        for node in ("gpu-1", "gpu-2"):
            self.ca.issue_node(node, now)

    def file(self, name: str) -> str:
        return str(self.folder / "tls" / name)

    def flags(self) -> list[str]:
        tls = ["--tls-cert", self.file("service.pem"), "--tls-key", self.file("service.key")]
        return ["--data-dir", str(self.data), "--port", str(self.port), *tls, "--tls-client-ca", self.file("ca.pem")]

    def token(self, name: str) -> str:
        return (self.data / name).read_text().strip()

    def http(self, node: str | None = None) -> httpx.Client:
        """A client that trusts the CA; with that node's certificate."""
        files = (None, None) if node is None else (Path(self.file(f"{node}.pem")), Path(self.file(f"{node}.key")))
        context = client_context(Path(self.file("ca.pem")), *files)
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=20)

    def metric(self, line: str) -> float:
        """A value of the service's own metrics."""
        with self.http() as http:
            lines = http.get("/metrics", headers={"Authorization": f"Bearer {self.token('admin-token')}"}).text
        return next((float(text.rpartition(" ")[2]) for text in lines.splitlines() if text.startswith(line)), 0.0)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tls"))
    with process(made.log, "up", *made.flags()) as up, made.http() as http:
        wait_for("the service is ready", lambda: up.poll() is not None or http.get("/readyz").status_code == 200)
        assert up.poll() is None, made.log.read_text()
        yield made


def test_clear_text_and_an_unknown_authority_get_nothing(secured: Secured) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://localhost:{secured.port}/readyz", trust_env=False)
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        httpx.get(f"{secured.url}/readyz", trust_env=False)


def test_the_dashboard_and_the_tuner_worker_reach_their_service(secured: Secured) -> None:
    with secured.http() as http:
        entered = http.post("/login", data={"token": secured.token("admin-token")})
        assert entered.status_code == 303 and "secure" in entered.headers["set-cookie"].lower()
        assert http.get("/fleet").status_code == 200
    local = secured.data / f"service-{secured.port}.sock"
    assert stat.S_IMODE(local.stat().st_mode) == 0o600 and local.stat().st_uid == os.getuid()
    with Client(f"unix:{local}", secured.token("tuner-token")) as client:
        assert client.claim_study("the test") is None
    assert "cannot claim a study: ConnectError" not in secured.log.read_text().partition("startup complete")[2]
    assert "the tuner worker ended" not in secured.log.read_text()


def test_no_other_machine_is_served_in_clear_unless_that_is_said(tmp_path: Path) -> None:
    words = ["up", "--host", "0.0.0.0", "--port", str(free_port()), "--data-dir", str(tmp_path / "data")]
    answer = subprocess.run([*TAILWRIGHT, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 2
    assert answer.stderr.startswith("host: 0.0.0.0") and answer.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()
