"""Reports on disk until they are acknowledged.

Guarantees:
- A report is in its own file, written whole and fsynced, before it is sent; the file goes only after the receiver has
  acknowledged both bodies, has refused it for good, or the spool is full.
- `position` is the event up to which all is spooled or settled. It moves with the rename that creates a report, and
  nothing else, so a restart reads exactly the events that are in no report.
- Who a report is, (stream, ordinal), is never used twice. A stream is 16 random bytes, durable in `state.json` before
  the first report of it; ordinals rise by one with each report, across restarts and streams.
- The files never take more than `limit_bytes` (one report may always be kept): the oldest give way, and the next
  report tells how many. When a report that told of some is lost itself, a later one tells of them again.

The order that keeps this: a report is renamed into place; before the newest one's file goes, `state.json` takes over
its ordinal and position. What a crash, or a power cut, finds at each point:

| the crash comes | the restart finds |
|---|---|
| before the first `state.json` is in place | nothing that was ever sent: a new stream |
| before a report's rename | a `.tmp` file, which goes; the ordinal was never sent and is given again |
| after the rename, before sending | the report, to be sent; its position, so that its events are not read again |
| after sending, before or after the receiver stored it | the report: sent again, the same bytes and identity |
| after `state.json` took over, before the file went | the same |
| after the file went, before the folder was fsynced | perhaps the file again: the same, for up to `UNSYNCED` |

A `state.json` that is lost or damaged takes the stream with it: the last ordinal is not known any more, and one that
was used before would be taken for a repeat and its report thrown away. So a new stream begins; files of the old one
keep the identity that is written in them. What is lost with it is the position, if no file holds one.

The receiver may change under a report whose answer was lost. It is sent again in whatever form the receiver takes by
then, packed or OTLP, under the same identity, and its OTLP form has the same points: a version that knows identities
finds the one, a version that does not the other.

Methods block on the disk and may be called from several threads.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock

from agents.agent.delivery import spooled_report
from agents.agent.delivery.spool_state import SpoolState
from agents.agent.delivery.spooled_report import SpoolCorrupt, SpooledReport
from agents.agent.reports.body import Body
from agents.backends.base import Position
from agents.host.durable_file import TEMPORARY_SUFFIX, sync_folder, write_durably
from controlplane.contract.reports.packed_report import STREAM_BYTES

log = logging.getLogger(__name__)

SUFFIX = ".report"
REFUSED_KEPT = 100
"""Refused reports kept for a person to look at; older ones go."""
UNSYNCED = 256
"""Files removed between two fsyncs of the folder, at most: what a power cut brings back must be near enough to the
newest report for the receiver to recognise it."""


@dataclass(frozen=True)
class Slot:
    """Who a report will be, and how many lost ones it has to tell of."""

    stream: bytes
    ordinal: int
    dropped: int


class Spool:
    """The spool in one folder, which one process owns at a time."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._refused_folder = folder / "refused"
        self._state_file = folder / "state.json"
        self._limit_bytes = limit_bytes
        self._lock = RLock()
        self._untold = 0
        self._unsynced = 0
        self.dropped = 0  # Since this process started.
        self.refused = 0
        self._refused_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        self._state = SpoolState.load(self._state_file)
        self._sizes = {int(path.stem): path.stat().st_size for path in sorted(folder.glob(f"*{SUFFIX}"))}
        refused = [int(path.stem) for path in self._refused_folder.glob(f"*{SUFFIX}")]
        self._last_ordinal = max([self._state.ordinal, *self._sizes, *refused])
        self.position = self._recover_position()

    @property
    def depth(self) -> int:
        """Reports not yet settled."""
        return len(self._sizes)

    @property
    def size_bytes(self) -> int:
        return sum(self._sizes.values())

    def append(self, encode: Callable[[Slot], tuple[Body, Body | None]], position: Position) -> int:
        """Store one report: `encode(slot)` gives its metrics and traces. Returns the ordinal.

        Raises OSError when it cannot be stored; then nothing has changed and the same report may be tried again.
        """
        with self._lock:
            stream = self._durable_stream()
            ordinal = self._last_ordinal + 1
            while True:
                slot = Slot(stream, ordinal, self._untold)
                parts = spooled_report.encode(SpooledReport(*encode(slot), position, stream, ordinal, slot.dropped))
                size = sum(len(part) for part in parts)
                if not self._make_room(size):
                    break
            write_durably(self._path(ordinal), *parts)
            self._untold -= slot.dropped
            self._unsynced = 0
            self._last_ordinal = ordinal
            self._sizes[ordinal] = size
            self.position = position
            return ordinal

    def note_lost(self, count: int) -> None:
        """So many reports were lost before they came here: the next one tells of them."""
        with self._lock:
            self.dropped += count
            self._untold += count

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
            self._unsynced += 1
            if self._unsynced >= UNSYNCED:
                sync_folder(self._folder)
                self._unsynced = 0

    def refuse(self, ordinal: int, reason: str) -> None:
        """Set a report aside in `refused/`, with the reason beside it: it will not be sent again."""
        with self._lock:
            log.error("report %d was refused and is set aside in %s: %s", ordinal, self._refused_folder, reason)
            self._untold += self._told_in(ordinal)
            self._settle(ordinal)
            self.refused += 1
            path = self._path(ordinal)
            if path.exists():
                path.rename(self._refused_folder / path.name)
            (self._refused_folder / f"{path.stem}.reason").write_text(reason + "\n", encoding="utf-8")
            for old in sorted(self._refused_folder.glob(f"*{SUFFIX}"))[:-REFUSED_KEPT]:
                old.unlink()
                old.with_suffix(".reason").unlink(missing_ok=True)

    def _make_room(self, size: int) -> bool:
        """Drop the oldest until so many bytes fit. False when nothing had to go."""
        before = self.dropped
        while self._sizes and self.size_bytes + size > self._limit_bytes:
            oldest = min(self._sizes)
            log.error("report %d is dropped unsent: the spool is full", oldest)
            told = self._told_in(oldest)
            self.acknowledge(oldest)
            self.dropped += 1
            self._untold += 1 + told
        return self.dropped > before

    def _told_in(self, ordinal: int) -> int:
        """How many lost reports a report tells of; 0 where it cannot be read."""
        try:
            return spooled_report.decode(self._path(ordinal).read_bytes()).dropped
        except (OSError, SpoolCorrupt):
            return 0

    def _settle(self, ordinal: int) -> None:
        """Let the state file take over what only this report's file said, before that file goes."""
        self._sizes.pop(ordinal, None)
        if ordinal <= max(self._sizes, default=self._state.ordinal):
            return  # A newer file says it; and so a full disk can be emptied without writing to it.
        try:
            position = spooled_report.decode(self._path(ordinal).read_bytes()).position
        except (OSError, SpoolCorrupt):
            return
        self._save(SpoolState(self._state.stream, ordinal, position))

    def _durable_stream(self) -> bytes:
        """The stream of new reports, on disk before it is used. Raises OSError."""
        if not self._state.stream:
            self._save(replace(self._state, stream=secrets.token_bytes(STREAM_BYTES)))
        return self._state.stream

    def _save(self, state: SpoolState) -> None:
        state.save(self._state_file)
        self._state = state
        self._unsynced = 0

    def _recover_position(self) -> Position | None:
        for ordinal in reversed(self.waiting()):
            if ordinal < self._state.ordinal:
                break
            report = self.read(ordinal)
            if report is not None:
                return report.position
        return self._state.position

    def _path(self, ordinal: int) -> Path:
        return self._folder / f"{ordinal:012d}{SUFFIX}"
