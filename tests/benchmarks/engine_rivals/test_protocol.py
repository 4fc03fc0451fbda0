import sys
from pathlib import Path

import pytest

from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.protocol import Worker, WorkerFailed

ECHO = """
import sys
sys.path.insert(0, {root!r})
from benchmarks.engine_rivals import protocol

def shout(text):
    print("noise that no answer may contain")
    return text.upper()

def crash():
    raise SystemExit(3)

def fail():
    raise ValueError("no such thing")

protocol.answer_requests({{"shout": shout, "fail": fail, "crash": crash}})
"""


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    (tmp_path / "echo_worker.py").write_text(ECHO.format(root=str(protocol.ROOT)))
    return Worker("echo", sys.executable, "echo_worker", {"PYTHONPATH": str(tmp_path)}, [0])


def test_answers_errors_and_noise_stay_apart(worker: Worker) -> None:
    assert worker.ask("shout", text="a\nb") == "A\nB"
    with pytest.raises(WorkerFailed, match="echo: ValueError: no such thing"):
        worker.ask("fail")
    assert worker.ask("shout", text="still here") == "STILL HERE"
    worker.close()


def test_a_dead_worker_is_told(worker: Worker) -> None:
    with pytest.raises(WorkerFailed, match="the process ended"):
        worker.ask("crash")
    worker.close()
