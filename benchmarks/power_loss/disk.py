"""The state of a disk after a power cut, from a log of what was done to its files.

What is promised (POSIX, and no more): a write is on the disk once an fsync of its file that began after it has
returned; a file's creation, renaming or removal once an fsync of its folder has. Of everything later a disk holds any
part. `Cut` names three ways to choose it. Names in one folder change in order, as in a file system with a journal.
"""

import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path

_HEAD = struct.Struct("<cQQqQ")
SECTOR = 512


class Cut(Enum):
    """What of the writes that no fsync covers is on the disk all the same."""

    NOTHING = "nothing"  # None of them.
    TORN = "torn"  # The first few in order, the last of these in part.
    SECTORS = "sectors"  # Any sectors of any of them.


@dataclass(frozen=True)
class Record:
    """One operation. kind, number, file, offset and data as recorder.c has them."""

    kind: str
    number: int
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Loss:
    """How many operations there were that nothing promised to keep, and how many of them the cut took."""

    uncovered: int
    taken: int


def read_log(log: Path) -> list[Record]:
    """All whole records; the last one may be cut off by the kill."""
    content, at, found = log.read_bytes(), 0, []
    while at + _HEAD.size <= len(content):
        kind, number, file, offset, length = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + length
        if end > len(content):
            break
        found.append(Record(kind.decode(), number, file, offset, content[at + _HEAD.size : end]))
        at = end
    return found


def after_power_loss(disk: Path, folder: Path, records: Sequence[Record], chosen: random.Random, how: Cut) -> Loss:
    """Bring `disk`, which holds what was safe before the first record, to the state after the cut.

    folder: the path that the records name; `disk` stands for it.
    """
    state = _Disk(disk, folder)
    covered = _covered(records)
    contents = [record for record in records if record.kind in "WT"]
    names = [record for record in records if record.kind in "ORU"]
    open_writes = [record for record in contents if record.number > covered.get(record.file, 0)]
    kept = _kept(open_writes, chosen, how)
    by_number = {record.number: record for record in (*records,)}
    safe_names = _safe_names(names, records)
    open_names = [record for record in names if record.number not in safe_names and _changes_names(record, state)]
    last_name = chosen.randint(0, len(open_names)) if how is not Cut.NOTHING else 0
    lost_names = {record.number for record in open_names[last_name:]}
    for number in sorted(by_number):
        record = by_number[number]
        if record.kind in "ORU":
            state.rename(record, kept=number not in lost_names)
        elif record.kind in "WT":
            uncovered = number > covered.get(record.file, 0)
            for piece in kept.get(number, []) if uncovered else [record]:
                state.write(piece)
    state.save()
    whole = sum(kept.get(record.number) == [record] for record in open_writes)
    return Loss(len(open_writes) + len(open_names), len(open_writes) - whole + len(lost_names))


def _covered(records: Iterable[Record]) -> dict[int, int]:
    """By file, the last record number that an fsync promised."""
    found: dict[int, int] = {}
    for record in records:
        if record.kind == "S":
            found[record.file] = max(found.get(record.file, 0), record.offset)
    return found


def _kept(writes: Sequence[Record], chosen: random.Random, how: Cut) -> dict[int, list[Record]]:
    """By number, the pieces of each uncovered write that the disk holds."""
    if how is Cut.NOTHING or not writes:
        return {}
    if how is Cut.SECTORS:
        return {write.number: [piece for piece in _sectors(write) if chosen.random() < 0.5] for write in writes}
    last = chosen.randrange(len(writes) + 1)
    kept = {write.number: [write] for write in writes[:last]}
    if last < len(writes) and writes[last].kind == "W":
        torn = writes[last]
        part = torn.data[: chosen.randrange(len(torn.data) + 1)]
        kept[torn.number] = [Record("W", torn.number, torn.file, torn.offset, part)]
    return kept


def _sectors(write: Record) -> list[Record]:
    if write.kind != "W":
        return [write]
    edges = [write.offset]
    while edges[-1] < write.offset + len(write.data):
        edges.append(min((edges[-1] // SECTOR + 1) * SECTOR, write.offset + len(write.data)))
    return [
        Record("W", write.number, write.file, first, write.data[first - write.offset : last - write.offset])
        for first, last in pairwise(edges)
    ]


def _safe_names(names: Sequence[Record], records: Sequence[Record]) -> set[int]:
    """Numbers of the changes of names that an fsync of the folder covers."""
    covered: dict[str, int] = {}
    for record in records:
        if record.kind == "D":
            covered[record.data.decode()] = max(covered.get(record.data.decode(), 0), record.offset)
    return {
        record.number
        for record in names
        if all(record.number <= covered.get(str(path.parent), 0) for path in _paths(record))
    }


def _paths(record: Record) -> list[Path]:
    return [Path(part) for part in record.data.decode().split("\0")]


def _changes_names(record: Record, state: "_Disk") -> bool:
    """Opening a file that was there before makes no name."""
    return record.kind != "O" or not state.had(_paths(record)[0])


class _Disk:
    """Names and contents, as replayed. What is not touched stays as it lies in `disk`."""

    def __init__(self, disk: Path, folder: Path) -> None:
        self._root, self._folder = disk, folder
        self._before = {path for path in disk.rglob("*") if path.is_file()}
        self._content: dict[int, bytearray] = {}
        self._names: dict[Path, int | None] = dict.fromkeys(self._before)  # None: not opened yet.
        self._live: dict[Path, int] = {}  # As the process saw the names, whatever the disk holds.
        self._unlinked: set[Path] = set()  # By the process: a file that is opened there now is a new one.
        self._set_aside = 0

    def had(self, path: Path) -> bool:
        return self._at(path) in self._before

    def rename(self, record: Record, *, kept: bool) -> None:
        """Carry out an O, R or U record. One that is not kept changes what the process sees, not the disk."""
        paths = [self._at(path) for path in _paths(record)]
        if record.kind == "O":
            self._open(paths[0], record.file, kept)
        elif record.kind == "U":
            self._live.pop(paths[0], None)
            self._unlinked.add(paths[0])
            if kept:
                self._names.pop(paths[0], None)
        else:
            old, new = paths
            if old in self._live:
                self._live[new] = self._live.pop(old)
            self._unlinked.add(old)
            if kept and old in self._names:
                if self._names[old] is None:
                    self._names[old] = self._keep_apart(bytearray(old.read_bytes()))
                self._names[new] = self._names.pop(old)

    def _open(self, path: Path, file: int, kept: bool) -> None:
        if self._live.get(path) == file:
            return
        untouched = path in self._names and self._names[path] is None and path not in self._live
        if untouched and path not in self._unlinked:
            # The first look at a file that was there before the log began.
            self._content[file] = bytearray(path.read_bytes())
            self._names[path] = file
        elif file not in self._live.values():
            # The number of a file that is gone may be given to a new one while the disk still has the old.
            for other, number in self._names.items():
                if number == file:
                    self._names[other] = self._keep_apart(self._content[file])
            self._content[file] = bytearray()
            if kept:
                self._names[path] = file
        self._live[path] = file

    def _keep_apart(self, content: bytearray) -> int:
        """A number of our own, below those of files, for content that no record is about any more."""
        self._set_aside -= 1
        self._content[self._set_aside] = content
        return self._set_aside

    def write(self, record: Record) -> None:
        content = self._content[record.file]
        if record.kind == "T":
            del content[record.offset :]
            content.extend(bytes(record.offset - len(content)))
            return
        end = record.offset + len(record.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[record.offset : end] = record.data

    def save(self) -> None:
        for path in self._before - set(self._names):
            path.unlink()
        for path, file in self._names.items():
            if file is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._content[file])

    def _at(self, path: Path) -> Path:
        return self._root / path.relative_to(self._folder)
