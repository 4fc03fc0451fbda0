"""Which names a server answers to: the defence against a web page whose own name was made to resolve to it.

A browser sends the name that the page has (Host); a name that is not this server's means that somebody else's page is
asking, with the reader's network position (DNS rebinding).
"""

import ipaddress
from collections.abc import Collection, Iterable

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"


def is_loopback(host: str) -> bool:
    """Whether a listening address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def names_of(host: str, given: Iterable[str] = ()) -> frozenset[str]:
    """What a server on `host` answers to: the names given, and on loopback its own; elsewhere, without any, all."""
    names = {name.lower() for name in given}
    if is_loopback(host):
        names |= {*LOOPBACK_NAMES, host.lower()}
    return frozenset(names or {ANY})


def answers_to(host_header: bytes, names: Collection[str]) -> bool:
    """Whether `Host` (RFC 9110, section 7.2) names this server; its port does not matter. HTTP/1.0 may have none."""
    if ANY in names or not host_header:
        return True
    name = host_header.decode("latin-1").lower()
    head, colon, port = name.rpartition(":")
    return (head if colon and port.isdecimal() else name) in names
