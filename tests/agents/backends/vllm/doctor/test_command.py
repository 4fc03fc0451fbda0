"""`tailwright doctor vllm` as a user runs it."""

import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.serving.authority import Authority
from tests.agents.backends.vllm.doctor.conftest import SCHEDULER, start  # noqa: F401 - a fixture.
from tests.agents.backends.vllm.doctor.made_environment import make_environment

pytestmark = pytest.mark.slow

runner = CliRunner()


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("vllm") / "env")


def doctor(*arguments: object) -> tuple[int, str]:
    answer = runner.invoke(
        app, ["doctor", "vllm", *map(str, arguments)], env={"COLUMNS": "200", "TAILWRIGHT_VLLM_DIR": ""}
    )
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    return answer.exit_code, answer.output


def test_an_environment_that_is_fine(executable: Path) -> None:
    status, told = doctor("--vllm", executable)
    assert status == 0, told
    assert "ok   vLLM: 0.32.0+cpu, tried" in told and "ok   scheduler class: loads in this vLLM" in told
    assert "less traces: no OTLP exporter" in told
    assert "name --url, --dir or --node-file" in told


def test_an_environment_without_the_plugin(tmp_path: Path) -> None:
    bare = make_environment(tmp_path / "env", plugin=None)
    status, told = doctor("--vllm", bare, "--quick")
    assert status == 1
    assert "BAD  plugin: tailwright-vllm is not installed" in told
    assert f"     {tmp_path}/env/bin/python -m pip install " in told


def test_an_untried_version_and_an_old_plugin(tmp_path: Path) -> None:
    other = make_environment(tmp_path / "env", vllm="0.99.0", plugin="0.0.1", entry_point=False)
    status, told = doctor("--vllm", other, "--quick")
    assert status == 1
    assert "less vLLM: 0.99.0, not among those tried: 0.28.0, 0.32.0" in told
    assert "BAD  plugin: version 0.0.1, this checkout has" in told
    assert "BAD  entry point: " in told and "scheduler class" not in told


def test_no_environment_at_all(tmp_path: Path) -> None:
    status, told = doctor("--vllm", tmp_path / "vllm")
    assert status == 1 and "does not exist; run `make vllm`" in told


def test_a_running_server_with_its_folder(start: Callable[..., Any]) -> None:  # noqa: F811
    running = start(*SCHEDULER, "--max-num-batched-tokens", "1024", "--max-num-seqs", "16")
    status, told = doctor("--url", running.url, "--dir", running.folder)
    assert status == 0, told
    assert "What can be tuned (the scheduler's own words)" in told
    table = {line.split()[0]: line for line in told.splitlines() if line.startswith(" ") and line.strip()}
    assert "1 to 1024" in table["max_num_batched_tokens"] and "1 to 16" in table["max_num_seqs"]
    assert "restart, by you" in table["quantization"]


def test_for_machines(start: Callable[..., Any]) -> None:  # noqa: F811
    running = start()
    status, told = doctor("--url", running.url, "--dir", running.folder, "--json")
    answer = json.loads(told)
    assert status == 1 and answer["fine"] is False
    marks = {finding["name"]: finding["mark"] for finding in answer["findings"]}
    assert marks["server"] == "ok" and marks["scheduler"] == "BAD" and marks["live limits"] == "BAD"
    assert answer["knobs"]["source"] == "as the server was started"
    assert all(not row["live"] for row in answer["knobs"]["rows"])


def test_a_node_file(tmp_path: Path, executable: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "node.toml").write_text(
        f'executable = "{executable}"\nserved_model_name = "m"\n[variants.none]\nmodel = "./model"\n'
        "[capacity]\nmax_num_seqs = 64\n[limits]\nmax_num_seqs = 128\n"
    )
    told = doctor("--node-file", tmp_path / "node.toml", "--quick")[1]
    assert "ok   node file" in told and "ok   plugin: " in told
    assert "as the node file is going to start it" in told and "up to 128: standby or restart" in told
    status, told = doctor("--node-file", tmp_path / "none.toml")
    assert status == 1 and "BAD  node file: " in told and "cannot be read" in told


def test_plain_doctor_is_as_it_was() -> None:
    told = runner.invoke(app, ["doctor", "--port", "65001"]).output
    assert told.startswith("ok   python: ") and "vLLM" not in told


def test_a_wrong_url_is_one_line() -> None:
    assert doctor("--url", "127.0.0.1:8000") == (
        2,
        "--url: wants a URL such as http://127.0.0.1:8000, got '127.0.0.1:8000'\n",
    )


def test_a_server_with_a_certificate_of_the_fleet_s_is_looked_at(tmp_path: Path) -> None:
    authority, now = Authority(tmp_path / "tls"), datetime.now(UTC)
    authority.init(now)
    authority.issue_server("vllm", ["127.0.0.1"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "vllm.pem", authority.folder / "vllm.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    words = ["doctor", "vllm", "--url", f"https://127.0.0.1:{server.server_address[1]}", "--json"]
    try:
        trusted = json.loads(runner.invoke(app, ["--ca-file", str(authority.folder / "ca.pem"), *words]).stdout)
        unknown = json.loads(runner.invoke(app, words).stdout)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert finding(trusted, "server")["fine"]
    assert not finding(unknown, "server")["fine"]
    assert "CERTIFICATE_VERIFY_FAILED" in finding(unknown, "server")["found"]


def finding(told: Any, name: str) -> Any:
    return next(one for one in told["findings"] if one["name"] == name)


class Healthy(BaseHTTPRequestHandler):
    """Answers everything with an empty 200, as vLLM does /health."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
