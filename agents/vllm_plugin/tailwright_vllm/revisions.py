"""Which configuration revision was in force when: read from effective.json, which the engine's process writes.

Guarantee: an event gets the revision in force at its own time, whenever it is handed on. Before the first known change
that is the earliest revision known; 0 when no limits were ever given.
"""

import json
import os
from bisect import bisect_right
from pathlib import Path
from typing import Any


class Revisions:
    """Reads the file again only when it has changed."""

    def __init__(self, effective: Path) -> None:
        self._path = str(effective)
        self._seen: tuple[int, int, int] | None = None
        self._since: list[float] = []
        self._revision: list[int] = []

    def look(self) -> None:
        """Take up what the file says now; a file that is missing or damaged leaves what was known."""
        try:
            found = os.stat(self._path)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
            with open(self._path, "rb") as file:
                history = _history(json.loads(file.read()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        self._since = [since for since, _ in history]
        self._revision = [revision for _, revision in history]

    def at(self, time: float) -> int:
        """The revision in force then (Unix seconds)."""
        if not self._revision:
            return 0
        return self._revision[max(bisect_right(self._since, time) - 1, 0)]


def _history(told: Any) -> list[tuple[float, int]]:
    given = told.get("history") or [(0.0, told["revision"])]
    return sorted((float(since), int(revision)) for since, revision in given)
