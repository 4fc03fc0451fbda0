"""The user's own evaluation commands: which a worker knows, and one run of one of them.

Guarantee: what is run is what the worker was started with, word for word and by no shell; a study only says a name.
The command is given the trial engine's address and model, and none of the worker's own secrets (`TAILWRIGHT_*`). It
has ended, with what it has started, when `run_evaluation` returns: by itself, by its time-out, because the study was
stopped. It is told to end when the worker dies.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from controlplane.contract.bodies.studies import EvaluationScore
from controlplane.contract.errors import BadRequest, BadSettings, TailwrightError
from controlplane.terminal.child import die_with_parent
from tuner.evaluation.evaluation_score import score_of
from tuner.replay.replay import Stopped

TIMEOUT_S = 1800.0
URL, OPENAI_URL, MODEL = "TAILWRIGHT_EVALUATION_URL", "OPENAI_BASE_URL", "TAILWRIGHT_EVALUATION_MODEL"
"""What a command is told by its environment: the engine's base, the same with /v1 as OpenAI's clients read it, and the
model's name."""
_OWN = "TAILWRIGHT_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEPT_BYTES = 65_536
"""Of the end of what it prints."""
_POLL_S, _KILL_S = 0.1, 5.0


@dataclass(frozen=True)
class Evaluations:
    """The commands that a worker was started with, as words, by name."""

    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S

    def named(self, name: str, worker: str) -> Sequence[str]:
        """Raises BadRequest, with the mend, where the worker has none of that name."""
        if name not in self.commands:
            known = f"it has {', '.join(sorted(self.commands))}" if self.commands else "it has none"
            raise BadRequest(
                f"evaluation: worker {worker} has no evaluation {name!r}, {known}; start it with --evaluation "
                f"{name}=COMMAND, or leave the field out",
                field="evaluation",
            )
        return self.commands[name]


def evaluations_of(pairs: Sequence[str], environment: str = "", timeout_s: float = TIMEOUT_S) -> Evaluations:
    """`pairs`: NAME=COMMAND each, the command's words as a shell splits them. `environment`: a JSON object of them,
    where there are no pairs. Raises BadSettings."""
    named = dict(_pair(text) for text in pairs) if pairs else _from_json(environment)
    commands = {}
    for name, command in named.items():
        if not _NAME.fullmatch(name):
            raise BadSettings(f"evaluation: {name!r} wants to be letters, digits, '.', '_' and '-'", field="evaluation")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise BadSettings(f"evaluation {name}: {error}", field="evaluation") from error
        if not words or shutil.which(words[0]) is None:
            there = repr(words[0]) if words else "an empty command"
            raise BadSettings(f"evaluation {name}: {there} is no program that can be run here", field="evaluation")
        commands[name] = tuple(words)
    if not timeout_s > 0:
        raise BadSettings("evaluation_timeout_s: wants more than 0 seconds", field="evaluation_timeout_s")
    return Evaluations(commands, timeout_s)


def _pair(text: str) -> tuple[str, str]:
    name, equals, command = text.partition("=")
    if not equals:
        raise BadSettings(f"evaluation: wants NAME=COMMAND, got {text!r}", field="evaluation")
    return name.strip(), command


def _from_json(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise BadSettings('evaluation: the variable wants a JSON object, {"NAME": "COMMAND"}', field="evaluation")
    return found


class EvaluationFailed(TailwrightError):
    """An evaluation command that gave no score."""

    status = 502
    code = "evaluation_failed"


def run_evaluation(
    command: Sequence[str], *, url: str, model: str, timeout_s: float, stop: threading.Event
) -> EvaluationScore:
    """Run it against the engine at `url`. Raises EvaluationFailed where it gives no score, Stopped by `stop`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    environment |= {URL: url, OPENAI_URL: f"{url}/v1", MODEL: model}
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise EvaluationFailed(f"it could not be started: {error}") from error
    assert process.stdout is not None and process.stderr is not None
    out, err = _Tail(process.stdout), _Tail(process.stderr)
    try:
        status = _waited(process, began + timeout_s, stop)
    finally:
        _end(process)
        said, complained = out.text(), err.text()
    if status is None:
        raise EvaluationFailed(f"it did not end within {timeout_s:g} s")
    if status != 0:
        last = _last_line(complained) or _last_line(said) or "it said nothing"
        raise EvaluationFailed(f"it ended with status {status}: {last}")
    try:
        return score_of(said, time.monotonic() - began)
    except BadRequest as error:
        raise EvaluationFailed(error.message) from error


def _waited(process: subprocess.Popen[bytes], until: float, stop: threading.Event) -> int | None:
    """Its status; None where its time is over."""
    while process.poll() is None:
        if stop.is_set():
            raise Stopped("the study was stopped")
        left_s = until - time.monotonic()
        if left_s <= 0:
            return None
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(_POLL_S, left_s))
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """The command and all that it has started and that stayed in its session's group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Tail:
    """The end of a stream, read by a thread of its own, so that the command never waits for a reader."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._kept = stream, bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Once the command has ended."""
        self._thread.join(_KILL_S)
        return bytes(self._kept).decode("utf-8", errors="replace")

    def _read(self) -> None:
        with self._stream as stream, suppress(OSError, ValueError):
            while piece := os.read(stream.fileno(), 65_536):
                self._kept += piece
                del self._kept[:-_KEPT_BYTES]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
