"""Server-sent events as a client reads them (WHATWG HTML, "Server-sent events", 9.2.6 "Interpreting an event stream").

Guarantee: comments and unknown fields are passed over; an event that the end of the stream cuts off is not handed out.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """`id` is the last that the stream named, "" before the first."""

    kind: str
    data: str
    id: str


def events(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """The events of a stream's lines, without their ends."""
    kind, data, last_id = "", list[str](), ""
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(kind or "message", "\n".join(data), last_id)
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value
