"""The limits the agent wants, and what becomes of them.

knobs.json: {"revision": n, "knobs": {name: value, ...}, "more": {name: value, ...}, "queue_limits": {name: value, ...},
"asked": t}, any of the live knobs; replaced atomically by the agent. `more` may be left out: further ones, which not
every release of this plugin moves (`further_levers.py`). `queue_limits` may be left out: those of vLLM's server
process (`queue_levers.py`), null for none; apart, so that a plugin that does not know them passes over them. `asked`
may be left out: Unix seconds at which the agent received the wish. The server's process and the engine's each check the
whole file, and take up their own part.

Guarantee: a file that cannot be read, or holds a value that is no valid limit, changes nothing: the last good limits
stay, and the error is told in effective.json. A value above the capacity that vLLM was started with, or below what is
safe in it, is clamped, and named in `clamped` with what was asked.
"""

import json
import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailwright_vllm.folder import KNOBS
from tailwright_vllm.surprises import described

MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"
PREFILL_CHUNK_SIZE = "prefill_chunk_size"
MAX_NUM_SEQS = "max_num_seqs"
NUM_SPECULATIVE_TOKENS = "num_speculative_tokens"
LIVE = (MAX_NUM_BATCHED_TOKENS, PREFILL_CHUNK_SIZE, MAX_NUM_SEQS, NUM_SPECULATIVE_TOKENS)
WATERMARK = "watermark"
PREFILL_SCHEDULE_INTERVAL = "prefill_schedule_interval"
MORE: "dict[str, tuple[float, float]]" = {WATERMARK: (0.0, 1.0), PREFILL_SCHEDULE_INTERVAL: (1, 2**16)}
"""Further live knobs: the least value, and the one that none reaches; whole numbers where the least is one."""
MAX_NUM_QUEUED_REQS = "max_num_queued_reqs"
MAX_NUM_QUEUED_TOKENS = "max_num_queued_tokens"
QUEUE_LIMITS = (MAX_NUM_QUEUED_REQS, MAX_NUM_QUEUED_TOKENS)
"""As vLLM's configuration has them: None is no limit, 0 refuses everything."""
LARGEST_FILE_BYTES = 64 * 1024
_LEAST = {MAX_NUM_BATCHED_TOKENS: 1, PREFILL_CHUNK_SIZE: 0, MAX_NUM_SEQS: 1, NUM_SPECULATIVE_TOKENS: 0}
_LONGEST_ERROR = 300
_UNSEEN = (-1, -1, -1)

Schedule = list[list[int]]
"""[[largest batch size, draft tokens], ...], batch sizes rising; past its end no drafts."""


class BadKnobFile(ValueError):
    """knobs.json cannot be followed; the message names what is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= _LONGEST_ERROR else message[:_LONGEST_ERROR] + " ...")


@dataclass(frozen=True)
class Capacity:
    """What vLLM was started with: no limit can be above it."""

    max_num_batched_tokens: int
    max_num_seqs: int
    num_speculative_tokens: int


@dataclass(frozen=True)
class Floor:
    """The least that is safe: of the token budget, and of a prefill chunk that is not off (0)."""

    max_num_batched_tokens: int = 1
    prefill_chunk_size: int = 1


@dataclass(frozen=True)
class Wanted:
    """A checked knob file; `knobs` holds only those it names, clamped ones in `clamped` with what was asked."""

    revision: int
    knobs: dict[str, int | Schedule]
    clamped: dict[str, Any] = field(default_factory=dict)
    asked: float | None = None
    more: dict[str, float] = field(default_factory=dict)
    queue_limits: "dict[str, int | None]" = field(default_factory=dict)


class KnobFile:
    """The file in the folder, looked at again and again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / KNOBS
        self._place = str(self.path)
        self._seen: tuple[int, int, int] | None = None

    def news(self, capacity: Capacity, floor: Floor = Floor()) -> "Wanted | BadKnobFile | None":
        """What it says, or why it cannot be followed; None where it has not changed since the last call, or is not
        there."""
        try:
            found = os.stat(self._place)
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._seen == _UNSEEN:
                return None
            self._seen = _UNSEEN
            return BadKnobFile(described(error))
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            return parse(read_knob_file(self.path), capacity, floor)
        except BadKnobFile as error:
            return error
        except OSError as error:
            return BadKnobFile(str(error))


def read_knob_file(path: Path) -> bytes:
    """The file's content. Never waits and never reads much. Raises OSError, `BadKnobFile`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # A pipe in its place must not hold us up.
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise BadKnobFile("no regular file")
        if found.st_size > LARGEST_FILE_BYTES:
            raise BadKnobFile(f"{found.st_size} bytes; at most {LARGEST_FILE_BYTES} are read")
        return os.read(descriptor, LARGEST_FILE_BYTES)
    finally:
        os.close(descriptor)


def parse(content: bytes, capacity: Capacity, floor: Floor = Floor()) -> Wanted:
    """Check and clamp. Raises `BadKnobFile`."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadKnobFile(f"not JSON: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("knobs"), dict):
        raise BadKnobFile('wants {"revision": n, "knobs": {...}}')
    revision = body.get("revision", 0)
    if not _is_int(revision) or revision < 0:
        raise BadKnobFile(f"revision: wants a whole number of at least 0, got {revision!r}")
    knobs: dict[str, int | Schedule] = {}
    clamped: dict[str, Any] = {}
    for name, asked in body["knobs"].items():
        if name not in LIVE:
            raise BadKnobFile(f"{name}: no live knob; there are {', '.join(LIVE)}")
        knobs[name] = value = _clamp(name, _check(name, asked), capacity, floor)
        if value != asked:
            clamped[name] = asked
    return Wanted(
        revision,
        knobs,
        clamped,
        _check_asked(body.get("asked")),
        _check_more(body.get("more", {})),
        _check_queue_limits(body.get("queue_limits", {})),
    )


def draft_lookup(value: int | Schedule, max_num_seqs: int) -> list[int]:
    """Draft length by batch size, entry 0 to max_num_seqs, as vLLM's scheduler looks it up."""
    if isinstance(value, int):
        return [value] * (max_num_seqs + 1)
    lookup = [0] * (max_num_seqs + 1)
    start = 0
    for largest, tokens in value:
        for size in range(start, min(largest, max_num_seqs) + 1):
            lookup[size] = tokens
        start = largest + 1
    return lookup


def schedule_of(lookup: list[int]) -> int | Schedule:
    """The shortest way to write a lookup: a number where all batch sizes have the same length."""
    steps: Schedule = []
    for size, tokens in enumerate(lookup[1:], 1):
        if steps and steps[-1][1] == tokens:
            steps[-1][0] = size
        else:
            steps.append([size, tokens])
    return steps[0][1] if len(steps) == 1 else steps


def _check_more(more: Any) -> dict[str, float]:
    if not isinstance(more, dict):
        raise BadKnobFile("more: wants an object")
    for name, value in more.items():
        if name not in MORE:
            raise BadKnobFile(f"{name}: no live knob; further ones are {', '.join(MORE)}")
        least, below = MORE[name]
        wrong = isinstance(value, bool) or not isinstance(value, int if isinstance(least, int) else int | float)
        if wrong or not least <= value < below:
            kind = "whole number" if isinstance(least, int) else "number"
            raise BadKnobFile(f"{name}: wants a {kind} from {least} to below {below:g}, got {value!r}")
    return more


def _check_queue_limits(limits: Any) -> "dict[str, int | None]":
    if not isinstance(limits, dict):
        raise BadKnobFile("queue_limits: wants an object")
    for name, value in limits.items():
        if name not in QUEUE_LIMITS:
            raise BadKnobFile(f"{name}: no queue limit; there are {', '.join(QUEUE_LIMITS)}")
        if value is not None and (not _is_int(value) or not 0 <= value < 2**63):
            raise BadKnobFile(f"{name}: wants a whole number of at least 0, or null for no limit, got {value!r}")
    return limits


def _check_asked(asked: Any) -> float | None:
    if asked is None:
        return None
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 <= asked < math.inf:
        raise BadKnobFile(f"asked: wants Unix seconds, got {asked!r}")
    return float(asked)


def _check(name: str, value: Any) -> int | Schedule:
    if name == NUM_SPECULATIVE_TOKENS and isinstance(value, list):
        last = 0
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2 or not all(_is_int(one) and one >= 0 for one in pair):
                raise BadKnobFile(f"{name}: wants [[largest batch size, tokens], ...], got {value!r}")
            if pair[0] <= last:
                raise BadKnobFile(f"{name}: batch sizes must rise, got {value!r}")
            last = pair[0]
        if not value:
            raise BadKnobFile(f"{name}: an empty schedule")
        return value
    if not _is_int(value) or value < _LEAST[name]:
        raise BadKnobFile(f"{name}: wants a whole number of at least {_LEAST[name]}, got {value!r}")
    return int(value)


def _clamp(name: str, value: int | Schedule, capacity: Capacity, floor: Floor) -> int | Schedule:
    if name == PREFILL_CHUNK_SIZE:
        return value if value == 0 or isinstance(value, list) else max(value, floor.prefill_chunk_size)
    most: int = getattr(capacity, name)
    if isinstance(value, list):
        return [[size, min(tokens, most)] for size, tokens in value]
    least = floor.max_num_batched_tokens if name == MAX_NUM_BATCHED_TOKENS else 0
    return max(min(value, most), least)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
