"""Reports on disk until they are acknowledged.

Guarantees:
- A report is in its own file, written whole and fsynced, before it is sent; the file goes only after the receiver has
  acknowledged both bodies, has refused it for good, or the spool is full.
- `position` is the event up to which all is spooled or settled. It moves with the rename that creates a report, and
  nothing else, so a restart reads exactly the events that are in no report.
- Ordinals rise by one with each report and are never used twice, across restarts too.
- The files never take more than `limit_bytes` (one report may always be kept): the oldest give way, counted.

The order that keeps this: a report is renamed into place; before the newest one's file goes, `state.json` takes over
its ordinal and position. A crash between those two sends a report again, the same bytes, which the receiver recognises.
Methods block on the disk and may be called from several threads.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import RLock

from agents import spooled_report
from agents.backend import Position
from agents.durable_file import TEMPORARY_SUFFIX, write_durably
from agents.spooled_report import SpoolCorrupt, SpooledReport

log = logging.getLogger(__name__)

SUFFIX = ".report"
REFUSED_KEPT = 100
"""Refused reports kept for a person to look at; older ones go."""


class Spool:
    """The spool in one folder, which one process owns at a time."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._refused_folder = folder / "refused"
        self._state_file = folder / "state.json"
        self._limit_bytes = limit_bytes
        self._lock = RLock()
        self.dropped = 0  # Since this process started.
        self.refused = 0
        self._refused_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        self._state_ordinal, self._state_position = self._read_state()
        self._sizes = {int(path.stem): path.stat().st_size for path in sorted(folder.glob(f"*{SUFFIX}"))}
        refused = [int(path.stem) for path in self._refused_folder.glob(f"*{SUFFIX}")]
        self._last_ordinal = max([self._state_ordinal, *self._sizes, *refused])
        self.position = self._recover_position()

    @property
    def depth(self) -> int:
        """Reports not yet settled."""
        return len(self._sizes)

    @property
    def size_bytes(self) -> int:
        return sum(self._sizes.values())

    def append(self, encode: Callable[[int], tuple[bytes, bytes]], position: Position) -> int:
        """Store one report: `encode(ordinal)` gives its two compressed bodies. Returns the ordinal.

        Raises OSError when it cannot be stored; then nothing has changed and the same report may be tried again.
        """
        with self._lock:
            ordinal = self._last_ordinal + 1
            parts = spooled_report.encode(SpooledReport(*encode(ordinal), position))
            size = sum(len(part) for part in parts)
            while self._sizes and self.size_bytes + size > self._limit_bytes:
                self._drop(min(self._sizes), "the spool is full")
            write_durably(self._path(ordinal), *parts)
            self._last_ordinal = ordinal
            self._sizes[ordinal] = size
            self.position = position
            return ordinal

    def waiting(self) -> list[int]:
        """Ordinals of the reports to be sent, oldest first. Does not wait for the disk."""
        return sorted(tuple(self._sizes))

    def read(self, ordinal: int) -> SpooledReport | None:
        """A report, or None when it is gone. A damaged file is set aside, and None too."""
        with self._lock:
            try:
                return spooled_report.decode(self._path(ordinal).read_bytes())
            except FileNotFoundError:
                self._sizes.pop(ordinal, None)
            except SpoolCorrupt as error:
                self.refuse(ordinal, str(error))
            return None

    def acknowledge(self, ordinal: int) -> None:
        """The receiver has both bodies: the file may go."""
        with self._lock:
            self._settle(ordinal)
            self._path(ordinal).unlink(missing_ok=True)

    def refuse(self, ordinal: int, reason: str) -> None:
        """Set a report aside in `refused/`, with the reason beside it: it will not be sent again."""
        with self._lock:
            log.error("report %d was refused and is set aside in %s: %s", ordinal, self._refused_folder, reason)
            self._settle(ordinal)
            self.refused += 1
            path = self._path(ordinal)
            if path.exists():
                path.rename(self._refused_folder / path.name)
            (self._refused_folder / f"{path.stem}.reason").write_text(reason + "\n", encoding="utf-8")
            for old in sorted(self._refused_folder.glob(f"*{SUFFIX}"))[:-REFUSED_KEPT]:
                old.unlink()
                old.with_suffix(".reason").unlink(missing_ok=True)

    def _drop(self, ordinal: int, reason: str) -> None:
        log.error("report %d is dropped unsent: %s", ordinal, reason)
        self.acknowledge(ordinal)
        self.dropped += 1

    def _settle(self, ordinal: int) -> None:
        """Let the state file take over what only this report's file said, before that file goes."""
        self._sizes.pop(ordinal, None)
        if ordinal <= max(self._sizes, default=self._state_ordinal):
            return  # A newer file says it; and so a full disk can be emptied without writing to it.
        try:
            position = spooled_report.decode(self._path(ordinal).read_bytes()).position
        except (OSError, SpoolCorrupt):
            return
        state = {"ordinal": ordinal, "boot": position.boot, "seq": position.seq}
        write_durably(self._state_file, json.dumps(state).encode())
        self._state_ordinal, self._state_position = ordinal, position

    def _read_state(self) -> tuple[int, Position | None]:
        try:
            state = json.loads(self._state_file.read_bytes())
            return int(state["ordinal"]), Position(str(state["boot"]), int(state["seq"]))
        except FileNotFoundError:
            return 0, None
        except (ValueError, KeyError, TypeError) as error:
            log.error("%s is damaged, going on without it: %s", self._state_file, error)
            return 0, None

    def _recover_position(self) -> Position | None:
        for ordinal in reversed(self.waiting()):
            if ordinal < self._state_ordinal:
                break
            report = self.read(ordinal)
            if report is not None:
                return report.position
        return self._state_position

    def _path(self, ordinal: int) -> Path:
        return self._folder / f"{ordinal:012d}{SUFFIX}"
