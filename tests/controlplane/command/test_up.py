"""`tailwright up` as a process: what it says when it is ready, to a terminal and to a log; and a port in use."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from controlplane.command.up import UpSettings, _tuner_variables
from tests.processes import free_port
from tests.read_settings import read
from tuner.evaluation.evaluation_command import evaluations_of

ROOT = Path(__file__).resolve().parents[3]
TAILWRIGHT = [sys.executable, "-m", "controlplane.command.main"]
pytestmark = pytest.mark.slow


@contextmanager
def up(data_dir: Path, port: int, out: int, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    command = [*TAILWRIGHT, "up", "--data-dir", str(data_dir), "--port", str(port), "--no-tuner", *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(descriptor: int) -> str:
    """All until the command for traffic, which is the last line of a fresh service."""
    text = ""
    while not re.search(r" traffic .*\n", text):
        piece = os.read(descriptor, 4096)
        assert piece, text
        text += piece.decode()
    return text.replace("\r\n", "\n")


def test_the_worker_beside_it_is_told_its_evaluations(tmp_path: Path) -> None:
    settings = UpSettings(data_dir=tmp_path, evaluations={"mmlu": f"{sys.executable} -V"}, evaluation_timeout_s=60)
    assert read(UpSettings, "up", ["--data-dir", f"{tmp_path}", "--evaluation", f"mmlu={sys.executable} -V",
                                   "--evaluation-timeout-s", "60"]) == settings  # fmt: skip
    told = _tuner_variables(settings)
    known = evaluations_of((), told["TAILWRIGHT_TUNER_EVALUATIONS"])
    assert known.named("mmlu", "w") == (sys.executable, "-V") and told["TAILWRIGHT_TUNER_EVALUATION_TIMEOUT_S"] == "60"
    assert "TAILWRIGHT_TUNER_EVALUATIONS" not in _tuner_variables(UpSettings(data_dir=tmp_path))


def test_a_terminal_gets_a_link_that_signs_a_browser_in_once(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    ours, theirs = pty.openpty()
    with up(data, port, theirs) as process:
        text = said(ours)
        assert text.startswith(f"Tailwright is ready at http://127.0.0.1:{port}\n")
        link = re.search(r"dashboard +(http://127\.0\.0\.1:\S+/login\?code=\S+)\n", text)
        assert link is not None and "once, within 60 s" in text
        with httpx.Client() as browser:
            entered = browser.get(link[1], follow_redirects=True)
            assert (entered.status_code, entered.url.path) == (200, "/")
        assert httpx.get(link[1]).status_code == 401, "a link counts once"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        told = [line for line in process.stderr.read().splitlines() if " INFO " in line]
        assert told and all(" controlplane.auth.watch.security_log " in line for line in told), "no other noise"
    os.close(ours)
    os.close(theirs)


def test_a_log_gets_no_secret_but_every_command_whole(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    reading, writing = os.pipe()
    with up(data, port, writing):
        os.close(writing)
        text = said(reading)
    os.close(reading)
    assert "code=" not in text
    assert f"admin-token, enrolment-token, tuner-token, dashboard-token in {data}" in text
    assert re.search(rf"tailwright open --server http://127.0.0.1:{port} --token-file {data}/dashboard-token\n", text)
    assert re.search(r"tailwright engine --model \S+/agents/models/tailwright-py-5m --port 7401\n", text)
    assert f"--server-url http://127.0.0.1:{port} --enrolment-token-file {data}/enrolment-token" in text
    secrets = [(data / name).read_text().strip() for name in ("admin-token", "dashboard-token", "enrolment-token")]
    assert not any(secret in text for secret in secrets)


def test_a_port_in_use_is_one_line_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = [*TAILWRIGHT, "up", "--data-dir", str(tmp_path / "data"), "--port", str(port)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"port: {port} of 127.0.0.1 is in use: .* give another --port\n", done.stderr)
    assert not (tmp_path / "data").exists()
