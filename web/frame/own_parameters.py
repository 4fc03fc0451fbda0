"""A page's own parameters as its address says them: one of a few words, or a number of seconds.

Pure. What is wrong is refused by the parameter's name; what is not said is the usual.
"""

from collections.abc import Iterable

from controlplane.contract.errors import BadRequest
from web.frame.selection import Selection

MOST_S = 1e9


def one_of(selection: Selection, name: str, offered: Iterable[str], usual: str) -> str:
    """`usual` needs no offer. Raises `BadRequest` that says what is offered."""
    value, words = selection.own.get(name, usual), tuple(offered)
    if value != usual and value not in words:
        raise BadRequest(f"{name}: {value[:40]!r} is none of {', '.join(words)}", field=name)
    return value


def seconds_of(selection: Selection, name: str) -> float | None:
    """None where nothing is said. Raises `BadRequest` for what is no duration."""
    text = selection.own.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise BadRequest(f"{name}: wants a number of seconds", field=name) from None
    if not 0 <= value < MOST_S:
        raise BadRequest(f"{name}: wants a number of seconds, 0 or more", field=name)
    return value
