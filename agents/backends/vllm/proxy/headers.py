"""Which headers pass, and which belong to one connection alone (RFC 9110, section 7.6.1). Pure."""

from collections.abc import Mapping
from typing import Final

from multidict import CIMultiDict, MultiMapping

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
FORWARDED_FOR: Final = "X-Forwarded-For"
# The client's library puts the length of what it sends; the proxy itself has answered an expectation.
REWRITTEN: Final = HOP_BY_HOP | {"content-length", "expect", FORWARDED_FOR.lower()}


def onward(headers: MultiMapping[str], peer: str | None) -> CIMultiDict[str]:
    """The headers of a request for the server. Host stays the client's; `peer` is added to X-Forwarded-For."""
    passed = _without(headers, REWRITTEN)
    chain = [*headers.getall(FORWARDED_FOR, []), *([peer] if peer else [])]
    if chain:
        passed[FORWARDED_FOR] = ", ".join(chain)
    return passed


def back(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """The headers of an answer for the client, repeated ones too. Date and Server stay the server's."""
    return _without(headers, HOP_BY_HOP)


def _without(headers: MultiMapping[str], dropped: frozenset[str]) -> CIMultiDict[str]:
    named = headers.getall("Connection", None) if "Connection" in headers else None
    if named:
        dropped = dropped | {name.strip().lower() for line in named for name in line.split(",")}
    items: Mapping[str, str] = headers
    return CIMultiDict((name, value) for name, value in items.items() if name.lower() not in dropped)
