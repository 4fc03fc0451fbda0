"""`tailwright traffic` as a process against engines made of waiting: it sends, says so, is bounded, and ends well."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sse_engine import SseEngine
from typer.testing import CliRunner

from controlplane.command.main import app
from tests.processes import free_port, wait_for

ROOT = Path(__file__).resolve().parents[3]
TRAFFIC = [sys.executable, "-m", "controlplane.command.main", "traffic"]
SHORT = ["--max-input", "128", "--max-output", "4", "--every", "0.5"]
pytestmark = pytest.mark.slow
runner = CliRunner()
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def named(engine: SseEngine) -> SseEngine:
    engine.models = [{"id": "m"}]
    return engine


@pytest.fixture
def started() -> Iterator[Start]:
    """Starts the command with these arguments; what still runs at the end of the test is ended."""
    with contextlib.ExitStack() as running:

        def start(*arguments: str) -> "subprocess.Popen[str]":
            command = [*TRAFFIC, *arguments]
            process = running.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            running.callback(process.kill)
            return process

        yield start


def test_it_sends_until_ctrl_c_and_says_what_became_of_it(started: Start, named: SseEngine) -> None:
    process = started("--target", named.url + "/v1", "--rate", "40", *SHORT)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first == f"Sending 40 requests/s of chat to m at {named.url}, until Ctrl-C.\n"
    for line in process.stdout:
        assert re.match(r"\d\d:\d\d:\d\d  \d+ sent, \d+ in flight, \d+ answered, 0 failed; ", line)
        if "ttft p50" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, problems = process.communicate(timeout=60)
    assert (process.returncode, problems) == (0, "")
    sent = re.search(
        r"Sent (\d+) requests in \d+ s: (\d+) answered, 0 failed; ttft p50 [\d.]+ m?s, p99 [\d.]+ m?s\.", rest
    )
    assert sent is not None and sent[1] == sent[2] == str(len(named.prompts))


def test_json_and_a_control_file(started: Start, named: SseEngine, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_text('{"rate": 40}')
    flags = ["--rate", "1", "--seed", "3", "--control-file", str(control), "--json"]
    process = started("--target", named.url, *flags, *SHORT)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["sent"] < 20:
        pass
    process.terminate()
    last = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    assert process.returncode == 0
    assert last["rate"] == 40 and last["stopped"] and last["finished"] == last["sent"] >= 20


def test_no_more_than_the_cap_are_in_flight_and_the_rest_is_counted(started: Start, named: SseEngine) -> None:
    named.prefill = lambda _, __: 60.0
    process = started("--target", named.url, "--rate", "200", "--max-in-flight", "3", "--drain", "0", *SHORT)
    assert process.stdout is not None
    for line in process.stdout:
        if "not sent" in line:
            assert line.partition("  ")[2].startswith("3 sent, 3 in flight, 0 answered, 0 failed, ")
            break
    assert named.running == 3
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert "0 answered, 0 failed, 3 broken off at the end" in rest and "because 3 were in flight" in rest


def test_it_ends_by_itself_and_with_1_when_nothing_was_answered(started: Start, named: SseEngine) -> None:
    named.fail_status = 503
    process = started("--target", named.url, "--rate", "50", "--duration", "1.5", *SHORT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "failed (last: HTTP 503" in told and re.search(r"\d+ failed: HTTP 503: ", told.splitlines()[-1])


def test_no_engine_that_answers_is_said_at_once() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    answer = runner.invoke(app, ["traffic", "--target", url])
    assert answer.exit_code == 1 and f"no engine answers: {url} does not answer" in answer.stderr


def test_one_of_two_that_answers_is_enough_and_the_other_is_named(started: Start, named: SseEngine) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    process = started("--target", named.url, "--target", dead, "--rate", "40", "--duration", "1.5", *SHORT)
    told, problems = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"not answering yet, its requests will fail: {dead}" in problems
    assert "failed: cannot connect" in told
    wait_for("the other was sent its half", lambda: named.prompts)


def test_the_key_of_a_file_goes_to_the_engine(started: Start, named: SseEngine, tmp_path: Path) -> None:
    key = tmp_path / "key"
    refused = runner.invoke(app, ["traffic", "--target", named.url, "--api-key-file", str(key)])
    assert refused.exit_code == 2 and f"api_key_file: {key} is not there" in refused.stderr
    key.write_text("secret\nanother\n")
    key.chmod(0o600)
    named.api_key = "secret"
    locked = runner.invoke(app, ["traffic", "--target", named.url])
    assert locked.exit_code == 1 and "--api-key-file" in locked.stderr
    process = started("--target", named.url, "--api-key-file", str(key), "--rate", "40", "--duration", "1", *SHORT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and " 0 failed" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--target URL"),
        (["--target", "http://127.0.0.1:9", "--pool", "p"], "--target URL"),
        (["--target", "http://127.0.0.1:9", "--shape", "chta"], "--shape: one of chat, code, rag"),
        (["--target", "nonsense"], "target: nonsense wants http://HOST:PORT"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], told: str) -> None:
    answer = runner.invoke(app, ["traffic", *arguments])
    assert answer.exit_code == 2 and told in answer.stderr and len(answer.stderr.splitlines()) == 1
