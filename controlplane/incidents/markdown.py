"""Markdown of what people or engines wrote. Pure.

Guarantee: it is text: it can make neither markup nor a further row of a table.
"""

import re
from collections.abc import Iterable, Iterator

_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&])")


def plain(text: str) -> str:
    """Text in one line, without markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Its lines; cells are Markdown already."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
