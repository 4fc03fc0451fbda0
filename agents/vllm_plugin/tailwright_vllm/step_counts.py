"""How many steps were bound by what, from vLLM's engine process to its server process: by a small file in the folder.

{"run": R, "steps": {LIMIT: number, ...}}: each of `LIMITS` with the steps counted since the engine's run R began.

Guarantee: a step costs an addition in memory; the file is written by a thread, only when something was counted.
"""

import json
import secrets
from pathlib import Path
from typing import Any

from tailwright_vllm.folder import write_atomically
from tailwright_vllm.step_limit import LIMITS
from tailwright_vllm.surprises import surprises

STEPS = "steps.json"
_OF_RANKS = "steps*.json"
_NONE = dict.fromkeys(LIMITS, 0)


class StepCounts:
    """The engine's end: the scheduler's thread counts, another writes."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._path = folder / (STEPS if rank == 0 else f"steps.{rank}.json")
        self._run = secrets.token_hex(8)
        self._steps = dict(_NONE)
        self._written: dict[str, int] = {}

    def count(self, limit: str) -> None:
        self._steps[limit] += 1

    def write(self) -> None:
        """Tell what was counted, if there is more than was told."""
        steps = dict(self._steps)
        if steps == self._written:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps({"run": self._run, "steps": steps}).encode())
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

    def take(self) -> dict[str, int]:
        """Steps by limit, those above zero only. A file that is missing or damaged counts nothing."""
        growth = dict(_NONE)
        for path in self._folder.glob(_OF_RANKS):
            try:
                run, steps = _parsed(json.loads(path.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            run_before, before = self._seen.get(path.name, (run, _NONE))
            self._seen[path.name] = run, steps
            for limit in LIMITS:
                growth[limit] += max(steps[limit] - (before if run_before == run else _NONE)[limit], 0)
        return {limit: steps for limit, steps in growth.items() if steps}


def _parsed(told: Any) -> tuple[str, dict[str, int]]:
    return str(told["run"]), {limit: int(told["steps"].get(limit, 0)) for limit in LIMITS}
