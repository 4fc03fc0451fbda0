"""Evaluation commands: what a worker knows, what one is told, and how it ends."""

import shlex
import sys
import threading
from pathlib import Path

import pytest

from controlplane.contract.errors import BadRequest, BadSettings
from tests.processes import wait_for
from tuner.evaluation.evaluation_command import EvaluationFailed, Evaluations, evaluations_of, run_evaluation
from tuner.replay.replay import Stopped

URL = "http://127.0.0.1:9"


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def run(text: str, *, timeout_s: float = 60.0, stop: threading.Event | None = None) -> float:
    stopped = stop or threading.Event()
    return run_evaluation(script(text), url=URL, model="tiny", timeout_s=timeout_s, stop=stopped).score


def test_commands_are_words_and_run_by_no_shell() -> None:
    quoted = f"{shlex.quote(sys.executable)} -c 'print(1)' '; rm -rf x' $HOME"
    found = evaluations_of([f"own={quoted}", f"b={sys.executable}"])
    assert found.named("own", "w") == (sys.executable, "-c", "print(1)", "; rm -rf x", "$HOME")
    assert evaluations_of([], f'{{"own": "{sys.executable} -V"}}', 5).named("own", "w") == (sys.executable, "-V")
    assert evaluations_of([]).commands == {}
    with pytest.raises(BadRequest, match="worker w has no evaluation 'mmlu', it has b, own; start it with"):
        found.named("mmlu", "w")
    with pytest.raises(BadRequest, match="it has none"):
        Evaluations().named("mmlu", "w")


@pytest.mark.parametrize(
    ("pairs", "variable", "told"),
    [
        (["own"], "", "wants NAME=COMMAND"),
        (["../x=true"], "", "letters, digits"),
        (["own="], "", "an empty command"),
        (["own=no-such-program-here 1"], "", "no program that can be run here"),
        (["own='unclosed"], "", "evaluation own"),
        ([], "[1]", "JSON object"),
        ([], '{"own": 1}', "JSON object"),
        ([], "{", "JSON object"),
    ],
)
def test_a_wrong_command_keeps_the_worker_from_starting(pairs: list[str], variable: str, told: str) -> None:
    with pytest.raises(BadSettings, match=told):
        evaluations_of(pairs, variable)


def test_the_command_is_told_the_engine_and_none_of_the_workers_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TAILWRIGHT_TOKEN", "secret")
    monkeypatch.setenv("HF_HOME", "kept")
    file = tmp_path / "environment"
    told = f"import os; open({str(file)!r}, 'w').write('\\n'.join(f'{{k}}={{v}}' for k, v in os.environ.items()))"
    assert run(f"{told}; print('much'); print(0.25)") == 0.25
    lines = file.read_text().splitlines()
    ours = sorted(line for line in lines if line.startswith("TAILWRIGHT_"))
    assert ours == ["TAILWRIGHT_EVALUATION_MODEL=tiny", f"TAILWRIGHT_EVALUATION_URL={URL}"]
    assert {f"OPENAI_BASE_URL={URL}/v1", "HF_HOME=kept"} <= set(lines)


def test_very_much_output_is_no_matter() -> None:
    chatter = "import sys; sys.stderr.write('e' * 3_000_000); sys.stdout.write('o\\n' * 2_000_000)"
    assert run(f"{chatter}; print('{{\"score\": 3}}')") == 3.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys; sys.stderr.write('no such task\\n'); sys.exit(3)", "it ended with status 3: no such task"),
        ("import sys; sys.exit(1)", "it said nothing"),
        ("print('done')", "last line wants to be a number"),
    ],
)
def test_what_gives_no_score_says_why(text: str, told: str) -> None:
    with pytest.raises(EvaluationFailed, match=told):
        run(text)
    with pytest.raises(EvaluationFailed, match="could not be started"):
        run_evaluation(["/no/such"], url=URL, model="m", timeout_s=1, stop=threading.Event())


def _alive(process: int) -> bool:
    """A zombie that nobody has waited for is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    file = tmp_path / "process"
    child = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    text = f"{child}; open({str(file)!r}, 'w').write(str(p.pid)); import time; time.sleep(600)"
    stop = threading.Event()
    failed: list[BaseException] = []

    def evaluate() -> None:
        try:
            run(text, stop=stop)
        except Stopped as error:
            failed.append(error)

    thread = threading.Thread(target=evaluate)
    thread.start()
    wait_for("its child has begun", lambda: file.exists() and file.read_text())
    stop.set()
    thread.join(60)
    assert len(failed) == 1, "a study that is stopped ends its evaluation"
    wait_for("the child has ended, too", lambda: not _alive(int(file.read_text())))


def test_a_time_out_is_told() -> None:
    with pytest.raises(EvaluationFailed, match=r"it did not end within 0\.2 s"):
        run("import time; time.sleep(600)", timeout_s=0.2)
