"""Trust between machines: a real service with TLS, a node of its CA, and who is not let in (SEC H5)."""

import asyncio
import contextlib
import json
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from controlplane.client import Client
from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from tests.processes import free_port, wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "agents/models/tailwright-py-5m"
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
        tls += ["--tls-client-ca", self.file("ca.pem"), "--tls-client-crl", self.file("crl.pem")]
        return ["--data-dir", str(self.data), "--port", str(self.port), *tls]

    def agent_flags(self, node: str, certificate: str, engine_url: str) -> list[str]:
        """An agent of that node, which shows that certificate."""
        return [
            *("--node", node, "--pool", "chat", "--server-url", self.url, "--engine-url", engine_url),
            *("--state-dir", str(self.folder / f"state-{node}-{certificate}")),
            *("--enrolment-token-file", str(self.data / "enrolment-token"), "--ca-file", self.file("ca.pem")),
            *("--client-cert", self.file(f"{certificate}.pem"), "--client-key", self.file(f"{certificate}.key")),
            *("--watch-interval-s", "0.5", "--heartbeat-s", "1"),
        ]

    def token(self, name: str) -> str:
        return (self.data / name).read_text().strip()

    def http(self, node: str | None = None) -> httpx.Client:
        """A client that trusts the CA; with that node's certificate."""
        files = (None, None) if node is None else (Path(self.file(f"{node}.pem")), Path(self.file(f"{node}.key")))
        context = client_context(Path(self.file("ca.pem")), *files)
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=20)

    def admin(self) -> Client:
        return Client(self.url, self.token("admin-token"), tls=client_context(Path(self.file("ca.pem"))))

    def refused(self) -> float:
        """Node's tokens without their certificate, as the service counts them."""
        line = 'tailwright_http_refused_total{reason="node_certificate"}'
        with self.http() as http:
            lines = http.get("/metrics", headers={"Authorization": f"Bearer {self.token('admin-token')}"}).text
        return next((float(text.rpartition(" ")[2]) for text in lines.splitlines() if text.startswith(line)), -1.0)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tls"))
    with process(made.log, "up", *made.flags()) as up, made.http() as http:
        wait_for("the service is ready", lambda: up.poll() is not None or http.get("/readyz").status_code == 200)
        assert up.poll() is None, made.log.read_text()
        yield made


@pytest.fixture(scope="module")
def engine(secured: Secured) -> Iterator[str]:
    """The URL of an engine of the bundled model, with TLS."""
    url = f"https://localhost:{(port := free_port())}"
    words = ["engine", "--model", str(MODEL), "--port", str(port)]
    words += ["--tls-cert", secured.file("service.pem"), "--tls-key", secured.file("service.key")]
    with process(secured.folder / "engine.log", *words), secured.http() as http:
        wait_for("the engine serves", lambda: http.get(f"{url}/health").is_success)
        yield url


@pytest.fixture(scope="module")
def node(secured: Secured, engine: str) -> Iterator[Path]:
    """A node that is in the fleet by its certificate, gpu-1; its agent's log."""
    log = secured.folder / "agent.log"
    with process(log, "agent", *secured.agent_flags("gpu-1", "gpu-1", engine)), secured.admin() as client:
        wait_for("the node is healthy", lambda: any(node.healthy and node.effective for node in client.nodes()))
        yield log


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


def test_an_engine_ends_who_sends_too_large_a_head(secured: Secured, engine: str) -> None:
    with secured.http() as http:
        assert http.get(f"{engine}/health", headers={"X-Large": "x" * 70_000}).status_code == 431
        told = http.get(f"{engine}/metrics").text
    assert f'vllm:admission_rejections_total{{model_name="{MODEL.name}",reason="head_bytes"}} 1.0' in told


@pytest.mark.parametrize("command", ["up", "engine"])
def test_no_other_machine_is_served_in_clear_unless_that_is_said(command: str, tmp_path: Path) -> None:
    words = [command, "--host", "0.0.0.0", "--port", str(free_port())]
    words += ["--data-dir", str(tmp_path / "data")] if command == "up" else []
    answer = subprocess.run([*TAILWRIGHT, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 2
    assert answer.stderr.startswith("host: 0.0.0.0") and answer.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_node_with_its_certificate_reports_and_people_need_none(secured: Secured, node: Path, engine: str) -> None:
    body = {"model": MODEL.name, "prompt": "def add(a, b):", "max_tokens": 4}
    with secured.admin() as client, secured.http() as http:
        assert http.post(f"{engine}/v1/completions", json=body, timeout=60).status_code == 200
        stored = wait_for("the report is stored", lambda: client.quantiles("e2e", window="5m", pool="chat").series)
        assert stored[0].count >= 1
    words = ["status", "--server", secured.url, "--token-file", str(secured.data / "admin-token")]
    told = subprocess.run(
        [*TAILWRIGHT, "--ca-file", secured.file("ca.pem"), *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0 and "gpu-1" in told.stdout, told.stderr
    assert "OpAMP over WebSocket" not in node.read_text()


@pytest.mark.parametrize("certificate", [None, "gpu-2"])
def test_a_nodes_token_is_worth_nothing_on_another_machine(
    secured: Secured, node: Path, certificate: str | None
) -> None:
    state = secured.folder / "state-gpu-1-gpu-1"
    token = json.loads((state / "credentials.json").read_text())["token"]
    headers = {"Authorization": f"Bearer {token}"}
    before = secured.refused()
    with secured.http(certificate) as http:
        answers = [
            http.post("/v1/metrics", headers=headers),
            http.post("/v1/traces", headers=headers),
            http.post("/v1/opamp", headers=headers),
            http.get("/api/v1/tokens/self", headers=headers),
        ]
    for answer in answers:
        assert answer.status_code == 403 and "`tailwright tls node gpu-1`" in answer.json()["error"]["message"]
    shown = () if certificate is None else (Path(secured.file("gpu-2.pem")), Path(secured.file("gpu-2.key")))
    context = client_context(Path(secured.file("ca.pem")), *shown)
    assert asyncio.run(_handshake(secured.url.replace("https", "wss") + "/v1/opamp", context, headers)) == 403
    wait_for("each is counted", lambda: secured.refused() >= before + 5)
    with secured.http("gpu-1") as http:
        assert http.get("/api/v1/tokens/self", headers=headers).status_code == 200


async def _handshake(url: str, context: ssl.SSLContext, headers: dict[str, str]) -> int:
    """The status that refuses this WebSocket. In one thread: two that read and write one TLS connection, as those of
    `websockets.sync` do, lose a request in a thousand (Python before 3.13 has no lock there)."""
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, ssl=context, additional_headers=headers, proxy=None):
            pass
    return refused.value.response.status_code


def test_nobody_enrols_as_another_node(secured: Secured, engine: str) -> None:
    before = secured.refused()
    log = secured.folder / "other.log"
    with process(log, "agent", *secured.agent_flags("gpu-3", "gpu-2", engine)):
        wait_for("the agent is refused", lambda: "not enrolled yet" in log.read_text())
    assert "one for urn:tailwright:node:gpu-3 is needed, the one shown is for gpu-2" in log.read_text()
    wait_for("it is counted", lambda: secured.refused() > before)
    with secured.admin() as client:
        assert "gpu-3" not in {node.node for node in client.nodes()}


def test_what_is_renewed_counts_without_a_restart(secured: Secured, node: Path) -> None:
    def serial() -> str:
        return ssl.get_server_certificate(("localhost", secured.port))

    before = serial()
    assert set(secured.ca.renew(datetime.now(UTC), within_days=91)) == {"gpu-1", "gpu-2", "service"}
    wait_for("the service shows it", lambda: serial() != before)
    wait_for("the agent has it", lambda: "gpu-1.pem was renewed" in node.read_text())
    with secured.http("gpu-1") as http:
        assert http.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--ca-file", "none.pem"], "ca_file: none.pem"),
        (["--client-cert", "none.pem", "--client-key", "none.key"], "client_cert: none.pem"),
        (["--client-key", "none.key"], "client_cert: client_cert and client_key go together"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_setting(flags: list[str], named: str, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        told = subprocess.run([*TAILWRIGHT, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert told.returncode == 2 and told.stderr.count("\n") == 1, told.stderr
        return told.stderr

    assert said(*flags, "status", "--token", "t").startswith(named)
    assert named.split(": ", 1)[1] in said("agent", "--node", "n", "--enrolment-token", "t", *flags)


def test_a_revoked_node_is_out_while_its_connection_is_open(secured: Secured) -> None:
    secured.ca.issue_node("gpu-7", datetime.now(UTC))
    with secured.http("gpu-7") as lost, secured.http() as people:
        assert lost.get("/readyz").status_code == 200
        before = counted(people, secured)
        secured.ca.revoke("gpu-7", datetime.now(UTC), x509.ReasonFlags.key_compromise)
        # The connection is kept for 75 s: what ends it is the list.
        wait_for("it is ended", lambda: counted(people, secured) > before, 20)
        with pytest.raises(httpx.TransportError):
            lost.get("/readyz")
        assert people.get("/readyz").json()["degraded"] == []
        secured.ca.issue_node("gpu-7", datetime.now(UTC))
    with secured.http("gpu-7") as anew:
        assert anew.get("/readyz").status_code == 200


def counted(http: httpx.Client, secured: Secured) -> float:
    text = http.get("/metrics", headers={"Authorization": f"Bearer {secured.token('admin-token')}"}).text
    line = 'tailwright_http_refused_total{reason="certificate_revoked"} '
    return float(next(one for one in text.splitlines() if one.startswith(line)).removeprefix(line))
