"""A command that wraps keys with a master key, which stays where the command has it: in a vault, or a service for keys.

Envelope encryption: what encrypts secrets is a key of ours (a data key), and what lies in the file is that key as the
command has wrapped it. The command is run without a shell as `COMMAND wrap` and `COMMAND unwrap`: it reads one line and
answers with one. `wrap` reads a key, 64 hexadecimal digits, and answers with text without spaces; `unwrap` the reverse.

Guarantee: it answers within a time and with few bytes, or all that it started is ended and that is an error; nothing
stands in for an answer. It is told none of our variables (TAILWRIGHT_*), and no key is ever an argument.
"""

import contextlib
import logging
import os
import re
import selectors
import shlex
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, Final, Literal

from controlplane.contract.errors import BadSettings

FIELD: Final = "secrets_key_command"
TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 8192
_WRAPPED: Final = re.compile(r"[!-~]{1,4096}")
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")

Action = Literal["wrap", "unwrap"]
ACTIONS: Final[tuple[Action, ...]] = ("wrap", "unwrap")
OUTCOMES: Final = ("answered", "failed")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyCommand:
    """counts: how often it was run, by action and outcome."""

    words: tuple[str, ...]
    timeout_s: float = TIMEOUT_S
    counts: Counter[tuple[Action, str]] = field(default_factory=Counter, compare=False)

    @classmethod
    def of(cls, command: str) -> "KeyCommand":
        """Of its words, as a shell splits them. Raises BadSettings."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise BadSettings(f"{FIELD}: {error}", field=FIELD) from error
        if not words:
            raise BadSettings(f"{FIELD}: is empty: name a program, or leave it out", field=FIELD)
        return cls(words)

    def wrap(self, key: bytes) -> str:
        """The key's text for the file. Raises BadSettings."""
        wrapped = self._ask("wrap", key.hex(), _WRAPPED)
        if self.unwrap(wrapped) != key:
            raise self._failed("unwrap", "does not give back the key that it has wrapped")
        return wrapped

    def unwrap(self, wrapped: str) -> bytes:
        """Raises BadSettings."""
        return bytes.fromhex(self._ask("unwrap", wrapped, _KEY))

    def _ask(self, action: Action, line: str, form: re.Pattern[str]) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TAILWRIGHT_")}
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                [*self.words, action], stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
            )
        except OSError as error:
            raise self._failed(action, f"cannot be run: {error.strerror or error}") from error
        with process:
            try:
                answer, said = _exchange(process, line.encode() + b"\n", time.monotonic() + self.timeout_s)
            except TimeoutError:
                raise self._failed(action, f"did not end within {self.timeout_s:g} s") from None
            except OverflowError:
                raise self._failed(action, f"says more than {MOST_BYTES} bytes") from None
            finally:
                _end(process)
        if process.returncode:
            words = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise self._failed(action, f"ended with status {process.returncode}: {words[-1][:200]!r}")
        found = answer.decode(errors="replace").strip()
        if not form.fullmatch(found):
            raise self._failed(action, "did not answer with one line of the form that is wanted")
        self.counts[action, "answered"] += 1
        return found

    def _failed(self, action: Action, why: str) -> BadSettings:
        self.counts[action, "failed"] += 1
        logger.error("%s: `%s %s` %s", FIELD, self.words[0], action, why)
        return BadSettings(
            f"{FIELD}: `{self.words[0]} {action}` {why}: mend it, or what it asks; docs/security.md has its protocol",
            field=FIELD,
        )


def _exchange(process: "subprocess.Popen[bytes]", line: bytes, until: float) -> tuple[bytes, bytes]:
    """What a process that is told `line` writes to its output and error output until it ends, at most MOST_BYTES each.

    until: monotonic seconds. Raises TimeoutError, or OverflowError for more bytes.
    """
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        process.stdin.write(line)  # Less than a pipe holds.
        process.stdin.close()
    except BrokenPipeError:
        pass  # It does not want to know; what it answers is judged.
    found: dict[IO[bytes], bytes] = {process.stdout: b"", process.stderr: b""}
    with selectors.DefaultSelector() as selector:
        for stream in found:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                if not (part := os.read(key.fd, MOST_BYTES)):
                    selector.unregister(stream)
                found[stream] += part
                if len(found[stream]) > MOST_BYTES:
                    raise OverflowError
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return found[process.stdout], found[process.stderr]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what it has started, too: its session is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
