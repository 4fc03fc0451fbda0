"""What of the palette's entries fits what was typed, the best first.

Pure. Guarantee: each entry found holds every word that was typed, in any case; at most `MOST` are found.
"""

from collections.abc import Iterable
from dataclasses import dataclass

MOST = 20


@dataclass(frozen=True)
class Entry:
    """`kind`: what it is, in a word. `address`: where it leads; `action`: what of the page's own it does instead."""

    kind: str
    name: str
    address: str = ""
    action: str = ""
    detail: str = ""


def matching(entries: Iterable[Entry], typed: str) -> list[Entry]:
    """The `MOST` that fit best; of those that fit alike, the ones that come first."""
    words = typed.casefold().split()
    found = [entry for entry in entries if all(word in _text(entry) for word in words)]
    return sorted(found, key=lambda entry: _distance(entry, words))[:MOST]


def _text(entry: Entry) -> str:
    return f"{entry.name} {entry.kind} {entry.detail}".casefold()


def _distance(entry: Entry, words: list[str]) -> int:
    """0: the name begins with what was typed; 1: its words do; 2: it is in the name; 3: beside the name."""
    name = entry.name.casefold()
    if name.startswith(" ".join(words)):
        return 0
    if all(any(part.startswith(word) for part in name.split()) for word in words):
        return 1
    return 2 if all(word in name for word in words) else 3
