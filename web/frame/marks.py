"""What a browser shows of a page, in few words: a mark of each part's markup, as addresses and event ids have it.

Pure. Guarantee: equal markup has equal marks, other markup another (but for 2^-64); what is no mark is passed over.
"""

import hashlib
import re
from collections.abc import Mapping

MARK_BYTES = 8
_WORD = re.compile(rf"([\w-]+)\.([0-9a-f]{{{2 * MARK_BYTES}}})", re.ASCII)


def mark_of(markup: str) -> str:
    return hashlib.blake2b(markup.encode(), digest_size=MARK_BYTES).hexdigest()


def words_of_marks(marks: Mapping[str, str]) -> str:
    """Such as "pools.0123456789abcdef,recent.…", of marks by part."""
    return ",".join(f"{part}.{mark}" for part, mark in marks.items())


def marks_in(words: str) -> dict[str, str]:
    """Marks by part; undoes `words_of_marks`."""
    return {found[1]: found[2] for word in words.split(",") if (found := _WORD.fullmatch(word))}
