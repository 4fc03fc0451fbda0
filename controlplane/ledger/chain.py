"""The chain of the ledger: each row's hash is of the row and of the hash before it. Pure.

Guarantee: who knows the newest hash knows whether any row was changed, removed, added between or put elsewhere.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.contract.knobs import canonical_json
from controlplane.db.marked_hash import marked, matches


@dataclass(frozen=True)
class Head:
    """The newest row's number and hash."""

    id: int
    hash: str


START = Head(0, "0" * 64)
"""Before the first row."""


@dataclass(frozen=True)
class Content:
    """What a row says, without its number and its hash. evidence: of JSON's own types (`plain`)."""

    time: datetime
    actor: str
    kind: str
    subject: str
    message: str
    evidence: dict[str, Any]


@dataclass(frozen=True)
class Link:
    """A row as it is stored."""

    id: int
    content: Content
    hash: str


@dataclass(frozen=True)
class Wrong:
    """The first row that is not as it was written. `what`: of which kind, in words."""

    id: int
    what: str

    def __str__(self) -> str:
        return f"ledger entry {self.id} {self.what}"


def plain(evidence: dict[str, Any]) -> dict[str, Any]:
    """Evidence as the database gives it back: of JSON's own types only."""
    found: dict[str, Any] = json.loads(json.dumps(evidence))
    return found


def digest(before: Head, content: Content) -> str:
    """The hash of the row after `before`: of the hash before and the row as canonical JSON."""
    return marked(_hashed(before, content))


def follows(link: Link, before: Head) -> bool:
    """Whether a row's hash is of it and of `before`, by the algorithm that the hash itself names."""
    return matches(_hashed(before, link.content), link.hash)


def _hashed(before: Head, content: Content) -> bytes:
    row = {
        "id": before.id + 1,
        "time": content.time.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": content.actor,
        "kind": content.kind,
        "subject": content.subject,
        "message": content.message,
        "evidence": content.evidence,
    }
    return f"{before.hash}\n{canonical_json(row)}".encode()


def extended(before: Head, content: Content) -> Link:
    """The row that comes after `before`."""
    return Link(before.id + 1, content, digest(before, content))


def first_wrong(links: Iterable[Link], head: Head, known: Collection[Head] = (), start: Head = START) -> Wrong | None:
    """What is wrong first with all rows after `start`, in the order of their numbers.

    `known`: heads that were told earlier; those from before `start` say nothing.
    """
    before, rows, told = start, _with_next(links), set(known)
    of_entry: dict[int, list[Head]] = {}
    for one in told:
        of_entry.setdefault(one.id, []).append(one)

    def contradicted(found: Head) -> bool:
        return any(one != found for one in of_entry.get(found.id, ()))

    if contradicted(start):
        return Wrong(start.id, "or one before it was changed since its hash was told")
    for link, after in rows:
        if link.id != before.id + 1:
            return Wrong(before.id + 1, "is missing") if link.id > before.id else _inserted(link)
        if link.id > head.id:
            return _inserted(link)
        if not follows(link, before):
            shifted = after is not None and follows(after, before)
            return _inserted(link) if shifted else Wrong(link.id, "was changed")
        before = Head(link.id, link.hash)
        if contradicted(before):
            return Wrong(before.id, "or one before it was changed since its hash was told")
    if before.id < head.id:
        return Wrong(before.id + 1, "is missing")
    if before != head:
        return Wrong(before.id, "is not the one that the head names")
    newest = max(of_entry, default=0)
    if newest > before.id:
        return Wrong(before.id + 1, f"is missing: the head that was told earlier is entry {newest}")
    return None


def _inserted(link: Link) -> Wrong:
    return Wrong(link.id, "was inserted")


def _with_next(links: Iterable[Link]) -> Iterator[tuple[Link, Link | None]]:
    rows = iter(links)
    present = next(rows, None)
    while present is not None:
        after = next(rows, None)
        yield present, after
        present = after
