"""How many steps were bound by what, from vLLM's engine process to its server process: by a small file in the folder.

{"run": R, "steps": {LIMIT: number, ...}, "seconds": [[SECOND, {LIMIT: number, ...}], ...]}: each of `LIMITS` with the
steps counted since the engine's run R began, and the newest of them by the second (Unix) that they were counted in:
the file is written about once a second, and who reads it counts steps in windows of few seconds.

Guarantee: a step costs additions in memory and a look at the clock; the file is written by a thread, only when
something was counted.
"""

import json
import secrets
import time
from collections import deque
from pathlib import Path
from typing import Any

from tailwright_vllm.folder import write_atomically
from tailwright_vllm.step_limit import LIMITS
from tailwright_vllm.surprises import surprises

STEPS = "steps.json"
_OF_RANKS = "steps*.json"
_NONE = dict.fromkeys(LIMITS, 0)
_SECONDS_KEPT = 16


class StepCounts:
    """The engine's end: the scheduler's thread counts, another writes."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._path = folder / (STEPS if rank == 0 else f"steps.{rank}.json")
        self._run = secrets.token_hex(8)
        self._steps = dict(_NONE)
        self._second, self._of_second = -1, dict[str, int]()
        self._seconds: deque[tuple[int, dict[str, int]]] = deque(maxlen=_SECONDS_KEPT)
        self._written: dict[str, int] = {}

    def count(self, limit: str) -> None:
        second = int(time.time())
        if second != self._second:
            self._second, self._of_second = second, dict(_NONE)
            self._seconds.append((second, self._of_second))
        self._of_second[limit] += 1
        self._steps[limit] += 1

    def write(self) -> None:
        """Tell what was counted, if there is more than was told."""
        steps = dict(self._steps)
        if steps == self._written:
            return
        seconds = [
            (second, {limit: count for limit, count in counts.items() if count})
            for second, counts in tuple(self._seconds)
        ]
        told = {"run": self._run, "steps": steps, "seconds": seconds}
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(told).encode())
        except OSError as error:
            surprises.note(self._path.name, f"{self._path} cannot be written", error)
        else:
            self._written = steps


class StepGrowth:
    """The server's end: what all engines of the folder counted since the last look.

    What a file holds when this begins was counted before and is not told; a run that begins later is, from its start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[str, dict[str, int]]] = {}  # By file: the run, and its counts.
        self.take()

    def take(self) -> dict[int, dict[str, int]]:
        """By second, in their order: steps by limit, those above zero only. A file that is missing or damaged counts
        nothing; what was counted before the seconds that it tells goes with the first of them."""
        growth: dict[int, dict[str, int]] = {}
        for path in self._folder.glob(_OF_RANKS):
            try:
                run, steps, seconds = _parsed(json.loads(path.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            run_before, before = self._seen.get(path.name, (run, _NONE))
            self._seen[path.name] = run, steps
            for limit in LIMITS:
                grown = max(steps[limit] - (before if run_before == run else _NONE)[limit], 0)
                for second, counted in _by_second(grown, limit, seconds):
                    found = growth.setdefault(second, {})
                    found[limit] = found.get(limit, 0) + counted
        return dict(sorted(growth.items()))


_Seconds = list[tuple[int, dict[str, int]]]


def _by_second(grown: int, limit: str, seconds: _Seconds) -> list[tuple[int, int]]:
    """The newest `grown` steps of this limit: in which seconds they were counted, and how many in each."""
    found = []
    for second, counts in reversed(seconds[1:]):
        counted = min(grown, counts[limit])
        if counted:
            found.append((second, counted))
            grown -= counted
    return [*found, (seconds[0][0], grown)] if grown else found


def _parsed(told: Any) -> tuple[str, dict[str, int], _Seconds]:
    first, *others = [(int(second), _counts(counts)) for second, counts in told["seconds"]]
    return str(told["run"]), _counts(told["steps"]), [first, *others]


def _counts(told: Any) -> dict[str, int]:
    return {limit: int(told.get(limit, 0)) for limit in LIMITS}
