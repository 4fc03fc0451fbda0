"""Reports on disk until they are acknowledged.

Guarantees:
- A report is in its own file, written whole and fsynced, before it is sent; the file goes only after the receiver has
  acknowledged both bodies, has refused it for good, or the spool is full.
- `position` is the event up to which all is spooled or settled. It moves with the rename that creates a report, and
  nothing else, so a restart reads exactly the events that are in no report.
- Who a report is, (stream, ordinal), is never used twice by this process or a later one. A stream is 16 random bytes,
  one process's own; files of earlier ones keep theirs. Ordinals rise by one with each report, across restarts.
- A report whose identity another one has (`renew`) gets one that follows from what it was and says, in one rename. So
  of several copies of it, renewed wherever and however often, all get the same, and it still counts once.
- No report of another node is sent: those of a folder that was another's lie in `foreign/`, whole.
- The files never take more than `limit_bytes` (one report may always be kept): the oldest give way, and the next
  report tells how many. When a report that told of some is lost itself, a later one tells of them again.

The order that keeps this: a report is renamed into place; before the newest one's file goes, `state.json` takes over
its ordinal and position. What a crash, or a power cut, finds at each point:

| the crash comes | the restart finds |
|---|---|
| before the first `state.json` is in place | nothing that was ever sent |
| before a report's rename | a `.tmp` file, which goes; the ordinal was never sent, and is given again |
| after the rename, before sending | the report, to be sent; its position, so that its events are not read again |
| after sending, before or after the receiver stored it | the report: sent again, the same bytes and identity |
| after `state.json` took over, before the file went | the same |
| after the file went, before the folder was fsynced | perhaps the file again: the same, for up to `UNSYNCED` |
| before or after a renewed report's rename | the one or the other: the first is answered as before, and renewed again |

What another copy of the folder finds, beside the one that goes on:

| the folder is | its reports |
|---|---|
| copied, and started as the same node | what waits is sent by both, the same bytes: it counts once; then two streams |
| copied, and started as another node | what waits is set aside, its own node sends it; then a stream of the other |
| put back as it was | what waited then is sent again and is a repeat; then a new stream |
| put back with the process that runs | an ordinal is given twice: the later report is told so, and renewed |

`state.json` names its node and machine, from before the first report, so that it is seen (and told in the log) when
they are others. What is lost with a lost or damaged one is the position, if no file holds one. A folder put back under
an engine that ran on has an older position, and events that were counted are read again.

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
from agents.agent.delivery.spool_state import Owner, SpoolState
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
    """The spool in one folder, which one process owns at a time. Its stream begins with it."""

    def __init__(self, folder: Path, limit_bytes: int, owner: Owner = Owner()) -> None:
        self._folder = folder
        self._refused_folder = folder / "refused"
        self._state_file = folder / "state.json"
        self._limit_bytes = limit_bytes
        self._owner = owner
        self._streams = [secrets.token_bytes(STREAM_BYTES)]
        self._lock = RLock()
        self._untold = 0
        self._unsynced = 0
        self.dropped = 0  # Since this process started.
        self.refused = 0
        self.renewed = 0
        self.foreign = 0
        self._refused_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        self._state = SpoolState.load(self._state_file)
        self._sizes = {int(path.stem): path.stat().st_size for path in sorted(folder.glob(f"*{SUFFIX}"))}
        refused = [int(path.stem) for path in self._refused_folder.glob(f"*{SUFFIX}")]
        self._last_ordinal = max([self._state.ordinal, *self._sizes, *refused])
        self.position = self._recover_position()
        if self._state.owner not in (None, owner):
            log.warning(
                "%s was last of %s and is of %s now: copied, or moved; a new stream begins",
                folder,
                self._state.owner,
                owner,
            )
            if self._state.owner.node != owner.node:
                self._set_foreign_aside()

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
            self._claim()
            stream = self._streams[-1]
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

    def is_own(self, report: SpooledReport) -> bool:
        """Whether this process made it, so that it knows each try to send it."""
        return report.stream in self._streams

    def renew(self, ordinal: int) -> None:
        """Give a report another identity, on disk: it was not counted under its own, which another report has.

        What comes after it gets a new stream. Raises OSError, BodyUnreadable; then it is as it was.
        """
        with self._lock:
            report = self.read(ordinal)
            if report is None:
                return
            parts = spooled_report.encode(spooled_report.renewed(report))
            write_durably(self._path(ordinal), *parts)
            self._sizes[ordinal] = sum(len(part) for part in parts)
            if report.stream == self._streams[-1]:
                self._streams.append(secrets.token_bytes(STREAM_BYTES))
            self.renewed += 1
            log.warning(
                "report %d of stream %s was not counted under its name, and gets another: was this agent's "
                "state copied or restored?",
                ordinal,
                report.stream.hex(),
            )

    def _set_foreign_aside(self) -> None:
        """What waits is of another node, which sends it. Its ordinals and its position are gone on from."""
        self._save(replace(self._state, ordinal=self._last_ordinal, position=self.position))
        folder = self._folder / "foreign"
        folder.mkdir(exist_ok=True, mode=0o700)
        for ordinal in self.waiting():
            self._path(ordinal).rename(folder / self._path(ordinal).name)
            self._sizes.pop(ordinal)
            self.foreign += 1
        if self.foreign:
            log.error("%d reports of %s are set aside in %s", self.foreign, self._state.owner, folder)

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
        self._save(SpoolState(self._state.owner, ordinal, position))

    def _claim(self) -> None:
        """Whose reports these are, on disk before there is one. Raises OSError."""
        if self._state.owner != self._owner:
            self._save(replace(self._state, owner=self._owner))

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
